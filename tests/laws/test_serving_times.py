"""Estimates and simulations of serving come from one model of the scheduler, so that they agree."""

from itertools import pairwise

import pytest

import capplan
from tests.seen import at_least

DEPLOYMENTS = [
    ("llama-3.1-8b-instruct", None, "h100-sxm5-80gb", 1),
    ("llama-3.1-70b-instruct", "fp8", "h100-sxm5-80gb", 4),
    ("qwen3-30b-a3b", None, "h200-sxm-141gb", 2),
    ("qwen3-32b", "fp8", "l40s", 2),
]


@pytest.mark.parametrize("engine", ["vllm", "trtllm", "sglang"])
@pytest.mark.parametrize(("model", "weights", "gpu", "tp"), DEPLOYMENTS)
def test_estimate_and_simulation_agree_with_one_client_and_under_load(model, weights, gpu, tp, engine):
    clients = (1, 4, 16, 64)
    asked = {"gpu": gpu, "tp": tp, "weights": weights, "engine": engine, "concurrency": clients}
    points = capplan.llm.estimate(model, **asked).points
    loads = capplan.llm.simulate(model, **asked, requests=2000).answers
    for count, point, load in zip(clients, points, loads, strict=True):
        within = 0.10 if count == 1 else 0.15
        assert point.ttft_s.expected == pytest.approx(load.ttft_s.mean, rel=within), count
        assert point.tpot_s.expected == pytest.approx(load.tpot_s.mean, rel=within), count
        assert point.output_tokens_per_s.expected == pytest.approx(load.output_tokens_per_s, rel=within), count


@pytest.mark.parametrize("engine", ["vllm", "trtllm", "sglang"])
def test_flags_of_the_scheduler_move_estimate_and_simulation_alike(engine):
    # looking for requests at every step takes less time than every 30 steps, by 14.5 steps of a busy engine on average
    asked = {"gpu": "h100-sxm5-80gb", "engine": engine, "concurrency": (16,)}
    for answer in (
        lambda interval: capplan.llm.estimate("llama-3.1-8b-instruct", **asked, receive_interval=interval).points[0],
        lambda interval: capplan.llm.simulate("llama-3.1-8b-instruct", **asked, receive_interval=interval).answers[0],
    ):
        often, seldom = answer(1), answer(30)
        gap_s = _mean(often.tpot_s)
        assert _mean(seldom.ttft_s) - _mean(often.ttft_s) == pytest.approx(14.5 * gap_s, rel=0.1)


def test_a_measured_run_moves_estimate_and_simulation_alike(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text(
        "model,gpu,engine,tp,input_len,output_len,concurrency,weights,tpot_ms,ttft_ms\n"
        "qwen3-32b,l40s,vllm,4,1024,128,16,bf16,40,250\n"
    )
    asked = {"gpu": "l40s", "tp": 4, "concurrency": (16,), "measured": [path]}
    point = capplan.llm.estimate("qwen3-32b", **asked).points[0]
    load = capplan.llm.simulate("qwen3-32b", **asked, requests=1000).answers[0]
    assert point.ttft_s.expected == pytest.approx(load.ttft_s.mean, rel=0.15)
    assert point.tpot_s.expected == pytest.approx(load.tpot_s.mean, rel=0.15)


def _mean(times):
    return times.expected if hasattr(times, "expected") else times.mean


@pytest.mark.parametrize("engine", ["vllm", "trtllm", "sglang"])
@pytest.mark.parametrize(("model", "weights", "gpu", "tp"), DEPLOYMENTS)
def test_times_grow_with_clients_and_tokens_do_not_fall_below_saturation(model, weights, gpu, tp, engine):
    asked = {"gpu": gpu, "tp": tp, "weights": weights, "engine": engine}
    points = capplan.llm.estimate(model, **asked, concurrency=(1, 2, 4, 8, 16, 32, 64, 128)).points
    unqueued = at_least(3, (point for point in points if point.running >= point.concurrency))
    for fewer, more in pairwise(unqueued):
        assert more.tpot_s.expected >= 0.99 * fewer.tpot_s.expected, more.concurrency
        assert more.ttft_s.expected >= 0.99 * fewer.ttft_s.expected, more.concurrency
        assert more.output_tokens_per_s.expected >= 0.99 * fewer.output_tokens_per_s.expected, more.concurrency


@pytest.mark.slow
def test_plan_and_fleet_ask_the_same_price(tmp_path):
    path = tmp_path / "fleet.yaml"
    path.write_text(
        "gpu: [l4]\nengine: vllm\nmodels: [{model: qwen3-8b, rate: 3/s, max_tpot: 90ms, output_len: 200}]\n"
    )
    (best, *_) = capplan.llm.fleet(path).fleets
    asked = {"gpus": ["l4"], "engines": ["vllm"], "rate_per_s": 3, "max_tpot_s": 0.09, "output_len": 200}
    planned = capplan.llm.plan("qwen3-8b", **asked).plan.recommended
    assert best.gpus == planned.gpus
    assert best.usd_per_hour == pytest.approx(planned.usd_per_hour)
