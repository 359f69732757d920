"""ELMo's vectors of texts in scikit-learn."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from elmo import ELMoEmbedder
from elmo_core.checks import check_option, check_texts, import_optional
from elmo_core.encoding.layers import Layers
from elmo_core.text.language import AUTO, CHOICES, make_tokeniser
from elmo_tasks.inputs import default_elmo

base, validation = (
    import_optional(f"sklearn.{name}", "ELMoVectorizer") for name in ("base", "utils.validation")
)


class ELMoVectorizer(base.TransformerMixin, base.BaseEstimator):
    """Makes one vector of each text: the mean or maximum over its tokens.

        make_pipeline(ELMoVectorizer(), LogisticRegression()).fit(texts, labels)

    model: a checkpoint, or a model's name; auto: `en` or `zh`, by the language of the texts that
    `fit` receives. layers, pool, batch_size, device: as of `ELMoEmbedder`. lang, user_dict: as of
    its `encode_texts`; auto: recognised by the texts that `fit` receives.
    """

    def __init__(
        self,
        model: str | Path = AUTO,
        layers: Layers = "average",
        pool: str = "mean",
        lang: str = AUTO,
        user_dict: str | Path | Sequence[str] | None = None,
        batch_size: int = 128,
        device: str = "auto",
    ):
        self.model, self.layers, self.pool, self.lang, self.user_dict = (
            model,
            layers,
            pool,
            lang,
            user_dict,
        )
        self.batch_size, self.device = batch_size, device

    def fit(self, texts: Iterable[str], y: Any = None) -> "ELMoVectorizer":
        check_option("pool", self.pool, ("mean", "max"))
        check_option("lang", self.lang, CHOICES)
        texts = check_texts(texts)
        model = default_elmo(self.lang, texts) if self.model == AUTO else self.model
        self.embedder_ = ELMoEmbedder(model, self.batch_size, self.device, self.layers, self.pool)
        self.lang_ = make_tokeniser(self.lang, texts, self.embedder_.words, self.user_dict).lang
        return self

    def transform(self, texts: Iterable[str]) -> np.ndarray:
        """Return the vectors (n, D) of n texts."""
        validation.check_is_fitted(self)
        vectors = [
            text.vectors.ravel()
            for text in self.embedder_.encode_texts(texts, self.lang_, self.user_dict)
        ]
        return np.array(vectors, np.float32).reshape(
            len(vectors), math.prod(self.embedder_.shape(1))
        )

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the D dimensions: elmo0, elmo1, ..."""
        validation.check_is_fitted(self)
        return np.array([f"elmo{k}" for k in range(math.prod(self.embedder_.shape(1)))], object)
