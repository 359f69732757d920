"""The biLM's layers of passages and questions: those of their sentences, side by side."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

import elmo
from elmo_core.machine.runtime import paddle
from elmo_tasks.elmo_input import LayerCache, Layers, elmo_encoder
from elmo_tasks.reading.text import Text, Window


class TextLayers:
    """Gives windows of texts the chosen layers of a frozen biLM, those it keeps or else computed anew."""

    def __init__(self, encoder: elmo_encoder):
        self.encoder = encoder
        self.kept: dict[tuple[str, ...], np.ndarray] = {}

    def keep(self, texts: Iterable[Text], gigabytes: float, folder: Path) -> None:
        """Compute the layers of all sentences once. Up to so many gigabytes they are in memory; beyond that they are in
        float16 in a file in the folder that ends with the process.
        """
        sentences = [sentence for text in texts for sentence in text.sentences]
        self.kept = LayerCache(self.encoder, sentences, gigabytes, folder).layers

    def of(self, windows: Sequence[Window]) -> Layers:
        """Each layer (B, T, 2P), T the longest window."""
        parts = [list(window.parts()) for window in windows]
        found = self._arrays([sentence for row in parts for sentence, _ in row])
        lengths = np.array([window.end - window.begin for window in windows])
        mask = np.arange(lengths.max()) < lengths[:, None]
        layers = np.zeros((len(self.encoder.numbers), *mask.shape, self.encoder.elmo.dim), np.float32)
        for row, sentences in enumerate(parts):
            end = 0
            for sentence, part in sentences:
                begin, end = end, end + part.stop - part.start
                layers[:, row, begin:end] = found[sentence][:, part]
        return Layers([paddle.to_tensor(layer) for layer in layers], paddle.to_tensor(mask.astype(np.float32)))

    def _arrays(self, sentences: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], np.ndarray]:
        """(L, n, 2P) of every sentence."""
        if missing := [sentence for sentence in dict.fromkeys(sentences) if sentence not in self.kept]:
            numbers = self.encoder.numbers
            bilm = self.encoder.elmo.bilm, self.encoder.elmo.vocabulary
            embedder = elmo.ELMoEmbedder(bilm, device=paddle.get_device(), layers=",".join(map(str, numbers)))
            arrays = [array.reshape(len(numbers), -1, embedder.dim) for array in embedder.encode(missing)]
            return {**dict(zip(missing, arrays, strict=True)), **{s: self.kept[s] for s in sentences if s in self.kept}}
        return self.kept
