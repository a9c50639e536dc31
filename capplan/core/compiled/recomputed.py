"""Which results a compiler computes again in each kernel that reads them, and what it stores instead.

Inductor stores a pointwise result that several kernels read only where computing it reads more than four buffers
(`realize_reads_threshold` in torch/_inductor/config.py, asked by `StorageBox.should_realize_on_reuse` in ir.py). An
activation after a norm reads one, the norm five: the norm is stored, and each reader computes the activation. Where the
activation is computed in fp32 (`pw_cast_for_opmath` in torch/_decomp/decompositions.py), the norm's conversion to 16
bits meets the activation's back to fp32 and both are dropped (`pointless_convert` in fx_passes/joint_graph.py): it is
stored in fp32. Kernel lists of torch 2.13 for EfficientNet show both (docs/accuracy-compile.md).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from capplan.core.compiled.grouping import Flow
from capplan.core.compiled.roles import normalises_with_constants, part, reads_repeatedly
from capplan.core.ops.catalogue import FusedRole
from capplan.core.trace.types import ITEM_BYTES, Kernel, Recording

_COMPUTED_IN_FP32 = frozenset(
    f"aten.{name}" for name in ("silu", "gelu", "hardswish", "hardsigmoid", "mish", "elu", "celu", "selu", "softplus")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputed:
    """An operator whose readers compute it again from what `source`, another operator of its kernel, left."""

    source: int
    dtype: str


def recomputed_operators(recording: Recording, flow: Flow, groups: Sequence[int]) -> Mapping[int, Recomputed]:
    """Find the activations that are computed again, by the operator's position.

    Args:
        recording: the step, images in the layout that they run in.
        flow: its operators with who feeds whom.
        groups: the kernel that each operator is in.
    """
    consumers = flow.consumers()
    end = len(recording.ops)
    found: dict[int, Recomputed] = {}
    kernels = [recording.kernels[op.kernel] for op in flow.ops]
    for index, op in enumerate(flow.ops):
        source = flow.producers[index][0] if flow.producers[index] else -1
        if source < 0 or groups[source] != groups[index] or not _is_activation(kernels[index]):
            continue
        if not normalises_with_constants(kernels[source]):
            continue
        if any(recording.storages[storage].death >= end for storage in op.writes):
            continue
        readers = [reader for reader in consumers.get(index, []) if groups[reader] != groups[index]]
        pads = any(kernels[reader].name == _PADDING for reader in readers)
        if all(_computes(kernels[reader]) for reader in readers) and (
            len({groups[reader] for reader in readers}) > 1 or (pads and kernels[index].name in _COMPUTED_IN_FP32)
        ):
            dtype = kernels[source].outputs[0].dtype
            is_narrow = ITEM_BYTES[dtype] == 2
            wide = "float32" if is_narrow and kernels[index].name in _COMPUTED_IN_FP32 else dtype
            found[index] = Recomputed(source=source, dtype=wide)
    return found


def readers_of(flow: Flow, recomputed: Mapping[int, Recomputed], groups: Sequence[int]) -> dict[int, list[int]]:
    """Return by kernel the operators that it computes again.

    Args:
        flow: a step's operators with who feeds whom.
        recomputed: the operators that are computed again.
        groups: the kernel that each operator is in.
    """
    consumers = flow.consumers()
    found: dict[int, list[int]] = defaultdict(list)
    for index in recomputed:
        for group in dict.fromkeys(groups[reader] for reader in consumers.get(index, [])):
            if group != groups[index]:
                found[group].append(index)
    return found


def _computes(reader: Kernel) -> bool:
    """Return True if a kernel that reads a result can compute it; padding is a kernel of its own that does."""
    return part(reader) is not None and (reader.name == _PADDING or not reads_repeatedly(reader))


_PADDING = "aten.constant_pad_nd"


def _is_activation(kernel: Kernel) -> bool:
    activations = [operand for operand in kernel.inputs if not operand.is_weight]
    return part(kernel) is FusedRole.POINTWISE and len(activations) == 1 and len(kernel.outputs) == 1
