"""serving/service.py, driven as an ASGI server drives it, and its load test. Needs FastAPI, which nothing else here does."""

import asyncio
import importlib
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from project import PROJECT

from elmo import ELMoEmbedder
from elmo_tasks import Tagger

TEXTS = ["The film was good .", "", "Anna saw Rome ."]


@pytest.fixture(scope="module")
def service(checkpoints, tmp_path_factory):
    pytest.importorskip("fastapi", reason="no FastAPI")
    folder = tmp_path_factory.mktemp("service") / "tagger"
    sentences, labels = [["Anna", "saw", "Rome"]] * 4, [["PER", "O", "LOC"]] * 4
    Tagger.train(sentences, labels, lang="en", save_dir=folder, epochs=1, hidden_dim=4, word_dim=4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TAGGER", str(folder))
        patch.setenv("ELMO", str(checkpoints["char"]))
        patch.syspath_prepend(str(PROJECT / "serving"))
        yield importlib.import_module("service")
    del sys.modules["service"]


def call(service, method: str, path: str, body: bytes = b"", length: str | None = None) -> tuple[int, object]:
    """The status of an answer and its content."""
    sent, size = [], str(len(body)) if length is None else length
    headers = [(b"content-type", b"application/json"), *[(b"content-length", size.encode())] * bool(size)]
    scope = {"type": "http", "method": method, "path": path, "headers": headers, "query_string": b""}
    parts = iter([{"type": "http.request", "body": body}])

    async def receive() -> dict:
        return next(parts, {"type": "http.disconnect"})

    async def send(message: dict) -> None:
        sent.append(message)

    asyncio.run(service.app(scope, receive, send))
    content = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], json.loads(content) if content else None


def ask(service, path: str, texts: object) -> tuple[int, object]:
    return call(service, "POST", path, json.dumps({"texts": texts}).encode())


def test_it_answers_as_the_library_does(service, checkpoints):
    assert call(service, "GET", "/health") == (200, {"status": "ok"})
    status, spans = ask(service, "/tag", TEXTS)
    assert status == 200 and spans == [[span.to_dict() for span in some] for some in service.tagger.spans(TEXTS)]
    status, vectors = ask(service, "/vectors", TEXTS)
    embedder = ELMoEmbedder(checkpoints["char"], layers="average", pool="mean")
    expected = embedder.encode([text.split() for text in TEXTS])
    assert status == 200
    np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_requests_beyond_the_limits_are_refused(service):
    for texts in ("a", [1], ["a" * 10_001], ["a"] * 65, ["\ud800"], None):
        status, answer = ask(service, "/tag", texts)
        assert status == 422 and "texts" in answer["detail"][0]["loc"] and len(str(answer)) < 200
    for length in ("100001", "", "9" * 5000, "-1", "²"):
        assert call(service, "POST", "/tag", b'{"texts": ["a"]}', length)[0] == 413
    assert ask(service, "/tag", [])[0] == 200


def test_a_request_that_would_wait_too_long_is_refused_and_health_is_answered(service):
    with service.computing:  # another request computes
        waiting = [threading.Thread(target=ask, args=(service, "/tag", ["a"])) for _ in range(service.MAX_WAITING)]
        for thread in waiting:
            thread.start()
        while service.places._value:
            threading.Event().wait(0.01)
        assert ask(service, "/tag", ["a"])[0] == 503 and call(service, "GET", "/health")[0] == 200
    for thread in waiting:
        thread.join()
    assert ask(service, "/tag", ["a"])[0] == 200


def test_the_load_test_prints_a_table(tmp_path, capsys, monkeypatch):
    class Handler(BaseHTTPRequestHandler):
        protocol_version, wbufsize = "HTTP/1.1", -1

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"[]")

        def log_message(self, *_):
            pass

    monkeypatch.syspath_prepend(str(PROJECT / "benchmarks"))
    (tmp_path / "text").write_text("a\n\nb\n" * 40, encoding="utf-8")
    monkeypatch.setattr(ThreadingHTTPServer, "request_queue_size", 64)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        url = f"--url=http://127.0.0.1:{server.server_port}"
        importlib.import_module("load").main([url, f"--text={tmp_path / 'text'}", "--seconds=0.1"])
        server.shutdown()
    rows = [line.split("|")[1:4] for line in capsys.readouterr().out.splitlines()[2:]]
    assert [(path.strip(), int(n)) for path, n, _ in rows] == [(p, n) for p in ("/tag", "/vectors") for n in (1, 8, 32)]
    assert all(float(rate) > 0 for *_, rate in rows)
