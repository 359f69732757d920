"""A reader: network, words and settings, in memory and as a folder (see elmo_tasks/saved.py).

vocab.txt holds the words of the training data.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core.checks import check_number, check_texts
from elmo_core.machine import runtime
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError
from elmo_core.settings import check_effects, first_of, make
from elmo_core.text.language import AUTO, make_tokeniser
from elmo_core.text.tokens import Vocabulary, sentence_batches, shuffled_batches
from elmo_core.weights import checkpoint
from elmo_core.weights.model_files import vocabulary_words
from elmo_tasks.reading.batch import QuestionGroup, WindowQuestion, make_batch, question_groups, training_groups
from elmo_tasks.reading.data import Passage, Question, TokenisedPassage, read_passages, tokenise_passages
from elmo_tasks.reading.network import BiDAF, ReaderSettings
from elmo_tasks.reading.score import Scores, best_threshold, score
from elmo_tasks.reading.text import Answer, Text, best_answers, span_scores, windows
from elmo_tasks.saved import TrainedModel, part
from elmo_tasks.token_models import load_inputs, train_model
from elmo_tasks.training import Progress, Several, TrainingSettings, grid_of, hold_out, training_folder

TRAINING = TrainingSettings(epochs=20, patience=4, batch_size=8, ema=0.999)  # the defaults
MIN_COUNT = 2  # of a word in the training data, else it is unknown
BATCH_SIZE = 8  # windows per batch
BATCH_TOKENS = 8192  # tokens per batch, padding included
QUESTIONS_PER_CHUNK = 256  # of `iter_answers`


class Reader(TrainedModel):
    """Answers questions about passages.

        reader = Reader("runs/mrc")
        reader.answer("Who lives in Paris?", "Anna lives in Paris.", k=3)  # [Answer("Anna", 0, 4, 0.93), ...]

    words: the words of the training data.
    pretrained: the checkpoint of its biLM, if any.
    """

    kind = "reader"
    listed = "answer", "answers", "iter_answers", "words"
    settings_type = ReaderSettings
    settings: ReaderSettings
    words: Vocabulary = part(Vocabulary, checkpoint.VOCABULARY)

    def make_network(self) -> BiDAF:
        elmo = self.settings.layer(self.pretrained, len(BiDAF.elmo_at)) if self.pretrained else None
        with self.building():
            return BiDAF(self.settings, len(self.words), elmo, self.vectors)

    @classmethod
    def train(
        cls,
        examples: Path | str | Sequence[Mapping[str, Any]],
        *,
        dev: Path | str | Sequence[Mapping[str, Any]] | None = None,
        test: Path | str | Sequence[Mapping[str, Any]] | None = None,
        elmo: Path | str | None = None,
        save_dir: Path | str | None = None,
        overwrite: bool = False,
        resume: bool = False,
        progress: Progress | None = None,
        device: str = "auto",
        lang: str = AUTO,
        user_dict: Path | str | Sequence[str] | None = None,
        layers: str = ReaderSettings.layers,
        elmo_dropout: Several = ReaderSettings.elmo_dropout,
        elmo_l2_coef: Several = ReaderSettings.elmo_l2_coef,
        random_weights: str = ReaderSettings.random_weights,
        cache_gb: float = TRAINING.cache_gb,
        word_vectors: Path | str | None = None,
        word_vectors_limit: int | None = None,
        word_dim: int = ReaderSettings.word_dim,
        min_count: int = MIN_COUNT,
        hidden_dim: int = ReaderSettings.hidden_dim,
        dropout: Several = ReaderSettings.dropout,
        max_seq_len: int = ReaderSettings.max_seq_len,
        doc_stride: int = ReaderSettings.doc_stride,
        max_answer_length: int = ReaderSettings.max_answer_length,
        epochs: int = TRAINING.epochs,
        patience: int = TRAINING.patience,
        batch_size: int = TRAINING.batch_size,
        lr: Several = TRAINING.lr,
        max_grad_norm: Several = TRAINING.max_grad_norm,
        ema: Several = TRAINING.ema,
        seed: int = TRAINING.seed,
    ) -> "Reader":
        """Train a reader. It has the weights of the epoch with the highest F1 on the dev set.

            reader = Reader.train(examples, elmo="zh-news", save_dir="runs/qa")
            reader.scores["dev"]["f1"]

        examples, dev, test: a file of SQuAD, CMRC 2018 or DuReader, or dictionaries as in these: {"context": ...,
        "question": ..., "answers": {"text": [...], "answer_start": [...]}}; empty lists: the passage has no answer.
        Without dev, a tenth of the passages is held out.
        elmo: a checkpoint, or a model's name; None: no ELMo.
        save_dir: folder of the reader; without one, nothing is written. overwrite: replace the reader there. resume:
        continue an interrupted training.
        progress: called with the scores of each epoch.
        lang: how text is tokenised: en, zh, characters, any, none, or auto: recognised. user_dict: words for jieba,
        which tokenises zh: a file, or a list of its lines.
        layers: concat, mix, average, top, a number, or some layers, as in concat:0,1. random_weights: ablation: all, or
        lstm. cache_gb: memory for the layers of the biLM; what needs more is computed in each epoch.
        word_vectors: a file in word2vec's or GloVe's format; word_vectors_limit: only its first N.
        min_count: words that occur less often are unknown.
        max_seq_len: tokens per window; longer passages are read in several windows, whose starts are doc_stride apart.
        max_answer_length: tokens.
        epochs: at most; patience: stop after so many without improvement, 0: never.
        ema: decay of the moving average of the weights, which is saved; 0: off.

        Of several values, as in lr=[0.001, 0.003], the dev set selects one.
        """
        options = {name: value for name, value in locals().items() if name != "cls"}
        check_effects(options, ReaderSettings, TRAINING)
        grid = grid_of(options, ReaderSettings, TrainingSettings)
        check_number("min_count", min_count, 1, integer=True)
        if doc_stride > max_seq_len:
            raise UserError(f"`doc_stride={doc_stride}` is more than `max_seq_len={max_seq_len}`, which skips text.")
        parts = {"examples": examples, "dev": dev, "test": test}
        with training_folder(cls.kind, options) as folder, runtime.on_device(runtime.device_name(device)):
            read = {name: read_passages(part, name) for name, part in parts.items() if part is not None}
            texts = [passage.text for passage in read["examples"]]
            tokeniser = make_tokeniser(lang, texts, vocabulary_words(elmo), user_dict)
            options["lang"] = tokeniser.lang
            questions = (question for passage in read["examples"] for question in passage.questions)
            options["no_answer"] = not all(question.answers for question in questions)
            settings = make(ReaderSettings, {name: first_of(value) for name, value in options.items()})
            data = {name: tokenise_passages(passages, tokeniser) for name, passages in read.items()}
            train = data.pop("examples")
            if dev is None:
                train, data["dev"] = hold_out(train, seed)
            groups = training_groups(train, max_seq_len, doc_stride, settings.no_answer)
            inputs = load_inputs(options, (passage.text.tokens for passage in train))
            tokens = (token for passage in train for text in passage.texts() for token in text.tokens)
            parts = {"words": Vocabulary.frequent(tokens, min_count), "user_dict": tokeniser.segment, **inputs}
            data = {"training": train, **data}
            texts = (text for part in data.values() for passage in part for text in passage.texts())
            sentences = [sentence for text in texts for sentence in text.sentences]

            def prepare(reader: Reader, batch_size: int) -> tuple[Callable, Callable]:
                batches = partial(shuffled_batches, [group.n_tokens for group in groups], batch_size)
                return batches, lambda rows: reader.network.loss(make_batch([groups[k] for k in rows], reader.words))

            def score_part(reader: Reader, passages: Sequence[TokenisedPassage]) -> Scores:
                chooses = settings.no_answer and passages is data["dev"]
                return reader.choose_threshold(passages) if chooses else reader.score(passages)

            return train_model(cls, parts, options, grid, data, sentences, prepare, score_part, folder)

    def evaluate(self, examples: Path | str | Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Score the reader on a file or on dictionaries, as `train` takes them."""
        return self.score(tokenise_passages(read_passages(examples, "examples"), self.tokeniser)).to_dict()

    def answer(self, question: str, passage: str, k: int = 1) -> list[Answer]:
        """The k best answers, best first. Their texts differ; they may overlap. One may be "", see `Answer`."""
        return self.answers([(question, passage)], k)[0]

    def answers(self, questions: Sequence[tuple[str, str]], k: int = 1) -> list[list[Answer]]:
        """The k best answers to each of several questions, given with its passage. Each passage is read once.

        A passage without words gives no answers.
        """
        questions = check_texts(questions, ("question", "passage"))
        check_number("k", k, 1, integer=True)
        by_passage: dict[str, list[Question]] = {}
        for number, (question, passage) in enumerate(questions):
            by_passage.setdefault(passage, []).append(Question(str(number), question, [], []))
        passages = (TokenisedPassage(Passage(text, asked), self.tokeniser) for text, asked in by_passage.items())
        answers = dict(self._answers((passage for passage in passages if passage.text.tokens), k))
        return [answers.get(str(number), []) for number in range(len(questions))]

    def iter_answers(self, questions: Iterable[tuple[str, str]], k: int = 1) -> Iterator[list[Answer]]:
        """Yield the same for any number of questions."""
        questions = iter(questions)
        while chunk := list(islice(questions, QUESTIONS_PER_CHUNK)):
            yield from self.answers(chunk, k)

    def _answers(self, passages: Iterable[TokenisedPassage], k: int) -> Iterator[tuple[str, list[Answer]]]:
        """Yield each question's id and its k best answers over all windows of its passage, in any order."""
        no_answer = self.network.no_answer_score()
        return ((id, best_answers(text, scores, k, no_answer)) for id, text, scores in self._scores(passages))

    def _scores(self, passages: Iterable[TokenisedPassage]) -> Iterator[tuple[str, Text, np.ndarray]]:
        """Yield each question's id, and the scores of all spans of its passage, in any order."""
        scores: dict[str, np.ndarray] = {}  # of the spans of each question whose passage is being read
        left: dict[str, int] = {}  # its windows that are not read yet
        groups = (group for passage in passages for group in self._groups(passage, left))
        for _, batch in sentence_batches(groups, BATCH_SIZE, BATCH_TOKENS, length=attrgetter("n_tokens")):
            with self.inference():
                logits = self.network(make_batch(batch, self.words)).numpy()
            rows = [(group.window, question.id) for group in batch for question in group.questions]
            for (window, id), row in zip(rows, logits, strict=True):
                longest = min(self.settings.max_answer_length, self.settings.max_seq_len, len(window.text.tokens))
                totals = span_scores(row[:, : len(window.tokens)], longest)
                if id not in scores:
                    scores[id] = np.full((len(window.text.tokens), totals.shape[1]), -np.inf, np.float32)
                in_window = scores[id][window.begin : window.end]
                np.maximum(in_window, totals, out=in_window)
                left[id] -= 1
                if not left[id]:
                    del left[id]
                    yield id, window.text, scores.pop(id)

    def _groups(self, passage: TokenisedPassage, left: dict[str, int]) -> Iterator[QuestionGroup]:
        questions = [WindowQuestion(question.id, text) for question, text in passage.questions]
        cover = windows(passage.text, self.settings.max_seq_len, self.settings.doc_stride)
        left |= dict.fromkeys((question.id for question in questions), len(cover))
        for window in cover:
            yield from question_groups(window, questions)

    def predictions(self, passages: Sequence[TokenisedPassage]) -> dict[str, str]:
        """The text of the best answer to each question, by its id."""
        return {id: answers[0].text for id, answers in self.best(passages, 1).items()}

    def best(self, passages: Sequence[TokenisedPassage], k: int) -> dict[str, list[Answer]]:
        """The k best answers to each question, by its id."""
        answers = dict(self._answers(passages, k))
        return {question.id: answers[question.id] for passage in passages for question, _ in passage.questions}

    def choose_threshold(self, passages: Sequence[TokenisedPassage]) -> Scores:
        """From now on, prefer no answer where that makes F1 on these passages highest. Returns the scores there."""
        self.network.threshold.set_value(paddle.zeros([1]))
        no_answer, spans, margins = self.network.no_answer_score(), {}, {}
        for id, text, scores in self._scores(passages):
            margins[id] = float(scores.max()) - no_answer
            spans[id] = best_answers(text, scores, 1)[0].text
        plain, language = [passage.passage for passage in passages], self.settings.lang
        ids = [question.id for passage in plain for question in passage.questions]
        gains = score(plain, spans, language).f1 - score(plain, dict.fromkeys(ids, ""), language).f1
        threshold = best_threshold(gains, np.array([margins[id] for id in ids]))
        self.network.threshold.set_value(paddle.to_tensor([threshold]))
        return score(plain, {id: spans[id] if margins[id] > threshold else "" for id in ids}, language)

    def score(self, passages: Sequence[TokenisedPassage]) -> Scores:
        """Score its answers against the passages' own."""
        return score([passage.passage for passage in passages], self.predictions(passages), self.settings.lang)
