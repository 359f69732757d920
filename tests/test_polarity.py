"""The polarity task: what is read, who learns from what, what is chosen and scored, heads on disk, both scripts."""

import gzip
import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import models
import numpy as np
import pytest
import runs
from gensim.models import KeyedVectors
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

import elmo
import run_finetune
import word2vec_base
from elmo_core import runtime
from elmo_core.ranks import Ranks
from elmo_core.runtime import UserError, paddle
from elmo_core.word_vectors import load_word_vectors
from run_finetune import Contextual
from tasks import bow, polarity, scores
from tasks.bow import Bags, Learning

SAMPLE = runs.PROJECT / "data" / "polarity"
QUICK = ["--device=cpu", "--folds=3", "--epochs=2", "--lr=0.01", "--weight_decay=0.1", "--batch_size=16"]
WORDS = "a i the film movie is not really and but , . silly funny dull moving of very story ending"


@pytest.fixture(scope="module", autouse=True)
def one_rank():
    """No trace of a launcher around the tests."""
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("PADDLE_TRAINERS_NUM", raising=False)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A task of 60 reviews of each class."""
    folder = tmp_path_factory.mktemp("task")
    for name, _ in polarity.FILES:
        lines = (SAMPLE / name).read_text(encoding="latin-1").split("\n")[:60]
        (folder / name).write_text("\n".join(lines) + "\n", encoding="latin-1")
    return folder


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    """A file of word vectors, of 7 dimensions, for some of the words."""
    path = tmp_path_factory.mktemp("vectors") / "vectors.bin"
    random = np.random.RandomState(0)
    table = KeyedVectors(7)
    table.add_vectors(WORDS.split(), random.standard_normal((len(WORDS.split()), 7)).astype(np.float32))
    table.save_word2vec_format(str(path), binary=True)
    return path


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Prefixes of a random biLM over characters and one over a table of words."""
    folder = tmp_path_factory.mktemp("checkpoints")
    return {input: models.save(models.random_bilm(input=input), folder / input) for input in ("char", "word")}


def settings(**changes) -> SimpleNamespace:
    """What the trainer takes of the flags."""
    values = {
        "lr": [0.01],
        "weight_decay": [0.1],
        "dropout": [0.3],
        "epochs": 3,
        "tune_epochs": 2,
        "batch_size": 16,
        "seed": 5,
        "sent_embedding_dim": 11,
        "logging_step": None,
    }
    return SimpleNamespace(**{**values, **changes})


def random_task(n: int = 90, shapes=((3, 4), (1, 5)), seed: int = 0):
    """Encoders that know nothing but means, which tell the classes apart a little; and the labels."""
    random = np.random.RandomState(seed)
    labels = np.arange(n) % 2
    encoders = []
    for shape in shapes:
        means = random.standard_normal((n, *shape)).astype(np.float32)
        means += 0.5 * labels[:, None, None]
        encoders.append(Given(means))
    return encoders, labels


class Given(bow.Encoder):
    """Means that are given: the reviews are their numbers."""

    name = "given"

    def __init__(self, table: np.ndarray):
        super().__init__()
        self.table, self.shape = table, table.shape[1:]

    def read(self, sentences):
        return [int(sentence[0]) for sentence in sentences]

    def means(self, reviews):
        return self.table[reviews]


def trainer_of(encoders, labels, **changes) -> bow.Trainer:
    args = settings(**changes)
    model = bow.Model(encoders, args.sent_embedding_dim)
    model.read([[str(k)] for k in range(len(labels))], Ranks())
    return bow.Trainer(model, labels, args, 1)


# What is read


def test_reviews_are_read_in_latin_1_and_cut_at_line_feeds_only(tmp_path, said):
    (tmp_path / "rt-polarity.pos").write_bytes("clich\xe9 \x85 but fine\nit's good\r\n\n".encode("latin-1"))
    (tmp_path / "rt-polarity.neg").write_bytes(b"don't go")
    reviews = polarity.read_reviews(tmp_path, "en", 256)
    assert reviews.texts == ["cliché \x85 but fine", "it's good", "don't go"]
    assert reviews.sentences == [["cliché", "...", "but", "fine"], ["it", "'s", "good"], ["do", "n't", "go"]]
    assert reviews.labels.tolist() == [1, 1, 0]
    assert "1 blank lines, which are passed over" in said()
    (tmp_path / "rt-polarity.neg").write_bytes("cliché".encode())
    assert polarity.read_reviews(tmp_path, "none", 256).sentences[-1] == ["cliché"]


def test_tokens_can_be_left_as_they_are_and_are_counted_where_they_are_cut(tmp_path, said):
    for name, _ in polarity.FILES:
        (tmp_path / name).write_text("it's all too much\nno\n", encoding="latin-1")
    reviews = polarity.read_reviews(tmp_path, "none", 3)
    assert reviews.sentences[:2] == [["it's", "all", "too"], ["no"]]
    assert "2 reviews have more than --max_seq_len 3 tokens" in said()
    assert polarity.read_reviews(tmp_path, "en", 3).identity == reviews.identity


def test_the_sample_is_read_whole():
    reviews = polarity.read_reviews(SAMPLE, "en", 256)
    assert len(reviews) == 1200 and reviews.labels.sum() == 600
    assert max(map(len, reviews.sentences)) <= 256 and min(map(len, reviews.sentences)) > 0


@pytest.mark.skipif(not (runs.PROJECT / "../shared/data/rt-polarity").exists(), reason="no ../shared/data")
def test_the_published_data_are_read_whole():
    reviews = polarity.read_reviews(runs.PROJECT / "../shared/data/rt-polarity", "en", 256)
    assert len(reviews) == 10662 and reviews.labels.sum() == 5331
    assert not any("it's" in sentence or "don't" in sentence for sentence in reviews.sentences)


# The protocol


def test_folds_are_disjoint_cover_all_and_are_stratified():
    labels = np.r_[np.ones(533, int), np.zeros(533, int)]
    parts = polarity.parts_of(labels, "cv", 10, seed=3)
    assert sorted(np.concatenate([part.test for part in parts])) == list(range(1066))
    for part in parts:
        whole = np.concatenate([part.train, part.dev, part.test])
        assert len(set(whole.tolist())) == len(whole) == 1066
        assert abs(len(part.dev) - (1066 - len(part.test)) / 10) <= 1
        for one in (part.train, part.dev, part.test):
            assert abs(labels[one].sum() - len(one) / 2) <= 1
    again, other = (polarity.parts_of(labels, "cv", 10, seed) for seed in (3, 4))
    assert all(np.array_equal(one.dev, two.dev) for one, two in zip(parts, again, strict=True))
    assert not np.array_equal(parts[0].test, other[0].test)


def test_the_single_split_is_that_of_the_published_scripts():
    labels = np.r_[np.ones(60, int), np.zeros(60, int)]
    texts = [f"review {k}" for k in range(120)]
    _, expected, _, _ = train_test_split(texts, labels, test_size=0.1, random_state=2020)
    (part,) = polarity.parts_of(labels, "split", 10, seed=2020)
    assert [texts[k] for k in part.test] == expected
    assert sorted(np.concatenate([part.train, part.dev, part.test])) == list(range(120))


@pytest.mark.parametrize("folds", [1, 31])
def test_folds_that_cannot_be_made_are_refused(folds):
    with pytest.raises(UserError, match=f"--folds {folds}: expected 2 to 30, for there are 60 reviews of a class"):
        polarity.parts_of(np.r_[np.ones(60, int), np.zeros(70, int)], "cv", folds, 1)


def test_nothing_learns_from_dev_or_test(monkeypatch):
    encoders, labels = random_task()
    part = polarity.parts_of(labels, "cv", 3, 0)[1]
    asked, forward = [], bow.Model.forward
    monkeypatch.setattr(bow.Model, "forward", lambda model, which: asked.extend(which) or forward(model, which))
    trainer_of(encoders, labels).train(part, 2)
    assert sorted(asked) == sorted(list(part.train) * 3)


def test_the_test_part_has_no_say(monkeypatch):
    """With its labels turned round and its vectors replaced, the same is chosen, and says the same of other reviews."""
    encoders, labels = random_task()
    part = polarity.parts_of(labels, "cv", 3, 0)[0]
    changed = labels.copy()
    changed[part.test] = 1 - changed[part.test]
    replaced = [Given(encoder.table.copy()) for encoder in encoders]
    for encoder in replaced:
        encoder.table[part.test] += 100
    outcomes, weights = [], []
    for given, truth in ((encoders, labels), (encoders, changed), (replaced, labels)):
        trainer = trainer_of(given, truth, lr=[0.003, 0.01, 0.1], epochs=4)
        outcomes.append(trainer.train(part, 1))
        weights.append(trainer.model.arrays())
    assert outcomes[0].settings == outcomes[1].settings == outcomes[2].settings
    for name, array in weights[0].items():
        assert np.array_equal(array, weights[1][name]) and np.array_equal(array, weights[2][name])
    assert outcomes[0].accuracy == pytest.approx(1 - outcomes[1].accuracy)


def test_the_dev_part_chooses_settings_and_epoch(monkeypatch):
    encoders, labels = random_task()
    part = polarity.parts_of(labels, "cv", 3, 0)[0]
    trainer, found, offered = trainer_of(encoders, labels, lr=[0.001, 0.01], dropout=[0.0, 0.5]), [], []
    offer = trainer._offer

    def note(part, settings, best):
        probabilities = trainer.model.probabilities(part.dev)
        found.append(roc_auc_score(labels[part.dev], probabilities[:, 1]))
        offered.append((settings, trainer.model.arrays()))
        return offer(part, settings, best)

    monkeypatch.setattr(trainer, "_offer", note)
    outcome = trainer.train(part, 1)
    assert len(offered) == 2 * 2 * 3
    chosen, arrays = offered[int(np.argmax(found))]
    assert outcome.settings == chosen
    for name, array in trainer.model.arrays().items():
        np.testing.assert_array_equal(array, arrays[name])


def test_a_part_comes_out_the_same_whatever_was_trained_before():
    encoders, labels = random_task()
    first, second = polarity.parts_of(labels, "cv", 3, 0)[:2]
    trainer = trainer_of(encoders, labels)
    trainer.train(first, 1)
    after, alone = trainer.train(second, 2), trainer_of(encoders, labels).train(second, 2)
    np.testing.assert_array_equal(after.probabilities, alone.probabilities)


# Encoders and network


@pytest.mark.parametrize("input", ["char", "word"])
def test_averaging_over_tokens_and_mixing_layers_commute(checkpoints, input):
    """The head's input from cached means is what a ScalarMix over standardised tokens, then their mean, would give."""
    bilm, vocabulary = elmo.load_bilm(checkpoints[input])
    encoder = Contextual(bilm, vocabulary, "mix")
    sentences = [sentence for sentence in models.SENTENCES if sentence]
    means = encoder.means(encoder.read(sentences))
    part = bow.Standardised(*encoder.shape)
    part.measure(means)
    part.mix.scalars.set_value(np.array([0.3, -1.0, 0.5], np.float32))
    part.mix.gamma.set_value(np.array([1.7], np.float32))
    mixed = part(paddle.to_tensor(means)).numpy()
    weights = np.exp([0.3, -1.0, 0.5]) / np.exp([0.3, -1.0, 0.5]).sum()
    tokens = elmo.ELMoEmbedder((bilm, vocabulary), device="cpu").encode(sentences)
    for row, layers in zip(mixed, tokens, strict=True):
        standard = (layers - part.mean.numpy()[:, None]) / part.deviation.numpy()[:, None]  # (L, n, D)
        direct = 1.7 * np.tensordot(weights, standard, 1).mean(axis=0)
        np.testing.assert_allclose(row, direct, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("input", ["char", "word"])
@pytest.mark.parametrize("layers", ["mix", "top", "average", 0, 1, 2])
def test_what_is_fine_tuned_begins_as_what_was_frozen(checkpoints, input, layers):
    encoder = Contextual(*elmo.load_bilm(checkpoints[input]), layers)
    encoder.eval()
    reviews = encoder.read(models.SENTENCES)
    means = encoder.means(reviews)
    assert means.shape == (len(reviews), 3 if layers == "mix" else 1, 14) and not means[1].any()
    np.testing.assert_allclose(encoder(reviews).numpy(), means, atol=1e-5)


def test_so_with_a_table_of_word_vectors(vectors):
    encoder = Bags(load_word_vectors(vectors), seed=1)
    reviews = encoder.read([["a", "film", "a", "unheard"], [], ["dull"]])
    means = encoder.means(reviews)
    table = {word: encoder.vector(word) for word in ("a", "film", "unheard", "dull")}
    np.testing.assert_allclose(means[0, 0], (2 * table["a"] + table["film"] + table["unheard"]) / 4, rtol=1e-5)
    assert not means[1].any()
    np.testing.assert_allclose(encoder(reviews).numpy(), means, atol=1e-6)


def test_words_are_dropped_whole_and_in_training_only(vectors, checkpoints):
    learning = Learning([0.1], word_dropout=0.5)
    encoder = Bags(load_word_vectors(vectors), 1, learning)
    reviews = encoder.read([[word] for word in WORDS.split()])
    paddle.seed(0)
    whole, trained = encoder.means(reviews), encoder(reviews).numpy()
    dropped = ~trained.any(axis=(1, 2))
    assert 4 < dropped.sum() < len(reviews) - 4
    np.testing.assert_allclose(trained[~dropped], 2 * whole[~dropped], rtol=1e-5)
    contextual = Contextual(*elmo.load_bilm(checkpoints["word"]), 0, learning)
    assert not np.allclose(contextual(models.SENTENCES).numpy(), contextual.means(models.SENTENCES), atol=1e-5)
    contextual.eval()
    np.testing.assert_allclose(contextual(models.SENTENCES).numpy(), contextual.means(models.SENTENCES), atol=1e-5)


def test_an_unknown_word_has_one_vector_by_its_name_and_the_seed(vectors):
    known = load_word_vectors(vectors)
    one, other, seeded = (Bags(known, seed=seed) for seed in (1, 1, 2))
    one.read([["new", "a", "newer"]]), other.read([["newer"], ["a", "new", "new"]]), seeded.read([["new"]])
    rows = [encoder.table.numpy()[encoder.index["new"]] for encoder in (one, other, seeded)]
    assert np.array_equal(rows[0], rows[1]) and not np.array_equal(rows[0], rows[2])
    assert not np.array_equal(rows[0], one.vector("newer"))
    np.testing.assert_array_equal(one.vector("film"), known["film"])
    draws = np.stack([one.vector(f"word{k}") for k in range(3000)])
    assert draws.std() == pytest.approx(known.vectors.std(), rel=0.02)


def test_a_table_grows_and_keeps_what_it_has_learnt(vectors):
    encoder = Bags(load_word_vectors(vectors), 1, words=["a", "odd"], rows=np.ones((2, 7), np.float32))
    (first,) = encoder.means(encoder.read([["a", "odd", "film"]]))
    np.testing.assert_allclose(first[0], (2 + encoder.vector("film")) / 3, rtol=1e-5)


@pytest.mark.parametrize("name", ["vectors.txt", "vectors.txt.gz", "vectors.bin", "vectors.bin.gz"])
def test_word_vectors_are_written_and_read_in_every_form(vectors, tmp_path, name):
    known = load_word_vectors(vectors)
    word2vec_base.write_vectors(known, tmp_path / "deep" / name)
    found = load_word_vectors(tmp_path / "deep" / name, None)
    assert found.index_to_key == known.index_to_key
    np.testing.assert_allclose(found.vectors, known.vectors, atol=1e-6)
    assert name.endswith(".gz") == ((tmp_path / "deep" / name).read_bytes()[:2] == gzip.compress(b"")[:2])
    assert [path.name for path in (tmp_path / "deep").iterdir()] == [name]


def test_no_more_vectors_are_read_than_the_limit(vectors):
    assert load_word_vectors(vectors, 4).index_to_key == WORDS.split()[:4]


def test_fine_tuning_changes_what_is_to_learn_and_begins_anew_for_each_part(checkpoints, vectors):
    reviews = polarity.read_reviews(SAMPLE, "en", 256)
    few = np.r_[0:30, 600:630]
    sentences, labels = [reviews.sentences[k] for k in few], reviews.labels[few]
    known = load_word_vectors(vectors)
    bilm, vocabulary = elmo.load_bilm(checkpoints["word"])
    encoders = [
        Contextual(bilm, vocabulary, "mix", Learning([0.001])),
        Bags(known, 1, Learning([0.01, 0.1])),
        Bags(known, 2),
    ]
    args = settings(epochs=1)
    model = bow.Model(encoders, args.sent_embedding_dim)
    model.read(sentences, Ranks())
    before = {name: weight.numpy() for name, weight in model.state_dict().items()}
    trainer = bow.Trainer(model, labels, args, 2)
    part = polarity.parts_of(labels, "cv", 3, 0)[0]
    best = trainer._train_head(part, 1)
    best.auc = -1.0  # so that some fine-tuned epoch is taken
    trainer._fine_tune(part, 1, best)
    after = {name: weight.numpy() for name, weight in model.state_dict().items()}
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert {"encoders.0.bilm.token_encoder.embedding.weight", "encoders.1.table"} <= changed
    assert {name for name in before if "_lstm." in name} <= changed
    assert "encoders.2.table" not in changed
    assert set(best.settings) == {"lr", "weight_decay", "dropout", "elmo_lr", "vectors_lr", "tune_epoch"}
    unread = [k for k, word in enumerate(vocabulary.tokens) if not any(word in s for s in sentences) and k > 2]
    name = "encoders.0.bilm.token_encoder.embedding.weight"
    np.testing.assert_array_equal(before[name][unread], after[name][unread])
    one = trainer.train(part, 1)
    np.testing.assert_array_equal(one.probabilities, trainer.train(part, 1).probabilities)


def test_lower_weights_learn_later_and_less(checkpoints):
    encoder = Contextual(*elmo.load_bilm(checkpoints["char"]), "mix", Learning([0.01], decay=0.5, unfreeze_epochs=2))
    groups = encoder.groups()
    assert sum(map(len, groups)) == len(encoder.parameters()) and len(groups) == 3
    update = bow._encoder_update(encoder, 0.01)
    for epoch, frozen in ((0, 2), (1, 2), (2, 1), (3, 1), (4, 0), (9, 0)):
        bow._unfreeze(encoder, epoch)
        before = [[weight.numpy() for weight in group] for group in groups]
        encoder(encoder.read(models.SENTENCES)).sum().backward()
        update(bow.WARMUP)  # where the rate is at its highest
        moved = [
            max(np.abs(weight.numpy() - old).max() for weight, old in zip(group, olds, strict=True))
            for group, olds in zip(groups, before, strict=True)
        ]
        assert [step > 0 for step in moved] == [k >= frozen for k in range(3)]
        if epoch == 0:
            assert moved[2] == pytest.approx(0.01, rel=0.01)  # Adam's first step is its rate
        if epoch == 2:
            assert (
                max(np.abs(weight.numpy() - old).max() for weight, old in zip(groups[1], before[1], strict=True))
                < 0.006
            )


def test_learning_rates_rise_then_fall_to_zero():
    rates = [bow.slant(share) for share in np.linspace(0, 1, 101)]
    assert 0 < rates[0] < 0.2 and rates[10] == pytest.approx(1) and rates[-1] == 0
    assert rates[:11] == sorted(rates[:11]) and rates[10:] == sorted(rates[10:], reverse=True)


# Scores


@pytest.mark.parametrize(
    ("gained", "lost", "p"),
    [(0, 0, 1.0), (5, 5, 1.0), (9, 1, 2 * 11 / 1024), (1, 9, 2 * 11 / 1024), (0, 6, 2 / 64), (3, 4, 1.0)],
)
def test_mcnemar_is_the_exact_binomial_test(gained, lost, p):
    mine = np.r_[np.ones(gained, bool), np.zeros(lost, bool), np.ones(20, bool), np.zeros(7, bool)]
    other = np.r_[np.zeros(gained, bool), np.ones(lost, bool), np.ones(20, bool), np.zeros(7, bool)]
    assert scores.mcnemar(mine, other) == pytest.approx(p, rel=1e-12)


def test_mcnemar_of_thousands_agrees_with_scipy():
    from scipy.stats import binomtest

    mine = np.r_[np.ones(900, bool), np.zeros(760, bool)]
    assert scores.mcnemar(mine, ~mine) == pytest.approx(binomtest(900, 1660).pvalue, rel=1e-9)


def test_the_bootstrap_agrees_with_resampling_the_reviews():
    random = np.random.RandomState(0)
    mine, other = random.rand(800) < 0.8, random.rand(800) < 0.76
    low, high, p = scores.bootstrap(mine, other, seed=1)
    picks = random.randint(800, size=(4000, 800))
    differences = mine[picks].mean(axis=1) - other[picks].mean(axis=1)
    assert (low, high) == pytest.approx(np.percentile(differences, [2.5, 97.5]), abs=0.003)
    assert p == pytest.approx(2 * min((differences <= 0).mean(), (differences >= 0).mean()), abs=0.02)
    assert scores.bootstrap(mine, mine, seed=1)[2] == 1.0


def results_of(right: np.ndarray, data: str = "reviews") -> scores.Results:
    label = np.arange(len(right)) % 2
    prediction = np.where(right, label, 1 - label)
    return scores.Results(data, float(right.mean()), np.arange(len(right)), label, prediction, prediction * 0.8 + 0.1)


def test_results_are_compared_over_the_same_reviews_only(tmp_path):
    mine, other = np.r_[np.ones(90, bool), np.zeros(10, bool)], np.r_[np.ones(60, bool), np.zeros(40, bool)]
    results_of(other).save(tmp_path / "other.json")
    found = scores.Results.load(tmp_path / "other.json")
    text = scores.compare(results_of(mine), found, tmp_path / "other.json", seed=1)
    assert (
        "90.00% to 60.00%, difference +30.00%" in text and "the other is wrong: 30; wrong where it is right: 0" in text
    )
    assert "p = 1.9e-09" in text
    for fewer in (results_of(mine[:50]), results_of(mine, "other reviews")):
        with pytest.raises(UserError, match="it scored 100 of reviews"):
            scores.compare(fewer, found, "other.json", seed=1)
    (tmp_path / "other.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UserError, match="no results of --results"):
        scores.Results.load(tmp_path / "other.json")


def test_the_confusion_matrix_and_the_worst_mistakes():
    results = scores.Results(
        "", 0.5, np.array([4, 5, 6, 7]), np.array([0, 0, 1, 1]), np.array([0, 1, 1, 0]), np.array([0.1, 0.7, 0.9, 0.2])
    )
    lines = scores.confusion(results).splitlines()
    assert [line.split()[1:] for line in lines[1:]] == [["1", "1"], ["1", "1"]]
    lines = scores.mistakes(results, [f"text {k}" for k in range(8)], 5).splitlines()
    assert [line.split() for line in lines] == [
        ["20.00%", "positive", "text", "7"],
        ["30.00%", "negative", "text", "5"],
    ]


# The scripts


def test_the_baseline_trains_vectors_scores_and_compares(folder, tmp_path):
    """In a process of its own, as the user runs it."""
    text = tmp_path / "text.txt"
    lines = (runs.PROJECT / "data/train/train-00000-of-00004").read_text(encoding="utf-8").splitlines()[:300]
    text.write_text("\n".join(lines) + "\n", encoding="utf-8")
    argv = [f"--data_dir={folder}", f"--train_word2vec_on={text}", *QUICK, "--confusion", "--mistakes=2"]
    argv += [f"--pretrained_word2vec_file={tmp_path / 'v.txt.gz'}", f"--results={tmp_path / 'one.json'}"]
    process = runs.start("word2vec_base.py", argv, tmp_path / "output")
    assert process.wait(timeout=120) == 0, (tmp_path / "output").read_text(encoding="utf-8")
    output = (tmp_path / "output").read_text(encoding="utf-8")
    for words in (
        "accuracy of each fold",
        "120 reviews",
        "said negative",
        "fold 3/3",
        "have none, and get a random one",
    ):
        assert words in output
    known = load_word_vectors(tmp_path / "v.txt.gz", None)
    assert known.vector_size == 300 and "the" in known
    values = json.loads((tmp_path / "one.json").read_text(encoding="utf-8"))
    assert len(values["parts"]) == 3 and values["reviews"]["number"] == list(range(120))


def run_baseline(folder, vectors, *more: str) -> None:
    word2vec_base.main([f"--data_dir={folder}", f"--pretrained_word2vec_file={vectors}", *QUICK, *more])


def run_elmo(folder, prefix, *more: str) -> None:
    run_finetune.main([f"--data_dir={folder}", f"--init_from_ckpt={prefix}", *QUICK, *more])


def test_both_scripts_score_the_same_folds(folder, vectors, checkpoints, tmp_path, capsys):
    run_baseline(folder, vectors, f"--results={tmp_path / 'base.json'}")
    run_elmo(
        folder,
        checkpoints["word"],
        f"--concat_word2vec={vectors}",
        f"--results={tmp_path / 'elmo.json'}",
        f"--compare_with={tmp_path / 'base.json'}",
    )
    base, both = (json.loads((tmp_path / name).read_text(encoding="utf-8")) for name in ("base.json", "elmo.json"))
    assert base["data"] == both["data"] and base["reviews"]["label"] == both["reviews"]["label"]
    assert len(both["parts"][0]["mixes"][0]) == 4
    output = capsys.readouterr().out
    assert f"against {tmp_path / 'base.json'}" in output and "McNemar" in output
    assert output.count("accuracy of each fold") == 2 and output.count("gamma") == 1


def interrupted_after(folds: int, monkeypatch) -> list[int]:
    """The numbers of the folds that will be trained: a run ends before the one that follows so many."""
    train, trained = bow.Trainer.train, []

    def train_some(trainer, part, number):
        if len(trained) == folds:
            raise KeyboardInterrupt
        trained.append(number)
        return train(trainer, part, number)

    monkeypatch.setattr(bow.Trainer, "train", train_some)
    return trained


def test_a_run_that_was_killed_goes_on_with_the_next_fold(folder, vectors, tmp_path, monkeypatch, said):
    run_baseline(folder, vectors, f"--results={tmp_path / 'whole.json'}")
    trained = interrupted_after(2, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        run_baseline(folder, vectors, f"--results={tmp_path / 'parts.json'}")
    with pytest.raises(UserError, match=r"with other settings: seed was 2020, is 7"):
        run_baseline(folder, vectors, f"--results={tmp_path / 'parts.json'}", "--seed=7")
    trained.clear()
    run_baseline(folder, vectors, f"--results={tmp_path / 'parts.json'}", "--confusion")
    assert trained == [3] and "fold 2/3  was done before" in said()
    whole, parts = (json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8")) for name in ("whole", "parts"))
    assert whole["reviews"] == parts["reviews"] and not (tmp_path / "parts.json.parts").exists()


def test_folds_are_kept_until_the_head_is_saved(folder, vectors, tmp_path, monkeypatch, said):
    flags = [f"--results={tmp_path / 'r.json'}", f"--save_head={tmp_path / 'head'}"]
    with monkeypatch.context() as patch:
        patch.setattr(polarity, "save_head", mock.Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run_baseline(folder, vectors, *flags)
    run_baseline(folder, vectors, *flags)
    assert said().count("was done before") == 3 and (tmp_path / "head" / "head.pdparams").exists()
    assert not (tmp_path / "r.json.parts").exists()


def test_a_run_that_goes_on_has_the_vectors_that_it_began_with(folder, vectors, tmp_path, monkeypatch):
    """Those of a file must not have changed, and those that it has trained itself are kept with its folds."""
    flags = [f"--data_dir={folder}", f"--train_word2vec_on={runs.PROJECT / 'data' / 'train'}", *QUICK]
    mine = tmp_path / "mine.bin"
    shutil.copy(vectors, mine)
    with monkeypatch.context() as patch:
        trained = interrupted_after(1, patch)
        with pytest.raises(KeyboardInterrupt):
            run_baseline(folder, mine, f"--results={tmp_path / 'file.json'}")
        trained.clear()
        with pytest.raises(KeyboardInterrupt):
            word2vec_base.main([*flags, f"--results={tmp_path / 'own.json'}"])
    changed = load_word_vectors(mine)
    changed.vectors[:] *= 2
    changed.save_word2vec_format(str(mine), binary=True)
    with pytest.raises(UserError, match=r"with other settings: vectors was CRC-32 \w+, is CRC-32 \w+\. Give the same"):
        run_baseline(folder, mine, f"--results={tmp_path / 'file.json'}")
    other = [flags[0], f"--train_word2vec_on={runs.PROJECT / 'data' / 'dev'}", *QUICK]
    with pytest.raises(UserError, match=r"with other settings: train_word2vec_on was .*train, is .*dev"):
        word2vec_base.main([*other, f"--results={tmp_path / 'own.json'}"])
    monkeypatch.setattr(word2vec_base, "train_vectors", mock.Mock(side_effect=AssertionError("trained again")))
    word2vec_base.main([*flags, f"--results={tmp_path / 'own.json'}"])
    assert not (tmp_path / "own.json.parts").exists()


def test_a_run_that_ended_before_its_first_fold_binds_nobody(folder, vectors, checkpoints, tmp_path, monkeypatch):
    """After a mistake, or Ctrl-C, other settings may be given for the same --results: vectors, too, are trained anew."""
    results = f"--results={tmp_path / 'r.json'}"
    with pytest.raises(UserError, match="nowhere"):
        run_elmo(folder, "nowhere", results)
    data, text = f"--data_dir={folder}", runs.PROJECT / "data"
    with monkeypatch.context() as patch:
        interrupted_after(0, patch)
        with pytest.raises(KeyboardInterrupt):
            word2vec_base.main([data, f"--train_word2vec_on={text / 'dev'}", *QUICK, results])
        before = load_word_vectors(tmp_path / "r.json.parts" / polarity.VECTORS)
        with pytest.raises(KeyboardInterrupt):
            word2vec_base.main([data, f"--train_word2vec_on={text / 'train'}", *QUICK, results])
        after = load_word_vectors(tmp_path / "r.json.parts" / polarity.VECTORS)
    assert len(after) > len(before)
    run_elmo(folder, checkpoints["word"], results)
    assert (tmp_path / "r.json").exists() and not (tmp_path / "r.json.parts").exists()


@pytest.mark.parametrize("input", ["char", "word"])
def test_elmo_is_fine_tuned_on_the_published_split(folder, checkpoints, input, capsys, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    argv = ["--protocol=split", "--elmo_trainable", "--elmo_lr=0.001", "--tune_epochs=2", "--unfreeze_epochs=1"]
    run_elmo(folder, checkpoints[input], *argv, "--logging_step=3", "--layers=top")
    output = capsys.readouterr().out
    assert "12 reviews" in output and "fold" not in output and "gamma" not in output
    assert re.search(r"fine-tuning   about \d+ s for 1 part of the data, 1 for each", said())
    assert "split  fine-tuning 1/1, epoch 2/2  dev AUC" in said() and "step 3  loss" in said()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("what", ["all", "lstm"])
def test_random_weights_replace_the_pretrained(checkpoints, what):
    before, bilm = (elmo.load_bilm(checkpoints["word"])[0] for _ in range(2))
    run_finetune.randomise(bilm, what, seed=1)
    same = {
        name
        for (name, one), other in zip(before.state_dict().items(), bilm.state_dict().values(), strict=True)
        if np.array_equal(one.numpy(), other.numpy())
    }
    assert same == ({"token_encoder.embedding.weight"} if what == "lstm" else set())
    again = elmo.load_bilm(checkpoints["word"])[0]
    run_finetune.randomise(again, what, seed=1)
    for one, other in zip(bilm.parameters(), again.parameters(), strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_two_ranks_come_to_what_one_process_comes_to(folder, vectors, checkpoints, tmp_path):
    one_thread = dict.fromkeys(runtime.THREAD_VARIABLES, "1")  # BLAS rounds as its threads divide the work
    argv = [f"--data_dir={folder}", f"--init_from_ckpt={checkpoints['char']}", *QUICK, f"--concat_word2vec={vectors}"]
    argv += ["--elmo_trainable", "--tune_epochs=1", "--elmo_lr=0.01"]
    two, one = ([*argv, f"--results={tmp_path / name}.json"] for name in ("two", "one"))
    processes = runs.start_ranks("run_finetune.py", two, tmp_path, **one_thread)
    processes.append(runs.start("run_finetune.py", one, tmp_path / "alone", **one_thread))
    ended = [process.wait(timeout=120) for process in processes]
    outputs = [(tmp_path / name).read_text(encoding="utf-8") for name in ("rank0", "rank1", "alone")]
    assert ended == [0, 0, 0], outputs
    one, two = (json.loads((tmp_path / name).read_text(encoding="utf-8")) for name in ("one.json", "two.json"))
    np.testing.assert_allclose(one["reviews"]["probability"], two["reviews"]["probability"], atol=1e-3)
    assert [part["settings"] for part in one["parts"]] == [part["settings"] for part in two["parts"]]
    assert "accuracy" in outputs[0] and "accuracy" not in outputs[1]


def test_more_ranks_than_parts_and_a_mistake_on_one_rank(folder, vectors, tmp_path):
    argv = [f"--data_dir={folder}", f"--pretrained_word2vec_file={vectors}", *QUICK, "--protocol=split"]
    argv += [f"--save_head={tmp_path / 'head'}"]
    processes = runs.start_ranks("word2vec_base.py", argv, tmp_path)
    assert [process.wait(timeout=120) for process in processes] == [0, 0], (tmp_path / "rank0").read_text()
    assert "1 of 2 have work" in (tmp_path / "rank0").read_text(encoding="utf-8")
    assert (tmp_path / "head" / "head.pdparams").exists()


# Heads on disk


def predictions(capsys) -> list[list[str]]:
    return [line.split("\t") for line in capsys.readouterr().out.splitlines() if line.count("\t") == 2]


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("a funny and moving film\n\nit's a dull , unheard-of story\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("trainable", [[], ["--vectors_trainable", "--vectors_lr=0.1", "--tune_epochs=3"]])
def test_a_saved_baseline_predicts_as_it_did(folder, vectors, texts, tmp_path, trainable, capsys):
    run_baseline(folder, vectors, f"--save_head={tmp_path / 'head'}", f"--predict={texts}", *trainable)
    found = predictions(capsys)
    assert [row[2] for row in found] == ["a funny and moving film", "", "it's a dull , unheard-of story"]
    assert all(row[0] in scores.CLASSES and 0.5 <= float(row[1]) <= 1 for row in found)
    word2vec_base.main([f"--load_head={tmp_path / 'head'}", f"--predict={texts}", "--device=cpu"])
    assert predictions(capsys) == found


@pytest.mark.parametrize("more", [[], ["--elmo_trainable", "--elmo_lr=0.05", "--tune_epochs=3"], ["--random_weights"]])
@pytest.mark.parametrize("input", ["char", "word"])
def test_a_saved_elmo_predicts_as_it_did(folder, vectors, checkpoints, texts, tmp_path, input, more, capsys):
    argv = ["--protocol=split", f"--concat_word2vec={vectors}", f"--predict={texts}", *more]
    run_elmo(folder, checkpoints[input], f"--save_head={tmp_path / 'head'}", *argv)
    found = predictions(capsys)
    run_finetune.main([f"--load_head={tmp_path / 'head'}", f"--predict={texts}", "--device=cpu"])
    assert predictions(capsys) == found
    assert (tmp_path / "head" / "bilm").exists() == bool(more)
    if more:
        assert elmo.ELMoEmbedder(tmp_path / "head" / "bilm", device="cpu").encode([["a"]])[0].shape == (3, 1, 14)


def test_a_head_is_not_loaded_over_other_vectors(folder, vectors, checkpoints, texts, tmp_path):
    run_elmo(folder, checkpoints["word"], "--protocol=split", f"--save_head={tmp_path / 'head'}")
    load = [f"--load_head={tmp_path / 'head'}", f"--predict={texts}", "--device=cpu"]
    other = models.save(models.random_bilm(input="word", seed=7), tmp_path / "other")
    with pytest.raises(UserError, match="not those that it was trained with"):
        run_finetune.main([*load, f"--init_from_ckpt={other}"])
    with pytest.raises(UserError, match=r"trained by run_finetune\.py"):
        word2vec_base.main(load)
    moved = shutil.move(tmp_path / "head", tmp_path / "moved")
    run_finetune.main([f"--load_head={moved}", f"--predict={texts}", "--device=cpu"])


# Mistakes


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--data_dir=nowhere"], "there is no rt-polarity.pos. Expected the folder of the sentence polarity dataset"),
        (["--num_classes=3"], "--num_classes 3: the sentence polarity dataset has 2"),
        (["--folds=1000"], "--folds 1000: expected 2 to 30"),
        (["--compare_with", "nothing.json"], "nothing.json"),
        (["--predict=nothing.txt"], "nothing.txt: there is no such file"),
        (["--pretrained_word2vec_file=nothing.bin"], "nothing.bin: there is no such file of word vectors"),
        (["--load_head=nowhere"], "say by --predict which file"),
        (["--load_head=nowhere", "--predict=x", "--confusion"], "--confusion has no effect with --load_head"),
        (["--device=gpu"], "device gpu: "),
    ],
)
def test_mistakes_are_told_before_the_work(folder, vectors, flags, message):
    if "--device=gpu" in flags and paddle.is_compiled_with_cuda():
        pytest.skip("this build of Paddle knows GPUs")
    with pytest.raises((UserError, OSError), match=message):
        run_baseline(folder, vectors, *flags)


def test_what_is_there_is_not_overwritten(folder, vectors, tmp_path):
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UserError, match="something is there"):
        run_baseline(folder, vectors, f"--save_head={tmp_path}")
    with pytest.raises(UserError, match=r"exists already. Leave out --train_word2vec_on to use it"):
        run_baseline(folder, vectors, f"--train_word2vec_on={folder}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(b"good film\n"), "is gzip. Expected plain text"),
        ("good film\n".encode("utf-16"), "is UTF-16. Expected plain text"),
        (b"good\0film\n", "holds NUL bytes"),
    ],
)
def test_reviews_that_are_no_text_are_refused(tmp_path, content, message):
    (tmp_path / "reviews.txt").write_bytes(content)
    with pytest.raises(UserError, match=message):
        polarity.read_lines(tmp_path / "reviews.txt")


@pytest.mark.parametrize(
    "change", [{"encoders": None}, {"hidden": "64"}, {"tokenise": "zh"}, {"max_seq_len": "256"}, {"probe": [1, 2, 3]}]
)
def test_a_heads_settings_that_were_changed_are_a_clear_error(folder, checkpoints, texts, tmp_path, change):
    head = tmp_path / "head"
    run_elmo(folder, checkpoints["char"], f"--save_head={head}", "--protocol=split")
    config = json.loads((head / "config.json").read_text(encoding="utf-8"))
    config["polarity"].update(change)
    (head / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(UserError, match=r"config\.json is not as --save_head wrote it"):
        run_finetune.main([f"--load_head={head}", f"--predict={texts}", "--device=cpu"])


def test_damaged_folds_and_results_are_a_clear_error(folder, vectors, tmp_path, monkeypatch):
    results = f"--results={tmp_path / 'r.json'}"
    with monkeypatch.context() as patch:
        interrupted_after(1, patch)
        with pytest.raises(KeyboardInterrupt):
            run_baseline(folder, vectors, results)
    (tmp_path / "r.json.parts" / "mine.txt").write_text("x", encoding="utf-8")
    fold = tmp_path / "r.json.parts" / "1.json"
    whole = fold.read_bytes()
    for damage in (b"{", b"{}", b"[]"):
        fold.write_bytes(damage)
        with pytest.raises(UserError, match=r"1\.json is damaged .* Delete the folder"):
            run_baseline(folder, vectors, results)
    fold.write_bytes(whole)
    run_baseline(folder, vectors, results)
    assert [path.name for path in (tmp_path / "r.json.parts").iterdir()] == ["mine.txt"]
    values = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    values["reviews"]["label"].pop()
    (tmp_path / "r.json").write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(UserError, match="no results of --results"):
        run_baseline(folder, vectors, "--compare_with", str(tmp_path / "r.json"))


def test_a_folder_that_is_no_head_is_refused(checkpoints, texts, tmp_path):
    no_head = Path(checkpoints["char"]).parent
    with pytest.raises(UserError, match="this is no folder of --save_head"):
        run_finetune.main([f"--load_head={no_head}", f"--predict={texts}", "--device=cpu"])


def test_a_layer_that_the_model_lacks_is_refused(folder, checkpoints):
    with pytest.raises(UserError, match=r"--layers 3: .* has layers 0 to 2"):
        run_elmo(folder, checkpoints["word"], "--layers=3")


@pytest.mark.parametrize(
    ("main", "argv", "message"),
    [
        (word2vec_base.main, [], "vectors are missing"),
        (word2vec_base.main, ["--train_word2vec_on=x", "--limit=5"], "--limit is for a file of vectors"),
        (word2vec_base.main, ["--train_word2vec_on=x", "--save_head=y"], "--save_head goes with vectors in a file"),
        (run_finetune.main, [], "--init_from_ckpt is missing"),
        (run_finetune.main, ["--layers=bottom"], "expected mix, top, average, or a layer's number"),
        (
            run_finetune.main,
            ["--init_from_ckpt=x", "--elmo_lr=0.1"],
            "--elmo_lr has no effect without --elmo_trainable",
        ),
        (run_finetune.main, ["--init_from_ckpt=x", "--vectors_trainable"], "no effect without --concat_word2vec"),
        (run_finetune.main, ["--dropout=1"], "expected a number from 0 to below 1"),
    ],
)
def test_flags_that_make_no_sense(main, argv, message, capsys):
    with pytest.raises(SystemExit):
        main(argv)
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line and "--help" in line
