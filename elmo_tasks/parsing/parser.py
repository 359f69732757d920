"""A parser: its training, and the trees that it predicts."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any, overload

import numpy as np

from elmo_core.checks import as_list, check_sentence, describe
from elmo_core.machine.runtime import paddle, to_tensor
from elmo_core.messages import UserError, join_names, log
from elmo_core.text.offsets import token_offsets
from elmo_core.text.vocabulary import Vocabulary
from elmo_tasks.inputs import PretrainedELMo
from elmo_tasks.parsing.data import read_trees
from elmo_tasks.parsing.network import MASKED, Batch, ParserNetwork
from elmo_tasks.parsing.settings import ParserSettings
from elmo_tasks.parsing.trees import NO_TAG, ParserScore, Tree, allowed_labels, maximum_tree
from elmo_tasks.records import check_parts
from elmo_tasks.task import Task, checked_stream, resolve_language, with_dev

Text = str | Sequence[str] | Tree  # raw, its words, or these in a tree


class Parser(Task[ParserSettings, Tree, Tree]):
    """Predicts the dependency trees of sentences. The epoch with the best LAS is kept.

        parser = Parser.train("train.conllu", dev="dev.conllu", save_dir="runs/parser")
        parser = Parser("runs/parser")
        print(parser.predict("The cat sat."))

    It is trained on a treebank in CoNLL-U, a table with the columns tokens, head, deprel and
    perhaps upos, or a list of `Tree`s. A text to predict is one sentence: raw, which is split into
    words as in training, a list of words, or a `Tree`.

    parts: labels and tags; words, of the training data.
    """

    name = "parser"
    settings_type = ParserSettings
    network: ParserNetwork

    # What users call

    @property
    def labels(self) -> list[str]:
        """The labels of arcs, in the order of their ids."""
        return self.parts["labels"]

    @overload
    def predict(self, texts: str | Tree) -> Tree: ...
    @overload
    def predict(self, texts: Iterable[Text]) -> list[Tree]: ...
    def predict(self, texts: str | Tree | Iterable[Text]) -> Tree | list[Tree]:
        """Return the tree of each sentence; of one raw text or tree, its tree.

        One without words stays as it is.
        """
        return self._one_or_all(texts, self.results)

    def iter_predict(self, texts: Iterable[Text]) -> Iterator[Tree]:
        """Like `predict`, but lazy, for any number of sentences: reads ahead some batches."""
        return self.results(checked_stream(texts), is_lazy=True)

    # Its data

    @classmethod
    def read_data(cls, data: Any, name: str, settings: ParserSettings) -> list[Tree]:
        return read_trees(data, name)

    @classmethod
    def set_up(
        cls,
        data: dict[str, list[Tree]],
        settings: ParserSettings,
        pretrained: PretrainedELMo | None,
    ) -> tuple[ParserSettings, dict[str, Any], dict[str, list[Tree]]]:
        settings, _ = resolve_language(settings, cls.texts(data["train"]), pretrained)
        data = with_dev(data, settings)
        train = data["train"]
        tags = distinct(tree.tags for tree in train)
        if settings.with_tags and tags == [NO_TAG]:
            raise UserError(
                "`with_tags`: UPOS is _ in all of the training data, expected parts of speech."
            )
        parts = {
            "labels": distinct(tree.labels for tree in train),
            "tags": tags,
            "words": Vocabulary.frequent(chain.from_iterable(tree.tokens for tree in train)).words,
        }
        warn_of_unknown_labels(data, parts["labels"])
        return settings, parts, data

    # The task

    def build(self) -> ParserNetwork:
        for name in ("labels", "tags"):
            check_parts(self.parts, name, str, "strings")
        inputs = self.make_inputs(dropout=self.settings.dropout)
        return ParserNetwork(self.settings, inputs, self.labels, self.parts["tags"])

    def collate(self, examples: Sequence[Tree]) -> Batch:
        rows = self.rows(examples)
        if not self.network.training:
            return Batch(rows)
        return Batch(
            rows,
            heads=rows.padded([tree.heads for tree in examples]),
            labels=rows.padded([numbers(tree.labels, self.label_ids) for tree in examples]),
            tags=rows.padded([numbers(tree.tags, self.tag_ids) for tree in examples]),
        )

    @cached_property
    def label_ids(self) -> dict[str, int]:
        """The number of each label."""
        return {label: k for k, label in enumerate(self.labels)}

    @cached_property
    def tag_ids(self) -> dict[str, int]:
        """The number of each tag."""
        return {tag: k for k, tag in enumerate(self.parts["tags"])}

    def decode(self, batch: Batch) -> list[Tree]:
        x, arcs, *views = self.network(batch.rows)
        arcs = paddle.nn.functional.log_softmax(arcs, axis=-1).numpy()  # (B, T, T + 1)
        lengths = batch.rows.lengths.tolist()
        heads = batch.rows.padded(
            maximum_tree(row[:n, : n + 1]) for row, n in zip(arcs, lengths, strict=True)
        )
        names = self.labels
        mask = (MASKED * ~allowed_labels(heads, names)).astype(np.float32)
        scores = self.network.label_scores(*views, heads) + to_tensor(mask)
        labels = paddle.nn.functional.log_softmax(scores, axis=-1).numpy()  # (B, T, R)
        probabilities = np.exp(
            np.take_along_axis(arcs, heads[..., None], -1)[..., 0] + labels.max(axis=-1)
        )
        tags = None
        if self.network.tags:
            tags = self.network.tags(x).numpy().argmax(axis=-1)
        trees = []
        for k, (tokens, n) in enumerate(zip(batch.rows.tokens, lengths, strict=True)):
            tree = Tree(
                tokens=list(tokens),
                heads=heads[k, :n].tolist(),
                labels=[names[label] for label in labels[k, :n].argmax(axis=-1)],
                tags=[NO_TAG] * n,
                scores=probabilities[k, :n].tolist(),
            )
            if tags is not None:
                tree.tags = [self.parts["tags"][tag] for tag in tags[k, :n]]
            trees.append(tree)
        return trees

    def measure(self, examples: Sequence[Tree], predictions: Sequence[Tree]) -> ParserScore:
        return ParserScore(examples, predictions)

    def is_one(self, texts: Any) -> bool:
        return isinstance(texts, str | Tree)

    def results(self, texts: Iterable[Text], is_lazy: bool = False) -> Iterator[Tree]:
        sentences = (self.sentence(text, number) for number, text in enumerate(texts))
        for sentence, tree in self.predicted(sentences, is_lazy):
            yield replace(tree, lines=sentence.lines, offsets=sentence.offsets, text=sentence.text)

    def _decoded(self, examples: Sequence[Tree]) -> list[Tree]:
        """The trees of sentences; one without words stays as it is."""
        with_words = [sentence for sentence in examples if sentence.tokens]
        trees = iter(super()._decoded(with_words) if with_words else ())
        return [next(trees) if sentence.tokens else sentence for sentence in examples]

    def sentence(self, text: Text, number: int = 0, lang: str = "") -> Tree:
        """A sentence without its tree. lang: how raw text is split, if not as in training."""
        if isinstance(text, Tree):
            return text
        if as_list(text) is not None:
            return Tree(list(check_sentence(text, number, of_texts="")))
        if not isinstance(text, str):
            expected = "a sentence, a list of its words, or a tree"
            raise TypeError(f"sentence {number}: found {describe(text)}, expected {expected}.")
        tokens = replace(self.tokeniser, lang=lang or self.settings.lang)(text)
        return Tree(
            tokens,
            offsets=[(begin, end) for begin, end in token_offsets(tokens, text).tolist()],
            text=text,
        )


def distinct(names: Iterable[Iterable[str]]) -> list[str]:
    """The names of all sentences, each once and in order."""
    return sorted(set(chain.from_iterable(names)))


def numbers(names: Iterable[str], ids: dict[str, int]) -> list[int]:
    """The numbers of names."""
    return [ids[name] for name in names]


def warn_of_unknown_labels(data: dict[str, list[Tree]], known: Sequence[str]) -> None:
    """Warn about labels that cannot be predicted, each with the first sentence that has it."""
    first: dict[str, str] = {}
    for trees in data.values():
        for tree in trees:
            for label in tree.labels:
                first.setdefault(label, tree.where)
    unknown = [f"{label} ({first[label]})" for label in sorted(first.keys() - set(known))]
    if unknown:
        what = "labels that do not occur in training, and cannot be predicted"
        log.warning(f"{what}: {join_names(unknown, 5)}.")
