"""A trained model as a static graph, for Paddle Inference and ONNX Runtime.

    python export_model.py checkpoints --output=exported
    python export_model.py checkpoints/10000 --output=exported --layers=top --onnx
    python export_model.py tagger --output=exported --onnx
    echo "The first sentence ." | python exported/run_paddle.py

MODEL is a checkpoint of ELMo or a published model's name, the folder of a tagger (run_tag.py) or of a classifier
(run_finetune.py). The folder holds the graph, the tables of its inputs, a README of inputs and outputs, and
examples that need none of this project's code. A tagger's graph ends with its labels, a classifier's with probabilities.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import args as arguments
import script
from elmo import layer_choice, load_bilm
from elmo_core.files import checkpoint
from elmo_core.machine import disk, runtime
from elmo_core.machine.messages import UserError
from elmo_tasks.classification.classifier import Classifier
from elmo_tasks.tagging.tagger import Tagger
from export import folder
from export.networks import ClassifierNetwork, Embedder, Network, TaggerNetwork

TASKS = {"tagger": (TaggerNetwork, Tagger), "classifier": (ClassifierNetwork, Classifier)}


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    parser.add_argument("model", metavar="MODEL", help="what to export: prefix, file, folder (its latest), or name")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder to write")
    parser.add_argument("--onnx", action="store_true", help="also write model.onnx, for ONNX Runtime and others")
    elmo = parser.add_argument_group("ELMo")
    layers = "all, top, average, a number, several as in 0,1, or a weight for each as in 0.2,0.5,0.3 (default: all)"
    elmo.add_argument("--layers", metavar="L", help=layers)
    elmo.add_argument("--pool", choices=("mean",), help="one vector a sentence: the mean over its tokens")
    parts = parser.add_argument_group("taggers and classifiers")
    parts.add_argument("--init_from_ckpt", metavar="CKPT", help="ELMo, if it is not where it was in training")
    vectors = "the word vectors, if they are not where they were in training"
    parts.add_argument("--word_vectors", type=Path, metavar="FILE", help=vectors)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    disk.check_output_folder("--output", args.output)
    runtime.set_device("cpu")
    values = checkpoint.load_config(args.model) if (Path(args.model) / "config.json").is_file() else {}
    kind = next((task for task in TASKS if task in values), "ELMo")
    for name in ("layers", "pool") if kind in TASKS else ("init_from_ckpt", "word_vectors"):
        if getattr(args, name) is not None:
            raise UserError(f"--{name} has no effect: {args.model} holds {'a ' * (kind in TASKS)}{kind}.")
    folder.write(network_of(kind, args), args.output, f"{kind} {args.model}", args.onnx)
    print(f"exported to {args.output}; its README.md describes the inputs and outputs")


def network_of(kind: str, args: argparse.Namespace) -> Network:
    if kind in TASKS:
        network, model = TASKS[kind]
        return network(model.load(args.model, args.init_from_ckpt, args.word_vectors))
    bilm, vocabulary = load_bilm(args.model)
    layers = args.layers or "all"
    if "." in layers:
        try:
            layers = [float(weight) for weight in layers.split(",")]
        except ValueError:
            raise UserError(f"--layers {layers}: expected a weight for each layer, as in 0.2,0.5,0.3.") from None
    return Embedder(bilm, vocabulary, layer_choice(layers, bilm.config.n_layers + 1, ("each", "sum")), bool(args.pool))


if __name__ == "__main__":
    script.run(main)
