"""Tag sequences on your own files: chunks, named entities, parts of speech, word segmentation; with ELMo or without.

    python run_tag.py train --train=train.txt --dev=dev.txt --test=test.txt --init_from_ckpt=checkpoints --save_dir=tagger
    python run_tag.py train --train=train.txt --init_from_ckpt=none --char_cnn --word_vectors=glove.txt --save_dir=tagger
    echo "Rockwell said it signed ." | python run_tag.py predict --model_dir=tagger
    python run_tag.py evaluate --model_dir=tagger --test=test.txt

The files are columns as in the CoNLL tasks: a token and its label in each line, separated by tabs or blanks, a blank line
between sentences. The labels are BIO, IOB1, BIOES or plain tags. The network is a bidirectional GRU or LSTM with a CRF. The
best epoch is that of the highest F1 (for plain tags: accuracy) on --dev; F1 is that of `conlleval`.
"""

import argparse
import contextlib
import itertools
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import args as arguments
import script
from args import FILE, RATE, SHARE
from elmo_core.machine import disk, messages, runtime
from elmo_core.machine.messages import UserError, log
from elmo_core.text.text_files import read_lines, stdin_lines
from elmo_core.weights import model_files
from elmo_tasks.classification.encoders import randomise
from elmo_tasks.elmo_input import LayerCache, Pretrained
from elmo_tasks.saved import check_model_folder
from elmo_tasks.tagging.columns import SEGMENTATION, read_columns
from elmo_tasks.tagging.data import Labels, Sentence
from elmo_tasks.tagging.network import CHOICES, Settings
from elmo_tasks.tagging.prediction import as_columns, as_json, tag_columns, tag_text
from elmo_tasks.tagging.scheme import SCHEMES, detect
from elmo_tasks.tagging.score import Score
from elmo_tasks.tagging.tagger import Tagger
from elmo_tasks.tagging.training import Schedule, known_words, train, training_words
from elmo_tasks.word_vectors import WordVectors

HELD_OUT = 0.1  # of the training sentences, where there is no --dev
COLUMN = {"type": int, "metavar": "N"}


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    add_train(commands.add_parser("train", help="train a tagger"))
    add_evaluate(commands.add_parser("evaluate", help="score a trained tagger on labelled sentences"))
    add_predict(commands.add_parser("predict", help="tag text"))
    args = parser.parse_args(argv)
    if args.command == "train":
        check_train(parser, args)
    return args


def add_train(parser: argparse.ArgumentParser) -> None:
    data = parser.add_argument_group("data")
    data.add_argument("--train", **FILE, required=True, help="sentences in columns, to train on")
    data.add_argument(
        "--dev", **FILE, help="the same, to choose the epoch on; without it a tenth of --train is held out"
    )
    data.add_argument("--test", **FILE, help="the same, to score the chosen epoch on")
    add_columns(data)
    data.add_argument("--feature_column", **COLUMN, help="of a feature to read beside the token, as its part of speech")
    data.add_argument("--scheme", choices=SCHEMES, help="what the labels mean (default: the labels themselves tell)")
    data.add_argument(
        "--segmentation",
        choices=SEGMENTATION,
        default="none",
        help="for characters that are followed by their place in their word, as 科0 技1: strip the place, or use it as a "
        "feature",
    )
    data.add_argument("--save_dir", type=Path, required=True, metavar="DIR", help="of the tagger")
    data.add_argument("--overwrite", action="store_true", help="replace a tagger in that folder")
    data.add_argument("--json", **FILE, help="write the scores as JSON")

    data.add_argument(
        "--words",
        choices=CHOICES["words"],
        default=Settings.words,
        help="what ELMo and --word_vectors read: the tokens; or, where these are characters, the words that jieba finds in "
        "them, so that each character gets its word's vectors",
    )

    elmo = parser.add_argument_group("ELMo")
    elmo.add_argument(
        "--init_from_ckpt",
        required=True,
        metavar="CKPT",
        help="prefix, file, folder (its latest) or name; none: no ELMo",
    )
    elmo.add_argument(
        "--layers",
        type=arguments.layers,
        metavar="L",
        help="concat: all of them side by side (default); or which are mixed: all, top, a number, or several as in 0,1",
    )
    elmo.add_argument(
        "--elmo_at",
        choices=("input", "output", "input,output"),
        metavar="PLACE",
        help="input, output, or input,output: where the network reads ELMo (default: input)",
    )
    elmo.add_argument("--elmo_trainable", action="store_true", help="fine-tune the biLM, too")
    elmo.add_argument(
        "--random_weights",
        choices=("all", "lstm"),
        help="replace the pretrained weights by random ones, to see what pretraining is worth: all, or only the LSTMs'",
    )
    elmo.add_argument("--elmo_dropout", **SHARE, help="dropout on its vectors (default: 0.5)")
    elmo.add_argument(
        "--elmo_l2_coef",
        type=arguments.zero_or_more,
        metavar="X",
        help="penalty on the weights of a mix (default: 0.001)",
    )
    elmo.add_argument(
        "--elmo_learning_rate", **RATE, help="of a biLM that is fine-tuned, times --base_learning_rate (default: 0.1)"
    )
    elmo.add_argument(
        "--cache_gb",
        **RATE,
        default=4.0,
        help="memory for the layers of a frozen ELMo, computed once; beyond it they are on the disk, in --save_dir",
    )

    network, default = parser.add_argument_group("network"), Settings()
    network.add_argument("--word_vectors", **FILE, help="word vectors, in word2vec's or GloVe's format")
    network.add_argument("--word_vectors_trainable", action="store_true", help="fine-tune them, too")
    network.add_argument("--limit", **arguments.COUNT, help="read only the first N words of --word_vectors")
    network.add_argument("--char_cnn", action="store_true", help="read words by their characters, too")
    network.add_argument("--cell", choices=("gru", "lstm"), default=default.cell, help="of the recurrent layers")
    for flag, field, kind, text in (
        ("--hidden_dim", "grnn_hidden_dim", arguments.COUNT, "size of a GRU or LSTM"),
        ("--n_layers", "bigru_num", arguments.COUNT, "bidirectional layers"),
        ("--word_dim", "word_emb_dim", arguments.COUNT, "size of the word vectors that are learnt"),
        ("--dropout", "dropout", SHARE, "dropout on the inputs and outputs of the layers"),
    ):
        network.add_argument(flag, dest=field, **kind, default=getattr(default, field), help=text)

    training = parser.add_argument_group("training")
    training.add_argument("--epochs", **arguments.COUNT, default=30, help="most epochs to train")
    training.add_argument(
        "--patience",
        type=arguments.whole_number,
        metavar="N",
        default=5,
        help="end after so many epochs without a better one; 0: never",
    )
    training.add_argument("--batch_size", **arguments.COUNT, default=Schedule.batch_size, help="sentences of a step")
    for name, source, text in (
        ("base_learning_rate", Schedule, "of Adam, falling towards a tenth"),
        ("emb_learning_rate", Settings, "of the word vectors that are learnt, times the base"),
        ("crf_learning_rate", Settings, "of the CRF, times the base"),
        ("max_grad_norm", Schedule, "gradients are scaled down to it"),
    ):
        training.add_argument(f"--{name}", **RATE, default=getattr(source, name), help=text)
    arguments.add_seed(training, default=Schedule.seed)
    arguments.add_device(training)


def add_columns(group) -> None:
    group.add_argument("--token_column", **COLUMN, default=0, help="of the tokens, from 0; from the end if negative")
    group.add_argument("--label_column", **COLUMN, default=-1, help="of the labels")


def add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model_dir", type=Path, required=True, metavar="DIR", help="a trained tagger")
    parser.add_argument("--init_from_ckpt", metavar="CKPT", help="ELMo, if it is not where it was in training")
    parser.add_argument("--word_vectors", **FILE, help="the word vectors, if they are not where they were in training")
    arguments.add_device(parser)


def add_evaluate(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--test", **FILE, required=True, help="sentences in columns")
    add_columns(parser)
    parser.add_argument("--json", **FILE, help="write the scores as JSON")


def add_predict(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--input", **FILE, help="text (default: standard input)")
    parser.add_argument("--output", **FILE, help="labels (default: standard output)")
    parser.add_argument(
        "--input_format",
        choices=("text", "characters", "columns"),
        default="text",
        help="a sentence a line, its tokens separated by white space, or each character a token; or columns",
    )
    parser.add_argument("--output_format", choices=("columns", "json"), default="columns", help="of the labels")
    parser.add_argument("--token_column", **COLUMN, default=0, help="of columns: that of the tokens")


OF_ELMO = {
    "layers": "concat",
    "elmo_at": Settings.elmo_at,
    "random_weights": "",
    "elmo_dropout": Settings.elmo_dropout,
}
OF_MIX = {"elmo_l2_coef": Settings.elmo_l2_coef}


def check_train(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Refuse flags that would have no effect, and what would only fail when training is done."""
    args.use_elmo = args.init_from_ckpt.lower() != "none"
    arguments.fill_defaults(parser, args, OF_ELMO, args.use_elmo, "ELMo: --init_from_ckpt is none")
    arguments.fill_defaults(parser, args, OF_MIX, args.layers != "concat", "a mix of layers, such as --layers=all")
    tuning = {"elmo_learning_rate": Settings.elmo_learning_rate}
    arguments.fill_defaults(parser, args, tuning, args.elmo_trainable, "--elmo_trainable")
    if args.elmo_trainable and not args.use_elmo:
        parser.error("--elmo_trainable has no effect without ELMo: --init_from_ckpt is none")
    if args.words != Settings.words and not (args.use_elmo or args.word_vectors):
        parser.error("--words has no effect without ELMo or --word_vectors")
    for name in ("limit", "word_vectors_trainable"):
        if getattr(args, name) and not args.word_vectors:
            parser.error(f"--{name} has no effect without --word_vectors")


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    runtime.set_device(args.device)
    {"train": train_tagger, "evaluate": evaluate, "predict": predict}[args.command](args)


def train_tagger(args: argparse.Namespace) -> None:
    files = [args.train, args.dev, args.test]
    check_model_folder("--save_dir", args.save_dir, "tagger", args.overwrite)
    if args.json:
        disk.check_output("--json", args.json, *files)
    how = args.token_column, args.label_column, args.segmentation, args.feature_column
    parts = [file and read_columns(file, *how) for file in files]
    if args.dev and args.test and args.dev.samefile(args.test):
        log.warning(f"{args.test} is --dev and --test: the test scores are those of sentences that were chosen on.")
    sentences, dev, test = parts if args.dev else [*split(parts[0], args.seed), parts[2]]
    scheme = args.scheme or detect(sentence.labels for sentence in parts[0])
    labels = Labels(sorted({label for sentence in sentences for label in sentence.labels}), args.train, scheme)
    if len(labels) < 2:
        raise UserError(f"--train has a single label, {labels.names[0]}: more sentences, or another --label_column?")
    warn_of_labels(labels, {"dev": dev, "test": test or []})
    warn_of_scheme(labels, sentences)
    script.seed_everything(args.seed)
    pretrained = Pretrained.of(model_files.resolve(args.init_from_ckpt)) if args.use_elmo else None
    vectors = WordVectors(args.word_vectors, args.limit) if args.word_vectors else None
    if vectors:
        vectors.describe([sentence.tokens for sentence in sentences], args.words)
    features = sorted({t.feature for s in sentences for t in s.tokens}) if args.feature_column is not None else ()
    tagger = Tagger(
        settings_of(args), training_words(sentences), labels, pretrained, vectors=vectors, features=features
    )
    tagger.segmentation, tagger.feature_column = args.segmentation, args.feature_column
    log.info(
        f"{len(sentences):,} sentences to train on, {len(dev):,} to choose the epoch on; {len(labels)} labels, "
        f"scheme {scheme}."
    )
    if args.use_elmo:
        encoder = tagger.network.encoder
        if args.random_weights:
            randomise(encoder.elmo.bilm, args.random_weights, args.seed)
        if not args.elmo_trainable:
            args.save_dir.mkdir(parents=True, exist_ok=True)
            tokens = [sentence.tokens for sentence in itertools.chain(sentences, dev, test or [])]
            encoder.cache = LayerCache(encoder, tokens, args.cache_gb, args.save_dir)

    schedule = arguments.from_flags(Schedule, args)
    best = train(tagger, sentences, dev, schedule, args.save_dir)

    results = {"epoch": best.epoch, "seconds": best.seconds, "seed": args.seed, "dev": best.score.figures()}
    report(f"dev, epoch {best.epoch}", best.score)
    for number, where in enumerate(tagger.network.elmo_at if args.layers != "concat" else ()):
        results[f"mix_at_{where}"] = mix = tagger.network.encoder.mix(number)
        print(
            f"ELMo's layers at the {where} "
            + " ".join(f"{x:.2f}" for x in mix["layers"])
            + f", times {mix['gamma']:.2f}"
        )
    if test:
        score = tagger.score(test, known_words(sentences, scheme))
        results["test"] = score.figures()
        report("test", score)
    print(f"saved in {args.save_dir}")
    write_json(args.json, results)


def settings_of(args: argparse.Namespace) -> Settings:
    args.place_dim = 16 if args.segmentation == "feature" else 0
    return arguments.from_flags(Settings, args)


def split(sentences: list[Sentence], seed: int) -> tuple[list[Sentence], list[Sentence]]:
    """Those to train on, and those that are held out."""
    if len(sentences) < 2:
        raise UserError("--train has a single sentence: give --dev, or more sentences.")
    order = np.random.default_rng(seed).permutation(len(sentences))
    n = max(1, round(len(order) * HELD_OUT))
    return [sentences[k] for k in order[n:]], [sentences[k] for k in order[:n]]


def warn_of_labels(labels: Labels, parts: dict[str, list[Sentence]]) -> None:
    for name, sentences in parts.items():
        unknown = {label for sentence in sentences for label in sentence.labels} - labels.index.keys()
        if unknown:
            log.warning(
                f"the {name} sentences have labels that the training sentences lack, and that cannot be predicted: "
                f"{messages.listed(sorted(unknown))}."
            )


def warn_of_scheme(labels: Labels, sentences: list[Sentence]) -> None:
    table, last = labels.impossible()
    numbers = [[labels.index[label] for label in sentence.labels] for sentence in sentences]
    broken = sum(bool(table[[-1, *row[:-1]], row].any() or last[row[-1]]) for row in numbers)
    if broken:
        log.warning(
            f"{broken:,} of {len(sentences):,} training sentences break the rules of the scheme {labels.scheme}, as "
            "predictions never do: are there mistakes in the labels, or is it the wrong --scheme?"
        )


def evaluate(args: argparse.Namespace) -> None:
    if args.json:
        disk.check_output("--json", args.json, args.test)
    tagger = load(args)
    how = args.token_column, args.label_column, tagger.segmentation, tagger.feature_column
    sentences = read_columns(args.test, *how)
    warn_of_labels(tagger.labels, {"test": sentences})
    # in LAC's scheme a word is put together from tokens, and the tagger has the tokens only
    score = tagger.score(sentences, None if tagger.labels.scheme == "lac" else set(tagger.words.tokens))
    report("test", score)
    write_json(args.json, {"test": score.figures()})


def predict(args: argparse.Namespace) -> None:
    tagger = load(args)
    with contextlib.ExitStack() as files:
        if args.input:
            disk.check_input(args.input, "text", "--input")
            lines, source = read_lines(args.input), args.input
        else:
            lines, source = stdin_lines(), "standard input"
        if args.output:
            disk.check_output("--output", args.output, args.input)
            target = files.enter_context(disk.atomic_write(args.output))
        else:
            target = sys.stdout
            target.reconfigure(encoding="utf-8")
        if args.input_format == "columns":
            found = tag_columns(tagger, lines, source, args.token_column)
        else:
            found = tag_text(tagger, lines, source, args.input_format == "characters")
        for sentence, beginnings in found:
            if args.output_format == "json":
                target.write(as_json(sentence, tagger.labels.scheme))
            else:
                target.write(as_columns(sentence, beginnings))


def load(args: argparse.Namespace) -> Tagger:
    return Tagger.load(args.model_dir, args.init_from_ckpt, args.word_vectors)


def report(name: str, score: Score) -> None:
    print(f"== {name}: {'' if score.scheme == 'plain' else f'F1 {score.total.f1:.2%}, '}accuracy {score.accuracy:.2%}")
    print(score.table())


def write_json(path: Path | None, values: dict) -> None:
    if path:
        with disk.atomic_write(path) as file:
            file.write(json.dumps(values, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    script.run(main)
