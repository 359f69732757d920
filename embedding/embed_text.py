"""The vectors of a text in one HDF5 file, computed in parts by any number of processes. See `parts` and `vector_file`."""

import itertools
import math
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from elmo_core.files import checkpoint
from elmo_core.machine import disk, messages
from elmo_core.machine.messages import UserError, log
from elmo_core.text.tokens import UNK
from embedding import parts, vector_file
from embedding.text_windows import CountedText, Span, index_entries, progress

if TYPE_CHECKING:
    from elmo import ELMoEmbedder


def embed(
    embedder: "ELMoEmbedder",
    path: Path,
    folder: Path,
    output: Path | None = None,
    share: tuple[int, int] = (0, 1),
    forget_sentences: bool = False,
) -> None:
    """Write the parts of a text's vectors that are not there yet.

    share: (i, n) for every n-th window from number i on, if n processes share the work.
    output: the file that the parts become once all are there; without it they stay as they are, for `merge`.
    """
    text = CountedText(path, embedder.batch_size)
    settings = _settings(embedder, text, forget_sentences)
    if output and vector_file.is_finished(output, settings):
        shutil.rmtree(folder, ignore_errors=True)  # left where a run was killed at its very end
        return
    first, step = share
    paths = parts.paths(folder, settings)
    mine = range(first, len(paths), step)
    missing = [number for number in mine if not parts.is_done(paths[number])]
    log.info(f"device        {embedder.device}")
    log.info(f"text          {path}: {text}")
    if text.blank:
        rows = "vectors are zero" if embedder.pool else "datasets are empty"
        log.warning(f"{path}: {text.blank:,} blank lines: their {rows}.")
    _check_room(text.spans, settings, folder, output, mine)
    parts.prepare(folder, settings)
    log.info(f"parts         {folder}, {len(mine) - len(missing):,} of {len(mine):,} windows are done")
    with parts.locked(folder / f".{first}of{step}.lock"):
        if missing:
            _write_parts(embedder, text, missing, paths)
    if output:
        _finish(paths, settings, folder, output)


def _settings(embedder: "ELMoEmbedder", text: CountedText, forget_sentences: bool) -> dict[str, Any]:
    """The settings that must agree to resume, and to merge parts."""
    weights = {name: weight.numpy() for name, weight in embedder.bilm.state_dict().items()}
    words = f", {embedder.vocabulary.identity}" if embedder.vocabulary else ""
    return {
        "model": f"SHA-1 {checkpoint.fingerprint(weights)[:12]}{words}",
        "text": str(text),
        "layers": embedder.layers.numbers,
        "mix": embedder.layers.weights,
        "pool": embedder.pool,
        "dtype": embedder.dtype,
        "batch_size": embedder.batch_size,
        "shape": list(embedder.shape(None)),  # None: number of tokens
        "windows": len(text.spans),
        "index_bytes": 0 if forget_sentences else sum(span.index_bytes for span in text.spans),
    }


def _check_room(
    spans: Sequence[Span], settings: Mapping[str, Any], folder: Path, output: Path | None, mine: range
) -> None:
    """Log how large the vectors are, and refuse what the disk cannot hold."""
    each = math.prod(number for number in settings["shape"] if number) * np.dtype(settings["dtype"]).itemsize
    shape = ", ".join(str(number or "n") for number in settings["shape"])
    log.info(f"vectors       ({shape}) {settings['dtype']}, {each:,} bytes a {'line' if settings['pool'] else 'token'}")
    spans = spans if output else [spans[number] for number in mine]
    needed = vector_file.PER_LINE * sum(span.lines for span in spans)
    needed += each * sum(span.lines if settings["pool"] else span.tokens for span in spans)
    needed += sum(span.index_bytes for span in spans) if settings["index_bytes"] else 0
    log.info(f"size          {size(needed)}{', and the same again for the parts until the end' if output else ''}")
    done = sum(path.stat().st_size for path in parts.paths(folder, settings) if path.exists())
    path = output or folder
    free = shutil.disk_usage(next(parent for parent in path.absolute().parents if parent.exists())).free
    if (2 if output else 1) * needed - done > free:
        raise UserError(
            f"{path}: {size(free)} are free. Store less (--layers top, --dtype float16, --pool mean), make room, or use "
            "another disk."
        )
    if settings["index_bytes"] > vector_file.LONGEST_INDEX:
        raise UserError(f"{vector_file.INDEX} would be too long for HDF5. Leave it out with --forget_sentences.")


def _write_parts(embedder: "ELMoEmbedder", text: CountedText, missing: Sequence[int], paths: Sequence[Path]) -> None:
    total = sum(text.spans[number].tokens for number in missing)
    began = time.perf_counter()
    with progress("embedding", " tokens", total) as bar:
        for number, first_line, sentences in text.windows(set(missing)):
            numbered = enumerate(sentences, first_line)
            window = sorted(numbered, key=lambda pair: -len(pair[1]))  # in the order in which they are computed
            lines = [(line, len(sentence)) for line, sentence in window]
            arrays = embedder.iter_encode([sentence for _, sentence in window])
            arrays = _checked(text.path, lines, arrays, bar)
            parts.write(paths[number], lines, arrays, index_entries(first_line, sentences))
    seconds = time.perf_counter() - began
    log.info(f"embedded      {total:,} tokens in {messages.format_duration(seconds)}, {total / seconds:,.0f} tokens/s")
    if embedder.oov_share:
        log.warning(f"{text.path}: {embedder.oov_share:.1%} of the tokens are not in the vocabulary and read as {UNK}.")


def _checked(path: Path, lines: Sequence[tuple[int, int]], arrays: Iterator[np.ndarray], bar) -> Iterator[np.ndarray]:
    for (line, n_tokens), array in zip(lines, arrays, strict=True):
        if not checkpoint.is_finite(array):
            raise UserError(
                f"{path}:{line + 1}: the vectors are not finite in {array.dtype}. Use --dtype float32, or a model or --mix "
                "of smaller numbers."
            )
        yield array
        bar.update(n_tokens)


def _finish(paths: Sequence[Path], settings: Mapping[str, Any], folder: Path, output: Path) -> None:
    """Put the parts together, in the one process that finds all of them, and remove them."""
    try:
        if not all(map(parts.is_done, paths)):
            log.info("The last process to finish puts the parts together. If one failed, run the same command again.")
            return
        with parts.locked(folder / ".all.lock"):
            if not output.exists():
                put_together(paths, settings, output)
                shutil.rmtree(folder)
    except (disk.FileLocked, FileNotFoundError):
        log.info("Another process puts the parts together.")


def put_together(paths: Sequence[Path], settings: Mapping[str, Any], output: Path) -> None:
    bar = progress("putting together", " windows", iterable=paths)
    vectors = itertools.chain.from_iterable(parts.read_vectors(path, settings) for path in bar)
    vector_file.write(output, settings, vectors, map(parts.read_entries, paths))
    log.info(f"wrote         {output}, {size(output.stat().st_size)}")


def merge(folders: Sequence[Path], output: Path) -> None:
    """Put the parts together that `embed` has written into several folders. They stay."""
    settings = parts.read_settings(folders[0])
    for folder in folders[1:]:
        parts.check_same(folder, parts.read_settings(folder), settings)
    if vector_file.is_finished(output, settings):
        return
    choices = zip(*(parts.paths(folder, settings) for folder in folders), strict=True)
    found = [next(filter(parts.is_done, choice), None) for choice in choices]
    if missing := found.count(None):
        raise UserError(
            f"{missing:,} of {len(found):,} windows of the text are not in {messages.join_names(list(map(str, folders)))}. "
            "Give the folders of all shares, and finish those that were interrupted."
        )
    put_together(found, settings, output)


def size(n: int) -> str:
    """A number of bytes for messages."""
    return f"{n / 1e9:,.2f} GB" if n >= 1e9 else f"{n / 1e6:,.2f} MB"
