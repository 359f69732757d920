"""The parts into which several processes put the vectors of one text, and how one file comes of them.

A process of `paddle.distributed.launch` writes OUTPUT.0of2, another OUTPUT.1of2. They never wait for each other: the one
that finds all parts finished puts them together. So the death of one holds nobody up, and the same command goes on.
"""

import itertools
import os
import re
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from elmo_core import disk
from elmo_core.runtime import UserError, log
from embedding import vector_file
from embedding.text_windows import progress
from embedding.vector_file import VectorFile


class Share(NamedTuple):
    """What of a text is for this process."""

    number: int
    of: int
    path: Path  # of its file
    parts: list[Path]  # of all the launcher's processes; none without it


def my_share(wanted: tuple[int, int] | None, output: Path) -> Share:
    """The share that --shard or the launcher says. Parts that nobody would go on with are refused."""
    of = int(os.environ.get("PADDLE_TRAINERS_NUM", "1"))
    if of > 1 and wanted:
        raise UserError("--shard and paddle.distributed.launch: both share the text out. Use one of them.")
    parts = [Path(f"{output}.{number}of{of}") for number in range(of)] if of > 1 else []
    _check_others(output, parts)
    if not parts:
        return Share(*(wanted or (0, 1)), output, [])
    number = int(os.environ.get("PADDLE_TRAINER_ID", "0"))
    return Share(number, of, parts[number], parts)


def _check_others(output: Path, mine: Sequence[Path]) -> None:
    name = re.compile(rf"{re.escape(output.name)}\.\d+of(\d+)({re.escape(vector_file.PARTIAL)})?")
    for path in sorted(output.parent.iterdir()):
        found = name.fullmatch(path.name)
        if found and path not in mine and path not in map(vector_file.partial_of, mine):
            raise UserError(
                f"There is {path}, made by one of {found[1]} processes. Go on with {found[1]} processes under "
                "paddle.distributed.launch, or delete the parts."
            )


def join(parts: Sequence[Path], output: Path) -> None:
    """Put the launcher's parts together and delete them, if all are finished."""
    if not all(part.exists() for part in parts):
        log.info("The process that finishes last puts the parts together. If one has failed, the same command goes on.")
        return
    try:
        merge(parts, output)
    except (disk.Busy, FileNotFoundError):
        log.info("Another process puts the parts together.")
        return
    remove(parts)


def remove(parts: Sequence[Path]) -> None:
    for part in parts:
        part.unlink(missing_ok=True)


def merge(paths: Sequence[Path], output: Path) -> None:
    """Put parts together to the file that one process would have made. Every number is verified on its way."""
    with ExitStack() as stack:
        parts = [stack.enter_context(VectorFile(path)) for path in paths]
        parts.sort(key=lambda part: (part.first_line, len(part.windows)))
        settings = _check(parts, output)
        if output.exists() and vector_file.is_finished(output, settings):
            return
        vector_file.check_room(output, sum(part.size for part in parts) - vector_file.allocated(output))
        windows = [(part, window) for part in parts for window in range(len(part.windows))]
        layout = [part.windows[window] for part, window in windows]
        shapes = itertools.chain.from_iterable(part.shapes() for part in parts)
        with vector_file.under_way(output, settings, layout, shapes) as file:
            with progress("merging", " windows", len(windows)) as bar:
                for number, (part, window) in enumerate(windows):
                    if not file.is_done(number):
                        file.write(number, part.vectors(window), part.text(window))
                    bar.update()
            file.finish(output, keep_ledger=False)
    log.info(f"merged        {len(parts)} parts into {output}, {vector_file.size_of(output)}")


def _check(parts: Sequence[VectorFile], output: Path) -> dict[str, Any]:
    """The settings of the whole; an error if the parts are not of one text, or not all that there are."""
    first, line = parts[0], 0
    for part in parts:
        if output.exists() and part.path.samefile(output):
            raise UserError(f"--output {output} is one of the parts. Choose another.")
        if changes := vector_file.differences(of_all(first.settings), of_all(part.settings)):
            raise UserError(f"{first.path} and {part.path} do not belong together: {changes}.")
        if part.first_line != line:
            begin, end = sorted((line, part.first_line))
            found = "in no part" if line < part.first_line else "in two parts"
            raise UserError(f"Lines {begin + 1:,} to {end:,} are {found}, seen at {part.path}. Give every part once.")
        line += part.settings["lines"]
    if line < first.settings["lines_in_all"]:
        raise UserError(f"Lines {line + 1:,} to {first.settings['lines_in_all']:,} are in no part. Give every part.")
    return of_all(first.settings)


def of_all(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of the whole text's file, from those of a part."""
    return {**settings, "first_line": 0, "lines": settings["lines_in_all"]}
