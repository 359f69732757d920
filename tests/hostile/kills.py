"""Trainings, and saves over a model, that are killed at random moments.

    python tests/hostile/kills.py FOLDER 20 [tagger classifier reader parser pretraining pretrain]

A resumed training has the weights and the curve of an uninterrupted one, bit for bit. A model that
was being saved over another is either of them, whole. Files of the user are where they were. Prints
a line for each. Each training and each series of saves runs in a process of its own, a fork of this
one, which must not have computed anything.
"""

import itertools
import logging
import multiprocessing
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path

sys.path[:0] = [
    str(Path(__file__).resolve().parents[2]),
    str(Path(__file__).resolve().parents[1] / "support"),
]

import numpy as np
import runs
import tiny

import elmo_tools
import run_pretrain
from elmo_core.config import ELMoConfig
from elmo_core.display.curve import CURVE
from elmo_core.files.tensors import read_tensors
from elmo_core.text.vocabulary import Vocabulary
from elmo_core.weights import checkpoint
from elmo_tasks import (
    Classifier,
    ClassifierSettings,
    Parser,
    ParserSettings,
    Reader,
    ReaderSettings,
    Tagger,
    TaggerSettings,
)
from elmo_tasks.folder import read_config
from elmo_tasks.task import Task
from elmo_tools import PretrainingSettings
from elmo_tools.pretraining import run_folder

FORK = multiprocessing.get_context("fork")
SENTENCES = [["Anna", "lives", "in", "Paris", "."], ["Paris", "is", "large", "."]] * 9
LABELS = [["B-PER", "O", "O", "B-LOC", "O"], ["B-LOC", "O", "O", "O"]] * 9
TREES = ["1\tAnna\t_\t_\t_\t_\t2\tnsubj\t_\t_\n2\tlives\t_\t_\t_\t_\t0\troot\t_\t_\n\n"] * 18
ANSWER = {"text": ["Paris"], "answer_start": [14]}
PASSAGE = {
    "context": "Anna lives in Paris .",
    "question": "Where does Anna live ?",
    "answers": ANSWER,
}
OWN = (
    ".notes.txt",
    ".link",
    ".git",
)  # of the user; visible files are allowed once there is a model
SMALL = {"hidden_dim": 8, "word_dim": 8, "patience": 0}


def tag(folder: Path, elmo: str, **settings) -> None:
    settings = TaggerSettings(elmo=elmo, epochs=9, n_layers=1, ema=0.9, **SMALL, **settings)
    Tagger.train(
        SENTENCES,
        LABELS,
        settings=settings,
        save_dir=folder,
        resume=True,
        device="cpu",
        progress=False,
    )


def classify(folder: Path, elmo: str, **settings) -> None:
    texts = [" ".join(tokens) for tokens in SENTENCES]
    epochs = {"epochs": 5, "tune_epochs": 4, "elmo_trainable": True}
    settings = ClassifierSettings(elmo=elmo, **epochs, head="attention", lang="none", **settings)
    Classifier.train(
        texts,
        ["a", "b"] * 9,
        settings=settings,
        save_dir=folder,
        resume=True,
        device="cpu",
        progress=False,
    )


def read(folder: Path, elmo: str, **settings) -> None:
    settings = ReaderSettings(
        elmo=elmo, epochs=9, batch_size=2, ema=0.9, lang="none", **SMALL, **settings
    )
    examples = [{"id": str(k), **PASSAGE} for k in range(8)]
    Reader.train(
        examples,
        dev=examples,
        settings=settings,
        save_dir=folder,
        resume=True,
        device="cpu",
        progress=False,
    )


def parse(folder: Path, elmo: str, **settings) -> None:
    treebank = folder.parent / "treebank.conllu"
    treebank.write_text("".join(TREES), encoding="utf-8")
    settings = ParserSettings(elmo=elmo, epochs=9, arc_dim=8, label_dim=6, **SMALL, **settings)
    Parser.train(
        treebank,
        dev=treebank,
        settings=settings,
        save_dir=folder,
        resume=True,
        device="cpu",
        progress=False,
    )


def pretrain(folder: Path, elmo: str, **settings) -> None:
    corpus = folder.parent / "corpus"
    frequent = {"max_steps": 24, "save_freq": 3, "eval_freq": 8, "log_freq": 1, "keep": 2}
    run_pretrain.main(runs.flags(corpus, folder, **frequent, resume=True, **settings))
    assert [line["step"] for line in runs.log_lines(folder, "training")] == list(range(1, 25))


def pretrain_by_one_call(folder: Path, elmo: str, **settings) -> None:
    frequent = {"max_steps": 24, "save_freq": 3, "eval_freq": 8, "log_freq": 1, "keep": 2}
    small = {"model_size": "tiny", "cell_dim": 13, "batch_size": 5, "unroll_steps": 7}
    elmo_tools.pretrain(
        runs.sentences(99, seed=1),
        settings=PretrainingSettings(**frequent, **small, **settings),
        save_dir=folder,
        resume=True,
        device="cpu",
        progress=False,
    )


def save_task(kind: type[Task], folder: Path, models: list[Path]) -> Iterator[None]:
    """Save the models over each other without end. Yields after each save."""
    trained = [kind(model, device="cpu") for model in models]
    for model in itertools.cycle(trained):
        model.save(folder, overwrite=True)
        yield


def save_checkpoint(folder: Path, models: list[Path]) -> Iterator[None]:
    """Save the models over each other without end, as checkpoint 24 of a run.

    Yields after each save.
    """
    contents = []
    for model in models:
        final = checkpoint.resolve(model / "final")
        optimizer, progress = checkpoint.load_training(final)
        contents.append(
            (
                checkpoint.load_params(final),
                (checkpoint.load_config(final)["training"], optimizer, progress),
            )
        )
    config = ELMoConfig.from_dict(checkpoint.load_config(final)["model"])
    vocabulary = Vocabulary.from_file(final / checkpoint.VOCABULARY)
    folder.mkdir(exist_ok=True)
    for weights, training in itertools.cycle(contents):
        with run_folder.locked(folder):
            checkpoint.save_model(
                folder / "24", config, weights, vocabulary, training, overwrite=True
            )
        yield


@dataclass
class Work:
    """A kind of training. weights: of a folder. saves: saves models over each other, and yields
    after each save.
    """

    train: Callable
    weights: Callable[[Path], dict[str, np.ndarray]]
    saves: Callable[[Path, list[Path]], Iterator[None]]


def weights_of_task(folder: Path) -> dict[str, np.ndarray]:
    values = read_config(folder)
    return read_tensors(folder / values["weights"])[0]


def weights_of_run(folder: Path) -> dict[str, np.ndarray]:
    """With the optimizer's."""
    with run_folder.locked(folder):  # as the next run would
        final = checkpoint.resolve(folder)
    return {**checkpoint.load_params(final), **checkpoint.load_training(final)[0]}


def of_task(train: Callable, kind: type[Task]) -> Work:
    return Work(train, weights_of_task, lambda folder, models: save_task(kind, folder, models))


WORKS = {
    "tagger": of_task(tag, Tagger),
    "classifier": of_task(classify, Classifier),
    "reader": of_task(read, Reader),
    "parser": of_task(parse, Parser),
    "pretraining": Work(pretrain, weights_of_run, save_checkpoint),
    "pretrain": Work(pretrain_by_one_call, weights_of_run, save_checkpoint),
}


def run(
    function: Callable, *arguments: object, seconds: float | None = None, **settings: object
) -> float:
    """Run a function in a process to its end or, with seconds, kill it that long after its start.

    Returns the seconds.
    """
    process = FORK.Process(target=function, args=arguments, kwargs=settings)
    began = time.monotonic()
    process.start()
    process.join(seconds)
    process.kill()
    process.join()
    assert process.exitcode == 0 or seconds is not None, process.exitcode
    return time.monotonic() - began


def equal(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(
        np.array_equal(one[name], other[name]) for name in one
    )


def make_own_files(folder: Path) -> Callable[[], bool]:
    """Put files of the user into a folder. Returns whether they are there."""
    note, link, git = map(folder.joinpath, OWN)
    refs = git / "refs" / "heads"
    note.write_text("mine", encoding="utf-8")
    refs.mkdir(parents=True, exist_ok=True)
    link.symlink_to("nowhere")
    return lambda: (
        note.read_text(encoding="utf-8") == "mine" and refs.is_dir() and link.is_symlink()
    )


def kill_trainings(work: Work, folder: Path, elmo: str, times: int) -> str:
    """Kill trainings, and resume each. Returns what was found."""
    duration = run(work.train, folder / "whole", elmo)
    expected, before_the_end = work.weights(folder / "whole"), 0
    names = {path.name for path in (folder / "whole").iterdir()} | set(OWN)
    for number in range(times):
        killed = folder / f"killed-{number}"
        killed.mkdir()
        has_own_files = make_own_files(killed)
        run(work.train, killed, elmo, seconds=random.uniform(0, duration))
        before_the_end += names != {path.name for path in killed.iterdir()}
        run(work.train, killed, elmo)
        assert equal(work.weights(killed), expected) and has_own_files()
        assert names == {path.name for path in killed.iterdir()}
        curves = [(path / CURVE).read_bytes() for path in (killed, folder / "whole")]
        assert curves[0] == curves[1]
        shutil.rmtree(killed)
    return f"{times} trainings killed, {before_the_end} before the end; resumed, the same weights"


def save_without_end(saves: Callable, target: Path, models: list[Path], has_saved: Event) -> None:
    for _ in saves(target, models):
        has_saved.set()


def kill_saves(work: Work, folder: Path, elmo: str, times: int) -> str:
    """Kill processes that save two models over each other. Returns what was found."""
    models = [folder / "whole", folder / "other"]
    run(work.train, models[1], elmo, seed=3)
    expected = [work.weights(model) for model in models]
    assert not equal(*expected)
    found = [0, 0]
    target = folder / "saved"
    has_own_files = None
    for _ in range(times):
        has_saved = FORK.Event()
        process = FORK.Process(
            target=save_without_end, args=(work.saves, target, models, has_saved)
        )
        process.start()
        assert has_saved.wait(60), "it did not save"
        time.sleep(random.uniform(0, 0.3))
        process.kill()
        process.join()
        weights = work.weights(target)
        which = [equal(weights, one) for one in expected]
        assert any(which), sorted(path.name for path in target.iterdir())
        found[which.index(True)] += 1
        assert has_own_files is None or has_own_files()
        has_own_files = has_own_files or make_own_files(target)
    return f"{times} saves over a model killed: {found[0]} times the one, {found[1]} the other"


def main(folder: Path, times: int, *names: str) -> None:
    logging.getLogger("elmo").setLevel("ERROR")
    elmo = str(folder / "elmo")
    folder.mkdir(exist_ok=True)
    run(lambda: tiny.save(tiny.random_bilm(scale=1.0), elmo))
    for name in names or WORKS:
        own = folder / name
        own.mkdir()
        runs.write_corpus(own / "corpus")
        for kill in (kill_trainings, kill_saves):
            print(f"{name}: {kill(WORKS[name], own, elmo, times)}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
