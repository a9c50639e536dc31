"""Read rows of the ML.ENERGY benchmark and the power of serving runs."""

import gzip
from pathlib import Path

import pytest

from capplan.llm.core.serving.cases import Metric, Serving
from capplan.llm.core.sharding import Sharding
from capplan.llm.read.serving_rows import read_serving

HEADER = (
    "model,task,engine,weights,gpu,gpus,tp,ep,dp,max_num_seqs,avg_batch,avg_output_tokens,output_tokens_per_s,"
    "power_w_all_gpus,joule_per_output_token"
)


def rows(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "energy.csv.gz"
    path.write_bytes(gzip.compress("\n".join((HEADER, *lines)).encode()))
    return path


def test_a_row_of_the_benchmark_is_a_full_replica_with_a_power_meter(tmp_path: Path) -> None:
    path = rows(tmp_path, "Qwen/Qwen3-8B,gpqa,vllm,bfloat16,h100-sxm5-80gb,1,1,1,1,16,15.9,7000,1340,541,0.404")
    (run,) = read_serving(path).runs
    assert run.serving is Serving.STEADY
    assert (run.clients, run.output_len) == (15.9, 7000)
    assert 100 <= run.input_len <= 700  # the description of the data: some hundred tokens
    assert run.values == {Metric.OUTPUT_TOKENS_PER_S: 1340}
    energy = run.energy
    assert energy is not None
    assert (energy.power_w, energy.joules_per_output_token, energy.running) == (541, 0.404, 15.9)
    assert energy.is_timed


def test_tensor_and_expert_parallelism_share_the_same_gpus(tmp_path: Path) -> None:
    # the benchmark's tables state tp 1, ep 8 on 8 GPUs; attention data parallelism halves the tensor group of 4 to 2
    path = rows(
        tmp_path,
        "m,lm-arena-chat,vllm,bfloat16,b200-sxm-180gb,8,1,8,1,16,16,500,900,4000,4.4",
        "m,lm-arena-chat,vllm,bfloat16,b200-sxm-180gb,4,1,4,4,16,16,500,900,2000,2.2",
    )
    spread, ranks = read_serving(path).runs
    assert spread.sharding == Sharding(tensor=8, expert=8)
    assert ranks.sharding == Sharding(tensor=1, expert=4, data=4)
    assert (spread.replicas, ranks.replicas) == (1, 1)


def test_times_of_requests_with_images_are_not_judged_but_their_power_is(tmp_path: Path) -> None:
    path = rows(tmp_path, "m,image-chat,vllm,bfloat16,h100-sxm5-80gb,1,1,1,1,16,16,500,900,500,0.5")
    (run,) = read_serving(path).runs
    assert run.values == {}
    assert run.energy is not None
    assert not run.energy.is_timed


@pytest.mark.parametrize(
    ("line", "reason"),
    [("m,chat,vllm,b,g,x,1,1,1,8,8,5,9,5,5", "'x'"), ("m,new,vllm,b,g,1,1,1,1,8,8,5,9,5,5", "input_len is empty")],
)
def test_a_row_that_cannot_be_read_is_listed_with_the_reason(tmp_path: Path, line: str, reason: str) -> None:
    found = read_serving(rows(tmp_path, line))
    assert not found.runs
    assert reason in found.skipped[0].reason


def test_a_serving_table_may_state_power_beside_times(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(
        "model,gpu,engine,input_len,output_len,concurrency,tpot_ms,power_w\nm,h100-sxm5-80gb,vllm,100,200,8,9,430\n"
    )
    (run,) = read_serving(path).runs
    assert run.values == {Metric.TPOT: pytest.approx(0.009)}
    assert run.energy is not None
    assert run.energy.power_w == 430
    assert run.energy.joules_per_output_token is None
