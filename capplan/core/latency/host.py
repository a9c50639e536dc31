"""What a host needs to run a model's operators, as `capplan calibrate host` measures it, and to copy its inputs."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.calibration import HostCosts
from capplan.core.latency.classes import ALL_CLASSES, CHANNELS_LAST_SUFFIX, CONV, is_convolution
from capplan.core.latency.decompositions import AttentionPath
from capplan.core.latency.op_table import KernelTable
from capplan.core.latency.types import LatencyEstimate
from capplan.core.numbers import Interval
from capplan.core.trace.types import InputTensor

QUEUED_LAUNCH_S = 2.5e-6
"""Time between kernels in a full queue, where no device is at hand: 2.6 µs on an A100, 2.1 on an A40, 2.5 on an H200,
1.6 on an L40 (RRZE-HPC/gpu-benches)."""


def host_step_s(table: KernelTable, costs: HostCosts) -> float:
    """Sum what the host needs to run a step eagerly, ahead of the device. [s]

    Args:
        table: the step's kernels; attention counts as one fused call.
        costs: what a call takes on the host.
    """
    counts = table.count * (table.path != AttentionPath.UNFUSED)
    by_class = np.array([_operator_s(costs, label) for label in ALL_CLASSES])
    calls_alone = max(0.0, table.host_calls - float(counts.sum()))
    operators_s = float(counts @ by_class[table.label])
    return operators_s + costs.call_s * calls_alone + costs.launch_s * float(counts @ table.launches)


def _operator_s(costs: HostCosts, label: str) -> float:
    """Return the time of an eager call by its class; one that was not measured takes a relative's, or the median."""
    stands_in = CONV if is_convolution(label) else ""
    plain = label.removesuffix(CHANNELS_LAST_SUFFIX)
    known = costs.operators_s.get(plain, costs.operators_s.get(stands_in))
    return float(np.median(list(costs.operators_s.values()))) if known is None else known


_PAGEABLE_SHARE, _MOST_PAGEABLE_SHARE = 0.4, 0.68
_STAGED_BYTES_PER_S, _SLOWEST_BYTES_PER_S = 6.3e9, 2.3e9
"""Of a link's printed rate, where host memory is pageable: 2.3 to 5.4 of 8 GB/s on PCIe 2 (Harris, "How to Optimize
Data Transfers in CUDA C/C++", 2012), about 6 of 15.8 on PCIe 3. One thread of the CPU copies it to a pinned buffer
first, which a faster link does not speed up: PCIe 3 is taken as the most that is expected, and the slowest of these
hosts may be anyone's."""


def host_copy_s(inputs: Sequence[InputTensor], gpu: GpuSpec, *, batch: int) -> Interval | None:
    """Return the time that a batch's inputs take from pageable host memory; None where the link is unknown. [s]

    Args:
        inputs: the model's inputs.
        gpu: the GPU that they are copied to.
        batch: how many samples they hold.
    """
    if gpu.pcie_bytes_per_s is None:
        return None
    copied_bytes = sum(each.size_bytes(batch) for each in inputs)
    rate = min(_PAGEABLE_SHARE * gpu.pcie_bytes_per_s, _STAGED_BYTES_PER_S)
    return Interval(
        low=copied_bytes / (_MOST_PAGEABLE_SHARE * gpu.pcie_bytes_per_s),
        expected=copied_bytes / rate,
        high=copied_bytes / min(rate, _SLOWEST_BYTES_PER_S),
    )


def with_copy(estimate: LatencyEstimate, copy_s: Interval) -> LatencyEstimate:
    """Return an estimate of a step that waits for the copy of its inputs, bound and interval with it.

    Args:
        estimate: the step with its inputs on the device.
        copy_s: what the copy takes. [s]
    """
    return replace(
        estimate,
        latency_s=estimate.latency_s + copy_s,
        notes=(*estimate.notes, "with the copy of the inputs from the host"),
    )
