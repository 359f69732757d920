"""Export a trained model as a static graph, for Paddle Inference and ONNX Runtime.

    python export_model.py checkpoints --output=exported
    python export_model.py checkpoints/10000 --output=top --layers=top --onnx
    python export_model.py parser/en-ewt --output=parser --onnx
    echo "The first sentence." | python exported/run_paddle.py

MODEL is a checkpoint or published model of ELMo, or the folder of a tagger, classifier or parser.
The exported folder has the graph, its input tables, a README on inputs and outputs, and programs
that turn lines of raw text into vectors, labels, classes or trees. It needs none of this project's
code.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import args as arguments
import script
from elmo_core.files import disk
from elmo_core.machine import runtime
from elmo_core.messages import UserError
from elmo_tasks.ready import ready_made_named


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    parser.add_argument(
        "model", metavar="MODEL", help="checkpoint, saved model, or name: en, parser/en-ewt, ..."
    )
    parser.add_argument("--output", **arguments.DIR, required=True, help="folder to write")
    parser.add_argument(
        "--onnx", action="store_true", help="also write model.onnx, for ONNX Runtime and others"
    )
    parser.add_argument(
        "--layers",
        metavar="L",
        help="of ELMo: all, top, average, an index, or several: 0,1 (default: all)",
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)

    # a mistake in the flags does not wait for Paddle
    from elmo import load_bilm
    from elmo_core.encoding.layers import layer_choice
    from elmo_core.weights import cards
    from elmo_tasks.folder import ELMO, elmo_folder, read_config
    from elmo_tools.export import folder
    from elmo_tools.export.networks import NETWORKS, EmbedderNetwork

    disk.check_output_folder("--output", args.output)
    runtime.set_device("cpu")
    path = find_task(args.model)
    values = read_config(path)
    task = values["task"] if values else "ELMo"
    if task == "ELMo":
        bilm, vocabulary = load_bilm(args.model)
        notice = bilm.notice
        choice = layer_choice(args.layers or "all", bilm.config.n_layers + 1, ("each", "sum"))
        network = EmbedderNetwork(bilm, vocabulary, choice)
    elif task not in NETWORKS:
        raise UserError(f"{args.model} holds a {task}, expected ELMo, a {', a '.join(NETWORKS)}.")
    elif args.layers:
        raise UserError(f"--layers has no effect: {args.model} holds a {task}.")
    else:
        network_type, task_type = NETWORKS[task]
        network = network_type(task_type(path, "cpu"))
        notices = [cards.notice_of(path)]
        source = elmo_folder(path, values[ELMO])
        if source:
            notices.append(cards.notice_of(source))
        notice = cards.joined(notices)
    folder.write(
        network=network,
        folder=args.output,
        source=f"{task} {args.model}",
        onnx=args.onnx,
        notice=notice,
    )
    print(f"exported to {args.output}; its README.md describes the inputs and outputs")


def find_task(name: str) -> Path:
    """Return the folder of a trained task: a user's or, by its name, a ready-made one.

    If there is none, it is the name as a path.
    """
    from elmo_tasks.folder import read_config  # imports Paddle

    path = disk.user_path(name)
    if read_config(path):
        return path
    found = ready_made_named(name)
    if len(found) > 1:
        names = " or ".join(f"{folder.parent.name}/{folder.name}" for folder in found)
        raise UserError(f"{name} is the name of {len(found)} models: give {names}.")
    return found[0] if found else path


if __name__ == "__main__":
    script.run(main)
