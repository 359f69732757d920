"""Dependency parsing: trees of scores, CoNLL-U, attachment scores, training."""

import io
import itertools
import re
import xml.etree.ElementTree
from dataclasses import replace

import numpy as np
import pytest

import run_parse
from args import with_flags
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError
from elmo_tasks.parsing.data import read_conllu
from elmo_tasks.parsing.network import Biaffine, ParserSettings, with_one
from elmo_tasks.parsing.parser import Parser
from elmo_tasks.parsing.trees import Score, Tree, find_cycle, maximum_tree

WHOLE = """\
# sent_id = 1
# text = Vámonos al mar azul.
1-2	Vámonos	_	_	_	_	_	_	_	_
1	Vamos	ir	VERB	_	Mood=Imp	0	root	_	_
2	nos	nosotros	PRON	_	Case=Acc	1	obj	_	_
3-4	al	_	_	_	_	_	_	_	_
3	a	a	ADP	_	_	5	case	_	_
4	el	el	DET	_	Definite=Def	5	det	_	_
5	mar azul	mar	NOUN	_	_	1	obl:arg	_	SpaceAfter=No
5.1	va	ir	VERB	_	_	_	_	1:conj	_
6	.	.	PUNCT	_	_	1	punct	_	_

"""
SENTENCES = {
    "the dog sleeps": ("2 3 0", "det nsubj root"),
    "a cat sees the dog": ("2 3 0 5 3", "det nsubj root det obj"),
}


def conllu(sentence: str, heads: str, labels: str) -> str:
    rows = enumerate(zip(sentence.split(), heads.split(), labels.split(), strict=True), 1)
    return (
        "".join(f"{k}\t{word}\t_\t{word[0].upper()}\t_\t_\t{h}\t{label}\t_\t_\n" for k, (word, h, label) in rows) + "\n"
    )


@pytest.fixture(scope="module")
def treebank(tmp_path_factory):
    path = tmp_path_factory.mktemp("treebank") / "train.conllu"
    path.write_text("".join(conllu(text, *tree) for text, tree in SENTENCES.items()) * 4, encoding="utf-8")
    return path


def test_the_best_tree_is_that_of_an_enumeration():
    random = np.random.default_rng(1)
    for n in (1, 2, 3, 4, 5):
        trees = [t for t in itertools.product(range(n + 1), repeat=n) if t.count(0) == 1 and not find_cycle([0, *t])]
        assert len(trees) == n ** (n - 1)  # Cayley's formula
        for scores in random.standard_normal((40, n, n + 1)).astype(np.float32):
            best = max(trees, key=lambda tree: scores[np.arange(n), tree].sum())
            assert tuple(maximum_tree(scores)) == best
    for scores in np.zeros((900, 901)), random.standard_normal((900, 901)):  # contracted many times
        tree = maximum_tree(scores).tolist()
        assert tree.count(0) == 1 and not find_cycle([0, *tree])


def test_biaffine_scores_are_their_definition():
    random = np.random.default_rng(2)
    layer, x, y = Biaffine(3, 2), *random.standard_normal((2, 1, 4, 3)).astype(np.float32)
    x, y = x[None, 0], y[None, 0]
    u = np.concatenate([layer.map.weight.numpy(), layer.map.bias.numpy()[None]]).reshape(4, 2, 4)
    one = np.ones((1, 4, 1))
    expected = np.einsum("bti,inj,btj->btn", np.concatenate([x, one], -1), u, np.concatenate([y, one], -1))
    product = paddle.matmul(layer(paddle.to_tensor(x)), with_one(paddle.to_tensor(y)).unsqueeze(-1)).squeeze(-1)
    np.testing.assert_allclose(product.numpy(), expected, rtol=1e-5)


def test_conllu_is_written_as_it_was_read(tmp_path):
    (tmp_path / "x.conllu").write_text(WHOLE, encoding="utf-8")
    (tree,) = read_conllu(tmp_path / "x.conllu")
    assert tree.tokens == ["Vamos", "nos", "a", "el", "mar_azul", "."] and tree.heads == [0, 1, 5, 5, 1, 1]
    assert tree.to_conllu() == WHOLE
    other = replace(tree, heads=[2, 0, 5, 5, 2, 2], labels=["x"] * 6)
    changed = other.to_conllu().splitlines()
    assert changed[3] == "1\tVamos\tir\tVERB\t_\tMood=Imp\t2\tx\t_\t_" and len(changed) == len(WHOLE.splitlines())


def test_scores_of_hand_worked_trees():
    gold = Tree(list("abcd"), [2, 0, 2, 3], ["det", "root", "nmod:poss", "punct"], ["D", "V", "N", "P"])
    tree = Tree(list("abcd"), [2, 0, 2, 2], ["amod", "root", "nmod", "punct"], ["D", "V", "N", "N"])
    score = Score([gold, gold], [tree, gold])
    assert score.to_dict() == {"uas": 7 / 8, "las": 6 / 8, "upos": 7 / 8, "words": 8}
    assert "upos" not in Score([replace(gold, tags=["_"] * 4)], [tree]).to_dict()


MISTAKES = [  # a change of WHOLE, a word of the message
    (("\t1\tobj", "\t9\tobj"), ":5: HEAD is 9"),
    (("\t1\tpunct", "\t0\tpunct"), ":1: the sentence has 2 roots"),
    (("\t0\troot", "\t2\troot"), "0 roots"),
    (("\t5\tcase\t", "\t4\tcase\t", "\t5\tdet", "\t3\tdet"), r"\[3, 4\] are a cycle"),
    (("\t1\tobj", "\t_\tobj"), ":5: HEAD is '_'"),
    (("\tobl:arg", "\t_"), "DEPREL '_'"),
    (("\n6\t", "\n5\t"), ":11: .*ID 6.$"),
    (("\n6\t", "\n1\t"), ":11: .*ID 6 or a blank line"),
    (("2\tnos\tnosotros", "2 nos nosotros"), ":5: .*10 columns"),
    ((WHOLE, "\n\n"), "no sentence"),
    (("nos\tn", "n\0s\tn"), "NUL"),
    (("\tnos\tn", "\t\tn"), ":5: .*a word"),
]


@pytest.mark.parametrize(("change", "pattern"), MISTAKES)
def test_a_treebanks_mistakes_are_named(tmp_path, change, pattern):
    text = WHOLE
    for old, new in zip(change[::2], change[1::2], strict=True):
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "x.conllu").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=rf"x\.conllu.*{pattern}"):
        list(read_conllu(tmp_path / "x.conllu"))


@pytest.mark.parametrize("kind", [None, "char"])
def test_a_parser_learns_is_moved_and_parses_raw_text(treebank, checkpoints, tmp_path, kind):
    few = {"epochs": 40, "patience": 0, "lr": 0.01, "word_dim": 8, "hidden_dim": 8, "arc_dim": 8, "label_dim": 6}
    settings = ParserSettings(**few, elmo=kind and str(checkpoints[kind]), dropout=0.0, batch_size=4, with_tags=True)
    parser = Parser.train(treebank, dev=treebank, settings=settings, save_dir=tmp_path / "a", progress=False)
    scores = parser.evaluate(treebank)
    assert (scores["uas"], scores["las"], scores["words"]) == (1, 1, 32) and 0.5 < scores["upos"] <= 1
    (tmp_path / "a").rename(tmp_path / "b")
    for trained in (parser, Parser(tmp_path / "b")):
        one, other = trained.predict(["the dog  sleeps", ["a", "cat", "sees", "the", "dog"]])
        assert (one.heads, one.labels, len(one.tags)) == ([2, 3, 0], ["det", "nsubj", "root"], 3)
        assert one.offsets == [(0, 3), (4, 7), (9, 15)] and not other.offsets and other.heads == [2, 3, 0, 5, 3]
        assert all(0.3 < score <= 1 for score in one.scores)
    assert str(one).splitlines()[1].split() == ["2", "dog", "nsubj", "3", "sleeps"]
    assert next(trained.predict(iter(["the dog sleeps"]))).heads == one.heads
    one.tokens[0] = "\1<&"
    assert xml.etree.ElementTree.fromstring(one.to_svg()).tag.endswith("svg") and one.to_svg().count("<path") == 3
    with pytest.raises(TypeError, match="found list"):
        Parser.train([treebank])
    (tmp_path / "untagged.conllu").write_text("1\ta\t_\t_\t_\t_\t0\troot\t_\t_\n\n" * 2, encoding="utf-8")
    with pytest.raises(UserError, match="with_tags"):
        Parser.train(tmp_path / "untagged.conllu", settings=settings)


@pytest.mark.parametrize(
    ("tokens", "step"), [(["the", "dog", "sleeps"], 1), (["12", "كتاب", "UN"], -1), (["(", "ספר", ")"], -1)]
)
def test_pictures_run_in_the_direction_of_the_script(tokens, step):
    tree = Tree(tokens, [2, 0, 2], ["x", "root", "y"])
    picture = xml.etree.ElementTree.fromstring(tree.to_svg())
    texts = [text for text in picture.iter("{http://www.w3.org/2000/svg}text") if not text.get("class")]
    assert [text.text for text in texts] == tokens
    places = [step * int(text.get("x")) for text in texts]
    assert places == sorted(places)
    first_arc, *_ = [path.get("d") for path in picture.iter("{http://www.w3.org/2000/svg}path") if path.get("d")]
    begin, end = map(int, re.findall(r"[MH](\d+)", first_arc))  # from the second word to the first
    assert step * end < step * begin < step * int(texts[1].get("x"))


def test_an_untrained_parser_predicts_trees_with_one_root(treebank):
    parser = Parser.train(
        treebank, settings=ParserSettings(epochs=0, hidden_dim=4, arc_dim=4, label_dim=4), progress=False
    )
    *empty, tree = parser.predict(["", "\u200b", [], "the dog sleeps"])
    assert [(str(one), one.to_conllu(), "<path d" in one.to_svg()) for one in empty] == [("", "", False)] * 3
    unparsed = parser.sentence("the dog")
    assert str(unparsed) == "the dog" and unparsed.to_conllu().splitlines()[1].split("\t")[6:8] == ["_", "_"]
    assert str(parser.predict([unparsed])[0]) == str(parser.predict(["the dog"])[0]) != "the dog"
    (blank,) = parser.predict([["the", "\n", "dog"]])
    assert blank.to_conllu().split("\n")[1].startswith("2\t_\t")
    assert tree.heads.count(0) == 1 and tree.labels[tree.heads.index(0)] == "root" and tree.labels.count("root") == 1
    assert all(0 < score < 1 for score in tree.scores)


def test_the_loss_and_the_probabilities_do_not_depend_on_the_batch(treebank):
    sizes = {"hidden_dim": 4, "arc_dim": 4, "label_dim": 4, "word_dim": 0}
    settings = ParserSettings(epochs=0, char_cnn=True, dropout=0.0, **sizes)
    parser = Parser.train(treebank, settings=settings, progress=False)
    short, long = list(read_conllu(treebank))[:2]
    for together, sentence in zip(parser.predict([short, long]), [short, long], strict=True):
        (alone,) = parser.predict([sentence])
        assert together.heads == alone.heads and together.scores == pytest.approx(alone.scores, abs=1e-5)

    def loss(trees) -> float:
        return parser.network.loss(parser.collate(trees)).item()

    parser.network.train()
    assert loss([short, long]) == pytest.approx((3 * loss([short]) + 5 * loss([long])) / 8, rel=1e-5)  # per word


@pytest.fixture
def run(tmp_path, capsys, monkeypatch, no_fsync):
    monkeypatch.chdir(tmp_path)

    def run(command: str, text: str = "") -> str:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        run_parse.main(command.split())
        return capsys.readouterr().out

    return run


def test_run_parse(run, treebank, tmp_path):
    sizes = "--epochs=1 --hidden_dim=4 --arc_dim=4 --label_dim=4 --word_dim=4 --device=cpu"
    printed = run(f"train --train_file={treebank} --test_file={treebank} --init_from_ckpt=none --save_dir=p {sizes}")
    (summary,) = (line for line in printed.splitlines() if line.startswith("== test"))
    assert summary.removeprefix("== test: ") in run(f"evaluate --model_dir=p --test_file={treebank} --device=cpu")
    run(f"predict --model_dir=p --input={treebank} --output=out.conllu --svg=tree.svg --device=cpu")
    assert len(list(read_conllu(tmp_path / "out.conllu"))) == 8 and "<svg" in (tmp_path / "tree.svg").read_text()
    lines = run("predict --model_dir=p --device=cpu", "\u200b\na dog\n\nthe cat sleeps\n").split("\n\n")
    assert lines[0].splitlines()[2].split("\t")[9] == "TokenRange=2:5" and len(lines) == 3
    comment, *rows, last = run("predict --model_dir=p --device=cpu", "dog's  end.").splitlines()
    assert comment == "# text = dog's  end." and not last
    places = ["SpaceAfter=No|TokenRange=0:3", "TokenRange=3:5", "SpaceAfter=No|TokenRange=7:10", "TokenRange=10:11"]
    assert [row.split("\t")[9] for row in rows] == places
    assert "\tdog's\t" in run("predict --model_dir=p --device=cpu --lang=none", "dog's  end.")
    for flags, text, word in (
        ("--input=missing.txt", "", "--input missing.txt"),
        (f"--input={treebank} --svg={treebank}", "", "--svg"),
        ("", treebank.read_text(encoding="utf-8"), "standard input:1: .*conllu"),
    ):
        with pytest.raises(UserError, match=word):
            run(f"predict --model_dir=p --device=cpu {flags}", text)
    with pytest.raises(UserError, match="overwrite"):
        run(f"train --train_file={treebank} --init_from_ckpt=none --save_dir=p {sizes}")
    with pytest.raises(UserError) as raised:
        run(f"train --train_file=missing.conllu --init_from_ckpt=none --save_dir=q {sizes}")
    assert "missing.conllu" in with_flags(str(raised.value))
