"""Train and use a sequence tagger on your own files: chunks, named entities, parts of speech, words; ELMo is optional.

    python run_tag.py train --train_file=train.txt --dev_file=dev.txt --init_from_ckpt=checkpoints --save_dir=tagger
    python run_tag.py train --train_file=train.txt --init_from_ckpt=none --word_vectors=glove.txt --save_dir=tagger
    echo "Rockwell said it signed ." | python run_tag.py predict --model_dir=tagger
    python run_tag.py evaluate --model_dir=tagger --test_file=test.txt

Files have columns, as in the CoNLL tasks: a token and its label per line, separated by tabs or spaces, a blank line between
sentences; or TSV, JSON, or lines of `word/TAG`. `predict` also reads plain text. The labels are BIO, IOB1, BIOES, plain
tags or LAC's. The network is a bidirectional GRU or LSTM with a CRF. The epoch with the highest F1 (plain tags: accuracy)
on --dev_file is saved. F1 is that of `conlleval`.
"""

import argparse
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

import args as arguments
import script
import task_flags
from args import FILE
from elmo_core.files import checkpoint
from elmo_core.machine import disk, runtime
from elmo_core.machine.messages import UserError, format_count, join_names, log
from elmo_core.text.language import AUTO
from elmo_core.text.text_files import line_groups, read_lines, write_table
from elmo_core.text.tokens import Vocabulary
from elmo_core.weights import model_files
from elmo_tasks.characters import jieba_words
from elmo_tasks.pretrained import PretrainedBiLM, randomise
from elmo_tasks.saved import check_model_folder
from elmo_tasks.tagging.data import Labels, Sentence, detect_language
from elmo_tasks.tagging.formats import FORMATS, SentenceReader
from elmo_tasks.tagging.network import TaggerSettings
from elmo_tasks.tagging.pieces import PieceSplitter
from elmo_tasks.tagging.prediction import INPUT_FORMATS, TEXT, tag
from elmo_tasks.tagging.scheme import SCHEMES, detect_scheme, forbidden_transitions, split_lac_label
from elmo_tasks.tagging.score import Score
from elmo_tasks.tagging.tagger import Tagger
from elmo_tasks.tagging.text import LANGUAGES
from elmo_tasks.tagging.training import known_words, train
from elmo_tasks.training import TrainingSettings, hold_out, report, training_words
from elmo_tasks.word_vectors import WordVectors
from task_flags import field_defaults


def column(text: str) -> int | str:
    return int(text) if re.fullmatch(r"-?\d+", text, re.ASCII) else text


COLUMN = {"type": column, "metavar": "COLUMN"}
ELMO_DEFAULTS = field_defaults(TaggerSettings, "elmo_dropout", "elmo_l2_coef")
ELMO_DEFAULTS |= {"elmo_lr": TrainingSettings.elmo_lr, "cache_gb": 4.0}
NETWORK_DEFAULTS = field_defaults(TaggerSettings, "word_dim", "hidden_dim", "n_layers", "dropout")
TRAINING_DEFAULTS = field_defaults(TrainingSettings, "epochs", "patience", "batch_size", "lr", "max_grad_norm")
TRAINING_DEFAULTS |= field_defaults(TaggerSettings, "emb_lr_factor", "crf_lr_factor")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    add_train(commands.add_parser("train", help="train a tagger"))
    add_evaluate(commands.add_parser("evaluate", help="score a trained tagger on labelled sentences"))
    add_predict(commands.add_parser("predict", help="tag text"))
    args = parser.parse_args(argv)
    if args.command == "train":
        check_train(commands.choices["train"], args)
    if args.command == "predict" and args.lang and args.data_format not in (None, TEXT):
        commands.choices["predict"].error(f"--lang has no effect with --data_format={args.data_format}")
    return args


def add_train(parser: argparse.ArgumentParser) -> None:
    data = task_flags.add_data(parser, "labelled sentences")
    add_format(data)
    data.add_argument("--pieces", **FILE, help="vocabulary whose entries the words of `word/TAG` are split into")
    data.add_argument(
        "--feature_column", type=int, metavar="N", help="column of a further input, such as the part of speech"
    )
    data.add_argument("--scheme", choices=SCHEMES, help="scheme of the labels (default: detected)")
    add_choice(data, "segmentation", "of characters with their position in the word (科0 技1): strip it, or embed it")
    add_choice(data, "words", "what ELMo and --word_vectors read: the tokens, or jieba's words in characters")
    task_flags.add_language(data, AUTO, "how `predict` tokenises text", (AUTO, *LANGUAGES))
    task_flags.add_save(data, "tagger")
    task_flags.add_resume(data)
    task_flags.add_json(data)
    elmo = task_flags.add_elmo(parser, ELMO_DEFAULTS)
    text = f"where the network reads ELMo: input, output, or input,output (default: {TaggerSettings.elmo_at})"
    add_choice(elmo, "elmo_at", text, default=None, metavar="WHERE")
    task_flags.add_word_vectors(parser)
    network = parser.add_argument_group("network")
    network.add_argument("--char_cnn", action="store_true", help="add a character CNN, trained with the tagger")
    add_choice(network, "cell", "type of the recurrent layers")
    task_flags.add_numbers(network, NETWORK_DEFAULTS)
    task_flags.add_training(parser, TRAINING_DEFAULTS)


def add_choice(group, name: str, help: str, **options) -> None:
    options = {"default": getattr(TaggerSettings, name), **options}
    group.add_argument(f"--{name}", choices=TaggerSettings.choices[name], help=help, **options)


def add_format(group) -> None:
    text = "columns; tsv: tokens, a tab, labels; tagged: word/TAG; json: objects with tokens (default: recognised)"
    group.add_argument("--data_format", choices=FORMATS, help=text)
    text = "column of the tokens, from 0; -1 is the last; or a key of JSON"
    group.add_argument("--token_column", **COLUMN, default=0, help=text)
    group.add_argument("--label_column", **COLUMN, default=-1, help="column or key of the labels")
    group.add_argument("--label_names", **FILE, help="names of labels that are numbers in JSON, one per line")


def add_evaluate(parser: argparse.ArgumentParser) -> None:
    task_flags.add_saved_model(parser, "tagger")
    task_flags.add_test(parser, "labelled sentences")
    add_format(parser)
    task_flags.add_mistakes(parser)
    task_flags.add_json(parser)


def add_predict(parser: argparse.ArgumentParser) -> None:
    task_flags.add_saved_model(parser, "tagger")
    task_flags.add_input(parser)
    task_flags.add_output(parser, ("columns", "json", "tagged"))
    help = "text: a sentence per line; the others are those of `evaluate` (default: recognised)"
    parser.add_argument("--data_format", choices=INPUT_FORMATS, help=help)
    task_flags.add_language(parser, None, "tokenise text as (default: as in training)", LANGUAGES)
    parser.add_argument("--token_column", **COLUMN, default=0, help="column or key of the tokens")


def check_train(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Set defaults. Raise on flags without effect."""
    task_flags.check_elmo(parser, args, {**ELMO_DEFAULTS, "elmo_at": TaggerSettings.elmo_at})
    task_flags.check_word_vectors(parser, args)
    if args.words != TaggerSettings.words and not (args.init_from_ckpt or args.word_vectors):
        parser.error("--words has no effect without ELMo or --word_vectors")
    for name, default in (("feature_column", None), ("segmentation", TaggerSettings.segmentation)):
        if args.data_format == "tagged" and getattr(args, name) != default:
            parser.error(f"--{name} has no effect with --data_format=tagged")


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    runtime.set_device(args.device)
    {"train": train_tagger, "evaluate": evaluate, "predict": predict}[args.command](args)


def train_tagger(args: argparse.Namespace) -> None:
    files = [args.train_file, args.dev_file, args.test_file]
    check_model_folder(args.save_dir, "tagger", args.overwrite, args.resume)
    disk.check_output("--json", args.json, *files)
    if args.dev_file and args.test_file and args.dev_file.samefile(args.test_file):
        log.warning(f"{args.test_file} is both --dev_file and --test_file: the test scores will be optimistic.")
    pieces = Vocabulary.from_file(args.pieces) if args.pieces else None
    words = model_files.vocabulary_words(args.init_from_ckpt)
    splitter = PieceSplitter(pieces.words if pieces else words, whole=pieces is None)
    reader = sentence_reader(args, splitter, args.segmentation, args.feature_column)
    labelled, dev, test = (file and reader.read(file) for file in files)
    is_tagged = reader.format_of(args.train_file) == "tagged"
    scheme = args.scheme or ("lac" if is_tagged else detect_scheme(s.labels for s in labelled))
    args.lang = detect_language((s.tokens for s in labelled), args.segmentation, words, args.lang)
    sentences, dev = (labelled, dev) if dev else hold_out(labelled, args.seed)
    tagger = build_tagger(args, sentences, scheme, pieces)
    warn_about_labels(tagger, sentences, {"dev set": dev, "test set": test or []})
    log.info(
        f"{len(sentences):,} training and {format_count(len(dev), 'dev sentences')}, {len(tagger.labels)} labels, scheme "
        f"{scheme}; `predict` tokenises text with --lang={args.lang}"
    )
    if args.init_from_ckpt and not args.elmo_trainable:
        args.save_dir.mkdir(parents=True, exist_ok=True)
        texts = [sentence.tokens for sentence in itertools.chain(sentences, dev, test or [])]
        texts = jieba_words(texts)[0] if args.words == "jieba" else texts
        tagger.network.elmo.cache(texts, args.cache_gb, args.save_dir)

    best = train(tagger, sentences, dev, arguments.from_flags(TrainingSettings, args), args.save_dir, args.resume)

    scored = tagger.score(test, known_words(sentences, scheme)) if test else None
    results = report(tagger, best, scored, args.seed, show)
    print(f"saved in {args.save_dir}")
    script.write_json(args.json, results)


def sentence_reader(
    args: argparse.Namespace, splitter: PieceSplitter, segmentation: str, feature: int | None
) -> SentenceReader:
    """A reader of the format given with the flags of `add_format`."""
    names = list(read_lines(args.label_names)) if args.label_names else []
    return SentenceReader(
        args.data_format, args.token_column, args.label_column, segmentation, feature, names, splitter
    )


def build_tagger(
    args: argparse.Namespace, sentences: Sequence[Sentence], scheme: str, pieces: Vocabulary | None
) -> Tagger:
    """Build a tagger, with untrained weights, for training sentences."""
    labels = Labels(sorted({label for sentence in sentences for label in sentence.labels}))
    if len(labels) < 2:
        raise UserError(f"--train_file has only one label, {labels.names[0]}. Is --label_column right?")
    script.seed_everything(args.seed)
    words = training_words(token for sentence in sentences for token in sentence.tokens)
    pretrained = PretrainedBiLM.from_path(args.init_from_ckpt) if args.init_from_ckpt else None
    if scheme == "lac" and pieces is None and any(split_lac_label(name)[1] for name in labels.names):
        vocabulary = Path(pretrained.prefix).parent / checkpoint.VOCABULARY if pretrained else None
        pieces = Vocabulary.from_file(vocabulary) if vocabulary and vocabulary.is_file() else words
    vectors = WordVectors(args.word_vectors, args.word_vectors_limit) if args.word_vectors else None
    if vectors:
        vectors.log_coverage([sentence.tokens for sentence in sentences], args.words)
    features = sorted({t.feature for s in sentences for t in s.tokens}) if args.feature_column is not None else ()
    settings = arguments.from_flags(TaggerSettings, args, scheme=scheme)
    tagger = Tagger.create(settings, words, labels, pretrained, pieces, vectors, features, args.feature_column)
    if settings.random_weights:
        randomise(tagger.network.elmo.bilm, settings.random_weights, args.seed)
    return tagger


def warn_about_labels(tagger: Tagger, sentences: Sequence[Sentence], others: Mapping[str, Sequence[Sentence]]) -> None:
    """Warn about labels that break the scheme or cannot be predicted. sentences: to train on; others: to score, by name."""
    labels, scheme = tagger.labels, tagger.settings.scheme
    for name, scored in others.items():
        if unknown := {label for sentence in scored for label in sentence.labels} - labels.index.keys():
            log.warning(
                f"{name}: labels that do not occur in the training sentences, and cannot be predicted: "
                f"{join_names(sorted(unknown))}."
            )
    table, last = forbidden_transitions(labels.names, scheme)
    broken = []
    for sentence in sentences:
        row = [labels.index[label] for label in sentence.labels]
        faults = np.flatnonzero([*table[[-1, *row[:-1]], row], last[row[-1]]])
        if len(faults):
            before, label = ["the beginning", *sentence.labels, "the end"][faults[0] :][:2]
            broken.append(f"{label} after {before} in the sentence at {sentence.where}")
    if broken:
        log.warning(
            f"{len(broken):,} of {format_count(len(sentences), 'training sentences')} break the rules of the scheme "
            f"{scheme}, which predictions never do: are there mistakes in the labels, or is --scheme wrong? The first: "
            f"{broken[0]}."
        )


def evaluate(args: argparse.Namespace) -> None:
    disk.check_output("--json", args.json, args.test_file)
    disk.check_output("--mistakes", args.mistakes, args.test_file)
    tagger = Tagger(args.model_dir, args.device)
    reader = sentence_reader(args, tagger.piece_splitter, tagger.settings.segmentation, tagger.feature_column)
    sentences = reader.read(args.test_file)
    warn_about_labels(tagger, [], {str(args.test_file): sentences})
    # in LAC's scheme words are joined from tokens, and the tagger knows only these
    known = None if tagger.settings.scheme == "lac" else set(tagger.words.tokens)
    predicted = tagger.predict([sentence.tokens for sentence in sentences])
    score = tagger.score(sentences, known, predicted)
    if args.mistakes:
        pairs = zip(sentences, predicted, strict=True)
        mistakes = [(sentence, labels) for sentence, labels in pairs if sentence.labels != labels]
        rows = (row for sentence, labels in mistakes for row in mistake_rows(sentence, labels))
        write_table(args.mistakes, rows)
    show(str(args.test_file), score)
    script.write_json(args.json, {"test": score.to_dict()})


def mistake_rows(sentence: Sentence, predicted: Sequence[str]) -> Iterator[Sequence[str]]:
    """A sentence's file and line as a comment, then token, label and predicted label in columns."""
    yield (f"# source = {sentence.where}",)
    yield from zip(sentence.tokens, sentence.labels, predicted, strict=True)
    yield ()


def predict(args: argparse.Namespace) -> None:
    tagger = Tagger(args.model_dir, args.device)
    if args.output_format == "tagged" and tagger.settings.scheme != "lac":
        raise UserError(f"--output_format=tagged requires LAC's scheme; this tagger's is {tagger.settings.scheme}.")
    if args.input:
        disk.check_input(args.input, "text", "--input")
    how = {"segmentation": tagger.settings.segmentation, "pieces": tagger.piece_splitter}
    reader = SentenceReader(args.data_format, args.token_column, **how)
    source, groups = args.input or "standard input", line_groups(args.input)
    with script.output(args.output, args.input) as target:
        for text in tag(tagger, groups, source, reader, args.lang or "", args.output_format):
            target.write(text)
            target.flush()


def show(name: str, score: Score) -> None:
    print(f"== {name}: {'' if score.scheme == 'plain' else f'F1 {score.total.f1:.2%}, '}accuracy {score.accuracy:.2%}")
    print(score.table())


if __name__ == "__main__":
    script.run(main)
