"""Write the sample in data/: text from two small grammars, whose entropy is known exactly.

    python tests/sample/make_sample.py
    python tests/sample/make_sample.py --surprisal FILE ...

The first writes everything again, byte for byte the same. The second prints the exact surprisal of
every word, in bits.

`grammar_en.txt` and `grammar_zh.txt` define the language, `grammar.py` computes with them,
`passages.py` writes passages with questions. Needs only Python.
"""

import argparse
import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from grammar import Automaton, GrammarError, GrammarReader, Rules, Word, normalise
from passages import passages

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[1] / "data"
SEED = 2018
TRAIN_SHARDS, SENTENCES_PER_TRAIN_SHARD = 4, 7500
DEV_SHARDS, SENTENCES_PER_DEV_SHARD = 2, 1500
POLARITY_SENTENCES = 600  # per class
POLARITY_NOISE = 0.04  # fraction of neutral reviews, and of reviews in the wrong file
LAC_TRAIN_SENTENCES, LAC_DEV_SENTENCES = 500, 150
READING_TRAIN_PASSAGES, READING_DEV_PASSAGES = 120, 40
SPECIAL_TOKENS = ("<S>", "</S>", "<UNK>")


def read_grammar(held_out: bool = False) -> Rules:
    """The rules of both languages, with the start rule `sample`: half English, half Chinese."""
    english, chinese = GrammarReader(), GrammarReader(held_out)
    english.read(HERE / "grammar_en.txt")
    chinese.read(HERE / "grammar_zh.txt")
    if both := english.rules.keys() & chinese.rules.keys():
        raise GrammarError(f"defined in both languages: {', '.join(sorted(both))}")
    bodies = [symbols for alternatives in chinese.rules.values() for _, symbols in alternatives]
    if untagged := {
        word.text for body in bodies for word in body if isinstance(word, Word) and not word.tag
    }:
        raise GrammarError(
            f"grammar_zh.txt: no part of speech is given for {', '.join(sorted(untagged))}"
        )
    return normalise(
        {**english.rules, **chinese.rules, "sample": [(1.0, ("en",)), (1.0, ("zh",))]}, "sample"
    )


def text_of(words: Iterable[Word]) -> str:
    return " ".join(word.text for word in words)


def bound(automaton: Automaton) -> dict[str, float]:
    """The best possible perplexity on new text.

    Predictions: n words and the special token at the end (or beginning).
    """
    entropy, predictions = automaton.entropy(), automaton.expected_length() + 1
    return {
        "sentence_entropy_nats": round(entropy, 6),
        "predictions_per_sentence": round(predictions, 6),
        "best_perplexity": round(math.exp(entropy / predictions), 6),
    }


def bound_on(automaton: Automaton, sentences: list[str]) -> dict[str, float]:
    """The grammar's own perplexity on these sentences, the best possible."""
    log_probability = math.fsum(automaton.parse(sentence.split())[0] for sentence in sentences)
    predictions = sum(len(sentence.split()) + 1 for sentence in sentences)
    return {
        "sentences": len(sentences),
        "predictions": predictions,
        "log_probability_nats": round(log_probability, 4),
        "best_perplexity": round(math.exp(-log_probability / predictions), 6),
    }


def senses(automaton: Automaton, sentences: Iterable[str]) -> Iterator[tuple[int, int, str, str]]:
    """Yield (sentence, position, word, sense) for every ambiguous word, counted from 0."""
    for number, sentence in enumerate(sentences):
        for position, word in enumerate(automaton.parse(sentence.split())[1]):
            if word.sense:
                yield number, position, word.text, word.sense


def sense_table(automaton: Automaton, paths: Iterable[Path]) -> list[str]:
    rows = ["file\tline\ttoken\tword\tsense"]
    for path in paths:
        lines = path.read_text(encoding="utf-8").splitlines()
        rows += ["\t".join(map(str, (path.name, *row))) for row in senses(automaton, lines)]
    return rows


def surprisal_table(automaton: Automaton, paths: Iterable[Path]) -> list[str]:
    rows = ["line\tposition\ttoken\tforward\tbackward"]
    for number, line in enumerate(
        line for path in paths for line in path.read_text(encoding="utf-8").splitlines()
    ):
        tokens = line.split()
        for position, (token, *nats) in enumerate(
            zip([*tokens, "</S>"], *automaton.surprisals(tokens), strict=True)
        ):
            bits = (f"{value / math.log(2):.6f}" for value in nats)
            rows.append("\t".join(map(str, (number, position, token, *bits))))
    return rows


def vocabulary(sentences: Iterable[str]) -> list[str]:
    """Special tokens, then the tokens by decreasing frequency, ties by code points."""
    counts = Counter(token for sentence in sentences for token in sentence.split())
    return [*SPECIAL_TOKENS, *sorted(counts, key=lambda token: (-counts[token], token))]


def write_lines(path: Path, lines: Iterable[str], encoding: str = "utf-8") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(f"{line}\n" for line in lines).encode(encoding))


def write_shards(folder: Path, sentences: list[str], shards: int) -> list[Path]:
    size = len(sentences) // shards
    paths = [folder / f"{folder.name}-{i:05d}-of-{shards:05d}" for i in range(shards)]
    for i, path in enumerate(paths):
        write_lines(path, sentences[i * size : (i + 1) * size])
    return paths


def fresh(draw: Callable[[], list[Word]], known: set[str]) -> list[Word]:
    """Draw a sentence that is not known, and add it to the known ones."""
    while text_of(words := draw()) in known:
        pass
    known.add(text_of(words))
    return words


def write_polarity(folder: Path, rules: Rules, known: set[str], rng: random.Random) -> None:
    """Write film reviews as in the sentence polarity dataset, some of them neutral or in the wrong
    file.
    """
    reviews = {kind: Automaton(rules, f"review.{kind}") for kind in ("pos", "neg", "neutral")}

    def draw(kind: str, other: str) -> list[Word]:
        chance = rng.random()
        said = (
            "neutral" if chance < POLARITY_NOISE else other if chance < 2 * POLARITY_NOISE else kind
        )
        return reviews[said].draw(rng)

    for kind, other in (("pos", "neg"), ("neg", "pos")):
        sentences = [fresh(partial(draw, kind, other), known) for _ in range(POLARITY_SENTENCES)]
        write_lines(
            folder / f"rt-polarity.{kind}",
            (f"{text_of(words)} " for words in sentences),
            encoding="latin-1",
        )


def write_lac(
    folder: Path, train: Automaton, dev: Automaton, known: set[str], rng: random.Random
) -> None:
    """Write Chinese sentences with LAC's tags, in columns.

    The dev set has words that occur nowhere else.
    """
    for name, automaton, n in (
        ("train", train, LAC_TRAIN_SENTENCES),
        ("dev", dev, LAC_DEV_SENTENCES),
    ):
        sentences = [fresh(partial(automaton.draw, rng), known) for _ in range(n)]
        lines = ("".join(f"{word.text}\t{word.tag}\n" for word in words) for words in sentences)
        write_lines(folder / f"{name}.txt", lines)


def write_reading(folder: Path, rng: random.Random) -> None:
    """Write passages and questions in SQuAD's JSON.

    The dev set has words that occur nowhere else.
    """
    for name, n in (("train", READING_TRAIN_PASSAGES), ("dev", READING_DEV_PASSAGES)):
        articles = [
            {"title": "", "paragraphs": [paragraph]}
            for paragraph in passages(n, name == "dev", rng)
        ]
        data = ",\n".join(json.dumps(article, ensure_ascii=False) for article in articles)
        write_lines(folder / f"{name}.json", ['{"version": "1.1", "data": [', data, "]}"])


def write_sample(folder: Path) -> None:
    rules = read_grammar()
    whole, english, chinese = (Automaton(rules, start) for start in ("sample", "en", "zh"))
    if ending := whole.ambiguous_ending():
        raise GrammarError(f"a sentence has two derivations, which diverge at: {' '.join(ending)}")

    def rng(part: str) -> random.Random:
        return random.Random(f"{SEED} {part}")

    def sentences(part: str, n: int) -> list[str]:
        generator = rng(part)
        return [text_of(whole.draw(generator)) for _ in range(n)]

    train = sentences("train", TRAIN_SHARDS * SENTENCES_PER_TRAIN_SHARD)
    dev = sentences("dev", DEV_SHARDS * SENTENCES_PER_DEV_SHARD)
    words = vocabulary(train)
    write_shards(folder / "train", train, TRAIN_SHARDS)
    dev_paths = write_shards(folder / "dev", dev, DEV_SHARDS)
    write_lines(folder / "dev_senses.tsv", sense_table(whole, dev_paths))
    write_lines(folder / "vocabulary.txt", words)

    write_polarity(folder / "polarity", rules, set(train), rng("polarity"))
    write_lac(
        folder / "lac",
        chinese,
        Automaton(read_grammar(held_out=True), "zh"),
        set(train),
        rng("lac"),
    )
    write_reading(folder / "reading", rng("reading"))

    figures = {
        "seed": SEED,
        "source": bound(whole),
        "source_english": bound(english),
        "source_chinese": bound(chinese),
        "dev": bound_on(whole, dev),
        "train": {
            "sentences": len(train),
            "predictions": sum(len(line.split()) + 1 for line in train),
        },
        "vocabulary": len(words),
        "grammar": {
            "rules": len(rules),
            "free_probabilities": sum(len(alternatives) - 1 for alternatives in rules.values()),
            "automaton_states": len(whole.edges),
        },
    }
    write_lines(folder / "entropy.json", [json.dumps(figures, indent=2)])


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Write the sample: text whose entropy is known exactly."
    )
    parser.add_argument(
        "--output", type=Path, default=DATA, help="folder to write to (default: %(default)s)"
    )
    parser.add_argument(
        "--surprisal", type=Path, nargs="+", metavar="FILE", help="only print each word's surprisal"
    )
    args = parser.parse_args()
    if args.surprisal:
        print(*surprisal_table(Automaton(read_grammar(), "sample"), args.surprisal), sep="\n")
    else:
        write_sample(args.output)


if __name__ == "__main__":
    main()
