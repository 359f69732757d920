"""Perplexity of interpolated modified Kneser-Ney n-grams, a baseline for a biLM on the same text.

    python benchmarks/kneser_ney.py --train_data_path='corpus/train/*' --dev_data_path='corpus/dev/*' \\
        --vocab_file=corpus/vocab.txt

Comparable with run_eval.py: the same vocabulary, with OOV words as <UNK>, and the same predictions: every word and the
special token at the sentence's end. The backward model is trained on reversed sentences. One difference remains: an n-gram
sees nothing before its sentence, while the biLM's state comes from the sentences before.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import args as arguments
import script
from elmo_core.text.corpus import Corpus
from elmo_core.text.vocabulary import Vocabulary
from elmo_tools.experiments.kneser_ney import KneserNey, read_ids


def main(argv: Sequence[str] | None = None) -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--train_data_path", required=True, metavar="PATH", help="text to count")
    arguments.add(parser, "dev_data_path", "vocab_file", required=True)
    parser.add_argument(
        "--orders", **arguments.COUNT, nargs="+", default=[3, 5], help="lengths of n-grams"
    )
    help = "one discount for all counts, instead of estimating them"
    parser.add_argument("--discount", type=float, metavar="D", help=help)
    args = parser.parse_args(argv)
    vocabulary = Vocabulary.from_file(args.vocab_file)
    train, dev = Corpus(args.train_data_path), Corpus(args.dev_data_path)
    for name, corpus in (("train", train), ("dev", dev)):
        counts = corpus.count(vocabulary)
        print(
            f"{name:<6} {counts.tokens:>11,} tokens in {counts.sentences:,} sentences, {counts.predictions:,} predictions "
            f"in each direction; {counts.unknown / counts.tokens:.2%} outside the vocabulary of {len(vocabulary):,} words"
        )
    train, dev = read_ids(train, vocabulary), read_ids(dev, vocabulary)
    backward_texts = [[sentence[::-1] for sentence in sentences] for sentences in (train, dev)]
    print("perplexity     forward  backward      mean")
    for order in args.orders:
        forward, backward = (
            KneserNey(training_text, len(vocabulary), order, args.discount).perplexity(scored)
            for training_text, scored in ((train, dev), backward_texts)
        )
        print(f"{order}-gram    {forward:>12.2f}{backward:>10.2f}{(forward + backward) / 2:>10.2f}")


if __name__ == "__main__":
    script.run(main)
