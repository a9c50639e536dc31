"""The power of a card from what a step moves and computes in its time, and its time under a lowered power limit."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from math import exp, hypot, log, sqrt

import numpy as np

from capplan.core.gpus.spec import GpuSpec, MeasuredRate, Microbenchmark, PeakKind
from capplan.core.numbers import End, FloatArray, Interval
from capplan.core.origin import Origin
from capplan.units import format_watts

PROBED_CLOCKS = (0.7, 0.4, 0.1)
"""Clocks, as shares of the card's own, at which times are estimated. Between them a time is linear in 1 ÷ clock."""
_INVERSE_CLOCKS = np.geomspace(1.0, 1.0 / PROBED_CLOCKS[-1], 61)
_HBM_JOULES_PER_BYTE, _GDDR_JOULES_PER_BYTE = 8 * 3.9e-12, 8 * 7.5e-12
"""What memory chips take for a byte: HBM2 3.9 pJ/bit (O'Connor et al., Fine-Grained DRAM, MICRO 2017), GDDR6 7.5 pJ/bit
(Micron's technical brief on GDDR6X). [J]"""
_JOULES_PER_INSTRUCTION, _COARSE_JOULES = 11.7e-12, 20.2e-12
"""What an instruction of one lane takes beside the base, on chips of finer processes than 8 nm and on others. Loops of
fp32 multiply-adds take 10.5 pJ on an A100, 11.1 on an L40S, 12.4 on an MI300X, 13.6 on an H200, 20.2 on an A40: watts
and TFLOP/s of RRZE-HPC/gpu-benches@1038c5d, gpu-roofline, two operations an instruction (read 2026-11-27). [J]"""
_COARSE_PROCESS_M = 7.5e-9
_FOLLOW_THE_CLOCK = frozenset(
    {
        Microbenchmark.MATMUL_HALF,
        Microbenchmark.MATMUL_TF32,
        Microbenchmark.MATMUL_FP32,
        Microbenchmark.MATMUL_FP8,
        Microbenchmark.L2_READ,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapLaw:
    """How the speed of matrix products follows the power that a cap leaves above the base.

    `exponent` is expected, `low` and `high` are the ends of its 90 % interval; a lower one costs less speed.
    `held_out_errors` are those of speed on cards that the fit did not see.
    """

    low: float
    exponent: float
    high: float
    command: str = ""
    rows: int = 0
    held_out_errors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.exponent <= self.high < 1:
            raise ValueError(f"exponents of a cap must rise and lie between 0 and 1: {self.low}, {self.high}")


def at_clock(gpu: GpuSpec, share: float) -> GpuSpec:
    """Return a card whose arithmetic runs at a share of its clock, and its memory as before.

    The power limit falls alike, because what a card sustains is read from its peak for each watt of limit, and that is
    what it sustains at its full clock.
    """

    def slowed(kind: Microbenchmark, rate: MeasuredRate) -> MeasuredRate:
        return replace(rate, value=share * rate.value) if kind in _FOLLOW_THE_CLOCK else rate

    return replace(
        gpu,
        peak_flops_per_s={kind: None if rate is None else share * rate for kind, rate in gpu.peak_flops_per_s.items()},
        measured={kind: slowed(kind, rate) for kind, rate in gpu.measured.items()},
        tdp_w=None if gpu.tdp_w is None else share * gpu.tdp_w,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockMix:
    """Where a step under a cap lies between the clocks that were estimated.

    `weights` are those of the card's own clock and of each of `PROBED_CLOCKS`, and sum to 1. `stretch` multiplies what
    they mix: above 1 where even the lowest clock draws more than the cap, so that memory must wait, too.
    """

    weights: tuple[float, ...]
    stretch: float

    def of(self, values: Sequence[float]) -> float:
        """Return the mix of one value at each clock, without the stretch."""
        return sum(weight * value for weight, value in zip(self.weights, values, strict=True))


def clock_mix(times_s: Sequence[float], factor: float) -> ClockMix:
    """Return the mix of clocks at which a step takes so many times as long as at the card's own."""
    rising = np.maximum.accumulate(np.array(times_s) / times_s[0])
    index = int(np.clip(np.searchsorted(rising, factor), 1, len(rising) - 1))
    before, after = float(rising[index - 1]), float(rising[index])
    share = min((factor - before) / (after - before), 1.0) if after > before else float(factor > before)
    weights = [0.0] * len(rising)
    weights[index - 1], weights[index] = 1.0 - share, share
    mixed_s = sum(weight * time_s for weight, time_s in zip(weights, times_s, strict=True))
    return ClockMix(weights=tuple(weights), stretch=factor * times_s[0] / mixed_s)


def _joules_per_instruction(gpu: GpuSpec) -> float:
    """Return what an instruction of one lane takes by the process of the chip. [J]"""
    process_m = gpu.design.process_m
    return _COARSE_JOULES if process_m is not None and process_m > _COARSE_PROCESS_M else _JOULES_PER_INSTRUCTION


def memory_chips_w(gpu: GpuSpec, bandwidth_share: FloatArray) -> FloatArray:
    """Return what memory chips draw at shares of the printed bandwidth; other kinds than HBM count as GDDR. [W]"""
    per_byte = _HBM_JOULES_PER_BYTE if _has_hbm(gpu) else _GDDR_JOULES_PER_BYTE
    return np.asarray(bandwidth_share * gpu.memory_bandwidth_bytes_per_s * per_byte)


def slowdown(
    draw_w: FloatArray,
    *,
    base_w: float,
    cap_w: float,
    memory_w: FloatArray,
    probed: Sequence[FloatArray],
    exponent: float,
) -> FloatArray:
    """Return by what factor a cap lengthens steps; one entry a step."""
    inverse = np.array([1.0, *(1.0 / clock for clock in PROBED_CLOCKS)])
    times = np.maximum.accumulate(np.stack([np.ones_like(draw_w), *probed]), axis=0)
    places = np.clip(np.searchsorted(inverse, _INVERSE_CLOCKS, side="right") - 1, 0, len(inverse) - 2)
    weight = ((_INVERSE_CLOCKS - inverse[places]) / (inverse[places + 1] - inverse[places]))[:, None]
    longer = times[places] * (1.0 - weight) + times[places + 1] * weight
    falls = _INVERSE_CLOCKS[:, None] ** (1.0 - 1.0 / exponent)
    dynamic_w = np.maximum(draw_w - base_w, 0.0)
    above_base_w = np.maximum(dynamic_w - memory_w, 0.0) * falls + np.minimum(dynamic_w, memory_w)
    over = above_base_w / longer - (cap_w - base_w)
    first = np.argmax(over <= 0.0, axis=0)  # the highest clock at which the cap holds
    steps, before = np.arange(len(draw_w)), np.maximum(first - 1, 0)
    gap = over[before, steps] - over[first, steps]
    share = np.divide(over[before, steps], gap, out=np.zeros_like(gap), where=gap > 0.0)
    between = longer[before, steps] + share * (longer[first, steps] - longer[before, steps])
    held = np.where(first == 0, 1.0, between)
    stalled = above_base_w[-1] / (cap_w - base_w)  # at the lowest clock memory must wait, too
    return np.asarray(np.where((over <= 0.0).any(axis=0), held, stalled))


FEWEST_TIMES, MOST_TIMES = 0.25, 4.0
"""Factors on a card's power that are believed; beyond them another card, or another unit, was measured."""

_NARROW = frozenset({PeakKind.FP8, PeakKind.INT8, PeakKind.FP4})


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakDensity:
    """The printed bandwidth and dense fp16 peak of cards for each watt of their limit. [bytes/J, FLOP/J]"""

    bytes_per_j: float
    flops_per_j: float

    def of(self, gpu: GpuSpec) -> "PeakDensity":
        """Return how many times as much of its limit a card's full bandwidth and its peak demand, than of these cards.

        A byte from HBM takes the same energy on each card. Of an operation half of that holds, in logarithms, because
        a chip that computes more for each watt also takes less for an operation. Full bandwidth of other memory
        demands the same share of the limit.
        """
        peak = gpu.peak(PeakKind.FP16)
        if not (gpu.tdp_w and peak and _has_hbm(gpu)):
            return PeakDensity(bytes_per_j=1.0, flops_per_j=1.0)
        return PeakDensity(
            bytes_per_j=gpu.memory_bandwidth_bytes_per_s / gpu.tdp_w / self.bytes_per_j,
            flops_per_j=sqrt(peak / gpu.tdp_w / self.flops_per_j),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerConstants:
    """Power as shares of the limit, and what the rates of memory and arithmetic demand.

    `log_half_width` is the half-width of the 90 % interval of the logarithm of power. `density` is that of the
    cards that were measured; None where it is not known, and others take the same share of their limit.
    """

    base_fraction: float
    top_fraction: float
    memory: float
    cache: float
    compute: float
    narrow_weight: float
    log_half_width: float
    density: PeakDensity | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.base_fraction < self.top_fraction or self.base_fraction > 1:
            raise ValueError(f"base {self.base_fraction} must be below top {self.top_fraction}, both from 0 to 1")
        if min(self.memory, self.cache, self.compute, self.narrow_weight, self.log_half_width) < 0:
            raise ValueError("a constant of power is negative")

    def on(self, gpu: GpuSpec) -> "PowerConstants":
        """Return the constants of a card whose peaks lie otherwise to its limit than those of the cards measured."""
        if self.density is None:
            return self
        than = self.density.of(gpu)
        memory, compute = than.bytes_per_j, than.flops_per_j
        return replace(self, memory=memory * self.memory, cache=memory * self.cache, compute=compute * self.compute)


@dataclass(frozen=True, slots=True, kw_only=True)
class CardPower:
    """What `rows` of one GPU showed of `models`: by what factor it draws more than the law of its architecture says.

    `log_half_width` is the half-width of the 90 % interval of the logarithm of power, which replaces that of the law.
    """

    factor: float
    log_half_width: float
    rows: int
    models: int


class PowerNovelty(StrEnum):
    """What nobody measured of a question about power, beside the generation of its card.

    `MARKET` is a card of another vendor or with another kind of memory than those measured, `WORK` neither a served
    model nor a diffusion pipeline, `REQUESTS` a served model whose requests are not stated.
    """

    MARKET = "market"
    WORK = "work"
    REQUESTS = "requests"


NEW_WORK = frozenset({PowerNovelty.WORK})


def _has_hbm(gpu: GpuSpec) -> bool:
    return (gpu.memory_type or "").startswith("HBM")


def _is_of_another_market(gpu: GpuSpec) -> bool:
    """Return True if a card differs in vendor or kind of memory from all that were measured: NVIDIA's with HBM."""
    return gpu.vendor != "NVIDIA" or not _has_hbm(gpu)


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLaw:
    """Constants by architecture; `others` serves architectures that nobody measured, with a wider interval.

    `widths` are the half-widths that novelties add in square to those of the constants, as logarithms.

    `cards` are GPUs that a user measured, by their ids; they draw what the law says times their own factor.

    `served_widening` multiplies the half-widths of joules per output token ("low" and "high"), which join those of the
    law and of the time: measured runs left out of the fit lie within them nine times of ten. `task_prompts` are the
    prompt tokens assumed of a measured run that names its task and not its prompts. `cap_w` is a power limit that is
    set on every card in place of its own; None where none is asked for, and cards keep theirs. [W]
    """

    origin: Origin
    architectures: Mapping[str, PowerConstants]
    others: PowerConstants
    capping: CapLaw
    widths: Mapping[PowerNovelty, float] = field(default_factory=dict)
    cap_w: float | None = None
    served_widening: Mapping[str, float] = field(default_factory=lambda: {"low": 1.0, "high": 1.0})
    task_prompts: Mapping[str, int] = field(default_factory=dict)
    cards: Mapping[str, CardPower] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, constants in {**self.architectures, "others": self.others}.items():
            if constants.top_fraction > 1:
                raise ValueError(f"{name}: top {constants.top_fraction} must be from 0 to 1")

    def of(self, gpu: GpuSpec) -> PowerConstants:
        """Return the constants that serve a GPU: those of its architecture, times its own factor where it has one.

        Where nobody measured its architecture, chips of a coarser process take more for the same work.
        """
        constants, card = self.architectures.get(gpu.architecture, self.others).on(gpu), self.cards.get(gpu.id)
        if gpu.architecture not in self.architectures:
            more = _joules_per_instruction(gpu) / _JOULES_PER_INSTRUCTION
            constants = replace(
                constants,
                memory=more * constants.memory,
                cache=more * constants.cache,
                compute=more * constants.compute,
            )
        if card is None:
            return constants
        return replace(
            constants,
            base_fraction=min(1.0, card.factor * constants.base_fraction),
            top_fraction=card.factor * constants.top_fraction,
            log_half_width=card.log_half_width,
        )

    def half_width(self, gpu: GpuSpec, novelties: Set[PowerNovelty] = frozenset()) -> float:
        """Return the half-width of the 90 % interval of the logarithm of power, by what was not measured.

        A card that a user measured has its own, which holds for the work that it was measured with.
        """
        own = self.of(gpu).log_half_width
        if gpu.id in self.cards:
            return own
        found = {*novelties, *({PowerNovelty.MARKET} if _is_of_another_market(gpu) else ())}
        return sqrt(own**2 + sum(self.widths.get(novelty, 0.0) ** 2 for novelty in found))

    def evidence(self, gpu: GpuSpec) -> str:
        """Return what was measured that a GPU's power rests on."""
        if gpu.id in self.cards:
            return "measured on this GPU"
        is_known = gpu.architecture in self.architectures and not _is_of_another_market(gpu)
        return "architecture measured" if is_known else "other architectures measured"

    def caps(self, gpu: GpuSpec) -> bool:
        """Return True if the cap lies below the card's own limit."""
        return self.cap_w is not None and gpu.tdp_w is not None and self.cap_w < gpu.tdp_w

    def refusal(self, gpu: GpuSpec) -> str | None:
        """Return why the cap cannot be set on a card; None where it can, or where there is none."""
        if self.cap_w is None:
            return None
        if gpu.tdp_w is None:
            return f"the power limit of {gpu.id} is not known"
        if gpu.tdp_min_w is not None and self.cap_w < gpu.tdp_min_w:
            return f"{gpu.id} takes no limit below {format_watts(gpu.tdp_min_w)}, {format_watts(self.cap_w)} asked"
        least_w = self.of(gpu).base_fraction * gpu.tdp_w
        if self.cap_w <= least_w:
            return f"{gpu.id} draws {format_watts(least_w)} without work, {format_watts(self.cap_w)} asked"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class CardWork:
    """What a step does on one card: bytes of device memory traffic, FLOPs by format, and its time. [bytes, FLOP, s]

    `cached_bytes` are those of `traffic_bytes` that attention reads of earlier tokens. `instructions` of single lanes
    unpack weights of few bits.
    """

    traffic_bytes: float
    flops: Mapping[PeakKind, float]
    time_s: float
    cached_bytes: float = 0.0
    instructions: float = 0.0

    def __post_init__(self) -> None:
        if self.time_s <= 0:
            raise ValueError(f"the time of a step must be positive: {self.time_s}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RateShares:
    """Rates as shares of the printed peaks: of memory, of memory for earlier tokens, and of arithmetic by width.

    `unpacking` is the share of the power limit that the instructions which unpack weights draw.
    """

    memory: float
    cache: float
    wide: float
    narrow: float
    unpacking: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakSeconds:
    """How long a step would take one card at its printed peaks, by what `RateShares` distinguishes. [s]"""

    memory_s: float = 0.0
    cache_s: float = 0.0
    wide_s: float = 0.0
    narrow_s: float = 0.0
    unpacking_s: float = 0.0

    def __add__(self, other: "PeakSeconds") -> "PeakSeconds":
        return PeakSeconds(**{name: part + getattr(other, name) for name, part in asdict(self).items()})

    def times(self, count: float) -> "PeakSeconds":
        """Return the work of several such steps."""
        return PeakSeconds(**{name: count * part for name, part in asdict(self).items()})

    def over(self, time_s: float) -> RateShares:
        return RateShares(**{name.removesuffix("_s"): part / time_s for name, part in asdict(self).items()})


def peak_seconds(gpu: GpuSpec, work: CardWork) -> PeakSeconds:
    """Return how long the work of a step would take a card at its printed peaks."""
    seconds = {kind: flops / peak for kind, flops in work.flops.items() if (peak := gpu.peak(kind))}
    bandwidth = gpu.memory_bandwidth_bytes_per_s
    return PeakSeconds(
        memory_s=(work.traffic_bytes - work.cached_bytes) / bandwidth,
        cache_s=work.cached_bytes / bandwidth,
        wide_s=sum(time_s for kind, time_s in seconds.items() if kind not in _NARROW),
        narrow_s=sum(time_s for kind, time_s in seconds.items() if kind in _NARROW),
        unpacking_s=_joules_per_instruction(gpu) * work.instructions / gpu.tdp_w if gpu.tdp_w else 0.0,
    )


def rate_shares(gpu: GpuSpec, work: CardWork) -> RateShares:
    """Return the rates of a step as shares of the card's peaks."""
    return peak_seconds(gpu, work).over(work.time_s)


def power_fraction(shares: RateShares, constants: PowerConstants) -> float:
    """Return the expected power as a share of the limit."""
    demand = constants.memory * shares.memory + constants.cache * shares.cache
    demand += constants.compute * (shares.wide + constants.narrow_weight * shares.narrow)
    reach = constants.top_fraction - constants.base_fraction
    demand += shares.unpacking / reach
    return min(1.0, constants.base_fraction + reach * (1.0 - exp(-demand)))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEnergy:
    """Mean power of all GPUs that take a step, without the host, and the energy of one sample. [W, J]

    `evidence` says whether cards of this architecture were measured.
    """

    power_w: Interval
    joules_per_sample: Interval
    evidence: str


def step_energy(
    gpu: GpuSpec,
    work: PeakSeconds,
    time_s: Interval,
    law: PowerLaw,
    *,
    samples: float,
    gpus: int = 1,
    widening: Mapping[str, float] | None = None,
    novelties: Set[PowerNovelty] = NEW_WORK,
) -> StepEnergy | None:
    """Return the power of a step and the energy of a sample; None where the card's power limit is not known.

    The intervals of time and of the law are independent, so that their half-widths (of the logarithm) are added as
    squares. A step that takes longer draws less and costs more. Under a cap the time must be that of the capped card,
    which draws the cap where the cap binds.
    """
    if gpu.tdp_w is None:
        return None
    limit_w, constants = min(gpu.tdp_w, law.cap_w or gpu.tdp_w), law.of(gpu)
    slow_w, expected_w, quick_w = (
        min(limit_w, gpu.tdp_w * power_fraction(work.over(seconds), constants))
        for seconds in (time_s.high, time_s.expected, time_s.low)
    )
    width, widened = law.half_width(gpu, novelties), widening or {"low": 1.0, "high": 1.0}
    per_sample = gpus * expected_w * time_s.expected / samples
    below = widened["low"] * hypot(log(expected_w * time_s.expected / (quick_w * time_s.low)), width)
    above = widened["high"] * hypot(log(slow_w * time_s.high / (expected_w * time_s.expected)), width)
    least_w = constants.base_fraction * gpu.tdp_w
    return StepEnergy(
        power_w=Interval(
            low=gpus * max(least_w, expected_w * exp(-hypot(log(expected_w / slow_w), width))),
            expected=gpus * expected_w,
            high=gpus * min(limit_w, expected_w * exp(hypot(log(quick_w / expected_w), width))),
        ),
        joules_per_sample=Interval(low=per_sample * exp(-below), expected=per_sample, high=per_sample * exp(above)),
        evidence=law.evidence(gpu),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CardCap:
    """A card and the law of power, whose cap lies below the card's own limit; times are those of `end`."""

    gpu: GpuSpec
    law: PowerLaw
    end: End = End.EXPECTED

    def slowdowns(
        self, shares: Sequence[RateShares], probe: Callable[[], Sequence[FloatArray]]
    ) -> Mapping[End, FloatArray]:
        """Return by what factors the cap lengthens steps, one entry a step, by the end of their interval.

        The interval joins those of the power that is drawn without the cap and of the exponent.
        """
        constants, tdp_w, cap_w = self.law.of(self.gpu), self.gpu.tdp_w, self.law.cap_w
        assert tdp_w is not None
        assert cap_w is not None
        width = exp(self.law.half_width(self.gpu))
        draw_w = np.array([tdp_w * power_fraction(share, constants) for share in shares])
        if (np.minimum(tdp_w, draw_w * width) <= cap_w).all():
            return dict.fromkeys(End, np.ones_like(draw_w))
        memory_w = memory_chips_w(self.gpu, np.array([share.memory + share.cache for share in shares]))
        probed, capping = probe(), self.law.capping

        def end(drawn_w: FloatArray, exponent: float) -> FloatArray:
            return slowdown(
                drawn_w,
                base_w=constants.base_fraction * tdp_w,
                cap_w=cap_w,
                memory_w=memory_w,
                probed=probed,
                exponent=exponent,
            )

        return {
            End.LOW: end(draw_w / width, capping.low),
            End.EXPECTED: end(draw_w, capping.exponent),
            End.HIGH: end(np.minimum(draw_w * width, tdp_w), capping.high),
        }
