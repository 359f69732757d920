"""Models of other projects as they are published: single files, folders or archives."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.files.archives import unpacked
from elmo_core.files.array_file import ArrayFile, open_hdf5, quoted
from elmo_core.files.disk import check_input, read_json
from elmo_core.messages import UserError
from elmo_core.text.vocabulary import Vocabulary
from elmo_core.weights import bilm_tf, tensorflow
from elmo_core.weights.fluid import read_fluid
from elmo_core.weights.manylangs import read_manylangs
from elmo_core.weights.paddlenlp import LSTM, read_paddlenlp
from elmo_core.weights.pickles import read_paddle
from elmo_core.weights.tensorflow_models import read_bilm_checkpoint

Model = tuple[ELMoConfig, dict[str, np.ndarray], Vocabulary | None]  # under our names


def read_foreign(
    paths: Sequence[Path],
    parent: Path,
    vocabulary: Path | None = None,
    format_name: str | None = None,
) -> Model:
    """Read a model from files, folders and archives, under our names.

    parent: the folder in which archives are unpacked. vocabulary: a file that is not among the
    paths. format_name: a key of READERS (default: by the files' names).
    """
    with ExitStack() as stack:
        files: dict[Path, Path] = {}  # by the places that they are links to, so each once
        for path in paths:
            source = path
            if not path.is_dir() and path.suffix != ".pkl":  # PyTorch's files are archives, too
                check_input(path, "a file, folder or archive of a pretrained model")
                source = stack.enter_context(unpacked(path, parent))
            entries = sorted(source.rglob("[!.]*")) if source.is_dir() else [source]
            for entry in entries:
                if entry.is_file():
                    files[entry.resolve()] = entry
        found = list(files.values())
        _, read = READERS[format_name or _recognise(found)]
        return read(found, vocabulary)


def _recognise(files: Sequence[Path]) -> str:
    """Return the first format whose file is among these."""
    for name, (ending, _) in READERS.items():
        if any(path.name.endswith(ending) for path in files):
            return name
    endings = " or ".join(ending for ending, _ in READERS.values())
    raise UserError(
        f"No model was found, only {_names(files)}. Expected a file whose name ends with {endings}."
    )


def _names(files: Sequence[Path]) -> str:
    return quoted(sorted(path.name for path in files)) or "no files"


def is_vocabulary(path: Path) -> bool:
    return path.is_file() and path.name.endswith((".txt", ".txt.gz")) and "vocab" in path.name


def _find_vocabulary(files: Sequence[Path], path: Path | None) -> Path | None:
    """Return the vocabulary that is given, or the first one among the files."""
    return path or next((file for file in files if is_vocabulary(file)), None)


def _read_vocabulary(files: Sequence[Path], path: Path | None) -> Vocabulary:
    found = _find_vocabulary(files, path)
    if found is None:
        raise UserError("This model needs its vocabulary: a text file with one word per line.")
    return Vocabulary.from_file(found)


def _single_file(files: Sequence[Path], ending: str) -> Path:
    """Return the only file whose name has this ending. Raise if there is none or more than one."""
    matches = [path for path in files if path.name.endswith(ending)]
    if len(matches) != 1:
        raise UserError(
            f"{len(matches)} files end with {ending}, expected one: name it. Found {_names(files)}."
        )
    return matches[0]


def _read_bilm_tf(files: Sequence[Path], vocabulary: Path | None) -> Model:
    """Read options, and weights in one or several files: AllenNLP released a softmax apart."""
    options = _single_file(files, bilm_tf.OPTIONS)
    paths = [path for path in files if path.name.endswith(".hdf5")]
    if not paths:
        raise UserError(f"There is no .hdf5 with the weights, only {_names(files)}.")
    with ExitStack() as stack:
        arrays = {}
        for path in paths:
            part = stack.enter_context(open_hdf5(path, "bilm-tf's weights"))
            repeated = arrays.keys() & part.arrays
            if repeated:
                raise UserError(
                    f"{path} is of another model than {paths[0]}: both have {quoted(repeated)}."
                )
            arrays.update(part.arrays)
        return bilm_tf.read_arrays(
            values=bilm_tf.read_options(options),
            source=options,
            weights=ArrayFile(paths[0], arrays),
            words=_find_vocabulary(files, vocabulary),
        )


def _read_tensorflow(files: Sequence[Path], vocabulary: Path | None) -> Model:
    """Read a checkpoint of bilm-tf's training or of a TensorFlow Hub module.

    The options and words of a training are beside it, whether they are among the files or not.
    """
    index = _single_file(files, tensorflow.INDEX)
    candidates = files + sorted(index.parent.iterdir())
    options = next((path for path in candidates if path.name == bilm_tf.OPTIONS), None)
    return read_bilm_checkpoint(index, options, _find_vocabulary(candidates, vocabulary))


def _read_manylangs(files: Sequence[Path], vocabulary: Path | None) -> Model:
    """Read a folder, which has its own words."""
    return read_manylangs(_single_file(files, "encoder.pkl").parent)


def _read_fluid(files: Sequence[Path], vocabulary: Path | None) -> Model:
    words = _read_vocabulary(files, vocabulary)
    config, weights = read_fluid(_single_file(files, "embedding_para").parent, words)
    return config, weights, words


def _read_paddle(files: Sequence[Path], vocabulary: Path | None) -> Model:
    """Read a .pdparams file, of PaddleNLP's example or of `paddle.save(bilm.state_dict(), path)`.

    Beside the latter is the model's config.json.
    """
    path = _single_file(files, ".pdparams")
    arrays = read_paddle(path)
    if any(name.startswith(LSTM) for name in arrays):
        words = _read_vocabulary(files, vocabulary)
        config, weights = read_paddlenlp(path, arrays, words)
        return config, weights, words
    config_path = path.with_name("config.json")
    values = read_json(config_path, "the configuration of the model in this folder")
    config = ELMoConfig.from_dict(values.get("model"))
    words = _read_vocabulary(files, vocabulary) if config.vocab_size else None
    return config, arrays, words


# by format: the ending of the name of a file that tells it, and a function of files and vocabulary
READERS: dict[str, tuple[str, Callable[[Sequence[Path], Path | None], Model]]] = {
    # first: a dump in HDF5 may be beside it, which has no softmax
    "tensorflow": (tensorflow.INDEX, _read_tensorflow),
    "bilm-tf": (".hdf5", _read_bilm_tf),
    "manylangs": ("encoder.pkl", _read_manylangs),
    "fluid": ("embedding_para", _read_fluid),
    "paddle": (".pdparams", _read_paddle),
}
