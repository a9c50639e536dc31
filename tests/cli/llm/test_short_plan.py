"""The short answer of `capplan llm plan`: one screen."""

import pytest

from capplan.report.text.llm.short_plan import MOST_LINES


@pytest.mark.parametrize(
    "load",
    [
        ("--rate", "4", "--max-tpot", "60ms", "--max-ttft", "2s", "--percentile", "95"),
        ("--concurrency", "8"),
        ("--rate", "4", "--max-tpot", "1ms"),
        ("--rate", "20", "--task", "embed"),
        ("--rate", "4", "--launch", "--growth", "50%", "--api-price", "0.1,0.2"),
    ],
    ids=["limits at a percentile", "clients", "nothing carries it", "embedding", "launch"],
)
@pytest.mark.slow
def test_a_plan_is_one_screen_without_a_row_twice(run, load):
    lines = run("llm", "plan", "llama-3.1-8b-instruct", "--gpu", "l40s,h100-pcie-80gb,l4", *load).stdout.splitlines()
    assert 3 <= len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= 100
    filled = [line for line in lines if line.strip()]
    assert len(set(filled)) == len(filled)


def test_the_percentile_that_a_limit_holds_is_printed(run):
    shown = run(
        "llm",
        "plan",
        "llama-3.1-8b-instruct",
        "--gpu",
        "l40s",
        "--rate",
        "4",
        "--max-tpot",
        "80ms",
        "--percentile",
        "95",
    ).stdout
    assert "TPOT ≤ 80.0 ms (p95, 90% sure)" in shown
    assert " ".join(shown.split()).count(", p95 ") == 2


@pytest.mark.slow
def test_each_gpu_has_one_row_among_the_other_choices(run):
    shown = run("llm", "plan", "llama-3.1-8b-instruct", "--gpu", "l40s,h100-pcie-80gb,l4", "--rate", "4").stdout
    rows = [line.split()[0] for line in shown.splitlines() if line.startswith(("l40s ", "h100-", "l4 "))]
    assert len(rows) == len(set(rows)) == 2


def test_measured_runs_reach_simulation_and_plan(run, tmp_path):
    rows = tmp_path / "mine.csv"
    rows.write_text(
        "model,gpu,engine,tp,input_len,output_len,concurrency,tpot_ms,lengths\n"
        "llama-3.1-8b-instruct,l40s,vllm,1,1024,256,8,60,uniform 0.8..1\n"
    )
    asked = ("llama-3.1-8b-instruct", "--gpu", "l40s", "--engine", "vllm", "--measured", rows)
    simulated = run("llm", "simulate", *asked, "-c", "8")
    assert "Measured runs (1) change the time of steps by a factor of 1." in simulated.stdout
    planned = run("llm", "plan", *asked, "--tp", "1", "--rate", "1")
    assert "calibrated with a measured run of this deployment" in " ".join(planned.stdout.split())


def test_a_plan_refuses_runs_that_do_not_name_their_deployment(run, tmp_path):
    result = tmp_path / "result.json"
    result.write_text(
        '{"mean_tpot_ms": 20.0, "max_concurrency": 8, "num_prompts": 80, "completed": 80,'
        ' "total_input_tokens": 81920, "total_output_tokens": 20480}'
    )
    refused = run("llm", "plan", "llama-3.1-8b-instruct", "--gpu", "l40s", "--rate", "1", "--measured", result)
    assert refused.exit_code == 2
    assert "does not name its model and GPU" in refused.stderr


def test_what_is_asked_does_not_fit_in_the_table_of_choices_either(run):
    said = run("llm", "memory", "llama-3.1-70b-instruct", "--gpu", "t4").stdout  # 140 GB of weights on 16 GB
    [asked] = [line for line in said.splitlines() if line.startswith("as asked")]
    assert "does not fit" in asked


def test_adapters_take_memory_and_time(run):
    asked = ("llama-3.1-8b-instruct", "--gpu", "h100-sxm5-80gb")
    said = run("llm", "memory", *asked, "--adapters", "20", "--lora-rank", "16").stdout
    # 41,943,040 parameters (PEFT, r = 16 on all linear layers) of 2 bytes, twenty times: 1.5625 GiB
    assert "weights include 1.56 GiB of 20 LoRA adapters of rank 16" in said
    command = run("llm", "plan", *asked, "--rate", "1", "--engine", "vllm", "--adapters", "20", "--launch").stdout
    assert "--max-loras 20" in command
