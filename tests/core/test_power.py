"""The law of power: bounds, monotony, and figures computed by hand."""

import math
from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.core.gpus.spec import GpuSpec, PeakKind
from capplan.core.numbers import Interval
from capplan.core.origin import Origin
from capplan.core.power import (
    CapLaw,
    CardPower,
    CardWork,
    PeakDensity,
    PeakSeconds,
    PowerConstants,
    PowerLaw,
    PowerNovelty,
    peak_seconds,
    step_energy,
)
from capplan.specs import load_gpus

H100 = load_gpus().find("h100-sxm5-80gb")
HOPPER = PowerConstants(
    base_fraction=0.2,
    top_fraction=1.0,
    memory=1.0,
    cache=2.0,
    compute=9.0,
    narrow_weight=2.0,
    log_half_width=0.2,
)
LAW = PowerLaw(
    architectures={"Hopper": HOPPER},
    others=replace(HOPPER, base_fraction=0.3, log_half_width=0.4),
    origin=Origin(made=date(2026, 11, 23), command="none", sources=(), rows=0),
    capping=CapLaw(low=0.2, exponent=0.4, high=0.6),
)


def step_power_w(gpu: GpuSpec, work: CardWork, law: PowerLaw) -> Interval | None:
    """Return the power of a card during a step whose time is known."""
    found = step_energy(
        gpu, peak_seconds(gpu, work), Interval.exact(work.time_s), law, samples=1.0, novelties=frozenset()
    )
    return found.power_w if found else None


sizes = st.floats(0, 1e15)
times = st.floats(1e-6, 1e3)


def power(*, traffic_bytes: float = 0.0, cached_bytes: float = 0.0, time_s: float = 1.0, **flops: float) -> Interval:
    work = CardWork(
        traffic_bytes=traffic_bytes,
        cached_bytes=cached_bytes,
        flops={PeakKind(name): count for name, count in flops.items()},
        time_s=time_s,
    )
    found = step_power_w(H100, work, LAW)
    assert found is not None
    return found


def test_half_of_the_bandwidth_and_a_ninth_of_the_peak_demand_one_and_a_half() -> None:
    # H100 SXM: 3.35 TB/s, 989.4 TFLOP/s dense in bf16, 700 W. Demand 1·½ + 9·⅑ = 1.5, so that the share of the limit is
    # 0.2 + 0.8·(1 − e^−1.5) = 0.8215
    assert power(traffic_bytes=3.35e12 / 2, bf16=989.4e12 / 9).expected == pytest.approx(575.05, rel=1e-3)


def test_a_byte_takes_the_same_energy_on_a_card_with_more_bandwidth_for_its_limit() -> None:
    # H100 SXM: 3.35 TB/s at 700 W; H200: 4.8 TB/s at 700 W, so that its full bandwidth demands 4.8/3.35 = 1.433 times
    # as much. The L40S has GDDR6, to which this does not apply.
    of_h100 = replace(HOPPER, density=PeakDensity(bytes_per_j=3.35e12 / 700, flops_per_j=989.4e12 / 700))
    assert of_h100.on(H100) == of_h100
    h200 = load_gpus().find("h200-sxm-141gb")
    assert of_h100.on(h200).memory == pytest.approx(4.8 / 3.35, rel=0.01)
    assert of_h100.on(h200).compute == pytest.approx(9.0, rel=0.01)
    assert of_h100.on(load_gpus().find("l40s")) == of_h100
    # An A100 SXM computes 312 TFLOP/s at 400 W: 0.78 of 1.413 for each watt, of which the root counts.
    assert of_h100.on(load_gpus().find("a100-sxm4-80gb")).compute == pytest.approx(
        9.0 * (0.78 / 1.4134) ** 0.5, rel=0.01
    )


def test_bytes_of_earlier_tokens_have_a_constant_of_their_own() -> None:
    # half of the bandwidth, all of it for earlier tokens: demand 2·½ = 1
    found = power(traffic_bytes=3.35e12 / 2, cached_bytes=3.35e12 / 2)
    assert found.expected == pytest.approx(700 * (0.2 + 0.8 * (1 - math.exp(-1))), rel=1e-3)


def test_narrow_operations_count_by_their_weight() -> None:
    # 1/18 of the peak of 1978.9 TFLOP/s in fp8, twice: demand 9·⅑ = 1
    assert power(fp8=1978.9e12 / 18).expected == pytest.approx(700 * (0.2 + 0.8 * (1 - math.exp(-1))), rel=1e-3)


def test_a_card_without_work_draws_its_base() -> None:
    assert power().expected == pytest.approx(140)


@given(traffic_bytes=sizes, flops=sizes, time_s=times)
def test_power_stays_between_the_base_and_the_limit(traffic_bytes: float, flops: float, time_s: float) -> None:
    found = power(traffic_bytes=traffic_bytes, bf16=flops, time_s=time_s)
    assert 0.2 * 700 <= found.low <= found.expected <= found.high <= 700


@given(traffic_bytes=sizes, flops=sizes, time_s=times, more=st.floats(1, 10), quicker=st.floats(1, 10))
def test_more_work_per_second_never_draws_less(
    traffic_bytes: float, flops: float, time_s: float, more: float, quicker: float
) -> None:
    one = power(traffic_bytes=traffic_bytes, bf16=flops, time_s=time_s)
    for other in (
        power(traffic_bytes=more * traffic_bytes, bf16=flops, time_s=time_s),
        power(traffic_bytes=traffic_bytes, bf16=more * flops, time_s=time_s),
        power(traffic_bytes=traffic_bytes, bf16=flops, time_s=time_s / quicker),
    ):
        assert other.low >= one.low * (1 - 1e-12)
        assert other.expected >= one.expected * (1 - 1e-12)
        assert other.high >= one.high * (1 - 1e-12)


@given(traffic_bytes=sizes, flops=sizes, time_s=times, quicker=st.floats(1, 10))
def test_the_same_work_in_less_time_never_costs_more_energy(
    traffic_bytes: float, flops: float, time_s: float, quicker: float
) -> None:
    slow = power(traffic_bytes=traffic_bytes, bf16=flops, time_s=time_s).expected * time_s
    quick = power(traffic_bytes=traffic_bytes, bf16=flops, time_s=time_s / quicker).expected * time_s / quicker
    assert quick <= slow * (1 + 1e-9)


def test_energy_is_power_times_time() -> None:
    # no work: 0.2 of 700 W on each of two cards, for 3 s that make four samples
    found = step_energy(H100, PeakSeconds(), Interval.exact(3.0), LAW, samples=4.0, gpus=2)
    assert found is not None
    assert found.joules_per_sample.expected == pytest.approx(2 * 140 * 3 / 4)


def test_an_architecture_that_nobody_measured_has_the_wider_interval_of_the_others() -> None:
    work = CardWork(traffic_bytes=0, flops={}, time_s=1.0)
    found = step_power_w(replace(H100, architecture="Unheard"), work, LAW)
    assert found is not None
    assert found.expected == pytest.approx(700 * 0.3)
    assert found.high / found.expected == pytest.approx(math.exp(0.4))


def test_what_nobody_measured_of_a_question_widens_its_interval_in_square() -> None:
    law = replace(
        LAW, widths={PowerNovelty.MARKET: 0.5, PowerNovelty.WORK: 0.15, PowerNovelty.REQUESTS: 0.48}
    )  # with a half-width of 0.2: √(0.2² + 0.15²) = 0.25, √(0.2² + 0.48²) = 0.52, √(0.04 + 0.25 + 0.0225) = 0.559
    assert law.half_width(H100) == 0.2
    assert law.half_width(H100, {PowerNovelty.WORK}) == pytest.approx(0.25)
    assert law.half_width(H100, {PowerNovelty.REQUESTS}) == pytest.approx(0.52)
    of_gddr = replace(H100, memory_type="GDDR6X")
    assert law.half_width(of_gddr, {PowerNovelty.WORK}) == pytest.approx(0.559, abs=1e-3)
    assert law.half_width(replace(H100, vendor="AMD")) == law.half_width(of_gddr)
    assert law.evidence(of_gddr) == "other architectures measured"
    own = replace(law, cards={H100.id: CardPower(factor=1.0, log_half_width=0.1, rows=9, models=3)})
    assert own.half_width(H100, {PowerNovelty.WORK}) == 0.1


def test_instructions_that_unpack_weights_draw_their_energy() -> None:
    # 10¹² instructions a second of 11.7 pJ draw 11.7 W beside the base while the card is far from its limit
    idle, busy = (
        step_power_w(H100, CardWork(traffic_bytes=0, flops={}, time_s=1.0, instructions=count), LAW)
        for count in (0.0, 1e12)
    )
    assert idle is not None
    assert busy is not None
    assert busy.expected - idle.expected == pytest.approx(11.7, rel=0.02)


def test_chips_of_a_coarse_process_take_more_for_the_same_work() -> None:
    # the energies of an instruction on an A40 and on finer chips: 20.2 and 11.7 pJ; half of the bandwidth demands
    # 0.5 · 20.2 ÷ 11.7 = 0.863, so that the share is 0.3 + 0.7 · (1 − e^−0.863) = 0.7047
    rtx_3090 = load_gpus().find("rtx-3090")
    work = CardWork(traffic_bytes=rtx_3090.memory_bandwidth_bytes_per_s / 2, flops={}, time_s=1.0)
    found = step_power_w(rtx_3090, work, LAW)
    assert found is not None
    assert found.expected == pytest.approx(350 * 0.7047, rel=1e-3)


def test_a_card_of_unknown_limit_has_no_power() -> None:
    assert step_power_w(replace(H100, tdp_w=None), CardWork(traffic_bytes=1, flops={}, time_s=1), LAW) is None


def test_a_step_without_time_is_refused() -> None:
    with pytest.raises(ValueError, match="must be positive"):
        CardWork(traffic_bytes=1, flops={}, time_s=0)


def test_a_base_above_the_top_is_refused() -> None:
    with pytest.raises(ValueError, match="must be below top"):
        replace(HOPPER, base_fraction=0.9, top_fraction=0.8)


def test_a_measured_card_draws_its_own_factor_and_never_more_than_its_limit() -> None:
    def drawn(factor: float, flops: float) -> Interval:
        card = CardPower(factor=factor, log_half_width=0.1, rows=4, models=2)
        work = CardWork(traffic_bytes=0, flops={PeakKind("bf16"): flops}, time_s=1.0)
        found = step_power_w(H100, work, replace(LAW, cards={H100.id: card}))
        assert found is not None
        return found

    # a ninth of the peak demands 1: 0.2 + 0.8·(1 − e^−1) = 0.7057 of 700 W
    share = 700 * (0.2 + 0.8 * (1 - math.exp(-1)))
    assert drawn(0.5, 989.4e12 / 9).expected == pytest.approx(0.5 * share, rel=1e-3)
    assert drawn(0.5, 989.4e12 / 9).high == pytest.approx(0.5 * share * math.exp(0.1), rel=1e-3)
    assert drawn(0.5, 0).expected == pytest.approx(70)
    assert drawn(1.2, 989.4e12 / 9).expected == pytest.approx(1.2 * share, rel=1e-3)
    assert drawn(2.0, 989.4e12 / 9) == Interval(low=700 * math.exp(-0.1), expected=700, high=700)


def test_a_law_whose_top_lies_above_the_limit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Hopper: top 1.1"):
        replace(LAW, architectures={"Hopper": replace(HOPPER, top_fraction=1.1)})
