"""Records of users' data: labels that `datasets` stores as integers."""

from types import SimpleNamespace

import pytest

from elmo_core.messages import UserError
from elmo_tasks import Classifier, ClassifierSettings, Tagger, TaggerSettings
from elmo_tasks.records import table_records

NAMES = ["O", "B-PER", "I-PER"]
ROWS = [{"tokens": ["Ann", "Lee", "ran"], "ner_tags": [1, 2, 0]}, {"tokens": ["Ann"], "ner_tags": [1]}]


class Dataset(list):
    """As much of `datasets.Dataset` as is read, of rows; names: of the column's labels."""

    def __init__(self, rows: list[dict], column: str, names: list[str], is_list: bool):
        super().__init__(rows)
        label = SimpleNamespace(names=names)
        self.features = {"text": SimpleNamespace(dtype="string")}
        self.features[column] = SimpleNamespace(feature=label) if is_list else label
        self.column_names = list(rows[0])


def test_integers_with_names_become_these():
    data = Dataset(ROWS, "ner_tags", NAMES, is_list=True)
    records = [record for _, record in table_records(data, "train")]
    assert [record["ner_tags"] for record in records] == [["B-PER", "I-PER", "O"], ["B-PER"]]
    assert [record["tokens"] for record in records] == [row["tokens"] for row in ROWS]
    assert [record for _, record in table_records(list(data), "train")] == ROWS  # without their names


def test_a_tagger_of_a_dataset_predicts_names():
    data = Dataset(ROWS * 4, "ner_tags", NAMES, is_list=True)
    settings = TaggerSettings(epochs=1, hidden_dim=3, n_layers=1, word_dim=3)
    tagger = Tagger.train(data, dev=data, settings=settings, progress=False, device="cpu")
    assert tagger.settings.scheme == "bio" and tagger.labels == sorted(NAMES)
    assert tagger.evaluate(data)["spans"] == 8


def test_a_classifier_of_a_dataset_predicts_names():
    rows = [{"text": "good film", "label": 1}, {"text": "bad film", "label": 0}] * 5
    data = Dataset(rows, "label", ["neg", "pos"], is_list=False)
    settings = ClassifierSettings(epochs=1, word_dim=3, head="mean", lang="none")
    classifier = Classifier.train(data, dev=data, settings=settings, progress=False, device="cpu")
    assert classifier.classes == ["neg", "pos"]


@pytest.mark.parametrize("label", [-1, 3])
def test_an_integer_without_a_name_is_an_error(label):
    """-1 stands for labels that are not published."""
    data = Dataset([*ROWS, {"tokens": ["a"], "ner_tags": [label]}], "ner_tags", NAMES, is_list=True)
    with pytest.raises(UserError, match=f"row 2.*{label}"):
        list(table_records(data, "train"))
