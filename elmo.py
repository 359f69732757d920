"""ELMo: deep contextual word vectors from a bidirectional language model.

Peters et al. 2018, sections 3.1 to 3.3.

    tokens -> token encoder           -> BiLM: L projected LSTMs -> layers 0 .. L
              character CNN | word table   in each direction       |
                                                |                  |
                                     Softmax (pretraining)   ScalarMix (downstream)

Shapes: B rows, T steps, C characters per token (50), N distinct tokens in a batch, P projection
size, H cell size, V vocabulary size, L LSTM layers, M = sum of all row lengths.

docs/differences.md lists the differences from the paper and bilm-tf.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from elmo_core import __version__
from elmo_core.checks import check_number, check_option, check_sentence, check_sentences, checked
from elmo_core.config import MAX_FLOAT, ELMoConfig
from elmo_core.display.surprisal_plot import plot_surprisal
from elmo_core.encoding import answers
from elmo_core.encoding.encoder import Encoder, run_sentences
from elmo_core.encoding.layers import EncodedBatch, EncodingRequest, Layers
from elmo_core.encoding.pooling import MEAN, MEAN_MAX, POOLS, pool_tensor
from elmo_core.encoding.surprisal import Predictor
from elmo_core.encoding.token_tables import TokenTable
from elmo_core.encoding.token_weights import SIF, SIFWeights
from elmo_core.kernels import precision
from elmo_core.kernels.matmul import chosen_precision, freeze, state_of
from elmo_core.machine import runtime
from elmo_core.machine.runtime import paddle, to_tensor
from elmo_core.messages import UserError, bar, format_count, log
from elmo_core.network.bilm import BUILDING, BiLM, make_bilm, weights_of
from elmo_core.network.scalar_mix import ScalarMix
from elmo_core.network.traced import TracedBiLM
from elmo_core.text.batches import restore_order
from elmo_core.text.lexicon import TokenBatch, token_batch
from elmo_core.text.token_inputs import TokenInputs, check_names
from elmo_core.text.vocabulary import Vocabulary
from elmo_core.weights import checkpoint, published
from elmo_core.weights.cards import notice_of
from elmo_core.weights.model_files import (
    fits_alphabet,
    has_softmax,
    read_model,
    resolve_name,
    vocabulary_words,
)
from elmo_core.weights.published import install, models

__all__ = [
    "BiLM",
    "ELMo",
    "ELMoConfig",
    "ELMoEmbedder",
    "ScalarMix",
    "UserError",
    "Vocabulary",
    "__version__",
    "install",
    "load_bilm",
    "models",
    "plot_surprisal",
]

nn = paddle.nn


def __dir__() -> list[str]:
    return __all__


def load_bilm(params: str | Path, softmax: bool | None = False) -> tuple[BiLM, Vocabulary | None]:
    """Load a checkpoint's model and its vocabulary, None if the model does not need one.

    params: a checkpoint, a folder (its latest checkpoint), or a published model's name.
    softmax: whether to load the softmax; None: if it has one.
    """
    folder, config, weights, vocabulary = read_model(params, softmax)
    bilm = make_bilm(config, weights, str(folder))
    bilm.notice = notice_of(folder)
    return bilm, vocabulary


class ELMo(Encoder, nn.Layer):
    """ELMo as a layer of any network: sentences in, vectors of their tokens out.

        elmo = ELMo("checkpoints", layers="concat")
        (vectors,), mask = elmo(sentences)        # (B, T, elmo.dim), (B, T)
        elmo.cache(train + dev, gigabytes=4)      # if frozen: compute once, not in every epoch

    params: a checkpoint; the name of a published model (`elmo.models()`), downloaded on first use;
    or a BiLM and its vocabulary, as `load_bilm` returns them.
    A biLM that is given is frozen, too, unless another ELMo trains it.
    n_mixes: ScalarMixes computed from one biLM pass (the paper uses one at the input and one at the
    output of the task network); 0 if only `layers` is called. Sum the losses before `backward`:
    Paddle crashes in a second backward pass over the same biLM pass.
    trainable: fine-tune the biLM too, not only the mixes.
    dropout: rate on the outputs.
    l2_coef: weight of `l2_loss()`, a penalty on the mixes' scalars that the task adds to its loss.
    layers: mix (trained weights) | concat | average | top | a layer's number | mix or concat of
    some, e.g. "mix:0,2".
    pool: None (one vector per token), or over each sentence's tokens: mean | max | mean_max, both,
    one after the other in each layer.
    word_dropout, layer_dropout: for a trainable biLM, the share of a batch's distinct words whose
    vectors are set to zero, and the dropout rate between layers.
    precision: see `ELMoEmbedder`.
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
        precision: str = "float32",
    ):
        super().__init__()
        check_number("n_mixes", n_mixes, 0, integer=True)
        check_number("l2_coef", l2_coef, 0, MAX_FLOAT)
        check_number("dropout", dropout, 0, 1)
        for name, rate in (("word_dropout", word_dropout), ("layer_dropout", layer_dropout)):
            check_number(name, rate, 0, 1)
            if rate and not trainable:
                problem = "it acts inside the frozen biLM"
                raise UserError(f"{name}={rate}: {problem}. Expected 0, or trainable=True.")
        check_option("pool", pool, (None, *POOLS))
        folder = None if isinstance(params, tuple) else resolve_name(params)
        bilm, vocabulary = load_bilm(folder) if folder else _check_model(params)
        self.precision = chosen_precision(precision, paddle.get_device())
        self._set_bilm(bilm, vocabulary, layers, ("trained_sum", "concat", "sum"), pool)
        self.n_mixes = n_mixes
        self.trainable = False
        self.l2_coef = l2_coef
        self.dropout = dropout
        self.word_dropout = word_dropout
        self.layer_dropout = layer_dropout
        mixes = 0 if self.choice.how == "concat" else n_mixes
        with BUILDING:
            self.mixes = nn.LayerList(
                ScalarMix(self.choice.n_layers, layer_norm) for _ in range(mixes)
            )
        self.cached: dict[tuple[str, ...], np.ndarray] = {}
        self._cached_with: object = None  # the state of the weights that were used
        self._token_inputs = TokenInputs(self.config, self.vocabulary)
        if trainable:
            self.fine_tune(word_dropout, layer_dropout)
        elif not self.bilm.is_fine_tuned:
            freeze(self.bilm.parameters())

    def fine_tune(self, word_dropout: float = 0.0, layer_dropout: float = 0.0) -> None:
        """From now on, train the biLM, too, with these rates of dropout in it."""
        self.trainable = True
        self.word_dropout = word_dropout
        self.layer_dropout = layer_dropout
        self.bilm.is_fine_tuned = True
        self.bilm.token_encoder.sparse = False  # any optimizer is to train a word table
        for weight in self.bilm.parameters():
            weight.stop_gradient = False
        self.clear_cache()

    def inputs(
        self, sentences: Sequence[Sequence[str]]
    ) -> dict[str, paddle.Tensor] | dict[str, np.ndarray]:
        """Return sentences as tensors of ids, which `forward` reads as it reads the sentences.

        characters: (B, T, C), if the model reads characters; lengths: (B,); words: (B, T), if it
        reads words. All are int64, in the host's memory. In a worker process of a `DataLoader`
        they are arrays, of which the loader makes tensors.
        """
        sentences = check_sentences(sentences)
        self._oov_counter.update(list(itertools.chain.from_iterable(sentences)))
        arrays = self._token_inputs.arrays(sentences)
        if paddle.io.get_worker_info():
            return arrays
        place = paddle.CPUPlace()
        return {name: paddle.to_tensor(array, place=place) for name, array in arrays.items()}

    @paddle.jit.not_to_static
    def forward(
        self, sentences: Sequence[Sequence[str]] | Mapping[str, paddle.Tensor]
    ) -> tuple[list[paddle.Tensor], paddle.Tensor]:
        """Return one tensor (B, T, dim) per mix, zero at padding, and the mask (B, T).

        sentences: lists of tokens, or their `inputs`.
        T is the longest sentence. Pooled outputs are (B, dim). Concatenated layers are returned
        n_mixes times.
        """
        layers, mask = self.layers(sentences)
        return self.mixed(layers, mask), mask

    @paddle.jit.not_to_static
    def layers(
        self, sentences: Sequence[Sequence[str]] | Mapping[str, paddle.Tensor]
    ) -> tuple[list[paddle.Tensor], paddle.Tensor]:
        """Return the chosen layers, cached or computed, and the mask (B, T).

        Each layer is (B, T, 2P) or, pooled, (B, layer_dim). Only layers of lists of tokens are
        cached.
        """
        self._check_dtype()
        if not paddle.in_dynamic_mode():
            return self._traced_layers(sentences)
        if isinstance(sentences, Mapping):
            return self._computed_layers(self._token_inputs.batch(_arrays(sentences)))
        sentences = check_sentences(sentences)
        self._drop_stale()
        if self._are_cached(sentences):
            return self._cached_layers(sentences)
        self._oov_counter.update(list(itertools.chain.from_iterable(sentences)))
        return self._computed_layers(token_batch(sentences, self.config.input, self.vocabulary))

    def _check_dtype(self) -> None:
        """Raise a UserError if the weights have been rounded."""
        dtype = self.bilm.forward_lstm[0].bias.dtype
        if dtype not in (paddle.float32, paddle.float64):
            problem = f"its weights are {dtype}, expected float32"
            advice = "Leave this layer out: `paddle.amp.decorate(..., excluded_layers=[elmo])`"
            raise UserError(f"ELMo: {problem}. {advice}.")

    def _traced_layers(
        self, inputs: Mapping[str, paddle.Tensor]
    ) -> tuple[list[paddle.Tensor], paddle.Tensor]:
        """Return what `layers` does, as operators of a graph that `paddle.jit` builds."""
        if not isinstance(inputs, Mapping):
            raise UserError(
                "ELMo: a traced network reads tensors, not lists of tokens. Give it `inputs`."
            )
        check_names(inputs, self.config)
        if self.training and self.trainable:
            problem = "a traced network cannot train it"
            advice = (
                "Train without `paddle.jit.to_static`, and call `eval` before `paddle.jit.save`"
            )
            raise UserError(f"ELMo: {problem}. {advice}.")
        traced = TracedBiLM(self.bilm, self._token_inputs)
        layers, mask = traced.layers(inputs, self.choice.max_layer)
        tensors = []
        for forward, backward in self.choice.select(layers):
            layer = paddle.concat([forward, backward], axis=2) * mask.unsqueeze(-1)
            if self.pool:
                layer = pool_tensor(layer, mask, self.pool)
            tensors.append(layer if self.trainable else layer.detach())
        return tensors, mask

    def _computed_layers(self, batch: TokenBatch) -> tuple[list[paddle.Tensor], paddle.Tensor]:
        """Return what `layers` does, without the cache."""
        rows = len(batch.lengths)
        steps = int(batch.lengths.max(initial=2)) - 2  # without the markers
        if not rows * steps:
            shape = [rows, self.layer_dim] if self.pool else [rows, steps, self.layer_dim]
            return [paddle.zeros(shape)] * self.choice.n_layers, paddle.zeros([rows, steps])
        with_gradients = paddle.set_grad_enabled(self.trainable and paddle.is_grad_enabled())
        with with_gradients, precision.temporarily(self.precision):
            vectors = self.bilm.token_encoder(batch.tokens)
            if self.training and self.word_dropout:
                kept = nn.functional.dropout(paddle.ones([len(vectors), 1]), self.word_dropout)
                vectors = vectors * kept
            dropout = self.layer_dropout if self.training else 0.0
            encoded, _ = run_sentences(
                self.bilm,
                vectors,
                index=batch.index,
                lengths=batch.lengths,
                choice=self.choice,
                dropout=dropout,
            )
            return encoded.tensors(self.pool)

    def _are_cached(self, sentences: list[Sequence[str]]) -> bool:
        """Return whether there are sentences, and the layers of all of them are cached."""
        if not sentences or self.trainable:
            return False
        return all(tuple(tokens) in self.cached for tokens in sentences)

    def _cached_layers(
        self, sentences: list[Sequence[str]]
    ) -> tuple[list[paddle.Tensor], paddle.Tensor]:
        """Return what `layers` does, for sentences whose layers are cached."""
        # each (layers, n, 2P), or pooled (layers, 1, layer_dim)
        arrays = [self.cached[tuple(tokens)] for tokens in sentences]
        lengths = np.array([len(tokens) for tokens in sentences])
        mask = (np.arange(lengths.max()) < lengths[:, None]).astype(np.float32)
        if self.pool:
            layers = np.concatenate(arrays, axis=1).astype(np.float32)
        else:
            rows, steps = mask.shape
            layers = np.zeros((self.choice.n_layers, rows, steps, self.layer_dim), np.float32)
            for row, array in enumerate(arrays):
                layers[:, row, : array.shape[1]] = array
        return [to_tensor(layer) for layer in layers], to_tensor(mask)

    @paddle.jit.not_to_static
    def mixed(self, layers: Sequence[paddle.Tensor], mask: paddle.Tensor) -> list[paddle.Tensor]:
        """Compute `forward`'s outputs from the chosen layers.

        They are mixed or concatenated, masked, and dropped in training.
        """
        if 0 in mask.shape:  # which Paddle 2.6 cannot concatenate
            return [paddle.zeros([*layers[0].shape[:-1], self.dim])] * self.n_mixes
        mask = mask.max(axis=1) if self.pool else mask
        if self.mixes:
            outputs = [mix(layers, mask) for mix in self.mixes]
        else:
            outputs = [paddle.concat(layers, axis=-1)] * self.n_mixes
        outputs = [x * mask.unsqueeze(-1) for x in outputs]
        return [nn.functional.dropout(x, self.dropout, training=self.training) for x in outputs]

    def cache(
        self, sentences: Iterable[Sequence[str]], gigabytes: float, progress: bool = True
    ) -> None:
        """Compute and cache the chosen layers of a frozen biLM, for sentences of every epoch.

        Another call caches more sentences. gigabytes: of memory for all of them, in float32 or else
        in float16; those of a call that would need more are computed in every epoch. progress: show
        a bar if it takes long.
        """
        if self.trainable:
            problem = "a trainable biLM's layers change in every step"
            raise UserError(f"ELMo.cache: {problem}. Expected trainable=False.")
        if self.bilm.is_fine_tuned:
            advice = "Load the model again for a layer that caches."
            raise UserError(f"ELMo.cache: another ELMo trains this biLM. {advice}")
        check_number("gigabytes", gigabytes, 0)
        self._drop_stale()
        given = dict.fromkeys(tuple(tokens) for tokens in checked(sentences))  # in their order
        distinct = [tokens for tokens in given if tokens not in self.cached]
        if not distinct:
            return
        dtype = self._cache_dtype(distinct, gigabytes)
        if dtype is None:
            return
        table = TokenTable(self.bilm.token_encoder, self.config, self.vocabulary)
        request = EncodingRequest(self.choice, lambda batch, _: batch.arrays(dtype, self.pool))
        arrays = restore_order(self.encode_batches(distinct, request, table, paddle.get_device()))
        arrays = bar(arrays, progress, total=len(distinct), unit=" sentences", leave=False)
        self.cached.update(zip(distinct, arrays, strict=True))
        self._cached_with = state_of(self.bilm.parameters())
        if self.oov_share:
            log.info(f"{self.oov_share:.2%} of the tokens are outside ELMo's vocabulary.")

    def _cache_dtype(self, distinct: list[tuple[str, ...]], gigabytes: float) -> str | None:
        """Choose the type in which these sentences' layers fit into the memory, and log it.

        None: there is no room for them in either.
        """
        if self.pool:
            n_vectors = len(distinct)
            vectors = format_count(n_vectors, "sentences")
        else:
            n_vectors = sum(len(tokens) for tokens in distinct)
            vectors = format_count(n_vectors, "tokens")
        n_layers = self.choice.n_layers
        size = 4 * n_vectors * n_layers * self.layer_dim  # in bytes
        shape = f"{vectors} x {format_count(n_layers, 'layers')} x {self.layer_dim}"
        what = f"{shape}, {size / 1e6:,.0f} MB in float32"
        room = gigabytes * 1e9 - sum(array.nbytes for array in self.cached.values())
        if size / 2 > room:
            found = f"{what}, with room for {max(0, room) / 1e9:.3g} GB"
            log.warning(f"ELMo's layers are computed in each epoch: {found}.")
            return None
        dtype = "float32" if size <= room else "float16"
        log.info(f"ELMo's layers are computed once: {what}, cached in {dtype} in memory.")
        return dtype

    def clear_cache(self) -> None:
        """Forget the cached layers."""
        self.cached.clear()

    def _drop_stale(self) -> None:
        """Forget the cached layers if the biLM's weights have changed."""
        if self.cached and state_of(self.bilm.parameters()) != self._cached_with:
            self.clear_cache()
            dropped = "ELMo's cached layers are dropped: the weights have changed."
            log.warning(f"{dropped} `cache` computes them again.")

    def l2_loss(self) -> paddle.Tensor:
        """Return l2_coef times the sum of the squared scalars.

        It pulls the mixes towards equal weights.
        """
        return self.l2_coef * sum(((mix.scalars**2).sum() for mix in self.mixes), paddle.zeros([]))


# Attributes of an `ELMoEmbedder` that a copy computes from its own model.
NOT_COPIED = {
    "bilm",
    "vocabulary",
    "config",
    "choice",
    "layer_dim",
    "dim",
    "token_table",
    "_oov_counter",
    "_predictor",
    "words",
}


class ELMoEmbedder(Encoder):
    """Compute ELMo vectors of sentences with a pretrained model.

    params: `checkpoints/10000`, a name such as `checkpoints/best`, or the folder (its latest
    checkpoint); the name of a published model, downloaded on first use; or a BiLM and its
    vocabulary, as `load_bilm` returns them.
    layers: all | top | average | concat | a layer's number, -1: the top | several, e.g. [0, 1],
    "0,1" or "concat:0,1" | the fixed weights of a sum, one per layer | mix: the output `elmo` of an
    imported TensorFlow Hub module.
    pool: None (one vector per token), or over each sentence's tokens: mean | max | mean_max, both,
    one after the other in each layer.
    weighting: of the tokens in a mean: None, all the same | sif, smooth inverse frequency (Arora et
    al. 2017), by the model's vocabulary.
    carry_state: start each row from the final state of the same row in the previous batch, as
    bilm-tf does, with sentences in input order. Every call starts from zero.
    precision: of the operands of large products: float32; bfloat16, faster on processors and GPUs
    that have it, with vectors that differ in the third digit; or auto: bfloat16 if this one has it.
    progress: show a bar if something takes long.
    """

    def __init__(
        self,
        params: str | Path | tuple[BiLM, Vocabulary | None],
        batch_size: int = 128,
        device: str = "auto",
        layers: Layers = "all",
        pool: str | None = None,
        dtype: str = "float32",
        carry_state: bool = False,
        progress: bool = True,
        precision: str = "float32",
        weighting: str | None = None,
    ):
        check_number("batch_size", batch_size, 1, 2**31 - 1, integer=True)
        check_option("pool", pool, (None, *POOLS))
        check_option("weighting", weighting, (None, SIF))
        check_option("dtype", dtype, ("float32", "float16"))
        self.device = runtime.device_name(device)
        self.precision = chosen_precision(precision, self.device)
        # resolved, because a folder's latest checkpoint may change
        self._folder = None if isinstance(params, tuple) else resolve_name(params).absolute()
        self._layers = layers
        self.pool = pool
        self.batch_size = batch_size
        self.dtype = dtype
        self.carry_state = carry_state
        self.progress = progress
        with runtime.on_device(self.device):
            if self._folder:
                bilm, vocabulary = load_bilm(self._folder)
            else:
                bilm, vocabulary = _check_model(params)
            self._set_model(bilm, vocabulary)
        if self._folder:
            freeze(self.bilm.parameters())
        self.weighting = weighting
        self._sif_weights = self._make_sif_weights() if weighting else None

    def _make_sif_weights(self) -> SIFWeights:
        if self.pool not in (MEAN, MEAN_MAX):
            problem = f"pool={self.pool!r} has no mean that could be weighted"
            raise UserError(f"weighting='sif': {problem}. Set pool='mean', or weighting=None.")
        if not self.words:
            problem = "this model has no vocabulary, which would tell how frequent words are"
            raise UserError(f"weighting='sif': {problem}. Set weighting=None.")
        return SIFWeights(self.words)

    def _set_model(self, bilm: BiLM, vocabulary: Vocabulary | None) -> None:
        layers = self._layers
        if isinstance(layers, str) and layers == "mix":
            layers = list(bilm.config.mix)
            if not layers:
                missing = "this model has no mix, which only imported TensorFlow Hub modules have"
                raise UserError(f"layers='mix': {missing}. Use 'average', or a list of weights.")
        self._set_bilm(bilm, vocabulary, layers, ("each", "concat", "sum"), self.pool)
        self.token_table = TokenTable(self.bilm.token_encoder, self.config, self.vocabulary)
        self._predictor: Predictor | None = None  # loaded on first use

    def __getstate__(self) -> dict[str, Any]:
        """Return a copy's state, without caches and locks.

        A published model is its name, any other one its weights: nothing refers to its files, which
        may be missing elsewhere.
        """
        state = {name: value for name, value in vars(self).items() if name not in NOT_COPIED}
        published_name = self._published_name()
        if published_name is None:
            state["model"] = self._model_in_memory()
            state["_folder"] = None
        else:
            state["model"] = published_name
        state["device"] = runtime.portable_device(self.device)
        return state

    def _published_name(self) -> str | None:
        """Return the name of the model if it is a published one."""
        return published.name_of(self._folder.resolve()) if self._folder else None

    def _model_in_memory(
        self,
    ) -> tuple[ELMoConfig, dict[str, np.ndarray], Vocabulary | None]:
        """Return the configuration, all weights and the vocabulary."""
        weights = weights_of(self.bilm)
        start = self.bilm.start_state
        vocabulary = self.vocabulary
        if self._reads_softmax():
            predictor = self.predictor()
            start = predictor.start
            vocabulary = predictor.vocabulary
            for name, weight in weights_of(predictor.softmax).items():
                weights[f"softmax.{name}"] = weight
        if start:
            weights.update(start.arrays())
        return self.config, weights, vocabulary

    def _reads_softmax(self) -> bool:
        """Tell whether a copy needs the softmax of the folder.

        Raises if it was not read, and is gone.
        """
        if self._folder is None:  # that of a given biLM is among its weights
            return False
        if self._predictor is not None:
            return True
        try:
            found = has_softmax(self._folder)
        except UserError as error:
            problem = "A copy of an ELMoEmbedder includes the softmax, which cannot be read"
            raise UserError(f"{problem}: {error}") from error
        if found:
            log.info(f"{self._folder}: the softmax is read, for a copy of the embedder.")
        return found

    def __setstate__(self, state: dict[str, Any]) -> None:
        model = state.pop("model")
        vars(self).update(state)
        self.device = runtime.device_name(self.device)
        chosen_precision(self.precision, self.device)
        with runtime.on_device(self.device):
            if isinstance(model, str):
                self._folder = install(model)
                bilm, vocabulary = load_bilm(self._folder)
            else:
                config, weights, vocabulary = model
                bilm = make_bilm(config, weights)
            self._set_model(bilm, vocabulary)
        freeze(self.bilm.parameters())

    def __repr__(self) -> str:
        model = "<a biLM in memory>"
        if self._folder:
            model = repr(self._published_name() or str(self._folder))
        return f"ELMoEmbedder({model}, layers={self._layers!r}, pool={self.pool!r})"

    def encode(self, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Return one array per sentence, in order, of `shape(n)` for n tokens."""
        sentences = check_sentences(sentences)
        arrays: list[np.ndarray] = [np.empty(0)] * len(sentences)
        with bar(None, self.progress, total=len(sentences), unit=" sentences") as shown:
            for positions, results in self.encode_batches(
                sentences, self._request, self.token_table, self.device, math.inf
            ):
                for position, array in zip(positions.tolist(), results, strict=True):
                    arrays[position] = array
                shown.update(len(results))
        return arrays

    def iter_encode(self, sentences: Iterable[Sequence[str]]) -> Iterator[np.ndarray]:
        """Do the same as `encode`, but lazily, for corpora of any size.

        Reads ahead one window of 16 batches.
        """
        if isinstance(sentences, str | bytes | np.ndarray) or not isinstance(sentences, Iterable):
            check_sentences(sentences)
        total = len(sentences) if isinstance(sentences, Sized) else None
        arrays = restore_order(
            self.encode_batches(checked(sentences), self._request, self.token_table, self.device)
        )
        return iter(bar(arrays, self.progress, total=total, unit=" sentences"))

    @property
    def _request(self) -> EncodingRequest:
        return EncodingRequest(
            self.choice, self._arrays, self.carry_state, read_final_marker=self.carry_state
        )

    def _arrays(self, batch: EncodedBatch, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Return the arrays of a batch, each of `shape`."""
        weights = None
        if self._sif_weights:
            weights = [self._sif_weights(tokens) for tokens in sentences]
        arrays = batch.arrays(self.dtype, self.pool, weights)  # each (layers, n, layer_dim)
        if self.choice.how == "concat":
            arrays = [array.swapaxes(0, 1) for array in arrays]
        return [
            array.reshape(self.shape(len(tokens)))
            for array, tokens in zip(arrays, sentences, strict=True)
        ]

    def weight(self, sentence: Sequence[str]) -> float:
        """Return a sentence's weight in a mean over a text: the sum of those of its tokens."""
        return float(self._sif_weights(sentence).sum()) if self._sif_weights else len(sentence)

    @cached_property
    def words(self) -> list[str]:
        """Return the words of the model, by decreasing frequency, if they are known."""
        if self.vocabulary:
            return self.vocabulary.words
        if self._folder and checkpoint.exists(self._folder):
            return vocabulary_words(self._folder)
        return []

    def encode_tokens(self, tokens: Sequence[str]) -> np.ndarray:
        """Return context-free token vectors (n, P): the LSTMs' input.

        Layer 0 is this vector twice, once per direction.
        """
        tokens = check_sentence(tokens, 0)
        self._oov_counter.update(tokens)
        self.token_table.refresh()
        with precision.inference(self.device, self.precision):
            return self.token_table.lookup(tokens)

    def shape(self, n: int) -> tuple[int, ...]:
        """Return the shape for n tokens: (layers, n, dim).

        Without n if pooled, without layers for a sum or concat.
        """
        rows = [] if self.pool else [n]
        layers = [self.choice.n_layers] if self.choice.how == "each" else []
        return (*layers, *rows, self.dim)

    def predictor(self) -> Predictor:
        """Return the softmax, the vocabulary that it predicts, and the start state."""
        if self._folder is None:
            if "softmax" not in dict(self.bilm.named_children()) or self.vocabulary is None:
                missing = "a BiLM without a softmax or vocabulary"
                raise UserError(f"params: found {missing}, which predicting words needs.")
            return self._predictor_of(self.bilm, self.vocabulary)
        if self._predictor is None:
            with runtime.on_device(self.device):
                bilm, vocabulary = load_bilm(self._folder, softmax=True)
            self._predictor = self._predictor_of(bilm, vocabulary)
        return self._predictor

    @staticmethod
    def _predictor_of(bilm: BiLM, vocabulary: Vocabulary) -> Predictor:
        return Predictor(
            softmax=bilm.softmax,
            vocabulary=vocabulary,
            start=bilm.start_state,
            source=bilm.source,
        )

    # what else an embedder answers, each a function of elmo_core/encoding/answers.py
    encode_texts = answers.encode_texts
    substitutes = answers.substitutes
    surprisal = answers.surprisal
    iter_surprisal = answers.iter_surprisal
    compare = answers.compare
    most_similar = answers.most_similar


def _arrays(inputs: Mapping[str, paddle.Tensor]) -> dict[str, np.ndarray]:
    """Return tensors as arrays; what is none stays as it is."""
    return {
        name: value.numpy() if isinstance(value, paddle.Tensor) else value
        for name, value in inputs.items()
    }


def _check_model(model: tuple) -> tuple[BiLM, Vocabulary | None]:
    """Check that a biLM and a vocabulary belong together: the loops in C trust the ids."""
    bilm, vocabulary = model if len(model) == 2 else (None, None)
    if not isinstance(bilm, BiLM) or not isinstance(vocabulary, Vocabulary | None):
        kinds = ", ".join(type(part).__name__ for part in model)
        expected = "a path, or (BiLM, Vocabulary) as of `load_bilm`"
        raise TypeError(f"params: found ({kinds}), expected {expected}.")
    config = bilm.config
    if vocabulary is None and config.needs_vocabulary:
        raise UserError("params: this biLM needs its vocabulary. `load_bilm` returns both.")
    if vocabulary is None:
        return bilm, None
    found = ""
    predicts_words = "softmax" in dict(bilm.named_children())
    if (config.reads_words or predicts_words) and len(vocabulary) != config.vocab_size:
        found = f"a vocabulary of {len(vocabulary):,} tokens, and a biLM of {config.vocab_size:,}"
    elif config.reads_characters and not fits_alphabet(config, vocabulary.alphabet):
        found = f"a vocabulary whose characters are not those of the biLM ({config.alphabet})"
    if found:
        expected = "a biLM and its own vocabulary, as `load_bilm` returns them"
        raise UserError(f"params: found {found}, expected {expected}.")
    return bilm, vocabulary
