"""The classes of lines of text, as run_finetune.py predicts them; of pairs, two texts separated by a tab."""

from collections.abc import Iterator
from itertools import chain

from model_io import SETTINGS, Run, arrays, tokenise

from elmo_core.messages import UserError


def predict(run: Run, lines: list[str]) -> Iterator[tuple[dict, str]]:
    """The class of each line and the probabilities of all classes; and the class, its probability and the line, as text."""
    pairs = SETTINGS["pairs"]
    texts = [
        [" ".join(text.split()) for text in (line.split("\t") if pairs else [line])]
        for line in lines
    ]
    if wrong := [line for line, text in zip(lines, texts, strict=True) if len(text) != 1 + pairs]:
        raise UserError(f"{wrong[0]!r:.60}: expected two texts separated by a tab.")
    stacked = chain.from_iterable(zip(*texts, strict=True))  # all first texts, then all second ones
    (output,) = run(
        arrays([tokens[: SETTINGS["max_seq_len"]] for tokens in map(tokenise, stacked)])
    )
    names = SETTINGS["labels"]
    for text, row in zip(texts, output, strict=True):
        label, probabilities = names[row.argmax()], row.astype(float).round(6).tolist()
        values = {
            "label": label,
            "probabilities": dict(zip(map(str, names), probabilities, strict=True)),
        }
        values = dict(zip(("text", "text2"), text, strict=False)) | values
        yield values, "\t".join([str(label), f"{row.max():.4f}", *text])
