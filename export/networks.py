"""The networks that can be exported: ELMo with its vectors, taggers with their labels, classifiers with probabilities.

Letters: B sentences, T tokens of the longest, P projection, K labels or classes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from elmo import BiLM
from elmo_core.messages import UserError
from elmo_core.network.layers import LayerChoice
from elmo_core.text.tokens import Vocabulary
from elmo_tasks.classification.classifier import Classifier
from elmo_tasks.tagging.tagger import Tagger
from elmo_tasks.task import Task
from export import parts
from export.elmo_part import ELMoPart
from export.inputs import BYTES, TOKENS, IdInput, Sentences, table_input, word_input
from export.paddle_graph import Array, PaddleGraph

WORDS = ("B", "W")  # axes of inputs that are jieba's words of sentences of characters


@dataclass(frozen=True)
class Output:
    """A graph's output. labels: names of its numbers or columns."""

    name: str
    shape: tuple[int | str, ...]
    dtype: str
    meaning: str
    labels: Sequence[str] = ()


class Network:
    """Base class of the exported networks. inputs: by name, besides `lengths`, which every network has.

    settings: of the trained model, for predict.py; "task" and "lang" in all. files: further ones that it reads, by name.
    lines: what a line of standard input contains. letters: those of the sizes that vary.
    """

    letters = "B sentences, T tokens of the longest"
    lines: str
    setting_names: Sequence[str]  # of the settings that predict.py needs
    inputs: Mapping[str, IdInput]
    output: Output

    def __init__(self, model: Task):
        self.network, user_dict = model.network, model.settings.user_dict
        self.settings = {"task": model.name, **{name: getattr(model.settings, name) for name in self.setting_names}}
        self.files = {"user_dict.txt": "\n".join(user_dict) + "\n"} if user_dict else {}

    @property
    def needs(self) -> str:
        """Suffix of the README's list of requirements, such as ", jieba"."""
        cut = "zh" if self.settings.get("unit") == "jieba" else self.settings["lang"]
        return {"zh": ", jieba", "any": ", regex"}.get(cut, "")

    def build(self, batch: Sentences) -> Array:
        """Build the output."""
        raise NotImplementedError

    def inputs_of(self, axes: tuple[str, str]) -> dict[str, IdInput]:
        """The inputs with these axes."""
        return {name: ids for name, ids in self.inputs.items() if ids.axes == axes}

    def add_to(self, ops: PaddleGraph) -> None:
        ops.output(self.output.name, self.build(Sentences(ops, self.inputs_of(TOKENS))), self.output.shape)


class EmbedderNetwork(Network):
    """ELMo's vectors, equal to an `ELMoEmbedder`'s. pool: means over the sentences' tokens."""

    lines = "a sentence of tokens, separated by white space"

    def __init__(self, bilm: BiLM, vocabulary: Vocabulary | None, layers: LayerChoice, pool: bool = False):
        self.elmo, self.pool = ELMoPart(bilm, vocabulary, layers), pool
        self.inputs = self.elmo.inputs
        several = [layers.n_layers] if layers.how == "each" else []
        shape = (*several, "B", *([] if pool else ["T"]), 2 * bilm.config.projection_dim)
        which = f"layers {', '.join(map(str, layers.indices))}" if several else "vectors"
        meaning = "means over the tokens" if pool else "forward and backward; zero at padding"
        self.output = Output("vectors", shape, "float32", f"{which}: {meaning}")
        self.settings, self.files = {"task": "elmo", "lang": "none", "pool": pool}, {}

    def build(self, batch: Sentences) -> Array:
        layers = [batch.mean(x) if self.pool else batch.masked(x) for x in self.elmo.layers(batch)]
        return batch.ops.stack(layers, axis=0) if self.elmo.choice.how == "each" else layers[0]


class TaggerNetwork(Network):
    """A tagger, decoded by its CRF."""

    lines = "a sentence"
    setting_names = "lang", "scheme", "unit"

    def __init__(self, tagger: Tagger):
        super().__init__(tagger)
        settings, inputs, self.inputs, self.tables = tagger.settings, self.network.inputs, {}, {}
        axes = WORDS if settings.unit == "jieba" else TOKENS  # of what ELMo and the word vectors read
        if inputs.vectors:
            words, self.tables["vectors"] = inputs.vectors.words, inputs.vectors.table
            self.tables["vectors"] = np.concatenate([np.zeros_like(self.tables["vectors"][:1]), self.tables["vectors"]])
            meaning = "; an unknown word is looked up in lower case, else 0"
            self.inputs["vectors"] = table_input("vectors.txt", ["<UNK>", *words], meaning, lower=True, axes=axes)
        if inputs.words:
            self.inputs["words"] = word_input(inputs.words.vocabulary, "words.txt")
            self.tables["words"] = inputs.words.embedding.weight.numpy()
        self.mixes = {}
        if elmo := inputs.elmo:
            self.elmo = ELMoPart(elmo.bilm, elmo.vocabulary, elmo.choice, "elmo_", axes)
            self.inputs |= self.elmo.inputs
            mixes = inputs.mixes or [None] * len(inputs.elmo_at)  # None: concatenated layers
            self.mixes = dict(zip(inputs.elmo_at, mixes, strict=True))
        if self.inputs_of(WORDS):
            self.letters = f"{self.letters}, W jieba's words of the longest"
            self.inputs["word_index"] = IdInput("index b * W + w of each token's word")
        if settings.char_cnn:
            self.inputs["characters"] = BYTES
        meaning = "line in labels.txt, from 0; -1 at padding"
        self.output = Output("labels", ("B", "T"), "int64", meaning, list(map(str, tagger.labels)))
        if settings.scheme == "lac":
            self.settings |= {"pieces": "pieces.txt", "whole": tagger.piece_splitter.whole}
            self.files["pieces.txt"] = "\n".join(sorted(tagger.piece_splitter.known)) + "\n"

    def build(self, batch: Sentences) -> Array:
        ops, of_words = batch.ops, self.inputs_of(WORDS)
        words = Sentences(ops, of_words, "word_lengths") if of_words else batch

        def of_token(x: Array, width: int) -> Array:
            """From vectors of words (B, W, width) to those of the tokens in them, (B, T, width)."""
            return ops.lookup(ops.reshape(x, [-1, width]), batch.ids["word_index"]) if of_words else x

        layers = self.elmo.layers(words) if self.mixes else []
        elmo = {
            at: parts.scalar_mix(layers, mix) if mix else ops.concat(layers, axis=2) for at, mix in self.mixes.items()
        }
        elmo = {at: of_token(x, self.network.inputs.elmo_dim) for at, x in elmo.items()}
        x = [elmo["input"]] if "input" in elmo else []
        if "vectors" in self.tables:
            table = self.tables["vectors"]
            x.append(of_token(ops.lookup(ops.weight(table), words.ids["vectors"]), table.shape[1]))
        if "words" in self.tables:
            x.append(ops.lookup(ops.weight(self.tables["words"]), batch.ids["words"]))
        if self.network.inputs.characters:
            (characters,), inverse = batch.distinct("characters")
            vectors = parts.char_vectors(ops, characters, self.network.inputs.characters.cnn, BYTES.padding)
            x.append(ops.lookup(vectors, ops.reshape(inverse, [batch.rows, batch.steps])))
        x = parts.recurrent(batch, ops.concat(x, axis=2), self.network.recurrent)
        x = ops.concat([x, elmo["output"]], axis=2) if "output" in elmo else x
        labels = parts.viterbi(batch, parts.linear(ops, x, self.network.emission), self.network.crf)
        return labels * batch.mask + (batch.mask - 1)


class ClassifierNetwork(Network):
    """A classifier of ELMo's layers. Letters: B texts, T tokens, H dimensions of the head's result."""

    setting_names = "lang", "max_seq_len"

    def __init__(self, classifier: Classifier):
        inputs, elmo = classifier.network.inputs, classifier.network.inputs.elmo
        if not elmo or inputs.vectors or inputs.words or inputs.characters:
            raise UserError("this classifier reads words, which a graph cannot. Use one whose only input is ELMo.")
        super().__init__(classifier)
        self.elmo = ELMoPart(elmo.bilm, elmo.vocabulary, elmo.choice)
        self.inputs = self.elmo.inputs
        self.pairs = self.settings["pairs"] = classifier.parts["pairs"]
        pairs = "; of the inputs' 2B texts, those of a pair are B rows apart" if self.pairs else ""
        self.lines = "two texts, separated by a tab" if self.pairs else "a text"
        meaning = f"per class of labels.txt{pairs}; pass the first {classifier.settings.max_seq_len} tokens of a text"
        classes = list(map(str, classifier.classes))
        self.output = Output("probabilities", ("B", len(classes)), "float32", meaning, classes)

    def build(self, batch: Sentences) -> Array:
        ops, network, pools, mixes = batch.ops, self.network, self.network.inputs.pool, self.network.inputs.mixes
        layers = [batch.mean(x) if pools else x for x in self.elmo.layers(batch)]  # each (B, 2P) or (B, T, 2P)
        (part,) = network.inputs.statistics
        scales = zip(layers, part.mean.numpy(), part.deviation.numpy(), strict=True)
        layers = [(x - ops.weight(mean)) / ops.weight(deviation) for x, mean, deviation in scales]
        x = parts.scalar_mix(layers, mixes[0]) if mixes else ops.concat(layers, axis=-1)
        x = x if pools else parts.text_vectors(batch, batch.masked(x), network.head)  # (B, H)
        if self.pairs:
            a, b = ops.split(x, 2, axis=0)
            x = ops.concat([a, b, ops.relu(a - b) + ops.relu(b - a), a * b], axis=1)
        x = ops.tanh(parts.linear(ops, x, network.hidden)) if network.hidden else x
        return ops.softmax(parts.linear(ops, x, network.output))
