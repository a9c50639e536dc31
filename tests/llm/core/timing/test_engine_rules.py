"""How engines fill their steps by default: their own source says by which memory."""

from dataclasses import replace

import pytest

from capplan.app.deployments import Deployments
from capplan.llm.core.deployment import NamedDeployment
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.timing.constants import constants_of
from capplan.llm.core.timing.engine_rules import SCHEDULING, SchedulerFlags, scheduling_on
from capplan.llm.core.timing.machine import Machine, machine_of
from capplan.llm.read.calibrations import load_time_calibration
from capplan.specs import load_gpus
from tests.llm.core.timing.test_step_time import H100


def machine(gpu_id: str, gib: int) -> Machine:
    found = machine_of(replace(H100, id=gpu_id, memory_bytes=gib * 2**30))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("gpu_id", "gib", "tokens", "sequences"),
    [("h100-sxm5-80gb", 80, 8192, 1024), ("a100-sxm4-80gb", 80, 2048, 256), ("l40s", 48, 2048, 256)],
)
def test_vllm_fills_steps_of_small_gpus_and_of_the_a100_with_less(gpu_id, gib, tokens, sequences):
    # EngineArgs.get_batch_defaults: 70 GiB and no A100, else the smaller ones
    for engine in ("vllm", "vllm before 0.14"):
        rules = scheduling_on(engine, machine(gpu_id, gib), data=1)
        assert (rules.token_budget, rules.most_sequences) == (tokens, sequences)


@pytest.mark.parametrize(
    ("gib", "data", "tokens"),
    [(24, 1, 2048), (48, 1, 4096), (80, 1, 8192), (141, 1, 8192), (180, 1, 16384), (180, 8, 2048)],
)
def test_sglang_cuts_prompts_by_the_memory_of_a_gpu_and_divides_that_among_ranks(gib, data, tokens):
    # _handle_gpu_memory_settings and _handle_data_parallelism in server_args.py
    assert scheduling_on("sglang", machine("any", gib), data=data).token_budget == tokens


@pytest.mark.parametrize(("version", "gpu", "tokens"), [
    ("0.5.12", "rtx-4090", 2048), ("0.5.20", "rtx-4090", 4096), ("", "rtx-4090", 4096), ("0.5.20", "l40s", 4096),
    ("0.5.20", "rtx-4080", 2048),
])  # fmt: skip
def test_steps_are_timed_as_large_as_memory_is_divided_for(version, gpu, tokens):
    # sglang#37898, in 0.5.20: --chunked-prefill-size 4096 on cards of 20 to 35 GiB
    words = NamedDeployment(
        model="qwen3-8b", gpu=gpu, engine="sglang", weights="fp8", version=version, sharding=Sharding()
    )
    service = Deployments(load_gpus()).find(words).service(constants_of(load_time_calibration()))
    assert service.scheduling.token_budget == tokens


def test_tensorrt_llm_and_llama_cpp_take_one_number_on_every_gpu():
    for engine, tokens in (("trtllm", 8192), ("trtllm before 1.0", 8192), ("llama.cpp", 512)):
        for gpu_id, gib in (("l4", 24), ("b200-sxm-180gb", 180)):
            assert scheduling_on(engine, machine(gpu_id, gib), data=1) == replace(
                SCHEDULING[engine], token_budget=tokens
            )


def test_ranks_share_the_sequences_that_a_replica_is_limited_to():
    flagged = SchedulerFlags(most_sequences=32).applied_to(SCHEDULING["vllm"], data=8)
    assert flagged.most_sequences == 4
