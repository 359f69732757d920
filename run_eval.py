"""Perplexity of a checkpoint on held-out text: exact, over the full softmax, with nothing dropped.

    python run_eval.py --dev_data_path='corpus/dev/*' --init_from_ckpt=checkpoints/10000
    python -m paddle.distributed.launch --gpus '0,1' run_eval.py ...                (several processes share the rows)

The LSTM state is carried from sentence to sentence, as in training, in BATCH_SIZE parallel streams of sentences. With
--per_sentence, --per_token and --plot every sentence is scored independently, from the zero state, so the scores do not
depend on BATCH_SIZE; with --context=carry each sentence follows the one before it, in a single stream.
"""

import argparse
import csv
import io
import itertools
import math
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

import args as arguments
import dataset
import elmo
import script
from elmo_core import messages
from elmo_core.display.surprisal_plot import check_plot
from elmo_core.files import disk
from elmo_core.machine import runtime
from elmo_core.machine.ranks import Ranks
from elmo_core.messages import UserError, format_count
from elmo_core.network.surprisal import TokenSurprisal
from elmo_core.text import language
from elmo_core.text.corpus import Corpus, Counts
from elmo_core.text.offsets import token_offsets
from elmo_core.text.text_files import read_lines, read_sentences
from elmo_core.text.tokens import LMBatch, Vocabulary
from elmo_core.weights import checkpoint, model_files
from pretraining.model import check_vocabulary
from pretraining.perplexity import Score, evaluate

PLOTTED = 20  # sentences


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    arguments.add(parser, "dev_data_path", "init_from_ckpt", required=True)
    arguments.add(parser, "vocab_file", "batch_size", "unroll_steps", "device")
    scores = "score sentences independently: a TSV of their forward, backward and mean log-probabilities (natural)"
    parser.add_argument("--per_sentence", **arguments.FILE, help=scores)
    words = parser.add_argument_group("surprisal of every word")
    table = (
        "TSV of each token's surprisal, entropy (both in bits) and rank, forward and backward (docs/language-model.md)"
    )
    words.add_argument("--per_token", **arguments.FILE, help=table)
    context = "what precedes a sentence: nothing, or all sentences before it"
    words.add_argument("--context", choices=("sentence", "carry"), default="sentence", help=context)
    raw = "language of raw text, which is split into sentences and tokens; none: a tokenised sentence per line"
    words.add_argument("--lang", choices=language.CHOICES, default="none", help=raw)
    words.add_argument("--user_dict", **arguments.FILE, help="words for jieba, with --lang=zh")
    picture = f"PNG of the first {PLOTTED} sentences, with their words shaded by surprisal"
    words.add_argument("--plot", **arguments.FILE, help=picture)
    args = parser.parse_args(argv)
    of_words = args.per_token or args.plot
    if args.per_sentence and of_words:
        parser.error("--per_sentence: expected without --per_token and --plot")
    without_effect = {
        "unroll_steps": (
            args.per_sentence or of_words,
            "with --per_sentence, --per_token or --plot: whole sentences are read",
        ),
        "batch_size": (args.context == "carry", "with --context=carry: the text is a single stream"),
        **dict.fromkeys(("context", "lang", "user_dict"), (not of_words, "without --per_token or --plot")),
    }
    for name, (applies, why) in without_effect.items():
        if applies and getattr(args, name) != parser.get_default(name):
            parser.error(f"--{name} has no effect {why}")
    return args


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    runtime.set_device(args.device)
    ranks = Ranks()
    outputs = {"--per_sentence": args.per_sentence, "--per_token": args.per_token, "--plot": args.plot}
    corpus = Corpus(args.dev_data_path)
    for flag, output in outputs.items():
        if output and ranks.size > 1:
            raise UserError(f"{flag} runs in a single process, not in {ranks.size}.")
        if output:
            model = checkpoint.files(model_files.resolve(args.init_from_ckpt))
            disk.check_output(flag, output, *corpus.paths, *model)
    if args.plot:
        check_plot(args.plot)
    bilm, vocabulary = elmo.load_bilm(args.init_from_ckpt, softmax=True)
    if args.vocab_file:
        check_vocabulary(args.vocab_file, Vocabulary.from_file(args.vocab_file), args.init_from_ckpt, vocabulary)
    if args.per_token or args.plot:
        write_surprisal(args, corpus, bilm, vocabulary)
        return
    counts = ranks.run_on_main(lambda: corpus.count(vocabulary))
    if ranks.is_main:
        print(text_summary(counts, vocabulary))
    start = time.perf_counter()
    hidden = None if ranks.is_main else True
    with tqdm(total=counts.predictions, unit=" predictions", unit_scale=True, disable=hidden, leave=False) as bar:
        if args.per_sentence:
            embedder = elmo.ELMoEmbedder((bilm, vocabulary), args.batch_size, args.device)
            score = write_scores(args.per_sentence, embedder, corpus, bar)
        else:
            stream = dataset.EvalStream(corpus, vocabulary, args.batch_size, args.unroll_steps, bilm.config.input)
            score = evaluate(bilm, with_progress(stream, bar), ranks)
    if not ranks.is_main:
        return
    print_score(score, time.perf_counter() - start)
    if args.per_sentence:
        print(f"per-sentence scores            {args.per_sentence}")


def text_summary(counts: Counts, vocabulary: Vocabulary) -> str:
    return (
        f"text                           {format_count(counts.tokens, 'tokens')} in "
        f"{format_count(counts.sentences, 'sentences')}; {counts.unknown_share:.2%} of them outside the "
        f"vocabulary of {len(vocabulary):,} words"
    )


def print_score(score: Score, seconds: float) -> None:
    print(f"predictions in each direction  {score.predictions:,} in {messages.format_duration(seconds)}")
    print(f"perplexity, forward            {score.forward:.3f}")
    print(f"perplexity, backward           {score.backward:.3f}")
    print(f"perplexity, mean of the two    {score.mean:.3f}")
    print(f"perplexity of the mean loss    {score.of_mean_loss:.3f}")


def with_progress(batches: Iterable[LMBatch], bar: tqdm) -> Iterator[LMBatch]:
    """Yield the batches, advancing the bar after each."""
    for batch in batches:
        yield batch
        bar.update(int(batch.lengths.sum()) * batch.scored)


def write_scores(path: Path, embedder: elmo.ELMoEmbedder, corpus: Corpus, bar: tqdm) -> Score:
    """Write one score per line of the corpus. Returns their sum, without blank lines."""
    lines = itertools.chain.from_iterable(map(read_sentences, corpus.paths))
    total = Score()
    with disk.atomic_write(path) as file:
        file.write("forward\tbackward\tmean\n")
        for records in embedder.iter_surprisal(lines, base=math.e):
            forward, backward = (-nats for nats in records.total())
            file.write(f"{forward:.6f}\t{backward:.6f}\t{(forward + backward) / 2:.6f}\n")
            total += Score(forward, backward, len(records)) if len(records) > 1 else Score()
            bar.update(len(records))
    return total


class RawText:
    """The sentences of a corpus in a language, of which those not yet written are kept with line and offsets."""

    def __init__(self, corpus: Corpus, lang: str, words: Sequence[str], user_dict: Path | None):
        self.corpus, self.counts = corpus, Counts()
        lines = itertools.chain.from_iterable(map(read_lines, corpus.paths))
        self.tokeniser = language.make_tokeniser(lang, lines, words, user_dict)
        self.pending: deque[tuple[int, list[list[int]]]] = deque()

    def __iter__(self) -> Iterator[list[str]]:
        lines = itertools.chain.from_iterable(map(read_lines, self.corpus.paths))
        for number, line in enumerate(lines):
            split = self.tokeniser.sentences(line)
            offsets = iter(token_offsets(list(itertools.chain.from_iterable(split)), line).tolist())
            self.counts += Counts(blank_lines=not split)
            for tokens in split:
                self.pending.append((number, list(itertools.islice(offsets, len(tokens)))))
                yield tokens


def write_surprisal(args: argparse.Namespace, corpus: Corpus, bilm: elmo.BiLM, vocabulary: Vocabulary) -> None:
    """Write --per_token and --plot, which alone reads no more than it shows, and print the summary."""
    start, carry = time.perf_counter(), args.context == "carry"
    text = RawText(corpus, args.lang, vocabulary.words, args.user_dict)
    model, batch_size = (bilm, vocabulary), 1 if carry else args.batch_size
    embedder = elmo.ELMoEmbedder(model, batch_size, args.device, carry_state=carry)
    predictions, totals, plotted = 0, np.zeros((2, 2)), []  # totals: with and without unknown words; forward, backward
    scored = embedder.iter_surprisal(itertools.islice(text, None if args.per_token else PLOTTED))
    progress = tqdm(scored, unit=" sentences", unit_scale=True, disable=None, leave=False)
    with disk.atomic_write(args.per_token) if args.per_token else io.StringIO() as file:
        table = csv.writer(file, delimiter="\t", lineterminator="\n")
        table.writerow(["line", "sentence", "position", "begin", "end", *TokenSurprisal._fields])
        for sentence, records in enumerate(progress):
            line, offsets = text.pending.popleft()
            offsets.append([offsets[-1][1]] * 2)
            for position, (record, offset) in enumerate(zip(records, offsets, strict=True)):
                values = [f"{value:.6f}" if isinstance(value, float) else value for value in record]
                table.writerow([line, sentence, position, *offset, *values[:-1], int(record.in_vocabulary)])
            predictions += len(records)
            totals += records.total(), records.total(unknown=False)
            n, unknown = len(records) - 1, sum(not record.in_vocabulary for record in records)
            text.counts += Counts(1, n, looked_up=n, unknown=unknown)
            if len(plotted) < PLOTTED:
                plotted.append(records)
    corpus.check(args.dev_data_path, text.counts)
    print(text_summary(text.counts, vocabulary))
    print_score(Score(*(-math.log(2) * totals[0]).tolist(), predictions), time.perf_counter() - start)
    unknown = format_count(text.counts.unknown, "words")
    for name, total, of_known in zip(("forward", "backward"), *totals, strict=True):
        print(
            f"surprisal in bits, {name:<8}    {total:,.2f}; without the {unknown} outside the vocabulary {of_known:,.2f}"
        )
    if args.per_token:
        print(f"per-token surprisal            {args.per_token}")
    if args.plot:
        elmo.plot_surprisal(args.plot, plotted)
        print(f"plot of {format_count(len(plotted), 'sentences'):<22} {args.plot}")


if __name__ == "__main__":
    script.run(main)
