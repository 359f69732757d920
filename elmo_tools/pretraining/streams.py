"""From text to the batches of a language model. NumPy only.

A language-model batch is B rows of T steps. Each row is an independent stream of sentences, cut
every T steps: its final state in one batch is its initial state in the next. A row that finishes a
sentence takes the next one in shuffled order. For example, two rows of four steps, with the order
"birds sing loudly", "it rains", "no", "we know":

                            batch 1                       batch 2
    row 0  forward  input   <S>    birds  sing   loudly   <S>   we    know  ..
                    target  birds  sing   loudly </S>     we    know  </S>  ..
           backward input   </S>   loudly sing   birds    </S>  know  we    ..
                    target  loudly sing   birds  <S>      know  we    <S>   ..
    row 1  forward  input   <S>    it     rains  <S>      no    ..
                    target  it     rains  </S>   no       </S>  ..
           backward input   </S>   rains  it     </S>     no    ..
                    target  rains  it     <S>    no       <S>   ..

A sentence of n tokens is n + 1 predictions in each direction: `</S>` is never a forward input,
`<S>` never a forward target. An out-of-vocabulary word is read as its characters ("char" input) or
as `<UNK>` ("word" input), and predicted as `<UNK>`. Noise changes what is read, never what is
predicted.

Shapes: B rows, T steps, M steps of all rows of a batch together.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from elmo_core.messages import UserError
from elmo_core.text.characters import BOS, EOS
from elmo_core.text.corpus import Corpus
from elmo_core.text.lexicon import Lexicon, LMBatch, pad_rows
from elmo_core.text.noise import misprints
from elmo_core.text.text_files import blocks, read_sentences, split_lines
from elmo_core.text.vocabulary import Vocabulary


@dataclass(slots=True, eq=False)
class _Sentence:
    """A sentence `<S> w1 .. wn </S>` that a row reads, step by step.

    begin: the place of its <S> in the text of the rows. n_steps: n + 1.
    """

    begin: int = 0
    n_steps: int = 0
    file: int = -1
    index: int = -1  # within the file
    n_done: int = 0  # steps emitted so far
    epoch: int = 0  # on which its noise depends

    @property
    def n_left(self) -> int:
        return self.n_steps - self.n_done


Segment = tuple[_Sentence, int, int]  # a sentence's steps from .. to
# the rows of the ids of a text, which are the same one without noise
PREDICTED = 0
READ = -1
NOISE_KEY = 1  # so that noise and order are drawn from different bits


def _lm_batch(
    ids: np.ndarray, lengths: np.ndarray, steps: int, lexicon: Lexicon, scored: bool = True
) -> LMBatch:
    """Build a batch of rows of the given lengths (B,) from their ids, end to end (4, M).

    ids: forward and backward inputs, forward and backward targets.
    """
    tokens, index = lexicon.unique(ids[:2].ravel())
    forward_input, backward_input = np.split(index, 2)
    forward_target, backward_target = lexicon.targets(ids[2:])
    return LMBatch(
        tokens=tokens,
        forward_input=pad_rows(forward_input, lengths, steps),
        backward_input=pad_rows(backward_input, lengths, steps),
        forward_target=pad_rows(forward_target, lengths, steps),
        backward_target=pad_rows(backward_target, lengths, steps),
        lengths=lengths,
        scored=scored,
    )


class _RowStreams:
    """B rows of running sentences, from which batches are cut.

    noise: the share of words read with a misprint.
    """

    def __init__(
        self,
        batch_size: int,
        unroll_steps: int,
        vocabulary: Vocabulary,
        input: str,
        noise: float = 0.0,
        seed: int = 0,
    ):
        self.current = [_Sentence() for _ in range(batch_size)]
        self._steps = unroll_steps
        self._noise = noise
        self._seed = seed
        self._lexicon = Lexicon(vocabulary, input)
        # The text: sentences of earlier files that are in use, then the current file. int32 (1, n),
        # or with noise (2, n): the first row is predicted, the second one is read.
        self._ids = np.zeros((2 if noise else 1, 0), np.int32)
        self._segments: list[Segment] = []  # of the current batch, row after row

    def sentences(
        self,
        corpus: Corpus,
        file: int,
        order: Callable[[int], np.ndarray] = np.arange,
        epoch: int = 0,
    ) -> Iterator[_Sentence]:
        """Yield a file's sentences.

        order: maps their number n to the indices to yield, each from 0 to n - 1.
        Afterwards the text is dropped, except for sentences still in use.
        """
        begins, n_steps = self._read(corpus, file, epoch)
        for index in order(len(begins)).tolist():
            yield _Sentence(begins[index], n_steps[index], file, index, epoch=epoch)
        self._forget_text()

    def _forget_text(self) -> None:
        """Drop all text but the sentences in use, which are moved together."""
        in_use = set(self.current)
        in_use.update(sentence for sentence, _, _ in self._segments)
        kept = [self._ids[:, :0]]
        begin = 0
        for sentence in in_use:
            end = sentence.begin + sentence.n_steps + 1
            kept.append(self._ids[:, sentence.begin : end])
            sentence.begin = begin
            begin += sentence.n_steps + 1
        self._ids = np.concatenate(kept, axis=1)
        self._lexicon.prune(self._ids)

    def _read(self, corpus: Corpus, file: int, epoch: int) -> tuple[list[int], list[int]]:
        """Read all sentences of a file with their markers, behind the text in use.

        Returns where in the text they begin, and their numbers of steps.
        """
        random = np.random.PCG64([self._seed, epoch, file, NOISE_KEY])
        ids = [self._ids]
        n_steps = []
        for text in blocks(corpus.paths[file]):
            words = []
            for line in split_lines(text):
                tokens = line.split()
                if tokens:
                    words += [BOS, *tokens, EOS]
                    n_steps.append(len(tokens) + 1)
            versions = [self._lexicon.ids(words)]
            if self._noise:
                versions.append(self._with_noise(words, versions[PREDICTED], random))
            ids.append(np.stack(versions))
        begin = self._ids.shape[1]
        self._ids = np.concatenate(ids, axis=1)
        lengths = np.array(n_steps, np.int64) + 1
        begins = begin + np.cumsum(lengths) - lengths
        return begins.tolist(), n_steps

    def _with_noise(
        self, words: list[str], ids: np.ndarray, random: np.random.BitGenerator
    ) -> np.ndarray:
        """The ids (n,) of words (n,), some of which are misprinted. ids: without misprints."""
        positions, changed = misprints(words, self._noise, random)
        noisy = ids.copy()
        noisy[positions] = self._lexicon.ids(changed)
        return noisy

    def restore(self, corpus: Corpus, saved: np.ndarray) -> None:
        """Restore the rows' sentences (B, 4): file, index in it, steps emitted, epoch.

        IndexError: there are none such.
        """
        self.current = []
        for file, index, n_done, epoch in saved.tolist():
            sentence = _Sentence(file=file, index=index, n_done=n_done, epoch=epoch)
            self.current.append(sentence)
        # a row that has not read anything has no file
        texts = {(sentence.file, sentence.epoch) for sentence in self.current if sentence.file >= 0}
        for file, epoch in sorted(texts):
            self._restore_places(corpus, file, epoch)
        for sentence in self.current:
            has_no_place = sentence.file >= 0 and sentence.index < 0
            if has_no_place or not 0 <= sentence.n_done <= sentence.n_steps:
                raise IndexError(f"no sentence of the text: {saved.tolist()!r:.80}")

    def _restore_places(self, corpus: Corpus, file: int, epoch: int) -> None:
        """Read those of the rows' sentences that are of one file in one epoch."""
        rows = [s for s in self.current if (s.file, s.epoch) == (file, epoch)]
        indices = np.array([sentence.index for sentence in rows])
        loaded = self.sentences(corpus, file, lambda n: indices, epoch)
        for sentence, source in zip(rows, loaded, strict=True):
            sentence.begin = source.begin
            sentence.n_steps = source.n_steps

    def batch(self, source: Iterator[_Sentence]) -> LMBatch | None:
        """Cut the next batch; None if nothing is left.

        Rows that have finished their sentence take others from the source.
        """
        lengths = np.zeros(len(self.current), np.int64)
        self._segments = []
        for row in range(len(self.current)):
            lengths[row] = self._advance(row, source)
        if not self._segments:
            return None
        return _lm_batch(self._segment_ids(), lengths, self._steps, self._lexicon)

    def _advance(self, row: int, source: Iterator[_Sentence]) -> int:
        """Add the segments of a row's next T steps. Returns their number of steps, at most T."""
        room = self._steps
        while room:
            sentence = self.current[row]
            if not sentence.n_left:
                sentence = next(source, None)
                if sentence is None:
                    break
                self.current[row] = sentence
            n = min(room, sentence.n_left)
            self._segments.append((sentence, sentence.n_done, sentence.n_done + n))
            sentence.n_done += n
            room -= n
        return self._steps - room

    def _segment_ids(self) -> np.ndarray:
        """The ids (4, M) of the segments, as `_lm_batch` takes them."""
        first = np.array([sentence.begin + begin for sentence, begin, _ in self._segments])
        last = np.array([s.begin + s.n_steps - begin for s, begin, _ in self._segments])
        lengths = np.array([end - begin for _, begin, end in self._segments])
        # the step of each place (M,) within its segment
        steps = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        forward = np.repeat(first, lengths) + steps
        backward = np.repeat(last, lengths) - steps
        read = self._ids[READ]
        predicted = self._ids[PREDICTED]
        return np.stack(
            [read[forward], read[backward], predicted[forward + 1], predicted[backward - 1]]
        )


PART = 1024  # steps of a text that a row reads at a time, and the rest of the last sentence
WARM_UP = 128  # steps before its part that a row reads without being scored


class EvalStream:
    """A corpus in file order: every token is predicted exactly once in each direction.

    A single row reads the text from its beginning to its end. Several rows take parts of it in
    turn, and each first reads the WARM_UP steps before its part, in batches that are not scored:
    then its state, whatever it was, is nearly that of the single row, and the scores do not depend
    on the number of rows. The backward direction reads each sentence from its end, but, as in
    training, the sentences in the same order: before a part it reads what precedes it, too.

    Rows are never reordered, so a carried state stays with its row. A row without text has
    length 0.
    """

    def __init__(
        self,
        corpus: Corpus,
        vocabulary: Vocabulary,
        batch_size: int,
        unroll_steps: int,
        input: str = "char",
    ):
        self._corpus = corpus
        self._vocabulary = vocabulary
        self._rows = batch_size
        self._steps = unroll_steps
        self._input = input

    def __iter__(self) -> Iterator[LMBatch]:
        parts = self._parts()
        last_part: list[list[str]] = []
        while True:
            block = list(islice(parts, self._rows))  # a part for each row
            if not block:
                return
            lexicon = Lexicon(self._vocabulary, self._input)
            rows = [_steps_of(part, lexicon) for part in block]
            if self._rows > 1:
                # what precedes a row's part is the part of the row before it
                preceding = [_steps_of(last_part, lexicon), *rows[:-1]]
                warm_ups = [steps[:, -WARM_UP:] for steps in preceding]
                yield from self._batches(warm_ups, lexicon, scored=False)
            yield from self._batches(rows, lexicon)
            last_part = block[-1]

    def _parts(self) -> Iterator[list[list[str]]]:
        """Yield the parts of the text: sentences of at least PART steps together."""
        part = []
        steps = 0
        for path in self._corpus.paths:
            for words in read_sentences(path):
                if words:
                    part.append([BOS, *words, EOS])
                    steps += len(words) + 1
                if steps >= PART:
                    yield part
                    part = []
                    steps = 0
        if part:
            yield part

    def _batches(
        self, rows: list[np.ndarray], lexicon: Lexicon, scored: bool = True
    ) -> Iterator[LMBatch]:
        """Cut rows of ids (4, n) into batches of T steps."""
        longest = max(row.shape[1] for row in rows)
        for begin in range(0, longest, self._steps):
            cut = [row[:, begin : begin + self._steps] for row in rows]
            lengths = np.zeros(self._rows, np.int64)
            lengths[: len(cut)] = [row.shape[1] for row in cut]
            yield _lm_batch(np.concatenate(cut, axis=1), lengths, self._steps, lexicon, scored)


def _steps_of(part: list[list[str]], lexicon: Lexicon) -> np.ndarray:
    """The ids (4, n) of a part's steps, as `_lm_batch` takes them."""
    steps = [np.zeros((4, 0), np.int32)]
    for sentence in part:
        forward = lexicon.ids(sentence)
        backward = forward[::-1]
        steps.append(np.stack([forward[:-1], backward[:-1], forward[1:], backward[1:]]))
    return np.concatenate(steps, axis=1)


class TrainStream:
    """Endless shuffled batches for one of `world_size` ranks.

    Each epoch, the files are shuffled and dealt whole to the ranks. Leftover files (fewer than
    ranks) are read by all ranks; each takes the sentences whose index modulo `world_size` equals
    its rank. Sentences are shuffled within a file. The order depends only on (seed, epoch), on
    every platform and NumPy version. Rows run on across epochs: every batch is full, nothing is
    dropped. One file is in memory at a time. Noise depends on (seed, epoch, file) only.

    `position` (also stored in each batch) consists of plain containers and arrays. A stream that
    seeks one continues with exactly the batches that would have followed.
    settings: those on which the batches depend, except for the rank.
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
        self._corpus = corpus
        self._seed = seed
        self._rank = rank
        self._world_size = world_size
        self.tokens_per_step = batch_size * unroll_steps * world_size  # of all ranks
        self.settings: dict[str, Any] = {
            "corpus": corpus.identity,
            "vocabulary": vocabulary.identity,
            "batch_size": batch_size,
            "unroll_steps": unroll_steps,
            "input": input,
            "seed": seed,
            "world_size": world_size,
            "noise": noise,
        }
        self._new_rows = partial(
            _RowStreams,
            batch_size=batch_size,
            unroll_steps=unroll_steps,
            vocabulary=vocabulary,
            input=input,
            noise=noise,
            seed=seed,
        )
        self.start(epoch=0)

    def __iter__(self) -> "TrainStream":
        return self

    def __next__(self) -> LMBatch:
        batch = self._rows.batch(self._source)
        batch.position = self.position
        return batch

    @property
    def position(self) -> dict[str, Any]:
        """The stream's position: sentences read from the current file, and those in the rows."""
        at_end = self._shard == len(self._files)
        rows = [(s.file, s.index, s.n_done, s.epoch) for s in self._rows.current]
        return {
            "epoch": self._epoch,
            "shard": self._shard,  # index in this rank's list of files
            "file": "" if at_end else str(self._corpus.paths[self._files[self._shard]]),
            "sentence": self._sentence,
            "rows": np.array(rows, np.int64),  # (B, 4)
        }

    def seek(self, position: dict[str, Any]) -> None:
        """Continue from a position of a stream with the same settings and rank.

        IndexError: it is not in the text.
        """
        self.start(position["epoch"], position["shard"], position["sentence"])
        self._rows.restore(self._corpus, position["rows"])

    def start(self, epoch: int, shard: int = 0, sentence: int = 0) -> None:
        """Start with a sentence of a shard, with empty rows."""
        self._epoch = epoch
        self._shard = shard
        self._sentence = sentence
        self._files, self._n_own = self._deal_files()
        self._rows: _RowStreams = self._new_rows()
        self._source = self._sentences()

    def _permutation(self, n: int, key: int) -> np.ndarray:
        """A permutation (n,) of this epoch.

        It is made of raw bits: the only draws that NumPy guarantees never to change.
        """
        bits = np.random.PCG64([self._seed, self._epoch, key]).random_raw(n)
        return np.argsort(bits, kind="stable")

    def _deal_files(self) -> tuple[list[int], int]:
        """Deal the files of this epoch.

        Returns those that this rank reads, in order, and how many of them it reads alone.
        """
        files = self._permutation(len(self._corpus.paths), 0).tolist()
        n_dealt = len(files) // self._world_size * self._world_size
        own = files[self._rank : n_dealt : self._world_size]
        shared = files[n_dealt:]
        return own + shared, len(own)

    def _unread(self, n: int, file: int) -> np.ndarray:
        """Of a file's n sentences, the indices that this rank has yet to read in this epoch."""
        order = self._permutation(n, 1 + file)
        if self._shard >= self._n_own:
            order = order[order % self._world_size == self._rank]
        return order[self._sentence :]

    def _sentences(self) -> Iterator[_Sentence]:
        """Yield this rank's sentences from the stream's position on, without end."""
        while True:
            is_whole_epoch = self._shard == 0 and self._sentence == 0
            n_yielded = 0
            for file in self._files[self._shard :]:
                order = partial(self._unread, file=file)
                for sentence in self._rows.sentences(self._corpus, file, order, self._epoch):
                    n_yielded += 1
                    self._sentence += 1
                    yield sentence
                self._shard += 1
                self._sentence = 0
            if is_whole_epoch and not n_yielded:
                raise UserError(
                    f"rank {self._rank} of {self._world_size}: the corpus has no sentence for it. "
                    "Use fewer ranks."
                )
            self._epoch += 1
            self._shard = 0
            self._files, self._n_own = self._deal_files()
