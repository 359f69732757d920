"""Train the tagger, with ELMo or without it, and keep its best epoch.

    python train.py --pretrain_elmo_model_path ../checkpoints/sample/final --model_save_dir ../checkpoints/lac/elmo
    python train.py --use_elmo false --model_save_dir ../checkpoints/lac/baseline

The best epoch is that of the highest F1 on --testdata_dir. The data are lines of words, a tab, and a label for each word,
as prepare.py writes them. predict.py tags text with what is saved.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import flags
import root
from elmo_tasks.elmo_input import LayerCache, Pretrained, vocabulary_beside

import args as arguments
import script
from elmo_core.machine import runtime
from elmo_core.machine.messages import log
from elmo_core.text.tokens import Vocabulary
from elmo_tasks.saved import check_model_folder
from elmo_tasks.tagging.data import BadLines, Labels, read_tsv
from elmo_tasks.tagging.network import Settings
from elmo_tasks.tagging.scheme import split_label
from elmo_tasks.tagging.tagger import Tagger
from elmo_tasks.tagging.training import Schedule, train, training_words

DATA = root.DEMO / "data"


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    data = parser.add_argument_group("data", "a file, a folder, or a glob in quotes")
    data.add_argument("--traindata_dir", metavar="PATH", default=DATA / "train", help="sentences to train on")
    data.add_argument("--testdata_dir", metavar="PATH", default=DATA / "dev", help="sentences to choose the epoch on")
    flags.add_label_dict(data)
    data.add_argument(
        "--vocab_file",
        type=Path,
        metavar="FILE",
        help="the vocabulary whose pieces the words are, for predict.py (default: ELMo's, or else the training words)",
    )
    flags.add_skip_bad_lines(data)
    data.add_argument(
        "--model_save_dir",
        type=Path,
        metavar="DIR",
        default=root.DEMO.parent / "checkpoints" / "lac",
        help="of the tagger",
    )
    data.add_argument("--overwrite", action="store_true", help="replace a tagger in that folder")
    elmo = parser.add_argument_group("ELMo")
    elmo.add_argument("--use_elmo", **arguments.TRUTH, default=True, help="false: the baseline")
    elmo.add_argument(
        "--pretrain_elmo_model_path",
        metavar="CKPT",
        default=arguments.SAMPLE_ELMO,
        help="prefix, file, folder (its latest), or a published model's name",
    )
    flags.add_network(parser)
    flags.add_training(parser)
    arguments.add_seed(parser, default=Schedule.seed)
    arguments.add_device(parser)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    check(args)
    runtime.set_device(args.device)
    script.seed_everything(args.seed)
    labels, bad_lines = Labels.from_file(args.label_dict_path), BadLines(args.skip_bad_lines)
    sentences = read_tsv(args.traindata_dir, labels, bad_lines)
    dev = read_tsv(args.testdata_dir, labels, bad_lines)
    bad_lines.report()
    pretrained = Pretrained.of(args.pretrain_elmo_model_path) if args.use_elmo else None
    words, pieces = training_words(sentences), None
    if any(split_label(label)[1] for sentence in sentences for label in sentence.labels):  # words are cut into pieces
        if args.vocab_file:
            pieces = Vocabulary.from_file(args.vocab_file)
        else:
            pieces = (vocabulary_beside(pretrained.prefix) if pretrained else None) or words
    tagger = Tagger(arguments.from_flags(Settings, args), words, labels, pretrained, pieces)
    log.info(f"{len(sentences):,} sentences to train on, {len(dev):,} to choose the epoch on, {len(labels)} labels.")
    if args.use_elmo and not args.elmo_trainable:
        encoder = tagger.network.encoder
        encoder.cache = LayerCache(encoder, [sentence.tokens for sentence in sentences + dev], args.elmo_cache)

    best = train(tagger, sentences, dev, arguments.from_flags(Schedule, args), args.model_save_dir)

    print(best.score.table())
    if args.use_elmo:
        mix = tagger.network.encoder.mix()
        print("layers of ELMo " + " ".join(f"{weight:.2f}" for weight in mix["layers"]) + f", times {mix['gamma']:.2f}")
    print(
        f"{'+ELMo' if args.use_elmo else 'baseline'} F1 {best.score.total.f1:.2%} in epoch {best.epoch}, "
        f"saved in {args.model_save_dir}"
    )


def check(args: argparse.Namespace) -> None:
    """Refuse, before training, what would fail at its end or overwrite another model."""
    check_model_folder("--model_save_dir", args.model_save_dir, "tagger", args.overwrite)
    if args.use_elmo:
        arguments.check_sample("--pretrain_elmo_model_path", args.pretrain_elmo_model_path)


if __name__ == "__main__":
    script.run(main)
