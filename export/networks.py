"""The networks that can be exported: ELMo with its vectors, taggers with their labels, classifiers with probabilities.

Letters: B sentences, T tokens of the longest, P projection, K labels or classes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from elmo import BiLM, LayerChoice
from elmo_core.machine.messages import UserError
from elmo_core.text.tokens import Vocabulary
from elmo_tasks.classification.classifier import Classifier
from elmo_tasks.classification.encoders import BiLMEncoder
from elmo_tasks.tagging.network import MAX_POSITION
from elmo_tasks.tagging.tagger import Tagger
from export import parts
from export.elmo_part import ELMoPart
from export.inputs import BYTES, IdInput, Sentences, table_input, word_input
from export.paddle_graph import Array, PaddleGraph


@dataclass(frozen=True)
class Output:
    """empty_result: the output for a sentence without tokens. labels: names of the output's numbers, or of its columns."""

    name: str
    shape: tuple[int | str, ...]
    dtype: str
    meaning: str
    empty_result: str
    labels: Sequence[str] = ()


class Network:
    """inputs: by name, except `lengths`, which every network has."""

    inputs: Mapping[str, IdInput]
    output: Output

    def build(self, batch: Sentences) -> Array:
        """The output; it may be larger than the input batch."""
        raise NotImplementedError

    def add_to(self, ops: PaddleGraph) -> None:
        batch = Sentences(ops, self.inputs)
        x = batch.trimmed(self.build(batch), self.output.shape)
        ops.output(self.output.name, x, self.output.shape)


class EmbedderNetwork(Network):
    """ELMo's vectors, equal to an `ELMoEmbedder`'s. pool: means over the sentences' tokens."""

    def __init__(self, bilm: BiLM, vocabulary: Vocabulary | None, layers: LayerChoice, pool: bool = False):
        self.elmo, self.pool = ELMoPart(bilm, vocabulary, layers), pool
        self.inputs = self.elmo.inputs
        several = [layers.n_layers] if layers.how == "each" else []
        shape = (*several, "B", *([] if pool else ["T"]), 2 * bilm.config.projection_dim)
        which = f"layers {', '.join(map(str, layers.indices))}" if several else "vectors"
        meaning = "means over the tokens" if pool else "forward and backward; zero at padding"
        self.output = Output("vectors", shape, "float32", f"{which}: {meaning}", "zeros")

    def build(self, batch: Sentences) -> Array:
        layers = [batch.mean(x) if self.pool else batch.masked(x) for x in self.elmo.layers(batch)]
        return batch.ops.stack(layers, axis=0) if self.elmo.choice.how == "each" else layers[0]


class TaggerNetwork(Network):
    """A tagger, decoded by its CRF."""

    def __init__(self, tagger: Tagger):
        settings, self.network = tagger.settings, tagger.network
        if tagger.pieces or settings.words != "tokens":
            raise UserError(
                "this tagger reads words that a program finds in the text (jieba's, or pieces of words). Only taggers that "
                "read nothing but the given tokens can be exported."
            )
        meaning = "line in labels.txt, from 0; -1 at padding"
        self.output = Output("labels", ("B", "T"), "int64", meaning, "-1", tagger.labels.names)
        self.inputs = {"words": word_input(tagger.words, "words.txt")}
        self.tables = {"words": self.network.word_embedding.weight.numpy()}
        if tagger.vectors:
            words, self.tables["vectors"] = tagger.vectors.table()
            meaning = "; an unknown word is looked up in lower case, else 0"
            self.inputs["vectors"] = table_input("vectors.txt", words, meaning, lower=True)
        if tagger.features:
            meaning = ": the token's feature; 0 if unknown"
            self.inputs["features"] = table_input("features.txt", ["<UNK>", *tagger.features], meaning)
            self.tables["features"] = self.network.feature_embedding.weight.numpy()
        if settings.segmentation == "feature":
            meaning = f"position of the character in its word, from 1, at most {MAX_POSITION + 1}; 0 if unknown"
            self.inputs["places"] = IdInput(meaning, MAX_POSITION + 2, most=MAX_POSITION + 1)
            self.tables["places"] = self.network.place_embedding.weight.numpy()
        if settings.char_cnn:
            self.inputs["characters"] = BYTES
        self.recurrent, self.mixes = self.network.recurrent, {}
        if elmo := self.network.elmo:
            self.elmo = ELMoPart(elmo.bilm, elmo.vocabulary, elmo.choice, "elmo_")
            self.inputs |= self.elmo.inputs
            mixes = elmo.mixes or [None] * len(self.network.elmo_at)  # None: concatenated layers
            self.mixes = dict(zip(self.network.elmo_at, mixes, strict=True))

    def build(self, batch: Sentences) -> Array:
        ops, elmo = batch.ops, {}
        if self.mixes:
            layers = self.elmo.layers(batch)
            for where, mix in self.mixes.items():
                elmo[where] = parts.scalar_mix(layers, mix) if mix else ops.concat(layers, axis=2)
        x = [elmo["input"]] if "input" in elmo else []
        x = parts.recurrent(batch, ops.concat([*x, *self._token_features(batch)], axis=2), self.recurrent)
        x = ops.concat([x, elmo["output"]], axis=2) if "output" in elmo else x
        labels = parts.viterbi(batch, parts.linear(ops, x, self.network.emission), self.network.crf)
        return labels * batch.mask + (batch.mask - 1)

    def _token_features(self, batch: Sentences) -> list[Array]:
        """The recurrent layers' input except ELMo, each (B, T, .)."""
        ops, network = batch.ops, self.network
        features = {name: ops.lookup(ops.weight(table), batch.ids[name]) for name, table in self.tables.items()}
        if hasattr(network, "vector_change"):
            change = parts.embedding(ops, batch.ids["words"], network.vector_change)
            features["vectors"] = features["vectors"] + change
        if hasattr(network, "char_cnn"):
            (characters,), inverse = batch.distinct("characters")
            vectors = parts.char_vectors(ops, characters, network.char_cnn, BYTES.padding)
            features["characters"] = ops.lookup(vectors, ops.reshape(inverse, [batch.rows, batch.steps]))
        return [features[name] for name in ("words", "vectors", "characters", "features", "places") if name in features]


class ClassifierNetwork(Network):
    """A classifier: means of ELMo's layers over a text, then the head."""

    def __init__(self, classifier: Classifier):
        if [type(encoder) for encoder in classifier.encoders] != [BiLMEncoder]:
            raise UserError(
                "this classifier reads word vectors; unknown words get random ones, drawn by NumPy. Only classifiers that "
                "read nothing but ELMo can be exported."
            )
        elmo, self.head = classifier.encoders[0].elmo, classifier.network
        self.elmo = ELMoPart(elmo.bilm, elmo.vocabulary, elmo.choice)
        self.inputs = self.elmo.inputs
        pairs = "; pairs: all first texts, then all second ones (2B)" if self.head.pairs else ""
        cut = f", at most {classifier.settings.max_seq_len}"
        tokens = f"input tokens as in run_finetune.py --lang={classifier.settings.lang}{cut}{pairs}"
        meaning = f"per class of labels.txt; {tokens}"
        shape, empty_result = ("B", len(classifier.classes)), "those of an empty text"
        self.output = Output("probabilities", shape, "float32", meaning, empty_result, classifier.classes)

    def build(self, batch: Sentences) -> Array:
        ops, head = batch.ops, self.head
        layers = [batch.mean(x) for x in self.elmo.layers(batch)]  # each (B, 2P)
        if self.elmo.choice.how == "concat":
            layers = [ops.concat(layers, axis=1)]
        (part,) = head.inputs
        scales = zip(layers, part.mean.numpy(), part.deviation.numpy(), strict=True)
        layers = [(x - ops.weight(mean)) / ops.weight(deviation) for x, mean, deviation in scales]
        x = parts.scalar_mix(layers, part.mix) if part.mix else layers[0]
        if head.pairs:
            a, b = ops.split(x, 2, axis=0)
            x = ops.concat([a, b, ops.relu(a - b) + ops.relu(b - a), a * b], axis=1)
        x = ops.tanh(parts.linear(ops, x, head.hidden)) if head.hidden else x
        return ops.softmax(parts.linear(ops, x, head.output))
