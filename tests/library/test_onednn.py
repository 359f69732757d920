"""Products in bfloat16 where oneDNN, the processor or the compiler lacks them."""

from unittest import mock

import pytest

from elmo import ELMoEmbedder
from elmo_core.kernels import fused, onednn
from elmo_core.machine import runtime
from elmo_core.messages import UserError


@pytest.mark.parametrize(
    ("missing", "named"),
    [
        (mock.patch.object(runtime, "processor", lambda: "flags: avx2 avx512f"), "this processor"),
        (mock.patch.object(onednn, "_library", lambda: None), "libdnnl"),
        (mock.patch.object(fused, "kernel", lambda: None), "C compiler"),
    ],
)
def test_what_is_missing_is_named(model, missing, named):
    able = mock.patch.object(runtime, "processor", lambda: "flags: avx512_bf16")
    with mock.patch.object(onednn, "missing", onednn.missing.__wrapped__), able, missing:
        with pytest.raises(UserError, match=f"`precision=bfloat16`.*{named}"):
            ELMoEmbedder(model, device="cpu", precision="bfloat16")
        assert ELMoEmbedder(model, device="cpu", precision="auto").precision == "float32"
    with pytest.raises(UserError, match=r"precision='half'.*auto"):
        ELMoEmbedder(model, precision="half")
