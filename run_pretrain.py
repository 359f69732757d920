"""Pretrain ELMo: a bidirectional language model on your own text.

    python run_pretrain.py --train_data_path='corpus/train/*' --vocab_file=corpus/vocab.txt --save_dir=checkpoints
    python -m paddle.distributed.launch --gpus '0,1' run_pretrain.py ...                            (several GPUs)
    python -m paddle.distributed.launch --nproc_per_node 2 --backend gloo run_pretrain.py ...       (several CPU processes)

Go on after an interruption with --init_from_ckpt=checkpoints; on other text with --finetune_from=checkpoints.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import takewhile
from pathlib import Path

import numpy as np

import args as arguments
import dataset
import script
from elmo import BiLM
from elmo_core.config import PRESETS, ELMoConfig, differences
from elmo_core.files import checkpoint
from elmo_core.machine import messages, products, runtime
from elmo_core.machine.messages import UserError, log
from elmo_core.machine.ranks import LostRank, Ranks
from elmo_core.machine.runtime import paddle
from elmo_core.network.softmax import Candidates, draw_candidates, is_sampled
from elmo_core.text.corpus import Corpus, Counts
from elmo_core.text.tokens import LMBatch, Vocabulary
from elmo_core.weights import model_files
from pretraining import folder
from pretraining.interruption import Interruption
from pretraining.meter import ADVICE, Meter, memory_in_use
from pretraining.model import check_vocabulary, load_model, new_model
from pretraining.optimizer import learning_rate, make_optimizer, optimizer_state, set_optimizer_state
from pretraining.perplexity import Score, evaluate, perplexity
from pretraining.prefetch import Prefetcher
from pretraining.resume import Progress, changed_settings, resume

# beside the settings of a run
SAME_ON_ALL_RANKS = ("accumulate", "max_steps", "epochs", "patience", "eval_freq", "save_freq", "log_freq")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser, count = arguments.parser(__doc__), arguments.COUNT
    data = parser.add_argument_group("data")
    data.add_argument(
        "--train_data_path", required=True, metavar="PATH", help="text: a file, a folder, or a glob in quotes"
    )
    arguments.add_dev_data(data)
    arguments.add_vocabulary(data)
    arguments.add_batches(data, batch_size=128)
    run = parser.add_argument_group("run")
    arguments.add_device(run)
    arguments.add_seed(run)
    run.add_argument("--epochs", **count, default=10, help="passes over the text")
    run.add_argument("--max_steps", **count, help="steps in all, in place of epochs")
    run.add_argument("--log_freq", **count, default=100, help="steps from line to line")
    run.add_argument("--eval_freq", **count, default=10000, help="steps between evaluations")
    run.add_argument("--patience", **count, help="evaluations without gain before it stops")
    run.add_argument("--plot", action="store_true", help="draw the perplexities into loss.png at the end")
    run.add_argument(
        "--accumulate", **count, default=1, help="batches to an update, where memory does not hold their rows at once"
    )
    run.add_argument("--amp", action="store_true", help="mixed precision on GPUs: products in bfloat16")
    run.add_argument("--tf32", action="store_true", help="products of float32 in TF32, on GPUs that have it")
    files = parser.add_argument_group("checkpoints")
    files.add_argument(
        "--save_dir", type=Path, metavar="DIR", default=Path("checkpoints"), help="folder of the checkpoints"
    )
    files.add_argument("--save_freq", **count, default=10000, help="steps between checkpoints")
    files.add_argument("--keep", **count, default=5, help="numbered checkpoints to keep")
    files.add_argument("--overwrite", action="store_true", help="delete an earlier run's checkpoints there")
    begin = parser.add_argument_group("start", "from random weights, or from a checkpoint: prefix, file or folder")
    source = begin.add_mutually_exclusive_group()
    source.add_argument("--init_from_ckpt", metavar="CKPT", help="go on exactly where this checkpoint was saved")
    source.add_argument("--finetune_from", metavar="CKPT", help="take this checkpoint's weights, on other text")
    begin.add_argument("--allow_changes", action="store_true", help="go on although settings or data have changed")
    begin.add_argument(
        "--pretrained_word_embeddings",
        type=Path,
        metavar="FILE",
        help="word2vec vectors that the token encoder starts from",
    )
    arguments.add_optimizer(parser)
    arguments.add_model(parser)
    args = parser.parse_args(argv)
    args.lr = args.lr or {"adagrad": 0.2, "adam": 0.001}[args.optimizer]
    if args.patience and not args.dev_data_path:
        parser.error("--patience counts evaluations: it needs --dev_data_path")
    if not args.dev_data_path:
        args.eval_freq = None
    return args


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    device = runtime.set_device(args.device)
    products.use_half_products(args.amp)
    products.use_tf32(args.tf32)
    ranks = Ranks(advice="Go on with --init_from_ckpt.")
    if not ranks.first:
        log.setLevel("WARNING")

    corpus = Corpus(args.train_data_path)
    dev = Corpus(args.dev_data_path) if args.dev_data_path else None
    source = args.init_from_ckpt or args.finetune_from
    source = model_files.resolve(source) if source else None
    resumed = source if args.init_from_ckpt else None
    read = [*corpus.paths, *(dev.paths if dev else ()), *([source] if args.finetune_from else ())]
    if args.save_dir.resolve() in {path.parent.resolve() for path in read}:
        raise UserError(f"--save_dir {args.save_dir} is a folder that this run reads. Choose another.")

    step = checkpoint.step_of(resumed) if resumed else 0
    ranks.on_first(lambda: folder.check_folder(args.save_dir, resumed, step, args.overwrite))

    script.seed_everything(args.seed)
    if not ranks.first:
        args.pretrained_word_embeddings = None  # the first gives its weights to all
    made = []  # its weights are the same on all ranks; the model itself could not be sent
    ranks.on_each(lambda: made.append(starting_model(args, source)))  # fitting takes minutes, more on a slower machine
    bilm, vocabulary = made[0]
    start = {"vocabulary": vocabulary.identity, "step": step}
    check_ranks(ranks, {**bilm.config.to_dict(), **start})  # before weights are exchanged that do not fit each other
    ranks.share_weights(bilm.parameters())
    optimizer = make_optimizer(args.optimizer, args.lr, bilm.parameters(), args.max_grad_norm)
    counts = ranks.on_first(lambda: [text.count(vocabulary, sample=True) for text in (dev, corpus) if text][-1])
    shape = (args.unroll_steps, bilm.config.input)
    rows = args.batch_size * args.accumulate
    if counts.sentences < rows * ranks.size:
        log.warning(
            f"The corpus has {counts.sentences:,} sentences for {rows * ranks.size:,} rows, which read the same ones at the "
            "same time. Put each sentence on a line of its own, as `preprocess.py text` does, or lower --batch_size."
        )
    stream = dataset.TrainStream(corpus, vocabulary, rows, *shape, args.seed, ranks.rank, ranks.size)
    held_out = dataset.EvalStream(dev, vocabulary, args.batch_size, *shape) if dev else None
    settings = run_settings(args, stream, dev)
    check_ranks(ranks, {**settings, **{name: getattr(args, name) for name in SAME_ON_ALL_RANKS}})

    warmup = args.warmup_steps * stream.tokens_per_step
    states = [bilm.zero_state(args.batch_size) for _ in range(args.accumulate)]
    progress = Progress(stream.tokens_per_step, counts.predictions, stream.position, states, warmup)
    if resumed:
        moments, saved = checkpoint.load_optimizer(resumed), checkpoint.load_progress(resumed)
        changes = changed_settings(resumed, saved["settings"], settings, args.allow_changes)
        resume(progress, saved, changes, stream, ranks)
        if "optimizer" not in changes:
            set_optimizer_state(optimizer, bilm, moments)
    progress.set_end(args.max_steps, args.epochs)
    if resumed:
        if args.optimizer == "adam" and saved["total"] != progress.total:
            log.warning(f"The rate falls to 0 at step {progress.total:,} instead of {saved['total']:,}.")
        ended = resumed.name == "final" and progress.is_finished(args.patience, args.eval_freq)
        if ended or progress.step > progress.total:
            log.info(f"{resumed} is at step {progress.step:,} of {progress.total:,}: nothing is left to do.")
            log.info("To train on, raise --epochs or --max_steps (or --patience).")
            return

    with ExitStack() as stack:
        ranks.on_first(lambda: stack.enter_context(folder.locked(args.save_dir)))
        config = {"model": bilm.config.to_dict(), "training": settings}
        if not ranks.on_first(lambda: folder.open_folder(args.save_dir, resumed, progress.step, config, vocabulary)):
            progress.best, progress.without_gain = math.inf, 0
        introduce(args, ranks, device, bilm, corpus, counts, progress)
        train(args, ranks, bilm, optimizer, stream, held_out, progress, settings)
        if args.plot and ranks.first:
            log.info(f"drew          {folder.plot(args.save_dir)}")


def starting_model(args: argparse.Namespace, source: Path | None) -> tuple[BiLM, Vocabulary]:
    """The model and its vocabulary: that of the checkpoint `source` where there is one."""
    given = Vocabulary.from_file(args.vocab_file) if args.vocab_file else None
    size, changes = args.model_size, arguments.model_changes(args)
    if source is None:
        if given is None:
            raise UserError("--vocab_file is missing: `preprocess.py vocab` makes one from a corpus.")
        config = ELMoConfig.preset(size or arguments.MODEL_SIZE, vocab_size=len(given), **changes)
        if unread := [f"--{name}" for name in changes if not config.reads(name)]:
            log.warning(f"--input={config.input} does not read {' '.join(unread)}.")
        return new_model(config, given, args.pretrained_word_embeddings), given
    if args.pretrained_word_embeddings:
        log.warning(f"--pretrained_word_embeddings is not read: {source} brings its own vectors.")
    wanted = {**(PRESETS[size] if size else {}), **changes}
    bilm, vocabulary = load_model(source, wanted, given if args.finetune_from else None)
    if given:
        check_vocabulary(args.vocab_file, given, source, vocabulary)
    return bilm, vocabulary


def check_ranks(ranks: Ranks, settings: dict) -> None:
    """Refuse ranks that would train another model, or another number of steps, than the first."""
    first, *others = ranks.gather(settings)
    for rank, found in enumerate(others, 1):
        if different := differences(first, found):
            raise UserError(
                f"rank {rank} has other flags or files than rank 0: {'; '.join(different.values())}. Start all machines "
                "with the same command, and give them the same files."
            )


def run_settings(args: argparse.Namespace, stream: dataset.TrainStream, dev: Corpus | None) -> dict:
    """What must be the same for a resumed run to be the same run."""
    names = ("optimizer", "lr", "warmup_steps", "max_grad_norm", "dropout", "n_negative_samples", "amp")
    data = {name: value for name, value in stream.position["identity"].items() if name != "rank"}
    return {**data, "dev_data": dev.identity if dev else None, **{name: getattr(args, name) for name in names}}


def train(
    args: argparse.Namespace,
    ranks: Ranks,
    bilm: BiLM,
    optimizer,
    stream: dataset.TrainStream,
    held_out: dataset.EvalStream | None,
    progress: Progress,
    settings: dict,
) -> None:
    """Step after step until the last one, an interruption, or the end of patience; then save."""
    weights, meter = bilm.parameters(), Meter(progress.losses)
    sampled = is_sampled(bilm.config.vocab_size, args.n_negative_samples)

    def evaluate_if_due() -> None:
        if progress.evaluation_is_due(args.eval_freq):
            with meter.paused():
                evaluate_held_out(args, ranks, bilm, held_out, progress, interruption, save)

    def save(name: str) -> None:
        with meter.paused():
            state = progress.to_dict(settings, ranks)
            ranks.on_first(
                lambda: folder.save(args.save_dir / name, bilm, optimizer_state(optimizer, bilm), state, args.keep)
            )

    prepared = with_candidates(stream, bilm.config.vocab_size, args, progress.step)
    with Interruption() as interruption, Prefetcher(prepared) as batches:
        evaluate_if_due()  # one that an interruption has cut short
        ending = ranks.any(interruption.is_wanted())
        while not progress.is_over(args.patience) and not ending:
            parts, candidates = next(batches)
            progress.step, progress.tokens = progress.step + 1, progress.tokens + progress.tokens_per_step
            paddle.seed(dropout_seed(args.seed, progress.step, ranks.rank))
            losses = []
            for k, batch in enumerate(parts):
                both, progress.states[k] = bilm(batch, progress.states[k], candidates, args.dropout)
                (sum(both) / 2 * args.unroll_steps / len(parts)).backward()
                losses.append([loss.detach() / len(parts) for loss in both])
            meter.add(progress.step, [sum(of_parts) for of_parts in zip(*losses, strict=True)], batch.position)
            ending = ranks.average_gradients(weights, interruption.is_wanted())
            optimizer.set_lr(learning_rate(args.optimizer, args.lr, *progress.schedule))
            optimizer.step()
            optimizer.clear_grad()
            progress.position = batch.position
            if progress.step % args.log_freq == 0 or progress.step == progress.total:
                report(args, ranks, meter, optimizer.get_lr(), sampled, progress)
            evaluate_if_due()
            ending |= progress.evaluation_is_due(args.eval_freq)  # one that was cut short
            if progress.step % args.save_freq == 0 and not progress.is_over(args.patience):
                save(str(progress.step))

        if not progress.is_finished(args.patience, args.eval_freq):
            prefix = args.save_dir / str(progress.step)
            save(prefix.name)
            instead = " in place of --finetune_from" if args.finetune_from else ""
            log.info(f"stopped at step {prefix.name}, saved as {prefix}. Go on with the same command and")
            log.info(f"    --init_from_ckpt={prefix}{instead}")
            sys.exit(interruption.exit_code)
        if progress.step < progress.total:
            without_gain = f"{progress.without_gain} evaluations without gain"
            log.info(f"step {progress.step:,}: {without_gain}, the best was {progress.best:.2f}")
        save("final")
        log.info(f"saved         {args.save_dir / 'final'}.pdparams")


def with_candidates(
    stream: dataset.TrainStream, vocab_size: int, args: argparse.Namespace, step: int
) -> Iterator[tuple[list[LMBatch], Candidates]]:
    """The batches of each step and the candidate words of its softmax, for the Prefetcher to make in advance.

    All ranks have the same candidates, so that they have gradients of the same rows.
    """
    for number, batch in enumerate(stream, step + 1):
        random = np.random.default_rng([args.seed, number, 0])
        firsts = range(0, len(batch.lengths), args.batch_size)
        parts = [batch.take(slice(a, a + args.batch_size)) for a in firsts] if len(firsts) > 1 else [batch]
        yield parts, draw_candidates(vocab_size, args.n_negative_samples, random)


def dropout_seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def evaluate_held_out(
    args: argparse.Namespace,
    ranks: Ranks,
    bilm: BiLM,
    held_out: dataset.EvalStream,
    progress: Progress,
    interruption: Interruption,
    save: Callable[[str], None],
) -> None:
    """Exact perplexity of the held-out text; the best model so far is kept as `best`. An interruption cuts it short.

    Every rank takes its share of the batches' rows. save: writes a checkpoint of that name.
    """
    mine = (batch.take(slice(ranks.rank, None, ranks.size)) for batch in held_out)

    def score_unless_interrupted() -> Score | None:
        found = evaluate(bilm, takewhile(lambda _: not interruption.is_wanted(), mine))
        return None if interruption.is_wanted() else found

    try:
        scores = ranks.on_each(score_unless_interrupted)
    except LostRank:
        raise
    except Exception:  # the held-out text has gone, for instance: the steps are not lost
        save(str(progress.step))
        raise
    if None in scores:
        return
    score = sum(scores, Score())
    if not math.isfinite(score.mean):
        raise UserError(f"step {progress.step:,}: the held-out perplexity is not finite. {ADVICE}")
    gain = progress.add_evaluation(score.mean)
    text = (
        f"step {progress.step:,}: held-out perplexity forward {score.forward:.2f}, backward {score.backward:.2f}, mean "
        f"{score.mean:.2f}{f' (the best is {progress.best:.2f})' * (not gain)}"
    )
    values = {"forward_perplexity": score.forward, "backward_perplexity": score.backward, "perplexity": score.mean}
    record(args, ranks, "evaluation", progress.step, text, values)
    if gain:
        summary = {"step": progress.step, "best": progress.best}
        ranks.on_first(lambda: folder.save(args.save_dir / "best", bilm, None, summary, args.keep))


def introduce(
    args: argparse.Namespace,
    ranks: Ranks,
    device: str,
    bilm: BiLM,
    corpus: Corpus,
    counts: Counts,
    progress: Progress,
) -> None:
    """Say what is about to run."""
    words, processes = bilm.config.vocab_size, ranks.size
    parts: dict[str, int] = {}
    for name, weight in bilm.named_parameters():
        part = name.split(".")[0].removeprefix("forward_").removeprefix("backward_")
        parts[part] = parts.get(part, 0) + weight.size
    unknown = counts.unknown_share
    steps_per_epoch = math.ceil(progress.tokens_per_epoch / progress.tokens_per_step)
    candidates = f"{args.n_negative_samples:,} candidates: the perplexities below are estimates"
    lines = (
        f"device        {device}, {processes} process{'es' * (processes > 1)}, products in "
        f"{'bfloat16, logits in ' * args.amp}{'TF32' if args.tf32 else 'float32'}",
        f"parameters    {sum(parts.values()):,}: {', '.join(f'{part} {size:,}' for part, size in parts.items())}",
        f"text          {counts.tokens:,} tokens in {counts.sentences:,} sentences, {len(corpus.paths)} files; "
        f"{unknown:.2%} outside the vocabulary of {words:,} words",
        f"steps         {steps_per_epoch:,} an epoch, {progress.total:,} in all, from step {progress.step:,}; "
        f"{progress.tokens_per_step:,} tokens each",
        f"softmax       {candidates if is_sampled(words, args.n_negative_samples) else f'over all {words:,} words'}",
    )
    values = {
        "device": device,
        "processes": processes,
        "parameters": parts,
        "tokens": counts.tokens,
        "sentences": counts.sentences,
        "unknown_share": unknown,
        "vocabulary": words,
        "steps_per_epoch": steps_per_epoch,
        "tokens_per_step": progress.tokens_per_step,
        "total": progress.total,
    }
    record(args, ranks, "start", progress.step, "\n".join(lines), values)


def report(
    args: argparse.Namespace, ranks: Ranks, meter: Meter, learning_rate: float, sampled: bool, progress: Progress
) -> None:
    """The log line of the steps since the last one."""
    forward, backward, seconds = meter.take(ranks)
    kind = "sampled_" if sampled else ""
    values = {
        "total": progress.total,
        "epoch": progress.epoch,
        "loss": (forward + backward) / 2,
        f"forward_{kind}perplexity": perplexity(forward),
        f"backward_{kind}perplexity": perplexity(backward),
        "learning_rate": learning_rate,
        "tokens_per_second": progress.tokens_per_step / seconds,
        "seconds_left": (progress.total - progress.step) * seconds,
        "memory_mb": memory_in_use() / 2**20,
    }
    text = (
        f"step {progress.step:,}/{progress.total:,}  epoch {values['epoch']:.2f}  loss {values['loss']:.4f}  "
        f"{kind.replace('_', ' ')}perplexity forward {perplexity(forward):.1f} backward {perplexity(backward):.1f}  "
        f"lr {learning_rate:.4g}  {values['tokens_per_second']:,.0f} tokens/s  "
        f"{messages.duration(values['seconds_left'])} left  {values['memory_mb']:,.0f} MB"
    )
    record(args, ranks, "training", progress.step, text, values)


def record(args: argparse.Namespace, ranks: Ranks, event: str, step: int, text: str, values: Mapping) -> None:
    """Tell the user, and log.jsonl."""
    log.info(text)
    if ranks.first:
        folder.append_log(args.save_dir, event, step, values)


if __name__ == "__main__":
    script.run(main)
