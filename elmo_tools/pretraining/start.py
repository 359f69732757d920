"""Where a pretraining run starts, and the model that it starts with."""

from dataclasses import dataclass
from pathlib import Path

from elmo import BiLM
from elmo_core.command import command_line
from elmo_core.config import differences
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError, log
from elmo_core.text.vocabulary import Vocabulary
from elmo_core.training.ranks import Ranks
from elmo_core.weights import checkpoint, model_files
from elmo_tools.pretraining.model import check_vocabulary, initialise_from_vectors, load_model
from elmo_tools.pretraining.settings import PretrainingSettings


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What the user says of the folder of a run, and of what it starts from.

    resume: continue what is in save_dir, if there is something. overwrite: replace it.
    init_from_ckpt: resume exactly from this checkpoint.
    finetune_from: start from this one's weights, on other text.
    pretrained_word_embeddings: word vectors for the word embeddings of a new model.
    """

    save_dir: Path
    resume: bool = False
    overwrite: bool = False
    init_from_ckpt: str | Path | None = None
    finetune_from: str | Path | None = None
    pretrained_word_embeddings: Path | None = None

    def __post_init__(self):
        if self.init_from_ckpt and self.finetune_from:
            raise UserError("Give `init_from_ckpt` or `finetune_from`, not both.")


@dataclass(frozen=True)
class Start:
    """Where a run starts: with neither of these, from random weights.

    resumed: a checkpoint of the same run, which continues. finetuned: one whose weights are taken.
    """

    resumed: Path | None
    finetuned: Path | None

    @property
    def checkpoint(self) -> Path | None:
        """The checkpoint that the weights are loaded from."""
        return self.resumed or self.finetuned


def find_start(origin: Origin) -> Start:
    """Find the checkpoint that the run resumes from, or whose weights it starts from, if any."""
    save_dir = origin.save_dir
    resumed = origin.init_from_ckpt
    finetuned = origin.finetune_from
    if origin.resume and checkpoint.steps(save_dir):
        if resumed:
            log.warning(
                f"`init_from_ckpt` is not read: `resume=True` continues the run in {save_dir}."
            )
        return Start(resumed=model_files.resolve_name(str(save_dir)), finetuned=None)
    return Start(
        resumed=model_files.resolve_name(resumed) if resumed else None,
        finetuned=model_files.resolve_name(finetuned) if finetuned else None,
    )


def initial_model(
    settings: PretrainingSettings,
    origin: Origin,
    start: Start,
    vocab_file: Path | None,
    ranks: Ranks,
) -> tuple[BiLM, Vocabulary]:
    """Build the model, from a checkpoint if there is one, with the same weights on all ranks.

    vocab_file: the vocabulary of the model; None: that of the checkpoint.
    """
    paddle.seed(settings.seed)
    # rank 0's weights are copied to all: the others need no word vectors
    word_vectors = origin.pretrained_word_embeddings if ranks.is_main else None
    # run_on_all keeps waiting ranks alive, since reading word vectors takes minutes. It sends
    # results between ranks, but a model cannot be sent: the list is filled as a side effect.
    models = []
    ranks.run_on_all(lambda: models.append(_build_model(settings, start, vocab_file, word_vectors)))
    bilm, vocabulary = models[0]
    check_ranks(
        ranks,
        {
            **bilm.config.to_dict(),
            "vocabulary": vocabulary.identity,
            "checkpoint": start.checkpoint.name if start.checkpoint else None,
        },
    )
    ranks.broadcast_weights(bilm.parameters())
    if settings.noise and not bilm.config.reads_characters:
        raise UserError(
            "`noise` changes characters, "
            f"which a model with `input={bilm.config.input}` does not read."
        )
    return bilm, vocabulary


def _build_model(
    settings: PretrainingSettings,
    start: Start,
    vocab_file: Path | None,
    word_vectors: Path | None,
) -> tuple[BiLM, Vocabulary]:
    """Build a new model, or load that of a checkpoint."""
    given_vocabulary = Vocabulary.from_file(vocab_file) if vocab_file else None
    if start.checkpoint is None:
        if given_vocabulary is None:
            raise UserError(
                f"`vocab_file` is missing. `{command_line('preprocess.py vocab')}` makes one from "
                "a corpus."
            )
        return _new_model(settings, given_vocabulary, word_vectors), given_vocabulary
    if word_vectors:
        log.warning(
            f"`pretrained_word_embeddings` is not read: {start.checkpoint} has its own vectors."
        )
    bilm, vocabulary = load_model(
        start.checkpoint,
        expected=settings.expected_of_checkpoint(),
        vocabulary=given_vocabulary if start.finetuned else None,
    )
    if given_vocabulary:
        check_vocabulary(vocab_file, given_vocabulary, source=start.checkpoint, expected=vocabulary)
    return bilm, vocabulary


def _new_model(
    settings: PretrainingSettings, vocabulary: Vocabulary, word_vectors: Path | None
) -> BiLM:
    """Build a model with random weights, and with word vectors if they are given."""
    bilm = BiLM(settings.config(len(vocabulary)))
    if word_vectors:
        initialise_from_vectors(bilm, vocabulary, word_vectors)
    return bilm


def check_ranks(ranks: Ranks, settings: dict) -> None:
    """Raise if a rank's settings differ from rank 0's."""
    expected, *others = ranks.gather(settings)
    for rank, other in enumerate(others, 1):
        different = differences(expected, other)
        if different:
            raise UserError(
                f"rank {rank} differs from rank 0: {'; '.join(different.values())}. "
                "Start all alike."
            )
