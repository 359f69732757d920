"""Pretrain ELMo: a bidirectional language model on your own text.

    python run_pretrain.py --train_data_path='corpus/train/*' --vocab_file=corpus/vocab.txt --save_dir=checkpoints
    python -m paddle.distributed.launch --gpus '0,1' run_pretrain.py ...                            (several GPUs)
    python -m paddle.distributed.launch --nproc_per_node 2 --backend gloo run_pretrain.py ...       (several CPU processes)

Go on after an interruption with --init_from_ckpt=checkpoints; on other text with --finetune_from=checkpoints.
"""

import argparse
import math
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path

import numpy as np

import args as arguments
import dataset
import elmo
from elmo_core import checkpoint, runtime
from elmo_core.ranks import Ranks
from elmo_core.runtime import UserError, log, paddle
from elmo_core.softmax import Candidates, draw_candidates, is_sampled
from elmo_core.tokens import LMBatch
from pretraining import start
from pretraining.adagrad import Adagrad
from pretraining.folder import RunFolder
from pretraining.meter import ADVICE, Meter
from pretraining.perplexity import Score, evaluate, perplexity


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
    run.add_argument("--amp", action="store_true", help="mixed precision on GPUs: products in bfloat16")
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
        "--pretrained_word_embeddings", type=Path, metavar="FILE", help="word2vec vectors for a new word table"
    )
    arguments.add_optimizer(parser)
    arguments.add_model(parser)
    args = parser.parse_args(argv)
    args.lr = args.lr or {"adagrad": 0.2, "adam": 0.001}[args.optimizer]
    if args.patience and not args.dev_data_path:
        parser.error("--patience counts evaluations: it needs --dev_data_path")
    return args


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    device = runtime.set_device(args.device)
    runtime.use_half_products(args.amp)
    ranks = Ranks(advice="Go on with --init_from_ckpt.")
    if not ranks.first:
        log.setLevel("WARNING")
    run = Pretraining(args, ranks)
    if run.is_over():
        log.info(f"{run.source} is the end of its run, step {run.step:,} of {run.total:,}: nothing is left to do.")
        log.info("To train on, raise --epochs or --max_steps (or --patience).")
        return
    lock = ranks.on_first(run.folder.lock)
    try:
        run.open_folder()
        run.introduce(device)
        run.train()
    finally:
        if ranks.first:
            os.close(lock)


class Pretraining:
    """A run: the model and its optimizer, the text and where in it the run is, the step, and the best score so far.

    What is random in a step follows from the seed, the step and the rank: no random state needs to be saved.
    """

    def __init__(self, args: argparse.Namespace, ranks: Ranks):
        self.args, self.ranks = args, ranks
        self.corpus = dataset.Corpus(args.train_data_path)
        self.dev = dataset.Corpus(args.dev_data_path) if args.dev_data_path else None
        self._check_folder()
        source = args.init_from_ckpt or args.finetune_from
        self.source = checkpoint.resolve(source) if source else None
        runtime.seed_everything(args.seed)
        self.bilm, self.vocabulary = start.model(args, self.source)
        self.weights = self.bilm.parameters()
        ranks.share_weights(self.weights)
        self.state = self.bilm.zero_state(args.batch_size)
        self.optimizer, self.meter = self._optimizer(), Meter()
        self.stream = dataset.TrainStream(
            self.corpus,
            self.vocabulary,
            args.batch_size,
            args.unroll_steps,
            input=self.bilm.config.input,
            seed=args.seed,
            rank=ranks.rank,
            world_size=ranks.size,
        )
        self.position = self.stream.position
        self.counts = ranks.on_first(self._count)
        self.steps_per_epoch = self.stream.steps_per_epoch(self.counts)
        self.total = args.max_steps or args.epochs * self.steps_per_epoch
        self.step = self.saved = self.evaluated = self.without_gain = 0
        self.best = math.inf
        if args.init_from_ckpt:
            self._resume()
        self.folder = ranks.on_first(
            lambda: RunFolder(args.save_dir, self.source, self.step if args.init_from_ckpt else None, args.overwrite)
        )

    # How it begins

    def _check_folder(self) -> None:
        """Refuse checkpoints among the text: the next run would read them."""
        folders = {path.parent.resolve() for corpus in (self.corpus, self.dev) if corpus for path in corpus.paths}
        if self.args.save_dir.resolve() in folders:
            raise UserError(
                f"--save_dir {self.args.save_dir} is the text's own folder. Choose one that is not read as text."
            )

    def _count(self) -> dataset.Counts:
        """What the text holds. Faults of the held-out text, too, are found before anything is trained."""
        if self.dev:
            self.dev.count(self.vocabulary)
        return self.corpus.count(self.vocabulary)

    def _optimizer(self):
        rate, bound = self.args.lr, self.args.max_grad_norm
        if self.args.optimizer == "adagrad":
            return Adagrad(rate, self.weights, bound)
        clip = paddle.nn.ClipGradByGlobalNorm(bound)
        return paddle.optimizer.Adam(rate, parameters=self.weights, grad_clip=clip, lazy_mode=True)

    def _resume(self) -> None:
        """Take up a run where its checkpoint left it."""
        moments, progress = checkpoint.load_optimizer(self.source), checkpoint.load_progress(self.source)
        changes = self._changes(progress["settings"])
        same_ranks = len(progress["ranks"]) == self.ranks.size
        mine = progress["ranks"][self.ranks.rank if same_ranks else 0]
        self.step = self.saved = progress["step"]
        if "dev_data" not in changes:
            self.evaluated, self.best, self.without_gain = (progress[k] for k in ("evaluated", "best", "without_gain"))
        if "optimizer" not in changes:
            set_optimizer_state(self.optimizer, self.bilm, moments)
        if self.args.optimizer == "adam" and progress["total"] != self.total:
            log.warning(f"The rate falls to 0 at step {self.total:,} instead of {progress['total']:,}.")
        self.stream.seek(mine["position"], strict=False)
        self.position = self.stream.position
        if np.array_equal(self.position["rows"], mine["position"]["rows"]):  # the sentences that the states belong to
            self.state = as_tensors(mine["state"])
        if same_ranks:
            self.meter.sums[:] = mine["losses"]

    def _changes(self, saved: dict) -> list[str]:
        """The settings that differ from those of the checkpoint, which the user must have allowed."""
        settings = self._settings()
        changes = [name for name, value in settings.items() if saved.get(name) != value]
        listed = "; ".join(f"{name} was {saved.get(name)}, is {settings[name]}" for name in changes)
        if changes and not self.args.allow_changes:
            raise UserError(
                f"{self.source} was made with other settings: {listed}. Give the same, or --allow_changes to go on with "
                "what is well defined."
            )
        if changes:
            log.warning(f"Going on although {listed}.")
        return changes

    def _settings(self) -> dict:
        """What must be the same for a resumed run to be the same run."""
        names = ("optimizer", "lr", "warmup_steps", "max_grad_norm", "dropout", "n_negative_samples", "amp")
        data = {name: value for name, value in self.position["identity"].items() if name != "rank"}
        dev = self.dev.identity if self.dev else None
        return {**data, "dev_data": dev, **{name: getattr(self.args, name) for name in names}}

    def open_folder(self) -> None:
        config = {"model": self.bilm.config.to_dict(), "training": self._settings()}
        if not self.ranks.on_first(lambda: self.folder.open(config, self.vocabulary)):
            self.best, self.without_gain = math.inf, 0

    def introduce(self, device: str) -> None:
        """Say what is about to run."""
        args, words, counts, ranks = self.args, len(self.vocabulary), self.counts, self.ranks.size
        parts: dict[str, int] = {}
        for name, weight in self.bilm.named_parameters():
            part = name.split(".")[0].removeprefix("forward_").removeprefix("backward_")
            parts[part] = parts.get(part, 0) + weight.size
        sizes = ", ".join(f"{part} {size:,}" for part, size in parts.items())
        unknown = counts.unknown / max(1, counts.tokens)
        tokens = args.batch_size * args.unroll_steps * ranks
        candidates = f"{args.n_negative_samples:,} candidates: the perplexities below are estimates"
        lines = (
            f"device        {device}, {ranks} process{'es' * (ranks > 1)}",
            f"parameters    {sum(parts.values()):,}: {sizes}",
            f"text          {counts.tokens:,} tokens in {counts.sentences:,} sentences, {len(self.corpus.paths)} files; "
            f"{unknown:.2%} outside the vocabulary of {words:,} words",
            f"steps         {self.steps_per_epoch:,} an epoch, {self.total:,} in all, from step {self.step:,}; "
            f"{tokens:,} tokens each",
            f"softmax       {candidates if self._is_sampled() else f'over all {words:,} words'}",
        )
        values = {
            "device": device,
            "processes": ranks,
            "parameters": parts,
            "tokens": counts.tokens,
            "sentences": counts.sentences,
            "unknown_share": unknown,
            "vocabulary": words,
            "steps_per_epoch": self.steps_per_epoch,
            "tokens_per_step": tokens,
            "total": self.total,
        }
        self._say("start", "\n".join(lines), values)

    def is_over(self) -> bool:
        """Whether the run goes on from its own end."""
        return bool(self.args.init_from_ckpt) and self.source.name == "final" and self._is_finished()

    # The loop

    def train(self) -> None:
        """Step after step, each followed by what is due at it."""
        args = self.args
        with Interruption() as interruption, dataset.Prefetcher(self._batches()) as batches:
            self.meter.start()
            while True:
                stopped = self._evaluation_is_due() and not self.evaluate(interruption)
                if self._is_finished():
                    break
                if stopped or self._is_interrupted(interruption):
                    self.save(str(self.step))
                    interruption.end_run(self.folder.path / str(self.step))
                if self.step % args.save_freq == 0 and self.step != self.saved:
                    self.save(str(self.step))

                batch, candidates = next(batches)
                self.step += 1
                paddle.seed(self._seed())
                losses, self.state = self.bilm(batch, self.state, candidates, args.dropout)
                self.meter.add(self.step, losses, batch.position)
                (sum(losses) / 2 * args.unroll_steps).backward()
                self.ranks.average_gradients(self.weights)
                self.optimizer.set_lr(self.learning_rate())
                self.optimizer.step()
                self.optimizer.clear_grad()
                self.position = batch.position
                if self.step % args.log_freq == 0 or self.step == self.total:
                    self.report()
        if self.step < self.total:
            log.info(f"step {self.step:,}: {self.without_gain} evaluations without gain, the best was {self.best:.2f}")
        self.save("final")
        log.info(f"saved         {self.folder.path / 'final'}.pdparams")
        if args.plot and self.ranks.first:
            log.info(f"drew          {self.folder.plot()}")

    def _batches(self) -> Iterator[tuple[LMBatch, Candidates]]:
        """The stream's batches with the candidates of their steps, all prepared in another thread."""
        for step, batch in enumerate(self.stream, self.step + 1):
            random = np.random.default_rng([self.args.seed, step, self.ranks.rank])
            yield batch, draw_candidates(len(self.vocabulary), self.args.n_negative_samples, random)

    def _seed(self) -> int:
        """Of this step's dropout."""
        return int(np.random.SeedSequence([self.args.seed, self.step, self.ranks.rank]).generate_state(1)[0])

    def learning_rate(self) -> float:
        """Adagrad's is constant; Adam's rises over the warm-up and then falls to 0 at the end."""
        if self.args.optimizer == "adagrad":
            return self.args.lr
        warmup = min(self.args.warmup_steps, self.total // 2)
        if self.step <= warmup:
            return self.args.lr * self.step / warmup
        return self.args.lr * (self.total - self.step + 1) / (self.total - warmup + 1)

    def _is_finished(self) -> bool:
        out_of_patience = bool(self.args.patience) and self.without_gain >= self.args.patience
        return (self.step >= self.total or out_of_patience) and not self._evaluation_is_due()

    def _is_interrupted(self, interruption: "Interruption") -> bool:
        """Whether the run is to end here, on which all ranks agree; on GPUs, which would wait, every tenth step."""
        if self.ranks.size > 1 and self.step % 10 and paddle.get_device() != "cpu":
            return False
        return self.ranks.any(interruption.is_wanted())

    def _evaluation_is_due(self) -> bool:
        due = self.step % self.args.eval_freq == 0 or self.step >= self.total
        return self.dev is not None and due and self.evaluated != self.step

    # Now and then

    def report(self) -> None:
        """The progress line."""
        forward, backward, seconds = self.meter.take(self.ranks)
        kind = "sampled_" if self._is_sampled() else ""
        values = {
            "total": self.total,
            "epoch": self.step / self.steps_per_epoch,
            "loss": (forward + backward) / 2,
            f"forward_{kind}perplexity": perplexity(forward),
            f"backward_{kind}perplexity": perplexity(backward),
            "learning_rate": self.optimizer.get_lr(),
            "tokens_per_second": self.args.batch_size * self.args.unroll_steps * self.ranks.size / seconds,
            "seconds_left": (self.total - self.step) * seconds,
            "memory_mb": runtime.memory_in_use() / 2**20,
        }
        self._say(
            "training",
            f"step {self.step:,}/{self.total:,}  epoch {values['epoch']:.2f}  loss {values['loss']:.4f}  "
            f"{kind.replace('_', ' ')}perplexity forward {perplexity(forward):.1f} backward {perplexity(backward):.1f}  "
            f"lr {values['learning_rate']:.4g}  {values['tokens_per_second']:,.0f} tokens/s  "
            f"{runtime.duration(values['seconds_left'])} left  {values['memory_mb']:,.0f} MB",
            values,
        )

    def evaluate(self, interruption: "Interruption") -> bool:
        """Exact perplexity of the held-out text; the best model so far is kept as `best`. False if it was cut short."""
        self.meter.check()
        with self.meter.paused():
            score = self.ranks.on_first(lambda: self._score(interruption))
            if score is None:
                return False
            if not math.isfinite(score.mean):
                raise UserError(f"step {self.step:,}: the held-out perplexity is not finite. {ADVICE}")
            self.evaluated = self.step
            gain = score.mean < self.best
            self.best, self.without_gain = (score.mean, 0) if gain else (self.best, self.without_gain + 1)
            self._say(
                "evaluation",
                f"step {self.step:,}: held-out perplexity forward {score.forward:.2f}, backward {score.backward:.2f}, mean "
                f"{score.mean:.2f}{f' (the best is {self.best:.2f})' * (not gain)}",
                {"forward_perplexity": score.forward, "backward_perplexity": score.backward, "perplexity": score.mean},
            )
            if gain:
                progress = {"step": self.step, "best": self.best}
                self.ranks.on_first(lambda: self.folder.save("best", self._weights(), None, progress, self.args.keep))
        return True

    def _score(self, interruption: "Interruption") -> Score | None:
        args = self.args
        stream = dataset.EvalStream(
            self.dev, self.vocabulary, args.batch_size, args.unroll_steps, self.bilm.config.input
        )
        score = evaluate(self.bilm, takewhile(lambda _: not interruption.is_wanted(), stream))
        return None if interruption.is_wanted() else score

    def save(self, name: str) -> None:
        """Write everything that a resumed run needs."""
        self.meter.check()
        with self.meter.paused():
            mine = {"position": self.position, "state": as_arrays(self.state), "losses": self.meter.sums}
            progress = {
                "step": self.step,
                "total": self.total,
                "evaluated": self.evaluated,
                "best": self.best,
                "without_gain": self.without_gain,
                "settings": self._settings(),
                "ranks": self.ranks.gather(mine),
            }
            self.ranks.on_first(lambda: self._write(name, progress))
        self.saved = self.step

    def _write(self, name: str, progress: dict) -> None:
        moments = optimizer_state(self.optimizer, self.bilm)
        self.folder.save(name, self._weights(), moments, progress, self.args.keep)

    def _weights(self) -> dict[str, np.ndarray]:
        return {name: weight.numpy() for name, weight in self.bilm.state_dict().items()}

    def _is_sampled(self) -> bool:
        return is_sampled(len(self.vocabulary), self.args.n_negative_samples)

    def _say(self, event: str, text: str, values: dict) -> None:
        """Tell the user, and log.jsonl."""
        if self.ranks.first:
            log.info(text)
            self.folder.log(event, self.step, values)


class Interruption:
    """Ctrl-C, SIGTERM or the end of the launcher: the run ends after its step. A second Ctrl-C ends it at once."""

    def __init__(self):
        self.signal: int | None = None
        self.launcher = os.getppid() if "PADDLE_TRAINER_ID" in os.environ else None

    def __enter__(self) -> "Interruption":
        self.before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: object) -> None:
        if self.signal is None:
            os.write(2, b"finishing this step, then saving (Ctrl-C again: stop at once, without saving)\n")
        elif number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number

    def is_wanted(self) -> bool:
        """Whether the run is to end. A launcher that is killed leaves its ranks behind, with another parent."""
        return self.signal is not None or self.launcher not in (None, os.getppid())

    def end_run(self, prefix: Path) -> None:
        """Leave the program, as after the signal, but say how to go on."""
        log.info(f"stopped at step {prefix.name}, saved as {prefix}. Go on with the same command and")
        log.info(f"    --init_from_ckpt={prefix}")
        sys.exit(128 + (self.signal or signal.SIGTERM))


def as_arrays(state: elmo.BiLMState) -> list:
    return [[[part.numpy() for part in one] for one in pair] for pair in state]


def as_tensors(state: list) -> elmo.BiLMState:
    return [[tuple(paddle.to_tensor(part) for part in one) for one in pair] for pair in state]


def optimizer_state(optimizer, bilm: elmo.BiLM) -> dict[str, np.ndarray]:
    """The optimizer's arrays under the names that the checkpoint gives the weights, not Paddle's running numbers."""
    keys = {weight.name: name for name, weight in bilm.named_parameters()}
    state = {}
    for name, value in optimizer.state_dict().items():
        owner = max((own for own in keys if name.startswith(own + "_")), key=len, default=None)
        if owner is not None:
            state[keys[owner] + name.removeprefix(owner)] = value.numpy()
    return state


def set_optimizer_state(optimizer, bilm: elmo.BiLM, state: dict[str, np.ndarray]) -> None:
    """Give the optimizer the arrays that `optimizer_state` has found."""
    names = {name: weight.name for name, weight in bilm.named_parameters()}
    given = {}
    for key, value in state.items():
        owner = max((own for own in names if key.startswith(own + "_")), key=len)
        given[names[owner] + key.removeprefix(owner)] = paddle.to_tensor(value)
    optimizer.set_state_dict(given)


if __name__ == "__main__":
    runtime.script(main)
