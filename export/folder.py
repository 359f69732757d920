"""The exported folder: the graphs, the tables of their inputs and outputs, a README, and programs that run them.

The programs are those of examples/ and the modules of this project that they import: for tokenising text, for one.
"""

import importlib.util
import json
import platform
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from elmo_core.checks import import_optional
from elmo_core.files import disk
from elmo_core.machine.runtime import paddle
from export.networks import Network
from export.paddle_graph import paddle_graph

FOLDER = Path(__file__).parent
EXAMPLES, README = FOLDER / "examples", FOLDER / "readme.md"
IMPORT = re.compile(r"^from (elmo_(?:core|tasks)(?:\.\w+)*)\.(\w+) import", re.MULTILINE)
PACKAGES = {"zh": ", jieba", "any": ", regex"}  # of languages


def write(network: Network, folder: Path, source: str, onnx: bool = False) -> None:
    """Write the exported folder. source: the model's name, for the README. onnx: also write model.onnx."""
    writers, programs = [(paddle_graph, "model")], ["model_io.py", "run_paddle.py"]
    versions = f"paddlepaddle {paddle.__version__}, Python {platform.python_version()}"
    if onnx:
        import_optional("onnx", "--onnx")
        from export.onnx_graph import VERSIONS, onnx_graph

        writers.append((onnx_graph, "model.onnx"))
        programs.append("run_onnx.py")
        versions = f"{versions}, {VERSIONS}"
    settings = network.settings
    cut = "zh" if settings.get("unit") == "jieba" else settings["lang"]
    values = {"source": source, "versions": versions, "lines": network.lines, "packages": PACKAGES.get(cut, "")}
    tables = {"inputs": _table(network.inputs), "outputs": _table(network.outputs)}
    description = {"inputs": network.inputs, "outputs": network.outputs, "settings": settings}
    predict = f"predict_{settings['task']}.py"
    texts = {**network.files, **_programs([*programs, predict])}
    texts["predict.py"] = texts.pop(predict)
    texts["inputs.json"] = json.dumps(description, indent=1) + "\n"
    texts["README.md"] = README.read_text(encoding="utf-8").format(**values, **tables)
    with disk.atomic_folder(folder) as unfinished:
        for writer, name in writers:
            with writer(unfinished / name) as ops:
                network.add_to(ops)
        for name, text in texts.items():
            (unfinished / name).write_text(text, encoding="utf-8", newline="\n")


def _programs(names: Iterable[str]) -> dict[str, str]:
    """The sources of programs in EXAMPLES and of the modules that they import from this project, as one flat folder."""
    files, pending = {}, [EXAMPLES / name for name in names]
    while pending:
        path = pending.pop()
        source = path.read_text(encoding="utf-8")
        modules = [importlib.util.find_spec(f"{package}.{name}") for package, name in IMPORT.findall(source)]
        pending += [Path(module.origin) for module in modules]
        files[path.name] = IMPORT.sub(r"from \2 import", source)
    return files


def _table(arrays: Mapping[str, Mapping[str, Any]]) -> str:
    """The rows of a table of inputs or outputs."""
    rows = ((name, ", ".join(map(str, spec["shape"])), spec["meaning"]) for name, spec in arrays.items())
    return "\n".join(f"| `{name}` | ({shape}) | {meaning} |" for name, shape, meaning in rows)
