"""Noise: words with one misprint each. NumPy only."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise, permutations

import numpy as np

from elmo_core.text.characters import BOS, EOS

KINDS = ("swap", "drop", "keyboard", "double", "ocr")
ORDERS = np.array(list(permutations(range(len(KINDS)))))
HALF = 2**32  # of 64 random bits
ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")  # of a keyboard; a key touches the two above it
# What a scanner takes for one another: two characters, or texts joined by "=".
ALIKE = (
    "l1 li i1 o0 ec ao hb uv nh s5 b6 g9 qg ft z2 Il I1 O0 OQ B8 S5 Z2 EF CG UV "
    "rn=m cl=d vv=w li=h nn=m ri=n "
    "己已 未末 日曰 大太 人入 千干 土士 天夫 王玉 目自 鸟乌 今令 白自 牛午 刀力 问间 拔拨 侯候 "
    "戊戌 申甲 情清 请清 师帅 住往 科料 抢枪 体休 木本 免兔 万方 外处 石右 办为 设没 东车 货贷 "
    "说悦 治冶 友发 贝见 开升 十千 上土 了子 几儿 厂广"
)


def _either_way(pairs: Iterable[Sequence[str]]) -> dict[str, list[str]]:
    """Map each text of the pairs to those that it may become, in alphabetical order."""
    others = defaultdict(set)
    for one, other in pairs:
        others[one].add(other)
        others[other].add(one)
    return {text: sorted(others[text]) for text in sorted(others)}


def _keyboard() -> dict[str, list[str]]:
    """Map each letter to those on the keys that touch its own, those of the same row first."""
    near = defaultdict(list)
    side_by_side: list[tuple[str, str]] = []
    for row in ROWS:
        side_by_side.extend(pairwise(row))
    tables = [_either_way(side_by_side)]
    for upper, lower in pairwise(ROWS):
        straight = zip(upper, lower, strict=False)
        oblique = zip(upper[1:], lower, strict=False)
        tables.append(_either_way(chain(straight, oblique)))
    for table in tables:
        for key, keys in table.items():
            near[key] += keys
    for key in list(near):
        near[key.upper()] = [other.upper() for other in near[key]]
    return dict(near)


KEYS = _keyboard()
SCANNED = _either_way(pair.split("=") if "=" in pair else pair for pair in ALIKE.split())


def _table(replacements: dict[str, list[str]], length: int) -> tuple[np.ndarray, np.ndarray]:
    """Make a table of the texts of one or of two characters that can be replaced.

    Returns their codes (n,), rising, and the numbers (n,) of texts that they may become. The code
    of two characters is that of `_pair_codes`.
    """
    texts = [text for text in replacements if len(text) == length]
    codes = []
    for text in texts:
        points = [ord(character) for character in text]
        codes.append(points[0] if length == 1 else _pair_codes(points[0], points[1]))
    order = np.argsort(codes)
    numbers = np.array([len(replacements[text]) for text in texts])
    return np.array(codes, np.int64)[order], numbers[order]


def _pair_codes(first: int | np.ndarray, second: int | np.ndarray) -> int | np.ndarray:
    return first * 2**32 + second


KEY_TABLE = _table(KEYS, 1)
SCANNED_TABLE = _table(SCANNED, 1)
SCANNED_PAIR_TABLE = _table(SCANNED, 2)


def _looked_up(table: tuple[np.ndarray, np.ndarray], codes: np.ndarray) -> np.ndarray:
    """Return the numbers (n,) of texts that those with these codes (n,) may become."""
    keys, numbers = table
    index = np.minimum(np.searchsorted(keys, codes), len(keys) - 1)
    return np.where(keys[index] == codes, numbers[index], 0)


def count_variants(words: Sequence[str]) -> np.ndarray:
    """Count what one change makes of words: (kinds, M), where it begins at each of M characters.

    M: the characters of all words, end to end.
    swap: two neighbours change places; drop: a character is missing; keyboard: another key, next to
    the right one; double: a character is typed twice; ocr: one or two characters are taken for
    others, as by a scanner.
    """
    text = "".join(words).encode("utf-32-le", "surrogatepass")
    codes = np.frombuffer(text, "<u4").astype(np.int64)
    lengths = np.array([len(word) for word in words])
    has_next = np.ones(len(codes), bool)
    has_next[np.cumsum(lengths) - 1] = False
    following = np.roll(codes, -1)
    counts = {
        "swap": (codes != following) & has_next,
        "drop": np.repeat(lengths > 1, lengths),
        "keyboard": _looked_up(KEY_TABLE, codes),
        "double": np.ones(len(codes), bool),
        "ocr": _looked_up(SCANNED_TABLE, codes)
        + _looked_up(SCANNED_PAIR_TABLE, _pair_codes(codes, following)) * has_next,
    }
    return np.stack([counts[kind] for kind in KINDS]).astype(np.int32)


def variant(word: str, kind: str, begin: int, number: int) -> str:
    """Return the word after one of the changes that `count_variants` counts at a character."""
    before = word[:begin]
    character = word[begin]
    after = word[begin + 1 :]
    if kind == "swap":
        return before + after[0] + character + after[1:]
    if kind == "drop":
        return before + after
    if kind == "double":
        return before + character + character + after
    if kind == "keyboard":
        return before + KEYS[character][number] + after
    others = SCANNED.get(character, ())
    if number < len(others):
        return before + others[number] + after
    pair = word[begin : begin + 2]
    return before + SCANNED[pair][number - len(others)] + after[1:]


def misprints(
    words: Sequence[str], share: float, random: np.random.BitGenerator
) -> tuple[np.ndarray, list[str]]:
    """Change a share of the words, each in one way: by any of KINDS that can, all equally likely.

    Words without letters, and markers, stay.
    Returns the positions (n,) of the changed words, and what they become.
    With the same random numbers, the words changed by a smaller share are among those changed by a
    larger one, and become the same.
    """
    # Raw bits never change with the version of NumPy. Each word has its own: the upper half chooses
    # it, the lower half its misprint.
    choose_word, choose_misprint = np.divmod(random.random_raw(len(words)), HALF)
    chosen = np.flatnonzero(choose_word < share * HALF)
    positions = [position for position in chosen.tolist() if _can_change(words[position])]
    if not positions:
        return np.zeros(0, np.int64), []
    right_words = [words[position] for position in positions]
    changed = _misprinted(right_words, choose_misprint[positions] / HALF)
    return np.array(positions, np.int64), changed


def _can_change(word: str) -> bool:
    if word in (BOS, EOS):
        return False
    return word.isalpha() or any(character.isalpha() for character in word)


def _misprinted(words: list[str], choices: np.ndarray) -> list[str]:
    """Change each word in one way, chosen by its random number in [0, 1).

    The number chooses an order of the kinds, of which the first that can is taken: each is equally
    likely. What is left of the number chooses the variant.
    """
    counts = count_variants(words)
    lengths = np.array([len(word) for word in words])
    starts = np.cumsum(lengths) - lengths
    n_variants = np.add.reduceat(counts, starts, axis=1).T  # (words, kinds)
    order, rest = np.divmod(choices * len(ORDERS), 1)
    kinds = ORDERS[order.astype(np.int64)]
    is_possible = np.take_along_axis(n_variants > 0, kinds, axis=1)
    rows = np.arange(len(words))
    kind = kinds[rows, is_possible.argmax(axis=1)]
    wanted = (rest * n_variants[rows, kind]).astype(np.int64)
    # where the wanted variant of the word's kind begins
    of_kind = counts[np.repeat(kind, lengths), np.arange(counts.shape[1])]  # (M,)
    ends = np.cumsum(of_kind)
    begins = ends - of_kind
    wanted_of_all = begins[starts] + wanted
    places = np.searchsorted(ends, wanted_of_all, side="right")
    numbers = wanted_of_all - begins[places]
    columns = [kind.tolist(), (places - starts).tolist(), numbers.tolist()]
    return [
        variant(word, KINDS[k], begin, n) for word, k, begin, n in zip(words, *columns, strict=True)
    ]
