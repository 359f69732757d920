"""Score answers, and test whether two readers differ by more than chance.

    python evaluate.py --data data/dev.json --predictions predictions.json
    python evaluate.py --data data/dev.json --predictions elmo.json --compare_with baseline.json

Exact match (EM) and F1 are those of CMRC 2018's evaluator for Chinese and of SQuAD's for English, Rouge-L is DuReader's. The
bootstrap resamples the passages: questions of one passage are not independent of each other.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import options

import args as arguments
import script
from args import FILE
from elmo_core.machine import disk
from elmo_core.machine.messages import UserError
from elmo_tasks.reading.data import read_dataset
from elmo_tasks.reading.score import difference, score


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    parser.add_argument(
        "--data", **FILE, required=True, help="questions and answers, in the JSON of SQuAD or CMRC 2018"
    )
    parser.add_argument("--predictions", **FILE, required=True, help="{id: answer}, as predict.py writes it")
    parser.add_argument("--compare_with", **FILE, help="the predictions of another reader")
    parser.add_argument("--json", **FILE, help="write the scores as JSON")
    options.add_language(parser)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    if args.json:
        disk.check_output("--json", args.json, args.data, args.predictions, args.compare_with)
    passages = read_dataset(args.data).passages
    mine = score(passages, predictions(args.predictions), args.language)
    print(mine)
    values = mine.figures()
    if args.compare_with:
        other = score(passages, predictions(args.compare_with), args.language)
        print(f"{other}  {args.compare_with}")
        found = difference(mine.f1, other.f1, mine.passage)
        print(found)
        values |= {"other": other.figures(), "difference": vars(found)}
    if args.json:
        with disk.atomic_write(args.json) as file:
            file.write(json.dumps(values, indent=1) + "\n")


def predictions(path: Path) -> dict[str, str]:
    found = disk.read_json(path, "predictions, {id: answer}")
    if wrong := next((id for id, answer in found.items() if not isinstance(answer, str)), None):
        raise UserError(f"{path}: the answer of {wrong!r:.60} is {found[wrong]!r:.60}, expected text.")
    return found


if __name__ == "__main__":
    script.run(main)
