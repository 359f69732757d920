"""Export a trained model as a static graph, for Paddle Inference and ONNX Runtime.

    python export_model.py checkpoints --output=exported
    python export_model.py checkpoints/10000 --output=exported --layers=top --onnx
    python export_model.py tagger --output=exported --onnx
    echo "The first sentence." | python exported/run_paddle.py

MODEL is a checkpoint or published model of ELMo, or the folder of a tagger (run_tag.py) or classifier (run_finetune.py).
The exported folder has the graph, its input tables, a README on inputs and outputs, and programs that turn lines of raw
text into vectors, labels or classes. It needs none of this project's code.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import args as arguments
import script
from elmo import load_bilm
from elmo_core.files import disk
from elmo_core.machine import runtime
from elmo_core.messages import UserError
from elmo_core.network.layers import layer_choice
from elmo_tasks.classification.classifier import Classifier
from elmo_tasks.tagging.tagger import Tagger
from elmo_tasks.task import read_config
from export import folder
from export.networks import ClassifierNetwork, EmbedderNetwork, Network, TaggerNetwork

TASKS = {"tagger": (TaggerNetwork, Tagger), "classifier": (ClassifierNetwork, Classifier)}


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    parser.add_argument("model", metavar="MODEL", help="checkpoint, saved model, or name")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder to write")
    parser.add_argument("--onnx", action="store_true", help="also write model.onnx, for ONNX Runtime and others")
    elmo = parser.add_argument_group("ELMo")
    layers = "all, top, average, an index, several (0,1), or a weight per layer (0.2,0.5,0.3) (default: all)"
    elmo.add_argument("--layers", metavar="L", help=layers)
    elmo.add_argument("--pool", choices=("mean",), help="one vector per sentence: the mean over its tokens")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    disk.check_output_folder("--output", args.output)
    runtime.set_device("cpu")
    values = read_config(Path(args.model))
    task = values["task"] if values else "ELMo"
    if task not in (*TASKS, "ELMo"):
        raise UserError(f"{args.model} holds a {task}, expected ELMo, a tagger or a classifier.")
    for name in ("layers", "pool"):
        if task in TASKS and getattr(args, name) is not None:
            raise UserError(f"--{name} has no effect: {args.model} holds a {task}.")
    folder.write(network_of(task, args), args.output, f"{task} {args.model}", args.onnx)
    print(f"exported to {args.output}; its README.md describes the inputs and outputs")


def network_of(task: str, args: argparse.Namespace) -> Network:
    if task in TASKS:
        network, model = TASKS[task]
        return network(model(args.model, "cpu"))
    bilm, vocabulary = load_bilm(args.model)
    layers = args.layers or "all"
    if "." in layers:
        try:
            layers = [float(weight) for weight in layers.split(",")]
        except ValueError:
            raise UserError(f"--layers {layers}: expected one weight per layer, as in 0.2,0.5,0.3.") from None
    choice = layer_choice(layers, bilm.config.n_layers + 1, ("each", "sum"))
    return EmbedderNetwork(bilm, vocabulary, choice, bool(args.pool))


if __name__ == "__main__":
    script.run(main)
