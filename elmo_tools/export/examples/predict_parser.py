"""The trees of lines of text, as run_parse.py predicts them."""

from collections.abc import Iterator

import numpy as np
from model_io import SETTINGS, Run, arrays, tokenise

from elmo_core.text.offsets import token_offsets
from elmo_tasks.parsing.trees import Tree, allowed_labels, maximum_tree


def predict(run: Run, lines: list[str]) -> Iterator[tuple[dict, str]]:
    """Yield the tokens of each line with their heads, labels and tags; and the same in CoNLL-U, as text."""
    names = SETTINGS["labels"]
    for line in lines:  # of which one at a time: the scores of labels are of all pairs of its words
        if not (n := len(tokens := tokenise(line))):
            yield {}, ""
            continue
        arcs, scores, *tags = (values[0] for values in run(arrays([tokens])))
        heads = maximum_tree(arcs[:n, 0, : n + 1])
        scores = np.where(
            allowed_labels(heads, names), scores[np.arange(n), :, heads], -np.inf
        )  # (T, R)
        labels = [names[k] for k in scores.argmax(axis=-1)]
        tags = [SETTINGS["tags"][k] for k in tags[0][:n].argmax(axis=-1)] if tags else ["_"] * n
        offsets = token_offsets(tokens, line).tolist()
        tree = Tree(tokens, heads.tolist(), labels, tags, offsets=offsets, text=line)
        values = {"tokens": tokens, "heads": tree.heads, "labels": labels, "tags": tags}
        yield values, tree.to_conllu()[:-1]
