"""Inductor's rule for the layout of convolutions: channels-last where its own weights of FLOPs say that it pays."""

from dataclasses import replace

from capplan.core.ops.catalogue import OperatorClass, operator_class
from capplan.core.ops.convolutions import group_count
from capplan.core.ops.flops import kernel_flops
from capplan.core.trace.types import Kernel, MemoryFormat, Operand, Recording

_NODES_PER_CONVOLUTION = 300
_SLOWDOWN = {"grouped": 1.358, "small": 0.783, "in_out": 0.725, "other": 0.823}
"""Time of channels-last over row-major convolutions, as Inductor's `decide_layout_opt` weighs them (torch 2.1 on)."""

_ON_IMAGES = (OperatorClass.CONVOLUTION, OperatorClass.POOL, OperatorClass.RESIZE)


def prefers_channels_last(recording: Recording, batch: int) -> bool:
    """Decide as Inductor does whether all convolutions of a graph run channels-last."""
    convolutions = [
        recording.kernels[op.kernel]
        for op in recording.steady_ops()
        if recording.kernels[op.kernel].name == "aten.convolution"
    ]
    calls = sum(op.calls for op in recording.steady_ops())
    if not convolutions or calls >= _NODES_PER_CONVOLUTION * len(convolutions):
        return False
    if recording.configuration.training is not None:
        return _pays_in_training([_kind(kernel) for kernel in convolutions], convolutions)
    flops = [(kernel_flops(kernel, batch), _SLOWDOWN[_kind(kernel)]) for kernel in convolutions]
    return sum(count * slowdown for count, slowdown in flops) <= sum(count for count, _ in flops)


def in_channels_last(kernel: Kernel) -> Kernel:
    """Return the same kernel on channels-last images, if it takes images."""
    if not _takes_images(kernel):
        return kernel
    return replace(
        kernel,
        inputs=tuple(_channels_last(operand) for operand in kernel.inputs),
        outputs=tuple(_channels_last(operand) for operand in kernel.outputs),
    )


def _channels_last(operand: Operand) -> Operand:
    if len(operand.shape) != 4:
        return operand
    return replace(operand, memory_format=MemoryFormat.CHANNELS_LAST)


def _takes_images(kernel: Kernel) -> bool:
    by_channel = "batch_norm" in kernel.name or "group_norm" in kernel.name
    return by_channel or operator_class(kernel) in _ON_IMAGES or _reduces_images(kernel)


def _reduces_images(kernel: Kernel) -> bool:
    """Return True for sums over the positions of images, and over their channels (RMS norms of images)."""
    if operator_class(kernel) is not OperatorClass.REDUCTION or len(kernel.inputs[0].shape) != 4:
        return False
    dims = kernel.attributes.get("dim", ())
    return isinstance(dims, tuple) and {dim % 4 for dim in dims} in ({2, 3}, {1})


def _pays_in_training(kinds: list[str], convolutions: list[Kernel]) -> bool:
    shrinking = any(_shrinks(kernel) for kernel in convolutions)
    return "grouped" not in kinds and not shrinking and any(not _is_small(kernel) for kernel in convolutions)


def _kind(kernel: Kernel) -> str:
    if _weight(kernel)[1] > 1 and group_count(kernel, 2) != 1:  # samples with filters of their own are groups
        return "grouped"
    if _is_small(kernel):
        return "small"
    return "in_out" if _shrinks(kernel) else "other"


def _is_small(kernel: Kernel) -> bool:
    out, per_group, *_ = _weight(kernel)
    return out <= 64 and per_group <= 64


def _shrinks(kernel: Kernel) -> bool:
    out, per_group, *window = _weight(kernel)
    return out * 2 <= per_group and bool(window) and window[0] > 1


def _weight(kernel: Kernel) -> tuple[int, ...]:
    return kernel.inputs[1].shape_at(1)
