"""Embeds a text into one HDF5 file, a window of lines at a time.

    "0", "1", ...         the vectors of line 0, 1, ..., (layers, n, 2P), as bilm-tf and AllenNLP write them
    "sentence_to_index"   (1,) a string: a JSON object, {sentence: line}, as AllenNLP writes it
    attribute "run_embed" JSON: the settings that the vectors depend on

The datasets of a window are a file in the folder OUTPUT.parts, which appears whole or not at all; at the end these files
are joined. A window whose file exists is not computed again, whichever process wrote it.
"""

import json
import os
import re
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
from tqdm import tqdm

from elmo_core.command import command_line
from elmo_core.config import differences
from elmo_core.files import disk
from elmo_core.files.tensors import digest
from elmo_core.messages import UserError, format_count, format_duration, log
from elmo_core.text.text_files import read_sentences
from elmo_core.text.tokens import BATCHES_PER_WINDOW, sentence_windows

if TYPE_CHECKING:
    from elmo import ELMoEmbedder

SETTINGS, INDEX = "run_embed", "sentence_to_index"
UNFINISHED = (
    r"\.{name}\.[0-9a-f]{{16}}\.tmp"  # what `atomic_write` leaves of a file when it is killed
)
PART = r"\d{6,}\.hdf5"
LOCK = ".lock"
OWN = re.compile("|".join([PART, UNFINISHED.format(name=PART), re.escape(LOCK)]))  # in OUTPUT.parts
VERSION = (
    "v108",
    "v108",
)  # HDF5 1.8: checksums of its own structures, and groups that need not fit into memory


def embed(
    embedder: "ELMoEmbedder",
    text: Path,
    output: Path,
    share: tuple[int, int] = (0, 1),
    forget_sentences: bool = False,
) -> None:
    """Compute the missing windows of a text, and join them if all exist then.

    share: (i, n): this process computes windows i, i + n, i + 2n, ...
    """
    folder = output.with_name(f"{output.name}.parts")
    if os.path.lexists(folder) and not folder.is_dir():
        raise UserError(
            f"{folder} is not a folder. The parts of {output.name} go there: move it, or choose another --output."
        )
    settings = {**_describe(embedder, text), "forget_sentences": forget_sentences}
    if output.exists():
        _check_settings(output, settings)
        log.info(f"{output} is complete: nothing to do.")
        _remove_parts(folder)  # left by a run that was killed at its very end
        return
    folder.mkdir(parents=True, exist_ok=True)
    parts = [folder / f"{number:06}.hdf5" for number in range(settings["windows"])]
    own = range(share[0], len(parts), share[1])
    missing = {number: parts[number] for number in own if not parts[number].exists()}
    for part in filter(Path.exists, parts):
        _check_settings(part, settings, folder)
    log.info(
        f"parts         {folder}, {len(own) - len(missing):,} of {format_count(len(own), 'windows')} done"
    )
    _write_parts(embedder, text, missing, settings)
    if not all(part.exists() for part in parts):
        log.info(
            "The last process to finish joins the parts. If one has failed, run the same command again."
        )
        return
    try:
        with disk.locked(folder / LOCK):
            _remove_files(output.parent, re.compile(UNFINISHED.format(name=re.escape(output.name))))
            if not output.exists():
                _join(parts, None if forget_sentences else text, settings, output)
        _remove_parts(folder)
    except disk.FileLocked:
        log.info("Another process joins the parts.")


def _remove_parts(folder: Path) -> None:
    """Remove what this module writes into OUTPUT.parts, then the folder, unless it holds files of others."""
    try:
        _remove_files(folder, OWN)
        folder.rmdir()
    except FileNotFoundError:
        pass  # another process has removed it, or there was none
    except OSError as error:
        log.info(f"{folder} is kept, with the files of others: {error.strerror}.")


def _remove_files(folder: Path, names: re.Pattern) -> None:
    for path in folder.iterdir():
        if names.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


def _describe(embedder: "ELMoEmbedder", text: Path) -> dict[str, Any]:
    """Read the text once. Log what is computed, and return the settings that the vectors depend on."""
    lines = tokens = blank = windows = checksum = 0
    for window in sentence_windows(read_sentences(text), BATCHES_PER_WINDOW * embedder.batch_size):
        windows += 1
        lines += len(window)
        tokens += sum(map(len, window))
        blank += window.count([])
        checksum = zlib.crc32("\n".join(map(" ".join, window)).encode(), checksum)
    if not tokens:
        content = f"only blank lines ({blank:,})" if lines else "the file is empty"
        raise UserError(f"{text}: {content}. Expected one sentence per line.")
    if blank:
        result = "zero vectors" if embedder.pool else "empty datasets"
        log.warning(f"{text}: {format_count(blank, 'blank lines')}: {result}.")
    weights = (weight.numpy() for weight in embedder.bilm.state_dict().values())
    settings = {
        "model": f"SHA-1 {digest([repr(embedder.config).encode(), *weights])[:12]}"
        + (f", {embedder.vocabulary.identity}" if embedder.vocabulary else ""),
        "text": f"{format_count(lines, 'lines')}, {format_count(tokens, 'tokens')} (CRC-32 {checksum:08x})",
        "windows": windows,
        "layers": [embedder.choice.how, *embedder.choice.indices],
        "mix": embedder.choice.weights,
        "pool": embedder.pool,
        "dtype": embedder.dtype,
        "precision": embedder.precision,
        "batch_size": embedder.batch_size,
    }
    log.info(f"device        {embedder.device}, products in {embedder.precision}")
    log.info(f"text          {text}: {settings['text']}")
    return settings


def _check_settings(path: Path, settings: Mapping[str, Any], folder: Path | None = None) -> None:
    try:
        with h5py.File(path) as file:
            saved = json.loads(file.attrs[SETTINGS])
    except (OSError, KeyError, ValueError) as error:
        raise UserError(
            f"{path} is damaged, or not of `{command_line('run_embed.py')}`. Choose another "
            "--output, or delete it."
        ) from error
    if changes := differences(saved, settings):
        changed = "; ".join(changes.values())
        raise UserError(
            f"{folder or path} exists with other settings: {changed}. Choose another --output, or delete it."
        )


def _write_parts(
    embedder: "ELMoEmbedder", text: Path, parts: Mapping[int, Path], settings: Mapping
) -> None:
    """Write the vectors of windows, given by number."""
    line, began, done = 0, time.perf_counter(), 0
    windows = sentence_windows(read_sentences(text), BATCHES_PER_WINDOW * embedder.batch_size)
    progress = tqdm(windows, total=settings["windows"], unit=" windows", disable=None, leave=False)
    for number, sentences in enumerate(progress):
        if number in parts:
            with (
                disk.atomic_write(parts[number], "wb") as file,
                _create(file.name, settings) as hdf5,
            ):
                _write_window(embedder, line, sentences, hdf5)
            done += sum(map(len, sentences))
        line += len(sentences)
    seconds = time.perf_counter() - began
    log.info(
        f"embedded      {done:,} tokens in {format_duration(seconds)}, {done / seconds:,.0f} tokens/s"
    )
    if embedder.oov_share:
        log.warning(
            f"{text}: {embedder.oov_share:.1%} of the tokens are outside the model's vocabulary."
        )


def _write_window(
    embedder: "ELMoEmbedder", first_line: int, sentences: Sequence[list[str]], hdf5: h5py.File
) -> None:
    numbered = sorted(
        enumerate(sentences, first_line), key=lambda pair: -len(pair[1])
    )  # the order of computation
    arrays = embedder.iter_encode([sentence for _, sentence in numbered])
    for (line, _), array in zip(numbered, arrays, strict=True):
        hdf5.create_dataset(str(line), data=array)


def _join(
    parts: Sequence[Path], text: Path | None, settings: Mapping[str, Any], output: Path
) -> None:
    """Copy the parts into one file. text: whose sentences are listed in it."""
    with disk.atomic_write(output, "wb") as file, _create(file.name, settings) as hdf5:
        for part in tqdm(parts, desc="joining", unit=" windows", disable=None, leave=False):
            _check_settings(part, settings)
            with h5py.File(part) as window:
                for name in window:
                    window.copy(name, hdf5)
        if text:
            index = {
                " ".join(tokens): str(line)
                for line, tokens in enumerate(read_sentences(text))
                if tokens
            }
            hdf5[INDEX] = np.array(
                [json.dumps(index, ensure_ascii=False)], dtype=h5py.string_dtype()
            )
    log.info(f"wrote         {output}, {output.stat().st_size / 1e6:,.2f} MB")


def _create(path: str, settings: Mapping[str, Any]) -> h5py.File:
    file = h5py.File(path, "w", libver=VERSION)
    file.attrs[SETTINGS] = json.dumps(settings)
    return file
