"""Embeds a text into one HDF5 file, a window of lines at a time.

    "0", "1", ...         the vectors of line 0, 1, ..., (layers, n, 2P), as bilm-tf writes them
    "sentence_to_index"   (1,) a string: a JSON object, {sentence: line}, as AllenNLP writes it
    attribute "run_embed" JSON: the settings that the vectors depend on

The datasets of a window are a file in the folder OUTPUT.parts, which appears whole or not at all;
at the end these files are joined. A window whose file exists is not computed again, whichever
process wrote it.
"""

import json
import os
import re
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from elmo_core.text.batches import BATCHES_PER_WINDOW, sentence_windows
from elmo_core.text.text_files import read_sentences

if TYPE_CHECKING:
    from elmo import ELMoEmbedder

SETTINGS = "run_embed"
INDEX = "sentence_to_index"
# what `atomic_write` leaves of a file when it is killed
UNFINISHED = r"\.{name}\.[0-9a-f]{{16}}\.tmp"
PART = r"\d{6,}\.hdf5"
LOCK = ".lock"
# what this module writes into OUTPUT.parts
OWN = re.compile("|".join([PART, UNFINISHED.format(name=PART), re.escape(LOCK)]))
# HDF5 1.8: checksums of its own structures, and groups that need not fit into memory
VERSION = ("v108", "v108")


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
            f"{folder} is not a folder. The parts of {output.name} go there: move it, "
            "or choose another `output`."
        )
    facts = _read_facts(embedder, text)
    settings = _settings(embedder, facts, forget_sentences)
    log.info(f"device        {embedder.device}, products in {embedder.precision}")
    log.info(f"text          {text}: {facts.identity}")
    if output.exists():
        _finish(output, settings=settings, folder=folder)
        return
    folder.mkdir(parents=True, exist_ok=True)
    parts = [folder / f"{number:06}.hdf5" for number in range(facts.windows)]
    own = range(share[0], len(parts), share[1])
    missing = {number: parts[number] for number in own if not parts[number].exists()}
    for part in parts:
        if part.exists():
            _check_settings(part, settings, folder)
    n_done = len(own) - len(missing)
    log.info(f"parts         {folder}, {n_done:,} of {format_count(len(own), 'windows')} done")
    try:
        _write_parts(embedder, text=text, parts=missing, settings=settings)
        if not output.exists() and not all(part.exists() for part in parts):
            log.info(
                "The last process to finish joins the parts. "
                "If one has failed, run the same command again."
            )
            return
        with disk.locked(folder / LOCK):
            unfinished_output = re.compile(UNFINISHED.format(name=re.escape(output.name)))
            _remove_files(output.parent, unfinished_output)
            if not output.exists():
                listed_text = None if forget_sentences else text
                _join(parts, text=listed_text, settings=settings, output=output)
    except disk.FileLocked:
        log.info("Another process joins the parts.")
        return
    except FileNotFoundError:
        # Another process of the same command has joined the parts, and removed them.
        if not output.exists():
            raise
    _finish(output, settings=settings, folder=folder)


def _finish(output: Path, settings: Mapping[str, Any], folder: Path) -> None:
    """Remove what is left of the parts of an output, which another process may have written."""
    _check_settings(output, settings)
    log.info(f"{output} is complete.")
    _remove_parts(folder)


def _remove_parts(folder: Path) -> None:
    """Remove what this module writes into OUTPUT.parts, then the folder.

    It stays if it holds files of others.
    """
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


@dataclass
class _TextFacts:
    """What is known of a text when it has been read once."""

    windows: int = 0
    lines: int = 0
    tokens: int = 0
    blank_lines: int = 0
    checksum: int = 0  # CRC-32 of the sentences, one a line

    @property
    def identity(self) -> str:
        size = f"{format_count(self.lines, 'lines')}, {format_count(self.tokens, 'tokens')}"
        return f"{size} (CRC-32 {self.checksum:08x})"


def _read_facts(embedder: "ELMoEmbedder", text: Path) -> _TextFacts:
    """Read a text once. Raises if it has no tokens."""
    facts = _TextFacts()
    for window in _windows(embedder, text):
        facts.windows += 1
        facts.lines += len(window)
        facts.tokens += sum(len(sentence) for sentence in window)
        facts.blank_lines += window.count([])
        content = "\n".join(" ".join(sentence) for sentence in window)
        facts.checksum = zlib.crc32(content.encode(), facts.checksum)
    if not facts.tokens:
        found = f"only blank lines ({facts.blank_lines:,})" if facts.lines else "the file is empty"
        raise UserError(f"{text}: {found}. Expected one sentence per line.")
    if facts.blank_lines:
        result = "zero vectors" if embedder.pool else "empty datasets"
        log.warning(f"{text}: {format_count(facts.blank_lines, 'blank lines')}: {result}.")
    return facts


def _settings(
    embedder: "ELMoEmbedder", facts: _TextFacts, forget_sentences: bool
) -> dict[str, Any]:
    """The settings that the file depends on."""
    return {
        "model": _model_identity(embedder),
        "text": facts.identity,
        "windows": facts.windows,
        "layers": [embedder.choice.how, *embedder.choice.indices],
        "mix": embedder.choice.weights,
        "pool": embedder.pool,
        "dtype": embedder.dtype,
        "precision": embedder.precision,
        "batch_size": embedder.batch_size,
        "forget_sentences": forget_sentences,
    }


def _windows(embedder: "ELMoEmbedder", text: Path) -> Iterator[list[list[str]]]:
    """Yield the sentences of a text, a window at a time."""
    return sentence_windows(read_sentences(text), BATCHES_PER_WINDOW * embedder.batch_size)


def _model_identity(embedder: "ELMoEmbedder") -> str:
    """A digest of the model's configuration and weights, and its vocabulary."""
    weights = [weight.numpy() for weight in embedder.bilm.state_dict().values()]
    sha1 = digest([repr(embedder.config).encode(), *weights])
    identity = f"SHA-1 {sha1[:12]}"
    if embedder.vocabulary:
        identity += f", {embedder.vocabulary.identity}"
    return identity


def _check_settings(path: Path, settings: Mapping[str, Any], folder: Path | None = None) -> None:
    """Raise if a file was made with other settings. folder: named instead of the file, if given."""
    try:
        with h5py.File(path) as file:
            saved = json.loads(file.attrs[SETTINGS])
    except (OSError, KeyError, ValueError) as error:
        raise UserError(
            f"{path} is damaged, or not of `{command_line('run_embed.py')}`. Choose another "
            "`output`, or delete it."
        ) from error
    changes = differences(saved, settings)
    if changes:
        changed = "; ".join(changes.values())
        raise UserError(
            f"{folder or path} exists with other settings: {changed}. "
            "Choose another `output`, or delete it."
        )


def _write_parts(
    embedder: "ELMoEmbedder", text: Path, parts: Mapping[int, Path], settings: Mapping[str, Any]
) -> None:
    """Write the vectors of the windows whose numbers are keys of `parts`, each to its file."""
    began = time.perf_counter()
    first_line = 0
    n_tokens = 0
    progress = tqdm(
        _windows(embedder, text),
        total=settings["windows"],
        unit=" windows",
        disable=None,
        leave=False,
    )
    for number, sentences in enumerate(progress):
        if number in parts:
            with (
                disk.atomic_write(parts[number], "wb") as file,
                _create(file.name, settings) as hdf5,
            ):
                _write_window(embedder, first_line, sentences, hdf5)
            n_tokens += sum(len(sentence) for sentence in sentences)
        first_line += len(sentences)
    seconds = time.perf_counter() - began
    log.info(
        f"embedded      {n_tokens:,} tokens in {format_duration(seconds)}, "
        f"{n_tokens / seconds:,.0f} tokens/s"
    )
    if embedder.oov_share:
        log.warning(
            f"{text}: {embedder.oov_share:.1%} of the tokens are outside the model's vocabulary."
        )


def _write_window(
    embedder: "ELMoEmbedder", first_line: int, sentences: Sequence[list[str]], hdf5: h5py.File
) -> None:
    """Write the vectors of a window. first_line: the number of its first sentence in the text."""
    # in the order in which the embedder computes them: the vectors need not wait for others
    order = sorted(range(len(sentences)), key=lambda position: -len(sentences[position]))
    arrays = embedder.iter_encode([sentences[position] for position in order])
    for position, array in zip(order, arrays, strict=True):
        hdf5.create_dataset(str(first_line + position), data=array)


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
            index = json.dumps(_line_of_sentences(text), ensure_ascii=False)
            hdf5[INDEX] = np.array([index], dtype=h5py.string_dtype())
    log.info(f"wrote         {output}, {output.stat().st_size / 1e6:,.2f} MB")


def _line_of_sentences(text: Path) -> dict[str, str]:
    """The number of each sentence's line, as text: the last one of equal sentences."""
    lines = {}
    for line, tokens in enumerate(read_sentences(text)):
        if tokens:
            lines[" ".join(tokens)] = str(line)
    return lines


def _create(path: str, settings: Mapping[str, Any]) -> h5py.File:
    """Create an HDF5 file with the settings that its vectors depend on."""
    file = h5py.File(path, "w", libver=VERSION)
    file.attrs[SETTINGS] = json.dumps(settings)
    return file
