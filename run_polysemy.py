"""What a word means in context: its occurrences in a text, and for some of them the nearest others, by layer.

    python run_polysemy.py --init_from_ckpt=checkpoints --corpus='corpus/dev/*' --word=bank,苹果
    python run_polysemy.py --init_from_ckpt=checkpoints --corpus='corpus/dev/*' --word=bank --plot=bank.png \\
        --sentence='we sat on the bank of the river .'
    python run_polysemy.py --init_from_ckpt=checkpoints/sample --corpus='data/dev/*' --senses=data/dev_senses.tsv

The corpus is text as for pretraining, one sentence a line, tokens separated by white space. Near means by the cosine. An
occurrence's neighbours stand in other sentences: the same sentence, or one that says the same words, never counts.

--senses FILE holds the true senses of occurrences: tab-separated, with the header "file line token word sense", where file
is the name of a file of the corpus, and line and token are counted from 0. It adds how often the nearest neighbour has the
same sense, for every layer. Layer 0 does not know the context: there all occurrences are equally near, and it is at chance.
"""

import argparse
import itertools
import os
import random
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

import args as arguments
import dataset
import elmo
from elmo_core import runtime
from elmo_core.runtime import UserError, listed
from elmo_core.word_vectors import load_word_vectors
from senses.occurrences import (
    NEAREST_WORDS,
    Occurrence,
    Place,
    Word,
    before,
    columns,
    cut,
    embed,
    find,
    is_known,
    keep,
    nearest_words,
    padded,
    printable,
    read_senses,
    same_sense,
)
from senses.picture import Picture, check_picture

HEAD = 18  # columns before the sense and the sentence
CORNER = "nearest has the same sense"


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    arguments.add_checkpoint(parser, required=True)
    parser.add_argument("--corpus", required=True, metavar="PATH", help="text: a file, a folder, or a glob in quotes")
    parser.add_argument(
        "--word", type=_text, action="append", metavar="WORD[,...]", help="word to look at; may be given several times"
    )
    parser.add_argument(
        "--senses", type=Path, metavar="FILE", help="true senses; alone: only the table of all its words"
    )
    parser.add_argument(
        "--max_occurrences", **arguments.COUNT, default=1000, help="of a word; of more a random sample is taken"
    )
    arguments.add_seed(parser)
    parser.add_argument("--batch_size", **arguments.COUNT, default=128, help="sentences embedded at once")
    arguments.add_device(parser)

    shown = parser.add_argument_group("neighbours")
    shown.add_argument("--examples", **arguments.COUNT, default=3, help="occurrences of a word that are shown")
    shown.add_argument("--neighbours", **arguments.COUNT, default=3, help="nearest others of each, in each layer")
    shown.add_argument(
        "--sentence",
        type=_text,
        action="append",
        metavar="TEXT",
        help="sentence of your own, tokens separated by spaces, shown in place of the corpus's; may be given several times",
    )
    shown.add_argument("--layers", type=_layers, metavar="N[,...]", help="layers to show (default: all but 0)")
    shown.add_argument(
        "--word2vec",
        type=Path,
        metavar="FILE",
        help="static vectors of the same text to compare with, word2vec's format",
    )

    picture = parser.add_argument_group("picture")
    picture.add_argument("--plot", type=Path, metavar="FILE.png", help="draw the occurrences in two dimensions")
    picture.add_argument("--projection", choices=("pca", "tsne"), default="pca", help="how to get to two dimensions")
    picture.add_argument("--font", type=Path, metavar="FILE", help="of the picture (default: one of the machine's)")
    return parser.parse_args(argv)


def _text(text: str) -> str:
    """What came in other bytes than the machine's encoding has is no text, but lone surrogates."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        found = os.fsencode(text)
        raise argparse.ArgumentTypeError(f"{found!r:.60} is not UTF-8. Set the terminal's encoding to UTF-8") from error
    return text


def _layers(text: str) -> list[int]:
    numbers = text.split(",")
    if not all(map(str.isdecimal, numbers)):
        raise argparse.ArgumentTypeError(f"{text!r}: expected numbers of layers, as in 1,2")
    return list(dict.fromkeys(map(int, numbers)))


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    labels = read_senses(args.senses) if args.senses else {}
    asked = asked_words(args.word or [], labels, args.senses)
    own = own_sentences(args.sentence or [], asked)
    if args.plot:
        check_picture(args.plot, args.font, asked)
    corpus = dataset.Corpus(args.corpus)
    if args.max_occurrences < 2:
        raise UserError("--max_occurrences: expected 2 or more, for there is nothing else to compare with.")
    static = load_static(args.word2vec, asked) if args.word2vec else None
    embedder = elmo.ELMoEmbedder(args.init_from_ckpt, args.batch_size, args.device, progress=sys.stderr.isatty())
    layers = shown_layers(args.layers, embedder.config.n_layers)
    check_known(asked, embedder, args.init_from_ckpt)

    words, background = find(corpus, asked, labels, args)
    words = {text: word for text, word in words.items() if text in asked or keep(word, embedder)}
    if not words:
        raise UserError(f"--senses {args.senses}: none of its words can be counted, for the reasons above.")
    mine = embed(embedder, list(words.values()), own)
    shown = [words[text] for text in asked]
    nearest = nearest_words(embedder, asked, background)
    width = shutil.get_terminal_size((110, 24)).columns
    for word in shown:
        print_word(word, nearest[word.text], static, args)
        chosen = [pair for pair in mine if pair[0].word == word.text] or examples(word, args)
        print_examples(chosen, word, layers, args.neighbours, width)
    if labels:
        print()
        print_table(shown or sorted(words.values(), key=lambda word: word.text), list(words.values()), args.senses)
    if args.plot:
        Picture(args, shown, layers, background).save()


# What the user asks for


def asked_words(given: Sequence[str], labels: Mapping[Place, tuple[str, int]], senses: Path | None) -> list[str]:
    """The words of --word, which --senses must know."""
    words = list(dict.fromkeys(word for text in given for word in _split(text)))
    if not words and not labels:
        raise UserError("--word is missing: which word? (--senses FILE alone gives the table of all its words.)")
    for word in words:
        if word.split() != [word]:
            raise UserError(f"--word {word!r}: expected one token without white space, as the corpus has it.")
    known = sorted({word for _, _, _, word in labels})
    if labels and (unknown := [word for word in words if word not in known]):
        raise UserError(f"--senses {senses} has no sense of {unknown[0]!r}. It has those of {listed(known, 30)}.")
    return words


def _split(text: str) -> list[str]:
    return [word for word in map(str.strip, re.split("[,，]", text)) if word] or [text]


def own_sentences(texts: Sequence[str], asked: Sequence[str]) -> list[Occurrence]:
    """The asked words in the user's own sentences."""
    found = []
    for text in texts:
        tokens = tuple(text.split())
        held = [Occurrence(tokens, tokens.index(word)) for word in asked if word in tokens]
        if not held:
            raise UserError(
                f"--sentence {text!r}: none of its tokens is {' or '.join(asked) or 'a --word'}. Expected tokens separated "
                "by spaces, as the corpus has them."
            )
        found += held
    return found


def shown_layers(given: Sequence[int] | None, n_layers: int) -> list[int]:
    """The layers of --layers; without it all that know the context."""
    if given is None:
        return list(range(1, n_layers + 1))
    for layer in given:
        if layer == 0:
            raise UserError(
                f"--layers: layer 0 is the same for all occurrences of a word. Expected layers from 1 to {n_layers}."
            )
        if layer > n_layers:
            raise UserError(f"--layers: there is no layer {layer}. This model has the layers 1 to {n_layers}.")
    return list(given)


def load_static(path: Path, asked: Sequence[str]):
    """word2vec's vectors, which must hold the asked words."""
    vectors = load_word_vectors(path)
    for word in asked:
        if word not in vectors:
            raise UserError(
                f"--word2vec {path}: it has no vector of {word!r}. Was it made of the same text, and is the word frequent "
                "enough for its min_count?"
            )
    return vectors


def check_known(asked: Sequence[str], embedder: elmo.ELMoEmbedder, source: str) -> None:
    """A table of words must hold the asked ones."""
    for word in asked:
        if not is_known(word, embedder):
            raise UserError(
                f"{word!r} is not in the vocabulary of {source}, a model with a table of words ({len(embedder.vocabulary):,}"
                " of them): to it the word is <UNK>, like all that it does not know. Choose a word that vocab.txt has, or "
                "a model of characters."
            )


# What is printed


def examples(word: Word, args: argparse.Namespace) -> list[tuple[Occurrence, np.ndarray]]:
    """Occurrences that differ: drawn in turn from each sense, or from clusters in the last layer; each with its vectors."""
    n = min(args.examples, len(word.occurrences))
    n_clusters = min(n, len(set(word.sentences.tolist())))
    groups = word.senses if args.senses else clusters(word.vectors[-1], n_clusters, args.seed)
    order = random.Random(f"{args.seed} {word.text}").sample(range(len(groups)), len(groups))
    sizes = Counter(groups.tolist())
    decks = [[k for k in order if groups[k] == group] for group, _ in sizes.most_common()]
    turns = (k for turn in itertools.zip_longest(*decks) for k in turn if k is not None)
    return [(word.occurrences[k], word.vectors[:, k]) for k in itertools.islice(turns, n)]


def clusters(vectors: np.ndarray, n: int, seed: int) -> np.ndarray:
    """The number of each vector's cluster, (n,)."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return KMeans(n, n_init=4, random_state=seed).fit_predict(vectors)


def print_word(word: Word, nearest: Sequence[tuple[str, float]], static, args: argparse.Namespace) -> None:
    """The word, how often it occurs, and its vector in which there is no context."""
    parts = [f"{word.met:,} occurrences"]
    if args.senses and word.eligible < word.met:
        parts.append(f"{word.eligible:,} with a sense")
    if word.eligible > args.max_occurrences:
        parts.append(f"a random sample of {args.max_occurrences:,} (--max_occurrences, --seed)")
    if word.repeats:
        parts.append(f"{word.repeats:,} left out whose sentences are there already")
    print(f"{printable(word.text)}: {'; '.join(parts)}")
    print(f"  layer 0, one vector for all of them, is nearest to {_with_cosines(nearest)}")
    if static is not None:
        most_similar = static.most_similar(word.text, topn=NEAREST_WORDS)
        print(f"  word2vec, one vector for all of them, is nearest to {_with_cosines(most_similar)}")


def _with_cosines(nearest: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{printable(text)} {cosine:.2f}" for text, cosine in nearest) or "nothing: there is no other word"


def print_examples(
    shown: Iterable[tuple[Occurrence, np.ndarray]], word: Word, layers: Sequence[int], n: int, width: int
) -> None:
    """Occurrences, given with their vectors (layers, 2P), each before its nearest neighbours, the word in one column."""
    rows = []
    for number, example in enumerate(shown, 1):
        rows += [(f"  {number}", example[0]), *neighbours(example, word, layers, n)]
    senses = max(columns(sense) for sense in word.senses.tolist())
    senses += 2 * (senses > 0)
    room = max(30, width - HEAD - senses - columns(word.text) - 4)
    left = min(room // 2, max(columns(before(occurrence)) for _, occurrence in rows))
    for head, occurrence in rows:
        print(padded(head, HEAD) + padded(occurrence.sense, senses) + in_context(occurrence, left, room - left))


def neighbours(
    example: tuple[Occurrence, np.ndarray], word: Word, layers: Sequence[int], n: int
) -> Iterator[tuple[str, Occurrence]]:
    """The n nearest occurrences in other sentences, by layer, each with what is to stand before it."""
    occurrence, vectors = example
    others = np.array([other.tokens != occurrence.tokens for other in word.occurrences])
    for layer in layers:
        cosines = np.where(others, word.vectors[layer] @ vectors[layer], -np.inf)
        for rank, k in enumerate(np.argsort(-cosines, kind="stable")[: min(n, others.sum())].tolist()):
            name = "" if rank else f"layer {layer}"
            yield f"    {name:<8}{cosines[k]:.2f}", word.occurrences[k]


def in_context(occurrence: Occurrence, left: int, right: int) -> str:
    """The word between as many columns of its sentence on either side."""
    start = cut(before(occurrence)[::-1], left)[::-1]
    end = cut(printable(" ".join(occurrence.tokens[occurrence.position + 1 :])), right)
    return f"{' ' * (left - columns(start))}{start} [{printable(occurrence.word)}] {end}".rstrip()


def print_table(shown: Sequence[Word], words: Sequence[Word], senses: Path) -> None:
    """How often the nearest neighbour has the same sense: chance, and by layer."""
    n_layers = len(words[0].vectors)
    names = [printable(word.text) for word in shown]
    total = f"words of {senses.name}: {len(words)}"
    width = max(map(columns, [*names, total, CORNER])) + 2
    heads = ["occurrences", "senses", "chance", *(f"layer {layer}" for layer in range(n_layers))]
    print(padded(CORNER, width) + "  ".join(heads))
    scores = {word.text: _scores(word) for word in words}  # each (1 + layers, n)
    for name, chosen in [*zip(names, ([word] for word in shown), strict=True), (total, words)]:
        shares = np.concatenate([scores[word.text] for word in chosen], axis=1).mean(axis=1)
        n_senses = sum(len(set(word.senses.tolist())) for word in chosen)
        cells = [f"{sum(len(word.senses) for word in chosen):,}", f"{n_senses}", *(f"{share:.1%}" for share in shares)]
        row = "  ".join(f"{cell:>{len(head)}}" for cell, head in zip(cells, heads, strict=True))
        print(padded(name, width) + row)


def _scores(word: Word) -> np.ndarray:
    """(1 + layers, n): by chance, as where all are equally near, then by each layer."""
    nowhere = np.zeros((1, *word.vectors.shape[1:]), dtype=np.float32)
    return np.stack([same_sense(layer, word.senses, word.sentences) for layer in (*nowhere, *word.vectors)])


if __name__ == "__main__":
    runtime.script(main)
