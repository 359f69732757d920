"""The networks that can be exported: ELMo with its vectors; trained tasks with their answers.

Letters: B sentences, T tokens of the longest, W of jieba's words of the longest, P projection,
F numbers of an input vector, K labels or classes, N n-grams of the text with most, V of all texts.
"""

import json
import operator
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from elmo import BiLM
from elmo_core.encoding import pooling
from elmo_core.encoding.layers import LayerChoice
from elmo_core.messages import UserError
from elmo_core.text.vocabulary import UNK_ID, Vocabulary
from elmo_tasks.classification.classifier import Classifier
from elmo_tasks.parsing.parser import Parser
from elmo_tasks.tagging.tagger import Tagger
from elmo_tasks.task import Task
from elmo_tools.export import trained_layers
from elmo_tools.export.paddle_graph import Array, PaddleGraph
from elmo_tools.export.sentences import Sentences
from elmo_tools.export.trained_bilm import TrainedBiLM, byte_input, word_input

# The first axes of an input: of tokens, or of jieba's words of sentences of characters.
TOKEN_AXES = ("B", "T")
WORD_AXES = ("B", "W")
NGRAM_AXES = ("B", "N")
# The inputs of a classifier's n-grams.
NGRAMS = "ngrams"
TFIDF = "tfidf"


def lengths_input(rows: str) -> dict[str, Any]:
    """Return the entry in inputs.json of the lengths of rows, such as "tokens"."""
    return {"type": "int64", "shape": ["B"], "meaning": f"number of {rows} of each sentence"}


class Network:
    """A network to export.

    inputs, outputs: the entries of inputs.json, by name. settings: of the trained model, for
    predict.py; "task" and "lang" in all. files: that it reads, by name. lines: what a line of
    standard input contains.
    """

    lines: str = "a sentence"
    inputs: dict[str, dict[str, Any]]
    outputs: Mapping[str, dict[str, Any]]
    settings: dict[str, Any]
    files: dict[str, str]

    def build(self, ops: PaddleGraph) -> Sequence[Array]:
        """Build the outputs."""
        raise NotImplementedError

    def sentences(self, ops: PaddleGraph) -> Sentences:
        """Build the inputs of tokens."""
        return Sentences(ops, self.inputs_of(TOKEN_AXES))

    def inputs_of(self, axes: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the inputs with these axes."""
        return {name: spec for name, spec in self.inputs.items() if spec["shape"][:2] == list(axes)}

    def add_to(self, ops: PaddleGraph) -> None:
        """Build the network in a graph."""
        for (name, spec), x in zip(self.outputs.items(), self.build(ops), strict=True):
            ops.output(name, x, spec["shape"])


class EmbedderNetwork(Network):
    """ELMo's vectors, equal to an `ELMoEmbedder`'s."""

    lines = "a sentence of tokens, separated by white space"

    def __init__(self, bilm: BiLM, vocabulary: Vocabulary | None, choice: LayerChoice):
        self.elmo = TrainedBiLM(bilm, vocabulary, choice, TOKEN_AXES)
        self.inputs = {**self.elmo.inputs, "lengths": lengths_input("tokens")}
        self.files = self.elmo.files
        shape = [*TOKEN_AXES, 2 * bilm.config.projection_dim]
        meaning = "forward and backward; zero at padding"
        if choice.how == "each":
            shape = [choice.n_layers, *shape]
            indices = ", ".join(str(index) for index in choice.indices)
            meaning = f"of layers {indices}: {meaning}"
        self.outputs = {"vectors": {"shape": shape, "meaning": meaning}}
        self.settings = {"task": "elmo", "lang": "none"}

    def build(self, ops: PaddleGraph) -> list[Array]:
        batch = self.sentences(ops)
        layers = [batch.masked(layer) for layer in self.elmo.layers(batch)]
        if self.elmo.choice.how == "each":
            return [ops.stack(layers, axis=0)]
        return layers


class TaskNetwork(Network):
    """A trained task: the inputs of its network, and what predict.py needs.

    setting_names: of the task's settings that predict.py needs besides `lang`.
    """

    def __init__(self, task: Task, setting_names: Sequence[str]):
        self.task = task
        self.network = task.network
        self.files = {}
        self.inputs = {}
        self.settings = {"task": task.name, "lang": task.settings.lang}
        for name in setting_names:
            self.settings[name] = getattr(task.settings, name)
        is_split_into_words = self.settings.get("unit") == "jieba"
        # Of what ELMo and the file's vectors read.
        self.axes = WORD_AXES if is_split_into_words else TOKEN_AXES
        self._add_inputs()
        if task.settings.user_dict:
            self.add_table("user_dict", task.settings.user_dict)

    def _add_inputs(self) -> None:
        """Add the entries in inputs.json, and their tables, of what the network reads."""
        inputs = self.network.inputs
        if inputs.elmo:
            self.elmo = TrainedBiLM(
                bilm=inputs.elmo.bilm,
                vocabulary=inputs.elmo.vocabulary,
                choice=inputs.elmo.choice,
                axes=self.axes,
            )
            self.inputs.update(self.elmo.inputs)
            self.files.update(self.elmo.files)
        if inputs.vectors:
            if inputs.vectors.bound:
                raise UserError(
                    "this model draws vectors for words that its file of vectors lacks; "
                    "a graph cannot."
                )
            self.inputs["vectors"] = word_input("vectors.txt", self.axes, 0)
            self.inputs["vectors"]["lower"] = True
            self.add_table("vectors", ["<UNK>", *inputs.vectors.words])
        if inputs.words:
            self.inputs["learnt_words"] = word_input("learnt_words.txt", TOKEN_AXES, UNK_ID)
            self.add_table("learnt_words", inputs.words.vocabulary.tokens)
        if inputs.characters:
            self.inputs["learnt_characters"] = byte_input(TOKEN_AXES)
        if self.axes == WORD_AXES:
            self.inputs["word_lengths"] = lengths_input("words")
            self.inputs["word_index"] = {
                "type": "int64",
                "shape": list(TOKEN_AXES),
                "padding": 0,
                "meaning": "index b * W + w of each token's word, "
                "of W words in the longest sentence",
            }
        if self.inputs_of(TOKEN_AXES):
            self.inputs["lengths"] = lengths_input("tokens")

    def add_table(self, name: str, lines: Sequence[Any]) -> None:
        """Add the file NAME.txt."""
        text = "\n".join(str(line) for line in lines)
        self.files[f"{name}.txt"] = f"{text}\n"

    def vectors(self, batch: Sentences) -> tuple[Array, Array | None]:
        """Build `TokenInputs`.

        Returns the input (B, T, F), zero at padding, or, pooled, (B, F); and ELMo's vectors of
        "output", if the network reads these.
        """
        ops = batch.ops
        inputs = self.network.inputs
        words = batch  # what ELMo and the file's vectors read
        if self.axes == WORD_AXES:
            words = Sentences(ops, self.inputs_of(WORD_AXES), "word_lengths")
        x = []
        elmo = {}  # by the place where the network reads it
        if inputs.elmo:
            elmo_layers = self._elmo_layers(batch, words)
            for k, place in enumerate(inputs.elmo_at):
                if inputs.mixes:
                    elmo[place] = trained_layers.scalar_mix(elmo_layers, inputs.mixes[k])
                else:
                    elmo[place] = ops.concat(elmo_layers, axis=-1)
        if "input" in elmo:
            x.append(elmo["input"])
        if inputs.vectors:
            x.append(self._word_vectors(batch, words))
        if inputs.words:
            ids = batch.ids["learnt_words"]
            learnt_words = trained_layers.embedding(ops, ids, inputs.words.embedding)
            x.append(self._pooled(batch, learnt_words))
        if inputs.characters:
            x.append(self._pooled(batch, self._character_vectors(batch)))
        x = ops.concat(x, axis=-1)
        if not inputs.pool:
            x = batch.masked(x)
        return x, elmo.get("output")

    def _elmo_layers(self, batch: Sentences, words: Sentences) -> list[Array]:
        """Build ELMo's layers, each (B, T, 2P) or, pooled, (B, 2P)."""
        inputs = self.network.inputs
        width = 2 * inputs.elmo.config.projection_dim
        layers = self.elmo.layers(words)
        layers = [self._pooled(batch, self._of_tokens(batch, x, width)) for x in layers]
        if not inputs.statistics:
            return layers
        statistics = inputs.statistics[0]  # ELMo's come first
        return [
            trained_layers.standardised(batch.ops, x, statistics, k) for k, x in enumerate(layers)
        ]

    def _word_vectors(self, batch: Sentences, words: Sentences) -> Array:
        """Build the vectors of the file, (B, T, F) or, pooled, (B, F)."""
        ops = batch.ops
        inputs = self.network.inputs
        of_unknown_words = np.zeros_like(inputs.vectors.table[:1])
        table = ops.weight(np.concatenate([of_unknown_words, inputs.vectors.table]))
        x = ops.lookup(table, words.ids["vectors"])
        x = self._pooled(batch, self._of_tokens(batch, x, inputs.vectors.dim))
        if inputs.statistics:
            statistics = inputs.statistics[-1]  # the file's vectors come last
            x = trained_layers.standardised(ops, x, statistics, 0)
        return x

    def _character_vectors(self, batch: Sentences) -> Array:
        """Build the vectors (B, T, F) of the task's own character CNN."""
        cnn = self.network.inputs.characters.cnn
        padding = self.inputs["learnt_characters"]["padding"]
        (ids,), index = batch.distinct(["learnt_characters"])
        vectors = trained_layers.char_vectors(batch.ops, ids, cnn, padding)
        return batch.of_tokens(vectors, index, cnn.config.projection_dim)

    def _of_tokens(self, batch: Sentences, x: Array, width: int) -> Array:
        """Return x of each token (B, T, F): that of its word, if x is of words (B, W, F)."""
        if self.axes == WORD_AXES:
            return batch.of_tokens(x, batch.ids["word_index"], width)
        return x

    def _pooled(self, batch: Sentences, x: Array) -> Array:
        """Return x (B, T, F) or, if the network reads it pooled, (B, `pooled_dim`)."""
        pool = self.network.inputs.pool
        if pool is None:
            return x
        parts = []
        if pool != pooling.MAX:
            parts.append(batch.mean(x))
        if pool != pooling.MEAN:
            parts.append(batch.maximum(x))
        return batch.ops.concat(parts, axis=1) if len(parts) > 1 else parts[0]


class TaggerNetwork(TaskNetwork):
    """A tagger's scores, which predict.py decodes with the CRF."""

    def __init__(self, tagger: Tagger):
        super().__init__(tagger, ["scheme", "unit"])
        self.settings["labels"] = tagger.labels
        self.settings["crf"] = [scores.tolist() for scores in tagger.network.crf.decoding_scores()]
        self.outputs = {
            "scores": {
                "shape": [*TOKEN_AXES, len(tagger.labels)],
                "meaning": "of the labels in `settings`, before the CRF",
            }
        }
        if tagger.settings.scheme == "lac" or tagger.settings.lang == "characters":
            self.settings["pieces"] = "pieces.txt"
            self.settings["whole"] = tagger.piece_splitter.whole
            self.add_table("pieces", sorted(tagger.piece_splitter.known))

    def build(self, ops: PaddleGraph) -> list[Array]:
        batch = self.sentences(ops)
        x, elmo = self.vectors(batch)
        x = trained_layers.recurrent(batch, x, self.network.recurrent)
        if elmo is not None:
            x = ops.concat([x, elmo], axis=2)
        return [trained_layers.linear(ops, x, self.network.emission)]


class ClassifierNetwork(TaskNetwork):
    """A classifier's probabilities. Letters: H numbers of the head's result."""

    def __init__(self, classifier: Classifier):
        super().__init__(classifier, ["max_seq_len"])
        self.pairs = classifier.parts["pairs"]
        self.settings["pairs"] = self.pairs
        self.settings["labels"] = classifier.labels
        self.multi_label = classifier.parts["multi_label"]
        self.settings["multi_label"] = self.multi_label
        if self.multi_label:
            self.settings["threshold"] = classifier.threshold
            self.settings["label_separator"] = classifier.label_separator
        if self.pairs:
            self.lines = "two texts, separated by a tab"
        else:
            self.lines = "a text"
        meaning = "of `labels` in `settings`"
        if self.network.output is not None:
            if self.pairs:
                meaning += "; of the inputs' 2B texts, those of a pair are B rows apart"
            meaning += f"; pass the first {self.settings['max_seq_len']} tokens of a text"
        self.outputs = {
            "probabilities": {"shape": ["B", len(classifier.labels)], "meaning": meaning}
        }
        if self.network.n_ngrams:
            self._add_ngrams(classifier)

    def _add_ngrams(self, classifier: Classifier) -> None:
        """Add the inputs of n-grams, and their table."""
        meaning = f"place of each n-gram in {NGRAMS}.json, from 0"
        if self.pairs:
            n = self.network.n_ngrams
            meaning += f"; of a pair's [a; b; |a - b|; a * b], plus 0, {n}, {2 * n} or {3 * n}"
            meaning += f"; {4 * n}: the sum of a * b"
        self.inputs[NGRAMS] = {
            "type": "int64",
            "shape": list(NGRAM_AXES),
            "padding": 0,
            "table": f"{NGRAMS}.json",
            "meaning": meaning,
        }
        self.inputs[TFIDF] = {
            "type": "float32",
            "shape": list(NGRAM_AXES),
            "padding": 0,
            "meaning": "its tf-idf in the whole text",
        }
        table = {"texts": classifier.parts["ngram_texts"], "ngrams": classifier.parts["ngrams"]}
        self.files[f"{NGRAMS}.json"] = json.dumps(table, ensure_ascii=False) + "\n"

    def build(self, ops: PaddleGraph) -> list[Array]:
        logits = []
        if self.network.output is not None:
            logits.append(self._logits_of_vectors(ops))
        if self.network.n_ngrams:
            logits.append(self._logits_of_ngrams(ops))
        total = reduce(operator.add, logits)
        return [ops.sigmoid(total) if self.multi_label else ops.softmax(total)]

    def _logits_of_vectors(self, ops: PaddleGraph) -> Array:
        """Build what the vectors of tokens contribute to the logits (B, K)."""
        network = self.network
        batch = self.sentences(ops)
        x, _ = self.vectors(batch)
        if not network.inputs.pool:
            x = trained_layers.text_vectors(batch, x, network.head)  # (B, H)
        if self.pairs:
            a, b = ops.split(x, 2, axis=0)
            difference = ops.relu(a - b) + ops.relu(b - a)
            x = ops.concat([a, b, difference, a * b], axis=1)
        if network.hidden:
            x = ops.tanh(trained_layers.linear(ops, x, network.hidden))
        return trained_layers.linear(ops, x, network.output)

    def _logits_of_ngrams(self, ops: PaddleGraph) -> Array:
        """Build what the n-grams contribute to the logits (B, K)."""
        numbers, tfidf = [
            ops.input(name, spec["shape"], spec["type"])
            for name, spec in self.inputs_of(NGRAM_AXES).items()
        ]
        table = ops.weight(self.network.ngram_weights.numpy())
        rows = ops.size(tfidf, 0)
        sums = ops.product(ops.reshape(tfidf, [rows, 1, -1]), ops.lookup(table, numbers))
        sums = ops.reshape(sums, [rows, -1])  # (B, 1, K)
        return sums + ops.weight(self.network.ngram_bias.numpy())


class ParserNetwork(TaskNetwork):
    """A parser's scores, from which predict.py makes trees."""

    def __init__(self, parser: Parser):
        super().__init__(parser, ["with_tags"])
        self.settings["labels"] = parser.labels
        self.outputs = {
            "arcs": {
                "shape": [*TOKEN_AXES, 1, "T + 1"],
                "meaning": "scores of each token's heads; 0 is the root",
            },
            "labels": {
                "shape": [*TOKEN_AXES, len(parser.labels), "T + 1"],
                "meaning": "scores of each arc's `labels` in `settings`",
            },
        }
        if self.settings["with_tags"]:
            self.settings["tags"] = parser.parts["tags"]
            self.outputs["tags"] = {
                "shape": [*TOKEN_AXES, len(parser.parts["tags"])],
                "meaning": "scores of the `tags` in `settings`",
            }

    def build(self, ops: PaddleGraph) -> list[Array]:
        network = self.network
        batch = self.sentences(ops)
        x, _ = self.vectors(batch)
        x = trained_layers.recurrent(batch, x, network.recurrent)
        root = network.root.numpy()
        roots = ops.zeros([batch.rows, 1, root.shape[2]], "float32") + ops.weight(root)
        heads = ops.concat([roots, x], axis=1)
        views = []
        for view, source in zip(network.views, [x, heads, x, heads], strict=True):
            views.append(trained_layers.linear(ops, source, view))
        arc, arc_head, label, label_head = [trained_layers.leaky_relu(ops, view) for view in views]
        outputs = [
            trained_layers.biaffine(batch, arc, arc_head, network.arcs),
            trained_layers.biaffine(batch, label, label_head, network.labels),
        ]
        if network.tags:
            outputs.append(trained_layers.linear(ops, x, network.tags))
        return outputs


# The network of each task that can be exported, and the class that loads its trained models.
NETWORKS: dict[str, tuple[type[TaskNetwork], type[Task]]] = {
    Tagger.name: (TaggerNetwork, Tagger),
    Classifier.name: (ClassifierNetwork, Classifier),
    Parser.name: (ParserNetwork, Parser),
}
