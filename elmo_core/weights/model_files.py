"""Load a model's configuration, weights and vocabulary, and check that they belong together."""

from pathlib import Path

import numpy as np

from elmo_core.command import command_line
from elmo_core.config import ELMoConfig
from elmo_core.files.disk import check_input, read_json
from elmo_core.files.tensors import tensor_names
from elmo_core.messages import UserError
from elmo_core.text.characters import Alphabet, Bytes, CodePoints
from elmo_core.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from elmo_core.weights import checkpoint, published

PREDICTION = ("softmax.", "start.")  # prefixes of the weights that only predicting words needs


def resolve_name(params: str | Path) -> Path:
    """Return the folder of a model, given as in `checkpoint.resolve` or by a published name.

    Published models are downloaded once. A model's path takes precedence over a name; a folder of
    text called `en` does not.
    """
    if not isinstance(params, str | Path):
        found = f"{type(params).__name__} {params!r:.60}"
        raise TypeError(f"found {found}, expected a checkpoint or a model's name.")
    name = str(params).rstrip("/")  # which shells append
    try:
        return checkpoint.resolve(params)
    except UserError as error:
        if name in published.table():
            return published.install(name)
        names = published.similar(name)
        if not names:
            raise
        hint = f"Did you mean the published model {' or '.join(names)}?"
        raise UserError(f"{error} {hint}") from error


def vocabulary_words(params: str | Path | None) -> list[str]:
    """The words of a model's vocabulary, by decreasing frequency.

    params: as in `resolve_name`. Without a model or a vocabulary, there are none.
    """
    if not params:
        return []
    path = resolve_name(params) / checkpoint.VOCABULARY
    return Vocabulary.from_file(path).words if path.is_file() else []


def read_model(
    params: str | Path, softmax: bool | None = False
) -> tuple[Path, ELMoConfig, dict[str, np.ndarray], Vocabulary | None]:
    """Load a model's configuration, weights and vocabulary, and return them after its folder.

    params: as in `resolve_name`. softmax: also load the softmax, the start state, and the
    vocabulary, which a character model otherwise does not need; None: if it has a softmax.
    """
    folder = resolve_name(params)
    values = checkpoint.load_config(folder)
    try:
        config = ELMoConfig.from_dict(values.get("model"))
    except UserError as error:
        raise UserError(f"{folder / checkpoint.CONFIG}: {error}") from error
    weights = checkpoint.load_params(folder)
    for name, array in weights.items():
        if array.dtype == np.float16:
            weights[name] = array.astype(np.float32)
    has_softmax = any(name.startswith("softmax.") for name in weights)
    if softmax and not has_softmax:
        raise UserError(
            f"{folder} has no softmax. `{command_line('run_pretrain.py')}` trains one: "
            "give `finetune_from` and `vocab_file`."
        )
    if softmax is None:
        softmax = has_softmax
    if not softmax:
        weights = {
            name: array for name, array in weights.items() if not name.startswith(PREDICTION)
        }
        if not config.needs_vocabulary:
            return folder, config, weights, None
    training = values.get("training")  # imported models have none
    identity = training.get("vocabulary") if isinstance(training, dict) else None
    vocabulary = _vocabulary(folder / checkpoint.VOCABULARY, config, identity)
    unknown_words = values.get("unknown_words")  # of models with a speller
    if softmax and isinstance(unknown_words, str):
        vocabulary.unknown_words = checkpoint.load_unknown_words(folder, unknown_words)
    return folder, config, weights, vocabulary


def has_softmax(folder: Path) -> bool:
    """Tell whether the model in a folder has a softmax."""
    return "softmax.weight" in tensor_names(folder / checkpoint.WEIGHTS)


def fits_alphabet(config: ELMoConfig, alphabet: Alphabet) -> bool:
    """Tell whether an alphabet's ids are rows of the model's table of characters.

    Of bytes, there must be as many columns per token, too.
    """
    if config.alphabet == "bytes":
        return alphabet == Bytes(config.max_characters)
    if not isinstance(alphabet, CodePoints) or not set(CodePoints.NAMES).issubset(alphabet.ids):
        return False
    return all(type(row) is int and 0 <= row < config.n_characters for row in alphabet.ids.values())


def _code_points(path: Path, config: ELMoConfig) -> CodePoints:
    """Load a model's own alphabet: a JSON object {character: row}."""
    alphabet = CodePoints(read_json(path, "this model's table of characters"))
    if config.reads_characters and not fits_alphabet(config, alphabet):
        raise UserError(
            f"{path}: not this model's table of {config.n_characters} characters. "
            "Restore the original."
        )
    return alphabet


def _vocabulary(path: Path, config: ELMoConfig, identity: str | None) -> Vocabulary:
    """Load a model's vocabulary. identity: of the one that the model was trained with, if known."""
    alphabet = Bytes(config.max_characters)
    if not config.vocab_size:
        return Vocabulary(SPECIAL_TOKENS, alphabet=alphabet)
    check_input(path, "the vocabulary of the model in this folder")
    if config.alphabet != "bytes":
        alphabet = _code_points(path.with_name(checkpoint.CHARACTERS), config)
    vocabulary = Vocabulary.from_file(path, alphabet)
    if len(vocabulary) != config.vocab_size or identity not in (None, vocabulary.identity):
        expected = identity or f"{config.vocab_size:,} tokens"
        raise UserError(
            f"{path} is not the vocabulary that the model next to it was trained with: "
            f"found {vocabulary.identity}, expected {expected}. "
            "Restore the original, with its lines in their order."
        )
    return vocabulary
