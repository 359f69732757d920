"""Training a tagger on labelled sentences."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from elmo_core.files import checkpoint
from elmo_core.machine.checks import check_sentences
from elmo_core.machine.messages import UserError, format_count, join_names, log
from elmo_core.text.tokens import UNK_ID, Vocabulary, shuffled_batches
from elmo_tasks.pretrained import PretrainedBiLM
from elmo_tasks.tagging.data import Batch, Labels, Sentence, make_batch
from elmo_tasks.tagging.formats import SentenceReader
from elmo_tasks.tagging.pieces import joined_words
from elmo_tasks.tagging.scheme import forbidden_transitions, split_lac_label

LabelledSentences = Path | str | tuple[Sequence[Sequence[str]], Sequence[Sequence[str]]]  # a file, or tokens and labels


def labelled_sentences(data: LabelledSentences, reader: SentenceReader, name: str) -> list[Sentence]:
    """Read a file, or pair sentences with their labels. name: of the argument, used in error messages."""
    if isinstance(data, Path | str):
        return reader.read(Path(data))
    sentences, labels = map(check_sentences, data)
    if len(sentences) != len(labels):
        raise UserError(f"`{name}`: found {len(labels):,} rows of labels, expected {len(sentences):,}.")
    pairs = enumerate(zip(sentences, labels, strict=True))
    labelled = (Sentence(list(tokens), list(row), f"{name} {k}") for k, (tokens, row) in pairs)
    return [sentence for sentence in labelled if sentence.tokens]


def known_words(sentences: Sequence[Sentence], scheme: str) -> set[str]:
    """The words of training sentences; in LAC's scheme, joined from their tokens."""
    if scheme != "lac":
        return {token for sentence in sentences for token in sentence.tokens}
    return {word for sentence in sentences for word, _ in joined_words(sentence.tokens, sentence.labels)}


def make_labels(sentences: Sequence[Sentence]) -> Labels:
    """The labels of training sentences."""
    labels = Labels(sorted({label for sentence in sentences for label in sentence.labels}))
    if len(labels) < 2:
        raise UserError(f"`sentences` have only one label, {labels.names[0]}. Is `label_column` right?")
    return labels


def pieces_of(scheme: str, labels: Labels, pretrained: PretrainedBiLM | None, words: Vocabulary) -> Vocabulary | None:
    """The vocabulary whose pieces the tokens are: in LAC's scheme, if words are spread over tokens, the biLM's."""
    if scheme != "lac" or not any(split_lac_label(name)[1] for name in labels.names):
        return None
    vocabulary = Path(pretrained.prefix).parent / checkpoint.VOCABULARY if pretrained else None
    return Vocabulary.from_file(vocabulary) if vocabulary and vocabulary.is_file() else words


def warn_about_labels(
    labels: Labels, scheme: str, sentences: Sequence[Sentence], others: Mapping[str, Sequence[Sentence]]
) -> None:
    """Warn about labels that break the scheme or cannot be predicted. sentences: to train on; others: to score, by name."""
    for name, scored in others.items():
        if unknown := {label for sentence in scored for label in sentence.labels} - labels.index.keys():
            log.warning(
                f"{name}: labels that do not occur in the training sentences, and cannot be predicted: "
                f"{join_names(sorted(unknown))}."
            )
    table, last = forbidden_transitions(labels.names, scheme)
    broken = []
    for sentence in sentences:
        row = [labels.index[label] for label in sentence.labels]
        faults = np.flatnonzero([*table[[-1, *row[:-1]], row], last[row[-1]]])
        if len(faults):
            before, label = ["the beginning", *sentence.labels, "the end"][faults[0] :][:2]
            broken.append(f"{label} after {before} in the sentence at {sentence.where}")
    if broken:
        log.warning(
            f"{len(broken):,} of {format_count(len(sentences), 'training sentences')} break the rules of the scheme "
            f"{scheme}, which predictions never do: are there mistakes in the labels, or is `scheme` wrong? The first: "
            f"{broken[0]}."
        )


def training_batches(
    words: Vocabulary, labels: Labels, sentences: Sequence[Sentence], batch_size: int
) -> Callable[[np.random.Generator], list[Batch]]:
    """A function that draws an epoch's batches. A word seen n times becomes <UNK> with probability 1 / (n + 1)."""
    counts = Counter(token for sentence in sentences for token in sentence.tokens)
    unk_probability = np.array([1 / (1 + counts[word]) for word in words.tokens])
    tokens = [sentence.tokens for sentence in sentences]
    ids = [[labels.index[label] for label in sentence.labels] for sentence in sentences]

    def draw(random: np.random.Generator) -> list[Batch]:
        batches = []
        for indices in shuffled_batches(list(map(len, tokens)), batch_size, random):
            batch = make_batch([tokens[k] for k in indices], words, [ids[k] for k in indices])
            unknown = (random.random(batch.ids.shape) < unk_probability[batch.ids]) & (batch.ids > UNK_ID)
            batch.ids[unknown] = UNK_ID
            batches.append(batch)
        return batches

    return draw
