"""Pretrain ELMo: a bidirectional language model on your own text.

    python run_pretrain.py --train_data_path='corpus/train/*' --vocab_file=corpus/vocab.txt --save_dir=checkpoints
    python -m paddle.distributed.launch --gpus '0,1' run_pretrain.py ...                            (several GPUs)
    python -m paddle.distributed.launch --nproc_per_node 2 --backend gloo run_pretrain.py ...       (several CPU processes)

Resume after an interruption with --init_from_ckpt=checkpoints; train on other text with --finetune_from=checkpoints.
"""

import argparse
import math
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import args as arguments
import script
from elmo import BiLM
from elmo_core.checks import import_optional
from elmo_core.config import PRESETS, ELMoConfig, differences
from elmo_core.files import disk
from elmo_core.machine import products, runtime, versions
from elmo_core.machine.ranks import Ranks
from elmo_core.messages import UserError, format_count, log
from elmo_core.network.matmul import chosen_precision
from elmo_core.network.softmax import is_sampled
from elmo_core.text.corpus import Corpus, Counts
from elmo_core.text.tokens import Vocabulary
from elmo_core.weights import checkpoint, model_files
from pretraining import run_folder
from pretraining.model import check_vocabulary, initialise_from_vectors, load_model
from pretraining.run import FixedSettings, PretrainingSettings, Trainer


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    data = parser.add_argument_group("data")
    data.add_argument("--train_data_path", required=True, metavar="PATH", help="text: file, folder, or glob in quotes")
    arguments.add(data, "dev_data_path", "vocab_file", "batch_size", "unroll_steps")
    arguments.add_settings(data, PretrainingSettings, "noise")
    run = parser.add_argument_group("run")
    arguments.add(run, "device", "tf32", "seed")
    names = ("epochs", "max_steps", "log_freq", "eval_freq", "patience", "accumulate")
    arguments.add_settings(run, PretrainingSettings, *names)
    run.add_argument("--plot", action="store_true", help="plot the perplexities into loss.png at the end")
    run.add_argument("--visualdl", **arguments.DIR, help="also write the numbers of log.jsonl there, for VisualDL")
    arguments.add_settings(run, FixedSettings, "precision")
    files = parser.add_argument_group("checkpoints")
    files.add_argument("--save_dir", **arguments.DIR, default=Path("checkpoints"), help="folder of the checkpoints")
    arguments.add_settings(files, PretrainingSettings, "save_freq", "keep")
    files.add_argument("--overwrite", action="store_true", help="delete an earlier run's checkpoints there")
    begin = parser.add_argument_group("start", "from random weights, or from a checkpoint: prefix, file or folder")
    source = begin.add_mutually_exclusive_group()
    source.add_argument("--init_from_ckpt", metavar="CKPT", help="resume exactly from this checkpoint")
    source.add_argument("--finetune_from", metavar="CKPT", help="start from this checkpoint's weights, on other text")
    arguments.add_settings(begin, PretrainingSettings, "allow_changes")
    begin.add_argument(
        "--pretrained_word_embeddings", **arguments.FILE, help="word2vec vectors for the word embeddings"
    )
    arguments.add_settings(parser.add_argument_group("optimizer"), FixedSettings, omit=["precision"])
    arguments.add_model(parser)
    args = parser.parse_args(argv)
    if args.patience and not args.dev_data_path:
        parser.error("--patience counts evaluations, which need --dev_data_path")
    return args


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    visualdl = import_optional("visualdl", "--visualdl") if args.visualdl else None
    device = runtime.set_device(args.device, args.tf32)
    args.precision = chosen_precision(args.precision, device)
    products.use(args.precision)
    ranks = Ranks(advice="Resume with --init_from_ckpt.")
    if not ranks.is_main:
        log.setLevel("WARNING")
    corpus, dev, source = open_inputs(args)
    resumed = source if args.init_from_ckpt else None
    step = checkpoint.step_of(resumed) if resumed else 0
    ranks.run_on_main(lambda: run_folder.check_folder(args.save_dir, resumed, step, args.overwrite))

    runtime.paddle.seed(args.seed)
    bilm, vocabulary = initial_model(args, ranks, source, step)
    if args.noise and not bilm.config.reads_characters:
        raise UserError(f"--noise changes characters, which a model with --input={bilm.config.input} does not read.")
    ranks.run_on_all(lambda: corpus.identity)  # reads all text, which takes minutes if there is much of it
    counts = ranks.run_on_main(lambda: count(corpus, dev, vocabulary, resumed))
    settings = PretrainingSettings(**arguments.options(PretrainingSettings, args))
    trainer = Trainer(settings, ranks, bilm, vocabulary, corpus, dev, counts)
    settings = trainer.settings
    check_ranks(ranks, {**trainer.fixed_settings, **asdict(settings), "save_dir": None})
    trainer.restore(resumed)
    progress = trainer.progress
    is_complete = resumed and resumed.name == "final" and progress.is_complete(settings.patience, settings.eval_freq)
    if is_complete or progress.step > progress.total:
        log.info(f"{resumed} is at step {progress.step:,} of {progress.total:,}: nothing is left to do.")
        log.info("To train on, raise --epochs or --max_steps (or --patience).")
        return
    with ExitStack() as stack:
        ranks.run_on_main(lambda: stack.enter_context(disk.locked(args.save_dir / ".lock")))
        config = {"model": bilm.config.to_dict(), "training": trainer.fixed_settings}
        opened = (args.save_dir, resumed, progress.step, config, vocabulary)
        if not ranks.run_on_main(lambda: run_folder.open_folder(*opened)):
            progress.best, progress.evaluations_without_improvement = math.inf, 0
        if visualdl and ranks.is_main:
            trainer.curves = stack.enter_context(visualdl.LogWriter(str(args.visualdl)))
        log_summary(args, trainer, device, len(corpus.paths))
        log_end(args, trainer, is_complete=trainer.train())


def open_inputs(args: argparse.Namespace) -> tuple[Corpus, Corpus | None, Path | None]:
    """Open the text, the held-out text, and the checkpoint that the run starts from."""
    corpus = Corpus(args.train_data_path)
    dev = Corpus(args.dev_data_path) if args.dev_data_path else None
    source = args.init_from_ckpt or args.finetune_from
    source = model_files.resolve(source) if source else None
    input_paths = [*corpus.paths, *(dev.paths if dev else ()), *([source] if args.finetune_from else ())]
    if args.save_dir.resolve() in {path.parent.resolve() for path in input_paths}:
        raise UserError(f"--save_dir {args.save_dir} is a folder that this run reads from. Choose another.")
    return corpus, dev, source


def initial_model(args: argparse.Namespace, ranks: Ranks, source: Path | None, step: int) -> tuple[BiLM, Vocabulary]:
    """Build the model, from checkpoint source if given, with the same weights on all ranks."""
    if not ranks.is_main:
        args.pretrained_word_embeddings = None  # rank 0's weights are copied to all
    models = []  # filled as a side effect: run_on_all sends results between ranks, and a model cannot be sent
    ranks.run_on_all(lambda: models.append(build_model(args, source)))
    bilm, vocabulary = models[0]
    check_ranks(ranks, {**bilm.config.to_dict(), "vocabulary": vocabulary.identity, "step": step})
    ranks.broadcast_weights(bilm.parameters())
    return bilm, vocabulary


def build_model(args: argparse.Namespace, source: Path | None) -> tuple[BiLM, Vocabulary]:
    """Build a new model, or load that of a checkpoint."""
    given_vocabulary = Vocabulary.from_file(args.vocab_file) if args.vocab_file else None
    size, changes = args.model_size, arguments.model_changes(args)
    if source is None:
        if given_vocabulary is None:
            raise UserError("--vocab_file is missing. `preprocess.py vocab` makes one from a corpus.")
        config = ELMoConfig.preset(size or arguments.MODEL_SIZE, vocab_size=len(given_vocabulary), **changes)
        if ignored := [f"--{name}" for name in changes if not config.reads(name)]:
            log.warning(f"--input={config.input} does not read {' '.join(ignored)}.")
        bilm = BiLM(config)
        if args.pretrained_word_embeddings:
            initialise_from_vectors(bilm, given_vocabulary, args.pretrained_word_embeddings)
        return bilm, given_vocabulary
    if args.pretrained_word_embeddings:
        log.warning(f"--pretrained_word_embeddings is not read: {source} has its own vectors.")
    expected = {**(PRESETS[size] if size else {}), **changes}
    bilm, vocabulary = load_model(source, expected, given_vocabulary if args.finetune_from else None)
    if given_vocabulary:
        check_vocabulary(args.vocab_file, given_vocabulary, source, vocabulary)
    return bilm, vocabulary


def count(corpus: Corpus, dev: Corpus | None, vocabulary: Vocabulary, resumed: Path | None) -> Counts:
    """Count the corpus, unless the checkpoint has its counts, and check the held-out text."""
    if dev:
        dev.count(vocabulary)
    saved = checkpoint.load_progress(resumed) if resumed else {}
    settings = saved.get("settings", {})  # `best` has none
    is_same = (settings.get("corpus"), settings.get("vocabulary")) == (corpus.identity, vocabulary.identity)
    return Counts(**saved["counts"]) if is_same else corpus.count(vocabulary, sample=True)


def check_ranks(ranks: Ranks, settings: dict) -> None:
    """Raise if a rank's settings differ from rank 0's."""
    expected, *others = ranks.gather(settings)
    for rank, other in enumerate(others, 1):
        if different := differences(expected, other):
            raise UserError(
                f"rank {rank} differs from rank 0: {'; '.join(different.values())}. Give them the same command and files."
            )


def log_summary(args: argparse.Namespace, trainer: Trainer, device: str, n_files: int) -> None:
    progress, processes, words = trainer.progress, trainer.ranks.size, trainer.bilm.config.vocab_size
    counts, rows = progress.counts, progress.tokens_per_step // args.unroll_steps
    if counts.sentences < rows:
        log.warning(
            f"The corpus has {format_count(counts.sentences, 'sentences')} for {rows:,} rows: several read the same "
            "sentences at a time. Put one sentence on each line, as `preprocess.py text` does, or lower --batch_size."
        )
    parts: dict[str, int] = {}
    for name, weight in trainer.bilm.named_parameters():
        part = name.split(".")[0].removeprefix("forward_").removeprefix("backward_")
        parts[part] = parts.get(part, 0) + weight.size
    steps_per_epoch = math.ceil(counts.predictions / progress.tokens_per_step)
    candidates = f"{args.n_negative_samples:,} candidates: the perplexities below are estimates"
    products_in = "TF32" if versions.tf32_allowed(runtime.paddle) else "float32"
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
    values |= {"tokens": counts.tokens, "sentences": counts.sentences, "unknown_share": counts.unknown_share}
    values |= {"steps_per_epoch": steps_per_epoch, "tokens_per_step": progress.tokens_per_step, "total": progress.total}
    trainer.log("start", "\n".join(lines), values)


def log_end(args: argparse.Namespace, trainer: Trainer, is_complete: bool) -> None:
    """Log where the model is; exit if the run was interrupted."""
    progress = trainer.progress
    if not is_complete:
        prefix = args.save_dir / str(progress.step)
        log.info(f"stopped at step {prefix.name}, saved as {prefix}. Resume with the same command plus")
        log.info(f"    --init_from_ckpt={prefix}{' instead of --finetune_from' if args.finetune_from else ''}")
        sys.exit(trainer.interruption.exit_code)
    if progress.step < progress.total:
        evaluations = f"{format_count(progress.evaluations_without_improvement, 'evaluations')} without improvement"
        log.info(f"step {progress.step:,}: {evaluations}; best perplexity {progress.best:.2f}")
    log.info(f"saved         {args.save_dir / 'final'}.pdparams")
    if args.plot and trainer.ranks.is_main:
        log.info(f"plotted       {run_folder.plot(args.save_dir)}")


if __name__ == "__main__":
    script.run(main)
