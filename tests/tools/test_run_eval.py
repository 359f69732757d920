"""run_eval.py: perplexity and scores against the reference, in any batch; its files; mistakes."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest
import reference
import runs
import tiny
from stream_reference import KINDS, UNKNOWN, log_probability, write_text

import run_eval
from elmo import BiLM

FIGURES = ("forward", "backward", "mean of the two")


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A folder of two files, and all of their lines."""
    folder = tmp_path_factory.mktemp("text")
    return folder, write_text(folder / "0.txt", 47, seed=1) + write_text(
        folder / "1.txt", 22, seed=2
    )


@pytest.fixture(scope="module", params=KINDS)
def variant(request, tmp_path_factory):
    """A checkpoint with random weights, and the same for the reference."""
    bilm = tiny.random_bilm(**KINDS[request.param])
    return tiny.save(bilm, tmp_path_factory.mktemp("model")), tiny.reference_of(bilm)


def evaluate(capsys, checkpoint_, folder, *more) -> tuple[dict[str, float], str]:
    """Run it. Returns the figures by their names, and all that it prints."""
    capsys.readouterr()
    run_eval.main(
        [
            f"--init_from_ckpt={checkpoint_}",
            f"--dev_data_path={folder}",
            "--device=cpu",
            *map(str, more),
        ]
    )
    output = capsys.readouterr().out
    named = re.findall(r"^perplexity, (forward|backward|mean of the two) +([\d.]+)$", output, re.M)
    assert [name for name, _ in named] == list(FIGURES)
    return {name: float(figure) for name, figure in named}, output


# Exactness


@pytest.mark.parametrize(("batch_size", "unroll_steps"), [(1, 20), (3, 4), (80, 7)])
def test_perplexity_equals_the_reference(variant, text, capsys, batch_size, unroll_steps):
    """Of a text that is a single part."""
    prefix, weights = variant
    folder, lines = text
    sentences = list(filter(None, lines))
    predictions = sum(len(line) + 1 for line in sentences)
    forward, backward = (
        log_probability(weights, direction, sentences) for direction in reference.DIRECTIONS
    )
    losses = -forward / predictions, -backward / predictions
    expected = [*np.exp(losses), np.mean(np.exp(losses))]
    figures, output = evaluate(
        capsys, prefix, folder, f"--batch_size={batch_size}", f"--unroll_steps={unroll_steps}"
    )
    assert [figures[name] for name in FIGURES] == pytest.approx(expected, rel=2e-5, abs=6e-4)
    assert len(set(figures.values())) == 3, "the test has lost its power: two figures are the same"
    words = [word for line in lines for word in line]
    unknown = sum(word in UNKNOWN for word in words) / len(words)
    text = f"{len(words)} tokens in {sum(map(bool, lines))} sentences; {unknown:.2%}"
    assert text in output and f"predictions in each direction  {predictions} in" in output


def test_it_is_the_perplexity_that_pretraining_reported(tmp_path, capsys):
    corpus = runs.write_corpus(tmp_path / "corpus")
    runs.pretrain(runs.flags(corpus, tmp_path / "run", max_steps=12, dropout=0.5))
    reported = runs.log_lines(tmp_path / "run", "evaluation")[-1]
    # with the default number of rows, not that of the training
    more = ["--unroll_steps=9", f"--vocab_file={corpus / 'vocab.txt'}"]
    figures, _ = evaluate(capsys, tmp_path / "run", corpus / "dev.txt", *more)
    for name, key in (("forward", "forward_"), ("backward", "backward_"), ("mean of the two", "")):
        assert figures[name] == pytest.approx(reported[f"{key}perplexity"], abs=6e-4)


@pytest.mark.ranks
def test_ranks_find_the_figures_of_one_process(model, text, tmp_path, capsys):
    flags = [
        f"--init_from_ckpt={model}",
        f"--dev_data_path={text[0]}",
        "--device=cpu",
        "--batch_size=3",
    ]
    processes = runs.start_ranks("run_eval.py", flags, tmp_path)
    assert [process.wait(timeout=120) for process in processes] == [0, 0], (
        tmp_path / "rank0"
    ).read_text()
    printed = re.findall(
        r"^perplexity.* ([\d.]+)$", (tmp_path / "rank0").read_text(encoding="utf-8"), re.M
    )
    expected, _ = evaluate(capsys, model, text[0], "--batch_size=3")
    assert len(printed) == 3 and list(map(float, printed)) == pytest.approx(
        list(expected.values()), rel=1e-6, abs=1.1e-3
    )
    assert not re.search("^perplexity", (tmp_path / "rank1").read_text(encoding="utf-8"), re.M)


# Sentences and tokens


def read_tsv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_every_sentence_has_its_score_in_any_batch(variant, text, tmp_path, capsys):
    """A row for every line that is not blank.

    A batch size of 1 sorts 64 sentences by length at once.
    """
    prefix, weights = variant
    folder, lines = text
    numbers = [number for number, line in enumerate(lines) if line]
    sentences = [lines[number] for number in numbers]
    expected = np.array(
        [[log_probability(weights, d, [line]) for d in reference.DIRECTIONS] for line in sentences]
    )
    predictions = sum(len(line) + 1 for line in sentences)
    for size in (1, 3, 128):
        path = tmp_path / f"{size}.tsv"
        figures, output = evaluate(
            capsys, prefix, folder, f"--batch_size={size}", "--unit=nats", "--per_sentence", path
        )
        rows = read_tsv(path)
        assert [(row["line"], row["sentence"]) for row in rows] == [
            (str(n), str(k)) for k, n in enumerate(numbers)
        ]
        scores = np.array(
            [[float(row[name]) for name in ("forward", "backward", "mean")] for row in rows]
        )
        np.testing.assert_allclose(scores[:, :2], -expected, atol=1e-4, rtol=0)
        np.testing.assert_allclose(scores[:, 2], -expected.mean(axis=1), atol=1e-4, rtol=0)
        losses = -expected.sum(axis=0) / predictions
        assert [figures["forward"], figures["backward"]] == pytest.approx(
            np.exp(losses), rel=2e-5, abs=6e-4
        )
        assert f"in each direction  {predictions} in" in output


@pytest.mark.parametrize("context", ["sentence", "carry"])
def test_surprisal_adds_up_to_the_scores_and_the_perplexity(
    variant, text, tmp_path, capsys, context
):
    (prefix, _), (folder, lines) = variant, text
    outputs = "--per_token", tmp_path / "tokens", "--per_sentence", tmp_path / "sentences"
    figures, _ = evaluate(capsys, prefix, folder, f"--context={context}", *outputs)
    if context == "carry":
        assert figures == pytest.approx(evaluate(capsys, prefix, folder)[0], rel=1e-5, abs=1.1e-3)
    rows = read_tsv(tmp_path / "tokens")
    assert [[r["token"] for r in rows if r["line"] == str(k)] for k in range(len(lines))] == [
        [*line, "</S>"] if line else [] for line in lines
    ]
    assert all(int(row["in_vocabulary"]) == (row["token"] not in UNKNOWN) for row in rows)
    for sentence in read_tsv(tmp_path / "sentences"):
        for direction in reference.DIRECTIONS:
            bits = sum(
                float(row[direction]) for row in rows if row["sentence"] == sentence["sentence"]
            )
            assert float(sentence[direction]) == pytest.approx(bits, abs=1e-4)


def test_offsets_of_raw_text_are_those_of_its_lines(model, tmp_path, capsys):
    lines = ["The “river”, don’t a   <b>bank</b>&nbsp;of 30 cafe\u0301s…", "", "x-ray 苹果"]
    (tmp_path / "raw").write_text("\n".join(lines), encoding="utf-8")
    evaluate(capsys, model, tmp_path / "raw", "--lang=en", "--per_token", tmp_path / "tokens")
    rows = read_tsv(tmp_path / "tokens")
    found = [(r["token"], lines[int(r["line"])][int(r["begin"]) : int(r["end"])]) for r in rows]
    changed = [('"', "“"), ('"', "”"), ("n't", "n’t"), ("cafés", "cafe\u0301s"), ("...", "…")]
    assert [pair for pair in found if pair[0] not in (pair[1], "</S>")] == changed
    assert [(r["line"], r["sentence"]) for r in rows if r["token"] == "</S>"] == [
        ("0", "0"),
        ("2", "1"),
    ]


# Interruption and files


def test_an_interrupted_run_leaves_the_earlier_file(model, text, tmp_path, monkeypatch, capsys):
    scores, calls, sentences = tmp_path / "scores", iter(range(50)), BiLM.lstm_layers
    scores.write_text("earlier", encoding="utf-8")

    def interrupted(*arguments, **options):
        if next(calls, None) is None:
            assert len(list(tmp_path.iterdir())) == 2, "the new file is not begun"
            raise KeyboardInterrupt
        return sentences(*arguments, **options)

    monkeypatch.setattr(BiLM, "lstm_layers", interrupted)
    with pytest.raises(KeyboardInterrupt):
        evaluate(capsys, model, text[0], "--batch_size=1", "--per_sentence", scores)
    assert list(tmp_path.iterdir()) == [scores] and scores.read_text(encoding="utf-8") == "earlier"


@pytest.mark.parametrize(
    "flags",
    [
        "--dev_data_path=x --groups=a",
        "--pairs=x --baselines=y",
        "--suite=x --groups=a",
        "--regions=x --length_power=1",
        "--dev_data_path=x --lang=en",
        "--regions=x --context=carry",
    ],
)
def test_a_flag_without_effect_is_an_error(capsys, flags):
    with pytest.raises(SystemExit):
        run_eval.parse(["--init_from_ckpt=en", *flags.split()])
    assert re.search(
        rf"{flags.split()[1].partition('=')[0]}\S* has no effect without", capsys.readouterr().err
    )
