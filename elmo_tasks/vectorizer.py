"""ELMo's vectors of texts in scikit-learn."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from elmo import ELMoEmbedder
from elmo_core.checks import check_option, check_texts, import_optional
from elmo_core.encoding.layers import Layers
from elmo_core.encoding.pooling import MAX, POOLS
from elmo_core.encoding.token_weights import SIF
from elmo_core.messages import format_count, log
from elmo_core.text.language import AUTO, CHOICES, make_tokeniser
from elmo_core.weights.model_files import vocabulary_words
from elmo_tasks.inputs import default_elmo

base = import_optional("sklearn.base", "ELMoVectorizer")
preprocessing = import_optional("sklearn.preprocessing", "ELMoVectorizer")
validation = import_optional("sklearn.utils.validation", "ELMoVectorizer")

FEW = 10  # with fewer texts, their mean and deviations are those of these texts, not of a kind


class ELMoVectorizer(base.TransformerMixin, base.BaseEstimator):
    """Makes one vector of each text, for linear models, nearest neighbours and cosines.

        make_pipeline(ELMoVectorizer(), LogisticRegression(C=10)).fit(texts, labels)

    A text's vector is the mean over its tokens, in which frequent words count less, of each layer;
    standardised by the texts given to `fit`; and of length 1. That of a text without words is zero.

    model: a checkpoint, or a model's name; auto: `en` or `zh`, by the language of the texts that
    `fit` receives.
    layers, batch_size, device: as of `ELMoEmbedder`.
    pool: mean | max | mean_max.
    weighting: of the tokens in a mean: sif | None, see `ELMoEmbedder`; auto: sif if the pool has a
    mean and the model a vocabulary.
    standardize: subtract the mean of the texts given to `fit`, and divide by their deviations, if
    they are at least ten.
    norm: l2, length 1 | None.
    lang, user_dict: as of `encode_texts`; auto: recognised by the texts that `fit` receives.
    """

    def __init__(
        self,
        model: str | Path = AUTO,
        layers: Layers = "concat",
        pool: str = "mean",
        weighting: str | None = AUTO,
        standardize: bool = True,
        norm: str | None = "l2",
        lang: str = AUTO,
        user_dict: str | Path | Sequence[str] | None = None,
        batch_size: int = 128,
        device: str = "auto",
    ):
        self.model = model
        self.layers = layers
        self.pool = pool
        self.weighting = weighting
        self.standardize = standardize
        self.norm = norm
        self.lang = lang
        self.user_dict = user_dict
        self.batch_size = batch_size
        self.device = device

    def fit(self, texts: Iterable[str], y: Any = None) -> "ELMoVectorizer":
        """Load the ELMo, recognise the language if it is not given, and learn to standardise.

        `y` is not used.
        """
        self._fit(check_texts(texts))
        return self

    def fit_transform(self, texts: Iterable[str], y: Any = None) -> np.ndarray:
        """Do `fit` and `transform`, which reads the texts once."""
        texts = check_texts(texts)
        vectors = self._fit(texts)
        return self._finished(self._pooled(texts) if vectors is None else vectors)

    def transform(self, texts: Iterable[str]) -> np.ndarray:
        """Return the vectors (n, D) of n texts."""
        validation.check_is_fitted(self)
        return self._finished(self._pooled(check_texts(texts)))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the D dimensions: elmo0, elmo1, ..."""
        validation.check_is_fitted(self)
        return np.array([f"elmo{k}" for k in range(self._dim)], object)

    @property
    def _dim(self) -> int:
        """D, the size of a text's vector."""
        return math.prod(self.embedder_.shape(1))

    def _fit(self, texts: list[str]) -> np.ndarray | None:
        """Set the attributes. Return the texts' pooled vectors (n, D), if these were needed."""
        check_option("pool", self.pool, POOLS)
        check_option("weighting", self.weighting, (AUTO, SIF, None))
        check_option("norm", self.norm, ("l2", None))
        check_option("lang", self.lang, CHOICES)
        model = default_elmo(self.lang, texts) if self.model == AUTO else self.model
        weighting = self.weighting
        if weighting == AUTO:
            weighting = SIF if self.pool != MAX and vocabulary_words(model) else None
        self.embedder_ = ELMoEmbedder(
            model,
            batch_size=self.batch_size,
            device=self.device,
            layers=self.layers,
            pool=self.pool,
            weighting=weighting,
        )
        tokeniser = make_tokeniser(self.lang, texts, self.embedder_.words, self.user_dict)
        self.lang_ = tokeniser.lang
        self.scaler_ = None
        if not self.standardize:
            return None
        vectors = self._pooled(texts)
        with_words = vectors[vectors.any(axis=1)]
        if len(with_words) < FEW:
            found = format_count(len(with_words), "texts")
            advice = f"Fit it on {FEW} texts of their kind or more, or set `standardize=False`"
            log.warning(f"ELMoVectorizer: {found} are too few to standardise vectors. {advice}.")
        else:
            self.scaler_ = preprocessing.StandardScaler().fit(with_words)
        return vectors

    def _pooled(self, texts: list[str]) -> np.ndarray:
        """Return the pooled vectors (n, D) of texts; zeros of one without words."""
        encoded = self.embedder_.encode_texts(texts, self.lang_, self.user_dict)
        vectors = [text.vectors.ravel() for text in encoded]
        return np.array(vectors, np.float32).reshape(len(vectors), self._dim)  # also of no text

    def _finished(self, pooled: np.ndarray) -> np.ndarray:
        """Standardise and normalise pooled vectors (n, D). Zeros stay zeros."""
        vectors = pooled
        if self.scaler_ and len(vectors):
            has_words = pooled.any(axis=1, keepdims=True)
            vectors = self.scaler_.transform(vectors) * has_words
        if self.norm and len(vectors):
            vectors = preprocessing.normalize(vectors)
        return vectors
