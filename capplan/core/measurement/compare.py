"""Compare a measurement with bound and estimate, and two runs of the same questions with each other."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.classes import ALL_CLASSES
from capplan.core.latency.device import Unsupported, device_rates
from capplan.core.latency.op_table import KernelTable, counted_flops, kernel_table
from capplan.core.latency.predict import estimate_latencies, time_kernels
from capplan.core.latency.step import ExecutedStep
from capplan.core.measurement.statistics import ConfidenceInterval, median_ratio
from capplan.core.measurement.types import FailedMeasurement, Measurement, MeasurementFailure, Point, TheoryFigures


class RunVerdict(StrEnum):
    """How the second run compares with the first."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "no difference beyond noise"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """One question answered by both runs. `ratio` is the second median over the first, with its 95 % interval."""

    first: Measurement
    second: Measurement
    ratio: ConfidenceInterval

    @property
    def verdict(self) -> RunVerdict:
        """Return the verdict: different only where the whole interval lies on one side of 1."""
        if self.ratio.high < 1:
            return RunVerdict.FASTER
        return RunVerdict.SLOWER if self.ratio.low > 1 else RunVerdict.SAME


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """All questions of two runs: those both answered, and those only one did."""

    pairs: tuple[RunComparison, ...]
    only_first: tuple[Measurement, ...]
    only_second: tuple[Measurement, ...]


def compare_runs(first: Iterable[Measurement], second: Iterable[Measurement]) -> Pairing:
    """Pair the measurements of two runs by model, input size and workload; of repeated ones the last counts.

    Device and versions may differ: they are what is compared.
    """
    before = {_key(point): point for point in first}
    after = {_key(point): point for point in second}
    pairs = (
        RunComparison(
            first=before[key], second=after[key], ratio=median_ratio(after[key].samples_s, before[key].samples_s)
        )
        for key in before
        if key in after
    )
    return Pairing(
        pairs=tuple(pairs),
        only_first=tuple(point for key, point in before.items() if key not in after),
        only_second=tuple(point for key, point in after.items() if key not in before),
    )


def _key(point: Point) -> tuple[object, ...]:
    """Return what two points have in common that name the same model, input and conditions."""
    return point.model.words, point.model.input_size, point.workload


def find_answer(points: Iterable[Point], question: FailedMeasurement) -> Point | tuple[str, ...]:
    """Return the last of a file's points that answers a question, else in what the nearest one differs.

    A measurement answers if model, conditions, device, software and timing rules are the same. So does a failure to
    find memory, under the same limit; other failures are tried again.
    """
    nearest: tuple[str, ...] | None = None
    for point in reversed(list(points)):
        is_settled = isinstance(point, Measurement) or point.kind is MeasurementFailure.OUT_OF_MEMORY
        if not is_settled or _key(point) != _key(question):
            continue
        before, now = point.device, question.device
        pairs: dict[str, tuple[object, object]] = {
            "device": ((before.name, before.kind), (now.name, now.kind)),
            "torch": (before.torch, now.torch),
            "driver": ((before.driver, before.cuda, before.cudnn), (now.driver, now.cuda, now.cudnn)),
            "power limit": (before.power_limit_w, now.power_limit_w),
            "threads": (before.threads, now.threads),
            "model source": (point.model.source_sha256, question.model.source_sha256),
            "library versions": (dict(point.model.versions), dict(question.model.versions)),
            "warm-up, repetitions or method": (point.rules, question.rules),
        }
        if isinstance(point, FailedMeasurement):
            pairs["memory limit"] = (point.limit, question.limit)
        differences = tuple(name for name, (first, second) in pairs.items() if first != second)
        if not differences:
            return point
        nearest = differences if nearest is None or len(differences) < len(nearest) else nearest
    return nearest or ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Theory:
    """What arithmetic says of one model on one GPU."""

    step: ExecutedStep
    gpu: GpuSpec

    def figures_at(self, *, batch: int, median_s: float) -> TheoryFigures | Unsupported:
        """Describe what was to be expected at a batch, or why nothing was."""
        (answer,) = estimate_latencies(self.step, gpus=[self.gpu], batches=[batch])
        rates = device_rates(self.gpu, self.step.workload, self.step.laws)
        if isinstance(answer, Unsupported):
            return answer
        if isinstance(rates, Unsupported):
            return rates
        estimate, table = answer[0], self._table(batch)
        calls = table.fused_count
        return TheoryFigures(
            bound_s=estimate.bound_s,
            expected_s=estimate.latency_s.expected,
            low_s=estimate.latency_s.low,
            high_s=estimate.latency_s.high,
            calibration=estimate.calibration,
            mfu_fraction=float(np.sum(counted_flops(table)[:, 0] * calls / rates.printed_flops_per_s[table.peak_use]))
            / median_s,
            mbu_fraction=float(np.sum(table.moved_bytes[:, 0] * calls))
            / rates.printed_bandwidth_bytes_per_s
            / median_s,
        )

    def device_s_by_class(self, batch: int) -> Mapping[str, float] | Unsupported:
        rates = device_rates(self.gpu, self.step.workload, self.step.laws)
        if isinstance(rates, Unsupported):
            return rates
        table = self._table(batch)
        timed = time_kernels(self.step.on(self.gpu), table, devices=[(self.gpu, rates)])
        spent_s = timed.times.total_s[0, :, 0] * timed.count[0]
        sums: dict[str, float] = {}
        for label, time_s in zip(table.label, spent_s, strict=True):
            if time_s > 0:
                name = ALL_CLASSES[label]
                sums[name] = sums.get(name, 0.0) + float(time_s)
        return sums

    def _table(self, batch: int) -> KernelTable:
        return kernel_table(self.step, batches=[batch])
