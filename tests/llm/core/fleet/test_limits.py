"""How far limits let a replica go, on a curve with round figures."""

from math import exp

import pytest

from capplan.core.numbers import Interval
from capplan.llm.core.fleet.deployment_plan import front, load_front
from capplan.llm.core.fleet.limits import broken_limit, expected_limits, fullest_point, highest_point
from capplan.llm.core.serving.load_curve import point_at_rate
from capplan.llm.core.sharding import Sharding, ShardingChoice, shardings
from capplan.llm.core.simulation.load_answer import LatencyLimits
from tests.llm.core.fleet.fits import CURVE, fit


def test_without_limits_a_replica_is_planned_with_95_percent_of_its_full_rate() -> None:
    point = highest_point(CURVE, LatencyLimits(), 100)
    assert point is not None
    assert point.rate_per_s == pytest.approx(4.75, rel=1e-6)


def test_a_limit_between_two_points_is_interpolated() -> None:
    # TPOT rises from 12 to 30 ms between 3 and 5 requests/s: 21 ms is half way, at 4/s and 10 running.
    point = highest_point(CURVE, LatencyLimits(tpot_s=0.021), 100)
    assert point is not None
    assert point.rate_per_s == pytest.approx(4.0, rel=1e-6)
    fullest = fullest_point(CURVE, LatencyLimits(tpot_s=0.021), 100)
    assert fullest is not None
    assert fullest.running == pytest.approx(10.0, rel=1e-6)


def test_a_limit_below_the_idle_replica_leaves_no_point() -> None:
    assert highest_point(CURVE, LatencyLimits(ttft_s=0.05), 100) is None
    assert fullest_point(CURVE, LatencyLimits(ttft_s=0.05), 100) is None


def test_a_whole_answer_is_its_first_token_and_the_gaps_after_it() -> None:
    # 0.1 + 99 x 0.010 = 1.09 s.
    assert CURVE[0].e2e_s(100) == pytest.approx(1.09)
    broken = broken_limit(0.1, 0.01, 1.09, LatencyLimits(e2e_s=1.0))
    assert broken is not None
    assert (broken.option, broken.value_s) == ("⟨max-e2e⟩", 1.09)


def test_a_rate_between_points_and_below_the_first() -> None:
    assert point_at_rate(CURVE, 2.0).tpot_s == pytest.approx(0.011)
    low = point_at_rate(CURVE, 0.5)
    assert (low.running, low.tpot_s, low.rate_per_s) == (0.5, 0.010, 0.5)


def test_a_dense_model_is_cut_by_tensors_and_layers_on_one_server() -> None:
    found = set(shardings(ShardingChoice(), has_experts=False, splits_once=False))
    assert len(found) == 10  # TP x PP with a product of at most 8: 4 + 3 + 2 + 1
    assert all(each.gpus <= 8 and each.expert == each.data == 1 for each in found)


def test_experts_are_cut_or_kept_whole_and_attention_may_be_repeated() -> None:
    found = set(shardings(ShardingChoice(), has_experts=True, splits_once=False))
    assert Sharding(tensor=8, expert=8) in found
    assert Sharding(tensor=8) in found
    assert Sharding(tensor=1, data=8, expert=8) in found
    assert not any(each.data > 1 and each.expert != each.tensor * each.data for each in found)


def test_stated_sizes_are_tried_and_no_others() -> None:
    found = list(shardings(ShardingChoice(tensor=(2,), pipeline=(16,)), has_experts=False, splits_once=False))
    assert found == [Sharding(tensor=2, pipeline=16)]


def test_the_front_holds_what_no_other_beats() -> None:
    slow = Interval(low=0.05, expected=0.05, high=0.05)
    fast = fit(gpu="fast", replicas=8)  # half the tokens per GPU
    busy = fit(gpu="busy", tpot_s=slow)
    worse = fit(gpu="worse", replicas=8, tpot_s=slow)
    assert {each.gpu for each in front((fast, busy, worse))} == {"fast", "busy"}


def test_the_front_of_all_loads_rises_per_gpu_as_it_falls_per_user() -> None:
    points = load_front((fit(), fit(gpu="other", sharding=Sharding(tensor=1))))
    assert [point.per_user for point in points] == sorted((point.per_user for point in points), reverse=True)
    assert [point.per_gpu for point in points] == sorted(point.per_gpu for point in points)
    # The same curve on half the GPUs gives twice as much per GPU, so that it holds every point.
    assert {point.fit.gpu for point in points} == {"other"}


def test_a_fleet_in_words() -> None:
    assert fit().words == "8 GPUs = 4 replicas × 2 GPUs"
    assert fit(replicas=1, sharding=Sharding()).words == "1 GPU = 1 replica × 1 GPU"


def test_limits_on_expected_times_leave_one_deviation_at_84_percent() -> None:
    # The 95th percentile lies 1.645 deviations above: of e^0.1645 and e^0.329 a deviation is 0.1 and 0.2.
    # Φ(1) = 0.84134, so that expected times must be e^0.1 and e^0.2 times below the limits.
    ttft, tpot = (Interval(low=0.5, expected=1.0, high=exp(1.645 * sd)) for sd in (0.1, 0.2))
    asked = LatencyLimits(ttft_s=1.0, tpot_s=0.04, e2e_s=10.0)
    found = expected_limits(asked, certainty=0.841345, ttft=ttft, tpot=tpot)
    assert found.ttft_s == pytest.approx(exp(-0.1), rel=1e-5)
    assert found.tpot_s == pytest.approx(0.04 * exp(-0.2), rel=1e-5)
    assert found.e2e_s == pytest.approx(10 * exp(-0.2), rel=1e-5)
    assert expected_limits(asked, certainty=0.5, ttft=ttft, tpot=tpot) == asked
