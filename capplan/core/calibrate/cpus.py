"""Fit how well each class of operators uses a CPU, from operators of models' sizes that were timed on it.

A CPU's kernels share nothing with CUDA's, so that the efficiencies fitted to GPUs say nothing of it. For each class
two efficiencies are fitted, of its arithmetic and of its bytes, with the least squared log errors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

import numpy as np

from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.calibration import (
    COUNTED_IN_INSTRUCTIONS,
    PRIOR_CLASSES,
    Calibration,
    ClassConstants,
    GlobalConstants,
    IntervalWidth,
)
from capplan.core.latency.classes import ALL_CLASSES, CHANNELS_LAST_SUFFIX
from capplan.core.latency.device import Unsupported, device_rates
from capplan.core.latency.kernel_time import is_product
from capplan.core.latency.op_table import kernel_table
from capplan.core.latency.predict import kernel_work, time_kernels
from capplan.core.latency.step import ExecutedStep
from capplan.core.origin import Origin
from capplan.core.trace.types import Recording
from capplan.core.workload import Precision, Workload

_COMPUTE = np.logspace(-3, 0.6, 73)
_BANDWIDTH = np.logspace(-1.5, 1, 51)
"""Efficiencies that are tried: shares of the sustained arithmetic, and of what a long copy reaches. Kernels whose
tensors stay in the caches reach several times the latter."""
_PULL = 0.02
"""Weight of a squared log distance from the prior, against that of one timed operator."""
_NO_QUEUE_S = 1e-12
"""A CPU has no queue that a host fills: what a call costs is part of each operator."""
CPU_WIDTH = IntervalWidth(
    below=0.45, above=0.45, between_gpus=0.0, between_sheets=0.3, between_others=0.2, between_other_sheets=0.5, rows=30
)
"""Of thirty models on one machine (docs/evidence/cpus.md); what other CPUs add is a guess, because none was timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOperator:
    """One operator, or a module of a few, that was timed on a CPU. [s]"""

    name: str
    recording: Recording
    precision: Precision
    latency_s: float


def fit_cpu(
    timed: Sequence[TimedOperator],
    *,
    cpu: GpuSpec,
    call_s: float,
    made: date,
    command: str,
    source: str,
    serves: str = "cpu",
    name: str = "CPU operators",
) -> Calibration:
    prior = _prior(call_s)
    by_class: dict[str, list[_ClassTime]] = {}
    for operator in timed:
        if (parts := _parts(operator, prior, cpu)) is not None:
            by_class.setdefault(parts.label, []).append(parts)
    fitted = {label: _fitted(prior.classes[label], parts) for label, parts in by_class.items()}
    origin = Origin(made=made, command=command, sources=(source,), rows=len(timed))
    constants = replace(prior.constants, cores=float(cpu.unit_count or 1))
    classes = _by_relatives(prior.classes, fitted)
    return replace(prior, name=name, origin=origin, constants=constants, classes=classes, serves=serves)


def _prior(call_s: float) -> Calibration:
    """Return a calibration in which every class reaches the sustained rates."""
    constants = GlobalConstants(
        l2_hit=0.8,
        l2_reach=0.1,
        l2_sharpness=1.5,
        tile_power=0.0,
        kernel_s=call_s,
        call_s=_NO_QUEUE_S,
        launch_s=_NO_QUEUE_S,
    )
    classes = {
        label: ClassConstants(compute=0.1 if label in COUNTED_IN_INSTRUCTIONS else 1.0, bandwidth=1.0)
        for label in PRIOR_CLASSES
    }
    width = dict.fromkeys(("device nchw", "device nhwc", "device single", "launches"), CPU_WIDTH)
    return Calibration(name="CPU operators", origin=None, constants=constants, classes=classes, widths=width)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClassTime:
    """The time of an operator's costliest class: what the model gives its arithmetic and its bytes, and its own. [s]"""

    label: str
    compute_s: float
    memory_s: float
    own_s: float
    is_product: bool


def _parts(timed: TimedOperator, prior: Calibration, cpu: GpuSpec) -> _ClassTime | None:
    """Split a timed operator as the prior models it; None where the CPU lacks its number format."""
    workload = Workload(precision=timed.precision)
    rates = device_rates(cpu, workload, prior.laws)
    if isinstance(rates, Unsupported):
        return None
    step = ExecutedStep(recording=timed.recording, workload=workload, calibration=prior)
    table = kernel_table(step, batches=[timed.recording.exact_batch or 1])
    times = time_kernels(step, table, devices=[(cpu, rates)])
    spent_s = times.times.total_s[0, :, 0] * times.count[0]
    row = int(spent_s.argmax())
    count = float(times.count[0, row])
    others_s = float(spent_s.sum() - spent_s[row]) + float(times.times.fixed_s[0, row, 0]) * count
    return _ClassTime(
        label=ALL_CLASSES[int(table.label[row])],
        compute_s=float(times.times.compute_s[0, row, 0]) * count,
        memory_s=float(times.times.memory_s[0, row, 0]) * count,
        own_s=max(timed.latency_s - others_s, 0.3 * timed.latency_s),
        is_product=bool(is_product(kernel_work(table, [rates]))[row, 0]),
    )


def _fitted(prior: ClassConstants, parts: Sequence[_ClassTime]) -> ClassConstants:
    """Return the efficiencies of a class with the least squared log errors, drawn a little towards the prior."""
    compute, bandwidth = _COMPUTE[:, None], _BANDWIDTH[None, :]
    costs = _PULL * (np.log(compute / prior.compute) ** 2 + np.log(bandwidth / prior.bandwidth) ** 2)
    for part in parts:
        compute_s = part.compute_s * prior.compute / compute
        memory_s = part.memory_s * prior.bandwidth / bandwidth
        modelled_s = np.sqrt(compute_s**2 + memory_s**2) if part.is_product else compute_s + memory_s
        costs = costs + np.log(modelled_s / part.own_s) ** 2
    best = np.unravel_index(int(costs.argmin()), costs.shape)
    return replace(prior, compute=float(_COMPUTE[best[0]]), bandwidth=float(_BANDWIDTH[best[1]]))


def _by_relatives(
    prior: Mapping[str, ClassConstants], fitted: Mapping[str, ClassConstants]
) -> dict[str, ClassConstants]:
    """Return constants for every class: its own, those of its row-major twin, or the medians of its kind."""
    typical = {}
    for is_counted in (True, False):
        kind = [constants for label, constants in fitted.items() if (label in COUNTED_IN_INSTRUCTIONS) is is_counted]
        typical[is_counted] = replace(
            next(constants for label, constants in prior.items() if (label in COUNTED_IN_INSTRUCTIONS) is is_counted),
            **(
                {
                    "compute": float(np.median([constants.compute for constants in kind])),
                    "bandwidth": float(np.median([constants.bandwidth for constants in kind])),
                }
                if kind
                else {}
            ),
        )
    return {
        label: fitted.get(
            label, fitted.get(label.replace(CHANNELS_LAST_SUFFIX, ""), typical[label in COUNTED_IN_INSTRUCTIONS])
        )
        for label in prior
    }
