"""Training a network that reads ELMo and word vectors by the token, as taggers and readers do. Loading these inputs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from elmo import ELMo
from elmo_core.machine.runtime import paddle
from elmo_core.settings import make
from elmo_core.text.segmenter import Segmenter
from elmo_tasks.pretrained import PretrainedBiLM, randomise
from elmo_tasks.saved import TrainedModel
from elmo_tasks.training import BestEpoch, Run, Score, TrainingSettings, conclude, fit, interrupted_run, search
from elmo_tasks.word_vectors import WordVectors

Model = TypeVar("Model", bound=TrainedModel)


def load_inputs(
    options: Mapping[str, Any],
    sentences: Iterable[Sequence[str]] | None = None,
    segment: Segmenter | None = None,
) -> dict[str, Any]:
    """Load the biLM and the word vectors, as parts of a model. Logs how many tokens of the sentences have no vector.

    options: the arguments of the model's `train`. segment: see `WordVectors.lookup`.
    """
    pretrained = PretrainedBiLM.from_path(options["elmo"]) if options["elmo"] else None
    vectors = WordVectors(options["word_vectors"], options["word_vectors_limit"]) if options["word_vectors"] else None
    if vectors and sentences is not None:
        vectors.log_coverage(list(sentences), segment)
    return {"pretrained": pretrained, "vectors": vectors}


def train_model(
    kind: type[Model],
    parts: Mapping[str, Any],
    options: Mapping[str, Any],
    grid: Mapping[str, Sequence],
    data: Mapping[str, Sequence],
    sentences: Iterable[Sequence[str]],
    prepare: Callable[[Model, int], tuple[Callable, Callable]],
    score: Callable[[Model, Sequence], Score],
    folder: Path | None,
) -> Model:
    """Train a model with each combination of the settings in `grid`, and score the best on the test set.

    parts: of the model, besides its settings. options: the arguments of its `train`. data: training, dev and test examples.
    sentences: all of theirs, as ELMo reads them. prepare(model, batch_size): returns `batches` and `loss`, see `fit`.
    """
    frozen: ELMo | None = None  # of the first run: its cache serves all

    def train_one(run: Run, resume: bool) -> BestEpoch:
        nonlocal frozen
        values = {**options, **run.settings}
        settings = make(TrainingSettings, values)
        paddle.seed(settings.seed)
        model = kind.create(settings=make(kind.settings_type, values), **parts)
        if model.settings.random_weights:
            randomise(model.network.elmo.bilm, model.settings.random_weights, settings.seed)
        if model.pretrained and not model.settings.elmo_trainable:
            if frozen is None:
                frozen = model.network.elmo
                frozen.cache(sentences, settings.cache_gb)
            model.network.elmo.cached = frozen.cached
        batches, loss = prepare(model, settings.batch_size)
        how = settings, folder, resume, options["progress"], run
        return fit(model, batches, loss, lambda model: score(model, data["dev"]), *how)

    best = search(train_one, grid, interrupted_run(folder, options["resume"]))
    test = score(best.model, data["test"]) if "test" in data else None
    conclude(best, test, best.training, {name: len(part) for name, part in data.items()}, folder)
    return best.model
