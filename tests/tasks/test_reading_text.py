"""Texts as tokens with their offsets, windows of them, and the best spans."""

import itertools

import numpy as np
import pytest
from reading import TEXT

from elmo_core.text.tokenise import Tokeniser
from elmo_tasks.reading.text import Text, best_answers, span_scores, windows


@pytest.mark.parametrize(
    ("text", "language", "changed"),
    [
        ("　老师 住在北京，\n他喜欢ＡＢＣ……吗？", "zh", []),
        ("他走了。\n\n小 明\n", "zh", []),
        ("小\u200b明住在北京。", "zh", []),  # jieba never sees the invisible one
        ("نعم،  أنا بخير. 「はい。」नमस्ते।", "any", []),
        (" a  b. <br> c\n", "none", []),
        ("Mr. Smith paid $2,900 – didn't he? “Yes,” she said.", "en", ["-", '"']),
        ("He waited … the “end—of it” came. U.S. troops left the U.S.", "en", ['"', "...", "--"]),
    ],
)
def test_tokens_know_their_offsets(text, language, changed):
    tokenised = Text.from_string(text, Tokeniser(language))
    for token, (begin, end) in zip(tokenised.tokens, tokenised.offsets, strict=True):
        written = text[begin:end].replace("\u200b", "")
        assert written == token or (token in changed and len(written) == 1)
    assert (np.diff(tokenised.offsets.ravel()) >= 0).all()


def test_an_answer_that_cuts_through_words_is_rounded_outwards():
    text = Text.from_string("他在北京大学学习英语。", Tokeniser("zh"))
    begin = text.text.index("京大")
    span = text.token_span(begin, begin + 2)
    assert "京大" in text.text[slice(*text.char_span(*span))]
    begin = text.text.index("英语")
    span = text.token_span(begin, begin + 2)
    assert text.char_span(*span) == (begin, begin + 2)
    assert text.token_span(0, 0) is None


def test_windows_hold_every_token_and_give_the_parts_of_sentences():
    text = Text.from_string(TEXT, Tokeniser("zh"))
    n = len(text.tokens)
    for size, stride in ((4, 2), (5, 5), (n, 3), (n - 1, 1), (3 * n, n)):
        cover = windows(text, size, stride)
        covered = set()
        for window in cover:
            covered.update(range(window.begin, window.end))
        assert covered == set(range(n))
        assert [window.begin for window in cover] == [stride * k for k in range(len(cover))]
        assert all(window.end - window.begin <= size for window in cover)
        assert all(window.end < n for window in cover[:-1])
        for window in cover:
            sentences, positions = window.in_sentences()
            tokens = list(itertools.chain(*sentences))
            assert [tokens[k] for k in positions] == window.tokens


def test_the_best_spans_are_those_of_an_enumeration():
    text = Text.from_string("a b c a b c a b c", Tokeniser("en"))
    random = np.random.default_rng(1)
    for longest in (1, 3, 9, 50):
        row = random.standard_normal((2, 9)).astype(np.float32)
        spans = [(i, j) for i in range(9) for j in range(i, min(9, i + longest))]
        total = {text.char_span(i, j): np.exp(float(row[0, i] + row[1, j])) for i, j in spans}
        expected: dict[str, tuple[int, int]] = {}
        for begin, end in sorted(total, key=total.get, reverse=True):
            expected.setdefault(text.text[begin:end], (begin, end))
        answers = best_answers(text, span_scores(row, longest), 99)
        assert [answer.text for answer in answers] == list(expected)
        assert [(answer.begin, answer.end) for answer in answers] == list(expected.values())
        scores = np.array([total[span] for span in expected.values()]) / sum(total.values())
        np.testing.assert_allclose([answer.score for answer in answers], scores, rtol=1e-5)
        share = 1 / (1 + sum(total.values()))  # of no answer, whose score is 0
        ranked = sorted([*(scores * (1 - share)), share], reverse=True)
        answers = best_answers(text, span_scores(row, longest), 3, 0.0)
        np.testing.assert_allclose([answer.score for answer in answers], ranked[:3], rtol=1e-5)
        assert ("" in [answer.text for answer in answers]) == (share in ranked[:3])


def test_the_earliest_of_equal_spans_wins_whatever_the_last_digits():
    text = Text.from_string("a b c a b c", Tokeniser("en"))
    row = np.array([[0, 1, 0, 0, 1 + 1e-6, 0], [0, 0, 1 - 1e-6, 0, 0, 1]], np.float32)
    assert best_answers(text, span_scores(row, 2), 1)[0][:3] == ("b c", 2, 5)
