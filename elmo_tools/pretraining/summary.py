"""What a pretraining run says before its first step and after its last."""

import math
from pathlib import Path

from elmo import BiLM
from elmo_core.machine import paddle_compat
from elmo_core.machine.runtime import paddle
from elmo_core.messages import format_count, log
from elmo_core.network.softmax import is_sampled
from elmo_core.weights import checkpoint
from elmo_tools.pretraining.run import Trainer


def log_start(trainer: Trainer, n_files: int) -> None:
    """Log what is about to run. n_files: of the text."""
    settings = trainer.settings
    progress = trainer.progress
    counts = progress.counts
    device = paddle.get_device()
    processes = trainer.ranks.size
    vocab_size = trainer.bilm.config.vocab_size
    rows = progress.tokens_per_step // settings.unroll_steps
    if counts.sentences < rows:
        log.warning(
            f"The corpus has {format_count(counts.sentences, 'sentences')} for {rows:,} rows: "
            "several read the same sentences at a time. Lower `batch_size`, or put one sentence on "
            "each line."
        )
    parts = parameters_by_part(trainer.bilm)
    sizes = ", ".join(f"{part} {size:,}" for part, size in parts.items())
    steps_per_epoch = math.ceil(counts.predictions / progress.tokens_per_step)
    products = "TF32" if paddle_compat.tf32_allowed(paddle) else "float32"
    if settings.precision == "bfloat16":
        products = f"bfloat16, logits in {products}"
    n_candidates = settings.n_negative_samples
    if is_sampled(vocab_size, n_candidates):
        softmax = f"{n_candidates:,} candidates: the perplexities below are estimates"
    else:
        softmax = f"over all {vocab_size:,} words"
    processes_text = "1 process" if processes == 1 else f"{processes} processes"
    lines = [
        f"device        {device}, {processes_text}, products in {products}",
        f"parameters    {sum(parts.values()):,}: {sizes}",
        f"text          {format_count(counts.tokens, 'tokens')} "
        f"in {format_count(counts.sentences, 'sentences')}, {format_count(n_files, 'files')}; "
        f"{counts.unknown_share:.2%} outside the vocabulary of {vocab_size:,} words",
        f"steps         {steps_per_epoch:,} per epoch, {progress.total:,} in all, "
        f"from step {progress.step:,}; {progress.tokens_per_step:,} tokens each",
        f"softmax       {softmax}",
    ]
    values = {
        "device": device,
        "processes": processes,
        "parameters": parts,
        "vocabulary": vocab_size,
        "tokens": counts.tokens,
        "sentences": counts.sentences,
        "unknown_share": counts.unknown_share,
        "steps_per_epoch": steps_per_epoch,
        "tokens_per_step": progress.tokens_per_step,
        "total": progress.total,
    }
    trainer.log("start", "\n".join(lines), values)


def parameters_by_part(bilm: BiLM) -> dict[str, int]:
    """The number of parameters of each part of a model; those of both directions together."""
    sizes: dict[str, int] = {}
    for name, weight in bilm.named_parameters():
        part = name.split(".")[0].removeprefix("forward_").removeprefix("backward_")
        sizes[part] = sizes.get(part, 0) + weight.size
    return sizes


def log_nothing_left(trainer: Trainer, resumed: Path) -> None:
    """Log that the run had ended."""
    progress = trainer.progress
    limit = "`patience`" if progress.step < progress.total else "`epochs` or `max_steps`"
    log.info(
        f"{resumed} is at step {progress.step:,} of {progress.total:,}: nothing is left to do. "
        f"To train on, raise {limit}."
    )


def log_end(trainer: Trainer) -> None:
    """Log how a complete run ended, and where the model is."""
    progress = trainer.progress
    save_dir = trainer.folder.path
    if progress.step < progress.total:
        evaluations = format_count(progress.without_gain, "evaluations")
        log.info(
            f"step {progress.step:,}: {evaluations} without improvement; "
            f"best perplexity {progress.best:.2f}"
        )
    log.info(f"saved         {save_dir / str(progress.step)}, also named {save_dir / 'final'}")


def after_interruption(trainer: Trainer, overwrite: bool, same: str) -> str:
    """Say what an interrupted run has saved, and how to continue.

    same: what starts the run again, a command or a call.
    """
    step = trainer.progress.step
    save_dir = trainer.folder.path
    folder = save_dir / str(step)
    advice = f"To continue, give the same {same} with `resume=True`."
    if checkpoint.exists(folder):
        return f"stopped at step {step}, saved as {folder}. {advice}"
    if overwrite and checkpoint.steps(save_dir):
        advice = f"The earlier run there is as it was. To start again, give the same {same}."
    return f"stopped at step {step}, before the first step of this run: nothing is saved. {advice}"
