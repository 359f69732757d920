"""Pretraining by one call, from text to an embedder."""

import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NoReturn, TypeVar

from elmo import ELMoEmbedder
from elmo_core.checks import check_number, describe
from elmo_core.files import disk
from elmo_core.kernels import precision
from elmo_core.kernels.matmul import chosen_precision
from elmo_core.machine import paddle_compat, runtime
from elmo_core.machine.runtime import paddle
from elmo_core.messages import Progress, UserError
from elmo_core.settings import Settings
from elmo_core.text.corpus import Corpus
from elmo_core.training.ranks import Ranks
from elmo_tools.preprocessing.given_text import GivenText
from elmo_tools.preprocessing.raw_text import PreprocessingSettings
from elmo_tools.pretraining import own_corpus, session, summary
from elmo_tools.pretraining.run import Trainer
from elmo_tools.pretraining.settings import PretrainingSettings
from elmo_tools.pretraining.start import Origin, Start

S = TypeVar("S", bound=Settings)


def pretrain(
    text: str | Path | Iterable[str | Path | Sequence[str]],
    *,
    save_dir: str | Path,
    settings: PretrainingSettings | None = None,
    preprocessing: PreprocessingSettings | None = None,
    dev_data_path: str | Path | None = None,
    vocab_file: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    init_from_ckpt: str | Path | None = None,
    finetune_from: str | Path | None = None,
    pretrained_word_embeddings: str | Path | None = None,
    processes: int = 1,
    progress: Progress | bool = True,
    device: str = "auto",
) -> ELMoEmbedder:
    """Pretrain ELMo on a text, and return an embedder with its last checkpoint.

    `ELMoEmbedder(f"{save_dir}/best")` is that of the lowest held-out perplexity.

    text: a string or a path is a file, a glob or a folder, of raw text; a list of paths is several.
    A list or an iterator of strings is texts, which are read like the lines of a file; one of lists
    of strings is tokenised sentences.
    save_dir: a new or empty folder, for the checkpoints, log.jsonl, and the tokenised text.
    preprocessing: how the text is tokenised and held out, and which words are predicted.
    dev_data_path: held-out text of your own, already tokenised: a file, a folder or a glob. With
    it, all of `text` is trained on.
    vocab_file: of another vocabulary than the text's frequent words; that of a model that is
    fine-tuned is its own.
    resume: continue the run in save_dir, with the same text; start if there is none; return the
    model if it is finished.
    overwrite: replace a run in save_dir, when the new one saves its first checkpoint.
    init_from_ckpt: resume exactly from this checkpoint. finetune_from: start from this one's
    weights. Each is a checkpoint, a folder (its latest checkpoint), or a published model's name.
    pretrained_word_embeddings: a file of word vectors for a new model that reads words.
    processes: that tokenise; the result does not depend on their number.
    progress: called with the values of each line of log.jsonl; False: no bar.
    device: auto, cpu, gpu or gpu:N.

    Ctrl-C finishes the current step, saves, and raises KeyboardInterrupt. Trainings in several
    threads run one after the other.
    """
    settings = _settings("settings", settings, PretrainingSettings)
    preprocessing = _settings("preprocessing", preprocessing, PreprocessingSettings)
    check_number("processes", processes, 1, integer=True)
    if runtime.rank_and_size()[1] > 1:
        raise UserError(
            "`pretrain` runs in one process. For several there are preprocess.py and "
            "run_pretrain.py."
        )
    if not isinstance(save_dir, str | Path) or not str(save_dir):
        raise TypeError(f"save_dir: found {describe(save_dir)}, expected the name of a folder.")
    given = GivenText(text)
    if given.is_tokenised:
        preprocessing = _of_tokens(preprocessing)
    held_out = Corpus(dev_data_path) if dev_data_path else None
    if held_out:
        preprocessing = replace(preprocessing, dev_fraction=0.0)
    words = pretrained_word_embeddings
    origin = Origin(
        save_dir=disk.user_path(save_dir),
        resume=resume,
        overwrite=overwrite,
        init_from_ckpt=init_from_ckpt,
        finetune_from=finetune_from,
        pretrained_word_embeddings=disk.user_path(words) if words else None,
    )
    given.check_apart_from(origin.save_dir)
    with runtime.TRAINING, _computing(settings, device) as settings:
        ranks = Ranks()
        with session.opened(origin, ranks) as start:
            folder = own_corpus.make(
                origin.save_dir,
                given,
                preprocessing,
                is_resumed=start.resumed is not None,
                allow_changes=settings.allow_changes,
                processes=processes,
                shown=progress is not False,
            )
            train, dev = own_corpus.corpora(folder)
            dev = held_out or dev
            if settings.patience and dev is None:
                raise UserError(
                    "`patience` counts evaluations, which need held-out text: a `dev_fraction`."
                )
            texts = session.Texts(train, dev, _vocab_file(vocab_file, folder, start))
            trainer = session.train(
                settings, origin, start=start, texts=texts, ranks=ranks, show=progress
            )
    if not trainer.is_complete:
        _raise_interruption(trainer, overwrite)
    return ELMoEmbedder(origin.save_dir, device=device, progress=progress is not False)


def _settings(name: str, given: S | None, kind: type[S]) -> S:
    """The settings, by default those of the class. Raises if they are of another class."""
    if given is None:
        return kind()
    if not isinstance(given, kind):
        raise TypeError(
            f"{name}: found {describe(given)}, expected {kind.__name__}, as in "
            f"{name}={kind.__name__}(seed=1)."
        )
    return given


def _of_tokens(preprocessing: PreprocessingSettings) -> PreprocessingSettings:
    """The settings for sentences that are already tokenised."""
    if preprocessing.lang not in ("auto", "none"):
        raise UserError(
            f"`lang={preprocessing.lang}` has no effect: the text is lists of tokens. "
            "Give texts, or omit it."
        )
    return replace(preprocessing, lang="none")


@contextmanager
def _computing(settings: PretrainingSettings, device: str) -> Iterator[PretrainingSettings]:
    """Compute as the settings say, which have the resulting precision; then as before.

    Paddle's random numbers go on as before, too, but in Paddle 2.6.
    """
    name = runtime.device_name(device)
    chosen = chosen_precision(settings.precision, name)
    tf32 = paddle_compat.has_tf32(paddle, name)
    with runtime.on_device(name), precision.only(chosen, tf32):
        random_states = paddle_compat.random_states(paddle)
        try:
            yield replace(settings, precision=chosen)
        finally:
            if random_states:
                paddle_compat.set_random_states(paddle, random_states)


def _vocab_file(given: str | Path | None, folder: Path, start: Start) -> Path | None:
    """The vocabulary that is given, or else that of the text if the model is new."""
    if given:
        return disk.user_path(given)
    return None if start.checkpoint else folder / own_corpus.VOCABULARY


def _raise_interruption(trainer: Trainer, overwrite: bool) -> NoReturn:
    """Do what the signal would have done that has interrupted the run."""
    number = trainer.interruption.signal
    if number not in (None, signal.SIGINT):
        signal.raise_signal(number)
    raise KeyboardInterrupt(summary.after_interruption(trainer, overwrite, same="call"))
