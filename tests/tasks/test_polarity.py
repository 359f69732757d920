"""The polarity task: reading, the protocol, encoders, fine-tuning, resuming, saved classifiers, both scripts."""

import json
import shutil
from unittest import mock

import numpy as np
import pytest
import runs
import tiny
from gensim.models import KeyedVectors
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

import elmo
import run_finetune
import word2vec_base
from elmo_core.files.word_vectors import load_word_vectors
from elmo_core.machine import runtime
from elmo_core.machine.messages import UserError
from elmo_core.machine.ranks import Ranks
from elmo_core.machine.runtime import paddle
from elmo_tasks import pretrained
from elmo_tasks.classification import encoders, polarity, protocol, scores
from elmo_tasks.classification.classifier import Classifier
from elmo_tasks.classification.encoders import BiLMEncoder, FineTuning, WordTable
from elmo_tasks.classification.network import ClassifierModel
from elmo_tasks.classification.training import Fold, Trainer
from elmo_tasks.word_vectors import WordVectors
from preprocessing import word2vec

SAMPLE = runs.PROJECT / "data" / "polarity"
QUICK = ["--device=cpu", "--folds=3", "--epochs=2", "--lr=0.01", "--weight_decay=0.1", "--batch_size=16"]
WORDS = "a i the film movie is not really and but , . silly funny dull moving of very story ending"


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


def settings(**changes) -> protocol.ProtocolSettings:
    values = {"lr": [0.01], "weight_decay": [0.1], "dropout": [0.3], "epochs": 3, "tune_epochs": 2, "folds": 3}
    return protocol.ProtocolSettings(**{**values, "batch_size": 16, "seed": 5, "hidden_dim": 11, **changes})


def folds_of(labels: np.ndarray, **changes) -> list[Fold]:
    return protocol.make_folds(labels, settings(**{"seed": 0, **changes}))


class FixedMeans(encoders.Encoder):
    """An encoder with fixed means. A text is its index."""

    name = "fixed"

    def __init__(self, table: np.ndarray):
        super().__init__()
        self.table, self.shape = table, table.shape[1:]

    def prepare(self, sentences):
        return [int(sentence[0]) for sentence in sentences]

    def means(self, texts):
        return self.table[texts]


def random_task(n: int = 90) -> tuple[list[FixedMeans], np.ndarray]:
    """Encoders whose means differ a little between the classes, and the labels."""
    random, labels = np.random.RandomState(0), np.arange(n) % 2
    tables = [random.standard_normal((n, *shape)) + 0.5 * labels[:, None, None] for shape in ((3, 4), (1, 5))]
    return [FixedMeans(table.astype(np.float32)) for table in tables], labels


def trainer_of(encoders, labels, **changes) -> Trainer:
    model = ClassifierModel(encoders, [[str(k)] for k in range(len(labels))], Ranks(), settings().hidden_dim)
    return Trainer(model, labels, settings(**changes), 1)


# What is read


def test_reading_and_tokenising_reviews(tmp_path, messages):
    (tmp_path / "rt-polarity.pos").write_bytes("clich\xe9 \x85 but fine\nit's good\r\n\n".encode("latin-1"))
    (tmp_path / "rt-polarity.neg").write_bytes(b"don't go")
    reviews = polarity.read_reviews(tmp_path, "en", 256)
    assert reviews.texts == ["cliché \x85 but fine", "it's good", "don't go"]
    assert reviews.sentences == [["cliché", "...", "but", "fine"], ["it", "'s", "good"], ["do", "n't", "go"]]
    assert reviews.labels.tolist() == [1, 1, 0] and "1 blank line " in messages()
    cut = polarity.read_reviews(tmp_path, "none", 2)
    assert cut.sentences[1:] == [["it's", "good"], ["don't", "go"]] and cut.identity == reviews.identity
    assert "1 of 3 texts cut after `max_seq_len`, 2 tokens" in messages()
    (tmp_path / "rt-polarity.neg").write_bytes("cliché".encode())
    assert polarity.read_reviews(tmp_path, "none", 256).sentences[-1] == ["cliché"]


# The protocol


def test_folds_are_disjoint_cover_all_and_are_stratified():
    labels = np.r_[np.ones(533, int), np.zeros(533, int)]
    folds = folds_of(labels, folds=10, seed=3)
    assert sorted(np.concatenate([fold.test for fold in folds])) == list(range(1066))
    for fold in folds:
        whole = np.concatenate([fold.train, fold.dev, fold.test])
        assert len(set(whole.tolist())) == len(whole) == 1066
        assert abs(len(fold.dev) - (1066 - len(fold.test)) / 10) <= 1
        for part in (fold.train, fold.dev, fold.test):
            assert abs(labels[part].sum() - len(part) / 2) <= 1
    again, other = (folds_of(labels, folds=10, seed=seed) for seed in (3, 4))
    assert all(np.array_equal(one.dev, two.dev) for one, two in zip(folds, again, strict=True))
    assert not np.array_equal(folds[0].test, other[0].test)


def test_the_single_split_is_that_of_the_published_scripts():
    labels = np.r_[np.ones(60, int), np.zeros(60, int)]
    texts = [f"review {k}" for k in range(120)]
    _, expected, _, _ = train_test_split(texts, labels, test_size=0.1, random_state=2020)
    (fold,) = folds_of(labels, protocol="split", seed=2020)
    assert [texts[k] for k in fold.test] == expected
    assert sorted(np.concatenate([fold.train, fold.dev, fold.test])) == list(range(120))


def test_the_test_part_does_not_influence_training():
    """With its labels inverted and its vectors replaced, the same settings and weights are chosen."""
    encoders, labels = random_task()
    fold = folds_of(labels)[0]
    inverted = labels.copy()
    inverted[fold.test] = 1 - inverted[fold.test]
    replaced = [FixedMeans(encoder.table.copy()) for encoder in encoders]
    for encoder in replaced:
        encoder.table[fold.test] += 100
    results, weights = [], []
    for inputs, truth in ((encoders, labels), (encoders, inverted), (replaced, labels)):
        trainer = trainer_of(inputs, truth, lr=[0.003, 0.01, 0.1], epochs=4)
        results.append(trainer.train(fold, 1))
        weights.append(trainer.model.trained_weights())
    assert results[0].settings == results[1].settings == results[2].settings
    for name, array in weights[0].items():
        assert np.array_equal(array, weights[1][name]) and np.array_equal(array, weights[2][name])
    assert results[0].accuracy == pytest.approx(1 - results[1].accuracy)


def test_each_part_of_a_fold_has_its_role(monkeypatch):
    encoders, labels = random_task()
    fold = folds_of(labels)[0]
    trainer, trained_on, candidates = trainer_of(encoders, labels, lr=[0.001, 0.01], dropout=[0.0, 0.5]), [], []
    forward, candidate = ClassifierModel.forward, trainer._candidate

    def note(fold, settings):
        candidates.append(candidate(fold, settings))
        expected = roc_auc_score(labels[fold.dev], trainer.model.probabilities(fold.dev)[:, 1])
        assert candidates[-1].auc == pytest.approx(expected)
        return candidates[-1]

    monkeypatch.setattr(ClassifierModel, "forward", lambda model, ids: trained_on.extend(ids) or forward(model, ids))
    monkeypatch.setattr(trainer, "_candidate", note)
    result = trainer.train(fold, 1)
    assert len(candidates) == 2 * 2 * 3 and sorted(trained_on) == sorted(list(fold.train) * 2 * 2 * 3)
    chosen = candidates[int(np.argmax([candidate.auc for candidate in candidates]))]
    assert result.settings == chosen.settings
    for name, array in trainer.model.trained_weights().items():
        np.testing.assert_array_equal(array, chosen.weights[name])


# Encoders and network


@pytest.mark.parametrize("input", ["char", "word"])
@pytest.mark.parametrize(
    ("layers", "shape"),
    [
        *(("concat", (1, 42)), ("mix", (3, 14)), ("top", (1, 14)), ("average", (1, 14)), ("1", (1, 14))),
        *(("concat:2,0", (1, 28)), ("mix:0,1", (2, 14))),
    ],
)
def test_fine_tuning_starts_from_the_frozen_means(checkpoints, input, layers, shape):
    encoder = BiLMEncoder(*elmo.load_bilm(checkpoints[input]), layers)
    encoder.eval()
    texts = encoder.prepare(tiny.SENTENCES)
    means = encoder.means(texts)
    assert means.shape == (len(texts), *shape) and not means[1].any()
    np.testing.assert_allclose(encoder(texts).numpy(), means, atol=1e-5)


def test_whole_words_are_dropped_in_training_only(vectors, checkpoints):
    tuning = FineTuning([0.1], word_dropout=0.5)
    encoder = WordTable(WordVectors(vectors), 1, tuning)
    reviews = encoder.prepare([[word] for word in WORDS.split()])
    paddle.seed(0)
    whole, trained = encoder.means(reviews), encoder(reviews).numpy()
    dropped = ~trained.any(axis=(1, 2))
    assert 4 < dropped.sum() < len(reviews) - 4
    np.testing.assert_allclose(trained[~dropped], 2 * whole[~dropped], rtol=1e-5)
    bilm_encoder = BiLMEncoder(*elmo.load_bilm(checkpoints["word"]), "0", tuning)
    assert not np.allclose(bilm_encoder(tiny.SENTENCES).numpy(), bilm_encoder.means(tiny.SENTENCES), atol=1e-5)
    bilm_encoder.eval()
    np.testing.assert_allclose(bilm_encoder(tiny.SENTENCES).numpy(), bilm_encoder.means(tiny.SENTENCES), atol=1e-5)


def test_random_vectors_of_unknown_words_are_reproducible(vectors):
    known = load_word_vectors(vectors)
    one, other, seeded = (WordTable(WordVectors(vectors), seed) for seed in (1, 1, 2))
    reviews = one.prepare([["a", "film", "a", "new"], [], ["newer"]])
    other.prepare([["newer"], ["new"]]), seeded.prepare([["new"]])
    new, same, differs = (encoder.table.numpy()[encoder.index["new"]] for encoder in (one, other, seeded))
    assert np.array_equal(new, same) and not np.array_equal(new, differs)
    assert not np.array_equal(new, one.vector("newer"))
    draws = np.stack([one.vector(f"word{k}") for k in range(3000)])
    assert draws.std() == pytest.approx(known.vectors.std(), rel=0.02)
    means = one.means(reviews)
    np.testing.assert_allclose(means[0, 0], (2 * known["a"] + known["film"] + new) / 4, rtol=1e-5)
    assert not means[1].any()
    np.testing.assert_allclose(one(reviews).numpy(), means, atol=1e-6)


@pytest.mark.parametrize("name", ["vectors.txt", "vectors.txt.gz", "vectors.bin", "vectors.bin.gz"])
def test_word_vectors_are_written_and_read_in_every_form(vectors, tmp_path, name, messages):
    """Where only FILE.gz is there, FILE means that."""
    known, path = load_word_vectors(vectors), tmp_path / "deep" / name
    word2vec.save(known, path)
    assert [file.name for file in path.parent.iterdir()] == [name]
    assert name.endswith(".gz") == path.read_bytes().startswith(b"\x1f\x8b")
    for source in (path, path.parent / name.removesuffix(".gz")):
        loaded = load_word_vectors(source)
        assert loaded.index_to_key == known.index_to_key
        np.testing.assert_allclose(loaded.vectors, known.vectors, atol=1e-6)
    assert messages().count(f"{name} is read") == name.endswith(".gz")
    assert load_word_vectors(path, limit=4).index_to_key == WORDS.split()[:4]


def test_fine_tuning_changes_trainable_weights_and_restarts_each_fold(checkpoints, vectors):
    reviews = polarity.read_reviews(SAMPLE, "en", 256)
    few = np.r_[0:30, 600:630]
    sentences, labels = [reviews.sentences[k] for k in few], reviews.labels[few]
    bilm, vocabulary = elmo.load_bilm(checkpoints["word"])
    encoders = [
        BiLMEncoder(bilm, vocabulary, "mix", FineTuning([0.001])),
        WordTable(WordVectors(vectors), 1, FineTuning([0.01, 0.1])),
        WordTable(WordVectors(vectors), 2),
    ]
    model = ClassifierModel(encoders, sentences, Ranks(), hidden=11)
    before = {name: weight.numpy() for name, weight in model.state_dict().items()}
    trainer, fold = Trainer(model, labels, settings(epochs=1), 2), folds_of(labels)[0]
    trainer._train_head(fold, 1)
    trainer.best.auc = -1.0  # so that some fine-tuned epoch is taken
    trainer._fine_tune(fold, 1)
    after = {name: weight.numpy() for name, weight in model.state_dict().items()}
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    words = next(name for name in before if name.endswith("token_encoder.embedding.weight"))
    assert {words, "encoders.1.table", *(name for name in before if "_lstm." in name)} <= changed
    assert "encoders.2.table" not in changed
    assert set(trainer.best.settings) == {"lr", "weight_decay", "dropout", "elmo_lr", "word_vectors_lr", "tune_epoch"}
    unread = [k for k, word in enumerate(vocabulary.tokens) if not any(word in s for s in sentences) and k > 2]
    np.testing.assert_array_equal(before[words][unread], after[words][unread])
    one = trainer.train(fold, 1)
    np.testing.assert_array_equal(one.probabilities, trainer.train(fold, 1).probabilities)


# Scores


def test_results_are_saved_and_compared(tmp_path):
    is_right = [np.arange(100) < n_right for n_right in (90, 60)]
    label = np.arange(100) % 2
    results = [
        scores.Results("data", np.arange(100), label, np.where(right, label, 1 - label), label * 0.8)
        for right in is_right
    ]
    results[1].save(tmp_path / "other.json")
    text = scores.comparison(results[0], scores.Results.load(tmp_path / "other.json"), "other.json", seed=1)
    for words in ("90.00% to 60.00%", "+30.00%", "this run is right: 30;", "the other is: 0;", "p = 1.9e-09"):
        assert words in text


# The scripts


def run_baseline(folder, vectors, *more: str) -> None:
    word2vec_base.main([f"--data_dir={folder}", f"--pretrained_word2vec_file={vectors}", *QUICK, *more])


def run_elmo(folder, prefix, *more: str) -> None:
    run_finetune.main([f"--data_dir={folder}", f"--init_from_ckpt={prefix}", *QUICK, *more])


def read(path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def test_both_scripts_score_the_same_folds(folder, vectors, checkpoints, tmp_path, capsys, messages):
    base, both = tmp_path / "base.json", tmp_path / "both.json"
    run_baseline(folder, vectors, f"--results={base}", "--confusion")
    assert "predicted" in capsys.readouterr().out and "get random ones" in messages()
    more = ["--layers=mix", f"--word_vectors={vectors}", f"--results={both}", f"--compare_with={base}"]
    run_elmo(folder, checkpoints["word"], *more)
    output = capsys.readouterr().out
    assert f"against {base}" in output and "McNemar" in output and "120 reviews" in output
    assert output.count("accuracy of each fold") == 1 and output.count("gamma") == 1
    base, both = read(base), read(both)
    assert base["data"] == both["data"] and base["reviews"]["label"] == both["reviews"]["label"]
    assert len(both["parts"][0]["mixes"][0]) == 4


def test_elmo_is_fine_tuned_on_the_published_split(folder, checkpoints, capsys, messages, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    argv = ["--protocol=split", "--elmo_trainable", "--elmo_lr=0.001", "--tune_epochs=2"]
    run_elmo(folder, checkpoints["word"], *argv, "--logging_step=3", "--layers=top")
    output = capsys.readouterr().out
    assert "12 reviews" in output and "fold" not in output and "gamma" not in output
    assert "fine-tuning 1/1, epoch 2/2" in messages() and "step 3  loss" in messages()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("what", ["all", "lstm"])
def test_random_weights_replace_the_pretrained(checkpoints, what):
    before, bilm, again = (elmo.load_bilm(checkpoints["word"])[0] for _ in range(3))
    for one in (bilm, again):
        pretrained.randomise(one, what, seed=1)
    before, bilm, again = ({name: w.numpy() for name, w in one.state_dict().items()} for one in (before, bilm, again))
    same = {name for name in bilm if np.array_equal(bilm[name], before[name])}
    assert same == ({"token_encoder.embedding.weight"} if what == "lstm" else set())
    assert all(np.array_equal(bilm[name], again[name]) for name in bilm)


@pytest.mark.ranks
def test_two_ranks_equal_one_process(folder, vectors, checkpoints, tmp_path):
    one_thread = dict.fromkeys(runtime.THREAD_VARIABLES, "1")
    argv = [f"--data_dir={folder}", f"--init_from_ckpt={checkpoints['char']}", *QUICK, f"--word_vectors={vectors}"]
    argv += ["--elmo_trainable", "--tune_epochs=1", "--elmo_lr=0.01"]
    two, one = ([*argv, f"--results={tmp_path / name}.json"] for name in ("two", "one"))
    processes = runs.start_ranks("run_finetune.py", two, tmp_path, **one_thread)
    processes.append(runs.start("run_finetune.py", one, tmp_path / "alone", **one_thread))
    ended = [process.wait(timeout=120) for process in processes]
    outputs = [(tmp_path / name).read_text(encoding="utf-8") for name in ("rank0", "rank1", "alone")]
    assert ended == [0, 0, 0], outputs
    one, two = read(tmp_path / "one.json"), read(tmp_path / "two.json")
    np.testing.assert_allclose(one["reviews"]["probability"], two["reviews"]["probability"], atol=1e-3)
    assert "accuracy" in outputs[0] and "accuracy" not in outputs[1]


@pytest.mark.ranks
def test_more_ranks_than_folds(folder, vectors, tmp_path):
    argv = [f"--data_dir={folder}", f"--pretrained_word2vec_file={vectors}", *QUICK, "--protocol=split"]
    processes = runs.start_ranks("word2vec_base.py", [*argv, f"--save_dir={tmp_path / 'model'}"], tmp_path)
    assert [process.wait(timeout=120) for process in processes] == [0, 0], (tmp_path / "rank0").read_text()
    assert "1 of 2 have work" in (tmp_path / "rank0").read_text(encoding="utf-8")
    assert (tmp_path / "model" / "best.pdparams").exists()


# Interrupted runs


def interrupted_after(folds: int, monkeypatch) -> list[int]:
    """Interrupt runs after n folds. Returns a list that will hold the numbers of the folds trained."""
    train, trained = Trainer.train, []

    def train_some(trainer, fold, number):
        if len(trained) == folds:
            raise KeyboardInterrupt
        trained.append(number)
        return train(trainer, fold, number)

    monkeypatch.setattr(Trainer, "train", train_some)
    return trained


def test_a_killed_run_resumes_at_the_next_fold(folder, vectors, tmp_path, monkeypatch):
    run_baseline(folder, vectors, f"--results={tmp_path / 'whole.json'}")
    results, cache = f"--results={tmp_path / 'r.json'}", tmp_path / "r.json.parts"
    trained = interrupted_after(2, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        run_baseline(folder, vectors, results)
    with pytest.raises(UserError, match="seed was 2020, is 7"):
        run_baseline(folder, vectors, results, "--seed=7")
    (cache / "mine.txt").write_text("x", encoding="utf-8")
    trained.clear()
    kept = vectors.read_bytes()
    changed = load_word_vectors(vectors)
    changed.vectors[:] *= 2
    changed.save_word2vec_format(str(vectors), binary=True)
    with pytest.raises(UserError, match="weights was"):
        run_baseline(folder, vectors, results)
    vectors.write_bytes(kept)
    run_baseline(folder, vectors, results, "--confusion")
    assert trained == [3] and read(tmp_path / "whole.json")["reviews"] == read(tmp_path / "r.json")["reviews"]
    assert [path.name for path in cache.iterdir()] == ["mine.txt"]


def test_folds_are_kept_until_the_classifier_is_saved(folder, vectors, tmp_path, monkeypatch, messages):
    """The interrupted run leaves the best epoch."""
    flags = [f"--results={tmp_path / 'r.json'}", f"--save_dir={tmp_path / 'model'}"]
    with monkeypatch.context() as patch:
        patch.setattr(protocol.Experiment, "_save_classifier", mock.Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run_baseline(folder, vectors, *flags)
    assert "stopped in fold 3/3. The best epoch so far is lr 0.01," in messages()
    assert Classifier(tmp_path / "model").predict(["a film"])
    with pytest.raises(UserError, match="resume=True"):
        run_baseline(folder, vectors, *flags)
    run_baseline(folder, vectors, *flags, "--resume")
    assert messages().count("was done before") == 3 and not (tmp_path / "r.json.parts").exists()
    with pytest.raises(UserError, match="`resume`"):  # nothing is left
        run_baseline(folder, vectors, *flags, "--resume")


def test_an_interrupted_fine_tuning_leaves_its_best_epoch(folder, checkpoints, tmp_path, monkeypatch, messages):
    flags = [
        "--protocol=split",
        "--elmo_trainable",
        "--elmo_lr=0.05",
        "--tune_epochs=9",
        f"--save_dir={tmp_path / 'model'}",
    ]
    candidate, candidates = Trainer._candidate, []

    def stop_in_third_epoch(trainer, fold, settings):
        if settings.get("tune_epoch") == 3:
            raise KeyboardInterrupt
        candidates.append(candidate(trainer, fold, settings))
        return candidates[-1]

    monkeypatch.setattr(Trainer, "_candidate", stop_in_third_epoch)
    with pytest.raises(KeyboardInterrupt):
        run_elmo(folder, checkpoints["word"], *flags)
    best = max(candidates, key=lambda one: one.auc)
    assert f"stopped in split. The best epoch so far is {best}. Use it" in messages()
    for name, weight in Classifier(tmp_path / "model").weights().items():
        np.testing.assert_array_equal(weight, best.weights[f"head.{name}"])
    assert [path.name for path in (tmp_path / "model.parts").iterdir()] == ["settings.json"]


def test_results_of_other_settings_are_not_replaced(folder, vectors, tmp_path):
    results = f"--results={tmp_path / 'r.json'}"
    run_baseline(folder, vectors, results)
    with pytest.raises(UserError, match=r"r\.json holds .*seed was 2020, is 7"):
        run_baseline(folder, vectors, results, "--seed=7")
    run_baseline(folder, vectors, results, "--confusion")


# Saved classifiers


TRAINED = {
    "word vectors": ["--init_from_ckpt=none", "--word_vectors=VECTORS"],
    "tuned word vectors": [
        *("--init_from_ckpt=none", "--word_vectors=VECTORS", "--word_vectors_trainable"),
        *("--word_vectors_lr=0.1", "--tune_epochs=3"),
    ],
    "characters": ["--init_from_ckpt=char", "--word_vectors=VECTORS"],
    "words": ["--init_from_ckpt=word", "--layers=mix:0,2"],
    "tuned characters": ["--init_from_ckpt=char", "--elmo_trainable", "--elmo_lr=0.05", "--tune_epochs=3"],
    "tuned words": ["--init_from_ckpt=word", "--elmo_trainable", "--elmo_lr=0.05", "--tune_epochs=3"],
    "random words": ["--init_from_ckpt=word", "--word_vectors=VECTORS", "--random_weights"],
}


@pytest.mark.parametrize("name", TRAINED)
def test_a_saved_classifier_predicts_the_same(folder, vectors, checkpoints, tmp_path, name):
    prefixes = {f"--init_from_ckpt={input}": f"--init_from_ckpt={path}" for input, path in checkpoints.items()}
    argv = [prefixes.get(flag, flag).replace("VECTORS", str(vectors)) for flag in TRAINED[name]]
    out = [f"--results={tmp_path / 'results.json'}", f"--save_dir={tmp_path / 'model'}"]
    run_finetune.main(["train", f"--data_dir={folder}", *QUICK, "--protocol=split", *argv, *out])
    expected = read(tmp_path / "results.json")["reviews"]
    texts = [polarity.read_reviews(folder, "none", 9).texts[number] for number in expected["number"]]
    classifier = Classifier(shutil.move(tmp_path / "model", tmp_path / "moved"))
    classifier.save(tmp_path / "again")
    assert Classifier(tmp_path / "again").settings == classifier.settings
    probabilities = classifier.probabilities(texts)[:, 1]
    np.testing.assert_allclose(probabilities, expected["probability"], atol=1e-5)
    own = any(word in name for word in ("tuned char", "tuned words", "random"))
    assert (tmp_path / "moved" / "bilm").exists() == own
    if own:
        assert elmo.ELMoEmbedder(tmp_path / "moved" / "bilm", device="cpu").encode([["a"]])[0].shape == (3, 1, 14)


# Mistakes


@pytest.mark.parametrize(
    ("flags", "word"),
    {
        "no reviews": (["--data_dir=nowhere"], "rt-polarity.pos"),
        "too many folds": (["--folds=31"], "--folds 31"),
        "no results": (["--compare_with", "nothing.json"], "nothing.json"),
        "results without content": (["--compare_with", "empty.json"], "empty.json"),
        "results of other reviews": (["--compare_with", "other.json"], "other.json"),
        "a folder of another model": (["--save_dir=."], "save_dir"),
    }.values(),
)
def test_mistakes_are_reported_before_the_work(folder, vectors, flags, word, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, content in (("empty.json", "{}"), ("config.json", '{"format_version": 1}')):
        (tmp_path / name).write_text(content, encoding="utf-8")
    one = np.array([1])
    scores.Results("other", one, one, one, one).save(tmp_path / "other.json")
    monkeypatch.setattr(Trainer, "train", mock.Mock(side_effect=AssertionError("trained")))
    with pytest.raises(UserError, match=word):
        run_baseline(folder, vectors, *flags)


@pytest.mark.parametrize(
    ("main", "argv", "word"),
    [
        (word2vec_base.main, [], "--pretrained_word2vec_file"),
        (word2vec_base.main, ["--pretrained_word2vec_file=x", "--tune_epochs=3"], "--tune_epochs"),
        (word2vec_base.main, ["--pretrained_word2vec_file=x", "--resume"], "--resume"),
        (run_finetune.main, ["evaluate", "--model_dir=x"], "--test_file"),
        (run_finetune.main, ["predict", "--model_dir=x", "--confusion"], "--confusion"),
        (run_finetune.main, [], "--init_from_ckpt"),
        (run_finetune.main, ["--layers=all"], "mix"),
        (run_finetune.main, ["--init_from_ckpt=x", "--elmo_lr=0.1"], "--elmo_lr"),
        (run_finetune.main, ["--init_from_ckpt=x", "--word_vectors_trainable"], "--word_vectors_trainable"),
        (run_finetune.main, ["--init_from_ckpt=none", "--data_dir=y", "--train_file=x"], "--data_dir"),
        (run_finetune.main, ["--init_from_ckpt=none", "--test_file=x"], "--test_file"),
        (run_finetune.main, ["--init_from_ckpt=none", "--columns=1", "--train_file=x"], "--columns"),
    ],
)
def test_flags_that_make_no_sense(main, argv, word, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(argv)
    assert word in capsys.readouterr().err
