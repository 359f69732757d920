"""Embeds a text into one HDF5 file, in parts, by any number of processes. See `parts` and `vector_file`."""

import errno
import itertools
import math
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from elmo_core import messages
from elmo_core.files import disk
from elmo_core.messages import UserError, format_count, log
from elmo_core.text.language import warn_if_unsegmented
from elmo_core.text.tokens import UNK
from elmo_core.weights import checkpoint
from embedding import parts, vector_file
from embedding.text_windows import CountedText, WindowStats, index_entries, progress_bar

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
    """Compute the missing parts of a text's vectors.

    share: (i, n): this process computes windows i, i + n, i + 2n, ...
    output: the file to assemble once all parts exist; None leaves them in the folder, for `merge`.
    """
    text = CountedText(path, embedder.batch_size)
    settings = _settings(embedder, text, forget_sentences)
    if output and vector_file.is_finished(output, settings):
        shutil.rmtree(folder, ignore_errors=True)  # left by a run that was killed at its very end
        return
    first, step = share
    paths = parts.paths(folder, settings)
    own_windows = range(first, len(paths), step)
    missing = [number for number in own_windows if not parts.is_done(paths[number])]
    log.info(f"device        {embedder.device}, products in {embedder.precision}")
    log.info(f"text          {path}: {text}")
    words = embedder.vocabulary.words if embedder.vocabulary else ()
    warn_if_unsegmented(path, None, None if embedder.config.reads_characters else embedder.vocabulary, words)
    if text.blank:
        result = "zero vectors" if embedder.pool else "empty datasets"
        log.warning(f"{path}: {format_count(text.blank, 'blank lines')}: {result}.")
    _check_disk_space(text.stats, settings, folder, output, own_windows)
    parts.prepare(folder, settings)
    n_windows = format_count(len(own_windows), "windows")
    log.info(f"parts         {folder}, {len(own_windows) - len(missing):,} of {n_windows} done")
    with disk.locked(folder / f".{first}of{step}.lock"):
        if missing:
            _write_parts(embedder, text, missing, paths)
    if output:
        _finish(paths, [paths[number] for number in own_windows], settings, folder, output)


def _settings(embedder: "ELMoEmbedder", text: CountedText, forget_sentences: bool) -> dict[str, Any]:
    """The settings that must be equal to resume or to merge."""
    weights = {name: weight.numpy() for name, weight in embedder.bilm.state_dict().items()}
    words = f", {embedder.vocabulary.identity}" if embedder.vocabulary else ""
    return {
        "model": f"SHA-1 {checkpoint.fingerprint(weights)[:12]}{words}",
        "text": str(text),
        "layers": embedder.choice.indices,
        "mix": embedder.choice.weights,
        "pool": embedder.pool,
        "dtype": embedder.dtype,
        **({} if embedder.precision == "float32" else {"precision": embedder.precision}),
        "batch_size": embedder.batch_size,
        "shape": list(embedder.shape(None)),  # None: number of tokens
        "windows": len(text.stats),
        "index_bytes": 0 if forget_sentences else sum(window.index_bytes for window in text.stats),
    }


def _check_disk_space(
    windows: Sequence[WindowStats], settings: Mapping[str, Any], folder: Path, output: Path | None, own_windows: range
) -> None:
    """Log the size of the vectors. Raise if the disk cannot hold them."""
    vector_bytes = math.prod(size for size in settings["shape"] if size) * np.dtype(settings["dtype"]).itemsize
    shape = ", ".join(str(size or "n") for size in settings["shape"])
    unit = "line" if settings["pool"] else "token"
    log.info(f"vectors       ({shape}) {settings['dtype']}, {vector_bytes:,} bytes per {unit}")
    windows = windows if output else [windows[number] for number in own_windows]
    needed = vector_file.BYTES_PER_DATASET * sum(window.lines for window in windows)
    needed += vector_bytes * sum(window.lines if settings["pool"] else window.tokens for window in windows)
    needed += sum(window.index_bytes for window in windows) if settings["index_bytes"] else 0
    log.info(f"size          {size(needed)}{', twice that until the parts are assembled' if output else ''}")
    done = sum(path.stat().st_size for path in parts.paths(folder, settings) if path.exists())
    path = output or folder
    free = shutil.disk_usage(next(parent for parent in path.absolute().parents if parent.exists())).free
    if (2 if output else 1) * needed - done > free:
        raise UserError(f"{path}: {size(free)} are free. Make room, or use --layers top, --dtype float16, --pool mean.")
    if settings["index_bytes"] > vector_file.MAX_INDEX_BYTES:
        raise UserError(f"{vector_file.INDEX} would be too long for HDF5. Omit it with --forget_sentences.")


def _write_parts(embedder: "ELMoEmbedder", text: CountedText, missing: Sequence[int], paths: Sequence[Path]) -> None:
    total = sum(text.stats[number].tokens for number in missing)
    began = time.perf_counter()
    with progress_bar("embedding", " tokens", total) as bar:
        for number, first_line, sentences in text.windows(set(missing)):
            parts.write(paths[number], _datasets(embedder, text.path, first_line, sentences, bar))
    seconds = time.perf_counter() - began
    duration = messages.format_duration(seconds)
    log.info(f"embedded      {format_count(total, 'tokens')} in {duration}, {total / seconds:,.0f} tokens/s")
    if embedder.oov_share:
        log.warning(f"{text.path}: {embedder.oov_share:.1%} of the tokens are OOV and are read as {UNK}.")


def _datasets(
    embedder: "ELMoEmbedder", path: Path, first_line: int, sentences: Sequence[list[str]], bar
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the datasets of a window: the entries of its index, and the vectors of each line."""
    yield vector_file.INDEX, np.frombuffer(index_entries(first_line, sentences), np.uint8)
    numbered = enumerate(sentences, first_line)
    window = sorted(numbered, key=lambda pair: -len(pair[1]))  # longest first, as the embedder computes them
    arrays = embedder.iter_encode([sentence for _, sentence in window])
    for (line, sentence), array in zip(window, arrays, strict=True):
        if not checkpoint.is_finite(array):
            raise UserError(f"{path}:{line + 1}: not finite in {array.dtype}. Use --dtype float32, or a smaller --mix.")
        yield str(line), array
        bar.update(len(sentence))


def _finish(paths: Sequence[Path], own_paths: Sequence[Path], settings: Mapping, folder: Path, output: Path) -> None:
    """Assemble the output if all parts exist, and delete them. Only one process does so.

    own_paths: the parts of this process. Raise if one of them no longer exists, unless another process assembled it.
    """
    try:
        if lost := [path for path in own_paths if not parts.is_done(path)]:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(lost[0]))
        if not all(map(parts.is_done, paths)):
            log.info("The last process to finish assembles the parts. If one has failed, run the same command again.")
            return
        with disk.locked(folder / ".all.lock"):
            if not output.exists():
                assemble(paths, settings, output)
        shutil.rmtree(folder, ignore_errors=True)  # another process may do so, too
    except disk.FileLocked:
        log.info("Another process assembles the parts.")
    except FileNotFoundError as error:
        if not output.exists():
            raise UserError(f"{error.filename} has disappeared. Run the same command again.") from error
        log.info("Another process has assembled the parts.")


def assemble(paths: Sequence[Path], settings: Mapping[str, Any], output: Path) -> None:
    bar = progress_bar("assembling", " windows", iterable=paths)
    vector_file.write(output, settings, itertools.chain.from_iterable(map(parts.read, bar)))
    log.info(f"wrote         {output}, {size(output.stat().st_size)}")


def merge(folders: Sequence[Path], output: Path) -> None:
    """Assemble the parts in several folders, written by `embed`. The folders are kept."""
    settings = parts.read_settings(folders[0])
    for folder in folders[1:]:
        parts.check_same(folder, settings)
    if vector_file.is_finished(output, settings):
        return
    candidates = zip(*(parts.paths(folder, settings) for folder in folders), strict=True)
    paths = [next(filter(parts.is_done, window), None) for window in candidates]
    if missing := paths.count(None):
        raise UserError(
            f"{missing:,} of {len(paths):,} windows are not in {messages.join_names(list(map(str, folders)))}. "
            "Give the folders of all shares, and finish those that were interrupted."
        )
    assemble(paths, settings, output)


def size(n: int) -> str:
    """Format a number of bytes."""
    return f"{n / 1e9:,.2f} GB" if n >= 1e9 else f"{n / 1e6:,.2f} MB"
