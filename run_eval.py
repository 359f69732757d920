"""Perplexity of a checkpoint on held-out text: exact, over the full softmax, with nothing dropped.

    python run_eval.py --dev_data_path='corpus/dev/*' --init_from_ckpt=checkpoints/10000
    python -m paddle.distributed.launch --gpus '0,1' run_eval.py ...                (several processes share the rows)

The LSTM state is carried from sentence to sentence, as in training, in BATCH_SIZE parallel streams of sentences. With
--per_sentence every sentence is scored independently, from the zero state, so the scores do not depend on BATCH_SIZE.
"""

import argparse
import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tqdm import tqdm

import args as arguments
import dataset
import elmo
import script
from elmo_core.files import checkpoint
from elmo_core.machine import disk, messages, runtime
from elmo_core.machine.messages import UserError, format_count
from elmo_core.machine.ranks import Ranks
from elmo_core.text.corpus import Corpus
from elmo_core.text.text_files import read_sentences
from elmo_core.text.tokens import LMBatch, Vocabulary
from elmo_core.weights import model_files
from pretraining.model import check_vocabulary
from pretraining.perplexity import Score, evaluate, score_sentences


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    arguments.add(parser, "dev_data_path", "init_from_ckpt", required=True)
    arguments.add(parser, "vocab_file", "batch_size", "unroll_steps", "device")
    scores = "score sentences independently: a TSV of their forward, backward and mean log-probabilities (natural)"
    parser.add_argument("--per_sentence", **arguments.FILE, help=scores)
    args = parser.parse_args(argv)
    if args.per_sentence and args.unroll_steps != parser.get_default("unroll_steps"):
        parser.error("--unroll_steps has no effect with --per_sentence, which reads whole sentences")
    return args


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    runtime.set_device(args.device)
    ranks = Ranks()
    if args.per_sentence and ranks.size > 1:
        raise UserError(f"--per_sentence runs in a single process, not in {ranks.size}.")
    corpus = Corpus(args.dev_data_path)
    if args.per_sentence:
        model = checkpoint.files(model_files.resolve(args.init_from_ckpt))
        disk.check_output("--per_sentence", args.per_sentence, *corpus.paths, *model)
    bilm, vocabulary = elmo.load_bilm(args.init_from_ckpt, softmax=True)
    if args.vocab_file:
        check_vocabulary(args.vocab_file, Vocabulary.from_file(args.vocab_file), args.init_from_ckpt, vocabulary)
    counts = ranks.run_on_main(lambda: corpus.count(vocabulary))
    if ranks.is_main:
        print(
            f"text                           {format_count(counts.tokens, 'tokens')} in "
            f"{format_count(counts.sentences, 'sentences')}; {counts.unknown_share:.2%} of them outside the "
            f"vocabulary of {len(vocabulary):,} words"
        )
    start = time.perf_counter()
    total, hidden = -(-counts.predictions // ranks.size), None if ranks.is_main else True
    with tqdm(total=total, unit=" predictions", unit_scale=True, disable=hidden, leave=False) as bar:
        if args.per_sentence:
            score = write_scores(args.per_sentence, bilm, corpus, vocabulary, args.batch_size, bar)
        else:
            stream = dataset.EvalStream(corpus, vocabulary, args.batch_size, args.unroll_steps, bilm.config.input)
            own_batches = (batch.take(slice(ranks.rank, None, ranks.size)) for batch in stream)
            score = sum(ranks.run_on_all(lambda: evaluate(bilm, with_progress(own_batches, bar))), Score())
    if not ranks.is_main:
        return
    duration = messages.format_duration(time.perf_counter() - start)
    print(f"predictions in each direction  {score.predictions:,} in {duration}")
    print(f"perplexity, forward            {score.forward:.3f}")
    print(f"perplexity, backward           {score.backward:.3f}")
    print(f"perplexity, mean of the two    {score.mean:.3f}")
    print(f"perplexity of the mean loss    {score.of_mean_loss:.3f}")
    if args.per_sentence:
        print(f"per-sentence scores            {args.per_sentence}")


def with_progress(batches: Iterable[LMBatch], bar: tqdm) -> Iterator[LMBatch]:
    """Yield the batches, advancing the bar after each."""
    for batch in batches:
        yield batch
        bar.update(int(batch.lengths.sum()))


def write_scores(path: Path, bilm: elmo.BiLM, corpus: Corpus, vocabulary: Vocabulary, batch_size: int, bar) -> Score:
    """Write one score per line of the corpus. Returns their sum, without blank lines."""
    lines = itertools.chain.from_iterable(map(read_sentences, corpus.paths))
    total = Score()
    with disk.atomic_write(path) as file:
        file.write("forward\tbackward\tmean\n")
        for score in score_sentences(bilm, lines, vocabulary, batch_size):
            mean = (score.forward_sum + score.backward_sum) / 2
            file.write(f"{score.forward_sum:.6f}\t{score.backward_sum:.6f}\t{mean:.6f}\n")
            total += score if score.predictions > 1 else Score()
            bar.update(score.predictions)
    return total


if __name__ == "__main__":
    script.run(main)
