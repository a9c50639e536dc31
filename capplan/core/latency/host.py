"""What a host needs to run a model's operators: as `capplan calibrate host` measures it, operator by operator."""

import numpy as np

from capplan.core.latency.calibration import HostCosts
from capplan.core.latency.classes import ALL_CLASSES, CHANNELS_LAST_SUFFIX, CONV, is_convolution
from capplan.core.latency.decompositions import AttentionPath
from capplan.core.latency.op_table import KernelTable

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
