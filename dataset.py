"""From text to the batches of a language model. NumPy only.

A language-model batch is B rows of T steps. Each row is a stream of its own, sentence after sentence, cut every T steps:
the state in which a batch leaves a row is the state in which the next batch finds it. A row that has finished a sentence
takes the next one of the shuffled order. Here are two rows of four steps; the order is "birds sing loudly", "it rains",
"no", "we know":

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
forward target. A word that the vocabulary lacks enters by its characters ("char" input) or as `<UNK>` ("word"
input), and is predicted as `<UNK>`.

Letters in shapes: B rows, T steps.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np

from elmo_core.config import differences
from elmo_core.machine.messages import UserError, log
from elmo_core.text.corpus import Corpus, Counts
from elmo_core.text.text_files import blocks, split_lines
from elmo_core.text.tokens import BOS, EOS, Lexicon, LMBatch, Vocabulary, padded


@dataclass(slots=True, eq=False)
class _Sentence:
    """A sentence on its way through a row."""

    words: np.ndarray  # (n + 2,) int32 numbers of <S> w1 .. wn </S>
    file: int = -1
    number: int = -1  # within the file
    done: int = 0  # of its n + 1 steps

    @property
    def left(self) -> int:
        return len(self.words) - 1 - self.done


Piece = tuple[_Sentence, int, int]  # the steps of a sentence from .. to


def _lm_batch(pieces: list[Piece], lengths: np.ndarray, steps: int, lexicon: Lexicon) -> LMBatch:
    """The batch whose rows, of `lengths` (B,), are filled with the pieces one after another."""

    def cut(shift: int, direction: int) -> np.ndarray:
        return np.concatenate([s.words[::direction][begin + shift : end + shift] for s, begin, end in pieces])

    tokens, index = lexicon.distinct(np.concatenate([cut(0, 1), cut(0, -1)]))
    parts = [*np.split(index, 2), lexicon.targets(cut(1, 1)), lexicon.targets(cut(1, -1))]
    return LMBatch(tokens, *(padded(part, lengths, steps) for part in parts), lengths)


def lm_batch(sentences: Sequence[Sequence[str]], vocabulary: Vocabulary, input: str = "char") -> LMBatch:
    """A sentence in each row, to score sentences each by itself: as many rows as sentences, T = longest + 1."""
    lexicon = Lexicon(vocabulary, input)
    numbered = [_Sentence(lexicon.number([BOS, *sentence, EOS])) for sentence in sentences]
    lengths = np.array([sentence.left for sentence in numbered], np.int64)
    return _lm_batch([(s, 0, s.left) for s in numbered], lengths, lengths.max(), lexicon)


class _Rows:
    """B rows of running sentences, from which batches are cut."""

    def __init__(self, batch_size: int, unroll_steps: int, vocabulary: Vocabulary, input: str):
        self.under_way = [_Sentence(np.zeros(1, np.int32)) for _ in range(batch_size)]
        self.waiting: dict[int, _Sentence] = {}  # begun in rows that are no more; the one of the lowest key is next
        self._steps = unroll_steps
        self._lexicon = Lexicon(vocabulary, input)
        self._pieces: list[Piece] = []

    def sentences(self, corpus: Corpus, file: int, order: Callable = np.arange) -> Iterator[_Sentence]:
        """The sentences of a file, in the order that the function makes of their number n: an array of 0 .. n - 1.

        When all are given out the file is forgotten: of its text only the sentences under way are kept.
        """
        numbers, borders = self._read(corpus, file)
        for number in order(len(borders) - 1).tolist():
            yield _Sentence(numbers[borders[number] : borders[number + 1]], file, number)
        held = {*self.under_way, *self.waiting.values(), *(sentence for sentence, _, _ in self._pieces)}
        for sentence in held:
            sentence.words = sentence.words.copy()
        self._lexicon.forget([sentence.words for sentence in held])

    def _read(self, corpus: Corpus, file: int) -> tuple[np.ndarray, np.ndarray]:
        """All sentences of a file, with their markers, end to end as int32 numbers, and their n + 1 borders."""
        numbers, lengths, counts = [], [np.zeros(1, np.int64)], Counts()
        for text in blocks(corpus.paths[file]):
            lines = split_lines(text)
            sentences = [[BOS, *words, EOS] for line in lines if (words := line.split())]
            numbers.append(self._lexicon.number(list(chain.from_iterable(sentences))))
            lengths.append(np.fromiter(map(len, sentences), np.int64, len(sentences)))
            blank = len(lines) - len(sentences)
            counts += Counts(len(sentences), blank_lines=blank, windows_lines=text.count("\r\n"))
        corpus.check(corpus.paths[file], counts)
        return np.concatenate(numbers), np.cumsum(np.concatenate(lengths))

    def batch(self, source: Iterator[_Sentence]) -> LMBatch | None:
        """The next batch, for which rows that run out take sentences from the source; None if nothing is left."""
        lengths = np.zeros(len(self.under_way), np.int64)
        self._pieces = []
        for row, sentence in enumerate(self.under_way):
            room = self._steps
            while room and (sentence.left or (sentence := self._next(source))):
                take = min(room, sentence.left)
                self.under_way[row] = sentence
                self._pieces.append((sentence, sentence.done, sentence.done + take))
                sentence.done += take
                room -= take
            lengths[row] = self._steps - room
        return _lm_batch(self._pieces, lengths, self._steps, self._lexicon) if self._pieces else None

    def _next(self, source: Iterator[_Sentence]) -> _Sentence | None:
        return self.waiting.pop(min(self.waiting)) if self.waiting else next(source, None)


class EvalStream:
    """All text of a corpus in its own order: every token is predicted exactly once in each direction.

    The last batches are ragged: when there are no more sentences, a row's length falls below T and then to 0. Rows
    keep their place, so that a carried state stays with its row. Every iteration starts from the beginning.
    """

    def __init__(self, corpus: Corpus, vocabulary: Vocabulary, batch_size: int, unroll_steps: int, input: str = "char"):
        self._corpus = corpus
        self._new_rows = partial(_Rows, batch_size, unroll_steps, vocabulary, input)

    def __iter__(self) -> Iterator[LMBatch]:
        rows = self._new_rows()
        files = range(len(self._corpus.paths))
        source = chain.from_iterable(rows.sentences(self._corpus, file) for file in files)
        while batch := rows.batch(source):
            yield batch


Share = tuple[list | None, int, int]  # of a file's sentences: see `_sentences_of_share`
WHOLE: Share = (None, 0, 1)


def _sentences_of_share(order: np.ndarray, base: list | None, offset: int, stride: int) -> np.ndarray:
    """The sentences of a share, in the file's shuffled order. base None: sentences k with k % stride == offset; else every
    stride-th, from offset on, of what older shares left unread: [(share, sentences read)].
    """
    if base is None:
        return order[order % stride == offset]
    return np.concatenate([_sentences_of_share(order, *share)[read:] for share, read in base])[offset::stride]


class TrainStream:
    """Batches without end, epoch after epoch, each in a new order: the share of one of `world_size` ranks.

    In every epoch the files are shuffled and dealt whole to the ranks. Those left over, fewer than the ranks, are
    read by all, of whom each takes the sentences whose number, modulo `world_size`, is its own. Within a file the
    sentences are shuffled. All follows from (seed, epoch), on every platform and with every version of NumPy. At
    the end of an epoch the rows go on with the next: every batch is full, nothing is dropped. One file is in memory
    at a time.

    `position`, also that of each batch, is made of plain containers and arrays. A stream that is given it by `seek`
    goes on with the very batches that would have followed. Given the positions of all ranks of a run, another number
    of ranks goes on with what these have left of the epoch: it is dealt anew in the same way.
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
    ):
        self._corpus = corpus
        self._seed, self._rank, self._world_size, self._shuffle = seed, rank, world_size, shuffle
        self.tokens_per_step = batch_size * unroll_steps * world_size  # of all ranks
        self._new_rows = partial(_Rows, batch_size, unroll_steps, vocabulary, input)
        self._identity = {
            "corpus": corpus.identity,
            "vocabulary": vocabulary.identity,
            "batch_size": batch_size,
            "unroll_steps": unroll_steps,
            "input": input,
            "seed": seed,
            "rank": rank,
            "world_size": world_size,
            "shuffle": shuffle,
        }
        self._go_to(0, 0, 0)

    def __iter__(self) -> "TrainStream":
        return self

    def __next__(self) -> LMBatch:
        batch = self._rows.batch(self._source)
        batch.position = self.position
        return batch

    @property
    def position(self) -> dict:
        """Where the stream stands: so many sentences into the shuffled order of a file; and what the rows hold.

        Of each sentence under way: file, number in the file, steps done.
        """
        files = [str(self._corpus.paths[file]) for file, _ in self._plan[self._shard : self._shard + 1]]
        held = [*self._rows.under_way, *(sentence for _, sentence in sorted(self._rows.waiting.items()))]
        return {
            "epoch": self._epoch,
            "shard": self._shard,  # place in this rank's order of files
            "file": "".join(files),
            "sentence": self._sentence,
            "rows": np.array([(s.file, s.number, s.done) for s in held], np.int64),  # (B + those that wait, 3)
            "history": self._history,
            "identity": self._identity,
        }

    def seek(self, *positions: dict) -> np.ndarray:
        """Go on from the position of this rank, or from those of all ranks of a run.

        From a position of another stream (another seed, corpus ...) it goes on, with a warning, with what is well defined:
        if sentences come in another order, from the beginning of the epoch; otherwise with all that the run has not read.

        Returns for each row the row that had its sentence, -1 if none: of all ranks' rows if their number has changed.
        """
        mine = positions[self._rank if len(positions) == self._world_size else 0]
        saved, epoch = mine["identity"], min(position["epoch"] for position in positions)
        changes = differences(saved, self._identity)
        reordered = {"corpus", "seed", "rank", "world_size", "shuffle"}.intersection(changes)
        if len(positions) == saved["world_size"] != self._world_size:  # all of the run's ranks are there
            changes.pop("rank", None)
            reordered -= {"rank", "world_size"}
        listed = "; ".join(changes.values())
        n_rows = len(self._rows.under_way)
        if reordered:
            log.warning(f"The data is read from the beginning of epoch {epoch}: {listed}.")
            self._go_to(epoch, 0, 0)
            return np.full(n_rows, -1)
        if changes:
            log.warning(f"The data is read from where it was left, although {listed}.")
        if saved["world_size"] == self._world_size:
            self._go_to(mine["epoch"], mine["shard"], mine["sentence"], mine.get("history"))
            return self._take_up([mine], 0, 1)
        reached = [[position[name] for name in ("epoch", "shard", "sentence")] for position in positions]
        self._go_to(epoch, 0, 0, {"ranks": reached, "before": mine.get("history")})
        return self._take_up(positions, self._rank, self._world_size)

    def _go_to(self, epoch: int, shard: int, sentence: int, history: dict | None = None) -> None:
        self._epoch, self._shard, self._sentence, self._history = epoch, shard, sentence, history
        self._plan = self._deal(epoch, self._rank, self._world_size, history)
        self._rows = self._new_rows()
        self._source = self._sentences()

    def _take_up(self, positions: Sequence[dict], part: int, parts: int) -> np.ndarray:
        """Give the rows one part of the sentences that the positions were in the midst of. Those without a row wait.

        Returns for each row the row that had its sentence, or -1.
        """
        n_rows = len(self._rows.under_way)
        had = positions[0]["identity"]["batch_size"]
        rows = np.concatenate([position["rows"][:had] for position in positions])
        waiting = [position["rows"][had:] for position in positions]
        before = np.arange(part * n_rows, (part + 1) * n_rows)
        before[before >= len(rows)] = -1
        mine = np.where(before[:, None] < 0, -1, rows[before])
        surplus = np.concatenate([rows[parts * n_rows :], *waiting])[part::parts]
        sentences = np.concatenate([mine, surplus])  # (n_rows + those that wait, 3): file, number in it, steps done
        for file in np.unique(sentences[sentences[:, 0] >= 0, 0]).tolist():
            places = np.flatnonzero(sentences[:, 0] == file)
            _, numbers, done = sentences[places].T
            found = self._rows.sentences(self._corpus, file, order=lambda n, numbers=numbers: numbers)
            for place, sentence, steps in zip(places.tolist(), found, done.tolist(), strict=True):
                sentence.done = steps
                if place < n_rows:
                    self._rows.under_way[place] = sentence
                elif sentence.left:
                    self._rows.waiting[place] = sentence
        return before

    def _order(self, n: int, of: int, epoch: int) -> np.ndarray:
        """A permutation (n,). Of what NumPy draws, only the raw bits are promised never to change."""
        if not self._shuffle:
            return np.arange(n)
        return np.argsort(np.random.PCG64([self._seed, epoch, of]).random_raw(n), kind="stable")

    def _deal(self, epoch: int, rank: int, size: int, history: dict | None) -> list[tuple[int, Share]]:
        """The files of one of `size` ranks in an epoch, each with its share of the sentences.

        history: how far each of another number of ranks has come, as [epoch, place in its order of files, sentence], and
        their own history. What they have left of the epochs that they had begun is dealt before anything else.
        """
        left: dict[int, list] = {}  # of each file the shares that are not read, and how much of them is
        if not _is_begun(epoch, history):
            left = {file: [(WHOLE, 0)] for file in self._order(len(self._corpus.paths), 0, epoch).tolist()}
        else:
            for other, (reached, shard, sentence) in enumerate(history["ranks"]):
                files = self._deal(epoch, other, len(history["ranks"]), history["before"]) if reached <= epoch else []
                for k, (file, share) in enumerate(files):
                    if reached < epoch or k >= shard:
                        read = sentence if reached == epoch and k == shard else 0
                        left.setdefault(file, []).append((share, read))
        untouched = [file for file, shares in left.items() if shares == [(WHOLE, 0)]]
        dealt = untouched[: len(untouched) // size * size]
        begun = [file for file, shares in left.items() if shares != [(WHOLE, 0)]]
        return [
            *((file, WHOLE) for file in dealt[rank::size]),
            *((file, (None, rank, size)) for file in untouched[len(dealt) :]),
            *((file, (left[file], rank, size)) for file in begun),
        ]

    def _share(self, n: int, file: int, share: Share) -> np.ndarray:
        """Which sentences of the n in a file this rank has still to read in this epoch, in their order."""
        return _sentences_of_share(self._order(n, 1 + file, self._epoch), *share)[self._sentence :]

    def _sentences(self) -> Iterator[_Sentence]:
        """The sentences of this rank from where the stream stands, without end."""
        while True:
            nothing = not (self._shard or self._sentence or _is_begun(self._epoch, self._history))
            for file, share in self._plan[self._shard :]:
                for sentence in self._rows.sentences(self._corpus, file, partial(self._share, file=file, share=share)):
                    nothing = False
                    self._sentence += 1
                    yield sentence
                self._shard, self._sentence = self._shard + 1, 0
            if nothing:
                break
            self._epoch, self._shard = self._epoch + 1, 0
            self._plan = self._deal(self._epoch, self._rank, self._world_size, self._history)
        raise UserError(f"rank {self._rank} of {self._world_size}: the corpus has no sentence for it. Use fewer ranks.")


def _is_begun(epoch: int, history: dict | None) -> bool:
    """Whether an epoch was begun by the ranks of a history."""
    return history is not None and epoch <= max(reached for reached, _, _ in history["ranks"])
