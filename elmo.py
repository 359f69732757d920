"""ELMo: deep contextual word vectors from a bidirectional language model (Peters et al. 2018, sections 3.1 to 3.3).

    tokens -> token encoder (character CNN | word table) -> BiLM: L projected LSTMs in each direction -> layers 0 .. L
                                                              |                                         |
                                                     Softmax (pretraining)                     ScalarMix (downstream)

Letters: B rows, T steps, C characters of a token (50), N distinct tokens of a batch, P projection, H cell,
V vocabulary, L LSTM layers, M = sum of all row lengths.

docs/differences.md lists what differs from the paper and bilm-tf.
"""

import contextlib
import itertools
import math
import os
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from elmo_core.config import MAX_FLOAT, ELMoConfig
from elmo_core.files import checkpoint
from elmo_core.machine import products, runtime, versions
from elmo_core.machine.checks import check_number, check_option, check_sentence, check_sentences, describe
from elmo_core.machine.messages import UserError, log
from elmo_core.machine.runtime import paddle, to_tensor
from elmo_core.network.lstmp import LSTMP, CellConfig, Packing, State, run_layer
from elmo_core.network.softmax import Candidates, Softmax
from elmo_core.network.token_encoders import token_encoder
from elmo_core.network.token_tables import OOVCounter, PrecomputedTable, make_token_table
from elmo_core.text.tokens import (
    SPECIAL_TOKENS,
    LMBatch,
    TokenBatch,
    Tokens,
    Vocabulary,
    restore_order,
    sentence_batches,
    token_batch,
)
from elmo_core.weights.model_files import read_model, resolve

__all__ = ["BiLM", "ELMo", "ELMoConfig", "ELMoEmbedder", "ScalarMix", "UserError", "Vocabulary", "load_bilm"]

nn = paddle.nn
ROOM_LEFT = 1_000_000_000  # bytes of the disk that kept layers leave free
TOKENS_PER_ROW = 64  # of an embedder: batch_size rows of up to so many tokens, or fewer rows of longer sentences
# Paddle's device and its choice of TF32 are those of all threads, of which one embeds at a time where there is a choice
_IN_TURN = threading.RLock() if paddle.is_compiled_with_cuda() else contextlib.nullcontext()
BiLMState = list[list[State]]  # of every layer, of both directions: h (B, P) and c (B, H)


class BiLM(nn.Layer):
    """The bidirectional language model. Its sublayers' names are the keys of every checkpoint.

    head: with the softmax over the vocabulary, for pretraining and perplexity. Its tables then have `row_gradient`s
    (elmo_core/network/row_gradients.py), which the optimizers of pretraining take.
    """

    def __init__(self, config: ELMoConfig, head: bool = True):
        super().__init__()
        self.config = config
        cell = CellConfig(config.forget_bias, config.cell_clip, config.proj_clip)
        self.token_encoder = token_encoder(config, sparse=head)
        for name in ("forward_lstm", "backward_lstm"):
            layers = [LSTMP(config.projection_dim, config.cell_dim, cell) for _ in range(config.n_layers)]
            setattr(self, name, nn.LayerList(layers))
        if head and config.vocab_size:
            self.softmax = Softmax(config.vocab_size, config.projection_dim)

    def zero_state(self, rows: int) -> BiLMState:
        return [[lstmp.zero_state(rows) for lstmp in pair] for pair in self._pairs()]

    def run(
        self,
        vectors: paddle.Tensor,
        reads: tuple[np.ndarray, np.ndarray],
        packing: Packing,
        state: BiLMState | None = None,
        dropout: float = 0.0,
        highest: int | None = None,
    ) -> tuple[list[list[paddle.Tensor]], BiLMState]:
        """Run both directions over the layers up to `highest` (default: all).

        vectors: (N, P); reads: of each direction the (M,) places in `vectors`, packed; state: what each row starts from.
        Returns of every layer 0 .. highest both directions' packed outputs, and the state every row ends with.
        """
        reads = list(map(to_tensor, reads))
        x = [paddle.gather(vectors, places) for places in reads]  # each (M, P)
        state = state or self.zero_state(len(packing.sorted_indices))
        layers, last = [x], []
        for number, (pair, before) in enumerate(zip(self._pairs()[:highest], state, strict=False)):
            starts = [packing.sort(part) for part in before]
            if number == 0 and not dropout:  # the input product is made once for each distinct vector
                outputs = run_layer(pair, [vectors, vectors], starts, packing.batch_sizes, reads)
            else:
                dropped = [nn.functional.dropout(part, dropout) for part in x] if dropout else x
                outputs = run_layer(pair, dropped, starts, packing.batch_sizes)
            last.append([packing.unsort((output.h, output.c)) for output in outputs])
            outputs = [output.outputs for output in outputs]
            if number and self.config.use_skip_connections:
                outputs = [output + part for output, part in zip(outputs, x, strict=True)]
            layers.append(outputs)
            x = outputs
        return layers, last

    def encode(
        self,
        vectors: paddle.Tensor,
        index: np.ndarray,
        lengths: np.ndarray,
        state: BiLMState | None = None,
        dropout: float = 0.0,
        highest: int | None = None,
    ) -> tuple[list[list[paddle.Tensor]], Packing, BiLMState]:
        """Layers of whole sentences `<S> w1 .. wn </S>`, given by their places (B, T) in the vectors and their lengths.

        Step k of either direction's outputs belongs to the k-th word (1 .. n) from that direction's start. Where no
        state is carried, the marker at each direction's end is not run: nothing reads it.
        """
        packing = Packing.from_lengths(lengths if state is not None else lengths - 1)
        forward = index[packing.row, packing.step]
        backward = index[packing.row, lengths[packing.row] - 1 - packing.step]
        layers, state = self.run(vectors, (forward, backward), packing, state, dropout, highest)
        return layers, packing, state

    def forward(
        self, batch: LMBatch, state: BiLMState, candidates: Candidates, dropout: float = 0.0
    ) -> tuple[list[paddle.Tensor], BiLMState]:
        """Mean loss of the forward and of the backward predictions, and the detached state for the next batch."""
        dropout = dropout if self.training else 0.0
        top, targets, _, state = self._top(batch, state, dropout)
        if dropout:
            top = [nn.functional.dropout(h, dropout) for h in top]
        detached = [[tuple(part.detach() for part in one) for one in pair] for pair in state]
        return self.softmax.losses(top, targets, candidates), detached

    def log_probabilities(
        self, batch: LMBatch, state: BiLMState | None = None
    ) -> tuple[np.ndarray, np.ndarray, BiLMState]:
        """Exact log-probability of every target, forward and backward, (B, T) with 0 beyond a row's length."""
        with paddle.no_grad(), products.full_precision():
            top, targets, packing, state = self._top(batch, state, 0.0)
            tasks = [
                lambda h=h, words=words: self.softmax.log_probabilities(h, words)
                for h, words in zip(top, targets, strict=True)
            ]
            scores = []
            for values in runtime.run_in_parallel(tasks):
                scores.append(np.zeros(batch.forward_target.shape))
                scores[-1][packing.row, packing.step] = values
            return scores[0], scores[1], state

    def _top(self, batch: LMBatch, state: BiLMState | None, dropout: float):
        """The last layer's packed outputs and the targets of both directions, the packing, and the new state."""
        packing = Packing.from_lengths(batch.lengths)
        place = packing.row, packing.step
        vectors = self.token_encoder(batch.tokens)
        reads = batch.forward_input[place], batch.backward_input[place]
        layers, state = self.run(vectors, reads, packing, state, dropout)
        return layers[-1], (batch.forward_target[place], batch.backward_target[place]), packing, state

    def _pairs(self) -> list[tuple[LSTMP, LSTMP]]:
        return list(zip(self.forward_lstm, self.backward_lstm, strict=True))


def load_bilm(params: str | Path, head: bool = False) -> tuple[BiLM, Vocabulary | None]:
    """The model of a checkpoint, with or without its softmax, and its vocabulary.

    params: prefix, file, folder (its latest), or a published model's name.
    """
    prefix, config, weights, vocabulary = read_model(params, head)
    with paddle.LazyGuard():  # not initialised: the weights are about to be set
        bilm = BiLM(config, head)
    set_weights(bilm, weights, str(prefix))
    return bilm, vocabulary


def set_weights(layer: nn.Layer, found: dict[str, np.ndarray], source: str) -> None:
    """Put all weights into the layer; nothing is set where one is missing, unexpected or of another shape."""
    weights = layer.state_dict()
    checkpoint.match({name: tuple(weight.shape) for name, weight in weights.items()}, found, source)
    for name, weight in weights.items():
        weight.set_value(found[name].astype(str(weight.dtype).removeprefix("paddle."), copy=False))


class ScalarMix(nn.Layer):
    """gamma * sum_j softmax(s)_j h_j, optionally with layer norm over the tokens that are there."""

    def __init__(self, n_layers: int, layer_norm: bool = False):
        super().__init__()
        self.layer_norm = layer_norm
        zero, one = nn.initializer.Constant(0.0), nn.initializer.Constant(1.0)
        self.scalars = self.create_parameter([n_layers], default_initializer=zero)
        self.gamma = self.create_parameter([1], default_initializer=one)

    def forward(self, layers: Sequence[paddle.Tensor], mask: paddle.Tensor | None = None) -> paddle.Tensor:
        """layers: each (..., D); mask: (...), 1 at the tokens that are there (for the layer norm)."""
        if len(layers) != len(self.scalars):
            raise UserError(f"ScalarMix: found {len(layers)} layers, expected {len(self.scalars)}.")
        if 0 in layers[0].shape:  # older Paddle cannot add tensors without elements
            return layers[0]
        if self.layer_norm:
            layers = [_normalised(layer, mask) for layer in layers]
        weights = nn.functional.softmax(self.scalars, axis=0)
        return self.gamma * sum(weights[j] * layer for j, layer in enumerate(layers))


def _normalised(layer: paddle.Tensor, mask: paddle.Tensor | None) -> paddle.Tensor:
    """Zero mean and unit variance over all features of all tokens that are there."""
    mask = paddle.ones(layer.shape[:-1], layer.dtype) if mask is None else mask.astype(layer.dtype)
    mask = mask.unsqueeze(-1)
    count = mask.sum() * layer.shape[-1]
    mean = (layer * mask).sum() / count
    variance = (((layer - mean) * mask) ** 2).sum() / count
    return (layer - mean) / paddle.sqrt(variance + 1e-12)


@dataclass(frozen=True)
class LayerChoice:
    """Which layers are returned, and how: each by itself, concat, mix (trained weights), or their sum by fixed weights."""

    how: str
    numbers: list[int]
    weights: list[float] | None = None  # of a sum

    @property
    def n_layers(self) -> int:
        """Number of layers that `of` returns."""
        return 1 if self.how == "sum" else len(self.numbers)

    @property
    def highest(self) -> int:
        """The last layer that has to be run."""
        return max(self.numbers, default=0)

    def of(self, layers: Sequence[paddle.Tensor]) -> list[paddle.Tensor]:
        """From all layers of the biLM the chosen ones, or their sum."""
        if self.how != "sum":
            return [layers[number] for number in self.numbers]
        pairs = [(self.weights[number], layers[number]) for number in self.numbers] or [(0.0, layers[0])]
        parts = [layer if weight == 1 else layer * weight for weight, layer in pairs]
        return [sum(parts[1:], parts[0])]

    def of_directions(self, layers: Sequence[Sequence[paddle.Tensor]]) -> list[tuple[paddle.Tensor, paddle.Tensor]]:
        """The same of layers whose forward and backward outputs are apart."""
        return list(zip(*(self.of(side) for side in zip(*layers, strict=True)), strict=True))


def layer_choice(layers: str | int | Sequence[float], n_layers: int, allowed: Sequence[str]) -> LayerChoice:
    """all | concat | mix | average | top | a layer's number | several: "0,1", "concat:0,1", "mix:0,1" | weights of a sum.

    allowed: values of LayerChoice.how.
    """
    every, choice = list(range(n_layers)), None
    if isinstance(layers, str | int | np.integer) and not isinstance(layers, bool):
        name, _, listed = str(layers).rpartition(":")
        numbers = [int(n) for n in listed.split(",") if n.isdecimal() and int(n) < n_layers]
        if name in ("", "concat", "mix") and len(numbers) == len(listed.split(",")):
            single = not name and len(numbers) == 1
            choice = _sum([float(k in numbers) for k in every]) if single else LayerChoice(name or "each", numbers)
        elif layers in ("all", "concat", "mix"):
            choice = LayerChoice("each" if layers == "all" else layers, every)
        elif layers in ("top", "average"):
            choice = _sum([float(k == every[-1]) if layers == "top" else 1 / n_layers for k in every])
    elif isinstance(layers, list | tuple | np.ndarray) and len(layers) == n_layers:
        are_numbers = all(isinstance(weight, int | float | np.floating) and np.isfinite(weight) for weight in layers)
        if are_numbers and not all(isinstance(weight, int) for weight in layers):  # [0, 1, 2] would mean layers
            choice = _sum(list(map(float, layers)))
    if choice and choice.how in allowed:
        return choice
    forms = {"each": "'all', several as in '0,1'", "concat": "'concat', 'concat:0,1'", "mix": "'mix', 'mix:0,1'"}
    expected = [text for how, text in forms.items() if how in allowed]
    if not isinstance(layers, str):
        expected.append(f"{n_layers} weights with decimal points, as in {[1.0] + [0.0] * (n_layers - 1)}")
    raise UserError(
        f"layers={layers!r}: expected {', '.join(expected)}, 'average', 'top', or a number from 0 to {n_layers - 1}."
    )


def _sum(weights: list[float]) -> LayerChoice:
    return LayerChoice("sum", [number for number, weight in enumerate(weights) if weight], weights)


class ELMo(nn.Layer):
    """ELMo as a layer of any network: sentences in, vectors of their tokens out.

        elmo = ELMo("checkpoints", layers="concat")
        (vectors,), mask = elmo(sentences)        # (B, T, elmo.dim), (B, T)
        elmo.keep(train + dev, gigabytes=4)       # if frozen: computed once and not in every epoch

    params: a checkpoint, the name of a published model (`python convert.py list`), which is fetched if it is not here, or
    a BiLM and its vocabulary, as `load_bilm` returns them.
    n_mixes: number of ScalarMixes over the same pass (the paper puts one at the input of a task's network, one at its
    output); 0 where only `layers` is called.
    trainable: whether the biLM is trained too, or only the mixes.
    dropout: on the output.
    l2_coef: of the penalty on the mixes' scalars, `l2_loss()`, which the task adds to its loss.
    layers: mix (trained weights) | concat | average | top | a layer's number | mix or concat of some, as in "mix:0,2".
    pool: None for a vector of each token; mean over a sentence's tokens.
    word_dropout, layer_dropout: of a trainable biLM: share of a batch's words whose vectors are zero; between its layers.
    """

    def __init__(
        self,
        params: str | Path | tuple[BiLM, Vocabulary | None],
        n_mixes: int = 1,
        trainable: bool = False,
        dropout: float = 0.5,
        layer_norm: bool = False,
        l2_coef: float = 0.0,
        *,
        layers: str | int = "mix",
        pool: str | None = None,
        word_dropout: float = 0.0,
        layer_dropout: float = 0.0,
    ):
        super().__init__()
        check_number("n_mixes", n_mixes, 0, integer=True)
        check_number("l2_coef", l2_coef, 0, MAX_FLOAT)
        for name, share in (("dropout", dropout), ("word_dropout", word_dropout), ("layer_dropout", layer_dropout)):
            check_number(name, share, 0, 1)
        check_option("pool", pool, (None, "mean"))
        self.bilm, self.vocabulary = _given(params) if isinstance(params, tuple) else load_bilm(params)
        self.config = self.bilm.config
        self.choice = layer_choice(layers, self.config.n_layers + 1, ("mix", "concat", "sum"))
        self.layer_dim = 2 * self.config.projection_dim
        concatenated = self.choice.how == "concat"
        self.dim = self.layer_dim * (self.choice.n_layers if concatenated else 1)
        self.n_mixes, self.trainable, self.l2_coef, self.pool = n_mixes, trainable, l2_coef, pool
        self.dropout, self.word_dropout, self.layer_dropout = dropout, word_dropout, layer_dropout
        for weight in self.bilm.parameters():
            weight.stop_gradient = not trainable
        mixes = 0 if concatenated else n_mixes
        self.mixes = nn.LayerList(ScalarMix(self.choice.n_layers, layer_norm) for _ in range(mixes))
        self._kept: dict[tuple[str, ...], np.ndarray] = {}
        self._oov_counter = OOVCounter(self.config, self.vocabulary)

    def forward(self, sentences: Sequence[Sequence[str]] | TokenBatch) -> tuple[list[paddle.Tensor], paddle.Tensor]:
        """The outputs of the mixes, each (B, T, dim), zero beyond a sentence's end, and the mask (B, T).

        T is the longest sentence. Pooled outputs are (B, dim). Concatenated layers are returned n_mixes times.
        """
        layers, mask = self.layers(sentences)
        return self.mixed(layers, mask), mask

    def layers(self, sentences: Sequence[Sequence[str]] | TokenBatch) -> tuple[list[paddle.Tensor], paddle.Tensor]:
        """The chosen layers, each (B, T, 2P) or, pooled, (B, 2P), and the mask (B, T). `keep` saves computing them."""
        if self._kept and not isinstance(sentences, TokenBatch) and all(tuple(s) in self._kept for s in sentences):
            layers, mask = self.padded(self.arrays(sentences))
            counts = mask.sum(axis=1, keepdim=True).clip(1)
            return [layer.sum(axis=1) / counts for layer in layers] if self.pool else layers, mask
        batch = sentences if isinstance(sentences, TokenBatch) else self.token_batch(sentences)
        lengths = batch.lengths - 2
        rows, steps = len(lengths), int(lengths.max(initial=0))
        if not rows * steps:
            shape = [rows, self.layer_dim] if self.pool else [rows, steps, self.layer_dim]
            return [paddle.zeros(shape)] * self.choice.n_layers, paddle.zeros([rows, steps])
        with paddle.set_grad_enabled(self.trainable and paddle.is_grad_enabled()):
            vectors = self.token_vectors(batch.tokens)
            if self.training and self.word_dropout:
                vectors = vectors * nn.functional.dropout(paddle.ones([len(vectors), 1]), self.word_dropout)
            dropout = self.layer_dropout if self.training else 0.0
            packed, packing, _ = self.bilm.encode(
                vectors, batch.index, batch.lengths, dropout=dropout, highest=self.choice.highest
            )
            *places, mask = packing.word_indices(lengths)  # each (B, T)
            mask = to_tensor(mask).astype(vectors.dtype)
            pairs = self.choice.of_directions(packed)
            if self.pool:
                return _means(pairs, packing, lengths), mask
            places = [to_tensor(one.ravel()) for one in places]
            layers = []
            for pair in pairs:
                both = paddle.concat([paddle.gather(x, one) for x, one in zip(pair, places, strict=True)], axis=1)
                layers.append(both.reshape([rows, steps, self.layer_dim]) * mask.unsqueeze(-1))
            return layers, mask

    def token_vectors(self, tokens: Tokens) -> paddle.Tensor:
        """Vectors (N, P) of a batch's distinct tokens."""
        return self.bilm.token_encoder(tokens)

    def mixed(self, layers: Sequence[paddle.Tensor], mask: paddle.Tensor) -> list[paddle.Tensor]:
        """The outputs for chosen layers (B, T, 2P): mixed or concatenated, zero where the mask is, with dropout."""
        if not self.mixes:
            outputs = [paddle.concat(layers, axis=-1)] * self.n_mixes
        else:
            outputs = [mix(layers, mask) for mix in self.mixes]
        if 0 in mask.shape:
            return outputs
        if not self.pool:
            outputs = [x * mask.unsqueeze(-1) for x in outputs]
        return [nn.functional.dropout(x, self.dropout, training=self.training) for x in outputs]

    def keep(self, sentences: Iterable[Sequence[str]], gigabytes: float, folder: Path | None = None) -> None:
        """Compute the chosen layers of a frozen biLM for sentences that come again in every epoch.

        At most so many gigabytes are kept in memory, in float32 or else in float16. What needs more is kept in float16 in
        a file without a name in the folder; without a folder it is computed in every epoch.
        """
        if self.trainable:
            raise UserError("ELMo.keep: the layers of a trainable biLM change in every step. Expected trainable=False.")
        distinct = list(dict.fromkeys(map(tuple, sentences)))
        n_tokens, n_layers = sum(map(len, distinct)), self.choice.n_layers
        size = 4 * n_tokens * n_layers * self.layer_dim
        what = f"{n_tokens:,} tokens x {n_layers} layers x {self.layer_dim}, {size / 1e6:,.0f} MB in float32"
        on_disk = folder is not None and size / 2 > gigabytes * 1e9
        room = max(0, shutil.disk_usage(folder).free - ROOM_LEFT) if on_disk else gigabytes * 1e9
        if size / 2 > room:
            log.warning(f"ELMo's layers are computed in every epoch: {what}, with room for {room / 1e9:.3g} GB.")
            return
        dtype = "float32" if size <= gigabytes * 1e9 else "float16"
        log.info(
            f"ELMo's layers are computed once: {what}, kept in {dtype} {f'in {folder}' if on_disk else 'in memory'}."
        )
        embedder = self.embedder(dtype=dtype)
        arrays = embedder.iter_encode(distinct)
        if on_disk:
            arrays = _on_disk(arrays, folder, n_tokens * n_layers * self.layer_dim)
        self._kept = {tokens: self._of_layers(array) for tokens, array in zip(distinct, arrays, strict=True)}
        if embedder.oov_share:
            log.info(f"{embedder.oov_share:.2%} of the tokens are not in ELMo's vocabulary and are read as <UNK>.")

    def arrays(self, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """The chosen layers of each sentence (layers, n, 2P), kept or computed now, without gradients."""
        missing = [tokens for tokens in dict.fromkeys(map(tuple, sentences)) if tokens not in self._kept]
        new = map(self._of_layers, self.embedder().encode(missing)) if missing else ()
        found = {**self._kept, **dict(zip(missing, new, strict=True))} if missing else self._kept
        return [found[tuple(tokens)] for tokens in sentences]

    def padded(self, arrays: Sequence[np.ndarray]) -> tuple[list[paddle.Tensor], paddle.Tensor]:
        """Arrays (layers, n, 2P) as layers (B, T, 2P) and their mask (B, T)."""
        lengths = np.array([array.shape[1] for array in arrays])
        layers = np.zeros((self.choice.n_layers, len(arrays), lengths.max(initial=0), self.layer_dim), np.float32)
        for row, array in enumerate(arrays):
            layers[:, row, : array.shape[1]] = array
        mask = np.arange(layers.shape[2]) < lengths[:, None]
        return list(map(to_tensor, layers)), to_tensor(mask.astype(np.float32))

    def token_batch(self, sentences: Sequence[Sequence[str]]) -> TokenBatch:
        """Sentences in the form that the biLM reads, which `forward` takes as well."""
        check_sentences(sentences)
        self._oov_counter.update(list(itertools.chain.from_iterable(sentences)))
        return token_batch(sentences, self.config.input, self.vocabulary)

    def mix_weights(self, number: int = 0) -> dict[str, list[float] | float]:
        """The weights of the layers in a mix, which add up to 1, and the factor of the whole."""
        mix = self.mixes[number]
        return {"layers": nn.functional.softmax(mix.scalars).tolist(), "gamma": mix.gamma.item()}

    def groups(self) -> list[list[paddle.Tensor]]:
        """The biLM's weights, from the token encoder to the top layer."""
        pairs = zip(self.bilm.forward_lstm, self.bilm.backward_lstm, strict=True)
        return [self.bilm.token_encoder.parameters(), *([*f.parameters(), *b.parameters()] for f, b in pairs)]

    @property
    def oov_share(self) -> float:
        """Share of the tokens so far that a word model does not know; 0 for a character model."""
        return self._oov_counter.oov_share

    def l2_loss(self) -> paddle.Tensor:
        """The penalty on how far the mixes' scalars are from an even mix."""
        return self.l2_coef * sum(((mix.scalars**2).sum() for mix in self.mixes), paddle.zeros([]))

    def embedder(self, pool: str | None = None, dtype: str = "float32") -> "ELMoEmbedder":
        """An embedder of the chosen layers, each by itself."""
        layers = self.choice.weights if self.choice.how == "sum" else ",".join(map(str, self.choice.numbers))
        model = self.bilm, self.vocabulary
        return ELMoEmbedder(model, device=paddle.get_device(), layers=layers, pool=pool, dtype=dtype)

    def _of_layers(self, array: np.ndarray) -> np.ndarray:
        return array.reshape(self.choice.n_layers, -1, self.layer_dim)


def _means(packed: Sequence[Sequence[paddle.Tensor]], packing: Packing, lengths: np.ndarray) -> list[paddle.Tensor]:
    """Means (B, 2P) of each layer over the tokens, from the packed outputs of both directions: no (B, T, 2P) is made."""
    words = np.flatnonzero(packing.step > 0)  # step 0 is the marker at a direction's start
    rows = packing.row[words]
    shares = np.zeros((len(lengths), len(packing.row)), np.float32)  # (B, M)
    shares[rows, words] = 1 / np.maximum(lengths, 1)[rows]
    shares = to_tensor(shares)
    return [paddle.concat([shares @ side for side in pair], axis=1) for pair in packed]


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


class ELMoEmbedder:
    """Vectors of sentences from a checkpoint.

    params: the prefix `checkpoints/10000`, its .pdparams file, or the folder (its latest); the name of a published
    model, which is fetched if it is not here; or a BiLM and its vocabulary, as `load_bilm` returns them.
    layers: all | top | average | concat | a layer's number | several, as in "0,1" or "concat:0,1" | weights of a fixed mix,
    one for each layer.
    pool: None for a vector of each token; mean or max over a sentence's tokens.
    carry_state: start each row from the state in which the same row of the batch before ended, as bilm-tf does, the
    sentences taken in the given order. A call starts from zero.
    token_vectors, vocabulary: an HDF5 file with the vectors of a fixed vocabulary, as `run_embed.py --vocab` or bilm-tf's
    dump_token_embeddings write it, and the file of its words. They take the place of the character CNN; any other word
    is an error.
    """

    def __init__(
        self,
        params: str | Path | tuple[BiLM, Vocabulary | None],
        batch_size: int = 128,
        device: str = "auto",
        layers: str | int | Sequence[float] = "all",
        pool: str | None = None,
        dtype: str = "float32",
        carry_state: bool = False,
        progress: bool = False,
        token_vectors: str | Path | None = None,
        vocabulary: str | Path | None = None,
    ):
        check_number("batch_size", batch_size, 1, integer=True)
        check_option("pool", pool, (None, "mean", "max"))
        check_option("dtype", dtype, ("float32", "float16"))
        if (token_vectors is None) != (vocabulary is None):
            raise UserError(
                f"token_vectors={token_vectors!r}, vocabulary={vocabulary!r}: expected both, the file of vectors and the "
                "words of its rows, or neither."
            )
        self.device = runtime.device_name(device)
        self._may_change = isinstance(params, tuple)  # a model of the user's, which may learn between calls
        self._prefix = None if self._may_change else resolve(params)  # a folder's latest may be another one later
        with _IN_TURN, runtime.on_device(self.device):
            self.bilm, self.vocabulary = _given(params) if self._may_change else load_bilm(self._prefix)
            self.config = self.bilm.config
            self.token_table = make_token_table(self.bilm.token_encoder, self.config, self.vocabulary)
            if token_vectors is not None:
                self.token_table = PrecomputedTable(Path(token_vectors), Path(vocabulary), self.config.projection_dim)
        self._head: tuple[Softmax, Vocabulary] | None = None  # read when first asked for
        self.layers = layer_choice(layers, self.config.n_layers + 1, ("each", "concat", "sum"))
        self.layer_dim = 2 * self.config.projection_dim
        self.dim = self.layer_dim * (self.layers.n_layers if self.layers.how == "concat" else 1)
        self.batch_size, self.pool, self.dtype = batch_size, pool, dtype
        self.carry_state, self.progress = carry_state, progress
        self._oov_counter = OOVCounter(self.config, self.vocabulary)

    def encode(self, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Arrays in the order of the sentences, each of `shape(n)` for a sentence of n tokens."""
        check_sentences(sentences)
        return list(self._encode(self._checked(sentences), math.inf, len(sentences)))

    def iter_encode(self, sentences: Iterable[Sequence[str]]) -> Iterator[np.ndarray]:
        """The same, one by one, for corpora of any size: memory holds a window of 16 batches, read ahead."""
        if isinstance(sentences, str | bytes | np.ndarray) or not isinstance(sentences, Iterable):
            check_sentences(sentences)
        return self._encode(self._checked(sentences), total=len(sentences) if isinstance(sentences, Sized) else None)

    def encode_tokens(self, tokens: Sequence[str]) -> np.ndarray:
        """Vectors (n, P) of tokens by themselves, without a context: what the LSTMs read, and twice layer 0."""
        list(self._checked([tokens]))
        self._oov_counter.update(tokens)
        with self._computing():
            return self.token_table.lookup(tokens)

    def substitutes(self, sentence: Sequence[str], place: int, k: int = 10) -> list[tuple[str, float]]:
        """The k words of the vocabulary that fit a place of a sentence best, each with its score, the best first.

        place: counted from 0; the word that stands there is not read. A score is the sum of two log-probabilities: that of
        the forward direction, given the words before the place, and that of the backward one, given those after it.
        """
        list(self._checked([sentence]))
        check_number("place", place, 0, len(sentence) - 1, integer=True)
        check_number("k", k, 1, integer=True)
        softmax, vocabulary = self._language_model()
        with self._computing():
            layers, _, _ = self.bilm.encode(*self.token_table([sentence]))
            steps = place, len(sentence) - 1 - place  # words that each direction has read by then
            h = paddle.stack([side[step] for side, step in zip(layers[-1], steps, strict=True)])  # (2, P)
            scores = softmax.all_log_probabilities(h).sum(axis=0)  # (V,)
        order = [word for word in np.argsort(-scores, kind="stable").tolist() if word >= len(SPECIAL_TOKENS)]
        return [(vocabulary[word], float(scores[word])) for word in order[:k]]

    def shape(self, n: int) -> tuple[int, ...]:
        """The shape of a sentence of n tokens: (layers, n, dim), without layers if there is one, without n if pooled."""
        several = [self.layers.n_layers] if self.layers.how == "each" else []
        return (*several, *([] if self.pool else [n]), self.dim)

    @property
    def oov_share(self) -> float:
        """Share of the tokens so far that a word model does not know; 0 for a character model."""
        return self._oov_counter.oov_share

    def _language_model(self) -> tuple[Softmax, Vocabulary]:
        """The head and the words that it predicts."""
        if self._may_change:
            if "softmax" not in dict(self.bilm.named_children()) or self.vocabulary is None:
                raise UserError("substitutes: expected a BiLM with a language-model head, and its vocabulary.")
            return self.bilm.softmax, self.vocabulary
        if self._head is None:
            with _IN_TURN, runtime.on_device(self.device):
                bilm, vocabulary = load_bilm(self._prefix, head=True)
            self._head = bilm.softmax, vocabulary
        return self._head

    @contextlib.contextmanager
    def _computing(self) -> Iterator[None]:
        """On its device, in full float32, without gradients; what the user's program does is not affected."""
        with _IN_TURN, runtime.on_device(self.device), products.full_precision(), paddle.no_grad():
            yield

    def _checked(self, sentences: Iterable[Sequence[str]]) -> Iterator[Sequence[str]]:
        """The sentences of a call, one by one."""
        if self._may_change:
            self.token_table.clear_cache()
        for number, sentence in enumerate(sentences):
            check_sentence(sentence, number)
            self.token_table.check(sentence, number)
            yield sentence

    def _encode(
        self, sentences: Iterable[Sequence[str]], window: float | None = None, total: int | None = None
    ) -> Iterator[np.ndarray]:
        with tqdm(total=total, unit=" sentences", disable=not self.progress) as bar:
            for array in restore_order(self._batches(sentences, window)):
                bar.update()
                yield array

    def _batches(
        self, sentences: Iterable[Sequence[str]], window: float | None
    ) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        """(positions, arrays) of batches that suit the memory: of like length, or in order where state is carried."""
        if not self.carry_state:
            max_tokens = self.batch_size * TOKENS_PER_ROW
            for positions, group in sentence_batches(sentences, self.batch_size, max_tokens, window):
                yield positions, self._encode_batch(group)[0]
            return
        with _IN_TURN, runtime.on_device(self.device):
            state = self.bilm.zero_state(self.batch_size)
        position, sentences = 0, iter(sentences)
        while group := list(itertools.islice(sentences, self.batch_size)):
            arrays, state = self._encode_batch(group, state)
            yield np.arange(position, position + len(group)), arrays
            position += len(group)

    def _encode_batch(
        self, sentences: Sequence[Sequence[str]], state: BiLMState | None = None
    ) -> tuple[list[np.ndarray], BiLMState]:
        """Arrays of one batch's sentences, and the state for the next batch's rows."""
        self._oov_counter.update(list(itertools.chain.from_iterable(sentences)))
        with self._computing():
            vectors, index, lengths = self.token_table(sentences)
            if state is not None:  # only the last batch can have fewer rows than the one before
                state = [[tuple(part[: len(sentences)] for part in one) for one in pair] for pair in state]
            layers, packing, state = self.bilm.encode(vectors, index, lengths, state, highest=self.layers.highest)
            layers = [[versions.to_array(side) for side in pair] for pair in self.layers.of_directions(layers)]
        forward, backward, mask = packing.word_indices(lengths - 2)
        arrays = []
        for row, n in enumerate(mask.sum(axis=1).tolist()):
            array = np.empty((len(layers), n, self.layer_dim), dtype=np.float32 if self.pool else self.dtype)
            for layer, (left, right) in zip(array, layers, strict=True):
                layer[:, : self.layer_dim // 2] = left[forward[row, :n]]
                layer[:, self.layer_dim // 2 :] = right[backward[row, :n]]
            if self.pool:  # of no tokens: zeros
                array = (array.mean(axis=1) if self.pool == "mean" else array.max(axis=1)) if n else array.sum(axis=1)
            elif self.layers.how == "concat":
                array = array.swapaxes(0, 1)
            arrays.append(array.astype(self.dtype, copy=False).reshape(self.shape(n)))
        return arrays, state


def _given(model: tuple) -> tuple[BiLM, Vocabulary | None]:
    """A user's own model with its vocabulary, which a model of words cannot do without."""
    bilm, vocabulary = model if len(model) == 2 else (None, None)
    fits = isinstance(bilm, BiLM) and (
        isinstance(vocabulary, Vocabulary) or (vocabulary is None and not bilm.config.needs_vocabulary)
    )
    if not fits:
        raise TypeError(f"params: found {describe(model)}, expected a path, or (BiLM, Vocabulary) as of `load_bilm`.")
    return bilm, vocabulary
