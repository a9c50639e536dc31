"""A trace whose operators lack what their formulas take is refused where it enters."""

from dataclasses import replace

import pytest

from capplan.core.ops.flops import check_operators
from capplan.core.trace.types import Affine, Kernel, Trace
from capplan.errors import TraceFileError
from tests.core.trace.test_trace_checks import ROWS, TRACE, operand


def with_kernel(kernel: Kernel) -> Trace:
    [recording] = TRACE.recordings
    return replace(TRACE, recordings=(replace(recording, kernels=(*recording.kernels, kernel)),))


def test_a_whole_trace_passes() -> None:
    check_operators(TRACE, where="t.json")


@pytest.mark.parametrize(
    "kernel",
    [
        Kernel(name="aten.mm", inputs=(), outputs=(ROWS,)),
        Kernel(name="aten.mm", inputs=(operand(4), operand(4)), outputs=(ROWS,)),
        Kernel(name="aten.convolution", inputs=(ROWS, operand()), outputs=(ROWS,)),
        Kernel(name="aten.convolution", inputs=(ROWS, operand(4, 4, 3)), outputs=(ROWS,), attributes={"groups": "x"}),
        # a filter without a window
        Kernel(name="aten.convolution", inputs=(ROWS, operand(4, 4)), outputs=(ROWS,), attributes={"groups": 1}),
        Kernel(name="capplan.attention", inputs=(operand(4), operand(4), operand(4)), outputs=(ROWS,)),
        # a count of FLOPs in the file stands in the place of the formula, not of the tensors
        Kernel(name="capplan.attention", inputs=(ROWS, ROWS), outputs=(ROWS,), flops=Affine(8)),
    ],
)
def test_an_operator_without_its_tensors_is_refused(kernel: Kernel) -> None:
    with pytest.raises(TraceFileError, match=rf"t\.json .*recordings\[0\]\.kernels\[1\] lacks .* {kernel.name} takes"):
        check_operators(with_kernel(kernel), where="t.json")
