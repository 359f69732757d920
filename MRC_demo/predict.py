"""Answer questions: those of a JSON file, or lines of text about one passage.

    python predict.py --model_dir ../checkpoints/mrc/elmo --data data/dev.json --output predictions.json
    echo 谁 在 杭州 工作？ | python predict.py --model_dir ../checkpoints/mrc/elmo --passage passage.txt

The first writes {id: answer}, which evaluate.py and the evaluators of SQuAD and CMRC 2018 read. The second prints an answer
for each line of standard input. An answer is a stretch of its passage, exactly as it is written there.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import options

import args as arguments
import script
from args import FILE
from elmo_core.machine import disk, runtime
from elmo_core.machine.messages import UserError
from elmo_core.text.text_files import blocks, decode
from elmo_tasks.reading.data import Passage, Question, read_dataset
from elmo_tasks.reading.reader import Prepared, Reader


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    parser.add_argument("--model_dir", type=Path, required=True, metavar="DIR", help="what train.py has saved")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--data", **FILE, help="passages and questions, in the JSON of SQuAD or CMRC 2018")
    source.add_argument("--passage", **FILE, help="a text; the questions are lines of standard input")
    parser.add_argument("--output", **FILE, help="answers (default: standard output)")
    parser.add_argument(
        "--pretrain_elmo_model_path", metavar="CKPT", help="ELMo, if it is not where it was in training"
    )
    options.add_word_vectors(parser, "the word vectors, if they are not where they were in training")
    arguments.add_device(parser)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    runtime.set_device(args.device)
    if args.output:
        disk.check_output("--output", args.output, args.data, args.passage)
    passages = read_dataset(args.data, answered=False).passages if args.data else [asked(args.passage)]
    reader = Reader.load(args.model_dir, args.pretrain_elmo_model_path, args.word_vectors)
    found = reader.answers([Prepared(passage, reader.reading.language) for passage in passages])
    answers = {question.id: found[question.id].text for passage in passages for question in passage.questions}
    lines = (" ".join(answer.split()) for answer in answers.values())
    text = json.dumps(answers, ensure_ascii=False, indent=1) if args.data else "\n".join(lines)
    if args.output:
        with disk.atomic_write(args.output) as file:
            file.write(text + "\n")
    else:
        sys.stdout.reconfigure(encoding="utf-8")
        print(text)


def asked(path: Path) -> Passage:
    """The passage of a file with the questions of standard input."""
    disk.check_input(path, "a passage", "--passage")
    text = "".join(blocks(path))
    if not text.split():
        raise UserError(f"--passage {path}: the file is empty.")
    lines = decode(sys.stdin.buffer.read(), Path("standard input"), 1).splitlines()
    if not lines:
        raise UserError("standard input has no question: expected one a line.")
    return Passage(text, [Question(str(number), line, [], []) for number, line in enumerate(lines)])


if __name__ == "__main__":
    script.run(main)
