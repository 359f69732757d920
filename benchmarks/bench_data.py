"""Tokens a second out of the training stream, on one core and without Paddle.

    python benchmarks/bench_data.py                      # the sample, and ../shared/data/lm1b where it is present
    python benchmarks/bench_data.py --corpus 'train/*' --vocab_file vocabulary.txt

Everything is included: reading and splitting the text, unknown words, shuffling, and the character ids of the distinct
tokens of each batch. The sample is small, so that its files are read again and again.
"""

import argparse
import resource
import statistics
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import script
from dataset import TrainStream
from elmo_core.machine import messages
from elmo_core.text.corpus import Corpus
from elmo_core.text.text_files import read_sentences
from elmo_core.text.tokens import EOS, MARKERS, Vocabulary

SAMPLE = ROOT / "data" / "train"
LM1B = ROOT.parent / "shared" / "data" / "lm1b"


def measure(
    corpus: Corpus,
    vocabulary: Vocabulary,
    batch_size: int = 128,
    unroll_steps: int = 20,
    input: str = "char",
    stretches: int = 5,
    seconds: float = 1.0,
) -> list[float]:
    """Tokens a second, ends of sentences not counted, in each of some stretches of a training stream."""
    stream = TrainStream(corpus, vocabulary, batch_size, unroll_steps, input)
    end_of_sentence = vocabulary.id(EOS)
    rates = []
    for _ in range(stretches):
        tokens, start = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds:
            tokens += int((next(stream).forward_target != end_of_sentence).sum())
        rates.append(tokens / elapsed)
    return rates


def vocabulary_of(corpus: Corpus, min_count: int = 2) -> Vocabulary:
    """The words that a corpus has at least `min_count` times, by falling frequency."""
    counts = Counter(token for path in corpus.paths for sentence in read_sentences(path) for token in sentence)
    words = [word for word, count in counts.most_common() if count >= min_count and word not in MARKERS]
    return Vocabulary([*MARKERS, *words])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", help="file, folder or quoted glob (default: the sample and ../shared/data/lm1b)")
    parser.add_argument("--vocab_file", help="its vocabulary (default: the words that it has twice or more)")
    parser.add_argument("--batch_size", type=int, default=128, help="rows of a batch (default: %(default)s)")
    parser.add_argument("--unroll_steps", type=int, default=20, help="steps of a batch (default: %(default)s)")
    args = parser.parse_args()

    present = [path for path in (SAMPLE, LM1B) if path.exists()]
    if not present and not args.corpus:
        raise messages.UserError(f"neither {SAMPLE} nor {LM1B} is there: give a --corpus.")
    for source in [args.corpus] if args.corpus else present:
        corpus = Corpus(source)
        vocabulary = Vocabulary.from_file(args.vocab_file) if args.vocab_file else vocabulary_of(corpus)
        print(f"{source}: {corpus.identity}, vocabulary of {len(vocabulary):,}")
        for input in ("char", "word"):
            rates = measure(corpus, vocabulary, args.batch_size, args.unroll_steps, input)
            rate, low, high = statistics.median(rates), min(rates), max(rates)
            print(f"  {input} input: {rate:>11,.0f} tokens/s (of {len(rates)} stretches {low:,.0f} to {high:,.0f})")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB")


if __name__ == "__main__":
    script.run(main)
