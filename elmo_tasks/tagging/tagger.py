"""A tagger: its training, and what it predicts of sentences and of raw text."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, tee
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np

from elmo_core.checks import as_list, check_sentence, checked, describe
from elmo_core.messages import UserError, format_count, log
from elmo_core.text.language import AUTO, HAN, choose_language
from elmo_core.text.segmenter import Segmenter, segmenter
from elmo_core.text.tokenise import CHINESE
from elmo_core.text.vocabulary import Vocabulary
from elmo_tasks.inputs import Rows
from elmo_tasks.records import Label, check_parts, distinct_labels, label_ids
from elmo_tasks.tagging.data import Sentence, SentenceReader, in_pieces, with_known_labels
from elmo_tasks.tagging.network import Batch, TaggerNetwork
from elmo_tasks.tagging.scheme import are_of_words, check_scheme, detect_scheme, spans
from elmo_tasks.tagging.score import Score
from elmo_tasks.tagging.settings import TaggerSettings
from elmo_tasks.tagging.text import Line, PieceSplitter, Span, joined_words
from elmo_tasks.task import Task, as_given, with_dev

Tokens = Sequence[str]


class Prediction(NamedTuple):
    """The ids of a sentence's labels (T,), and the emissions (T, K), from which the CRF computes probabilities."""

    path: np.ndarray
    emissions: np.ndarray


class Tagger(Task[TaggerSettings]):
    """Labels the tokens of sentences. It is selected by F1 or, of plain labels, accuracy.

    tagger = Tagger.train(sentences, labels, save_dir="runs/tagger")
    tagger = Tagger("runs/tagger")
    tagger.predict(["The cat sat .".split()])      # [["B-NP", "I-NP", "B-VP", "O"]]
    tagger.spans(["The cat sat."])                 # [[Span(begin=0, end=7, text='The cat', label='NP', score=0.98), ..]]

    parts: labels; words, of the training data; known, the words that its tokens are joined to, if its labels are of words;
    pieces, the vocabulary whose entries its tokens are, if they are no whole words.
    """

    name = "tagger"
    settings_type = TaggerSettings
    example = "spans([{text!r}])"

    @classmethod
    def read_training(cls, given, settings):
        reader = SentenceReader(settings)
        data = {name: reader.read(part, name) for name, part in given.items()}
        source = given["train"]
        is_file = isinstance(source, str | Path)
        n_sentences = len(data["train"])
        if is_file and n_sentences == 1 and reader.format_of(Path(source)) in ("columns", "conllu"):
            n_tokens = len(data["train"][0].tokens)
            found = (
                f"found one sentence of {n_tokens:,} tokens: there is no blank line between tokens"
            )
            expected = "several sentences, a token per line, and a blank line after each sentence"
            raise UserError(f"{source}: {found}. Expected {expected}.")
        return data

    @classmethod
    def set_up(cls, data, settings, pretrained):
        elmo_words = pretrained.words if pretrained else ()
        pieces = None
        splitter = PieceSplitter(elmo_words, whole=True)
        if settings.pieces:
            pieces = Vocabulary.from_file(settings.pieces).words
            splitter = PieceSplitter(pieces)
        is_tagged = data["train"][0].is_tagged
        data = {name: in_pieces(part, splitter) for name, part in data.items()}
        sentences = data["train"]
        scheme = settings.scheme
        check_scheme(
            ((f"{s.where}, token {k}", x) for s in sentences for k, x in enumerate(s.labels)),
            scheme,
        )
        if scheme == "auto" and is_tagged:
            scheme = "lac"
        if scheme == "auto":
            scheme = detect_scheme(sentence.labels for sentence in sentences)
        tokens = [token for sentence in sentences for token in sentence.tokens]
        lang = detect_language(tokens, settings.lang, elmo_words)
        user_dict = Segmenter.from_file(settings.user_dict).entries if settings.user_dict else None
        if user_dict and lang != "zh" and settings.unit != "jieba":
            raise UserError("`user_dict` has no effect without `lang=zh` or `unit=jieba`.")
        settings = replace(settings, scheme=scheme, lang=lang, user_dict=user_dict)
        data = with_dev(data, settings)
        parts = {**make_parts(data["train"], settings), "pieces": pieces}
        labels = parts["labels"]
        if (
            settings.scheme == "lac"
            and pretrained
            and not pieces
            and any(str(label)[-2:] == "-I" for label in labels)
        ):
            parts["pieces"] = list(pretrained.words) or parts["words"]
        for name in data.keys() - {"train"}:
            data[name] = with_known_labels(labels, data[name], name)
        counts = [format_count(len(part), f"{name} sentences") for name, part in data.items()]
        log.info(
            f"{', '.join(counts)}; {len(labels)} labels, scheme {settings.scheme}; `lang={settings.lang}`"
        )
        return settings, parts, data

    # The task

    def build(self) -> TaggerNetwork:
        settings = self.settings
        check_parts(self.parts, "labels", Label, "strings, integers and booleans")
        places = ("input", "output") if settings.elmo_at == "both" else (settings.elmo_at,)
        inputs = self.make_inputs(dropout=settings.dropout, elmo_at=places)
        return TaggerNetwork(settings, inputs, self.labels)

    def rows(self, examples: Sequence[Sentence]) -> Rows:
        """The tokens, with jieba's words if the inputs look these up."""
        rows, user_dict = super().rows(examples), self.settings.user_dict
        if self.settings.unit == "jieba":
            segment = Segmenter.from_file(user_dict) if user_dict else segmenter()
            words, rows.positions = segment.words_of(rows.tokens)
            rows.sentences = [[row] for row in words]
        return rows

    def collate(self, examples: Sequence[Sentence]) -> Batch:
        rows = self.rows(examples)
        if not self.network.training:
            return Batch(rows)
        return Batch(
            rows,
            rows.padded(
                [self.label_ids[label] for label in example.labels] for example in examples
            ),
        )

    def decode(self, batch: Batch) -> list[Prediction]:
        emissions = self.network(batch.rows)
        paths = self.network.crf.decode(emissions, batch.rows.lengths)
        return [
            Prediction(path, x[: len(path)])
            for path, x in zip(paths, emissions.numpy(), strict=True)
        ]

    def measure(self, examples: Sequence[Sentence], predictions: Sequence[Prediction]) -> Score:
        of_words = are_of_words(self.labels, self.settings.scheme)
        score = Score(
            self.settings.scheme, of_words, set(self.parts["known" if of_words else "words"])
        )
        for sentence, prediction in zip(examples, predictions, strict=True):
            score.add(sentence.tokens, sentence.labels, self.names(prediction))
        return score

    # What users call

    @property
    def labels(self) -> list[Label]:
        """The labels, in the order of their ids."""
        return self.parts["labels"]

    @cached_property
    def label_ids(self) -> dict[Label, int]:
        return label_ids(self.labels)

    def read(self, data: Any) -> list[Sentence]:
        sentences = SentenceReader(self.settings).read(data, "sentences")
        sentences = in_pieces(sentences, self.piece_splitter)
        return with_known_labels(self.labels, sentences, "the data")

    @overload
    def predict(self, sentences: Iterator[Tokens]) -> Iterator[list[Label]]: ...
    @overload
    def predict(self, sentences: Iterable[Tokens]) -> list[list[Label]]: ...
    def predict(self, sentences):
        """Return the labels of each sentence's tokens; none for an empty sentence. Of an iterator, yield them."""

        def predict(sentences: Iterable[Tokens], window: float | None) -> Iterator[list[Label]]:
            lines = map(Line.from_tokens, checked(sentences, "`spans`"))
            return (labels for _, labels, _ in self.tagged(lines, window, scored=False))

        return as_given(sentences, "sentences", predict)

    @overload
    def spans(self, texts: Iterator[str | Tokens]) -> Iterator[list[Span]]: ...
    @overload
    def spans(self, texts: Iterable[str | Tokens]) -> list[list[Span]]: ...
    def spans(self, texts):
        """Return the spans of each text; without spans in the labels, its tokens. Of an iterator, yield them.

        texts: raw ones, which are split into tokens as in training, or lists of tokens, as if joined by spaces. Each line of
        a text is a sentence of its own.
        """

        def predict(texts: Iterable[str | Tokens], window: float | None) -> Iterator[list[Span]]:
            lines = chain.from_iterable(self.lines(text, k) for k, text in enumerate(texts))
            found = []
            for line, labels, scores in self.tagged(lines, window):
                found += line.spans(labels, self.settings.scheme, scores)
                if line.is_last:
                    yield found
                    found = []

        return as_given(texts, "texts", predict)

    def tagged(
        self, lines: Iterable[Line], window: float | None, scored: bool = True
    ) -> Iterator[tuple[Line, list[Label], list[float]]]:
        """Yield each line with its labels and the probabilities of its spans; none of these if they are not scored.

        window: see `predictions`.
        """
        lines, copies = tee(lines)
        predictions = self.predictions(
            (Sentence(list(line.tokens), None) for line in copies), window
        )
        for line, prediction in zip(lines, predictions, strict=True):
            labels, scores = self.names(prediction), []
            if scored and (
                bounds := [(begin, end) for begin, end, _ in spans(labels, self.settings.scheme)]
            ):
                scores = self.network.crf.span_probabilities(
                    prediction.emissions, prediction.path, bounds
                )
            yield line, labels, scores

    def lines(self, text: str | Tokens, number: int) -> list[Line]:
        """The lines of a text, or one of a list of tokens. number: of the text, for error messages."""
        if as_list(text) is not None:
            return [Line.from_tokens(check_sentence(text, number))]
        if not isinstance(text, str):
            raise TypeError(
                f"text {number}: found {describe(text)}, expected a text, or a list of its tokens."
            )
        lines, begin = [], 0
        for part in text.split("\n"):
            lines.append(replace(self.line(part), begin=begin, is_last=False))
            begin += len(part) + 1
        lines[-1].is_last = True
        return lines

    def line(self, text: str, lang: str = "") -> Line:
        """Split a line of text as in training, or as `lang` says."""
        lang = lang or self.settings.lang
        words = replace(self.tokeniser, lang=lang)(text)
        if self.settings.scheme == "lac" and lang != "characters":
            return Line(text, *self.piece_splitter.split_line(words))
        return Line(text, words, words)

    @cached_property
    def piece_splitter(self) -> PieceSplitter:
        if self.parts["pieces"]:
            return PieceSplitter(self.parts["pieces"])
        elmo_words = list(self.pretrained.words) if self.pretrained else []
        return PieceSplitter(self.parts["words"] + elmo_words, whole=True)

    def names(self, prediction: Prediction) -> list[Label]:
        """The labels of a prediction."""
        return [self.labels[k] for k in prediction.path]


def detect_language(tokens: Sequence[str], lang: str, words: Sequence[str] = ()) -> str:
    """How raw text has to be split into tokens like these; Chinese into characters, if they are such. See `recognise`."""
    found = choose_language(lang, tokens, words)
    if lang != AUTO or found not in CHINESE:
        return found
    if any(len(token) > 1 for token in tokens if HAN.search(token)):
        return "zh"
    if words := [token for token in tokens if len(token) > 1]:
        log.warning(
            f"Text is split into characters, but a token such as {words[0]!r:.60} is longer. Pass tokens."
        )
    return "characters"


def make_parts(train: Sequence[Sentence], settings: TaggerSettings) -> dict[str, Any]:
    """The labels and words of training sentences."""
    labels = distinct_labels(label for sentence in train for label in sentence.labels)
    words = Vocabulary.frequent(token for sentence in train for token in sentence.tokens).words
    known = None
    if are_of_words(labels, settings.scheme):
        pairs = (
            joined_words(sentence.tokens, sentence.labels, settings.scheme) for sentence in train
        )
        known = Vocabulary.frequent(word for word, _ in chain.from_iterable(pairs)).words
    return {"labels": labels, "words": words, "known": known}
