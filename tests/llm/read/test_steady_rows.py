"""Runs under steady load, as the ML.ENERGY benchmark publishes them."""

import gzip
from pathlib import Path

import pytest

from capplan.llm.core.serving.asked import Sampling
from capplan.llm.core.serving.cases import Metric, Serving
from capplan.llm.read.serving_rows import read_serving

HEADER = (
    "model,task,gpu,engine,gpus,ep,dp,max_num_seqs,avg_batch,avg_output_tokens,itl_median_ms,power_w_all_gpus,"
    "itl_p90_ms\n"
)


def rows(folder: Path, *lines: str) -> Path:
    path = folder / "steady.csv.gz"
    path.write_bytes(gzip.compress((HEADER + "".join(f"{line}\n" for line in lines)).encode()))
    return path


def test_the_median_gap_of_a_steady_run_is_its_time_between_tokens(tmp_path):
    found = read_serving(rows(tmp_path, "Qwen/Qwen3-8B,lm-arena-chat,h100-sxm5-80gb,vllm,4,4,2,96,95.8,642,17.8,2000"))
    (run,) = found.runs
    assert run.serving is Serving.STEADY
    assert run.values == {Metric.TPOT: pytest.approx(0.0178)}
    assert (run.sharding.tensor, run.sharding.expert, run.sharding.data) == (2, 4, 2)
    assert run.sampling is Sampling.FILTERED
    assert run.energy is not None


@pytest.mark.parametrize(
    "line",
    [
        "Qwen/Qwen3-VL-8B-Instruct,video-chat,h100-sxm5-80gb,vllm,1,1,1,8,8,400,20,400",
        "Qwen/Qwen3-8B,lm-arena-chat,h100-sxm5-80gb,vllm,1,1,1,512,512,640,47,600",
        "Qwen/Qwen3-8B,gpqa,b200-sxm-180gb,vllm,1,1,1,8,8,8290,32.5,320,51.0",
    ],
    ids=["prompts that are not known", "a prompt in most steps", "uneven gaps with hardly a prompt"],
)
def test_rows_whose_steps_are_not_known_say_nothing_of_time(line, tmp_path):
    assert not read_serving(rows(tmp_path, line)).runs[0].values


def test_a_row_without_a_number_is_skipped_with_its_reason(tmp_path):
    found = read_serving(rows(tmp_path, "Qwen/Qwen3-8B,lm-arena-chat,h100-sxm5-80gb,vllm,1,1,1,8,,640,8,500"))
    assert not found.runs
    assert "could not convert" in found.skipped[0].reason
