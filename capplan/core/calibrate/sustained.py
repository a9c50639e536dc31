"""Fit the model of what GPUs sustain of their printed rates to the microbenchmarks of all GPUs in the database.

A GPU's share is its clock over the printed one until its density of printed FLOP/s per watt passes what its chip family
can do for a joule. Capacities of families follow the process and the kind of memory, with a deviation of their own.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from capplan.core.assumed import USUAL_PROCESS_M
from capplan.core.calibrate.residuals import LeastSquares, minimise
from capplan.core.gpus.rate_laws import BurstExponents, CopyShares, SustainedShareLaw, half_peak, is_consumer, power_law
from capplan.core.gpus.spec import GpuSpec, Microbenchmark, PeakKind, Quality, Regime
from capplan.core.numbers import FloatArray

_SD_SUSTAINED, _SD_BURST, _SD_CLOCK = 0.08, 0.12, 0.12
_LAPTOPS_AND_BOARDS = ("Jetson",)


def _shrink(process_m: float) -> float:
    return math.log(12e-9 / process_m)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareObservation:
    """One GPU's measured share of a printed rate, and how far it is trusted; logs."""

    gpu: str
    family: str
    consumer: bool
    flops_per_s: float
    tdp_w: float
    log_share: float
    log_sd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipFamily:
    """What the capacity of a chip family follows.

    Attributes:
        shrink: Log of how much smaller its process is than 12 nm.
        has_stacked_memory: It has HBM, which takes fewer joules a byte than GDDR and leaves more of the limit to
            arithmetic.
        has_shared_datapath: Half of its fp32 lanes also run integers; matrix products keep about two thirds busy.
    """

    shrink: float
    has_stacked_memory: bool
    has_shared_datapath: bool


def chip_families(gpus: Sequence[GpuSpec]) -> dict[str, ChipFamily]:
    """Return the families of a database's chips whose process is known, by name.

    Args:
        gpus: The database.
    """
    members: dict[str, list[GpuSpec]] = defaultdict(list)
    for gpu in gpus:
        if gpu.design.family and gpu.design.process_m:
            members[gpu.design.family].append(gpu)
    return {
        name: ChipFamily(
            shrink=_shrink(chips[0].design.process_m or USUAL_PROCESS_M),
            has_stacked_memory=any((chip.memory_type or "").startswith("HBM") for chip in chips),
            has_shared_datapath=chips[0].design.has_shared_datapath,
        )
        for name, chips in sorted(members.items())
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutShare:
    """One GPU's measured share, with predictions made without it and without its whole family."""

    observation: ShareObservation
    without_gpu: float
    without_family: float


def half_observations(
    gpus: Sequence[GpuSpec], *, burst: BurstExponents, issued_at_clock: float
) -> list[ShareObservation]:
    """Return the measured shares of 16-bit tensor rates; a clock under load stands in where no product was timed."""
    found = []
    for gpu in gpus:
        printed = half_peak(gpu)
        own = _observed(gpu, printed, Microbenchmark.MATMUL_HALF, burst.half)
        clock = gpu.measured.get(Microbenchmark.LOADED_CLOCK)
        if own is None and clock and gpu.boost_clock_hz:
            own = _observation(gpu, printed, math.log(issued_at_clock * clock.value / gpu.boost_clock_hz), _SD_CLOCK)
        found += [own] if own else []
    return found


def issued_at_clock(gpus: Sequence[GpuSpec]) -> float:
    """Return the share of the printed 16-bit rate at the clock under load that long products reach: the GPUs' median.

    Products cannot be faster than the clock lets them be: where they are, the clock was read under a heavier load, and
    the GPU is left out.

    Args:
        gpus: the database; those with a clock under load and a long run of matrix products count.
    """
    found = []
    for gpu in gpus:
        printed, timed = half_peak(gpu), gpu.measured.get(Microbenchmark.MATMUL_HALF)
        clock = gpu.measured.get(Microbenchmark.LOADED_CLOCK)
        if printed and timed and clock and gpu.boost_clock_hz and timed.regime is Regime.SUSTAINED:
            found.append(timed.value / printed / (clock.value / gpu.boost_clock_hz))
    possible = [share for share in found if share <= 1]
    return float(np.median(possible)) if possible else 1.0


def single_observations(gpus: Sequence[GpuSpec], *, burst: BurstExponents) -> list[ShareObservation]:
    """Return the measured shares of fp32 rates outside tensor cores, where matrix cores do not confuse them."""
    found = []
    for gpu in gpus:
        printed = gpu.peak(PeakKind.FP32_MATRIX) or gpu.peak(PeakKind.FP32)
        own = _observed(gpu, printed, Microbenchmark.MATMUL_FP32, burst.single)
        found += [own] if own else []
    return found


def _observed(gpu: GpuSpec, printed: float | None, kind: Microbenchmark, exponent: float) -> ShareObservation | None:
    own = gpu.measured.get(kind)
    if own is None or own.quality is Quality.C or not printed:
        return None
    log, sd = math.log(own.value / printed), _SD_SUSTAINED
    if own.regime is Regime.BURST:
        log, sd = min(log, exponent * log), _SD_BURST
    return _observation(gpu, printed, log, sd)


def _observation(gpu: GpuSpec, printed: float | None, log: float, sd: float) -> ShareObservation | None:
    family = gpu.design.family
    if not family or not printed or gpu.tdp_w is None or any(word in gpu.name for word in _LAPTOPS_AND_BOARDS):
        return None
    return ShareObservation(
        gpu=gpu.id, family=family, consumer=is_consumer(gpu), flops_per_s=printed, tdp_w=gpu.tdp_w,
        log_share=log, log_sd=sd,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """The parameters of one law: their prior, and the law that a vector of them stands for."""

    mean: FloatArray
    sd: FloatArray
    law: Callable[[FloatArray], SustainedShareLaw]


def _half_layout(families: Mapping[str, ChipFamily]) -> _Layout:
    """Return the layout: clock shares, capacity, its growth with process and HBM, slope, deviations by family."""
    mean = np.array([math.log(1.04), math.log(0.95), math.log(0.3e12), 1.0, 0.4, math.log(0.7), *[0.0] * len(families)])
    sd = np.array([0.05, 0.04, 0.4, 0.5, 0.4, 0.2, *[0.25] * len(families)])

    def law(x: FloatArray) -> SustainedShareLaw:
        capacity = {
            name: float(np.exp(x[2] + x[3] * chip.shrink + x[4] * chip.has_stacked_memory + x[6 + index]))
            for index, (name, chip) in enumerate(families.items())
        }
        capacity[""] = float(np.exp(x[2] + x[3] * _shrink(USUAL_PROCESS_M)))
        return _law(x[0], x[1], x[5], capacity, {"": 1.0})

    return _Layout(mean=mean, sd=sd, law=law)


def _single_layout(families: Mapping[str, ChipFamily]) -> _Layout:
    """Return the layout: clock shares, ceilings of datapaths, capacity and its growth, slope, ceilings by family."""
    mean = np.array([
        math.log(1.05), 0.0, math.log(0.65), math.log(0.92), math.log(0.06e12), 1.0, math.log(0.7),
        *[0.0] * len(families),
    ])  # fmt: skip
    sd = np.array([0.05, 0.02, 0.1, 0.05, 0.5, 0.3, 0.2, *[0.07] * len(families)])

    def law(x: FloatArray) -> SustainedShareLaw:
        capacity = {name: float(np.exp(x[4] + x[5] * chip.shrink)) for name, chip in families.items()}
        capacity[""] = float(np.exp(x[4] + x[5] * _shrink(USUAL_PROCESS_M)))
        ceiling = {
            name: float(np.exp(x[2 if chip.has_shared_datapath else 3] + x[7 + index]))
            for index, (name, chip) in enumerate(families.items())
        }
        ceiling[""] = float(np.exp(x[3]))
        return _law(x[0], x[1], x[6], capacity, ceiling)

    return _Layout(mean=mean, sd=sd, law=law)


def _law(
    consumer: float, other: float, slope: float, capacity: dict[str, float], ceiling: dict[str, float]
) -> SustainedShareLaw:
    return SustainedShareLaw(
        clock_consumer=float(np.exp(consumer)), clock_other=float(np.exp(other)), slope=float(np.exp(slope)),
        capacity_flops_per_joule=capacity, ceiling=ceiling, log_sd_consumer=0.1, log_sd_other=0.1, log_sd_unknown=0.2,
    )  # fmt: skip


def fit_half(seen: Sequence[ShareObservation], families: Mapping[str, ChipFamily]) -> SustainedShareLaw:
    """Fit the law of 16-bit tensor rates; its spreads are placeholders until GPUs were left out."""
    return _fit(seen, _half_layout(families))


def fit_single(seen: Sequence[ShareObservation], families: Mapping[str, ChipFamily]) -> SustainedShareLaw:
    """Fit the law of fp32 rates outside tensor cores; its spreads are placeholders until GPUs were left out."""
    return _fit(seen, _single_layout(families))


def _fit(seen: Sequence[ShareObservation], layout: _Layout) -> SustainedShareLaw:
    measured, sd = np.array([each.log_share for each in seen]), np.array([each.log_sd for each in seen])

    def residuals(x: FloatArray) -> FloatArray:
        law = layout.law(x)
        return np.asarray((np.array([predicted(law, each) for each in seen]) - measured) / sd)

    def derivatives(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        here = residuals(x)
        steps = 1e-5 * np.eye(len(x))
        return here, np.stack([(residuals(x + step) - here) / 1e-5 for step in steps], axis=1)

    problem = LeastSquares(
        residuals=residuals, derivatives=derivatives, row_weight=np.ones(len(seen)), prior_mean=layout.mean,
        prior_sd=layout.sd, huber=2.0,
    )  # fmt: skip
    return layout.law(minimise(problem, layout.mean, iterations=60, tolerance=1e-7))


def predicted(law: SustainedShareLaw, each: ShareObservation) -> float:
    """Return the log share that a law gives a GPU."""
    return power_law(law, family=each.family, consumer=each.consumer, flops_per_s=each.flops_per_s, tdp_w=each.tdp_w)


def leave_out(
    seen: Sequence[ShareObservation],
    families: Mapping[str, ChipFamily],
    fit_law: Callable[[Sequence[ShareObservation], Mapping[str, ChipFamily]], SustainedShareLaw],
) -> list[HeldOutShare]:
    """Predict every GPU from a fit without it, and from one without its family."""

    def fit(kept: Sequence[ShareObservation]) -> SustainedShareLaw:
        return fit_law(kept, families)

    without_family = {
        family: fit([each for each in seen if each.family != family]) for family in {each.family for each in seen}
    }
    return [
        HeldOutShare(
            observation=each,
            without_gpu=predicted(fit([other for other in seen if other.gpu != each.gpu]), each),
            without_family=predicted(without_family[each.family], each),
        )
        for each in seen
    ]


def spreads(found: Sequence[HeldOutShare]) -> tuple[float, float, float]:
    """Return the log spreads of consumer GPUs and of others left out, and of GPUs whose whole family was."""
    consumer = [each.without_gpu - each.observation.log_share for each in found if each.observation.consumer]
    other = [each.without_gpu - each.observation.log_share for each in found if not each.observation.consumer]
    family = [each.without_family - each.observation.log_share for each in found if not each.observation.consumer]
    return _rms(consumer), _rms(other), max(_rms(family), _rms(other))


def fit_copies(gpus: Sequence[GpuSpec]) -> CopyShares:
    """Average copies by kind of memory and architecture, in logs, shrunk to all by one pseudo-observation each.

    The spread is that of GPUs left out in turn.
    """
    found = [
        (gpu.memory_type or "", gpu.architecture_id, math.log(own.value / gpu.memory_bandwidth_bytes_per_s))
        for gpu in gpus
        if (own := gpu.measured.get(Microbenchmark.COPY)) and own.quality is not Quality.C
    ]
    errors = []
    for index, (memory, architecture, log) in enumerate(found):
        rest = _copies(found[:index] + found[index + 1 :])
        errors.append(
            math.log(rest.by_memory.get(memory, rest.by_memory[""]) * rest.by_architecture.get(architecture, 1.0)) - log
        )
    whole = _copies(found)
    return CopyShares(by_memory=whole.by_memory, by_architecture=whole.by_architecture, log_sd=_rms(errors))


def _copies(found: Sequence[tuple[str, str, float]]) -> CopyShares:
    overall = float(np.mean([log for *_, log in found]))
    memories, architectures = defaultdict(list), defaultdict(list)
    for memory, _, log in found:
        memories[memory].append(log - overall)
    shared = {memory: overall + sum(logs) / (len(logs) + 1) for memory, logs in memories.items()}
    for memory, architecture, log in found:
        architectures[architecture].append(log - shared[memory])
    return CopyShares(
        by_memory={"": math.exp(overall), **{memory: math.exp(log) for memory, log in sorted(shared.items())}},
        by_architecture={name: math.exp(sum(logs) / (len(logs) + 1)) for name, logs in sorted(architectures.items())},
        log_sd=0.1,
    )


def _rms(values: Sequence[float]) -> float:
    return float(np.sqrt(np.mean(np.square(values))))
