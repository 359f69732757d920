"""The polarity task: reading, the protocol, encoders, fine-tuning, resuming, saved classifiers, both scripts."""

import json
import shutil
from unittest import mock

import numpy as np
import pytest
import runs
from gensim.models import KeyedVectors
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

import run_finetune
import word2vec_base
from elmo import load_bilm
from elmo_core.files.word_vectors import load_word_vectors
from elmo_core.machine import runtime, versions
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError
from elmo_core.text.tokens import Vocabulary
from elmo_core.weights.checkpoint import load_params
from elmo_tasks import pretrained
from elmo_tasks.classification import folds, polarity, scores
from elmo_tasks.classification.classifier import Classifier
from elmo_tasks.classification.folds import Fold
from elmo_tasks.classification.network import ClassifierNetwork
from elmo_tasks.classification.texts import Texts
from elmo_tasks.classification.training import Trainer
from elmo_tasks.classification.words import Words
from elmo_tasks.training import BestEpoch
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


def options(**changes) -> dict:
    """The arguments of `train`."""
    quick = {"lr": 0.01, "weight_decay": 0.1, "dropout": 0.3, "epochs": 3, "tune_epochs": 2, "batch_size": 16}
    return {**Classifier.train.__kwdefaults__, **quick, "seed": 5, "hidden_dim": 11, **changes}


def folds_of(labels: np.ndarray, n: int = 3, protocol_name: str = "cv", seed: int = 0) -> list[Fold]:
    data = Texts(["a"] * len(labels), [["a"]] * len(labels), labels)
    return folds.make_folds(data, n, protocol_name, seed)


def task(n: int = 90, changed: Fold | None = None) -> Texts:
    """Texts whose words differ a little between two classes. changed: its test texts are others, with other labels."""
    draw, labels = np.random.RandomState(0), np.arange(n) % 2
    rows = [draw.choice(9, 5, p=[0.2 if k % 2 == label else 0 for k in range(8)] + [0.2]) for label in labels]
    sentences = [[f"word{k}" for k in row] for row in rows]
    if changed:
        labels = labels.copy()
        labels[changed.test] = 1 - labels[changed.test]
        for k in changed.test:
            sentences[k] = ["word0", "new"]
    return Texts([" ".join(sentence) for sentence in sentences], sentences, labels)


def trained(data: Texts, fold: Fold, **changes) -> tuple[BestEpoch, BestEpoch | None]:
    trainer = Trainer(Classifier, data, options(**changes))
    trainer.encode()
    return trainer.train(fold)


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


def test_labels_identify_texts_whatever_their_number():
    labelled = [Texts(["a text"], [["a", "text"]], np.array([label])) for label in (1, 257)]
    assert labelled[0].identity != labelled[1].identity


# The protocol


def test_folds_are_disjoint_cover_all_and_are_stratified():
    labels = np.r_[np.ones(533, int), np.zeros(533, int)]
    folds = folds_of(labels, 10, seed=3)
    assert sorted(np.concatenate([fold.test for fold in folds])) == list(range(1066))
    for fold in folds:
        whole = np.concatenate([fold.train, fold.dev, fold.test])
        assert len(set(whole.tolist())) == len(whole) == 1066
        assert abs(len(fold.dev) - (1066 - len(fold.test)) / 10) <= 1
        for part in (fold.train, fold.dev, fold.test):
            assert abs(labels[part].sum() - len(part) / 2) <= 1
    again, other = (folds_of(labels, 10, seed=seed) for seed in (3, 4))
    assert all(np.array_equal(one.dev, two.dev) for one, two in zip(folds, again, strict=True))
    assert not np.array_equal(folds[0].test, other[0].test)


def test_the_single_split_is_that_of_the_published_scripts():
    labels = np.r_[np.ones(60, int), np.zeros(60, int)]
    texts = [f"review {k}" for k in range(120)]
    _, expected, _, _ = train_test_split(texts, labels, test_size=0.1, random_state=2020)
    (fold,) = folds_of(labels, 10, "split", 2020)
    assert [texts[k] for k in fold.test] == expected
    assert sorted(np.concatenate([fold.train, fold.dev, fold.test])) == list(range(120))


def test_the_test_part_does_not_influence_training():
    """With its texts and labels replaced, the same settings and weights are chosen."""
    fold = folds_of(task().labels)[0]
    one, other = (trained(data, fold, lr=[0.003, 0.01, 0.1], epochs=4)[0] for data in (task(), task(changed=fold)))
    assert one.settings == other.settings and one.epoch == other.epoch
    for name, array in one.weights.items():
        assert np.array_equal(array, other.weights[name])
    assert one.model.score(task(), fold.test).accuracy > 0.9


def test_each_part_of_a_fold_has_its_role(monkeypatch):
    data, trained_on, candidates = task(), [], []
    fold, loss, score = folds_of(data.labels)[0], ClassifierNetwork.loss, Classifier.score

    def note_loss(network, sentences, *more):
        trained_on.extend(map(tuple, sentences))
        return loss(network, sentences, *more)

    def note_score(model, data, indices):
        assert indices is fold.dev
        candidates.append((score(model, data, indices), model.weights()))
        expected = roc_auc_score(data.labels[fold.dev], model.probabilities([data.texts[k] for k in fold.dev])[:, 1])
        assert candidates[-1][0].value == pytest.approx(expected)
        return candidates[-1][0]

    monkeypatch.setattr(ClassifierNetwork, "loss", note_loss)
    monkeypatch.setattr(Classifier, "score", note_score)
    best, first = trained(data, fold, lr=[0.001, 0.01], dropout=[0.0, 0.5])
    expected = [tuple(data.sentences[k]) for k in fold.train]
    assert best is first and len(candidates) == 2 * 2 * 3 and sorted(trained_on) == sorted(expected * 2 * 2 * 3)
    chosen = int(np.argmax([score.value for score, _ in candidates]))
    assert best.score.value == candidates[chosen][0].value and best.epoch == chosen % 3 + 1
    assert best.settings == {
        "lr": [0.001, 0.01][chosen // 6],
        "weight_decay": 0.1,
        "dropout": [0.0, 0.5][chosen // 3 % 2],
    }
    for name, array in best.model.weights().items():
        np.testing.assert_array_equal(array, candidates[chosen][1][name])


# Words


def test_whole_words_are_dropped_in_training_only(vectors):
    layer = Words(WordVectors(vectors), 1, Vocabulary.frequent(WORDS.split()), "mean", word_dropout=0.5)
    sentences = [[word] for word in WORDS.split()]
    paddle.seed(0)
    (dropped,), _ = layer.layers(sentences)
    layer.eval()
    (whole,), _ = layer.layers(sentences)
    dropped, whole = dropped.numpy(), whole.numpy()
    is_dropped = ~dropped.any(axis=1)
    assert 4 < is_dropped.sum() < len(sentences) - 4
    np.testing.assert_allclose(dropped[~is_dropped], 2 * whole[~is_dropped], rtol=1e-5)


def test_random_vectors_of_unknown_words_are_reproducible(vectors):
    known = load_word_vectors(vectors)
    one, other, seeded = (Words(WordVectors(vectors), seed, pool="mean") for seed in (1, 1, 2))
    new = one.vector("new")
    assert np.array_equal(new, other.vector("new")) and not np.array_equal(new, seeded.vector("new"))
    assert not np.array_equal(new, one.vector("newer"))
    draws = np.stack([one.vector(f"word{k}") for k in range(3000)])
    assert draws.std() == pytest.approx(known.vectors.std(), rel=0.02)
    sentences = [["a", "film", "a", "new"], [], ["newer"]]
    (means,), _ = one.layers(sentences)
    np.testing.assert_allclose(means.numpy()[0], (2 * known["a"] + known["film"] + new) / 4, rtol=1e-5)
    assert not means.numpy()[1].any()
    other.cache(sentences)
    np.testing.assert_allclose(other.layers(sentences)[0][0].numpy(), means.numpy(), atol=1e-6)
    trained = Words(WordVectors(vectors), 1, Vocabulary.frequent(["film", "new"]), "mean")  # `a` and `newer` are fixed
    np.testing.assert_allclose(trained.layers(sentences)[0][0].numpy(), means.numpy(), atol=1e-6)


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
    data = Texts([""] * len(few), [reviews.sentences[k] for k in few], reviews.labels[few], tokeniser=reviews.tokeniser)
    inputs = {"elmo": checkpoints["word"], "elmo_trainable": True, "layers": "mix"}
    inputs |= {"word_vectors": vectors, "word_vectors_trainable": True, "word_vectors_lr": [0.01, 0.1]}
    trainer = Trainer(Classifier, data, options(epochs=0, **inputs))
    trainer.encode()
    fold = folds_of(data.labels)[0]
    best, first = trainer.train(fold)
    names = {"lr", "weight_decay", "dropout", "elmo_lr", "word_vectors_lr"}
    assert first is None and set(best.settings) == names
    before = {f"elmo.{name}": weight.numpy() for name, weight in trainer.fixed_elmo.state_dict().items()}
    changed = {name for name in before if not np.array_equal(before[name], best.weights[name])}
    words, vocabulary = "elmo.bilm.token_encoder.embedding.weight", trainer.fixed_elmo.vocabulary.tokens
    assert {words, *(name for name in before if "_lstm." in name)} <= changed
    read = {word for k in fold.train for word in data.sentences[k]}
    unread = [k for k, word in enumerate(vocabulary) if word not in read and k > 2]
    np.testing.assert_array_equal(before[words][unread], best.weights[words][unread])
    table, model = best.weights["words.table"], best.model
    moved = [
        not np.array_equal(row, model.network.words._vector(word))
        for word, row in zip(model.words.tokens, table, strict=True)
    ]
    assert 9 < sum(moved) <= len(read)
    again, _ = trainer.train(fold)
    for name, array in best.weights.items():
        np.testing.assert_array_equal(array, again.weights[name])


def test_harmful_fine_tuning_is_discarded(checkpoints):
    data = task()
    fold = folds_of(data.labels)[0]
    best, first = trained(data, fold, elmo=checkpoints["char"], elmo_trainable=True, elmo_lr=30.0)
    assert best is first and not best.model.settings.elmo_trainable
    np.testing.assert_array_equal(best.model.weights()["output.weight"], first.weights["output.weight"])


# Scores


def test_results_are_saved_and_compared(tmp_path):
    is_right = [np.arange(100) < n_right for n_right in (90, 60)]
    label = np.arange(100) % 2
    results = [scores.Results("data", np.arange(100), label, np.eye(2)[label ^ ~right] * 0.8) for right in is_right]
    results[1].save(tmp_path / "other.json")
    text = scores.comparison(results[0], scores.Results.load(tmp_path / "other.json"), "other.json")
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
    assert "elmo lr 0.001  epoch  2/2" in messages() and "step 3/" in messages()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("what", ["all", "lstm"])
def test_random_weights_replace_the_pretrained(checkpoints, what):
    before, bilm, again = (load_bilm(checkpoints["word"])[0] for _ in range(3))
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
    assert "only 1 of 2" in (tmp_path / "rank0").read_text(encoding="utf-8")
    assert (tmp_path / "model" / "model.safetensors").exists()


# Interrupted runs


def interrupted_after(folds: int, monkeypatch) -> list[int]:
    """Interrupt runs after n folds. Returns a list that will hold the numbers of the folds trained."""
    train, trained = Trainer.train, []

    def train_some(trainer, fold, number, *more):
        if len(trained) == folds:
            raise KeyboardInterrupt
        trained.append(number)
        return train(trainer, fold, number, *more)

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
        score, scored = Classifier.score, []

        def stop_in_second_epoch(model, data, indices):
            if len(indices) == 12 and len(scored) == 1:  # the dev part of all reviews
                raise KeyboardInterrupt
            scored.extend([0] * (len(indices) == 12))
            return score(model, data, indices)

        patch.setattr(Classifier, "score", stop_in_second_epoch)
        with pytest.raises(KeyboardInterrupt):
            run_baseline(folder, vectors, *flags)
    assert "stopped after 3 finished folds" in messages() and "The best epoch so far is 1," in messages()
    assert Classifier(tmp_path / "model").predict(["a film"])
    with pytest.raises(UserError, match="resume"):
        run_baseline(folder, vectors, *flags)
    run_baseline(folder, vectors, *flags, "--resume")
    assert messages().count("restored") == 3 and not (tmp_path / "r.json.parts").exists()
    with pytest.raises(UserError, match="resume"):  # nothing is left
        run_baseline(folder, vectors, *flags, "--resume")


@pytest.mark.parametrize("stop", [2, 4, 5, 7])
def test_an_interrupted_training_resumes(folder, checkpoints, tmp_path, monkeypatch, messages, stop):
    """In the epochs of two heads and of two fine-tunings, two each."""
    texts, labels = [], []
    for k, (name, _) in enumerate(polarity.FILES):
        lines = (folder / name).read_text(encoding="latin-1").split("\n")[:30]
        texts, labels = texts + lines, labels + [k] * len(lines)
    settings = {
        "elmo": checkpoints["char"],
        "elmo_trainable": True,
        "elmo_lr": [0.01, 0.001],
        "epochs": 2,
        "tune_epochs": 2,
    }
    settings |= {"lr": [0.003, 0.01], "weight_decay": 0.1, "batch_size": 16, "device": "cpu"}
    if not versions.random_states(paddle):  # Paddle 2.6 hides its random generator
        settings |= {"dropout": 0.0, "word_dropout": 0.0, "lstm_dropout": 0.0}
    whole = Classifier.train(texts, labels, **settings)
    score, scored = Classifier.score, []

    def stop_there(model, data, indices):
        scored.append(model)
        if len(scored) == stop:
            raise KeyboardInterrupt
        return score(model, data, indices)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Classifier, "score", stop_there)
        Classifier.train(texts, labels, **settings, save_dir=tmp_path / "model")
    assert "resume=True" in messages() and Classifier(tmp_path / "model").predict(texts[:1])
    with pytest.raises(UserError, match="dropout was"):
        Classifier.train(texts, labels, **{**settings, "dropout": 0.1}, save_dir=tmp_path / "model", resume=True)
    resumed = Classifier.train(texts, labels, **settings, save_dir=tmp_path / "model", resume=True)
    assert resumed.settings == whole.settings and resumed.scores["dev"] == whole.scores["dev"]
    for model in (resumed, Classifier(tmp_path / "model")):
        np.testing.assert_allclose(model.probabilities(texts), whole.probabilities(texts), atol=1e-4)


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
    "tuned characters": ["--init_from_ckpt=char", "--elmo_trainable", "--elmo_lr=0.01", "--epochs=0"],
    "tuned words": ["--init_from_ckpt=word", "--elmo_trainable", "--elmo_lr=0.01", "--epochs=0"],
    "random words": ["--init_from_ckpt=word", "--word_vectors=VECTORS", "--random_weights"],
}


@pytest.mark.parametrize("name", TRAINED)
def test_a_saved_classifier_predicts_the_same(folder, vectors, small_weights, tmp_path, name):
    prefixes = {f"--init_from_ckpt={input}": f"--init_from_ckpt={path}" for input, path in small_weights.items()}
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
    saved = load_params(tmp_path / "moved" / "best")
    own = any(word in name for word in ("tuned char", "tuned words", "random"))
    assert any(key.startswith("elmo.bilm.") for key in saved) == own


# Mistakes


@pytest.mark.parametrize(
    ("flags", "word"),
    {
        "no reviews": (["--data_dir=nowhere"], "rt-polarity.pos"),
        "too many folds": (["--folds=31"], "folds=31"),
        "no results": (["--compare_with", "nothing.json"], "nothing.json"),
        "results without content": (["--compare_with", "empty.json"], "empty.json"),
        "results of other reviews": (["--compare_with", "other.json"], "other.json"),
        "a folder of another model": (["--save_dir=."], "save_dir"),
        "nothing to resume": (["--resume"], "`resume` has no effect without `save_dir` or `results`"),
    }.values(),
)
def test_mistakes_are_reported_before_the_work(folder, vectors, flags, word, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, content in (("empty.json", "{}"), ("config.json", '{"format_version": 1}')):
        (tmp_path / name).write_text(content, encoding="utf-8")
    one = np.array([1])
    scores.Results("other", one, one, np.eye(2)[one]).save(tmp_path / "other.json")
    monkeypatch.setattr(Trainer, "train", mock.Mock(side_effect=AssertionError("trained")))
    with pytest.raises(UserError, match=word):
        run_baseline(folder, vectors, *flags)


@pytest.mark.parametrize(
    ("main", "argv", "word"),
    [
        (word2vec_base.main, [], "--pretrained_word2vec_file"),
        (run_finetune.main, ["evaluate", "--model_dir=x"], "--test_file"),
        (run_finetune.main, ["predict", "--model_dir=x", "--confusion"], "--confusion"),
        (run_finetune.main, [], "--init_from_ckpt"),
        (run_finetune.main, ["--layers=all"], "mix"),
        (run_finetune.main, ["--init_from_ckpt=none", "--data_dir=y", "--train_file=x"], "--data_dir"),
        (run_finetune.main, ["--init_from_ckpt=none", "--test_file=x"], "--test_file"),
        (run_finetune.main, ["--init_from_ckpt=none", "--columns=1", "--train_file=x"], "--columns"),
    ],
)
def test_flags_that_make_no_sense(main, argv, word, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(argv)
    assert word in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"tune_epochs": 3}, "tune_epochs"),
        ({"elmo": "x", "elmo_lr": 0.1}, "elmo_trainable"),
        ({"elmo_trainable": True}, "without `elmo`"),
        ({"head": "sum"}, "head"),
        ({"head": ["mean", "max"]}, "head"),
        ({"lr": [0.1, -1]}, "lr"),
        ({"seed": [1, 2]}, "seed"),
        ({"dropout": 1}, "dropout"),
        ({"overwrite": True}, "save_dir"),
        ({"resume": True}, "save_dir"),
        ({"dev": (["a"], ["x"])}, "dev"),
        ({"test": (["a"], ["z"])}, "does not occur"),
    ],
)
def test_settings_that_make_no_sense(settings, word):
    with pytest.raises(UserError, match=word):
        Classifier.train(["a b", "c d"] * 20, ["x", "y"] * 20, **settings)
