"""The folder that an export writes: the graphs, the tables of inputs and outputs, a README, and examples that run it."""

import json
import platform
import shutil
from pathlib import Path

from elmo_core.machine import disk
from elmo_core.machine.messages import UserError
from elmo_core.machine.runtime import paddle
from export.networks import Network
from export.paddle_graph import paddle_graph

EXAMPLES = Path(__file__).parent / "examples"
RUN_BY = {"model.json": "Paddle 3.0 to 3.3", "model.pdmodel": "Paddle 2.6 to 3.3"}  # graphs of Paddle Inference


def write(network: Network, folder: Path, source: str, onnx: bool = False) -> None:
    """source: what was exported, for the README. onnx: also model.onnx, for which the package onnx is needed."""
    graphs = [(paddle_graph, "model")]
    versions = f"paddlepaddle {paddle.__version__}, Python {platform.python_version()}"
    if onnx:
        try:
            from export.onnx_graph import VERSIONS, onnx_graph
        except ImportError as error:
            raise UserError("--onnx needs the package onnx, which is not here: pip install onnx.") from error
        graphs.append((onnx_graph, "model.onnx"))
        versions = f"{versions}, {VERSIONS}"
    with disk.atomic_folder(folder) as unfinished:
        for graph, name in graphs:
            with graph(unfinished / name) as ops:
                network.add_to(ops)
        (written,) = (name for name in RUN_BY if (unfinished / name).exists())
        texts = {ids.table: ids.content for ids in network.inputs.values() if ids.table}
        if network.output.labels:
            texts["labels.txt"] = "\n".join(network.output.labels) + "\n"
        specs = {name: ids.spec() for name, ids in network.inputs.items()}
        texts["inputs.json"] = json.dumps(specs, indent=1) + "\n"
        texts["README.md"] = _readme(network, source, versions, written, onnx)
        for name, text in texts.items():
            (unfinished / name).write_text(text, encoding="utf-8", newline="\n")
        for name in ("model_io.py", "run_paddle.py", *(["run_onnx.py"] if onnx else [])):
            shutil.copyfile(EXAMPLES / name, unfinished / name)


def _readme(network: Network, source: str, versions: str, graph: str, onnx: bool) -> str:
    rows = [f"| `{name}` | int64 | {_shape(ids.shape)} | {ids.meaning} |" for name, ids in network.inputs.items()]
    output = network.output
    onnx_command = "python run_onnx.py < sentences.txt\n" if onnx else ""
    return f"""# {source}

Exported by export_model.py with {versions}. `{graph}` runs on {RUN_BY[graph]}.

| input | type | shape | |
|---|---|---|---|
{chr(10).join(rows)}
| `lengths` | int64 | (B,) | tokens of each sentence |

| output | type | shape | |
|---|---|---|---|
| `{output.name}` | {output.dtype} | {_shape(output.shape)} | {output.meaning} |

All sizes that are letters may change from call to call: B sentences, T tokens of the longest. Padding does not matter.
Paddle Inference calls the output `fetch_name_0`; it is the only one.

```
python run_paddle.py < sentences.txt
{onnx_command}```

`model_io.py` shows how tokens become numbers, with NumPy alone. `inputs.json` says the same to a program: of each input the
columns of a token, its padding, the table in which a word's number is its line, counted from 0, and the number of a word
that is not there.

A length beyond T counts as T, one below 0 as 0. A sentence with a number outside its table counts as one without tokens:
{output.name} are then {output.nothing}. An empty batch gives an empty output. Arrays of another type or shape are an error.
"""


def _shape(dims: tuple[int | str, ...]) -> str:
    return f"({', '.join(map(str, dims))}{',' * (len(dims) == 1)})"
