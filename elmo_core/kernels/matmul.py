"""Matrix products in the current precision, and right-hand sides packed for many of them."""

from collections.abc import Iterable, Sequence

from elmo_core.checks import check_option
from elmo_core.kernels import fused, onednn, precision
from elmo_core.kernels.fused import AS_IS, TRANSPOSED
from elmo_core.machine import paddle_compat
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError
from elmo_core.settings import PRECISIONS


def chosen_precision(name: str, device: str) -> str:
    """Check the name of a precision; `auto` is bfloat16 if the device has it. Raises if it is asked for and missing."""
    check_option("precision", name, PRECISIONS)
    problem = "" if name == "float32" else bfloat16_problem(device)
    if problem and name == "bfloat16":
        raise UserError(f"`precision=bfloat16`: {problem}. Choose float32, or auto.")
    return "float32" if problem or name == "float32" else "bfloat16"


def bfloat16_problem(device: str) -> str:
    """Return the reason why a device cannot multiply in bfloat16; empty if it can."""
    if device.startswith("gpu"):
        capable = paddle_compat.capability(paddle, device) >= (8, 0)
        return "" if capable else "this GPU has no bfloat16 (an A100 or later has)"
    if problem := onednn.missing():
        return problem
    return (
        ""
        if fused.kernel()
        else "the compiled loops are missing, which need a C compiler and Paddle's MKL"
    )


def amp_operand(x):
    """Convert an operand for `amp_matmul`: once, if it is multiplied many times."""
    if not precision.bfloat16_enabled() or x.dtype == paddle.bfloat16:
        return x
    if fused.is_supported(x):
        rounded, x = paddle.empty(x.shape, "bfloat16"), x.contiguous()
        fused.kernel().round_to_bfloat16(x.size, x, rounded)
        return rounded
    rounded = x.astype("bfloat16")
    return (
        rounded if x.place.is_gpu_place() else rounded.astype(x.dtype)
    )  # other CPUs only round their operands


def amp_matmul(x, weight, transpose_x: bool = False, transpose_y: bool = False, add_to=None):
    """Matrix product of x and a weight, or of an `amp_operand` of either, in float32 or, on a GPU, rounded to bfloat16.

    add_to: a float32 matrix that the product is added to, with the compiled loops only.
    """
    if add_to is None and not (precision.bfloat16_enabled() and fused.is_supported(x)):
        dtype = weight.dtype if x.dtype == paddle.bfloat16 else x.dtype
        x, weight = amp_operand(x), amp_operand(weight)
        result = paddle.matmul(x, weight, transpose_x, transpose_y)
        return amp_operand(result).astype(dtype) if precision.bfloat16_enabled() else result
    m, k = reversed(x.shape) if transpose_x else x.shape
    result = (
        paddle.empty([m, weight.shape[0 if transpose_y else 1]], "float32")
        if add_to is None
        else add_to
    )
    if add_to is None and not transpose_x and _are_frozen([weight]):
        fused.kernel().multiply(
            m, amp_operand(x.contiguous()), packed([weight], transpose_y, 4, 4 * m), result
        )
    else:
        trans = [TRANSPOSED if transposed else AS_IS for transposed in (transpose_x, transpose_y)]
        operands = amp_operand(x.contiguous()), amp_operand(weight)
        fused.kernel().product(*trans, *result.shape, k, *operands, add_to is not None, result)
    return result


class FrozenWeight(paddle.base.framework.EagerParamBase):
    """A weight that training leaves alone, so that products can keep it packed: changes of it raise `inplace_version`.

    Paddle itself counts the changes by operators only.
    """

    def set_value(self, value) -> None:
        super().set_value(value)
        self._bump_inplace_version()

    def copy_(self, *args) -> None:
        super().copy_(*args)
        self._bump_inplace_version()

    def __setattr__(self, name: str, value) -> None:
        super().__setattr__(name, value)
        self._bump_inplace_version()  # without `stop_gradient`, an optimizer may change it

    def __deepcopy__(self, memo: dict) -> "FrozenWeight":
        vars(self).pop("packed", None)
        copy = super().__deepcopy__(memo)
        copy.__class__ = FrozenWeight
        return copy

    def __reduce__(self) -> tuple:
        return tuple, (
            (self.name, self.numpy()),
        )  # which Paddle 2.6 writes for other weights, and reads


def freeze(weights: Iterable[paddle.Tensor]) -> None:
    for weight in weights:
        if isinstance(weight, FrozenWeight) and weight.stop_gradient:
            continue  # setting anything again would count as a change of the weight
        if isinstance(
            weight, paddle.base.framework.EagerParamBase
        ):  # a pickled layer has plain tensors
            weight.__class__ = FrozenWeight
        weight.stop_gradient = True


def state_of(weights: Sequence[paddle.Tensor]) -> object:
    """Return a value that differs after a change of the weights, and always unless all are frozen."""
    return (
        [(weight.data_ptr(), weight.inplace_version) for weight in weights]
        if _are_frozen(weights)
        else object()
    )


def packed(
    weights: Sequence[paddle.Tensor], transposed: bool, n_products: int, rows: int
) -> fused.Packed:
    """Return the weights, one above the other, as the right-hand side of so many products with so many rows in total.

    Those of a frozen model are packed once, and again if they have changed: packing them in every call would double the
    time of a batch of 8 sentences.
    """
    packs = fused.kernel().packs(n_products, rows)
    is_kept = (packs or len(weights) == 1) and _are_frozen(weights)
    cache = vars(weights[-1]).setdefault("packed", {}) if is_kept else {}
    key = len(weights), transposed, packs, precision.bfloat16_enabled()
    state = state_of(weights)
    if key not in cache or cache[key][0] != state:
        matrix = paddle.concat(list(weights)) if len(weights) > 1 else weights[0]
        cache[key] = state, fused.Packed(matrix, transposed, n_products, rows)
        if is_kept:
            cache[key][1].matrix = None  # of a single weight, which would otherwise hold itself
    return cache[key][1]


def _are_frozen(weights: Sequence[paddle.Tensor]) -> bool:
    return all(isinstance(weight, FrozenWeight) and weight.stop_gradient for weight in weights)
