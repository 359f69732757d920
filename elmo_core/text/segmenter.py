"""Chinese text to words, with jieba and a dictionary of one's own."""

import logging
import os
import re
import warnings
from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from elmo_core.files.disk import cache_folder, check_input, user_path
from elmo_core.messages import UserError, format_count, log

HAN = re.compile("[\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
ENTRY = re.compile(r"(\S{1,100})(?: +(\d{1,18}))?(?: +([A-Za-z]\w*))?")
COMMAS = re.compile(r".*[^\W\d].*?[,，、]\s*\d+(\W+\w*)?")  # in place of spaces, as in 云计算，5，n


class Entry(NamedTuple):
    """A word's frequency and tag in a dictionary, if it has them there."""

    frequency: str | None
    tag: str | None

    @property
    def is_split(self) -> bool:
        """Whether it is no word: its frequency is 0."""
        return self.frequency is not None and int(self.frequency) == 0


class Segmenter:
    """jieba with the words of a dictionary.

    It has a tokenizer of its own: the program's jieba is not changed.
    entries: lines in jieba's format, a word, its frequency and its tag; the last two may be
    missing. source: their file.
    """

    def __init__(self, entries: Sequence[str] = (), source: str = "user_dict"):
        self.entries = list(entries)
        self.source = source
        self.words: dict[str, Entry] = {}
        for number, line in enumerate(entries, 1):
            entry = line.strip()
            match = ENTRY.fullmatch(entry)
            if match and not COMMAS.fullmatch(entry):
                self.words[match[1]] = Entry(match[2], match[3])
            elif entry:
                raise UserError(
                    f"{source}:{number}: found {line!r:.60}, expected a word or, with spaces "
                    "between, a word, its frequency and its tag, as in 云计算 5 n."
                )
        self._split = {word for word, entry in self.words.items() if entry.is_split}

    @classmethod
    def from_file(cls, path: Path | str | Sequence[str]) -> "Segmenter":
        """Read a dictionary; or take its lines."""
        if not isinstance(path, Path | str):
            return segmenter(tuple(str(line) for line in path))
        # Not at the top: exported programs, which are given the entries, have no such module.
        from elmo_core.text.text_files import read_lines

        file = user_path(path)
        check_input(file, "words, one per line, as for jieba")
        return segmenter(tuple(read_lines(file)), str(file))

    def __reduce__(self):
        return segmenter, (tuple(self.entries), self.source)

    @cached_property
    def tokenizer(self):
        """A `jieba.Tokenizer`, loaded silently."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import jieba

        tokenizer = jieba.Tokenizer()
        # not /tmp, where others could leave a dictionary
        tokenizer.tmp_dir = str(cache_folder() or os.devnull)
        level = jieba.default_logger.level
        jieba.setLogLevel(logging.CRITICAL)
        tokenizer.initialize()
        jieba.setLogLevel(level)
        unmatched = []
        for word, entry in self.words.items():
            if not jieba.re_han_default.fullmatch(word):
                unmatched.append(word)
            elif word in self._split:
                tokenizer.FREQ[word] = 0  # `add_word` would also change the program's jieba
            else:
                tokenizer.add_word(word, entry.frequency)
        if unmatched:
            log.warning(
                f"{self.source}: jieba never finds {format_count(len(unmatched), 'words')}, "
                "because it splits at some of the characters (spaces separate word, frequency "
                f"and tag). The first: {unmatched[0]}."
            )
        return tokenizer

    def cut(self, text: str) -> list[str]:
        """Return the words of a text. Those of frequency 0 are split into characters."""
        words = self.tokenizer.lcut(text)
        if not self._split:
            return words
        parts = []
        for word in words:
            if word in self._split:
                parts.extend(word)
            else:
                parts.append(word)
        return parts

    def words_of(
        self, sentences: Sequence[Sequence[str]]
    ) -> tuple[list[list[str]], list[np.ndarray]]:
        """Segment sentences of characters.

        Returns their words and, per sentence, the index (T,) of each token's word. A token of
        several characters belongs to the word of its first character, an empty one is a space.
        """
        words = []
        word_index = []
        for sentence in sentences:
            tokens = [token or " " for token in sentence]
            segmented = self.cut("".join(tokens))
            lengths = [len(token) for token in tokens]
            starts = np.cumsum([0, *lengths])[:-1]
            ends = np.cumsum([len(word) for word in segmented])
            words.append(segmented)
            word_index.append(np.searchsorted(ends, starts, side="right"))
        return words, word_index


@lru_cache(16)  # each takes 60 MB
def segmenter(entries: tuple[str, ...] = (), source: str = "user_dict") -> Segmenter:
    """Return a shared Segmenter: jieba's dictionary is loaded once."""
    return Segmenter(entries, source)
