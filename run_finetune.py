"""Classify your own texts or text pairs, with or without ELMo; or run the sentence polarity task.

    python run_finetune.py train --train_file=train.tsv --test_file=test.tsv \\
        --init_from_ckpt=checkpoints --save_dir=model
    python run_finetune.py train --train_file=train.jsonl --init_from_ckpt=none \\
        --word_vectors=vectors.bin --save_dir=model
    python run_finetune.py predict --model_dir=model --input=texts.txt
    echo "A good film." | python run_finetune.py predict --model_dir=model
    python run_finetune.py evaluate --model_dir=model --test_file=test.tsv --mistakes=20
    python run_finetune.py train --train_file=train.tsv --head=attention --elmo_trainable \\
        --save_dir=tuned
    python run_finetune.py --data_dir=data/polarity --init_from_ckpt=checkpoints/sample

Without a command, the flags are those of `train`. By default ELMo is frozen and runs once over the
texts; a logistic regression reads its vectors and the texts' n-grams. It needs no --dev_file: it
chooses its penalties, and scores itself, by cross-validation. The other heads are networks, of
which the epoch with the highest ROC AUC on --dev_file is saved. --elmo_trainable then fine-tunes
ELMo and the head together. --data_dir trains and scores on the published split of the sentence
polarity dataset; word2vec + bag of words is the baseline.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

import args as arguments
import classifier_flags
import script
import task_flags
from classifier_flags import CONTENT
from elmo_core.display.terminal import pad_all
from elmo_core.messages import UserError
from elmo_tasks.records import Label
from elmo_tasks.texts import Text, as_text

if TYPE_CHECKING:  # --help does not wait for Paddle
    from elmo_tasks import Classifier

OUTPUT_FORMATS = ("tsv", "json")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    parser.default_command = "train"
    purpose = "classify texts"
    commands = task_flags.add_commands(parser, "classifier", CONTENT, purpose)
    train, evaluate_flags, predict_flags = commands
    classifier_flags.add_train(train)
    evaluate_flags.add_argument(
        "--mistakes", **arguments.COUNT, help="print the N most confident mistakes, too"
    )
    arguments.add(predict_flags, "output_format", choices=OUTPUT_FORMATS, default=OUTPUT_FORMATS[0])
    arguments.add(
        predict_flags,
        "input",
        help="a text per line, of a pair two, separated by a tab (default: standard input)",
    )
    return classifier_flags.parse(parser, argv)


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)

    from elmo_tasks import Classifier  # a mistake in the flags does not wait for Paddle

    task_flags.run(
        args, Classifier, train=classifier_flags.train, evaluate=evaluate, predict=predict
    )


def evaluate(args: argparse.Namespace, classifier: "Classifier") -> None:
    """Print the scores of a test set, and mistakes if there is a number of them."""
    score = task_flags.evaluate(args, classifier)
    if not args.mistakes:
        return
    mistakes = score.mistakes(args.mistakes)
    print(f"\nthe most confident mistakes, {len(mistakes)}:")
    separator = classifier.label_separator
    gold = pad_all(["label", *(joined(x.gold, separator) for x in mistakes)])
    predicted = pad_all(["predicted", *(joined(x.predicted, separator) for x in mistakes)])
    print(f"{gold[0]}  {predicted[0]}  probability  text")
    for k, mistake in enumerate(mistakes, 1):
        text = mistake.text if isinstance(mistake.text, str) else "\t".join(mistake.text)
        print(f"{gold[k]}  {predicted[k]}  {mistake.probability:11.4f}  {text}")


def predict(args: argparse.Namespace, classifier: "Classifier") -> None:
    """Write the class of each text, its probability and the text; or JSON.

    Of lists of labels, each has its probability. A blank line stays blank.
    """
    separator = classifier.label_separator
    ambiguous = [x for x in classifier.labels if separator in str(x)]
    if classifier.parts["multi_label"] and ambiguous and args.output_format == "tsv":
        raise UserError(
            f"the label {ambiguous[0]!r:.60} contains {separator!r}, which separates the labels "
            "of a text. Use --output_format=json."
        )
    with script.output(args.output, args.input) as target:
        texts = input_texts(args, classifier)
        tokenised = (classifier.tokenised(text) for text in texts)
        for text, row in classifier.predicted(tokenised, is_lazy=True):
            written = formatted(classifier, text, row, args) if any(text.texts) else ""
            target.write(f"{written}\n")
            target.flush()


def input_texts(args: argparse.Namespace, classifier: "Classifier") -> Iterator[Text]:
    """Yield the texts of the input's lines."""
    pairs = classifier.parts["pairs"]
    # The second text of a pair may be the name of a class.
    labels = () if pairs else classifier.labels
    separator = classifier.label_separator if classifier.parts["multi_label"] else ""
    lines = task_flags.text_lines(args.input, labels, separator)
    for number, line in enumerate(lines, 1):
        where = f"{args.input or 'standard input'}:{number}"
        if not pairs:
            yield as_text(line, where)
            continue
        sides = [side.strip() for side in line.split("\t")] if line.strip() else ["", ""]
        if len(sides) != 2 or (any(sides) and not all(sides)):
            raise UserError(f"{where}: found {line!r:.60}, expected two texts, separated by a tab.")
        yield as_text(sides, where)


def formatted(
    classifier: "Classifier",
    text: Text,
    row: np.ndarray,
    args: argparse.Namespace,
) -> str:
    """The line of a text. row: the probabilities of its classes (classes,)."""
    predicted = classifier.prediction(row)
    if args.output_format == "tsv":
        found = predicted if isinstance(predicted, list) else [predicted]
        numbers = [classifier.labels.index(label) for label in found]
        separator = classifier.label_separator
        probabilities = joined([f"{row[k]:.4f}" for k in numbers], separator)
        return "\t".join([joined(predicted, separator), probabilities, *text.texts])
    values = dict(zip(("text", "text2"), text.texts, strict=False))  # text2: of a pair
    values["labels" if isinstance(predicted, list) else "label"] = predicted
    names = [str(label) for label in classifier.labels]
    probabilities = row.astype(float).round(6).tolist()
    values["probabilities"] = dict(zip(names, probabilities, strict=True))
    return json.dumps(values, ensure_ascii=False)


def joined(labels: Label | list[Label], separator: str) -> str:
    """A label, or the labels of a list, as text."""
    items = labels if isinstance(labels, list) else [labels]
    return separator.join([str(label) for label in items])


if __name__ == "__main__":
    script.run(main)
