"""The compiled loops: where the library is kept, whose library is loaded, and what happens without a compiler."""

import os
import shutil
from pathlib import Path

import pytest
import tiny
from reference import assert_close

from elmo import ELMoEmbedder
from elmo_core.machine import runtime
from elmo_core.network import fused


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """The folder of an empty cache, on a machine that can build the library."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if build_anew() is None:
        pytest.skip("no C compiler, a Paddle without MKL, or a folder from which nothing may be run")
    shutil.rmtree(tmp_path / "cache")
    return tmp_path / "cache" / "elmo"


def build_anew() -> fused.Kernel | None:
    return fused.kernel.__wrapped__()


def test_a_built_library_needs_no_compiler(cache, monkeypatch):
    assert build_anew()
    (library,) = cache.iterdir()
    assert not (cache.stat().st_mode | library.stat().st_mode) & 0o022
    monkeypatch.setenv("CC", "/bin/false")
    assert build_anew()


def test_without_a_compiler_one_line_is_logged(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CC", "/bin/false")
    monkeypatch.delenv("ELMO_FUSED", raising=False)
    caplog.set_level("INFO", logger="elmo")
    assert build_anew() is None
    if runtime.mkl():
        assert len(caplog.records) == 1 and not any((tmp_path / "elmo").iterdir())


@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_library_that_others_can_write_is_not_loaded(cache, what, monkeypatch):
    assert build_anew()
    (library,) = cache.iterdir()
    (cache if what == "folder" else library).chmod(0o777)
    with monkeypatch.context() as patched:
        patched.setenv("CC", "/bin/false")
        assert build_anew() is None
    before = library.stat().st_ino
    assert build_anew()
    assert (library.stat().st_ino == before) == (what == "folder"), "what is built goes into a safe folder only"


def test_a_damaged_library_is_built_again(cache):
    assert build_anew()
    (library,) = cache.iterdir()
    library.unlink()  # the loaded file itself stays as it is: to cut it short would kill this process
    library.write_bytes(b"")
    assert build_anew() and library.stat().st_size > 1000


def test_without_a_home_nothing_is_left_behind(cache, tmp_path, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    monkeypatch.chdir(tmp_path)
    assert build_anew()
    assert not any(tmp_path.iterdir())


def test_without_packed_products_the_vectors_are_the_same(cache, tmp_path, monkeypatch):
    prefix, sentences = tiny.save(tiny.random_bilm(), tmp_path / "model"), tiny.SENTENCES * 4
    expected = ELMoEmbedder(prefix, device="cpu").encode(sentences)
    monkeypatch.setattr(fused, "_packed_products_work", lambda _: False)
    plain = build_anew()
    assert plain.blas[0] and not any(plain.blas[1:])
    monkeypatch.setattr(fused, "kernel", lambda: plain)
    assert_close(ELMoEmbedder(prefix, device="cpu").encode(sentences), expected)
