"""Train a reader, with ELMo or without it, and keep its best epoch.

    python train.py --pretrain_elmo_model_path ../checkpoints/sample/final --model_save_dir ../checkpoints/mrc/elmo
    python train.py --use_elmo false --model_save_dir ../checkpoints/mrc/baseline

The best epoch is that of the highest F1 on --dev_data. The data are in the JSON of SQuAD 1.1 or CMRC 2018. predict.py
answers questions with what is saved.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import options
from elmo_tasks.elmo_input import Pretrained
from options import DEMO

import args as arguments
import script
from args import FILE
from elmo_core.machine import runtime
from elmo_core.machine.messages import log
from elmo_tasks.reading.data import read_dataset
from elmo_tasks.reading.network import Settings
from elmo_tasks.reading.reader import Prepared, Reader, Reading
from elmo_tasks.reading.training import Schedule, train, training_words
from elmo_tasks.saved import check_model_folder
from elmo_tasks.word_vectors import WordVectors


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    data = parser.add_argument_group("data")
    data.add_argument("--train_data", **FILE, default=DEMO / "data" / "train.json", help="questions to train on")
    data.add_argument("--dev_data", **FILE, default=DEMO / "data" / "dev.json", help="questions to choose the epoch on")
    options.add_language(data)
    save = DEMO.parent / "checkpoints" / "mrc"
    data.add_argument("--model_save_dir", type=Path, metavar="DIR", default=save, help="of the reader")
    data.add_argument("--overwrite", action="store_true", help="replace a reader in that folder")
    elmo = parser.add_argument_group("ELMo")
    elmo.add_argument("--use_elmo", **arguments.TRUTH, default=True, help="false: the baseline")
    elmo.add_argument(
        "--pretrain_elmo_model_path",
        metavar="CKPT",
        default=arguments.SAMPLE_ELMO,
        help="prefix, file, folder (its latest), or a published model's name",
    )
    elmo.add_argument(
        "--layers",
        type=arguments.layers,
        default=Settings.layers,
        metavar="L",
        help="which are mixed: all, top, a number, or several as in 0,1; concat: all side by side",
    )
    options.add_network(parser)
    options.add_training(parser)
    arguments.add_seed(parser, default=Schedule.seed)
    arguments.add_device(parser)
    args = parser.parse_args(argv)
    options.check_network(parser, args)
    return args


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    check(args)
    runtime.set_device(args.device)
    script.seed_everything(args.seed)
    passages, dev = (read(path, args.language) for path in (args.train_data, args.dev_data))
    pretrained = Pretrained.of(args.pretrain_elmo_model_path) if args.use_elmo else None
    vectors = WordVectors(args.word_vectors, args.limit) if args.word_vectors else None
    if vectors:
        vectors.describe([one.text.tokens for one in passages])
    words = training_words(passages, args.min_count)
    settings, reading = arguments.from_flags(Settings, args), arguments.from_flags(Reading, args)
    reader = Reader(settings, reading, words, pretrained, vectors)
    if args.use_elmo:
        args.model_save_dir.mkdir(parents=True, exist_ok=True)
        texts = (text for one in passages + dev for text in one.texts())
        reader.network.layers.keep(texts, args.elmo_cache, args.model_save_dir)
    schedule = arguments.from_flags(Schedule, args)

    best = train(reader, passages, dev, schedule, args.model_save_dir)

    for where, mix in reader.mixes().items():
        weights = " ".join(f"{weight:.2f}" for weight in mix["layers"])
        print(f"layers of ELMo at the {where} {weights}, times {mix['gamma']:.2f}")
    print(
        f"{'+ELMo' if args.use_elmo else 'baseline'} {best.scores} in epoch {best.epoch}, saved in {args.model_save_dir}"
    )


def read(path: Path, language: str) -> list[Prepared]:
    data = read_dataset(path)
    log.info(f"{path}: {data.describe()}")
    return [Prepared(passage, language) for passage in data.passages]


def check(args: argparse.Namespace) -> None:
    """Refuse, before training, what would fail at its end or overwrite another model."""
    check_model_folder("--model_save_dir", args.model_save_dir, "reader", args.overwrite)
    if args.use_elmo:
        arguments.check_sample("--pretrain_elmo_model_path", args.pretrain_elmo_model_path)


if __name__ == "__main__":
    script.run(main)
