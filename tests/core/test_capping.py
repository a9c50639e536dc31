"""Power caps: nothing changes above the draw, and below it time and energy keep their laws."""

from dataclasses import replace
from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.core.gpus.spec import PeakKind
from capplan.core.numbers import Interval
from capplan.core.origin import Origin
from capplan.core.power import (
    PROBED_CLOCKS,
    CapLaw,
    PeakSeconds,
    PowerConstants,
    PowerLaw,
    at_clock,
    clock_mix,
    memory_chips_w,
    slowdown,
    step_energy,
)
from capplan.specs import load_gpus

H100 = load_gpus().find("h100-sxm5-80gb")
BASE_W = 109.0
draws = st.floats(BASE_W, 700.0)
caps = st.floats(BASE_W + 10, 700.0)
shares = st.floats(0.0, 1.0)
exponents = st.floats(0.15, 0.9)


def longer(draw_w: float, cap_w: float, *, memory_w: float, follows: float, exponent: float) -> float:
    """Return the slowdown of a step of which a share follows the clock."""
    probed = [np.array([follows / clock + 1 - follows]) for clock in PROBED_CLOCKS]
    found = slowdown(
        np.array([draw_w]),
        base_w=BASE_W,
        cap_w=cap_w,
        memory_w=np.array([memory_w]),
        probed=probed,
        exponent=exponent,
    )
    return float(found[0])


def test_matrix_products_run_at_the_power_of_the_share_of_power_above_the_base() -> None:
    # (250 − 109) ÷ (658 − 109) = 0.2568, and 0.2568^0.4 = 0.5806
    assert 1 / longer(658, 250, memory_w=0, follows=1, exponent=0.4) == pytest.approx(0.5806, rel=3e-3)


def test_a_step_that_waits_for_memory_alone_loses_nothing_to_a_lower_clock() -> None:
    assert longer(450, 300, memory_w=100, follows=0, exponent=0.4) == 1.0


def test_what_memory_chips_draw_falls_with_time_alone() -> None:
    # all 291 W above the base are the chips': at 245.5 W, half of them, the step takes twice as long
    assert longer(400, 254.5, memory_w=291, follows=0, exponent=0.4) == pytest.approx(2.0, rel=1e-6)


@given(draw_w=draws, cap_w=caps, memory_w=st.floats(0, 300), follows=shares, exponent=exponents)
def test_a_cap_never_quickens_and_never_adds_energy_beyond_its_idle_share(
    draw_w: float, cap_w: float, memory_w: float, follows: float, exponent: float
) -> None:
    factor = longer(draw_w, cap_w, memory_w=memory_w, follows=follows, exponent=exponent)
    assert factor >= 1.0
    if cap_w >= draw_w:
        assert factor == 1.0
        return
    capped_j = min(cap_w, draw_w) * factor  # for each second of the step without a cap
    assert capped_j <= draw_w + BASE_W * (factor - 1.0) + 0.02 * draw_w  # 61 clocks are looked at, joined by lines


@given(draw_w=draws, cap_w=caps, lower=st.floats(0.5, 1), memory_w=st.floats(0, 300), follows=shares)
def test_a_lower_cap_is_never_faster(
    draw_w: float, cap_w: float, lower: float, memory_w: float, follows: float
) -> None:
    least = BASE_W + lower * (cap_w - BASE_W)
    one = longer(draw_w, cap_w, memory_w=memory_w, follows=follows, exponent=0.4)
    assert longer(draw_w, least, memory_w=memory_w, follows=follows, exponent=0.4) >= one * (1 - 1e-9)


def test_a_slower_clock_slows_arithmetic_and_no_memory() -> None:
    slow = at_clock(H100, 0.5)
    assert slow.peak(PeakKind.BF16) == pytest.approx(989.4e12 / 2, rel=1e-3)
    assert slow.memory_bandwidth_bytes_per_s == H100.memory_bandwidth_bytes_per_s


def test_a_step_half_as_fast_lies_between_two_clocks_that_it_was_estimated_at() -> None:
    # arithmetic alone: 1 ÷ 0.7 = 1.43 and 1 ÷ 0.4 = 2.5 times as long; 2 lies (2 − 1.43) ÷ (2.5 − 1.43) = 8/15 between
    times_s = [3.0, *(3.0 / clock for clock in PROBED_CLOCKS)]
    mix = clock_mix(times_s, 2.0)
    assert mix.weights == pytest.approx((0, 7 / 15, 8 / 15, 0))
    assert (mix.of(times_s), mix.stretch) == pytest.approx((6.0, 1.0))


def test_below_the_lowest_clock_a_step_is_stretched() -> None:
    mix = clock_mix([1.0, 1.2, 1.5, 4.0], 8.0)
    assert (mix.weights, mix.stretch) == ((0, 0, 0, 1), pytest.approx(2.0))


def test_memory_chips_of_an_h100_draw_a_hundred_watts_at_full_bandwidth() -> None:
    # 3.35 TB/s · 8 bit · 3.9 pJ/bit = 104.5 W
    assert memory_chips_w(H100, np.array([1.0]))[0] == pytest.approx(104.5, rel=1e-3)


LAW = PowerLaw(
    architectures={},
    others=PowerConstants(
        base_fraction=0.2, top_fraction=1.0, memory=1, cache=1, compute=8, narrow_weight=2, log_half_width=0.2
    ),
    origin=Origin(made=date(2026, 11, 23), command="none", sources=(), rows=0),
    capping=CapLaw(low=0.2, exponent=0.4, high=0.6),
)


@given(cap_w=st.floats(141, 700), busy=st.floats(0, 1), time_s=st.floats(1e-3, 10))
def test_a_capped_step_draws_between_the_base_and_the_cap(cap_w: float, busy: float, time_s: float) -> None:
    work = PeakSeconds(memory_s=busy * time_s, wide_s=busy * time_s / 2)
    found = step_energy(
        H100,
        work,
        Interval(low=time_s, expected=time_s * 1.1, high=time_s * 1.3),
        replace(LAW, cap_w=cap_w),
        samples=1,
    )
    assert found is not None
    assert 140 <= found.power_w.low <= found.power_w.expected <= found.power_w.high <= cap_w


def test_a_cap_that_a_card_cannot_take_is_refused() -> None:
    assert "draws 140 W without work" in (replace(LAW, cap_w=100).refusal(H100) or "")
    assert replace(LAW, cap_w=300).refusal(replace(H100, tdp_min_w=None)) is None
    assert "takes no limit below 200 W" in (replace(LAW, cap_w=180).refusal(replace(H100, tdp_min_w=200)) or "")
    assert "is not known" in (replace(LAW, cap_w=300).refusal(replace(H100, tdp_w=None)) or "")


def test_exponents_of_a_cap_lie_between_nought_and_one() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        CapLaw(low=0.2, exponent=0.4, high=1.0)
