"""The lexical tagger of LAC_demo: its formats, its scores, the CRF, ELMo as its input, training, and the scripts."""

import gzip
import io
import itertools
import json
import random
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path
from types import SimpleNamespace

import models
import numpy as np
import pytest
import runs

import elmo
from elmo_core.runtime import UserError, paddle
from elmo_core.tokens import MARKERS, UNK_ID, Vocabulary

DEMO = runs.PROJECT / "LAC_demo"
sys.path.append(str(DEMO))

import experiment
import predict
import prepare
import reader
import settings
import train
import training
from bilm import Memory, Pretrained, elmo_encoder, init_pretraining_params
from crf import LinearChainCRF
from pieces import Pieces, tagged_line, words_of
from reader import Faults, Labels, Sentence
from score import Counts, Score, mean_and_deviation
from settings import Schedule, Settings
from tagger import Tagger

LABELS = Labels(["c", "n", "n-B", "n-I", "nr", "nr-B", "nr-I", "v", "v-B", "v-I", "w"])
TINY = Settings(False, word_emb_dim=5, grnn_hidden_dim=7, dropout=0.0, elmo_dropout=0.0)
SENTENCES = [["苹果", "很", "好"], ["q"], ["the", "bank", "of", "苹果", "x", "a", "river"]]


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Checkpoints of random biLMs: by characters, by words, and one by characters that has no vocabulary."""
    folder = tmp_path_factory.mktemp("elmo")
    found = {kind: models.save(models.random_bilm(input=kind, scale=1.0), folder / kind) for kind in ("char", "word")}
    found["imported"] = models.save(
        models.random_bilm(vocab_size=0, n_highway=1, activation="tanh"), folder / "imported"
    )
    (folder / "imported" / "vocab.txt").unlink()
    return found


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def vocabulary(*words: str) -> Vocabulary:
    return Vocabulary([*MARKERS, *words])


def encoder_of(path: str, **changes) -> elmo_encoder:
    encoder = elmo_encoder(**changes)
    init_pretraining_params(encoder, path)
    return encoder


# Data and formats


def test_the_demos_data_are_the_samples():
    for name, source in (("train", "train.tsv"), ("dev", "dev.tsv"), ("tag.dic", "tag.dic")):
        assert (DEMO / "data" / name).read_bytes() == (runs.PROJECT / "data" / "lac" / source).read_bytes()
    labels = Labels.from_file(DEMO / "data" / "tag.dic")
    assert "O" not in labels
    assert len(reader.read_tsv(DEMO / "data" / "dev", labels, Faults())) == 150


def test_the_table_of_full_width_forms_is_unicodes():
    wide = {c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.decomposition(c).startswith("<wide>")}
    table = reader.read_replacements(DEMO / "conf" / "q2b.dic")
    assert set(table) == wide - {"\u3000"}
    for character, narrow in table.items():
        assert int(unicodedata.decomposition(character).split()[1], 16) == ord(narrow)


def test_a_words_pieces_are_the_longest_that_the_vocabulary_has():
    pieces = Pieces(
        vocabulary("北京", "北京大", "大学", "学生", "A1", "，"), {"Ａ": "A", "１": "1", "，": ",", "：": ":"}
    )
    assert pieces.split("北京大学生") == ["北京大", "学生"]
    assert pieces.split("南京大学") == ["南", "京", "大学"]
    assert pieces.split("Ａ１") == ["A1"]
    assert pieces.split("，") == ["，"]  # which the vocabulary has as it is
    assert pieces.split("：") == [":"]
    whole = Pieces(vocabulary("北京"), {"Ａ": "A"}, whole=True)
    assert whole.split("北京Ａ") == ["北京A"]


def test_a_word_that_its_tag_does_not_let_be_divided_stays_whole():
    pieces = Pieces(vocabulary("而"), {})
    assert pieces.sentence([("而且", "c"), ("苹果", "n")], LABELS) == Sentence(
        ["而且", "苹", "果"], ["c", "n-B", "n-I"]
    )
    assert pieces.sentence([("而且", "q")], LABELS) == "q"


TAGGED = ["小明/nr 爱/v 苹果/n 和/c 1/2/n //w", "而且/c 北京大学/n ，/w"]


@pytest.mark.parametrize("whole", [False, True])
def test_a_corpus_comes_back_from_the_demos_format(tmp_path, whole):
    corpus = write(tmp_path / "corpus.txt", TAGGED[0], "", TAGGED[1].replace("，", "，Ａ"))
    vocab, labels = tmp_path / "vocab.txt", tmp_path / "tag.dic"
    vocabulary("苹果", "北京", "大学", "，").save(vocab)
    tsv, back = tmp_path / "out.tsv", tmp_path / "back.txt"
    flags = ["--whole_words"] if whole else []
    prepare.main(
        [
            str(corpus),
            f"--vocab_file={vocab}",
            f"--output={tsv}",
            f"--label_dict_path={labels}",
            "--make_label_dict",
            *flags,
        ]
    )
    lines = tsv.read_text(encoding="utf-8").splitlines()
    if whole:
        assert lines[0] == "小明 爱 苹果 和 1/2 /\tnr v n c n w"
    else:
        assert lines[0] == "小 明 爱 苹果 和 1 / 2 /\tnr-B nr-I v n c n-B n-I n-I w"
    prepare.main([str(tsv), "--reverse", f"--output={back}", f"--label_dict_path={labels}"])
    assert back.read_text(encoding="utf-8").splitlines() == [TAGGED[0], TAGGED[1].replace("，", "，A")]


def test_every_sentence_of_random_words_comes_back():
    generator = random.Random(1)
    for _ in range(200):
        known = {"".join(generator.choices("甲乙丙/", k=generator.randint(1, 3))) for _ in range(5)}
        words = [
            ("".join(generator.choices("甲乙丙/", k=generator.randint(1, 6))), generator.choice(["n", "nr", "v", "c"]))
            for _ in range(generator.randint(1, 8))
        ]
        sentence = Pieces(vocabulary(*sorted(known)), {}).sentence(words, LABELS)
        assert len(sentence.pieces) == len(sentence.labels)
        assert words_of(sentence.pieces, sentence.labels) == words


def test_conll_columns_are_words_or_chunks_of_rows(tmp_path):
    path = write(tmp_path / "x.conll", "小明 x nr", "爱\tx\tv", "", "", "北 B-n", "京 I-n", "山 B-n", "西 I-nr", "。 w")
    assert list(reader.read_conll(path, Faults())) == [
        (2, [("小明", "nr"), ("爱", "v")]),
        (9, [("北京", "n"), ("山", "n"), ("西", "nr"), ("。", "w")]),
    ]


MISTAKES = {
    "tsv": [
        ("苹果 好\tn v-B v-I", "2 words and 3 labels"),
        ("苹果 好\tn zz", "the label 'zz' is not in"),
        ("苹果 n", "no tab"),
        ("\tn", "0 words and 1 labels"),
        ("\udcff苹果\tn", "byte 0xff is not UTF-8"),
    ],
    "tagged": [
        ("苹果/n 好", "'好', expected a word, a slash and its tag"),
        ("/n", "'/n', expected a word"),
        ("苹果/", "'苹果/', expected a word"),
        ("\udcb0苹果/n", "byte 0xb0 is not UTF-8"),
    ],
    "conll": [("苹果", "one column, '苹果'"), ("\udcb0苹果 n", "byte 0xb0 is not UTF-8")],
}
READ = {
    "tsv": lambda path, faults: reader.read_tsv(path, LABELS, faults),
    "tagged": lambda path, faults: list(reader.read_tagged(path, faults)),
    "conll": lambda path, faults: list(reader.read_conll(path, faults)),
}
GOOD = {"tsv": "苹果\tn", "tagged": "苹果/n", "conll": "苹果 n"}


@pytest.mark.parametrize(("kind", "bad", "message"), [(kind, *rest) for kind in MISTAKES for rest in MISTAKES[kind]])
def test_a_bad_line_is_an_error_or_counted(tmp_path, said, kind, bad, message):
    path = tmp_path / "data"
    gap = "\n" if kind == "conll" else ""
    path.write_bytes(f"{GOOD[kind]}\n{gap}{bad}\n{gap}{GOOD[kind]}\n".encode("utf-8", "surrogateescape"))
    with pytest.raises(UserError, match="--skip_bad_lines") as error:
        READ[kind](path, Faults())
    assert message in str(error.value) and f"{path}:{2 + len(gap)}: " in str(error.value)
    faults = Faults(skip=True)
    assert len(READ[kind](path, faults)) == 2
    faults.report()
    assert "1 bad lines left out" in said() and message in said()


@pytest.mark.parametrize(
    ("content", "message"),
    [(gzip.compress("苹果/n\n".encode()), "gzip.*gunzip"), ("苹果/n\n".encode("utf-16"), "UTF-16.*iconv -f utf-16")],
    ids=["gzip", "utf-16"],
)
def test_a_file_of_another_kind_is_told_by_its_beginning(tmp_path, content, message):
    path = tmp_path / "data"
    path.write_bytes(content)
    with pytest.raises(UserError, match=f"data: .*{message}"):
        list(reader.read_tagged(path, Faults(skip=True)))


def test_a_row_that_cannot_be_read_takes_its_sentence_with_it(tmp_path):
    path = tmp_path / "x"
    path.write_bytes("甲 n\n乙 n\n\n丙 n\n".replace("乙", "\udcff").encode("utf-8", "surrogateescape"))
    assert list(reader.read_conll(path, Faults(skip=True))) == [(4, [("丙", "n")])]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n\nn-B\nn\n", ":3: the label n is there twice"),
        ("n v\n", ":1: found 'n v'"),
        ("", "no label"),
        ("n\n\n", ":2:"),
    ],
)
def test_a_faulty_tag_dic_is_refused(tmp_path, text, message):
    path = tmp_path / "tag.dic"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        Labels.from_file(path)


def test_numbered_labels_are_read_too(tmp_path):
    assert Labels.from_file(write(tmp_path / "tag.dic", "0\tn-B", "1\tn-I", "2\tO")).names == ["n-B", "n-I", "O"]


# Scores


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ("n v", [(0, 1, "n"), (1, 2, "v")]),
        ("n n", [(0, 1, "n"), (1, 2, "n")]),
        ("n-B n-I n-I n-B", [(0, 3, "n"), (3, 4, "n")]),
        ("n n-I n-I", [(0, 1, "n"), (1, 3, "n")]),
        ("n-I v-I", [(0, 1, "n"), (1, 2, "v")]),
        ("n-B v-I v-I", [(0, 1, "n"), (1, 3, "v")]),
        ("n-B O n-I O", [(0, 1, "n"), (2, 3, "n")]),
    ],
)
def test_chunks(labels, found):
    assert reader.chunks(labels.split()) == found


@pytest.mark.parametrize("scheme", ["IOBES", "IOB"])
def test_words_are_counted_as_paddles_chunk_eval_counts_chunks(scheme):
    """Any labels, where a bare tag is its S; and labels that go together, where it is its B, as in IOB."""
    generator = random.Random(2)
    tags, parts = ["n", "nr", "v"], {"IOBES": {"-B": 0, "-I": 1, "": 3}, "IOB": {"-B": 0, "-I": 1, "": 0}}[scheme]
    n_parts = 4 if scheme == "IOBES" else 2

    def labels(n: int) -> list[str]:
        if scheme == "IOBES":
            return [generator.choice(["O", *(tag + part for tag in tags for part in parts)]) for _ in range(n)]
        lengths = generator.choices([1, 1, 2, 3], k=n)
        words = (LABELS.of_word(generator.choice(tags), length) for length in lengths)
        return list(itertools.chain.from_iterable(words))[:n]

    def numbers(names: list[str]) -> list[int]:
        pairs = map(reader.parted, names)
        return [
            len(tags) * n_parts if tag == "O" else tags.index(tag) * n_parts + parts["-" * bool(p) + p]
            for tag, p in pairs
        ]

    for _ in range(100):
        n = generator.randint(1, 12)
        expected, predicted = labels(n), labels(n)
        score = Score()
        score.add(["x"] * n, expected, predicted)
        inputs = [paddle.to_tensor([numbers(names)]) for names in (predicted, expected)]
        outputs = paddle._C_ops.chunk_eval(*inputs, paddle.to_tensor([n]), len(tags), scheme, [])
        *figures, n_predicted, n_expected, n_correct = [output.item() for output in outputs]
        assert score.total == Counts(n_correct, n_predicted, n_expected)
        found = score.total.precision, score.total.recall, score.total.f1
        np.testing.assert_allclose(found, figures, rtol=1e-6)


def test_scores_by_tag_and_of_unknown_words():
    score = Score()
    score.add(["北", "京", "爱", "山"], ["n-B", "n-I", "v", "n"], ["n-B", "n-I", "n", "n"], known={"山"})
    assert score.tags == {"n": Counts(2, 3, 2), "v": Counts(0, 0, 1)}
    assert score.unknown == Counts(1, 2, 2)
    assert (score.total.precision, score.total.recall) == (2 / 3, 2 / 3)


def test_mean_and_deviation():
    assert mean_and_deviation([1.0, 3.0]) == (2.0, pytest.approx(2**0.5))
    assert mean_and_deviation([5.0]) == (5.0, 0.0)


# The CRF


def random_crf(n_labels: int, spread: float, impossible=None) -> LinearChainCRF:
    crf = LinearChainCRF(n_labels, impossible)
    generator = np.random.default_rng(n_labels)
    for weight in crf.parameters():
        weight.set_value(generator.normal(size=weight.shape, scale=spread).astype(np.float32))
    return crf


def path_score(crf: LinearChainCRF, emissions: np.ndarray, path) -> float:
    start, stop, transitions = (w.numpy().astype(np.float64) for w in (crf.start, crf.stop, crf.transitions))
    steps = sum(emissions[k, label] for k, label in enumerate(path))
    return start[path[0]] + stop[path[-1]] + steps + sum(transitions[a, b] for a, b in itertools.pairwise(path))


def all_paths(n_labels: int, length: int):
    return list(itertools.product(range(n_labels), repeat=length))


@pytest.mark.parametrize("spread", [0.5, 30.0, 3000.0])
@pytest.mark.parametrize("lengths", [[1], [4, 1, 3], [2, 4]])
def test_the_loss_is_that_of_enumerating_all_labellings(spread, lengths):
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
def test_the_losss_gradients_are_those_of_finite_differences(spread):
    n_labels, lengths, labels = 3, np.array([3, 1, 2]), np.array([[0, 2, 1], [1, 0, 0], [2, 2, 0]])
    paddle.set_default_dtype("float64")
    try:
        crf = LinearChainCRF(n_labels)
    finally:
        paddle.set_default_dtype("float32")
    generator = np.random.default_rng(3)
    crf.transitions.set_value(generator.normal(size=[n_labels, n_labels]) * spread)
    emissions = paddle.to_tensor(generator.normal(size=(3, 3, n_labels)), stop_gradient=False)
    crf(emissions, labels, lengths).sum().backward()
    for tensor in (emissions, crf.transitions, crf.start, crf.stop):
        gradient, values, step = tensor.grad.numpy(), tensor.numpy(), 1e-5
        for place in np.ndindex(*values.shape):
            ends = []
            for sign in (1, -1):
                moved = values.copy()
                moved[place] += sign * step
                tensor.set_value(moved)
                ends.append(float(crf(emissions, labels, lengths).sum()))
            tensor.set_value(values)
            assert gradient[place] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-6)


def test_what_stands_beyond_a_sentences_end_does_not_count():
    crf, lengths = random_crf(4, 1.0), np.array([2, 5, 1])
    generator = np.random.default_rng(0)
    emissions, labels = generator.normal(size=(3, 5, 4)), generator.integers(4, size=(3, 5))
    there = np.arange(5) < lengths[:, None]
    found = []
    for filling in (0.0, 1e9, np.nan):
        values = paddle.to_tensor(np.where(there[..., None], emissions, filling), stop_gradient=False)
        loss = crf(values, np.where(there, labels, 0), lengths)
        loss.sum().backward()
        assert not values.grad.numpy()[~there].any()
        found.append((loss.numpy(), values.grad.numpy()[there]))
    for loss, gradient in found[1:]:
        np.testing.assert_array_equal(loss, found[0][0])
        np.testing.assert_array_equal(gradient, found[0][1])


@pytest.mark.parametrize("lengths", [[1], [4, 1, 3], [2, 2, 4, 3]])
def test_decoding_finds_the_best_of_all_labellings(lengths):
    labels = Labels(["n-B", "n-I", "n", "v"])
    impossible = labels.impossible()
    generator = np.random.default_rng(len(lengths))
    for _ in range(20):
        crf = random_crf(len(labels), generator.uniform(0.1, 3), impossible)
        emissions = generator.normal(size=(len(lengths), max(lengths), len(labels))).astype(np.float32)
        found = crf.decode(paddle.to_tensor(emissions), np.array(lengths))
        for row, length in enumerate(lengths):
            possible = [
                path
                for path in all_paths(len(labels), length)
                if not any(impossible[a, b] for a, b in itertools.pairwise((-1, *path)))
            ]
            assert tuple(found[row]) == max(possible, key=lambda path: path_score(crf, emissions[row], path))


def test_what_labels_cannot_follow():
    labels = Labels(["n", "n-B", "n-I", "v-B", "v-I"])
    possible = {(a, b) for a in range(6) for b in range(5) if not labels.impossible()[a, b]}
    inside = {(1, 2), (2, 2), (3, 4), (4, 4)}
    assert possible == inside | {(a, b) for a in range(6) for b in (0, 1, 3)}


# ELMo as a layer


@pytest.mark.parametrize("kind", ["char", "word", "imported"])
def test_the_encoder_gives_the_mix_of_elmos_layers(checkpoints, kind):
    encoder = encoder_of(checkpoints[kind])
    encoder.eval()
    encoder.elmo.mixes[0].scalars.set_value(np.log([0.2, 0.3, 0.5]).astype(np.float32))
    encoder.elmo.mixes[0].gamma.set_value(np.array([2.0], np.float32))
    found = encoder(SENTENCES).numpy()
    assert found.shape == (3, 7, encoder.dim)
    expected = elmo.ELMoEmbedder(checkpoints[kind], layers=[0.4, 0.6, 1.0]).encode(SENTENCES)
    for row, array in enumerate(expected):
        np.testing.assert_allclose(found[row, : len(array)], array, rtol=1e-4, atol=1e-5)
        assert not found[row, len(array) :].any()
    np.testing.assert_array_equal(encoder(encoder.map_words(SENTENCES)).numpy(), found)


@pytest.mark.parametrize("given", ["words", "mapped"])
def test_what_the_encoder_cannot_read_whole_is_told(checkpoints, given, said):
    by_characters, by_words = (encoder_of(checkpoints[kind]) for kind in ("char", "word"))
    for encoder in (by_characters, by_words):
        sentences = [["x" * 60, "苹果"]]
        encoder(encoder.map_words(sentences) if given == "mapped" else sentences)
    assert "1 tokens of a batch have more than 48 bytes" in said()
    assert by_words.elmo.oov_share == 0.5


@pytest.mark.parametrize("kind", ["char", "word"])
def test_the_encoder_takes_word_ids(checkpoints, kind):
    encoder = encoder_of(checkpoints[kind])
    encoder.eval()
    known = [["苹果", "很"], ["river", "of", "bank"]]
    ids = encoder.word_ids(known)
    np.testing.assert_array_equal(ids, [[7, 8, 0], [6, 5, 4]])
    np.testing.assert_array_equal(encoder(ids).numpy(), encoder(known).numpy())
    np.testing.assert_array_equal(encoder(paddle.to_tensor(ids)).numpy(), encoder(known).numpy())
    with pytest.raises(UserError, match="found a 0 before a sentence's end"):
        encoder(np.array([[7, 0, 8]]))
    if kind == "word":
        assert encoder.word_ids([["nowhere"]]).tolist() == [[UNK_ID]]
    else:
        with pytest.raises(UserError, match="reads characters, but some of these words have no number"):
            encoder.word_ids([["nowhere"]])
    with pytest.raises(UserError, match=r"found int64 of shape \(1, 1\).* 99, expected \(B, T\) whole numbers"):
        encoder(np.array([[99]]))


def test_a_character_model_without_vocabulary_takes_words_only(checkpoints):
    encoder = encoder_of(checkpoints["imported"])
    with pytest.raises(UserError, match="give it words"):
        encoder.word_ids(SENTENCES)


@pytest.mark.parametrize("ids", [[[7.0, 8.0]], [[True]], [["苹果"]]])
def test_word_ids_are_whole_numbers(checkpoints, ids):
    with pytest.raises(UserError, match=r"word ids: found .* of shape \(1, .*expected \(B, T\) whole numbers"):
        encoder_of(checkpoints["word"])(np.array(ids))


@pytest.mark.parametrize(("gigabytes", "dtype", "tolerance"), [(1, "float32", 1e-5), (1e-6, "float16", 5e-3)])
def test_layers_that_are_remembered_are_the_layers(checkpoints, said, gigabytes, dtype, tolerance):
    encoder = encoder_of(checkpoints["char"])
    encoder.eval()
    expected = encoder(SENTENCES).numpy()
    encoder.memory = Memory(encoder, [*SENTENCES, SENTENCES[0]], gigabytes)  # 11 words x 3 layers x 14: 1,848 bytes
    assert f"11 words x 3 layers x 14, 0 MB in float32, kept in {dtype}" in said()
    encoder.elmo.layers = None  # must not be asked
    np.testing.assert_allclose(encoder(encoder.map_words(SENTENCES)).numpy(), expected, atol=tolerance)
    np.testing.assert_allclose(encoder(encoder.map_words(SENTENCES[1:2])).numpy(), expected[1:2, :1], atol=tolerance)


def test_what_has_no_room_is_not_remembered(checkpoints, said):
    encoder = encoder_of(checkpoints["char"])
    encoder.memory = Memory(encoder, SENTENCES, 1e-7)
    assert "computed anew each time" in said()
    assert encoder(encoder.map_words(SENTENCES)).shape == [3, 7, 14]


def test_an_encoder_without_its_parameters_says_so():
    for use in (
        lambda e: e.dim,
        lambda e: e.map_words(SENTENCES),
        lambda e: e.word_ids(SENTENCES),
        lambda e: e(SENTENCES),
        lambda e: e(np.array([[7]])),
        lambda e: e.l2_loss(),
        lambda e: e.mix(),
    ):
        with pytest.raises(UserError, match="call init_pretraining_params"):
            use(elmo_encoder())


@pytest.mark.parametrize("trainable", [False, True])
def test_the_bilm_is_frozen_unless_told_otherwise(checkpoints, trainable):
    encoder = encoder_of(checkpoints["word"], trainable=trainable, dropout=0.0)
    (encoder(SENTENCES) ** 2).sum().backward()
    assert [weight.grad is not None for weight in encoder.elmo.bilm.forward_lstm[0].parameters()] == [trainable] * 4
    assert encoder.elmo.mixes[0].scalars.grad is not None


def test_dropout_and_penalty(checkpoints):
    encoder = encoder_of(checkpoints["char"], elmo_l2_coef=0.5, dropout=0.5)
    assert 0.3 < (encoder(SENTENCES).numpy()[2] == 0).mean() < 0.7
    encoder.elmo.mixes[0].scalars.set_value(np.array([1, 2, 0], np.float32))
    assert encoder.l2_loss().item() == pytest.approx(0.5 * 5)


# The tagger


def tiny_tagger(pretrained: str | None = None, **changes) -> Tagger:
    paddle.seed(1)
    changed = settings.Settings(**{**vars(TINY), "use_elmo": pretrained is not None, **changes})
    return Tagger(
        changed, vocabulary("苹果", "很", "好", "the", "of"), LABELS, pretrained and Pretrained.of(pretrained)
    )


@pytest.mark.parametrize("kind", [None, "char", "word"])
def test_a_sentences_tags_do_not_depend_on_its_batch(checkpoints, kind):
    tagger = tiny_tagger(checkpoints.get(kind))
    tagger.network.eval()
    together = tagger.network(reader.batch_of(SENTENCES, tagger.words)).numpy()
    for row, sentence in enumerate(SENTENCES):
        alone = tagger.network(reader.batch_of([sentence], tagger.words)).numpy()[0]
        np.testing.assert_allclose(together[row, : len(sentence)], alone, atol=1e-5)
    tags = tagger.tag([[], *SENTENCES, [], SENTENCES[0] * 50])
    assert tags[0] == tags[4] == []
    assert tags[1:4] == [tagger.tag([sentence])[0] for sentence in SENTENCES]
    assert tags[5] == tagger.tag([SENTENCES[0] * 50])[0]


def test_parts_learn_at_their_own_rates(checkpoints):
    """Adam's first step has the length of the rate."""
    tagger = tiny_tagger(checkpoints["word"], emb_learning_rate=5.0, crf_learning_rate=0.2, elmo_trainable=True)
    before = {name: weight.numpy().copy() for name, weight in tagger.network.state_dict().items()}
    optimizer = paddle.optimizer.Adam(0.01, parameters=tagger.network.parameters())
    batch = reader.batch_of([["苹果", "好"]], tagger.words, [[1, 7]])
    tagger.network.loss(batch).backward()
    optimizer.step()
    for name, rate in {
        "word_embedding.weight": 0.05,
        "emission.weight": 0.01,
        "crf.transitions": 0.002,
        "encoder.elmo.bilm.token_encoder.embedding.weight": 0.001,
        "encoder.elmo.mixes.0.gamma": 0.01,
    }.items():
        change = np.abs(tagger.network.state_dict()[name].numpy() - before[name]).max()
        assert change == pytest.approx(rate, rel=1e-2), name


def sentences_to_learn() -> list[Sentence]:
    """`bank` is a verb behind `the`, else a word of two pieces with what follows."""
    generator = random.Random(4)
    found = []
    for _ in range(30):
        pieces, labels = [], []
        for _ in range(generator.randint(1, 5)):
            verb = generator.random() < 0.5
            pieces += ["the", "bank"] if verb else ["bank", "q"]
            labels += ["c", "v"] if verb else ["n-B", "n-I"]
        found.append(Sentence(pieces, labels))
    return found


@pytest.mark.parametrize("kind", [None, "char"])
def test_the_tagger_learns_and_keeps_its_best_epoch(checkpoints, kind, monkeypatch):
    sentences = sentences_to_learn()
    paddle.seed(1)
    words = training.training_words(sentences)
    pretrained = Pretrained.of(checkpoints[kind]) if kind else None
    tagger = Tagger(Settings(**{**vars(TINY), "use_elmo": bool(kind)}), words, LABELS, pretrained)
    scores, score_of = [], Tagger.score

    def score(tagger, *rest):
        scores.append(score_of(tagger, *rest))
        return scores[-1]

    monkeypatch.setattr(Tagger, "score", score)
    schedule = Schedule(epochs=60, batch_size=8, base_learning_rate=0.02, patience=3)
    best = training.train(tagger, sentences, sentences[:9], schedule)
    epochs = [found.total.f1 for found in scores]
    assert best.score.total.f1 == max(epochs) == epochs[best.epoch - 1] > 0.98
    assert len(epochs) in (60, best.epoch + 3)
    assert score_of(tagger, sentences[:9], set()).total == best.score.total


def test_rare_words_are_read_as_unknown_while_learning(monkeypatch):
    sentences = [Sentence(["苹果"], ["n"])] * 50 + [Sentence(["好"], ["v"])]
    words = training.training_words(sentences)
    tagger, seen = Tagger(TINY, words, LABELS), []
    loss = tagger.network.loss
    monkeypatch.setattr(tagger.network, "loss", lambda batch: seen.extend(batch.ids.ravel().tolist()) or loss(batch))
    training.train(tagger, sentences, sentences[:1], Schedule(epochs=40))
    assert 8 <= seen.count(words.id("好")) <= 32  # of 40 times, expected 20
    assert 1900 < seen.count(words.id("苹果")) < 2000  # of 2,000, expected 1,961


def test_a_tagger_comes_back_from_its_folder(checkpoints, tmp_path):
    for name, changes in {"frozen": {}, "tuned": {"elmo_trainable": True}, "baseline": {"use_elmo": False}}.items():
        pretrained = None if name == "baseline" else checkpoints["word"]
        tagger = tiny_tagger(pretrained, **changes)
        if name == "tuned":
            weight = tagger.network.encoder.elmo.bilm.forward_lstm[0].bias
            weight.set_value(weight + 0.5)
        tagger.save(tmp_path / name)
        assert any(key.startswith("encoder.elmo.bilm") for key in tagger.weights()) == (name == "tuned")
        loaded = Tagger.load(tmp_path / name)
        batch = reader.batch_of(SENTENCES, tagger.words)
        tagger.network.eval(), loaded.network.eval()
        np.testing.assert_array_equal(loaded.network(batch).numpy(), tagger.network(batch).numpy())
        assert loaded.tag(SENTENCES) == tagger.tag(SENTENCES)


def test_another_elmo_than_in_training_is_refused(checkpoints, tmp_path):
    tiny_tagger(checkpoints["word"]).save(tmp_path)
    with pytest.raises(UserError, match="is not the ELMo that"):
        Tagger.load(tmp_path, checkpoints["char"])
    with pytest.raises(UserError, match="no field 'tagger'"):
        Tagger.load(Path(checkpoints["char"]).parent)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("word_emb_dim", "128", "is '128', expected a whole number above 0"),
        ("word_emb_dim", -1, "is -1, expected a whole number above 0"),
        ("bigru_num", 2.0, "is 2.0, expected a whole number above 0"),
        ("grnn_hidden_dim", True, "is True, expected a whole number above 0"),
        ("dropout", 7, "is 7, expected a number from 0 to below 1"),
        ("elmo_l2_coef", float("nan"), "is nan, expected a number, 0 or more"),
        ("crf_learning_rate", None, "is None, expected a number above 0"),
        ("use_elmo", "false", "is 'false', expected true or false"),
        ("size", 3, "is not known"),
        ("dropout", ..., "is missing"),
    ],
)
def test_damaged_settings_are_refused_by_file_and_field(field, value, message):
    values = {name: found for name, found in {**vars(TINY), field: value}.items() if found is not ...}
    with pytest.raises(UserError, match=rf"^x/config.json: tagger\.{field} {message}"):
        Settings.from_dict(values, "x/config.json")


def test_every_setting_has_a_range():
    assert Settings.from_dict(vars(TINY), "config.json") == TINY
    assert sorted(name for _, fields in settings.RANGES.values() for name in fields) == sorted(vars(TINY))


def changed_config(folder: Path, change) -> None:
    values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    change(values)
    write(folder / "config.json", json.dumps(values))


def test_a_tagger_says_what_its_elmo_lacks_and_how_to_find_it(checkpoints, tmp_path):
    tiny_tagger(checkpoints["word"]).save(tmp_path)
    changed_config(tmp_path, lambda values: values["elmo"].update(checkpoint="/moved/away"))
    with pytest.raises(UserError, match=r"/moved/away: no checkpoint.*--pretrain_elmo_model_path says where to"):
        Tagger.load(tmp_path)
    assert Tagger.load(tmp_path, checkpoints["word"]).pretrained == Pretrained.of(checkpoints["word"])
    for change in (lambda values: values["elmo"].pop("fingerprint"), lambda values: values.pop("elmo")):
        changed_config(tmp_path, change)
        with pytest.raises(UserError, match=r"config.json: elmo is .*expected a checkpoint and the fingerprint"):
            Tagger.load(tmp_path)


def test_dictionaries_that_are_not_those_of_training_are_refused(tmp_path):
    tagger = tiny_tagger()
    tagger.pieces = tagger.words
    tagger.save(tmp_path)
    for name in ("words.txt", "tag.dic", "pieces.txt"):
        before = (tmp_path / name).read_text(encoding="utf-8")
        *lines, one, other = before.splitlines()
        write(tmp_path / name, *lines, other, one)
        with pytest.raises(UserError, match=f"{name} is not the one that this tagger was trained with"):
            Tagger.load(tmp_path)
        write(tmp_path / name, *before.splitlines())
    (tmp_path / "pieces.txt").unlink()
    with pytest.raises(UserError, match=r"pieces.txt is missing"):
        Tagger.load(tmp_path)
    changed_config(tmp_path, lambda values: values.pop("dictionaries"))
    assert Tagger.load(tmp_path).pieces is None  # a tagger of the time when their fingerprints were not kept


def test_a_tagger_keeps_the_elmo_that_it_was_trained_with(checkpoints, tmp_path):
    """Though the pretraining that it comes from has gone on, or has been deleted."""
    folder = tmp_path / "elmo"
    shutil.copytree(Path(checkpoints["word"]).parent, folder)
    first, later = folder / Path(checkpoints["word"]).name, folder / "99999"
    tagger = tiny_tagger(str(folder))
    for suffix in (".pdparams",):
        shutil.copy(f"{checkpoints['char']}{suffix}", f"{later}{suffix}")
    tagger.save(tmp_path / "tagger")
    loaded = Tagger.load(tmp_path / "tagger")
    assert loaded.pretrained == Pretrained.of(first) and loaded.tag(SENTENCES) == tagger.tag(SENTENCES)
    shutil.rmtree(folder)
    tagger.save(tmp_path / "tagger")
    assert (tmp_path / "tagger" / "best.pdparams").exists()


# The scripts

SMALL = ["--word_emb_dim=5", "--grnn_hidden_dim=7", "--device=cpu"]
TSV = ["小 明 爱 苹果 。\tnr-B nr-I v n w", "苹果 很 好 。\tn c v w", "我 爱 北京 大学 。\tn v n-B n-I w"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write(folder / "train.tsv", *TSV * 3)
    write(folder / "dev.tsv", *TSV)
    write(folder / "tag.dic", *LABELS.names)
    write(
        folder / "corpus.txt", *["小明/nr 爱/v 苹果/n 。/w", "我/n 爱/v 北京大学/n ，/w", "苹果/n 很/c 好/v 。/w"] * 4
    )
    write(folder / "test.txt", "小明/nr 爱/v 北京/n 。/w", "小红/nr 爱/v 苹果/n ！/w")
    return folder


def train_flags(data: Path, save: Path, **changes) -> list[str]:
    values = {
        "traindata_dir": data / "train.tsv",
        "testdata_dir": data / "dev.tsv",
        "label_dict_path": data / "tag.dic",
        "model_save_dir": save,
        "epochs": 2,
        **changes,
    }
    return [f"--{name}" if value is True else f"--{name}={value}" for name, value in values.items()] + SMALL


@pytest.mark.parametrize("kind", [None, "char", "word"])
def test_train_and_predict(checkpoints, data, tmp_path, kind, capsys, monkeypatch):
    elmo_flags = {"use_elmo": "false"} if kind is None else {"pretrain_elmo_model_path": checkpoints[kind]}
    learn = {"epochs": 60, "base_learning_rate": 0.03, "batch_size": 3, "dropout": 0, "elmo_dropout": 0}
    train.main(train_flags(data, tmp_path / "tagger", **learn, **elmo_flags))
    printed = capsys.readouterr().out
    assert ("baseline F1 " if kind is None else "+ELMo F1 ") in printed and "unknown words" in printed
    assert ("layers of ELMo" in printed) == (kind is not None)

    text = "\n  苹果  很 好 。\n\n　\n小明 爱 ＡＢ 。\n"
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))
    predict.main([f"--model_dir={tmp_path / 'tagger'}", "--segmented"])
    lines = capsys.readouterr().out.split("\n")
    assert [bool(line) for line in lines] == [False, True, False, False, True, False]
    assert lines[1] == "苹果/n 很/c 好/v 。/w"
    assert "".join(token.rpartition("/")[0] for token in lines[4].split()) == "小明爱ＡＢ。"

    raw, output = write(tmp_path / "raw.txt", "小明爱北京大学。", "", "苹果很好。"), tmp_path / "tagged.txt"
    predict.main([f"--model_dir={tmp_path / 'tagger'}", f"--input={raw}", f"--output={output}"])
    found = output.read_text(encoding="utf-8").splitlines()
    assert found[2] == "苹果/n 很/c 好/v 。/w" and not found[1]
    assert "".join(token.rpartition("/")[0] for token in found[0].split()) == "小明爱北京大学。"


def test_predict_keeps_its_place_at_lines_that_cannot_be_read(data, tmp_path, said):
    train.main(train_flags(data, tmp_path / "tagger", use_elmo="false"))
    raw, output = tmp_path / "raw", tmp_path / "tagged"
    raw.write_bytes("苹果\n".encode("gb18030") + "好\n".encode() + "苹果\n".encode("gb18030"))
    flags = [f"--model_dir={tmp_path / 'tagger'}", f"--input={raw}", f"--output={output}"]
    with pytest.raises(UserError, match=r"raw:1: byte 0x.. is not UTF-8"):
        predict.main(flags)
    assert not output.exists()
    predict.main([*flags, "--skip_bad_lines"])
    first, second, third = output.read_text(encoding="utf-8").splitlines()
    assert not first and second.startswith("好/") and not third
    assert "2 bad lines" in said()
    before = raw.read_bytes()
    with pytest.raises(UserError, match=r"--output .*raw is what is to be read"):
        predict.main([flags[0], f"--input={raw}", f"--output={raw}"])
    assert raw.read_bytes() == before


@pytest.mark.parametrize("target", ["tagger/tag.dic", "tagger/config.json", "elmo/vocab.txt", "q.dic"])
def test_predict_writes_over_nothing_that_it_reads(checkpoints, tmp_path, target):
    shutil.copytree(Path(checkpoints["word"]).parent, tmp_path / "elmo")
    tiny_tagger(str(tmp_path / "elmo")).save(tmp_path / "tagger")
    raw, forms = write(tmp_path / "raw.txt", "好"), write(tmp_path / "q.dic")
    before = (tmp_path / target).read_bytes()
    flags = [f"--model_dir={tmp_path / 'tagger'}", f"--word_rep_dict_path={forms}", f"--input={raw}"]
    with pytest.raises(UserError, match=f"--output .*{target} is what is to be read"):
        predict.main([*flags, f"--output={tmp_path / target}"])
    assert (tmp_path / target).read_bytes() == before


def test_a_rate_that_is_too_high_is_said_at_once(data, tmp_path):
    with pytest.raises(UserError, match="the loss became nan: give a lower --base_learning_rate"):
        train.main(train_flags(data, tmp_path, use_elmo="false", base_learning_rate="1e30", epochs=20))


@pytest.mark.parametrize("whole", [False, True])
def test_a_corpus_may_have_words_without_a_tag(tmp_path, whole, capsys):
    """O is no tag: it is not counted, and a word that has it is no word, in however many pieces."""
    corpus = write(tmp_path / "corpus.txt", *["小明/nr 去/O 北京大学/O 。/w", "小明/nr 走/O"] * 4)
    pieces = write(tmp_path / "vocab.txt", *MARKERS, "小明", "北京", "大学")
    flags = [
        f"--train_data={corpus}",
        f"--test_data={corpus}",
        f"--json={tmp_path / 'x.json'}",
        f"--vocab_file={pieces}",
    ]
    experiment.main([*flags, "--seeds=1", "--epochs=1", *SMALL, *["--whole_words"][:whole]])
    rows = capsys.readouterr().out.split("F1 by tag")[1].splitlines()[1:]
    assert sorted(row.split()[0] for row in rows) == ["nr", "w"]


def test_train_refuses_to_destroy_or_to_begin_without_elmo(checkpoints, data, tmp_path, monkeypatch):
    with pytest.raises(UserError, match="holds another model"):
        train.main(train_flags(data, Path(checkpoints["char"]).parent, use_elmo="false", overwrite=True))
    train.main(train_flags(data, tmp_path / "tagger", use_elmo="false", epochs=1))
    with pytest.raises(UserError, match="add --overwrite"):
        train.main(train_flags(data, tmp_path / "tagger", use_elmo="false"))
    monkeypatch.setattr(train, "SAMPLE_ELMO", tmp_path / "sample" / "final")
    with pytest.raises(UserError, match=r"run `bash run.sh` in .* first"):
        train.main(train_flags(data, tmp_path / "other"))


@pytest.mark.parametrize("whole", [False, True])
def test_the_experiment_compares_arms_and_goes_on_where_it_was(checkpoints, data, tmp_path, whole, capsys, said):
    results = tmp_path / "results.json"
    flags = [
        f"--train_data={data / 'corpus.txt'}",
        f"--test_data={data / 'test.txt'}",
        f"--json={results}",
        f"--elmo=char={checkpoints['char']}",
        "--epochs=2",
        *(["--whole_words"] if whole else []),
        *SMALL,
    ]
    experiment.main([*flags, "--seeds=1"])
    first = json.loads(results.read_text(encoding="utf-8"))["runs"]
    experiment.main([*flags, "--seeds=1,2", f"--elmo=word={checkpoints['word']}"])
    found = json.loads(results.read_text(encoding="utf-8"))
    assert [(run["arm"], run["seed"]) for run in found["runs"]] == [
        *[("baseline", 1), ("char", 1), ("baseline", 2), ("char", 2), ("word", 1), ("word", 2)]
    ]
    assert found["runs"][:2] == first
    for run in found["runs"]:
        assert run["sentences"] == 11 and run["test"]["words"] == 8 and "nr" in run["test"]["tags"]
        assert run["test"]["unknown_words"]["words"] in (3, 4)  # 北京, 小红 and ！, and what was held out
    assert found["jieba"]["given"]["words"] == 8
    table = capsys.readouterr().out
    assert "char gains" in table and "word gains" in table and "jieba.posseg" in table
    with pytest.raises(UserError, match="another experiment, whose train_fraction"):
        experiment.main([*flags, "--train_fraction=0.5"])
    with pytest.raises(UserError, match="another checkpoint"):
        experiment.main([*flags[:3], f"--elmo=char={checkpoints['word']}", *flags[4:]])


@pytest.mark.parametrize(
    "damage",
    [
        lambda results: {"protocol": [], "runs": []},
        lambda results: {**results, "runs": [{}]},
        lambda results: {**results, "runs": {}},
        lambda results: {**results, "runs": [{**results["runs"][0], "test": {"f1": 1}}]},
        lambda results: {**results, "jieba": {}},
        lambda results: "{",
    ],
)
def test_a_damaged_file_of_results_is_refused(data, tmp_path, damage):
    flags = [f"--train_data={data / 'corpus.txt'}", f"--test_data={data / 'test.txt'}", "--whole_words"]
    results = tmp_path / "x.json"
    one = experiment.Experiment(experiment.parse([*flags, f"--json={results}"]), {"baseline": None})
    tags = {tag: {"f1": 1.0} for tag in ("nr", "v", "n", "w")}
    test = {"precision": 1.0, "recall": 1, "f1": 1.0, "unknown_words": {"f1": 0.0}, "tags": tags}
    whole = {"protocol": one.protocol(), "runs": [{"arm": "baseline", "seed": 1, "elmo": None, "test": test}]}
    write(results, json.dumps(whole))
    assert one.recall() == whole
    damaged = damage(whole)
    write(results, damaged if isinstance(damaged, str) else json.dumps(damaged))
    with pytest.raises(UserError, match=r"--json .*x.json is no file of results, or a damaged one"):
        one.recall()


def test_a_seed_does_not_count_twice(capsys):
    with pytest.raises(SystemExit):
        experiment.parse(["--train_data=x", "--test_data=x", "--json=x", "--seeds=1,2,1"])
    assert "a seed is there twice" in capsys.readouterr().err


def test_the_experiments_arms_get_the_same_sentences(checkpoints, data, tmp_path):
    args = experiment.parse(
        [
            f"--train_data={data / 'corpus.txt'}",
            f"--test_data={data / 'test.txt'}",
            f"--json={tmp_path / 'x'}",
            "--whole_words",
            "--train_fraction=0.5",
        ]
    )
    one = experiment.Experiment(args, {"baseline": None})
    sentences, dev = one.split(3)
    assert (len(sentences), len(dev)) == (5, 1)
    assert one.split(3) == (sentences, dev) and one.split(4) != (sentences, dev)


def test_jiebas_tags_are_mapped_to_those_they_most_often_meet():
    figures = experiment.jieba_figures(
        [[("小明", "nr"), ("爱", "v"), ("苹果", "nz"), ("。", "w")]] * 2,
        [[("小明", "nr"), ("爱", "n"), ("苹果", "nz")]],
    )
    assert figures["given_tags"]["n"] == "nz" and figures["given_tags"]["v"] == "v"
    assert figures["given"]["f1"] == pytest.approx(2 / 3)
    assert figures["given_words"]["f1"] == 1.0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--output=x"], "--vocab_file is missing"),
        (["--output=x", "--whole_words", "--label_dict_path=nowhere"], "nowhere: there is no such file"),
        (["--output=x", "--whole_words"], r"corpus.txt:1: the tag 'zz' is not in .*tag.dic"),
    ],
)
def test_prepare_says_what_is_wrong(tmp_path, flags, message):
    corpus = write(tmp_path / "corpus.txt", "苹果/zz")
    with pytest.raises(UserError, match=message):
        prepare.main([str(corpus), *flags])


@pytest.mark.parametrize(
    ("corpus", "message"),
    [("苹果/n 好/n-B", "corpus.txt: the tag 'n-B' ends as"), ("", "corpus.txt: no sentence that can be used")],
)
def test_a_corpus_that_no_labels_can_be_made_of_is_named(tmp_path, corpus, message):
    vocabulary("苹").save(tmp_path / "v.txt")
    flags = [f"--vocab_file={tmp_path / 'v.txt'}", f"--label_dict_path={tmp_path / 'new.dic'}", "--make_label_dict"]
    with pytest.raises(UserError, match=message):
        prepare.main([str(write(tmp_path / "corpus.txt", corpus)), f"--output={tmp_path / 'x.tsv'}", *flags])
    assert not (tmp_path / "new.dic").exists()


@pytest.mark.parametrize("more", [[], ["--make_label_dict"], ["--reverse"]])
@pytest.mark.parametrize("target", ["vocab_file", "label_dict_path", "word_rep_dict_path"])
def test_prepare_writes_over_nothing_that_it_reads(tmp_path, target, more):
    corpus = write(tmp_path / "corpus.txt", "苹/n")
    files = {
        "vocab_file": write(tmp_path / "v.txt", *MARKERS),
        "label_dict_path": write(tmp_path / "t.dic", "n"),
        "word_rep_dict_path": write(tmp_path / "q.dic"),
    }
    before = files[target].read_bytes()
    flags = [*(f"--{name}={path}" for name, path in files.items()), f"--output={files[target]}"]
    with pytest.raises(UserError, match=r"--output .* is what is to be read"):
        prepare.main([str(corpus), *flags, *more])
    assert files[target].read_bytes() == before


def test_prepare_does_not_write_two_files_into_one(tmp_path):
    corpus, new = write(tmp_path / "corpus.txt", "苹/n"), tmp_path / "new"
    with pytest.raises(UserError, match=r"--output .* is --label_dict_path too"):
        prepare.main([str(corpus), "--whole_words", "--make_label_dict", f"--label_dict_path={new}", f"--output={new}"])
    assert not new.exists()


def run(script: str, *flags, cwd: Path, text: str = "") -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, script, *map(str, flags)],
        cwd=cwd,
        input=text,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def test_the_scripts_run_from_the_root_and_from_the_demos_folder(data, tmp_path):
    prepared = tmp_path / "prepared.tsv"
    labels = f"--label_dict_path={data / 'tag.dic'}"
    corpus = data / "corpus.txt"
    done = run("LAC_demo/prepare.py", corpus, f"--output={prepared}", "--whole_words", labels, cwd=runs.PROJECT)
    assert done.returncode == 0 and "12 sentences" in done.stdout, done.stderr
    flags = train_flags(data, tmp_path / "tagger", use_elmo="false", traindata_dir=prepared, testdata_dir=prepared)
    done = run("train.py", *flags, cwd=DEMO)
    assert done.returncode == 0 and "baseline F1" in done.stdout, done.stderr
    done = run("LAC_demo/predict.py", f"--model_dir={tmp_path / 'tagger'}", cwd=runs.PROJECT, text="我爱苹果。\n\n好\n")
    assert done.returncode == 0 and done.stdout.count("\n") == 3, done.stderr
    done = run("experiment.py", f"--train_data={corpus}", f"--test_data={corpus}", f"--json={tmp_path / 'x'}", cwd=DEMO)
    assert done.returncode == 2 and done.stderr == (
        "error: --vocab_file is missing: the vocabulary whose pieces words become. Or give --whole_words.\n"
    )


def test_the_demo_says_what_it_needs_first(tmp_path):
    demo = shutil.copytree(DEMO, tmp_path / "LAC_demo", symlinks=True)
    for command in (["bash", "run.sh"], ["bash", str(demo / "run.sh")]):
        done = subprocess.run(command, cwd=demo, capture_output=True, encoding="utf-8", check=False)
        assert done.returncode == 2 and "Run `bash run.sh` in the repository's root first" in done.stderr


@pytest.mark.parametrize(
    ("flag", "code", "message"),
    [
        ("--model_save_d=x", 2, "run.sh sets --model_save_dir itself"),
        ("--use_elmo=false", 2, "run.sh sets --use_elmo itself"),
        ("--pretrain_elmo_model_path", 2, "run.sh sets --pretrain_elmo_model_path itself"),
        ("--he", 0, "Usage: bash run.sh"),
        ("-h", 0, "Usage: bash run.sh"),
    ],
)
def test_the_demo_keeps_its_own_flags(flag, code, message):
    command = ["bash", str(DEMO / "run.sh"), "--epochs=1", flag]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == code and message in (done.stderr if code else done.stdout)


def test_lines_are_written_as_they_are_read():
    assert tagged_line([("1/2", "m"), ("/", "w")]) == "1/2/m //w"
