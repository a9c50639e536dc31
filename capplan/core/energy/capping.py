"""Compute how much longer a step takes on a card whose power limit was lowered.

Above the draw of a step a cap changes nothing. Below it the clock falls until the draw is that of the cap:

    draw(clock) = base + ((draw − base − memory chips) · clock^(1/exponent − 1) + memory chips) ÷ slowdown(clock)

Energy per operation falls with the clock, because the voltage does; that per bit of memory chips does not. The slowdown
is what the latency model finds with arithmetic at that clock: memory bandwidth does not fall with a cap. A step of
matrix products alone runs at ((cap − base) ÷ (draw − base))^exponent of its speed. Because the energy that is not the
base's never grows as the clock falls, a cap never adds more energy than the base draws in the added time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from capplan.core.gpus.spec import GpuSpec, MeasuredRate, Microbenchmark
from capplan.core.numbers import FloatArray

PROBED_CLOCKS = (0.7, 0.4, 0.1)
"""Clocks, as shares of the card's own, at which times are estimated. Between them a time is linear in 1 ÷ clock."""
_INVERSE_CLOCKS = np.geomspace(1.0, 1.0 / PROBED_CLOCKS[-1], 61)
_HBM_JOULES_PER_BYTE, _GDDR_JOULES_PER_BYTE = 8 * 3.9e-12, 8 * 7.5e-12
"""What memory chips take for a byte: HBM2 3.9 pJ/bit (O'Connor et al., Fine-Grained DRAM, MICRO 2017), GDDR6 7.5 pJ/bit
(Micron's technical brief on GDDR6X). [J]"""
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


def memory_chips_w(gpu: GpuSpec, bandwidth_share: FloatArray) -> FloatArray:
    """Return what memory chips draw at shares of the printed bandwidth; other kinds than HBM count as GDDR. [W]"""
    is_hbm = (gpu.memory_type or "").startswith("HBM")
    per_byte = _HBM_JOULES_PER_BYTE if is_hbm else _GDDR_JOULES_PER_BYTE
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
    """Return by what factor a cap lengthens steps; one entry a step.

    Args:
        draw_w: What the card draws in each step without the cap. [W]
        base_w: The draw of the card without work. [W]
        cap_w: The cap, above the base. [W]
        memory_w: What memory chips draw of it. [W]
        probed: How many times as long each step takes at each of `PROBED_CLOCKS`.
        exponent: That of `CapLaw`.
    """
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
