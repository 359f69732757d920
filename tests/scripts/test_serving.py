"""The service in docs/serving.md, driven as an ASGI server drives it.

Needs FastAPI, which nothing else here does.
"""

import asyncio
import json

import numpy as np
import pytest
from project import python_blocks

from elmo import ELMoEmbedder
from elmo_tasks import (
    Classifier,
    ClassifierSettings,
    Parser,
    Reader,
    ReaderSettings,
    Tagger,
    TaggerSettings,
)

TEXTS = ["The film was good .", "", "Anna saw Rome ."]


def service(monkeypatch, model: object, task: str):
    """The application of the page, with this model."""
    pytest.importorskip("fastapi", reason="no FastAPI")
    monkeypatch.setenv("MODEL", str(model))
    monkeypatch.setenv("TASK", task)
    space = {"__name__": "service"}
    exec(python_blocks("docs/serving.md")[0], space)
    return space["app"]


def call(app, method: str, path: str, content: object = None) -> tuple[int, object]:
    """The status of an answer and its content."""
    sent, body = [], json.dumps(content).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "headers": headers,
        "query_string": b"",
    }
    parts = iter([{"type": "http.request", "body": body}])

    async def receive() -> dict:
        return next(parts, {"type": "http.disconnect"})

    async def send(message: dict) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], json.loads(b"".join(message.get("body", b"") for message in sent))


def test_it_tags_as_the_library_does(tmp_path, monkeypatch):
    sentences, labels = [["Anna", "saw", "Rome"]] * 4, [["PER", "O", "LOC"]] * 4
    settings = TaggerSettings(elmo=None, lang="en", epochs=1, hidden_dim=4, word_dim=4)
    tagger = Tagger.train(sentences, labels, settings=settings, save_dir=tmp_path / "tagger")
    app = service(monkeypatch, tmp_path / "tagger", "tag")
    expected = [[span._asdict() for span in spans] for spans in tagger.spans(TEXTS)]
    assert call(app, "POST", "/", {"texts": TEXTS}) == (200, expected)
    assert call(app, "GET", "/health") == (200, {"status": "ok"})
    for texts in ("a", [1], ["a" * 10_001], ["a"] * 65, None):
        assert call(app, "POST", "/", {"texts": texts})[0] == 422


def test_it_classifies_and_answers(tmp_path, monkeypatch):
    settings = ClassifierSettings(elmo=None, lang="en", epochs=1, word_dim=4, head="mean")
    classifier = Classifier.train(
        TEXTS[::2] * 4, ["a", "b"] * 4, settings=settings, save_dir=tmp_path / "classifier"
    )
    app = service(monkeypatch, tmp_path / "classifier", "classify")
    status, found = call(app, "POST", "/", {"texts": TEXTS})
    assert status == 200 and [max(row, key=row.get) for row in found] == classifier.predict(TEXTS)
    np.testing.assert_allclose(
        [[row["a"], row["b"]] for row in found], classifier.predict_proba(TEXTS), atol=1e-6
    )
    example = {
        "id": "a",
        "context": TEXTS[2],
        "question": "Who ?",
        "answers": {"text": ["Anna"], "answer_start": [0]},
    }
    settings = ReaderSettings(elmo=None, lang="en", epochs=1, word_dim=4, hidden_dim=4)
    reader = Reader.train([example], dev=[example], settings=settings, save_dir=tmp_path / "reader")
    app = service(monkeypatch, tmp_path / "reader", "answer")
    expected = [
        reader.predict(("Who ?", TEXTS[0])).text,
        "",
        reader.predict(("Who ?", TEXTS[2])).text,
    ]
    assert call(app, "POST", "/", {"texts": TEXTS, "question": "Who ?"}) == (200, expected)


def test_it_parses(monkeypatch):
    expected = [tree.to_conllu() for tree in Parser("en-ewt").predict(TEXTS[::2])]
    app = service(monkeypatch, "en-ewt", "parse")
    assert call(app, "POST", "/", {"texts": TEXTS}) == (200, [expected[0], "", expected[1]])


def test_its_vectors_are_the_embedders(checkpoints, monkeypatch):
    status, vectors = call(
        service(monkeypatch, checkpoints["char"], "embed"), "POST", "/", {"texts": TEXTS}
    )
    embedder = ELMoEmbedder(checkpoints["char"], layers="average", pool="mean")
    assert status == 200
    np.testing.assert_allclose(
        vectors, embedder.encode([text.split() for text in TEXTS]), atol=1e-6
    )
