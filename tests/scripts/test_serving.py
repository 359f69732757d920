"""The service in docs/serving.md, driven as an ASGI server drives it. Needs FastAPI, which nothing else here does."""

import asyncio
import json

import pytest
from project import python_blocks

from elmo_tasks import Tagger, TaggerSettings

TEXTS = ["The film was good .", "", "Anna saw Rome ."]


def call(app, method: str, path: str, content: object = None) -> tuple[int, object]:
    """The status of an answer and its content."""
    sent, body = [], json.dumps(content).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    scope = {"type": "http", "method": method, "path": path, "headers": headers, "query_string": b""}
    parts = iter([{"type": "http.request", "body": body}])

    async def receive() -> dict:
        return next(parts, {"type": "http.disconnect"})

    async def send(message: dict) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], json.loads(b"".join(message.get("body", b"") for message in sent))


def test_it_tags_as_the_library_does(tmp_path, monkeypatch):
    pytest.importorskip("fastapi", reason="no FastAPI")
    sentences, labels = [["Anna", "saw", "Rome"]] * 4, [["PER", "O", "LOC"]] * 4
    settings = TaggerSettings(lang="en", epochs=1, hidden_dim=4, word_dim=4)
    tagger = Tagger.train(sentences, labels, settings=settings, save_dir=tmp_path / "tagger")
    monkeypatch.setenv("MODEL", str(tmp_path / "tagger"))
    space = {"__name__": "service"}
    exec(python_blocks("docs/serving.md")[0], space)
    app = space["app"]
    expected = [[span.to_dict() for span in spans] for spans in tagger.spans(TEXTS)]
    assert call(app, "POST", "/", {"texts": TEXTS}) == (200, expected)
    assert call(app, "GET", "/health") == (200, {"status": "ok"})
    for texts in ("a", [1], ["a" * 10_001], ["a"] * 65, None):
        assert call(app, "POST", "/", {"texts": texts})[0] == 422
