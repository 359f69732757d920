"""word2vec vectors of a corpus, trained with gensim."""

import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from elmo_core import messages
from elmo_core.checks import import_optional
from elmo_core.machine import runtime
from elmo_core.messages import UserError, format_count, log
from elmo_core.text.corpus import Corpus
from elmo_core.text.text_files import read_sentences

MIN_COUNT = 3  # of a word that gets a vector
DIMENSIONS = 300
MAX_TOKENS = 10_000  # per sentence; gensim ignores the rest


class Sentences(Corpus):
    """A corpus that can be read several times, its sentences cut at MAX_TOKENS."""

    def __iter__(self) -> Iterator[list[str]]:
        for path in self.paths:
            for sentence in read_sentences(path):
                for begin in range(0, len(sentence), MAX_TOKENS):
                    yield sentence[begin : begin + MAX_TOKENS]


def train(paths: Sequence[Path], output: Path, seed: int, dimensions: int) -> None:
    """Train on a corpus and save the vectors.

    Runs differ slightly, because gensim's threads race.
    """
    models = import_optional("gensim.models", "word2vec")
    corpus = Sentences(paths)
    began = time.perf_counter()
    log.info(
        f"word2vec      training on {format_count(len(corpus.paths), 'files')}: "
        "minutes per ten million tokens"
    )
    try:
        model = models.Word2Vec(
            corpus,
            sg=1,  # skip-gram
            window=5,
            min_count=MIN_COUNT,
            epochs=5,
            vector_size=dimensions,
            seed=seed,
            workers=runtime.n_cores(),
        )
    except RuntimeError as error:  # gensim: the vocabulary is empty
        files = messages.join_names([str(path) for path in corpus.paths])
        raise UserError(f"{files}: no word occurs {MIN_COUNT} times. Expected a corpus.") from error
    vectors = model.wv
    save(vectors, output)
    taken = messages.format_duration(time.perf_counter() - began)
    log.info(
        f"word2vec      {len(vectors):,} words of {dimensions} dimensions in {taken}, {output}"
    )


def save(vectors: Any, path: Path) -> None:
    """Write gensim's vectors in word2vec's format.

    It is binary if the name ends in .bin, else text; either may end in .gz, too.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".partial-", dir=path.parent) as folder:
        whole = Path(folder, path.name)
        is_binary = path.name.removesuffix(".gz").endswith(".bin")
        vectors.save_word2vec_format(str(whole), binary=is_binary)
        whole.replace(path)
