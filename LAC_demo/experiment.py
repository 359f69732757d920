"""What ELMo adds to the tagger: baseline and +ELMo over several seeds, on a corpus of lines of `word/TAG`.

    python experiment.py --train_data train.txt --test_data dev.txt --json results.json \\
        --elmo char=../checkpoints/zh-char/final --elmo word=../checkpoints/zh-word/final

For every seed the training sentences are shuffled, --train_fraction of them taken, and a tenth of these held out to choose
the epoch; all arms get the same ones. That epoch tags the test sentences. The results are written after every run; runs that
they already have are skipped. Unknown words are words that the training sentences lack. For comparison jieba.posseg
tags the same text: each of its tags counts as the one that its words most often have in the training sentences.
"""

import argparse
import dataclasses
import json
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import flags
import numpy as np
from elmo_tasks.elmo_input import (
    LayerCache,
    Pretrained,
    elmo_encoder,
    init_pretraining_params,
    vocabulary_beside,
)
from pieces import Pieces, labels_of_corpus
from reader import Words, read_replacements, read_tagged

import args as arguments
import script
from elmo_core.machine import disk, runtime
from elmo_core.machine.messages import UserError, log
from elmo_core.text.tokenise import jieba_cut
from elmo_core.text.tokens import Vocabulary
from elmo_tasks.saved import digest, load_results, spread
from elmo_tasks.tagging.data import BadLines, Sentence
from elmo_tasks.tagging.network import Settings
from elmo_tasks.tagging.scheme import spans
from elmo_tasks.tagging.score import Counts
from elmo_tasks.tagging.tagger import Tagger
from elmo_tasks.tagging.training import Schedule, known_words, train, training_words

BASELINE = "baseline"
HELD_OUT = 0.1


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    data = parser.add_argument_group("data")
    data.add_argument("--train_data", type=Path, required=True, metavar="FILE", help="lines of word/TAG")
    data.add_argument("--test_data", type=Path, required=True, metavar="FILE", help="the same, to test on")
    data.add_argument(
        "--train_fraction", type=fraction, metavar="X", default=1.0, help="share of the training sentences"
    )
    data.add_argument("--whole_words", action="store_true", help="do not cut words into pieces of the vocabulary")
    data.add_argument(
        "--vocab_file", type=Path, metavar="FILE", help="the vocabulary of the pieces (default: that of the first ELMo)"
    )
    flags.add_replacements(data)
    flags.add_skip_bad_lines(data)
    data.add_argument("--json", type=Path, required=True, metavar="FILE", help="the results")
    runs = parser.add_argument_group("runs")
    runs.add_argument(
        "--elmo", type=arm, action="append", default=[], metavar="NAME=CKPT", help="an arm with this ELMo; repeatable"
    )
    runs.add_argument(
        "--seeds", type=arguments.seeds, default=[1, 2, 3, 4, 5], metavar="N,N,...", help="a run of each arm for each"
    )
    flags.add_network(parser)
    flags.add_training(parser)
    arguments.add_device(parser)
    return parser.parse_args(argv)


def fraction(text: str) -> float:
    value = arguments.positive(text)
    if value > 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number above 0, 1 at the most")
    return value


def arm(text: str) -> tuple[str, str]:
    name, _, path = text.partition("=")
    if not name or not path or name == BASELINE:
        raise argparse.ArgumentTypeError(f"{text!r}: expected NAME=CHECKPOINT, as in char=checkpoints/zh/final")
    return name, path


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    runtime.set_device(args.device)
    disk.check_output("--json", args.json)
    arms = {BASELINE: None, **{name: Pretrained.of(path) for name, path in args.elmo}}
    if len(arms) != 1 + len(args.elmo):
        raise UserError("--elmo: two arms have the same name.")
    experiment = Experiment(args, arms)
    for name in arms:
        experiment.run_arm(name)
    if "jieba" not in experiment.results:
        experiment.results["jieba"] = jieba_figures(experiment.train_words, experiment.test_words)
        experiment.save()
    print(experiment.report())


class Experiment:
    """The data, and the results so far."""

    def __init__(self, args: argparse.Namespace, arms: dict[str, Pretrained | None]):
        self.args, self.arms = args, arms
        bad_lines = BadLines(args.skip_bad_lines)
        self.train_words = words_in(args.train_data, bad_lines)
        self.test_words = words_in(args.test_data, bad_lines)
        bad_lines.report()
        files = f"{args.train_data} and {args.test_data}"
        self.labels = labels_of_corpus(self.train_words + self.test_words, args.whole_words, files)
        pieces = Pieces(self.vocabulary(), read_replacements(args.word_rep_dict_path), args.whole_words)
        self.train = [pieces.sentence(words, self.labels) for words in self.train_words]
        self.test = [pieces.sentence(words, self.labels) for words in self.test_words]
        log.info(f"{len(self.train):,} and {len(self.test):,} sentences, {len(self.labels)} labels")
        self.results = self.load()

    def vocabulary(self) -> Vocabulary | None:
        """The vocabulary whose pieces the words become."""
        if self.args.vocab_file:
            return Vocabulary.from_file(self.args.vocab_file)
        first = next(filter(None, self.arms.values()), None)
        found = vocabulary_beside(first.prefix) if first else None
        if found is None and not self.args.whole_words:
            raise UserError(flags.VOCABULARY_MISSING)
        return found

    def protocol(self) -> dict:
        """The settings that all results of one table must share."""
        args = self.args
        return {
            "train_data": [args.train_data.name, digest([(s.tokens, s.labels) for s in self.train])],
            "test_data": [args.test_data.name, digest([(s.tokens, s.labels) for s in self.test])],
            "train_fraction": args.train_fraction,
            "whole_words": args.whole_words,
            "settings": arguments.from_flags(Settings, args, use_elmo=True).to_dict(),
            "schedule": dataclasses.asdict(arguments.from_flags(Schedule, args)),
        }

    def load(self) -> dict:
        """The results so far of an interrupted experiment, or empty ones."""
        return load_results(
            self.args.json, self.protocol(), lambda run: (run["arm"], run["seed"], run["elmo"], run["test"]["f1"])
        )

    def save(self) -> None:
        with disk.atomic_write(self.args.json) as file:
            file.write(json.dumps(self.results, indent=1) + "\n")

    def run_arm(self, name: str) -> None:
        pretrained = self.arms[name]
        weights = pretrained.fingerprint if pretrained else None
        done = {run["seed"]: run["elmo"] for run in self.results["runs"] if run["arm"] == name}
        if set(done.values()) - {weights}:
            raise UserError(f"--json {self.args.json}: {name} was another checkpoint. Name a new file.")
        missing = [seed for seed in self.args.seeds if seed not in done]
        cache = None
        if pretrained and missing and not self.args.elmo_trainable:
            encoder = elmo_encoder()
            init_pretraining_params(encoder, pretrained.prefix)
            cache = LayerCache(encoder, [s.tokens for s in self.train + self.test], self.args.elmo_cache)
        for seed in missing:
            log.info(f"== {name}, seed {seed}")
            self.results["runs"].append(
                {"arm": name, "seed": seed, "elmo": weights, **self.run(pretrained, seed, cache)}
            )
            self.save()

    def run(self, pretrained: Pretrained | None, seed: int, cache: LayerCache | None) -> dict:
        script.seed_everything(seed)
        sentences, dev = self.split(seed)
        settings = arguments.from_flags(Settings, self.args, use_elmo=bool(pretrained))
        tagger = Tagger(settings, training_words(sentences), self.labels, pretrained)
        if pretrained:
            tagger.network.encoder.cache = cache
        best = train(tagger, sentences, dev, arguments.from_flags(Schedule, self.args, seed=seed))
        score = tagger.score(self.test, known_words(sentences))
        log.info(f"test F1 {score.total.f1:.2%}, unknown words {score.unknown.f1:.2%}")
        mix = {"mix": tagger.network.encoder.mix()} if pretrained else {}
        return {
            "sentences": len(sentences),
            "epoch": best.epoch,
            "seconds": best.seconds,
            "dev_f1": best.score.total.f1,
            "test": score.figures(),
            **mix,
        }

    def split(self, seed: int) -> tuple[list[Sentence], list[Sentence]]:
        """The training sentences of a seed, and the held-out ones."""
        order = np.random.default_rng(seed).permutation(len(self.train))
        order = order[: max(2, round(len(order) * self.args.train_fraction))]
        n_dev = max(1, round(len(order) * HELD_OUT))
        return [self.train[k] for k in order[n_dev:]], [self.train[k] for k in order[:n_dev]]

    def report(self) -> str:
        """The results as a table: mean and standard deviation over the seeds, in per cent."""
        of_arm = {name: [run for run in self.results["runs"] if run["arm"] == name] for name in self.arms}
        rows = [f"{'':<14} {'precision':>14} {'recall':>14} {'F1':>14} {'F1, unknown':>14}  runs"]
        for name, runs in of_arm.items():
            cells = [[run["test"][what] for run in runs] for what in ("precision", "recall", "f1")]
            cells.append([run["test"]["unknown_words"]["f1"] for run in runs])
            rows.append(f"{name:<14} " + " ".join(f"{spread(cell):>14}" for cell in cells) + f"  {len(runs)}")
        base = {run["seed"]: run["test"]["f1"] for run in of_arm[BASELINE]}
        for name, runs in list(of_arm.items())[1:]:
            gains = [run["test"]["f1"] - base[run["seed"]] for run in runs if run["seed"] in base]
            rows.append(f"{name} gains {spread(gains)} points of F1 over the {BASELINE}, seed by seed")
        jieba = self.results["jieba"]
        rows.append(
            f"jieba.posseg: on raw text F1 {jieba['raw']['f1']:.2%} (words alone {jieba['raw_words']['f1']:.2%}); "
            f"the words given, {jieba['given']['f1']:.2%}"
        )
        counts = Counter(tag for sentence in self.test for *_, tag in spans(sentence.labels))
        rows += ["", f"{'F1 by tag':<14} " + " ".join(f"{name:>14}" for name in self.arms) + "  words"]
        for tag, count in counts.most_common():
            cells = [spread([run["test"]["tags"][tag]["f1"] for run in runs]) for runs in of_arm.values()]
            rows.append(f"{tag:<14} " + " ".join(f"{cell:>14}" for cell in cells) + f"  {count:,}")
        return "\n".join(rows)


def words_in(path: Path, bad_lines: BadLines) -> list[Words]:
    found = [words for _, words in read_tagged(path, bad_lines) if words]
    if len(found) < 2:
        raise UserError(f"{path}: {len(found)} sentences. Expected lines of word/TAG, two at least.")
    return found


Spans = set[tuple[int, int, str]]  # (begin, end, tag) of words, in characters


def jieba_figures(train_words: list[Words], test_words: list[Words]) -> dict:
    """How well jieba.posseg does: on raw text, where a word counts if its place and tag are right; and word by word."""
    jieba_cut()
    import jieba.posseg

    start = time.perf_counter()

    def raw(words: Words) -> Spans:
        return character_spans(
            [(pair.word, pair.flag) for pair in jieba.posseg.lcut("".join(word for word, _ in words))]
        )

    def given(words: Words) -> Spans:
        return character_spans([(word, jieba.posseg.lcut(word)[-1].flag) for word, _ in words])

    figures = {}
    for name, tagged in (("raw", raw), ("given", given)):
        tag_of = most_common_tags([(tagged(words), character_spans(words)) for words in train_words])
        counts, places = Counts(), Counts()
        for words in test_words:
            expected = character_spans(words)
            found = {(begin, end, tag_of.get(flag, "n")) for begin, end, flag in tagged(words)}
            counts += counted(found, expected)
            places += counted({span[:2] for span in found}, {span[:2] for span in expected})
        figures[name], figures[f"{name}_words"] = counts.figures(), places.figures()
        figures[f"{name}_tags"] = tag_of
    return {**figures, "seconds": time.perf_counter() - start}


def character_spans(words: Words) -> Spans:
    ends = np.cumsum([len(word) for word, _ in words]).tolist()
    return {(end - len(word), end, tag) for end, (word, tag) in zip(ends, words, strict=True)}


def most_common_tags(pairs: list[tuple[Spans, Spans]]) -> dict[str, str]:
    """For each of jieba's tags the one that its words most often have in the corpus. pairs: jieba's spans, the corpus's."""
    counts: dict[str, Counter] = defaultdict(Counter)
    for found, expected in pairs:
        tags = {span[:2]: span[2] for span in expected}
        for begin, end, flag in sorted(found):
            if (begin, end) in tags:
                counts[flag][tags[begin, end]] += 1
    return {flag: counter.most_common(1)[0][0] for flag, counter in sorted(counts.items())}


def counted(found: set, expected: set) -> Counts:
    return Counts(len(found & expected), len(found), len(expected))


if __name__ == "__main__":
    script.run(main)
