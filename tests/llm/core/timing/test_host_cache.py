"""Prefixes in host memory: how many tokens it holds, how long they take to come back, and who waits for them."""

import numpy as np
import pytest

import capplan
from capplan.errors import UsageError
from capplan.llm.core.simulation.arrivals import Arrivals
from capplan.llm.core.timing.machine import HostCache

REPLICA = {"gpu": "h100-sxm5-80gb", "tp": 4, "weights": "fp8", "input_len": 8000, "prefix_fraction": 0.8}


def test_copies_of_prefixes_follow_one_another() -> None:
    # 1 ms a token: the second of two that come at once waits for the first; a prompt without a prefix waits for none.
    cache = HostCache(tokens=1e6, token_s=1e-3)
    waits = cache.waits_s(np.array([0.0, 0.0, 0.05, 9.0]), np.array([100.0, 100.0, 0.0, 50.0]))
    assert waits == pytest.approx([0.1, 0.2, 0.0, 0.05])


def test_host_memory_holds_what_left_the_cache() -> None:
    # Two blocks in the cache and two in the host: prompt 2 pushes 1's blocks out, so that 1 finds them in the host.
    prompts = Arrivals(
        at_s=np.arange(3.0),
        prompts=np.full(3, 21.0),
        answers=np.ones(3, dtype=np.int64),
        blocks=((1, 2), (3, 4), (1, 2)),
        block_tokens=10.0,
    )
    alone, both = prompts.with_cache(20.0), prompts.with_cache(20.0, 20.0)
    assert alone.cached is not None
    assert list(alone.cached) == [0, 0, 0]
    assert both.cached is not None
    assert (list(both.cached), list(both.loaded_tokens)) == ([0, 0, 20], [0, 0, 20])


def test_a_prefix_comes_back_over_each_gpus_own_link() -> None:
    # 80 layers × keys and values × 8 heads × 128 × 2 bytes = 327,680 B a token, a quarter on each GPU. 6,400 tokens
    # over PCIe 5.0 × 16 (63 GB/s) at 0.82 of its rate: 524 MB ÷ 51.7 GB/s = 10.1 ms.
    kept, loaded = (
        capplan.llm.estimate("llama-3.1-70b-instruct", concurrency=[1], kv_offload_bytes=size, **REPLICA).points[0]
        for size in (0, 64 << 30)
    )
    assert loaded.ttft_s.expected - kept.ttft_s.expected == pytest.approx(10.1e-3, rel=0.03)
    assert loaded.tpot_s == kept.tpot_s


def test_estimate_and_simulation_agree_on_prefixes_from_the_host() -> None:
    asked = {**REPLICA, "concurrency": [1, 16], "kv_offload_bytes": 64 << 30}
    points = capplan.llm.estimate("llama-3.1-70b-instruct", **asked).points
    answers = capplan.llm.simulate("llama-3.1-70b-instruct", requests=400, spread=0.11, **asked).answers
    for point, answer, most in zip(points, answers, (0.10, 0.15), strict=True):
        assert answer.ttft_s.mean == pytest.approx(point.ttft_s.expected, rel=most)


def test_a_plan_waits_for_prefixes_from_the_host() -> None:
    asked = {"gpu": "l40s", "rate_per_s": 1, "input_len": 4000, "prefix_fraction": 0.8, "engine": "vllm"}
    kept, loaded = (
        capplan.llm.plan("llama-3.1-8b-instruct", kv_offload_bytes=size, **asked).plan.recommended
        for size in (0, 64 << 30)
    )
    assert loaded.ttft_s.expected > kept.ttft_s.expected


def test_llama_cpp_has_no_such_cache() -> None:
    with pytest.raises(UsageError, match="kv_offload_bytes is for vllm, sglang and trtllm"):
        capplan.llm.memory("llama-3.1-8b-instruct", gpu="rtx-4090", engine="llama.cpp", kv_offload_bytes=1 << 30)
