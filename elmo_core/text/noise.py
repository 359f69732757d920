"""Noise: words with one misprint each."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from random import Random

from elmo_core.text.characters import BOS, EOS

KINDS = "swap", "drop", "keyboard", "double", "ocr"
ROWS = "qwertyuiop", "asdfghjkl", "zxcvbnm"  # of a keyboard; a key touches the two above it
ALIKE = (
    "l1 li i1 o0 ec ao hb uv nh s5 b6 g9 qg ft z2 Il I1 O0 OQ B8 S5 Z2 EF CG UV rn=m cl=d vv=w li=h nn=m ri=n "
    "己已 未末 日曰 大太 人入 千干 土士 天夫 王玉 目自 鸟乌 今令 白自 牛午 刀力 问间 拔拨 侯候 戊戌 申甲 情清 请清 师帅 "
    "住往 科料 抢枪 体休 木本 免兔 万方 外处 石右 办为 设没 东车 货贷 说悦 治冶 友发 贝见 开升 十千 上土 了子 几儿 厂广"
)


def _either_way(pairs: Iterable[Sequence[str]]) -> dict[str, list[str]]:
    """Map each text of the pairs to those that it may become."""
    both = sorted({order for one, other in pairs for order in ((one, other), (other, one))})
    return {old: [new for text, new in both if text == old] for old, _ in both}


KEYS = _either_way(pair for row in ROWS for pair in pairwise(row))
for upper, lower in pairwise(ROWS):
    for old, new in _either_way(
        [*zip(upper, lower, strict=False), *zip(upper[1:], lower, strict=False)]
    ).items():
        KEYS[old] = KEYS[old] + new
KEYS |= {key.upper(): [near.upper() for near in keys] for key, keys in KEYS.items()}
SCANNED = _either_way(pair.split("=") if "=" in pair else pair for pair in ALIKE.split())


@lru_cache(1 << 15)
def variants(word: str, kind: str) -> list[str]:
    """Return all words that one change of a kind makes of a word; none if it has no letters.

    swap: two neighbours change places; drop: a character is missing; keyboard: another key, next to the right one; double:
    a character is typed twice; ocr: one or two characters are taken for others, as by a scanner.
    """
    places = range(len(word)) if any(map(str.isalpha, word)) else range(0)
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
    parts = [(i, i + n) for n in (1, 2) for i in places[: len(word) + 1 - n]]
    return [word[:i] + new + word[end:] for i, end in parts for new in table.get(word[i:end], ())]


def add_noise(words: Iterable[str], share: float, random: Random) -> list[str]:
    """Change a share of the words, each in one way: by any of KINDS that can, all equally likely.

    With the same random numbers, the words changed by a smaller share are among those changed by a larger one.
    """
    noisy = []
    for word in words:
        chosen, choice = random.random() < share, random.random()
        ways = (
            [found for kind in KINDS if (found := variants(word, kind))]
            if chosen and word not in (BOS, EOS)
            else []
        )
        if ways:
            which, rest = divmod(choice * len(ways), 1)
            ways = ways[int(which)]
            word = ways[int(rest * len(ways))]
        noisy.append(word)
    return noisy
