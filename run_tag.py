"""Train and use a sequence tagger on your own labelled sentences. ELMo is optional.

    python run_tag.py train --train_file=train.txt --dev_file=dev.txt \\
        --init_from_ckpt=checkpoints --save_dir=tagger
    python run_tag.py train --train_file=train.txt --init_from_ckpt=none \\
        --word_vectors=glove.txt --save_dir=tagger
    echo "Rockwell said it signed ." | python run_tag.py predict --model_dir=tagger
    python run_tag.py predict --model_dir=zh-lac --user_dict=words.txt --output_format=words
    python run_tag.py evaluate --model_dir=tagger --test_file=test.txt

The ending of a file names its format: .json and .jsonl objects, .conllu CoNLL-U; others have
columns, as in the CoNLL tasks: a token and its label per line, separated by tabs or spaces, a blank
line between sentences. --data_format says otherwise. The labels are BIO, IOB1, BIOES, plain tags or
LAC's. The network is a bidirectional GRU with a CRF. The epoch with the highest F1 (plain tags:
accuracy) on --dev_file is saved. F1 is that of `conlleval`.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import args as arguments
import script
import task_flags
from elmo_core.messages import UserError
from elmo_tasks.records import Label
from elmo_tasks.tagging.scheme import SPAN_LABEL, are_of_words
from elmo_tasks.tagging.settings import TaggerSettings
from elmo_tasks.tagging.text import Line, joined_words

if TYPE_CHECKING:  # --help does not wait for Paddle
    from elmo_tasks import Tagger

OUTPUT_FORMATS = ("columns", "json", "tagged", "words")  # tagged: word/TAG word/TAG


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    content = "labelled sentences"
    purpose = "tag text, a sentence per line"
    train, _, predict_flags = task_flags.add_commands(parser, "tagger", content, purpose)
    task_flags.add_train(train, TaggerSettings, content)
    arguments.add(predict_flags, "input", "lang")
    predict_flags.add_argument(
        "--user_dict",
        **arguments.FILE,
        help="words that stay whole, one per line (frequency, tag optional)",
    )
    arguments.add(predict_flags, "output_format", choices=OUTPUT_FORMATS, default=OUTPUT_FORMATS[0])
    return task_flags.parse(parser, argv, TaggerSettings)


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)

    from elmo_tasks import Tagger  # a mistake in the flags does not wait for Paddle

    task_flags.run(args, Tagger, predict=predict)


def predict(args: argparse.Namespace, tagger: "Tagger") -> None:
    """Write each line of text with its labels, in the format that is asked for. See `formatted`."""
    check_output_format(args.output_format, tagger.labels, tagger.settings.scheme)
    with script.output(args.output, args.input) as target:
        lines = (tagger.line(text, args.lang) for text in text_lines(args.input, tagger.labels))
        tagged = tagger.tagged(lines, scored=args.output_format == "json")
        for line, labels, scores in tagged:
            if line.text.strip():
                target.write(formatted(tagger, line, labels, scores, args.output_format))
            else:
                target.write("\n")
            target.flush()


def check_output_format(format_name: str, labels: Sequence[Label], scheme: str) -> None:
    """Raise unless labels of the scheme say what the format writes."""
    is_known = True
    if format_name == "tagged":
        is_known = scheme == "lac"
    elif format_name == "words":
        is_known = are_of_words(labels, scheme)
    if not is_known:
        raise UserError(
            "--output_format: tagged requires LAC's labels; "
            "words these, or B, M, E and S without O."
        )


def text_lines(path: Path | None, labels: Sequence[Label]) -> Iterator[str]:
    """Yield the lines of text.

    Raise if three in a row are a token's columns, as in `Rockwell NNP B-NP`.
    """
    names = {str(label) for label in labels if not str(label).isdecimal()}
    width = 0  # columns of the line before
    n_alike = 0  # lines in a row that end with a label and have as many columns
    for number, line in enumerate(task_flags.text_lines(path, labels), 1):
        columns = line.split()
        last = columns[-1] if len(columns) > 1 else ""
        is_labelled = last in names or SPAN_LABEL.fullmatch(last)
        if not is_labelled:
            n_alike = 0
        elif len(columns) == width:
            n_alike += 1
        else:
            n_alike = 1
        width = len(columns)
        if n_alike == 3:
            raise task_flags.labelled_line(f"{path or 'standard input'}:{number}", line)
        yield line


def formatted(
    tagger: "Tagger",
    line: Line,
    labels: list,
    scores: list[float],
    format_name: str,
) -> str:
    """Return the output for a line, which ends with a newline. See OUTPUT_FORMATS."""
    scheme = tagger.settings.scheme
    if format_name == "columns":
        pairs = zip(line.words, labels, strict=True)
        rows = "".join(f"{word}\t{label}\n" for word, label in pairs)
        return f"{rows}\n"
    if format_name == "json":
        spans = []
        for span in line.spans(labels, scheme, scores):
            spans.append(span._replace(score=round(span.score, 6))._asdict())
        values = {"text": line.text, "tokens": line.tokens, "labels": labels, "spans": spans}
        return json.dumps(values, ensure_ascii=False) + "\n"
    words = joined_words(line.words, labels, scheme)
    if format_name == "tagged":
        return " ".join(f"{word}/{tag}" for word, tag in words) + "\n"
    return " ".join(word for word, _ in words) + "\n"


if __name__ == "__main__":
    script.run(main)
