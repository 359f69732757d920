"""Every field of every configuration that is read from a file, set in turn to values that it should not have.

    python tests/hostile/fields.py FOLDER

The reader must raise a UserError that names the file, or give a result of the same kind as before. Prints a line of JSON per
configuration. Takes at most MOST bytes.
"""

import json
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parents[1] / "support")]

import foreign
import manylangs_model
import tiny

from elmo import ELMoEmbedder
from elmo_core.messages import UserError
from elmo_core.text.tokens import SPECIAL_TOKENS, Vocabulary
from elmo_core.weights import checkpoint, formats
from elmo_tasks import Classifier, Reader, Tagger
from elmo_tasks.classification.network import ClassifierSettings
from elmo_tasks.pretrained import PretrainedBiLM
from elmo_tasks.reading.network import ReaderSettings
from elmo_tasks.tagging.data import Labels
from elmo_tasks.tagging.network import TaggerSettings
from elmo_tasks.word_vectors import WordVectors
from pretraining.run_folder import RunFolder

MOST = 3 << 30  # bytes beyond those of an idle process
VALUES = ["-1", "0", "1000000000", "1e30", "0.5", '"x"', "[]", "{}", "null", "NaN", "true", "9" * 5000]
Read = Callable[[], object]


def elmo(folder: Path, input: str) -> tuple[Path, Read]:
    bilm = tiny.random_bilm(input=input)
    tiny.save(bilm, folder)
    training = {"training": {"vocabulary": Vocabulary(tiny.WORDS).identity}}
    checkpoint.save_config(folder, {"model": bilm.config.to_dict(), **training})
    return folder / "config.json", lambda: ELMoEmbedder(folder).encode(tiny.SENTENCES)


def task(folder: Path, kind: type, settings: type, answer: Callable, **values) -> tuple[Path, Read]:
    elmo(folder / "bilm", "word")
    (folder / "v.txt").write_text("bank 1 2 3\nthe 3 2 1\n", encoding="utf-8")
    given = {"layers": "mix", "hidden_dim": 3, **{name: values.pop(name) for name in list(values) if name[0] == "_"}}
    settings = settings(**{name.removeprefix("_"): value for name, value in given.items()})
    inputs = {"pretrained": PretrainedBiLM.from_path(folder / "bilm"), "vectors": WordVectors(folder / "v.txt")}
    kind.create(settings=settings, **inputs, **values).save(folder / "model")
    return folder / "model" / "config.json", lambda: answer(kind(folder / "model"))


def tagger(folder: Path) -> tuple[Path, Read]:
    parts = {"words": Vocabulary(tiny.WORDS), "labels": Labels(["O", "B-x"]), "features": ["a"], "feature_column": 1}
    return task(folder, Tagger, TaggerSettings, lambda model: model.predict(tiny.SENTENCES), _word_dim=5, **parts)


def reader(folder: Path) -> tuple[Path, Read]:
    words = Vocabulary([*SPECIAL_TOKENS, "the"])
    return task(
        folder, Reader, ReaderSettings, lambda model: model.answer("who ?", "the bank", 2), words=words, _word_dim=5
    )


def classifier(folder: Path) -> tuple[Path, Read]:
    flags = {"_head_dim": 3, "_reads_elmo": True, "_reads_words": True, "_word_vectors_trainable": True}
    parts = {"classes": ["x", "y"], "words": Vocabulary(tiny.WORDS), "data": "data"}
    return task(folder, Classifier, ClassifierSettings, lambda model: model.predict(["the bank"]), **flags, **parts)


def manylangs(folder: Path) -> tuple[Path, Read]:
    manylangs_model.write_model(folder / "m", beside=False)
    return folder / "m" / "config.json", lambda: formats.read_foreign([folder / "m"], folder)


def options(folder: Path) -> tuple[Path, Read]:
    foreign.write_bilm(folder, foreign.options_of({}, {}))
    return folder / "options.json", lambda: formats.read_foreign(
        [folder / "options.json", folder / "weights.hdf5"], folder
    )


def log(folder: Path) -> tuple[Path, Read]:
    line = {"event": "training", "step": 5, "forward_perplexity": 9.5, "loss": 3, "learning_rate": 0.1}
    (folder / "log.jsonl").write_text(json.dumps(line), encoding="utf-8")
    return folder / "log.jsonl", lambda: RunFolder(folder, 1, None, None, {}).plot()


CONFIGS = {
    "ELMo of characters": lambda folder: elmo(folder, "char"),
    "ELMo of words": lambda folder: elmo(folder, "word"),
    **{config.__name__: config for config in (tagger, reader, classifier, manylangs, options, log)},
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
    """Yield, per configuration, the number of its fields, of errors that name the file, and whatever went wrong."""
    for name, make in CONFIGS.items():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        path, read = make(folder)
        read()
        text = path.read_text(encoding="utf-8")
        values, errors, faults = json.loads(text), 0, []
        fields = list(paths(values))
        for field in fields:
            for value in VALUES:
                path.write_text(changed(values, field, value), encoding="utf-8")
                try:
                    read()
                except UserError as error:
                    errors += 1
                    if not any(word in str(error) for word in (path.name, str(path.parent), field[-1])):
                        faults.append(f"{field} {value[:9]}: the message names no file: {error}")
                except BaseException as error:
                    faults.append(f"{field} {value[:9]}: {type(error).__name__} {error}"[:300])
        path.write_text(text, encoding="utf-8")
        read()
        yield {"name": name, "fields": len(fields), "errors": errors, "faults": faults}


if __name__ == "__main__":
    virtual = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (virtual + MOST,) * 2)
    for result in check(Path(sys.argv[1])):
        print(json.dumps(result), flush=True)
