"""Laws of groups, limits and money over every model of the catalogue and every GPU with a price."""

from itertools import pairwise
from math import ceil
from typing import Any

import pytest

import capplan
import capplan.llm
from capplan.core.trace.types import Trace
from capplan.errors import CapplanError, UsageError
from capplan.llm.core.memory import StageMemory
from capplan.llm.read.catalogue import catalogue_ids
from capplan.specs import load_gpus
from capplan.specs.prices import load_prices
from tests.nightly import mostly_nightly
from tests.seen import at_least

pytestmark = [pytest.mark.slow, pytest.mark.zoo]

GPUS = load_gpus()
PRICED = sorted(load_prices(GPUS).to_plan_with)
INF = float("inf")
EVERY_TENTH = catalogue_ids()[::10]
SET_ASIDE_BYTES = {1: 2.5 * 2**30, 2: 1.0 * 2**30, 4: 1.0 * 2**30, 8: 1.0 * 2**30}
"""What an engine may set aside on each GPU of a group twice as large, by the smaller one's size: a second GPU brings
communicators, all-reduce buffers and their CUDA graphs; SGLang's server_args.py reserves 128 MiB for each GPU."""
ROUNDED_BYTES = {("sglang", 8): 141 * 2**30 / 1000}
"""SGLang states what it reserves, 1 GiB more on 16 GPUs than on 8, as a share that it rounds to a thousandth."""


def stage(model: str, engine: str, gpus: int) -> StageMemory | None:
    """Return the memory of one GPU of a tensor-parallel group; None where the model cannot be split so."""
    try:
        return capplan.llm.memory(model, gpu="h200-sxm-141gb", tp=gpus, engine=engine, max_len=2048).stage
    except CapplanError:
        return None


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
@pytest.mark.parametrize("model", mostly_nightly(catalogue_ids(), daily=EVERY_TENTH))
def test_more_gpus_in_a_group_never_take_more_memory_each(model: str, engine: str) -> None:
    held = {gpus: found for gpus in (1, 2, 4, 8, 16) if (found := stage(model, engine, gpus))}
    for (fewer, one), (_, other) in pairwise(held.items()):
        assert other.weight_bytes <= one.weight_bytes
        assert other.cache.bytes_per_token <= one.cache.bytes_per_token
        assert other.cache.state_bytes <= one.cache.state_bytes
        beside = [each.activation_bytes + each.other_bytes for each in (one, other)]
        assert beside[1] <= beside[0] + SET_ASIDE_BYTES[fewer] + ROUNDED_BYTES.get((engine, fewer), 0.0)


@pytest.mark.parametrize("method", ["full", "lora", "qlora"])
@pytest.mark.parametrize("model", ["llama-3.1-8b-instruct", "qwen3-32b", "qwen3-30b-a3b", "gemma-2-27b-it"])
def test_more_gpus_in_a_group_that_trains_never_take_more_memory_each(model: str, method: str) -> None:
    peaks = []
    for gpus in (1, 2, 4, 8):
        asked = {"gpu": "b200-sxm-180gb", "gpu_count": gpus, "tp": gpus, "method": method, "framework": "nemo"}
        peaks.append(capplan.llm.train_estimate(model, **asked, micro_batch=1).estimate.memory.peak.expected)
    assert all(more <= fewer for fewer, more in pairwise(peaks)), peaks


@pytest.fixture(scope="module")
def network() -> Trace:
    return capplan.trace("torchvision:resnet18")


def usd_by_gpu(network: Trace, **limits: Any) -> dict[str, float]:
    """Return what the machines of every GPU cost in an hour that carry 5,000 samples a second within some limits."""
    plan = capplan.plan(network, batches=[32], gpus=PRICED, rate_per_s=5000, **limits)
    return {fit.gpu.id: usd for fit in plan.fits if (usd := plan.usd_per_hour(fit)) is not None}


@pytest.mark.parametrize(
    ("limit", "ever_tighter"),
    [
        ("max_latency_s", (None, 0.1, 0.03, 0.01, 0.003)),
        ("min_throughput_per_s", (None, 300, 1000, 3000, 10_000)),
        ("utilization_fraction", (1.0, 0.5, 0.1, 0.02)),
        ("max_usd_per_hour", (None, 30.0, 10.0, 3.0, 1.0)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_tighter_limit_is_never_cheaper_on_any_gpu(
    network: Trace, limit: str, ever_tighter: tuple[float | None, ...]
) -> None:
    costs = [usd_by_gpu(network, **({} if value is None else {limit: value})) for value in ever_tighter]
    assert len(costs[0]) > 30
    assert len(costs[-1]) < len(costs[0])
    for looser, tighter in pairwise(costs):
        assert {gpu for gpu, usd in tighter.items() if usd < looser.get(gpu, INF) * (1 - 1e-9)} == set()


@pytest.mark.parametrize("rate", [1, 777, 25_000, 1e6])
def test_price_times_machines_is_what_an_hour_costs(network: Trace, rate: float) -> None:
    plan = capplan.plan(network, batches=[32], gpus=PRICED, rate_per_s=rate)
    for fit in at_least(30, (fit for fit in plan.fits if fit.rent is not None)):
        needed = ceil(rate / fit.latency.throughput_per_s.low - 1e-9)
        machines = ceil(needed / fit.rent.instance_gpus)
        assert plan.usd_per_hour(fit) == pytest.approx(machines * fit.rent.instance_gpus * fit.rent.usd_per_hour)
        seconds = 1e6 / fit.latency.throughput_per_s.expected
        assert fit.usd_per_million_samples == pytest.approx(seconds / 3600 * fit.rent.usd_per_hour)


def test_price_times_hours_is_what_a_job_costs(network: Trace) -> None:
    plan = capplan.plan(network, batches=[32], gpus=PRICED, samples=2e9, epochs=3)
    for fit in at_least(30, plan.fits):
        hours = plan.gpu_hours(fit)
        assert hours.expected == pytest.approx(6e9 / fit.latency.throughput_per_s.expected / 3600)


@pytest.mark.parametrize(
    ("model", "rate"),
    mostly_nightly(
        [("qwen3-8b", 2), ("llama-3.1-70b-instruct", 3), ("qwen3-30b-a3b", 40), ("deepseek-r1", 1)], daily=["qwen3-8b"]
    ),
)
def test_price_times_machines_is_what_an_hour_of_a_deployment_costs(model: str, rate: float) -> None:
    plan = capplan.llm.plan(model, rate_per_s=rate, input_len=1000, output_len=200).plan
    for fit in at_least(3, (fit for fit in plan.fits if fit.rent is not None)):
        assert fit.machines * fit.rent.instance_gpus >= fit.gpus == fit.replicas * fit.sharding.gpus
        usd = fit.machines * fit.rent.instance_gpus * fit.rent.usd_per_hour
        assert fit.usd_per_hour == pytest.approx(usd)
        tokens = fit.rate_per_s * 200 * 3600
        assert fit.usd_per_million_output_tokens == pytest.approx(1e6 * usd / tokens)


@pytest.mark.parametrize("method", mostly_nightly(["full", "qlora"], daily=["qlora"]))
def test_price_times_hours_is_what_a_training_run_costs(method: str) -> None:
    plan = capplan.llm.train_plan("llama-3.1-8b-instruct", tokens=3e8, method=method, max_gpus=16)
    for priced in at_least(5, (each for each in plan.kept if each.usd is not None)):
        gpus = priced.estimate.job.layout.gpus
        machines = ceil(gpus / priced.offer.instance_gpus)
        hours = priced.run.wall_s.expected / 3600
        usd = hours * machines * priced.offer.instance_gpus * priced.offer.usd_per_hour
        assert priced.usd.expected == pytest.approx(usd)


@pytest.mark.parametrize("rate", [0, -1, 5e-324, 1e-300])
def test_a_rate_that_no_service_has_is_refused_in_a_sentence(rate: float) -> None:
    with pytest.raises(UsageError, match="at least 1e-9 requests per second"):
        capplan.llm.plan("qwen3-8b", gpus=["l40s"], tp=[1], rate_per_s=rate)
