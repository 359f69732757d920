"""Questions about words that a language model answers: substitutes, surprisal, similar occurrences, similar words.

Shapes: P projection size, V vocabulary size.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from tqdm.auto import tqdm

from elmo_core.checks import check_number, check_sentences, checked
from elmo_core.config import MAX_FLOAT
from elmo_core.machine import products
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError
from elmo_core.network.cosines import Neighbour, nearest, unit
from elmo_core.network.layers import EncodedBatch, LayerChoice
from elmo_core.network.surprisal import Surprisals, surprisals
from elmo_core.text.corpus import Corpus
from elmo_core.text.text_files import read_sentences
from elmo_core.text.tokens import SPECIAL_TOKENS


class LanguageModelMethods:
    """The part of `ELMoEmbedder` that answers questions about words."""

    def substitutes(self, sentence: Sequence[str], position: int, k: int = 10) -> list[tuple[str, float]]:
        """The k vocabulary words that best fit a position in a sentence, with scores, best first.

        position: from 0; the word there is not read. A score is the sum of two log-probabilities: forward, given the words
        before it, and backward, given those after it.
        """
        list(self._validated([sentence]))
        check_number("position", position, 0, len(sentence) - 1, integer=True)
        check_number("k", k, 1, integer=True)
        softmax, vocabulary = self._language_model()
        with products.inference(self.device, self.precision, tf32=False):
            encoded, _ = self.bilm.encode(*self.token_table([sentence]))
            steps = position, len(sentence) - 1 - position  # words that each direction has read
            h = paddle.stack([side[step] for side, step in zip(encoded.layers[-1], steps, strict=True)])  # (2, P)
            scores = softmax.all_log_probabilities(h).sum(axis=0)  # (V,)
        order = [word for word in np.argsort(-scores, kind="stable").tolist() if word >= len(SPECIAL_TOKENS)]
        return [(vocabulary[word], float(scores[word])) for word in order[:k]]

    def surprisal(self, sentences: Sequence[Sequence[str]], base: float = 2) -> list[Surprisals]:
        """Return, per sentence, a `TokenSurprisal` for each token and one for the end: minus the log of its probability.

        base: of the logarithm; 2: bits. A word outside the vocabulary has that of `<UNK>`, which stands for all of them:
        its record's `in_vocabulary` is false, and `total(unknown=False)` omits it from a sentence's sum.
        With carry_state=True and batch_size=1 the sentences are read as one text, as in pretraining.
        """
        sentences = check_sentences(sentences)
        records = self.iter_surprisal(sentences, base)
        return list(tqdm(records, total=len(sentences), unit=" sentences", disable=not self.progress))

    def iter_surprisal(self, sentences: Iterable[Sequence[str]], base: float = 2) -> Iterator[Surprisals]:
        """Like `surprisal`, but lazy, for corpora of any size."""
        check_number("base", base, 2, MAX_FLOAT)
        softmax, vocabulary = self._language_model()

        def read(encoded: EncodedBatch, group: Sequence[Sequence[str]]) -> list[Surprisals]:
            return surprisals(softmax, vocabulary, group, encoded.layers[0], encoded.packing, math.log(base))

        top = LayerChoice("each", [self.config.n_layers], tf32=False)
        return self._encoded(
            self._validated(sentences), self.token_table, self.device, None, read, top, carry_state=self.carry_state
        )

    def similar(
        self,
        sentence: Sequence[str],
        position: int,
        corpus: str | Path | Iterable[Sequence[str]],
        k: int = 10,
        layer: int | None = None,
    ) -> list[Neighbour]:
        """The k occurrences of a sentence's word in other sentences of a corpus that are nearest by cosine, nearest first.

        position: of the word, from 0. corpus: sentences, or a file, folder or glob. layer: default the top.
        """
        list(self._validated([sentence]))
        check_number("position", position, 0, len(sentence) - 1, integer=True)
        check_number("k", k, 1, integer=True)
        layer = self.config.n_layers if layer is None else layer
        check_number("layer", layer, 0, self.config.n_layers, integer=True)
        if isinstance(corpus, str | Path):
            corpus = itertools.chain.from_iterable(map(read_sentences, Corpus(corpus).paths))
        word, choice, target = sentence[position], LayerChoice("each", [layer]), tuple(sentence)
        others = (tuple(tokens) for tokens in checked(corpus) if word in tokens)
        distinct = list(self._validated(dict.fromkeys([target, *others])))
        arrays = self._encoded(
            distinct, self.token_table, self.device, None, lambda batch, _: batch.arrays("float32", None), choice, False
        )
        places, vectors = [], []
        for tokens, array in zip(distinct, arrays, strict=True):
            at = [index for index, token in enumerate(tokens) if token == word]
            places += [(tokens, index) for index in at]
            vectors += list(array[0, at])
        vectors, allowed = unit(np.array(vectors)), np.array([tokens != target for tokens, _ in places])
        found = nearest(vectors, vectors[places.index((target, position))], allowed, k)
        return [Neighbour(*places[row], cosine) for row, cosine in found]

    def most_similar(self, word: str, topn: int = 10, words: Sequence[str] | None = None) -> list[tuple[str, float]]:
        """The words nearest to a word by the cosine of their context-free vectors, as in gensim, nearest first.

        words: to choose from; default the model's vocabulary.
        """
        check_number("topn", topn, 1, integer=True)
        words = self.words if words is None else words
        check_sentences([[word], words])
        if not len(words):
            raise UserError("most_similar: no words to choose from, and no vocabulary of the model. Expected `words`.")
        words = list(dict.fromkeys([word, *words]))
        vectors, allowed = unit(self.encode_tokens(words)), np.arange(len(words)) > 0
        return [(words[row], cosine) for row, cosine in nearest(vectors, vectors[0], allowed, topn)]
