"""Classify texts or pairs of texts of your own, with ELMo or without it; or the sentence polarity task.

    python run_finetune.py --train_file=train.tsv --test_file=test.tsv --init_from_ckpt=checkpoints --save_head=head
    python run_finetune.py --train_file=train.jsonl --tokenise=zh --init_from_ckpt=none --concat_word2vec=vectors.bin
    python run_finetune.py --load_head=head --predict=texts.txt
    python run_finetune.py --data_dir=data/polarity --init_from_ckpt=checkpoints/sample
    python run_finetune.py --data_dir=DIR --init_from_ckpt=checkpoints --elmo_trainable --results=elmo.json
    python run_finetune.py --data_dir=DIR --init_from_ckpt=checkpoints --concat_word2vec=vectors.bin --compare_with=elmo.json

The classifier sees the mean of a text's token vectors. Without --test_file the texts of --train_file are cross-validated.
By default the biLM is frozen: it runs once over the texts, and a head over its layers, side by side, is trained in seconds.
--elmo_trainable then fine-tunes the biLM and the head together, in minutes for each fold. word2vec_base.py is the
baseline, by the same protocol.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import args as arguments
import elmo
import script
from elmo_core.files.word_vectors import load_word_vectors
from elmo_core.machine import runtime
from elmo_core.weights import model_files
from elmo_tasks.classification.classifier import Classifier
from elmo_tasks.classification.encoders import Contextual, Encoder, FineTuning, StaticVectors, randomise
from elmo_tasks.classification.protocol import Run, Settings

TUNING_OF_ELMO = {"elmo_lr": [0.0005], "elmo_dropout": 0.2, "elmo_lr_decay": 1.0, "unfreeze_epochs": 0}


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    model = parser.add_argument_group("ELMo")
    model.add_argument(
        "--init_from_ckpt",
        metavar="CKPT",
        help="prefix, file, folder (its latest), or a published model's name; none: word vectors alone",
    )
    model.add_argument(
        "--layers",
        type=layers,
        metavar="WHICH",
        help="concat (all of them side by side, the default), mix, top, average, or the number of a layer",
    )
    model.add_argument(
        "--concat_word2vec",
        type=Path,
        metavar="FILE",
        help="add word vectors: [word vector; ELMo]. Without ELMo and without these each word gets a random vector",
    )
    model.add_argument(
        "--random_weights",
        nargs="?",
        const="all",
        choices=("all", "lstm"),
        help="replace the pretrained weights by random ones, to see what pretraining is worth: all, or only the LSTMs'",
    )
    model.add_argument("--elmo_trainable", action="store_true", help="fine-tune the biLM")
    model.add_argument(
        "--elmo_lr", type=arguments.positive, nargs="+", metavar="X", help="its learning rate (default: 0.0005)"
    )
    model.add_argument(
        "--elmo_dropout", type=arguments.share, metavar="X", help="its dropout between the layers (default: 0.2)"
    )
    model.add_argument(
        "--elmo_lr_decay",
        type=arguments.positive,
        metavar="X",
        help="factor of the rate for each layer below (default: 1)",
    )
    model.add_argument(
        "--unfreeze_epochs",
        type=arguments.whole_number,
        metavar="N",
        help="gradual unfreezing: each N epochs the next layer below begins to learn; 0: all from the start (default)",
    )
    arguments.add_task(parser)
    args = parser.parse_args(argv)
    arguments.check_task(parser, args)
    if not (args.init_from_ckpt or args.load_head):
        parser.error("--init_from_ckpt is missing: a checkpoint, or none")
    has_elmo = (args.init_from_ckpt or "").lower() != "none"
    arguments.fill_defaults(parser, args, {"layers": "concat"}, has_elmo, "ELMo: --init_from_ckpt is none")
    for name in ("random_weights", "elmo_trainable"):
        if getattr(args, name) and not has_elmo:
            parser.error(f"--{name} has no effect without ELMo: --init_from_ckpt is none")
    args.init_from_ckpt = args.init_from_ckpt if has_elmo else None
    arguments.fill_defaults(parser, args, TUNING_OF_ELMO, args.elmo_trainable, "--elmo_trainable")
    arguments.fill_defaults(parser, args, arguments.TUNING_OF_VECTORS, args.vectors_trainable, "--vectors_trainable")
    learns = args.elmo_trainable or args.vectors_trainable
    arguments.fill_defaults(parser, args, arguments.TUNING, learns, "--elmo_trainable or --vectors_trainable")
    has_vectors = {"limit": args.concat_word2vec, "vectors_trainable": args.concat_word2vec or not has_elmo}
    for name, has_effect in has_vectors.items():
        if getattr(args, name) and not (has_effect or args.load_head):
            parser.error(f"--{name} has no effect without --concat_word2vec")
    return args


def layers(text: str) -> str | int:
    if text.isdecimal():
        return int(text)
    if text not in ("concat", "mix", "top", "average"):
        raise argparse.ArgumentTypeError(f"{text!r}: expected concat, mix, top, average, or a layer's number")
    return text


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    runtime.set_device(args.device)
    if args.load_head:
        sources = {"elmo": args.init_from_ckpt, "vectors": args.concat_word2vec}
        output = Classifier.load(args.load_head, sources).predict(args.predict, args.output_format == "json")
    else:
        if args.init_from_ckpt:  # a folder's latest may change
            args.init_from_ckpt = str(model_files.resolve(args.init_from_ckpt).absolute())
        run = Run(Settings.from_dict(vars(args)))
        output = run.execute(encoders(args))
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    for text in output:
        print(text)


def encoders(args: argparse.Namespace) -> list[Encoder]:
    found: list[Encoder] = [contextual(args)] if args.init_from_ckpt else []
    if args.concat_word2vec or not found:
        vectors = load_word_vectors(args.concat_word2vec, args.limit) if args.concat_word2vec else None
        tuning = FineTuning(args.vectors_lr, args.word_dropout) if args.vectors_trainable else None
        found.append(StaticVectors(vectors, args.seed, tuning, args.concat_word2vec, args.limit))
    return found


def contextual(args: argparse.Namespace) -> Contextual:
    bilm, vocabulary = elmo.load_bilm(args.init_from_ckpt)
    if args.random_weights:
        randomise(bilm, args.random_weights, args.seed)
    tuning = None
    if args.elmo_trainable:
        tuning = FineTuning(
            args.elmo_lr, args.word_dropout, args.elmo_dropout, args.elmo_lr_decay, args.unfreeze_epochs
        )
    return Contextual(bilm, vocabulary, args.layers, tuning, None if args.random_weights else args.init_from_ckpt)


if __name__ == "__main__":
    script.run(main)
