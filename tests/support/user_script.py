"""A user's script: each task is trained, evaluated, saved, moved, loaded and used. Passes `mypy --strict`."""

import shutil
import sys
from pathlib import Path

from elmo import ELMoEmbedder, models
from elmo_tasks import Classifier, Reader, Tagger


def moved(folder: Path) -> Path:
    return Path(shutil.move(folder, folder.with_name(f"moved-{folder.name}")))


def embed() -> int:
    embedder = ELMoEmbedder(next(model.name for model in models("English") if model.is_installed), pool="mean")
    (vector,) = embedder.encode([["A", "fine", "film"]])
    assert vector.shape == embedder.shape(3)
    assert not embedder.encode_texts([""], "zh", user_dict=["云原生 10 n"])[0].tokens
    return embedder.dim


def classify(folder: Path) -> list[str]:
    texts = ("The room was quiet and clean.", "The breakfast was cold.") * 15
    classes = ("good", "bad") * 15
    trained = Classifier.train(texts, classes, dev=(texts, classes), elmo="en-reviews", save_dir=folder, epochs=3)
    assert trained.evaluate(texts, classes)["accuracy"] > 0.5
    classifier = Classifier(moved(folder))
    assert abs(classifier.probabilities(texts) - trained.probabilities(texts)).max() < 1e-5
    return classifier.predict(texts)


def tag(folder: Path) -> str:
    sentences = [["Anna", "lives", "in", "Paris", "."], ["Paris", "is", "large", "."]] * 9
    labels = [["B-PER", "O", "O", "B-LOC", "O"], ["B-LOC", "O", "O", "O"]] * 9
    seen: list[float] = []
    trained = Tagger.train(
        sentences, labels, dev=(sentences, labels), epochs=9, lr=0.02, hidden_dim=16, n_layers=1, patience=0,
        save_dir=folder, progress=lambda scores: seen.append(scores["dev"]["f1"]),
    )  # fmt: skip
    assert len(seen) == 9 and trained.evaluate(sentences, labels)["f1"] == max(seen) > 0.9
    (spans,) = Tagger(moved(folder)).spans(["Anna lives in Paris."])
    return spans[-1].text


def read(folder: Path) -> str:
    question, passage = "Who lives in Paris?", "Anna lives in Paris."
    examples = [{"id": "1", "context": passage, "question": question, "answers": ["Anna"]}]
    trained = Reader.train(examples, dev=examples, save_dir=folder, min_count=1, epochs=9, lr=0.02, hidden_dim=8)
    assert trained.evaluate(examples)["f1"] == 1
    return Reader(moved(folder)).answer(question, passage)[0].text


if __name__ == "__main__":
    output = Path(sys.argv[1])
    print(embed(), sorted(set(classify(output / "reviews"))), tag(output / "names"), read(output / "qa"))
