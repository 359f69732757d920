"""word2vec + bag of words on the sentence polarity task: the baseline of run_finetune.py, with the same protocol.

    python preprocess.py vectors 'data/train/*' --output vectors.bin
    python word2vec_base.py --data_dir=data/polarity --pretrained_word2vec_file=vectors.bin --results=word2vec.json
    python word2vec_base.py --data_dir=DIR --pretrained_word2vec_file=GoogleNews-vectors-negative300.bin.gz
    python word2vec_base.py --data_dir=DIR --pretrained_word2vec_file=vectors.bin --word_vectors_trainable --save_dir=model

The vectors come from a file in word2vec's format (binary if its name ends in .bin, else text; either may be .gz, and
FILE.gz is read if FILE does not exist). Each word without a vector gets a random one. The saved classifier can be used with
`run_finetune.py evaluate` and `predict`.
"""

from collections.abc import Sequence

import args as arguments
import script
import task_flags


def main(argv: Sequence[str] | None = None) -> None:
    parser = arguments.parser(__doc__)
    task_flags.add_classifier(parser, "--pretrained_word2vec_file", required=True)
    parser.set_defaults(head="mean", lr=(0.001, 0.003), weight_decay=(0.1, 1.0))
    args = parser.parse_args(argv)
    task_flags.start(args)
    task_flags.train_classifier(parser, args)


if __name__ == "__main__":
    script.run(main)
