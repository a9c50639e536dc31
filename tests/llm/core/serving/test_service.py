"""What clients see: laws between the answers of one deployment, and cases worked out by hand."""

from dataclasses import replace

import pytest

from capplan.llm.core.serving.cases import Serving, ServingCase, answer
from capplan.llm.core.serving.load_curve import open_load
from capplan.llm.core.serving.priors import PRIOR, default_layout
from capplan.llm.core.serving.service import (
    Demand,
    ServedDeployment,
    closed_loop,
    fixed_batch,
    lone_ttft_s,
    offline,
)
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.timing.calibration import KernelClass
from capplan.llm.core.timing.constants import Constants
from capplan.llm.core.timing.engine_rules import decode_class, engine_variant, prefill_class
from capplan.llm.core.timing.work import Arithmetic, Load
from tests.llm.core.architectures import LLAMA_8B
from tests.llm.core.timing.test_step_time import machine
from tests.llm.core.timing.test_work import kernels

DEMAND = Demand(input_len=512, output_len=128, capacity=256, spread=0.1)


def constants() -> Constants:
    layout = default_layout()
    return layout.view(layout.pack(PRIOR))


def service(engine: str = "vllm", *, pipeline: int = 1) -> ServedDeployment:
    return ServedDeployment(
        kernels=kernels(LLAMA_8B, sharding=Sharding(pipeline=pipeline)),
        machine=machine(),
        engine=engine,
        constants=constants(),
    )


def test_a_static_batch_is_its_prefill_and_then_a_step_a_token() -> None:
    times = fixed_batch(service("trtllm"), DEMAND, batch=8)
    whole_s = times.ttft_s + 127 * times.tpot_s
    assert times.output_tokens_per_s == pytest.approx(8 * 128 / whole_s)
    # the mean context of the answer's tokens is 512 + 64
    step = service("trtllm").step(Load.of(decoding=8, context=512 + 64))
    assert times.tpot_s == pytest.approx(float(step.total_s[0]))


def test_a_burst_takes_the_time_of_its_steps_whatever_later_requests_wait() -> None:
    # Eight requests meet an idle engine: its constants of waits in a loop under way say nothing of them. All eight
    # prompts fit into the first step, whose end is the first token of each; a lone prompt and a constant of the engine
    # are all that is added.
    burst = replace(DEMAND, requests=8.0, spread=0.0)
    asked = service("vllm")
    engines = asked.constants.blocks | {"engine/lockstep_scale": 9.0 * asked.constants.engine("lockstep_scale")}
    slow = replace(asked, constants=replace(asked.constants, blocks=engines))
    times = closed_loop(asked, burst, clients=8)
    assert closed_loop(slow, burst, clients=8) == times
    first_s = float(asked.step(Load.of(prefilled=8 * 512, prompts=8)).total_s[0])
    added_s = (1.2 - 1.0) * lone_ttft_s(asked, burst) + 0.02  # the prior's share and offset
    assert times.ttft_s == pytest.approx(first_s + added_s, rel=0.02)
    whole_s = times.ttft_s + 127 * times.tpot_s
    assert times.output_tokens_per_s == pytest.approx(8 * 128 / whole_s, rel=0.01)


def test_a_static_batch_that_does_not_fit_runs_in_waves() -> None:
    # 40 of 100 sequences fit: two whole waves of 40 and one of 20, one after another
    small = replace(DEMAND, capacity=40.0)
    seconds = [count * 128 / fixed_batch(service(), DEMAND, batch=count).output_tokens_per_s for count in (40, 20)]
    times = fixed_batch(service(), small, batch=100)
    assert times.running == 40
    assert times.output_tokens_per_s == pytest.approx(100 * 128 / (2 * seconds[0] + seconds[1]))


def test_parts_of_a_prompt_fill_the_pipeline_of_llama_cpp() -> None:
    # 2,048 tokens in four parts of 512 pass four stages in 4 + 3 passes of a part; vLLM's whole prompt passes all four
    demand = replace(DEMAND, input_len=2048)
    part = Load.of(prefilled=512.0, prompts=1.0, past=(2048 - 512) / 2)
    four = service("llama.cpp", pipeline=4)
    assert lone_ttft_s(four, demand) == pytest.approx(7 * float(four.step(part).total_s[0]))
    whole = service(pipeline=4)
    step = whole.step(Load.of(prefilled=2048.0, prompts=1.0))
    assert lone_ttft_s(whole, demand) == pytest.approx(4 * float(step.total_s[0]))


def test_a_run_with_a_beginning_and_an_end_is_slower_and_tends_to_the_endless_one() -> None:
    endless = closed_loop(service(), DEMAND, clients=32).output_tokens_per_s
    rates = [
        closed_loop(service(), replace(DEMAND, requests=32.0 * waves), clients=32).output_tokens_per_s
        for waves in (1, 4, 40)
    ]
    assert rates == sorted(rates)
    assert rates[0] < rates[-1] <= endless * 1.01
    assert rates[-1] == pytest.approx(endless, rel=0.05)


def test_an_offline_run_gives_its_batch_once_a_step() -> None:
    times = offline(service(), DEMAND)
    assert times.running == 256
    assert times.output_tokens_per_s == pytest.approx(256 / times.tpot_s)


def test_an_offline_run_of_whole_waves_is_as_fast_as_an_endless_one() -> None:
    endless = offline(service(), DEMAND).output_tokens_per_s
    assert offline(service(), replace(DEMAND, requests=3 * 256.0)).output_tokens_per_s == pytest.approx(endless)


def test_the_last_wave_of_an_offline_run_decodes_in_a_smaller_batch() -> None:
    # 300 requests of which 256 fit: 128 steps of 256 sequences, then 128 of 44; each wave's prompts are added
    deployment, run = service(), replace(DEMAND, requests=300.0)
    steps = [
        float(deployment.step(Load.of(decoding=size, context=512 + 64)).total_s[0]) * 128 for size in (256.0, 44.0)
    ]
    taken_s = 300 * 128 / offline(deployment, run).output_tokens_per_s
    prompts_s = taken_s - sum(steps)
    endless_s = 300 * 128 / offline(deployment, DEMAND).output_tokens_per_s
    assert 0 < prompts_s < endless_s
    assert taken_s > endless_s


def test_an_offline_run_of_fewer_requests_than_fit_runs_them_at_once() -> None:
    small = offline(service(), replace(DEMAND, requests=16.0)).output_tokens_per_s
    assert small == pytest.approx(offline(service(), replace(DEMAND, capacity=16.0)).output_tokens_per_s)


def test_a_pipeline_has_as_many_passes_in_flight_as_stages() -> None:
    # two stages: each pass holds half of the batch, and a sequence's next token needs both stages
    times = offline(service(pipeline=2), DEMAND)
    half = service(pipeline=2).step(Load.of(decoding=128, context=576))
    assert times.tpot_s > 2 * float(half.total_s[0])
    assert times.output_tokens_per_s > offline(service(), DEMAND).output_tokens_per_s


def test_an_open_load_gives_what_it_is_asked_until_it_is_saturated() -> None:
    easy = open_load(service(), DEMAND, rate_per_s=2.0)
    busy = open_load(service(), DEMAND, rate_per_s=20.0)
    flooded = open_load(service(), DEMAND, rate_per_s=1e6)
    assert easy.output_tokens_per_s == pytest.approx(2.0 * 128)
    assert easy.tpot_s < busy.tpot_s
    assert easy.running < busy.running
    assert easy.ttft_s < busy.ttft_s
    assert flooded == replace(offline(service(), DEMAND), is_saturated=True)


def test_the_requests_in_an_open_load_obey_littles_law() -> None:
    times = open_load(service(), DEMAND, rate_per_s=10.0)
    # requests in the system = rate · (time to the first token + a step for each token)
    assert times.running == pytest.approx(10.0 * (lone_ttft_s(service(), DEMAND) + 128 * times.tpot_s), rel=0.02)


def test_one_client_waits_at_least_for_its_prompt() -> None:
    times = closed_loop(service(), DEMAND, clients=1)
    alone = service().step(Load.of(decoding=1, context=576))
    assert times.tpot_s == pytest.approx(float(alone.total_s[0]), rel=0.01)
    assert times.ttft_s > lone_ttft_s(service(), DEMAND)


def test_clients_beyond_the_capacity_wait_and_those_inside_keep_their_pace() -> None:
    roomy = closed_loop(service("trtllm"), Demand(input_len=512, output_len=128, capacity=64), clients=64)
    tight = closed_loop(service("trtllm"), Demand(input_len=512, output_len=128, capacity=16), clients=64)
    assert tight.running == 16
    # vLLM does not keep room for whole answers: 16 · 640 tokens hold 17.8 requests with half of their answers
    evicting = closed_loop(service("vllm"), Demand(input_len=512, output_len=128, capacity=16), clients=64)
    assert evicting.running == pytest.approx(16 * 640 / 576)
    assert tight.ttft_s > 3 * roomy.ttft_s
    assert tight.tpot_s < roomy.tpot_s


def test_what_first_tokens_take_longer_does_not_multiply_the_wait_for_memory() -> None:
    layout = default_layout()
    slow = replace(PRIOR.engines["sglang"], ttft_scale=2.0)
    doubled = layout.view(layout.pack(replace(PRIOR, engines={**PRIOR.engines, "sglang": slow})))
    full = replace(DEMAND, capacity=32)
    once, twice = (
        closed_loop(replace(service("sglang"), constants=each), full, clients=64) for each in (constants(), doubled)
    )
    # half of the clients wait for memory, so that most of the time to the first token is that wait
    assert once.ttft_s < twice.ttft_s < 1.3 * once.ttft_s
    # and no more tokens a second are lost by it than by an engine's own delays
    assert twice.output_tokens_per_s > 0.85 * once.output_tokens_per_s


def test_replicas_share_the_clients_and_add_their_tokens() -> None:
    one = ServingCase(
        kernels=service().kernels,
        machine=machine(),
        engine="vllm",
        demand=DEMAND,
        serving=Serving.CLOSED_LOOP,
        clients=8,
    )
    four = ServingCase(
        kernels=service().kernels,
        machine=machine(),
        engine="vllm",
        demand=DEMAND,
        serving=Serving.CLOSED_LOOP,
        clients=32,
        replicas=4,
    )
    single, fleet = answer(one, constants()), answer(four, constants())
    assert fleet.tpot_s == single.tpot_s
    assert fleet.output_tokens_per_s == pytest.approx(4 * single.output_tokens_per_s)


@pytest.mark.parametrize(
    ("engine", "version", "variant", "decode"),
    [
        ("trtllm", (0, 10), "trtllm before 0.11", KernelClass.DECODE_VECTOR),
        ("trtllm", (0, 17), "trtllm before 1.0", KernelClass.DECODE_GQA),
        ("trtllm", (1, 2), "trtllm", KernelClass.DECODE_GQA),
        ("trtllm", None, "trtllm", KernelClass.DECODE_GQA),
        ("vllm", (0, 6, 3), "vllm before 0.8", KernelClass.DECODE_GQA),
        ("vllm", (0, 9), "vllm before 0.11", KernelClass.DECODE_GQA),
        ("vllm", (0, 11), "vllm before 0.14", KernelClass.DECODE_GQA),
        ("vllm", (0, 14), "vllm", KernelClass.DECODE_GQA),
        ("llama.cpp", (2024,), "llama.cpp before 2025", KernelClass.DECODE_GQA),
        ("llama.cpp", (2025,), "llama.cpp", KernelClass.DECODE_GQA),
    ],
)
def test_generations_of_an_engine_have_their_own_constants(
    engine: str, version: tuple[int, ...] | None, variant: str, decode: KernelClass
) -> None:
    assert engine_variant(engine, version) == variant
    assert decode_class(engine, version=version) is decode


@pytest.mark.parametrize(
    ("version", "cache_bytes", "queries", "decode"),
    [
        # "New XQA-kernel provides 2.4x more Llama-70B throughput" (TensorRT-LLM 0.8): 64 query heads on 8, cache in fp8
        ((0, 7), 1, 8, KernelClass.DECODE_VECTOR),
        ((0, 8), 1, 8, KernelClass.DECODE_GQA),
        ((0, 8), 2, 8, KernelClass.DECODE_VECTOR),
        ((0, 10), 1, 4, KernelClass.DECODE_VECTOR),
        ((0, 11), 2, 8, KernelClass.DECODE_VECTOR),
        ((0, 11), 2, 4, KernelClass.DECODE_GQA),
        ((0, 12), 2, 8, KernelClass.DECODE_GQA),
    ],
)
def test_grouped_queries_reached_tensor_cores_in_fp8_first(
    version: tuple[int, ...], cache_bytes: float, queries: float, decode: KernelClass
) -> None:
    both = frozenset({Arithmetic.HALF, Arithmetic.FP8})
    found = decode_class("trtllm", version=version, cache_bytes=cache_bytes, units=both, queries=queries)
    assert found is decode


def test_attention_in_fp8_on_tensor_cores_needs_a_gpu_that_has_them() -> None:
    half = frozenset({Arithmetic.HALF})
    assert decode_class("trtllm", version=(0, 8), cache_bytes=1, units=half, queries=8) is KernelClass.DECODE_VECTOR


def test_fp8_attention_needs_an_fp8_cache_units_for_it_and_an_engine_that_has_it() -> None:
    both = frozenset({Arithmetic.HALF, Arithmetic.FP8})
    assert prefill_class("trtllm", cache_bytes=1, units=both) is KernelClass.PREFILL_FP8
    assert prefill_class("trtllm", cache_bytes=2, units=both) is KernelClass.PREFILL
    assert prefill_class("trtllm", cache_bytes=1, units=frozenset({Arithmetic.HALF})) is KernelClass.PREFILL
    assert prefill_class("vllm", cache_bytes=1, units=both) is KernelClass.PREFILL
