"""The numbers of log.jsonl for VisualDL, which shows them while a run trains."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from elmo_core.checks import import_optional
from elmo_core.messages import log

EVENTS = ("training", "evaluation")


class VisualDLLog:
    """In a `with` block, writes lines of log.jsonl to a folder.

    lines: those of the run so far, since VisualDL shows the newest file of a folder only.
    What cannot be written ends no training: a warning says so.
    """

    def __init__(self, folder: str | Path, lines: Iterable[Mapping[str, Any]]):
        self.folder = folder
        self.lines = lines
        self.writer: Any = None  # a LogWriter, while the folder can be written

    def __enter__(self) -> "VisualDLLog":
        visualdl = import_optional("visualdl", "`visualdl`")
        try:
            self.writer = visualdl.LogWriter(str(self.folder))
        except OSError as error:
            self._warn(error)
        for line in self.lines:
            self.add(line)
        return self

    def __exit__(self, *error: object) -> None:
        if self.writer:
            self.writer.close()

    def add(self, line: Mapping[str, Any]) -> None:
        """Write the numbers of a line."""
        if line["event"] not in EVENTS:
            return
        for name, value in line.items():
            if name == "step" or not isinstance(value, int | float):
                continue
            if self.writer:
                self._add_number(f"{line['event']}/{name}", value, line["step"])

    def _add_number(self, tag: str, value: float, step: int) -> None:
        try:
            self.writer.add_scalar(tag=tag, value=value, step=step)
        except OSError as error:
            self._warn(error)

    def _warn(self, error: OSError) -> None:
        log.warning(f"{self.folder} could not be written: {error}. Training continues.")
        self.writer = None
