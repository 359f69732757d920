"""A parser: its training, and the trees that it predicts."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count, tee
from pathlib import Path
from typing import overload

import numpy as np

from elmo_core.checks import check_sentence
from elmo_core.machine.runtime import paddle, to_tensor
from elmo_core.messages import UserError, join_names, log
from elmo_core.text.offsets import token_offsets
from elmo_core.text.vocabulary import Vocabulary
from elmo_tasks.parsing.data import read_conllu
from elmo_tasks.parsing.network import MASKED, Batch, ParserNetwork
from elmo_tasks.parsing.settings import ParserSettings
from elmo_tasks.parsing.trees import Score, Tree, allowed_labels, maximum_tree
from elmo_tasks.records import check_parts
from elmo_tasks.task import Task, as_given, resolve_language, with_dev

Text = str | Sequence[str] | Tree


class Parser(Task[ParserSettings]):
    """Predicts the dependency trees of sentences. It is selected by LAS.

    Parser.train("train.conllu", dev="dev.conllu", save_dir="runs/parser")
    parser = Parser("runs/parser")
    print(parser.predict(["The cat sat."])[0])

    parts: labels and tags; words, of the training data.
    """

    name = "parser"
    settings_type = ParserSettings
    example = "predict([{text!r}])[0]"

    @classmethod
    def read_training(cls, given, settings):
        return {name: list(read_conllu(path)) for name, path in given.items()}

    @classmethod
    def set_up(cls, data, settings, pretrained):
        settings, _ = resolve_language(settings, cls.texts(data["train"]), pretrained)
        data = with_dev(data, settings)
        parts = {
            key: sorted({x for tree in data["train"] for x in getattr(tree, key)})
            for key in ("labels", "tags")
        }
        if settings.with_tags and parts["tags"] == ["_"]:
            raise UserError(
                "`with_tags`: UPOS is _ in all of the training data, expected parts of speech."
            )
        parts["words"] = Vocabulary.frequent(
            token for tree in data["train"] for token in tree.tokens
        ).words
        where = {
            label: tree.where
            for trees in data.values()
            for tree in reversed(trees)
            for label in tree.labels
        }
        if unknown := [
            f"{label} ({where[label]})" for label in sorted(where.keys() - set(parts["labels"]))
        ]:
            log.warning(
                f"labels that do not occur in training, and cannot be predicted: {join_names(unknown, 5)}."
            )
        return settings, parts, data

    # The task

    def build(self) -> ParserNetwork:
        for name in ("labels", "tags"):
            check_parts(self.parts, name, str, "strings")
        inputs = self.make_inputs(dropout=self.settings.dropout)
        return ParserNetwork(self.settings, inputs, self.parts["labels"], self.parts["tags"])

    def collate(self, examples: Sequence[Tree]) -> Batch:
        rows = self.rows(examples)
        if not self.network.training:
            return Batch(rows)
        ids = (
            [[*map(self.parts[x].index, getattr(tree, x))] for tree in examples]
            for x in ("labels", "tags")
        )
        return Batch(rows, *map(rows.padded, ([tree.heads for tree in examples], *ids)))

    def decode(self, batch: Batch) -> list[Tree]:
        x, arcs, *views = self.network(batch.rows)
        arcs = paddle.nn.functional.log_softmax(arcs, axis=-1).numpy()  # (B, T, T + 1)
        lengths = batch.rows.lengths.tolist()
        heads = batch.rows.padded(
            maximum_tree(row[:n, : n + 1]) for row, n in zip(arcs, lengths, strict=True)
        )
        names = self.parts["labels"]
        mask = (MASKED * ~allowed_labels(heads, names)).astype(np.float32)
        scores = self.network.label_scores(*views, heads) + to_tensor(mask)
        labels = paddle.nn.functional.log_softmax(scores, axis=-1).numpy()  # (B, T, R)
        probabilities = np.exp(
            np.take_along_axis(arcs, heads[..., None], -1)[..., 0] + labels.max(axis=-1)
        )
        tags = self.network.tags(x).numpy().argmax(axis=-1) if self.network.tags else None
        trees = []
        for k, (tokens, n) in enumerate(zip(batch.rows.tokens, lengths, strict=True)):
            chosen = [names[label] for label in labels[k, :n].argmax(axis=-1)]
            named = [self.parts["tags"][tag] for tag in tags[k, :n]] if tags is not None else []
            trees.append(
                Tree(
                    list(tokens),
                    heads[k, :n].tolist(),
                    chosen,
                    named,
                    probabilities[k, :n].tolist(),
                )
            )
        return trees

    def measure(self, examples: Sequence[Tree], predictions: Sequence[Tree]) -> Score:
        return Score(examples, predictions)

    # What users call

    def read(self, data: str | Path) -> list[Tree]:
        return list(read_conllu(data))

    @overload
    def predict(self, sentences: Iterator[Text]) -> Iterator[Tree]: ...
    @overload
    def predict(self, sentences: Iterable[Text]) -> list[Tree]: ...
    def predict(self, sentences):
        """Return the tree of each sentence; one without words as it is. Of an iterator, yield them.

        sentences: lists of words, trees, or raw text, which is split into words in the language of the training.
        """
        return as_given(sentences, "sentences", self._parse)

    def sentence(self, text: Text, number: int = 0, lang: str = "") -> Tree:
        """A sentence without its tree. lang: how raw text is split, if not as in training."""
        if not isinstance(text, str):
            return text if isinstance(text, Tree) else Tree(list(check_sentence(text, number)))
        tokens = replace(self.tokeniser, lang=lang or self.settings.lang)(text)
        return Tree(
            tokens,
            offsets=[(begin, end) for begin, end in token_offsets(tokens, text).tolist()],
            text=text,
        )

    def _parse(self, sentences: Iterable[Text], window: float | None) -> Iterator[Tree]:
        sentences, copies = tee(map(self.sentence, sentences, count()))
        trees = self.predictions((sentence for sentence in copies if sentence.tokens), window)
        for sentence in sentences:
            source = {"lines": sentence.lines, "offsets": sentence.offsets, "text": sentence.text}
            yield replace(next(trees), **source) if sentence.tokens else sentence
