"""The model that a pretraining run starts from: a new one, a checkpoint's, one over another vocabulary."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from elmo import BiLM, load_bilm
from elmo_core.config import ELMoConfig, differences
from elmo_core.files import checkpoint
from elmo_core.files.word_vectors import load_word_vectors
from elmo_core.machine.messages import UserError, log
from elmo_core.text.tokens import SPECIAL_TOKENS, Vocabulary
from pretraining.fit import fit_characters


def new_model(config: ELMoConfig, vocabulary: Vocabulary, word_vectors: Path | None = None) -> BiLM:
    """A model with random weights; `word_vectors` is a file in word2vec's format that its token encoder starts from."""
    bilm = BiLM(config)
    if word_vectors:
        _start_from_vectors(bilm, vocabulary, word_vectors)
    return bilm


def load_model(source: Path, wanted: Mapping, vocabulary: Vocabulary | None) -> tuple[BiLM, Vocabulary]:
    """The model of a checkpoint, over another vocabulary if one is given. wanted: fields that its config must have."""
    head = vocabulary is None or "softmax.weight" in checkpoint.load_params(source)
    bilm, known = load_bilm(source, head)
    if different := differences({name: getattr(bilm.config, name) for name in wanted}, wanted):
        raise UserError(
            f"the flags do not fit the model of {source}: {'; '.join(different.values())}. Leave the model's flags out: a "
            "checkpoint's config.json decides its model."
        )
    if vocabulary is None or (head and vocabulary.fingerprint == known.fingerprint):
        return bilm, known
    known = known or Vocabulary(SPECIAL_TOKENS)
    vocabulary = Vocabulary(vocabulary.tokens, alphabet=known.alphabet)
    return _with_vocabulary(bilm, known, vocabulary), vocabulary


def check_vocabulary(path: Path, given: Vocabulary, source: str | Path, known: Vocabulary) -> None:
    """Refuse a file's vocabulary that is not the one that the checkpoint was trained with."""
    if given.fingerprint != known.fingerprint:
        raise UserError(
            f"--vocab_file {path} ({len(given):,} words) is not the vocabulary that {source} was trained with "
            f"({len(known):,} words, vocab.txt in its folder). Leave it out, or change it with `run_pretrain.py "
            "--finetune_from`."
        )


def _with_vocabulary(bilm: BiLM, known: Vocabulary, new: Vocabulary) -> BiLM:
    """The same model over another vocabulary: rows of words in both are kept, the others start fresh.

    A model without a softmax, as most published ones are, gets a fresh one.
    """
    changed = BiLM(ELMoConfig.from_dict({**bilm.config.to_dict(), "vocab_size": len(new)}))
    word_tables = [f"token_encoder.{name}" for name in bilm.token_encoder.word_tables]
    tables = ["softmax.weight", "softmax.bias", *word_tables]
    here = [k for k, token in enumerate(new.tokens) if token in known]
    there = known.ids([new[k] for k in here])
    before = bilm.state_dict()
    for name, weight in changed.state_dict().items():
        if name in tables and name in before:
            rows = weight.numpy()
            rows[here] = before[name].numpy()[there]
            weight.set_value(rows)
        elif name in before:
            weight.set_value(before[name])
    log.info(f"vocabulary    {len(here):,} of {len(new):,} words known, {len(new) - len(here):,} start fresh")
    if "softmax.weight" not in before:
        log.info("softmax       starts fresh: the checkpoint has none")
    return changed


def _start_from_vectors(bilm: BiLM, vocabulary: Vocabulary, path: Path) -> None:
    """Fill the word table, or fit the character network. Words without a vector in the file keep their random start."""
    tables, config = bilm.token_encoder.word_tables, bilm.config
    flag = "word_dim" if config.input == "char+word" else "projection_dim"
    vectors = load_word_vectors(path)
    if vectors.vector_size != getattr(config, flag):
        raise UserError(
            f"{path}: its vectors have {vectors.vector_size} dimensions, the model's {getattr(config, flag)}. Give "
            f"--{flag}={vectors.vector_size}."
        )
    here = np.array([k for k, token in enumerate(vocabulary.tokens) if token in vectors])
    if not len(here):
        raise UserError(f"{path}: it has none of the vocabulary's {len(vocabulary):,} words. Are both of one language?")
    share = len(here) / len(vocabulary)
    log.info(f"word vectors  {len(here):,} of {len(vocabulary):,} words ({share:.1%}) found in {path}")
    found = vectors[[vocabulary[k] for k in here]]
    if not tables:
        return fit_characters(bilm.token_encoder, vocabulary, here, found)
    table = dict(bilm.token_encoder.named_parameters())[tables[0]]  # (V, dimensions)
    rows = table.numpy()
    rows[here] = found
    table.set_value(rows)
