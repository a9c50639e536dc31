"""`capplan llm plan` and `capplan llm simulate` as a user calls them."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

PLAN = ("llm", "plan", "qwen3-8b", "--gpu", "l40s", "--gpu", "h100-sxm5-80gb", "--tp", "1")
SIMULATE = ("llm", "simulate", "qwen3-8b", "--gpu", "h100-sxm5-80gb", "--requests", "200")


def test_a_plan_sizes_replicas_so_that_each_stays_below_its_highest_rate(run: Run) -> None:
    found = json.loads(run(*PLAN, "--rate", "30", "--max-tpot", "40ms", "--json").stdout)
    assert found["fits"]
    for fit in found["fits"]:
        assert 30 / fit["replicas_needed"] <= fit["max_rate_per_s_per_replica"] * (1 + 1e-9)
        assert fit["replicas_needed"] == 1 or 30 / (fit["replicas_needed"] - 1) > fit["max_rate_per_s_per_replica"]
        assert fit["tpot_s"]["expected"] <= 0.040
        assert fit["gpus"] == fit["replicas"] * fit["tp"]
        if fit["rent"]:
            hourly = fit["gpus"] * fit["rent"]["usd_per_hour"]
            # 30 requests of 256 tokens are 27.648 million tokens an hour.
            assert fit["usd_per_million_output_tokens"] == pytest.approx(hourly / 27.648, rel=1e-9)


def test_redundancy_adds_replicas(run: Run) -> None:
    plain, spare = (
        json.loads(run(*PLAN, "--rate", "30", "--redundancy", count, "--json").stdout)["fits"] for count in ("0", "1")
    )
    by_gpu = {fit["gpu"]: fit["replicas"] for fit in plain}
    assert {fit["gpu"]: fit["replicas"] - 1 for fit in spare} == by_gpu


def test_limits_that_nothing_meets_are_answered_with_reasons_and_exit_1(run: Run) -> None:
    result = run(*PLAN, "--rate", "1", "--max-tpot", "1us", "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["recommended"] is None
    assert {each["gpu"] for each in found["rejections"]} == {"l40s", "h100-sxm5-80gb"}
    assert all("exceeds the limit" in each["reason"] for each in found["rejections"])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((*PLAN, "--rate", "0"), "--rate must be above 0"),
        ((*PLAN, "--rate", "1", "--max-ttft", "0s"), "write a time above 0"),
        ((*PLAN[:3], "--gpu", "l41", "--rate", "1"), "l41"),
        ((*SIMULATE, "--rate", "0"), "above 0"),
        ((*SIMULATE, "--rate", "8..1"), "write 2, 0.5,1,2 or 1..16"),
    ],
)
def test_bad_words_get_one_sentence(run: Run, words: tuple[str, ...], sentence: str) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_simulation_answers_each_rate_with_ordered_percentiles(run: Run) -> None:
    found = json.loads(run(*SIMULATE, "--rate", "1..4", "--max-ttft", "1s", "--json").stdout)
    assert len(found["loads"]) == 3
    for load in found["loads"]:
        for name in ("ttft_s", "tpot_s", "e2e_s"):
            assert load[name]["p50"] <= load[name]["p90"] <= load[name]["p99"]
        assert 0 <= load["goodput_fraction"] <= 1


def test_requests_of_a_file_keep_their_own_times(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "requests.csv"
    path.write_text("arrival_s,input_len,output_len\n" + "".join(f"{10 * i},100,5\n" for i in range(30)))
    found = json.loads(run(*SIMULATE, "--rate", "1", "--lengths", path, "--json").stdout)
    (load,) = found["loads"]
    assert load["requests"] == 30
    assert load["rate_per_s"] == pytest.approx(30 / 290)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ("arrival_s,input_len,output_len\n5,1,1\n4,1,1\n", "line 3: arrives at 4 s, before the line above"),
        ("input_len,output_len\n-1,1\n", "line 2: input_len must be a number of at least 1"),
        ("input_len,output_len\nnan,1\n", "line 2: input_len must be a number of at least 1"),
        ("input_len\n1\n", "lacks the column output_len"),
        ("input_len,output_len\n", "holds 0 requests"),
    ],
)
def test_a_bad_file_of_requests_is_refused(run: Run, tmp_path: Path, rows: str, sentence: str) -> None:
    path = tmp_path / "requests.csv"
    path.write_text(rows)
    result = run(*SIMULATE, "--rate", "1", "--lengths", path)
    assert result.exit_code == 2
    assert sentence in result.stderr
