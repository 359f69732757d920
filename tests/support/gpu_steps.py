"""A step of training as a GPU would run it: Paddle's operators, and the LSTM's kernels compiled for
this processor.

python tests/support/gpu_steps.py pretraining

With GLOG_vmodule=api=6, Paddle logs the kernels that it chooses.
"""

import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from unittest import mock

import gpu_kernels
import pytest
import runs

import elmo_tasks.task
from elmo import ELMoConfig
from elmo_core.kernels import fused, gpu_lstm
from elmo_core.machine import paddle_compat
from elmo_core.machine.runtime import paddle
from elmo_core.network import softmax
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
from elmo_tasks.trainer import make_optimizer

sys.path.append(str(runs.PROJECT / "benchmarks"))
import bench

VOCABULARY = 20_000
CANDIDATES = 8192


def pretraining() -> Callable[[], None]:
    """64 x 20 tokens, with the layers and filter widths of `small`; other sizes hardly matter."""
    corpus, vocabulary = bench.training_text(VOCABULARY)
    sizes = {
        "projection_dim": 5,
        "cell_dim": 7,
        "character_dim": 3,
        "filters": [(width, 2) for width in range(1, 8)],
    }
    config = replace(ELMoConfig.preset("small", vocab_size=len(vocabulary)), **sizes)
    return bench.same_step(config, corpus, vocabulary, CANDIDATES)


class Captured(Exception):
    """Ends a training where its first epoch would begin."""


def step_of(train: Callable[[], object]) -> Callable[[], None]:
    """A step of a task's training, which `train` would start. Its network reads words, not ELMo."""
    given = []

    def capture(task, train, settings, **others):
        given.extend([task, train[:16], settings])
        raise Captured

    with mock.patch.object(elmo_tasks.task, "fit", capture), suppress(Captured):
        train()
    task, examples, settings = given
    task.network.train()
    optimizer = make_optimizer(task.network, settings)

    def step() -> None:
        task.network.loss(task.collate(examples)).backward()
        optimizer.step()
        optimizer.clear_grad()

    step()
    return step


def tagger() -> Callable[[], None]:
    sentences = [["Anna", "lives", "in", "Paris", "."], ["Paris", "is", "large", "."]] * 9
    labels = [["B-PER", "O", "O", "B-LOC", "O"], ["B-LOC", "O", "O", "O"]] * 9
    return step_of(
        lambda: Tagger.train(
            sentences, labels, settings=TaggerSettings(elmo=None, word_dim=5), device="cpu"
        )
    )


def classifier() -> Callable[[], None]:
    settings = ClassifierSettings(elmo=None, head="lstm", word_dim=5, lang="none")
    return step_of(
        lambda: Classifier.train(
            ["a good book", "a bad film"] * 9, [1, 0] * 9, settings=settings, device="cpu"
        )
    )


def reader() -> Callable[[], None]:
    question = {"context": "Anna lives in Paris.", "question": "Where does she live?"}
    answers = [{"text": "Paris", "answer_start": 14}]
    examples = [{**question, "answers": answers, "id": str(k)} for k in range(9)]
    settings = ReaderSettings(elmo=None, word_dim=5, hidden_dim=3, lang="en")
    return step_of(lambda: Reader.train(examples, dev=examples, settings=settings, device="cpu"))


def parser() -> Callable[[], None]:
    words = "1\tAnna\t_\tPROPN\t_\t_\t2\tnsubj\t_\t_\n2\tlives\t_\tVERB\t_\t_\t0\troot\t_\t_\n\n"
    with tempfile.TemporaryDirectory() as folder:
        treebank = Path(folder, "train.conllu")
        treebank.write_text(words * 18, encoding="utf-8")
        return step_of(
            lambda: Parser.train(
                treebank, settings=ParserSettings(elmo=None, word_dim=5), device="cpu"
            )
        )


TASKS = {"tagger": tagger, "classifier": classifier, "reader": reader, "parser": parser}
# each makes a function that runs a step, and has already run one
STEPS = {
    "pretraining": pretraining,
    **TASKS,
}


def prepare(name: str, launch: Callable | None, monkeypatch) -> Callable[[], None]:
    """Such a step. launch: runs one of the LSTM's kernels; None: Paddle's operators instead."""
    # as on a GPU that has it: both directions share each product
    paddle_compat.allow_tf32(paddle, True)
    monkeypatch.setattr(softmax, "LOGITS_PER_SLICE", 16 * softmax.LOGITS_PER_SLICE)
    monkeypatch.setattr(fused, "kernel", lambda: None)
    monkeypatch.setattr(gpu_lstm, "kernels", lambda device, equations: launch)
    return STEPS[name]()


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as monkeypatch:
        step = prepare(sys.argv[1], gpu_kernels.launcher(), monkeypatch)
        print("BEGIN", file=sys.stderr, flush=True)
        step()
        print("END", file=sys.stderr, flush=True)
