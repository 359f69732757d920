"""Scores of taggers on cases worked out by hand, and against Paddle's `chunk_eval`."""

import random

import pytest

from elmo_core.machine.runtime import paddle
from elmo_tasks.tagging.data import segmented_sentence
from elmo_tasks.tagging.scheme import split_lac_label
from elmo_tasks.tagging.score import TaggerScore


def score_of(
    scheme: str, tokens: str, gold: str, predicted: str, known=(), of_words: bool = False
) -> TaggerScore:
    score = TaggerScore(scheme, of_words, set(known))
    score.add(tokens.split(), gold.split(), predicted.split())
    return score


@pytest.mark.parametrize(
    ("scheme", "gold", "predicted", "tags", "accuracy"),  # of each tag: correct, predicted, gold
    [
        ("bio", "B-x I-x O B-y", "B-x I-x O B-x", {"x": [1, 2, 1], "y": [0, 0, 1]}, 3 / 4),
        ("bio", "B-x I-x O O", "B-x I-x O B-x", {"x": [1, 2, 1]}, 3 / 4),
        ("bio", "B-x I-x I-x", "B-x I-x B-x", {"x": [0, 2, 1]}, 2 / 3),
        ("bio", "B-x I-x O", "I-x I-x O", {"x": [1, 1, 1]}, 2 / 3),  # invalid, but the same span
        ("iob1", "I-x I-x B-x O", "I-x I-x I-x O", {"x": [0, 1, 2]}, 3 / 4),
        ("iob1", "I-x O I-x", "B-x O I-x", {"x": [2, 2, 2]}, 2 / 3),
        ("bioes", "S-x B-x E-x O", "S-x B-x I-x O", {"x": [2, 2, 2]}, 3 / 4),
        ("bioes", "B-x I-x E-x", "B-x E-x E-x", {"x": [0, 2, 1]}, 2 / 3),
        (
            "plain",
            "DT NN NN",
            "DT VB NN",
            {"DT": [1, 1, 1], "NN": [1, 1, 2], "VB": [0, 1, 0]},
            2 / 3,
        ),
        ("lac", "n-B n-I v n", "n-B n-I n n", {"n": [2, 3, 2], "v": [0, 0, 1]}, 3 / 4),
    ],
)
def test_scores_are_those_computed_by_hand(scheme, gold, predicted, tags, accuracy):
    score = score_of(scheme, "w " * len(gold.split()), gold, predicted)
    assert score.tags == tags
    correct = sum(counts[0] for counts in tags.values())
    n_predicted = sum(counts[1] for counts in tags.values())
    n_gold = sum(counts[2] for counts in tags.values())
    values = score.to_dict()
    assert values["accuracy"] == accuracy
    assert (values["precision"], values["recall"]) == (correct / n_predicted, correct / n_gold)
    assert values["f1"] == score.value == 2 * correct / (n_predicted + n_gold)


def test_counts_are_those_of_paddles_chunk_eval():
    """Its scheme IOBES labels a word of one token S; LAC's uses the bare tag."""
    if not hasattr(paddle._C_ops, "chunk_eval"):
        pytest.skip(f"paddle {paddle.__version__} has no chunk_eval outside of static programs")
    generator = random.Random(2)
    tags = ["n", "nr", "v"]
    parts = {"B": 0, "I": 1, "": 3}
    labels = ["O", "n", "nr", "v", "n-B", "n-I", "nr-B", "nr-I", "v-B", "v-I"]

    def number(label: str) -> int:
        tag, part = split_lac_label(label)
        return 4 * len(tags) if tag == "O" else 4 * tags.index(tag) + parts[part]

    for _ in range(100):
        n = generator.randint(1, 12)
        gold = generator.choices(labels, k=n)
        predicted = generator.choices(labels, k=n)
        score = score_of("lac", "w " * n, " ".join(gold), " ".join(predicted))
        outputs = paddle._C_ops.chunk_eval(
            paddle.to_tensor([[number(label) for label in predicted]]),
            paddle.to_tensor([[number(label) for label in gold]]),
            paddle.to_tensor([n]),
            len(tags),
            "IOBES",
            [],
        )
        n_predicted, n_gold, n_correct = (output.item() for output in outputs[3:])
        assert score.total == [n_correct, n_predicted, n_gold]


@pytest.mark.parametrize(
    ("scheme", "tokens", "gold", "predicted", "known", "counts"),
    [
        (
            "bio",
            "New York Paris",
            "B-x I-x B-x",
            "B-x I-x O",
            ["New", "Paris"],
            [1, 1, 1],
        ),  # one token is unknown
        (
            "lac",
            "北 京 爱 山",
            "n-B n-I v n",
            "n-B n-I n n",
            ["山"],
            [1, 2, 2],
        ),  # the joined word is unknown
        ("lac", "北 京", "n-B n-I", "n-B n-I", ["北京"], [0, 0, 0]),
    ],
)
def test_unknown_words_are_scored_separately(scheme, tokens, gold, predicted, known, counts):
    score = score_of(scheme, tokens, gold, predicted, known, of_words=scheme == "lac")
    assert score.unknown == counts and ("unknown words" in score.table()) == any(counts)


def test_scores_of_word_segmentation_are_those_of_sighans_script():
    """Its counts are of the words at the same place; the recall of unknown ones is R_OOV."""
    score = TaggerScore("bioes", of_words=True, known={"北京", "大学", "爱", "学生"})
    pairs = [("北京 大学 生", "北京 大学 生"), ("爱 北京大学 学生", "爱 北京 大学 学生")]
    for gold_line, predicted_line in pairs:
        gold = segmented_sentence(gold_line, "")
        predicted = segmented_sentence(predicted_line, "")
        score.add(gold.tokens, gold.labels, predicted.labels)
    assert score.tags == {"words": [5, 7, 6]} and score.unknown == [1, 1, 2]
    rows = [line.split("precision")[0].strip() for line in score.table().splitlines()]
    assert rows == ["words", "all", "unknown words"]
