"""Text in files: random sentences over a small vocabulary."""

import random

from elmo_core.text.corpus import Corpus

MARKERS = ["<S>", "</S>", "<UNK>"]
WORDS = ["birds", "sing", "苹果", "rain", "a", "很", "bank", ".", "internationalization"]


def make_sentences(n, seed=0):
    """Sentences of 1 to 9 tokens. The vocabulary lacks 未知 and the last word of each, which no other sentence has."""
    rng = random.Random(seed)
    return [[*rng.choices([*WORDS, "未知"], k=rng.randrange(9)), f"未{seed}-{i}"] for i in range(n)]


def write(path, sentences):
    path.write_text("".join(" ".join(sentence) + "\n" for sentence in sentences), encoding="utf-8")
    return path


def write_shards(folder, *sizes):
    """Write one file per size. Returns the corpus and its sentences in file order."""
    folder.mkdir(exist_ok=True)
    shards = [make_sentences(size, seed=i) for i, size in enumerate(sizes)]
    for i, shard in enumerate(shards):
        write(folder / f"shard-{i}.txt", shard)
    return Corpus(folder), [sentence for shard in shards for sentence in shard]
