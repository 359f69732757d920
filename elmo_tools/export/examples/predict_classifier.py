"""The classes of lines of text, as run_finetune.py predicts them.

A line of a classifier of pairs is two texts, separated by a tab.
"""

from collections.abc import Iterator

from model_io import SETTINGS, Run, arrays, tokenise

from elmo_core.messages import UserError

# Of each text in an answer.
NAMES = ("text", "text2")


def predict(run: Run, lines: list[str]) -> Iterator[tuple[dict, str]]:
    """Yield the class of each line, or the labels, and the probabilities of all.

    The text of an answer is the class, its probability and the line; of several labels, each has
    its probability.
    """
    texts = [split(line) for line in lines]
    if SETTINGS["pairs"]:
        # As the model expects them: all first texts, then all second ones.
        stacked = [first for first, _ in texts] + [second for _, second in texts]
    else:
        stacked = [text for (text,) in texts]
    sentences = [tokenise(text)[: SETTINGS["max_seq_len"]] for text in stacked]
    (output,) = run(arrays(sentences))
    labels = SETTINGS["labels"]
    names = [str(label) for label in labels]
    for text, row in zip(texts, output, strict=True):
        probabilities = row.astype(float).round(6).tolist()
        values = dict(zip(NAMES, text, strict=False))
        if SETTINGS["multi_label"]:
            predicted = (row >= SETTINGS["threshold"]).nonzero()[0]
            values["labels"] = [labels[k] for k in predicted]
        else:
            predicted = [row.argmax()]
            values["label"] = labels[predicted[0]]
        values["probabilities"] = dict(zip(names, probabilities, strict=True))
        separator = SETTINGS.get("label_separator", "")
        columns = [
            separator.join(names[k] for k in predicted),
            separator.join(f"{row[k]:.4f}" for k in predicted),
        ]
        yield values, "\t".join([*columns, *text])


def split(line: str) -> list[str]:
    """Return the text or the two texts of a line, with single spaces."""
    if not SETTINGS["pairs"]:
        return [" ".join(line.split())]
    texts = [" ".join(part.split()) for part in line.split("\t")]
    if len(texts) != 2:
        raise UserError(f"{line!r:.60}: expected two texts separated by a tab.")
    return texts
