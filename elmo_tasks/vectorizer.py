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

base = import_optional("sklearn.base", "ELMoVectorizer")
validation = import_optional("sklearn.utils.validation", "ELMoVectorizer")


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
        self.model = model
        self.layers = layers
        self.pool = pool
        self.lang = lang
        self.user_dict = user_dict
        self.batch_size = batch_size
        self.device = device

    def fit(self, texts: Iterable[str], y: Any = None) -> "ELMoVectorizer":
        """Load the ELMo, and recognise the language if it is not given. `y` is not used."""
        check_option("pool", self.pool, ("mean", "max"))
        check_option("lang", self.lang, CHOICES)
        texts = check_texts(texts)
        model = default_elmo(self.lang, texts) if self.model == AUTO else self.model
        self.embedder_ = ELMoEmbedder(
            model,
            batch_size=self.batch_size,
            device=self.device,
            layers=self.layers,
            pool=self.pool,
        )
        tokeniser = make_tokeniser(self.lang, texts, self.embedder_.words, self.user_dict)
        self.lang_ = tokeniser.lang
        return self

    def transform(self, texts: Iterable[str]) -> np.ndarray:
        """Return the vectors (n, D) of n texts."""
        validation.check_is_fitted(self)
        encoded = self.embedder_.encode_texts(texts, self.lang_, self.user_dict)
        vectors = [text.vectors.ravel() for text in encoded]
        return np.array(vectors, np.float32).reshape(len(vectors), self._dim)  # also of no text

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the D dimensions: elmo0, elmo1, ..."""
        validation.check_is_fitted(self)
        return np.array([f"elmo{k}" for k in range(self._dim)], object)

    @property
    def _dim(self) -> int:
        """D, the size of a text's vector."""
        return math.prod(self.embedder_.shape(1))
