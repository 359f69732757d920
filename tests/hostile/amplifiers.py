"""Small files that claim or unpack to very much: one generator per format. Each writes into a folder, and returns what
reads it. The reader must raise a UserError, and take no more memory than the file is worth.
"""

import bz2
import gzip
import json
import lzma
import math
import shutil
import struct
import tarfile
import types
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from unittest import mock

import foreign
import h5py
import manylangs_model
import numpy as np
import tensorflow_writer
import tiny
import torch_writer

from elmo import ELMoEmbedder
from elmo_core.files.word_vectors import load_word_vectors
from elmo_core.text.text_files import read_sentences
from elmo_core.text.tokens import SPECIAL_TOKENS, Vocabulary
from elmo_core.weights import checkpoint, formats, token_vectors, torch_files
from elmo_tasks import Classifier, Reader, Tagger
from elmo_tasks.classification.network import ClassifierSettings
from elmo_tasks.reading.network import ReaderSettings
from elmo_tasks.records import Lines, read_records
from elmo_tasks.tagging.data import Labels
from elmo_tasks.tagging.network import TaggerSettings

Read = Callable[[], object]
AMPLIFIERS: dict[str, Callable[[Path], Read]] = {}
HARMLESS = {"torch_views_of_a_storage"}  # right to accept: these tensors are small
MB = 1 << 20


def amplifier(function: Callable[[Path], Read]) -> Callable[[Path], Read]:
    AMPLIFIERS[function.__name__] = function
    return function


def repeated(compress: Callable[[bytes], bytes], content: bytes, times: int) -> bytes:
    """Compressed content, repeated: gzip, bzip2 and xz may have several parts."""
    return compress(content) * times


# Text


@amplifier
def gzip_line(folder):
    (folder / "text.gz").write_bytes(repeated(gzip.compress, b"a" * (16 * MB), 160))
    return lambda: sum(map(len, read_sentences(folder / "text.gz")))


@amplifier
def gzip_of_many_lines(folder):
    (folder / "vocab.txt").write_bytes(repeated(gzip.compress, b"ab\n" * (4 * MB), 80))
    return lambda: Vocabulary.from_file(folder / "vocab.txt")


@amplifier
def vocabulary_of_short_lines(folder):
    (folder / "vocab.txt").write_bytes(b"".join(b"%x\n" % n for n in range(3 * MB)))
    return lambda: Vocabulary.from_file(folder / "vocab.txt")


@amplifier
def vocabulary_line_of_a_checkpoint(folder):
    tiny.save(tiny.random_bilm(input="word"), folder)
    (folder / "vocab.txt").write_bytes(repeated(gzip.compress, b"a" * (16 * MB), 160))
    return lambda: ELMoEmbedder(folder)


@amplifier
def words_of_token_vectors(folder):
    (folder / "words").write_bytes(repeated(gzip.compress, b"ab\n" * (4 * MB), 80))
    return lambda: token_vectors.read(folder / "vectors.hdf5", folder / "words", 8)


@amplifier
def labels_of_a_tagger(folder):
    read = tagger(folder)
    (folder / "labels.txt").write_text("".join(f"{n}\n" for n in range(100_000)), encoding="utf-8")
    change(folder / "config.json", "dictionaries", {"labels.txt": Labels(map(str, range(100_000))).fingerprint})
    return read


@amplifier
def word2vec_header(folder):
    (folder / "v.txt").write_text("1000000000 300\na 1 2 3\n", encoding="utf-8")
    return lambda: load_word_vectors(folder / "v.txt")


@amplifier
def word2vec_binary_header(folder):
    (folder / "v.bin.gz").write_bytes(gzip.compress(b"1000000000 3\na " + bytes(12)))
    return lambda: load_word_vectors(folder / "v.bin.gz")


@amplifier
def word2vec_line(folder):
    (folder / "v.txt.gz").write_bytes(repeated(gzip.compress, b"1 " * (8 * MB), 20))
    return lambda: load_word_vectors(folder / "v.txt.gz")


@amplifier
def json_depth(folder):
    return config(folder, '{"format_version": 1, "model": ' + "[" * (8 * MB))


@amplifier
def json_brackets(folder):
    return config(folder, '{"format_version": 1, "model": [' + "[]," * (20 * MB) + "[]]}")


@amplifier
def json_number(folder):
    return config(folder, '{"format_version": ' + "9" * (4 * MB) + "}")


@amplifier
def json_records(folder):
    (folder / "r.json").write_text("[" + "{}," * (20 * MB) + "{}]", encoding="utf-8")
    return lambda: list(read_records(Lines([(folder / "r.json").read_text(encoding="utf-8").split("\n")]), "r.json"))


def config(folder: Path, text: str) -> Read:
    (folder / "config.json").write_text(text, encoding="utf-8")
    checkpoint.save(folder / "1", {"w": np.zeros(3, np.float32)})
    return lambda: ELMoEmbedder(folder)


def change(path: Path, name: str, values: dict) -> None:
    """Change values of an object in a JSON file."""
    content = json.loads(path.read_text(encoding="utf-8"))
    content[name] = {**content[name], **values}
    path.write_text(json.dumps(content), encoding="utf-8")


# Archives


def tar(folder: Path, kind: bytes, compress: Callable[[bytes], bytes]) -> Read:
    """A tar whose header declares a name of 2 GiB."""
    header = tarfile.TarInfo("name")
    header.type, header.size = kind, 2 << 30
    content = compress(header.tobuf()) + repeated(compress, bytes(16 * MB), 129)
    return archive(folder, content)


def archive(folder: Path, content: bytes) -> Read:
    (folder / "model.archive").write_bytes(content)
    return lambda: formats.read([folder / "model.archive"], folder)


@amplifier
def tar_name_in_bzip2(folder):
    return tar(folder, b"L", bz2.compress)


@amplifier
def tar_header_in_xz(folder):
    return tar(folder, b"x", lzma.compress)


@amplifier
def tar_global_header_in_gzip(folder):
    return tar(folder, b"g", gzip.compress)


@amplifier
def tar_of_zeros(folder):
    return tar(folder, tarfile.REGTYPE, gzip.compress)


@amplifier
def zip_of_zeros(folder):
    with zipfile.ZipFile(folder / "z", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("zeros", bytes(100 * MB))
    return archive(folder, (folder / "z").read_bytes())


# HDF5


def hdf5(folder: Path, chunks: tuple[int, int]) -> Read:
    """bilm-tf's files, with char_embed in a chunk whose deflated bytes are 400 MB of zeros."""
    foreign_model(folder)
    with h5py.File(folder / "weights.hdf5", "a") as file:
        shape = file["char_embed"].shape
        del file["char_embed"]
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk(chunks or shape)
        plist.set_deflate(1)
        space = h5py.h5s.create_simple(shape, (h5py.h5s.UNLIMITED,) * 2)
        dataset = h5py.h5d.create(file.id, b"char_embed", h5py.h5t.IEEE_F32LE, space, plist)
        dataset.write_direct_chunk((0, 0), deflated_zeros(400 * MB, 1))
    return lambda: formats.read([folder / "options.json", folder / "weights.hdf5"], folder)


def foreign_model(folder: Path) -> None:
    options = foreign.options_of({}, foreign.CNN)
    (folder / "options.json").write_text(json.dumps(options), encoding="utf-8")
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for name, shape in foreign.shapes_of(options).items():
            file[name] = np.full(shape, 0.5, np.float32)


def zeros(folder: Path, filters: int) -> Read:
    """bilm-tf's files of a model with cells of a million, deflated."""
    options = foreign.options_of({"dim": MB - 1}, foreign.CNN)
    (folder / "options.json").write_text(json.dumps(options), encoding="utf-8")
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for name, shape in foreign.shapes_of(options).items():
            plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            plist.set_chunk(shape)
            for _ in range(filters):
                plist.set_deflate(1)
            space, group = h5py.h5s.create_simple(shape), file.require_group(name.rpartition("/")[0] or "/")
            dataset = h5py.h5d.create(group.id, name.rpartition("/")[2].encode(), h5py.h5t.IEEE_F32LE, space, plist)
            dataset.write_direct_chunk((0,) * len(shape), deflated_zeros(4 * math.prod(shape), filters))
    return lambda: formats.read([folder / "options.json", folder / "weights.hdf5"], folder)


@cache
def deflated_zeros(size: int, times: int) -> bytes:
    content = zlib.compress(bytes(size), 1)
    return zlib.compress(content, 1) if times > 1 else content


@amplifier
def hdf5_of_zeros(folder):
    return zeros(folder, 1)


@amplifier
def hdf5_deflated_twice(folder):
    return zeros(folder, 2)


@amplifier
def hdf5_chunk_that_is_larger_than_it_says(folder):
    return hdf5(folder, ())


@amplifier
def hdf5_chunk_beyond_the_dataset(folder):
    return hdf5(folder, (1 << 14, 100 * MB >> 14))


@amplifier
def hdf5_filters_as_wide_as_the_projection(folder):
    """An identity of this size would take 4 TB."""
    n = MB - 1
    options = foreign.options_of({"projection_dim": n, "dim": 1, "n_layers": 1}, {"filters": [[1, n]], "n_highway": 0})
    (folder / "options.json").write_text(json.dumps(options), encoding="utf-8")
    with h5py.File(folder / "weights.hdf5", "w") as file:
        shapes = foreign.shapes_of(options) | {"CNN_proj/W_proj": (3, 3), "CNN_proj/b_proj": (3,)}
        for name, shape in shapes.items():
            file.create_dataset(name, shape, "float32", np.zeros(shape, np.float32))
    return lambda: formats.read([folder / "options.json", folder / "weights.hdf5"], folder)


# Pickles


def opcodes(folder: Path, suffix: str, content: bytes) -> Read:
    tiny.save(tiny.random_bilm(), folder)
    checkpoint.save(folder / "2", checkpoint.load_params(folder / "1"), {"a": 1}, {"a": 1})
    (folder / f"2{suffix}").write_bytes(b"\x80\x04}\x8c\1w(" + content + b"ts.")
    loads = {".pdopt": checkpoint.load_optimizer, ".pdstate": checkpoint.load_progress}
    return lambda: loads.get(suffix, ELMoEmbedder)(folder / "2")


@amplifier
def pickle_of_empty_sets(folder):
    return opcodes(folder, ".pdparams", b"\x8f" * MB)


@amplifier
def pdopt_of_memoized_objects(folder):
    return opcodes(folder, ".pdopt", b"N" + b"\x94" * MB)


@amplifier
def pdstate_of_lists(folder):
    return opcodes(folder, ".pdstate", b"]\x94" * MB)


@amplifier
def pickle_of_dictionaries(folder):
    return opcodes(folder, ".pdparams", b"}" * 290_000)


@amplifier
def pickle_of_repeated_bytes(folder):
    """Scalars of 10 MB each, from the same bytes."""
    encoded = b"c_codecs\nencode\nX" + struct.pack("<I", 10 * MB) + b"a" * (10 * MB) + b"\x85R\x94"
    scalar = b"cnumpy.core.multiarray\nscalar\ncnumpy\ndtype\n\x8c\x09S10485760\x85Rh\0\x86R"
    return opcodes(folder, ".pdparams", encoded + scalar * 200)


@amplifier
def paddlenlp_pickle(folder):
    (folder / "x.pdparams").write_bytes(b"\x80\x04}" + b"(" * MB + b".")
    (folder / "vocab.txt").write_text("the\n", encoding="utf-8")
    return lambda: formats.read([folder], folder)


# PyTorch


def torch(folder: Path, n: int, count: int, shape=(1,), strides=(1,)) -> Read:
    """`count` tensors over one storage of n values."""

    class View:
        def __reduce__(self):
            storage = torch_writer._Storage("0", n, "cpu")
            return torch_writer._rebuild_tensor_v2, (storage, 0, shape, strides, False, OrderedDict())

    class Pickler(torch_writer._Pickler):
        def __init__(self, file):
            super().__init__(file, old=False)
            self.fast = True

    modules = {"torch": types.ModuleType("torch"), "torch._utils": types.ModuleType("torch._utils")}
    modules["torch"].FloatStorage, modules["torch"]._utils = torch_writer.FloatStorage, modules["torch._utils"]
    modules["torch._utils"]._rebuild_tensor_v2 = torch_writer._rebuild_tensor_v2
    with zipfile.ZipFile(folder / "encoder.pkl", "w") as file, mock.patch.dict("sys.modules", modules):
        with file.open("archive/data.pkl", "w") as member:
            Pickler(member).dump({f"t{k}": View() for k in range(count)})
        file.writestr("archive/data/0", bytes(4 * n))
    return lambda: torch_files.read(folder / "encoder.pkl")


@amplifier
def torch_views_of_a_storage(folder):
    return torch(folder, MB // 2, 2000)


@amplifier
def torch_tensors_that_repeat_values(folder):
    return torch(folder, MB // 2, 1000, (MB // 2,))


@amplifier
def torch_tensor_without_strides(folder):
    return torch(folder, 3, 1, (1 << 30,), (0,))


# Other formats


@amplifier
def manylangs_dictionary(folder):
    manylangs_model.write_model(folder / "m")
    (folder / "m" / "word.dic").write_bytes(repeated(gzip.compress, b"ab\t1\n" * (2 * MB), 80))
    return lambda: formats.read([folder / "m"], folder)


@amplifier
def manylangs_id(folder):
    manylangs_model.write_model(folder / "m")
    (folder / "m" / "word.dic").write_text("the\t" + "0" * 5000, encoding="utf-8")
    return lambda: formats.read([folder / "m"], folder)


@amplifier
def manylangs_dimensions(folder):
    manylangs_model.write_model(folder / "m", beside=False)
    change(folder / "m" / "config.json", "encoder", {"dim": MB - 1, "projection_dim": MB - 1})
    return lambda: formats.read([folder / "m"], folder)


@amplifier
def fluid_tensor(folder):
    shape = b"\x08\x05" + b"".join(tensorflow_writer.field(2, n) for n in (1 << 30, 1 << 30))
    header = struct.pack("<IQIi", 0, 0, 0, len(shape)) + shape
    for name in ("embedding_para", "lstmp_0.w_1"):
        (folder / name).write_bytes(header)
    (folder / "vocab.txt").write_text("the\n", encoding="utf-8")
    return lambda: formats.read([folder], folder)


def task(folder: Path, kind: type, settings: object, claims: dict, **parts) -> Read:
    """A small trained model, whose config.json claims other settings."""
    words = Vocabulary([*SPECIAL_TOKENS, "the"])
    kind.create(settings=settings, **({"words": words} | parts)).save(folder)
    change(folder / "config.json", kind.kind, claims)
    return lambda: kind(folder)


def tagger(folder: Path, **claims: int) -> Read:
    settings = TaggerSettings(word_dim=5, hidden_dim=3, n_layers=1)
    return task(folder, Tagger, settings, claims, labels=Labels(["O", "B-x"]))


@amplifier
def tagger_layers(folder):
    return tagger(folder, n_layers=1_000_000)


@amplifier
def tagger_size(folder):
    return tagger(folder, hidden_dim=20_000)


@amplifier
def reader_size(folder):
    return task(folder, Reader, ReaderSettings(word_dim=5, hidden_dim=3), {"hidden_dim": 20_000})


def classifier(folder: Path, **claims: int) -> Read:
    settings = ClassifierSettings(head_dim=3, hidden_dim=2, reads_words=True, word_vectors_trainable=True)
    return task(folder, Classifier, settings, claims, classes=["x", "y"], data="")


@amplifier
def classifier_size(folder):
    return classifier(folder, head_dim=20_000)


@amplifier
def classifier_words(folder):
    read = classifier(folder)
    words = Vocabulary([*SPECIAL_TOKENS, *map(str, range(300_000))])
    words.save(folder / "vocab.txt")
    change(folder / "config.json", "dictionaries", {"vocab.txt": words.fingerprint})
    return read


@amplifier
def elmo_size(folder):
    tiny.save(tiny.random_bilm(), folder)
    change(folder / "config.json", "model", {"cell_dim": MB - 1, "projection_dim": MB - 1, "n_layers": 100})
    return lambda: ELMoEmbedder(folder)


@amplifier
def elmo_filters(folder):
    tiny.save(tiny.random_bilm(), folder)
    change(folder / "config.json", "model", {"filters": [[1, MB - 1]] * 100, "n_highway": 100})
    return lambda: ELMoEmbedder(folder)


def make(name: str, folder: Path) -> Read:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return AMPLIFIERS[name](folder)
