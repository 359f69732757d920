"""The GPU kernels of the LSTM, compiled by a C compiler to show what they compute, also in
test_lstmp.py.
"""

import re

import gpu_kernels
import pytest

from elmo_core.kernels import gpu_lstm
from elmo_core.network.lstmp import equations


def test_they_equal_the_equations():
    assert gpu_lstm.difference(gpu_kernels.launcher(), equations) < 2e-6


@pytest.mark.parametrize(
    "kernel", ["cell_forward", "clip_forward", "clip_backward", "cell_backward"]
)
def test_a_kernel_that_forgets_to_clip_is_not_used(kernel):
    def launch(name, *arguments):
        clip = 1e9 if name == kernel else arguments[7]
        gpu_kernels.launcher()(name, *arguments[:7], clip, *arguments[8:])

    assert gpu_lstm.difference(launch, equations) > 100 * gpu_lstm.TOLERANCE


@pytest.mark.parametrize("kernel", gpu_lstm.PARAMETERS)
def test_the_parameters_of_a_kernel_are_those_of_the_source(kernel):
    source = gpu_lstm.SOURCE.read_text(encoding="utf-8")
    (step,) = re.findall(r"^#define STEP (.*)", source, re.M)
    (own,) = re.findall(rf"^KERNEL {kernel}\(STEP, ([^)]*)\)", source, re.M)
    declared = f"{step}, {own}".split(",")
    assert gpu_lstm.PARAMETERS[kernel] == tuple(re.split(r"[ *]", d)[-1] for d in declared)
