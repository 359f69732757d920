"""Logistic regression over blocks of features, with a penalty for each block.

It minimises, over the blocks' weights W_k (D_k, C) and the bias b (C,),

    sum_i v_i loss(y_i, sum_k X_k[i] W_k + b)  +  sum_k penalty_k / 2 |W_k|^2

where the loss is the cross-entropy of a softmax or, of several labels, the sum of that of sigmoids.
The objective is convex: there is one solution, whatever the order of the texts.

Of few texts, W_k = X_k^T A / penalty_k is solved for A (n, C), which is smaller: it needs only the
products of texts, the kernel sum_k X_k X_k^T / penalty_k, and these are the same for all penalties.

Letters: n texts, D features, C labels.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import linalg, optimize, sparse
from threadpoolctl import threadpool_limits

MAX_DUAL = 5000  # texts, whose kernel takes 200 MB
MAX_STEPS = 300
TOLERANCE = 1e-6  # of the objective, relative
PENALTIES = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001)
START = PENALTIES.index(0.03)
# Added to the kernel's diagonal, as equal texts make it singular: a share of its mean, and a number
# where all texts are empty.
JITTER = 3e-5
SMALLEST = 1e-6
SCALES = np.geomspace(0.1, 3, 31)
N_FOLDS = 5
FEW = 300  # texts, of which one division into folds tells too little
DIVISIONS_OF_FEW = 4
MAX_SEARCH = 2000  # texts that choose the penalties
N_PARTS = 10  # of many texts, of which one is held out
MOST_REFINED = 20  # labels

Features = np.ndarray | sparse.csr_matrix


class Linear(NamedTuple):
    """The solution. weights: of each block (D, C); bias: (C,)."""

    weights: list[np.ndarray]
    bias: np.ndarray

    def logits(self, blocks: Sequence[Features]) -> np.ndarray:
        """The logits (n, C) of texts."""
        total = self.bias
        for features, weights in zip(blocks, self.weights, strict=True):
            total = total + features @ weights
        return total


class Loss(NamedTuple):
    """The loss of texts.

    targets: (n, C), 1 for a text's label. is_multi_label: sigmoids. importance: of texts (n,).
    """

    targets: np.ndarray
    is_multi_label: bool
    importance: np.ndarray

    def part(self, rows: np.ndarray) -> "Loss":
        return Loss(self.targets[rows], self.is_multi_label, self.importance[rows])

    def value(self, logits: np.ndarray) -> float:
        """The sum over texts, in float64."""
        logits = logits.astype(np.float64)
        if self.is_multi_label:
            partition = np.logaddexp(0, logits).sum(axis=1)
        else:
            partition = np.logaddexp.reduce(logits, axis=1)
        losses = partition - (logits * self.targets).sum(axis=1)
        return float(losses @ self.importance)

    def gradient(self, logits: np.ndarray) -> np.ndarray:
        """The gradient with respect to the logits (n, C)."""
        return (self.probabilities(logits) - self.targets) * self.importance[:, None]

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        if self.is_multi_label:
            return 1 / (1 + np.exp(-logits))
        exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
        return exponentials / exponentials.sum(axis=1, keepdims=True)


def fit(blocks: Sequence[Features], penalties: Sequence[float], loss: Loss) -> Linear:
    """The solution for all texts."""
    n_texts = len(loss.targets)
    if n_texts <= MAX_DUAL:
        kernels = [kernel(features, features) for features in blocks]
        coefficients, bias = fit_kernel(weighted(kernels, penalties), loss)
        weights = []
        for features, penalty in zip(blocks, penalties, strict=True):
            weights.append(features.T @ coefficients / np.float32(penalty))
        return Linear(weights, bias)
    sizes = [features.shape[1] for features in blocks]
    ends = np.cumsum(sizes)
    roots = np.sqrt(penalties).astype(np.float32)
    transposed = [_transposed(features) for features in blocks]

    def product(unknowns: np.ndarray) -> np.ndarray:
        parts = np.split(unknowns, ends[:-1])
        total = 0
        for features, part, root in zip(blocks, parts, roots, strict=True):
            total = total + features @ part / root
        return total

    def product_of_transposed(gradient: np.ndarray) -> np.ndarray:
        parts = [x @ gradient / root for x, root in zip(transposed, roots, strict=True)]
        return np.concatenate(parts)

    unknowns, bias = _minimise(product, product_of_transposed, ends[-1], loss)
    parts = np.split(unknowns, ends[:-1])
    weights = [part / root for part, root in zip(parts, roots, strict=True)]
    return Linear(weights, bias)


def _transposed(features: Features) -> Features:
    """The transpose, in an order in which its product is fast."""
    if sparse.issparse(features):
        return features.T.tocsr()
    return features.T


def kernel(a: Features, b: Features) -> np.ndarray:
    """The products (n, m) of texts, in float64: equal texts must have equal ones."""
    products = a.astype(np.float64) @ b.T.astype(np.float64)
    return products.toarray() if sparse.issparse(products) else products


def weighted(kernels: Sequence[np.ndarray], penalties: Sequence[float]) -> np.ndarray:
    """The kernel of several blocks."""
    total = np.zeros_like(kernels[0])
    for products, penalty in zip(kernels, penalties, strict=True):
        total += products / penalty
    return total


def fit_kernel(products: np.ndarray, loss: Loss) -> tuple[np.ndarray, np.ndarray]:
    """The solution as coefficients A of texts (n, C), and the bias (C,).

    products: the kernel (n, n). With its Cholesky factor L, logits are L U + b, U = L^T A, and the
    penalty is |U|^2 / 2.
    """
    n_texts = len(products)
    mean_square = np.trace(products) / n_texts
    regular = products + (JITTER * mean_square + SMALLEST) * np.eye(n_texts)
    factor = linalg.cholesky(regular, lower=True, overwrite_a=True, check_finite=False)
    factor = factor.astype(np.float32)
    transposed = np.ascontiguousarray(factor.T)
    unknowns, bias = _minimise(factor.__matmul__, transposed.__matmul__, n_texts, loss)
    return linalg.solve_triangular(factor, unknowns, lower=True, trans="T"), bias


def _minimise(
    product: Callable[[np.ndarray], np.ndarray],
    product_of_transposed: Callable[[np.ndarray], np.ndarray],
    n_unknowns: int,
    loss: Loss,
) -> tuple[np.ndarray, np.ndarray]:
    """Minimise the loss of product(U) + b, plus |U|^2 / 2, by L-BFGS.

    Returns U (n_unknowns, C) and b (C,), float32.
    """
    n_texts, n_labels = loss.targets.shape
    shape = (n_unknowns + 1, n_labels)

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        values = flat.reshape(shape).astype(np.float32)
        unknowns = values[:-1]
        logits = product(unknowns) + values[-1]
        penalty = float((unknowns.astype(np.float64) ** 2).sum()) / 2
        of_logits = loss.gradient(logits)
        gradient = np.empty(shape)
        gradient[:-1] = product_of_transposed(of_logits) + unknowns
        gradient[-1] = of_logits.sum(axis=0)
        return (loss.value(logits) + penalty) / n_texts, gradient.ravel() / n_texts

    found = optimize.minimize(
        objective,
        np.zeros(shape[0] * shape[1]),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": MAX_STEPS, "ftol": TOLERANCE, "gtol": 1e-6},
    )
    values = found.x.reshape(shape).astype(np.float32)
    return values[:-1], values[-1]


class Choice(NamedTuple):
    """What cross-validation found with some penalties.

    loss: the lowest, of the logits times `scale`. logits: of each text (n, C), not scaled, by
    solutions for texts of other folds.
    """

    loss: float
    scale: float
    logits: np.ndarray


def choose(
    blocks: Sequence[Features], loss: Loss, divisions: Sequence[np.ndarray]
) -> tuple[list[float], Choice]:
    """Choose the penalties with the lowest loss in cross-validation, once that is calibrated.

    divisions: into folds, each the number of each text's fold (n,).
    """
    kernels = [kernel(features, features) for features in blocks]
    choices: dict[tuple[int, ...], Choice] = {}

    def loss_at(place: tuple[int, ...]) -> float:
        if place not in choices:
            penalties = [PENALTIES[k] for k in place]
            logits = [cross_validated(kernels, penalties, loss, folds) for folds in divisions]
            least, scale = calibrated(logits, loss)
            choices[place] = Choice(least, scale, np.mean(logits, axis=0))
        return choices[place].loss

    best = descend((START,) * len(blocks), loss_at)
    return [PENALTIES[k] for k in best], choices[best]


def descend(place: tuple[int, ...], loss_at: Callable[[tuple[int, ...]], float]) -> tuple[int, ...]:
    """From a place on the grid of penalties, go to the best neighbour while that is better."""
    best = min([place, *_neighbours(place)], key=loss_at)
    while place != best:
        place = best
        best = min([place, *_neighbours(place)], key=loss_at)
    return best


def _neighbours(place: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The places on the grid where one penalty is the next higher or lower."""
    found = []
    for block, k in enumerate(place):
        for neighbour in (k - 1, k + 1):
            if 0 <= neighbour < len(PENALTIES):
                found.append((*place[:block], neighbour, *place[block + 1 :]))
    return found


def cross_validated(
    kernels: Sequence[np.ndarray], penalties: Sequence[float], loss: Loss, folds: np.ndarray
) -> np.ndarray:
    """The logits (n, C) of each text, by the solution for the texts of the other folds."""
    products = weighted(kernels, penalties)
    logits = np.zeros(loss.targets.shape, np.float32)
    for fold in np.unique(folds):
        test = np.flatnonzero(folds == fold)
        train = np.flatnonzero(folds != fold)
        coefficients, bias = fit_kernel(products[np.ix_(train, train)], loss.part(train))
        logits[test] = products[np.ix_(test, train)] @ coefficients + bias
    return logits


def calibrated(logits: Sequence[np.ndarray], loss: Loss) -> tuple[float, float]:
    """The lowest loss of scaled logits (n, C), the mean over several of these, and the scale."""
    losses = []
    for scale in SCALES:
        total = sum(loss.value(of_all * scale) for of_all in logits)
        losses.append((total / len(logits), float(scale)))
    return min(losses)


def deal(labels: Sequence[object], n_folds: int, seed: int) -> np.ndarray:
    """Deal texts out to folds so that each fold has as many of each label, give or take one.

    labels: of the texts (n). Returns the number of each text's fold (n,).
    """
    order = np.random.default_rng(seed).permutation(len(labels))
    by_label: dict[object, list[int]] = {}
    for k in order:
        by_label.setdefault(labels[k], []).append(k)
    dealt = np.concatenate([np.array(numbers) for numbers in by_label.values()])
    folds = np.zeros(len(labels), np.int64)
    folds[dealt] = np.arange(len(labels)) % n_folds
    return folds


def refine(
    blocks: Sequence[Features], loss: Loss, penalties: list[float], rows: np.ndarray
) -> tuple[list[float], Choice]:
    """Choose penalties for many texts, from those of a sample: by held-out texts, the rows (m,).

    Of many labels, whose solutions take minutes, the sample's penalties are kept.
    """
    is_rest = np.ones(len(loss.targets), bool)
    is_rest[rows] = False
    rest = np.flatnonzero(is_rest)
    of_rest = [features[rest] for features in blocks]
    of_rows = [features[rows] for features in blocks]
    choices: dict[tuple[int, ...], Choice] = {}

    def loss_at(place: tuple[int, ...]) -> float:
        if place not in choices:
            found = fit(of_rest, [PENALTIES[k] for k in place], loss.part(rest))
            logits = found.logits(of_rows)
            choices[place] = Choice(*calibrated([logits], loss.part(rows)), logits)
        return choices[place].loss

    best = tuple(PENALTIES.index(penalty) for penalty in penalties)
    if loss.targets.shape[1] <= MOST_REFINED:
        best = descend(best, loss_at)
    loss_at(best)  # of many labels, nothing has been tried
    return [PENALTIES[k] for k in best], choices[best]


class Trained(NamedTuple):
    """A solution with what is known of it.

    rows, logits: of texts of the training data, the numbers (m,) and the logits (m, C), by
    solutions that were found without them.
    """

    linear: Linear
    penalties: list[float]
    rows: np.ndarray
    logits: np.ndarray


def train(blocks: Sequence[Features], loss: Loss, labels: Sequence[object], seed: int) -> Trained:
    """Choose the penalties and solve for all texts; logits are scaled to be calibrated.

    Of many texts, a sample of `MAX_SEARCH` chooses the penalties, and a tenth is held out to
    refine them and to calibrate. labels: of the texts (n), by which they are dealt out.

    It computes on one core: the thousands of small products are slower on several that others use,
    and the result is the same on each machine.
    """
    with threadpool_limits(1, user_api="blas"):
        return _train(blocks, loss, labels, seed)


def _train(blocks: Sequence[Features], loss: Loss, labels: Sequence[object], seed: int) -> Trained:
    n_texts = len(loss.targets)
    sample = np.arange(n_texts)
    if n_texts > MAX_SEARCH:
        n_parts = -(-n_texts // MAX_SEARCH)
        sample = np.flatnonzero(deal(labels, n_parts, seed) == 0)
    of_sample = [features[sample] for features in blocks]
    sample_labels = [labels[k] for k in sample]
    n_divisions = DIVISIONS_OF_FEW if n_texts <= FEW else 1
    divisions = [deal(sample_labels, N_FOLDS, seed + k) for k in range(n_divisions)]
    penalties, choice = choose(of_sample, loss.part(sample), divisions)
    rows = sample
    if n_texts > MAX_SEARCH:
        rows = np.flatnonzero(deal(labels, N_PARTS, seed) == 0)
        penalties, choice = refine(blocks, loss, penalties, rows)
    logits = choice.logits
    scale = choice.scale
    linear = fit(blocks, penalties, loss)
    scaled = Linear(
        [weights * np.float32(scale) for weights in linear.weights], linear.bias * np.float32(scale)
    )
    return Trained(scaled, penalties, rows, logits * np.float32(scale))
