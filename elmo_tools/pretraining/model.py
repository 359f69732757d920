"""The initial model of a pretraining run: new, from a checkpoint, or with another vocabulary."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from elmo import BiLM, load_bilm
from elmo_core.command import command_line
from elmo_core.config import differences
from elmo_core.files.word_vectors import load_word_vectors
from elmo_core.messages import UserError, log
from elmo_core.text.vocabulary import SPECIAL_TOKENS, Vocabulary


def load_model(
    source: Path, expected: Mapping[str, Any], vocabulary: Vocabulary | None
) -> tuple[BiLM, Vocabulary]:
    """Load a checkpoint's model, with another vocabulary if given.

    expected: configuration that it must have, by the names of the fields.
    """
    bilm, old_vocabulary = load_bilm(source, softmax=True if vocabulary is None else None)
    found = {name: getattr(bilm.config, name) for name in expected}
    different = differences(found, expected)
    if different:
        raise UserError(
            f"the model's settings contradict {source}: {'; '.join(different.values())}. "
            "Omit them: config.json has them."
        )
    if vocabulary is None:
        return bilm, old_vocabulary
    has_softmax = "softmax" in dict(bilm.named_children())
    if has_softmax and vocabulary.fingerprint == old_vocabulary.fingerprint:
        return bilm, old_vocabulary
    old_vocabulary = old_vocabulary or Vocabulary(SPECIAL_TOKENS)
    vocabulary = Vocabulary(vocabulary.tokens, alphabet=old_vocabulary.alphabet)
    return _with_vocabulary(bilm, old_vocabulary, vocabulary), vocabulary


def check_vocabulary(
    path: Path, vocabulary: Vocabulary, source: str | Path, expected: Vocabulary
) -> None:
    """Raise if the vocabulary of a file is not that of the checkpoint `source`."""
    if vocabulary.fingerprint != expected.fingerprint:
        raise UserError(
            f"`vocab_file` {path} ({len(vocabulary):,} words) is not the vocabulary of {source} "
            f"({len(expected):,} words, vocab.txt in its folder). Omit it, or change it with "
            f"`{command_line('run_pretrain.py --finetune_from')}`."
        )


def _with_vocabulary(bilm: BiLM, old: Vocabulary, new: Vocabulary) -> BiLM:
    """Change a model's vocabulary.

    The rows of words in both vocabularies are kept, the others newly initialised. A model without
    a softmax, like most published ones, gets a new one.
    """
    new_bilm = BiLM(dataclasses.replace(bilm.config, vocab_size=len(new)))
    new_bilm.notice = bilm.notice
    tables = [f"token_encoder.{name}" for name in bilm.token_encoder.word_tables]
    tables += ["softmax.weight", "softmax.bias"]
    shared_rows = [k for k, token in enumerate(new.tokens) if token in old]
    old_rows = old.ids([new[k] for k in shared_rows])
    old_weights = bilm.state_dict()
    for name, weight in new_bilm.state_dict().items():
        if name in tables and name in old_weights:
            rows = weight.numpy()
            rows[shared_rows] = old_weights[name].numpy()[old_rows]
            weight.set_value(rows)
        elif name in old_weights:
            weight.set_value(old_weights[name])
    n_new = len(new) - len(shared_rows)
    log.info(
        f"vocabulary    {len(shared_rows):,} of {len(new):,} words known, "
        f"{n_new:,} newly initialised"
    )
    if "softmax.weight" not in old_weights:
        log.info("softmax       newly initialised: the checkpoint has none")
    return new_bilm


def initialise_from_vectors(bilm: BiLM, vocabulary: Vocabulary, path: Path) -> None:
    """Initialise the word table from a word2vec file. Other words stay as they are."""
    tables = bilm.token_encoder.word_tables
    if not tables:
        raise UserError(
            f"{path}: the model reads characters only. "
            "Expected one with words: `input=word` or char+word."
        )
    field = "word_dim" if bilm.config.input == "char+word" else "projection_dim"
    dimensions = getattr(bilm.config, field)
    vectors = load_word_vectors(path)
    if vectors.vector_size != dimensions:
        raise UserError(
            f"{path}: {vectors.vector_size} dimensions, the model has {dimensions}. "
            f"Give `{field}={vectors.vector_size}`."
        )
    ids = np.array([k for k, token in enumerate(vocabulary.tokens) if token in vectors])
    if not len(ids):
        raise UserError(
            f"{path}: it has none of the vocabulary's {len(vocabulary):,} words. "
            "Are both of one language?"
        )
    share = len(ids) / len(vocabulary)
    log.info(
        f"word vectors  {len(ids):,} of {len(vocabulary):,} words ({share:.1%}) found in {path}"
    )
    table = dict(bilm.token_encoder.named_parameters())[tables[0]]  # (V, dimensions)
    rows = table.numpy()
    rows[ids] = vectors[[vocabulary[k] for k in ids]]
    table.set_value(rows)
