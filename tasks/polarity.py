"""The sentence polarity task, as word2vec_base.py and run_finetune.py share it: reviews, protocol, scores, saved heads.

The protocol, the same whatever the encoder (bow.py):
- ten folds over all reviews, or the published single split; of each training part a tenth is held out as dev;
- a head is trained over the encoders' first vectors for every combination of --lr, --weight_decay and --dropout. The dev
  part chooses the combination and the epoch;
- encoders that learn go on from there, together with that head, for every combination of their own rates. The dev part
  chooses again, and the start is among what it chooses from: fine-tuning that only harms is not taken;
- what was chosen scores the test part, once. Nothing that chooses ever sees it.

The dev part chooses by the area under the ROC curve: the share of pairs, a positive and a negative review, that the
probabilities put in the right order. Over a thousand reviews that is steadier than the accuracy, and unlike the loss it
does not mind that fine-tuning makes a classifier too sure of itself.
"""

import argparse
import hashlib
import json
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np

import elmo
from elmo_core import checkpoint, disk, runtime, tokenise
from elmo_core.ranks import Ranks
from elmo_core.runtime import UserError, log
from elmo_core.text import foreign_form
from elmo_core.word_vectors import load_word_vectors
from tasks.bow import Bags, Encoder, Head, Learning, Model, Outcome, Part, Trainer
from tasks.scores import CLASSES, Results, check_same_reviews, compare, confusion, mistakes

FILES = (("rt-polarity.pos", 1), ("rt-polarity.neg", 0))  # in the order that the published scripts' split needs
HELD_OUT = 0.1  # share of the single split's test part, and of a training part's dev part
VECTORS = "vectors.bin"  # word2vec's, trained by a run with --results alone
AT_ONCE = 4096  # lines that are predicted together
PROBE = "it 's a moving film with a perfect ending , but its plot is silly ."  # tells one encoder from another


# Reviews


@dataclass
class Reviews:
    """Texts as they stand in the files, their tokens, and their labels (N,): 1 positive, 0 negative."""

    texts: list[str]
    sentences: list[list[str]]
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def identity(self) -> str:
        """The texts, their order and their labels, in brief, however they are tokenised."""
        digest = hashlib.sha1("\n".join(self.texts).encode("utf-8"))
        digest.update(self.labels.astype(np.int8).tobytes())
        return f"{len(self):,} reviews (SHA-1 {digest.hexdigest()[:12]})"


def read_reviews(folder: Path, tokeniser: str, max_tokens: int) -> Reviews:
    """The reviews in rt-polarity.pos and rt-polarity.neg, one a line."""
    texts, labels = [], []
    for name, label in FILES:
        if not (folder / name).is_file():
            raise UserError(
                f"--data_dir {folder}: there is no {name}. Expected the folder of the sentence polarity dataset v1: `bash "
                "download_data.sh polarity` fetches it; data/polarity is a small sample in the same form."
            )
        lines = read_lines(folder / name)
        found = [line for line in lines if line.strip()]
        if not found:
            raise UserError(f"{folder / name}: there is no review in it. Expected one a line.")
        if len(found) < len(lines):
            log.warning(f"{folder / name}: {len(lines) - len(found):,} blank lines, which are passed over.")
        texts += found
        labels += [label] * len(found)
    return Reviews(texts, tokens_of(texts, tokeniser, max_tokens, folder), np.array(labels))


def read_lines(path: Path) -> list[str]:
    """The lines of a file: valid UTF-8, or else latin-1. Only a line feed ends a line; latin-1 holds others as signs."""
    if not path.is_file():
        raise UserError(f"{path}: there is no such file. Expected one review a line.")
    data = path.read_bytes()
    if form := foreign_form(data):
        raise UserError(f"{path} is {form}. Expected plain text, in UTF-8 or latin-1.")
    if b"\0" in data:
        raise UserError(f"{path} holds NUL bytes: it is no text. Expected one review a line.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]


def tokens_of(texts: Sequence[str], tokeniser: str, max_tokens: int, source: Path) -> list[list[str]]:
    """The tokens of every text. How many texts are cut is said."""
    sentences = list(map(TOKENISERS[tokeniser], texts))
    long = sum(len(sentence) > max_tokens for sentence in sentences)
    if long:
        log.warning(f"{source}: {long:,} reviews have more than --max_seq_len {max_tokens} tokens and are cut there.")
    return [sentence[:max_tokens] for sentence in sentences]


def english_tokens(text: str) -> list[str]:
    """Tokens as `preprocess.py text --lang en` makes them of a corpus: `it 's`, `do n't`, and no HTML.

    rt-polarity itself leaves clitics whole (`it's`), and vectors made from such a corpus know none of these.
    """
    sentences = map(tokenise.english, tokenise.paragraphs(text))
    return list(chain.from_iterable(chain.from_iterable(sentences)))


TOKENISERS: dict[str, Callable[[str], list[str]]] = {"en": english_tokens, "none": str.split}


# The protocol


def parts_of(labels: np.ndarray, protocol: str, folds: int, seed: int) -> list[Part]:
    return cross_validation(labels, folds, seed) if protocol == "cv" else [single_split(labels, seed)]


def cross_validation(labels: np.ndarray, folds: int, seed: int) -> list[Part]:
    """Every review is in one test part. All have as many reviews of each class, give or take one."""
    from sklearn.model_selection import StratifiedKFold

    if folds < 2 or folds > np.bincount(labels).min() // 2:
        fewest = np.bincount(labels).min()
        raise UserError(f"--folds {folds}: expected 2 to {fewest // 2:,}, for there are {fewest:,} reviews of a class.")
    pairs = StratifiedKFold(folds, shuffle=True, random_state=seed).split(labels, labels)
    return [
        Part(f"fold {k}/{folds}", *_with_dev(train, labels, seed), test) for k, (train, test) in enumerate(pairs, 1)
    ]


def single_split(labels: np.ndarray, seed: int) -> Part:
    """The published scripts' test part: a tenth of all, drawn without regard to the class."""
    from sklearn.model_selection import train_test_split

    train, test = train_test_split(np.arange(len(labels)), test_size=HELD_OUT, random_state=seed)
    return Part("split", *_with_dev(train, labels, seed), test)


def everything(labels: np.ndarray, seed: int) -> Part:
    """For a head that is to be used: nothing is scored."""
    return Part("all reviews", *_with_dev(np.arange(len(labels)), labels, seed), np.arange(0))


def _with_dev(train: np.ndarray, labels: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The training part without its dev part, and that: a tenth, as much of each class."""
    from sklearn.model_selection import train_test_split

    fewest = int(np.bincount(labels[train], minlength=len(CLASSES)).min())
    if fewest < 2 or len(train) * HELD_OUT <= len(CLASSES) - 1:
        raise UserError(
            f"{len(labels):,} reviews are too few: a tenth of a training part must hold some of each class."
        )
    return tuple(train_test_split(train, test_size=HELD_OUT, stratify=labels[train], random_state=seed))


# What the scripts do


def main(
    args: argparse.Namespace,
    build: Callable[[argparse.Namespace, Reviews, Ranks], list[Encoder]],
    rebuild: Callable[[argparse.Namespace, list[dict]], list[Encoder]],
) -> None:
    """A script's work. `build` makes its encoders for the reviews, `rebuild` those that a saved head was trained with."""
    runtime.set_device(args.device)
    if args.load_head:
        predict_by_saved(args, rebuild)
        return
    ranks = Ranks(advice="With --results, the same command goes on behind the folds that are done.")
    if not ranks.first:
        log.setLevel("WARNING")
    check(args)
    reviews = read_reviews(args.data_dir, args.tokenise, args.max_seq_len)
    parts = parts_of(reviews.labels, args.protocol, args.folds, args.seed)
    others = results_to_compare_with(args, reviews, parts)
    done = Done(args, reviews)
    ranks.on_first(done.open)
    run(args, ranks, reviews, parts, done, build(args, reviews, ranks), others)


def predict_by_saved(
    args: argparse.Namespace, rebuild: Callable[[argparse.Namespace, list[dict]], list[Encoder]]
) -> None:
    """--load_head, which does nothing else."""
    if not args.predict:
        raise UserError("--load_head loads a head to predict with: say by --predict which file.")
    for flag in ("results", "compare_with", "confusion", "mistakes", "save_head"):
        if getattr(args, flag):
            raise UserError(f"--{flag} has no effect with --load_head, which only predicts. Leave one of them out.")
    head, encoders, settings = load_head(args, rebuild)
    predict(args.predict, head, encoders, settings["tokenise"], settings["max_seq_len"])


def check(args: argparse.Namespace) -> None:
    """Refuse, before the work begins, what would fail at its end."""
    if args.num_classes != len(CLASSES):
        raise UserError(f"--num_classes {args.num_classes}: the sentence polarity dataset has {len(CLASSES)}.")
    if args.predict:
        read_lines(args.predict)
    if args.results:
        disk.check_output("--results", args.results)
    if args.save_head:
        disk.check_output("--save_head", args.save_head / "head.pdparams")
    if args.save_head and args.save_head.exists() and (not args.save_head.is_dir() or any(args.save_head.iterdir())):
        raise UserError(
            f"--save_head {args.save_head}: something is there. Expected a folder that is empty or not there."
        )


def results_to_compare_with(
    args: argparse.Namespace, reviews: Reviews, parts: Sequence[Part]
) -> list[tuple[Path, Results]]:
    """Other runs' results, which must be about the reviews that this run will score."""
    others = [(path, Results.load(path)) for path in args.compare_with or ()]
    scored = np.sort(np.concatenate([part.test for part in parts]))
    for path, other in others:
        check_same_reviews(reviews.identity, scored, other, path)
    return others


def run(
    args: argparse.Namespace,
    ranks: Ranks,
    reviews: Reviews,
    parts: Sequence[Part],
    done: "Done",
    encoders: Sequence[Encoder],
    others: Sequence[tuple[Path, Results]],
) -> None:
    """The protocol, each rank with its share of the parts; then a head to keep or to predict with, if one is wanted."""
    began = time.perf_counter()
    model = Model(encoders, args.sent_embedding_dim)
    model.read(reviews.sentences, ranks)
    ranks.on_first(lambda: done.check_vectors(model))
    shapes = " and ".join(f"{encoder.name} {' x '.join(map(str, encoder.shape))}" for encoder in encoders)
    taken = runtime.duration(time.perf_counter() - began)
    log.info(f"reviews       {reviews.identity}, of each the means of layers x dimensions: {shapes}; in {taken}")
    if ranks.size > len(parts):
        log.info(f"processes     {len(parts)} of {ranks.size} have work: each takes whole folds")
    mine = range(ranks.rank, len(parts), ranks.size)
    trainer = Trainer(model, reviews.labels, args, sum(not done.has(k + 1) for k in mine))

    def outcome_of(k: int) -> Outcome:
        return done.load(k + 1) if done.has(k + 1) else done.save(k + 1, trainer.train(parts[k], k + 1))

    shares = ranks.on_each(lambda: [outcome_of(k) for k in mine])
    outcomes = [shares[k % ranks.size][k // ranks.size] for k in range(len(parts))]
    if ranks.first:
        results = results_of(outcomes, reviews)
        report(args, outcomes, results, reviews, time.perf_counter() - began)
        for path, other in others:
            print(compare(results, other, path, args.seed))
    if args.save_head or args.predict:
        ranks.on_first(lambda: keep(args, model, reviews, trainer, parts))
    if ranks.first:
        done.close()


def parts_folder(args: argparse.Namespace) -> Path | None:
    """Where a run with --results keeps what it has done so far."""
    return Path(f"{args.results}.parts") if args.results else None


class Done:
    """The parts that are done, each in a file beside --results until all are: a run that was killed goes on there."""

    NOT_THE_RUN = (
        "train_word2vec_on",
        "results",
        "compare_with",
        "confusion",
        "mistakes",
        "save_head",
        "load_head",
        "predict",
        "logging_step",
    )

    def __init__(self, args: argparse.Namespace, reviews: Reviews):
        self.folder = parts_folder(args)
        self.settings = {name: str(value) for name, value in vars(args).items() if name not in self.NOT_THE_RUN}
        self.settings["data"] = reviews.identity
        text = getattr(args, "train_word2vec_on", None)
        if text and not args.pretrained_word2vec_file:  # which the vectors would be in, and be known by
            self.settings["train_word2vec_on"] = text

    def open(self) -> None:
        """Refuse parts of a run with other settings."""
        if self.folder and self._check("settings", self.settings):
            (self.folder / VECTORS).unlink(missing_ok=True)  # of a run that ended before its first part

    def check_vectors(self, model: Model) -> None:
        """Refuse parts of a run whose encoders had other weights, though their files had the same names."""
        if self.folder:
            weights = [weight.numpy() for encoder in model.encoders for weight in encoder.parameters()]
            crc = 0
            for weight in weights:
                crc = zlib.crc32(np.ascontiguousarray(weight), crc)
            self._check("vectors", {"vectors": f"CRC-32 {crc:08x}"})

    def _check(self, name: str, values: dict[str, str]) -> bool:
        """Keep the values with the first part, and refuse others with those that follow. Whether they are news."""
        path = self.folder / f"{name}.json"
        found = self._read(path) if path.exists() else {}
        changes = [name for name, value in values.items() if found.get(name) != value]
        if changes and any(self.folder.glob("[0-9]*.json")):
            listed = "; ".join(f"{name} was {found.get(name)}, is {values[name]}" for name in changes)
            raise UserError(
                f"{self.folder} holds folds of a run that was interrupted, with other settings: {listed}. Give the same to "
                "go on, or delete the folder."
            )
        if changes:
            with disk.atomic_write(path) as file:
                file.write(json.dumps(values))
        return bool(changes)

    def has(self, number: int) -> bool:
        return bool(self.folder) and self._path(number).exists()

    def load(self, number: int) -> Outcome:
        values = self._read(self._path(number))
        try:
            values["test"] = np.array(values["test"])
            values["probabilities"] = np.array(values["probabilities"], np.float32)
            outcome = Outcome(**values)
        except (KeyError, TypeError, ValueError) as error:
            raise self._damaged(self._path(number), error) from error
        log.info(f"{outcome.part}  was done before")
        return outcome

    def _read(self, path: Path) -> dict:
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise self._damaged(path, error) from error
        if not isinstance(values, dict):
            raise self._damaged(path, "no object")
        return values

    def _damaged(self, path: Path, error: object) -> UserError:
        return UserError(f"{path} is damaged ({error}). Delete the folder to begin anew.")

    def save(self, number: int, outcome: Outcome) -> Outcome:
        if self.folder:
            arrays = {"test": outcome.test.tolist(), "probabilities": outcome.probabilities.tolist()}
            with disk.atomic_write(self._path(number)) as file:
                file.write(json.dumps({**vars(outcome), **arrays}))
        return outcome

    def _path(self, number: int) -> Path:
        return self.folder / f"{number}.json"

    def close(self) -> None:
        if not self.folder:
            return
        for path in (*self.folder.glob("*.json"), self.folder / VECTORS):
            path.unlink(missing_ok=True)
        with suppress(OSError):  # something that is not ours is there
            self.folder.rmdir()


def results_of(outcomes: Sequence[Outcome], reviews: Reviews) -> Results:
    """What the run says of every test review, in the order of the reviews."""
    number = np.concatenate([outcome.test for outcome in outcomes])
    probabilities = np.concatenate([outcome.probabilities for outcome in outcomes])
    order = np.argsort(number)
    number, probabilities = number[order], probabilities[order]
    mean = float(np.mean([outcome.accuracy for outcome in outcomes]))
    label, prediction = reviews.labels[number], probabilities.argmax(axis=1)
    return Results(reviews.identity, mean, number, label, prediction, probabilities[:, 1])


def report(
    args: argparse.Namespace, outcomes: Sequence[Outcome], results: Results, reviews: Reviews, seconds: float
) -> None:
    """Write the scores where --results says, and print them."""
    scores = np.array([outcome.accuracy for outcome in outcomes])
    first = np.array([outcome.first_accuracy for outcome in outcomes])
    if args.results:
        parts = [
            {"name": outcome.part, "accuracy": outcome.accuracy, "settings": outcome.settings, "mixes": outcome.mixes}
            for outcome in outcomes
        ]
        settings = {name: str(value) for name, value in vars(args).items()}
        results.save(args.results, first_accuracy=first.mean(), seconds=seconds, parts=parts, settings=settings)
    if args.protocol == "cv":
        print("accuracy of each fold  " + " ".join(f"{score:.2%}" for score in scores))
    if (scores != first).any():
        print(f"before fine-tuning     {_mean(first)}")
    print(f"accuracy               {_mean(scores)}, {len(results.number):,} reviews, in {runtime.duration(seconds)}")
    for mix in np.mean([outcome.mixes for outcome in outcomes], axis=0):
        print(f"layers                 s {' '.join(f'{s:.3f}' for s in mix[:-1])}  gamma {mix[-1]:.3f}")
    if args.confusion:
        print(confusion(results))
    if args.mistakes:
        print(mistakes(results, reviews.texts, args.mistakes))


def _mean(scores: np.ndarray) -> str:
    return f"{scores.mean():.2%}" + (f" ± {100 * scores.std(ddof=1):.2f}" if len(scores) > 1 else "")


def keep(args: argparse.Namespace, model: Model, reviews: Reviews, trainer: Trainer, parts: Sequence[Part]) -> None:
    """Save a head, or predict with it: that of the single split, or else one trained on all reviews."""
    part = everything(reviews.labels, args.seed) if len(parts) > 1 else parts[0]
    if len(parts) > 1 or not trainer.done:
        trainer.parts = trainer.done + 1
        trainer.train(part, number=len(parts) + 1 if len(parts) > 1 else 1)
    if args.save_head:
        save_head(args, model)
    if args.predict:
        predict(args.predict, model.head, model.encoders, args.tokenise, args.max_seq_len)


def save_head(args: argparse.Namespace, model: Model) -> None:
    """Write the head and what its encoders have learnt. A probe will tell whether it has the right encoders again."""
    folder = args.save_head
    settings = {
        "tokenise": args.tokenise,
        "max_seq_len": args.max_seq_len,
        "hidden": args.sent_embedding_dim,
        "encoders": [encoder.save(folder) for encoder in model.encoders],
        "probe": judge(model.head, model.encoders, [PROBE.split()])[0].tolist(),
    }
    checkpoint.save(folder / "head", {name: weight.numpy() for name, weight in model.head.state_dict().items()})
    checkpoint.save_config(folder, {"polarity": settings})
    log.info(f"saved         {folder}; predict with --load_head={folder} --predict=FILE")


def load_head(
    args: argparse.Namespace, rebuild: Callable[[argparse.Namespace, list[dict]], list[Encoder]]
) -> tuple[Head, list[Encoder], dict]:
    """A saved head with its encoders, and its settings."""
    settings = checkpoint.load_config(args.load_head).get("polarity")
    if settings is None:
        raise UserError(f"--load_head {args.load_head}: this is no folder of --save_head.")
    try:
        encoders = rebuild(args, settings["encoders"])
        head = Head([encoder.shape for encoder in encoders], settings["hidden"])
        elmo.set_weights(head, checkpoint.load_params(args.load_head / "head"), str(args.load_head / "head"))
        is_the_same = np.allclose(judge(head, encoders, [PROBE.split()])[0], settings["probe"], atol=1e-3)
        tokens_of([""], settings["tokenise"], settings["max_seq_len"], args.load_head)  # as `predict` will
    except UserError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{args.load_head / 'config.json'} is not as --save_head wrote it ({type(error).__name__}: {error}). Copy the "
            "original back, or save the head again."
        ) from error
    if not is_the_same:
        raise UserError(
            f"--load_head {args.load_head}: over these vectors the head does not say what it said when it was saved. They "
            f"are not those that it was trained with: {', '.join(map(str, settings['encoders']))}."
        )
    return head, encoders, settings


def judge(head: Head, encoders: Iterable[Encoder], sentences: Sequence[Sequence[str]]) -> np.ndarray:
    """Probabilities (n, classes) of sentences that are no part of the task."""
    return head.judge([encoder.means(encoder.read(sentences)) for encoder in encoders])


def predict(path: Path, head: Head, encoders: Iterable[Encoder], tokeniser: str, max_tokens: int) -> None:
    """Print for every line of the file the class, its probability and the line, separated by tabs."""
    lines = read_lines(path)
    for begin in range(0, len(lines), AT_ONCE):
        part = lines[begin : begin + AT_ONCE]
        for line, found in zip(part, judge(head, encoders, tokens_of(part, tokeniser, max_tokens, path)), strict=True):
            print(f"{CLASSES[found.argmax()]}\t{found.max():.4f}\t{line.strip()}")


def build_bags(args: argparse.Namespace, path: Path | None, vectors, reviews: Reviews) -> Bags:
    """The word vectors as an encoder of the reviews."""
    learning = Learning(args.vectors_lr, args.word_dropout) if args.vectors_trainable else None
    source = {"file": str(path.absolute()) if path else None, "limit": args.limit}
    bags = Bags(vectors, args.seed, learning, source=source)
    bags.describe(reviews.sentences)
    return bags


def rebuild_bags(spec: dict, folder: Path, path: Path | None) -> Bags:
    """The word vectors that a saved head was trained with: of its file, unless the user says where that is."""
    with runtime.hint_if_moved("--concat_word2vec or --pretrained_word2vec_file", path):
        vectors = load_word_vectors(path or Path(spec["file"]), spec["limit"])
    learnt = checkpoint.load_params(folder / "words") if spec["learnt"] else {"words": np.array([]), "rows": None}
    return Bags(vectors, spec["seed"], words=learnt["words"].tolist(), rows=learnt["rows"])
