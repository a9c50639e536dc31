"""`capplan llm train`: verdicts and exit codes, documents, and rows of measured runs, here and in Python."""

import csv
import io
import json
import math
import operator
from pathlib import Path
from typing import Any

import pytest

import capplan
from tests.cli.conftest import Run

LLAMA = "llama-3.1-8b-instruct"


def test_a_job_that_fits_exits_0_and_one_that_does_not_exits_1(run: Run) -> None:
    fits = run("llm", "train", "memory", LLAMA, "--gpu", "h100-sxm5-80gb", "--method", "qlora", "--fits")
    assert (fits.exit_code, fits.stdout.count("\n")) == (0, 1)
    assert fits.stdout.startswith("It fits")
    # weights, gradients and moments in 16 bits alone are 8 bytes × 8.03 B = 59.8 GiB
    full = run("llm", "train", "memory", LLAMA, "--gpu", "l4", "--states", "pure", "--fits")
    assert full.exit_code == 1
    assert full.stdout.startswith("It does not fit")


def test_the_parts_of_the_document_sum_to_the_peak(run: Run) -> None:
    result = run("llm", "train", "memory", LLAMA, "--gpu", "h100-sxm5-80gb", "--method", "lora", "--json")
    memory = json.loads(result.stdout)["memory"]
    whole = sum(part["value"] for part in memory["parts_bytes"])
    assert whole == pytest.approx(memory["peak_bytes"]["expected"])
    assert memory["parts_bytes"][0] == {"part": "weights", "value": pytest.approx(2 * 8.03e9, rel=1e-3)}


def test_a_table_in_bytes_has_a_row_for_each_part(run: Run) -> None:
    result = run("llm", "train", "memory", LLAMA, "--gpu", "h100-sxm5-80gb", "--method", "lora", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(result.stdout.split("\n\n")[0])))
    assert rows[0]["part"] == "weights"
    assert {"model", "gpu", "part", "bytes"} <= rows[0].keys()


def test_a_run_has_days_money_and_failures(run: Run) -> None:
    result = run(
        "llm", "train", "estimate", LLAMA, "--gpu", "h100-sxm5-80gb", "--gpus", 64, "--tokens", "100G", "--json"
    )  # fmt: skip
    estimate = json.loads(result.stdout)["estimate"]
    run_found = estimate["run"]
    assert run_found["tokens"] == 1e11
    speed = estimate["tokens_per_s"]["expected"]
    assert run_found["wall_s"]["expected"] >= 1e11 / speed
    hours = run_found["wall_s"]["expected"] * 64 / 3600
    assert run_found["gpu_hours"]["expected"] == pytest.approx(hours)
    assert estimate["usd"]["expected"] == pytest.approx(hours * estimate["usd_per_gpu_hour"])
    assert estimate["mfu_fraction"] <= estimate["hfu_fraction"] <= 1
    assert "--parallelism.data_parallel_shard_degree 64" in estimate["launch"]


def test_a_plan_names_the_cheapest_the_fastest_and_the_fewest(run: Run) -> None:
    words = ["llm", "train", "plan", LLAMA, "--gpu", "a100-sxm4-80gb", "--gpu", "h100-sxm5-80gb", "--method", "lora"]
    result = run(*words, "--samples", "50k", "--seq-len", 2048, "--gpus", 1, "--gpus", 8, "--json")
    plan = json.loads(result.stdout)
    assert result.exit_code == 0
    every = plan["all"]
    assert plan["cheapest"]["usd"]["expected"] == min(each["usd"]["expected"] for each in every)
    assert plan["fastest"]["tokens_per_s"]["expected"] == max(each["tokens_per_s"]["expected"] for each in every)
    assert plan["fewest"]["job"]["gpus"] == min(each["job"]["gpus"] for each in every)
    late = run(*words, "--samples", "50k", "--gpus", 1, "--deadline", "1s")
    assert late.exit_code == 1
    assert "None of 2 runs that would fit keeps the limits" in late.stdout
    assert {line.partition(" ")[0] for line in late.stdout.splitlines()} >= {"quickest", "cheapest"}


def test_measured_runs_are_judged_and_others_are_listed_with_reasons(run: Run, tmp_path: Path) -> None:
    columns = "model,gpu,framework,task,gpus,seq_len,micro_batch,activation_checkpointing,tokens_per_s_per_gpu,outcome"
    rows = [
        "llama-3-8b,h100-sxm5-80gb,torchtitan,pretrain,8,8192,1,selective op,5900,ok",
        "llama-3-8b,l4,torchtitan,pretrain,1,8192,1,none,,oom",
        "llama-3-8b,h100-sxm5-80gb,torchtitan,pretrain,,8192,1,none,5900,ok",
        "no-such-model,h100-sxm5-80gb,torchtitan,pretrain,8,8192,1,none,5900,ok",
    ]
    file = tmp_path / "runs.csv"
    file.write_text("\n".join([columns, *rows]))
    result = run("llm", "train", "validate", file, "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 0
    assert [row["measured"] for row in found["rows"]] == [5900]
    assert next(each for each in found["verdicts"] if each["ran_out"])["predicted_fits"] is False
    assert [row["line"] for row in found["skipped"]] == [4, 5]
    assert "neither gpus nor dp is stated" in found["skipped"][0]["reason"]
    assert "its layers are not stated" in found["skipped"][1]["reason"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--tp", "3", "--gpus", "3"], "does not divide the 32 query heads"),
        (["--base", "nf4"], "add --method lora or qlora"),
        (["--framework", "torchtitam"], "unknown framework of training 'torchtitam'"),
        (["--method", "lora", "--targets", "foo"], "'foo' names no matrix"),
    ],
)
def test_what_is_not_possible_is_refused_in_a_sentence(run: Run, words: list[str], sentence: str) -> None:
    result = run("llm", "train", "memory", LLAMA, "--gpu", "h100-sxm5-80gb", *words)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1


def test_python_asks_the_same() -> None:
    answer = capplan.llm.train_memory(LLAMA, gpu="rtx-4090", method="qlora", seq_len=2048)
    assert answer.fits
    assert answer.job.sequence_tokens == 2048
    estimate = capplan.llm.train_estimate(LLAMA, gpu="h100-sxm5-80gb", gpu_count=8, tokens=1e9)
    assert estimate.run is not None
    assert estimate.run.tokens == 1e9


def test_a_deadline_is_kept_by_as_few_gpus_as_whole_machines_allow(run: Run) -> None:
    # 397,291 tokens/s on 40 GPUs train 1 T tokens in 29.1 days (a planner's layout with 960 sequences a step)
    words = ["llm", "train", "plan", "llama-2-7b", "--tokens", "1T", "--gpu", "h100-sxm5-80gb", "--max-gpus", 64]
    plan = json.loads(run(*words, "--deadline", "30d", "--json").stdout)
    fewest = plan["fewest"]
    assert fewest["run"]["wall_s"]["expected"] <= 30 * 86400
    assert fewest["job"]["gpus"] % 8 == 0
    assert 32 < fewest["job"]["gpus"] < 64
    fewer = json.loads(run(*words, "--gpus", fewest["job"]["gpus"] - 8, "--json").stdout)
    assert fewer["fastest"]["run"]["wall_s"]["expected"] > 30 * 86400


def test_a_deadline_is_kept_with_the_certainty_that_is_asked(run: Run) -> None:
    words = ["llm", "train", "plan", "llama-2-7b", "--tokens", "1T", "--gpu", "h100-sxm5-80gb", "--max-gpus", 128]
    fewest = []
    # log-normal: the 95th percentile lies 1.645 deviations above what is expected, the 90th 1.282
    for share, deviations in ((0.5, 0.0), (0.9, 1.282)):
        plan = json.loads(run(*words, "--deadline", "30d", "--certainty", share, "--json").stdout)
        time_s = plan["fewest"]["run"]["wall_s"]
        deviation = math.log(time_s["high"] / time_s["expected"]) / 1.645
        assert time_s["expected"] * math.exp(deviations * deviation) <= 30 * 86400 * 1.001
        fewest.append(plan["fewest"]["job"]["gpus"])
    assert fewest[0] < fewest[1]


def test_a_plan_lists_the_runs_that_none_beats_in_time_money_and_energy(run: Run) -> None:
    words = ["llm", "train", "plan", LLAMA, "--gpu", "a100-sxm4-80gb", "--gpu", "h100-sxm5-80gb", "--gpu", "l40s"]
    plan = json.loads(run(*words, "--method", "lora", "--tokens", "1G", "--max-gpus", 16, "--json").stdout)

    def efforts(entry: dict[str, Any]) -> tuple[float, float, float]:
        return (
            entry["run"]["wall_s"]["expected"],
            entry["usd"]["expected"] if entry["usd"] else math.inf,
            entry["energy_j"]["expected"],
        )

    every, best = ([efforts(entry) for entry in plan[name]] for name in ("all", "efficient"))
    assert len(every) > len(best) > 1
    assert set(best) == {
        own for own in every
        if not any(other != own and all(map(operator.le, other, own)) for other in every)
    }  # fmt: skip
    assert {min(every), min(every, key=lambda each: each[1]), min(every, key=lambda each: each[2])} <= set(best)


def test_a_power_limit_lengthens_a_step_and_binds_the_power(run: Run) -> None:
    words = ["llm", "train", "estimate", LLAMA, "--gpu", "h100-sxm5-80gb", "--gpus", 8, "--tokens", "1G"]
    plain, capped, loose = (
        json.loads(run(*words, *more, "--json").stdout)["estimate"]
        for more in ((), ("--power-limit", "400W"), ("--power-limit", "700W"))
    )
    assert capped["power_w"]["high"] <= 8 * 400 < plain["power_w"]["expected"] <= 8 * 700
    assert capped["step_s"]["expected"] > plain["step_s"]["expected"]
    assert sum(part["value"] for part in capped["parts_s"]) == pytest.approx(capped["step_s"]["expected"])
    assert loose["step_s"] == plain["step_s"]
    # power × time of a step, for each of its tokens
    assert capped["joules_per_token"]["expected"] * capped["tokens_per_s"]["expected"] == pytest.approx(
        capped["power_w"]["expected"]
    )
    shown = run(*words, "--energy").stdout
    assert "power of the GPUs" in shown
    assert "kWh" in shown


def test_a_power_limit_that_a_card_does_not_take_is_refused(run: Run) -> None:
    words = ["--tokens", "1G", "--power-limit", "20W", "--gpu", "h100-sxm5-80gb"]
    refused = run("llm", "train", "estimate", LLAMA, *words)
    assert refused.exit_code == 2
    assert "20.0 W asked" in refused.stderr
    planned = run("llm", "train", "plan", LLAMA, *words)
    assert planned.exit_code == 1
    assert "20.0 W asked" in planned.stdout


def test_limits_of_a_run_need_its_tokens(run: Run) -> None:
    refused = run("llm", "train", "plan", LLAMA, "--gpu", "l40s", "--deadline", "3d")
    assert (refused.exit_code, "--tokens" in refused.stderr) == (2, True)


def test_counts_without_a_layout_are_named(run: Run) -> None:
    words = ["llm", "train", "plan", "llama-2-7b", "--gpu", "h100-sxm5-80gb", "--gpus", 7, "--gpus", 8]
    result = run(*words, "--global-batch", 1024, "--framework", "torchtune")
    assert (
        "7 × h100-sxm5-80gb is left out: a global batch (--global-batch) that does not divide"
        in result.stdout.replace("\n  ", " ")
    )


def test_what_fits_nowhere_names_what_is_needed_and_what_would_fit(run: Run) -> None:
    words = ["llm", "train", "plan", "llama-3.3-70b-instruct", "--method", "qlora", "--gpu", "rtx-3090", "--gpus", 2]
    result = run(*words, "--tokens", "50M", "--seq-len", 2048, "--json")
    plan = json.loads(result.stdout)
    assert result.exit_code == 1
    # 70.6 B parameters in 4.127 bits are 36.4 GB, half of them on each GPU, beside activations
    assert plan["nearest"]["needed_bytes"] > plan["nearest"]["usable_bytes"] > 23 * 2**30
    assert "--offload parameters" in [way["change"] for way in plan["ways"]]
    assert all(way["run"]["memory"]["fit_probability"] > 0.5 for way in plan["ways"])
