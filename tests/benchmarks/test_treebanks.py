"""treebanks.py: accuracies of parts of speech, ours and spaCy's."""

import sys
from types import SimpleNamespace

import runs

sys.path.append(str(runs.PROJECT / "benchmarks"))

import treebanks

from elmo_tasks.parsing.data import read_conllu

WORDS = [("The", "DET", 3, "det"), ("old", "ADJ", 3, "amod"), ("room", "NOUN", 5, "nsubj")]
WORDS += [("was", "AUX", 5, "cop"), ("quiet", "ADJ", 0, "root"), (".", "PUNCT", 5, "punct")]


def write(path):
    lines = ["# text = The old room was quiet."]
    for number, (word, tag, head, label) in enumerate(WORDS, 1):
        misc = "SpaceAfter=No" if word == "quiet" else "_"
        lines.append(f"{number}\t{word}\t_\t{tag}\t_\t_\t{head}\t{label}\t_\t{misc}")
        if word == "room":
            lines.append("3.1\tx\t_\tNOUN\t_\t_\t_\t_\t_\tSpaceAfter=No")
    path.write_text("\n".join(lines) + "\n\n", encoding="utf-8")
    return path


class Model:
    """Tags each word as a noun, and remembers the documents."""

    vocab = "vocabulary"

    def pipe(self, texts):
        for text in texts:
            yield [SimpleNamespace(pos_="NOUN") for _ in text["words"]]


def test_ours_and_spacys_on_a_treebank(tmp_path, monkeypatch, capsys):
    documents = []

    def doc(vocabulary, words, spaces):
        documents.append({"words": words, "spaces": spaces})
        return documents[-1]

    excluded = []

    def load(name, exclude):
        excluded.append((name, exclude))
        return Model()

    spacy = SimpleNamespace(load=load, tokens=SimpleNamespace(Doc=doc))
    monkeypatch.setitem(sys.modules, "spacy", spacy)
    treebanks.main([str(write(tmp_path / "test.conllu")), "--spacy=small"])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[1:3] for row in rows] == [
        ["Tagger", "100.00"],
        ["Parser", "100.00"],
        ["spaCy", "16.67"],
    ]
    assert excluded == [("small", ["ner", "lemmatizer"])]
    assert documents[-1]["words"] == [word for word, *_ in WORDS]
    assert documents[-1]["spaces"] == [True, True, True, True, False, True]


def test_words_that_are_right(tmp_path):
    trees = list(read_conllu(write(tmp_path / "test.conllu")))
    assert treebanks.n_right(trees, [["DET", "ADJ", "VERB", "AUX", "X", "PUNCT"]]) == 4
