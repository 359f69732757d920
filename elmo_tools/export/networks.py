"""The networks that can be exported: ELMo with its vectors; taggers, classifiers and parsers with their answers.

Letters: B sentences, T tokens of the longest, P projection, K labels or classes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from elmo import BiLM
from elmo_core.encoding.layers import LayerChoice
from elmo_core.messages import UserError
from elmo_core.text.vocabulary import UNK_ID, Vocabulary
from elmo_tasks.classification.classifier import Classifier
from elmo_tasks.parsing.parser import Parser
from elmo_tasks.tagging.tagger import Tagger
from elmo_tasks.task import Task
from elmo_tools.export import parts
from elmo_tools.export.elmo_part import ELMoPart, byte_input, word_input
from elmo_tools.export.paddle_graph import Array, PaddleGraph
from elmo_tools.export.sentences import Sentences

TOKENS, WORDS = (
    ("B", "T"),
    ("B", "W"),
)  # axes of inputs; W: of jieba's words of sentences of characters


class Network:
    """A network to export.

    inputs, outputs: the entries of inputs.json, by name; every network also has the input `lengths`. settings: of the
    trained model, for predict.py; "task" and "lang" in all. files: that it reads, by name. lines: what a line of standard
    input contains.
    """

    lines = "a sentence"
    inputs: dict[str, dict[str, Any]]
    outputs: Mapping[str, dict[str, Any]]
    settings: dict[str, Any]
    files: dict[str, str]

    def build(self, batch: Sentences) -> Sequence[Array]:
        """Build the outputs."""
        raise NotImplementedError

    def inputs_of(self, axes: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The inputs with these axes."""
        return {name: spec for name, spec in self.inputs.items() if spec["shape"][:2] == [*axes]}

    def add_to(self, ops: PaddleGraph) -> None:
        arrays = self.build(Sentences(ops, self.inputs_of(TOKENS)))
        for (name, spec), x in zip(self.outputs.items(), arrays, strict=True):
            ops.output(name, x, spec["shape"])


class EmbedderNetwork(Network):
    """ELMo's vectors, equal to an `ELMoEmbedder`'s."""

    lines = "a sentence of tokens, separated by white space"

    def __init__(self, bilm: BiLM, vocabulary: Vocabulary | None, layers: LayerChoice):
        self.elmo = ELMoPart(bilm, vocabulary, layers, TOKENS)
        self.inputs, self.files = self.elmo.inputs, self.elmo.files
        several = [layers.n_layers] if layers.how == "each" else []
        shape = [*several, *TOKENS, 2 * bilm.config.projection_dim]
        which = f"of layers {', '.join(map(str, layers.indices))}: " * bool(several)
        self.outputs = {
            "vectors": {"shape": shape, "meaning": f"{which}forward and backward; zero at padding"}
        }
        self.settings = {"task": "elmo", "lang": "none"}

    def build(self, batch: Sentences) -> list[Array]:
        layers = [batch.masked(x) for x in self.elmo.layers(batch)]
        return [batch.ops.stack(layers, axis=0) if self.elmo.choice.how == "each" else layers[0]]


class TaskNetwork(Network):
    """A trained task: the inputs of its network, and what predict.py needs. setting_names: of the settings among this."""

    def __init__(self, task: Task, *setting_names: str):
        settings, inputs, user_dict = task.settings, task.network.inputs, task.settings.user_dict
        self.task, self.network, self.files, self.inputs = task, task.network, {}, {}
        self.settings = {
            "task": task.name,
            **{name: getattr(settings, name) for name in ("lang", *setting_names)},
        }
        self.axes = (
            WORDS if self.settings.get("unit") == "jieba" else TOKENS
        )  # what ELMo and the file's vectors read
        if inputs.elmo:
            self.elmo = ELMoPart(
                inputs.elmo.bilm, inputs.elmo.vocabulary, inputs.elmo.choice, self.axes
            )
            self.inputs, self.files = dict(self.elmo.inputs), dict(self.elmo.files)
        if inputs.vectors:
            if inputs.vectors.bound:
                raise UserError(
                    "this model draws vectors for words that its file of vectors lacks; a graph cannot."
                )
            self.inputs["vectors"] = word_input("vectors.txt", self.axes, 0, lower=True)
            self.add_table("vectors", ["<UNK>", *inputs.vectors.words])
        if inputs.words:
            self.inputs["learnt_words"] = word_input("learnt_words.txt", TOKENS, UNK_ID)
            self.add_table("learnt_words", inputs.words.vocabulary.tokens)
        if inputs.characters:
            self.inputs["learnt_characters"] = byte_input(TOKENS)
        if self.axes == WORDS:
            meaning = "index b * W + w of each token's word, of W words in the longest sentence"
            self.inputs["word_index"] = {"shape": [*TOKENS], "padding": 0, "meaning": meaning}
        if user_dict:
            self.add_table("user_dict", user_dict)

    def add_table(self, name: str, lines: Sequence[Any]) -> None:
        """Add the file NAME.txt."""
        self.files[f"{name}.txt"] = "\n".join(map(str, lines)) + "\n"

    def vectors(self, batch: Sentences) -> tuple[Array, Array | None]:
        """Build `TokenInputs`: x (B, T, F) or, pooled, (B, F), zero at padding; and ELMo's vectors of "output"."""
        ops, inputs, words, fixed = batch.ops, self.network.inputs, batch, []
        if self.axes == WORDS:
            words = Sentences(ops, self.inputs_of(WORDS), "word_lengths")
        if inputs.elmo:
            fixed.append((self.elmo.layers(words), inputs.elmo.layer_dim))
        if inputs.vectors:
            table = np.concatenate([np.zeros_like(inputs.vectors.table[:1]), inputs.vectors.table])
            fixed.append(
                ([ops.lookup(ops.weight(table), words.ids["vectors"])], inputs.vectors.dim)
            )
        if self.axes == WORDS:
            index = batch.ids["word_index"]
            fixed = [
                ([batch.of_tokens(x, index, width) for x in layers], width)
                for layers, width in fixed
            ]
        pooled = batch.mean if inputs.pool else lambda x: x
        fixed = [[pooled(x) for x in layers] for layers, _ in fixed]
        if inputs.statistics:
            pairs = zip(inputs.statistics, fixed, strict=True)
            fixed = [
                [parts.standardised(ops, x, part, k) for k, x in enumerate(layers)]
                for part, layers in pairs
            ]
        elmo = {}
        for k, place in enumerate(inputs.elmo_at):
            elmo[place] = (
                parts.scalar_mix(fixed[0], inputs.mixes[k])
                if inputs.mixes
                else ops.concat(fixed[0], axis=-1)
            )
        x = [elmo["input"]] if "input" in elmo else []
        x += [layers[0] for layers in fixed[bool(inputs.elmo) :]]
        if inputs.words:
            x.append(
                pooled(parts.embedding(ops, batch.ids["learnt_words"], inputs.words.embedding))
            )
        if inputs.characters:
            (ids,), index = batch.distinct("learnt_characters")
            cnn = inputs.characters.cnn
            vectors = parts.char_vectors(ops, ids, cnn, self.inputs["learnt_characters"]["padding"])
            x.append(pooled(batch.of_tokens(vectors, index, cnn.config.projection_dim)))
        x = ops.concat(x, axis=-1)
        return x if inputs.pool else batch.masked(x), elmo.get("output")


class TaggerNetwork(TaskNetwork):
    """A tagger's scores, which predict.py decodes with the CRF."""

    def __init__(self, tagger: Tagger):
        super().__init__(tagger, "scheme", "unit")
        self.settings["labels"] = tagger.labels
        self.settings["crf"] = [scores.tolist() for scores in tagger.network.crf.decoding_scores()]
        shape = [*TOKENS, len(tagger.labels)]
        self.outputs = {
            "scores": {"shape": shape, "meaning": "of the labels in `settings`, before the CRF"}
        }
        if tagger.settings.scheme == "lac":
            self.settings |= {"pieces": "pieces.txt", "whole": tagger.piece_splitter.whole}
            self.add_table("pieces", sorted(tagger.piece_splitter.known))

    def build(self, batch: Sentences) -> list[Array]:
        x, elmo = self.vectors(batch)
        x = parts.recurrent(batch, x, self.network.recurrent)
        x = x if elmo is None else batch.ops.concat([x, elmo], axis=2)
        return [parts.linear(batch.ops, x, self.network.emission)]


class ClassifierNetwork(TaskNetwork):
    """A classifier. Letters: H numbers of the head's result."""

    def __init__(self, classifier: Classifier):
        super().__init__(classifier, "max_seq_len")
        self.pairs = self.settings["pairs"] = classifier.parts["pairs"]
        pairs = "; of the inputs' 2B texts, those of a pair are B rows apart" if self.pairs else ""
        self.lines = "two texts, separated by a tab" if self.pairs else "a text"
        meaning = f"of `labels` in `settings`{pairs}; pass the first {classifier.settings.max_seq_len} tokens of a text"
        self.settings["labels"] = classifier.labels
        self.outputs = {
            "probabilities": {"shape": ["B", len(classifier.labels)], "meaning": meaning}
        }

    def build(self, batch: Sentences) -> list[Array]:
        ops, network, (x, _) = batch.ops, self.network, self.vectors(batch)
        x = x if network.inputs.pool else parts.text_vectors(batch, x, network.head)  # (B, H)
        if self.pairs:
            a, b = ops.split(x, 2, axis=0)
            x = ops.concat([a, b, ops.relu(a - b) + ops.relu(b - a), a * b], axis=1)
        x = ops.tanh(parts.linear(ops, x, network.hidden)) if network.hidden else x
        return [ops.softmax(parts.linear(ops, x, network.output))]


class ParserNetwork(TaskNetwork):
    """A parser's scores, from which predict.py makes trees. Letters: R labels, U tags."""

    def __init__(self, parser: Parser):
        super().__init__(parser, "with_tags")
        names = self.settings["labels"] = parser.labels
        arcs = {
            "shape": [*TOKENS, 1, "T + 1"],
            "meaning": "scores of each token's heads; 0 is the root",
        }
        labels = {
            "shape": [*TOKENS, len(names), "T + 1"],
            "meaning": "scores of each arc's `labels` in `settings`",
        }
        self.outputs = {"arcs": arcs, "labels": labels}
        if self.settings["with_tags"]:
            self.settings["tags"] = parser.parts["tags"]
            shape = [*TOKENS, len(parser.parts["tags"])]
            self.outputs["tags"] = {"shape": shape, "meaning": "scores of the `tags` in `settings`"}

    def build(self, batch: Sentences) -> list[Array]:
        ops, network = batch.ops, self.network
        x = parts.recurrent(batch, self.vectors(batch)[0], network.recurrent)
        root = network.root.numpy()
        heads = ops.concat(
            [ops.zeros([batch.rows, *root.shape[1:]], "float32") + ops.weight(root), x], axis=1
        )
        views = zip(network.views, (x, heads, x, heads), strict=True)
        views = [parts.linear(ops, source, view) for view, source in views]
        arc, arc_head, label, label_head = (
            ops.relu(view) * 0.9 + view * 0.1 for view in views
        )  # leaky
        outputs = [parts.biaffine(batch, arc, arc_head, network.arcs)]
        outputs.append(parts.biaffine(batch, label, label_head, network.labels))
        return [*outputs, parts.linear(ops, x, network.tags)] if network.tags else outputs


EXPORTED = (TaggerNetwork, Tagger), (ClassifierNetwork, Classifier), (ParserNetwork, Parser)
NETWORKS = {task.name: (network, task) for network, task in EXPORTED}
