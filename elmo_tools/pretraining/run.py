"""A pretraining run: the training loop, evaluation, checkpoints and log."""

import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from elmo import BiLM
from elmo_core import messages
from elmo_core.encoding.encoder import mean_start_state
from elmo_core.machine.paddle_compat import to_array
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError, log
from elmo_core.network.softmax import Candidates, draw_candidates, is_sampled
from elmo_core.text.corpus import Corpus, Counts
from elmo_core.text.lexicon import LMBatch
from elmo_core.text.vocabulary import Vocabulary
from elmo_core.training.optimizer import Adagrad, Adam
from elmo_core.training.ranks import Ranks
from elmo_core.weights import checkpoint
from elmo_tools.pretraining.baseline import Baseline, measure_baseline
from elmo_tools.pretraining.expectation import Expectation, Training, expected_perplexity
from elmo_tools.pretraining.forecast import (
    Forecast,
    Plan,
    Trial,
    memory_forecast,
    seconds_of_evaluation,
)
from elmo_tools.pretraining.interruption import Interruption
from elmo_tools.pretraining.meter import ADVICE, Meter, memory_in_use
from elmo_tools.pretraining.perplexity import Score, evaluate, perplexity
from elmo_tools.pretraining.prefetch import prefetched
from elmo_tools.pretraining.progress import Progress, changed_settings
from elmo_tools.pretraining.run_folder import RunFolder
from elmo_tools.pretraining.schedule import Timer, learning_rate
from elmo_tools.pretraining.settings import LOG_FREQ, PretrainingSettings
from elmo_tools.pretraining.spelling import Spelling
from elmo_tools.pretraining.streams import EvalStream, TrainStream
from elmo_tools.pretraining.verdict import verdict
from elmo_tools.pretraining.visualdl_log import VisualDLLog

OPTIMIZERS = {"adagrad": Adagrad, "adam": Adam}
LOG_LINES = 20  # that a short run has by default
BASELINE_TOKENS = 1_000_000  # that n-grams count, at most about so many
# requests of ranks, which add up: STOP is more than the others together
SAVE = 1
EVALUATE = 2
FORECAST = 4
STOP = 8


@dataclass(frozen=True)
class Inputs:
    """The text of a run and its vocabulary.

    dev: held-out text, if any. counts, dev_counts: of the corpus and of the held-out text.
    """

    vocabulary: Vocabulary
    corpus: Corpus
    dev: Corpus | None
    counts: Counts
    dev_counts: Counts | None


class Trainer:
    """Trains a biLM and saves it in a folder, whose lock the caller holds.

    show: called with the values of each line of log.jsonl; True: a bar, in a terminal or notebook
    where the log is not shown, with forecast and verdict above it; False: neither.
    """

    def __init__(
        self,
        settings: PretrainingSettings,
        save_dir: Path,
        ranks: Ranks,
        bilm: BiLM,
        inputs: Inputs,
        show: messages.Progress | bool = False,
    ):
        self.settings = settings
        self.show = show
        self.ranks = ranks
        self.bilm = bilm
        self.inputs = inputs
        self.weights = bilm.parameters()
        self.optimizer = OPTIMIZERS[settings.optimizer](
            bilm.named_parameters(), settings.learning_rate, settings.max_grad_norm
        )
        self.stream = TrainStream(
            inputs.corpus,
            inputs.vocabulary,
            batch_size=settings.batch_size * settings.accumulate,
            unroll_steps=settings.unroll_steps,
            input=bilm.config.input,
            seed=settings.seed,
            rank=ranks.rank,
            world_size=ranks.size,
            noise=settings.noise,
        )
        self.held_out: EvalStream | None = None
        if inputs.dev:
            self.held_out = EvalStream(
                inputs.dev,
                inputs.vocabulary,
                batch_size=settings.batch_size,
                unroll_steps=settings.unroll_steps,
                input=bilm.config.input,
            )
        self.progress = Progress(
            tokens_per_step=self.stream.tokens_per_step,
            counts=inputs.counts,
            position=self.stream.position,
            states=[bilm.zero_state(settings.batch_size) for _ in range(settings.accumulate)],
            warmup=settings.warmup_steps * self.stream.tokens_per_step,
        )
        self.fixed_settings = _fixed_settings(settings, self.stream, inputs.dev)
        self.folder = RunFolder(
            save_dir,
            keep=settings.keep,
            config=bilm.config,
            vocabulary=inputs.vocabulary,
            settings=self.fixed_settings,
            notice=bilm.notice,
        )
        self.spelling: Spelling | None = None  # of the held-out text, from the first evaluation
        self.interruption = Interruption()
        self.is_complete = False  # not interrupted, to the last step or the end of patience
        self.former_total: int | None = None  # steps that the resumed run was to have
        # `train` makes them: their clocks start there
        self.meter: Meter
        self.trial: Trial
        self.saving: Timer
        self.evaluating: Timer
        self.bar: Any  # of tqdm
        self.visualdl: VisualDLLog | None = None  # in `train`, on rank 0

    def restore(self, source: Path | None) -> None:
        """Resume from a checkpoint, if one is given, as far as the changed settings allow."""
        settings = self.settings
        if source:
            self._resume(source)
        self.progress.set_total(settings.max_steps, settings.epochs)

    def _resume(self, source: Path) -> None:
        """Restore the progress and the optimizer from a checkpoint."""
        arrays, saved = checkpoint.load_training(source)
        before = checkpoint.load_config(source).get("training")
        if not isinstance(before, dict):
            path = source / checkpoint.CONFIG
            raise UserError(
                f"{path}: training is {before!r:.60}, expected the settings of a training."
            )
        changes = changed_settings(
            source,
            saved=before,
            settings=self.fixed_settings,
            allow_changes=self.settings.allow_changes,
        )
        try:
            self.progress.restore(saved, changes, stream=self.stream, ranks=self.ranks)
        except (ValueError, IndexError) as error:
            path = source / checkpoint.PROGRESS
            raise UserError(
                f"{path} is not of a run of this program: {error}. Resume from another one."
            ) from error
        if "optimizer" not in changes:
            self._restore_optimizer(arrays, source / checkpoint.OPTIMIZER)
        self.former_total = saved["total"]

    def _restore_optimizer(self, arrays: Mapping[str, np.ndarray], path: Path) -> None:
        """Restore the optimizer's state.

        arrays: may include those of the progress, whose names begin with a slash.
        """
        moments = {name: array for name, array in arrays.items() if not name.startswith("/")}
        shapes = {name: tuple(tensor.shape) for name, tensor in self.optimizer.state_dict().items()}
        checkpoint.check_shapes(shapes, moments, str(path))
        self.optimizer.set_state_dict(moments)

    def open_folder(self, source: Path | None) -> None:
        """Prepare the folder. The best model so far is forgotten if it is not there.

        source: the checkpoint that the run resumes from.
        """
        progress = self.progress
        if self.settings.optimizer == "adam" and self.former_total not in (None, progress.total):
            log.warning(
                f"The learning rate reaches 0 at step {progress.total:,} "
                f"instead of {self.former_total:,}."
            )
        has_best = self.ranks.run_on_main(
            lambda: self.folder.open(source, progress.step, progress.best_step)
        )
        if not has_best:
            progress.forget_best()

    def train(self, is_new: bool = False) -> None:
        """Train until the last step, an interruption, or the end of patience; then save.

        is_new: the weights are random; then the forecast has the perplexity, too.
        """
        progress = self.progress
        patience = self.settings.patience
        self.meter = Meter(progress.losses)
        self.trial = Trial(self.meter)
        self.saving = Timer(self.settings.save_freq, progress)
        self.evaluating = Timer(self.settings.eval_freq, progress)
        self.bar = messages.training_bar(
            self.show, total=progress.total, initial=progress.step, unit="step"
        )
        with ExitStack() as stack:
            stack.enter_context(self.bar)
            stack.enter_context(self.interruption)
            if self.ranks.is_main and self.settings.visualdl:
                lines = self.folder.log_lines()
                self.visualdl = stack.enter_context(VisualDLLog(self.settings.visualdl, lines))
            batches = stack.enter_context(prefetched(self._batches()))
            is_stopping = self.ranks.any(self.interruption.is_requested())
            if self._lacks_evaluation():  # it was interrupted
                has_ended = self._repeat_evaluation()
                is_stopping = is_stopping or not has_ended
            first_step = progress.step + 1
            while not progress.reached_end(patience) and not is_stopping:
                request = self._step(*next(batches))
                self.bar.update()
                self.trial.add_step()
                self._log_training(is_first=progress.step == first_step)
                is_stopping = request >= STOP
                if request & FORECAST and not is_stopping:
                    self._log_forecast(first_step, is_new)
                if request & EVALUATE or self._lacks_evaluation():
                    has_ended = self._evaluate()
                    is_stopping = is_stopping or not has_ended
                if request & SAVE:
                    self._save()
            has_ended = progress.reached_end(patience)
            self.is_complete = has_ended and not self._lacks_evaluation()
            if self.is_complete or progress.step >= first_step:
                self._save(self.is_complete)
            if self.is_complete:
                self._log_verdict()

    def _lacks_evaluation(self) -> bool:
        """Whether this step needs an evaluation, whatever the time, and has none."""
        progress = self.progress
        freq = self.settings.eval_freq
        if self.held_out is None or progress.evaluated == progress.step:
            return False
        is_due = freq is not None and progress.step > 0 and progress.step % freq == 0
        return is_due or progress.step >= progress.total

    def _batches(self) -> Iterator[tuple[list[LMBatch], Candidates]]:
        """Yield each step's batches and softmax candidates.

        All ranks share the candidates: their gradients cover the same rows.
        """
        rows = self.settings.batch_size
        for step, batch in enumerate(self.stream, self.progress.step + 1):
            random = np.random.default_rng([self.settings.seed, step, 0])
            batches = [
                batch.take(slice(start, start + rows))
                for start in range(0, len(batch.lengths), rows)
            ]
            candidates = draw_candidates(
                self.bilm.config.vocab_size, self.settings.n_negative_samples, random
            )
            yield batches, candidates

    def _step(self, batches: list[LMBatch], candidates: Candidates) -> int:
        """Update the weights by the gradients of all batches.

        Returns the largest request of any rank.
        """
        settings = self.settings
        progress = self.progress
        progress.step += 1
        progress.tokens += progress.tokens_per_step
        self._seed_dropout()
        forward_losses = []
        backward_losses = []
        for k, batch in enumerate(batches):
            losses, progress.states[k] = self.bilm(
                batch, state=progress.states[k], candidates=candidates, dropout=settings.dropout
            )
            forward, backward = losses
            # Each loss is a mean over rows and steps. The learning rate, and the norm to which
            # gradients are clipped, are those of bilm-tf, which adds up the losses of a row's
            # steps: its gradients are `unroll_steps` times those of the mean. Adagrad would not
            # make up for that, since its accumulators begin at 1.
            loss = (forward + backward) / 2 * settings.unroll_steps / len(batches)
            loss.backward()
            forward_losses.append(forward.detach() / len(batches))
            backward_losses.append(backward.detach() / len(batches))
        position = batches[-1].position
        self.meter.add(progress.step, [sum(forward_losses), sum(backward_losses)], position)
        request = self.ranks.average_gradients(self.weights, self._request())
        self.optimizer.lr = learning_rate(
            settings.optimizer, settings.learning_rate, progress.schedule
        )
        self.optimizer.step()
        self.optimizer.clear_grad()
        progress.position = position
        return request

    def _seed_dropout(self) -> None:
        """Seed Paddle's random numbers, so that they depend on the seed, the step and the rank."""
        seeds = np.random.SeedSequence([self.settings.seed, self.progress.step, self.ranks.rank])
        paddle.seed(int(seeds.generate_state(1)[0]))

    def _request(self) -> int:
        """Decide what this rank asks all ranks to do after this step.

        Only rank 0 looks at the clock.
        """
        request = 0
        if self.interruption.is_requested():
            request += STOP
        if self.ranks.is_main and self.saving.is_due():
            request += SAVE
        if self.ranks.is_main and self.held_out is not None and self.evaluating.is_due():
            request += EVALUATE
        if self.ranks.is_main and self.trial.is_due():
            request += FORECAST
        return request

    def _save(self, is_final: bool = False) -> None:
        """Save a checkpoint of this step. is_final: it is the end of the run."""
        with self.meter.paused(), self.saving.measured():
            progress = self.progress.to_dict(self.ranks)
            optimizer = _arrays(self.optimizer.state_dict())
            self.ranks.run_on_main(
                lambda: self.folder.save(
                    weights=self._weights(),
                    optimizer=optimizer,
                    progress=progress,
                    is_final=is_final,
                    advice=ADVICE,
                )
            )
            self._draw_curve()

    def _weights(self) -> dict[str, np.ndarray]:
        """The weights of a checkpoint, with the start state of sentences."""
        text = self.inputs.dev or self.inputs.corpus
        start = mean_start_state(self.bilm, self.inputs.vocabulary, text.sentences())
        return {**_arrays(self.bilm.state_dict()), **start.arrays()}

    def _draw_curve(self) -> None:
        """Draw what the log has, on rank 0."""
        if self.ranks.is_main:
            self.folder.draw_curve()

    def _evaluate(self) -> bool:
        """Compute the exact held-out perplexity, and save the best model so far.

        Each rank scores its share of the rows.
        Returns whether it has come to its end: it stops if a rank is interrupted.
        """
        progress = self.progress
        with self.meter.paused(), self.evaluating.measured():
            score = evaluate(self.bilm, self._held_out_batches(), self.ranks)
        if self.ranks.any(self.interruption.is_requested()):
            return False
        if not math.isfinite(score.mean):
            raise UserError(
                f"step {progress.step:,}: the held-out perplexity is not finite. {ADVICE}"
            )
        is_best = progress.add_evaluation(score.mean)
        bits = self.ranks.run_on_main(lambda: self._bits(score))
        text = (
            f"step {progress.step:,}: held-out perplexity forward {score.forward:.2f}, "
            f"backward {score.backward:.2f}, mean {score.mean:.2f}, "
            f"{bits['bits_per_character']:.3f} bits per character"
        )
        if not is_best:
            text += f" (the best is {progress.best:.2f})"
        values = {
            "forward_perplexity": score.forward,
            "backward_perplexity": score.backward,
            "perplexity": score.mean,
            **bits,
        }
        self.log("evaluation", text, values)
        if is_best:
            self._save()
        else:
            with self.meter.paused():
                self._draw_curve()
        return True

    def _bits(self, score: Score) -> dict[str, float]:
        """The bits that the held-out text takes in an open vocabulary, mean of the directions."""
        if self.spelling is None:
            spelling = Spelling(self.inputs.vocabulary)
            self.spelling = spelling.add_all(self.inputs.dev.sentences())
        in_open = self.spelling.open_score(score)
        log_probability = (in_open.forward_sum + in_open.backward_sum) / 2
        return {
            "bits_per_character": self.spelling.bits_per_character(log_probability),
            "bits_per_byte": self.spelling.bits_per_byte(log_probability),
        }

    def _held_out_batches(self) -> Iterator[LMBatch]:
        """Yield the batches of the held-out text, until the run is interrupted."""
        for batch in self.held_out:
            if self.interruption.is_requested():
                return
            yield batch

    def _repeat_evaluation(self) -> bool:
        """Evaluate the model that the run resumes from, whose evaluation was interrupted.

        It is saved again: which model is the best depends on its score.
        Returns whether the evaluation has come to its end.
        """
        self.folder.outdated.append(self.progress.step)
        has_ended = self._evaluate()
        if has_ended:
            self._save()
        return has_ended

    def _log_training(self, is_first: bool) -> None:
        """Log the means since the last line, if a line is due; at least the first step's loss."""
        progress = self.progress
        freq = self.settings.log_freq or min(LOG_FREQ, max(1, progress.total // LOG_LINES))
        if progress.step % freq == 0 or progress.step == progress.total:
            self._log_means()
        elif is_first:  # the first means may take minutes
            seconds = self.meter.seconds_per_step()
            log.info(
                f"step {progress.step:,} took {seconds:.1f} s, loss {self.meter.last_loss:.4f}. "
                f"Steps between log lines: {freq:,}."
            )

    def _log_means(self) -> None:
        """Log the means of all ranks since the last call."""
        progress = self.progress
        forward_loss, backward_loss, seconds = self.meter.pop_means(self.ranks)
        loss = (forward_loss + backward_loss) / 2
        forward = perplexity(forward_loss)
        backward = perplexity(backward_loss)
        tokens_per_second = progress.tokens_per_step / seconds
        seconds_left = (progress.total - progress.step) * seconds
        memory_mb = memory_in_use() / 2**20
        is_estimate = is_sampled(self.bilm.config.vocab_size, self.settings.n_negative_samples)
        kind = "sampled perplexity" if is_estimate else "perplexity"
        key = kind.replace(" ", "_")
        values = {
            "total": progress.total,
            "epoch": progress.epoch,
            "loss": loss,
            f"forward_{key}": forward,
            f"backward_{key}": backward,
            "learning_rate": self.optimizer.lr,
            "tokens_per_second": tokens_per_second,
            "seconds_left": seconds_left,
            "memory_mb": memory_mb,
        }
        text = (
            f"step {progress.step:,}/{progress.total:,}  "
            f"epoch {progress.epoch:.2f}  "
            f"loss {loss:.4f}  "
            f"{kind} forward {forward:.1f} backward {backward:.1f}  "
            f"lr {self.optimizer.lr:.4g}  "
            f"{tokens_per_second:,.0f} tokens/s  "
            f"{messages.format_duration(seconds_left)} left  "
            f"{memory_mb:,.0f} MB"
        )
        self.log("training", text, values)

    def _log_forecast(self, first_step: int, is_new: bool) -> None:
        """Log what the run will take and reach.

        first_step: of this process. is_new: the weights were random.
        """
        with self.meter.paused():
            plan = Plan(
                progress=self.progress,
                settings=self.settings,
                first_step=first_step,
                seconds_per_step=self.trial.end(),
            )
            forecast = self.ranks.run_on_main(lambda: self._forecast(plan, is_new))
        self.log("forecast", forecast.text(), forecast.values())
        self._write_above_bar(forecast.text())

    def _forecast(self, plan: Plan, is_new: bool) -> Forecast:
        """Forecast the run. is_new: see `train`."""
        inputs = self.inputs
        seconds_each = 0.0
        expected = None
        if self.held_out and inputs.dev_counts:
            own_share = inputs.dev_counts.predictions / self.ranks.size
            seconds_each = seconds_of_evaluation(self.bilm, self.held_out, own_share)
            if is_new:
                expected = self._expected_perplexity()
        return Forecast(
            seconds=plan.seconds_of_steps + plan.seconds_of_evaluations(seconds_each),
            seconds_per_epoch=plan.seconds_per_epoch,
            evaluation_seconds=plan.seconds_of_evaluations(seconds_each),
            memory_mb=memory_forecast(self.bilm, self.optimizer.state_dict()) / 2**20,
            expected=expected,
        )

    def _expected_perplexity(self) -> Expectation | None:
        """The held-out perplexity to expect of a model that began with random weights."""
        if self.bilm.config.input != "char":
            return None
        training = Training(
            steps=self.progress.total,
            tokens=self.progress.counts.tokens,
            projection_dim=self.bilm.config.projection_dim,
        )
        return expected_perplexity(training, self._baseline(order=2))

    def _baseline(self, order: int) -> Baseline:
        """N-grams of the text, to compare with."""
        return measure_baseline(
            self.inputs.corpus,
            self.inputs.dev,
            self.inputs.vocabulary,
            tokens=self.progress.counts.tokens,
            order=order,
            limit=BASELINE_TOKENS,
        )

    def _log_verdict(self) -> None:
        """Log what came of the run, and what would make it better."""
        text, values = self.ranks.run_on_main(self._verdict)
        if text:
            self.log("verdict", text, values)
            self._write_above_bar(text)

    def _verdict(self) -> tuple[str, dict[str, Any]]:
        ngrams = self._baseline(order=5) if self.inputs.dev else None
        return verdict(self.progress, self.folder.evaluations(), ngrams, self.settings)

    def _write_above_bar(self, text: str) -> None:
        """Write text above the bar, which is shown where the log is not."""
        if not self.bar.disable:
            self.bar.write(text, file=sys.stderr)

    def log(self, event: str, text: str, values: Mapping[str, Any]) -> None:
        """Log text, append the values to log.jsonl, and show them.

        event: start, training, evaluation, forecast or verdict.
        """
        log.info(text)
        if self.ranks.is_main:
            self.folder.append_log(event, self.progress.step, values)
        line = {"event": event, "step": self.progress.step, **values}
        if self.visualdl:
            self.visualdl.add(line)
        if callable(self.show):
            self.show(line)


def _fixed_settings(
    settings: PretrainingSettings, stream: TrainStream, dev: Corpus | None
) -> dict[str, Any]:
    """The settings that a resumed run must not change, with the texts'."""
    dev_data = dev.identity if dev else None
    return {**stream.settings, "dev_data": dev_data, **settings.fixed()}


def _arrays(tensors: Mapping[str, paddle.Tensor]) -> dict[str, np.ndarray]:
    return {name: to_array(tensor.detach()) for name, tensor in tensors.items()}
