"""Evaluate a language model: perplexity, surprisal of words and sentences, minimal pairs, regions of experiments.

    python run_eval.py --init_from_ckpt=checkpoints/10000 --dev_data_path='corpus/dev/*'
    python run_eval.py --init_from_ckpt=en --lang=en --dev_data_path=reviews.txt --per_token=words.tsv
    python run_eval.py --init_from_ckpt=en --lang=en --pairs=blimp.jsonl --groups field UID
    python run_eval.py --init_from_ckpt=en --lang=en --regions=items.tsv --output=surprisal.tsv
    python -m paddle.distributed.launch --gpus '0,1' run_eval.py ...           (several processes share the rows)

The perplexity is that of the whole text, with the LSTM state carried from sentence to sentence as in training. All other
scores are of sentences by themselves, unless --context=carry.
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
from typing import IO, TYPE_CHECKING, Any

from tqdm import tqdm

import args as arguments
import script
from elmo_core import messages
from elmo_core.display.terminal import display_width, pad
from elmo_core.encoding.surprisal import Comparison, TokenSurprisal
from elmo_core.files import disk
from elmo_core.machine import runtime
from elmo_core.messages import UserError, format_count
from elmo_core.text import language
from elmo_core.text.corpus import Corpus, Counts
from elmo_core.text.offsets import token_offsets
from elmo_core.text.text_files import read_lines
from elmo_core.text.tokenise import Tokeniser
from elmo_core.text.tokens import LMBatch
from elmo_core.text.vocabulary import Vocabulary
from elmo_core.weights import model_files
from elmo_tools.experiments.pairs import preferences, read_pairs
from elmo_tools.experiments.regions import Baselines, read_items, region_rows
from elmo_tools.pretraining import streams

if TYPE_CHECKING:  # --help does not wait for Paddle
    import elmo
    from elmo_core.training.ranks import Ranks
    from elmo_tools.pretraining.perplexity import Score

USED_WITH = {  # flags that need one of others
    "per_token": ["dev_data_path"],
    "per_sentence": ["dev_data_path"],
    "context": ["per_token", "per_sentence"],
    "lang": ["per_token", "per_sentence", "pairs", "regions"],
    "user_dict": ["lang"],
    "groups": ["pairs"],
    "baselines": ["regions"],
    "output": ["pairs", "regions"],
}


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    arguments.add(parser, "init_from_ckpt", required=True)
    text = parser.add_mutually_exclusive_group(required=True)
    arguments.add(text, "dev_data_path")
    pairs = "minimal pairs: JSON lines with sentence_good and sentence_bad, or two columns"
    text.add_argument("--pairs", **arguments.FILE, help=pairs)
    regions = "sentences in numbered regions: a TSV of item, condition, region, words"
    text.add_argument("--regions", **arguments.FILE, help=regions)
    arguments.add(parser, "vocab_file", "batch_size", "unroll_steps", "device")
    words = parser.add_argument_group("words and sentences")
    table = "TSV of each token's surprisal, entropy (both in bits) and rank, forward and backward"
    words.add_argument("--per_token", **arguments.FILE, help=table)
    scores = "TSV of each sentence's forward, backward and mean log-probability (natural)"
    words.add_argument("--per_sentence", **arguments.FILE, help=scores)
    context = "what precedes a sentence: nothing, or all sentences before it"
    words.add_argument("--context", choices=("sentence", "carry"), default="sentence", help=context)
    raw = "language of raw text, which is split into sentences and tokens (default: none, a tokenised sentence per line)"
    words.add_argument("--lang", choices=language.CHOICES, help=raw)
    words.add_argument("--user_dict", **arguments.FILE, help="words for jieba, with --lang=zh")
    experiments = parser.add_argument_group("pairs and regions")
    groups = "fields of --pairs by whose values the pairs are counted, too"
    experiments.add_argument("--groups", nargs="+", default=(), metavar="FIELD", help=groups)
    baselines = "for --regions: word frequencies and Kneser-Ney 5-grams of this text, a tokenised sentence per line"
    experiments.add_argument("--baselines", metavar="PATH", help=baselines)
    output = "TSV of the pairs' differences in surprisal, or of the regions (default: regions are printed)"
    experiments.add_argument("--output", **arguments.FILE, help=output)
    args = parser.parse_args(argv)
    given = {name for name, value in vars(args).items() if value != parser.get_default(name)}
    for name, others in USED_WITH.items():
        if name in given and not given.intersection(others):
            parser.error(f"--{name} has no effect without --{' or --'.join(others)}")
    return args


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)

    # a mistake in the flags does not wait for Paddle
    import elmo
    from elmo_core.training.ranks import Ranks
    from elmo_tools.pretraining.model import check_vocabulary

    runtime.set_device(args.device)
    ranks = Ranks()
    corpus, baselines = (
        Corpus(path) if path else None for path in (args.dev_data_path, args.baselines)
    )
    is_perplexity = corpus and not (args.per_token or args.per_sentence)
    if ranks.size > 1 and not is_perplexity:
        raise UserError(
            f"{ranks.size} processes: several compute only the perplexity. Start a single one."
        )
    for path in filter(None, (args.pairs, args.regions)):
        disk.check_input(path, "sentences")
    files = [args.pairs, args.regions, args.vocab_file, args.user_dict]
    files += [path for texts in (corpus, baselines) if texts for path in texts.paths]
    files += model_files.resolve_name(args.init_from_ckpt).iterdir()
    for name in ("per_token", "per_sentence", "output"):
        disk.check_output(f"--{name}", getattr(args, name), *files)
        files.append(getattr(args, name))
    bilm, vocabulary = elmo.load_bilm(args.init_from_ckpt, softmax=True)
    if args.vocab_file:
        check_vocabulary(
            args.vocab_file, Vocabulary.from_file(args.vocab_file), args.init_from_ckpt, vocabulary
        )
    if is_perplexity:
        print_perplexity(args, ranks, corpus, bilm, vocabulary)
        return
    carry = args.context == "carry"
    embedder = elmo.ELMoEmbedder(
        (bilm, vocabulary), args.batch_size, args.device, carry_state=carry
    )
    if corpus:
        write_surprisal(args, corpus, embedder)
    elif args.pairs:
        write_pairs(args, embedder)
    else:
        write_regions(args, embedder, baselines)


def print_perplexity(
    args: argparse.Namespace,
    ranks: "Ranks",
    corpus: Corpus,
    bilm: "elmo.BiLM",
    vocabulary: Vocabulary,
) -> None:
    from elmo_tools.pretraining.perplexity import evaluate  # imports Paddle

    start = time.perf_counter()
    counts = ranks.run_on_main(lambda: corpus.count(vocabulary))
    stream = streams.EvalStream(
        corpus, vocabulary, args.batch_size, args.unroll_steps, bilm.config.input
    )
    hidden = None if ranks.is_main else True
    with tqdm(
        total=counts.predictions, unit=" predictions", unit_scale=True, disable=hidden, leave=False
    ) as bar:
        score = evaluate(bilm, with_progress(stream, bar), ranks)
    if ranks.is_main:
        print_score(counts, vocabulary, score, time.perf_counter() - start)


def with_progress(batches: Iterable[LMBatch], bar: tqdm) -> Iterator[LMBatch]:
    """Yield the batches, advancing the bar after each."""
    for batch in batches:
        yield batch
        bar.update(int(batch.lengths.sum()) * batch.scored)


def print_score(counts: Counts, vocabulary: Vocabulary, score: "Score", seconds: float) -> None:
    text = (
        f"{format_count(counts.tokens, 'tokens')} in {format_count(counts.sentences, 'sentences')}"
    )
    unknown = (
        f"{counts.unknown_share:.2%} of them outside the vocabulary of {len(vocabulary):,} words"
    )
    print(f"text                           {text}; {unknown}")
    print(
        f"predictions in each direction  {score.predictions:,} in {messages.format_duration(seconds)}"
    )
    print(f"perplexity, forward            {score.forward:.3f}")
    print(f"perplexity, backward           {score.backward:.3f}")
    print(f"perplexity, mean of the two    {score.mean:.3f}")


def make_tokeniser(
    args: argparse.Namespace, lines: Iterable[str], embedder: "elmo.ELMoEmbedder"
) -> Tokeniser:
    return language.make_tokeniser(args.lang or "none", lines, embedder.words, args.user_dict)


def make_item_tokeniser(
    args: argparse.Namespace, path: Path, sentences: Sequence[str], embedder: "elmo.ELMoEmbedder"
) -> Tokeniser:
    """The tokeniser of an experiment's sentences. Raises if they seem to be raw, and no --lang says what they are."""
    if args.lang is None and language.is_raw(sentences):
        raise UserError(
            f"{path}: {sentences[0]!r:.60} and others seem not to be tokenised. "
            f"Give their language, for instance --lang=en, or --lang=none if they are."
        )
    return make_tokeniser(args, sentences, embedder)


def write_surprisal(
    args: argparse.Namespace, corpus: Corpus, embedder: "elmo.ELMoEmbedder"
) -> None:
    """Write --per_token and --per_sentence, and print the perplexity."""
    from elmo_tools.pretraining.perplexity import Score  # imports Paddle

    start, counts, score = time.perf_counter(), Counts(), Score()
    tokeniser = make_tokeniser(args, lines_of(corpus), embedder)
    sentences, read = tee(split_sentences(corpus, tokeniser, counts))
    scored = embedder.iter_surprisal(tokens for _, tokens, _ in read)
    progress = tqdm(
        zip(sentences, scored, strict=True), unit=" sentences", disable=None, leave=False
    )
    with output(args.per_token) as token_file, output(args.per_sentence) as sentence_file:
        words, scores = table(token_file), table(sentence_file)
        words.writerow(["line", "sentence", "position", "begin", "end", *TokenSurprisal._fields])
        scores.writerow(["line", "sentence", "forward", "backward", "mean"])
        for number, ((line, tokens, offsets), records) in enumerate(progress):
            offsets.append([offsets[-1][1]] * 2)  # of the end
            for position, (record, offset) in enumerate(zip(records, offsets, strict=True)):
                values = [f"{value:.6f}" if isinstance(value, float) else value for value in record]
                words.writerow(
                    [line, number, position, *offset, *values[:-1], int(record.in_vocabulary)]
                )
            forward, backward = (-math.log(2) * bits for bits in records.total())
            scores.writerow(
                [line, number, *(f"{x:.6f}" for x in (forward, backward, (forward + backward) / 2))]
            )
            score += Score(forward, backward, len(records))
            counts.add_sentence(len(tokens), sum(not record.in_vocabulary for record in records))
        corpus.check(args.dev_data_path, counts)
    print_score(counts, embedder.vocabulary, score, time.perf_counter() - start)


def lines_of(corpus: Corpus) -> Iterator[str]:
    return chain.from_iterable(map(read_lines, corpus.paths))


def split_sentences(
    corpus: Corpus, tokeniser: Tokeniser, counts: Counts
) -> Iterator[tuple[int, list[str], list[list[int]]]]:
    """Yield the sentences of raw text: the number of the line, the tokens, and their offsets in the line."""
    for number, line in enumerate(lines_of(corpus)):
        split = tokeniser.sentences(line)
        offsets = iter(token_offsets(list(chain.from_iterable(split)), line).tolist())
        counts.blank_lines += not split
        for tokens in split:
            yield number, tokens, list(islice(offsets, len(tokens)))


def output(path: Path | None) -> contextlib.AbstractContextManager[IO]:
    """Open a file for writing; None: one that keeps nothing."""
    return disk.atomic_write(path) if path else Path(os.devnull).open("w", encoding="utf-8")


def table(file: IO) -> Any:
    """A writer of tab-separated rows, quoted as in CSV."""
    return csv.writer(file, delimiter="\t", lineterminator="\n")


def write_pairs(args: argparse.Namespace, embedder: "elmo.ELMoEmbedder") -> None:
    """Print the shares of pairs in which the model prefers the better sentence. Write --output."""
    pairs = read_pairs(args.pairs, args.groups)
    names = list(dict.fromkeys(chain.from_iterable(pairs)))
    taken = [name for name in names if name in Comparison._fields]
    if args.output and taken:
        raise UserError(
            f"{args.pairs}: --output has a column {taken[0]} of its own. Rename the field."
        )
    good = [pair["sentence_good"] for pair in pairs]
    bad = [pair["sentence_bad"] for pair in pairs]
    tokenise = make_item_tokeniser(args, args.pairs, good, embedder)
    comparisons = embedder.compare(list(map(tokenise, good)), list(map(tokenise, bad)))
    with output(args.output) as file:
        table(file).writerow([*names, *Comparison._fields])
        for pair, comparison in zip(pairs, comparisons, strict=True):
            values = [f"{value:.6f}" for value in comparison[:3]]
            table(file).writerow([*map(pair.get, names), *values, int(comparison.in_vocabulary)])
    rows = list(preferences(pairs, comparisons, args.groups))
    width, shares = (
        max(display_width(row[0]) for row in rows),
        f"{'forward':>10}{'backward':>10}{'both':>10}",
    )
    print(f"{'':{width}}{'pairs':>10}{shares}{'all known':>10}{shares}")
    for name, *numbers in rows:
        texts = (
            f"{x:10,}" if isinstance(x, int) else "         –" if math.isnan(x) else f"{x:10.1%}"
            for x in numbers
        )
        print(pad(name, width) + "".join(texts))


def write_regions(
    args: argparse.Namespace, embedder: "elmo.ELMoEmbedder", corpus: Corpus | None
) -> None:
    """Write the surprisal of every region."""
    items = read_items(
        args.regions, lambda texts: make_item_tokeniser(args, args.regions, texts, embedder)
    )
    if corpus:
        language.choose_language("none", lines_of(corpus))  # warns of raw text
    baselines = Baselines(corpus, embedder.vocabulary) if corpus else None
    surprisals = embedder.iter_surprisal(item.tokens for item in items)
    with script.output(args.output) as file:
        table(file).writerows(region_rows(items, surprisals, baselines))


if __name__ == "__main__":
    script.run(main)
