"""A trained tagger: network, dictionaries and settings; saving and loading them.

FOLDER/        as in elmo_tasks/saved.py, and
  vocab.txt    the words of the training data
  labels.txt   the labels
  words.txt    the words of the training data, if the labels are of words that are joined from tokens
  pieces.txt   the vocabulary whose pieces the tokens are; absent if they are whole words
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import tee
from pathlib import Path
from typing import Any

from elmo_core.checks import check_sentence, check_sentences, checked
from elmo_core.machine import runtime
from elmo_core.messages import UserError, format_count, log
from elmo_core.settings import check_effects, first_of, make
from elmo_core.text.language import AUTO
from elmo_core.text.segmenter import Segmenter, segmenter
from elmo_core.text.tokens import Vocabulary, restore_order, sentence_batches
from elmo_core.weights import checkpoint
from elmo_core.weights.model_files import vocabulary_words
from elmo_tasks.saved import TrainedModel, part
from elmo_tasks.tagging.columns import parse_token
from elmo_tasks.tagging.data import (
    Labels,
    Sentence,
    detect_language,
    known_words,
    make_batch,
    make_labels,
    pieces_of,
    training_batches,
    warn_about_labels,
)
from elmo_tasks.tagging.formats import LabelledSentences, LabelNames, SentenceReader
from elmo_tasks.tagging.network import BiGRUCRF, TaggerSettings
from elmo_tasks.tagging.pieces import PieceSplitter
from elmo_tasks.tagging.scheme import are_of_words, detect_scheme, spans
from elmo_tasks.tagging.score import Score
from elmo_tasks.tagging.text import Line, Span
from elmo_tasks.token_models import load_inputs, train_model
from elmo_tasks.training import Progress, Several, TrainingSettings, grid_of, hold_out, training_folder

BATCH_SIZE = 64  # maximum sentences per batch
BATCH_TOKENS = 8192  # maximum tokens per batch, including padding
MAX_TOKENS = 32_768  # of a text: 22 KB each with a small ELMo, 55 KB with the original


class Tagger(TrainedModel):
    """Labels the tokens of sentences.

        tagger = Tagger("runs/tagger")
        tagger.predict(["The cat sat .".split()])      # [["B-NP", "I-NP", "B-VP", "O"]]
        tagger.spans(["The cat sat."])                 # [[Span(begin=0, end=7, text='The cat', label='NP', score=0.98), ..]]

    words, known: the tokens of the training data, and the words joined from them, see `known_words`.
    pretrained: its biLM, if any.
    pieces: the vocabulary whose pieces the tokens are; None if they are whole words.
    vectors: word vectors of a file, if any.
    features, feature_column: the values of a further column of the training data that the tagger reads, and its number.
    """

    kind = "tagger"
    listed = "predict", "iter_predict", "spans", "iter_spans", "tokens", "iter_tokens", "labels", "words"
    settings_type = TaggerSettings
    settings: TaggerSettings
    words: Vocabulary = part(Vocabulary, checkpoint.VOCABULARY)
    labels: Labels = part(Labels, "labels.txt")
    known: Vocabulary | None = part(Vocabulary, "words.txt", default=None)
    pieces: Vocabulary | None = part(Vocabulary, "pieces.txt", default=None)
    features: Sequence[str] = part(list, default=())
    feature_column: int | None = part(int | None, default=None)

    def make_network(self) -> BiGRUCRF:
        n_mixes = len(self.settings.elmo_at.split(","))
        elmo = self.settings.layer(self.pretrained, n_mixes) if self.pretrained else None
        parts = self.settings, len(self.words), self.labels, elmo, self.vectors, self.features
        segment = (self.user_dict or segmenter()) if self.settings.words == "jieba" else None
        with self.building(len(self.labels) ** 2):
            return BiGRUCRF(*parts, segment)

    @classmethod
    def train(
        cls,
        sentences: Path | str | Sequence[Sequence[str]],
        labels: Sequence[Sequence[str]] | None = None,
        *,
        dev: LabelledSentences | None = None,
        test: LabelledSentences | None = None,
        elmo: Path | str | None = None,
        save_dir: Path | str | None = None,
        overwrite: bool = False,
        resume: bool = False,
        progress: Progress | None = None,
        device: str = "auto",
        scheme: str | None = None,
        lang: str = AUTO,
        user_dict: Path | str | Sequence[str] | None = None,
        segmentation: str = TaggerSettings.segmentation,
        words: str = TaggerSettings.words,
        pieces: Path | str | None = None,
        data_format: str | None = None,
        token_column: int | str = 0,
        label_column: int | str = -1,
        label_names: Path | str | Sequence[str] | None = None,
        feature_column: int | None = None,
        layers: str = TaggerSettings.layers,
        elmo_at: str = TaggerSettings.elmo_at,
        elmo_dropout: Several = TaggerSettings.elmo_dropout,
        elmo_l2_coef: Several = TaggerSettings.elmo_l2_coef,
        elmo_trainable: bool = TaggerSettings.elmo_trainable,
        elmo_lr: Several = TrainingSettings.elmo_lr,
        random_weights: str = TaggerSettings.random_weights,
        cache_gb: float = TrainingSettings.cache_gb,
        word_vectors: Path | str | None = None,
        word_vectors_limit: int | None = None,
        word_vectors_trainable: bool = TaggerSettings.word_vectors_trainable,
        word_dim: int = TaggerSettings.word_dim,
        char_cnn: bool = TaggerSettings.char_cnn,
        cell: str = TaggerSettings.cell,
        hidden_dim: int = TaggerSettings.hidden_dim,
        n_layers: int = TaggerSettings.n_layers,
        dropout: Several = TaggerSettings.dropout,
        epochs: int = TrainingSettings.epochs,
        patience: int = TrainingSettings.patience,
        batch_size: int = TrainingSettings.batch_size,
        lr: Several = TrainingSettings.lr,
        emb_lr_factor: Several = TaggerSettings.emb_lr_factor,
        crf_lr_factor: Several = TaggerSettings.crf_lr_factor,
        max_grad_norm: Several = TrainingSettings.max_grad_norm,
        seed: int = TrainingSettings.seed,
    ) -> "Tagger":
        """Train a tagger. It has the weights of the epoch with the highest F1 (plain tags: accuracy) on the dev set.

            tagger = Tagger.train(sentences, labels, elmo="en-reviews", save_dir="runs/ner")
            tagger.scores["dev"]["f1"]

        sentences, labels: lists of tokens and of their labels, or a file that has both.
        dev, test: a file, or a pair of sentences and labels. Without dev, a tenth of the sentences is held out.
        elmo: a checkpoint, or a model's name; None: no ELMo.
        save_dir: folder of the tagger; without one, nothing is written. overwrite: replace the tagger there. resume:
        continue an interrupted training.
        progress: called with the scores of each epoch.
        scheme: bio, iob1, bioes, plain or lac (default: detected). lang: how raw text is tokenised in prediction: en, zh,
        any, characters, none, or auto: recognised. segmentation: of characters with their index in the word (科0 技1):
        none, strip the index, or use it as a feature. words: what ELMo and word vectors look up: tokens, or jieba's words.
        user_dict: words for jieba, a file or a list of its lines.
        pieces: vocabulary whose entries the words of `word/TAG` are split into.
        data_format, token_column, label_column, label_names, feature_column: of files, see docs/sequence-tagging.md.
        layers: concat, mix, average, top, a number, or some layers, as in concat:0,1. elmo_at: input, output, or both, as
        in input,output. elmo_trainable, elmo_lr: fine-tune the biLM, and its learning rate. random_weights: ablation: all,
        or lstm. cache_gb: memory for the layers of a frozen biLM; what needs more is computed in each epoch.
        word_vectors: a file in word2vec's or GloVe's format; word_vectors_limit: only its first N.
        char_cnn: add a character CNN. cell: gru or lstm, with n_layers of size hidden_dim.
        epochs: at most; patience: stop after so many without improvement, 0: never.
        emb_lr_factor, crf_lr_factor: learning rates of the word embeddings and the CRF, relative to lr.

        Of several values, as in lr=[0.001, 0.003], the dev set selects one.
        """
        options = {name: value for name, value in locals().items() if name != "cls"}
        check_effects(options, TaggerSettings, TrainingSettings)
        grid = grid_of(options, TaggerSettings, TrainingSettings)
        vocabulary, elmo_words = Vocabulary.from_file(Path(pieces)) if pieces else None, vocabulary_words(elmo)
        splitter = PieceSplitter(vocabulary.words if vocabulary else elmo_words, whole=vocabulary is None)
        files = data_format, token_column, label_column
        own_words = Segmenter.from_file(user_dict) if user_dict else None
        reader = SentenceReader(*files, segmentation, feature_column, label_names, splitter, lang, own_words)
        parts = {"sentences": (sentences, labels) if labels is not None else sentences, "dev": dev, "test": test}
        with training_folder(cls.kind, options) as folder, runtime.on_device(runtime.device_name(device)):
            data = {name: reader.read_or_pair(part, name) for name, part in parts.items() if part is not None}
            train = data.pop("sentences")
            tokens = [sentence.tokens for sentence in train]
            options["lang"] = detect_language(tokens, segmentation, elmo_words, reader.lang)
            if user_dict and options["lang"] != "zh" and words != "jieba":
                raise UserError("`user_dict` has no effect without `lang=zh` or `words=jieba`.")
            is_tagged = isinstance(sentences, Path | str) and reader.format_of(Path(sentences)) == "tagged"
            options["scheme"] = scheme or ("lac" if is_tagged else detect_scheme(sentence.labels for sentence in train))
            settings = make(TaggerSettings, {name: first_of(value) for name, value in options.items()})
            if dev is None:
                train, data["dev"] = hold_out(train, seed)
            tag_names = make_labels(train)
            warn_about_labels(tag_names, settings.scheme, train, data)
            log.info(
                f"{len(train):,} training and {format_count(len(data['dev']), 'dev sentences')}, {len(tag_names)} labels, "
                f"scheme {settings.scheme}; raw text is tokenised with `lang={settings.lang}`"
            )
            segment = (own_words or segmenter()) if words == "jieba" else None
            inputs = load_inputs(options, (sentence.tokens for sentence in train), segment)
            word_list = Vocabulary.frequent(token for sentence in train for token in sentence.tokens)
            vocabulary = vocabulary or pieces_of(settings.scheme, tag_names, inputs["pretrained"], word_list)
            features = sorted({t.feature for s in train for t in s.tokens}) if feature_column is not None else ()
            parts = {"words": word_list, "labels": tag_names, "pieces": vocabulary, "features": features, **inputs}
            parts["known"] = known_words(train, settings.scheme)
            parts |= {"feature_column": feature_column, "user_dict": own_words}
            data = {"training": train, **data}
            texts = [sentence.tokens for part in data.values() for sentence in part]
            texts = segment.words_of(texts)[0] if elmo and segment else texts

            def prepare(tagger: Tagger, batch_size: int) -> tuple[Callable, Callable]:
                return training_batches(word_list, tag_names, train, batch_size), tagger.network.loss

            return train_model(cls, parts, options, grid, data, texts, prepare, cls.score, folder)

    def predict(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """Return the labels of each sentence's tokens; none for an empty sentence."""
        sentences = check_sentences(sentences)
        return [labels for labels, _ in self._decoded(sentences, math.inf)]

    def iter_predict(self, sentences: Iterable[Sequence[str]]) -> Iterator[list[str]]:
        """Yield the same, for input of any size. It reads 16 batches ahead."""
        for labels, _ in self._decoded(checked(sentences), None):
            yield labels

    def spans(self, texts: Sequence[str | Sequence[str]]) -> list[list[Span]]:
        """Return the spans of each text; without spans in the labels, its tokens.

        texts: raw ones, which are split into tokens as in training, or lists of tokens, as if joined by spaces.
        """
        return list(self._spans(texts, self.settings.scheme, math.inf))

    def iter_spans(self, texts: Iterable[str | Sequence[str]]) -> Iterator[list[Span]]:
        """Yield the same, for input of any size."""
        return self._spans(texts, self.settings.scheme)

    def tokens(self, texts: Sequence[str | Sequence[str]]) -> list[list[Span]]:
        """Return the tokens of each text, given as to `spans`, with their labels and the probabilities of these."""
        return list(self._spans(texts, "plain", math.inf))

    def iter_tokens(self, texts: Iterable[str | Sequence[str]]) -> Iterator[list[Span]]:
        """Yield the same, for input of any size."""
        return self._spans(texts, "plain")

    def _spans(self, texts: Iterable, scheme: str, window: float | None = None) -> Iterator[list[Span]]:
        if isinstance(texts, str) or not isinstance(texts, Iterable):
            raise TypeError(f"texts: found {texts!r:.60}, expected a list of texts.")
        lines, copies = tee(self._line(text, number) for number, text in enumerate(texts))
        decoded = self._decoded((line.tokens for line in copies), window, scheme)
        for line, (labels, scores) in zip(lines, decoded, strict=True):
            yield line.spans(labels, scheme, scores)

    def _line(self, text: str | Sequence[str], number: int) -> Line:
        return self.tokenised(text) if isinstance(text, str) else Line.from_tokens(list(check_sentence(text, number)))

    def tokenised(self, text: str, lang: str = "", where: str = "text") -> Line:
        """Split a line of text as in training or as `lang` says. where: file and line, used in error messages."""
        if self.features:
            raise UserError("This tagger was trained with `feature_column`: it tags columns, not text.")
        lang, segmentation = lang or self.settings.lang, self.settings.segmentation
        words = dataclasses.replace(self.tokeniser, lang=lang)(text)
        if self.settings.scheme == "lac" and lang != "characters":
            return Line(text, *self.piece_splitter.split_line(words))
        if lang == "characters" and segmentation == "strip":  # they carry no positions
            segmentation = "none"
        return Line(text, words, [parse_token(word, segmentation, where) for word in words])

    def tagged(self, lines: Iterable[Line], with_spans: bool = True) -> list[tuple[list[str], list[Span]]]:
        """Return the labels and, if requested, the spans of each line."""
        lines, scheme = list(lines), self.settings.scheme
        tokens = [line.tokens for line in lines]
        decoded = zip(lines, self._decoded(tokens, math.inf, scheme if with_spans else ""), strict=True)
        return [(tags, line.spans(tags, scheme, scores) if with_spans else []) for line, (tags, scores) in decoded]

    @cached_property
    def piece_splitter(self) -> PieceSplitter:
        if self.pieces:
            return PieceSplitter(self.pieces.words)
        elmo_words = vocabulary_words(self.pretrained and self.pretrained.folder)
        return PieceSplitter(self.words.words + elmo_words, whole=True)

    def _decoded(
        self, sentences: Iterable[Sequence[str]], window: float | None, scheme: str = ""
    ) -> Iterator[tuple[list[str], list[float]]]:
        """Yield the labels of each sentence and, given a scheme, the scores of their spans."""
        batches = sentence_batches(_limited(sentences), BATCH_SIZE, BATCH_TOKENS, window)
        return restore_order((positions, self._decode(group, scheme)) for positions, group in batches)

    def _decode(self, group: Sequence[Sequence[str]], scheme: str) -> list[tuple[list[str], list[float]]]:
        nonempty, results = [list(sentence) for sentence in group if len(sentence)], []
        with self.inference():
            paths, emissions = self.network.decode(make_batch(nonempty, self.words)) if nonempty else ([], [])
        for path, x in zip(paths, emissions, strict=True):
            labels, scores = [self.labels[k] for k in path], []
            if scheme:
                bounds = [(begin, end) for begin, end, _ in spans(labels, scheme)]
                scores = self.network.crf.span_probabilities(x[: len(path)], path, bounds)
            results.append((labels, scores))
        return results + [([], [])] * (len(group) - len(nonempty))  # sorted by length: empty ones come last

    def reader(
        self, data_format: str | None, token: int | str, label: int | str = -1, label_names: LabelNames = None
    ) -> SentenceReader:
        """A reader of files for this tagger."""
        how = self.settings.segmentation, self.feature_column, label_names, self.piece_splitter, self.settings.lang
        return SentenceReader(data_format, token, label, *how, self.user_dict)

    def evaluate(
        self,
        sentences: Path | str | Sequence[Sequence[str]],
        labels: Sequence[Sequence[str]] | None = None,
        *,
        data_format: str | None = None,
        token_column: int | str = 0,
        label_column: int | str = -1,
        label_names: Path | str | Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """Score the tagger on sentences and their labels, or on a file that has both, read as by `train`."""
        reader = self.reader(data_format, token_column, label_column, label_names)
        data = reader.read_or_pair((sentences, labels) if labels is not None else sentences, "sentences")
        warn_about_labels(self.labels, self.settings.scheme, [], {"given": data})
        return self.score(data).to_dict()

    def score(self, sentences: Sequence[Sentence], predicted: Sequence[list[str]] | None = None) -> Score:
        """Score the tagger. predicted: its labels."""
        of_words = are_of_words(self.labels, self.settings.scheme)
        known = self.known if of_words else self.words
        score = Score(scheme=self.settings.scheme, of_words=of_words)
        predicted = self.predict([s.tokens for s in sentences]) if predicted is None else predicted
        for sentence, labels in zip(sentences, predicted, strict=True):
            score.add(sentence.tokens, sentence.labels, labels, known)
        return score


def _limited(sentences: Iterable[Sequence[str]]) -> Iterator[Sequence[str]]:
    """Yield the sentences. Raise if one is too long for the memory."""
    for number, tokens in enumerate(sentences):
        if len(tokens) > MAX_TOKENS:
            begin = " ".join(tokens[:5])
            raise UserError(
                f"sentence {number}, which begins with {begin!r:.60}, has {len(tokens):,} tokens, expected at most "
                f"{MAX_TOKENS:,}. Split it, for example into sentences."
            )
        yield tokens
