"""The bundled models: small, found by name without a network, and real."""

import pytest

from elmo import ELMoEmbedder
from elmo_core.machine import runtime, versions
from elmo_core.weights import published

PLACES = {  # a sentence, a place in it, words that fit there
    "en": ("The acting is very good .", 4, {"good", "bad", "great"}),
    "zh": ("今天 上午 ， 会议 在 北京 举行 。", 5, {"北京", "上海", "广州"}),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_bundled_model_reads_and_predicts(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ELMO_HOME", str(tmp_path))
    assert sum(file.stat().st_size for file in (published.BUNDLED / name).iterdir()) < 45e6
    text, place, words = PLACES[name]
    embedder, sentence = ELMoEmbedder(name), text.split()
    (vectors,) = embedder.encode([sentence])
    assert vectors.shape == (3, len(sentence), 256)
    assert {word for word, _ in embedder.substitutes(sentence, place, k=50)} >= words


def test_an_embedder_leaves_the_choice_of_tf32_to_the_program():
    core = runtime.paddle.base.core
    if not hasattr(core, "get_cublas_switch"):
        pytest.skip(f"this build of paddle {runtime.paddle.__version__} has no TF32 to switch")
    versions.allow_tf32(runtime.paddle, True)
    try:
        ELMoEmbedder("en").encode([["good"]])
        assert core.get_cublas_switch() and core.get_cudnn_switch()
    finally:
        versions.allow_tf32(runtime.paddle, False)
