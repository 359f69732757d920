"""Pretrain ELMo: a bidirectional language model on your own text.

    python run_pretrain.py --train_data_path='corpus/train/*' --vocab_file=corpus/vocab.txt --save_dir=checkpoints
    python -m paddle.distributed.launch --gpus '0,1' run_pretrain.py ...                            (several GPUs)
    python -m paddle.distributed.launch --nproc_per_node 2 --backend gloo run_pretrain.py ...       (several CPU processes)

After an interruption, give the same command with --resume. Train on other text with --finetune_from=checkpoints.
"""

import argparse
import math
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import args as arguments
import script
from elmo_core.command import command_line
from elmo_core.config import PRESETS, ELMoConfig, differences
from elmo_core.machine import paddle_compat, runtime
from elmo_core.messages import UserError, format_count, log
from elmo_core.text.corpus import Corpus, Counts
from elmo_core.text.vocabulary import Vocabulary
from elmo_core.weights import checkpoint, model_files
from elmo_tools.pretraining import run_folder
from elmo_tools.pretraining.settings import FixedSettings, PretrainingSettings

if TYPE_CHECKING:  # --help does not wait for Paddle
    from elmo import BiLM
    from elmo_core.training.ranks import Ranks
    from elmo_tools.pretraining.run import Trainer


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    data = parser.add_argument_group("data")
    data.add_argument(
        "--train_data_path",
        required=True,
        metavar="PATH",
        help="text: file, folder, or glob in quotes",
    )
    arguments.add(data, "dev_data_path", "vocab_file", "batch_size", "unroll_steps")
    arguments.add_settings(data, PretrainingSettings, "noise")
    run = parser.add_argument_group("run")
    arguments.add(run, "device", "tf32", "seed")
    exchange = "of the gradients that processes send to each other; bfloat16 halves the messages"
    run.add_argument(
        "--exchange", choices=("float32", "bfloat16"), default="float32", help=exchange
    )
    names = ("epochs", "max_steps", "log_freq", "eval_freq", "patience", "accumulate")
    arguments.add_settings(run, PretrainingSettings, *names)
    arguments.add_settings(run, FixedSettings, "precision")
    files = parser.add_argument_group("checkpoints")
    files.add_argument(
        "--save_dir", **arguments.DIR, default=Path("checkpoints"), help="folder of the checkpoints"
    )
    arguments.add_settings(files, PretrainingSettings, "save_freq", "keep")
    overwrite = "replace an earlier run there, when this one saves its first checkpoint"
    files.add_argument("--overwrite", action="store_true", help=overwrite)
    begin = parser.add_argument_group("start", "from random weights, or from a checkpoint")
    text = "continue what is in --save_dir, from its latest checkpoint, if there is one; otherwise start"
    begin.add_argument("--resume", action="store_true", help=text)
    source = begin.add_mutually_exclusive_group()
    source.add_argument(
        "--init_from_ckpt", metavar="CKPT", help="resume exactly from this checkpoint"
    )
    source.add_argument(
        "--finetune_from",
        metavar="CKPT",
        help="start from this checkpoint's weights, on other text",
    )
    arguments.add_settings(begin, PretrainingSettings, "allow_changes")
    begin.add_argument(
        "--pretrained_word_embeddings",
        **arguments.FILE,
        help="word vectors for the word embeddings",
    )
    arguments.add_settings(
        parser.add_argument_group("optimizer"), FixedSettings, omit=["precision"]
    )
    arguments.add_model(parser)
    args = parser.parse_args(argv)
    if args.patience and not args.dev_data_path:
        parser.error("--patience counts evaluations, which need --dev_data_path")
    return args


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)

    # a mistake in the flags does not wait for Paddle
    from elmo_core.kernels import precision
    from elmo_core.kernels.matmul import chosen_precision
    from elmo_core.training.ranks import Ranks

    device = runtime.set_device(args.device, args.tf32)
    args.precision = chosen_precision(args.precision, device)
    precision.use(args.precision)
    ranks = Ranks("Give the same command with --resume.", args.exchange)
    if not ranks.is_main:
        log.setLevel("WARNING")
    corpus, dev = (
        Corpus(args.train_data_path),
        Corpus(args.dev_data_path) if args.dev_data_path else None,
    )
    with ExitStack() as stack:
        ranks.run_on_main(lambda: stack.enter_context(run_folder.locked(args.save_dir)))
        resumed, source = find_checkpoints(args)
        ranks.run_on_main(lambda: run_folder.check(args.save_dir, resumed, args.overwrite))
        trainer = make_trainer(args, ranks, corpus, dev, resumed or source)
        trainer.restore(resumed)
        if is_finished(trainer, resumed):
            steps = f"{trainer.progress.step:,} of {trainer.progress.total:,}"
            limit = (
                "--patience"
                if trainer.progress.step < trainer.progress.total
                else "--epochs or --max_steps"
            )
            log.info(
                f"{resumed} is at step {steps}: nothing is left to do. To train on, raise {limit}."
            )
            return
        trainer.open_folder(resumed)
        log_summary(args, trainer, device, len(corpus.paths))
        is_complete = trainer.train()
        log_end(args, trainer, is_complete)


def find_checkpoints(args: argparse.Namespace) -> tuple[Path | None, Path | None]:
    """Find the checkpoint that the run resumes from, and the one whose weights it starts from, if any."""
    if args.resume and checkpoint.steps(args.save_dir):
        if args.init_from_ckpt:
            log.warning(
                f"--init_from_ckpt is not read: --resume continues the run in {args.save_dir}."
            )
        args.init_from_ckpt, args.finetune_from = str(args.save_dir), None
    resumed, source = (
        name and model_files.resolve_name(name)
        for name in (args.init_from_ckpt, args.finetune_from)
    )
    return resumed, source


def is_finished(trainer: "Trainer", resumed: Path | None) -> bool:
    """Whether the run resumes from its end."""
    progress = trainer.progress
    is_final = resumed and checkpoint.read_names(resumed.parent).get("final") == progress.step
    return progress.step > progress.total or bool(
        is_final and progress.reached_end(trainer.settings.patience)
    )


def make_trainer(
    args: argparse.Namespace,
    ranks: "Ranks",
    corpus: Corpus,
    dev: Corpus | None,
    source: Path | None,
) -> "Trainer":
    """Build the model and all that trains it. source: a checkpoint that the model is loaded from."""
    from elmo_tools.pretraining.run import Inputs, Trainer  # imports Paddle

    runtime.paddle.seed(args.seed)
    bilm, vocabulary = initial_model(args, ranks, source)
    if args.noise and not bilm.config.reads_characters:
        raise UserError(
            f"--noise changes characters, which a model with --input={bilm.config.input} does not read."
        )
    ranks.run_on_all(
        lambda: corpus.identity
    )  # reads all text, which takes minutes if there is much of it
    counts = ranks.run_on_main(lambda: count(corpus, dev, vocabulary))
    settings = PretrainingSettings(**arguments.options(PretrainingSettings, args))
    trainer = Trainer(settings, ranks, bilm, Inputs(vocabulary, corpus, dev, counts))
    check_ranks(ranks, {**trainer.fixed_settings, **asdict(settings), "save_dir": None})
    return trainer


def initial_model(
    args: argparse.Namespace,
    ranks: "Ranks",
    source: Path | None,
) -> tuple["BiLM", Vocabulary]:
    """Build the model, from checkpoint source if given, with the same weights on all ranks."""
    if not ranks.is_main:
        args.pretrained_word_embeddings = None  # rank 0's weights are copied to all
    models = []  # filled as a side effect: run_on_all sends results between ranks, and a model cannot be sent
    # run_on_all keeps waiting ranks alive: reading word vectors takes minutes
    ranks.run_on_all(lambda: models.append(build_model(args, source)))
    bilm, vocabulary = models[0]
    name = source and source.name  # the checkpoint's step
    check_ranks(
        ranks, {**bilm.config.to_dict(), "vocabulary": vocabulary.identity, "checkpoint": name}
    )
    ranks.broadcast_weights(bilm.parameters())
    return bilm, vocabulary


def build_model(args: argparse.Namespace, source: Path | None) -> tuple["BiLM", Vocabulary]:
    """Build a new model, or load that of a checkpoint."""
    from elmo import BiLM  # imports Paddle
    from elmo_tools.pretraining.model import check_vocabulary, initialise_from_vectors, load_model

    given_vocabulary = Vocabulary.from_file(args.vocab_file) if args.vocab_file else None
    size, changes = args.model_size, arguments.model_changes(args)
    if source is None:
        if given_vocabulary is None:
            raise UserError(
                f"--vocab_file is missing. `{command_line('preprocess.py vocab')}` makes one from "
                "a corpus."
            )
        config = ELMoConfig.preset(
            size or arguments.MODEL_SIZE, vocab_size=len(given_vocabulary), **changes
        )
        bilm = BiLM(config)
        if args.pretrained_word_embeddings:
            initialise_from_vectors(bilm, given_vocabulary, args.pretrained_word_embeddings)
        return bilm, given_vocabulary
    if args.pretrained_word_embeddings:
        log.warning(f"--pretrained_word_embeddings is not read: {source} has its own vectors.")
    expected = {**(PRESETS[size] if size else {}), **changes}
    bilm, vocabulary = load_model(
        source, expected, given_vocabulary if args.finetune_from else None
    )
    if given_vocabulary:
        check_vocabulary(args.vocab_file, given_vocabulary, source, vocabulary)
    return bilm, vocabulary


def count(corpus: Corpus, dev: Corpus | None, vocabulary: Vocabulary) -> Counts:
    """Count the text, and check the held-out text."""
    if dev:
        dev.count(vocabulary)
    return corpus.count(vocabulary, sample=True)


def check_ranks(ranks: "Ranks", settings: dict) -> None:
    """Raise if a rank's settings differ from rank 0's."""
    expected, *others = ranks.gather(settings)
    for rank, other in enumerate(others, 1):
        if different := differences(expected, other):
            raise UserError(
                f"rank {rank} differs from rank 0: {'; '.join(different.values())}. Start all alike."
            )


def log_summary(args: argparse.Namespace, trainer: "Trainer", device: str, n_files: int) -> None:
    from elmo_core.network.softmax import is_sampled  # imports Paddle

    progress, processes, words = (
        trainer.progress,
        trainer.ranks.size,
        trainer.bilm.config.vocab_size,
    )
    counts, rows = progress.counts, progress.tokens_per_step // args.unroll_steps
    if counts.sentences < rows:
        log.warning(
            f"The corpus has {format_count(counts.sentences, 'sentences')} for {rows:,} rows: "
            "several read the same sentences at a time. Put one sentence on each line, as "
            f"`{command_line('preprocess.py text')}` does, or lower --batch_size."
        )
    parts: dict[str, int] = {}
    for name, weight in trainer.bilm.named_parameters():
        part = name.split(".")[0].removeprefix("forward_").removeprefix("backward_")
        parts[part] = parts.get(part, 0) + weight.size
    steps_per_epoch = math.ceil(counts.predictions / progress.tokens_per_step)
    candidates = f"{args.n_negative_samples:,} candidates: the perplexities below are estimates"
    products_in = "TF32" if paddle_compat.tf32_allowed(runtime.paddle) else "float32"
    lines = (
        f"device        {device}, {processes} process{'es' * (processes > 1)}, products in "
        f"{'bfloat16, logits in ' * (args.precision == 'bfloat16')}{products_in}",
        f"parameters    {sum(parts.values()):,}: {', '.join(f'{part} {size:,}' for part, size in parts.items())}",
        f"text          {format_count(counts.tokens, 'tokens')} in {format_count(counts.sentences, 'sentences')}, "
        f"{format_count(n_files, 'files')}; {counts.unknown_share:.2%} outside the vocabulary of {words:,} words",
        f"steps         {steps_per_epoch:,} per epoch, {progress.total:,} in all, from step {progress.step:,}; "
        f"{progress.tokens_per_step:,} tokens each",
        f"softmax       {candidates if is_sampled(words, args.n_negative_samples) else f'over all {words:,} words'}",
    )
    values = {"device": device, "processes": processes, "parameters": parts, "vocabulary": words}
    values |= {
        "tokens": counts.tokens,
        "sentences": counts.sentences,
        "unknown_share": counts.unknown_share,
    }
    values |= {
        "steps_per_epoch": steps_per_epoch,
        "tokens_per_step": progress.tokens_per_step,
        "total": progress.total,
    }
    trainer.log("start", "\n".join(lines), values)


def log_end(args: argparse.Namespace, trainer: "Trainer", is_complete: bool) -> None:
    """Log where the model is; exit if the run was interrupted."""
    progress = trainer.progress
    if not is_complete:
        folder = args.save_dir / str(progress.step)
        advice = "To continue, give the same command with --resume."
        if checkpoint.exists(folder):
            log.info(f"stopped at step {progress.step}, saved as {folder}.")
        else:
            log.info(
                f"stopped at step {progress.step}, before the first step of this run: nothing is saved."
            )
            if args.overwrite and checkpoint.steps(args.save_dir):
                advice = (
                    "The earlier run there is as it was. To start again, give the same command."
                )
        log.info(advice)
        sys.exit(trainer.interruption.exit_code)
    if progress.step < progress.total:
        evaluations = f"{format_count(progress.without_gain, 'evaluations')} without improvement"
        log.info(f"step {progress.step:,}: {evaluations}; best perplexity {progress.best:.2f}")
    log.info(
        f"saved         {args.save_dir / str(progress.step)}, also named {args.save_dir / 'final'}"
    )


if __name__ == "__main__":
    script.run(main)
