"""Reading comprehension: texts and offsets, data sets, scores, the network, training."""

import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError
from elmo_core.text.tokenise import Tokeniser
from elmo_core.text.tokens import SPECIAL_TOKENS, Vocabulary
from elmo_tasks.inputs import PretrainedELMo, TokenInputs
from elmo_tasks.reading.data import (
    NO_ANSWER,
    Passage,
    Question,
    QuestionGroup,
    read_passages,
    tokenise_passages,
    training_groups,
)
from elmo_tasks.reading.network import MASKED_LOGIT, BiDAF, ReaderSettings, make_batch, window_rows
from elmo_tasks.reading.reader import Reader
from elmo_tasks.reading.score import cmrc_f1, score, squad_f1, squad_words
from elmo_tasks.reading.text import Answer, Text, Window, best_answers, span_scores, windows

TEXT = "老师住在北京。他在银行工作。医生住在上海。"
QUESTIONS = {"老师住在哪里？": "北京", "谁住在上海？": "医生", "老师在哪里工作？": "银行"}
SMALL = ReaderSettings(word_dim=5, hidden_dim=3, dropout=0.0, lang="zh")
WORDS = Vocabulary(
    [*SPECIAL_TOKENS, *["老师", "医生", "住", "在", "北京", "上海", "银行", "工作", "他", "。", "哪里", "谁", "？"]]
)


def passage(text: str = TEXT, questions: dict[str, str] = QUESTIONS, name: str = "q") -> Passage:
    pairs = enumerate(questions.items())
    return Passage(text, [Question(f"{name}{k}", q, [answer], [text.index(answer)]) for k, (q, answer) in pairs])


def group(text: str = TEXT, *questions: str, begin: int = 0, end: int | None = None) -> QuestionGroup:
    whole = Text.from_string(text, Tokeniser("zh"))
    texts = [Text.from_string(question, Tokeniser("zh")) for question in questions or QUESTIONS]
    return QuestionGroup(Window(whole, begin, len(whole.tokens) if end is None else end), texts, [(1, 2)] * len(texts))


def make_reader(settings: ReaderSettings = SMALL, no_answer: bool = False) -> Reader:
    return Reader.create(settings, {"words": WORDS.words, "no_answer": no_answer}, "cpu")


# Texts


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
        assert {k for window in cover for k in range(window.begin, window.end)} == set(range(n))
        assert [window.begin for window in cover] == [stride * k for k in range(len(cover))]
        assert all(window.end - window.begin <= size for window in cover)
        assert all(window.end < n for window in cover[:-1])
        for window in cover:
            sentences, positions = window.in_sentences()
            assert [list(itertools.chain(*sentences))[k] for k in positions] == window.tokens


# Data sets


@pytest.fixture
def read(tmp_path):
    """A function that reads a data set from a file of these values."""

    def read(values: object, **options) -> list[Passage]:
        text = values if isinstance(values, str) else json.dumps(values, ensure_ascii=False)
        (tmp_path / "x.json").write_text(text, encoding="utf-8")
        return read_passages(tmp_path / "x.json", **options)

    return read


def questions_of(passages: list[Passage]) -> list[Question]:
    return [question for passage in passages for question in passage.questions]


def squad(*questions: dict, context: str = TEXT) -> dict:
    return {"version": "1.1", "data": [{"title": "", "paragraphs": [{"context": context, "qas": list(questions)}]}]}


def qa(id: str, text: str, begin: object = 0, question: str = "谁？") -> dict:
    return {"id": id, "question": question, "answers": [{"text": text, "answer_start": begin}]}


def test_squads_form_and_hugging_faces_are_read(read, messages):
    questions = qa("a", "北京", 4), qa("b", "上海", 7), qa("c", "广州", -1, question="")
    data = questions_of(read(squad(*questions)))
    assert [question.answer_starts for question in data] == [[4], [TEXT.index("上海")], [None]]
    for fault in (
        "answers moved to where their text occurs: 1",
        "answers that are not in their passage: 1",
        "questions without words: 1",
    ):
        assert fault in messages()
    questions[1]["answers"] = None
    assert questions_of(read(squad(*questions), require_answers=False))[1].answers == []
    flat = [{**question, "context": TEXT, "answers": {"text": ["北京"], "answer_start": [4]}} for question in questions]
    for values in (flat, "\n".join(json.dumps(question) for question in flat)):
        assert read(values) == read_passages(flat)
    (one,) = read(flat)
    assert one.text == TEXT and one.questions[2] == Question("c", "", ["北京"], [4])
    one = {**qa("a", "北京"), "context": TEXT, "answers": {"text": "北京", "answer_start": 4}}
    assert questions_of(read([one]))[0].answers == ["北京"]
    nearest = questions_of(read(squad(qa("a", "住在", 13), qa("b", "住在", 5))))
    assert [question.answer_starts for question in nearest] == [[TEXT.rindex("住在")], [TEXT.index("住在")]]


def test_questions_without_an_answer_are_read(read, messages):
    impossible = {"is_impossible": True, "plausible_answers": qa("", "北京")["answers"]}
    checklist = {**qa("c", "", -1), "is_impossible": True}
    data = read(squad(qa("a", "北京", 4), {"id": "b", "question": "谁？", "answers": [], **impossible}, checklist))
    assert [question.answers for question in questions_of(data)] == [["北京"], [], []]
    assert "questions without an answer: 2" in messages()
    flat = {"id": "a", "context": TEXT, "question": "谁？", "answers": {"text": [], "answer_start": []}}
    assert questions_of(read([flat])) == [Question("a", "谁？", [], [])]
    (unclear,) = questions_of(
        read([{**flat, "is_impossible": np.nan, "answers": {"text": ["年"], "answer_start": [4]}}])
    )
    assert unclear.answers


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ([], "no question"),
        ({"data": [{}]}, "article 1: 'paragraphs'"),
        (squad({"id": "a", "answers": []}), "question 1: 'question'"),
        (squad(qa("a", "北京"), qa("a", "北京")), "'a'"),
        (squad(qa("a", "北京", "4")), "'4'"),
        (squad({"id": "a", "question": "谁？"}), "'answers' is missing"),
        (squad({"id": "a", "question": "谁？", "answers": "北京"}), "'answers'"),
        (squad(qa("a", "北京"), context=" \n"), "empty"),
        ('"text"', "'text'"),
        ({"id": "a"}, "object 1: 'data'"),
        (squad(qa("a", "北京"), context="甲\0"), "NUL"),
        (
            '{"context": "a b", "question": "?", "id": "1", "answers": []}\n{"question": "?"}',
            ":2: 'context'",
        ),
        ([{"question": "谁？", "id": "a"}], "object 1: 'context'"),
        ([{"question": "谁？", "id": "a", "context": "甲", "answers": {"text": ["甲"], "start": [0]}}], "answer_start"),
        ("{", "JSON"),
        ('[\n{"id": 1}\n{"id": 2}]', "line 3 column 1"),
    ],
)
def test_a_data_sets_mistakes_are_named(read, values, word):
    with pytest.raises(UserError, match=rf"x\.json.*{word}"):
        read(values)


# Scores, worked out by hand


@pytest.mark.parametrize(
    ("f1", "answer", "predicted", "expected"),
    [
        (cmrc_f1, "1963年", "于1963年", 2 * 2 / (2 + 3)),  # 1963 is one part
        (cmrc_f1, "光荣和ω-force", "光荣和", 2 * 3 / (4 + 3)),  # ωforce is one, without the hyphen
        (cmrc_f1, "甲乙丙丁", "甲乙、戊丁", 2 * 2 / (4 + 4)),  # only the longest run counts, and marks do not
        (cmrc_f1, "《狂人日记》", "狂人日记。", 1.0),
        (cmrc_f1, "New York", "纽约 new york", 2 * 2 / (2 + 4)),
        (cmrc_f1, "甲", "", 0.0),
        (squad_f1, "the Eiffel Tower", "Eiffel tower.", 1.0),
        (squad_f1, "Eiffel Tower", "in the Eiffel Tower of Paris", 2 * 2 / (2 + 5)),
        (squad_f1, "to be or not to be", "be to", 2 * 2 / (6 + 2)),  # whatever the order
        (squad_f1, "a", "the", 0.0),
    ],
)
def test_f1(f1, answer, predicted, expected):
    assert f1(answer, predicted) == pytest.approx(expected)


def test_a_question_has_the_score_of_its_best_answer():
    one = Passage(TEXT, [Question("a", "", ["老师", "医生"], [0, 14]), Question("b", "", ["北京"], [4])])
    scores = score([one, one], {"a": "医生。", "b": ""}, "zh")
    assert scores.exact.tolist() == [1, 0, 1, 0] and scores.f1.tolist() == [1, 0, 1, 0]
    assert scores.to_dict()["exact"] == 0.5
    assert score([one], {"a": "", "b": "《北 京》"}, "zh").exact.tolist() == [0, 1]


def test_questions_without_an_answer_are_scored_as_by_squads_evaluator():
    """The evaluator's `get_raw_scores` and `make_eval_dict`, written out. A lone article has no words."""

    def official(answers: list[str], predicted: str) -> tuple[float, float]:
        golds = [answer for answer in answers if squad_words(answer)] or [""]
        f1 = [squad_f1(gold, predicted) if gold else not squad_words(predicted) for gold in golds]
        return max(squad_words(gold) == squad_words(predicted) for gold in golds), max(f1)

    answers = [[], [], [], ["Rome"], ["the", "Old Rome"], ["the"], ["a"]]
    predicted = ["", "Rome", "the", "", "Rome", "", "Rome"]
    questions = [Question(str(k), "?", some, [None] * len(some)) for k, some in enumerate(answers)]
    scores = score([Passage(TEXT, questions)], dict(zip("0123456", predicted, strict=True)), "en")
    expected = np.array(list(map(official, answers, predicted)), float)
    assert np.array_equal(np.stack([scores.exact, scores.f1], axis=1), expected)


# The network


@pytest.fixture(scope="module")
def network() -> BiDAF:
    net = make_reader().network
    random = np.random.default_rng(5)
    for weight in net.parameters():
        weight.set_value(random.standard_normal(weight.shape).astype(np.float32) * 0.7)
    net.eval()
    return net


def gru(x: np.ndarray, weights: dict, name: str) -> np.ndarray:
    """Both directions of a GRU over (T, D), in NumPy."""
    both = []
    for suffix, order in (("", 1), ("_reverse", -1)):
        kinds = "weight_ih", "weight_hh", "bias_ih", "bias_hh"
        w_x, w_h, b_x, b_h = (weights[f"{name}.{kind}_l0{suffix}"] for kind in kinds)
        h, rows = np.zeros(w_h.shape[1]), []
        for row in x[::order]:
            (r_x, z_x, c_x), (r_h, z_h, c_h) = np.split(w_x @ row + b_x, 3), np.split(w_h @ h + b_h, 3)
            r, z = 1 / (1 + np.exp(-r_x - r_h)), 1 / (1 + np.exp(-z_x - z_h))
            h = z * h + (1 - z) * np.tanh(c_x + r * c_h)
            rows.append(h)
        both.append(np.array(rows[::order]))
    return np.concatenate(both, axis=1)


def softmax(x: np.ndarray) -> np.ndarray:
    return np.exp(x - x.max(-1, keepdims=True)) / np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)


def reference(net: BiDAF, window: Window, question: Text) -> np.ndarray:
    """The logits (T, 2) in float64, from BiDAF's equations."""
    w = {name: weight.numpy().astype(np.float64) for name, weight in net.state_dict().items()}

    def encoded(tokens: list[str]) -> np.ndarray:
        h = gru(w["inputs.words.embedding.weight"][WORDS.ids(tokens)], w, "context")
        return np.tanh(h @ w["projection.weight"] + w["projection.bias"])

    h, u = encoded(window.tokens), encoded(question.tokens)
    s = np.empty((len(h), len(u)))
    for t, j in itertools.product(range(len(h)), range(len(u))):
        s[t, j] = h[t] @ w["similarity.0.weight"][:, 0] + u[j] @ w["similarity.1.weight"][:, 0]
        s[t, j] += w["similarity.1.bias"][0] + (h[t] * u[j]) @ w["similarity_product"]
    to_question, to_passage = softmax(s) @ u, softmax(s.max(axis=1)) @ h
    features = [[token in question.tokens, token in question.text] for token in window.tokens]
    merged = np.concatenate([h, to_question, h * to_question, h * to_passage, np.array(features, float)], axis=1)
    merged = np.maximum(merged @ w["merge.weight"] + w["merge.bias"], 0)
    return np.concatenate([merged, gru(merged, w, "model")], axis=1) @ w["ends.weight"] + w["ends.bias"]


def test_the_network_is_bidaf_whatever_else_is_in_the_batch(network):
    groups = [group(), group("北京。", "谁住在北京？", "哪里？"), group(TEXT, "他在哪里工作？", begin=2, end=9)]
    with paddle.no_grad():
        logits = network(make_batch(groups)).numpy()
    questions = [(one.window, question) for one in groups for question in one.questions]
    for row, (window, question) in zip(logits, questions, strict=True):
        n = len(window.tokens)
        np.testing.assert_allclose(row[:, :n].T, reference(network, window, question), rtol=1e-4, atol=1e-5)
        assert (row[:, n:] < MASKED_LOGIT / 2).all()


def test_the_loss_is_minus_the_log_probability_of_both_ends(network):
    one = group(TEXT, "谁住在上海？")
    first, last = np.log(softmax(reference(network, one.window, one.questions[0]).T))
    assert network.loss(make_batch([one])).item() == pytest.approx(-first[1] - last[2], rel=1e-4)


def test_the_loss_of_no_answer_is_minus_its_log_probability(network):
    net = make_reader(no_answer=True).network
    for name, weight in network.state_dict().items():
        net.state_dict()[name].set_value(weight)
    net.no_answer.set_value(paddle.to_tensor([0.5, -1.5]))
    net.eval()
    one = group(TEXT, "谁住在上海？", "哪里？")
    one.spans[1] = NO_ANSWER
    rows = [reference(net, one.window, question).T for question in one.questions]
    log = [np.log(softmax(np.append(row, [[0.5], [-1.5]], axis=1))) for row in rows]
    expected = -(log[0][0, 1] + log[0][1, 2] + log[1][:, -1].sum()) / 2
    assert net.loss(make_batch([one])).item() == pytest.approx(expected, rel=1e-4)


def test_the_best_spans_are_those_of_an_enumeration():
    text, random = Text.from_string("a b c a b c a b c", Tokeniser("en")), np.random.default_rng(1)
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


def test_elmo_is_at_the_input_and_at_the_output_of_the_encoder(checkpoints):
    net = make_reader(replace(SMALL, elmo=str(checkpoints["char"]), layers="mix", elmo_dropout=0.0)).network
    batch = make_batch([group(), group("北京。", "谁住在北京？")])
    net.loss(batch).backward()
    net.eval()
    mixes = net.inputs.mixes
    assert len(mixes) == 2 and all(np.abs(mix.scalars.grad.numpy()).min() > 0 for mix in mixes)
    assert all(weight.grad is None for weight in net.inputs.elmo.bilm.parameters())
    before = net(batch).numpy()
    for mix in mixes:
        mix.gamma.set_value(paddle.to_tensor([0.5]))
        assert np.abs(net(batch).numpy() - before).max() > 1e-4
        mix.gamma.set_value(paddle.to_tensor([1.0]))


@pytest.mark.parametrize("cached", [False, True])
def test_a_windows_layers_are_those_of_its_sentences(checkpoints, cached):
    settings = replace(SMALL, elmo=str(checkpoints["char"]), word_dim=0)
    inputs = TokenInputs(settings, None, None, PretrainedELMo.load(checkpoints["char"]))
    inputs.eval()
    text, other = (Text.from_string(x, Tokeniser("zh")) for x in (TEXT, "医生在银行？"))
    layers = [inputs.elmo.layers([sentence])[0] for sentence in text.sentences]
    expected = np.concatenate([paddle.concat(three).numpy() for three in layers], axis=1)  # (3, n, 2P)
    if cached:
        inputs.elmo.cache(text.sentences, 1)
    vectors = inputs(window_rows([Window(text, 3, 9), Window(other, 0, len(other.tokens))]))
    assert vectors.mask.numpy().sum(axis=1).tolist() == [6, len(other.tokens)]
    np.testing.assert_allclose(
        vectors.x.numpy()[0, :6], np.concatenate(expected[:, 3:9], axis=-1), rtol=1e-5, atol=1e-6
    )


# Training


def test_what_cannot_be_learnt_from_is_counted(messages):
    one = passage("老师住在北京。" * 3, {"老师住在哪里？": "北京", "谁住在北京？": "师住"})
    one.questions += [Question("lost", "谁？", ["广州"], [None]), Question("long", "谁？", ["北京。老师住在"], [4])]
    groups = training_groups(tokenise_passages([one], Tokeniser("zh")), 5, 5)
    assert [(one.window.begin, [question.text for question in one.questions]) for one in groups] == [
        (0, ["老师住在哪里？", "谁住在北京？"])
    ]
    assert "in no window: 1" in messages()
    with pytest.raises(UserError, match="No question"):
        training_groups([], 5, 5)


@pytest.mark.parametrize("kind", [None, "char"])
def test_a_reader_learns(checkpoints, kind, tmp_path):
    texts = {
        TEXT: QUESTIONS,
        "医生住在北京。她在学校工作。老师住在上海。": {"医生住在哪里？": "北京", "谁住在上海？": "老师"},
    }
    examples = [
        {
            "id": f"{text[:2]}{k}",
            "context": text,
            "question": question,
            "answers": {"text": [answer], "answer_start": [0]},
        }
        for text, questions in texts.items()
        for k, (question, answer) in enumerate(questions.items())
    ]
    few = {
        "epochs": 30,
        "patience": 0,
        "batch_size": 1,
        "lr": 0.02,
        "ema": 0.5,
        "word_dim": 8,
        "hidden_dim": 8,
        "seed": 1,
    }
    with_elmo = {"elmo": str(checkpoints[kind]), "layers": "mix", "elmo_dropout": 0.0} if kind else {}
    seen: list[dict] = []
    settings = ReaderSettings(**few, **with_elmo, dropout=0.0, lang="zh")
    reader = Reader.train(
        examples, dev=examples, test=examples, settings=settings, save_dir=tmp_path / "r", progress=seen.append
    )
    assert reader.scores["dev"]["f1"] == reader.scores["test"]["f1"] == reader.evaluate(examples)["f1"] == 1
    assert len(reader.network.inputs.mixes if kind else []) == (2 if kind else 0)
    assert [scores["epoch"] for scores in seen] == list(range(1, 31)) and seen[-1]["dev"]["questions"] == 5
    for trained in (reader, Reader(tmp_path / "r")):
        for example in examples:
            (answer,) = trained.answer(example["question"], example["context"])
            assert answer.text == example["context"][answer.begin : answer.end] == example["answers"]["text"][0]


def test_a_reader_learns_what_its_passage_does_not_answer(tmp_path):
    asked = {"老师住在哪里？": "北京", "谁住在上海？": "医生", "学生住在哪里？": None, "谁在学校工作？": None}
    answers = [{"text": [answer] if answer else [], "answer_start": [0] * bool(answer)} for answer in asked.values()]
    pairs = enumerate(zip(asked, answers, strict=True))
    examples = [{"id": str(k), "context": TEXT, "question": q, "answers": answer} for k, (q, answer) in pairs]
    sizes = {"word_dim": 8, "hidden_dim": 8, "dropout": 0.0, "max_seq_len": 8, "doc_stride": 4}
    settings = ReaderSettings(epochs=40, patience=0, batch_size=1, lr=0.02, ema=0.5, lang="zh", **sizes)
    reader = Reader.train(examples, dev=examples, settings=settings)
    assert reader.scores["dev"]["f1"] == reader.evaluate(examples)["f1"] == 1
    reader.save(tmp_path / "r")
    saved = Reader(tmp_path / "r")
    for (question, answer), k in zip(asked.items(), (1, 3, 1, 3), strict=True):
        found = saved.answer(question, TEXT, k)
        assert found == reader.answer(question, TEXT, k) and found[0].text == (answer or "") and len(found) == k
        assert answer or found[0] == Answer("", 0, 0, found[0].score)


def test_the_earliest_of_equal_spans_wins_whatever_the_last_digits():
    text = Text.from_string("a b c a b c", Tokeniser("en"))
    row = np.array([[0, 1, 0, 0, 1 + 1e-6, 0], [0, 0, 1 - 1e-6, 0, 0, 1]], np.float32)
    assert best_answers(text, span_scores(row, 2), 1)[0][:3] == ("b c", 2, 5)


def assert_same_answers(answers: list[Answer], expected: list[Answer]) -> None:
    assert [one.text for one in answers] == [one.text for one in expected]
    figures = [np.array([(one.begin, one.end, one.score) for one in some]) for some in (answers, expected)]
    np.testing.assert_allclose(*figures, rtol=1e-4)


def test_answers_do_not_depend_on_the_batch(network):
    """The windows of the long passage overlap: a span is as good as in its best window."""
    reader = make_reader(replace(SMALL, max_seq_len=6, doc_stride=3, max_answer_length=2))
    reader.network = network
    pairs = [("谁住在上海？", TEXT * 3), ("哪里？", "北京。"), ("老师住在哪里？", TEXT * 3), ("谁？", TEXT)] * 3
    together = reader.answers(pairs, k=4)
    assert list(reader.answers(iter(pairs), k=4)) == together
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda _: reader.answers(pairs, k=4), range(4))) == [together] * 4
    for (question, text), several in zip(pairs, together, strict=True):
        alone = reader.answer(question, text, k=4)
        assert_same_answers(several, alone)
        assert [one.text for one in alone] == [text[one.begin : one.end] for one in alone]
    whole = Text.from_string(TEXT * 3, Tokeniser("zh"))
    best = np.full((len(whole.tokens), 2), -np.inf)
    for window in windows(whole, 6, 3):
        question = [Text.from_string("谁住在上海？", Tokeniser("zh"))]
        logits = network(make_batch([QuestionGroup(window, question, [])])).numpy()[0]
        best[window.begin : window.end] = np.maximum(best[window.begin : window.end], span_scores(logits, 2))
    expected = best_answers(whole, best, 4)
    assert_same_answers(together[0], expected)


@pytest.mark.parametrize("k", [0, -1, 1.5, "2", True, None])
def test_a_number_of_answers_that_is_none_is_named(k):
    with pytest.raises(UserError, match="k="):
        make_reader().answer("谁", TEXT, k)


def test_one_passage_cannot_be_held_out_of():
    example = {"id": "a", "context": TEXT, "question": "谁？", "answers": {"text": ["北京"], "answer_start": [4]}}
    with pytest.raises(UserError, match="passage"):
        Reader.train([example, {**example, "id": "b"}], settings=SMALL)


def test_a_passage_without_words_has_no_answers_and_does_not_stop_the_others():
    reader = make_reader()
    good = ("谁", TEXT)
    assert_same_answers(reader.answers([("谁", " "), good, ("谁", "")])[1], reader.answer(*good))
    assert reader.answers([("谁", " "), good])[0] == []


@pytest.mark.parametrize("words", ["", "　", "\u200b"])
def test_a_question_without_words_gets_an_answer(words):
    (answer,) = make_reader().answer(words, TEXT)
    assert answer.text in TEXT
