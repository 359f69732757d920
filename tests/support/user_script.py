"""A user's script: each task is trained, evaluated, saved, moved, loaded and used.

It passes `mypy --strict`.
"""

import shutil
import sys
from pathlib import Path

from elmo import ELMoEmbedder, models
from elmo_tasks import (
    Classifier,
    ClassifierSettings,
    Reader,
    ReaderSettings,
    Tagger,
    TaggerSettings,
)
from elmo_tools import PretrainingSettings, pretrain

output = Path(sys.argv[1])


def moved(name: str) -> Path:
    return Path(shutil.move(output / name, output / f"moved-{name}"))


embedder = ELMoEmbedder(
    next(model.name for model in models("English") if model.is_installed), pool="mean"
)
assert embedder.encode([["A", "fine", "film"]])[0].shape == embedder.shape(3)

small = PretrainingSettings(model_size="tiny", max_steps=2)
own = pretrain(["It was clean.", "It was cold."] * 40, settings=small, save_dir=output / "own")
assert own.encode([["A", "fine", "film"]])[0].shape == own.shape(3)

texts = ["The room was quiet and clean.", "The breakfast was cold."] * 15
classes = ["good", "bad"] * 15
settings = ClassifierSettings(head="mean", epochs=5, lr=0.01)
trained = Classifier.train(
    texts, classes, dev=(texts, classes), settings=settings, save_dir=output / "reviews"
)
classifier = Classifier(moved("reviews"))
assert abs(classifier.predict_proba(texts) - trained.predict_proba(texts)).max() < 1e-5
assert classifier.evaluate(texts, classes) == trained.scores["dev"] == classifier.scores["dev"]
assert classifier.scores["dev"]["accuracy"] > 0.5

sentences = [["Anna", "lives", "in", "Paris", "."], ["Paris", "is", "large", "."]] * 9
labels = [["B-PER", "O", "O", "B-LOC", "O"], ["B-LOC", "O", "O", "O"]] * 9
tagging = TaggerSettings(elmo=None, epochs=9, lr=0.02, hidden_dim=16, n_layers=1, patience=0)
Tagger.train(
    sentences,
    labels,
    dev=(sentences, labels),
    settings=tagging,
    save_dir=output / "names",
    progress=False,
)
spans = Tagger(moved("names")).spans("Anna lives in Paris.")

question = "Who lives in Paris?"
passage = "Anna lives in Paris."
answers = {"text": ["Anna"], "answer_start": [0]}
examples = [
    {"id": str(k), "context": passage, "question": question, "answers": answers} for k in range(3)
]
Reader.train(
    examples,
    dev=examples,
    settings=ReaderSettings(elmo=None, epochs=9, lr=0.02, hidden_dim=8),
    save_dir=output / "qa",
)
answer = Reader(moved("qa")).predict((question, passage))
predicted = {str(label) for label in classifier.predict(texts)}
print(embedder.dim, sorted(predicted), spans[-1].text, answer.text)
