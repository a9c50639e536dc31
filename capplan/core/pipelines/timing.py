"""The time of one run of a part, and what overlaps within a batch of items and between batches."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.classes import ALL_CLASSES, ATTENTION, BATCHED_MATMUL, FORWARD_CONVOLUTIONS, LINEAR
from capplan.core.latency.data_parallel import link_bytes_per_s
from capplan.core.latency.decompositions import AttentionPath
from capplan.core.latency.device import DeviceRates, Unsupported, device_rates
from capplan.core.latency.op_table import kernel_table
from capplan.core.latency.predict import DeviceTimes, estimate_latencies, time_kernels
from capplan.core.latency.step import ExecutedStep
from capplan.core.latency.types import LatencyEstimate
from capplan.core.numbers import FloatArray, Interval
from capplan.core.pipelines.measured import ATTENTION as ATTENTION_GROUP
from capplan.core.pipelines.measured import CONVOLUTIONS, GROUPS, OTHERS, PRODUCTS, UNCALIBRATED, PipelineCalibration
from capplan.core.pipelines.sharing import Degrees, SharedAttention, exchange_s
from capplan.core.pipelines.types import ON_GPU, ON_STREAM

_NORM = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTimes:
    """A run's time on one GPU at some batches: by group of kernels, the host's, and the least, of reading weights. [s]

    `by_group` is [group, batch] in the order of `GROUPS`.
    """

    by_group: FloatArray
    host_s: float
    weights_s: float

    def corrected(
        self, calibration: PipelineCalibration, gpu: GpuSpec, *, waited_s: FloatArray, host_added_s: float
    ) -> FloatArray:
        """Return the time at each batch, corrected and with what sharing adds. [s]"""
        factors = calibration.factors_on(gpu)
        device_s = np.array([factors.get(group, 1.0) for group in GROUPS]) @ self.by_group + waited_s
        host_s = self.host_s * calibration.host + host_added_s
        return np.asarray(np.maximum((device_s**_NORM + host_s**_NORM) ** (1 / _NORM), self.weights_s))

    @property
    def uncorrected(self) -> FloatArray:
        """Return the time at each batch as estimated kernel by kernel. [s]"""
        device_s = self.by_group.sum(axis=0)
        return np.asarray(np.maximum((device_s**_NORM + self.host_s**_NORM) ** (1 / _NORM), self.weights_s))


def _group_of(label: str) -> str:
    if label == ATTENTION:
        return ATTENTION_GROUP
    if label in (LINEAR, BATCHED_MATMUL):
        return PRODUCTS
    return CONVOLUTIONS if label in FORWARD_CONVOLUTIONS else OTHERS


_GROUP_INDEX = np.array([GROUPS.index(_group_of(label)) for label in ALL_CLASSES])


def group_times(step: ExecutedStep, gpu: GpuSpec, batches: Sequence[int]) -> GroupTimes | None:
    """Return the time of a step by group of kernels; None on a device that the groups say nothing of."""
    rates = None if not step.is_alike_on(gpu) else device_rates(gpu, step.workload, step.laws)
    if not isinstance(rates, DeviceRates):
        return None
    table = kernel_table(step, batches=batches)
    times: DeviceTimes = time_kernels(step, table, devices=[(gpu, rates)])
    spent = times.times.total_s[0] * times.count[0][:, None]
    # attention that is written out moves its scores through memory; no measured pipeline's products do
    group = np.where(table.path == AttentionPath.UNFUSED, GROUPS.index(OTHERS), _GROUP_INDEX[table.label])
    by_group = np.stack([spent[group == index].sum(axis=0) for index in range(len(GROUPS))])
    return GroupTimes(by_group=by_group, host_s=float(times.host_s[0, 0]), weights_s=float(times.weights_s[0, 0]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """How a part's runs differ from what its kernels alone say.

    Attributes:
        calibration: factors and laws.
        degrees: the GPUs that share the sequence.
        attention: the attention layers of which each GPU holds a share; empty where none is shared.
    """

    calibration: PipelineCalibration
    degrees: Degrees = field(default_factory=Degrees)
    attention: tuple[SharedAttention, ...] = ()

    def waited_s(self, gpu: GpuSpec, batches: Sequence[int]) -> FloatArray:
        """Return how long GPUs wait for one another in a run, at each batch. [s]"""
        laws, link = self.calibration.sequence, link_bytes_per_s(gpu)
        return np.array([
            exchange_s(
                self.attention, self.degrees, batch=batch, link_bytes_per_s=link, ulysses_share=laws.ulysses_share,
                ring_share=laws.ring_share,
            )
            for batch in batches
        ])  # fmt: skip

    @property
    def host_added_s(self) -> float:
        """Return what sharing adds to the host's time of a run. [s]"""
        if self.degrees.gpu_count == 1:
            return 0.0
        laws, layers = self.calibration.sequence, sum(layer.calls for layer in self.attention)
        per_layer = laws.layer_host_s + laws.ring_host_s * (self.degrees.ring - 1)
        return layers * (per_layer + laws.ulysses_host_s * (self.degrees.ulysses > 1))


def kernels_share(step: ExecutedStep, gpu: GpuSpec, batch: int, correction: Correction | None) -> float:
    """Return the share of a run's time in which kernels keep a GPU busy; 1 on a device that groups say nothing of."""
    times = group_times(step, gpu, [batch])
    if times is None:
        return 1.0
    calibration = UNCALIBRATED if correction is None else correction.calibration
    whole_s, kernels_s = (
        float(part.corrected(calibration, gpu, waited_s=np.zeros(1), host_added_s=0.0)[0])
        for part in (times, replace(times, host_s=0.0))
    )
    return kernels_s / whole_s


def time_runs(
    step: ExecutedStep, gpus: Sequence[GpuSpec], batches: Sequence[int], correction: Correction | None
) -> tuple[tuple[LatencyEstimate, ...] | Unsupported, ...]:
    """Estimate one run of a part on each GPU at each batch; without a correction as `plan` does of the part alone."""
    plain = estimate_latencies(step, gpus=gpus, batches=batches)
    if correction is None:
        return plain
    return tuple(
        row if isinstance(row, Unsupported) else _corrected(row, step, gpu, batches, correction)
        for row, gpu in zip(plain, gpus, strict=True)
    )


def _corrected(
    row: tuple[LatencyEstimate, ...], step: ExecutedStep, gpu: GpuSpec, batches: Sequence[int], correction: Correction
) -> tuple[LatencyEstimate, ...]:
    times = group_times(step, gpu, batches)
    if times is None:
        return row
    calibration = correction.calibration
    expected_s = times.corrected(
        calibration,
        gpu,
        waited_s=correction.waited_s(gpu, batches),
        host_added_s=correction.host_added_s,
    )
    if calibration.origin is None:
        ratios = expected_s / times.uncorrected
        return tuple(
            replace(estimate, latency_s=estimate.latency_s * float(ratio))
            for estimate, ratio in zip(row, ratios, strict=True)
        )
    half = calibration.half_width(gpu, is_shared=correction.degrees.gpu_count > 1)
    return tuple(
        replace(
            estimate,
            latency_s=Interval(low=expected / math.exp(half), expected=expected, high=expected * math.exp(half)),
            bound_s=min(estimate.bound_s, expected),
            calibration=calibration.name,
        )
        for estimate, expected in zip(row, expected_s.tolist(), strict=True)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRuns:
    """All runs of a part for one batch of items.

    Attributes:
        name: the part.
        on: where it runs.
        after: the parts that must be over before it.
        time_s: the time of all its runs, with the moving of its weights. [s]
        kernels_s: the time in which its kernels keep the device busy; at most `time_s`. [s]
    """

    name: str
    on: str
    after: tuple[str, ...]
    time_s: float
    kernels_s: float


def device_of(on: str) -> str:
    """Return the device of a place: a stream's is that of the GPU."""
    return ON_GPU if on == ON_STREAM else on


def start_times(spans: Sequence[PartRuns]) -> Mapping[str, float]:
    """Return when each part of a batch starts, in the order of a pipeline's parts. [s]"""
    starts: dict[str, float] = {}
    ends: dict[str, float] = {}
    free: dict[str, float] = {}
    for span in spans:
        device = device_of(span.on)
        starts[span.name] = max([free.get(device, 0.0), *(ends[name] for name in span.after)])
        ends[span.name] = free[device] = starts[span.name] + span.time_s
    return starts


def batch_time_s(spans: Sequence[PartRuns]) -> float:
    """Return how long a batch takes from its first part's start to the end of its last part. [s]"""
    starts = start_times(spans)
    return max((starts[span.name] + span.time_s for span in spans), default=0.0)


def interval_s(spans: Sequence[PartRuns]) -> float:
    """Return the time from the end of one batch to the end of the next in a steady state. [s]"""
    busy: dict[str, float] = {}
    for span in spans:
        busy[span.on] = busy.get(span.on, 0.0) + span.time_s
    kernels_s = sum(span.kernels_s for span in spans if device_of(span.on) == ON_GPU)
    return max([kernels_s, *busy.values()])
