"""Count how long a step would take a GPU at its printed peaks: what decides the power that it draws."""

from collections.abc import Sequence

import numpy as np

from capplan.core.energy.power import PeakSeconds
from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.decompositions import AttentionPath
from capplan.core.latency.device import DeviceRates, device_rates
from capplan.core.latency.op_table import counted_flops, kernel_table
from capplan.core.latency.predict import least_bytes
from capplan.core.latency.roofline import PeakUse
from capplan.core.latency.step import ExecutedStep

_NARROW = (PeakUse.INT8, PeakUse.FP8, PeakUse.FP4)


def step_peak_seconds(step: ExecutedStep, gpu: GpuSpec, batches: Sequence[int]) -> tuple[PeakSeconds | None, ...]:
    """Return the work of a step on one GPU at each batch; None where the GPU cannot run it.

    Bytes are those that must cross the memory bus. Attention counts as fused.

    Args:
        step: The step.
        gpu: The GPU.
        batches: Batches; of a recording that holds at one batch, that one.
    """
    rates = device_rates(gpu, step.workload, step.laws)
    if not isinstance(rates, DeviceRates):
        return (None,) * len(batches)
    table = kernel_table(step, batches=batches)
    runs = np.where(table.path != AttentionPath.UNFUSED, table.count, 0.0)[:, None]
    seconds = counted_flops(table) * runs / rates.printed_flops_per_s[table.peak_use][:, None]
    memory_s = (least_bytes(table, [rates])[0] * runs).sum(axis=0) / rates.printed_bandwidth_bytes_per_s
    is_narrow = np.isin(table.peak_use, _NARROW)
    return tuple(
        PeakSeconds(memory_s=memory, wide_s=wide, narrow_s=narrow)
        for memory, wide, narrow in zip(
            memory_s.tolist(),
            seconds[~is_narrow].sum(axis=0).tolist(),
            seconds[is_narrow].sum(axis=0).tolist(),
            strict=True,
        )
    )
