"""The folder that an export writes: the graph, the tables of its inputs, a README, and examples that run it.

DIR/
  model.json, model.pdiparams   the graph and its weights, for Paddle Inference; before Paddle 3 model.pdmodel
  model.onnx                    the same for ONNX Runtime, if wanted
  inputs.json                   the inputs: columns, padding, table, the number of an unknown word
  words.txt, characters.json    the tables that inputs.json names: line or number k is row k
  labels.txt                    of a tagger or a classifier, the names of its labels
  README.md, *.py               how to use it
"""

import json
import platform
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from elmo_core.machine import disk
from elmo_core.machine.messages import UserError
from elmo_core.machine.runtime import paddle
from export.operators import Operators, Output
from export.paddle_graph import paddle_graph
from export.sentences import Ids

EXAMPLES = Path(__file__).parent / "examples"
RUN_BY = {"model.json": "Paddle 3.0 to 3.3", "model.pdmodel": "Paddle 2.6 to 3.3"}  # graphs of Paddle Inference


class Network(Protocol):
    """inputs: by name, without the lengths. nothing: what a sentence without tokens gets. tables: files beside the graph."""

    inputs: Mapping[str, Ids]
    output: Output
    nothing: str
    tables: Mapping[str, str]

    def build(self, ops: Operators) -> None: ...


def write(network: Network, folder: Path, source: str, onnx: bool = False) -> None:
    """source: what was exported, for the README. onnx: also model.onnx, for which the package onnx is needed."""
    graphs = [(paddle_graph, "model")]
    if onnx:
        try:
            from export.onnx_graph import onnx_graph
        except ImportError as error:
            raise UserError("--onnx needs the package onnx, which is not here: pip install onnx.") from error
        graphs.append((onnx_graph, "model.onnx"))
    with disk.atomic_folder(folder) as unfinished:
        for graph, name in graphs:
            with graph(unfinished / name) as ops:
                network.build(ops)
        (written,) = (name for name in RUN_BY if (unfinished / name).exists())
        readme = _readme(network, source, written, onnx)
        texts = {"inputs.json": _inputs(network), "README.md": readme, **network.tables}
        for name, text in texts.items():
            (unfinished / name).write_text(text, encoding="utf-8", newline="\n")
        for name in ("model_io.py", "run_paddle.py", *(["run_onnx.py"] if onnx else [])):
            shutil.copyfile(EXAMPLES / name, unfinished / name)


def _inputs(network: Network) -> str:
    return json.dumps({name: ids.spec() for name, ids in network.inputs.items()}, indent=1) + "\n"


def _readme(network: Network, source: str, graph: str, onnx: bool) -> str:
    rows = [f"| `{name}` | int64 | {_shape(ids.shape)} | {ids.meaning} |" for name, ids in network.inputs.items()]
    output = network.output
    versions = [f"paddlepaddle {paddle.__version__}", f"Python {platform.python_version()}"]
    if onnx:
        from export.onnx_graph import VERSIONS

        versions.append(VERSIONS)
    onnx_command = "python run_onnx.py < sentences.txt\n" if onnx else ""
    return f"""# {source.removeprefix("a ")}

Exported by export_model.py with {", ".join(versions)}. `{graph}` runs on {RUN_BY[graph]}.

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
{output.name} are then {network.nothing}. An empty batch gives an empty output. Arrays of another type or shape are an error.
"""


def _shape(dims: tuple[int | str, ...]) -> str:
    return f"({', '.join(map(str, dims))}{',' * (len(dims) == 1)})"
