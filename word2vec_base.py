"""word2vec + bag of words on the sentence polarity task: the baseline of run_finetune.py, by the same protocol.

    python word2vec_base.py --data_dir=data/polarity --train_word2vec_on='data/train/*' --pretrained_word2vec_file=v.bin
    python word2vec_base.py --data_dir=DIR --pretrained_word2vec_file=GoogleNews-vectors-negative300.bin.gz --limit=500000
    python word2vec_base.py --data_dir=DIR --pretrained_word2vec_file=v.bin --vectors_trainable --save_head=head
    python word2vec_base.py --load_head=head --predict=reviews.txt

The vectors are a file's in word2vec's format (binary if its name ends in .bin, else text; either may be .gz), or trained
by gensim on a corpus, such as the one that an ELMo was pretrained on. Each word without one gets a random one.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import args as arguments
import dataset
from elmo_core import disk, runtime
from elmo_core.ranks import Ranks
from elmo_core.runtime import UserError, log
from elmo_core.text import read_sentences
from elmo_core.word_vectors import load_word_vectors
from tasks import bow, polarity

SKIP_GRAM = {"sg": 1, "vector_size": 300, "window": 5, "min_count": 3, "epochs": 5}


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
    if not (args.pretrained_word2vec_file or args.train_word2vec_on or args.load_head):
        parser.error("vectors are missing: give --pretrained_word2vec_file, or --train_word2vec_on for new ones")
    if args.train_word2vec_on and args.limit:
        parser.error("--limit is for a file of vectors, not for --train_word2vec_on")
    if args.train_word2vec_on and args.save_head and not args.pretrained_word2vec_file:
        parser.error("--save_head goes with vectors in a file: say by --pretrained_word2vec_file where to write them")
    defaults = {**arguments.TUNING, **arguments.TUNING_OF_VECTORS}
    arguments.settle(parser, args, defaults, args.vectors_trainable, "--vectors_trainable")
    return args


def main(argv: Sequence[str] | None = None) -> None:
    polarity.main(parse(argv), build, rebuild)


def build(args: argparse.Namespace, reviews: polarity.Reviews, ranks: Ranks) -> list[bow.Encoder]:
    path = args.pretrained_word2vec_file
    train = args.train_word2vec_on
    vectors = ranks.on_first(lambda: new_vectors(args)) if train else load_word_vectors(path, args.limit)
    return [polarity.build_bags(args, path, vectors, reviews)]


def rebuild(args: argparse.Namespace, specs: list[dict]) -> list[bow.Encoder]:
    if any(spec["encoder"] != bow.Bags.name for spec in specs):
        raise UserError(
            f"--load_head {args.load_head}: this head was trained by run_finetune.py. Load it with that script."
        )
    return [polarity.rebuild_bags(spec, args.load_head, args.pretrained_word2vec_file) for spec in specs]


def new_vectors(args: argparse.Namespace):
    """Vectors trained for this run, or by it before it was interrupted."""
    path, folder = args.pretrained_word2vec_file, polarity.parts_folder(args)
    if path is None and folder:
        path = folder / polarity.VECTORS
        if path.exists():
            return load_word_vectors(path)
    return train_vectors(args.train_word2vec_on, path, args.seed)


def train_vectors(text: str, path: Path | None, seed: int):
    """gensim's KeyedVectors of a corpus, written to `path` if there is one. Its threads make no two runs quite the same."""
    from gensim.models import Word2Vec

    if path and path.exists():
        raise UserError(f"{path} exists already. Leave out --train_word2vec_on to use it, or name another file.")
    if path:
        disk.check_output("--pretrained_word2vec_file", path)
    corpus, began = Sentences(text), time.perf_counter()
    log.info(f"word2vec      is trained on {len(corpus.paths)} files: some minutes for each ten million tokens")
    try:
        vectors = Word2Vec(corpus, **SKIP_GRAM, seed=seed, workers=runtime.n_cores()).wv
    except RuntimeError as error:  # gensim's, without a vocabulary
        raise UserError(f"{text}: no word occurs {SKIP_GRAM['min_count']} times. Expected a corpus.") from error
    if path:
        write_vectors(vectors, path)
    log.info(
        f"word2vec      {len(vectors):,} words in {runtime.duration(time.perf_counter() - began)}, {path or 'not kept'}"
    )
    return vectors


class Sentences(dataset.Corpus):
    """A corpus to be read several times over."""

    def __iter__(self) -> Iterator[list[str]]:
        return filter(None, chain.from_iterable(map(read_sentences, self.paths)))


def write_vectors(vectors, path: Path) -> None:
    """Write them in word2vec's format, in the form that the name's ending says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".partial-", dir=path.parent) as folder:
        whole = Path(folder, path.name)
        vectors.save_word2vec_format(str(whole), binary=path.name.removesuffix(".gz").endswith(".bin"))
        whole.replace(path)


if __name__ == "__main__":
    runtime.script(main)
