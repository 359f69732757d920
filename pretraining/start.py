"""The model that a pretraining run starts from: a new one, a checkpoint's, one over another vocabulary."""

import argparse
from pathlib import Path

import args as arguments
import elmo
from elmo_core.config import PRESETS, ELMoConfig
from elmo_core.runtime import UserError, log
from elmo_core.tokens import Vocabulary
from elmo_core.word_vectors import load_word_vectors


def model(args: argparse.Namespace, source: Path | None) -> tuple[elmo.BiLM, Vocabulary]:
    """The model and its vocabulary: that of the checkpoint `source` where there is one."""
    given = Vocabulary.from_file(args.vocab_file) if args.vocab_file else None
    if source is None:
        return new_model(args, given)
    bilm, known = elmo.load_bilm(source, head=True)
    check_model_flags(args, bilm.config, source)
    if args.pretrained_word_embeddings:
        log.warning(f"--pretrained_word_embeddings is not read: {source} brings its own vectors.")
    if given is None or given.fingerprint == known.fingerprint:
        return bilm, known
    if args.init_from_ckpt:
        raise UserError(
            f"--vocab_file {args.vocab_file} is not the vocabulary of {source} ({len(given):,} and {len(known):,} words). "
            "Leave it out to go on with the checkpoint's, or use --finetune_from to change it."
        )
    return with_vocabulary(bilm, known, given), given


def new_model(args: argparse.Namespace, vocabulary: Vocabulary | None) -> tuple[elmo.BiLM, Vocabulary]:
    """A model with random weights, or with word vectors from a file, of the size that the flags say."""
    if vocabulary is None:
        raise UserError("--vocab_file is missing: `preprocess.py vocab` makes one from a corpus.")
    size, changes = args.model_size or arguments.MODEL_SIZE, arguments.model_changes(args)
    bilm = elmo.BiLM(ELMoConfig.preset(size, vocab_size=len(vocabulary), **changes))
    if args.pretrained_word_embeddings:
        fill_word_table(bilm, vocabulary, args.pretrained_word_embeddings)
    return bilm, vocabulary


def check_model_flags(args: argparse.Namespace, config: ELMoConfig, source: Path) -> None:
    """Refuse flags that ask for another model than the checkpoint's, whose config.json decides."""
    wanted = {**(PRESETS[args.model_size] if args.model_size else {}), **arguments.model_changes(args)}
    found = config.to_dict()
    for name, value in wanted.items():
        if found[name] != value:
            raise UserError(
                f"the flags ask for {name} {value}, but {source} has {found[name]}. A checkpoint's config.json decides "
                "its model: leave the model's flags out."
            )


def with_vocabulary(bilm: elmo.BiLM, known: Vocabulary, new: Vocabulary) -> elmo.BiLM:
    """The same model over another vocabulary: rows of words known to both are kept, the others start fresh."""
    changed = elmo.BiLM(ELMoConfig.from_dict({**bilm.config.to_dict(), "vocab_size": len(new)}))
    tables = ["softmax.weight", "softmax.bias"]
    if bilm.config.input == "word":
        tables.append("token_encoder.embedding.weight")
    here = [k for k, token in enumerate(new.tokens) if token in known]
    there = known.ids([new[k] for k in here])
    before = bilm.state_dict()
    for name, weight in changed.state_dict().items():
        if name in tables:
            rows = weight.numpy()
            rows[here] = before[name].numpy()[there]
            weight.set_value(rows)
        else:
            weight.set_value(before[name])
    log.info(f"vocabulary    {len(here):,} of {len(new):,} words known, {len(new) - len(here):,} start fresh")
    return changed


def fill_word_table(bilm: elmo.BiLM, vocabulary: Vocabulary, path: Path) -> None:
    """Fill the word table with vectors in word2vec's format; words without one keep their random start."""
    if bilm.config.input != "word":
        raise UserError("--pretrained_word_embeddings fills a word table: it needs --input=word.")
    vectors = load_word_vectors(path)
    if vectors.vector_size != bilm.config.projection_dim:
        raise UserError(
            f"{path}: its vectors have {vectors.vector_size} dimensions, the model's {bilm.config.projection_dim}. "
            f"Give --projection_dim={vectors.vector_size}."
        )
    here = [k for k, token in enumerate(vocabulary.tokens) if token in vectors]
    if not here:
        raise UserError(f"{path}: it has none of the vocabulary's {len(vocabulary):,} words. Are both of one language?")
    table = bilm.token_encoder.embedding.weight
    rows = table.numpy()
    rows[here] = vectors[[vocabulary[k] for k in here]]
    table.set_value(rows)
    share = len(here) / len(vocabulary)
    log.info(f"word vectors  {len(here):,} of {len(vocabulary):,} words ({share:.1%}) found in {path}")
