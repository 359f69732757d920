"""A tagger: its training, and what it predicts of sentences and of raw text."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np

from elmo_core.checks import as_list, check_sentence, describe
from elmo_core.messages import UserError, format_count, log
from elmo_core.text.language import AUTO, HAN, choose_language
from elmo_core.text.segmenter import Segmenter, segmenter
from elmo_core.text.tokenise import CHINESE
from elmo_core.text.vocabulary import Vocabulary
from elmo_tasks.inputs import PretrainedELMo, Rows
from elmo_tasks.records import Label, check_parts, distinct_labels, label_ids
from elmo_tasks.tagging.constraints import WordConstraints, with_spaces
from elmo_tasks.tagging.data import Sentence, SentenceReader, in_pieces, with_known_labels
from elmo_tasks.tagging.network import Batch, TaggerNetwork
from elmo_tasks.tagging.scheme import are_of_words, check_scheme, detect_scheme, spans
from elmo_tasks.tagging.score import TaggerScore
from elmo_tasks.tagging.settings import TaggerSettings
from elmo_tasks.tagging.text import Line, PieceSplitter, Span, joined_words
from elmo_tasks.task import Task, checked_stream, with_dev

Text = str | Sequence[str]  # raw, or its tokens
COLUMNS = ("columns", "conllu")  # formats with a token per line


class Prediction(NamedTuple):
    """The ids of a sentence's labels (T,), and the emissions (T, K), which give probabilities."""

    path: np.ndarray
    emissions: np.ndarray


class Tagger(Task[TaggerSettings, Sentence, Prediction]):
    """Labels the tokens of texts. The epoch with the best F1 or, of plain labels, accuracy is kept.

        tagger = Tagger.train(sentences, labels, save_dir="runs/tagger")
        tagger = Tagger("runs/tagger")
        tagger.predict(["The cat sat ."])    # [["B-NP", "I-NP", "B-VP", "O"]]
        tagger.spans("The cat sat.")         # [Span(begin=0, end=7, text='The cat', ...), ...]

    It is trained on a file, a table, or lists of tokens and lists of their labels. A text to
    predict is raw, where each line is a sentence of its own and is split into tokens as in
    training, or a list of tokens.

    parts: labels; words, of the training data; known, the words that its tokens are joined to, if
    its labels are of words; pieces, the vocabulary whose entries its tokens are, if they are no
    whole words.
    """

    name = "tagger"
    settings_type = TaggerSettings
    network: TaggerNetwork

    def __init__(
        self,
        folder: str | Path = "",
        device: str = "auto",
        precision: str = "float32",
        user_dict: str | Path | Sequence[str] | None = None,
    ):
        """Load a trained tagger, as `Task` does.

        user_dict: words, a file or a list of its lines, as for jieba: a word and, after spaces, its
        frequency and its tag, if they matter. They come to those of the training, and `save` saves
        them. A tagger of words over characters keeps each whole, with its tag; the frequency has no
        effect, but 0 makes each character a word. If tokens are jieba's words, they are for jieba.
        """
        super().__init__(folder, device, precision)
        if user_dict is not None:
            entries = Segmenter.from_file(user_dict).entries
            entries = [*(self.settings.user_dict or ()), *entries]
            settings = replace(self.settings, user_dict=entries)
            check_user_dict(settings, self.labels)
            self.settings = settings

    # What users call

    @property
    def labels(self) -> list[Label]:
        """The labels, in the order of their ids."""
        return self.parts["labels"]

    @overload
    def predict(self, texts: str) -> list[Label]: ...
    @overload
    def predict(self, texts: Iterable[Text]) -> list[list[Label]]: ...
    def predict(self, texts: str | Iterable[Text]) -> list[Label] | list[list[Label]]:
        """Return the labels of each text's tokens; of one raw text, its labels."""
        return self._one_or_all(texts, self.results)

    def iter_predict(self, texts: Iterable[Text]) -> Iterator[list[Label]]:
        """Like `predict`, but lazy, for any number of texts: reads ahead some batches."""
        return self.results(checked_stream(texts), is_lazy=True)

    @overload
    def spans(self, texts: str) -> list[Span]: ...
    @overload
    def spans(self, texts: Iterable[Text]) -> list[list[Span]]: ...
    def spans(self, texts: str | Iterable[Text]) -> list[Span] | list[list[Span]]:
        """Return the spans of each text; of one raw text, its spans.

        Without spans in the labels, they are the tokens. The offsets are those in the raw text, or
        in the tokens as if joined by spaces.
        """
        return self._one_or_all(texts, self._spans)

    def iter_spans(self, texts: Iterable[Text]) -> Iterator[list[Span]]:
        """Like `spans`, but lazy, for any number of texts: reads ahead some batches."""
        return self._spans(checked_stream(texts), is_lazy=True)

    def _spans(self, texts: Iterable[Text], is_lazy: bool = False) -> Iterator[list[Span]]:
        found: list[Span] = []
        for line, labels, scores in self.tagged(self._lines(texts), is_lazy):
            found += line.spans(labels, self.settings.scheme, scores)
            if line.is_last:
                yield found
                found = []

    def tagged(
        self, lines: Iterable[Line], is_lazy: bool = True, scored: bool = True
    ) -> Iterator[tuple[Line, list[Label], list[float]]]:
        """Yield each line with its labels and the probabilities of its spans.

        is_lazy: see `predicted`. scored: False: without the probabilities, which take time.
        """
        for line, prediction in self.predicted(lines, is_lazy):
            labels = self.names(prediction)
            bounds = []
            if scored:
                bounds = [(begin, end) for begin, end, _ in spans(labels, self.settings.scheme)]
            scores = []
            if bounds:
                scores = self.network.crf.span_probabilities(
                    prediction.emissions, prediction.path, bounds
                )
            yield line, labels, scores

    # Its data

    @classmethod
    def read_data(cls, data: Any, name: str, settings: TaggerSettings) -> list[Sentence]:
        reader = SentenceReader(settings)
        sentences = reader.read(data, name)
        is_one = name == "train" and isinstance(data, str | Path) and len(sentences) == 1
        if is_one and reader.format_of(Path(data)) in COLUMNS:
            n_tokens = len(sentences[0].tokens)
            found = (
                f"found one sentence of {n_tokens:,} tokens: there is no blank line between tokens"
            )
            expected = "several sentences, a token per line, and a blank line after each sentence"
            raise UserError(f"{data}: {found}. Expected {expected}.")
        return sentences

    def complete(self, examples: list[Sentence]) -> list[Sentence]:
        sentences = in_pieces(examples, self.piece_splitter)
        return with_known_labels(self.labels, sentences, "the data")

    @classmethod
    def set_up(
        cls,
        data: dict[str, list[Sentence]],
        settings: TaggerSettings,
        pretrained: PretrainedELMo | None,
    ) -> tuple[TaggerSettings, dict[str, Any], dict[str, list[Sentence]]]:
        elmo_words = pretrained.words if pretrained else ()
        pieces = None
        splitter = PieceSplitter(elmo_words, whole=True)
        if settings.pieces:
            pieces = Vocabulary.from_file(settings.pieces).words
            splitter = PieceSplitter(pieces)
        is_tagged = data["train"][0].is_tagged
        data = {name: in_pieces(part, splitter) for name, part in data.items()}
        scheme = chosen_scheme(data["train"], settings.scheme, is_tagged)
        tokens = list(chain.from_iterable(sentence.tokens for sentence in data["train"]))
        lang = detect_language(tokens, settings.lang, elmo_words)
        user_dict = None
        if settings.user_dict:
            user_dict = Segmenter.from_file(settings.user_dict).entries
        settings = replace(settings, scheme=scheme, lang=lang, user_dict=user_dict)
        data = with_dev(data, settings)
        parts = {**make_parts(data["train"], settings), "pieces": pieces}
        labels = parts["labels"]
        check_user_dict(settings, labels)
        has_inner_pieces = any(str(label).endswith("-I") for label in labels)
        if settings.scheme == "lac" and pretrained and not pieces and has_inner_pieces:
            parts["pieces"] = list(pretrained.words) or parts["words"]
        for name in data.keys() - {"train"}:
            data[name] = with_known_labels(labels, data[name], name)
        counts = [format_count(len(part), f"{name} sentences") for name, part in data.items()]
        scheme = f"{len(labels)} labels, scheme {settings.scheme}"
        log.info(f"{', '.join(counts)}; {scheme}; `lang={settings.lang}`")
        return settings, parts, data

    # The task

    def build(self) -> TaggerNetwork:
        settings = self.settings
        check_parts(self.parts, "labels", Label, "strings, integers and booleans")
        places = ("input", "output") if settings.elmo_at == "both" else (settings.elmo_at,)
        inputs = self.make_inputs(dropout=settings.dropout, elmo_at=places)
        return TaggerNetwork(settings, inputs, self.labels)

    def rows(self, examples: Sequence[Sentence | Line]) -> Rows:
        """The tokens, with jieba's words if the inputs look these up."""
        rows = super().rows(examples)
        user_dict = self.settings.user_dict
        if self.settings.unit == "jieba":
            segment = Segmenter.from_file(user_dict) if user_dict else segmenter()
            words, rows.positions = segment.words_of(rows.tokens)
            rows.sentences = [[row] for row in words]
        return rows

    def collate(self, examples: Sequence[Sentence | Line]) -> Batch:
        rows = self.rows(examples)
        if self.network.training:
            ids = [self.ids(sentence.labels) for sentence in examples]
            return Batch(rows, rows.padded(ids))
        if not self.constraints:
            return Batch(rows)
        texts = [example.spaced if isinstance(example, Line) else "" for example in examples]
        return Batch(rows, penalties=self.constraints.scores(rows.tokens, texts, rows.steps))

    @cached_property
    def constraints(self) -> WordConstraints | None:
        """The constraints on words, if this tagger joins characters to words."""
        settings = self.settings
        if not finds_words(settings, self.labels):
            return None
        dictionary = Segmenter.from_file(settings.user_dict or ())
        return WordConstraints(self.labels, settings.scheme, dictionary)

    def decode(self, batch: Batch) -> list[Prediction]:
        emissions = self.network(batch.rows).numpy() + batch.penalties
        paths = self.network.crf.decode(emissions, batch.rows.lengths)
        return [Prediction(path, x[: len(path)]) for path, x in zip(paths, emissions, strict=True)]

    def measure(
        self, examples: Sequence[Sentence], predictions: Sequence[Prediction]
    ) -> TaggerScore:
        of_words = are_of_words(self.labels, self.settings.scheme)
        known = set(self.parts["known" if of_words else "words"])
        score = TaggerScore(self.settings.scheme, of_words, known)
        for sentence, prediction in zip(examples, predictions, strict=True):
            score.add(sentence.tokens, sentence.labels, self.names(prediction))
        return score

    def usage(self, text: str) -> str:
        return f"spans({text!r})"

    def results(self, texts: Iterable[Text], is_lazy: bool = False) -> Iterator[list[Label]]:
        labels: list[Label] = []
        for line, prediction in self.predicted(self._lines(texts), is_lazy):
            labels += self.names(prediction)
            if line.is_last:
                yield labels
                labels = []

    @cached_property
    def label_ids(self) -> dict[Label, int]:
        """The number of each label."""
        return label_ids(self.labels)

    def ids(self, labels: Sequence[Label]) -> list[int]:
        """The numbers of labels."""
        return [self.label_ids[label] for label in labels]

    def _lines(self, texts: Iterable[Text]) -> Iterator[Line]:
        return chain.from_iterable(self.lines(text, number) for number, text in enumerate(texts))

    def lines(self, text: Text, number: int) -> list[Line]:
        """The lines of a text, or one of a list of tokens.

        number: of the text, for error messages.
        """
        if as_list(text) is not None:
            return [Line.from_tokens(check_sentence(text, number, of_texts=""))]
        if not isinstance(text, str):
            raise TypeError(
                f"text {number}: found {describe(text)}, expected a text, or a list of its tokens."
            )
        lines = []
        begin = 0
        for part in text.split("\n"):
            lines.append(replace(self.line(part), begin=begin, is_last=False))
            begin += len(part) + 1
        lines[-1].is_last = True
        return lines

    def line(self, text: str, lang: str = "") -> Line:
        """Split a line of text as in training, or as `lang` says."""
        lang = lang or self.settings.lang
        words = replace(self.tokeniser, lang=lang)(text)
        if lang == "characters":
            tokens = [self.piece_splitter.normalised(word) for word in words]
            return Line(text, words, tokens, spaced=with_spaces(text))
        if self.settings.scheme == "lac":
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
    """How raw text has to be split into tokens like these; see `recognise`.

    Chinese is split into characters, if the tokens are such.
    """
    found = choose_language(lang, tokens, words)
    if lang != AUTO or found not in CHINESE:
        return found
    if any(len(token) > 1 for token in tokens if HAN.search(token)):
        return "zh"
    longer = next((token for token in tokens if len(token) > 1), None)
    if longer:
        found = f"a token such as {longer!r:.60} is longer"
        log.warning(f"Text is split into characters, but {found}. Pass tokens.")
    return "characters"


def finds_words(settings: TaggerSettings, labels: Sequence[Label]) -> bool:
    """Whether a tagger with these settings and labels joins characters to words."""
    return settings.lang == "characters" and are_of_words(labels, settings.scheme)


def check_user_dict(settings: TaggerSettings, labels: Sequence[Label]) -> None:
    """Raise unless the dictionary has an effect on the tagger, which has the dictionary's tags."""
    if not settings.user_dict:
        return
    if finds_words(settings, labels):
        WordConstraints(labels, settings.scheme, Segmenter.from_file(settings.user_dict))
    elif settings.lang != "zh" and settings.unit != "jieba":
        reason = f"its tokens are neither characters nor jieba's words (`lang={settings.lang}`)"
        if settings.lang == "characters":
            reason = "its labels do not say which word each character belongs to"
        raise UserError(f"`user_dict` has no effect on the tagger: {reason}. Leave it out.")


def chosen_scheme(sentences: Sequence[Sentence], scheme: str, is_tagged: bool) -> str:
    """The scheme of the sentences' labels, which are checked.

    is_tagged: they were read as `word/TAG`.
    """
    check_scheme(labels_with_places(sentences), scheme)
    if scheme != "auto":
        return scheme
    if is_tagged:
        return "lac"
    return detect_scheme(sentence.labels for sentence in sentences)


def labels_with_places(sentences: Sequence[Sentence]) -> Iterator[tuple[str, Label]]:
    """The labels of all tokens, each after where it is."""
    for sentence in sentences:
        for k, label in enumerate(sentence.labels):
            yield f"{sentence.where}, token {k}", label


def make_parts(train: Sequence[Sentence], settings: TaggerSettings) -> dict[str, Any]:
    """The labels and words of training sentences."""
    labels = distinct_labels(chain.from_iterable(sentence.labels for sentence in train))
    words = Vocabulary.frequent(chain.from_iterable(sentence.tokens for sentence in train)).words
    known = None
    if are_of_words(labels, settings.scheme):
        pairs = (
            joined_words(sentence.tokens, sentence.labels, settings.scheme) for sentence in train
        )
        known = Vocabulary.frequent(word for word, _ in chain.from_iterable(pairs)).words
    return {"labels": labels, "words": words, "known": known}
