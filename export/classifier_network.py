"""A classifier as a static graph: the means of ELMo's layers over a text, and the head.

Letters: B texts, T tokens of the longest, P projection, K classes.
"""

from elmo_core.machine.messages import UserError
from elmo_tasks.classification.classifier import Classifier
from elmo_tasks.classification.encoders import BiLMEncoder
from export.elmo_network import ELMoNetwork, linear, mix_weights, mixed
from export.operators import Operators, Output
from export.sentences import Sentences


class ClassifierNetwork:
    def __init__(self, classifier: Classifier):
        if [type(encoder) for encoder in classifier.encoders] != [BiLMEncoder]:
            raise UserError(
                "this classifier reads word vectors, which for unknown words are drawn at random by NumPy. Only classifiers "
                "of ELMo alone can be exported."
            )
        (encoder,) = classifier.encoders
        self.how, self.numbers, self.pairs = encoder.how, encoder.numbers, classifier.head.pairs
        self.elmo = ELMoNetwork(encoder.bilm, encoder.vocabulary)
        self.weights = {name: weight.numpy() for name, weight in classifier.head.state_dict().items()}
        self.inputs = self.elmo.inputs
        self.tables = {**self.elmo.tables, "labels.txt": "\n".join(classifier.classes) + "\n"}
        pairs = "; of pairs first all first texts go in, then all second ones: 2B" if self.pairs else ""
        tokens = f"tokens as of run_finetune.py --lang={classifier.lang}"
        cut = f", at most {classifier.max_seq_len}" if classifier.max_seq_len else ""
        meaning = f"of the classes in labels.txt; {tokens}{cut}{pairs}"
        self.output = Output("probabilities", ("B", len(classifier.classes)), "float32", meaning)
        self.nothing = "those of a text without tokens"

    def build(self, ops: Operators) -> None:
        sentences = Sentences(ops, self.inputs, least=2 if self.pairs else 1)
        layers = self.elmo.layers(ops, sentences, max(self.numbers))
        layers = [sentences.mean(layers[number]) for number in self.numbers]  # each (B, 2P)
        if self.how == "average":
            layers = [mixed(layers, [1 / len(layers)] * len(layers))]
        elif self.how == "concat":
            layers = [ops.concat(layers, axis=1)]
        means, deviations = self.weights["inputs.0.mean"], self.weights["inputs.0.deviation"]
        layers = [(x - ops.weight(m)) / ops.weight(d) for x, m, d in zip(layers, means, deviations, strict=True)]
        x = mixed(layers, mix_weights(self.weights, "inputs.0.mix.") if len(layers) > 1 else [1.0])
        if self.pairs:
            a, b = ops.split(x, 2, axis=0)
            x = ops.concat([a, b, ops.relu(a - b) + ops.relu(b - a), a * b], axis=1)
        if "hidden.weight" in self.weights:
            x = ops.tanh(linear(ops, x, self.weights["hidden.weight"], self.weights["hidden.bias"]))
        x = ops.softmax(linear(ops, x, self.weights["output.weight"], self.weights["output.bias"]))
        n = ops.minimum(ops.size(x, 0), sentences.given_size[0])  # none if none went in
        ops.output(self.output.name, ops.head(x, n, axis=0), self.output.shape)
