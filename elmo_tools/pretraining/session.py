"""A pretraining run from its folder to its last message.

The script run_pretrain.py and the function `pretrain` call these.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from elmo_core.messages import Progress
from elmo_core.text.corpus import Corpus, Counts
from elmo_core.text.vocabulary import Vocabulary
from elmo_core.training.ranks import Ranks
from elmo_core.weights import checkpoint
from elmo_tools.pretraining import run_folder, summary
from elmo_tools.pretraining.run import Inputs, Trainer
from elmo_tools.pretraining.settings import PretrainingSettings
from elmo_tools.pretraining.start import Origin, Start, check_ranks, find_start, initial_model


class Texts(NamedTuple):
    """What a run reads. vocab_file: None for the vocabulary of the checkpoint."""

    train: Corpus
    dev: Corpus | None
    vocab_file: Path | None


@contextmanager
def opened(origin: Origin, ranks: Ranks) -> Iterator[Start]:
    """Hold the lock of the run's folder, and find where the run starts."""
    with ExitStack() as stack:
        ranks.run_on_main(lambda: stack.enter_context(run_folder.locked(origin.save_dir)))
        start = find_start(origin)
        ranks.run_on_main(
            lambda: run_folder.check(origin.save_dir, start.resumed, origin.overwrite)
        )
        yield start


def train(
    settings: PretrainingSettings,
    origin: Origin,
    start: Start,
    texts: Texts,
    ranks: Ranks,
    show: Progress | bool = False,
) -> Trainer:
    """Train until the end or an interruption. The caller has `opened` the folder.

    settings: with the precision that is used, not `auto`. show: see `Trainer`.
    """
    bilm, vocabulary = initial_model(settings, origin, start, texts.vocab_file, ranks)
    # reads all text, which takes minutes if there is much of it
    ranks.run_on_all(lambda: texts.train.identity)
    counts, dev_counts = ranks.run_on_main(lambda: count(texts, vocabulary))
    if start.resumed is None or vocabulary.unknown_words is None:
        vocabulary.unknown_words = ranks.run_on_main(lambda: texts.train.unknown_words(vocabulary))
    inputs = Inputs(
        vocabulary=vocabulary,
        corpus=texts.train,
        dev=texts.dev,
        counts=counts,
        dev_counts=dev_counts,
    )
    trainer = Trainer(settings, origin.save_dir, ranks, bilm, inputs, show)
    check_ranks(ranks, {**trainer.fixed_settings, **asdict(settings)})
    trainer.restore(start.resumed)
    if is_finished(trainer, start.resumed):
        summary.log_nothing_left(trainer, start.resumed)
        trainer.is_complete = True
        return trainer
    trainer.open_folder(start.resumed)
    summary.log_start(trainer, len(texts.train.paths))
    trainer.train(is_new=start.checkpoint is None)
    if trainer.is_complete:
        summary.log_end(trainer)
    return trainer


def count(texts: Texts, vocabulary: Vocabulary) -> tuple[Counts, Counts | None]:
    """Count the text, and the held-out text if there is one, and check both."""
    dev_counts = texts.dev.count(vocabulary) if texts.dev else None
    return texts.train.count(vocabulary, sample=True), dev_counts


def is_finished(trainer: Trainer, resumed: Path | None) -> bool:
    """Whether the run resumes from its end."""
    progress = trainer.progress
    if progress.step > progress.total:
        return True
    if resumed is None:
        return False
    final_step = checkpoint.read_names(resumed.parent).get("final")
    return final_step == progress.step and progress.reached_end(trainer.settings.patience)
