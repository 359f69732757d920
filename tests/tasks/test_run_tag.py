"""run_tag.py: columns, schemes, scores as `conlleval` counts them, and the script itself on small files."""

import gzip
import io
import itertools
import json
import random
from pathlib import Path

import numpy as np
import pytest
from elmo_tasks.elmo_input import LayerCache, Pretrained, elmo_encoder, init_pretraining_params

import run_tag
from elmo import ELMoEmbedder
from elmo_core.files.word_vectors import load_word_vectors
from elmo_core.machine.messages import UserError
from elmo_core.machine.runtime import paddle
from elmo_core.text.tokens import MARKERS, UNK_ID, Vocabulary
from elmo_tasks.tagging.columns import read_columns
from elmo_tasks.tagging.data import Labels, Sentence, batch_of
from elmo_tasks.tagging.network import Settings
from elmo_tasks.tagging.scheme import detect, impossible, spans
from elmo_tasks.tagging.score import Counts, Score
from elmo_tasks.tagging.tagger import Tagger
from elmo_tasks.tagging.training import training_words
from elmo_tasks.word_vectors import WordVectors

CHARACTERS = ["--input_format=characters"]
QUICK = ["--device=cpu", "--epochs=2", "--hidden_dim=7", "--n_layers=1", "--word_dim=5", "--batch_size=8"]
LEARNS = ["--epochs=25", "--hidden_dim=20", "--base_learning_rate=0.02", "--dropout=0.1"]


def columns(n: int, seed: int) -> str:
    """Sentences of names of people and places, which are told apart by the word before them."""
    generator, lines = random.Random(seed), []
    for _ in range(n):
        for _ in range(generator.randint(1, 4)):
            name = generator.choice(["bank", "river", f"x{generator.randrange(99)}"])
            kind, before = generator.choice([("PER", "a"), ("LOC", "of")])
            lines += [f"{before} P O", f"{name} N B-{kind}", *[f"{name} N I-{kind}"] * generator.randrange(2)]
        lines.append("")
    return "\n".join(lines) + "\n"


@pytest.fixture
def files(tmp_path):
    for seed, (name, n) in enumerate({"train": 40, "dev": 9, "test": 9}.items()):
        (tmp_path / name).write_text(columns(n, seed), encoding="utf-8")
    return tmp_path


def train(files: Path, *more: str, save_dir: str = "tagger") -> Path:
    given = [f"--{name}={files / name}" for name in ("train", "dev", "test")]
    run_tag.main(["train", *given, f"--save_dir={files / save_dir}", *QUICK, *more])
    return files / save_dir


# Schemes


@pytest.mark.parametrize(
    ("scheme", "labels", "found"),
    [
        ("bio", "B-x I-x B-x O I-y", [(0, 2, "x"), (2, 3, "x"), (4, 5, "y")]),
        ("bio", "B-x I-y I-y", [(0, 1, "x"), (1, 3, "y")]),
        ("bio", "I-x I-x O", [(0, 2, "x")]),
        ("iob1", "I-x I-x B-x I-x I-y", [(0, 2, "x"), (2, 4, "x"), (4, 5, "y")]),
        ("bioes", "B-x I-x E-x S-x S-x", [(0, 3, "x"), (3, 4, "x"), (4, 5, "x")]),
        ("bioes", "E-x I-x E-x O I-x", [(0, 1, "x"), (1, 3, "x"), (4, 5, "x")]),
        ("bioes", "B-x S-x I-x E-y", [(0, 1, "x"), (1, 2, "x"), (2, 3, "x"), (3, 4, "y")]),
        ("bioes", "B-x L-x U-y", [(0, 2, "x"), (2, 3, "y")]),
        ("bioes", "B M E S", [(0, 3, ""), (3, 4, "")]),
        ("plain", "DT O", [(0, 1, "DT"), (1, 2, "O")]),
    ],
)
def test_spans_are_conllevals_chunks(scheme, labels, found):
    assert spans(labels.split(), scheme) == found


@pytest.mark.parametrize(
    ("scheme", "labels"),
    [
        ("bio", ["O B-x I-x", "B-y"]),
        ("bio", ["O I-x B-y"]),  # broken, but no IOB1: its B would need a span of y before it
        ("iob1", ["O I-x I-x B-x", "I-y"]),
        ("bioes", ["B-x E-x O", "S-y"]),
        ("bioes", ["B M E S"]),
        ("plain", ["DT NN", "O"]),
        ("plain", ["B-x NN"]),
        ("plain", ["O O"]),
    ],
)
def test_the_scheme_is_told_by_the_labels(scheme, labels):
    assert detect([text.split() for text in labels]) == scheme


@pytest.mark.parametrize(
    ("scheme", "names", "good", "bad"),
    [
        ("bio", "O B-x I-x I-y", ["O B-x I-x I-x", "B-x B-x"], ["I-x", "O I-x", "B-x I-y"]),
        ("iob1", "O B-x I-x I-y", ["I-x B-x I-x I-y"], ["B-x", "O B-x", "I-y B-x"]),
        ("bioes", "O B-x I-x E-x S-x", ["B-x I-x E-x S-x O"], ["B-x", "B-x I-x", "B-x O", "E-x", "S-x I-x", "B-x S-x"]),
        ("plain", "DT B-x I-x", ["I-x DT", "DT I-x"], []),
    ],
)
def test_what_a_scheme_forbids(scheme, names, good, bad):
    names = names.split()
    table, last = impossible(names, scheme)

    def forbidden(text: str) -> bool:
        k = [-1, *map(names.index, text.split())]
        return any(table[a, b] for a, b in itertools.pairwise(k)) or bool(last[k[-1]])

    assert not any(map(forbidden, good)) and all(map(forbidden, bad))


@pytest.mark.parametrize("scheme", ["bio", "iob1", "bioes"])
def test_a_tagger_says_only_what_its_scheme_allows(scheme):
    names = ["O", *(f"{letter}-{tag}" for tag in "xy" for letter in ("BIES" if scheme == "bioes" else "BI"))]
    paddle.seed(3)
    settings = Settings(False, word_emb_dim=5, grnn_hidden_dim=7, bigru_num=1)
    tagger = Tagger(settings, Vocabulary([*MARKERS, "a", "b"]), Labels(names, scheme=scheme))
    tagger.network.emission.weight.set_value(tagger.network.emission.weight * 30)
    table, last = impossible(names, scheme)
    generator = random.Random(1)
    for labels in tagger.tag([generator.choices("abc", k=n) for n in range(1, 20)]):
        k = [-1, *map(names.index, labels)]
        assert not any(table[a, b] for a, b in itertools.pairwise(k)) and not last[k[-1]]


# Scores


@pytest.mark.parametrize(
    ("scheme", "expected", "predicted", "tags", "accuracy"),
    [
        # correct, predicted, expected of each tag, worked out by hand
        ("bio", "B-x I-x O B-y", "B-x I-x O B-x", {"x": (1, 2, 1), "y": (0, 0, 1)}, 3 / 4),
        ("bio", "B-x I-x I-x", "B-x I-x B-x", {"x": (0, 2, 1)}, 2 / 3),
        ("bio", "B-x I-x O", "I-x I-x O", {"x": (1, 1, 1)}, 2 / 3),  # broken, but the same span
        ("iob1", "I-x I-x B-x O", "I-x I-x I-x O", {"x": (0, 1, 2)}, 3 / 4),
        ("iob1", "I-x O I-x", "B-x O I-x", {"x": (2, 2, 2)}, 2 / 3),
        ("bioes", "S-x B-x E-x O", "S-x B-x I-x O", {"x": (2, 2, 2)}, 3 / 4),
        ("bioes", "B-x I-x E-x", "B-x E-x E-x", {"x": (0, 2, 1)}, 2 / 3),
        ("plain", "DT NN NN", "DT VB NN", {"DT": (1, 1, 1), "NN": (1, 1, 2), "VB": (0, 1, 0)}, 2 / 3),
    ],
)
def test_scores_are_those_worked_out_by_hand(scheme, expected, predicted, tags, accuracy):
    score, expected = Score(scheme=scheme), expected.split()
    score.add(["w"] * len(expected), expected, predicted.split())
    assert score.tags == {tag: Counts(*counts) for tag, counts in tags.items()}
    assert score.accuracy == accuracy
    if scheme == "plain":
        assert score.total.f1 == pytest.approx(accuracy)


def test_a_span_is_unknown_if_one_of_its_words_is():
    score = Score(scheme="bio")
    score.add(["New", "York", "Paris"], ["B-x", "I-x", "B-x"], ["B-x", "I-x", "O"], known={"New", "Paris"})
    assert (score.unknown, score.total) == (Counts(1, 1, 1), Counts(1, 1, 2))


def test_tags_with_a_kind_are_added_up_by_it():
    score = Score(scheme="bio")
    score.add("abcd", ["B-PER.NAM", "B-LOC.NAM", "B-PER.NOM", "O"], ["B-PER.NAM", "O", "B-PER.NOM", "B-LOC.NOM"])
    assert score.kinds == {"NAM": Counts(1, 1, 2), "NOM": Counts(1, 2, 1)} and "all .NAM" in score.table()
    assert score.figures()["kinds"]["NAM"]["f1"] == pytest.approx(2 / 3)
    score.add("a", ["B-x"], ["O"])
    assert score.kinds == {} and "kinds" not in score.figures()


# Columns


def test_columns_are_read_as_they_are(tmp_path):
    path = tmp_path / "columns"
    text = "-DOCSTART- -X- O\n\nNew NNP B-x\nYork  NNP I-x\r\n\n\na b\tDT\tO\n\u3000\tSYM\tO"
    path.write_bytes(text.encode())
    found = read_columns(path)
    assert found == [Sentence(["New", "York"], ["B-x", "I-x"]), Sentence(["a_b", "_"], ["O", "O"])]
    assert read_columns(path, token=2, label=1)[0] == Sentence(["B-x", "I-x"], ["NNP", "NNP"])
    path.write_text(
        "# newpar\n# sent_id = 1\n1\ta\tDT\n\n# global.Entity = b c\n# text =\n1\t#\tSYM\n", encoding="utf-8"
    )
    assert [one.tokens for one in read_columns(path, token=1)] == [["a"], ["#"]]


@pytest.mark.parametrize(
    ("text", "label", "where"),
    [
        ("a O\nb\n", -1, ":2:"),
        ("a O\n\nb O\n", 2, ":1:"),
        ("a O\n", 0, ":1: column 0 "),
        ("\n\n", -1, "no sentence"),
        ("a O\n\xff\n", -1, ":2:"),
        ("a\tO\nb\t\n", -1, ":2:"),
    ],
)
def test_faulty_columns_are_an_error_with_the_line(tmp_path, text, label, where):
    path = tmp_path / "columns"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match=f"columns.*{where}"):
        read_columns(path, label=label)


def test_characters_with_their_places(tmp_path):
    path = tmp_path / "columns"
    path.write_text("科0\tO\n技1\tO\n110\tO\n��0\tO\n", encoding="utf-8")
    assert read_columns(path, segmentation="strip")[0].tokens == ["科", "技", "1", "��"]
    feature = read_columns(path, segmentation="feature")[0].tokens
    assert feature == ["科", "技", "1", "��"]
    assert batch_of([feature], Vocabulary(MARKERS)).places.tolist() == [[1, 2, 11, 1]]
    path.write_text("科0\tO\n技\tO\n", encoding="utf-8")
    with pytest.raises(UserError, match=":2:"):
        read_columns(path, segmentation="strip")


@pytest.mark.parametrize("name", ["v.txt", "v.txt.gz"])
def test_gloves_vectors_have_no_first_line(tmp_path, name):
    content = "the 0.5 1\n3 1 2\nof -1 2e-1\n"
    with (gzip.open if name.endswith("gz") else open)(tmp_path / name, "wt", encoding="utf-8") as file:
        file.write(content)
    vectors = load_word_vectors(tmp_path / name)
    assert vectors.index_to_key == ["the", "3", "of"] and vectors["of"].tolist() == pytest.approx([-1, 0.2])
    assert load_word_vectors(tmp_path / name, limit=2).index_to_key == ["the", "3"]


# The network


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_all_inputs_together_come_back_from_the_folder(small_weights, tmp_path, cell):
    path = tmp_path / "v.txt"
    path.write_text("bank 1 2 3\nthe 3 2 1\n", encoding="utf-8")
    settings = {"word_emb_dim": 5, "grnn_hidden_dim": 7, "bigru_num": 1, "cell": cell, "char_cnn": True, "place_dim": 3}
    elmo = {"elmo_at": "input,output", "layers": "0,2"}
    labels = Labels(["O", "B-x", "I-x"], scheme="bio")
    sentences = [["The", "bank", "x"], ["of"], ["the", "the", "bank", "bank", "zzz"]]
    words = training_words([Sentence(tokens, tokens) for tokens in sentences[:2]])
    pretrained, vectors = Pretrained.of(small_weights["char"]), run_tag.WordVectors(path)
    tagger = Tagger(Settings(**settings, **elmo), words, labels, pretrained, vectors=vectors)
    tagger.network.eval()
    together = tagger.network(batch_of(sentences, words)).numpy()
    for row, sentence in enumerate(sentences):
        alone = tagger.network(batch_of([sentence], words)).numpy()[0]
        np.testing.assert_allclose(together[row, : len(sentence)], alone, atol=1e-5)
    tagger.save(tmp_path / "tagger")
    loaded = Tagger.load(tmp_path / "tagger")
    loaded.network.eval()
    np.testing.assert_allclose(loaded.network(batch_of(sentences, words)).numpy(), together, atol=1e-6)
    path.write_text("bank 1 2 3\nthe 3 2 7\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"v\.txt"):
        Tagger.load(tmp_path / "tagger")
    path.unlink()
    with pytest.raises(UserError, match="--word_vectors"):
        Tagger.load(tmp_path / "tagger")


@pytest.mark.parametrize("layers", ["all", "concat", "0", "0,2"])
def test_layers_beyond_the_memory_are_on_the_disk(small_weights, tmp_path, layers):
    encoder = elmo_encoder(n_mixes=2, layers=layers)
    init_pretraining_params(encoder, small_weights["char"])
    encoder.eval()
    sentences = [["the", "bank"], ["q"], ["of", "the", "river"]]
    expected = [mix.numpy() for mix in encoder.mixes(encoder.map_words(sentences))]
    encoder.cache = LayerCache(encoder, sentences, 1e-9, tmp_path)
    assert all(isinstance(array, np.memmap) for array in encoder.cache.layers.values())
    assert not list(tmp_path.iterdir())  # the file has no name
    encoder.elmo.layers = None  # must not be called
    for mix, other in zip(encoder.mixes(encoder.map_words(sentences)), expected, strict=True):
        np.testing.assert_allclose(mix.numpy(), other, atol=5e-3)


def test_layers_stand_side_by_side(small_weights):
    words = ["the", "bank", "of"]
    encoder = elmo_encoder(dropout=0.0, n_mixes=2, layers="concat")
    init_pretraining_params(encoder, small_weights["char"])
    expected = np.concatenate(ELMoEmbedder(small_weights["char"]).encode([words])[0], axis=-1)
    assert encoder.dim == expected.shape[1] and encoder.l2_loss().item() == 0
    for found in encoder.mixes(encoder.map_words([words])):
        np.testing.assert_allclose(found.numpy()[0], expected, atol=1e-5)


# The script


def test_characters_get_the_vectors_of_the_words_that_jieba_finds(small_weights, tmp_path):
    words = ["北京大学", "的", "学生", "iPhone", "手机", "。"]
    tokens = [*"北京大学的学生", "iPhone", *"手机。"]
    vectors = ELMoEmbedder(small_weights["char"], layers="top").encode([words])[0]
    expected = np.repeat(vectors, [4, 1, 2, 1, 2, 1], axis=0)
    encoder = elmo_encoder(dropout=0.0, layers="top", words="jieba")
    init_pretraining_params(encoder, small_weights["char"])
    batch = [tokens, tokens[:2]]
    np.testing.assert_allclose(encoder(encoder.map_words(batch))[0].numpy(), expected, atol=1e-5)
    encoder.cache = LayerCache(encoder, batch, gigabytes=1.0)
    found = encoder(encoder.map_words(batch)).numpy()
    np.testing.assert_allclose(found[0], expected, atol=1e-5)
    assert not found[1, 2:].any()
    (tmp_path / "v.txt").write_text("2 3\n北京大学 1 2 3\n学生 4 5 6\n", encoding="utf-8")
    of_words = WordVectors(tmp_path / "v.txt").batch([tokens], "jieba")
    assert of_words[0, :, 0].tolist() == [1, 1, 1, 1, 0, 4, 4, 0, 0, 0, 0]


def test_train_evaluate_and_predict(files, capsys, monkeypatch):
    folder = train(files, "--init_from_ckpt=none", "--char_cnn", *LEARNS, f"--json={files / 'r.json'}")
    results = json.loads((files / "r.json").read_text(encoding="utf-8"))
    assert results["test"]["f1"] > 0.9 and set(results["test"]["tags"]) == {"PER", "LOC"}
    trained = capsys.readouterr().out.partition("== test")[2].partition("saved")[0]
    run_tag.main(["evaluate", f"--model_dir={folder}", f"--test={files / 'test'}", "--device=cpu"])
    assert capsys.readouterr().out.partition("== test")[2] == trained
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"of river\n\na bank\n")))
    run_tag.main(["predict", f"--model_dir={folder}", "--output_format=json", "--device=cpu"])
    first, empty, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["tokens"] == ["of", "river"] and empty["labels"] == []
    assert last["spans"] == [{"begin": 1, "end": 2, "label": "PER", "tokens": ["bank"]}]
    argv = [f"--input={files / 'test'}", "--input_format=columns", f"--output={files / 'out'}"]
    run_tag.main(["predict", f"--model_dir={folder}", *argv, "--device=cpu"])
    assert read_columns(files / "out", label=-2) == read_columns(files / "test")
    assert read_columns(files / "out")[0].labels[0] == "O"


@pytest.mark.parametrize(
    "more",
    [
        ["--elmo_at=input,output", "--cell=lstm"],
        ["--layers=0", "--cache_gb=0.0000001"],
        ["--layers=concat", "--elmo_at=input,output"],
        ["--random_weights=lstm"],
        ["--elmo_trainable"],
    ],
)
def test_arms_with_elmo(files, small_weights, more, capsys):
    folder = train(files, f"--init_from_ckpt={small_weights['char']}", *more)
    trained = capsys.readouterr().out.partition("== test")[2].partition("saved")[0]
    run_tag.main(["evaluate", f"--model_dir={folder}", f"--test={files / 'test'}", "--device=cpu"])
    assert capsys.readouterr().out.partition("== test")[2] == trained
    weights = Tagger.load(folder).weights()
    is_own = any("bilm.forward_lstm" in name for name in weights)
    assert is_own == (more[0] in ("--random_weights=lstm", "--elmo_trainable"))


def test_a_seed_gives_the_same_tagger_again(files):
    one, other = (train(files, "--init_from_ckpt=none", "--seed=5", save_dir=name) for name in ("one", "other"))
    one, other = Tagger.load(one).weights(), Tagger.load(other).weights()
    for name, weight in one.items():
        np.testing.assert_allclose(other[name], weight, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(("segmentation", "text", "flags"), [("feature", "李0 开1", []), ("strip", "李开", CHARACTERS)])
def test_characters_with_places_from_training_to_prediction(segmentation, text, flags, tmp_path, capsys, monkeypatch):
    (tmp_path / "train").write_text("科0\tO\n技1\tO\n\n李0\tB-PER\n开1\tI-PER\n\n" * 9, encoding="utf-8")
    folder = tmp_path / "tagger"
    how = ["--init_from_ckpt=none", f"--segmentation={segmentation}", f"--save_dir={folder}", *QUICK]
    run_tag.main(["train", f"--train={tmp_path / 'train'}", *how])
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"{text}\n".encode())))
    capsys.readouterr()
    run_tag.main(["predict", f"--model_dir={folder}", "--device=cpu", *flags])
    tagged = [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()]
    assert tagged == [*(text.split() if segmentation == "feature" else text), ""]
    assert (Tagger.load(folder).settings.place_dim > 0) == (segmentation == "feature")


def test_an_elmo_or_vectors_that_a_tagger_would_not_read_are_refused(files):
    folder = train(files, "--init_from_ckpt=none")
    for given in ({"pretrained": "checkpoints"}, {"vectors": "v.txt"}):
        with pytest.raises(UserError, match="was trained without it"):
            Tagger.load(folder, **given)


def test_a_single_label_is_refused(tmp_path):
    (tmp_path / "train").write_text("a O\nb O\n\nc O\n" * 3, encoding="utf-8")
    with pytest.raises(UserError, match="single label, O"):
        run_tag.main(
            ["train", f"--train={tmp_path / 'train'}", "--init_from_ckpt=none", f"--save_dir={tmp_path / 't'}"]
        )


def test_labels_that_break_the_schemes_rules_are_told(files, caplog):
    train(files, "--init_from_ckpt=none", "--scheme=bioes", "--epochs=1")
    assert "break the rules of the scheme bioes" in caplog.text
    caplog.clear()
    train(files, "--init_from_ckpt=none", "--epochs=1", save_dir="other")
    assert "break the rules" not in caplog.text


def test_a_column_as_a_feature(files, capsys, monkeypatch):
    """The label follows from it alone."""
    for name in ("train", "dev", "test"):
        lines = [f"w{k % 3} {'XY'[k % 5 % 2]} {'bc'[k % 5 % 2]}\n" + "\n" * (k % 4 == 0) for k in range(80)]
        (files / name).write_text("".join(lines), encoding="utf-8")
    folder = train(files, "--init_from_ckpt=none", "--feature_column=1", *LEARNS, "--epochs=8")
    trained = capsys.readouterr().out.partition("== test")[2].partition("saved")[0]
    assert "accuracy 100.00%" in trained
    run_tag.main(["evaluate", f"--model_dir={folder}", f"--test={files / 'test'}", "--device=cpu"])
    assert capsys.readouterr().out.partition("== test")[2] == trained
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"new X\nw1 Y\n")))
    run_tag.main(["predict", f"--model_dir={folder}", "--input_format=columns", "--device=cpu"])
    assert capsys.readouterr().out == "new X b\nw1 Y c\n\n"
    (files / "text").write_text("w1 w2\n", encoding="utf-8")
    with pytest.raises(UserError, match="column"):
        run_tag.main(["predict", f"--model_dir={folder}", f"--input={files / 'text'}", "--device=cpu"])


def test_word_vectors_are_fine_tuned(files, capsys):
    (files / "v.txt").write_text("a 1 2 3\nof 3 2 1\nriver 0 1 0\n", encoding="utf-8")
    more = [f"--word_vectors={files / 'v.txt'}", "--word_vectors_trainable"]
    folder = train(files, "--init_from_ckpt=none", *more, *LEARNS, "--epochs=4")
    trained = capsys.readouterr().out.partition("== test")[2].partition("saved")[0]
    run_tag.main(["evaluate", f"--model_dir={folder}", f"--test={files / 'test'}", "--device=cpu"])
    assert capsys.readouterr().out.partition("== test")[2] == trained
    tagger = Tagger.load(folder)
    tagger.network.eval()
    changes = tagger.weights()["vector_change.weight"]
    assert np.abs(changes[tagger.words.ids(["a", "of"])]).max() > 0.01
    known, new = (batch_of([[word]], tagger.words) for word in ("river", "unheard-of"))
    before = [tagger.network.inputs(batch).numpy()[0, 0, -3:] for batch in (known, new)]
    np.testing.assert_allclose(before[0], changes[tagger.words.ids(["river"])[0]] + [0, 1, 0], atol=1e-6)
    np.testing.assert_allclose(before[1], changes[UNK_ID], atol=1e-6)


@pytest.mark.parametrize(
    ("more", "word"),
    [
        (["--init_from_ckpt=none", "--layers=0"], "--layers"),
        (["--init_from_ckpt=none", "--elmo_trainable"], "--elmo_trainable"),
        (["--init_from_ckpt=none", "--limit=3"], "--limit"),
        (["--init_from_ckpt=none", "--word_vectors_trainable"], "--word_vectors_trainable"),
        (["--init_from_ckpt=CKPT", "--layers=average"], "--layers"),
        (["--init_from_ckpt=CKPT", "--elmo_l2_coef=0.1"], "--layers=all"),
    ],
)
def test_flags_without_effect_are_an_error(files, small_weights, more, word, capsys):
    with pytest.raises(SystemExit, match="2"):
        train(files, *(flag.replace("CKPT", small_weights["char"]) for flag in more))
    assert word in capsys.readouterr().err


def test_a_folder_that_holds_a_tagger_is_not_overwritten(files):
    train(files, "--init_from_ckpt=none", "--epochs=1")
    with pytest.raises(UserError, match="--overwrite"):
        train(files, "--init_from_ckpt=none")
    train(files, "--init_from_ckpt=none", "--epochs=1", "--overwrite")
