"""Tag text: a line of raw Chinese, or of words, becomes a line of `word/TAG`. Blank lines stay.

    echo 小明在北京大学学习英语。 | python predict.py --model_dir ../checkpoints/lac/elmo
    python predict.py --model_dir ../checkpoints/lac/elmo --segmented --input words.txt --output tagged.txt

Raw text is cut by jieba. A tagger that was trained on pieces of words decides itself which of them are one word.
"""

import argparse
import contextlib
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import flags
from pieces import Pieces, tagged_line
from reader import read_replacements

import args as arguments
import script
from elmo_core.machine import disk, runtime
from elmo_core.text.text_files import read_lines
from elmo_core.text.tokenise import jieba_cut
from elmo_tasks.tagging.data import BadLines
from elmo_tasks.tagging.score import words_of
from elmo_tasks.tagging.tagger import Tagger


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    parser.add_argument("--model_dir", type=Path, required=True, metavar="DIR", help="what train.py has saved")
    parser.add_argument("--input", type=Path, metavar="FILE", help="text (default: standard input)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="tagged text (default: standard output)")
    parser.add_argument("--segmented", action="store_true", help="the words of the text are separated by spaces")
    parser.add_argument(
        "--skip_bad_lines", action="store_true", help="replace lines that are not UTF-8 by blank ones, and count them"
    )
    flags.add_replacements(parser)
    parser.add_argument(
        "--pretrain_elmo_model_path", metavar="CKPT", help="ELMo, if it is not where it was in training"
    )
    arguments.add_device(parser)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    runtime.set_device(args.device)
    if args.input:
        disk.check_input(args.input, "text", "--input")
    tagger = Tagger.load(args.model_dir, args.pretrain_elmo_model_path)
    pieces = Pieces(
        tagger.pieces or tagger.words, read_replacements(args.word_rep_dict_path), whole=tagger.pieces is None
    )
    cut = str.split if args.segmented else jieba_cut()
    bad_lines = BadLines(args.skip_bad_lines)
    with contextlib.ExitStack() as files:
        if args.output:
            folders = [args.model_dir, *([Path(tagger.pretrained.prefix).parent] if tagger.pretrained else [])]
            models = [path for folder in folders for path in folder.iterdir()]
            disk.check_output("--output", args.output, args.input, args.word_rep_dict_path, *models)
            target = files.enter_context(disk.atomic_write(args.output))
        else:
            target = sys.stdout
            target.reconfigure(encoding="utf-8")  # as the input is
        lines = bad_lines.numbered(lines_of(args.input), args.input or "standard input")
        for line in tagged((line or "" for _, line in lines), tagger, pieces, cut):
            target.write(line + "\n")
    bad_lines.report()


def lines_of(path: Path | None) -> Iterable[str]:
    """Of a file, or of standard input as they come. Bytes that are not UTF-8 become surrogates."""
    if path:
        return read_lines(path, "surrogateescape")
    sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")
    return (line.removeprefix("\ufeff").rstrip("\r\n") for line in sys.stdin)


def tagged(texts: Iterable[str], tagger: Tagger, pieces: Pieces, cut: Callable[[str], list[str]]) -> Iterator[str]:
    """The lines with their words' tags, every word with the characters that the line has."""
    waiting: deque[list[str]] = deque()  # the pieces of the lines that are being tagged, in the lines' own characters

    def normalised() -> Iterator[list[str]]:
        for text in texts:
            words = [word for word in cut(text) if not word.isspace()]
            found = [piece for word in words for piece in pieces.split(word)]
            characters = iter("".join(words))
            waiting.append(["".join(islice(characters, len(piece))) for piece in found])
            yield found

    for labels in tagger.iter_tag(normalised()):
        yield tagged_line(words_of(waiting.popleft(), labels))


if __name__ == "__main__":
    script.run(main)
