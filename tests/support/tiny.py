"""Tiny random models with distinct, coprime dimensions, and their weights for the reference."""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import reference

from elmo import BiLM, ELMoConfig, ELMoEmbedder
from elmo_core.kernels.row_gradients import row_gradient
from elmo_core.machine.runtime import paddle
from elmo_core.network.start_state import StartState
from elmo_core.text.characters import BOS, EOS, CharTable
from elmo_core.text.lexicon import Lexicon, LMBatch
from elmo_core.text.vocabulary import Vocabulary
from elmo_tools.pretraining import streams

WORDS = ["<S>", "</S>", "<UNK>", "the", "bank", "of", "river", "苹果", "很", "a", "longerword", "q"]
CHAR = {
    "character_dim": 5,
    "filters": ((1, 2), (2, 3), (4, 6)),
    "n_highway": 2,
    "projection_dim": 7,
    "cell_dim": 13,
    "vocab_size": len(WORDS),
    "cell_clip": 0.3,
    "proj_clip": 0.2,
}
SENTENCES = [
    ["the", "river", "bank"],
    [],
    ["苹果", "很", "unknown", "😀", "of", "the", "bank"],
    ["a"],
    ["x" * 60, "q", "longerword", "the", "q"],
]


def char_ids(tokens: list[str]) -> np.ndarray:
    """(n, C) int32 character ids of tokens."""
    return CharTable(tokens).rows(np.arange(len(tokens)))


def lm_batch(
    sentences: Sequence[Sequence[str]], vocabulary: Vocabulary, input: str = "char"
) -> LMBatch:
    """One sentence per row, from its beginning; T = longest + 1."""
    lexicon = Lexicon(vocabulary, input)
    lengths = np.array([len(sentence) + 1 for sentence in sentences], np.int64)
    ids = streams._steps_of([[BOS, *sentence, EOS] for sentence in sentences], lexicon)
    return streams._lm_batch(ids, lengths, lengths.max(), lexicon)


def random_bilm(dtype: str = "float32", seed: int = 1, scale: float = 2.0, **changes) -> BiLM:
    """A biLM with random weights, large enough that gates saturate and clips bite."""
    paddle.set_default_dtype(dtype)
    try:
        bilm = BiLM(ELMoConfig(**{**CHAR, **changes}))
    finally:
        paddle.set_default_dtype("float32")
    random = np.random.RandomState(seed)
    for name, weight in bilm.state_dict().items():
        spread = scale / np.sqrt(weight.shape[0]) if "lstm" in name else 0.6
        weight.set_value((random.standard_normal(weight.shape) * spread).astype(dtype))
    return bilm


def random_start(config: ELMoConfig) -> tuple[dict[str, np.ndarray], dict[str, list]]:
    """The arrays of a start state, and the reference's state of one row that is the same."""
    random = np.random.default_rng(1)
    arrays = {
        name: random.uniform(-0.5, 0.5, shape).astype(np.float32)
        for name, shape in StartState.shapes(config).items()
    }
    state = {}
    for side, direction in enumerate(reference.DIRECTIONS):
        h, c = (array[:, side, None].astype(np.float64) for array in arrays.values())
        state[direction] = list(zip(h, c, strict=True))
    return arrays, state


def reference_of(bilm: BiLM) -> reference.Parameters:
    """The reference's parameters of a biLM, in float64."""
    weights = {
        name: weight.numpy().astype(np.float64) for name, weight in bilm.state_dict().items()
    }
    config = bilm.config
    lstm = {}
    for direction in reference.DIRECTIONS:
        lstm[direction] = []
        for k in range(config.n_layers):
            key = f"{direction}_lstm.{k}."
            names = {
                "W_x": "input_weight",
                "W_h": "recurrent_weight",
                "B": "bias",
                "W_P": "projection_weight",
            }
            lstm[direction].append({ours: weights[key + theirs] for ours, theirs in names.items()})
    parameters = reference.Parameters(
        lstm,
        config.use_skip_connections,
        config.cell_clip,
        config.proj_clip,
        activation=config.activation,
    )
    if "softmax.weight" in weights:
        parameters.softmax = weights["softmax.weight"], weights["softmax.bias"][:, 0]
    if config.reads_words:
        table = "words" if config.reads_characters else "embedding"
        parameters.word_embed, parameters.vocabulary = (
            weights[f"token_encoder.{table}.weight"],
            WORDS,
        )
    if not config.reads_characters:
        return parameters
    parameters.char_embed = weights["token_encoder.embedding.weight"]
    for k, (width, number) in enumerate(config.filters):
        weight = weights[f"token_encoder.convolutions.{k}.weight"].reshape(
            width, config.character_dim, number
        )
        parameters.cnn.append((width, weight, weights[f"token_encoder.convolutions.{k}.bias"]))
    for k in range(config.n_highway):
        gates = {
            f"{letter}_{gate}": weights[f"token_encoder.highways.{k}.{gate}.{name}"]
            for gate in ("transform", "carry")
            for letter, name in (("W", "weight"), ("b", "bias"))
        }
        parameters.highways.append(gates)
    if "token_encoder.projection.weight" in weights:
        parameters.proj = tuple(
            weights[f"token_encoder.projection.{name}"] for name in ("weight", "bias")
        )
    return parameters


def assert_vectors(params: str | Path, parameters: reference.Parameters) -> None:
    """Check a checkpoint's vectors against the reference, from the zero state and with carried
    state.
    """
    embedder = ELMoEmbedder(params, device="cpu")
    reference.assert_close(embedder.encode(SENTENCES), reference.embed(parameters, SENTENCES)[0])
    expected, state, order = [], None, [0, 2, 4, 1, 3]
    for batch in (order[:2], order[2:4], order[4:]):
        arrays, state = reference.embed(parameters, [SENTENCES[k] for k in batch], state)
        expected += arrays
    embedder = ELMoEmbedder(params, batch_size=2, carry_state=True, device="cpu")
    reference.assert_close(embedder.encode([SENTENCES[k] for k in order]), expected)


def dense_gradient(weight: paddle.Tensor) -> np.ndarray:
    """A weight's gradient as a dense array, even if it is a row gradient."""
    if (found := row_gradient(weight)) is None:
        return weight.grad.numpy()
    gradient = np.zeros(weight.shape, dtype=str(weight.dtype).removeprefix("paddle."))
    gradient[found.ids] = found.values.numpy()
    return gradient


def save(bilm: BiLM, folder) -> str:
    """Save the biLM as a model in this folder, also over another and beside other files; return the
    folder.
    """
    from elmo_core.weights import checkpoint

    with tempfile.TemporaryDirectory() as other:
        model = Path(other, "model")
        checkpoint.save_model(model, bilm.config, bilm.state_dict(), Vocabulary(WORDS))
        shutil.copytree(model, folder, dirs_exist_ok=True)
    return str(folder)
