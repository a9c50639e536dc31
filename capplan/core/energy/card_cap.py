"""A card under a power cap: by what factor its steps take longer, with an interval."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from capplan.core.energy.capping import memory_chips_w, slowdown
from capplan.core.energy.power import PowerLaw, RateShares, power_fraction
from capplan.core.gpus.spec import GpuSpec
from capplan.core.numbers import FloatArray


class CapEnd(StrEnum):
    """Which of three times of a step is asked for where a cap makes them differ."""

    LOW = "low"
    EXPECTED = "expected"
    HIGH = "high"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowdowns:
    """By what factors steps take longer, one entry a step: at the lower end of the interval, expected, at the upper."""

    low: FloatArray
    expected: FloatArray
    high: FloatArray

    def at(self, end: CapEnd) -> FloatArray:
        """Return the factors of one end."""
        return {CapEnd.LOW: self.low, CapEnd.EXPECTED: self.expected, CapEnd.HIGH: self.high}[end]


@dataclass(frozen=True, slots=True, kw_only=True)
class CardCap:
    """A card and the law of power, whose cap lies below the card's own limit; times are those of `end`."""

    gpu: GpuSpec
    law: PowerLaw
    end: CapEnd = CapEnd.EXPECTED

    def slowdowns(self, shares: Sequence[RateShares], probe: Callable[[], Sequence[FloatArray]]) -> Slowdowns:
        """Return by what factors the cap lengthens steps.

        The interval joins those of the power that is drawn without the cap and of the exponent.

        Args:
            shares: The rates of the steps without the cap.
            probe: Estimates how many times as long each step takes at each of `PROBED_CLOCKS`; called where it matters.
        """
        constants, tdp_w, cap_w = self.law.of(self.gpu), self.gpu.tdp_w, self.law.cap_w
        assert tdp_w is not None
        assert cap_w is not None
        width = float(np.exp(constants.log_half_width))
        draw_w = np.array([tdp_w * power_fraction(share, constants) for share in shares])
        if (np.minimum(tdp_w, draw_w * width) <= cap_w).all():
            same = np.ones_like(draw_w)
            return Slowdowns(low=same, expected=same, high=same)
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

        return Slowdowns(
            low=end(draw_w / width, capping.low),
            expected=end(draw_w, capping.exponent),
            high=end(np.minimum(draw_w * width, tdp_w), capping.high),
        )
