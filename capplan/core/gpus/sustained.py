"""Estimate what a GPU sustains of its printed rates: from its own microbenchmarks, else from a physical model.

A GPU holds its printed rate until its power limit binds. How much arithmetic a watt allows depends on the process and
on the memory beside the chip. So each chip family has a density of printed FLOP/s per watt from which on the sustained
share falls. The constants are fitted to the microbenchmarks of all GPUs, see `rate_laws`.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from capplan.core.gpus.rate_laws import StreamingCost, SustainedLaws, SustainedShareLaw
from capplan.core.gpus.spec import GpuSpec, MeasuredRate, Microbenchmark, PeakKind, Quality, Regime, Segment

_CONSUMER = ("geforce", "radeon", "titan", "gtx", "arc a", "arc b")
_SHARPNESS = 4
"""How suddenly the power limit takes over: the exponent that joins the two regimes."""

_SUSTAINED_SD, _BURST_SD, _CLOCK_SD, _COPY_SD = 0.06, 0.12, 0.10, 0.04
"""Log standard deviations of one published measurement: eight cards of a kind differ by 7 % in one test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a GPU sustains of a printed rate: the share, and the standard deviation of its log.

    `is_own` says that a microbenchmark of this GPU is part of it.
    """

    fraction: float
    log_sd: float
    is_own: bool


def is_consumer(gpu: GpuSpec) -> bool:
    """Return True for cards made for players, which run above their printed boost clock."""
    if gpu.segment is not None:
        return gpu.segment in (Segment.CONSUMER, Segment.LAPTOP)
    return any(brand in gpu.name.lower() for brand in _CONSUMER)


def half_peak(gpu: GpuSpec) -> float | None:
    """Return the faster of the two printed 16-bit tensor rates, which differ on few GPUs. [FLOP/s]"""
    return max((rate for kind in (PeakKind.FP16, PeakKind.BF16) if (rate := gpu.peak(kind))), default=None)


def half_share(gpu: GpuSpec, laws: SustainedLaws, *, use_own: bool = True) -> Share:
    """Estimate the share of the printed 16-bit tensor rate that long matrix products sustain.

    Args:
        gpu: its printed rates, power limit and microbenchmarks.
        laws: what GPUs sustain.
        use_own: False ignores the GPU's own microbenchmarks, as if nobody had run any.
    """
    printed = half_peak(gpu)
    model = _modelled(laws.half, gpu, printed)
    if not printed or not use_own:
        return model
    share = _joined(model, gpu.measured.get(Microbenchmark.MATMUL_HALF), printed, exponent=laws.burst.half)
    if share.is_own or not gpu.boost_clock_hz:
        return share
    clock = gpu.measured.get(Microbenchmark.LOADED_CLOCK)
    if clock is None:
        return model
    return _weighed(model, math.log(laws.issued_at_clock * clock.value / gpu.boost_clock_hz), _CLOCK_SD)


def single_share(gpu: GpuSpec, laws: SustainedLaws, *, use_own: bool = True) -> Share:
    """Estimate the share of the printed fp32 rate that long matrix products without tensor cores sustain.

    Args:
        gpu: its printed rates, power limit and microbenchmarks.
        laws: what GPUs sustain.
        use_own: False ignores the GPU's own microbenchmarks, as if nobody had run any.
    """
    printed = gpu.peak(PeakKind.FP32_MATRIX) or gpu.peak(PeakKind.FP32)
    model = _modelled(laws.single, gpu, printed)
    if not printed or not use_own:
        return model
    return _joined(model, gpu.measured.get(Microbenchmark.MATMUL_FP32), printed, exponent=laws.burst.single)


def vector_share(gpu: GpuSpec, laws: SustainedLaws) -> Share:
    """Estimate the share of the printed fp32 rate that instructions outside matrix products sustain: clock alone."""
    model = _modelled(laws.single, gpu, gpu.peak(PeakKind.FP32))
    ceiling = laws.single.ceiling.get(gpu.design.family, laws.single.ceiling[""])
    return Share(fraction=model.fraction / ceiling, log_sd=model.log_sd, is_own=False)


def copy_share(gpu: GpuSpec, laws: SustainedLaws, *, use_own: bool = True) -> Share:
    """Estimate the share of the printed memory bandwidth that a copy sustains. A power limit does not touch it.

    Args:
        gpu: its kind of memory and microbenchmarks.
        laws: what GPUs sustain.
        use_own: False ignores the GPU's own microbenchmarks, as if nobody had run any.
    """
    shares = laws.copies
    shared = shares.by_memory.get(gpu.memory_type or "", shares.by_memory[""])
    by_architecture = shares.by_architecture.get(gpu.architecture_id, 1.0)
    model = Share(fraction=shared * by_architecture, log_sd=shares.log_sd, is_own=False)
    own = gpu.measured.get(Microbenchmark.COPY)
    if own is None or not use_own or own.quality is Quality.C:
        return model
    return _weighed(model, math.log(own.value / gpu.memory_bandwidth_bytes_per_s), _COPY_SD)


def streaming_share(gpu: GpuSpec, cost: StreamingCost, *, in_half: bool) -> float:
    """Estimate what kernels of models stream, as a share of what a long copy does; 1 on a typical consumer GPU.

    By Little's law a multiprocessor must keep its bytes per clock times the memory's latency under way. Kernels of
    models keep a fixed number under way, so that GPUs with much bandwidth per multiprocessor and clock lose more.
    Vector loads of PyTorch's pointwise kernels hold four elements, so that half as many bytes are under way in 16 bits
    as in fp32.

    Args:
        gpu: its printed bandwidth, multiprocessors and clock; 1 where one of them is unknown.
        cost: what a byte per clock and multiprocessor costs.
        in_half: the kernels' elements take 16 bits, not 32.
    """
    if not gpu.unit_count or not gpu.boost_clock_hz:
        return 1.0
    demand = min(gpu.memory_bandwidth_bytes_per_s / (gpu.unit_count * gpu.boost_clock_hz), cost.most_demand)
    each = cost.in_half if in_half else cost.in_single
    return (1 + each * cost.typical_demand) / (1 + each * demand)


def power_law(law: SustainedShareLaw, *, family: str, consumer: bool, flops_per_s: float, tdp_w: float) -> float:
    """Return the log of the share that a power limit leaves of a printed rate.

    log share = log(clock · ceiling) − slope/4 · log(1 + (density ÷ capacity)⁴), with the density of printed FLOP/s per
    watt of limit: 0 slope below the family's capacity, the fitted slope above.

    Args:
        law: the fitted constants.
        family: a chip family, as `ChipDesign` has it; an unknown one takes the typical constants.
        consumer: a card for players, whose clock exceeds the printed one.
        flops_per_s: the printed dense rate. [FLOP/s]
        tdp_w: the power limit. [W]
    """
    clock = law.clock_consumer if consumer else law.clock_other
    ceiling = law.ceiling.get(family, law.ceiling[""])
    density = math.log(flops_per_s / tdp_w / law.capacity_flops_per_joule.get(family, law.capacity_flops_per_joule[""]))
    return math.log(clock * ceiling) - law.slope / _SHARPNESS * math.log1p(math.exp(_SHARPNESS * density))


def _modelled(law: SustainedShareLaw, gpu: GpuSpec, printed: float | None) -> Share:
    family, consumer = gpu.design.family, is_consumer(gpu)
    spread = law.log_sd_consumer if consumer else law.log_sd_other
    if not family or family not in law.capacity_flops_per_joule:  # "" holds what is typical of all families
        spread = max(spread, law.log_sd_unknown)
    if not printed or gpu.tdp_w is None:
        ceiling = law.ceiling.get(family, law.ceiling[""])
        clock = law.clock_consumer if consumer else law.clock_other
        return Share(fraction=clock * ceiling, log_sd=spread, is_own=False)
    log = power_law(law, family=family, consumer=consumer, flops_per_s=printed, tdp_w=gpu.tdp_w)
    return Share(fraction=math.exp(log), log_sd=spread, is_own=False)


def _joined(model: Share, own: MeasuredRate | None, printed: float, *, exponent: float) -> Share:
    """Weigh a GPU's own measurement with the model by their variances."""
    if own is None or own.quality is Quality.C:
        return model
    log, spread = math.log(own.value / printed), _SUSTAINED_SD
    if own.regime is Regime.BURST:
        log, spread = min(log, exponent * log), _BURST_SD
    return _weighed(model, log, spread)


def _weighed(model: Share, log: float, sd: float) -> Share:
    weight = model.log_sd**2 / (model.log_sd**2 + sd**2)
    fraction = math.exp(weight * log + (1 - weight) * math.log(model.fraction))
    return Share(fraction=fraction, log_sd=model.log_sd * math.sqrt(1 - weight), is_own=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class MicrobenchRow:
    """One published result: what was run on which GPU, and by whom. [FLOP/s, bytes/s, s or Hz by kind]

    `source` is the repository or page, so that many rows of one script count once. `dtype` is the number format of
    matrix products.
    """

    gpu: str
    kind: Microbenchmark
    value: float
    quality: Quality
    regime: Regime
    source: str
    dtype: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedRate:
    """A summarised rate and the sources that it rests on."""

    rate: MeasuredRate
    sources: tuple[str, ...]


def summarise(rows: Iterable[MicrobenchRow]) -> dict[str, dict[Microbenchmark, SourcedRate]]:
    """Summarise rows by GPU and kind: the median over sources of each source's median.

    Rows of quality C are upper bounds and are left out. Sustained runs are used where there are any, bursts otherwise.
    """
    groups: dict[tuple[str, Microbenchmark], list[MicrobenchRow]] = defaultdict(list)
    for row in rows:
        if row.quality is not Quality.C:
            groups[row.gpu, row.kind].append(row)
    found: dict[str, dict[Microbenchmark, SourcedRate]] = {}
    for gpu in sorted({gpu for gpu, _ in groups}):
        found[gpu] = {kind: _summary(groups[gpu, kind]) for kind in Microbenchmark if (gpu, kind) in groups}
    return found


def _summary(rows: list[MicrobenchRow]) -> SourcedRate:
    sustained = [row for row in rows if row.regime is Regime.SUSTAINED]
    chosen = sustained or rows
    by_source: dict[str, list[MicrobenchRow]] = defaultdict(list)
    for row in chosen:
        by_source[row.source].append(row)
    value = median(median(row.value for row in members) for members in by_source.values())
    best = min(row.quality for row in chosen)
    rate = MeasuredRate(value=value, quality=best, regime=Regime.SUSTAINED if sustained else Regime.BURST)
    return SourcedRate(rate=rate, sources=tuple(sorted(by_source)))


Summaries = Mapping[str, Mapping[Microbenchmark, SourcedRate]]
