"""A reader: its training, and the answers that it finds."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, tee
from pathlib import Path
from typing import Any, overload

import numpy as np

from elmo_core.checks import check_number, check_texts
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError
from elmo_core.text.language import make_tokeniser
from elmo_core.text.segmenter import Segmenter
from elmo_core.text.tokens import SPECIAL_TOKENS, Vocabulary
from elmo_tasks.inputs import FileVectors, PretrainedELMo, Rows, TokenInputs
from elmo_tasks.reading.batch import Batch, QuestionGroup, make_batch, question_groups, training_groups
from elmo_tasks.reading.data import Passage, Question, TokenisedPassage, read_passages, tokenise_passages
from elmo_tasks.reading.network import BiDAF, ReaderSettings
from elmo_tasks.reading.score import Scores, best_threshold, score
from elmo_tasks.reading.text import Answer, Text, best_answers, span_scores, windows
from elmo_tasks.task import Task, as_given, check_folder, training_folder
from elmo_tasks.trainer import Progress, hold_out

MIN_COUNT = 2  # of a word in the training data, else it is unknown
QUESTIONS_AT_ONCE = 256  # of those to a passage, which are answered in one pass


class Reader(Task):
    """Answers questions about passages.

        reader = Reader("runs/mrc")
        reader.answer("Who lives in Paris?", "Anna lives in Paris.", k=3)  # [Answer("Anna", 0, 4, 0.93), ...]

    parts: words, of the training data; no_answer: whether some questions of these have none.
    """

    name = "reader"
    settings_type = ReaderSettings
    example = 'answer("?", {text!r})'
    batch_size = 8  # windows
    settings: ReaderSettings
    _dev: Sequence[TokenisedPassage] = ()  # during a training

    @classmethod
    def train(
        cls,
        examples: Any,
        *,
        dev: Any = None,
        test: Any = None,
        settings: ReaderSettings = ReaderSettings(),  # noqa: B008  it is frozen
        save_dir: str | Path | None = None,
        overwrite: bool = False,
        resume: bool = False,
        progress: Progress | bool = True,
        device: str = "auto",
    ) -> "Reader":
        """Train a reader. It has the weights of the epoch with the highest F1 on the dev set.

            reader = Reader.train(examples, settings=ReaderSettings(elmo="zh-news"), save_dir="runs/qa")
            reader.scores["dev"]["f1"]

        examples, dev, test: a file, or a DataFrame, a `datasets.Dataset` or a list of dictionaries {"id": ..., "context":
        ..., "question": ..., "answers": {"text": [...], "answer_start": [...]}}; empty lists: the passage has no answer.
        Without dev, a tenth of the passages is held out. save_dir, overwrite, resume, progress: see `Tagger.train`.
        """
        if save_dir is not None:
            check_folder(Path(save_dir), cls.name, overwrite, resume)
        given = {"examples": examples, "dev": dev, "test": test}
        read = {name: read_passages(part, name) for name, part in given.items() if part is not None}
        pretrained = PretrainedELMo.load(settings.elmo)
        known, passages = pretrained.words if pretrained else (), read["examples"]
        tokeniser = make_tokeniser(settings.lang, [passage.text for passage in passages], known, settings.user_dict)
        user_dict = Segmenter.from_file(settings.user_dict).entries if settings.user_dict else None
        settings = replace(settings, lang=tokeniser.lang, user_dict=user_dict)
        data = {name: tokenise_passages(part, tokeniser) for name, part in read.items()}
        train = data.pop("examples")
        if dev is None:
            if len(train) == 1:
                raise UserError("All questions are about one passage. Give `dev`, or more passages, to hold out some.")
            train, data["dev"] = hold_out(train, settings.seed)
        no_answer = not all(question.answers for passage in passages for question in passage.questions)
        groups = training_groups(train, settings.max_seq_len, settings.doc_stride, no_answer)
        tokens = (token for passage in train for text in passage.texts for token in text.tokens)
        parts = {"words": Vocabulary.frequent(tokens, MIN_COUNT).words, "no_answer": no_answer}
        limit = settings.word_vectors_limit
        vectors = FileVectors.from_file(settings.word_vectors, limit) if settings.word_vectors else None
        if vectors:
            vectors.log_coverage(token for passage in train for token in passage.text.tokens)
        with training_folder(cls, save_dir, overwrite, resume) as folder:
            reader = cls.create(settings, parts, device, pretrained, vectors)
            reader._dev = data["dev"]
            reader = reader.learn({"train": groups, **data}, folder, resume, progress)
        reader._dev = ()
        return reader

    # The task: an example is a group of questions in training, a passage in evaluation

    def build(self) -> BiDAF:
        words = Vocabulary([*SPECIAL_TOKENS, *self.parts["words"]])
        settings, places = self.settings, ("input", "output")
        inputs = TokenInputs(settings, words, self.vectors, self.pretrained, settings.dropout, places)
        return BiDAF(settings, inputs, self.parts["no_answer"])

    def length(self, example: QuestionGroup) -> int:
        return example.window.end - example.window.begin

    def rows(self, example: QuestionGroup | TokenisedPassage) -> Rows:
        return Rows([], [text.sentences for text in example.texts])

    def collate(self, examples: Sequence[QuestionGroup]) -> Batch:
        return make_batch(examples)

    def loss(self, batch: Batch) -> paddle.Tensor:
        return self.network.loss(batch)

    def decode(self, batch: Batch) -> list[np.ndarray]:
        """The logits (Q, 2, T) of each group's questions and its window's tokens."""
        logits = self.network(batch).numpy()
        lengths = batch.passages.lengths
        return [logits[batch.passage_of == k, :, :n] for k, n in enumerate(lengths)]

    def evaluated(self, examples: Sequence[TokenisedPassage]) -> Scores:
        if self.parts["no_answer"] and examples is self._dev:
            self.choose_threshold(examples)
        answers = {id: some[0].text for id, some in self.best(examples, 1).items()}
        return score([passage.passage for passage in examples], answers, self.settings.lang)

    # What users call

    def evaluate(self, examples: Any) -> dict[str, Any]:
        """Score the reader on examples, given as to `train`."""
        return self.evaluated(tokenise_passages(read_passages(examples), self.tokeniser)).to_dict()

    def answer(self, question: str, passage: str, k: int = 1) -> list[Answer]:
        """Return the k best answers, best first. Their texts differ; they may overlap. One may be "", see `Answer`."""
        return self.answers([(question, passage)], k)[0]

    @overload
    def answers(self, questions: Iterator[tuple[str, str]], k: int = 1) -> Iterator[list[Answer]]: ...
    @overload
    def answers(self, questions: Iterable[tuple[str, str]], k: int = 1) -> list[list[Answer]]: ...
    def answers(self, questions, k=1):
        """Return the k best answers to each of several questions, given with its passage. Of an iterator, yield them.

        A passage without words gives no answers.
        """
        check_number("k", k, 1, integer=True)
        return as_given(questions, self._answers(iter(questions), k))

    def _answers(self, questions: Iterator[tuple[str, str]], k: int) -> Iterator[list[Answer]]:
        while some := check_texts(list(islice(questions, QUESTIONS_AT_ONCE)), ("question", "passage")):
            asked: dict[str, list[Question]] = {}
            for number, (question, passage) in enumerate(some):
                asked.setdefault(passage, []).append(Question(str(number), question, [], []))
            passages = [TokenisedPassage(Passage(text, about), self.tokeniser) for text, about in asked.items()]
            answers = self.best([passage for passage in passages if passage.text.tokens], k)
            yield from (answers.get(str(number), []) for number in range(len(some)))

    def best(self, passages: Iterable[TokenisedPassage], k: int) -> dict[str, list[Answer]]:
        """The k best answers to each question over all windows of its passage, by its id."""
        no_answer = self.network.no_answer_score()
        return {id: best_answers(text, scores, k, no_answer) for id, text, scores in self._scores(passages)}

    def _scores(self, passages: Iterable[TokenisedPassage]) -> Iterator[tuple[str, Text, np.ndarray]]:
        """Yield each question's id and passage, and the scores of all spans of that."""
        passages, copies = tee(passages)
        logits = self.predictions(group for passage in copies for group in self._groups(passage))
        for passage in passages:
            n_tokens = len(passage.text.tokens)
            longest = min(self.settings.max_answer_length, self.settings.max_seq_len, n_tokens)
            scores = np.full((len(passage.questions), n_tokens, longest), -np.inf, np.float32)
            done = 0  # questions to the present window
            for group in self._groups(passage):
                done = 0 if done == len(scores) else done
                for row in next(logits):
                    in_window = scores[done, group.window.begin : group.window.end]
                    np.maximum(in_window, span_scores(row, longest), out=in_window)
                    done += 1
            yield from ((q.id, passage.text, x) for (q, _), x in zip(passage.questions, scores, strict=True))

    def _groups(self, passage: TokenisedPassage) -> Iterator[QuestionGroup]:
        questions = [text for _, text in passage.questions]
        for window in windows(passage.text, self.settings.max_seq_len, self.settings.doc_stride):
            yield from question_groups(window, questions)

    def choose_threshold(self, passages: Sequence[TokenisedPassage]) -> None:
        """From now on, prefer no answer where that makes F1 on these passages highest."""
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
