"""ELMo as the tagger's input: a layer that takes words or their ids and gives weighted vectors.

    encoder = elmo_encoder(elmo_l2_coef=0.001, dropout=0.5)
    init_pretraining_params(encoder, "checkpoints/10000")
    vectors = encoder([["今天", "天气", "好"]])  # (B, T, 2P)

The names `elmo_encoder` and `init_pretraining_params` are those of Paddle's published demo.
"""

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import elmo
from elmo_core.files import checkpoint
from elmo_core.machine.checks import layer_choice
from elmo_core.machine.messages import UserError, log
from elmo_core.machine.runtime import paddle
from elmo_core.text.tokens import UNK_ID, TokenBatch, Vocabulary, padded
from elmo_core.weights import model_files
from elmo_tasks.characters import words_of

ROOM_LEFT = 1_000_000_000  # bytes of the disk that the cache leaves, for the model

nn = paddle.nn


@dataclass
class Layers:
    """The chosen layers of the biLM for a batch, each (B, T, 2P), and the mask (B, T) of the words that are there."""

    layers: list[paddle.Tensor]
    mask: paddle.Tensor


@dataclass
class InWords:
    """Sentences of characters by their words, and for each sentence the number (T,) of every character's word."""

    words: TokenBatch
    numbers: list[np.ndarray]


class elmo_encoder(nn.Layer):
    """Words in, vectors (B, T, 2P) out: the biLM's layers mixed by trained weights, zero where a sentence has no word.

    The biLM, which comes with `init_pretraining_params`, is frozen unless `trainable`. While it is, `cache` can hold its
    layers for sentences that come again in every epoch.

    elmo_l2_coef: of the penalty on the mix's weights, `l2_loss()`, which the task adds to its loss.
    dropout: on the vectors.
    n_mixes: how many mixes of the same layers `mixes` gives.
    layers: which are mixed: all, top, a number, or several as in "0,1"; concat: all, not mixed but side by side.
    words: what the biLM reads: the tokens, or the words that jieba finds where these are characters.
    """

    def __init__(
        self,
        elmo_l2_coef: float = 0.001,
        dropout: float = 0.5,
        trainable: bool = False,
        n_mixes: int = 1,
        layers: str = "all",
        words: str = "tokens",
    ):
        super().__init__()
        self.words = words
        self.settings = {"l2_coef": elmo_l2_coef, "dropout": dropout, "trainable": trainable, "n_mixes": n_mixes}
        self.choice, self.numbers = layers, []
        self.elmo: elmo.ELMo | None = None
        self.vocabulary: Vocabulary | None = None
        self.cache: LayerCache | None = None

    @property
    def dim(self) -> int:
        return self._loaded().dim * (len(self.numbers) if self.choice == "concat" else 1)

    def word_ids(self, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        """(B, T) int64 numbers of the words in ELMo's vocabulary, 0 beyond a sentence's end.

        A character model reads words that its vocabulary lacks, but not from these numbers: give it the words.
        """
        config = self._loaded().config
        if self.vocabulary is None:
            raise UserError("This biLM reads characters and its folder has no vocab.txt: give it words, not their ids.")
        lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
        ids = self.vocabulary.ids([word for words in sentences for word in words])
        if config.reads_characters and (ids == UNK_ID).any():
            raise UserError("The biLM reads characters, but some of these words have no number: give it the words.")
        return padded(ids, lengths, lengths.max(initial=0))

    def map_words(self, sentences: Sequence[Sequence[str]]) -> TokenBatch | InWords | Layers:
        """What `forward` takes for sentences: the words' ids in ELMo's vocabulary or, for a character model, those of
        their characters; or else the layers in the cache.
        """
        model = self._loaded()
        if self.cache and not model.trainable and all(tuple(words) in self.cache.layers for words in sentences):
            return self.cache.batch(sentences)
        if self.words == "jieba":
            words, numbers = words_of(sentences)
            return InWords(model.token_batch(words), numbers)
        return model.token_batch(sentences)

    def forward(
        self, words: Sequence[Sequence[str]] | np.ndarray | paddle.Tensor | TokenBatch | Layers
    ) -> paddle.Tensor:
        """words: sentences of words; or `word_ids` of them, (B, T); or what `map_words` has made of them."""
        return self.mixes(words)[0]

    def mixes(
        self, words: Sequence[Sequence[str]] | np.ndarray | paddle.Tensor | TokenBatch | Layers
    ) -> list[paddle.Tensor]:
        """The same of every mix. Of layers side by side as many times as there would be mixes."""
        model = self._loaded()
        if isinstance(words, np.ndarray | paddle.Tensor):
            words = self._words_of(np.asarray(words))
        if not isinstance(words, Layers):
            layers, mask = model.layers(words.words if isinstance(words, InWords) else words)
            chosen = [layers[number] for number in self.numbers]
            words = _spread(chosen, words.numbers) if isinstance(words, InWords) else Layers(chosen, mask)
        present = words.mask.unsqueeze(-1)
        if self.choice == "concat":
            found = [paddle.concat(words.layers, axis=2) * present] * self.settings["n_mixes"]
        else:
            found = [mix(words.layers, words.mask) * present for mix in model.mixes]
        return [nn.functional.dropout(x, model.dropout, training=self.training) for x in found]

    def l2_loss(self) -> paddle.Tensor:
        return self._loaded().l2_loss() if self.choice != "concat" else paddle.zeros([])

    def mix(self, number: int = 0) -> dict[str, list[float] | float]:
        """The weights of the layers in a mix, which add up to 1, and the factor of the whole."""
        mix = self._loaded().mixes[number]
        return {"layers": nn.functional.softmax(mix.scalars).tolist(), "gamma": mix.gamma.item()}

    def _loaded(self) -> elmo.ELMo:
        if self.elmo is None:
            raise UserError("elmo_encoder has no biLM yet: call init_pretraining_params(encoder, checkpoint) first.")
        return self.elmo

    def _words_of(self, ids: np.ndarray) -> list[list[str]]:
        n_words = len(self.vocabulary or ())
        good = ids.ndim == 2 and ids.dtype.kind in "iu" and ids.min(initial=0) >= 0 and ids.max(initial=0) < n_words
        lengths = np.count_nonzero(ids, axis=1) if good else None
        if not good or ids[np.arange(ids.shape[1]) >= lengths[:, None]].any():
            raise UserError(
                f"word ids: found {ids.dtype} of shape {ids.shape}, expected (B, T) whole numbers in ELMo's vocabulary "
                f"of {n_words:,} words, and 0 only beyond a sentence's end."
            )
        return [[self.vocabulary[k] for k in row[:n]] for row, n in zip(ids, lengths, strict=True)]


def _spread(layers: list[paddle.Tensor], numbers: Sequence[np.ndarray]) -> Layers:
    """Layers of words (B, W, 2P), given to the characters whose words have these numbers: (B, T, 2P)."""
    lengths = np.array(list(map(len, numbers)))
    _, width, dim = layers[0].shape
    starts = width * np.repeat(np.arange(len(numbers)), lengths)
    places = padded(starts + np.concatenate(numbers), lengths, lengths.max())
    index = paddle.to_tensor(places.ravel())
    chosen = [paddle.gather(layer.reshape([-1, dim]), index).reshape([*places.shape, dim]) for layer in layers]
    return Layers(chosen, _mask(lengths))


def _mask(lengths: np.ndarray) -> paddle.Tensor:
    return paddle.to_tensor((np.arange(lengths.max()) < lengths[:, None]).astype(np.float32))


def init_pretraining_params(encoder: elmo_encoder, pretraining_params_path: str | Path) -> None:
    """Give the encoder the biLM of a checkpoint: one of `run_pretrain.py` or imported by `convert.py`, char or word.

    The checkpoint's config.json decides the dimensions. The path is its prefix, a file of it, or its folder.
    """
    encoder.elmo = elmo.ELMo(pretraining_params_path, **encoder.settings)
    encoder.vocabulary = encoder.elmo.vocabulary or vocabulary_beside(pretraining_params_path)
    encoder.cache = None
    every = encoder.elmo.config.n_layers + 1
    encoder.numbers = layer_choice("all" if encoder.choice == "concat" else encoder.choice, every).numbers
    if encoder.choice == "concat":
        encoder.elmo.mixes = nn.LayerList()
    elif len(encoder.numbers) < every:
        encoder.elmo.mixes = nn.LayerList(elmo.ScalarMix(len(encoder.numbers)) for _ in encoder.elmo.mixes)


def vocabulary_beside(path: str | Path) -> Vocabulary | None:
    """A checkpoint's vocabulary. A character model imported from elsewhere may have none."""
    file = model_files.resolve(path).parent / checkpoint.VOCABULARY
    return Vocabulary.from_file(file) if file.is_file() else None


@dataclass(frozen=True)
class Pretrained:
    """A biLM's checkpoint, identified by its weights: others may have its name by the time a tagger is loaded."""

    prefix: str
    fingerprint: str  # SHA-1 of the weights

    @classmethod
    def of(cls, path: str | Path) -> "Pretrained":
        """path: a prefix, a file, or a folder, whose latest checkpoint is chosen once and for all."""
        prefix = model_files.resolve(path).resolve()
        return cls(str(prefix), checkpoint.fingerprint(checkpoint.load_params(prefix)))


class LayerCache:
    """The layers of a frozen biLM for many sentences, computed once."""

    def __init__(
        self, encoder: elmo_encoder, sentences: Sequence[Sequence[str]], gigabytes: float, folder: Path | None = None
    ):
        """Holds no more than `gigabytes` in memory: in float32 or, if that is too much, in float16. What needs more is in
        float16 in a file that has no name, in the folder; without a folder nothing is kept.
        """
        dim = encoder.elmo.dim
        words = distinct = list(dict.fromkeys(map(tuple, sentences)))
        self.layers: dict[tuple[str, ...], np.ndarray] = {}  # (L + 1, n, 2P)
        self.numbers: dict[tuple[str, ...], np.ndarray] = {}  # of every character's word
        if encoder.words == "jieba":
            words, numbers = words_of(distinct)
            self.numbers = dict(zip(distinct, numbers, strict=True))
        n_tokens, n_layers = sum(map(len, words)), len(encoder.numbers)
        size = 4 * n_tokens * n_layers * dim
        what = f"{n_tokens:,} words x {n_layers} layers x {dim}, {size / 1e6:,.0f} MB in float32"
        on_disk = folder is not None and size / 2 > gigabytes * 1e9
        room = max(0, shutil.disk_usage(folder).free - ROOM_LEFT) if on_disk else gigabytes * 1e9
        if size / 2 > room:
            log.warning(f"ELMo's vectors are computed again in every epoch: {what}, with room for {room / 1e9:.3g} GB.")
            return
        dtype = "float32" if size <= gigabytes * 1e9 else "float16"
        place = f"on the disk, in {folder}" if on_disk else "in memory"
        log.info(f"ELMo's vectors are computed once: {what}, kept in {dtype} {place}.")
        embedder = elmo.ELMoEmbedder(
            (encoder.elmo.bilm, encoder.elmo.vocabulary),
            device=paddle.get_device(),
            layers=",".join(map(str, encoder.numbers)),
            dtype=dtype,
        )
        arrays = embedder.iter_encode(words)
        if on_disk:
            arrays = self._on_disk(arrays, folder, n_tokens * n_layers * dim)
        shape = n_layers, -1, dim
        self.layers = {tokens: array.reshape(shape) for tokens, array in zip(distinct, arrays, strict=True)}
        if embedder.oov_share:
            log.info(f"{embedder.oov_share:.2%} of the words are not in its vocabulary: to it they are <UNK>.")

    @staticmethod
    def _on_disk(arrays: Iterable[np.ndarray], folder: Path, size: int) -> Iterator[np.ndarray]:
        """The arrays, with all their `size` numbers in a file that ends with the process."""
        with tempfile.TemporaryFile(dir=folder) as file:
            if hasattr(os, "posix_fallocate"):  # or a disk that another process fills would end this one without a word
                os.posix_fallocate(file.fileno(), 0, 2 * size)
            numbers = np.memmap(file, np.float16, "w+", shape=(size,))
        begin = 0
        for array in arrays:
            place = numbers[begin : begin + array.size]
            place[:] = array.ravel()
            begin += array.size
            yield place

    def batch(self, sentences: Sequence[Sequence[str]]) -> Layers:
        """The layers of sentences that are in the cache."""
        arrays = [self._layers(tuple(tokens)) for tokens in sentences]
        lengths = np.array([array.shape[1] for array in arrays])
        n_layers, _, dim = arrays[0].shape
        layers = np.zeros((n_layers, len(arrays), lengths.max(), dim), dtype=np.float32)
        for row, array in enumerate(arrays):
            layers[:, row, : array.shape[1]] = array
        return Layers([paddle.to_tensor(layer) for layer in layers], _mask(lengths))

    def _layers(self, tokens: tuple[str, ...]) -> np.ndarray:
        layers = self.layers[tokens]
        return layers[:, self.numbers[tokens]] if self.numbers else layers
