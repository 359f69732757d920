"""word2vec + bag of words on the sentence polarity task: the baseline of run_finetune.py, with the same protocol.

    python preprocess.py vectors 'data/train/*' --output vectors.bin
    python word2vec_base.py --data_dir=data/polarity --pretrained_word2vec_file=vectors.bin --results=word2vec.json
    python word2vec_base.py --data_dir=DIR --pretrained_word2vec_file=GoogleNews-vectors-negative300.bin.gz
    python word2vec_base.py --data_dir=DIR --pretrained_word2vec_file=vectors.bin --word_vectors_trainable --save_dir=model

The vectors come from a file in word2vec's format (binary if its name ends in .bin, else text; either may be .gz, and
FILE.gz is read if FILE does not exist). Each word without a vector gets a random one. The saved classifier can be used with
`run_finetune.py evaluate` and `predict`.
"""

import argparse
from collections.abc import Sequence

import args as arguments
import script
import task_flags
from elmo_core.machine import runtime
from elmo_tasks.classification.encoders import FineTuning, WordTable
from elmo_tasks.classification.protocol import Experiment, ProtocolSettings
from elmo_tasks.word_vectors import WordVectors


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    task_flags.add_word_vectors(
        parser, task_flags.WORD_VECTORS_DEFAULTS, flag="--pretrained_word2vec_file", required=True
    )
    task_flags.add_classifier(parser)
    args = parser.parse_args(argv)
    task_flags.check_word_vectors(parser, args, task_flags.WORD_VECTORS_DEFAULTS)
    task_flags.check_classifier(parser, args, args.word_vectors_trainable, "--word_vectors_trainable")
    return args


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    runtime.set_device(args.device)
    experiment = Experiment(arguments.from_flags(ProtocolSettings, args), vars(args))
    tuning = FineTuning(args.word_vectors_lr, args.word_dropout) if args.word_vectors_trainable else None
    vectors = WordVectors(args.word_vectors, args.word_vectors_limit)
    experiment.run([WordTable(vectors, args.seed, tuning)])


if __name__ == "__main__":
    script.run(main)
