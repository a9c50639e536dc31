"""Advice: gains by division of two estimates, other GPUs by kind, memory and price."""

from dataclasses import replace
from datetime import date

import pytest

import capplan
from capplan.core.gpus.prices import Price, Term
from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.advice import SpeedAdvice, advise, is_of_same_kind, stronger_gpus
from capplan.core.latency.types import Binding, LatencyEstimate
from capplan.core.numbers import Interval

SPEC = GpuSpec(
    id="now", name="NVIDIA L4", vendor="NVIDIA", architecture="Ada", memory_bytes=24 * 2**30,
    memory_bandwidth_bytes_per_s=300e9, form_factor="PCIe card (LP)", memory_type="GDDR6",
)  # fmt: skip


def taking(latency_s: float, *, launches: float = 0.0) -> LatencyEstimate:
    return LatencyEstimate(
        batch=10,
        bound_s=latency_s / 2,
        latency_s=Interval(low=0.8 * latency_s, expected=latency_s, high=1.25 * latency_s),
        bound_by=Binding.COMPUTE,
        share_by_binding=((Binding.COMPUTE, 1 - launches), (Binding.BANDWIDTH, 0.0), (Binding.LAUNCHES, launches)),
        calibration=None,
    )


def price(gpu: str, usd: float) -> Price:
    return Price(
        gpu=gpu, provider="p", region="r", term=Term.ON_DEMAND, usd_per_hour=usd, date=date(2026, 11, 1), source="s"
    )


def test_copies_beside_the_step_cost_nothing() -> None:
    # 8 ms of step and 4 ms of copy: 12 ms one after the other, 8 ms beside each other.
    (advice,) = advise(taking(8e-3), [taking(8e-3)], alternatives={}, host_copy_s=4e-3)
    assert advice.speedup == pytest.approx(1.5)
    assert "asynchronous" in advice.change


def test_copies_longer_than_the_step_leave_themselves() -> None:
    (advice,) = advise(taking(4e-3), [taking(4e-3)], alternatives={}, host_copy_s=8e-3)
    assert advice.speedup == pytest.approx(1.5)


def test_graphs_hide_what_the_device_waits_for_the_host_and_no_time_of_its_own() -> None:
    # Of 10 ms, launches bind 9, of which the device waits for the host for 6: 4 ms are left, ×2.5 and not ×10.
    step = replace(taking(10e-3, launches=0.9), waits_s=6e-3)
    (advice,) = advise(step, [step], alternatives={})
    assert advice.speedup == pytest.approx(2.5)
    # Where the device's own small kernels take the time, as in a graph, there is nothing to hide.
    assert advise(taking(10e-3, launches=0.9), [step], alternatives={}) == ()


def test_small_gains_are_not_told_and_large_ones_come_first() -> None:
    found = advise(taking(10e-3), [taking(10e-3)], alternatives={"a": taking(9.9e-3), "b": taking(5e-3)})
    assert [(each.change, each.speedup) for each in found] == [("b", pytest.approx(2.0))]


def stronger(*others: tuple[GpuSpec, float], rents: dict[str, float]) -> tuple[SpeedAdvice, ...]:
    return stronger_gpus(
        SPEC,
        taking(10e-3),
        others=[(spec, taking(latency_s)) for spec, latency_s in others],
        rents={gpu: price(gpu, usd) for gpu, usd in rents.items()},
    )


def test_the_next_faster_gpu_comes_with_what_samples_cost() -> None:
    # 10 samples in 10 ms are 3.6 M per hour: USD 0.72 per hour is 0.2 per million. In 5 ms, at USD 1.44: the same.
    faster, fastest = replace(SPEC, id="faster"), replace(SPEC, id="fastest")
    (found,) = stronger((faster, 5e-3), (fastest, 1e-3), rents={"now": 0.72, "faster": 1.44})
    assert found.change == "a stronger GPU: faster"
    assert found.speedup == pytest.approx(2)
    assert found.usd_per_million_samples == pytest.approx(0.2)
    assert found.usd_now == pytest.approx(0.2)


def test_the_cheapest_per_sample_is_named_too_where_it_saves() -> None:
    faster, fastest = replace(SPEC, id="faster"), replace(SPEC, id="fastest")
    found = stronger((faster, 5e-3), (fastest, 1e-3), rents={"now": 0.72, "fastest": 3.6})
    assert [each.change.rpartition(" ")[2] for each in found] == ["faster", "fastest"]
    assert found[1].usd_per_million_samples == pytest.approx(0.1)  # 36 M samples an hour for USD 3.6


def test_a_gpu_with_less_memory_or_hardly_any_gain_is_no_step_up() -> None:
    small, alike = replace(SPEC, id="small", memory_bytes=16 * 2**30), replace(SPEC, id="alike")
    assert stronger((small, 1e-3), (alike, 9.5e-3), rents={}) == ()


@pytest.mark.parametrize(
    ("first", "second", "alike"),
    [
        ("l4", "l40s", True),
        ("rtx-4080", "rtx-4090", True),
        ("l4", "rtx-4090", False),  # GeForce cards are no servers'
        ("a100-sxm4-80gb", "h100-sxm5-80gb", True),
        ("a100-pcie-80gb", "a100-sxm4-80gb", False),
        ("l40s", "h100-pcie-80gb", False),  # GDDR and HBM
        ("mi300x", "max-1550", False),
    ],
)
def test_gpus_are_compared_within_their_kind(first: str, second: str, alike: bool) -> None:
    gpus = capplan.load_gpus()
    assert is_of_same_kind(gpus[first], gpus[second]) is alike
