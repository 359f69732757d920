"""word2vec vectors of a corpus, trained with gensim."""

import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from elmo_core import messages
from elmo_core.checks import import_optional
from elmo_core.machine import runtime
from elmo_core.messages import UserError, format_count, log
from elmo_core.text.corpus import Corpus
from elmo_core.text.text_files import read_sentences

SKIP_GRAM = {"sg": 1, "window": 5, "min_count": 3, "epochs": 5}
DIMENSIONS = 300
MAX_TOKENS = 10_000  # per sentence; gensim ignores the rest


class Sentences(Corpus):
    """A corpus that can be read several times, its sentences cut at MAX_TOKENS."""

    def __iter__(self) -> Iterator[list[str]]:
        for sentence in chain.from_iterable(map(read_sentences, self.paths)):
            yield from (sentence[k : k + MAX_TOKENS] for k in range(0, len(sentence), MAX_TOKENS))


def train(paths: Sequence[Path], output: Path, seed: int, dimensions: int) -> None:
    """Train on a corpus and save the vectors. Runs differ slightly, because gensim's threads race."""
    models, corpus, began = (
        import_optional("gensim.models", "word2vec"),
        Sentences(paths),
        time.perf_counter(),
    )
    log.info(
        f"word2vec      training on {format_count(len(corpus.paths), 'files')}: minutes per ten million tokens"
    )
    try:
        vectors = models.Word2Vec(
            corpus, **SKIP_GRAM, vector_size=dimensions, seed=seed, workers=runtime.n_cores()
        ).wv
    except RuntimeError as error:  # gensim: the vocabulary is empty
        files = messages.join_names(list(map(str, corpus.paths)))
        raise UserError(
            f"{files}: no word occurs {SKIP_GRAM['min_count']} times. Expected a corpus."
        ) from error
    save(vectors, output)
    taken = messages.format_duration(time.perf_counter() - began)
    log.info(
        f"word2vec      {len(vectors):,} words of {dimensions} dimensions in {taken}, {output}"
    )


def save(vectors, path: Path) -> None:
    """Write vectors in word2vec's format: binary if the name ends in .bin, else text; either also as .gz."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".partial-", dir=path.parent) as folder:
        whole = Path(folder, path.name)
        vectors.save_word2vec_format(
            str(whole), binary=path.name.removesuffix(".gz").endswith(".bin")
        )
        whole.replace(path)
