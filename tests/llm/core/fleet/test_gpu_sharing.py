"""Several models on the same GPUs, on a curve with round figures."""

from dataclasses import replace
from math import exp

import pytest

from capplan.llm.core.fleet.deployment_plan import DeploymentFit, DeploymentPlan
from capplan.llm.core.fleet.gpu_sharing import FleetPart, share_gpus, sharing_groups
from capplan.llm.core.fleet.shared_fleet import shared_fleets
from capplan.llm.core.fleet.token_load import TokenLoad
from capplan.llm.core.serving.asked import Statistic
from capplan.llm.core.simulation.load_answer import LatencyLimits
from tests.llm.core.fleet.fits import MEMORY, fit

SMALL = replace(MEMORY, weights_bytes=20 << 30)
"""22 GiB without the cache of 30 GiB for 100 sequences, on GPUs with 52 GiB to give."""


def one(**changes: object) -> DeploymentFit:
    return fit(**{"needed": 1, "replicas": 1, "memory": SMALL, **changes})


def plan(model: str, *fits: DeploymentFit, rate: float = 0.5, limits: LatencyLimits | None = None) -> DeploymentPlan:
    return DeploymentPlan(
        model=model,
        params=1,
        active_params=1,
        load=TokenLoad(rate_per_s=rate, input_len=1000.0, output_len=100.0),
        limits=limits or LatencyLimits(),
        fits=fits,
        rejections=(),
        assumptions=(),
    )


def parts(*plans: DeploymentPlan) -> list[FleetPart]:
    return [FleetPart(plan=each, fit=each.fits[0]) for each in plans]


def test_two_equal_models_stretch_each_other_by_the_time_that_the_other_has_work() -> None:
    # 0.5 requests/s on a curve that starts at 1/s with one running: running = 0.5·s, busy 1 − e^(−0.5·s), s = 1 + busy
    found = share_gpus(parts(plan("a", one()), plan("b", one())))
    assert found is not None
    slow = found.parts[0].slowdown
    assert slow == pytest.approx(2 - exp(-0.5 * slow), rel=1e-6)
    assert slow == pytest.approx(1.536, abs=2e-3)
    assert found.parts[0].running == pytest.approx(0.5 * slow)
    assert found.parts[1].tpot_s == pytest.approx(slow * 0.010)
    assert found.parts[1].ttft_s == pytest.approx(slow * 0.1)
    # 0.768 running and three deviations of 0.876
    assert found.parts[0].sequences == 4
    assert (found.gpus, found.usd_per_hour) == (2, 2.5)


def test_memory_adds_up() -> None:
    # 2 · 42 GiB without any cache are more than the 72 GiB that a GPU has to give
    assert share_gpus(parts(plan("a", one(memory=MEMORY)), plan("b", one(memory=MEMORY)))) is None


def test_limits_hold_for_the_stretched_times() -> None:
    strict = LatencyLimits(tpot_s=0.015)  # 10 ms alone, 15.4 ms together
    assert share_gpus(parts(plan("a", one(), limits=strict), plan("b", one()))) is None
    assert share_gpus(parts(plan("a", one(), limits=LatencyLimits(tpot_s=0.016)), plan("b", one()))) is not None


def test_a_full_replica_has_no_time_to_share() -> None:
    # 4/s of a curve that ends at 5/s: twice as long steps allow 2.5/s at most
    assert share_gpus(parts(plan("a", one(), rate=4.0), plan("b", one(), rate=4.0))) is None


def test_models_are_joined_where_that_saves_money() -> None:
    third = plan("c", one(memory=replace(MEMORY, weights_bytes=45 << 30)))
    shared, alone = sharing_groups([plan("a", one()), third, plan("b", one())])
    assert [[part.plan.model for part in group.parts] for group in shared] == [["a", "b"]]
    assert [part.plan.model for part in alone] == ["c"]
    (fleet, apart) = shared_fleets([plan("a", one()), third, plan("b", one())], shares_gpus=True)
    assert (fleet.usd_per_hour, apart.usd_per_hour) == (5.0, 7.5)
    assert (fleet.gpus, fleet.servers) == (4, 2)  # machines of two GPUs are rented
    assert "2 × some-gpu shared by a and b (1 × 2)" in fleet.words


def test_redundancy_is_that_of_the_model_that_asks_for_most() -> None:
    found = share_gpus(parts(plan("a", one(replicas=2)), plan("b", one())))
    assert found is not None
    assert (found.replicas, found.usd_per_hour) == (2, 5.0)


def test_percentiles_and_closed_loops_stay_on_gpus_of_their_own() -> None:
    tail = plan("a", one(), limits=LatencyLimits(tpot_s=1.0, statistic=Statistic.P99))
    assert sharing_groups([tail, plan("b", one())])[0] == ()
