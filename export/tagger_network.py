"""A tagger as a static graph, with the decoding of its CRF.

Letters: B sentences, T tokens of the longest, H size of a recurrent layer, K labels. D is the axis of the two directions.
"""

import numpy as np

from elmo_core.machine.messages import UserError
from elmo_tasks.tagging.network import CHAR_CNN, MAX_PLACE
from elmo_tasks.tagging.tagger import Tagger
from export.elmo_network import BYTES, CharCNNNetwork, ELMoNetwork, linear, mix_weights, mixed, word_ids
from export.operators import Array, Operators, Output
from export.sentences import Ids, Sentences

NEVER = -1e30  # the score of what cannot be


class TaggerNetwork:
    nothing = "-1"

    def __init__(self, tagger: Tagger):
        self.settings, network = tagger.settings, tagger.network
        if tagger.pieces or self.settings.words != "tokens":
            raise UserError(
                "this tagger reads words that a program finds in the text (jieba's, or pieces of words). Only taggers that "
                "read the given tokens alone can be exported."
            )
        self.weights = {name: weight.numpy() for name, weight in network.state_dict().items()}
        self.inputs: dict[str, Ids] = {}
        self.tables = {"labels.txt": "\n".join(tagger.labels.names) + "\n"}
        self.output = Output("labels", ("B", "T"), "int64", "lines in labels.txt, from 0; -1 beyond a sentence's end")
        self.inputs["words"], table = word_ids(tagger.words, "words.txt")
        self.tables |= table
        if self.settings.place_dim:
            meaning = f"place of the character in its word, from 1, at most {MAX_PLACE + 1}; 0 if it is not known"
            self.inputs["places"] = Ids(meaning, MAX_PLACE + 2, most=MAX_PLACE + 1)
        if tagger.features:
            meaning = "line in features.txt, from 0, of the token's feature; 0 if it is not there"
            self.inputs["features"] = Ids(meaning, len(tagger.features) + 1, table="features.txt")
            self.tables["features.txt"] = "\n".join(["<UNK>", *tagger.features]) + "\n"
        if tagger.vectors:
            words, self.weights["vectors"] = tagger.vectors.rows()
            self.inputs["vectors"] = Ids(
                "line in vectors.txt, from 0; of a word that is not there, of its lower case; else 0",
                len(words),
                table="vectors.txt",
                lower=True,
            )
            self.tables["vectors.txt"] = "\n".join(words) + "\n"
        if self.settings.char_cnn:
            self.inputs["characters"] = BYTES
            self.char_cnn = CharCNNNetwork(self.weights, "char_cnn.", CHAR_CNN, BYTES.padding)
        if encoder := network.encoder:
            self.elmo_at, self.numbers = network.elmo_at, encoder.numbers
            bilm, vocabulary = encoder.elmo.bilm, encoder.elmo.vocabulary
            self.elmo = ELMoNetwork(bilm, vocabulary, "elmo_characters", "elmo_words")
            if self.elmo.inputs.get("elmo_characters") == BYTES:
                self.elmo = ELMoNetwork(bilm, vocabulary, "characters", "elmo_words")
            self.inputs |= self.elmo.inputs
            self.tables |= self.elmo.tables
        else:
            self.elmo = None
        crf = network.crf  # label K is the one before the first
        self.transitions = np.concatenate([self.weights["crf.transitions"], self.weights["crf.start"][None]])
        self.transitions += crf.penalty.numpy()
        self.stop = np.append(self.weights["crf.stop"] + crf.last_penalty.numpy(), NEVER).astype(np.float32)

    def build(self, ops: Operators) -> None:
        sentences = Sentences(ops, self.inputs)
        elmo = self._mixes(ops, sentences) if self.elmo else {}
        found = self._found(ops, sentences)
        x = ops.concat([elmo["input"], *found] if "input" in elmo else found, axis=2)
        for layer in range(self.settings.bigru_num):
            x = self._recurrent(ops, sentences, x, layer)
        if "output" in elmo:
            x = ops.concat([x, elmo["output"]], axis=2)
        emissions = linear(ops, x, self.weights["emission.weight"], self.weights["emission.bias"])
        labels = self._best(ops, sentences, emissions)
        labels = labels * sentences.present + (sentences.present - 1)
        ops.output(self.output.name, sentences.trimmed(labels, [0, 1]), self.output.shape)

    def _found(self, ops: Operators, sentences: Sentences) -> list[Array]:
        """All that the recurrent layers read but ELMo, each (B, T, .)."""

        def rows(name: str, weight: str) -> Array:
            return ops.lookup(ops.weight(self.weights[weight]), sentences.ids[name])

        found = [rows("words", "word_embedding.weight")]
        if "vectors" in self.inputs:
            vectors = rows("vectors", "vectors")
            trained = self.settings.word_vectors_trainable
            found.append(vectors + rows("words", "vector_change.weight") if trained else vectors)
        if self.settings.char_cnn:
            found.append(self._char_features(ops, sentences))
        if "features" in self.inputs:
            found.append(rows("features", "feature_embedding.weight"))
        if "places" in self.inputs:
            found.append(rows("places", "place_embedding.weight"))
        return found

    def _mixes(self, ops: Operators, sentences: Sentences) -> dict[str, Array]:
        layers = self.elmo.layers(ops, sentences, max(self.numbers))
        chosen, made = [layers[number] for number in self.numbers], {}
        for k, where in enumerate(self.elmo_at):
            if self.settings.layers == "concat":
                made[where] = ops.concat(chosen, axis=2)
            else:
                made[where] = mixed(chosen, mix_weights(self.weights, f"encoder.elmo.mixes.{k}."))
        return made

    def _char_features(self, ops: Operators, sentences: Sentences) -> Array:
        flat = ops.reshape(sentences.ids["characters"], [-1, BYTES.columns])
        first, kind = ops.distinct_rows(flat)
        features = self.char_cnn.projected(ops, self.char_cnn.highway_features(ops, ops.lookup(flat, first)))
        return ops.lookup(features, ops.reshape(kind, [sentences.rows, sentences.steps]))

    def _recurrent(self, ops: Operators, sentences: Sentences, x: Array, layer: int) -> Array:
        """A bidirectional GRU or LSTM layer over x (B, T, .). (B, T, 2H)"""

        def both(name: str) -> np.ndarray:
            names = [f"{self.settings.cell}.{name}_l{layer}{direction}" for direction in ("", "_reverse")]
            return np.stack([self.weights[one] for one in names])

        hidden, weight = self.settings.grnn_hidden_dim, both("weight_ih").swapaxes(1, 2)
        recurrent = ops.operand(both("weight_hh").swapaxes(1, 2))
        bias, recurrent_bias = both("bias_ih")[:, None], both("bias_hh")[:, None]
        if self.settings.cell == "lstm":
            bias, recurrent_bias = bias + recurrent_bias, None
        else:
            recurrent_bias = ops.weight(recurrent_bias)

        def lstm(place: Array, h: Array, c: Array) -> tuple[Array, list[Array]]:
            i, f, j, o = ops.split(ops.lookup(products, place) + ops.matmul(h, recurrent), 4, axis=2)
            c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(j)
            h = ops.sigmoid(o) * ops.tanh(c)
            return h, [h, c]

        def gru(place: Array, h: Array) -> tuple[Array, list[Array]]:
            x_r, x_z, x_c = ops.split(ops.lookup(products, place), 3, axis=2)
            h_r, h_z, h_c = ops.split(ops.matmul(h, recurrent) + recurrent_bias, 3, axis=2)
            z, c = ops.sigmoid(x_z + h_z), ops.tanh(x_c + ops.sigmoid(x_r + h_r) * h_c)
            h = (h - c) * z + c
            return h, [h]

        rows = ops.reshape(x, [-1, weight.shape[1]])
        weight = np.concatenate([weight, bias], axis=1)
        products, places = sentences.both_products(rows, weight, sentences.read)
        step = lstm if self.settings.cell == "lstm" else gru
        states = [ops.zeros([2, sentences.rows, hidden], "float32") for _ in range(2 if step is lstm else 1)]
        return sentences.in_order(ops.scan(step, states, places, axis=1)[0], hidden)

    def _best(self, ops: Operators, sentences: Sentences, emissions: Array) -> Array:
        """Viterbi's labels (B, T) for emissions (B, T, K): first the best label before each, then back from the last."""
        n = self.stop.size - 1
        transitions = ops.zeros([sentences.rows, n + 1, n], "float32") + ops.weight(self.transitions)
        each, never = ops.weight(np.arange(n)), ops.zeros([sentences.rows, 1], "float32") + NEVER
        first = np.append(np.full(n, NEVER), 0).astype(np.float32)

        def forward(x: Array, score: Array, left: Array) -> tuple[Array, list[Array]]:
            """x (B, K), score (B, K + 1) of the best beginning that ends in each label, left (B, 1) tokens to come."""
            sums = ops.reshape(score, [-1, n + 1, 1]) + transitions
            there = ops.cast(left >= 1, "int64")
            before = ops.argmax(sums, axis=1) * there + (1 - there) * each
            there = ops.cast(there, "float32")
            next_score = ops.concat([ops.max(sums, axis=1) + x, never], axis=1)
            return before, [next_score * there + score * (1.0 - there), left - 1]

        def backward(before: Array, label: Array) -> tuple[Array, list[Array]]:
            return label, [ops.minimum(ops.pick(before, label), n - 1)]

        scores = [
            ops.zeros([sentences.rows, n + 1], "float32") + ops.weight(first),
            ops.reshape(sentences.lengths, [-1, 1]),
        ]
        steps = ops.transpose(emissions, [1, 0, 2])
        before, (score, _) = ops.scan(forward, scores, steps, axis=0, dtype="int64")
        last = ops.minimum(ops.argmax(score + ops.weight(self.stop), axis=1), n - 1)
        labels, _ = ops.scan(backward, [last], before, axis=0, dtype="int64", reverse=True)
        return ops.transpose(labels, [1, 0])
