"""Check that the operators of a trace that was read have the tensors that their formulas take."""

from capplan.core.ops.attention import attention_call
from capplan.core.ops.flops import kernel_flops, kernel_macs, matmul_shape, traffic
from capplan.core.trace.types import Kernel, Trace
from capplan.errors import TraceFileError


def check_operators(trace: Trace, *, where: str) -> None:
    """Count every kernel of a trace once, so that one that cannot be counted is refused where it enters.

    Args:
        trace: a trace that somebody else may have written.
        where: its file, for the message.

    Raises:
        TraceFileError: an operator lacks a tensor, or one has too few dimensions.
    """
    for recording_index, recording in enumerate(trace.recordings):
        batch = recording.exact_batch or min(recording.batches)
        for index, kernel in enumerate(recording.kernels):
            if not _can_be_counted(kernel, batch):
                raise TraceFileError(
                    f"{where} is a damaged trace file: recordings[{recording_index}].kernels[{index}] lacks the "
                    f"tensors or attributes that {kernel.name} takes."
                )


def _can_be_counted(kernel: Kernel, batch: int) -> bool:
    try:
        kernel_flops(kernel, batch)
        kernel_macs(kernel, batch)  # also where the file says how many FLOPs it takes
        if kernel.name.startswith("capplan.attention"):
            attention_call(kernel, batch=batch, dtype="float16")
        matmul_shape(kernel, batch)
        traffic(kernel, batch)
    except (AssertionError, IndexError, KeyError, TypeError, ValueError, ZeroDivisionError):
        return False
    return True
