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
    ],
    ids=["limits at a percentile", "clients", "nothing carries it", "embedding"],
)
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
    assert "TPOT ≤ 80.0 ms (p95)" in shown
    assert " ".join(shown.split()).count(", p95 ") == 2


def test_each_gpu_has_one_row_among_the_other_choices(run):
    shown = run("llm", "plan", "llama-3.1-8b-instruct", "--gpu", "l40s,h100-pcie-80gb,l4", "--rate", "4").stdout
    rows = [line.split()[0] for line in shown.splitlines() if line.startswith(("l40s ", "h100-", "l4 "))]
    assert len(rows) == len(set(rows)) == 2
