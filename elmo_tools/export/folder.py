"""The exported folder: graphs, tables of their inputs and outputs, a README, and programs.

The programs run the graphs. They are those of examples/ and the modules of this project that they
import: for tokenising text, for one.
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
from elmo_core.weights import cards
from elmo_tools.export.networks import Network
from elmo_tools.export.paddle_graph import paddle_graph

FOLDER = Path(__file__).parent
EXAMPLES = FOLDER / "examples"
README = FOLDER / "readme.md"
IMPORT = re.compile(r"^from (elmo_(?:core|tasks)(?:\.\w+)*)\.(\w+) import", re.MULTILINE)
# At the beginning of a line: an import in a function may not be for these programs.
OTHER_IMPORT = re.compile(r"^(?:from|import) elmo.*", re.MULTILINE)
# Paddle's graph, and the versions of Paddle that read it.
GRAPHS = {"model.json": "3.0 to 3.3", "model.pdmodel": "2.6 to 3.3"}
# Packages that the programs need for a language.
PACKAGES = {"zh": ", jieba", "any": ", regex"}


def write(
    network: Network, folder: Path, source: str, onnx: bool = False, notice: str = ""
) -> None:
    """Write the exported folder.

    source: the model's name, for the README. onnx: also write model.onnx. notice: what goes with
    the weights of the models that are in the graph, see elmo_core/weights/cards.py.
    """
    settings = network.settings
    writers = [(paddle_graph, "model")]
    programs = ["model_io.py", "run_paddle.py"]
    versions = f"paddlepaddle {paddle.__version__}, Python {platform.python_version()}"
    if onnx:
        import_optional("onnx", "--onnx")
        from elmo_tools.export.onnx_graph import VERSIONS, onnx_graph

        writers.append((onnx_graph, "model.onnx"))
        programs.append("run_onnx.py")
        versions = f"{versions}, {VERSIONS}"
    predict = f"predict_{settings['task']}.py"
    texts = _programs([*programs, predict])
    texts["predict.py"] = texts.pop(predict)
    texts.update(network.files)
    description = {"inputs": network.inputs, "outputs": network.outputs, "settings": settings}
    texts["inputs.json"] = json.dumps(description, indent=1) + "\n"
    with disk.atomic_folder(folder) as unfinished:
        for writer, name in writers:
            with writer(unfinished / name) as ops:
                network.add_to(ops)
        texts["README.md"] = _readme(
            network=network,
            source=source,
            versions=versions,
            graph=_graph_in(unfinished),
            has_notice=bool(notice),
        )
        cards.write_notice(unfinished, notice)
        for name, text in texts.items():
            (unfinished / name).write_text(text, encoding="utf-8", newline="\n")


def _graph_in(folder: Path) -> str:
    """Return the name of Paddle's graph, which depends on the version that wrote it."""
    (graph,) = [name for name in GRAPHS if (folder / name).exists()]
    return graph


def _readme(network: Network, source: str, versions: str, graph: str, has_notice: bool) -> str:
    """Return the text of README.md. versions: of the packages that wrote the graphs."""
    settings = network.settings
    # What splits the text into words; the tokens of a tagger of jieba's words are characters.
    language = "zh" if settings.get("unit") == "jieba" else settings["lang"]
    licence = ""
    if has_notice:
        licence = (
            f"`{cards.NOTICE}` says what the model was trained on, and the licence of its weights: "
            "pass it on with them. "
        )
    return README.read_text(encoding="utf-8").format(
        source=source,
        versions=versions,
        lines=network.lines,
        packages=PACKAGES.get(language, ""),
        inputs=_table(network.inputs, ["type", "shape", "meaning"]),
        outputs=_table(network.outputs, ["shape", "meaning"]),
        licence=licence,
        graph=graph,
        reads=GRAPHS[graph],
    )


def _programs(names: Iterable[str]) -> dict[str, str]:
    """Return the sources of programs in EXAMPLES and of the modules that they import, by file name.

    The modules are those of this project. All are for one flat folder.
    """
    files: dict[str, str] = {}
    paths: dict[str, Path] = {}
    pending = [EXAMPLES / name for name in names]
    while pending:
        path = pending.pop()
        earlier = paths.setdefault(path.name, path)
        if earlier != path:
            raise ImportError(f"{path} and {earlier}: one folder cannot hold both")
        source = path.read_text(encoding="utf-8")
        for package, name in IMPORT.findall(source):
            module = importlib.util.find_spec(f"{package}.{name}")
            if module.submodule_search_locations:
                raise ImportError(
                    f"{path} imports from the package {module.name}, expected from a module"
                )
            pending.append(Path(module.origin))
        source = IMPORT.sub(r"from \2 import", source)
        other = OTHER_IMPORT.search(source)
        if other:
            raise ImportError(f"{path}: {other[0]!r}, expected `from MODULE import NAME`")
        files[path.name] = source
    return files


def _table(arrays: Mapping[str, Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Return the rows of a table of inputs or outputs: their names, and these of their entries."""
    rows = []
    for name, spec in arrays.items():
        sizes = ", ".join(str(n) for n in spec["shape"])
        shape = f"({sizes},)" if len(spec["shape"]) == 1 else f"({sizes})"
        cells = [shape if column == "shape" else spec[column] for column in columns]
        rows.append(f"| {' | '.join([f'`{name}`', *cells])} |")
    return "\n".join(rows)
