"""A data set into SQuAD's JSON, its text into a corpus, and what there is to know about it.

    python prepare.py data/train.json
    python prepare.py train.json --output squad.json --text passages.txt

Reads the JSON of SQuAD 1.1, and of CMRC 2018 in both of its forms. --output gets every answer at the place where its text
stands; --text the passages as a corpus, a sentence a line, for run_pretrain.py and word2vec_base.py. The answers that begin
or end within a word bound what a reader of words can reach; the bound is printed.
"""

import argparse
import json
from collections.abc import Sequence

import options

import args as arguments
import script
from args import FILE
from elmo_core.machine import disk
from elmo_tasks.reading.data import read_dataset
from elmo_tasks.reading.reader import Prepared
from elmo_tasks.reading.score import score


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    parser.add_argument("input", type=FILE["type"], help="the data set")
    parser.add_argument("--output", **FILE, help="the data set in SQuAD's JSON")
    parser.add_argument("--text", **FILE, help="the sentences of the passages, tokens separated by spaces")
    options.add_language(parser)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    for flag, path in (("--output", args.output), ("--text", args.text)):
        if path:
            disk.check_output(flag, path, args.input)
    data = read_dataset(args.input)
    prepared = [Prepared(passage, args.language) for passage in data.passages]
    n_tokens = [len(one.text.tokens) for one in prepared]
    print(f"{args.input}: {data.describe()}")
    print(f"passages have {sum(n_tokens) / len(n_tokens):.0f} tokens on average, {max(n_tokens):,} at most")
    best, cut = {}, 0
    for one in prepared:
        for id, _, span in one.spans():
            if span:
                begin, end = one.text.extent(span.first, span.last)
                best[id] = one.text.text[begin:end]
                cut += not span.whole
    print(f"{cut:,} answers begin or end within a word. A reader that always took the first answer's words would have")
    print(score(data.passages, best, args.language))
    if args.output:
        with disk.atomic_write(args.output) as file:
            json.dump(data.to_squad(), file, ensure_ascii=False)
    if args.text:
        with disk.atomic_write(args.text) as file:
            file.writelines(f"{' '.join(sentence)}\n" for one in prepared for sentence in one.text.sentences)


if __name__ == "__main__":
    script.run(main)
