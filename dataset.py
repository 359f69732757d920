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

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from random import Random

import numpy as np

from elmo_core.config import differences
from elmo_core.messages import UserError, log
from elmo_core.text.corpus import Corpus
from elmo_core.text.noise import add_noise
from elmo_core.text.text_files import blocks, read_sentences, split_lines
from elmo_core.text.tokens import BOS, EOS, Lexicon, LMBatch, Vocabulary, pad_rows


@dataclass(slots=True, eq=False)
class _Sentence:
    """A sentence being fed into a row."""

    ids: np.ndarray  # (1, n + 2) int32 ids of <S> w1 .. wn </S>; with noise (2, n + 2), the second row is read
    file: int = -1
    index: int = -1  # within the file
    n_done: int = 0  # steps emitted so far, of n + 1
    epoch: int = 0  # on which its noise depends

    @property
    def n_left(self) -> int:
        return self.ids.shape[1] - 1 - self.n_done


Segment = tuple[_Sentence, int, int]  # a sentence's steps from .. to
NO_IDS = np.zeros((1, 1), np.int32)


def _lm_batch(ids: np.ndarray, lengths: np.ndarray, steps: int, lexicon: Lexicon, scored: bool = True) -> LMBatch:
    """Build a batch of rows of the given lengths (B,) from their ids, end to end (4, M).

    ids: forward and backward inputs, forward and backward targets.
    """
    tokens, index = lexicon.unique(ids[:2].ravel())
    packed = *np.split(index, 2), *lexicon.targets(ids[2:])
    return LMBatch(tokens, *(pad_rows(row, lengths, steps) for row in packed), lengths, scored=scored)


class _RowStreams:
    """B rows of running sentences, from which batches are cut. noise: the share of words read with a misprint."""

    def __init__(
        self, batch_size: int, unroll_steps: int, vocabulary: Vocabulary, input: str, noise: float = 0.0, seed: int = 0
    ):
        self.current = [_Sentence(NO_IDS) for _ in range(batch_size)]
        self.pending: list[_Sentence] = []  # partly read sentences without a row
        self._steps, self._noise, self._seed = unroll_steps, noise, seed
        self._lexicon = Lexicon(vocabulary, input)
        self._segments: list[Segment] = []

    def sentences(self, corpus: Corpus, file: int, order: Callable = np.arange, epoch: int = 0) -> Iterator[_Sentence]:
        """Yield a file's sentences. order: maps their number n to the indices to yield, each from 0 to n - 1.

        Afterwards the text is dropped, except for sentences still in use.
        """
        ids, offsets = self._read(corpus, file, epoch)
        for index in order(len(offsets) - 1).tolist():
            yield _Sentence(ids[:, offsets[index] : offsets[index + 1]], file, index, epoch=epoch)
        open_sentences = {*self.current, *self.pending, *(sentence for sentence, _, _ in self._segments)}
        for sentence in open_sentences:
            sentence.ids = sentence.ids.copy()
        self._lexicon.prune([sentence.ids for sentence in open_sentences])

    def _read(self, corpus: Corpus, file: int, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """All sentences of a file with their markers, concatenated as in `_Sentence.ids`, and their n + 1 offsets."""
        ids, lengths, random = [], [np.zeros(1, np.int64)], Random(f"{self._seed} {epoch} {file}")
        for text in blocks(corpus.paths[file]):
            sentences = [[BOS, *words, EOS] for line in split_lines(text) if (words := line.split())]
            words = list(chain.from_iterable(sentences))
            rows = [words, add_noise(words, self._noise, random)] if self._noise else [words]
            ids.append(np.stack([self._lexicon.ids(row) for row in rows]))
            lengths.append(np.fromiter(map(len, sentences), np.int64, len(sentences)))
        return np.concatenate(ids, axis=1), np.cumsum(np.concatenate(lengths))

    def restore(self, corpus: Corpus, saved: np.ndarray, n_current: int) -> None:
        """Restore open sentences (n, 4): file, index in it, steps emitted, epoch. The first n_current have a row."""
        sentences = [_Sentence(NO_IDS, *row) for row in saved.tolist()]
        self.current[:n_current], self.pending = sentences[:n_current], sentences[n_current:]
        for file, epoch in sorted({(s.file, s.epoch) for s in sentences if s.file >= 0}):
            same_text = [s for s in sentences if (s.file, s.epoch) == (file, epoch)]
            indices = np.array([sentence.index for sentence in same_text])
            loaded = self.sentences(corpus, file, lambda n, indices=indices: indices, epoch)
            for sentence, source in zip(same_text, loaded, strict=True):
                sentence.ids = source.ids
        self.pending = [sentence for sentence in self.pending if sentence.n_left]

    def batch(self, source: Iterator[_Sentence]) -> LMBatch | None:
        """The next batch, in which rows that run out take sentences from the source; None if nothing is left."""
        lengths = np.zeros(len(self.current), np.int64)
        self._segments = []
        for row, sentence in enumerate(self.current):
            room = self._steps
            while room and (sentence.n_left or (sentence := self._next(source))):
                n = min(room, sentence.n_left)
                self.current[row] = sentence
                self._segments.append((sentence, sentence.n_done, sentence.n_done + n))
                sentence.n_done += n
                room -= n
            lengths[row] = self._steps - room
        return _lm_batch(self._segment_ids(), lengths, self._steps, self._lexicon) if self._segments else None

    def _segment_ids(self) -> np.ndarray:
        """The ids (4, M) of the segments, as `_lm_batch` takes them."""

        def cut(row: int, shift: int, direction: int) -> np.ndarray:
            parts = [s.ids[row, ::direction][begin + shift : end + shift] for s, begin, end in self._segments]
            return np.concatenate(parts)

        return np.stack([cut(-1, 0, 1), cut(-1, 0, -1), cut(0, 1, 1), cut(0, 1, -1)])

    def _next(self, source: Iterator[_Sentence]) -> _Sentence | None:
        return self.pending.pop(0) if self.pending else next(source, None)


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

    def __init__(self, corpus: Corpus, vocabulary: Vocabulary, batch_size: int, unroll_steps: int, input: str = "char"):
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

    def _batches(self, rows: list[np.ndarray], lexicon: Lexicon, scored: bool = True) -> Iterator[LMBatch]:
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


@dataclass(frozen=True)
class Partition:
    """The part of a file that one rank reads: the sentences whose index modulo `stride` is `offset`.

    unread: an earlier run's partitions, each with the number of sentences already read. If given, the part is every
    stride-th of their unread sentences, from offset on.
    """

    offset: int = 0
    stride: int = 1
    unread: tuple[tuple["Partition", int], ...] = ()

    def indices(self, order: np.ndarray) -> np.ndarray:
        """The partition's sentence indices, in the file's shuffled order (n,)."""
        if not self.unread:
            return order[order % self.stride == self.offset]
        unread = [partition.indices(order)[n_read:] for partition, n_read in self.unread]
        return np.concatenate(unread)[self.offset :: self.stride]


WHOLE_FILE = Partition()


class TrainStream:
    """Endless shuffled batches for one of `world_size` ranks.

    Each epoch, the files are shuffled and dealt whole to the ranks. Leftover files (fewer than ranks) are read by all
    ranks; each takes the sentences whose index modulo `world_size` equals its rank. Sentences are shuffled within a
    file. The order depends only on (seed, epoch), on every platform and NumPy version. Rows run on across epochs: every
    batch is full, nothing is dropped. One file is in memory at a time. Noise depends on (seed, epoch, file) only.

    `position` (also stored in each batch) consists of plain containers and arrays. A stream that seeks one continues
    with exactly the batches that would have followed. Given the positions of all ranks, a run with another number of
    ranks deals out what is left of the epoch in the same way.
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
        shuffle: bool = True,
        noise: float = 0.0,
    ):
        self._corpus = corpus
        self._seed, self._rank, self._world_size, self._shuffle = seed, rank, world_size, shuffle
        self.tokens_per_step = batch_size * unroll_steps * world_size  # of all ranks
        self._new_rows = partial(_RowStreams, batch_size, unroll_steps, vocabulary, input, noise, seed)
        self._identity = {"corpus": corpus.identity, "vocabulary": vocabulary.identity}
        self._identity |= {"batch_size": batch_size, "unroll_steps": unroll_steps, "input": input}
        self._identity |= {"seed": seed, "rank": rank, "world_size": world_size, "shuffle": shuffle, "noise": noise}
        self._reset(0)

    def __iter__(self) -> "TrainStream":
        return self

    def __next__(self) -> LMBatch:
        batch = self._rows.batch(self._source)
        batch.position = self.position
        return batch

    @property
    def position(self) -> dict:
        """The stream's position: sentences read from the current file, and the open sentences."""
        open_sentences = [*self._rows.current, *self._rows.pending]
        at_end = self._shard == len(self._files)
        return {
            "epoch": self._epoch,
            "shard": self._shard,  # index in this rank's list of files
            "file": "" if at_end else str(self._corpus.paths[self._files[self._shard][0]]),
            "sentence": self._sentence,
            "rows": np.array(
                [(s.file, s.index, s.n_done, s.epoch) for s in open_sentences], np.int64
            ),  # (B + pending, 4)
            "history": self._history,
            "identity": self._identity,
        }

    def seek(self, *positions: dict) -> np.ndarray:
        """Continue from this rank's position, or from those of all ranks.

        If settings differ, a warning names them. If they change the order of sentences, the epoch restarts; otherwise
        the stream continues with all that is unread.

        Returns, per row, the row that held its sentence (over all ranks if their number has changed), or -1.
        """
        own_position = positions[self._rank if len(positions) == self._world_size else 0]
        changes = differences(own_position["identity"], self._identity)
        reordering = {"corpus", "seed", "shuffle"}
        if len(positions) == own_position["identity"]["world_size"] != self._world_size:  # all ranks of the earlier run
            changes.pop("rank", None)
        else:
            reordering |= {"rank", "world_size"}
        differing = "; ".join(changes.values())
        epoch, history = min(position["epoch"] for position in positions), own_position["history"]
        if reordering & changes.keys():  # in another order, sentences already read cannot be told from the others
            log.warning(f"The data is read from the beginning of epoch {epoch}: {differing}.")
            self._reset(epoch)
            return np.full(len(self._rows.current), -1)
        if changes:
            log.warning(f"Reading continues from where it was left, although {differing}.")
        if "world_size" not in changes:  # each rank continues its own files; only the number of rows may differ
            self._reset(own_position["epoch"], own_position["shard"], own_position["sentence"], history)
            return self._restore_rows([own_position], 0, 1)
        # the ranks share what is left of the earlier ranks' files and rows
        reached = [[position[name] for name in ("epoch", "shard", "sentence")] for position in positions]
        self._reset(epoch, history={"ranks": reached, "before": history})
        return self._restore_rows(positions, self._rank, self._world_size)

    def _reset(self, epoch: int, shard: int = 0, sentence: int = 0, history: dict | None = None) -> None:
        self._epoch, self._shard, self._sentence, self._history = epoch, shard, sentence, history
        self._files = self._assign_files(epoch, self._rank, self._world_size, history)
        self._rows = self._new_rows()
        self._source = self._sentences()

    def _restore_rows(self, positions: Sequence[dict], rank: int, size: int) -> np.ndarray:
        """Restore this rank's part of the sentences that were being read; those without a row are queued.

        Returns, per row, the row that held its sentence, or -1.
        """
        n_rows, n_saved = len(self._rows.current), positions[0]["identity"]["batch_size"]
        saved = np.concatenate([position["rows"][:n_saved] for position in positions])
        pending = [position["rows"][n_saved:] for position in positions]
        previous = np.arange(rank * n_rows, (rank + 1) * n_rows)
        previous[previous >= len(saved)] = -1
        current = saved[previous[previous >= 0]]
        surplus = np.concatenate([saved[size * n_rows :], *pending])[rank::size]
        self._rows.restore(self._corpus, np.concatenate([current, surplus]), len(current))
        return previous

    def _permutation(self, n: int, key: int, epoch: int) -> np.ndarray:
        """A permutation (n,), from raw bits: the only NumPy draws guaranteed never to change."""
        if not self._shuffle:
            return np.arange(n)
        return np.argsort(np.random.PCG64([self._seed, epoch, key]).random_raw(n), kind="stable")

    def _assign_files(self, epoch: int, rank: int, size: int, history: dict | None) -> list[tuple[int, Partition]]:
        """The files that one of `size` ranks reads in an epoch, each with its partition.

        history: the position of each rank of an earlier run with another number of ranks ([epoch, index in its file order,
        sentence]), and that run's own history. In epochs that it had begun, only unread sentences are assigned.
        """
        unread = self._unread(epoch, history)
        untouched = [file for file, partitions in unread.items() if partitions == [(WHOLE_FILE, 0)]]
        started = [file for file, partitions in unread.items() if partitions != [(WHOLE_FILE, 0)]]
        n_dealt = len(untouched) // size * size
        return [
            *((file, WHOLE_FILE) for file in untouched[rank:n_dealt:size]),
            *((file, Partition(rank, size)) for file in untouched[n_dealt:]),
            *((file, Partition(rank, size, tuple(unread[file]))) for file in started),
        ]

    def _unread(self, epoch: int, history: dict | None) -> dict[int, list[tuple[Partition, int]]]:
        """Per file, the partitions that an epoch has left, each with how many of its sentences were read."""
        if not _epoch_started(epoch, history):
            return {file: [(WHOLE_FILE, 0)] for file in self._permutation(len(self._corpus.paths), 0, epoch).tolist()}
        unread: dict[int, list[tuple[Partition, int]]] = {}
        for rank, (reached, shard, sentence) in enumerate(history["ranks"]):
            if reached > epoch:
                continue
            files = self._assign_files(epoch, rank, len(history["ranks"]), history["before"])
            first, n_read = (shard, sentence) if reached == epoch else (0, 0)
            for file, partition in files[first:]:
                unread.setdefault(file, []).append((partition, n_read))
                n_read = 0  # the files after the current one are unread
        return unread

    def _unread_indices(self, n: int, file: int, partition: Partition) -> np.ndarray:
        """Indices of the sentences, of n in a file, that this rank has yet to read this epoch, in order."""
        return partition.indices(self._permutation(n, 1 + file, self._epoch))[self._sentence :]

    def _sentences(self) -> Iterator[_Sentence]:
        """Yield this rank's sentences from the stream's position on, without end."""
        while True:
            is_empty = not (self._shard or self._sentence or _epoch_started(self._epoch, self._history))
            for file, partition in self._files[self._shard :]:
                order = partial(self._unread_indices, file=file, partition=partition)
                for sentence in self._rows.sentences(self._corpus, file, order, self._epoch):
                    is_empty = False
                    self._sentence += 1
                    yield sentence
                self._shard, self._sentence = self._shard + 1, 0
            if is_empty:
                break
            self._epoch, self._shard = self._epoch + 1, 0
            self._files = self._assign_files(self._epoch, self._rank, self._world_size, self._history)
        raise UserError(f"rank {self._rank} of {self._world_size}: the corpus has no sentence for it. Use fewer ranks.")


def _epoch_started(epoch: int, history: dict | None) -> bool:
    """Whether the ranks of a history had started an epoch."""
    return history is not None and epoch <= max(reached for reached, _, _ in history["ranks"])
