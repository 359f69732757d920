"""Raw text to sentences and tokens: English, Chinese, any language."""

import itertools
import re
from collections import Counter

import pytest
from splitting import chinese, english

from elmo_core.text import tokenise

SPACES = "".join(chr(code) for code in range(0x110000) if chr(code).isspace())


def characters(sentences: list[list[str]]) -> str:
    """The characters of tokens, without what separates these."""
    return "".join(itertools.chain.from_iterable(sentences))


@pytest.mark.parametrize(
    ("raw", "tokens"),
    [
        ("I can't, he won't; it's John's.", "I ca n't , he wo n't ; it 's John 's ."),
        ("DON'T we'll they've I'm you'd", "DO N'T we 'll they 've I 'm you 'd"),
        ("the dogs' O'Neill o'clock '60s 1990's", "the dogs ' O 'Neill o 'clock ' 60s 1990 's"),
        ("It cost $2,900, US$5 or £1.3bn: 3.5%!", "It cost $ 2,900 , US $ 5 or £ 1.3bn : 3.5 % !"),
        ("7/10 at 10:30, 1,2 and 3, -5 or .302", "7 / 10 at 10 : 30 , 1,2 and 3 , -5 or .302"),
        ("well-known mid- to late, U.S.-led D-N.Y.", "well-known mid- to late , U.S.-led D-N.Y."),
        ("fun--really — yes – no a–b 1998–2004", "fun -- really -- yes - no a - b 1998-2004"),
        (
            "“Why?” ‘he’ ``said''… then . . . left",
            "\" Why ? \" ' he ' \" said \" ... then ... left",
        ),
        (
            "(see AT&T, a@b.org and http://x.com/y.)",
            "( see AT & T , a @ b.org and http : / / x.com / y . )",
        ),
        ("so_called _it_ *bold* #1 wow?!!", "so _ called _ it _ * bold * # 1 wow ? ! !"),
        ("Mr. and Mrs. X met at 5 p.m.", "Mr. and Mrs. X met at 5 p.m."),
        (
            "He has a PhD, i.e. a degree, No. 5, etc.",
            "He has a PhD , i.e. a degree , No. 5 , etc .",
        ),
        ("don\u00b4t caf\u00e9 cafe\u0301 na\u00efve", "do n't caf\u00e9 caf\u00e9 na\u00efve"),
        ("\x93Quoted\x94 \x96 it\x92s\x85", "\" Quoted \" - it 's ..."),
    ],
)  # fmt: skip
def test_english_tokens(raw, tokens):
    assert english(raw) == [tokens]


@pytest.mark.parametrize(
    "sentences",
    [
        ["It ended.", "Then we left!", "Why?", "1999 was better."],
        ["Dr. J. K. Smith of the U.S. Navy met Samuel L. Jackson at 5 p.m. EST.", "He left."],
        [
            "We live in the U.S.",
            "The film cost $3.5 million.",
            "It was made by Foo Inc.",
            "They went broke.",
        ],
        ['"Why?" he asked.', '"It is over."', "She left (at last!).", "(Nobody cared.)", "Fine."],
        ["Yahoo! said so.", "Well... maybe.", "Who knows...", "The end."],
        [
            "the movie is bad.",
            "it was so bad!",
            "really bad, e.g. this one.",
            "avoid it etc. and so on.",
        ],
        ["Visit www.the-end.com or imdb.com, Node.Js too.", "OK."],
        ["No. 5 was vs. No. 6 in vol. 3.", "No.", "The answer is Vitamin C.", "So be it."],
        ["Dr. Will Smith met Mr. Once.", "He left."],
        ["... And then it began.", "Taller than I.", "He is."],
        ["1. The first point is here.", "2. The second."],
    ],
)
def test_english_sentences(sentences):
    assert tokenise.split_english(" ".join(sentences)) == sentences


def test_english_sentences_run_together():
    sentences = [
        "It is bad.",
        "The plot is thin!",
        "Avoid it.",
        "why he asks?",
        "It ended in 1986).",
        "If only.",
    ]
    assert tokenise.split_english("".join(sentences)) == sentences


@pytest.mark.parametrize(
    "sentences",
    [
        ["他来了。", "真的吗？", "是的！", "好……", "走吧"],
        ["“你好。”", "他说：“我走了！”", "（完。）", "【快讯】到了。"],
        ["“快跑！”，他喊道。", "真的？！", "（真的吗？）。"],
        ["我看了《你好！李焕英》。", "很好看。"],
        ['他说:"走。"', "她没动。", '"好!"', "他说。"],
        ["增长3.5%，见 a.cn/?id=3 和第1.2节。", "完。"],
        ["他说...", "谢谢.", "再见。"],
        ["……然后他走了。", "“！”是标点。"],
    ],
)
def test_chinese_sentences(sentences):
    assert tokenise.split_chinese("".join(sentences)) == sentences


def test_chinese_words():
    assert chinese("我爱北京天安门——真的……") == ["我 爱 北京 天安门 —— 真的 ……"]
    assert chinese("２０２２年　ＧＤＰ增长 3.5%。") == ["２０２２ 年 ＧＤＰ 增长 3.5% 。"]
    assert chinese("２０２２年　ＧＤＰ！", form="NFKC") == ["2022 年 GDP !"]


def test_html_ends_paragraphs_and_leaves_nothing_behind():
    raw = "One<br /><br />two <i>or</i> three</p>\x0bR&amp;D&#8211;&lt;b&gt; x?a=1&section=2 <3"
    assert english(raw) == ["One", "two or three", "R & D - < b > x ? a = 1 & section = 2 < 3"]
    assert chinese("一<BR>二&nbsp;三\u2028四") == ["一", "二 三", "四"]


@pytest.mark.parametrize(
    "raw",
    ["x<b or y>b holds", "if a <i and c> d", "0 <p and p> 1", "<u like this>", "<s=3 or t> 4"],
)
def test_what_only_looks_like_a_tag_is_text(raw):
    assert characters(tokenise.Tokeniser("any").sentences(raw)) == raw.replace(" ", "")


@pytest.mark.parametrize(
    "raw",
    [
        "a<br><br />b",
        "<P CLASS='x y' id = z>a</p><td nowrap>b",
        'a <a href="http://x.org/?a=1&b=2" target=_blank>b</a >',
        "<font size=+1 color='#fff'>a</font> <IMG src=b.png alt=''/>b",
    ],
)
def test_tags_are_removed(raw):
    assert characters(tokenise.Tokeniser("any").sentences(raw)) == "ab"


@pytest.mark.parametrize(
    ("raw", "sentences"),
    [
        (
            "Atzo hondartzan ginen. «Zer moduz?», galdetu zidan Mirenek. 2.000 lagun ziren!",
            [
                "Atzo hondartzan ginen .",
                "« Zer moduz ? » , galdetu zidan Mirenek .",
                "2.000 lagun ziren !",
            ],
        ),
        (
            "Das war am 3. März, z. B. in Köln. „Wirklich?“, fragte sie. „Nein!“ Es kostet 3,50 €.",
            [
                "Das war am 3 . März , z . B . in Köln .",
                "„ Wirklich ? “ , fragte sie .",
                "„ Nein ! “",
                "Es kostet 3,50 € .",
            ],
        ),
        (
            "В 1998 г. цена была 3,5 руб. «Кто там?» — спросил И. П. Павлов. Кое-кто… Мама!",
            [
                "В 1998 г . цена была 3,5 руб .",
                "« Кто там ? » — спросил И . П . Павлов .",
                "Кое - кто …",
                "Мама !",
            ],
        ),
        (
            "هل أنت بخير؟ نعم، أنا بخير. وصل ٣٫٥ مليون زائر! ذهبتُ إلى المدرسة",
            ["هل أنت بخير ؟", "نعم ، أنا بخير .", "وصل ٣٫٥ مليون زائر !", "ذهبتُ إلى المدرسة"],
        ),
        (
            "میں سکول جاتا ہوں۔ من نمی\u200cخواهم بروم.",
            ["میں سکول جاتا ہوں ۔", "من نمی\u200cخواهم بروم ."],
        ),
        (
            "मैं स्कूल जा रहा हूँ। क्या तुम ठीक हो? क्षत्रिय के १२.५ रुपये॥",
            ["मैं स्कूल जा रहा हूँ ।", "क्या तुम ठीक हो ?", "क्षत्रिय के १२.५ रुपये ॥"],
        ),
        ("Τι κάνεις; «Καλά;» είπε εκείνος.", ["Τι κάνεις ;", "« Καλά ; » είπε εκείνος ."]),
        ("ฉันไปโรงเรียน 3.50 บาท", ["ฉั น ไ ป โ ร ง เ รี ย น 3.50 บ า ท"]),
        (
            "नहीं।हाँ。「はい。」a.eus/?id=3 👨\u200d👩",
            ["नहीं ।", "हाँ 。", "「 は い 。 」", "a.eus / ? id = 3 👨\u200d👩"],
        ),
    ],
)
def test_sentences_and_tokens_of_any_language(raw, sentences):
    assert [" ".join(tokens) for tokens in tokenise.Tokeniser("any").sentences(raw)] == sentences


@pytest.mark.parametrize("lang", ["en", "zh", "any"])
def test_tokens_hold_no_white_space_and_nothing_invisible(lang):
    raw = "".join(
        f"ab{c}你好{c}"
        for c in SPACES
        + "\x00\x1b\u200b\ufeff\u00ad\u202e\u2068\u2069\U000e0100&#x3000;&#133;&#x2028;"
    )
    cut = [" ".join(tokens) for tokens in tokenise.Tokeniser(lang).sentences(raw)]
    for sentence in cut:
        assert sentence.split() == sentence.split(" ")
        assert not re.search(
            r"[\x00-\x1f\x7f-\x9f\u200b\ufeff\u00ad\u202e\u2068\u2069\U000e0100]", sentence
        )
    assert Counter("".join(cut))["好"] == raw.count("好")


def test_a_number_of_thousands_of_digits_is_no_entity():
    assert "9" * 5000 in "".join(tokenise.Tokeniser("any")(f"a &#{'9' * 5000}; b"))
