"""Texts with labelled spans of characters, as annotation tools export them, made into labelled tokens.

doccano         {"text": "Anna lives in Paris.", "label": [[0, 4, "PER"], [14, 19, "LOC"]]}
                {"text": ..., "entities": [{"start_offset": 0, "end_offset": 4, "label": "PER"}]}
Prodigy, spaCy  {"text": ..., "spans": [{"start": 0, "end": 4, "label": "PER"}]}; only texts with the answer "accept"
CLUENER         {"text": "叶老桂是北京人。", "label": {"name": {"叶老桂": [[0, 2]]}}}, where 2 is the last character
Label Studio    {"data": {"text": ...}, "annotations": [{"result": [{"value": {"start": 0, "end": 4, "labels": ["PER"]}}]}]}
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from elmo_core.messages import UserError
from elmo_core.text.offsets import token_offsets
from elmo_core.text.tokenise import Tokeniser
from elmo_tasks.tagging.data import Sentence
from elmo_tasks.tagging.scheme import OUTSIDE

SPAN_KEYS = ("label", "labels", "spans", "entities", "annotations")
CharSpan = tuple[int, int, str]  # begin, end and label
Faults = defaultdict[str, list[str]]  # what was wrong, and where


def find_spans(record: Mapping[str, Any], text: str, keys: Sequence[str], where: str) -> list[CharSpan] | None:
    """The spans of a text, in order; None if it was not annotated. keys: one of them holds the spans."""
    value = next((record[key] for key in keys if key in record), None)
    if record.get("answer", "accept") != "accept" or (value == [] and "annotations" in record):
        return None
    try:
        if isinstance(value, dict):
            mentions = [(label, mention) for label, mentions in value.items() for mention in mentions.items()]
            spans = [(at[0], at[0] + len(name), label) for label, (name, places) in mentions for at in places]
            valid = all(text[begin:end] in value[label] for begin, end, label in spans)
        else:
            if "annotations" in record:  # of the first annotator; results may also be relations and choices
                value = [item["value"] for item in value[0]["result"] if "labels" in item.get("value", {})]
            spans = list(map(_span, value))
            valid = all(0 <= begin < end <= len(text) and isinstance(label, str) for begin, end, label in spans)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        valid = False
    if not valid:
        raise UserError(
            f"{where}: found the spans {value!r:.80}, expected offsets in the {len(text)} characters of the text, and "
            f"labels, as in [[0, 4, 'PER']]. Its keys are {list(record)}."
        )
    return sorted(spans)


def _span(item: Any) -> CharSpan:
    if isinstance(item, dict):
        names = ("start", "begin", "start_offset"), ("end", "end_offset"), ("label", "labels")
        item = [item[next(filter(item.__contains__, keys), keys[0])] for keys in names]
    begin, end, label = item[:3]
    return begin, end, label[0] if isinstance(label, list) else label


def label_tokens(
    text: str, spans: Sequence[CharSpan], tokeniser: Tokeniser, where: str, faults: Faults
) -> list[Sentence]:
    """The sentences of a text, one per line, with the labels of its spans in BIO.

    faults: spans that cannot be encoded as they are, are added to these.
    """
    sentences, begin, encoded = [], 0, set()
    for line in text.split("\n"):
        tokens = tokeniser(line)
        labels, offsets = [OUTSIDE] * len(tokens), token_offsets(tokens, line) + begin
        for span in spans:
            first, end, label = span
            covered = np.flatnonzero((offsets[:, 0] < end) & (offsets[:, 1] > first))
            if not len(covered):
                continue
            encoded.add(span)
            place = f"{where}: {text[first:end]!r:.40}"
            if {labels[k] for k in covered} != {OUTSIDE}:
                faults["spans that overlap others, left out"].append(place)
                continue
            if offsets[covered[0], 0] < first or offsets[covered[-1], 1] > end:
                faults["spans that begin or end within a token, extended to whole ones"].append(place)
            for k in covered:
                labels[k] = f"{'B' if k == covered[0] else 'I'}-{'_'.join(label.split())}"
        sentences.append(Sentence(tokens, labels, where))
        begin += len(line) + 1
    faults["spans without a token, left out"] += [f"{where}: {span}" for span in spans if span not in encoded]
    return sentences
