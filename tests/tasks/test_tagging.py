"""The tagger: label schemes, scores, files of labelled sentences, pieces of words, CRF, network, training."""

import itertools
import json
import random
import re
import sys
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tiny

from elmo import ELMoEmbedder
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError
from elmo_core.text.segmenter import segmenter
from elmo_core.text.tokens import SPECIAL_TOKENS, Vocabulary
from elmo_tasks.pretrained import PretrainedBiLM
from elmo_tasks.tagging.columns import read_columns
from elmo_tasks.tagging.crf import LinearChainCRF
from elmo_tasks.tagging.data import Labels, Sentence, detect_language, make_batch, training_batches
from elmo_tasks.tagging.formats import SentenceReader, segmented_sentence
from elmo_tasks.tagging.network import TaggerSettings
from elmo_tasks.tagging.pieces import PieceSplitter, joined_words
from elmo_tasks.tagging.scheme import detect_scheme, forbidden_transitions, spans, split_lac_label
from elmo_tasks.tagging.score import Counts, Score
from elmo_tasks.tagging.tagger import Tagger
from elmo_tasks.tagging.text import Span
from elmo_tasks.training import TrainingSettings, fit
from elmo_tasks.word_vectors import WordVectors

LABELS = Labels(["c", "n", "n-B", "n-I", "v", "v-B", "v-I", "w"])
TINY = {"scheme": "lac", "word_dim": 5, "hidden_dim": 7, "n_layers": 1, "dropout": 0.0, "elmo_dropout": 0.0}
SENTENCES = [["苹果", "很", "好"], ["q"], ["the", "bank", "of", "苹果", "x", "a", "river"]]


def tagger_of(vocabulary: Vocabulary, pretrained: str | None = None, **changes) -> Tagger:
    paddle.seed(1)
    return Tagger.create(
        settings=TaggerSettings(**{**TINY, **changes}),
        words=vocabulary,
        labels=LABELS,
        pretrained=pretrained and PretrainedBiLM.from_path(pretrained),
    )


def words_of(sentences: list[Sentence]) -> Vocabulary:
    return Vocabulary.frequent(token for sentence in sentences for token in sentence.tokens)


# Schemes and scores


@pytest.mark.parametrize(
    ("scheme", "labels", "expected"),
    [
        ("bio", "B-x I-x B-x O I-y", [(0, 2, "x"), (2, 3, "x"), (4, 5, "y")]),
        ("bio", "B-x I-y I-y", [(0, 1, "x"), (1, 3, "y")]),
        ("iob1", "I-x I-x B-x I-x I-y", [(0, 2, "x"), (2, 4, "x"), (4, 5, "y")]),
        ("bioes", "B-x I-x E-x S-x S-x", [(0, 3, "x"), (3, 4, "x"), (4, 5, "x")]),
        ("bioes", "E-x I-x E-x O I-x", [(0, 1, "x"), (1, 3, "x"), (4, 5, "x")]),
        ("bioes", "B-x S-x I-x E-y", [(0, 1, "x"), (1, 2, "x"), (2, 3, "x"), (3, 4, "y")]),
        ("bioes", "B M L U", [(0, 3, ""), (3, 4, "")]),
        ("plain", "DT O", [(0, 1, "DT"), (1, 2, "O")]),
        ("lac", "n n v", [(0, 1, "n"), (1, 2, "n"), (2, 3, "v")]),
        ("lac", "n-B n-I n-I n-B", [(0, 3, "n"), (3, 4, "n")]),
        ("lac", "n n-I n-I", [(0, 1, "n"), (1, 3, "n")]),
        ("lac", "n-B O n-I O", [(0, 1, "n"), (2, 3, "n")]),
    ],
)
def test_spans_are_conllevals_chunks(scheme, labels, expected):
    assert spans(labels.split(), scheme) == expected


@pytest.mark.parametrize(
    ("scheme", "labels"),
    [
        ("bio", ["O B-x I-x", "B-y"]),
        ("bio", ["O I-x B-y"]),  # invalid, but not IOB1, whose B follows a span of its tag
        ("iob1", ["O I-x I-x B-x", "I-y"]),
        ("bioes", ["B M E S"]),
        ("plain", ["DT NN", "O"]),
        ("plain", ["B-x NN"]),
        ("plain", ["O O"]),
        ("bio", ["B I O", "B"]),
        ("iob1", ["O I I"]),
        ("bioes", ["O S-x"]),
        ("plain", ["S M", "L S"]),
        ("plain", ["S B O"]),
        ("plain", ["S-cut M-cut", "L-cut"]),
        ("plain", ["B-x I-x", "S"]),
    ],
)
def test_the_scheme_is_detected_from_the_labels(scheme, labels):
    assert detect_scheme([text.split() for text in labels]) == scheme


def test_a_warning_about_labels_that_look_like_spans(messages):
    assert detect_scheme([["S", "M"], ["L", "S"]]) == "plain" and "L, M, S" in messages()


@pytest.mark.parametrize(
    ("scheme", "names", "good", "bad"),
    [
        ("bio", "O B-x I-x I-y", ["O B-x I-x I-x", "B-x B-x"], ["I-x", "O I-x", "B-x I-y"]),
        ("iob1", "O B-x I-x I-y", ["I-x B-x I-x I-y"], ["B-x", "O B-x", "I-y B-x"]),
        ("bioes", "O B-x I-x E-x S-x", ["B-x I-x E-x S-x O"], ["B-x", "B-x I-x", "B-x O", "E-x", "S-x I-x", "B-x S-x"]),
        ("plain", "DT B-x I-x", ["I-x DT", "DT I-x"], []),
        ("lac", "n n-B n-I v-B v-I", ["n-B n-I n-I n", "n v-B", "v-B n-B n-I"], ["n-I", "n n-I", "n-B v-I", "v-I n-I"]),
    ],
)
def test_forbidden_transitions(scheme, names, good, bad):
    names = names.split()
    table, last = forbidden_transitions(names, scheme)

    def forbidden(text: str) -> bool:
        k = [-1, *map(names.index, text.split())]
        return any(table[a, b] for a, b in itertools.pairwise(k)) or bool(last[k[-1]])

    assert not any(map(forbidden, good)) and all(map(forbidden, bad))


@pytest.mark.parametrize(
    ("scheme", "gold", "predicted", "tags", "accuracy"),  # of each tag: correct, predicted, gold
    [
        ("bio", "B-x I-x O B-y", "B-x I-x O B-x", {"x": (1, 2, 1), "y": (0, 0, 1)}, 3 / 4),
        ("bio", "B-x I-x I-x", "B-x I-x B-x", {"x": (0, 2, 1)}, 2 / 3),
        ("bio", "B-x I-x O", "I-x I-x O", {"x": (1, 1, 1)}, 2 / 3),  # invalid, but the same span
        ("iob1", "I-x I-x B-x O", "I-x I-x I-x O", {"x": (0, 1, 2)}, 3 / 4),
        ("iob1", "I-x O I-x", "B-x O I-x", {"x": (2, 2, 2)}, 2 / 3),
        ("bioes", "S-x B-x E-x O", "S-x B-x I-x O", {"x": (2, 2, 2)}, 3 / 4),
        ("bioes", "B-x I-x E-x", "B-x E-x E-x", {"x": (0, 2, 1)}, 2 / 3),
        ("plain", "DT NN NN", "DT VB NN", {"DT": (1, 1, 1), "NN": (1, 1, 2), "VB": (0, 1, 0)}, 2 / 3),
        ("lac", "n-B n-I v n", "n-B n-I n n", {"n": (2, 3, 2), "v": (0, 0, 1)}, 3 / 4),
    ],
)
def test_scores_equal_those_computed_by_hand(scheme, gold, predicted, tags, accuracy):
    score, gold = Score(scheme=scheme), gold.split()
    score.add(["w"] * len(gold), gold, predicted.split())
    assert score.tags == {tag: Counts(*counts) for tag, counts in tags.items()} and score.accuracy == accuracy
    correct, n_predicted, n_gold = map(sum, zip(*tags.values(), strict=True))
    figures = score.total.precision, score.total.recall, score.total.f1
    assert figures == (correct / n_predicted, correct / n_gold, 2 * correct / (n_predicted + n_gold))


def test_counts_equal_paddles_chunk_eval():
    """Its scheme IOBES labels a word of one token S; ours uses the bare tag."""
    if not hasattr(paddle._C_ops, "chunk_eval"):
        pytest.skip(f"paddle {paddle.__version__} has no chunk_eval outside of static programs")
    generator = random.Random(2)
    tags, parts = ["n", "nr", "v"], {"B": 0, "I": 1, "": 3}
    labels = ["O", *(f"{tag}-{part}".rstrip("-") for tag in tags for part in parts)]

    def number(label: str) -> int:
        tag, part = split_lac_label(label)
        return 4 * len(tags) if tag == "O" else 4 * tags.index(tag) + parts[part]

    for _ in range(100):
        n = generator.randint(1, 12)
        gold, predicted = (generator.choices(labels, k=n) for _ in range(2))
        score = Score()
        score.add(["x"] * n, gold, predicted)
        inputs = [paddle.to_tensor([list(map(number, names))]) for names in (predicted, gold)]
        outputs = paddle._C_ops.chunk_eval(*inputs, paddle.to_tensor([n]), len(tags), "IOBES", [])
        n_predicted, n_gold, n_correct = (output.item() for output in outputs[3:])
        assert score.total == Counts(n_correct, n_predicted, n_gold)


@pytest.mark.parametrize(
    ("scheme", "tokens", "gold", "predicted", "known", "counts"),
    [
        ("bio", "New York Paris", "B-x I-x B-x", "B-x I-x O", {"New", "Paris"}, (1, 1, 1)),  # one token is unknown
        ("lac", "北 京 爱 山", "n-B n-I v n", "n-B n-I n n", {"山"}, (1, 2, 2)),  # the joined word is unknown
        ("lac", "北 京", "n-B n-I", "n-B n-I", None, (0, 0, 0)),
    ],
)
def test_unknown_words_are_scored_separately(scheme, tokens, gold, predicted, known, counts):
    score = Score(scheme=scheme)
    score.add(tokens.split(), gold.split(), predicted.split(), known)
    assert score.unknown == Counts(*counts) and ("unknown words" in score.table()) == any(counts)


def test_scores_of_word_segmentation_are_those_of_sighans_script():
    """Its counts are of the words at the same place; the recall of unknown ones is R_OOV."""
    known, sentences = {"北京", "大学", "爱", "学生"}, ["北京 大学 生", "爱 北京大学 学生"]
    score = Score(scheme="bioes", of_words=True)
    for gold, predicted in zip(sentences, ["北京 大学 生", "爱 北京 大学 学生"], strict=True):
        gold, predicted = (segmented_sentence(line, "") for line in (gold, predicted))
        score.add(gold.tokens, gold.labels, predicted.labels, known)
    assert score.tags == {"words": Counts(5, 7, 6)} and score.unknown == Counts(1, 1, 2) and score.unknown.recall == 0.5
    rows = [line.split("precision")[0].strip() for line in score.table().splitlines()]
    assert rows == ["words", "all", "unknown words"] and score.table().endswith("2 words")


def test_scores_are_pooled_by_subtype():
    score = Score(scheme="bio")
    score.add("abcd", ["B-PER.NAM", "B-LOC.NAM", "B-PER.NOM", "O"], ["B-PER.NAM", "O", "B-PER.NOM", "B-LOC.NOM"])
    assert score.subtypes == {"NAM": Counts(1, 1, 2), "NOM": Counts(1, 2, 1)} and "all .NAM" in score.table()
    assert score.to_dict()["subtypes"]["NAM"]["f1"] == pytest.approx(2 / 3)
    score.add("a", ["B-x"], ["O"])
    assert "subtypes" not in score.to_dict()


# Labelled sentences


def test_columns(tmp_path):
    path = tmp_path / "columns"
    text = "-DOCSTART- -X- O\n\nNew NNP B-x\nYork  NNP I-x\r\n\n\na b\tDT\tO\n\u3000\tSYM\tO"
    path.write_bytes(text.encode())
    assert read_columns(path) == [Sentence(["New", "York"], ["B-x", "I-x"]), Sentence(["a_b", "_"], ["O", "O"])]
    assert read_columns(path, token=2, label=1)[0] == Sentence(["B-x", "I-x"], ["NNP", "NNP"])
    path.write_text(
        "# newpar\n# sent_id = 1\n1\ta\tDT\n\n# global.Entity = b c\n# text =\n1\t#\tSYM\n", encoding="utf-8"
    )
    assert [sentence.tokens for sentence in read_columns(path, token=1)] == [["a"], ["#"]]


def test_characters_with_positions(tmp_path):
    path = tmp_path / "columns"
    path.write_text("科0\tO\n技1\tO\n110\tO\n��0\tO\n", encoding="utf-8")
    tokens = ["科", "技", "1", "��"]
    assert read_columns(path, segmentation="strip")[0].tokens == tokens
    positioned = read_columns(path, segmentation="feature")[0].tokens
    assert positioned == tokens and [token.position_in_word for token in positioned] == [0, 1, 10, 0]


def test_tagged_words_are_split_into_pieces_and_joined_again(tmp_path):
    (tmp_path / "f").write_text("小明/nr 爱/v 苹果/O 1/2/n //w 上海/O\n \n北京大学/n ，Ａ/w\n", encoding="utf-8")
    first, second = SentenceReader(pieces=PieceSplitter(["苹果", "北京", "大学", "，"])).read(tmp_path / "f")
    assert (first.where, second.where) == (f"{tmp_path / 'f'}:1", f"{tmp_path / 'f'}:3")
    labels = ["nr-B", "nr-I", "v", "O", "n-B", "n-I", "n-I", "w", "O", "O"]
    assert first == Sentence(["小", "明", "爱", "苹果", "1", "/", "2", "/", "上", "海"], labels)
    assert second == Sentence(["北京", "大学", "，", "A"], ["n-B", "n-I", "w-B", "w-I"])
    words = ["小明", "爱", "苹果", "1/2", "/", "上", "海"]
    assert joined_words(first.tokens, labels) == [*zip(words, ["nr", "v", "O", "n", "w", "O", "O"], strict=True)]
    assert joined_words(second.tokens, second.labels) == [("北京大学", "n"), ("，A", "w")]


def test_words_are_split_into_the_longest_pieces_in_half_width_characters():
    known = ["北京", "北京大", "大学", "学生", "A1", "，"]
    pieces = PieceSplitter(known)
    assert pieces.split("北京大学生") == ["北京大", "学生"]
    assert pieces.split("南京大学") == ["南", "京", "大学"]
    assert pieces.split("Ａ１") == ["A1"] and pieces.split("：") == [":"]
    assert pieces.split("，") == ["，"]  # the vocabulary contains it
    assert PieceSplitter(known, whole=True).split("北京Ａ") == ["北京A"]
    for character in map(chr, range(sys.maxunicode + 1)):
        kind, _, narrow = unicodedata.decomposition(character).partition(" ")
        if kind == "<wide>":
            wide = character in "，\u3000"  # a space would end the word
            assert pieces.normalised(character) == (character if wide else chr(int(narrow, 16)))


@pytest.mark.parametrize(
    "text",
    [
        "我\tO\n爱\tO\n北\tB\n京\tI\n\n好\tO\n",
        "我 爱 北 京\tO O B I\n\n好\tO\n",
        "我爱北京\tO O B I\n好\tO\n",
        "text_a\tlabel\n我\2爱\2北\2京\tO\2O\2B\2I\n好\tO\n",  # PaddleNLP's
        '{"tokens": ["我", "爱", "北", "京"], "ner_tags": ["O", "O", "B", "I"]}\n{"tokens": ["好"], "tags": ["O"]}\n',
        '{"names": ["O", "B", "I"]}\n{"tokens": ["我", "爱", "北", "京"], "labels": [0, 0, 1, 2]}\n\n'
        '{"tokens": ["好"], "labels": [0]}\n{"tokens": [], "labels": []}\n',
        '[\n {"id": 1, "tokens": ["我", "爱", "北", "京"], "ner_tags": ["O", "O", "B", "I"]},\n'
        ' {"tokens": ["好"], "ner_tags": ["O"]}\n]',
    ],
)
def test_formats_are_recognised(tmp_path, text):
    (tmp_path / "file").write_text(text, encoding="utf-8")
    expected = [Sentence([*"我爱北京"], [*"OOBI"]), Sentence(["好"], ["O"])]
    sentences = SentenceReader().read(tmp_path / "file")
    assert sentences == expected and all(sentence.where.startswith(f"{tmp_path / 'file'}:") for sentence in sentences)
    if "names" in text:
        (tmp_path / "file").write_text(text.partition("\n")[2].replace("labels", "x").replace("tokens", "y"), "utf-8")
        assert SentenceReader(token="y", label="x", label_names=["O", "B", "I"]).read(tmp_path / "file") == expected


def test_spans_that_tokens_cannot_encode_are_counted(tmp_path, messages):
    texts = [
        {
            "text": "New York is\nold.",
            "spans": [{"start": 0, "end": 6, "label": "A B"}, {"start": 4, "end": 8, "label": "X"}],
        },
        {"text": "It is.", "spans": [{"start": 2, "end": 3, "label": "X"}]},
        {"text": "No.", "spans": [{"start": 0, "end": 2, "label": "X"}], "answer": "reject"},
    ]
    (tmp_path / "file").write_text("\n".join(map(json.dumps, texts)), encoding="utf-8")
    first, second, third = SentenceReader().read(tmp_path / "file")
    assert first == Sentence(["New", "York", "is"], ["B-A_B", "I-A_B", "O"]) and second.tokens == ["old", "."]
    assert set(third.labels) == {"O"}
    for fault in ("within a token", "overlap", "without a token", "not annotated"):
        assert re.search(rf"file: [^:]*{fault}[^:]*: 1\. .*file:[123]", messages())
    sentences = SentenceReader(lang="any").read(tmp_path / "file")
    assert [sentence.tokens for sentence in sentences][1:] == [["old", "."], ["It", "is", "."]]


def test_results_of_label_studio_that_are_no_spans_are_left_out(tmp_path):
    span = {"value": {"start": 0, "end": 3, "labels": ["PER"]}}
    results = [span, {"value": {"choices": ["good"]}}, {"from_id": "a", "to_id": "b", "type": "relation"}]
    exported = [
        {"data": {"text": "Ann."}, "annotations": [{"result": results}]},
        {"data": {"text": "Bob."}, "annotations": []},
    ]
    (tmp_path / "file").write_text(json.dumps(exported, indent=1), encoding="utf-8")
    assert SentenceReader().read(tmp_path / "file") == [Sentence(["Ann", "."], ["B-PER", "O"])]


def test_brackets_of_the_peoples_daily_are_not_words(tmp_path):
    lines = [
        "19980101-01-001-001/m [ａ/nz 银行/n]nt [/w x]/y/n ]/w",
        "[北京/ns [大学/n 报/n]/nz 好/a",
        "19980101-01-001-001/n",
    ]
    (tmp_path / "f").write_text("\n".join(lines), encoding="utf-8")
    first, second, third = SentenceReader(pieces=PieceSplitter((), whole=True)).read(tmp_path / "f")
    assert first == Sentence(["a", "银行", "[", "x]/y", "]"], ["nz", "n", "w", "n", "w"])
    assert second == Sentence(["北京", "大学", "报", "好"], ["ns", "n", "n", "a"]) and third.labels == ["n"]


def test_characters_with_positions_are_hinted_at(tmp_path, messages):
    (tmp_path / "f").write_text("科0\tO\n技1\tO\n", encoding="utf-8")
    SentenceReader(segmentation="strip").read(tmp_path / "f")
    assert "segmentation" not in messages()
    SentenceReader().read(tmp_path / "f")
    assert "科0 技1" in messages() and "segmentation" in messages()


@pytest.mark.parametrize(
    ("sentences", "segmentation", "lang"),
    [
        (["The cat", "sat 在"], "none", "en"),
        (["我 爱 iPhone", "好"], "none", "characters"),
        (["我 爱 北京"], "none", "zh"),
        (["科 技"], "strip", "characters"),
        (["科 技"], "feature", "none"),
    ],
)
def test_how_text_is_tokenised_is_recognised_by_the_training_tokens(sentences, segmentation, lang):
    assert detect_language(map(str.split, sentences), segmentation) == lang


COLUMNS, TAGGED = SentenceReader("columns").read, SentenceReader("tagged", pieces=PieceSplitter(())).read
TSV, JSON = SentenceReader("tsv").read, SentenceReader("json").read


@pytest.mark.parametrize(
    ("read", "text", "where"),
    [
        (COLUMNS, "a\tO\nb\t\n", ":2:"),
        (COLUMNS, "\n\n", "no sentence"),
        (lambda path: read_columns(path, label=2), "a O\n\nb O\n", ":1:"),
        (lambda path: read_columns(path, label=0), "a O\n", ":1: column 0 "),
        (lambda path: read_columns(path, segmentation="strip"), "a0\tO\nb\tO\n", ":2:"),
        (TAGGED, "a/n\n\na/n b\n", ":3: 'b'"),
        (TAGGED, "/n\n", ":1:"),
        (TAGGED, "a/n\n\xff/n\n", ":2:"),
        (TAGGED, "a/n-B\n", ":1:.*'n-B'"),
        (TAGGED, " \n", "no sentence"),
        (TSV, "a\tO\n\na b\tO\n", ":3: 2 tokens and 1 label"),
        (TSV, "a b\n", ":1: 2 tokens and 0 labels"),
        (JSON, '{"tokens": ["a"], "labels": ["x"]}\n{"tokens": [', ":2: invalid JSON"),
        (JSON, '{"tokens": ["a", "b"], "labels": ["x"]}', ":1: 2 tokens and 1 label"),
        (JSON, '{"tokens": ["a"], "labels": [3]}', ":1: the label 3 .*`label_names`"),
        (JSON, '{"text": "a", "labels": ["x"]}', ":1: found the spans \\['x'\\]"),
        (JSON, '{"words": ["a"], "labels": ["x"]}', ":1: tokens is None.*'words'"),
        (JSON, '{"text": "Anna", "label": [[0, 5, "PER"]]}', ":1: found the spans .*4 characters"),
        (JSON, '{"text": "Anna", "label": {"PER": {"Ann": [[1, 3]]}}}', ":1: found the spans"),
        (JSON, '[{"text": "Anna", "spans": [{"start": 0}]}]', "object 1: found the spans"),
        (JSON, '{"text": "Anna"}', ":1: found the spans None.*'text'"),
        (SentenceReader().read, "".join(f"{'a ' * k}b\n" for k in range(1, 9)), "2 to 9 columns.*segmented"),
        (JSON, '[{"tokens": "a b"}]', "object 1: tokens is 'a b'"),
        (SentenceReader(feature=1).read, "a b\tO O\n", "tsv.*`feature_column`"),
        (SentenceReader(label="tags").read, "a O\n", "`label_column`"),
    ],
)
def test_a_faulty_file_is_an_error_with_the_line(tmp_path, read, text, where):
    (tmp_path / "file").write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match=f"file.*{where}"):
        read(tmp_path / "file")


# The CRF


def unrestricted(n_labels: int) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros((n_labels + 1, n_labels), dtype=bool), np.zeros(n_labels, dtype=bool)


def random_crf(n_labels: int, spread: float, *impossible) -> LinearChainCRF:
    crf = LinearChainCRF(*(impossible or unrestricted(n_labels)))
    generator = np.random.default_rng(n_labels)
    for weight in crf.parameters():
        weight.set_value(generator.normal(size=weight.shape, scale=spread).astype(np.float32))
    return crf


def path_score(crf: LinearChainCRF, emissions: np.ndarray, path) -> float:
    start, stop, transitions = (w.numpy().astype(np.float64) for w in (crf.start, crf.stop, crf.transitions))
    steps = sum(emissions[k, label] for k, label in enumerate(path))
    return start[path[0]] + stop[path[-1]] + steps + sum(transitions[a, b] for a, b in itertools.pairwise(path))


def all_paths(n_labels: int, length: int) -> list[tuple[int, ...]]:
    return list(itertools.product(range(n_labels), repeat=length))


@pytest.mark.parametrize("spread", [0.5, 30.0, 3000.0])
@pytest.mark.parametrize("lengths", [[1], [4, 1, 3]])
def test_the_loss_equals_enumeration(spread, lengths):
    n_labels, n_steps = 3, max(lengths)
    crf, generator = random_crf(n_labels, spread), np.random.default_rng(5)
    emissions = generator.normal(size=(len(lengths), n_steps, n_labels), scale=spread)
    labels = generator.integers(n_labels, size=(len(lengths), n_steps))
    loss = crf(paddle.to_tensor(emissions), labels, np.array(lengths)).numpy()
    for row, length in enumerate(lengths):
        scores = [path_score(crf, emissions[row], path) for path in all_paths(n_labels, length)]
        expected = np.logaddexp.reduce(scores) - path_score(crf, emissions[row], labels[row, :length])
        assert loss[row] == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("spread", [1.0, 2000.0])
def test_gradients_equal_finite_differences(spread):
    n_labels, lengths, labels = 3, np.array([3, 1, 2]), np.array([[0, 2, 1], [1, 0, 0], [2, 2, 0]])
    paddle.set_default_dtype("float64")
    try:
        crf = LinearChainCRF(*unrestricted(n_labels))
    finally:
        paddle.set_default_dtype("float32")
    generator = np.random.default_rng(3)
    crf.transitions.set_value(generator.normal(size=[n_labels, n_labels]) * spread)
    emissions = paddle.to_tensor(generator.normal(size=(3, 3, n_labels)), stop_gradient=False)
    crf(emissions, labels, lengths).sum().backward()
    for tensor in (emissions, crf.transitions, crf.start, crf.stop):
        gradient, values, step = tensor.grad.numpy(), tensor.numpy(), 1e-5
        for index in np.ndindex(*values.shape):
            ends = []
            for sign in (1, -1):
                moved = values.copy()
                moved[index] += sign * step
                tensor.set_value(moved)
                ends.append(float(crf(emissions, labels, lengths).sum()))
            tensor.set_value(values)
            assert gradient[index] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-6)


@pytest.mark.parametrize("lengths", [[1], [2, 2, 4, 3]])
@pytest.mark.parametrize(
    ("scheme", "names"), [("lac", "n-B n-I n v"), ("bioes", "O B-x I-x E-x S-x"), ("iob1", "O B-x I-x")]
)
def test_decoding_returns_the_best_labels_that_the_scheme_allows_and_their_probabilities(lengths, scheme, names):
    n_labels = len(names.split())
    table, last = forbidden_transitions(names.split(), scheme)
    generator = np.random.default_rng(len(lengths))
    for _ in range(20):
        crf = random_crf(n_labels, generator.uniform(0.1, 3), table, last)
        emissions = generator.normal(size=(len(lengths), max(lengths), n_labels)).astype(np.float32)
        decoded = crf.decode(paddle.to_tensor(emissions), np.array(lengths))
        for row, length in enumerate(lengths):
            possible = [
                path
                for path in all_paths(n_labels, length)
                if not any(table[a, b] for a, b in itertools.pairwise((-1, *path))) and not last[path[-1]]
            ]
            scores = np.array([path_score(crf, emissions[row], path) for path in possible])
            best, probabilities = possible[scores.argmax()], np.exp(scores - np.logaddexp.reduce(scores))
            assert tuple(decoded[row]) == best
            spans = list(itertools.combinations(range(length + 1), 2))
            expected = [
                sum(p for path, p in zip(possible, probabilities, strict=True) if path[begin:end] == best[begin:end])
                for begin, end in spans
            ]
            computed = crf.span_probabilities(emissions[row, :length], decoded[row], spans)
            np.testing.assert_allclose(computed, expected, rtol=1e-5)


# The network


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (None, {}),
        ("char", {"elmo_at": "input,output", "layers": "mix"}),
        ("word", {"layers": "top", "cell": "lstm", "n_layers": 2, "char_cnn": True, "segmentation": "feature"}),
    ],
)
def test_a_sentences_tags_do_not_depend_on_the_batch(checkpoints, kind, changes):
    tagger = tagger_of(Vocabulary([*SPECIAL_TOKENS, "苹果", "the", "of"]), checkpoints.get(kind), **changes)
    tagger.network.eval()
    together = tagger.network(make_batch(SENTENCES, tagger.words)).numpy()
    for row, sentence in enumerate(SENTENCES):
        alone = tagger.network(make_batch([sentence], tagger.words)).numpy()[0]
        np.testing.assert_allclose(together[row, : len(sentence)], alone, atol=1e-5)
    tags = tagger.predict([[], *SENTENCES, [], SENTENCES[0] * 50])
    assert tags[0] == tags[4] == []
    assert tags[1:4] == [tagger.predict([sentence])[0] for sentence in SENTENCES]
    assert tags[5] == tagger.predict([SENTENCES[0] * 50])[0]
    table, _ = forbidden_transitions(LABELS, "lac")
    path = [-1, *(LABELS.ids[label] for label in tags[5])]
    assert not any(table[a, b] for a, b in itertools.pairwise(path))


def test_spans_have_their_places_in_the_text(checkpoints):
    words = Vocabulary([*SPECIAL_TOKENS, "苹果", "the", "of"])
    tagger = tagger_of(words, checkpoints["char"], scheme="plain", lang="en")
    text = " “The  bank”… of\u200b 苹果"
    (spans, none, of_tokens) = tagger.spans([text, " ", ["The", "bank"]])
    assert [(span.begin, span.end) for span in spans] == [
        (1, 2),
        (2, 5),
        (7, 11),
        (11, 12),
        (12, 13),
        (14, 16),
        (18, 20),
    ]
    assert all(text[span.begin : span.end] == span.text and 0 < span.score <= 1 for span in spans) and none == []
    assert [span.label for span in spans] == tagger.predict([['"', "The", "bank", '"', "...", "of", "苹果"]])[0]
    assert [(span.begin, span.end, span.text) for span in of_tokens] == [(0, 3, "The"), (4, 8, "bank")]
    assert tagger.tokens([text, " ", ["The", "bank"]]) == [spans, none, of_tokens]
    alone = tagger.spans([["The", "bank"]])[0]
    assert [span.score for span in alone] == pytest.approx([span.score for span in of_tokens], abs=1e-5)
    tagger = tagger_of(words, lang="characters", scheme="lac")
    (span, *_) = tagger.spans(["苹果"])[0]
    assert span == Span(0, span.end, "苹果"[: span.end], span.label, span.score)
    assert sorted({span}) == [span] and span.to_dict()["label"] == span.label
    texts = ["苹果", [" ", "苹"], "", "果" * 9] * 20
    assert list(tagger.iter_spans(iter(texts))) == tagger.spans(texts)
    tokens = list(tagger.iter_tokens(iter(texts)))
    places = [[(token.begin, token.end, token.text) for token in row] for row in tokens[:3]]
    assert places == [[(0, 1, "苹"), (1, 2, "果")], [(0, 1, " "), (2, 3, "苹")], []]
    assert [[token.label for token in row] for row in tokens[:2]] == tagger.predict([[*"苹果"], [" ", "苹"]])
    assert tokens[0][0].score >= span.score - 1e-6  # the span's is the probability of all its labels together
    for texts in ("The bank", None):
        with pytest.raises(TypeError, match="list of texts"):
            tagger.spans(texts)
    for call in (tagger.spans, lambda texts: next(tagger.iter_predict(texts))):
        with pytest.raises(TypeError, match="expected a list of tokens"):
            call([None])
    with pytest.raises(TypeError, match="expected a list of tokens"):
        next(tagger.iter_predict(["苹果"]))  # its characters are no tokens
    assert tagger.spans([np.array(["苹", "果"])]) == tagger.spans([["苹", "果"]])


def test_threads_share_a_tagger(checkpoints):
    tagger = tagger_of(Vocabulary([*SPECIAL_TOKENS, "苹果"]), checkpoints["word"])
    expected = tagger.predict(SENTENCES)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(tagger.predict, [SENTENCES] * 12)) == [expected] * 12
    assert list(tagger.iter_predict(iter(SENTENCES))) == expected


def test_characters_get_the_vectors_of_jiebas_words(small_weights, tmp_path):
    tokens, words = [*"北京大学的学生", "iPhone", *"手机。"], ["北京大学", "的", "学生", "iPhone", "手机", "。"]
    vectors = ELMoEmbedder(small_weights["char"], layers="top").encode([words])[0]
    expected, batch = np.repeat(vectors, [4, 1, 2, 1, 2, 1], axis=0), [tokens, tokens[:2]]
    tagger, seen = (
        tagger_of(Vocabulary(SPECIAL_TOKENS), small_weights["char"], words="jieba", layers="top", elmo_at="output"),
        [],
    )
    tagger.network.eval()
    tagger.network.emission.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].numpy()))
    for cached in (False, True):
        if cached:
            tagger.network.elmo.cache([words, words[:1]], gigabytes=1)
        tagger.network(make_batch(batch, tagger.words))
        of_elmo = seen[-1][..., -vectors.shape[1] :]
        np.testing.assert_allclose(of_elmo[0], expected, atol=1e-5)
        assert not of_elmo[1, 2:].any()
    (tmp_path / "v.txt").write_text("2 3\n北京大学 1 2 3\n学生 4 5 6\n", encoding="utf-8")
    of_words = WordVectors(tmp_path / "v.txt").lookup([tokens], segmenter())
    assert of_words[0, :, 0].tolist() == [1, 1, 1, 1, 0, 4, 4, 0, 0, 0, 0]


# Training


def sentences_to_learn() -> list[Sentence]:
    """`bank` is a verb after `the`; otherwise it forms a word with the token that follows."""
    generator, sentences = random.Random(4), []
    for _ in range(30):
        verbs = [generator.random() < 0.5 for _ in range(generator.randint(1, 5))]
        tokens = [token for verb in verbs for token in (["the", "bank"] if verb else ["bank", "q"])]
        sentences.append(
            Sentence(tokens, [label for verb in verbs for label in (["c", "v"] if verb else ["n-B", "n-I"])])
        )
    return sentences


def train(tagger: Tagger, sentences: list[Sentence], dev: list[Sentence], settings: TrainingSettings):
    batches = training_batches(tagger.words, tagger.labels, sentences, settings.batch_size)
    return fit(tagger, batches, tagger.network.loss, lambda _: tagger.score(dev), settings)


@pytest.mark.parametrize("kind", [None, "char"])
def test_a_tagger_learns(small_weights, kind):
    sentences = sentences_to_learn()
    tagger = tagger_of(words_of(sentences), small_weights.get(kind))
    best = train(tagger, sentences, sentences[:9], TrainingSettings(epochs=60, batch_size=8, lr=0.02, patience=3))
    assert best.score.total.f1 > 0.98
    assert tagger.score(sentences[:9]).total == best.score.total


def test_learning_rates_of_the_parts(checkpoints):
    """Adam's first step is as long as the learning rate."""
    factors = {"emb_lr_factor": 5.0, "crf_lr_factor": 0.2}
    words = Vocabulary([*SPECIAL_TOKENS, *tiny.WORDS[3:]])
    tagger = tagger_of(words, checkpoints["word"], elmo_trainable=True, layers="mix", **factors)
    before = {name: weight.numpy().copy() for name, weight in tagger.network.state_dict().items()}
    sentence = Sentence(["苹果", "很"], ["n", "v"])
    train(tagger, [sentence], [sentence], TrainingSettings(epochs=1, lr=0.01, elmo_lr=0.001))
    for name, rate in {
        "word_embedding.weight": 0.05,
        "emission.weight": 0.01,
        "crf.transitions": 0.002,
        "elmo.bilm.token_encoder.embedding.weight": 0.001,
        "elmo.mixes.0.gamma": 0.01,
    }.items():
        change = np.abs(tagger.network.state_dict()[name].numpy() - before[name]).max()
        assert change == pytest.approx(rate, rel=1e-2), name


def test_rare_words_become_unknown_in_training(monkeypatch):
    sentences = [Sentence(["苹果"], ["n"])] * 50 + [Sentence(["好"], ["v"])]
    words = words_of(sentences)
    tagger, seen = tagger_of(words), []
    loss = tagger.network.loss
    monkeypatch.setattr(tagger.network, "loss", lambda batch: seen.extend(batch.ids.ravel().tolist()) or loss(batch))
    train(tagger, sentences, sentences[:1], TrainingSettings(epochs=40, patience=0))
    assert 8 <= seen.count(words.index["好"]) <= 32  # of 40; expected: 20
    assert 1900 < seen.count(words.index["苹果"]) < 2000  # of 2,000; expected: 1,961


def test_a_search_runs_elmo_once_and_keeps_nothing_of_it(checkpoints, messages):
    sentences = sentences_to_learn()[:6]
    columns = [s.tokens for s in sentences], [s.labels for s in sentences]
    settings = {"lr": [0.01, 0.02], "epochs": 1, "hidden_dim": 3, "n_layers": 1}
    tagger = Tagger.train(*columns, dev=columns, elmo=checkpoints["char"], scheme="lac", **settings)
    assert messages().count("ELMo's layers are computed once") == 1
    assert not tagger.network.elmo.cached and tagger.predict(columns[0])
