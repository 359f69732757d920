"""The trees of lines of text, as run_parse.py predicts them."""

from collections.abc import Iterator

import numpy as np
from model_io import SETTINGS, Run, arrays, tokenise

from elmo_core.text.offsets import token_offsets
from elmo_tasks.parsing.trees import Tree, allowed_labels, maximum_tree


def predict(run: Run, lines: list[str]) -> Iterator[tuple[dict, str]]:
    """Yield the tokens of each line with their heads, labels and tags; and CoNLL-U, as text."""
    # One line at a time: the scores of labels are of all pairs of its words.
    for line in lines:
        tokens = tokenise(line)
        if not tokens:
            yield {}, ""
            continue
        tree = parse(run, line, tokens)
        values = {
            "tokens": tree.tokens,
            "heads": tree.heads,
            "labels": tree.labels,
            "tags": tree.tags,
        }
        yield values, tree.to_conllu()[:-1]


def parse(run: Run, line: str, tokens: list[str]) -> Tree:
    """Return the best tree of a line. Letters: n tokens, R labels, U tags."""
    n = len(tokens)
    names = SETTINGS["labels"]
    outputs = [output[0] for output in run(arrays([tokens]))]
    arcs = outputs[0]  # (n, 1, n + 1)
    label_scores = outputs[1]  # (n, R, n + 1)
    heads = maximum_tree(arcs[:n, 0, : n + 1])
    scores = label_scores[np.arange(n), :, heads]  # (n, R)
    scores = np.where(allowed_labels(heads, names), scores, -np.inf)
    labels = [names[k] for k in scores.argmax(axis=-1)]
    if SETTINGS["with_tags"]:
        tag_scores = outputs[2][:n]  # (n, U)
        tags = [SETTINGS["tags"][k] for k in tag_scores.argmax(axis=-1)]
    else:
        tags = ["_"] * n
    return Tree(
        tokens=tokens,
        heads=heads.tolist(),
        labels=labels,
        tags=tags,
        offsets=token_offsets(tokens, line).tolist(),
        text=line,
    )
