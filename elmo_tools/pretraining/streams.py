"""From text to the batches of a language model. NumPy only.

A language-model batch is B rows of T steps. Each row is an independent stream of sentences, cut every T steps: its
final state in one batch is its initial state in the next. A row that finishes a sentence takes the next one in shuffled
order. For example, two rows of four steps, with the order "birds sing loudly", "it rains", "no", "we know":

                            batch 1                       batch 2
    row 0  forward  input   <S>    birds  sing   loudly   <S>   we    know  ..
                    target  birds  sing   loudly </S>     we    know  </S>  ..
           backward input   </S>   loudly sing   birds    </S>  know  we    ..
                    target  loudly sing   birds  <S>      know  we    <S>   ..
    row 1  forward  input   <S>    it     rains  <S>      no    ..
                    target  it     rains  </S>   no       </S>  ..
           backward input   </S>   rains  it     </S>     no    ..
                    target  rains  it     <S>    no       <S>   ..

A sentence of n tokens is n + 1 predictions in each direction: `</S>` is never a forward input, `<S>` never a
forward target. An out-of-vocabulary word is read as its characters ("char" input) or as `<UNK>` ("word" input), and
predicted as `<UNK>`. Noise changes what is read, never what is predicted.

Shapes: B rows, T steps.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from random import Random

import numpy as np

from elmo_core.messages import UserError
from elmo_core.text.corpus import Corpus
from elmo_core.text.noise import add_noise
from elmo_core.text.text_files import blocks, read_sentences, split_lines
from elmo_core.text.tokens import BOS, EOS, Lexicon, LMBatch, pad_rows
from elmo_core.text.vocabulary import Vocabulary


@dataclass(slots=True, eq=False)
class _Sentence:
    """A sentence being fed into a row."""

    ids: (
        np.ndarray
    )  # (1, n + 2) int32 ids of <S> w1 .. wn </S>; with noise (2, n + 2), the second row is read
    file: int = -1
    index: int = -1  # within the file
    n_done: int = 0  # steps emitted so far, of n + 1
    epoch: int = 0  # on which its noise depends

    @property
    def n_left(self) -> int:
        return self.ids.shape[1] - 1 - self.n_done


Segment = tuple[_Sentence, int, int]  # a sentence's steps from .. to
NO_IDS = np.zeros((1, 1), np.int32)


def _lm_batch(
    ids: np.ndarray, lengths: np.ndarray, steps: int, lexicon: Lexicon, scored: bool = True
) -> LMBatch:
    """Build a batch of rows of the given lengths (B,) from their ids, end to end (4, M).

    ids: forward and backward inputs, forward and backward targets.
    """
    tokens, index = lexicon.unique(ids[:2].ravel())
    packed = *np.split(index, 2), *lexicon.targets(ids[2:])
    return LMBatch(
        tokens, *(pad_rows(row, lengths, steps) for row in packed), lengths, scored=scored
    )


class _RowStreams:
    """B rows of running sentences, from which batches are cut. noise: the share of words read with a misprint."""

    def __init__(
        self,
        batch_size: int,
        unroll_steps: int,
        vocabulary: Vocabulary,
        input: str,
        noise: float = 0.0,
        seed: int = 0,
    ):
        self.current = [_Sentence(NO_IDS) for _ in range(batch_size)]
        self._steps, self._noise, self._seed = unroll_steps, noise, seed
        self._lexicon = Lexicon(vocabulary, input)
        self._segments: list[Segment] = []

    def sentences(
        self, corpus: Corpus, file: int, order: Callable = np.arange, epoch: int = 0
    ) -> Iterator[_Sentence]:
        """Yield a file's sentences. order: maps their number n to the indices to yield, each from 0 to n - 1.

        Afterwards the text is dropped, except for sentences still in use.
        """
        ids, offsets = self._read(corpus, file, epoch)
        for index in order(len(offsets) - 1).tolist():
            yield _Sentence(ids[:, offsets[index] : offsets[index + 1]], file, index, epoch=epoch)
        open_sentences = {*self.current, *(sentence for sentence, _, _ in self._segments)}
        for sentence in open_sentences:
            sentence.ids = sentence.ids.copy()
        self._lexicon.prune([sentence.ids for sentence in open_sentences])

    def _read(self, corpus: Corpus, file: int, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """All sentences of a file with their markers, concatenated as in `_Sentence.ids`, and their n + 1 offsets."""
        ids, lengths, random = [], [np.zeros(1, np.int64)], Random(f"{self._seed} {epoch} {file}")
        for text in blocks(corpus.paths[file]):
            sentences = [
                [BOS, *words, EOS] for line in split_lines(text) if (words := line.split())
            ]
            words = list(chain.from_iterable(sentences))
            rows = [words, add_noise(words, self._noise, random)] if self._noise else [words]
            ids.append(np.stack([self._lexicon.ids(row) for row in rows]))
            lengths.append(np.fromiter(map(len, sentences), np.int64, len(sentences)))
        return np.concatenate(ids, axis=1), np.cumsum(np.concatenate(lengths))

    def restore(self, corpus: Corpus, saved: np.ndarray) -> None:
        """Restore the rows' sentences (B, 4): file, index in it, steps emitted, epoch. IndexError: there are none such."""
        self.current = [_Sentence(NO_IDS, *row) for row in saved.tolist()]
        for file, epoch in sorted({(s.file, s.epoch) for s in self.current if s.file >= 0}):
            same_text = [s for s in self.current if (s.file, s.epoch) == (file, epoch)]
            indices = np.array([sentence.index for sentence in same_text])
            loaded = self.sentences(corpus, file, lambda n, indices=indices: indices, epoch)
            for sentence, source in zip(same_text, loaded, strict=True):
                sentence.ids = source.ids
        for sentence in self.current:
            if (
                sentence.n_done < 0
                or sentence.n_left < 0
                or (sentence.file >= 0 and sentence.index < 0)
            ):
                raise IndexError(f"no sentence of the text: {saved.tolist()!r:.80}")

    def batch(self, source: Iterator[_Sentence]) -> LMBatch | None:
        """The next batch, in which rows that run out take sentences from the source; None if nothing is left."""
        lengths = np.zeros(len(self.current), np.int64)
        self._segments = []
        for row, sentence in enumerate(self.current):
            room = self._steps
            while room and (sentence.n_left or (sentence := next(source, None))):
                n = min(room, sentence.n_left)
                self.current[row] = sentence
                self._segments.append((sentence, sentence.n_done, sentence.n_done + n))
                sentence.n_done += n
                room -= n
            lengths[row] = self._steps - room
        return (
            _lm_batch(self._segment_ids(), lengths, self._steps, self._lexicon)
            if self._segments
            else None
        )

    def _segment_ids(self) -> np.ndarray:
        """The ids (4, M) of the segments, as `_lm_batch` takes them."""

        def cut(row: int, shift: int, direction: int) -> np.ndarray:
            parts = [
                s.ids[row, ::direction][begin + shift : end + shift]
                for s, begin, end in self._segments
            ]
            return np.concatenate(parts)

        return np.stack([cut(-1, 0, 1), cut(-1, 0, -1), cut(0, 1, 1), cut(0, 1, -1)])


PART = 1024  # steps of a text that a row reads at a time, and the rest of the last sentence
WARM_UP = 128  # steps before its part that a row reads without being scored


class EvalStream:
    """A corpus in file order: every token is predicted exactly once in each direction.

    A single row reads the text from its beginning to its end. Several rows take parts of it in turn, and each first reads
    the WARM_UP steps before its part, in batches that are not scored: then its state, whatever it was, is nearly that of
    the single row, and the scores do not depend on the number of rows. The backward direction reads each sentence from
    its end, but, as in training, the sentences in the same order: before a part it reads what precedes it, too.

    Rows are never reordered, so a carried state stays with its row; a row without text has length 0.
    """

    def __init__(
        self,
        corpus: Corpus,
        vocabulary: Vocabulary,
        batch_size: int,
        unroll_steps: int,
        input: str = "char",
    ):
        self._corpus, self._vocabulary, self._input = corpus, vocabulary, input
        self._rows, self._steps = batch_size, unroll_steps

    def __iter__(self) -> Iterator[LMBatch]:
        parts, last = self._parts(), []
        while block := list(islice(parts, self._rows)):
            lexicon = Lexicon(self._vocabulary, self._input)
            before, *rows = [_steps_of(part, lexicon) for part in [last, *block]]
            warm_ups = [row[:, -WARM_UP:] for row in [before, *rows[:-1]]]
            if self._rows > 1:
                yield from self._batches(warm_ups, lexicon, scored=False)
            yield from self._batches(rows, lexicon)
            last = block[-1]

    def _parts(self) -> Iterator[list[list[str]]]:
        """Yield the parts of the text: sentences of at least PART steps together."""
        part, steps = [], 0
        for words in chain.from_iterable(map(read_sentences, self._corpus.paths)):
            if words:
                part.append([BOS, *words, EOS])
                steps += len(words) + 1
            if steps >= PART:
                yield part
                part, steps = [], 0
        if part:
            yield part

    def _batches(
        self, rows: list[np.ndarray], lexicon: Lexicon, scored: bool = True
    ) -> Iterator[LMBatch]:
        """Cut rows of ids (4, n) into batches of T steps."""
        for begin in range(0, max(row.shape[1] for row in rows), self._steps):
            cut = [row[:, begin : begin + self._steps] for row in rows]
            lengths = np.zeros(self._rows, np.int64)
            lengths[: len(cut)] = [row.shape[1] for row in cut]
            yield _lm_batch(np.concatenate(cut, axis=1), lengths, self._steps, lexicon, scored)


def _steps_of(part: list[list[str]], lexicon: Lexicon) -> np.ndarray:
    """The ids (4, n) of a part's steps, as `_lm_batch` takes them."""
    steps = [np.zeros((4, 0), np.int32)]
    for ids in map(lexicon.ids, part):
        steps.append(np.stack([ids[:-1], ids[:0:-1], ids[1:], ids[-2::-1]]))
    return np.concatenate(steps, axis=1)


class TrainStream:
    """Endless shuffled batches for one of `world_size` ranks.

    Each epoch, the files are shuffled and dealt whole to the ranks. Leftover files (fewer than ranks) are read by all
    ranks; each takes the sentences whose index modulo `world_size` equals its rank. Sentences are shuffled within a
    file. The order depends only on (seed, epoch), on every platform and NumPy version. Rows run on across epochs: every
    batch is full, nothing is dropped. One file is in memory at a time. Noise depends on (seed, epoch, file) only.

    `position` (also stored in each batch) consists of plain containers and arrays. A stream that seeks one continues
    with exactly the batches that would have followed. settings: those on which the batches depend, except for the rank.
    """

    def __init__(
        self,
        corpus: Corpus,
        vocabulary: Vocabulary,
        batch_size: int,
        unroll_steps: int,
        input: str = "char",
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        noise: float = 0.0,
    ):
        self._corpus, self._seed, self._rank, self._world_size = corpus, seed, rank, world_size
        self.tokens_per_step = batch_size * unroll_steps * world_size  # of all ranks
        self._new_rows = partial(
            _RowStreams, batch_size, unroll_steps, vocabulary, input, noise, seed
        )
        self.settings = {"corpus": corpus.identity, "vocabulary": vocabulary.identity}
        self.settings |= {"batch_size": batch_size, "unroll_steps": unroll_steps, "input": input}
        self.settings |= {"seed": seed, "world_size": world_size, "noise": noise}
        self.start(epoch=0)

    def __iter__(self) -> "TrainStream":
        return self

    def __next__(self) -> LMBatch:
        batch = self._rows.batch(self._source)
        batch.position = self.position
        return batch

    @property
    def position(self) -> dict:
        """The stream's position: sentences read from the current file, and those in the rows."""
        at_end = self._shard == len(self._files)
        return {
            "epoch": self._epoch,
            "shard": self._shard,  # index in this rank's list of files
            "file": "" if at_end else str(self._corpus.paths[self._files[self._shard]]),
            "sentence": self._sentence,
            "rows": np.array(
                [(s.file, s.index, s.n_done, s.epoch) for s in self._rows.current], np.int64
            ),  # (B, 4)
        }

    def seek(self, position: dict) -> None:
        """Continue from a position of a stream with the same settings and rank. IndexError: it is not in the text."""
        self.start(position["epoch"], position["shard"], position["sentence"])
        self._rows.restore(self._corpus, position["rows"])

    def start(self, epoch: int, shard: int = 0, sentence: int = 0) -> None:
        """Start with a sentence of a shard, with empty rows."""
        self._epoch, self._shard, self._sentence = epoch, shard, sentence
        self._files, self._n_own = self._deal_files()
        self._rows = self._new_rows()
        self._source = self._sentences()

    def _permutation(self, n: int, key: int) -> np.ndarray:
        """A permutation (n,) of this epoch, from raw bits: the only NumPy draws guaranteed never to change."""
        return np.argsort(
            np.random.PCG64([self._seed, self._epoch, key]).random_raw(n), kind="stable"
        )

    def _deal_files(self) -> tuple[list[int], int]:
        """The files that this rank reads in this epoch, in order, and how many of them it reads alone."""
        files = self._permutation(len(self._corpus.paths), 0).tolist()
        n_dealt = len(files) // self._world_size * self._world_size
        own = files[self._rank : n_dealt : self._world_size]
        return [*own, *files[n_dealt:]], len(own)

    def _unread(self, n: int, file: int) -> np.ndarray:
        """Indices of the sentences, of n in a file, that this rank has yet to read in this epoch, in order."""
        order = self._permutation(n, 1 + file)
        if self._shard >= self._n_own:
            order = order[order % self._world_size == self._rank]
        return order[self._sentence :]

    def _sentences(self) -> Iterator[_Sentence]:
        """Yield this rank's sentences from the stream's position on, without end."""
        while True:
            is_empty = not (self._shard or self._sentence)
            for file in self._files[self._shard :]:
                for sentence in self._rows.sentences(
                    self._corpus, file, partial(self._unread, file=file), self._epoch
                ):
                    is_empty = False
                    self._sentence += 1
                    yield sentence
                self._shard, self._sentence = self._shard + 1, 0
            if is_empty:
                break
            self._epoch, self._shard = self._epoch + 1, 0
            self._files, self._n_own = self._deal_files()
        raise UserError(
            f"rank {self._rank} of {self._world_size}: the corpus has no sentence for it. Use fewer ranks."
        )
