"""Measure what misprints and wrong word boundaries do to vectors, and to a task that was learnt from clean text.

    python benchmarks/noise.py --task=conll2000 --data=DIR --elmo char=runs/char/final word=runs/word/final \\
        --vectors=word2vec.bin --text='corpus/train/*' --output=runs/noise
    python benchmarks/noise.py ... --table                                    (print the results so far)

Arms: each ELMo by its name, frozen; `word2vec`, the --vectors; and `fasttext`, gensim's, trained on --text with the settings
of `preprocess.py vectors`, which composes a word that --text lacks from its n-grams. A word that word2vec lacks is zeros.
Each arm is trained once per seed, on clean text, with run_tag.py or run_finetune.py, which gets the flags after `--`, and
scored on the test set with each kind of noise (elmo_core/text/noise.py) in up to a fifth of its words; the noise is the same
for all. `segmentation` cuts a Chinese word in two and, where labels belong to texts, joins it to the next one instead half
of the time; a label follows its word. cosine: of a changed word's vector to its vector in the clean sentence (ELMo: mean
over the layers). Kinds that change nothing, such as the keyboard in Chinese, are left out. Finished runs are skipped.
"""

import argparse
import itertools
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import arms
import numpy as np
import steps

import script
from elmo import ELMoEmbedder
from elmo_core.checks import import_optional
from elmo_core.display.figures import figure_file
from elmo_core.files import disk
from elmo_core.machine import runtime
from elmo_core.network.cosines import unit
from elmo_core.text.language import HAN
from elmo_core.text.noise import KINDS, add_noise
from elmo_tasks.classification.classifier import Classifier
from elmo_tasks.classification.texts import read_texts
from elmo_tasks.saved import CARD
from elmo_tasks.significance import mean_and_std
from elmo_tasks.tagging.columns import read_columns
from elmo_tasks.tagging.scheme import prefix_and_tag
from elmo_tasks.tagging.tagger import Tagger
from elmo_tasks.word_vectors import WordVectors
from preprocessing import word2vec

SEGMENTATION = "segmentation"
SHARES = 0.05, 0.1, 0.2
FASTTEXT = {**word2vec.SKIP_GRAM, "vector_size": word2vec.DIMENSIONS, "bucket": 2_000_000}  # n-grams: 2.4 GB
TASKS = {"conll2000": [], "duie-lac": [], "lac": [], "chnsenticorp": ["--lang=zh"], "texts": []}  # name: flags
Part = tuple[int, list[str]]  # so many clean words became these
Vectors = Callable[[Sequence[Sequence[str]]], list[np.ndarray]]  # of sentences: of each (layers, n, D)


def main() -> None:
    parser = arms.parser_of(__doc__, TASKS, seeds=3)
    name = "ELMos, each with a name for the table"
    parser.add_argument("--elmo", nargs="+", default=[], metavar="NAME=CKPT", help=name)
    parser.add_argument("--text", help="text on which fastText is trained: that of the ELMos and of --vectors")
    parser.add_argument("--sentences", type=int, default=500, metavar="N", help="measure cosines on the first N")
    args = arms.read_flags(parser)
    for text in args.elmo:
        if not re.fullmatch(r"(?!(word2vec|fasttext)=)[\w+.]+=.+", text):
            parser.error(f"--elmo {text}: expected NAME=CKPT, the name of letters and digits")
    if not args.table:
        run(args)
    print("\n".join(table(args.output)))


def run(args: argparse.Namespace) -> None:
    """Train the arms and write a file of scores for each run."""
    elmos = dict(text.split("=", 1) for text in args.elmo)
    models = {f"ELMo {name}": steps.digest(arms.model_file(path)) for name, path in elmos.items()}
    models |= {"word2vec": args.vectors and steps.digest(Path(args.vectors)), "fasttext": args.text}
    arms.prepare(args, {**models, "sentences": str(args.sentences)})
    noisy, words = noisy_tests(args)
    vectors = {"word2vec": args.vectors} if args.vectors else {}
    if args.text:
        vectors["fasttext"] = str(fasttext(args, words))
    inputs = {name: [f"--init_from_ckpt={path}"] for name, path in elmos.items()}
    inputs |= {name: ["--init_from_ckpt=none", f"--word_vectors={path}"] for name, path in vectors.items()}
    trainings, todo, cosines = [], [], {}
    for seed, name in itertools.product(args.seeds, inputs):
        result, folder = args.output / f"{name}-{seed}.json", args.output / f"model-{name}-{seed}"
        if not result.exists():
            flags = [*inputs[name], *TASKS[args.task], f"--save_dir={folder}", "--overwrite"]
            trainings.append(steps.Step(folder / CARD, [arms.train_command(args, seed, flags)]))
            todo.append((name, result, folder))
    steps.run(trainings, args.jobs)
    for name, result, folder in todo:
        if name not in cosines:
            cosines[name] = cosines_of(vectors_of(elmos.get(name), vectors.get(name)), noisy, args.sentences)
        scores = scores_of(args, folder, noisy)
        disk.write_json(result, {"score": scores, "cosine": cosines[name], "changed": changed(noisy)})
        shutil.rmtree(folder)


# Noise

Noisy = dict[str, dict[float, list[list[Part]]]]  # the test set by kind and share


def noisy_tests(args: argparse.Namespace) -> tuple[Noisy, set[str]]:
    """The test set with each noise that changes it, and all words of the task, clean and noisy."""
    paths = arms.files(args)
    if is_tagging(args):
        clean = [sentence.tokens for path in paths.values() for sentence in read_columns(path)]
        test = [sentence.tokens for sentence in read_columns(paths["test"])]
    else:
        lang = next((flag[len("--lang=") :] for flag in [*args.flags, *TASKS[args.task]] if "--lang=" in flag), "auto")
        texts = read_texts(paths["train"], paths.get("dev"), paths["test"], None, lang, 256)
        clean, test = texts.sentences, texts.sentences[-texts.n_test :]
    noisy: Noisy = {}
    for kind in (*KINDS, SEGMENTATION):
        by_share = {share: noise_of(test, kind, share, joins=not is_tagging(args)) for share in SHARES}
        if list(map(words_of, by_share[SHARES[-1]])) != list(map(list, test)):
            noisy[kind] = {0.0: [[(1, [word]) for word in sentence] for sentence in test], **by_share}
    tests = [words_of(parts) for by_share in noisy.values() for test in by_share.values() for parts in test]
    return noisy, set(itertools.chain.from_iterable([*clean, *tests]))


def is_tagging(args: argparse.Namespace) -> bool:
    return arms.TASKS[args.task].script == "run_tag.py"


def noise_of(sentences: Sequence[Sequence[str]], kind: str, share: float, joins: bool) -> list[list[Part]]:
    random = Random(kind)  # larger shares change more words, not others
    if kind == SEGMENTATION:
        return [wrongly_segmented(sentence, share, random, joins) for sentence in sentences]
    return [[(1, [word]) for word in add_noise(sentence, share, random, [kind])] for sentence in sentences]


def wrongly_segmented(words: Sequence[str], share: float, random: Random, joins: bool) -> list[Part]:
    parts, k = [], 0
    while k < len(words):
        chosen, joined, place = random.random() < share, random.random() < 0.5, random.random()
        word, n = words[k], 1
        parts.append((1, [word]))
        if chosen and HAN.search(word):
            if joins and joined and k + 1 < len(words) and HAN.search(words[k + 1]):
                n = 2
                parts[-1] = (2, [word + words[k + 1]])
            elif len(word) > 1:
                cut = 1 + int(place * (len(word) - 1))
                parts[-1] = (1, [word[:cut], word[cut:]])
        k += n
    return parts


def words_of(parts: Sequence[Part]) -> list[str]:
    return [word for _, words in parts for word in words]


def measured(noisy: Noisy, measure: Callable[[list[list[Part]]], float]) -> dict[str, dict[float, float]]:
    """A measure of the test set by kind and share, of the clean one taken once."""
    clean = measure(next(iter(noisy.values()))[0.0])
    return {
        kind: {share: measure(test) if share else clean for share, test in by_share.items()}
        for kind, by_share in noisy.items()
    }


def changed(noisy: Noisy) -> dict[str, dict[float, float]]:
    """The share of the words that were changed, by kind and share: some words have no such misprint."""
    clean = list(map(words_of, next(iter(noisy.values()))[0.0]))

    def share_of(test: list[list[Part]]) -> float:
        pairs = zip(clean, test, strict=True)
        return sum(end - begin for pair in pairs for begin, end, *_ in changes(*pair)) / sum(map(len, clean))

    return measured(noisy, share_of)


def changes(clean: Sequence[str], parts: Sequence[Part]) -> list[tuple[int, int, int, int]]:
    """Where words were changed: from and to in the clean sentence, from and to in the noisy one."""
    places, begin, start = [], 0, 0
    for n, words in parts:
        if words != list(clean[begin : begin + n]):
            places.append((begin, begin + n, start, start + len(words)))
        begin, start = begin + n, start + len(words)
    return places


# What it does


def fasttext(args: argparse.Namespace, words: set[str]) -> Path:
    """Vectors of these words in word2vec's format, by fastText trained on the text."""
    path, models = args.output / "fasttext.bin", import_optional("gensim.models", "fastText")
    if not path.exists():
        text = word2vec.Sentences(args.text)
        trained = models.FastText(text, **FASTTEXT, seed=1, workers=runtime.n_cores()).wv
        vectors, names = models.KeyedVectors(trained.vector_size), sorted(words)
        known = [name if name in trained.key_to_index else name.lower() for name in names]  # as `WordVectors`
        vectors.add_vectors(names, np.array([trained.get_vector(name) for name in known], np.float32))
        word2vec.save(vectors, path)
    return path


def vectors_of(elmo: str | None, vectors: str | None) -> Vectors:
    if elmo:
        return ELMoEmbedder(elmo, device="cpu").encode
    table = WordVectors(vectors)
    return lambda sentences: [table.lookup([sentence]) for sentence in sentences]


def cosines_of(vectors: Vectors, noisy: Noisy, n: int) -> dict[str, dict[float, float]]:
    """Mean cosine of changed words to their clean vectors, by kind and share. Several words are their mean."""
    clean = [words_of(parts) for parts in next(iter(noisy.values()))[0.0][:n] if parts]
    before = vectors(clean)

    def cosine(test: list[list[Part]]) -> float:
        test, of_words = [parts for parts in test[:n] if parts], []
        for x, y, sentence, parts in zip(before, vectors(list(map(words_of, test))), clean, test, strict=True):
            for a, b, c, d in changes(sentence, parts):
                pair = unit(np.stack([x[:, a:b].mean(axis=1), y[:, c:d].mean(axis=1)]))  # (2, layers, D)
                of_words.append(pair.prod(axis=0).sum(axis=-1).mean())
        return float(np.mean(of_words)) if of_words else 1.0

    return {kind: {share: cosine(by_share[share]) for share in SHARES} for kind, by_share in noisy.items()}


def scores_of(args: argparse.Namespace, folder: Path, noisy: Noisy) -> dict[str, dict[float, float]]:
    """The score of a trained model by kind and share: F1, or accuracy."""
    test = arms.files(args)["test"]
    if not is_tagging(args):
        classifier = Classifier(folder)
        texts = classifier.read(test, None)

        def score(noise: list[list[Part]]) -> float:
            return classifier.score(replace(texts, sentences=list(map(words_of, noise)))).accuracy
    else:
        tagger, sentences = Tagger(folder), read_columns(test)

        def score(noise: list[list[Part]]) -> float:
            scheme, pairs = tagger.settings.scheme, zip(sentences, noise, strict=True)
            noisy = [replace(s, tokens=words_of(p), labels=labels_of(s.labels, p, scheme)) for s, p in pairs]
            return tagger.score(noisy).value

    return measured(noisy, score)


def labels_of(labels: Sequence[str], parts: Sequence[Part], scheme: str) -> list[str]:
    """The labels, with those of words that were cut in two: the second half continues the span of the first."""
    labels_of_parts = []
    for label, (_, words) in zip(labels, parts, strict=True):
        prefix, tag = prefix_and_tag(label, scheme)
        halves = [label, label]
        if scheme == "lac":
            halves = [f"{tag}-{'I' if prefix == 'I' else 'B'}", f"{tag}-I"]
        elif scheme == "bio" and prefix == "B":
            halves = [label, f"I-{tag}"]
        labels_of_parts += halves if len(words) == 2 else [label]
    return labels_of_parts


def table(folder: Path) -> list[str]:
    """Per kind and share, each arm's score (mean and deviation over seeds) and cosine; also draws noise.png."""
    names = sorted({path.stem.rpartition("-")[0] for path in folder.glob("*-[0-9]*.json")})
    runs = {name: [disk.read_json(path, "scores") for path in steps.results(folder, name).values()] for name in names}
    if not runs:
        return []
    first = runs[names[0]][0]["changed"]
    lines = []
    for measure in ("score", "cosine"):
        lines.append(f"{measure:13} share changed " + " ".join(f"{name:>15}" for name in names))
        for kind, shares in first.items():
            for share, part in shares.items():
                values = {
                    n: [run[measure][kind][share] for run in runs[n] if share in run[measure][kind]] for n in names
                }
                if all(values.values()):
                    cells = [mean_and_std(values[n] if measure == "score" else values[n][:1]) for n in names]
                    lines.append(
                        f"{kind:13} {float(share):5.0%} {part:7.1%} " + " ".join(f"{cell:>15}" for cell in cells)
                    )
    draw(runs, first, folder / "noise.png")
    return lines


def draw(runs: dict[str, list[dict]], kinds: dict[str, dict], path: Path) -> None:
    with figure_file(path, (3 * len(kinds), 6)) as figure:
        axes = figure.subplots(2, len(kinds), sharex=True, sharey="row", squeeze=False)
        for (row, measure), (column, kind) in itertools.product(enumerate(("score", "cosine")), enumerate(kinds)):
            for name, results in runs.items():
                shares = results[0][measure][kind]
                means = [100 * np.mean([run[measure][kind][share] for run in results]) for share in shares]
                axes[row, column].plot([100 * float(share) for share in shares], means, marker="o", label=name)
            axes[row, column].grid(alpha=0.3)
            axes[0, column].set_title(kind)
            axes[1, column].set_xlabel("% of the words drawn")
            axes[row, 0].set_ylabel(f"{measure}, %")
        axes[0, 0].legend()
        figure.tight_layout()


if __name__ == "__main__":
    script.run(main)
