"""The tagger: what it reads for a token, its predictions, and their independence of the batch."""

import copy
import json
import random
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
from label_rules import LABELS, is_allowed

from elmo import ELMoEmbedder
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError
from elmo_core.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from elmo_tasks import Classifier, ClassifierSettings, Tagger, TaggerSettings
from elmo_tasks.tagging.data import Sentence
from elmo_tasks.tagging.tagger import detect_language
from elmo_tasks.texts import Text

SENTENCES = [["苹果", "很", "好"], ["q"], [], ["the", "bank", "of", "苹果", "x", "a", "river"]]
EXAMPLES = [Sentence(tokens, None) for tokens in SENTENCES]
SMALL = {"elmo": None, "word_dim": 5, "hidden_dim": 7, "n_layers": 1, "dropout": 0.0}
LEARNS = TaggerSettings(**SMALL, epochs=40, lr=0.03, batch_size=8, patience=8)


def random_tagger(labels=LABELS["lac"], **settings) -> Tagger:
    """A tagger with random weights, which are large enough for several labels to occur."""
    settings = TaggerSettings(**{**SMALL, "scheme": "lac", "lang": "none", **settings})
    parts = {"labels": labels, "words": ["苹果", "the", "of"], "known": None, "pieces": None}
    tagger = Tagger.create(settings, parts, "cpu")
    tagger.network.emission.weight.set_value(9 * tagger.network.emission.weight)
    tagger.network.eval()
    return tagger


def train(data, labels=None, settings=LEARNS, **options) -> Tagger:
    dev = data if labels is None else (data, labels)
    return Tagger.train(
        data, labels, dev=dev, settings=settings, progress=False, device="cpu", **options
    )


# The batch


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (None, {}),
        ("char", {"elmo_at": "both", "layers": "mix"}),
        ("word", {"layers": "top", "n_layers": 2, "char_cnn": True}),
        ("char", {"unit": "jieba", "elmo_at": "output"}),
    ],
)
def test_a_sentences_labels_do_not_depend_on_the_batch(checkpoints, kind, settings):
    tagger = random_tagger(elmo=checkpoints.get(kind), **settings)
    together = tagger.network(tagger.rows(EXAMPLES)).numpy()
    for row, example in enumerate(EXAMPLES):
        if example.tokens:
            alone = tagger.network(tagger.rows([example])).numpy()[0]
            np.testing.assert_allclose(together[row, : len(example.tokens)], alone, atol=1e-5)
    given = [[], *SENTENCES, SENTENCES[0] * 50]
    assert tagger.predict(given) == [tagger.predict([sentence])[0] for sentence in given]


def batch_shapes(task, given, monkeypatch) -> list[tuple[int, int]]:
    """The rows and steps of the batches in which a task predicts."""
    shapes = []
    collate = task.collate

    def collated(examples):
        batch = collate(examples)
        shapes.append(batch.rows.mask.shape)
        return batch

    monkeypatch.setattr(task, "collate", collated)
    assert len(task.predict(given)) == len(given)
    return shapes


@pytest.mark.parametrize("name", ["tagger", "classifier"])
def test_a_batch_has_a_bound_on_its_tokens(name, monkeypatch):
    generator = random.Random(1)
    given = [["x"] * generator.randint(1, 60) for _ in range(80)]
    task = random_tagger()
    if name == "classifier":
        settings = ClassifierSettings(elmo=None, word_dim=3, head="mean", lang="none")
        parts = {"labels": ["a", "b"], "pairs": False, "words": ["x"]}
        several = {"multi_label": False, "threshold": None}
        task = Classifier.create(settings, {**parts, **several}, "cpu")
        given = [" ".join(tokens) for tokens in given]
    monkeypatch.setattr(task, "batch_tokens", 50)
    shapes = batch_shapes(task, given, monkeypatch)
    assert sum(rows for rows, _ in shapes) == 80 and max(rows for rows, _ in shapes) > 1
    assert all(
        rows * steps <= 50 for rows, steps in shapes if rows > 1
    )  # a longer one is a batch of its own


def test_the_length_of_a_text_is_that_of_all_its_tokens():
    pair = Text(("a b", "c"), tokens=(["a", "b"], ["c"]))
    assert Classifier.length(None, pair) == 3


# Predictions


@pytest.mark.parametrize("scheme", sorted({*LABELS} - {"plain"}))
def test_no_prediction_breaks_the_rules_of_the_scheme(scheme):
    tagger = random_tagger(LABELS[scheme], scheme=scheme, char_cnn=True)
    generator = random.Random(2)
    sentences = [generator.choices("abcdefgh", k=n) for n in (1, 2, 3, 5, 8, 13, 21, 34)]
    predicted = tagger.predict(sentences)
    assert all(is_allowed(labels, scheme) for labels in predicted)
    assert len(set(chain.from_iterable(predicted))) > 2


def test_the_score_of_a_token_is_its_probability():
    tagger = random_tagger(LABELS["plain"], scheme="plain")
    (span,) = tagger.spans(["苹果"])[0]
    crf = tagger.network.crf
    scores = tagger.network(tagger.rows([Sentence(["苹果"], None)]))[0, 0] + crf.start + crf.stop
    expected = paddle.nn.functional.softmax(scores).max().item()
    assert span.score == pytest.approx(expected, abs=1e-6) and 0.34 < span.score < 1


def test_scores_of_spans_are_those_of_the_text_alone():
    tagger = random_tagger(LABELS["bio"], scheme="bio")
    texts = ["the 苹果 of", "苹果 的 苹果", "of", ""]
    for text, spans in zip(texts, tagger.spans(texts), strict=True):
        (alone,) = tagger.spans([text])
        assert [span[:4] for span in spans] == [span[:4] for span in alone]
        assert [span.score for span in spans] == pytest.approx(
            [span.score for span in alone], abs=1e-5
        )
        assert list(tagger.iter_spans(iter([text]))) == [alone]


def test_each_line_of_a_text_is_a_sentence():
    tagger = random_tagger(LABELS["bio"], scheme="bio", char_cnn=True)
    lines = ["the 苹果 of", "", "苹果 the\r", "a b c d e f g h"]
    text = "\n".join(lines)
    expected = []
    begin = 0
    for line, spans in zip(lines, tagger.spans(lines), strict=True):
        expected += [(begin + span.begin, begin + span.end, span.label) for span in spans]
        begin += len(line) + 1
    for spans in (*tagger.spans([text, text]), *tagger.iter_spans(iter([text]))):
        assert [(span.begin, span.end, span.label) for span in spans] == expected and len(spans) > 2
        assert all(
            text[span.begin : span.end] == span.text and "\n" not in span.text for span in spans
        )
    assert tagger.spans(["\n"]) == [[]]


@pytest.mark.parametrize("wrong", [None, 123, {"text": "a"}])
def test_what_is_no_text(wrong):
    with pytest.raises(TypeError, match=r"text 1: .*a text"):
        random_tagger().spans(["a", wrong])


def test_a_text_is_raw_or_tokens_one_or_several():
    tagger = random_tagger()
    raw = [" ".join(tokens) for tokens in SENTENCES[:3]]
    labels = tagger.predict(SENTENCES[:3])
    assert tagger.predict(raw) == list(tagger.iter_predict(iter(raw))) == labels
    assert tagger.predict(raw[0]) == labels[0]
    assert tagger.predict("\n".join(raw)) == list(chain.from_iterable(labels))
    spans = tagger.spans(raw)
    assert list(tagger.iter_spans(iter(raw))) == spans
    assert [span[:4] for span in tagger.spans(raw[0])] == [span[:4] for span in spans[0]]


def test_what_is_no_list_of_texts():
    tagger = random_tagger()
    for wrong in (3, None, (text for text in ["a"]), {"text": "a"}, [{"text": "a"}]):
        with pytest.raises(TypeError, match="texts"):
            tagger.predict(wrong)
    for wrong in (3, "a", {"text": "a"}):
        with pytest.raises(TypeError, match="texts"):
            tagger.iter_predict(wrong)


def test_raw_text_where_tokens_are_expected():
    with pytest.raises(TypeError, match="sentence 0") as error:
        train(["raw text"], [["O", "O"]])
    assert "encode_texts" not in str(error.value)


def test_a_folder_is_needed():
    with pytest.raises(TypeError, match=r"Tagger\.train"):
        Tagger()


def test_labels_that_are_a_long_string(tmp_path):
    """As in a folder that was tampered with: a message, and soon."""
    random_tagger().save(tmp_path / "tagger")
    path = tmp_path / "tagger/config.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    values["parts"]["labels"] = "x" * 100_000
    path.write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(UserError, match="labels"):
        Tagger(tmp_path / "tagger", device="cpu")


def test_threads_share_a_tagger(checkpoints):
    tagger = random_tagger(elmo=checkpoints["word"])
    expected = tagger.predict(SENTENCES)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(tagger.predict, [SENTENCES] * 12)) == [expected] * 12


# What a token is


@pytest.mark.parametrize(
    ("sentences", "lang"),
    [
        (["The cat", "sat 在"], "en"),
        (["我 爱 iPhone", "好"], "characters"),
        (["我 爱 北京"], "zh"),
    ],
)
def test_how_raw_text_is_split_is_recognised_from_the_tokens(sentences, lang):
    tokens = " ".join(sentences).split()
    assert detect_language(tokens, "auto") == lang
    assert detect_language(tokens, "none") == "none"


CHARACTERS = [*"北京大学的学生", "iPhone", *"手机。"]
WORDS = ["北京大学", "的", "学生", "iPhone", "手机", "。"]


def test_characters_get_elmos_vectors_of_jiebas_words(checkpoints):
    tagger = random_tagger(elmo=checkpoints["char"], unit="jieba", layers="top", elmo_at="output")
    (vectors,) = ELMoEmbedder(checkpoints["char"], layers="top").encode([WORDS])
    expected = np.repeat(vectors, [4, 1, 2, 1, 2, 1], axis=0)
    examples = [Sentence(CHARACTERS, None), Sentence(CHARACTERS[:2], None)]
    for is_cached in (False, True):
        if is_cached:
            tagger.network.inputs.cache([tagger.rows(examples)], False)
        found = tagger.network.inputs(tagger.rows(examples)).elmo.numpy()
        np.testing.assert_allclose(found[0], expected, atol=1e-5)
        assert not found[1, 2:].any()


def test_characters_get_the_files_vectors_of_jiebas_words(tmp_path):
    (tmp_path / "v.txt").write_text("2 1\n北京大学 1\n学生 4\n", encoding="utf-8")
    tagger = random_tagger(word_vectors=tmp_path / "v.txt", unit="jieba")
    found = tagger.vectors.lookup(tagger.rows([Sentence(CHARACTERS, None)]))
    assert found[0, :, 0].tolist() == [1, 1, 1, 1, 0, 4, 4, 0, 0, 0, 0]


def test_jiebas_words_are_those_of_the_users_dictionary(checkpoints):
    tagger = random_tagger(elmo=checkpoints["char"], unit="jieba", user_dict=["云原生 100000 n"])
    assert tagger.rows([Sentence(list("云原生很"), None)]).units == [["云原生"] * 3 + ["很"]]


# What is known of words


WORD_LABELS = ["n", "n-B", "n-I", "v", "v-B", "v-I"]


def word_tagger(prefers: str, labels=WORD_LABELS, **settings) -> Tagger:
    """A tagger of characters that by far prefers one label."""
    tagger = random_tagger(labels, **{"lang": "characters", **settings})
    bias = np.where(np.array(labels) == prefers, 99, 0).astype(np.float32)
    tagger.network.emission.bias.set_value(bias)
    return tagger


def words(tagger: Tagger, text: str) -> str:
    return " ".join(span.text for span in tagger.spans(text))


def test_words_obey_what_is_known_of_them():
    assert words(word_tagger("v"), "看GitHub 好，1,000.5万 ") == "看 GitHub 好 ， 1,000.5 万"
    assert words(word_tagger("n-I"), "看GitHub 好人，去 12年") == "看GitHub 好人 ， 去 12年"
    texts = ["a1 b2", "", "我，a1"]
    labels = [["v-B", "v-I", "v-B", "v-I"], [], ["v", "v", "v-B", "v-I"]]
    found = word_tagger("v").predict(texts)
    assert [[label[1:] for label in row] for row in found] == [
        [label[1:] for label in row] for row in labels
    ]
    assert [list(row) for row in word_tagger("v").iter_predict(iter(texts))] == found


def test_given_tokens_obey_it_too():
    sentences = [list("看a1"), ["看", "，"]]
    tagger = word_tagger("v", ["v", "v-B", "v-I"])
    tagger.parts["known"] = []
    labels = [["v", "v-B", "v-I"], ["v", "v"]]
    assert tagger.predict(sentences) == labels
    assert tagger.evaluate(sentences, labels)["f1"] == 1


def test_the_probability_of_a_word_is_among_those_that_obey():
    labels = ["v-B", "v-I"]
    scores = [span.score for span in random_tagger(labels, lang="characters").spans("a1 2")]
    assert scores == pytest.approx([1, 1])
    unknown = random_tagger(labels).spans("a 1 2")
    assert min(span.score for span in unknown) < 0.999


@pytest.mark.parametrize(
    ("labels", "settings"),
    [
        (["O", "B-x", "I-x"], {"scheme": "bio"}),  # names
        (["n", "v"], {"scheme": "plain"}),
        (WORD_LABELS, {"lang": "none"}),  # tokens are words
    ],
)
def test_nothing_is_known_of_other_tokens(labels, settings):
    tagger = word_tagger(labels[-1], labels, **settings)
    expected = labels[-1] if labels[-1] == "v" else labels[-2]
    tokens = ["a", "，", "b", "1"]
    assert tagger.predict([tokens])[0][1:] == [labels[-1]] * 3 and expected in labels


@pytest.mark.parametrize("labels", [["B", "E", "S"], ["B", "I"], ["n", "v"], ["n-B", "n-I"]])
def test_the_scheme_holds_where_no_label_obeys(labels):
    scheme = "lac" if "n" in labels[0] else "bioes"
    if labels == ["B", "I"]:
        scheme = "iob1"
    tagger = random_tagger(labels, lang="characters", scheme=scheme)
    for text in ("12345", "a，1234567 8"):
        found = "".join(tagger.predict(text))
        assert scheme != "bioes" or re.fullmatch("(S|BE)+", found)
        assert scheme != "iob1" or found.startswith("I")
        assert all(0 <= span.score <= 1 for span in tagger.spans(text))


# The user's dictionary


def test_a_loaded_tagger_keeps_the_words_of_a_dictionary_whole(tmp_path):
    word_tagger("n").save(tmp_path / "tagger")
    (tmp_path / "words").write_text("云计算 5 v\n大数据\n", encoding="utf-8")
    text = "学云计算 大数 据，"
    assert words(Tagger(tmp_path / "tagger"), text) == "学 云 计 算 大 数 据 ，"
    for user_dict in (tmp_path / "words", ["云计算 5 v", "大数据"]):
        tagger = Tagger(tmp_path / "tagger", user_dict=user_dict)
        spans = tagger.spans(text)
        assert [span.text for span in spans] == ["学", "云计算", "大数 据", "，"]
        assert spans[1].label == "v"
        assert words(copy.deepcopy(tagger), text) == words(tagger, text)
    tagger.save(tmp_path / "saved")
    assert words(Tagger(tmp_path / "saved"), text) == words(tagger, text)
    later = Tagger(tmp_path / "saved", user_dict=["大数据 0", "计算"])
    assert words(later, text) == "学 云计算 大 数 据 ，"
    assert Tagger(tmp_path / "tagger", user_dict=[]).predict("云") == ["n"]


def test_the_dictionary_of_the_training_counts_in_prediction():
    sentences = [list("云计算好"), list("好")] * 4
    labels = [["n", "n", "n", "v"], ["v"]] * 4
    settings = replace(LEARNS, scheme="lac", epochs=0)
    tagger = train([*sentences, list("云计")], [*labels, ["n-B", "n-I"]], settings)
    assert tagger.settings.lang == "characters"
    settings = replace(settings, user_dict=["云计算"])
    tagger = train([*sentences, list("云计")], [*labels, ["n-B", "n-I"]], settings)
    assert words(tagger, "云计算") == "云计算"


def test_the_dictionary_is_jiebas_if_tokens_are_its_words(tmp_path):
    tagger = random_tagger(lang="zh", user_dict=["很学云 999999"], char_cnn=True)
    tagger.save(tmp_path / "tagger")
    tagger = Tagger(tmp_path / "tagger", user_dict=["云原生 999999 any"])
    assert tagger.line("云原生很学云").words == ["云原生", "很学云"]


@pytest.mark.parametrize(
    ("labels", "settings", "message"),
    [
        (WORD_LABELS, {"lang": "en"}, "user_dict.*en"),
        (["O", "B-x", "I-x"], {"lang": "characters", "scheme": "bio"}, "user_dict.*labels"),
        (WORD_LABELS, {"lang": "characters"}, "云 .* x"),  # no such tag
    ],
)
def test_dictionaries_that_a_tagger_cannot_use(tmp_path, labels, settings, message):
    random_tagger(labels, **settings).save(tmp_path / "tagger")
    with pytest.raises(UserError, match=message):
        Tagger(tmp_path / "tagger", user_dict=["云 x"])
    sentences = [["云", "a"], ["云"]]
    settings = replace(LEARNS, epochs=0, user_dict=["云 x"], **{"scheme": "lac", **settings})
    with pytest.raises(UserError, match=message):
        train(sentences, [labels[1:3], labels[1:2]], settings)


# Training


def test_unknown_words_and_known_ones_are_scored():
    sentences = [["北", "京", "爱", "山"]] * 8
    labels = [["n-B", "n-I", "v", "n"]] * 8
    tagger = train(sentences, labels)
    assert tagger.parts["known"] == ["北京", "山", "爱"]
    assert tagger.evaluate(sentences, labels)["unknown"]["words"] == 0
    assert tagger.evaluate([["北", "山"]], [["n-B", "n-I"]])["unknown"]["words"] == 1


@pytest.mark.parametrize(
    "content",
    [
        "我\tO\n爱\tO\n北\tB\n" * 9,
        "我 爱 北 京\tO O B I\n好\tO\n",  # a sentence per line
        "我\2爱\2北\2京\tO\2O\2B\2I\n好\tO\n",  # of PaddleNLP
    ],
)
def test_columns_without_a_blank_line(tmp_path, content):
    (tmp_path / "train.txt").write_text(content, encoding="utf-8")
    with pytest.raises(
        UserError, match=rf"train\.txt: .*{content.count(chr(10))} tokens.*blank line"
    ):
        Tagger.train(tmp_path / "train.txt", settings=LEARNS)


@pytest.mark.parametrize("kind", [None, "char"])
def test_a_tagger_learns(small_weights, kind):
    """`bank` is a verb after `the`; otherwise it forms a word with the token that follows."""
    generator = random.Random(4)
    sentences = []
    labels = []
    for _ in range(30):
        are_verbs = [generator.random() < 0.5 for _ in range(generator.randint(1, 5))]
        tokens = [["the", "bank"] if is_verb else ["bank", "q"] for is_verb in are_verbs]
        names = [["c", "v"] if is_verb else ["n-B", "n-I"] for is_verb in are_verbs]
        sentences.append(list(chain.from_iterable(tokens)))
        labels.append(list(chain.from_iterable(names)))
    settings = replace(LEARNS, scheme="lac", elmo=small_weights.get(kind))
    assert train(sentences, labels, settings).scores["dev"]["f1"] > 0.98


TAGGED = ["小明/nr 爱/v 苹果/n 。/w", "我/n 爱/v 北京大学/n ，/w", "苹果/n 很/c 好/v 。/w"]


@pytest.mark.parametrize(
    ("pieces", "tokens"),
    [(["苹果", "北京", "大学"], ["北京", "大学", "很", "好"]), (None, ["北京大学", "很", "好"])],
)
def test_words_with_tags_from_training_to_raw_text(tmp_path, pieces, tokens):
    """The spans are the words in the characters of the text.

    That is so whether tokens are pieces or whole words.
    """
    (tmp_path / "train").write_text("\n".join(TAGGED * 4), encoding="utf-8")
    settings = replace(LEARNS, data_format="tagged", lang="zh")
    if pieces:
        Vocabulary([*SPECIAL_TOKENS, *pieces]).save(tmp_path / "vocab.txt")
        settings = replace(settings, pieces=tmp_path / "vocab.txt")
    tagger = train(tmp_path / "train", settings=settings, save_dir=tmp_path / "tagger")
    assert tagger.settings.scheme == "lac" and tagger.scores["dev"]["f1"] == 1
    assert tagger.line("北京大学很好").tokens == tokens
    tagger = Tagger(tmp_path / "tagger")
    spans = tagger.spans(["苹果 很好。", "爱ＡＢ。"])
    assert [(span.text, span.label) for span in spans[0]] == [
        ("苹果", "n"),
        ("很", "c"),
        ("好", "v"),
        ("。", "w"),
    ]
    assert "".join(span.text for span in spans[1]) == "爱ＡＢ。"


def test_pieces_are_by_default_elmos_words(small_weights):
    sentences = [["苹", "果"], ["很"]] * 9
    labels = [["n-B", "n-I"], ["c"]] * 9
    settings = replace(LEARNS, epochs=0, elmo=small_weights["word"], lang="zh")
    tagger = train(sentences, labels, settings)
    assert tagger.line("苹果很好").tokens == ["苹果", "很", "好"]


def test_full_width_digits_among_characters_are_read_as_the_usual_ones():
    """Unless the training text has them."""
    for digits, tokens in (("25", "25年"), ("２５", "２５年")):
        sentence = [*digits, "年"]
        settings = replace(LEARNS, epochs=0, scheme="lac", lang="characters")
        tagger = train([sentence] * 9, [["TIME-B", "TIME-I", "TIME-I"]] * 9, settings)
        line = tagger.line("２５年")
        assert line.tokens == list(tokens) and line.words == list("２５年")


def test_full_width_marks_stay_if_they_are_pieces(tmp_path):
    (tmp_path / "train").write_text("苹果/n ，/w 很/c\n" * 9, encoding="utf-8")
    for words, mark in (["苹果", "，"], "，"), (["苹果"], ","):
        settings = replace(
            LEARNS, epochs=0, data_format="tagged", lang="zh", pieces=tmp_path / "vocab.txt"
        )
        Vocabulary([*SPECIAL_TOKENS, *words]).save(tmp_path / "vocab.txt")
        tagger = train(tmp_path / "train", settings=settings)
        assert mark in tagger.parts["words"] and tagger.line("很，").tokens == ["很", mark]
        assert tagger.line("很，").words == ["很", "，"]
