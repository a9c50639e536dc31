"""Laws of what plans cost: a tighter limit, a larger load or less memory is never cheaper, in whichever units."""

from itertools import pairwise
from typing import Any

import pytest

import capplan
from capplan.core.trace.types import Trace

pytestmark = [pytest.mark.zoo, pytest.mark.slow]

INF = float("inf")
BATCHES = [1, 64]
GPUS = ["t4", "l4", "a10g", "rtx-4090", "l40s", "a100-sxm4-80gb", "h100-sxm5-80gb", "b200"]


@pytest.fixture(scope="module")
def network() -> Trace:
    return capplan.trace("torchvision:resnet18")


def plan_costs(network: Trace, **question: Any) -> tuple[float, float]:
    """Return the least that a million samples cost, and the least for the load by the hour; infinite without a fit."""
    plan = capplan.plan(network, **{"batches": BATCHES, "gpus": GPUS, **question})
    millions = [fit.usd_per_million_samples for fit in plan.fits]
    hours = [plan.usd_per_hour(fit) for fit in plan.fits]
    return tuple(min([usd for usd in costs if usd is not None], default=INF) for costs in (millions, hours))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("limit", "ever_tighter"),
    [
        ("max_latency_s", (None, 0.1, 0.03, 0.01, 0.003, 0.001, 1e-5)),
        ("min_throughput_per_s", (None, 100, 3000, 10_000, 30_000, 1e9)),
        ("utilization_fraction", (1.0, 0.9, 0.2, 0.05, 0.01)),
        ("max_power_draw_w", (None, 300, 150, 60, 1)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_tighter_limit_is_never_cheaper(network: Trace, limit: str, ever_tighter: tuple[float | None, ...]) -> None:
    costs = [plan_costs(network, **{limit: value}) for value in ever_tighter]
    for looser, tighter in pairwise(costs):
        assert min(tighter[0] - looser[0], tighter[1] - looser[1]) >= 0 or tighter == (INF, INF), costs
    assert costs[-1] > costs[0], "the tightest limit costs more, or nothing meets it"


def test_a_larger_load_never_costs_less(network: Trace) -> None:
    loads = (1, 30, 1e3, 3e4, 1e6)
    hourly = [plan_costs(network, rate_per_s=load)[1] for load in loads]
    assert all(less <= more for less, more in pairwise(hourly)), dict(zip(loads, hourly, strict=True))
    # a million a second takes many machines, and what one machine does is paid for a thousand
    assert hourly[-1] > hourly[0]


def test_fewer_gpus_to_choose_from_are_never_cheaper(network: Trace) -> None:
    chosen = [GPUS, GPUS[2:], GPUS[4:], GPUS[6:]]
    costs = [plan_costs(network, gpus=gpus) for gpus in chosen]
    assert all(more[0] <= fewer[0] and more[1] <= fewer[1] for more, fewer in pairwise(costs)), costs


def deployment_cost(**question: Any) -> float:
    """Return the least rent of a deployment that meets its limits; infinite where none does. [USD/h]"""
    limits = {
        "rate_per_s": 5,
        "max_ttft_s": 4.0,
        "max_tpot_s": 0.12,
        **question,
    }  # an L4 keeps them with certainty, too
    plan = capplan.llm.plan(
        "qwen3-8b",
        gpus=["l4", "h100-sxm5-80gb"],
        weights=["bf16"],
        engines=["vllm"],
        input_len=1000,
        output_len=200,
        **limits,
    ).plan
    return min((fit.usd_per_hour for fit in plan.fits if fit.usd_per_hour is not None), default=INF)


@pytest.mark.parametrize(
    ("limit", "ever_tighter"),
    [
        ("max_ttft_s", (10.0, 0.5, 0.1, 0.001)),
        pytest.param("max_tpot_s", (1.0, 0.06, 0.02, 0.0001), marks=pytest.mark.nightly),
        pytest.param("rate_per_s", (0.5, 5, 50), marks=pytest.mark.nightly),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_tighter_limit_of_a_deployment_is_never_cheaper(limit: str, ever_tighter: tuple[float, ...]) -> None:
    costs = [deployment_cost(**{limit: value}) for value in ever_tighter]
    assert all(loose <= tight for loose, tight in pairwise(costs)), dict(zip(ever_tighter, costs, strict=True))
    assert costs[-1] > costs[0]


@pytest.mark.parametrize(
    ("option", "spellings"),
    [
        ("max_latency_s", (0.01, "10ms", "0.01s", "10000us", "10 ms", "1e-2 s")),
        ("min_throughput_per_s", (1000, 1e3)),
        ("gpus", ("l4", ["l4"], "L4", "NVIDIA L4", "nvidia_l4")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_one_question_in_other_units_and_spellings_has_one_answer(
    network: Trace, option: str, spellings: tuple[Any, ...]
) -> None:
    plans = [capplan.plan(network, **{"batches": BATCHES, "gpus": GPUS, option: words}) for words in spellings]
    figures = [[(fit.gpu.id, fit.batch, fit.usd_per_million_samples) for fit in plan.fits] for plan in plans]
    assert figures[0]
    assert all(each == figures[0] for each in figures)
