"""An HTTP service that tags texts and computes their vectors, in one process, one computation at a time.

    pip install . fastapi uvicorn
    TAGGER=runs/ner ELMO=en-reviews LANGUAGE=en uvicorn --app-dir=serving service:app

docs/serving.md explains the limits.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore, Lock
from typing import Annotated

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from elmo import ELMoEmbedder
from elmo_tasks import Tagger

MAX_BYTES = 100_000  # of a request
MAX_TEXTS, MAX_CHARACTERS = 64, 10_000
MAX_WAITING = 32  # requests, one of which computes; less than the 40 threads that run them

Text = Annotated[str, Field(max_length=MAX_CHARACTERS)]
tagger = Tagger(os.environ["TAGGER"])
embedder = ELMoEmbedder(os.environ.get("ELMO", "en-reviews"), layers="average", pool="mean")
language = os.environ.get("LANGUAGE", "en")
embedder.encode_texts(["Ready?"], language)  # fails now if there is no such language
app, computing, places = FastAPI(), Lock(), BoundedSemaphore(MAX_WAITING)


class Texts(BaseModel):
    texts: Annotated[list[Text], Field(max_length=MAX_TEXTS)]


@contextmanager
def turn() -> Iterator[None]:
    """Wait for the model; if too many wait already, answer at once."""
    if not places.acquire(blocking=False):
        raise HTTPException(503, "busy", {"Retry-After": "1"})
    try:
        with computing:
            yield
    finally:
        places.release()


@app.middleware("http")
async def limit_size(request: Request, call_next) -> Response:
    """Answer 413 before a long request is read into memory."""
    size = request.headers.get("content-length", "")
    is_short = size.isascii() and size.isdecimal() and len(size) < 9 and int(size) <= MAX_BYTES
    return await call_next(request) if is_short or request.method != "POST" else Response(status_code=413)


@app.exception_handler(RequestValidationError)
async def refuse(_: Request, error: RequestValidationError) -> Response:
    """Answer 422 without the input, which may be long, or impossible to encode."""
    return JSONResponse({"detail": [{key: mistake[key] for key in ("loc", "msg")} for mistake in error.errors()]}, 422)


@app.get("/health")
async def health() -> dict:
    return {"status": "ok"}


@app.post("/tag")
def tag(request: Texts) -> list[list[dict]]:
    """The spans of each text: text, label, begin, end, score."""
    with turn():
        return [[span.to_dict() for span in spans] for spans in tagger.spans(request.texts)]


@app.post("/vectors")
def vectors(request: Texts) -> list[list[float]]:
    """A vector for each text: the mean over its tokens and ELMo's layers."""
    with turn():
        return [text.vectors.tolist() for text in embedder.encode_texts(request.texts, language)]
