"""word2vec + bag of words on the sentence polarity task: the baseline of run_finetune.py, by the same protocol.

    python word2vec_base.py --data_dir=data/polarity --train_word2vec_on='data/train/*' --pretrained_word2vec_file=v.bin
    python word2vec_base.py --data_dir=DIR --pretrained_word2vec_file=GoogleNews-vectors-negative300.bin.gz --limit=500000
    python word2vec_base.py --data_dir=DIR --pretrained_word2vec_file=v.bin --vectors_trainable --save_head=head
    python word2vec_base.py --load_head=head --predict=reviews.txt

The vectors come from a file in word2vec's format (binary if its name ends in .bin, else text; either may be .gz, and
FILE.gz is read if FILE does not exist), or gensim trains them on a corpus, such as the one that an ELMo was pretrained
on. Each word without a vector gets a random one.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import args as arguments
import script
from elmo_core.files.word_vectors import load_word_vectors
from elmo_core.machine import disk, runtime
from elmo_core.machine.messages import UserError
from elmo_tasks.classification.classifier import Classifier
from elmo_tasks.classification.encoders import FineTuning, StaticVectors
from elmo_tasks.classification.protocol import Run, Settings
from preprocessing import word2vec


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    vectors = parser.add_argument_group("word vectors")
    vectors.add_argument(
        "--pretrained_word2vec_file", type=Path, metavar="FILE", help="vectors; with --train_word2vec_on, to be written"
    )
    vectors.add_argument(
        "--train_word2vec_on", metavar="PATH", help="train vectors on text: a file, a folder, or a glob in quotes"
    )
    arguments.add_task(parser)
    args = parser.parse_args(argv)
    arguments.check_task(parser, args)
    if not (args.pretrained_word2vec_file or args.train_word2vec_on or args.load_head):
        parser.error("vectors are missing: give --pretrained_word2vec_file, or --train_word2vec_on for new ones")
    if args.train_word2vec_on and args.limit:
        parser.error("--limit is for a file of vectors, not for --train_word2vec_on")
    if args.train_word2vec_on and args.save_head and not args.pretrained_word2vec_file:
        parser.error("--save_head goes with vectors in a file: say by --pretrained_word2vec_file where to write them")
    defaults = {**arguments.TUNING, **arguments.TUNING_OF_VECTORS}
    arguments.fill_defaults(parser, args, defaults, args.vectors_trainable, "--vectors_trainable")
    return args


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    runtime.set_device(args.device)
    if args.load_head:
        classifier = Classifier.load(args.load_head, {"vectors": args.pretrained_word2vec_file})
        output = classifier.predict(args.predict, args.output_format == "json")
    else:
        settings = dict(vars(args))
        if args.pretrained_word2vec_file:  # once it is trained, the same run is resumed without this flag
            del settings["train_word2vec_on"]
        run = Run(Settings.from_dict(settings))
        output = run.execute([encoder(args, run)])
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    for text in output:
        print(text)


def encoder(args: argparse.Namespace, run: Run) -> StaticVectors:
    path = args.pretrained_word2vec_file
    if args.train_word2vec_on:
        vectors = run.ranks.on_first(lambda: trained_vectors(args, run))
    else:
        vectors = load_word_vectors(path, args.limit)
    tuning = FineTuning(args.vectors_lr, args.word_dropout) if args.vectors_trainable else None
    return StaticVectors(vectors, args.seed, tuning, path, args.limit)


def trained_vectors(args: argparse.Namespace, run: Run):
    """Train vectors, or read those that this run trained before it was interrupted."""
    path = args.pretrained_word2vec_file
    if path:
        if path.exists():
            raise UserError(f"{path} exists already. Leave out --train_word2vec_on to use it, or name another file.")
        disk.check_output("--pretrained_word2vec_file", path)
    kept = None if path else run.cache.vectors
    if kept and run.cache.resumed:
        return load_word_vectors(kept)
    if kept:
        kept.unlink(missing_ok=True)
    return word2vec.train(args.train_word2vec_on, path or kept, args.seed)


if __name__ == "__main__":
    script.run(main)
