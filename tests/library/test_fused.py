"""The compiled loops: where the library is kept, whose library is loaded, and what happens without
a compiler.
"""

import os
import re
import shutil
from pathlib import Path

import pytest
import tiny
from reference import assert_close

from elmo import ELMoEmbedder
from elmo_core.kernels import fused
from elmo_core.machine import runtime


def build_anew() -> fused.Kernel | None:
    return fused.kernel.__wrapped__()


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    """A built library."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(folder := tmp_path_factory.mktemp("cache")))
        if build_anew() is None:
            pytest.skip(
                "no C compiler, a Paddle without MKL, or a folder from which nothing may be run"
            )
    (path,) = folder.glob("elmo/*")
    return path


@pytest.fixture
def cache(library, tmp_path, monkeypatch) -> Path:
    """The folder of a cache that contains the library, on a machine without a compiler."""
    folder = shutil.copytree(library.parent, tmp_path / "cache" / "elmo")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder.parent))
    monkeypatch.setenv("CC", "/bin/false")
    return folder


def test_a_built_library_needs_no_compiler(cache, library):
    assert build_anew()
    assert not (library.parent.stat().st_mode | library.stat().st_mode) & 0o022


def test_without_a_compiler_one_line_is_logged(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CC", "/bin/false")
    monkeypatch.delenv("ELMO_FUSED", raising=False)
    caplog.set_level("INFO", logger="elmo")
    assert build_anew() is None
    if runtime.mkl():
        assert len(caplog.records) == 1 and not any((tmp_path / "elmo").iterdir())


def test_a_library_in_a_folder_that_others_can_write_is_not_loaded(cache):
    cache.chmod(0o777)
    assert build_anew() is None


@pytest.mark.parametrize(
    ("size", "zeros"), [(0, 0), (20_000, 0), (None, 4096)], ids=["empty", "cut", "a page of zeros"]
)
def test_a_damaged_library_is_not_mapped(cache, size, zeros):
    (path,) = cache.iterdir()
    path.write_bytes(bytes(zeros) + path.read_bytes()[zeros:size])
    assert build_anew() is None


def test_a_damaged_library_is_built_again(cache, library, monkeypatch):
    monkeypatch.delenv("CC")
    (path,) = cache.iterdir()
    path.write_bytes(path.read_bytes()[:20_000])
    assert build_anew()
    assert path.stat().st_size > 20_000


def test_without_a_home_nothing_is_left_behind(cache, tmp_path, monkeypatch):
    monkeypatch.delenv("CC")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    (folder := tmp_path / "empty").mkdir()
    monkeypatch.chdir(folder)
    assert build_anew()
    assert not any(folder.iterdir())


def test_without_prepared_weights_the_vectors_are_the_same(cache, tmp_path, monkeypatch):
    prefix, sentences = tiny.save(tiny.random_bilm(), tmp_path / "model"), tiny.SENTENCES * 4
    expected = ELMoEmbedder(prefix, device="cpu").encode(sentences)
    monkeypatch.setattr(fused.Kernel, "_prepares_correctly", lambda _: False)
    plain = build_anew()
    assert plain.blas[0] and not any(plain.blas[1:5])
    monkeypatch.setattr(fused, "kernel", lambda: plain)
    assert_close(ELMoEmbedder(prefix, device="cpu").encode(sentences), expected)


def test_clips_may_be_whole_numbers():
    """As many programs write them in JSON."""
    vectors = [
        ELMoEmbedder((tiny.random_bilm(cell_clip=clip), None), device="cpu").encode(tiny.SENTENCES)
        for clip in (2, 2.0)
    ]
    for whole, fraction in zip(*vectors, strict=True):
        assert (whole == fraction).all()


def test_a_function_is_called_with_the_names_of_its_arguments():
    kernel = fused.kernel() or pytest.skip("no C compiler, or a Paddle without MKL")
    with pytest.raises(TypeError, match="rounded"):
        kernel.round_to_bfloat16(n=0, x=None, rounds=None)
    with pytest.raises(TypeError, match="rounded"):
        kernel.round_to_bfloat16(n=0, x=None)


def test_the_parameters_of_the_functions_are_those_of_the_source():
    kernel = fused.kernel() or pytest.skip("no C compiler, or a Paddle without MKL")
    source = fused.SOURCE.read_text(encoding="utf-8")
    functions = {
        name: function
        for name, function in vars(kernel).items()
        if isinstance(function, fused.Function)
    }
    assert functions
    for name, function in functions.items():
        (declared,) = re.findall(rf"^[^/\n]*\b{name}\(([^)]*)\) {{", source, re.M)
        parameters = [re.split(r"[ *]", text.strip())[-1] for text in declared.split(",")]
        assert function.names == parameters, name
