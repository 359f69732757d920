"""ELMo against static vectors over several seeds: a table, and whether the gain is more than chance.

    python experiment.py --train_data train.json --dev_data trial.json --test_data dev.json --json results.json \\
        --word_vectors word2vec.bin --pretrain_elmo_model_path ../checkpoints/zh/final

Every arm reads the same fixed word vectors. To them are added:

    word2vec   nothing
    layer0     ELMo's layer 0: token vectors without context
    random     all layers of the same ELMo side by side, its LSTMs with random weights, so that only the architecture is left
    mix        all layers, mixed
    elmo       all layers side by side

Each is trained on --train_data with each seed, --dev_data chooses the epoch, and that epoch answers --test_data. The results
are written after every run; runs that they already have are skipped. ELMo's layers are computed once for each arm. The
significance test takes the mean of the seeds for each question, and resamples the passages of --test_data.
"""

import argparse
import dataclasses
import json
from collections.abc import Sequence

import numpy as np
import options
from elmo_tasks.elmo_input import Pretrained

import args as arguments
import script
from args import FILE
from elmo_core.machine import disk, runtime
from elmo_core.machine.messages import log
from elmo_tasks.classification.encoders import randomise
from elmo_tasks.reading.data import read_dataset
from elmo_tasks.reading.layers import TextLayers
from elmo_tasks.reading.network import Settings
from elmo_tasks.reading.reader import Prepared, Reader, Reading
from elmo_tasks.reading.score import difference
from elmo_tasks.reading.training import Schedule, train, training_words
from elmo_tasks.saved import digest, load_results, spread
from elmo_tasks.word_vectors import WordVectors

ARMS = {"word2vec": None, "layer0": "0", "random": "concat", "mix": "all", "elmo": "concat"}  # and the layers they add
SEED_OF_RANDOM = 1  # of the random LSTMs, which all runs of that arm share, as those of ELMo share its weights


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    data = parser.add_argument_group("data", "in the JSON of SQuAD or CMRC 2018")
    data.add_argument("--train_data", **FILE, required=True, help="questions to train on")
    data.add_argument("--dev_data", **FILE, required=True, help="questions to choose the epoch on")
    data.add_argument("--test_data", **FILE, required=True, help="questions to test on")
    options.add_language(data)
    data.add_argument("--json", **FILE, required=True, help="the results")
    runs = parser.add_argument_group("runs")
    runs.add_argument(
        "--pretrain_elmo_model_path", metavar="CKPT", required=True, help="prefix, file, folder (its latest), or name"
    )
    runs.add_argument("--arms", type=arms, default=list(ARMS), metavar="NAME,...", help="which arms to run")
    runs.add_argument(
        "--seeds", type=arguments.seeds, default=[1, 2, 3], metavar="N,N,...", help="a run of each arm for each"
    )
    options.add_network(parser)
    options.add_training(parser)
    arguments.add_device(parser)
    args = parser.parse_args(argv)
    options.check_network(parser, args)
    return args


def arms(text: str) -> list[str]:
    if unknown := [name for name in text.split(",") if name not in ARMS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r}: expected some of {','.join(ARMS)}")
    return [name for name in ARMS if name in text.split(",")]


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    runtime.set_device(args.device)
    disk.check_output("--json", args.json, args.train_data, args.dev_data, args.test_data)
    experiment = Experiment(args)
    args.json.absolute().parent.mkdir(parents=True, exist_ok=True)
    for name in args.arms:
        experiment.run_arm(name)
    print(experiment.report())


class Experiment:
    """The data, and the results so far."""

    def __init__(self, args: argparse.Namespace):
        self.args = args
        files = (args.train_data, args.dev_data, args.test_data)
        self.train, self.dev, self.test = (
            [Prepared(passage, args.language) for passage in read_dataset(file).passages] for file in files
        )
        self.pretrained = Pretrained.of(args.pretrain_elmo_model_path)
        self.vectors = WordVectors(args.word_vectors, args.limit) if args.word_vectors else None
        self.results = load_results(args.json, self.protocol(), lambda run: (run["arm"], run["seed"], len(run["f1"])))
        self.words = training_words(self.train, args.min_count)
        if self.vectors:
            self.vectors.describe([one.text.tokens for one in self.train])

    def protocol(self) -> dict:
        """The settings that all results of one table must share."""
        args = self.args
        files = args.train_data, args.dev_data, args.test_data
        return {
            "data": [[file.name, digest(file.read_bytes())] for file in files],
            "elmo": self.pretrained.fingerprint,
            "word_vectors": self.vectors.fingerprint if self.vectors else None,
            "min_count": args.min_count,
            "reading": dataclasses.asdict(arguments.from_flags(Reading, args)),
            "settings": dataclasses.asdict(arguments.from_flags(Settings, args)),
            "schedule": dataclasses.asdict(arguments.from_flags(Schedule, args)),
        }

    def runs(self, name: str) -> list[dict]:
        return [run for run in self.results["runs"] if run["arm"] == name]

    def run_arm(self, name: str) -> None:
        """All runs of an arm that are missing. They share the layers of its ELMo."""
        layers = None
        for seed in self.args.seeds:
            if seed in [run["seed"] for run in self.runs(name)]:
                continue
            log.info(f"== {name}, seed {seed}")
            script.seed_everything(seed)
            reader = self.reader(name)
            if ARMS[name]:
                layers = layers or self.layers(reader)
                reader.network.layers.kept = layers.kept
            self.results["runs"].append({"arm": name, "seed": seed, **self.run(reader, seed)})
            with disk.atomic_write(self.args.json) as file:
                json.dump(self.results, file)

    def reader(self, name: str) -> Reader:
        settings = arguments.from_flags(Settings, self.args, use_elmo=bool(ARMS[name]), layers=ARMS[name] or "all")
        reading, pretrained = arguments.from_flags(Reading, self.args), self.pretrained if ARMS[name] else None
        reader = Reader(settings, reading, self.words, pretrained, self.vectors)
        if name == "random":
            randomise(reader.network.encoder.elmo.bilm, "lstm", SEED_OF_RANDOM)
        return reader

    def layers(self, reader: Reader) -> TextLayers:
        texts = (text for one in self.train + self.dev + self.test for text in one.texts())
        reader.network.layers.keep(texts, self.args.elmo_cache, self.args.json.absolute().parent)
        return reader.network.layers

    def run(self, reader: Reader, seed: int) -> dict:
        schedule = arguments.from_flags(Schedule, self.args, seed=seed)
        best = train(reader, self.train, self.dev, schedule)
        scores = reader.score(self.test)
        log.info(f"test {scores}")
        return {
            "epoch": best.epoch,
            "seconds": round(best.seconds),
            "dev": best.scores.figures(),
            "test": scores.figures(),
            "mixes": reader.mixes(),
            "f1": scores.f1.round(4).tolist(),
            "exact": scores.exact.astype(int).tolist(),
        }

    def report(self) -> str:
        """The results as a table, mean and standard deviation over the seeds in per cent, and the significance test."""
        found = {name: runs for name in ARMS if (runs := self.runs(name))}
        rows = [f"{'':<10} {'EM':>14} {'F1':>14} {'Rouge-L':>14}  runs"]
        for name, runs in found.items():
            cells = [spread([run["test"][what] for run in runs]) for what in ("exact", "f1", "rouge")]
            rows.append(f"{name:<10} " + " ".join(f"{cell:>14}" for cell in cells) + f"  {len(runs)}")
        f1 = {name: np.mean([run["f1"] for run in runs], axis=0) for name, runs in found.items()}
        passage = np.repeat(np.arange(len(self.test)), [len(one.questions) for one in self.test])
        others = sorted((name for name in f1 if name != "elmo"), key=lambda name: -f1[name].mean())
        best = next((name for name in others if name != "mix"), None)
        for name in others if "elmo" in f1 else []:
            note = " (the best without pretrained context)" if name == best else ""
            rows.append(f"elmo - {name:<9} {difference(f1['elmo'], f1[name], passage)}{note}")
        return "\n".join(rows)


if __name__ == "__main__":
    script.run(main)
