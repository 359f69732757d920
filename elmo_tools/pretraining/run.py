"""A pretraining run: the training loop, evaluation, checkpoints and log."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import takewhile
from pathlib import Path

import numpy as np

from elmo import BiLM
from elmo_core import messages
from elmo_core.machine.paddle_compat import to_array
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError, log
from elmo_core.network.softmax import Candidates, draw_candidates, is_sampled
from elmo_core.text.corpus import Corpus, Counts
from elmo_core.text.tokens import LMBatch
from elmo_core.text.vocabulary import Vocabulary
from elmo_core.training.optimizer import Adagrad, Adam
from elmo_core.training.ranks import Ranks
from elmo_core.weights import checkpoint
from elmo_tools.pretraining.interruption import Interruption
from elmo_tools.pretraining.meter import ADVICE, Meter, memory_in_use
from elmo_tools.pretraining.perplexity import evaluate, perplexity
from elmo_tools.pretraining.prefetch import prefetched
from elmo_tools.pretraining.progress import Progress, changed_settings
from elmo_tools.pretraining.run_folder import RunFolder
from elmo_tools.pretraining.schedule import Timer, learning_rate
from elmo_tools.pretraining.settings import LOG_FREQ, FixedSettings, PretrainingSettings
from elmo_tools.pretraining.streams import EvalStream, TrainStream

OPTIMIZERS = {"adagrad": Adagrad, "adam": Adam}
LOG_LINES = 20  # that a short run has by default
SAVE, EVALUATE, STOP = 1, 2, 4  # requests of ranks: STOP is more than the others together


@dataclass(frozen=True)
class Inputs:
    """The text of a run and its vocabulary. dev: held-out text, if any. counts: those of the corpus."""

    vocabulary: Vocabulary
    corpus: Corpus
    dev: Corpus | None
    counts: Counts


class Trainer:
    """Trains a biLM and saves it in settings.save_dir, whose lock the caller holds."""

    def __init__(self, settings: PretrainingSettings, ranks: Ranks, bilm: BiLM, inputs: Inputs):
        self.settings, self.ranks, self.bilm, self.weights = (
            settings,
            ranks,
            bilm,
            bilm.parameters(),
        )
        self.optimizer = OPTIMIZERS[settings.optimizer](
            bilm.named_parameters(), settings.lr, settings.max_grad_norm
        )
        rows, shape = (
            settings.batch_size * settings.accumulate,
            (settings.unroll_steps, bilm.config.input),
        )
        vocabulary, dev = inputs.vocabulary, inputs.dev
        self.stream = TrainStream(
            inputs.corpus,
            vocabulary,
            rows,
            *shape,
            settings.seed,
            ranks.rank,
            ranks.size,
            noise=settings.noise,
        )
        self.held_out = EvalStream(dev, vocabulary, settings.batch_size, *shape) if dev else None
        position, tokens_per_step = self.stream.position, self.stream.tokens_per_step
        states = [bilm.zero_state(settings.batch_size) for _ in range(settings.accumulate)]
        warmup = settings.warmup_steps * tokens_per_step
        self.progress = Progress(tokens_per_step, inputs.counts, position, states, warmup)
        self.fixed_settings = {**self.stream.settings, "dev_data": dev.identity if dev else None}
        self.fixed_settings |= {
            field.name: getattr(settings, field.name) for field in fields(FixedSettings)
        }
        self.folder = RunFolder(
            settings.save_dir, settings.keep, bilm.config, vocabulary, self.fixed_settings
        )
        self.interruption = Interruption()
        self.former_total: int | None = None  # steps that the resumed run was to have

    def restore(self, source: Path | None) -> None:
        """Resume from a checkpoint, if one is given, as far as the changed settings allow."""
        settings, progress = self.settings, self.progress
        if not source:
            progress.set_total(settings.max_steps, settings.epochs)
            return
        arrays, saved = checkpoint.load_training(source)
        before = checkpoint.load_config(source).get("training")
        if not isinstance(before, dict):
            path = source / checkpoint.CONFIG
            raise UserError(
                f"{path}: training is {before!r:.60}, expected the settings of a training."
            )
        changes = changed_settings(source, before, self.fixed_settings, settings.allow_changes)
        try:
            progress.restore(saved, changes, self.stream, self.ranks)
        except (ValueError, IndexError) as error:
            path = source / checkpoint.PROGRESS
            raise UserError(
                f"{path} is not of a run of this program: {error}. Resume from another one."
            ) from error
        if "optimizer" not in changes:
            self._restore_optimizer(arrays, source / checkpoint.OPTIMIZER)
        progress.set_total(settings.max_steps, settings.epochs)
        self.former_total = saved["total"]

    def _restore_optimizer(self, arrays: Mapping[str, np.ndarray], path: Path) -> None:
        """Restore the optimizer's state. arrays: may include those of the progress, whose names begin with a slash."""
        moments = {name: array for name, array in arrays.items() if not name.startswith("/")}
        shapes = {name: tuple(tensor.shape) for name, tensor in self.optimizer.state_dict().items()}
        checkpoint.check_shapes(shapes, moments, str(path))
        self.optimizer.set_state_dict(moments)

    def open_folder(self, source: Path | None) -> None:
        """Prepare the folder. The best model so far is forgotten if it is not there, as in a new folder."""
        progress = self.progress
        if self.settings.optimizer == "adam" and self.former_total not in (None, progress.total):
            log.warning(
                f"The learning rate reaches 0 at step {progress.total:,} instead of {self.former_total:,}."
            )
        if not self.ranks.run_on_main(
            lambda: self.folder.open(source, progress.step, progress.best_step)
        ):
            progress.forget_best()

    def train(self) -> bool:
        """Train until the last step, an interruption, or the end of patience; then save.

        Returns whether the run is complete, not interrupted.
        """
        settings, progress = self.settings, self.progress
        self.meter = Meter(progress.losses)
        self.saving, self.evaluating = (
            Timer(settings.save_freq, progress),
            Timer(settings.eval_freq, progress),
        )
        with self.interruption, prefetched(self._batches()) as batches:
            stopping = self.ranks.any(self.interruption.is_requested())
            if self._lacks_evaluation():  # it was interrupted
                stopping |= not self._repeat_evaluation()
            first = progress.step + 1
            while not progress.reached_end(settings.patience) and not stopping:
                request = self._step(*next(batches))
                self._log_training(is_first=progress.step == first)
                stopping = request >= STOP
                if request & EVALUATE or self._lacks_evaluation():
                    stopping |= not self._evaluate()
                if request & SAVE:
                    self._save()
            is_complete = progress.reached_end(settings.patience) and not self._lacks_evaluation()
            if is_complete or progress.step >= first:
                self._save(is_complete)
            return is_complete

    def _lacks_evaluation(self) -> bool:
        """Whether this step needs an evaluation, whatever the time, and has none."""
        progress, freq = self.progress, self.settings.eval_freq
        is_needed = progress.step >= progress.total or (
            freq and progress.step and progress.step % freq == 0
        )
        return bool(self.held_out and is_needed and progress.evaluated != progress.step)

    def _batches(self) -> Iterator[tuple[list[LMBatch], Candidates]]:
        """Yield each step's batches and softmax candidates, which all ranks share: their gradients cover the same rows."""
        rows = self.settings.batch_size
        for step, batch in enumerate(self.stream, self.progress.step + 1):
            random = np.random.default_rng([self.settings.seed, step, 0])
            batches = [
                batch.take(slice(start, start + rows))
                for start in range(0, len(batch.lengths), rows)
            ]
            yield (
                batches,
                draw_candidates(
                    self.bilm.config.vocab_size, self.settings.n_negative_samples, random
                ),
            )

    def _step(self, batches: list[LMBatch], candidates: Candidates) -> int:
        """Update the weights by the gradients of all batches. Returns the largest request of any rank."""
        settings, progress, losses = self.settings, self.progress, []
        progress.step, progress.tokens = (
            progress.step + 1,
            progress.tokens + progress.tokens_per_step,
        )
        seeds = np.random.SeedSequence([settings.seed, progress.step, self.ranks.rank])
        paddle.seed(int(seeds.generate_state(1)[0]))  # for dropout
        for k, batch in enumerate(batches):
            directions, progress.states[k] = self.bilm(
                batch, progress.states[k], candidates, settings.dropout
            )
            (sum(directions) / 2 * settings.unroll_steps / len(batches)).backward()
            losses.append([loss.detach() / len(batches) for loss in directions])
        self.meter.add(
            progress.step,
            [sum(direction) for direction in zip(*losses, strict=True)],
            batch.position,
        )
        request = self.ranks.average_gradients(self.weights, self._request())
        self.optimizer.lr = learning_rate(settings.optimizer, settings.lr, *progress.schedule)
        self.optimizer.step()
        self.optimizer.clear_grad()
        progress.position = batch.position
        return request

    def _request(self) -> int:
        """Decide what this rank asks all ranks to do after this step. Only rank 0 looks at the clock."""
        request = STOP if self.interruption.is_requested() else 0
        if self.ranks.is_main:
            request |= SAVE * self.saving.is_due()
            request |= EVALUATE * (self.held_out is not None and self.evaluating.is_due())
        return request

    def _save(self, is_final: bool = False) -> None:
        with self.meter.paused(), self.saving.measured():
            progress = self.progress.to_dict(self.ranks)
            tensors = self.bilm.state_dict(), self.optimizer.state_dict()
            state = [
                {name: to_array(tensor.detach()) for name, tensor in part.items()}
                for part in tensors
            ]
            self.ranks.run_on_main(lambda: self.folder.save(*state, progress, is_final, ADVICE))

    def _evaluate(self) -> bool:
        """Compute the exact held-out perplexity, each rank on its share of the rows, and save the best model so far.

        Returns whether it has come to its end: it stops if a rank is interrupted.
        """
        progress = self.progress
        batches = takewhile(lambda _: not self.interruption.is_requested(), self.held_out)
        with self.meter.paused(), self.evaluating.measured():
            score = evaluate(self.bilm, batches, self.ranks)
        if self.ranks.any(self.interruption.is_requested()):
            return False
        if not math.isfinite(score.mean):
            raise UserError(
                f"step {progress.step:,}: the held-out perplexity is not finite. {ADVICE}"
            )
        is_best = progress.add_evaluation(score.mean)
        best = "" if is_best else f" (the best is {progress.best:.2f})"
        text = f"forward {score.forward:.2f}, backward {score.backward:.2f}, mean {score.mean:.2f}{best}"
        values = {
            "forward_perplexity": score.forward,
            "backward_perplexity": score.backward,
            "perplexity": score.mean,
        }
        self.log("evaluation", f"step {progress.step:,}: held-out perplexity {text}", values)
        if is_best:
            self._save()
        return True

    def _repeat_evaluation(self) -> bool:
        """Evaluate the model that the run resumes from, and save it again, since it depends on it which is the best.

        Returns whether the evaluation has come to its end.
        """
        self.folder.outdated.append(self.progress.step)
        is_done = self._evaluate()
        if is_done:
            self._save()
        return is_done

    def _log_training(self, is_first: bool) -> None:
        """Log the averages since the last line, if a line is due, or the loss of the first step and how long it took."""
        progress = self.progress
        freq = self.settings.log_freq or min(LOG_FREQ, max(1, progress.total // LOG_LINES))
        if progress.step % freq and progress.step != progress.total:
            if is_first:  # the first averages may take minutes
                seconds = self.meter.seconds_per_step()
                result = (
                    f"step {progress.step:,} took {seconds:.1f} s, loss {self.meter.last_loss:.4f}"
                )
                log.info(f"{result}. Steps between log lines: {freq:,}.")
            return
        forward, backward, seconds = self.meter.pop_means(self.ranks)
        sampled = "sampled_" * is_sampled(
            self.bilm.config.vocab_size, self.settings.n_negative_samples
        )
        values = {
            "total": progress.total,
            "epoch": progress.epoch,
            "loss": (forward + backward) / 2,
            f"forward_{sampled}perplexity": perplexity(forward),
            f"backward_{sampled}perplexity": perplexity(backward),
            "learning_rate": self.optimizer.lr,
            "tokens_per_second": progress.tokens_per_step / seconds,
            "seconds_left": (progress.total - progress.step) * seconds,
            "memory_mb": memory_in_use() / 2**20,
        }
        text = (
            f"step {progress.step:,}/{progress.total:,}  epoch {progress.epoch:.2f}  loss {values['loss']:.4f}  "
            f"{sampled.replace('_', ' ')}perplexity forward {perplexity(forward):.1f} backward {perplexity(backward):.1f}  "
            f"lr {self.optimizer.lr:.4g}  {values['tokens_per_second']:,.0f} tokens/s  "
            f"{messages.format_duration(values['seconds_left'])} left  {values['memory_mb']:,.0f} MB"
        )
        self.log("training", text, values)

    def log(self, event: str, text: str, values: Mapping) -> None:
        """Log text, and append the values to log.jsonl."""
        log.info(text)
        if self.ranks.is_main:
            self.folder.append_log(event, self.progress.step, values)
