"""What is known of words before a tagger reads them."""

import random

import numpy as np
import pytest

from elmo_core.messages import UserError
from elmo_core.text.segmenter import Segmenter
from elmo_core.text.tokenise import Tokeniser
from elmo_tasks.tagging.constraints import (
    BEGINS,
    EXCLUDED_SCORE,
    FREE,
    INSIDE,
    WordConstraints,
    with_spaces,
)

LABELS = ["n", "n-B", "n-I", "v", "v-B", "v-I", "O"]
SEPARATORS = {FREE: " ", BEGINS: "|", INSIDE: ""}


def shown(text: str, *entries: str) -> str:
    """A raw text with | where a word begins, nothing where it is not broken, else a space.

    entries: of the user's dictionary.
    """
    tokens = Tokeniser("characters")(text)
    known = WordConstraints(LABELS, "lac", Segmenter(entries)).of(tokens, with_spaces(text))
    parts = [
        SEPARATORS[number] + token for number, token in zip(known.tolist(), tokens, strict=True)
    ]
    return "".join(parts).removeprefix(" ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Latin words, and what may be joined to them
        ("在GitHub上", "在 GitHub 上"),
        ("COVID-19、Node.js、AT&T", "COVID-19|、|Node.js|、|AT&T"),
        ("don’t café Ａ１", "don’t|café|Ａ１"),
        ("用C++和C#编程", "用 C++ 和 C# 编 程"),
        ("a--b", "a - - b"),
        # numbers
        ("1,000.5 2019-11-29 10:30 3/4", "1,000.5|2019-11-29|10:30|3/4"),
        ("１，０００．５ １０：３０", "１，０００．５|１０：３０"),
        ("2019年涨30%", "2019 年 涨 30 %"),
        ("8GB的5G", "8 GB 的 5 G"),
        ("有1,2和10：30", "有 1 , 2 和 10 ： 30"),
        # addresses
        ("看https://a.cn/b?c=1#d。好", "看|https://a.cn/b?c=1#d|。|好"),
        ("见t.cn/A6x，www.b.com/上", "见|t.cn/A6x|，|www.b.com/|上"),
        ("问a.b@c-d.com吧", "问|a.b@c-d.com|吧"),
        ("上12306.cn买", "上 12306.cn 买"),
        # marks and emoji
        ("“好”#大#", "“|好|”|#|大|#"),
        ("#C# #iPhone#", "#|C|#|#|iPhone|#"),
        ("哈……！！？", "哈|… …|！ ！|？"),
        ("乔·布A+", "乔 · 布 A +"),
        ("好😂😂👍去", "好|😂 😂|👍|去"),
        ("👨‍👩‍👧👍🏽👍🏽🇨🇳🇺🇸1️⃣2", "👨👩👧|👍🏽 👍🏽|🇨🇳|🇺🇸|1⃣|2"),
        # white space
        ("北 京　市", "北|京|市"),
        ("Hello World", "Hello|World"),
        (" 北\t12 34<br>好", "北|12|34|好"),
        ("AT&amp;T<b>x</b>", "AT&Tx"),
        ("", ""),
    ],
)
def test_what_is_known_of_raw_text(text, expected):
    assert shown(text) == expected


def test_marks_and_emoji_have_the_tag_of_punctuation():
    labels = ["n", "n-B", "n-I", "w", "w-B", "w-I"]
    constraints = WordConstraints(labels, "lac")
    text = "好……，😂👍🏽 #大"
    tokens = Tokeniser("characters")(text)
    known = constraints.of(tokens, with_spaces(text))
    allowed = []
    for penalties in constraints.penalties[known]:
        allowed.append([label for label, score in zip(labels, penalties, strict=True) if not score])
    mark = ["w", "w-B"]
    begins = ["n", "n-B", "w", "w-B"]
    assert tokens == list("好……，😂👍🏽#大")
    assert allowed[:5] == [labels, mark, mark, mark, mark]
    assert allowed[5:] == [mark, ["n-I", "w-I"], mark, begins]


def test_white_space_between_given_tokens_is_unknown():
    constraints = WordConstraints(LABELS, "lac")
    assert constraints.of(list("a1，好")).tolist() == [FREE, INSIDE, BEGINS, BEGINS]
    assert constraints.of(["ab", "c", "1", "2", "，", "好"]).tolist() == [
        FREE,
        FREE,
        INSIDE,
        INSIDE,
        BEGINS,
        BEGINS,
    ]
    assert constraints.of(["", "，", " ", "好"]).tolist() == [FREE, BEGINS, BEGINS, BEGINS]
    assert constraints.of([]).tolist() == []


def test_there_is_one_number_per_token_of_any_text():
    generator = random.Random(1)
    pieces = ["北", "京", " ", "\u3000", "\u200d", "\u200c", "\ufe0f", "😂", "a", "1", "，", "<br>"]
    pieces += ["&amp;", "e\u0301", "\u00ad", "\n", "👍🏽", "Ａ", "http://", ".", "@", "#"]
    constraints = WordConstraints(LABELS, "lac")
    for _ in range(300):
        text = "".join(generator.choices(pieces, k=generator.randint(0, 20)))
        tokens = Tokeniser("characters")(text)
        assert len(constraints.of(tokens, with_spaces(text))) == len(tokens)


@pytest.mark.parametrize(
    ("labels", "scheme", "begins", "inside"),
    [
        (LABELS, "lac", ["n", "n-B", "v", "v-B", "O"], ["n-I", "v-I"]),
        (["B", "M", "E", "S"], "bioes", ["B", "S"], ["M", "E"]),
        (["B", "I"], "bio", ["B"], ["I"]),
    ],
)
def test_the_labels_that_begin_words_and_continue_them(labels, scheme, begins, inside):
    penalties = WordConstraints(labels, scheme).penalties
    for kind, allowed in ((FREE, labels), (BEGINS, begins), (INSIDE, inside)):
        expected = [0 if label in allowed else EXCLUDED_SCORE for label in labels]
        assert penalties[kind].tolist() == expected


def test_the_scores_of_a_batch():
    constraints = WordConstraints(["B", "I"], "bio")
    scores = constraints.scores([["a", "1"], ["好", "，", "a"]], ["a 1", ""], 4)
    begins, inside = constraints.penalties[[BEGINS, INSIDE]]
    assert not scores[:, 0].any()
    np.testing.assert_array_equal(scores[:, 1], [begins, begins])
    np.testing.assert_array_equal(scores[1, 2], begins)
    assert inside.any() and not scores[0, 2:].any() and not scores[1, 3].any()


# The user's dictionary


@pytest.mark.parametrize(
    ("entries", "text", "expected"),
    [
        (["云计算"], "去云计算好", "去|云计算|好"),
        (
            ["云", "云计算", "计算机"],
            "云计算机云计算",
            "云计算|机|云计算",
        ),  # the longest, left first
        (["云计", "云计算"], "云计 算云计", "云计算|云计"),
        (["云计算 3", "云计算 0"], "在云计算中", "在|云|计|算|中"),
        (["C++语言", "《家》"], "学C++语言看《家》", "学|C++语言|看|《家》"),
        (["iPhone", "版本2"], "iPhone6版本2.0", "iPhone|6|版本2|.0"),
        (["AI", "5G", "1"], "MAIN AI1 15G 5G", "MAIN|AI|1|15 G|5G"),
        (["ＡＩ", "B2"], "AI Ｂ２", "AI|Ｂ２"),
        (["Git"], "Git Hub", "Git|Hub"),
        (["云-[a]", "^"], "云-[a]^^", "云-[a]|^|^"),
    ],
)
def test_words_of_the_dictionary(entries, text, expected):
    assert shown(text, *entries) == expected


def test_a_word_has_the_tag_of_the_dictionary():
    constraints = WordConstraints(LABELS, "lac", Segmenter(["云计算 5 v", "好 n"]))
    first, second, third, behind, single = constraints.of(list("云计算去好"))
    expected = {first: ["v-B", "v"], second: ["v-I"], third: ["v-I"], single: ["n", "n-B"]}
    for number, allowed in expected.items():
        is_allowed = constraints.penalties[number] == 0
        assert sorted(np.array(LABELS)[is_allowed]) == sorted(allowed)
    assert behind == BEGINS


def test_tags_that_the_tagger_does_not_have():
    with pytest.raises(UserError, match=r"云计算 .* nz.* n, v"):
        WordConstraints(LABELS, "lac", Segmenter(["好 n", "云计算 nz"]))
    with pytest.raises(UserError, match=r"的的 .* u"):
        WordConstraints([*LABELS, "u"], "lac", Segmenter(["的 u", "的的 9 u"]))
    WordConstraints([*LABELS, "u"], "lac", Segmenter(["的 u", "的的 0 u"]))


def test_tags_mean_nothing_to_a_tagger_without():
    constraints = WordConstraints(["B", "I"], "bio", Segmenter(["云计算 nz"]))
    assert constraints.of(list("去云计算")).tolist() == [FREE, BEGINS, INSIDE, INSIDE]
