"""Pretrain ELMo: a bidirectional language model on your own text.

    python run_pretrain.py --train_data_path='corpus/train/*' --vocab_file=corpus/vocab.txt

Several GPUs, and several processes on CPUs:

    python -m paddle.distributed.launch --gpus '0,1' run_pretrain.py ...
    python -m paddle.distributed.launch --nproc_per_node 2 --backend gloo run_pretrain.py ...

After an interruption, give the same command with --resume. Train on other text with
--finetune_from=checkpoints.
"""

import argparse
import math
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    add_data(parser.add_argument_group("data"))
    add_run(parser.add_argument_group("run"))
    add_checkpoints(parser.add_argument_group("checkpoints"))
    add_start(parser.add_argument_group("start", "from random weights, or from a checkpoint"))
    optimizer = parser.add_argument_group("optimizer")
    arguments.add_settings(optimizer, FixedSettings, omit=["precision"])
    arguments.add_model(parser)
    args = parser.parse_args(argv)
    if args.patience and not args.dev_data_path:
        parser.error("--patience counts evaluations, which need --dev_data_path")
    return args


def add_data(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--train_data_path",
        required=True,
        metavar="PATH",
        help="text: file, folder, or glob in quotes",
    )
    arguments.add(group, "dev_data_path", "vocab_file", "batch_size", "unroll_steps")
    arguments.add_settings(group, PretrainingSettings, "noise")


def add_run(group: argparse._ArgumentGroup) -> None:
    arguments.add(group, "device", "tf32", "seed")
    group.add_argument(
        "--exchange",
        choices=("float32", "bfloat16"),
        default="float32",
        help="of the gradients that processes send to each other; bfloat16 halves the messages",
    )
    arguments.add_settings(
        group,
        PretrainingSettings,
        "epochs",
        "max_steps",
        "log_freq",
        "eval_freq",
        "patience",
        "accumulate",
    )
    arguments.add_settings(group, FixedSettings, "precision")


def add_checkpoints(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--save_dir",
        **arguments.DIR,
        default=Path("checkpoints"),
        help="folder of the checkpoints",
    )
    arguments.add_settings(group, PretrainingSettings, "save_freq", "keep")
    group.add_argument(
        "--overwrite",
        action="store_true",
        help="replace an earlier run there, when this one saves its first checkpoint",
    )


def add_start(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--resume",
        action="store_true",
        help="continue what is in --save_dir, from its latest checkpoint, if there is one; "
        "otherwise start",
    )
    source = group.add_mutually_exclusive_group()
    source.add_argument(
        "--init_from_ckpt",
        metavar="CKPT",
        help="resume exactly from this checkpoint",
    )
    source.add_argument(
        "--finetune_from",
        metavar="CKPT",
        help="start from this checkpoint's weights, on other text",
    )
    arguments.add_settings(group, PretrainingSettings, "allow_changes")
    group.add_argument(
        "--pretrained_word_embeddings",
        **arguments.FILE,
        help="word vectors for the word embeddings",
    )


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


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)

    # a mistake in the flags does not wait for Paddle
    from elmo_core.kernels import precision
    from elmo_core.kernels.matmul import chosen_precision
    from elmo_core.training.ranks import Ranks

    device = runtime.set_device(args.device, args.tf32)
    options = arguments.options(PretrainingSettings, args)
    options["precision"] = chosen_precision(args.precision, device)
    settings = PretrainingSettings(**options)
    precision.use(settings.precision)
    ranks = Ranks("Give the same command with --resume.", args.exchange)
    if not ranks.is_main:
        log.setLevel("WARNING")
    corpus = Corpus(args.train_data_path)
    dev = Corpus(args.dev_data_path) if args.dev_data_path else None
    with ExitStack() as stack:
        ranks.run_on_main(lambda: stack.enter_context(run_folder.locked(settings.save_dir)))
        start = find_start(args)
        ranks.run_on_main(
            lambda: run_folder.check(settings.save_dir, start.resumed, args.overwrite)
        )
        bilm, vocabulary = initial_model(args, ranks, start)
        trainer = make_trainer(
            settings, ranks=ranks, bilm=bilm, vocabulary=vocabulary, corpus=corpus, dev=dev
        )
        trainer.restore(start.resumed)
        if is_finished(trainer, start.resumed):
            log_nothing_left(trainer, start.resumed)
            return
        trainer.open_folder(start.resumed)
        log_summary(trainer, device, len(corpus.paths))
        is_complete = trainer.train()
        if is_complete:
            log_end(trainer)
            return
        log_stop(trainer, args.overwrite)
        sys.exit(trainer.interruption.exit_code)


def find_start(args: argparse.Namespace) -> Start:
    """Find the checkpoint that the run resumes from, or whose weights it starts from, if any."""
    if args.resume and checkpoint.steps(args.save_dir):
        if args.init_from_ckpt:
            log.warning(
                f"--init_from_ckpt is not read: --resume continues the run in {args.save_dir}."
            )
        return Start(resumed=model_files.resolve_name(str(args.save_dir)), finetuned=None)
    return Start(
        resumed=model_files.resolve_name(args.init_from_ckpt) if args.init_from_ckpt else None,
        finetuned=model_files.resolve_name(args.finetune_from) if args.finetune_from else None,
    )


def is_finished(trainer: "Trainer", resumed: Path | None) -> bool:
    """Whether the run resumes from its end."""
    progress = trainer.progress
    if progress.step > progress.total:
        return True
    if resumed is None:
        return False
    final_step = checkpoint.read_names(resumed.parent).get("final")
    return final_step == progress.step and progress.reached_end(trainer.settings.patience)


def log_nothing_left(trainer: "Trainer", resumed: Path) -> None:
    progress = trainer.progress
    limit = "--patience" if progress.step < progress.total else "--epochs or --max_steps"
    log.info(
        f"{resumed} is at step {progress.step:,} of {progress.total:,}: nothing is left to do. "
        f"To train on, raise {limit}."
    )


def initial_model(
    args: argparse.Namespace, ranks: "Ranks", start: Start
) -> tuple["BiLM", Vocabulary]:
    """Build the model, from a checkpoint if there is one, with the same weights on all ranks."""
    runtime.paddle.seed(args.seed)
    # rank 0's weights are copied to all: the others need no word vectors
    word_vectors = args.pretrained_word_embeddings if ranks.is_main else None
    # run_on_all keeps waiting ranks alive, since reading word vectors takes minutes. It sends
    # results between ranks, but a model cannot be sent: the list is filled as a side effect.
    models = []
    ranks.run_on_all(lambda: models.append(build_model(args, start, word_vectors)))
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
    if args.noise and not bilm.config.reads_characters:
        raise UserError(
            "--noise changes characters, "
            f"which a model with --input={bilm.config.input} does not read."
        )
    return bilm, vocabulary


def build_model(
    args: argparse.Namespace, start: Start, word_vectors: Path | None
) -> tuple["BiLM", Vocabulary]:
    """Build a new model, or load that of a checkpoint."""
    from elmo_tools.pretraining.model import check_vocabulary, load_model  # imports Paddle

    given_vocabulary = Vocabulary.from_file(args.vocab_file) if args.vocab_file else None
    if start.checkpoint is None:
        if given_vocabulary is None:
            raise UserError(
                f"--vocab_file is missing. `{command_line('preprocess.py vocab')}` makes one from "
                "a corpus."
            )
        return new_model(args, given_vocabulary, word_vectors), given_vocabulary
    if word_vectors:
        log.warning(
            f"--pretrained_word_embeddings is not read: {start.checkpoint} has its own vectors."
        )
    size = PRESETS[args.model_size] if args.model_size else {}
    bilm, vocabulary = load_model(
        start.checkpoint,
        expected={**size, **arguments.model_changes(args)},
        vocabulary=given_vocabulary if start.finetuned else None,
    )
    if given_vocabulary:
        check_vocabulary(
            args.vocab_file, given_vocabulary, source=start.checkpoint, expected=vocabulary
        )
    return bilm, vocabulary


def new_model(
    args: argparse.Namespace, vocabulary: Vocabulary, word_vectors: Path | None
) -> "BiLM":
    """Build a model with random weights, and with word vectors if they are given."""
    from elmo import BiLM  # imports Paddle
    from elmo_tools.pretraining.model import initialise_from_vectors

    size = args.model_size or arguments.MODEL_SIZE
    changes = arguments.model_changes(args)
    bilm = BiLM(ELMoConfig.preset(size, vocab_size=len(vocabulary), **changes))
    if word_vectors:
        initialise_from_vectors(bilm, vocabulary, word_vectors)
    return bilm


def make_trainer(
    settings: PretrainingSettings,
    ranks: "Ranks",
    bilm: "BiLM",
    vocabulary: Vocabulary,
    corpus: Corpus,
    dev: Corpus | None,
) -> "Trainer":
    """Read the texts, and build all that trains the model."""
    from elmo_tools.pretraining.run import Inputs, Trainer  # imports Paddle

    # reads all text, which takes minutes if there is much of it
    ranks.run_on_all(lambda: corpus.identity)
    counts = ranks.run_on_main(lambda: count(corpus, dev, vocabulary))
    inputs = Inputs(vocabulary=vocabulary, corpus=corpus, dev=dev, counts=counts)
    trainer = Trainer(settings, ranks, bilm, inputs)
    check_ranks(ranks, {**trainer.fixed_settings, **asdict(settings), "save_dir": None})
    return trainer


def count(corpus: Corpus, dev: Corpus | None, vocabulary: Vocabulary) -> Counts:
    """Count the text, and check the held-out text."""
    if dev:
        dev.count(vocabulary)
    return corpus.count(vocabulary, sample=True)


def check_ranks(ranks: "Ranks", settings: dict[str, Any]) -> None:
    """Raise if a rank's settings differ from rank 0's."""
    expected, *others = ranks.gather(settings)
    for rank, other in enumerate(others, 1):
        different = differences(expected, other)
        if different:
            raise UserError(
                f"rank {rank} differs from rank 0: {'; '.join(different.values())}. "
                "Start all alike."
            )


def log_summary(trainer: "Trainer", device: str, n_files: int) -> None:
    """Log what is about to run."""
    from elmo_core.network.softmax import is_sampled  # imports Paddle

    settings = trainer.settings
    progress = trainer.progress
    counts = progress.counts
    processes = trainer.ranks.size
    vocab_size = trainer.bilm.config.vocab_size
    rows = progress.tokens_per_step // settings.unroll_steps
    if counts.sentences < rows:
        log.warning(
            f"The corpus has {format_count(counts.sentences, 'sentences')} for {rows:,} rows: "
            "several read the same sentences at a time. Put one sentence on each line, as "
            f"`{command_line('preprocess.py text')}` does, or lower --batch_size."
        )
    parts = parameters_by_part(trainer.bilm)
    sizes = ", ".join(f"{part} {size:,}" for part, size in parts.items())
    steps_per_epoch = math.ceil(counts.predictions / progress.tokens_per_step)
    products = "TF32" if paddle_compat.tf32_allowed(runtime.paddle) else "float32"
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


def parameters_by_part(bilm: "BiLM") -> dict[str, int]:
    """The number of parameters of each part of a model; those of both directions together."""
    sizes: dict[str, int] = {}
    for name, weight in bilm.named_parameters():
        part = name.split(".")[0].removeprefix("forward_").removeprefix("backward_")
        sizes[part] = sizes.get(part, 0) + weight.size
    return sizes


def log_stop(trainer: "Trainer", overwrite: bool) -> None:
    """Log what an interrupted run has saved, and how to continue."""
    step = trainer.progress.step
    save_dir = trainer.settings.save_dir
    folder = save_dir / str(step)
    advice = "To continue, give the same command with --resume."
    if checkpoint.exists(folder):
        log.info(f"stopped at step {step}, saved as {folder}.")
    else:
        log.info(f"stopped at step {step}, before the first step of this run: nothing is saved.")
        if overwrite and checkpoint.steps(save_dir):
            advice = "The earlier run there is as it was. To start again, give the same command."
    log.info(advice)


def log_end(trainer: "Trainer") -> None:
    """Log how a complete run ended, and where the model is."""
    progress = trainer.progress
    save_dir = trainer.settings.save_dir
    if progress.step < progress.total:
        evaluations = format_count(progress.without_gain, "evaluations")
        log.info(
            f"step {progress.step:,}: {evaluations} without improvement; "
            f"best perplexity {progress.best:.2f}"
        )
    log.info(f"saved         {save_dir / str(progress.step)}, also named {save_dir / 'final'}")


if __name__ == "__main__":
    script.run(main)
