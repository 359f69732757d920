"""run_finetune.py on texts of one's own: files, several classes, pairs, weights of classes, evaluation, prediction."""

import io
import itertools
import json
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn import metrics

import run_finetune
from elmo_core.display.terminal import display_width
from elmo_core.messages import UserError
from elmo_core.text.tokenise import Tokeniser
from elmo_tasks.classification import folds, scores, texts
from elmo_tasks.classification.classifier import Classifier
from elmo_tasks.classification.prediction import classify_lines
from elmo_tasks.classification.scores import Results
from elmo_tasks.classification.texts import Example

QUICK = ["--device=cpu", "--epochs=8", "--lr=0.02", "--weight_decay=0.1", "--batch_size=16", "--sent_embedding_dim=11"]
NOTHING = ["--init_from_ckpt=none", "--lang=none"]
TOPICS = {"art": "the painter and his museum", "sport": "a goal in the match", "tech": "new chips for computers"}


def topics(n: int, seed: int) -> list[tuple[str, str]]:
    """Texts whose class each of their words tells, and their classes."""
    generator = random.Random(seed)
    labels = [generator.choice(list(TOPICS)) for _ in range(n)]
    return [(" ".join(generator.sample(TOPICS[label].split(), 3)), label) for label in labels]


@pytest.fixture
def files(tmp_path):
    for seed, (name, n) in enumerate({"train": 90, "dev": 30, "test": 31}.items()):
        lines = ["\t".join(pair) for pair in topics(n, seed)]
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def flags(files, *names: str) -> list[str]:
    return [f"--{name}_file={files / name}" for name in names]


def run(*argv: str) -> None:
    run_finetune.main([*QUICK, *argv])


def read(path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


# Files


QUOTES = [("p", ('"good" film',)), ("1", ('"bad"',)), ("x", ('"',))]  # in TSV they need not be those of CSV
SINGLE, PAIR = [Example("p", ("good film",)), Example("1", ("bad",))], [Example("1", ("a", "b c"))]


@pytest.mark.parametrize(
    ("content", "columns", "expected"),
    [
        ("good film\tp\nbad\t1\n", None, SINGLE),
        ("\ufeffgood film\tp\r\n\r\nbad\t1", None, SINGLE),
        ("qid\tlabel\ttext_a\n1\tp\tgood film\n2\t1\tbad\n", None, SINGLE),
        ("p\tx\tgood film\n1\tx\tbad\n", ["2", "0"], SINGLE),
        ("id\twords\tclass\n1\tgood film\tp\n2\tbad\t1\n", ["words", "class"], SINGLE),
        ('{"text": "good\\n film", "label": "p", "id": 5}\n{"label": 1, "text": "bad"}\n', None, SINGLE),
        ('{"review": "good film", "stars": "p"}\n{"review": "bad", "stars": 1}\n', ["review", "stars"], SINGLE),
        ("a\t1\tb c\n", None, PAIR),
        ("sentence1\tsentence2\tlabel\na\tb c\t1\n", None, PAIR),
        ("a\tb c\t1\n", ["0", "2", "1"], PAIR),
        ('{"text_a": "a", "text_b": "b c", "label": 1}\n', None, PAIR),
        ('[{"text": "good film", "label": "p"}, {"text": "bad", "label": 1}]', None, SINGLE),
        ('\n[\n {"label": 1,\n "sentence1": "a", "sentence2": "b c"}\n]\n', None, PAIR),
        ("text,label\ngood film,p\nbad,1\n", None, SINGLE),
        ("\ufeffLabel;Text \r\np;good film\r\n1;bad\r\n", None, SINGLE),
        ('id,TEXT,Label\n1,"good\n\nfilm",p\n2,bad,1\n', None, SINGLE),
        ('p,"good film"\n1,bad\n', ["1", "0"], SINGLE),
        ("Label\tText\np\tgood film\n1\tbad\n", None, SINGLE),
        ('{"Review": "good film", "Stars": "p"}\n{"Review": "bad", "Stars": 1}\n', ["review", "stars"], SINGLE),
        ('"text","label"\n"a ""good"", old; film","p"\n', None, [Example("p", ('a "good", old; film',))]),
        ('text\tlabel\n"a ""good""\n\told film"\tp\n', None, [Example("p", ('a "good" old film',))]),
        ('"text"\t"label"\n"good film"\t"p"\n', None, [Example("p", ("good film",))]),
        ('"good" film\tp\n"bad"\t1\n"\tx', None, [Example(*row) for row in QUOTES]),
    ],
)
def test_texts_and_labels_are_read(tmp_path, content, columns, expected):
    (tmp_path / "file").write_bytes(content.encode())
    assert texts.read_file(tmp_path / "file", columns) == expected


@pytest.mark.parametrize(
    ("content", "columns", "word"),
    [
        ("\n", None, "file"),
        ("a\t1\nb\n", None, "file:2"),
        ("a\t1\n\nb\t\n", None, "file:3"),
        ("a\t1\n", ["0", "5"], "columns"),
        ("a\tb\tc\t1\n", None, "columns"),
        ("text\tlabel\n", None, "header"),
        ('{"text": "a", "label": 1}\nb\t1\n', None, "file:2"),
        ('{"text": "a", "label": 1}\n{"text": "a", "label": [1]}\n', None, "file:2"),
        ("a\t1\nb\t\xff\n", None, "file:2"),
        ('[{"text": "a", "label": 1}', None, "JSON"),
        ('[{"text": "a", "label": 1}, {"text": "b"}]', None, "object 2"),
        ("good film\nbad\n", None, "'good film'.*tabs.*CSV"),
        ("a,b,c,1\n", None, "columns a, b, c, 1,.*columns=TEXT"),
        ('text,label\na,1\n"b,1\nc,1\n', None, "file:3"),
        ('text,label\na,1\n"b" c,1\n', None, "file:3"),
        ("text,label\na, b,1\n", None, "file:2"),
        ('text\tlabel\na\t1\n"b\n', None, "file:3"),
    ],
)
def test_faulty_files_are_an_error_with_the_line(tmp_path, content, columns, word):
    (tmp_path / "file").write_bytes(content.encode("latin-1"))
    with pytest.raises(UserError, match=word):
        texts.read_file(tmp_path / "file", columns)


@pytest.mark.parametrize(
    ("lines", "expected", "log"),
    [
        (["", "good film", " ", "text"], [(), ("good film",), (), ("text",)], ""),
        (["qid\ttext_a", "1\tgood film", "", "2\tbad"], [("good film",), (), ("bad",)], "text_a"),
        (["good film\tp", "bad\t?"], [("good film",), ("bad",)], "Classified: 0"),
        (["n\tgood film", "p\tbad"], [("good film",), ("bad",)], "Classified: 1"),
        (["good film\tbad", "worse"], [("good film\tbad",), ("worse",)], "tabs"),
        (['{"label": "p", "sentence": "good film"}', ""], [("good film",), ()], "sentence"),
        (["[", '{"text": "good film"},', '{"text": "bad"}]'], [("good film",), ("bad",)], ""),
        (["[1] good film"], [("[1] good film",)], ""),
        (["text,label", '"good, ""old""', 'film",p'], [('good, "old" film',)], "ignored: label"),
        (["Good, bad; or so", '"x'], [("Good, bad; or so",), ('"x',)], ""),
        (["Text, label and all", "x"], [("Text, label and all",), ("x",)], ""),
        (["Text\tid", '"a ""b"""\t1'], [('a "b"',)], "ignored: id"),
    ],
)
def test_texts_to_predict_are_recognised(lines, expected, log, messages):
    groups = ([line] for line in lines)
    assert list(itertools.chain(*texts.iter_texts(groups, "new", ["p", "n"], pairs=False))) == expected
    assert (log in messages()) if log else not messages()


@pytest.mark.parametrize(
    "lines",
    [
        ["a\tb c"],
        ["a\tp\tb c"],
        ["text_b\ttext_a", "b c\ta"],
        ['{"text": "a", "text2": "b c", "label": 1}'],
    ],
)
def test_pairs_to_predict_are_recognised(lines):
    assert list(texts.iter_texts([lines], "new", ["p", "n"], pairs=True)) == [[("a", "b c")]]


@pytest.mark.parametrize(
    ("lines", "pairs", "columns", "usual"),
    [
        (["a\tb c\tp"], True, None, ["0", "2", "1"]),
        (["a\tb c"], True, None, ["0", "2", "1"]),  # without labels
        (["p\tb c\ta"], True, ["2", "0", "1"], ["0", "1", "2"]),
        (["Query\tlabel\ttitle", "a\tp\tb c"], True, None, ["query", "label", "title"]),
        (["query,title", "a,b c"], True, None, ["query", "label", "title"]),
        (["x\ta\tp"], False, None, ["1", "2"]),
        (["a"], False, None, ["1", "2"]),
        (["text\tlabel", "a\tp"], False, None, ["review", "stars"]),
        (["x,a"], False, ["1", "0"], ()),
    ],
)
def test_columns_of_the_training_are_those_of_texts_to_predict(lines, pairs, columns, usual):
    expected = ("a", "b c") if pairs else ("a",)
    assert list(texts.iter_texts([lines], "new", ["p", "n"], pairs, columns, usual)) == [[expected]]


@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        ("new.csv", ["Subject,Body", "a,b"], "new.csv:1: found the columns Subject, Body"),
        ("new.CSV.gz", ["Good, bad"], "columns Good"),
        ("new", ["Good", "bad"], "new:1: found 'Good'"),
    ],
)
def test_a_csv_without_known_columns_is_not_taken_for_texts(name, lines, message):
    columns = None if "csv" in name.lower() else ["review", "label"]
    with pytest.raises(UserError, match=message):
        list(texts.iter_texts([lines], name, ["p", "n"], False, columns))


def test_a_csv_may_have_one_column():
    assert list(texts.iter_texts([["Text", '"a, b"']], "new.csv", ["p", "n"], False)) == [[("a, b",)]]


@pytest.mark.parametrize(("line", "pairs"), [('{"review": "a"}', False), ("a", True), ("a\tb\tc", True)])
def test_texts_to_predict_in_other_columns_are_an_error(line, pairs):
    with pytest.raises(UserError, match="new:2"):
        list(texts.iter_texts([["", line]], "new", ["p", "n"], pairs))


@pytest.mark.parametrize(
    ("train", "test", "word"),
    [
        ("a\t1\nb\t1\n", "a\t1\n", "/train: all"),
        ("a\t1\nb\t2\nc\t1\n", "a\t3\n", "/test: the label"),
        ("a\t1\nb\t2\nc\t1\n", "a\t1\tb\n", "/test has pairs"),
        ("review\tmood\na\t1\nb\t2\n", "a\t1\n", "/train: its first .*columns"),
    ],
)
def test_files_that_do_not_fit(tmp_path, train, test, word):
    for name, content in (("train", train), ("test", test)):
        (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=word):
        texts.read_texts(tmp_path / "train", None, tmp_path / "test", None, "none", 9)


def test_labels_that_are_texts_are_refused(tmp_path):
    (tmp_path / "train").write_text("".join(f"{k % 2}\tfilm {k}\n" for k in range(99)), encoding="utf-8")
    with pytest.raises(UserError, match="columns=TEXT,LABEL"):
        texts.read_texts(tmp_path / "train", None, None, None, "none", 9)
    assert len(texts.read_texts(tmp_path / "train", None, None, ["1", "0"], "none", 9).classes) == 2


def test_a_warning_about_chinese_read_as_english(tmp_path, caplog):
    (tmp_path / "train").write_text("这家酒店的服务很好，但是房间太小\t1\n酒店很好\t2\n早餐一般\t1\n", encoding="utf-8")
    with caplog.at_level("WARNING", "elmo"):
        texts.read_texts(tmp_path / "train", None, None, None, "en", 9)
    assert "Chinese" in caplog.text


@pytest.mark.parametrize("elmo", ["none", "char"])
def test_the_language_is_recognised_and_saved(tmp_path, small_weights, elmo):
    lines = ["这家酒店的服务很好，但是房间太小\tgood", "早餐一般，味道太差\tbad", "iPhone OK\tgood", "差\tbad"]
    (tmp_path / "train").write_text("\n".join(lines * 4), encoding="utf-8")
    save = [*flags(tmp_path, "train"), "--protocol=split", f"--save_dir={tmp_path / 'model'}"]
    run(f"--init_from_ckpt={small_weights.get(elmo, elmo)}", *save)
    assert Classifier(tmp_path / "model").settings.lang == "zh"


def test_tokens_are_those_of_the_language(tmp_path):
    assert texts.tokenise_texts(["It's fine."], Tokeniser("en"), 9, tmp_path) == [["It", "'s", "fine", "."]]
    assert texts.tokenise_texts(["酒店很好。早餐一般。"], Tokeniser("zh"), 5, tmp_path) == [
        ["酒店", "很", "好", "。", "早餐"]
    ]


def test_cut_texts_are_counted_in_files_and_reported_once_in_predictions(messages):
    for k in range(3):
        texts.tokenise_texts(["a b c", "a"], Tokeniser("none"), 2, "file" if k == 2 else "")
    first, last = messages().strip().splitlines()
    assert "2 tokens" in first and "file: 1 of 2 texts" in last


# Parts


def labelled(labels: np.ndarray, n_dev: int = 0, n_test: int = 0) -> texts.Texts:
    return texts.Texts(["a"] * len(labels), [["a"]] * len(labels), labels, n_dev=n_dev, n_test=n_test)


def test_parts_come_from_the_files():
    labels = np.arange(130) % 3
    fold = folds.only_fold(labelled(labels, n_dev=20, n_test=10), seed=1)
    assert [part.tolist() for part in (fold.train, fold.dev, fold.test)] == [
        [*range(100)],
        [*range(100, 120)],
        [*range(120, 130)],
    ]
    fold = folds.only_fold(labelled(labels, n_test=10), seed=1)
    assert sorted([*fold.train, *fold.dev]) == [*range(120)] and len(fold.dev) == 12 and len(fold.test) == 10
    fold = folds.only_fold(labelled(labels, n_dev=20), seed=1)
    assert fold.train.tolist() == [*range(110)] and fold.scored.tolist() == fold.dev.tolist() == [*range(110, 130)]
    with pytest.raises(UserError, match="dev"):
        folds.only_fold(labelled(np.r_[labels, 1, 1], n_dev=2), seed=1)
    with pytest.raises(UserError, match="rarest"):  # a tenth of them has none of the second class
        folds.only_fold(labelled(np.array([0] * 1000 + [1] * 4 + [0, 1]), n_test=2), seed=1)


# Scores


def test_scores_of_several_classes_are_those_worked_out_by_hand():
    labels = np.array([0, 0, 1, 2])
    probabilities = np.array([[0.6, 0.3, 0.1], [0.3, 0.4, 0.3], [0.2, 0.5, 0.3], [0.5, 0.1, 0.4]])
    # predicted 0 1 1 0: precisions 1/2 1/2 0, recalls 1/2 1 0
    assert scores.auc(probabilities, labels) == pytest.approx((3 / 4 + 1 + 1) / 3)
    results = scores.Results("", np.arange(4), labels, probabilities, ["x", "yy", "z"])
    assert results.macro_f1 == pytest.approx((1 / 2 + 2 / 3 + 0) / 3) and results.accuracy == 0.5
    assert [line.split() for line in scores.confusion_table(results).splitlines()] == [
        ["predicted", "x", "yy", "z"],
        ["x", "1", "1", "0"],
        ["yy", "0", "1", "0"],
        ["z", "1", "0", "0"],
    ]
    results.classes = ["x", "好评", "很差的差评"]  # which are wider than they are long
    for table in (scores.confusion_table(results), scores.per_class_table(results)):
        assert len(set(map(display_width, table.splitlines()))) == 1
    results.classes = ["x", "yy", "z"]
    header, *rows = scores.mistakes(results, ["one", "two", "three", "four"], pairs=False)
    assert header == ("probability", "label", "predicted", "text")
    assert rows == [("0.3000", "x", "yy", "two"), ("0.4000", "z", "x", "four")]
    assert "precision  50.00%  recall 100.00%  F1  66.67%  support 1" in scores.per_class_table(results)


def test_scores_are_those_of_scikit_learn():
    draw = np.random.RandomState(0)
    for classes in (2, 4):
        labels, probabilities = draw.randint(classes, size=60), draw.dirichlet(np.ones(classes), 60).round(1)
        results = scores.Results("", labels, labels, probabilities, list("abcd"[:classes]))
        given = (labels, probabilities[:, 1]) if classes == 2 else (labels[:, None] == range(classes), probabilities)
        assert scores.auc(probabilities, labels) == pytest.approx(metrics.roc_auc_score(*given))
        assert results.macro_f1 == pytest.approx(metrics.f1_score(labels, results.prediction, average="macro"))


def test_mistakes_of_two_classes():
    numbers, labels, positive = np.array([4, 5, 6, 7, 8]), np.array([0, 0, 1, 1, 1]), np.array([0.1, 0.7, 0.9, 0.2, 1])
    results = scores.Results("", numbers, labels, np.stack([1 - positive, positive], axis=1))
    _, *rows = scores.mistakes(results, [f"{k}\t{k}" for k in range(9)], pairs=True)
    assert rows == [("0.2000", "positive", "negative", "7", "7"), ("0.3000", "negative", "positive", "5", "5")]


def test_weights_of_classes():
    data = texts.Texts(["a"] * 6, [["a"]] * 6, np.array([0, 0, 0, 1, 0, 0]), ["x", "y=z"], n_dev=1, n_test=1)
    assert folds.weights_of_classes(None, data) is None
    assert folds.weights_of_classes("balanced", data) == pytest.approx([4 / 6, 4 / 2])
    assert folds.weights_of_classes({"y=z": 2.5}, data) == pytest.approx([1, 2.5])
    for wrong in ("x", {"w": 1}, {"x": 0}, {"x": float("nan")}):
        with pytest.raises(UserError, match="class_weights"):
            folds.weights_of_classes(wrong, data)


# The script


def test_a_classifier_remembers_the_columns_it_was_trained_on(files, capsys):
    """Of LCQMC's layout: two questions and their label."""
    lines = [f"red {k}\tred\t1\nred {k}\tblue\t0\n" for k in range(40)]
    (files / "train").write_text("".join(lines), encoding="utf-8")
    model = [f"--model_dir={files / 'model'}", "--device=cpu"]
    run(*NOTHING, *flags(files, "train"), "--columns=0,2,1", "--protocol=split", f"--save_dir={files / 'model'}")
    capsys.readouterr()
    run_finetune.main(["evaluate", *model, f"--test_file={files / 'train'}"])
    assert "80 pairs" in capsys.readouterr().out
    for more in ([], ["--columns=0,2,1"]):
        run_finetune.main(["predict", *model, f"--input={files / 'train'}", *more])
        assert [line.split("\t")[2:] for line in capsys.readouterr().out.splitlines()[:2]] == [
            ["red 0", "red"],
            ["red 0", "blue"],
        ]


def test_from_training_to_prediction(files, capsys, monkeypatch):
    results, model = files / "r.json", f"--model_dir={files / 'model'}"
    run(
        *NOTHING,
        *flags(files, "train", "dev", "test"),
        "--confusion",
        f"--results={results}",
        f"--save_dir={files / 'model'}",
    )
    output, values = capsys.readouterr().out, read(results)
    assert values["accuracy"] > 0.9 and values["macro_f1"] > 0.9 and values["classes"] == ["art", "sport", "tech"]
    assert "macro F1" in output and "31 texts" in output and "predicted" in output
    assert np.shape(values["reviews"]["probability"]) == (31, 3)

    evaluate = ["evaluate", model, "--device=cpu", f"--json={files / 'scores.json'}"]
    run_finetune.main([*evaluate, *flags(files, "test"), "--confusion", f"--mistakes={files / 'mistakes'}"])
    assert capsys.readouterr().out.splitlines()[1:6] == output.splitlines()[1:6]
    scored = read(files / "scores.json")["test"]
    assert (scored["accuracy"], scored["macro_f1"]) == pytest.approx((values["accuracy"], values["macro_f1"]))
    assert len((files / "mistakes").read_text(encoding="utf-8").splitlines()) == 1 + round(
        31 * (1 - scored["accuracy"])
    )
    assert sum(one["support"] for one in scored["classes"].values()) == scored["texts"] == 31
    (files / "test").write_text("the match\tchess\n", encoding="utf-8")
    with pytest.raises(UserError, match="chess"):
        run_finetune.main([*evaluate, *flags(files, "test")])

    lines = ["painter museum", "", "goal match"]

    def predicted(*more: str) -> list[str]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\n".join(lines).encode())))
        run_finetune.main(["predict", model, "--device=cpu", *more])
        return capsys.readouterr().out.splitlines()

    rows = [line.split("\t") for line in predicted()]
    assert rows[1] == [""] and [rows[k][::2] for k in (0, 2)] == [["art", lines[0]], ["sport", lines[2]]]
    assert not predicted("--output_format=json", f"--output={files / 'out'}")
    first, blank, last = (files / "out").read_text(encoding="utf-8").splitlines()
    assert not blank
    for prediction, row in zip(map(json.loads, (first, last)), rows[::2], strict=True):
        assert list(prediction) == ["text", "label", "probabilities"]
        assert [prediction["label"], prediction["text"]] == [row[0], row[2]]
        assert prediction["probabilities"][row[0]] == pytest.approx(float(row[1]), abs=1e-4)


def test_text_to_predict_in_a_chinese_encoding_is_an_error(tmp_path):
    (tmp_path / "texts").write_text("这家酒店很好\n", encoding="gb18030")
    with pytest.raises(UserError, match=r"texts:1: .*GB18030"):
        texts.read_lines(tmp_path / "texts")


def test_a_weighted_class_is_predicted_more_often(files, capsys):
    lines = [f"{'xy'[k % 4 == 0]} z\t{'rare' if k % 24 == 0 else 'common'}" for k in range(2400)]
    (files / "train").write_text("\n".join(lines), encoding="utf-8")
    n_rare, quick = [], ["--folds=2", "--epochs=1", "--lr=0.05"]
    for k, more in enumerate(([], ["--class_weights", "balanced"], ["--class_weights", "rare=30"])):
        run(*NOTHING, *flags(files, "train"), *quick, *more, f"--results={files / f'{k}.json'}")
        columns = read(files / f"{k}.json")["reviews"]
        n_rare.append(sum(p for p, label in zip(columns["prediction"], columns["label"], strict=True) if label))
    assert n_rare[0] < 20 and min(n_rare[1:]) > 80


@pytest.mark.parametrize(
    "more",
    [
        ["--init_from_ckpt=none", "--word_vectors_trainable", "--word_vectors_lr=0.05", "--tune_epochs=3"],
        ["--init_from_ckpt=CKPT", "--elmo_trainable", "--elmo_lr=0.01", "--tune_epochs=1"],
        ["--init_from_ckpt=CKPT", "--layers=0"],
    ],
)
def test_pairs_are_trained_and_predicted(files, small_weights, more, capsys):
    """Whether two texts have the same first word: that neither tells alone."""
    generator = random.Random(3)
    pairs = [[generator.choice(["red", "blue"]) for _ in "ab"] for _ in range(120)]
    lines = [f"{a} x\t{'same' if a == b else 'other'}\t{b} x" for a, b in pairs]
    (files / "train").write_text("\n".join(lines), encoding="utf-8")
    argv = [flag.replace("CKPT", small_weights["char"]) for flag in more]
    argv += ["--lang=none", "--protocol=split", "--epochs=30"]
    run(*argv, *flags(files, "train"), f"--results={files / 'r.json'}", f"--save_dir={files / 'model'}")
    assert read(files / "r.json")["accuracy"] == 1.0
    classifier, lines = Classifier(files / "model"), ["red x\tred x", "blue x\tred x", "\t"]
    (predictions,) = classify_lines(classifier, [lines], "new", "tsv")
    assert [line.split("\t", 2)[::2] for line in predictions[:2]] == [["same", lines[0]], ["other", lines[1]]]
    assert json.loads(next(classify_lines(classifier, [lines], "new", "json"))[0])["text2"] == "red x"
    assert classifier.evaluate(files / "train")["accuracy"] > 0.9
    with pytest.raises(UserError, match="new:2"):
        list(classify_lines(classifier, [["red\tred"], ["red"]], "new", "tsv"))
    texts = [("red x", "red x"), ("", "red"), ("blue x " * 20, "red"), ("never seen", "red x")]
    together = classifier.probabilities(texts)
    for text, row in zip(texts, together, strict=True):
        np.testing.assert_allclose(classifier.probabilities([text])[0], row, rtol=1e-4, atol=1e-6)
    with ThreadPoolExecutor(4) as threads:
        for array in threads.map(classifier.probabilities, [texts] * 8):
            np.testing.assert_array_equal(array, together)
    assert list(classifier.iter_predict(iter(texts))) == classifier.predict(texts)
    with pytest.raises(TypeError, match="a list of tuples"):
        next(classifier.iter_predict("red"))
    assert classifier.probabilities([]).shape == (0, 2)
    with pytest.raises(TypeError, match="text2"):
        classifier.predict(["red x"])


def test_between_epochs_of_equal_auc_the_accuracy_decides():
    """On an easy task the ranking is right before the threshold is."""
    labels, columns = np.array([0, 1]), np.array([[[0.4, 0.6], [0.3, 0.7]], [[0.6, 0.4], [0.3, 0.7]]])
    early, late = (Results("", np.arange(2), labels, p, ["a", "b"]) for p in columns)
    assert early.value < late.value == pytest.approx(1)
