"""Prefill and decode on replicas of their own: sizes and times by hand."""

from dataclasses import replace
from math import ceil

import numpy as np
import pytest

from capplan.llm.core.fleet.disaggregated import DisaggregatedFit, Side, disaggregate
from capplan.llm.core.fleet.token_load import TokenLoad
from capplan.llm.core.serving.service import decode_step_s, lone_ttft_s
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.simulation.load_answer import LatencyLimits
from tests.llm.core.fleet.fits import rented
from tests.llm.core.serving.test_service import service

LOAD = TokenLoad(rate_per_s=20.0, input_len=512, output_len=128)
RENT = rented(2.0)
SIDE = Side(
    gpu="some-gpu",
    service=service(),
    sharding=Sharding(),
    demand=LOAD.demand(256),
    kv_bytes_per_token=131_072.0,
    rent=RENT,
)
NAMES = ("vllm", "bf16")


def found(limits: LatencyLimits, **changes: float) -> DisaggregatedFit | None:
    settings = {"link_bytes_per_s": 50e9, **changes}
    return disaggregate(SIDE, SIDE, load=LOAD, limits=limits, names=NAMES, **settings)


def test_each_kind_of_replica_carries_its_part_of_the_load() -> None:
    made = found(LatencyLimits(tpot_s=0.02))
    assert made is not None
    prompt_s = lone_ttft_s(service(), LOAD.demand(256))
    assert made.prefill_s == pytest.approx(prompt_s)
    assert made.prefill.replicas == ceil(20 * prompt_s / 0.95)
    # A decode replica gives its running sequences a token each step, and is filled to 95 %.
    assert made.decode.replicas * made.decode_running * 0.95 / (128 * made.tpot_s) >= 20
    assert made.tpot_s <= 0.02
    assert made.usd_per_hour == 2.0 * made.gpus


def test_a_decode_step_holds_no_prompts() -> None:
    made = found(LatencyLimits(tpot_s=0.02))
    assert made is not None
    alone = decode_step_s(service(), LOAD.demand(1.0), np.array([made.decode_running]))
    assert made.tpot_s == pytest.approx(float(alone[0]))


def test_the_cache_crosses_the_network() -> None:
    fast, slow = found(LatencyLimits()), found(LatencyLimits(), link_bytes_per_s=5e9)
    assert fast is not None
    assert slow is not None
    # 512 tokens x 131,072 bytes at 50 and at 5 GB/s.
    assert fast.transfer_s == pytest.approx(512 * 131_072 / 50e9)
    assert slow.ttft_s - fast.ttft_s == pytest.approx(slow.transfer_s - fast.transfer_s)


def test_a_first_token_takes_its_prefill_the_transfer_a_handover_and_a_step() -> None:
    light = disaggregate(
        SIDE, SIDE, load=replace(LOAD, rate_per_s=1e-6), limits=LatencyLimits(), names=NAMES, link_bytes_per_s=50e9
    )
    assert light is not None
    # no prompt waits for another one; on average one and a half decode steps pass
    parts_s = light.prefill_s + light.transfer_s + 0.15 + 1.5 * light.tpot_s
    assert light.ttft_s == pytest.approx(parts_s, rel=1e-4)


def test_prompts_and_answers_may_be_on_different_gpus() -> None:
    dear = replace(SIDE, gpu="other-gpu", rent=replace(RENT, usd_per_hour=3.0))
    made = disaggregate(SIDE, dear, load=LOAD, limits=LatencyLimits(), names=NAMES, link_bytes_per_s=50e9)
    assert made is not None
    assert (made.gpu, made.prefill.gpu, made.decode.gpu) == (None, "some-gpu", "other-gpu")
    assert made.usd_per_hour == 2.0 * made.prefill.gpus + 3.0 * made.decode.gpus


def test_limits_that_nothing_keeps_leave_nothing() -> None:
    assert found(LatencyLimits(tpot_s=1e-6)) is None
    assert found(LatencyLimits(ttft_s=1e-6)) is None


def test_images_are_encoded_and_prefixes_fetched_before_the_first_token() -> None:
    slower = replace(SIDE, demand=replace(SIDE.demand, encoder_s=0.2, loaded_s=0.03))
    load = replace(LOAD, rate_per_s=1e-6)
    plain, seen = (
        disaggregate(side, SIDE, load=load, limits=LatencyLimits(), names=NAMES, link_bytes_per_s=50e9)
        for side in (SIDE, slower)
    )
    assert plain is not None
    assert seen is not None
    assert seen.prefill_s - plain.prefill_s == pytest.approx(0.2)
    assert seen.ttft_s - plain.ttft_s == pytest.approx(0.23)
