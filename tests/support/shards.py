"""Text in files: random sentences over a small vocabulary."""

import random

from elmo_core.text.corpus import Corpus

MARKERS = ["<S>", "</S>", "<UNK>"]
WORDS = ["birds", "sing", "苹果", "rain", "a", "很", "bank", ".", "internationalization"]


def make_sentences(n, seed=0):
    """Sentences of 1 to 9 tokens.

    The vocabulary lacks 未知 and the last word of each, which no other sentence has.
    """
    generator = random.Random(seed)
    sentences = []
    for i in range(n):
        sentence = generator.choices([*WORDS, "未知"], k=generator.randrange(9))
        sentences.append([*sentence, f"未{seed}-{i}"])
    return sentences


def write(path, sentences):
    lines = [" ".join(sentence) + "\n" for sentence in sentences]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def write_shards(folder, *sizes):
    """Write one file per size. Returns the corpus and its sentences in file order."""
    folder.mkdir(exist_ok=True)
    sentences = []
    for i, size in enumerate(sizes):
        shard = make_sentences(size, seed=i)
        write(folder / f"shard-{i}.txt", shard)
        sentences += shard
    return Corpus(folder), sentences
