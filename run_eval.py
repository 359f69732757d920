"""Evaluate a language model: perplexity, surprisal, minimal pairs, experiments.

    python run_eval.py --init_from_ckpt=checkpoints/10000 --dev_data_path='corpus/dev/*'
    python run_eval.py --init_from_ckpt=en --lang=en --dev_data_path=text.txt --per_token=words.tsv
    python run_eval.py --init_from_ckpt=en --lang=en --pairs=blimp.jsonl --groups field UID
    python run_eval.py --init_from_ckpt=en --lang=en --regions=items.tsv --output=surprisal.tsv
    python run_eval.py --init_from_ckpt=en --lang=en --suite 'suites/*.json'
    python -m paddle.distributed.launch --gpus '0,1' run_eval.py ...      (processes share the rows)

The perplexity is that of the whole text, with the LSTM state carried from sentence to sentence as
in training. All other scores are of sentences by themselves, unless --context=carry.
"""

import argparse
import contextlib
import csv
import math
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, tee
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from tqdm import tqdm

import args as arguments
import script
from elmo_core import messages
from elmo_core.display.terminal import display_width, pad
from elmo_core.encoding.surprisal import (
    CONTEXTS,
    UNITS,
    VOCABULARIES,
    Comparison,
    Surprisals,
    TokenSurprisal,
    difference,
)
from elmo_core.files import disk
from elmo_core.machine import runtime
from elmo_core.messages import UserError, format_count
from elmo_core.text import language
from elmo_core.text.corpus import Corpus, Counts
from elmo_core.text.lexicon import LMBatch
from elmo_core.text.offsets import token_offsets
from elmo_core.text.text_files import read_lines
from elmo_core.text.tokenise import Tokeniser
from elmo_core.text.vocabulary import Vocabulary
from elmo_core.weights import model_files
from elmo_tools.experiments.pairs import (
    Pair,
    preferences,
    read_pairs,
    score_columns,
    score_name,
)
from elmo_tools.experiments.regions import Baselines, read_items, region_rows
from elmo_tools.experiments.suites import (
    COLUMNS,
    Suite,
    outcomes,
    read_suites,
    suite_files,
    summary,
    tokenise_suite,
)
from elmo_tools.pretraining import streams

if TYPE_CHECKING:  # --help does not wait for Paddle
    import elmo
    from elmo_core.training.ranks import Ranks
    from elmo_tools.pretraining.perplexity import Score
    from elmo_tools.pretraining.spelling import Spelling

USED_WITH = {  # flags that need one of others
    "per_token": ["dev_data_path"],
    "per_sentence": ["dev_data_path"],
    "vocabulary": ["per_token", "per_sentence", "pairs", "regions", "suite"],
    "unit": ["per_token", "per_sentence", "pairs", "regions", "suite"],
    "context": ["per_token", "per_sentence", "pairs", "regions", "suite"],
    "lang": ["per_token", "per_sentence", "pairs", "regions", "suite"],
    "user_dict": ["lang"],
    "groups": ["pairs"],
    "length_power": ["pairs"],
    "baselines": ["regions"],
    "output": ["pairs", "regions", "suite"],
}


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    arguments.add(parser, "init_from_ckpt", required=True)
    text = parser.add_mutually_exclusive_group(required=True)
    arguments.add(text, "dev_data_path")
    text.add_argument(
        "--pairs",
        **arguments.FILE,
        help="minimal pairs: JSON lines with sentence_good and sentence_bad, or two columns",
    )
    text.add_argument(
        "--regions",
        **arguments.FILE,
        help="sentences in numbered regions: a TSV of item, condition, region, words",
    )
    text.add_argument(
        "--suite",
        nargs="+",
        metavar="FILE",
        help="test suites in SyntaxGym's JSON, whose predictions are checked: files, folders or "
        "quoted globs",
    )
    arguments.add(parser, "vocab_file", "batch_size", "unroll_steps", "device")
    add_surprisal(parser.add_argument_group("surprisal"))
    add_words(parser.add_argument_group("words and sentences"))
    add_experiments(parser.add_argument_group("experiments"))
    args = parser.parse_args(argv)
    given = {name for name, value in vars(args).items() if value != parser.get_default(name)}
    for name, others in USED_WITH.items():
        if name in given and not given.intersection(others):
            parser.error(f"--{name} has no effect without --{' or --'.join(others)}")
    if args.context == "carry" and not args.dev_data_path:
        parser.error("--context=carry has no effect without --per_token or --per_sentence")
    return args


def add_surprisal(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--vocabulary",
        choices=VOCABULARIES,
        help="open: unknown words are spelled, and each has a probability of its own; closed: they "
        "have that of <UNK> (default: open if the model has a speller)",
    )
    group.add_argument(
        "--unit", choices=tuple(UNITS), default="bits", help="of surprisal and entropy"
    )
    group.add_argument(
        "--context",
        choices=CONTEXTS,
        default="sentence",
        help="what precedes a sentence: the state that the model has at the start of sentences; a "
        "state of zeros; or, for --dev_data_path, all sentences before it",
    )


def add_words(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--per_token",
        **arguments.FILE,
        help="TSV of each token's surprisal, entropy and rank, forward and backward",
    )
    group.add_argument(
        "--per_sentence",
        **arguments.FILE,
        help="TSV of each sentence's surprisal, forward and backward, and of their mean",
    )
    group.add_argument(
        "--lang",
        choices=language.CHOICES,
        help="language of raw text, which is split into sentences and tokens "
        "(default: none, a tokenised sentence per line)",
    )
    group.add_argument("--user_dict", **arguments.FILE, help="words for jieba, with --lang=zh")


def add_experiments(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--groups",
        nargs="+",
        default=(),
        metavar="FIELD",
        help="fields of --pairs by whose values the pairs are counted, too",
    )
    group.add_argument(
        "--length_power",
        type=arguments.length_power,
        nargs="+",
        default=(0,),
        metavar="POWER",
        help="scores of --pairs: sums of surprisal, divided by a power of the number of words: "
        "0 for the sum, 1 for the mean per word",
    )
    group.add_argument(
        "--baselines",
        metavar="PATH",
        help="for --regions: word frequencies and Kneser-Ney 5-grams of this text, "
        "a tokenised sentence per line",
    )
    group.add_argument(
        "--output",
        **arguments.FILE,
        help="TSV of the pairs' differences in surprisal, of the regions, or of the suites' items "
        "(default: regions are printed)",
    )


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)

    # a mistake in the flags does not wait for Paddle
    import elmo
    from elmo_core.training.ranks import Ranks
    from elmo_tools.pretraining.model import check_vocabulary

    runtime.set_device(args.device)
    ranks = Ranks()
    corpus = Corpus(args.dev_data_path) if args.dev_data_path else None
    baselines = Corpus(args.baselines) if args.baselines else None
    suites = read_suites(suite_files(args.suite)) if args.suite else []
    is_perplexity = corpus is not None and not (args.per_token or args.per_sentence)
    if ranks.size > 1 and not is_perplexity:
        raise UserError(
            f"{ranks.size} processes: several compute only the perplexity. Start a single one."
        )
    check_files(args, corpus=corpus, baselines=baselines, suites=suites)
    bilm, vocabulary = elmo.load_bilm(args.init_from_ckpt, softmax=True)
    if args.vocab_file:
        check_vocabulary(
            args.vocab_file,
            Vocabulary.from_file(args.vocab_file),
            source=args.init_from_ckpt,
            expected=vocabulary,
        )
    if is_perplexity:
        print_perplexity(args, ranks=ranks, corpus=corpus, bilm=bilm, vocabulary=vocabulary)
        return
    embedder = elmo.ELMoEmbedder(
        (bilm, vocabulary),
        batch_size=args.batch_size,
        device=args.device,
    )
    if corpus:
        write_surprisal(args, corpus, embedder)
    elif args.pairs:
        write_pairs(args, embedder)
    elif suites:
        write_suites(args, suites, embedder)
    else:
        write_regions(args, embedder, baselines)


def check_files(
    args: argparse.Namespace,
    corpus: Corpus | None,
    baselines: Corpus | None,
    suites: Sequence[Suite],
) -> None:
    """Raise if sentences cannot be read, or a file cannot be written or would replace another."""
    for path in (args.pairs, args.regions):
        if path:
            disk.check_input(path, "sentences")
    used = [args.pairs, args.regions, args.vocab_file, args.user_dict]
    used += [suite.path for suite in suites]
    for texts in (corpus, baselines):
        if texts:
            used += texts.paths
    used += model_files.resolve_name(args.init_from_ckpt).iterdir()
    for name in ("per_token", "per_sentence", "output"):
        path = getattr(args, name)
        disk.check_output(f"--{name}", path, *used)
        used.append(path)


def print_perplexity(
    args: argparse.Namespace,
    ranks: "Ranks",
    corpus: Corpus,
    bilm: "elmo.BiLM",
    vocabulary: Vocabulary,
) -> None:
    # these import Paddle
    from elmo_tools.pretraining.perplexity import evaluate
    from elmo_tools.pretraining.spelling import Spelling

    start = time.perf_counter()
    counts = ranks.run_on_main(lambda: corpus.count(vocabulary))
    stream = streams.EvalStream(
        corpus,
        vocabulary,
        batch_size=args.batch_size,
        unroll_steps=args.unroll_steps,
        input=bilm.config.input,
    )
    # None: shown on a terminal only
    is_hidden = None if ranks.is_main else True
    with tqdm(
        total=counts.predictions,
        unit=" predictions",
        unit_scale=True,
        disable=is_hidden,
        leave=False,
    ) as bar:
        score = evaluate(bilm, with_progress(stream, bar), ranks)
    if ranks.is_main:
        spelling = Spelling(vocabulary).add_all(corpus.sentences())
        seconds = time.perf_counter() - start
        print_score(counts, score=score, spelling=spelling, seconds=seconds)


def with_progress(batches: Iterable[LMBatch], bar: tqdm) -> Iterator[LMBatch]:
    """Yield the batches, advancing the bar after each by its predictions."""
    for batch in batches:
        yield batch
        if batch.scored:
            bar.update(int(batch.lengths.sum()))


def print_score(counts: Counts, score: "Score", spelling: "Spelling", seconds: float) -> None:
    """Print the perplexity. score: in a closed vocabulary."""
    vocabulary = spelling.vocabulary
    tokens = format_count(counts.tokens, "tokens")
    sentences = format_count(counts.sentences, "sentences")
    unknown = (
        f"{counts.unknown_share:.2%} of them outside the vocabulary of {len(vocabulary):,} words"
    )
    duration = messages.format_duration(seconds)
    print(f"text                           {tokens} in {sentences}; {unknown}")
    print(f"predictions in each direction  {score.predictions:,} in {duration}")
    print(f"perplexity, forward            {score.forward:.3f}")
    print(f"perplexity, backward           {score.backward:.3f}")
    print(f"perplexity, mean of the two    {score.mean:.3f}")
    if vocabulary.has_speller:
        with_spelling = spelling.open_score(score)
        print_open("forward", with_spelling.forward, with_spelling.forward_sum, spelling)
        print_open("backward", with_spelling.backward, with_spelling.backward_sum, spelling)


def print_open(
    direction: str, perplexity: float, log_probability: float, spelling: "Spelling"
) -> None:
    """Print a perplexity in an open vocabulary, and how many bits the text takes."""
    per_character = spelling.bits_per_character(log_probability)
    per_byte = spelling.bits_per_byte(log_probability)
    label = f"open perplexity, {direction}"
    print(
        f"{label:31}{perplexity:.3f}; "
        f"{per_character:.4f} bits per character, {per_byte:.4f} per byte"
    )


def scoring(args: argparse.Namespace) -> dict[str, str | None]:
    """How the embedder is to compute surprisal."""
    return {"vocabulary": args.vocabulary, "unit": args.unit, "context": args.context}


def is_open(args: argparse.Namespace, embedder: "elmo.ELMoEmbedder") -> bool:
    """Whether unknown words are spelled."""
    return embedder.vocabulary.has_speller and args.vocabulary != "closed"


def text_tokeniser(
    args: argparse.Namespace, lines: Iterable[str], embedder: "elmo.ELMoEmbedder"
) -> Tokeniser:
    """The tokeniser of a text; without --lang, one that splits at spaces."""
    return language.make_tokeniser(
        args.lang or "none", lines, words=embedder.words, user_dict=args.user_dict
    )


def item_tokeniser(
    args: argparse.Namespace, path: Path, sentences: Sequence[str], embedder: "elmo.ELMoEmbedder"
) -> Tokeniser:
    """The tokeniser of an experiment's sentences.

    Raises if they seem to be raw, and no --lang says what they are.
    """
    if args.lang is None and language.is_raw(sentences):
        raise UserError(
            f"{path}: {sentences[0]!r:.60} and others seem not to be tokenised. "
            f"Give their language, for instance --lang=en, or --lang=none if they are."
        )
    return text_tokeniser(args, sentences, embedder)


class Sentence(NamedTuple):
    """A sentence of a text. offsets: begin and end of each token in the line."""

    line: int
    tokens: list[str]
    offsets: list[list[int]]


def write_surprisal(
    args: argparse.Namespace, corpus: Corpus, embedder: "elmo.ELMoEmbedder"
) -> None:
    """Write --per_token and --per_sentence, and print the perplexity."""
    # these import Paddle
    from elmo_tools.pretraining.perplexity import Score
    from elmo_tools.pretraining.spelling import Spelling

    start = time.perf_counter()
    counts = Counts()
    score = Score()
    spelling = Spelling(embedder.vocabulary)
    tokeniser = text_tokeniser(args, lines_of(corpus), embedder)
    sentences, to_score = tee(split_sentences(corpus, tokeniser, counts))
    scored = embedder.iter_surprisal((sentence.tokens for sentence in to_score), **scoring(args))
    pairs = zip(sentences, scored, strict=True)
    progress = tqdm(pairs, unit=" sentences", disable=None, leave=False)
    nats_per_unit = UNITS[args.unit]
    with table_file(args.per_token) as tokens, table_file(args.per_sentence) as scores:
        tokens.writerow(["line", "sentence", "position", "begin", "end", *TokenSurprisal._fields])
        scores.writerow(["line", "sentence", "forward", "backward", "mean"])
        for number, (sentence, records) in enumerate(progress):
            tokens.writerows(token_rows(sentence, number, records))
            forward, backward = records.total()
            mean = (forward + backward) / 2
            scores.writerow(
                [sentence.line, number, f"{forward:.6f}", f"{backward:.6f}", f"{mean:.6f}"]
            )
            score += Score(-forward * nats_per_unit, -backward * nats_per_unit, len(records))
            spelling.add(sentence.tokens)
            n_unknown = sum(not record.in_vocabulary for record in records)
            counts.add_sentence(len(sentence.tokens), n_unknown)
        corpus.check(args.dev_data_path, counts)
    if is_open(args, embedder):
        score = spelling.closed_score(score)
    seconds = time.perf_counter() - start
    print_score(counts, score=score, spelling=spelling, seconds=seconds)


def lines_of(corpus: Corpus) -> Iterator[str]:
    for path in corpus.paths:
        yield from read_lines(path)


def split_sentences(corpus: Corpus, tokeniser: Tokeniser, counts: Counts) -> Iterator[Sentence]:
    """Yield the sentences of raw text, and count the blank lines."""
    for number, line in enumerate(lines_of(corpus)):
        sentences = tokeniser.sentences(line)
        if not sentences:
            counts.blank_lines += 1
        tokens_of_line = list(chain.from_iterable(sentences))
        offsets = iter(token_offsets(tokens_of_line, line).tolist())
        for tokens in sentences:
            yield Sentence(number, tokens, list(islice(offsets, len(tokens))))


def token_rows(sentence: Sentence, number: int, records: Surprisals) -> Iterator[list[Any]]:
    """The rows of --per_token of a sentence: its tokens, then its end."""
    _, end_of_sentence = sentence.offsets[-1]
    offsets = [*sentence.offsets, [end_of_sentence, end_of_sentence]]
    for position, (record, (begin, end)) in enumerate(zip(records, offsets, strict=True)):
        values = [f"{x:.6f}" if isinstance(x, float) else x for x in record[:-1]]
        yield [sentence.line, number, position, begin, end, *values, int(record.in_vocabulary)]


@contextlib.contextmanager
def table_file(path: Path | None) -> Iterator[Any]:
    """Open a file for the rows of a table; None: for rows that are not kept."""
    if path is None:
        with Path(os.devnull).open("w", encoding="utf-8") as file:
            yield table(file)
    else:
        with disk.atomic_write(path) as file:
            yield table(file)


def table(file: IO) -> Any:
    """A writer of tab-separated rows, quoted as in CSV."""
    return csv.writer(file, delimiter="\t", lineterminator="\n")


def write_pairs(args: argparse.Namespace, embedder: "elmo.ELMoEmbedder") -> None:
    """Print the shares of pairs in which the model prefers the better sentence. Write --output."""

    def tokeniser(sentences: Sequence[str]) -> Tokeniser:
        return item_tokeniser(args, path=args.pairs, sentences=sentences, embedder=embedder)

    pairs = read_pairs(args.pairs, tokeniser, args.groups)
    powers = list(dict.fromkeys(args.length_power))
    # the fields of all pairs, in the order in which they are found
    names = list(dict.fromkeys(chain.from_iterable(pair.fields for pair in pairs)))
    columns = list(chain.from_iterable(score_columns(power) for power in powers))
    columns.append("in_vocabulary")
    taken = [name for name in names if name in columns]
    if args.output and taken:
        raise UserError(
            f"{args.pairs}: --output has a column {taken[0]} of its own. Rename the field."
        )
    scores: dict[float, list[Comparison]] = {power: [] for power in powers}
    with table_file(args.output) as file:
        file.writerow(names + columns)
        for pair, (good, bad) in zip(pairs, scored_pairs(args, pairs, embedder), strict=True):
            row = [pair.fields.get(name) for name in names]
            for power in powers:
                comparison = difference(good, bad, power)
                scores[power].append(comparison)
                row.extend(f"{value:.6f}" for value in comparison[:3])
            row.append(int(comparison.in_vocabulary))
            file.writerow(row)
    tables = {}
    for power in powers:
        rows = preferences(pairs, scores[power], args.groups, power)
        tables[score_name(power)] = list(rows)
    print_shares("pairs", tables)


def scored_pairs(
    args: argparse.Namespace, pairs: Sequence[Pair], embedder: "elmo.ELMoEmbedder"
) -> Iterator[tuple[Surprisals, Surprisals]]:
    """Yield what is scored of each pair's better and worse sentence."""
    sentences = chain.from_iterable((pair.good, pair.bad) for pair in pairs)
    records = embedder.iter_surprisal((sentence.tokens for sentence in sentences), **scoring(args))
    for pair in tqdm(pairs, unit=" pairs", disable=None, leave=False):
        good = next(records)[pair.good.begin : pair.good.stop]
        bad = next(records)[pair.bad.begin : pair.bad.stop]
        yield Surprisals(good), Surprisals(bad)


def print_shares(things: str, tables: dict[str, list[list[Any]]]) -> None:
    """Print the rows of `preferences` or `summary`: names, numbers and shares.

    things: what is counted. tables: the rows of each score, by its name.
    """
    names = list(tables)
    for rows in tables.values():
        names.extend(row[0] for row in rows)
    width = max(display_width(name) for name in names)
    shares = f"{'forward':>10}{'backward':>10}{'both':>10}"
    for score, rows in tables.items():
        print(f"{pad(score, width)}{things:>10}{shares}{'all known':>10}{shares}")
        for name, *numbers in rows:
            cells = [cell(number) for number in numbers]
            print(pad(name, width) + "".join(cells))


def cell(number: float) -> str:
    """A number, or a share, in 10 columns."""
    if isinstance(number, int):
        return f"{number:10,}"
    if math.isnan(number):
        return f"{'–':>10}"
    return f"{number:10.1%}"


def write_regions(
    args: argparse.Namespace, embedder: "elmo.ELMoEmbedder", corpus: Corpus | None
) -> None:
    """Write the surprisal of every region. corpus: of the baselines."""

    def tokeniser(sentences: Sequence[str]) -> Tokeniser:
        return item_tokeniser(args, path=args.regions, sentences=sentences, embedder=embedder)

    items = read_items(args.regions, tokeniser)
    baselines = None
    if corpus:
        language.choose_language("none", lines_of(corpus))  # warns of raw text
        baselines = Baselines(
            corpus,
            embedder.vocabulary,
            is_open=is_open(args, embedder),
            unit=args.unit,
        )
    surprisals = embedder.iter_surprisal((item.tokens for item in items), **scoring(args))
    with script.output(args.output) as file:
        table(file).writerows(region_rows(items, surprisals, baselines))


def write_suites(
    args: argparse.Namespace, suites: Sequence[Suite], embedder: "elmo.ELMoEmbedder"
) -> None:
    """Print the shares of items for which the suites' predictions hold. Write --output."""
    texts = list(chain.from_iterable(suite.texts for suite in suites))
    tokenise = item_tokeniser(args, path=suites[0].path, sentences=texts, embedder=embedder)
    tokenised = [tokenise_suite(suite, tokenise) for suite in suites]
    sentences = chain.from_iterable(tokenised)
    records = embedder.iter_surprisal((sentence.tokens for sentence in sentences), **scoring(args))
    progress = tqdm(suites, unit=" suites", disable=None, leave=False)
    found = []
    with table_file(args.output) as file:
        file.writerow(COLUMNS)
        for suite, of_suite in zip(progress, tokenised, strict=True):
            of_records = list(islice(records, len(of_suite)))
            for outcome in outcomes(suite, of_suite, of_records):
                found.append(outcome)
                file.writerows(outcome.rows())
    print_shares("items", {"": list(summary(found))})


if __name__ == "__main__":
    script.run(main)
