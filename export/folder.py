"""The exported folder: the graphs, the tables of their inputs and outputs, a README, and programs that run them.

The programs are those of examples/ and the modules of this project that they import: for tokenising text, for one.
"""

import importlib.util
import json
import platform
import re
from collections.abc import Sequence
from pathlib import Path

from elmo_core.checks import import_optional
from elmo_core.files import disk
from elmo_core.machine.runtime import paddle
from export.networks import Network
from export.paddle_graph import paddle_graph

EXAMPLES = Path(__file__).parent / "examples"
RUNS_ON = {"model.json": "Paddle 3.0 to 3.3", "model.pdmodel": "Paddle 2.6 to 3.3"}  # graphs of Paddle Inference
OUTPUT = {"model.json": "fetch_name_0", "model.pdmodel": "save_infer_model/scale_0.tmp_0"}  # its name for the output
IMPORT = re.compile(r"^from (elmo_(?:core|tasks)(?:\.\w+)*)\.(\w+) import", re.MULTILINE)


def write(network: Network, folder: Path, source: str, onnx: bool = False) -> None:
    """Write the exported folder. source: the model's name, for the README. onnx: also write model.onnx."""
    writers = [(paddle_graph, "model")]
    versions = f"paddlepaddle {paddle.__version__}, Python {platform.python_version()}"
    if onnx:
        import_optional("onnx", "--onnx")
        from export.onnx_graph import VERSIONS, onnx_graph

        writers.append((onnx_graph, "model.onnx"))
        versions = f"{versions}, {VERSIONS}"
    with disk.atomic_folder(folder) as unfinished:
        for writer, name in writers:
            with writer(unfinished / name) as ops:
                network.add_to(ops)
        predict = f"predict_{network.settings['task']}.py"
        (graph,) = (name for name in RUNS_ON if (unfinished / name).exists())
        texts = {ids.table: ids.content for ids in network.inputs.values() if ids.table} | network.files
        if network.output.labels:
            texts["labels.txt"] = "\n".join(network.output.labels) + "\n"
        specs = {name: ids.spec() for name, ids in network.inputs.items()}
        texts["inputs.json"] = json.dumps({"inputs": specs, "settings": network.settings}, indent=1) + "\n"
        texts["README.md"] = _readme(network, source, versions, graph, onnx)
        texts |= _programs(["model_io.py", "run_paddle.py", *(["run_onnx.py"] if onnx else []), predict])
        texts["predict.py"] = texts.pop(predict)
        for name, text in texts.items():
            (unfinished / name).write_text(text, encoding="utf-8", newline="\n")


def _programs(names: Sequence[str]) -> dict[str, str]:
    """The sources of programs in EXAMPLES and of the modules that they import from this project, as one flat folder."""
    files, pending = {}, [EXAMPLES / name for name in names]
    while pending:
        path = pending.pop()
        source = path.read_text(encoding="utf-8")
        modules = [importlib.util.find_spec(f"{package}.{name}") for package, name in IMPORT.findall(source)]
        pending += [Path(module.origin) for module in modules]
        files[path.name] = IMPORT.sub(r"from \2 import", source)
    return files


def _readme(network: Network, source: str, versions: str, graph: str, onnx: bool) -> str:
    rows = [f"| `{name}` | int64 | {_shape(ids.shape)} | {ids.meaning} |" for name, ids in network.inputs.items()]
    if "word_index" in network.inputs:
        rows.append("| `word_lengths` | int64 | (B,) | number of jieba's words of each sentence |")
    output = network.output
    onnx_command = "python run_onnx.py < lines.txt\n" if onnx else ""
    return f"""# {source}

Exported by export_model.py with {versions}. `{graph}` runs on {RUNS_ON[graph]}.

| input | type | shape | |
|---|---|---|---|
{chr(10).join(rows)}
| `lengths` | int64 | (B,) | number of tokens of each sentence |

| output | type | shape | |
|---|---|---|---|
| `{output.name}` | {output.dtype} | {_shape(output.shape)} | {output.meaning} |

Sizes given as letters may differ from call to call: {network.letters}. Padding does not
matter. Paddle Inference calls the only output `{OUTPUT[graph]}`.

```
python run_paddle.py < lines.txt
{onnx_command}```

Each line is {network.lines}. With `--tokens` texts are tokens, separated by white space; with `--json` the
program prints a JSON object per line. It needs NumPy{network.needs} and the runtime.

`predict.py` gives the answers to a list of lines, `model_io.py` the input arrays of tokens. `inputs.json` says the same to
other programs: the settings of the trained model and, per input, its shape, the padding, the table whose line numbers (from
0) are the words' ids, and the id of unknown words.

B and T are at least 1. Ids must be in their tables and lengths at most T: the graph does not check them.
"""


def _shape(dims: tuple[int | str, ...]) -> str:
    return f"({', '.join(map(str, dims))}{',' * (len(dims) == 1)})"
