"""Constraints on the words of a text, known before it is tagged. NumPy only.

A tagger whose labels say which word each character belongs to decodes under these constraints:

- A word begins behind white space.
- An address (URL, e-mail), a Latin word (iPhone6, COVID-19, AT&T, C++), a number (1,000.5, 10:30)
  and an emoji of several characters are never broken. An address is a word. The others may be part
  of one: 2019年, 30%, T恤, 8GB. Full-width letters and digits are like the usual ones.
- An emoji is a word, and so is a mark that is never part of one: brackets, quotation marks, most
  punctuation, # and @. If it is repeated (……, !!!), that may be one word. A tagger with the tag w,
  punctuation in the tag sets of LAC and of Peking University, gives it to each.
- A word of the user's dictionary is one word, with the dictionary's tag if it has one. The longest
  match from the left counts, whatever white space is in it, before all other constraints.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from elmo_core.checks import Label
from elmo_core.messages import UserError, join_names
from elmo_core.text.segmenter import Entry, Segmenter
from elmo_core.text.tokenise import JOINERS, NOT_JOINING, paragraphs
from elmo_tasks.tagging.scheme import prefix_and_tag

MARK_TAG = "w"
# The constraint on a token. Higher numbers are of words with a tag.
FREE = 0
BEGINS = 1  # a word
INSIDE = 2  # the word of the token before it
# Of the labels that a constraint excludes. Weaker than the rules of the scheme (crf.py), which hold
# even if a tagger has no labels that obey the constraints.
EXCLUDED_SCORE = -1e3

LETTER = "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0370-\u03ff\u0400-\u052f"
DOMAINS = "com|cn|net|org|edu|gov|info|top|xyz|io|me|tv|cc|co|ai|hk|tw|jp|uk|us|de|fr|eu|ru"
HOST = r"[A-Za-z0-9][A-Za-z0-9-]{0,62}(?:\.[A-Za-z0-9-]{1,63}){0,8}"
# The rest of a URL, which does not end with a mark.
PATH = r"(?:[A-Za-z0-9_.~:/?\#\[\]@!$&'()*+,;=%-]*[A-Za-z0-9_~/=%&+-])"
ADDRESS = rf"""
    (?: (?i:https?|ftp):// | (?i:www)\. ) {PATH}
    | {HOST}\.(?:{DOMAINS})/{PATH}?
    | [A-Za-z0-9_.%+-]{{1,64}}@{HOST}\.[A-Za-z]{{2,}}
"""
RUN = rf"""
    {HOST}\.(?:{DOMAINS})(?![A-Za-z0-9_-])
    | (?<![A-Za-z0-9\#])[CF]\#(?![A-Za-z0-9\#])  # C#, but not #KFC#
    | [{LETTER}][{LETTER}0-9]* (?:[-'’.&_][{LETTER}0-9]+)* (?:\+\+)?
    | [0-9]+ (?: [.:/-][0-9]+ | ,[0-9]{{3}}(?![0-9]) )*
"""
PICTURE = (
    r"[\u231a\u231b\u23e9-\u23fa\u2600-\u2775\u2794-\u27bf\u2b00-\u2bff\u3030\u303d\u3297\u3299"
    r"\U0001f000-\U0001faff]\ufe0f?[\U0001f3fb-\U0001f3ff]?"
)
EMOJI = rf"""
    [0-9\#*]\ufe0f?\u20e3                # a key
    | [\U0001f1e6-\U0001f1ff]{{2}}       # a flag
    | {PICTURE}(?:\u200d{PICTURE})*[\U000e0020-\U000e007f]*
"""
MARK = (
    r"""[\#＃@＠"＂“”„‟‘’«»()（）\[\]［］{}｛｝<>＜＞〈〉《》【】「」『』〔〕〖〗〝〞"""
    r"""，。｡！？；：、,!?;:…⋯—|｜]"""
)
SPECIAL = re.compile(
    rf"""
    (?![\u3400-\u9fff])           # nothing begins with a Chinese character: most end here
    (?: (?<=[0-9])[,:：](?=[0-9])  # the tagger decides: 1,2 and 10：30
      | (?P<alone>{EMOJI}|{MARK})(?P=alone)*
      | (?P<address>{ADDRESS})
      | (?P<run>{RUN}) )
    """,
    re.VERBOSE,
)
GAP = re.compile(rf"[\s{JOINERS}]")  # what is no token
NON_JOINER = "\u200c"
# Between letters or digits that stand together. A dictionary's AI is not in MAIN.
TOGETHER = re.compile(rf"(?<=[{LETTER}])(?=[{LETTER}])|(?<=[0-9])(?=[0-9])")
WIDE = re.compile("[０-９Ａ-Ｚａ-ｚ]")
WIDE_MARK = re.compile(f"(?<={WIDE.pattern})[．，：／－＆＿＇](?={WIDE.pattern})")


def with_spaces(text: str) -> str:
    """The characters that are the tokens of a raw text, with the white space between them.

    Joiners are between them, too: emoji have some.
    """
    return " ".join(paragraphs(text, invisible=NOT_JOINING))


class WordConstraints:
    """The constraints of a tagger's words.

    labels, scheme: the tagger's. dictionary: the user's.
    penalties: (n, K), the scores of the K labels for each number that `of` returns.
    """

    def __init__(self, labels: Sequence[Label], scheme: str, dictionary: Segmenter | None = None):
        prefixes = []
        tags = []
        for label in labels:
            prefix, tag = prefix_and_tag(label, scheme)
            prefixes.append(prefix)
            tags.append(tag)
        is_inner = np.isin(prefixes, ["I", "E"])
        excluded = [np.zeros(len(labels), bool), is_inner, ~is_inner]
        self.tags = sorted(set(tags) - {""})
        for tag in self.tags:
            has_other = np.array(tags) != tag
            excluded += [is_inner | has_other, ~is_inner | has_other]
        self.penalties = np.where(excluded, EXCLUDED_SCORE, 0).astype(np.float32)
        self.of_mark = BEGINS
        if MARK_TAG in self.tags:
            self.of_mark = self._number(BEGINS, MARK_TAG)
        self.dictionary = None
        if dictionary and dictionary.words:
            self.dictionary = Dictionary(dictionary.words)
            self._check(dictionary.words)

    def _check(self, words: Mapping[str, Entry]) -> None:
        """Raise if the tagger cannot give a word its tag."""
        tags_inside = {
            tag for tag in self.tags if not self.penalties[self._number(INSIDE, tag)].all()
        }
        for word, entry in words.items():
            if not entry.tag or not self.tags:
                continue
            if entry.tag not in self.tags:
                known = join_names(self.tags, 50)
                expected = f"expected none, or one of the tagger's: {known}"
                raise UserError(f"`user_dict`: {word} has the tag {entry.tag}, {expected}.")
            is_long = len(word) > 1 and not entry.is_split
            if is_long and entry.tag not in tags_inside:
                limit = "which the tagger gives to single characters only"
                raise UserError(f"`user_dict`: {word} has the tag {entry.tag}, {limit}.")

    def _number(self, kind: int, tag: str | None) -> int:
        """The number of what is known: BEGINS or INSIDE, and perhaps the tag."""
        if not tag or not self.tags:
            return kind
        return kind + 2 * (1 + self.tags.index(tag))

    def scores(
        self, sentences: Sequence[Sequence[str]], texts: Sequence[str], n_steps: int
    ) -> np.ndarray:
        """The penalties that are added to the scores of the sentences' labels, (B, n_steps, K).

        texts: of the sentences, see `of`.
        """
        known = np.zeros((len(sentences), n_steps), np.int64)
        for row, tokens, text in zip(known, sentences, texts, strict=True):
            row[: len(tokens)] = self.of(tokens, text)
        return self.penalties[known]

    def of(self, tokens: Sequence[str], text: str = "") -> np.ndarray:
        """The constraint on each token, (T,) int64; BEGINS and INSIDE with a tag or without.

        text: `with_spaces`; "" if white space between the tokens is unknown.
        """
        places = None
        if not text:
            text, places = joined(tokens)
        text = narrowed(text)
        known = [FREE] * (len(text) + 1)  # of each character, and what follows the last
        mark_special(text, known, self.of_mark)
        if self.dictionary:
            self._mark_words(text, known)
        if places is None:
            places = character_places(text)[:-1]
        found = np.array([known[place] for place in places], np.int64)
        if len(found) and found[0] == BEGINS:
            found[0] = FREE  # any label: in IOB1 it is an I
        return found

    def _mark_words(self, text: str, known: list[int]) -> None:
        """Set what is known of the words of the dictionary, and of what follows them."""
        places = character_places(text)
        for begin, end, entry in self.dictionary.find(text, places):
            kinds = [BEGINS] * (end - begin)
            if not entry.is_split:
                kinds = [self._number(INSIDE, entry.tag)] * (end - begin)
                kinds[0] = self._number(BEGINS, entry.tag)
            for place, kind in zip(places[begin:end], kinds, strict=True):
                known[place] = kind
            known[places[end]] = BEGINS


class Dictionary:
    """Finds the words of a dictionary."""

    def __init__(self, words: Mapping[str, Entry]):
        self.words = {narrowed(word): entry for word, entry in words.items()}
        lengths: dict[str, set[int]] = {}  # of the words that begin with a character
        for word in self.words:
            lengths.setdefault(word[0], set()).add(len(word))
        self.lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}
        self.first = re.compile(f"[{re.escape(''.join(lengths))}]")

    def find(self, text: str, places: Sequence[int]) -> Iterator[tuple[int, int, Entry]]:
        """Yield the words in a text, each with its begin and end among the characters.

        The longest from the left. places: of the characters, and the end.
        """
        characters = GAP.sub("", text)
        done = 0
        for match in self.first.finditer(characters):
            begin = match.start()
            if begin < done:
                continue
            for length in self.lengths[match[0]]:
                word = characters[begin : begin + length]
                if word not in self.words:
                    continue
                end = begin + len(word)
                edges = (places[begin], places[end - 1] + 1)
                if not any(TOGETHER.match(text, edge) for edge in edges):
                    yield begin, end, self.words[word]
                    done = end
                    break


def mark_special(text: str, known: list[int], of_mark: int = BEGINS) -> None:
    """Set what is known of white space, runs and marks in a text, and of what follows them.

    of_mark: BEGINS, or its number with the tag of marks.
    """
    of_repeated = FREE if of_mark == BEGINS else of_mark
    for match in SPECIAL.finditer(text):
        begin, end = match.span()
        kind = match.lastgroup
        if kind:
            known[begin + 1 : end] = [INSIDE] * (end - begin - 1)
            if kind == "alone":
                for place in range(begin, end, len(match[kind])):
                    known[place] = of_repeated
                known[begin] = of_mark
                known[end] = BEGINS
            elif kind == "address":
                known[begin] = BEGINS
                known[end] = BEGINS
    for gap in GAP.finditer(text):
        if known[gap.end()] == FREE and (gap[0].isspace() or known[gap.start()] == BEGINS):
            known[gap.end()] = BEGINS


def joined(tokens: Sequence[str]) -> tuple[str, Sequence[int]]:
    """Tokens as a text, and the place of each there.

    Other tokens than characters stand between non-joiners: they are no parts of longer runs.
    """
    text = ""
    places = []
    for token in tokens:
        separator = "" if len(token) == 1 else NON_JOINER
        text += separator
        places.append(len(text))
        text += token + separator
    return text, places


def character_places(text: str) -> Sequence[int]:
    """The places of a text's characters, without gaps, and its end."""
    if not GAP.search(text):
        return range(len(text) + 1)
    gaps = {match.start() for match in GAP.finditer(text)}
    return [place for place in range(len(text) + 1) if place not in gaps]


def narrowed(text: str) -> str:
    """The text with usual letters and digits for full-width ones, and so the marks between them."""
    if not WIDE.search(text):
        return text
    return WIDE.sub(_narrow, WIDE_MARK.sub(_narrow, text))


def _narrow(character: re.Match) -> str:
    return chr(ord(character[0]) - 0xFEE0)
