"""The networks that can be exported: ELMo with its vectors, taggers with their labels, classifiers with probabilities,
readers with logits.

Letters: B sentences, T tokens of the longest, P projection, K labels or classes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from elmo import BiLM
from elmo_core.messages import UserError
from elmo_core.network.layers import LayerChoice
from elmo_core.text.tokens import Vocabulary
from elmo_tasks.classification.classifier import Classifier
from elmo_tasks.reading.batch import FEATURES
from elmo_tasks.reading.network import MASKED_LOGIT
from elmo_tasks.reading.reader import Reader
from elmo_tasks.saved import TrainedModel
from elmo_tasks.tagging.network import MAX_POSITION
from elmo_tasks.tagging.tagger import Tagger
from export import parts
from export.elmo_part import ELMoPart
from export.inputs import BYTES, TOKENS, Excerpts, IdInput, Sentences, table_input, word_input
from export.paddle_graph import Array, PaddleGraph

WORDS = ("B", "W")  # axes of inputs that are jieba's words of sentences of characters


@dataclass(frozen=True)
class Output:
    """A graph's output. empty_result: that of a sentence without tokens. labels: names of its numbers or columns."""

    name: str
    shape: tuple[int | str, ...]
    dtype: str
    meaning: str
    empty_result: str
    labels: Sequence[str] = ()


class Network:
    """Base class of the exported networks. inputs: by name, besides `lengths`, which every network has.

    settings: of the trained model, for predict.py; "kind" and "lang" in all. files: further ones that it reads, by name.
    lines: what a line of standard input contains. letters: those of the sizes that vary.
    """

    letters = "B sentences, T tokens of the longest"
    lines: str
    setting_names: Sequence[str]  # of the settings that predict.py needs
    inputs: Mapping[str, IdInput]
    output: Output

    def __init__(self, model: TrainedModel):
        self.network = model.network
        self.settings = {"kind": model.kind, **{name: getattr(model.settings, name) for name in self.setting_names}}
        self.files = {"user_dict.txt": "\n".join(model.user_dict.entries) + "\n"} if model.user_dict else {}

    @property
    def needs(self) -> str:
        """Suffix of the README's list of requirements, such as ", jieba"."""
        cut = "zh" if self.settings.get("words") == "jieba" else self.settings["lang"]
        return {"zh": ", jieba", "any": ", regex"}.get(cut, "")

    def build(self, batch: Sentences) -> Array:
        """The output; it may be larger than the input batch."""
        raise NotImplementedError

    def inputs_of(self, axes: tuple[str, str]) -> dict[str, IdInput]:
        """The inputs of ids, which are looked up, with these axes."""
        return {name: ids for name, ids in self.inputs.items() if ids.axes == axes and ids.end}

    def add_to(self, ops: PaddleGraph) -> None:
        batch = Sentences(ops, self.inputs_of(TOKENS))
        x = batch.trimmed(self.build(batch), self.output.shape)
        ops.output(self.output.name, x, self.output.shape)


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
        self.output = Output("vectors", shape, "float32", f"{which}: {meaning}", "zeros")
        self.settings, self.files = {"kind": "elmo", "lang": "none", "pool": pool}, {}

    def build(self, batch: Sentences) -> Array:
        layers = [batch.mean(x) if self.pool else batch.masked(x) for x in self.elmo.layers(batch)]
        return batch.ops.stack(layers, axis=0) if self.elmo.choice.how == "each" else layers[0]


class TokenNetwork(Network):
    """A network of a task that reads tokens' words, their vectors in a file, and ELMo."""

    def __init__(self, model: Tagger | Reader, axes: tuple[str, str] = TOKENS):
        """axes: of what ELMo and the word vectors read."""
        super().__init__(model)
        self.inputs = {"words": word_input(model.words, "words.txt")}
        self.tables = {"words": self.network.word_embedding.weight.numpy()}
        if model.vectors:
            words, self.tables["vectors"] = model.vectors.table()
            meaning = "; an unknown word is looked up in lower case, else 0"
            self.inputs["vectors"] = table_input("vectors.txt", words, meaning, lower=True, axes=axes)
        self.mixes = {}
        if elmo := self.network.elmo:
            self.elmo = ELMoPart(elmo.bilm, elmo.vocabulary, elmo.choice, "elmo_", axes)
            self.inputs |= self.elmo.inputs
            mixes = elmo.mixes or [None] * len(self.network.elmo_at)  # None: concatenated layers
            self.mixes = dict(zip(self.network.elmo_at, mixes, strict=True))

    def lookups(self, batch: Sentences) -> dict[str, Array]:
        """Each table's rows (B, T, .) of the batch's tokens."""
        tables = {name: x for name, x in self.tables.items() if name in batch.ids}
        return {name: batch.ops.lookup(batch.ops.weight(x), batch.ids[name]) for name, x in tables.items()}

    def elmo_outputs(self, batch: Sentences) -> dict[str, Array]:
        """ELMo (B, T, .) for each part of the network that reads it: input, output."""
        layers, concat = self.elmo.layers(batch) if self.mixes else [], batch.ops.concat
        return {at: parts.scalar_mix(layers, mix) if mix else concat(layers, axis=2) for at, mix in self.mixes.items()}


class TaggerNetwork(TokenNetwork):
    """A tagger, decoded by its CRF."""

    lines = "a sentence"
    setting_names = "lang", "segmentation", "scheme", "words"

    def __init__(self, tagger: Tagger):
        settings = tagger.settings
        super().__init__(tagger, WORDS if settings.words == "jieba" else TOKENS)
        if self.inputs_of(WORDS):
            self.letters = f"{self.letters}, W jieba's words of the longest"
            self.inputs["word_index"] = IdInput("index b * W + w of each token's word; -1 at padding", 0, padding=-1)
        meaning = "line in labels.txt, from 0; -1 at padding"
        self.output = Output("labels", ("B", "T"), "int64", meaning, "-1", tagger.labels)
        if settings.scheme == "lac":
            self.settings |= {"pieces": "pieces.txt", "whole": tagger.pieces is None}
            self.files["pieces.txt"] = "\n".join(sorted(tagger.piece_splitter.known)) + "\n"
        if tagger.features:
            meaning = ": the token's feature; 0 if unknown"
            self.inputs["features"] = table_input("features.txt", ["<UNK>", *tagger.features], meaning)
            self.tables["features"] = self.network.feature_embedding.weight.numpy()
        if settings.segmentation == "feature":
            meaning = f"position of the character in its word, from 1, at most {MAX_POSITION + 1}; 0 if unknown"
            self.inputs["positions"] = IdInput(meaning, MAX_POSITION + 2, max_value=MAX_POSITION + 1)
            self.tables["positions"] = self.network.position_embedding.weight.numpy()
        if settings.char_cnn:
            self.inputs["characters"] = BYTES

    def build(self, batch: Sentences) -> Array:
        ops, words = batch.ops, batch
        if of_words := self.inputs_of(WORDS):
            words = Sentences(ops, of_words, "word_lengths")
            index = Excerpts(words, "word_index", self.inputs["word_index"])
        elmo, features = self.elmo_outputs(words), self.lookups(words)
        if of_words:
            elmo = {at: index.take(x, self.network.elmo.dim) for at, x in elmo.items()}
            features = {name: index.take(x, self.tables[name].shape[1]) for name, x in features.items()}
            features |= self.lookups(batch)
        x = [elmo["input"]] if "input" in elmo else []
        x = ops.concat([*x, *self._token_features(batch, features)], axis=2)
        x = parts.recurrent(batch, x, self.network.recurrent)
        x = ops.concat([x, elmo["output"]], axis=2) if "output" in elmo else x
        labels = parts.viterbi(batch, parts.linear(ops, x, self.network.emission), self.network.crf)
        mask = batch.mask * ops.cast(ops.reshape(words.lengths, [-1, 1]) >= 1, "int64")
        return labels * mask + (mask - 1)

    def _token_features(self, batch: Sentences, features: dict[str, Array]) -> list[Array]:
        """The recurrent layers' input except ELMo, each (B, T, .). features: those of `lookups`."""
        ops, network = batch.ops, self.network
        if hasattr(network, "vector_change"):
            change = parts.embedding(ops, batch.ids["words"], network.vector_change)
            features["vectors"] = features["vectors"] + change
        if hasattr(network, "char_cnn"):
            (characters,), inverse = batch.distinct("characters")
            vectors = parts.char_vectors(ops, characters, network.char_cnn, BYTES.padding)
            features["characters"] = ops.lookup(vectors, ops.reshape(inverse, [batch.rows, batch.steps]))
        order = "words", "vectors", "characters", "features", "positions"
        return [features[name] for name in order if name in features]


class ReaderNetwork(TokenNetwork):
    """A reader: logits of the answer's first and last token in a window of a passage.

    Letters: N windows, each with a question; W and J tokens of the longest of either; D width of the encoder.
    """

    lines = "a question and a passage, separated by a tab"
    setting_names = "lang", "max_seq_len", "doc_stride", "max_answer_length"
    letters = f"{Network.letters}, N windows of passages with a question each, W and J tokens of the longest of either"

    def __init__(self, reader: Reader):
        super().__init__(reader)
        self.settings["no_answer"] = reader.network.no_answer_score()
        for name, text, letter in (("passage", "window", "W"), ("question", "question", "J")):
            meaning = f"index b * T + t of each token of the {text} among the sentences' tokens; -1 at padding"
            self.inputs[name] = IdInput(meaning, 0, padding=-1, axes=("N", letter))
        meaning = "is the window's token one of the question's, does it occur in the question's text (in lower case)"
        self.inputs["features"] = IdInput(meaning, 2, columns=FEATURES, axes=("N", "W"))
        meaning = f"of each token of the window as the answer's first, and as its last; {MASKED_LOGIT:.0e} at padding"
        empty_result = "those of tokens without ELMo and words"
        self.output = Output("logits", ("N", 2, "W"), "float32", meaning, empty_result)

    def build(self, batch: Sentences) -> Array:
        ops, network = batch.ops, self.network
        passage, question = (Excerpts(batch, name, self.inputs[name]) for name in ("passage", "question"))
        features = ops.cast(batch.read("features", self.inputs["features"]), "float32")
        tokens, elmo = ops.concat(list(self.lookups(batch).values()), axis=2), self.elmo_outputs(batch)
        elmo = {at: batch.masked(x) for at, x in elmo.items()}
        h, u = (self._encoded(excerpt, tokens, elmo) for excerpt in (passage, question))  # (N, W, D), (N, J, D)
        by_question = ops.transpose(parts.linear(ops, u, network.similarity[1]), [0, 2, 1])
        by_question = by_question + ops.reshape(question.padding_scores(MASKED_LOGIT), [question.rows, 1, -1])
        similarity = ops.product(h * ops.weight(network.similarity_product.numpy()), ops.transpose(u, [0, 2, 1]))
        similarity = similarity + parts.linear(ops, h, network.similarity[0]) + by_question  # (N, W, J)
        padding = passage.padding_scores(MASKED_LOGIT)
        to_question = ops.product(ops.softmax(similarity), u)  # (N, W, D)
        weights = ops.softmax(ops.max(similarity, axis=2) + padding)
        to_passage = ops.product(ops.reshape(weights, [passage.rows, 1, -1]), h)  # (N, 1, D)
        merged = ops.concat([h, to_question, h * to_question, h * to_passage, features], axis=2)
        merged = ops.relu(parts.linear(ops, merged, network.merge))
        modelled = parts.recurrent(passage, merged, network.model)
        logits = parts.linear(ops, ops.concat([merged, modelled], axis=2), network.ends)  # (N, W, 2)
        return ops.transpose(logits, [0, 2, 1]) + ops.reshape(padding, [passage.rows, 1, -1])

    def _encoded(self, excerpt: Excerpts, tokens: Array, elmo: Mapping[str, Array]) -> Array:
        """`BiDAF.encode` of windows or questions."""
        ops, network = excerpt.ops, self.network
        elmo = [excerpt.take(elmo[at], network.elmo.dim) for at in self.mixes]
        tokens = excerpt.take(tokens, sum(table.shape[1] for table in self.tables.values()))
        x = parts.recurrent(excerpt, ops.concat([tokens, *elmo[:1]], axis=2), network.context)
        return ops.tanh(parts.linear(ops, ops.concat([x, *elmo[1:]], axis=2), network.projection))


class ClassifierNetwork(Network):
    """A classifier of ELMo's layers. Letters: B texts, T tokens, H dimensions of the head's result."""

    setting_names = "lang", "max_seq_len", "pairs"

    def __init__(self, classifier: Classifier):
        if classifier.settings.reads_words:
            raise UserError("this classifier gives unknown words random vectors, which a graph cannot. Use ELMo.")
        super().__init__(classifier)
        elmo = self.network.elmo
        self.elmo = ELMoPart(elmo.bilm, elmo.vocabulary, elmo.choice)
        self.inputs = self.elmo.inputs
        self.pairs = classifier.settings.pairs
        pairs = "; of the inputs' 2B texts, those of a pair are B rows apart" if self.pairs else ""
        self.lines = "two texts, separated by a tab" if self.pairs else "a text"
        meaning = f"per class of labels.txt{pairs}; pass the first {classifier.settings.max_seq_len} tokens of a text"
        shape, empty_result = ("B", len(classifier.classes)), "those of an empty text"
        self.output = Output("probabilities", shape, "float32", meaning, empty_result, classifier.classes)

    def build(self, batch: Sentences) -> Array:
        ops, network, pools = batch.ops, self.network, self.network.settings.pool
        layers = [batch.mean(x) if pools else x for x in self.elmo.layers(batch)]  # each (B, 2P) or (B, T, 2P)
        (part,) = network.inputs
        scales = zip(layers, part.mean.numpy(), part.deviation.numpy(), strict=True)
        layers = [(x - ops.weight(mean)) / ops.weight(deviation) for x, mean, deviation in scales]
        x = parts.scalar_mix(layers, part.mix) if part.mix else ops.concat(layers, axis=-1)
        x = x if pools else parts.text_vectors(batch, batch.masked(x), network.head)  # (B, H)
        if self.pairs:
            a, b = ops.split(x, 2, axis=0)
            x = ops.concat([a, b, ops.relu(a - b) + ops.relu(b - a), a * b], axis=1)
        x = ops.tanh(parts.linear(ops, x, network.hidden)) if network.hidden else x
        return ops.softmax(parts.linear(ops, x, network.output))
