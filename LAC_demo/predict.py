"""Tag text: a line of raw Chinese, or of words, becomes a line of `word/TAG`. Blank lines stay.

    echo 小明在北京大学学习英语。 | python predict.py --model_dir ../checkpoints/lac/elmo
    python predict.py --model_dir ../checkpoints/lac/elmo --segmented --input words.txt --output tagged.txt

Raw text is cut by jieba. A tagger that was trained on pieces of words decides itself which of them are one word.
"""

import argparse
import contextlib
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import settings
from pieces import Pieces, tagged_line, words_of
from reader import Faults, decoded, read_replacements
from tagger import Tagger

import args as arguments
from elmo_core import disk, runtime
from elmo_core.runtime import UserError
from elmo_core.tokenise import jieba_cut

Cut = Callable[[str], list[str]]


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    parser.add_argument("--model_dir", type=Path, required=True, metavar="DIR", help="what train.py has saved")
    parser.add_argument("--input", type=Path, metavar="FILE", help="text (default: standard input)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="tagged text (default: standard output)")
    parser.add_argument("--segmented", action="store_true", help="the words of the text are separated by spaces")
    parser.add_argument(
        "--skip_bad_lines", action="store_true", help="make blank lines of those that are not UTF-8, and count them"
    )
    settings.add_replacements(parser)
    parser.add_argument(
        "--pretrain_elmo_model_path", metavar="CKPT", help="ELMo, if it is not where it was in training"
    )
    arguments.add_device(parser)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    runtime.set_device(args.device)
    if args.input and not args.input.is_file():
        raise UserError(f"--input {args.input}: there is no such file.")
    tagger = Tagger.load(args.model_dir, args.pretrain_elmo_model_path)
    if args.output:
        folders = [args.model_dir, *([Path(tagger.pretrained.prefix).parent] if tagger.pretrained else [])]
        models = [path for folder in folders for path in folder.iterdir()]
        disk.check_output("--output", args.output, args.input, args.word_rep_dict_path, *models)
    else:
        sys.stdout.reconfigure(encoding="utf-8")  # as the input is
    splitter = tagger.splitter(read_replacements(args.word_rep_dict_path))
    cut = str.split if args.segmented else jieba_cut()
    faults = Faults(args.skip_bad_lines)
    with contextlib.ExitStack() as files:
        source = files.enter_context(args.input.open("rb")) if args.input else sys.stdin.buffer
        target = files.enter_context(disk.atomic_write(args.output)) if args.output else sys.stdout
        for line in tagged(lines(source, args.input or "standard input", faults), tagger, splitter, cut):
            target.write(line + "\n")
    faults.report()


def lines(source, name: str | Path, faults: Faults) -> Iterator[str]:
    """The text of every line, blank where it cannot be read."""
    for line in decoded(source, name, faults):
        yield line or ""


def tagged(texts: Iterator[str], tagger: Tagger, splitter: Pieces, cut: Cut) -> Iterator[str]:
    """The lines with their words' tags, the words spelt as they were."""
    spelt: deque[list[str]] = deque()

    def pieces() -> Iterator[list[str]]:
        for text in texts:
            words = [word for word in cut(text) if not word.isspace()]
            parts = [splitter.split(word) for word in words]
            spelt.append([part for word, split in zip(words, parts, strict=True) for part in spelling(word, split)])
            yield [piece for split in parts for piece in split]

    for labels in tagger.iter_tag(pieces()):
        yield tagged_line(words_of(spelt.popleft(), labels))


def spelling(word: str, pieces: list[str]) -> list[str]:
    """The word, cut where its pieces are, in its own characters."""
    parts, begin = [], 0
    for piece in pieces:
        parts.append(word[begin : begin + len(piece)])
        begin += len(piece)
    return parts


if __name__ == "__main__":
    runtime.script(main)
