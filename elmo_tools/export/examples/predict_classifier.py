"""The classes of lines of text, as run_finetune.py predicts them.

A line of a classifier of pairs is two texts, separated by a tab.
"""

from collections.abc import Iterator

from model_io import SETTINGS, Run, arrays, tokenise

from elmo_core.messages import UserError

# Of each text in an answer.
NAMES = ("text", "text2")


def predict(run: Run, lines: list[str]) -> Iterator[tuple[dict, str]]:
    """Yield the class of each line and the probabilities of all classes.

    The text of an answer is the class, its probability and the line.
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
        label = labels[row.argmax()]
        probabilities = row.astype(float).round(6).tolist()
        values = dict(zip(NAMES, text, strict=False))
        values["label"] = label
        values["probabilities"] = dict(zip(names, probabilities, strict=True))
        yield values, "\t".join([str(label), f"{row.max():.4f}", *text])


def split(line: str) -> list[str]:
    """Return the text or the two texts of a line, with single spaces."""
    if not SETTINGS["pairs"]:
        return [" ".join(line.split())]
    texts = [" ".join(part.split()) for part in line.split("\t")]
    if len(texts) != 2:
        raise UserError(f"{line!r:.60}: expected two texts separated by a tab.")
    return texts
