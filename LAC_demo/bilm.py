"""ELMo as the tagger's input: a layer that takes words or their ids and gives weighted vectors.

    encoder = elmo_encoder(elmo_l2_coef=0.001, dropout=0.5)
    init_pretraining_params(encoder, "checkpoints/10000")
    vectors = encoder([["今天", "天气", "好"]])  # (B, T, 2P)

The names `elmo_encoder` and `init_pretraining_params` are those of Paddle's published demo.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import root  # noqa: F401

import elmo
from elmo_core import checkpoint
from elmo_core.runtime import UserError, log, paddle
from elmo_core.tokens import UNK_ID, TokenBatch, Vocabulary, padded

nn = paddle.nn


@dataclass
class Layers:
    """The layers 0 .. L of the biLM for a batch, each (B, T, 2P), and the mask (B, T) of the words that are there."""

    layers: list[paddle.Tensor]
    mask: paddle.Tensor


class elmo_encoder(nn.Layer):
    """Words in, vectors (B, T, 2P) out: the biLM's layers mixed by trained weights, zero where a sentence has no word.

    The biLM, which comes with `init_pretraining_params`, is frozen unless `trainable`. Then its layers for sentences
    that come again and again can be remembered: see `memory`.

    elmo_l2_coef: of the penalty on the mix's weights, `l2_loss()`, which the task adds to its loss.
    dropout: on the vectors.
    """

    def __init__(self, elmo_l2_coef: float = 0.001, dropout: float = 0.5, trainable: bool = False):
        super().__init__()
        self.settings = {"l2_coef": elmo_l2_coef, "dropout": dropout, "trainable": trainable}
        self.elmo: elmo.ELMo | None = None
        self.vocabulary: Vocabulary | None = None
        self.memory: Memory | None = None

    @property
    def dim(self) -> int:
        """Dimensions of a vector."""
        return self._filled().dim

    def word_ids(self, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        """(B, T) int64 numbers of the words in ELMo's vocabulary, 0 beyond a sentence's end.

        A character model reads words that its vocabulary lacks, but not from these numbers: give it the words.
        """
        config = self._filled().config
        if self.vocabulary is None:
            raise UserError("This biLM reads characters and has no vocab.txt beside it: give it words, not their ids.")
        lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
        found = self.vocabulary.ids([word for words in sentences for word in words])
        if config.input == "char" and (found == UNK_ID).any():
            raise UserError("The biLM reads characters, but some of these words have no number: give it the words.")
        return padded(found, lengths, lengths.max(initial=0))

    def map_words(self, sentences: Sequence[Sequence[str]]) -> TokenBatch | Layers:
        """What `forward` takes for sentences: the words' ids in ELMo's vocabulary or, for a character model, those of
        their characters; or else the layers that are remembered for them.
        """
        if self.memory is not None and not self.elmo.trainable and self.memory.has(sentences):
            return self.memory.recall(sentences)
        return self._filled().token_batch(sentences)

    def forward(
        self, words: Sequence[Sequence[str]] | np.ndarray | paddle.Tensor | TokenBatch | Layers
    ) -> paddle.Tensor:
        """words: sentences of words; or `word_ids` of them, (B, T); or what `map_words` has made of them."""
        if isinstance(words, np.ndarray | paddle.Tensor):
            words = self._words_of(np.asarray(words))
        if not isinstance(words, Layers):
            words = Layers(*self._filled().layers(words))
        mixed = self.elmo.mixes[0](words.layers, words.mask) * words.mask.unsqueeze(-1)
        return nn.functional.dropout(mixed, self.elmo.dropout, training=self.training)

    def l2_loss(self) -> paddle.Tensor:
        return self._filled().l2_loss()

    def mix(self) -> dict[str, list[float] | float]:
        """The weights of the layers, which add up to 1, and the factor of the whole."""
        mix = self._filled().mixes[0]
        return {"layers": nn.functional.softmax(mix.scalars).tolist(), "gamma": mix.gamma.item()}

    def _filled(self) -> elmo.ELMo:
        if self.elmo is None:
            raise UserError("elmo_encoder has no biLM yet: call init_pretraining_params(encoder, checkpoint) first.")
        return self.elmo

    def _words_of(self, ids: np.ndarray) -> list[list[str]]:
        self._filled()
        whole, n_words = ids.dtype.kind in "iu", len(self.vocabulary or ())
        if ids.ndim != 2 or not whole or ids.min(initial=0) < 0 or ids.max(initial=0) >= n_words:
            numbers = f", from {ids.min(initial=0)} to {ids.max(initial=0)}" if whole else ""
            found = f"{ids.dtype} of shape {ids.shape}{numbers}"
            size = f"of {n_words:,} words" if n_words else "none here"
            raise UserError(f"word ids: found {found}, expected (B, T) whole numbers in ELMo's vocabulary ({size}).")
        lengths = (np.cumsum(ids[:, ::-1] > 0, axis=1) > 0).sum(axis=1)
        if not ids[np.arange(ids.shape[1]) < lengths[:, None]].all():
            raise UserError("word ids: found a 0 before a sentence's end, expected it only beyond.")
        return [[self.vocabulary[k] for k in row[:n]] for row, n in zip(ids, lengths, strict=True)]


def init_pretraining_params(encoder: elmo_encoder, pretraining_params_path: str | Path) -> None:
    """Give the encoder the biLM of a checkpoint: one of `run_pretrain.py` or imported by `convert.py`, char or word.

    The checkpoint's config.json decides the dimensions. The path is its prefix, a file of it, or its folder.
    """
    encoder.elmo = elmo.ELMo(pretraining_params_path, **encoder.settings)
    encoder.vocabulary = encoder.elmo.vocabulary or vocabulary_beside(pretraining_params_path)
    encoder.memory = None


def vocabulary_beside(path: str | Path) -> Vocabulary | None:
    """A checkpoint's vocabulary. A character model imported from elsewhere may have none."""
    file = checkpoint.resolve(path).parent / checkpoint.VOCABULARY
    return Vocabulary.from_file(file) if file.is_file() else None


@dataclass(frozen=True)
class Pretrained:
    """A biLM's checkpoint, known again by its weights: another may come into its place while a tagger is trained."""

    prefix: str
    fingerprint: str  # SHA-1 of the weights

    @classmethod
    def of(cls, path: str | Path) -> "Pretrained":
        """path: a prefix, a file, or a folder, of which the latest is taken now and for good."""
        prefix = checkpoint.resolve(path).resolve()
        return cls(str(prefix), checkpoint.fingerprint(checkpoint.load_params(prefix)))


class Memory:
    """The layers of a frozen biLM for many sentences, computed once."""

    def __init__(self, encoder: elmo_encoder, sentences: Sequence[Sequence[str]], gigabytes: float):
        """Computes what is not larger than `gigabytes`: in float32 or, if that is too much, float16, or else nothing."""
        distinct = list(dict.fromkeys(map(tuple, sentences)))
        n_tokens, n_layers = sum(map(len, distinct)), encoder.elmo.config.n_layers + 1
        self.layers: dict[tuple[str, ...], np.ndarray] = {}  # (L + 1, n, 2P)
        size = 4 * n_tokens * n_layers * encoder.dim
        sizes = {"float32": size, "float16": size / 2}
        dtype = next((dtype for dtype, needed in sizes.items() if needed <= gigabytes * 1e9), None)
        what = f"{n_tokens:,} words x {n_layers} layers x {encoder.dim}, {size / 1e6:,.0f} MB in float32"
        if dtype is None:
            log.warning(f"ELMo's vectors are computed anew each time: {what}, with room for {gigabytes:g} GB.")
            return
        log.info(f"ELMo's vectors are computed once: {what}, kept in {dtype}.")
        embedder = elmo.ELMoEmbedder(
            (encoder.elmo.bilm, encoder.elmo.vocabulary), device=paddle.get_device(), dtype=dtype
        )
        self.layers = dict(zip(distinct, embedder.iter_encode(distinct), strict=True))
        if embedder.oov_share:
            log.info(f"{embedder.oov_share:.2%} of the words are not in its vocabulary: to it they are <UNK>.")

    def has(self, sentences: Sequence[Sequence[str]]) -> bool:
        return all(tuple(words) in self.layers for words in sentences)

    def recall(self, sentences: Sequence[Sequence[str]]) -> Layers:
        """A batch of sentences that are remembered."""
        arrays = [self.layers[tuple(words)] for words in sentences]
        lengths = np.array([array.shape[1] for array in arrays])
        n_layers, _, dim = arrays[0].shape
        layers = np.zeros((n_layers, len(arrays), lengths.max(), dim), dtype=np.float32)
        for row, array in enumerate(arrays):
            layers[:, row, : array.shape[1]] = array
        mask = (np.arange(lengths.max()) < lengths[:, None]).astype(np.float32)
        return Layers([paddle.to_tensor(layer) for layer in layers], paddle.to_tensor(mask))
