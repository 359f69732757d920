"""The exported folder: the graphs, the tables of their inputs and outputs, a README, and programs that run them.

The programs are those of examples/ and the modules of this project that they import: for tokenising text, for one.
"""

import importlib.util
import json
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from elmo_core.checks import import_optional
from elmo_core.files import disk
from elmo_core.machine.runtime import paddle
from elmo_tools.export.networks import Network
from elmo_tools.export.paddle_graph import paddle_graph

FOLDER = Path(__file__).parent
EXAMPLES, README = FOLDER / "examples", FOLDER / "readme.md"
IMPORT = re.compile(r"^from (elmo_(?:core|tasks)(?:\.\w+)*)\.(\w+) import", re.MULTILINE)
OTHER_IMPORT = re.compile(
    r"^(?:from|import) elmo.*", re.MULTILINE
)  # one in a function may not be for these programs
GRAPHS = {
    "model.json": "3.0 to 3.3",
    "model.pdmodel": "2.6 to 3.3",
}  # and the versions of Paddle that read them
CARDS = "MODEL_CARD.md"
PACKAGES = {"zh": ", jieba", "any": ", regex"}  # of languages


def write(
    network: Network, folder: Path, source: str, onnx: bool = False, cards: Sequence[Path] = ()
) -> None:
    """Write the exported folder.

    source: the model's name, for the README. onnx: also write model.onnx. cards: the cards of the models that are in the
    graph, with their licences and attributions, as far as these files exist.
    """
    writers, programs = [(paddle_graph, "model")], ["model_io.py", "run_paddle.py"]
    versions = f"paddlepaddle {paddle.__version__}, Python {platform.python_version()}"
    if onnx:
        import_optional("onnx", "--onnx")
        from elmo_tools.export.onnx_graph import VERSIONS, onnx_graph

        writers.append((onnx_graph, "model.onnx"))
        programs.append("run_onnx.py")
        versions = f"{versions}, {VERSIONS}"
    settings = network.settings
    cut = "zh" if settings.get("unit") == "jieba" else settings["lang"]
    values = {
        "source": source,
        "versions": versions,
        "lines": network.lines,
        "packages": PACKAGES.get(cut, ""),
        "inputs": _table(network.inputs),
        "outputs": _table(network.outputs),
        "licence": "",
    }
    description = {"inputs": network.inputs, "outputs": network.outputs, "settings": settings}
    predict = f"predict_{settings['task']}.py"
    texts = {**network.files, **_programs([*programs, predict])}
    texts["predict.py"] = texts.pop(predict)
    texts["inputs.json"] = json.dumps(description, indent=1) + "\n"
    cards = [path.read_text(encoding="utf-8") for path in cards if path.is_file()]
    if cards:
        texts[CARDS] = "\n".join(cards)
        values["licence"] = (
            f"`{CARDS}` says what the model was trained on, and the licence of its weights. "
        )
    with disk.atomic_folder(folder) as unfinished:
        for writer, name in writers:
            with writer(unfinished / name) as ops:
                network.add_to(ops)
        (values["graph"],) = (name for name in GRAPHS if (unfinished / name).exists())
        values["reads"] = GRAPHS[values["graph"]]
        texts["README.md"] = README.read_text(encoding="utf-8").format(**values)
        for name, text in texts.items():
            (unfinished / name).write_text(text, encoding="utf-8", newline="\n")


def _programs(names: Iterable[str]) -> dict[str, str]:
    """The sources of programs in EXAMPLES and of the modules that they import from this project, as one flat folder."""
    files = {}
    paths = {}
    pending = [EXAMPLES / name for name in names]
    while pending:
        path = pending.pop()
        if paths.setdefault(path.name, path) != path:
            raise ImportError(f"{path} and {paths[path.name]}: one folder cannot hold both")
        source = path.read_text(encoding="utf-8")
        for package, name in IMPORT.findall(source):
            module = importlib.util.find_spec(f"{package}.{name}")
            if module.submodule_search_locations:
                raise ImportError(
                    f"{path} imports from the package {module.name}, expected from a module"
                )
            pending.append(Path(module.origin))
        source = IMPORT.sub(r"from \2 import", source)
        if other := OTHER_IMPORT.search(source):
            raise ImportError(f"{path}: {other[0]!r}, expected `from MODULE import NAME`")
        files[path.name] = source
    return files


def _table(arrays: Mapping[str, Mapping[str, Any]]) -> str:
    """The rows of a table of inputs or outputs."""
    rows = (
        (name, ", ".join(map(str, spec["shape"])), spec["meaning"]) for name, spec in arrays.items()
    )
    return "\n".join(f"| `{name}` | ({shape}) | {meaning} |" for name, shape, meaning in rows)
