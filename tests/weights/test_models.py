"""The bundled models, and the ready-made ones: small, found by name without a network, and real."""

import re

import pytest

from elmo import ELMoEmbedder
from elmo_core.weights import published
from elmo_tasks import Parser, Tagger
from elmo_tasks.ready import ready_made

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
    sentence = text.split()
    embedder = ELMoEmbedder(name)
    (vectors,) = embedder.encode([sentence])
    assert vectors.shape == (3, len(sentence), 256)
    assert {word for word, _ in embedder.substitutes(sentence, place, k=50)} >= words


def test_the_links_of_cards_work_wherever_the_card_is_copied():
    for folder in (*(published.BUNDLED / name for name in PLACES), *ready_made()):
        links = re.findall(r"\]\(([^)]+)\)", (folder / "README.md").read_text(encoding="utf-8"))
        assert links and all(link.startswith("https://") for link in links), folder


def test_the_ready_made_models_read_raw_text_and_words(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ELMO_HOME", str(tmp_path))
    names = [f"{folder.parent.name}/{folder.name}" for folder in ready_made()]
    assert names == ["parser/en-ewt", "tagger/en-ewt", "tagger/zh-lac"]
    for folder in ready_made():
        assert sum(file.stat().st_size for file in folder.iterdir()) < 10e6
        assert "CC BY-SA 4.0" in (folder / "README.md").read_text(encoding="utf-8")
    text = "The old room was quiet."
    words = ["The", "old", "room", "was", "quiet", "."]
    tags = ["DET", "ADJ", "NOUN", "AUX", "ADJ", "PUNCT"]
    for tree in Parser("en-ewt").predict([text, words]):
        assert (tree.tokens, tree.tags, tree.heads) == (words, tags, [3, 3, 5, 5, 0, 5])
        assert tree.labels == ["det", "amod", "nsubj", "cop", "root", "punct"]
    for spans in Tagger("en-ewt").spans([text, words]):
        assert ([span.text for span in spans], [span.label for span in spans]) == (words, tags)
    (spans,) = Tagger("zh-lac").spans(["他在北京工作。"])
    tagged = " ".join(f"{span.text}/{span.label}" for span in spans)
    assert tagged == "他/r 在/p 北京/LOC 工作/v 。/w"
