"""Parts of speech of `Tagger("en-ewt")` and `Parser("en-ewt")` on treebanks, beside spaCy's.

    python benchmarks/treebanks.py test.conllu --spacy en_core_web_sm

For given words: the accuracy of UPOS in percent, and words per second of processor time. spaCy's
dependencies follow other rules than Universal Dependencies, so its trees are not compared; for
ours, see `run_parse.py evaluate`. Its lemmas and names are not computed.
"""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import args as arguments
import script
from elmo_core.checks import import_optional
from elmo_tasks import Parser, Tagger
from elmo_tasks.parsing.data import read_conllu
from elmo_tasks.parsing.trees import NOT_A_WORD, Tree

Tag = Callable[[Sequence[Tree]], list[list[str]]]


def main(argv: Sequence[str] | None = None) -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("treebanks", **arguments.FILE, nargs="+", help="in CoNLL-U")
    parser.add_argument("--spacy", metavar="NAME", help="a model of spaCy: a package, or a folder")
    args = parser.parse_args(argv)
    taggers = {"Tagger": by_tagger(), "Parser": by_parser()}
    if args.spacy:
        taggers["spaCy"] = by_spacy(args.spacy)
    for path in args.treebanks:
        trees = list(read_conllu(path))
        n_words = sum(len(tree.tokens) for tree in trees)
        for name, tag in taggers.items():
            tag(trees[:5])
            start = time.process_time()
            found = tag(trees)
            speed = n_words / (time.process_time() - start)
            right = 100 * n_right(trees, found) / n_words
            print(f"{path.name:<24} {name:<8} {right:6.2f} {speed:9,.0f} words/s", flush=True)


def n_right(trees: Sequence[Tree], found: Sequence[Sequence[str]]) -> int:
    """The number of words whose part of speech is right."""
    total = 0
    for tree, tags in zip(trees, found, strict=True):
        total += sum(gold == tag for gold, tag in zip(tree.tags, tags, strict=True))
    return total


def by_tagger() -> Tag:
    tagger = Tagger("en-ewt", device="cpu")
    return lambda trees: tagger.predict([tree.tokens for tree in trees])


def by_parser() -> Tag:
    parser = Parser("en-ewt", device="cpu")

    def tag(trees: Sequence[Tree]) -> list[list[str]]:
        parsed = parser.predict([tree.tokens for tree in trees])
        return [tree.tags for tree in parsed]

    return tag


def by_spacy(name: str) -> Tag:
    spacy = import_optional("spacy", "--spacy")
    model = spacy.load(name, exclude=["ner", "lemmatizer"])

    def tag(trees: Sequence[Tree]) -> list[list[str]]:
        texts = []
        for tree in trees:
            spaces = spaces_of(tree)
            texts.append(spacy.tokens.Doc(model.vocab, words=tree.tokens, spaces=spaces))
        found = []
        for text in model.pipe(texts):
            found.append([token.pos_ for token in text])
        return found

    return tag


def spaces_of(tree: Tree) -> list[bool]:
    """Whether a space follows each word."""
    words = [line for line in tree.lines if not NOT_A_WORD.match(line)]
    return ["SpaceAfter=No" not in line for line in words]


if __name__ == "__main__":
    script.run(main)
