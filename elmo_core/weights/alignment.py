"""Matrices that map a model's vectors into the space of another, such as Spanish into English (Schuster et al. 2019).

    align-es.pdparams   next to a model: {layer: matrix (2P, 2P)}; a vector x of this layer becomes matrix @ x

They are published as NumPy arrays in PyTorch's files: es_best_mapping.pth for layer 1, es_0.pth for layer 0.
"""

import re
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from elmo_core.messages import UserError
from elmo_core.weights import checkpoint, torch_files

PREFIX, SUFFIX = "align-", ".pth"
LAYER = re.compile(r".*_(\d)\.pth")


def read(paths: Sequence[Path], dim: int) -> dict[str, np.ndarray]:
    """Read published matrices by layer. dim: 2P."""
    matrices = {}
    for path in paths:
        layer = LAYER.fullmatch(path.name)
        name, matrix = layer[1] if layer else "1", torch_files.read(path, "an array")
        with np.errstate(over="ignore"):  # the result is checked
            matrices[name] = matrix.astype(np.float32) if matrix.dtype.kind == "f" else matrix
        checkpoint.match({name: (dim, dim)}, {name: matrices[name]}, str(path))
    return matrices


def load(prefix: Path | None, language: str, dim: int, layers: Collection[int]) -> dict[int, np.ndarray]:
    """Load the matrices of these layers that are stored with a model."""
    path = prefix and prefix.parent / f"{PREFIX}{language}"
    if path is None or not checkpoint.exists(path):
        raise UserError(f"align={language!r}: this model has no such matrices. Models such as aligned-es have some.")
    matrices = checkpoint.load_params(path)
    if missing := [layer for layer in layers if str(layer) not in matrices]:
        expected = " or ".join(sorted(matrices))
        raise UserError(f"align={language!r}: there is no matrix for layer {missing[0]}. Expected layers={expected}.")
    chosen = {str(layer): matrices[str(layer)] for layer in layers}
    checkpoint.match(dict.fromkeys(chosen, (dim, dim)), chosen, str(path))
    return {int(name): matrix for name, matrix in chosen.items()}
