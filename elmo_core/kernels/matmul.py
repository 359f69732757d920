"""Matrix products in the current precision, and weights prepared for many of them."""

from collections.abc import Iterable, Sequence

from elmo_core.checks import check_option
from elmo_core.kernels import fused, onednn, precision
from elmo_core.kernels.fused import AS_IS, TRANSPOSED
from elmo_core.machine import paddle_compat
from elmo_core.machine.runtime import paddle
from elmo_core.messages import UserError
from elmo_core.settings import PRECISIONS


def chosen_precision(name: str, device: str) -> str:
    """Check the name of a precision; `auto` is bfloat16 if the device has it.

    Raises if bfloat16 is asked for and missing.
    """
    check_option("precision", name, PRECISIONS)
    if name == "float32":
        return "float32"
    problem = bfloat16_problem(device)
    if problem and name == "bfloat16":
        raise UserError(f"`precision=bfloat16`: {problem}. Choose float32, or auto.")
    return "float32" if problem else "bfloat16"


def bfloat16_problem(device: str) -> str:
    """Return the reason why a device cannot multiply in bfloat16; empty if it can."""
    if device.startswith("gpu"):
        capable = paddle_compat.capability(paddle, device) >= (8, 0)
        return "" if capable else "this GPU has no bfloat16 (an A100 or later has)"
    if onednn.missing():
        return onednn.missing()
    if fused.kernel() is None:
        return "the compiled loops are missing, which need a C compiler and Paddle's MKL"
    return ""


def amp_operand(x):
    """Convert an operand for `amp_matmul`: once, if it is multiplied many times."""
    if not precision.bfloat16_enabled() or x.dtype == paddle.bfloat16:
        return x
    if fused.is_supported(x):
        rounded = paddle.empty(x.shape, "bfloat16")
        fused.kernel().round_to_bfloat16(n=x.size, x=x.contiguous(), rounded=rounded)
        return rounded
    rounded = x.astype("bfloat16")
    if x.place.is_gpu_place():
        return rounded
    return rounded.astype(x.dtype)  # a CPU without the compiled loops only rounds its operands


def amp_matmul(x, weight, transpose_x: bool = False, transpose_y: bool = False, add_to=None):
    """Multiply x with a weight, or an `amp_operand` of either.

    The result is float32 or, on a GPU, rounded to bfloat16.
    add_to: a float32 matrix that the product is added to, with the compiled loops only.
    """
    bfloat16 = precision.bfloat16_enabled()
    if add_to is None and not (bfloat16 and fused.is_supported(x)):
        dtype = weight.dtype if x.dtype == paddle.bfloat16 else x.dtype
        result = paddle.matmul(amp_operand(x), amp_operand(weight), transpose_x, transpose_y)
        return amp_operand(result).astype(dtype) if bfloat16 else result

    height, width = x.shape
    m = width if transpose_x else height
    k = height if transpose_x else width
    n = weight.shape[0] if transpose_y else weight.shape[1]
    operand = amp_operand(x.contiguous())
    result = paddle.empty([m, n], "float32") if add_to is None else add_to
    if add_to is None and not transpose_x and _are_frozen([weight]):
        # prepared as if for 4 products: the frozen weight will be multiplied again
        right_side = prepared([weight], transpose_y, n_products=4, rows=4 * m)
        fused.kernel().multiply(m=m, a=operand, b=right_side, c=result)
    else:
        fused.kernel().product(
            trans_a=TRANSPOSED if transpose_x else AS_IS,
            trans_b=TRANSPOSED if transpose_y else AS_IS,
            m=m,
            n=n,
            k=k,
            a=operand,
            b=amp_operand(weight),
            add=add_to is not None,
            c=result,
        )
    return result


class FrozenWeight(paddle.base.framework.EagerParamBase):
    """A weight that training leaves alone, so that it can be kept as prepared for products.

    Changes of it raise `inplace_version`. Paddle itself counts the changes by operators only.
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
        vars(self).pop("prepared", None)
        copy = super().__deepcopy__(memo)
        copy.__class__ = FrozenWeight
        return copy

    def __reduce__(self) -> tuple:
        # as Paddle 2.6 writes other weights, and reads them
        return tuple, ((self.name, self.numpy()),)


def freeze(weights: Iterable[paddle.Tensor]) -> None:
    """Leave these weights out of training."""
    for weight in weights:
        if isinstance(weight, FrozenWeight) and weight.stop_gradient:
            continue  # setting anything again would count as a change of the weight
        is_parameter = isinstance(weight, paddle.base.framework.EagerParamBase)
        if is_parameter:  # a pickled layer has plain tensors
            weight.__class__ = FrozenWeight
        weight.stop_gradient = True


def state_of(weights: Sequence[paddle.Tensor]) -> object:
    """Return a value that differs after a change of the weights; always if some are not frozen."""
    if not _are_frozen(weights):
        return object()
    return [(weight.data_ptr(), weight.inplace_version) for weight in weights]


def prepared(
    weights: Sequence[paddle.Tensor], transposed: bool, n_products: int, rows: int
) -> fused.PreparedWeight:
    """Prepare weights, one above the other, for so many products with so many rows in total.

    Those of a frozen model are prepared once, and again if they have changed: preparing them in
    every call would double the time of a batch of 8 sentences.
    """
    is_single = len(weights) == 1
    is_copied = fused.kernel().prepares(n_products, rows)
    if not (_are_frozen(weights) and (is_copied or is_single)):
        return fused.PreparedWeight(_joined(weights), transposed, n_products, rows)
    cache = vars(weights[-1]).setdefault("prepared", {})
    key = len(weights), transposed, is_copied, precision.bfloat16_enabled()
    state = state_of(weights)
    if key not in cache or cache[key][0] != state:
        weight = fused.PreparedWeight(_joined(weights), transposed, n_products, rows)
        weight.matrix = None  # of a single weight, which would otherwise hold itself
        cache[key] = state, weight
    return cache[key][1]


def _joined(weights: Sequence[paddle.Tensor]) -> paddle.Tensor:
    """Put weights of the same width one above the other."""
    return weights[0] if len(weights) == 1 else paddle.concat(list(weights))


def _are_frozen(weights: Sequence[paddle.Tensor]) -> bool:
    return all(isinstance(weight, FrozenWeight) and weight.stop_gradient for weight in weights)
