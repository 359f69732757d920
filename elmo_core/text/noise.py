"""Noise: words with one misprint each."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from random import Random

from elmo_core.text.characters import BOS, EOS

KINDS = ("swap", "drop", "keyboard", "double", "ocr")
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


@lru_cache(1 << 15)
def variants(word: str, kind: str) -> list[str]:
    """Return all words that one change of a kind makes of a word; none if it has no letters.

    swap: two neighbours change places; drop: a character is missing; keyboard: another key, next to
    the right one; double: a character is typed twice; ocr: one or two characters are taken for
    others, as by a scanner.
    """
    if not any(character.isalpha() for character in word):
        return []
    places = range(len(word))
    if kind == "swap":
        return [
            word[:i] + word[i + 1] + word[i] + word[i + 2 :]
            for i in places[:-1]
            if word[i] != word[i + 1]
        ]
    if kind == "drop":
        return [word[:i] + word[i + 1 :] for i in places if len(word) > 1]
    if kind == "double":
        return [word[: i + 1] + word[i:] for i in places]
    table = KEYS if kind == "keyboard" else SCANNED
    changed = []
    for length in (1, 2):
        for begin in places[: len(word) + 1 - length]:
            end = begin + length
            for new in table.get(word[begin:end], ()):
                changed.append(word[:begin] + new + word[end:])
    return changed


def add_noise(words: Iterable[str], share: float, random: Random) -> list[str]:
    """Change a share of the words, each in one way: by any of KINDS that can, all equally likely.

    With the same random numbers, the words changed by a smaller share are among those changed by a
    larger one.
    """
    noisy = []
    for word in words:
        is_chosen = random.random() < share
        choice = random.random()  # drawn for each word, so that the share does not shift the rest
        if is_chosen and word not in (BOS, EOS):
            word = _misprint(word, choice)
        noisy.append(word)
    return noisy


def _misprint(word: str, choice: float) -> str:
    """Change a word in one way, chosen by a random number in [0, 1); or in none, if none can.

    The number chooses the kind, and what is left of it the variant.
    """
    ways = [variants(word, kind) for kind in KINDS]
    possible = [found for found in ways if found]
    if not possible:
        return word
    kind, rest = divmod(choice * len(possible), 1)
    chosen = possible[int(kind)]
    return chosen[int(rest * len(chosen))]
