"""The ways in which programs copy an object, or send it to another process: {name: function of the
object and a folder}.
"""

import copy
import importlib.util
import pickle
from pathlib import Path

import joblib


def dumped(value: object, folder: Path) -> object:
    joblib.dump(value, folder / "value.joblib")
    return joblib.load(folder / "value.joblib")


COPIES = {
    "pickle": lambda value, _: pickle.loads(pickle.dumps(value)),
    "copy": lambda value, _: copy.copy(value),
    "deepcopy": lambda value, _: copy.deepcopy(value),
    "joblib": dumped,
}
for name in ("cloudpickle", "dill"):  # these pickle functions, too; where they are installed
    if importlib.util.find_spec(name):
        module = importlib.import_module(name)
        COPIES[name] = lambda value, _, module=module: module.loads(module.dumps(lambda: value))()
