"""Every field of every configuration that is read from a file, set in turn to values that it should
not have.

    python tests/hostile/fields.py FOLDER

The reader must raise a UserError that names the file, or give a result of the same kind as before.
Prints a line of JSON per configuration. Takes at most MOST bytes.
"""

import json
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path[:0] = [
    str(Path(__file__).resolve().parents[2]),
    str(Path(__file__).resolve().parents[1] / "support"),
]

import foreign
import manylangs_model
import tiny

from elmo import ELMoEmbedder
from elmo_core.messages import UserError
from elmo_core.text.vocabulary import Vocabulary
from elmo_core.weights import checkpoint, formats
from elmo_tasks import Classifier, Parser, Reader, Tagger

MOST = 3 << 30  # bytes beyond those of an idle process
VALUES = [
    "-1",
    "0",
    "1000000000",
    "1e30",
    "0.5",
    '"x"',
    "[]",
    "{}",
    "null",
    "NaN",
    "true",
    "9" * 5000,
]
Read = Callable[[], object]


def elmo(folder: Path, input: str) -> tuple[Path, Read]:
    bilm = tiny.random_bilm(input=input)
    tiny.save(bilm, folder)
    training = {"training": {"vocabulary": Vocabulary(tiny.WORDS).identity}}
    checkpoint.save_config(folder, {"model": bilm.config.to_dict(), **training})
    return folder / "config.json", lambda: ELMoEmbedder(folder).encode(tiny.SENTENCES)


def task(folder: Path, kind: type, answer: Callable, parts: dict, **settings) -> tuple[Path, Read]:
    elmo(folder / "bilm", "word")
    (folder / "v.txt").write_text("bank 1 2 3\nthe 3 2 1\n", encoding="utf-8")
    small = {
        "elmo": folder / "bilm",
        "word_vectors": folder / "v.txt",
        "layers": "mix",
        "hidden_dim": 3,
        "word_dim": 5,
    }
    settings = kind.settings_type(**small, lang="none", **settings)
    kind.create(settings, parts, "cpu").save(folder / "model")
    return folder / "model" / "config.json", lambda: answer(kind(folder / "model"))


def tagger(folder: Path) -> tuple[Path, Read]:
    parts = {"words": ["the"], "labels": ["O", "B-x"], "known": None, "pieces": None}
    return task(folder, Tagger, lambda model: model.predict(tiny.SENTENCES), parts, scheme="bio")


def reader(folder: Path) -> tuple[Path, Read]:
    parts = {"words": ["the"], "no_answer": False}
    return task(folder, Reader, lambda model: model.answers(("who ?", "the bank"), 2), parts)


def classifier(folder: Path) -> tuple[Path, Read]:
    parts = {"labels": ["x", 1], "multi_label": True, "threshold": 0.5, "pairs": False}
    parts["words"] = ["the"]
    settings = {"head": "lstm", "head_dim": 3}
    return task(folder, Classifier, lambda model: model.predict(["the bank"]), parts, **settings)


def linear_classifier(folder: Path) -> tuple[Path, Read]:
    parts = {"labels": ["x", "y"], "multi_label": False, "threshold": None, "pairs": False}
    parts["ngrams"] = [["words", "the", 2], ["characters", "an", 1]]
    parts["ngram_texts"] = 3
    parts["penalties"] = {"vectors": 0.1, "n-grams": 0.3}
    return task(folder, Classifier, lambda model: model.predict(["the bank"]), parts)


def parser(folder: Path) -> tuple[Path, Read]:
    parts = {"labels": ["det", "root"], "tags": ["N", "V"], "words": ["the"]}
    return task(
        folder,
        Parser,
        lambda model: [tree.to_conllu() for tree in model.predict(["the bank"])],
        parts,
    )


def manylangs(folder: Path) -> tuple[Path, Read]:
    manylangs_model.write_model(folder / "m")
    return folder / "m" / "cnn_x.json", lambda: formats.read_foreign([folder / "m"], folder)


def options(folder: Path) -> tuple[Path, Read]:
    foreign.write_bilm(folder, foreign.options_of({}, {}))
    return folder / "options.json", lambda: formats.read_foreign(
        [folder / "options.json", folder / "weights.hdf5"], folder
    )


CONFIGS = {
    "ELMo of characters": lambda folder: elmo(folder, "char"),
    "ELMo of words": lambda folder: elmo(folder, "word"),
    **{
        config.__name__: config
        for config in (tagger, reader, classifier, linear_classifier, parser, manylangs, options)
    },
}


def paths(values: object, path: tuple = ()) -> Iterator[tuple]:
    """The paths to all fields of an object, and of objects in it."""
    for name, value in values.items():
        yield (*path, name)
        if isinstance(value, dict):
            yield from paths(value, (*path, name))


def changed(values: dict, path: tuple, text: str) -> str:
    """JSON with one field set to a text, which need not be one that `json` writes."""
    values = json.loads(json.dumps(values))
    parent = values
    for name in path[:-1]:
        parent = parent[name]
    parent[path[-1]] = "the value"
    return json.dumps(values).replace('"the value"', text)


def check(folder: Path) -> Iterator[dict]:
    """Yield, per configuration, the number of its fields, of errors that name the file, and
    whatever went wrong.

    A setting that several tasks share is checked in the first of them.
    """
    checked = set()
    for name, make in CONFIGS.items():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        path, read = make(folder)
        read()
        text = path.read_text(encoding="utf-8")
        values, errors, faults = json.loads(text), 0, []
        fields = [
            field for field in paths(values) if field[0] != "settings" or field not in checked
        ]
        checked.update(fields)
        for field in fields:
            for value in VALUES:
                path.write_text(changed(values, field, value), encoding="utf-8")
                try:
                    read()
                except UserError as error:
                    errors += 1
                    if not any(
                        word in str(error) for word in (path.name, str(path.parent), field[-1])
                    ):
                        faults.append(f"{field} {value[:9]}: the message names no file: {error}")
                except BaseException as error:
                    faults.append(f"{field} {value[:9]}: {type(error).__name__} {error}"[:300])
        path.write_text(text, encoding="utf-8")
        read()
        yield {"name": name, "fields": len(fields), "errors": errors, "faults": faults}


if __name__ == "__main__":
    virtual = (
        int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        * resource.getpagesize()
    )
    resource.setrlimit(resource.RLIMIT_AS, (virtual + MOST,) * 2)
    for result in check(Path(sys.argv[1])):
        print(json.dumps(result), flush=True)
