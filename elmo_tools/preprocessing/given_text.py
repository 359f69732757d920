"""The text that a user gives to `pretrain`: files, texts, or tokenised sentences.

A string or a path is a file, a glob or a folder, as everywhere; a list of paths is several. A list,
or an iterator, of strings is texts, and one of lists of strings is tokenised sentences.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from pathlib import Path
from typing import Any

from elmo_core.checks import as_list, check_sentence, check_text, describe
from elmo_core.files import disk
from elmo_core.messages import UserError
from elmo_tools.preprocessing.raw_text import all_files

EXPECTED = (
    "a file, a glob or a folder; a list of paths; a list or iterator of texts; "
    "or one of lists of tokens"
)


class GivenText:
    """Text as files for `write_parts`.

    is_tokenised: it is lists of tokens, which are split at white space only.
    is_iterator: it can be read once only.
    """

    def __init__(self, text: Any):
        self.is_iterator = isinstance(text, Iterator)
        self.is_tokenised = False
        self._paths: list[Path] = []
        self._folders: list[Path] = []  # all files of which are text
        self._items: Iterable[Any] = ()
        self._kind: type = Path
        if isinstance(text, str | Path):
            self._set_paths([text])
            return
        items = as_list(text)
        if items is None:
            items = _iterable(text)
        first, items = _first(items)
        if isinstance(first, Path):
            self._set_paths([_path(item, k) for k, item in enumerate(items)])
            return
        self._items = items
        self._kind = str if isinstance(first, str) else list
        self.is_tokenised = self._kind is list
        if self._kind is str and len(first) < 256 and Path(first).is_file():
            raise UserError(
                f"`text`: {first!r} is the name of a file, but strings in a list are texts. "
                "Give a glob, or a list of pathlib.Path."
            )

    def _set_paths(self, paths: Sequence[str | Path]) -> None:
        """Find the files of paths, globs and folders."""
        self._paths = _files(paths)
        given = [disk.user_path(path) for path in paths]
        self._folders = [path.resolve() for path in given if path.is_dir()]

    def check_apart_from(self, save_dir: Path) -> None:
        """Raise if what is written to save_dir would be text the next time."""
        for folder in self._folders:
            if save_dir.resolve().is_relative_to(folder):
                raise UserError(
                    f"`save_dir` {save_dir} is in {folder}, all files of which are text. Give "
                    "another one, or a glob as text, such as 'raw/*.txt'."
                )

    def digest(self) -> str:
        """The SHA-256 of the text, which is read for it."""
        digest = hashlib.sha256()
        for path in self._paths:
            digest.update(disk.sha256(path).encode())
        for line in self._lines():
            digest.update(line)
        return digest.hexdigest()

    def write(self, path: Path) -> tuple[list[Path], str]:
        """The files of the text, and its digest. What is not in files is written to one.

        path: of that.
        """
        if self._paths:
            return self._paths, self.digest()
        digest = hashlib.sha256()
        with path.open("wb") as file:
            for line in self._lines():
                digest.update(line)
                file.write(line)
        return [path], digest.hexdigest()

    def _lines(self) -> Iterator[bytes]:
        """The text as lines of a file: of each text those that it has, of a sentence one."""
        for number, item in enumerate(self._items):
            yield f"{self._line(item, number)}\n".encode()

    def _line(self, item: Any, number: int) -> str:
        if self._kind is str:
            if not isinstance(item, str):
                raise TypeError(
                    f"`text`, item {number}: found {describe(item)}, expected a string, as the "
                    "first one is."
                )
            return check_text(item, f"`text`, item {number}")
        if isinstance(item, str):
            raise TypeError(
                f"`text`, item {number}: found {describe(item)}, expected a list of tokens, as "
                "the first one is."
            )
        tokens = check_sentence(item, number, of_texts="")
        line = check_text(" ".join(tokens), f"`text`, item {number}")
        if line.split() != list(tokens):
            raise UserError(
                f"`text`, item {number}: a token of {line!r:.60} is blank or has spaces."
            )
        return line


def _files(paths: Sequence[str | Path]) -> list[Path]:
    """The files of paths, globs and folders."""
    for path in paths:
        if not str(path).strip() or "\n" in str(path) or len(str(path)) > 4096:
            raise UserError(
                f"`text`: {str(path)!r:.60} is no file, glob or folder. Give texts as a list."
            )
    try:
        return all_files(paths)
    except UserError as error:
        raise UserError(f"`text`: {error} Give texts as a list.") from None


def _path(item: Any, number: int) -> Path:
    if not isinstance(item, Path):
        raise TypeError(
            f"`text`, item {number}: found {describe(item)}, expected a path, as the first one is."
        )
    return item


def _iterable(text: Any) -> Iterable[Any]:
    is_table = hasattr(text, "columns") or hasattr(text, "column_names")
    if is_table or not isinstance(text, Iterable) or isinstance(text, bytes | Mapping | Set):
        raise TypeError(f"`text`: found {describe(text)}, expected {EXPECTED}.")
    return text


def _first(items: Iterable[Any]) -> tuple[Any, Iterable[Any]]:
    """The first item, and all items."""
    iterator = iter(items)
    try:
        first = next(iterator)
    except StopIteration:
        raise UserError(f"`text` is empty, expected {EXPECTED}.") from None
    is_item = isinstance(first, str | Path) or as_list(first) is not None
    if not is_item:
        raise TypeError(f"`text`, item 0: found {describe(first)}, expected {EXPECTED}.")
    return first, chain([first], iterator) if iterator is items else items
