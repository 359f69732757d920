"""Pretrain ELMo: a bidirectional language model on your own text.

    python run_pretrain.py --train_data_path='corpus/train/*' --vocab_file=corpus/vocab.txt

Several GPUs, and several processes on CPUs:

    python -m paddle.distributed.launch --gpus '0,1' run_pretrain.py ...
    python -m paddle.distributed.launch --nproc_per_node 2 --backend gloo run_pretrain.py ...

After an interruption, give the same command with --resume. Train on other text with
--finetune_from=checkpoints.
"""

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

import args as arguments
import script
from elmo_core.machine import runtime
from elmo_core.messages import log
from elmo_core.text.corpus import Corpus
from elmo_tools.pretraining.settings import FixedSettings, ModelSettings, PretrainingSettings


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    add_data(parser.add_argument_group("data"))
    add_run(parser.add_argument_group("run"))
    add_checkpoints(parser.add_argument_group("checkpoints"))
    add_start(parser.add_argument_group("start", "from random weights, or from a checkpoint"))
    optimizer = parser.add_argument_group("optimizer")
    arguments.add_settings(optimizer, FixedSettings, omit=["precision"])
    add_model(parser.add_argument_group("model", "for a new model; a checkpoint has its own"))
    args = parser.parse_args(argv)
    if args.patience and not args.dev_data_path:
        parser.error("--patience counts evaluations, which need --dev_data_path")
    return args


def add_data(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--train_data_path",
        required=True,
        metavar="PATH",
        help="text: file, folder, or glob in quotes",
    )
    arguments.add(group, "dev_data_path", "vocab_file")
    arguments.add_settings(group, PretrainingSettings, "batch_size", "unroll_steps", "noise")


def add_run(group: argparse._ArgumentGroup) -> None:
    arguments.add(group, "device", "tf32")
    arguments.add_settings(group, PretrainingSettings, "seed")
    group.add_argument(
        "--exchange",
        choices=("float32", "bfloat16"),
        default="float32",
        help="of the gradients that processes send to each other; bfloat16 halves the messages",
    )
    arguments.add_settings(
        group,
        PretrainingSettings,
        "epochs",
        "max_steps",
        "log_freq",
        "eval_freq",
        "patience",
        "accumulate",
        "visualdl",
    )
    arguments.add_settings(group, FixedSettings, "precision")


def add_checkpoints(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--save_dir",
        **arguments.DIR,
        default=Path("checkpoints"),
        help="folder of the checkpoints",
    )
    arguments.add_settings(group, PretrainingSettings, "save_freq", "keep")
    group.add_argument(
        "--overwrite",
        action="store_true",
        help="replace an earlier run there, when this one saves its first checkpoint",
    )


def add_start(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--resume",
        action="store_true",
        help="continue what is in --save_dir, from its latest checkpoint, if there is one; "
        "otherwise start",
    )
    source = group.add_mutually_exclusive_group()
    source.add_argument(
        "--init_from_ckpt",
        metavar="CKPT",
        help="resume exactly from this checkpoint",
    )
    source.add_argument(
        "--finetune_from",
        metavar="CKPT",
        help="start from this checkpoint's weights, on other text",
    )
    arguments.add_settings(group, PretrainingSettings, "allow_changes")
    group.add_argument(
        "--pretrained_word_embeddings",
        **arguments.FILE,
        help="word vectors for the word embeddings",
    )


def add_model(group: argparse._ArgumentGroup) -> None:
    arguments.add_settings(group, ModelSettings, "model_size")
    group.add_argument(
        "--filters",
        type=arguments.filters,
        metavar="W:N,...",
        help="character CNN filters as width:number, e.g. 1:32,2:64",
    )
    arguments.add_settings(group, ModelSettings, omit=["model_size"])


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)

    # a mistake in the flags does not wait for Paddle
    from elmo_core.kernels import precision
    from elmo_core.kernels.matmul import chosen_precision
    from elmo_core.training.ranks import Ranks
    from elmo_tools.pretraining import session, summary
    from elmo_tools.pretraining.start import Origin

    device = runtime.set_device(args.device, args.tf32)
    given = PretrainingSettings(**arguments.options(PretrainingSettings.__init__, args))
    settings = dataclasses.replace(given, precision=chosen_precision(given.precision, device))
    precision.use(settings.precision)
    ranks = Ranks("Give the same command with --resume.", args.exchange)
    if not ranks.is_main:
        log.setLevel("WARNING")
    texts = session.Texts(
        train=Corpus(args.train_data_path),
        dev=Corpus(args.dev_data_path) if args.dev_data_path else None,
        vocab_file=args.vocab_file,
    )
    origin = Origin(**arguments.options(Origin, args))
    with session.opened(origin, ranks) as start:
        trainer = session.train(settings, origin, start=start, texts=texts, ranks=ranks)
    if not trainer.is_complete:
        log.info(summary.after_interruption(trainer, origin.overwrite, same="command"))
        sys.exit(trainer.interruption.exit_code)


if __name__ == "__main__":
    script.run(main)
