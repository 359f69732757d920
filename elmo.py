"""ELMo: deep contextual word vectors from a bidirectional language model (Peters et al. 2018, sections 3.1 to 3.3).

    tokens -> token encoder (character CNN | word table) -> BiLM: L projected LSTMs in each direction -> layers 0 .. L
                                                              |                                         |
                                                     Softmax (pretraining)                     ScalarMix (downstream)

Letters: B rows, T steps, C characters of a token (50), N distinct tokens of a batch, P projection, H cell,
V vocabulary, L LSTM layers, M = sum of all row lengths.

Differences from the paper and bilm-tf, all deliberate:
- each distinct token of a batch is encoded once, over the characters that it has: exact, and several times less work;
- padding is never computed (see lstmp.py);
- a sentence starts from the zero state, so that its vectors do not depend on its neighbours; `carry_state=True` gives
  bilm-tf's behaviour;
- in pretraining the skip connection adds a layer's input as it was before dropout; bilm-tf's adds what dropout has left;
- convolutions begin within +-0.05, as bilm-tf's for relu; for tanh it draws them from a normal distribution.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence, Sized
from pathlib import Path

import numpy as np
from tqdm import tqdm

from elmo_core import checkpoint, runtime
from elmo_core.arguments import check_sentence, check_sentences, layer_weights, several_layers, shown
from elmo_core.config import LARGEST, ELMoConfig
from elmo_core.lstmp import LSTMP, Cell, Packing, State, run_layer
from elmo_core.runtime import UserError, log, paddle
from elmo_core.softmax import Candidates, Softmax
from elmo_core.token_encoders import token_encoder
from elmo_core.token_tables import CharacterVectors, FixedVectors, WordVectors
from elmo_core.tokens import (
    MAX_BYTES,
    LMBatch,
    TokenBatch,
    Vocabulary,
    count_cut,
    in_order,
    sentence_batches,
    token_batch,
)

nn = paddle.nn
TOKENS_PER_ROW = 64  # of an embedder: batch_size rows of up to so many tokens, or fewer rows of longer sentences


BiLMState = list[list[State]]  # of every layer, of both directions: h (B, P) and c (B, H)


class BiLM(nn.Layer):
    """The bidirectional language model. Its sublayers' names are the keys of every checkpoint.

    head: with the softmax over the vocabulary, for pretraining and perplexity. Tables then have sparse gradients, which
    not every optimizer takes.
    """

    def __init__(self, config: ELMoConfig, head: bool = True):
        super().__init__()
        self.config = config
        cell = Cell(config.forget_bias, config.cell_clip, config.proj_clip)
        self.token_encoder = token_encoder(config, sparse=head)
        for name in ("forward_lstm", "backward_lstm"):
            layers = [LSTMP(config.projection_dim, config.cell_dim, cell) for _ in range(config.n_layers)]
            setattr(self, name, nn.LayerList(layers))
        if head and config.vocab_size:
            self.softmax = Softmax(config.vocab_size, config.projection_dim)

    def zero_state(self, rows: int) -> BiLMState:
        return [[lstmp.zero_state(rows) for lstmp in pair] for pair in self._layers()]

    def run(
        self,
        vectors: paddle.Tensor,
        reads: tuple[np.ndarray, np.ndarray],
        packing: Packing,
        state: BiLMState | None = None,
        dropout: float = 0.0,
    ) -> tuple[list[list[paddle.Tensor]], BiLMState]:
        """Run both directions over all layers.

        vectors: (N, P); reads: of each direction the (M,) places in `vectors`, packed; state: what each row starts from.
        Returns of every layer 0 .. L both directions' packed outputs, and the state every row ends with.
        """
        reads = [paddle.to_tensor(places) for places in reads]
        rows = _Rows(packing.order)
        state = state or self.zero_state(len(packing.order))
        x, last, layers = None, [], []
        for number, (pair, before) in enumerate(zip(self._layers(), state, strict=True)):
            starts = [rows.sort(part) for part in before]
            if number == 0 and not dropout:
                outputs, ends = run_layer(pair, [vectors, vectors], starts, packing.sizes, reads)
                x = [paddle.gather(vectors, places) for places in reads]
                layers.append(x)
            else:
                x = x or [paddle.gather(vectors, places) for places in reads]
                layers = layers or [x]
                dropped = [nn.functional.dropout(part, dropout) for part in x] if dropout else x
                outputs, ends = run_layer(pair, dropped, starts, packing.sizes)
            if number and self.config.use_skip_connections:
                outputs = [output + part for output, part in zip(outputs, x, strict=True)]
            layers.append(outputs)
            last.append([rows.unsort(part) for part in ends])
            x = outputs
        return layers, last

    def encode(
        self,
        vectors: paddle.Tensor,
        index: np.ndarray,
        lengths: np.ndarray,
        state: BiLMState | None = None,
        dropout: float = 0.0,
    ) -> tuple[list[list[paddle.Tensor]], Packing, BiLMState]:
        """Layers of whole sentences `<S> w1 .. wn </S>`, given by their places (B, T) in the vectors and their lengths.

        Step k of either direction's outputs belongs to the k-th word (1 .. n) from that direction's start. Where no
        state is carried, the marker at each direction's end is not run: nothing reads it.
        """
        packing = Packing.of(lengths if state is not None else lengths - 1)
        forward = index[packing.row, packing.step]
        backward = index[packing.row, lengths[packing.row] - 1 - packing.step]
        layers, state = self.run(vectors, (forward, backward), packing, state, dropout)
        return layers, packing, state

    def forward(
        self, batch: LMBatch, state: BiLMState, candidates: Candidates, dropout: float = 0.0
    ) -> tuple[list[paddle.Tensor], BiLMState]:
        """Mean loss of the forward and of the backward predictions, and the detached state for the next batch."""
        dropout = dropout if self.training else 0.0
        top, targets, _, state = self._top(batch, state, dropout)
        if dropout:
            top = [nn.functional.dropout(h, dropout) for h in top]
        return self.softmax.losses(top, targets, candidates), _detached(state)

    def log_probabilities(
        self, batch: LMBatch, state: BiLMState | None = None
    ) -> tuple[np.ndarray, np.ndarray, BiLMState]:
        """Exact log-probability of every target, forward and backward, (B, T) with 0 beyond a row's length."""
        with paddle.no_grad():
            top, targets, packing, state = self._top(batch, state, 0.0)
            tasks = [
                lambda h=h, words=words: self.softmax.log_probabilities(h, words)
                for h, words in zip(top, targets, strict=True)
            ]
            scores = []
            for values in runtime.in_parallel(tasks):
                scores.append(np.zeros(batch.forward_target.shape))
                scores[-1][packing.row, packing.step] = values
            return scores[0], scores[1], state

    def _top(self, batch: LMBatch, state: BiLMState | None, dropout: float):
        packing = Packing.of(batch.lengths)
        place = packing.row, packing.step
        vectors = self.token_encoder(batch.tokens)
        reads = batch.forward_input[place], batch.backward_input[place]
        layers, state = self.run(vectors, reads, packing, state, dropout)
        return layers[-1], (batch.forward_target[place], batch.backward_target[place]), packing, state

    def _layers(self):
        return list(zip(self.forward_lstm, self.backward_lstm, strict=True))


class _Rows:
    """Puts a state's rows into the packed order and back."""

    def __init__(self, order: np.ndarray):
        self.in_order = bool((np.diff(order) > 0).all())
        if not self.in_order:
            self.order, self.back = paddle.to_tensor(order), paddle.to_tensor(np.argsort(order))

    def sort(self, state: State) -> State:
        return state if self.in_order else tuple(paddle.gather(part, self.order) for part in state)

    def unsort(self, state: State) -> State:
        return state if self.in_order else tuple(paddle.gather(part, self.back) for part in state)


def _detached(state: BiLMState) -> BiLMState:
    return [[tuple(part.detach() for part in one) for one in pair] for pair in state]


def load_bilm(params: str | Path, head: bool = False) -> tuple[BiLM, Vocabulary | None]:
    """The model of a checkpoint (prefix, file or folder), with or without its softmax, and its vocabulary."""
    if not isinstance(params, str | Path):
        raise TypeError(
            f"found {shown(params)}, expected a checkpoint's path: its prefix, a file of it, or its folder."
        )
    prefix = checkpoint.resolve(params)
    values = checkpoint.load_config(prefix.parent)
    if "model" not in values:
        raise UserError(f"{prefix.parent / 'config.json'} has no field 'model': it is no configuration of an ELMo.")
    try:
        config = ELMoConfig.from_dict(values["model"])
    except UserError as error:
        raise UserError(f"{prefix.parent / 'config.json'}: {error}") from error
    found = checkpoint.load_params(prefix)
    if head and not any(name.startswith("softmax.") for name in found):
        raise UserError(f"{prefix}: this model has no language-model head, only its vectors can be computed.")
    if not head:
        found = {name: array for name, array in found.items() if not name.startswith("softmax.")}
    with paddle.LazyGuard():  # not initialised: the weights are about to be set
        bilm = BiLM(config, head)
    set_weights(bilm, found, str(prefix))
    if not head and config.input == "char":
        return bilm, None
    training = values.get("training")
    identity = training.get("vocabulary") if isinstance(training, dict) else None  # other models' are not known
    return bilm, _vocabulary_of(prefix.parent / checkpoint.VOCABULARY, config, identity)


def _vocabulary_of(path: Path, config: ELMoConfig, identity: str | None) -> Vocabulary:
    """A checkpoint's vocabulary, which must be the one that the model was trained with."""
    if not path.is_file():
        raise UserError(f"There is no {path}: it belongs to the checkpoints beside it and has to be copied with them.")
    vocabulary = Vocabulary.from_file(path)
    if len(vocabulary) != config.vocab_size:
        raise UserError(
            f"{path} has {len(vocabulary):,} words, but the model beside it was made for {config.vocab_size:,}. "
            "It is not the vocabulary that this model was trained with."
        )
    if identity and vocabulary.identity != identity:
        raise UserError(
            f"{path} is not the vocabulary that the model beside it was trained with: found {vocabulary.identity}, "
            f"expected {identity}. Have its lines been sorted or changed? Copy the original back."
        )
    return vocabulary


def set_weights(layer: nn.Layer, found: dict[str, np.ndarray], source: str) -> None:
    """Put all weights into the layer; nothing is set where one is missing, unexpected or of another shape."""
    weights = layer.state_dict()
    checkpoint.match({name: tuple(weight.shape) for name, weight in weights.items()}, found, source)
    for name, weight in weights.items():
        weight.set_value(found[name].astype(str(weight.dtype).removeprefix("paddle."), copy=False))


class ScalarMix(nn.Layer):
    """gamma * sum_j softmax(s)_j h_j, with layer norm over the tokens that are there if wished."""

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


class ELMo(nn.Layer):
    """ELMo as a layer of any network: sentences in, mixed vectors out.

    params: a checkpoint.
    n_mixes: how many ScalarMixes share one pass (the paper puts one at the input of a task's network, one at its output).
    trainable: whether the biLM learns too, or only the mixes.
    dropout: on the mixed vectors.
    l2_coef: of the penalty on the mixes' scalars, `l2_loss()`, which the task adds to its loss.
    """

    def __init__(
        self,
        params: str | Path,
        n_mixes: int = 1,
        trainable: bool = False,
        dropout: float = 0.5,
        layer_norm: bool = False,
        l2_coef: float = 0.0,
    ):
        super().__init__()
        if not isinstance(n_mixes, int) or n_mixes < 1:
            raise UserError(f"n_mixes={n_mixes!r}: expected a whole number above 0.")
        for name, value, most in (("dropout", dropout, 1), ("l2_coef", l2_coef, LARGEST)):
            if not isinstance(value, int | float) or not 0 <= value <= most:
                raise UserError(f"{name}={value!r}: expected a number from 0 to {most}.")
        self.bilm, self.vocabulary = load_bilm(params)
        self.config = self.bilm.config
        self.dim = 2 * self.config.projection_dim
        self.trainable, self.dropout, self.l2_coef = trainable, dropout, l2_coef
        for weight in self.bilm.parameters():
            weight.stop_gradient = not trainable
        self.mixes = nn.LayerList(ScalarMix(self.config.n_layers + 1, layer_norm) for _ in range(n_mixes))
        self.unknown = self.met = 0  # tokens that a word model lacked, of those it met
        self.told = False  # that some tokens are too long for a character model

    def forward(self, sentences: Sequence[Sequence[str]] | TokenBatch) -> tuple[list[paddle.Tensor], paddle.Tensor]:
        """Of every mix (B, T, 2P), zero where a sentence has no token; and the mask (B, T), T the longest sentence."""
        layers, mask = self.layers(sentences)
        present = mask.unsqueeze(-1)
        mixed = [mix(layers, mask) * present for mix in self.mixes]
        return [nn.functional.dropout(x, self.dropout, training=self.training) for x in mixed], mask

    def layers(self, sentences: Sequence[Sequence[str]] | TokenBatch) -> tuple[list[paddle.Tensor], paddle.Tensor]:
        """Layers 0 .. L of the biLM, each (B, T, 2P), and the mask (B, T)."""
        if not isinstance(sentences, TokenBatch):
            sentences = self.token_batch(sentences)
        if not len(sentences.lengths):
            return [paddle.zeros([0, 0, self.dim])] * (self.config.n_layers + 1), paddle.zeros([0, 0])
        with paddle.set_grad_enabled(self.trainable and paddle.is_grad_enabled()):
            vectors = self.bilm.token_encoder(sentences.tokens)
            packed, packing, _ = self.bilm.encode(vectors, sentences.index, sentences.lengths)
            return _padded(packed, packing, sentences.lengths - 2)

    def token_batch(self, sentences: Sequence[Sequence[str]]) -> TokenBatch:
        """Sentences in the form that the biLM reads, which `forward` takes as well."""
        check_sentences(sentences)
        self._watch(list(itertools.chain.from_iterable(sentences)))
        return token_batch(sentences, self.config.input, self.vocabulary)

    def _watch(self, tokens: list[str]) -> None:
        """Count the tokens that a word model lacks; say once if there are some that a character model cannot read whole."""
        if self.config.input == "word":
            self.met += len(tokens)
            self.unknown += sum(token not in self.vocabulary for token in tokens)
        elif not self.told and (cut := count_cut(tokens)):
            self.told = True
            log.warning(f"{cut} tokens of a batch have more than {MAX_BYTES} bytes and are read up to there.")

    @property
    def oov_share(self) -> float:
        """Share of the tokens met so far that a word model does not know; 0 for a character model."""
        return self.unknown / max(1, self.met)

    def l2_loss(self) -> paddle.Tensor:
        """The penalty on how far the mixes' scalars are from an even mix."""
        return self.l2_coef * sum((mix.scalars**2).sum() for mix in self.mixes)


def _padded(packed, packing: Packing, lengths: np.ndarray) -> tuple[list[paddle.Tensor], paddle.Tensor]:
    """Packed outputs of both directions as (B, T, 2P) of the words alone, and the mask (B, T)."""
    n_rows, longest = len(lengths), int(lengths.max(initial=0))
    forward, backward = (np.zeros((n_rows, longest), dtype=np.int64) for _ in range(2))
    for rank, row in enumerate(packing.order):
        places = packing.places(rank, lengths[row])
        forward[row, : lengths[row]], backward[row, : lengths[row]] = places, places[::-1]
    mask = paddle.to_tensor(np.arange(longest) < lengths[:, None]).astype(packed[0][0].dtype)
    indices = [paddle.to_tensor(places.ravel()) for places in (forward, backward)]
    layers = []
    for pair in packed:
        halves = [paddle.gather(x, index) for x, index in zip(pair, indices, strict=True)]
        both = paddle.concat(halves, axis=1)
        layers.append(both.reshape([n_rows, longest, both.shape[1]]) * mask.unsqueeze(-1))
    return layers, mask


class ELMoEmbedder:
    """Vectors of sentences from a checkpoint.

    params: the prefix `checkpoints/10000`, its .pdparams file, or the folder (its latest); or a BiLM and its vocabulary,
    as `load_bilm` returns them.
    layers: all | top | average | a layer's number | several, as in "0,1" | weights for a fixed mix, one for each layer.
    pool: None for a vector of each token; mean or max over a sentence's tokens.
    carry_state: start each row from the state in which the same row of the batch before ended, as bilm-tf does, the
    sentences taken in the given order. A call starts from zero.
    token_vectors, vocabulary: an HDF5 file with the vectors of a fixed vocabulary, as `run_embed.py --vocab` or bilm-tf's
    dump_token_embeddings write it, and the file of its words. They take the place of the character CNN; a word that is
    not among them is refused.
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
        if not (isinstance(batch_size, int | np.integer) and batch_size > 0):
            raise UserError(f"batch_size={batch_size!r}: expected a whole number above 0.")
        if pool not in (None, "mean", "max"):
            raise UserError(f"pool={pool!r}: expected None, 'mean' or 'max'.")
        if dtype not in ("float32", "float16"):
            raise UserError(f"dtype={dtype!r}: expected 'float32' or 'float16'.")
        if (token_vectors is None) != (vocabulary is None):
            raise UserError(
                f"token_vectors={token_vectors!r}, vocabulary={vocabulary!r}: expected both, the file of vectors and the "
                "words of its rows, or neither."
            )
        self.device = runtime.set_device(device)
        self.learns_on = isinstance(params, tuple)  # a model of the user's, whose weights may change between calls
        self.bilm, self.vocabulary = _given(params) if self.learns_on else load_bilm(params)
        self.config = self.bilm.config
        self.dim = 2 * self.config.projection_dim
        self.chosen = several_layers(layers, self.config.n_layers + 1)
        self.mix = None if self.chosen else layer_weights(layers, self.config.n_layers + 1)
        self.batch_size, self.pool, self.dtype = batch_size, pool, dtype
        self.carry_state, self.progress = carry_state, progress
        if token_vectors is not None:
            self.vectors = FixedVectors(Path(token_vectors), Path(vocabulary), self.config.projection_dim)
        elif self.config.input == "char":
            self.vectors = CharacterVectors(self.bilm.token_encoder)
        else:
            self.vectors = WordVectors(self.bilm.token_encoder, self.vocabulary)

    def encode(self, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Arrays in the order of the sentences: (layers, n, 2P), or (n, 2P) for one layer or a mix; without n if pooled."""
        check_sentences(sentences)
        for number, sentence in enumerate(sentences):
            self.vectors.check(sentence, number)
        return list(self._encode(sentences, math.inf, len(sentences)))

    def iter_encode(self, sentences: Iterable[Sequence[str]]) -> Iterator[np.ndarray]:
        """The same, one by one, for corpora of any size: memory holds a window of 16 batches, read ahead."""
        if isinstance(sentences, str | bytes | np.ndarray) or not isinstance(sentences, Iterable):
            check_sentences(sentences)
        return self._encode(self._checked(sentences), total=len(sentences) if isinstance(sentences, Sized) else None)

    def batches(self, sentences: Sequence[Sequence[str]]) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        """The arrays of `encode` as they are computed, batch by batch: the places (B,) of its sentences, and theirs.

        Vectors of tokens are remembered from call to call, by a model of the user's too: `forget` them when it has changed.
        """
        return self._batches(list(self._checked(sentences)), window=math.inf)

    def meet(self, sentences: Sequence[Sequence[str]]) -> None:
        """Remember the tokens as `batches` would, for much less work: what follows is then bit for bit what it was."""
        with runtime.on_device(self.device), paddle.no_grad():
            for _, group in self._groups(sentences, window=math.inf):
                self.vectors(group)

    def forget(self) -> None:
        """Remember nothing of earlier calls."""
        with self.vectors.lock:
            self.vectors.forget()

    def encode_tokens(self, tokens: Sequence[str]) -> np.ndarray:
        """Vectors (n, P) of tokens by themselves, without a context: what the LSTMs read, and twice layer 0."""
        check_sentence(tokens, 0)
        self.vectors.check(tokens, 0)
        if self.learns_on:
            self.forget()
        with runtime.on_device(self.device), paddle.no_grad(), self.vectors.lock:
            rows = self.vectors.rows(list(tokens))
            return paddle.gather(self.vectors.table, paddle.to_tensor(rows)).numpy()

    def _checked(self, sentences: Iterable[Sequence[str]]) -> Iterator[Sequence[str]]:
        for number, sentence in enumerate(sentences):
            check_sentence(sentence, number)
            self.vectors.check(sentence, number)
            yield sentence

    @property
    def oov_share(self) -> float:
        """Share of the tokens met so far that a word model does not know; 0 for a character model."""
        return self.vectors.unknown / max(1, self.vectors.met)

    def _encode(
        self, sentences: Iterable[Sequence[str]], window: float | None = None, total: int | None = None
    ) -> Iterator[np.ndarray]:
        if self.learns_on:
            self.forget()
        with tqdm(total=total, unit=" sentences", disable=not self.progress) as bar:
            try:
                for array in in_order(self._batches(sentences, window)):
                    bar.update()
                    yield array
            finally:
                self.vectors.report()

    def _batches(self, sentences, window: float | None):
        """(positions, arrays) of batches that suit the memory: of like length, or in order where state is carried."""
        if not self.carry_state:
            for positions, group in self._groups(sentences, window):
                yield positions, self._encode_batch(group)[0]
            return
        with runtime.on_device(self.device):
            state = self.bilm.zero_state(self.batch_size)
        position, sentences = 0, iter(sentences)
        while group := list(itertools.islice(sentences, self.batch_size)):
            arrays, state = self._encode_batch(group, state)
            yield np.arange(position, position + len(group)), arrays
            position += len(group)

    def _groups(self, sentences, window: float | None):
        return sentence_batches(sentences, self.batch_size, self.batch_size * TOKENS_PER_ROW, window)

    def _encode_batch(self, sentences, state: BiLMState | None = None):
        """Arrays of one batch's sentences, and the state for the next batch's rows."""
        with runtime.on_device(self.device), paddle.no_grad():
            vectors, index, lengths = self.vectors(sentences)
            if state is None:
                layers, packing, _ = self.bilm.encode(vectors, index, lengths)
            else:  # only the last batch can have fewer rows than the one before
                state = [[tuple(part[: len(sentences)] for part in one) for one in pair] for pair in state]
                layers, packing, state = self.bilm.encode(vectors, index, lengths, state)
            if self.mix is not None:
                layers = [[_weighted(self.mix, side) for side in zip(*layers, strict=True)]]
            else:
                layers = [layers[number] for number in self.chosen]
        layers = [[_on_host(side) for side in pair] for pair in layers]
        arrays: list[np.ndarray] = [None] * len(sentences)
        for rank, row in enumerate(packing.order):
            arrays[row] = self._array(layers, packing.places(rank, len(sentences[row])))
        return arrays, state

    def _array(self, layers, places: np.ndarray) -> np.ndarray:
        """One sentence's array from the packed layers."""
        half = self.dim // 2
        array = np.empty((len(layers), len(places), self.dim), dtype=np.float32 if self.pool else self.dtype)
        for layer, (forward, backward) in zip(array, layers, strict=True):
            layer[:, :half] = forward[places]
            layer[:, half:] = backward[places[::-1]]
        if self.pool and len(places):
            array = array.mean(axis=1) if self.pool == "mean" else array.max(axis=1)
        elif self.pool:
            array = np.zeros((len(layers), self.dim), dtype=np.float32)
        array = array.astype(self.dtype, copy=False)
        return array if self.mix is None else array[0]


def _given(model: tuple) -> tuple[BiLM, Vocabulary | None]:
    """A user's own model with its vocabulary, which a model of words cannot do without."""
    bilm, vocabulary = model if len(model) == 2 else (None, None)
    whole = isinstance(vocabulary, Vocabulary) or (vocabulary is None and bilm and bilm.config.input == "char")
    if not isinstance(bilm, BiLM) or not whole:
        raise TypeError(f"params: found {shown(model)}, expected a path, or (BiLM, Vocabulary) as of `load_bilm`.")
    return bilm, vocabulary


def _weighted(weights: np.ndarray, layers: Sequence[paddle.Tensor]) -> paddle.Tensor:
    chosen = [(weight, layer) for weight, layer in zip(weights.tolist(), layers, strict=True) if weight]
    if not chosen:
        return layers[0] * 0
    (first, layer), *others = chosen
    total = layer if first == 1 else layer * first
    for weight, layer in others:
        total = total + layer * weight
    return total


def _on_host(x: paddle.Tensor) -> np.ndarray:
    return np.from_dlpack(x) if x.place.is_cpu_place() else x.numpy()
