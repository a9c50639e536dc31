"""Compute the power of a card from what a step moves and computes in its time.

    share of the limit = base + memory · bytes/s ÷ peak bandwidth + compute · √(Σ op/s ÷ peak of the format)

The result never exceeds the limit. The root is empirical: power rises steeply with the first operations and slowly
towards the limit. Operations in formats narrower than 16 bits count `narrow_weight` times their share of the faster
peak.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, sqrt

from capplan.core.gpus.spec import GpuSpec, PeakKind
from capplan.core.numbers import Interval
from capplan.core.origin import Origin

_NARROW = frozenset({PeakKind.FP8, PeakKind.INT8, PeakKind.FP4})


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerConstants:
    """Shares of the power limit: at work of no size, and at the peak rates of memory and of arithmetic.

    `base_fraction` is the draw of a card whose process keeps launching kernels, which is above that of an empty card.
    `log_half_width` is the half-width of the 90 % interval of the logarithm of power.
    """

    base_fraction: float
    memory_fraction: float
    compute_fraction: float
    log_half_width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLaw:
    """Constants by architecture; `others` serves architectures that nobody measured, with a wider interval."""

    architectures: Mapping[str, PowerConstants]
    others: PowerConstants
    narrow_weight: float
    origin: Origin

    def of(self, architecture: str) -> PowerConstants:
        """Return the constants that serve an architecture."""
        return self.architectures.get(architecture, self.others)


@dataclass(frozen=True, slots=True, kw_only=True)
class CardWork:
    """What a step does on one card: bytes of device memory traffic, FLOPs by format, and its time. [bytes, FLOP, s]"""

    traffic_bytes: float
    flops: Mapping[PeakKind, float]
    time_s: float

    def __post_init__(self) -> None:
        if self.time_s <= 0:
            raise ValueError(f"the time of a step must be positive: {self.time_s}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RateShares:
    """Achieved rates as shares of the printed peaks: memory, and arithmetic weighted by format."""

    memory: float
    compute: float


def rate_shares(gpu: GpuSpec, work: CardWork, *, narrow_weight: float) -> RateShares:
    """Return the rates of a step as shares of the card's peaks.

    Args:
        gpu: The card. Work in a format whose peak it does not state is left out.
        work: What the step does.
        narrow_weight: What a share of the peak of a format narrower than 16 bits counts.
    """
    compute_s = sum(
        flops / peak * (narrow_weight if kind in _NARROW else 1.0)
        for kind, flops in work.flops.items()
        if (peak := gpu.peak(kind))
    )
    memory_s = work.traffic_bytes / gpu.memory_bandwidth_bytes_per_s
    return RateShares(memory=memory_s / work.time_s, compute=compute_s / work.time_s)


def step_power_w(gpu: GpuSpec, work: CardWork, law: PowerLaw) -> Interval | None:
    """Return the mean power of one card during a step, without its host; None where its limit is not known. [W]

    Args:
        gpu: The card.
        work: What the step does.
        law: Constants by architecture.
    """
    if gpu.tdp_w is None:
        return None
    constants = law.of(gpu.architecture)
    shares = rate_shares(gpu, work, narrow_weight=law.narrow_weight)
    share = constants.base_fraction
    share += constants.memory_fraction * shares.memory + constants.compute_fraction * sqrt(shares.compute)
    share = min(1.0, share)
    width = exp(constants.log_half_width)
    return Interval(
        low=gpu.tdp_w * max(min(constants.base_fraction, 1.0), share / width),
        expected=gpu.tdp_w * share,
        high=gpu.tdp_w * min(1.0, share * width),
    )


def energy_j(power_w: Interval, time_s: float) -> Interval:
    """Return the energy of a time at a power. [J]"""
    return Interval(low=power_w.low * time_s, expected=power_w.expected * time_s, high=power_w.high * time_s)
