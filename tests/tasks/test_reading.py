"""Reading comprehension: texts and places, data sets, scores, the network, training."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import runs
from elmo_tasks.elmo_input import Pretrained

import elmo
from elmo_core.machine.messages import UserError
from elmo_core.machine.runtime import paddle
from elmo_core.text.tokens import MARKERS, Vocabulary
from elmo_tasks.reading.batch import Asked, Group, batch_of
from elmo_tasks.reading.data import Passage, Question, read_dataset
from elmo_tasks.reading.network import NEVER, BiDAF, Settings
from elmo_tasks.reading.reader import Prepared, Reader, Reading, best_spans
from elmo_tasks.reading.score import cmrc_f1, difference, rouge_l, score, squad_f1
from elmo_tasks.reading.text import Text, Window, windows
from elmo_tasks.reading.training import MeanWeights, Schedule, train, training_groups, training_words

TEXT = "老师住在北京。他在银行工作。医生住在上海。"
QUESTIONS = {"老师住在哪里？": "北京", "谁住在上海？": "医生", "老师在哪里工作？": "银行"}
SMALL = {"word_emb_dim": 5, "hidden_dim": 3, "dropout": 0.0, "elmo_dropout": 0.0}
WORDS = Vocabulary(
    [*MARKERS, *["老师", "医生", "住", "在", "北京", "上海", "银行", "工作", "他", "。", "哪里", "谁", "？"]]
)


def passage(text: str = TEXT, questions: dict[str, str] = QUESTIONS, name: str = "q") -> Passage:
    pairs = enumerate(questions.items())
    return Passage(text, [Question(f"{name}{k}", asked, [found], [text.index(found)]) for k, (asked, found) in pairs])


def group(text: str = TEXT, *questions: str, begin: int = 0, end: int | None = None) -> Group:
    whole = Text.of(text, "zh")
    asked = [Asked(question, Text.of(question, "zh"), (1, 2)) for question in questions or QUESTIONS]
    return Group(Window(whole, begin, len(whole.tokens) if end is None else end), asked)


# Texts


@pytest.mark.parametrize(
    ("text", "language", "changed"),
    [
        ("　老师 住在北京，\n他喜欢ＡＢＣ……吗？", "zh", []),
        ("他走了。\n\n小 明\n", "zh", []),
        ("小\u200b明住在北京。", "zh", []),  # jieba never sees the invisible one
        ("Mr. Smith paid $2,900 – didn't he? “Yes,” she said.", "en", ["-", '"']),
        ("He waited … the “end—of it” came. U.S. troops left the U.S.", "en", ['"', "...", "--"]),
    ],
)
def test_tokens_know_their_places(text, language, changed):
    found = Text.of(text, language)
    for token, (begin, end) in zip(found.tokens, found.places, strict=True):
        written = text[begin:end].replace("\u200b", "")
        assert written == token or (token in changed and len(written) == 1)
    assert (np.diff(found.places.ravel()) >= 0).all()
    assert sum(map(len, found.sentences)) == len(found.tokens)


def test_an_answer_that_cuts_through_words_is_rounded_outwards():
    text = Text.of("他在北京大学学习英语。", "zh")
    begin = text.text.index("京大")
    span = text.tokens_of(begin, begin + 2)
    assert not span.whole and "京大" in text.text[slice(*text.extent(span.first, span.last))]
    begin = text.text.index("英语")
    span = text.tokens_of(begin, begin + 2)
    assert span.whole and text.extent(span.first, span.last) == (begin, begin + 2)
    assert text.tokens_of(0, 0) is None


def test_windows_hold_every_token_and_give_the_parts_of_sentences():
    text = Text.of(TEXT, "zh")
    n = len(text.tokens)
    for size, stride in ((4, 2), (5, 5), (n, 3), (n - 1, 1), (3 * n, n)):
        found = windows(text, size, stride)
        assert {k for window in found for k in range(window.begin, window.end)} == set(range(n))
        assert [window.begin for window in found] == [stride * k for k in range(len(found))]
        assert all(window.end - window.begin <= size for window in found)
        assert all(before.end < n for before in found[:-1])
        for window in found:
            parts = [token for sentence, part in window.parts() for token in sentence[part]]
            assert parts == window.tokens


# Data sets


def write(path: Path, values: object) -> Path:
    path.write_text(json.dumps(values, ensure_ascii=False), encoding="utf-8")
    return path


def squad(*questions: dict, context: str = TEXT) -> dict:
    return {"version": "1.1", "data": [{"title": "", "paragraphs": [{"context": context, "qas": list(questions)}]}]}


def asked(id: str, text: str, begin: object = 0, question: str = "谁？") -> dict:
    return {"id": id, "question": question, "answers": [{"text": text, "answer_start": begin}]}


def test_both_forms_of_cmrc_and_squads_are_read(tmp_path):
    one = read_dataset(
        write(
            tmp_path / "1.json",
            squad(asked("a", "北京", 4), asked("b", "上海", 7), asked("c", "广州", -1, question="")),
        )
    )
    assert [question.begins for question in one.questions] == [[4], [TEXT.index("上海")], [None]]
    for what in ("1 answers moved", "1 answers that are not in", "1 questions without words"):
        assert what in one.describe()
    kept = read_dataset(write(tmp_path / "2.json", one.to_squad()), answered=False)
    assert [question.begins for question in kept.questions] == [[4], [TEXT.index("上海")], []]
    first = [{"context_text": TEXT, "qas": [{"query_id": "a", "query_text": "谁？", "answers": ["北京", "医生"]}]}]
    (found,) = read_dataset(write(tmp_path / "3.json", first)).questions
    assert found == Question("a", "谁？", ["北京", "医生"], [4, TEXT.index("医生")])


def test_the_answer_nearest_to_its_place_is_taken(tmp_path):
    found = read_dataset(write(tmp_path / "x.json", squad(asked("a", "住在", 13), asked("b", "住在", 5))))
    assert [question.begins for question in found.questions] == [[TEXT.rindex("住在")], [TEXT.index("住在")]]


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ([], "no question"),
        ({"data": [{}]}, "data 1: 'paragraphs'"),
        (squad({"id": "a", "answers": []}), "question 1: 'question'"),
        (squad(asked("a", "北京"), asked("a", "北京")), "'a'"),
        (squad(asked("a", "北京", "4")), "'4'"),
        (squad({"id": "a", "question": "谁？", "answers": []}), "no answer"),
        (squad(asked("a", "北京"), context=" \n"), "empty"),
        ("text", "'data'"),
    ],
)
def test_a_data_sets_mistakes_are_named(tmp_path, values, word):
    with pytest.raises(UserError, match=rf"x\.json.*{word}"):
        read_dataset(write(tmp_path / "x.json", values))


def test_a_file_that_is_no_json_is_named(tmp_path):
    (tmp_path / "x.json").write_text("{", encoding="utf-8")
    with pytest.raises(UserError, match=r"x\.json"):
        read_dataset(tmp_path / "x.json")


# Scores, worked out by hand


@pytest.mark.parametrize(
    ("answer", "given", "f1"),
    [
        ("1963年", "于1963年", 2 * 2 / (2 + 3)),  # 1963 is one part
        ("光荣和ω-force", "光荣和", 2 * 3 / (4 + 3)),  # ωforce is one, without the hyphen
        ("甲乙丙丁", "甲乙、戊丁", 2 * 2 / (4 + 4)),  # only the longest run counts, and marks do not
        ("《狂人日记》", "狂人日记。", 1.0),
        ("New York", "纽约 new york", 2 * 2 / (2 + 4)),
        ("甲", "乙", 0.0),
        ("甲", "", 0.0),
    ],
)
def test_f1_of_cmrc(answer, given, f1):
    assert cmrc_f1(answer, given) == pytest.approx(f1)


@pytest.mark.parametrize(
    ("answer", "given", "f1"),
    [
        ("the Eiffel Tower", "Eiffel tower.", 1.0),
        ("Eiffel Tower", "in the Eiffel Tower of Paris", 2 * 2 / (2 + 5)),
        ("to be or not to be", "to be", 2 * 2 / (6 + 2)),
        ("be to", "to be", 1.0),  # whatever the order
        ("a", "the", 0.0),
    ],
)
def test_f1_of_squad(answer, given, f1):
    assert squad_f1(answer, given) == pytest.approx(f1)


def test_rouge_l_takes_the_best_precision_and_the_best_recall():
    assert rouge_l(["abcde"], "acx") == pytest.approx(2.44 * (2 / 3) * (2 / 5) / (2 / 5 + 1.44 * 2 / 3))
    assert rouge_l(["acx", "ab"], "acb") == pytest.approx(2.44 * (2 / 3) * 1 / (1 + 1.44 * 2 / 3))
    assert rouge_l(["ab"], "ab") == 1 and rouge_l(["ab"], "c") == rouge_l(["ab"], "") == 0


def test_a_question_has_the_score_of_its_best_answer():
    one = Passage(TEXT, [Question("a", "", ["老师", "医生"], [0, 14]), Question("b", "", ["北京"], [4])])
    found = score([one, one], {"a": "医生。"}, "zh")
    assert found.exact.tolist() == [1, 0, 1, 0] and found.f1.tolist() == [1, 0, 1, 0]
    assert found.passage.tolist() == [0, 0, 1, 1] and found.figures()["exact"] == 0.5
    assert found.unanswered == 2 and "2 of them without" in str(found)
    assert score([one], {"a": "", "b": "《北 京》"}, "zh").exact.tolist() == [0, 1]


def test_the_bootstrap_resamples_passages():
    """100 questions of one of eleven passages are better: with (10/11)^11 no resample has that passage."""
    passage = np.repeat(np.arange(11), [100, *[10] * 10])
    mine, other = (passage == 0).astype(float), np.zeros(len(passage))
    found = difference(mine, other, passage)
    assert found.mean == 0.5 and found.low == 0 and found.p == pytest.approx(2 * (10 / 11) ** 11, abs=0.03)
    assert difference(other + 0.1, other, passage).p == pytest.approx(2 / 10_001)
    assert difference(other, other, passage).p == 1


# The network


@pytest.fixture(scope="module")
def network() -> BiDAF:
    paddle.seed(5)
    net = BiDAF(Settings(use_elmo=False, **SMALL), len(WORDS))
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
        h = gru(w["word_embedding.weight"][WORDS.ids(tokens)], w, "context")
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
        logits = network(batch_of(groups, WORDS)).numpy()
    rows = [(one.window, asked.question) for one in groups for asked in one.asked]
    for found, (window, question) in zip(logits, rows, strict=True):
        n = len(window.tokens)
        np.testing.assert_allclose(found[:, :n].T, reference(network, window, question), rtol=1e-4, atol=1e-5)
        assert (found[:, n:] < NEVER / 2).all()


def test_the_loss_is_minus_the_log_probability_of_both_ends(network):
    one = group(TEXT, "谁住在上海？")
    first, last = np.log(softmax(reference(network, one.window, one.asked[0].question).T))
    assert network.loss(batch_of([one], WORDS)).item() == pytest.approx(-first[1] - last[2], rel=1e-4)


def test_the_best_span_is_legal_and_the_best():
    logits = np.random.default_rng(1).standard_normal((20, 2, 9)).astype(np.float32)
    for longest in (1, 3, 9, 50):
        for row, (first, last, total) in zip(logits, best_spans(logits, longest), strict=True):
            legal = [(i, j) for i in range(9) for j in range(i, min(9, i + longest))]
            assert (first, last) == max(legal, key=lambda span: row[0, span[0]] + row[1, span[1]])
            assert total == pytest.approx(row[0, first] + row[1, last])


# ELMo in it


@pytest.fixture(scope="module")
def with_elmo(checkpoints) -> BiDAF:
    paddle.seed(5)
    net = BiDAF(Settings(**SMALL), len(WORDS), checkpoints["char"])
    net.eval()
    return net


def test_elmo_is_at_the_input_and_at_the_output_of_the_encoder(with_elmo):
    batch = batch_of([group(), group("北京。", "谁住在北京？")], WORDS)
    with_elmo.train()  # without dropout
    with_elmo.loss(batch).backward()
    with_elmo.eval()
    mixes = with_elmo.encoder.elmo.mixes
    assert len(mixes) == 2 and all(np.abs(mix.scalars.grad.numpy()).min() > 0 for mix in mixes)
    assert all(weight.grad is None for weight in with_elmo.encoder.elmo.bilm.parameters())
    before = with_elmo(batch).numpy()
    for mix in mixes:
        mix.gamma.set_value(paddle.to_tensor([0.5]))
        assert np.abs(with_elmo(batch).numpy() - before).max() > 1e-4
        mix.gamma.set_value(paddle.to_tensor([1.0]))


@pytest.mark.parametrize(("gigabytes", "bound"), [(1.0, 1e-6), (1e-9, 2.0**-11)])
def test_layers_are_computed_once_and_kept_in_memory_or_in_float16_on_the_disk(
    with_elmo, tmp_path, monkeypatch, gigabytes, bound
):
    text = Text.of(TEXT, "zh")
    chosen = [Window.whole(text), Window(text, 3, 9), Window.whole(Text.of("医生在银行？", "zh"))]
    layers = with_elmo.layers
    fresh = layers.of(chosen)
    layers.keep([text, chosen[2].text], gigabytes, tmp_path)
    assert (gigabytes == 1.0) == (not any(isinstance(array, np.memmap) for array in layers.kept.values()))
    monkeypatch.setattr(elmo.ELMoEmbedder, "encode", None)  # nothing is computed again
    kept = layers.of(chosen)
    assert fresh.mask.numpy().sum(axis=1).tolist() == [len(window.tokens) for window in chosen]
    for one, other in zip(fresh.layers, kept.layers, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=bound, atol=1e-6)
    layers.kept = {}


def test_a_windows_layers_are_those_of_its_sentences(with_elmo):
    text = Text.of(TEXT, "zh")
    (layer, *_), mask = with_elmo.encoder.elmo.layers(text.sentences)
    expected = np.concatenate([row[: int(n)] for row, n in zip(layer.numpy(), mask.numpy().sum(axis=1), strict=True)])
    found = with_elmo.layers.of([Window(text, 3, 9)])
    np.testing.assert_allclose(found.layers[0].numpy()[0], expected[3:9], rtol=1e-5, atol=1e-6)


# Training


def test_what_cannot_be_learnt_from_is_counted(messages):
    one = passage("老师住在北京。" * 3, {"老师住在哪里？": "北京", "谁住在北京？": "师住"})
    one.questions += [Question("lost", "谁？", ["广州"], [None]), Question("long", "谁？", ["北京。老师住在"], [4])]
    prepared = Prepared(one, "zh")
    groups = training_groups([prepared], Reading(window=5, stride=5))
    assert [(one.window.begin, [asked.id for asked in one.asked]) for one in groups] == [(0, ["q0", "q1"])]
    assert "1 begin or end within a word, 1 are not in their passage, 1 are in no window" in messages()
    with pytest.raises(UserError, match="No question"):
        training_groups([], Reading())


def test_rare_words_are_unknown():
    assert training_words([Prepared(passage("老师住在北京。", {}), "zh")] * 2, 3).tokens == list(MARKERS)
    assert "北京" in training_words([Prepared(passage("老师住在北京。", {}), "zh")] * 2, 2)


def test_the_mean_of_the_weights_takes_their_place_and_gives_it_back():
    weight = paddle.to_tensor([0.0])
    means = MeanWeights([weight], 0.15)
    for value in (1.0, 2.0):
        weight.set_value(paddle.to_tensor([value]))
        means.update()  # with decay 0.1 and 0.15
    with means.in_place():
        assert weight.item() == pytest.approx(0.15 * 0.9 + 0.85 * 2.0)
    assert weight.item() == 2.0


@pytest.mark.parametrize("elmo", [False, True])
def test_a_reader_learns_and_is_loaded_as_it_was(checkpoints, tmp_path, elmo, no_fsync):
    paddle.seed(1)
    other = passage(
        "医生住在北京。她在学校工作。老师住在上海。", {"医生住在哪里？": "北京", "谁住在上海？": "老师"}, "r"
    )
    passages = [passage(), other]
    prepared = [Prepared(one, "zh") for one in passages]
    pretrained = Pretrained.of(checkpoints["char"]) if elmo else None
    settings = Settings(use_elmo=elmo, word_emb_dim=8, hidden_dim=8, dropout=0.0, elmo_dropout=0.0)
    reader = Reader(settings, Reading(), training_words(prepared, 1), pretrained)
    if elmo:
        reader.network.layers.keep((text for one in prepared for text in one.texts()), 1.0, tmp_path)
    schedule = Schedule(epochs=30, patience=0, batch_size=1, base_learning_rate=0.02, ema=0.5)
    best = train(reader, prepared, prepared, schedule, tmp_path / "reader")
    assert best.scores.f1.mean() == 1 and len(reader.mixes()) == 2 * elmo
    answers, loaded = reader.answers(prepared), Reader.load(tmp_path / "reader")
    assert loaded.reading == reader.reading and loaded.settings == settings
    again = loaded.answers(prepared)
    assert {id: answer.text for id, answer in again.items()} == {id: answer.text for id, answer in answers.items()}
    for one in passages:
        for question in one.questions:
            found = again[question.id]
            assert found.text == one.text[found.begin : found.end] == question.answers[0]


def test_training_ends_without_a_better_epoch(messages):
    prepared = [Prepared(passage(), "zh")]
    reader = Reader(Settings(use_elmo=False, **SMALL), Reading(), WORDS)
    best = train(reader, prepared, prepared, Schedule(epochs=9, patience=2, base_learning_rate=1e-9))
    assert best.epoch == 1 and messages().count("epoch ") == 3


def test_the_best_answer_over_all_windows_is_taken(network):
    reader = Reader(Settings(use_elmo=False, **SMALL), Reading(window=6, stride=3, max_answer=2), WORDS)
    reader.network = network
    one = Prepared(passage(TEXT * 3, {"谁住在上海？": "医生"}), "zh")
    (found,) = reader.answers([one]).values()
    asked = [Asked("q0", one.questions[0][1])]
    logits = [network(batch_of([Group(window, asked)], WORDS)).numpy() for window in windows(one.text, 6, 3)]
    assert found.score == pytest.approx(max(next(best_spans(one, 2))[2] for one in logits), rel=1e-4)
    assert found.text == one.text.text[found.begin : found.end]


@pytest.mark.parametrize("words", ["", "　", "\u200b"])
def test_a_question_without_words_gets_an_answer(network, words):
    reader = Reader(Settings(use_elmo=False, **SMALL), Reading(), WORDS)
    one = Prepared(Passage(TEXT, [Question("a", words, ["老师"], [0])]), "zh")
    assert reader.answers([one])["a"].text in TEXT


@pytest.mark.skipif(not Path(runs.PROJECT, "../shared/data/cmrc2018").is_dir(), reason="needs ../shared/data/cmrc2018")
def test_cmrc_is_read_whole():
    folder = Path(runs.PROJECT, "../shared/data/cmrc2018")
    for name, questions in (("train", 10_142), ("trial", 1_002), ("dev", 3_219)):
        assert len(read_dataset(folder / f"{name}.json").questions) == questions
