"""`plan`, `estimate`, `compare` and `report` take the filters of `gpus` and of prices alike."""

import json
from pathlib import Path

import pytest

import capplan
from tests.cli.conftest import NET, Run

ONE_WAY = {"compare": ("--precision", "fp32", "--framework", "eager")}


def gpus_of(run: Run, command: str, trace: Path, *words: str) -> set[str]:
    result = run(command, trace, "--batch", "8", *ONE_WAY.get(command, ()), *words, "--format", "json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    found = {"plan": "fits", "estimate": "estimates", "compare": "rows"}[command]
    return {each["gpu"] for each in [*document[found], *document.get("rejections", ())]}


@pytest.mark.parametrize("command", ["plan", "estimate", "compare"])
def test_filters_are_those_of_gpus(run: Run, net_trace: Path, command: str) -> None:
    words = ("--vendor", "NVIDIA", "--arch", "turing", "--min-memory", "16GiB", "--where", "tdp <= 75 W")
    passed = {each["id"] for each in json.loads(run("gpus", *words, "--format", "json").stdout)["gpus"]}
    assert passed
    assert gpus_of(run, command, net_trace, *words) == passed


@pytest.mark.parametrize("command", ["plan", pytest.param("estimate", marks=pytest.mark.nightly)])
@pytest.mark.slow
def test_price_filters_leave_the_same_gpus(run: Run, net_trace: Path, command: str) -> None:
    planned = json.loads(run("plan", net_trace, "--batch", "8", "--json").stdout)["fits"]
    cheap = {fit["gpu"] for fit in planned if fit["rent"] and fit["rent"]["usd_per_hour"] <= 1}
    assert cheap
    assert gpus_of(run, command, net_trace, "--max-price", "1") == cheap
    priced = {fit["gpu"] for fit in planned if fit["rent"]}
    assert gpus_of(run, command, net_trace, "--priced") == priced


def test_a_comparison_without_names_takes_recommended_gpus_of_the_price(run: Run, net_trace: Path) -> None:
    planned = json.loads(run("plan", net_trace, "--batch", "8", "--max-price", "1", "--json").stdout)
    recommended = {each["gpu"] for each in planned["recommended"].values()}
    assert gpus_of(run, "compare", net_trace, "--max-price", "1") == recommended


@pytest.mark.parametrize("command", ["plan", "estimate", "compare", "report"])
def test_where_nothing_passes_it_is_said(run: Run, net_trace: Path, command: str) -> None:
    result = run(command, net_trace, "--batch", "8", "--max-price", "0.0001")
    assert result.exit_code == 2
    assert "no GPU asked for costs at most 0.0001 USD an hour; the cheapest machine is " in result.stderr
    result = run(command, net_trace, "--batch", "8", "--provider", "nobody")
    assert result.exit_code == 2
    assert "unknown provider 'nobody'" in result.stderr


def test_a_report_compares_the_gpus_that_the_price_leaves(run: Run, net_trace: Path, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    words = ("--batch", "8", "--max-price", "1", "-o", path)
    segments = ("--segment", "data-centre", "--segment", "workstation", "--segment", "consumer")
    assert run("report", net_trace, *words, *segments).exit_code == 0
    planned = json.loads(run("plan", net_trace, "--batch", "8", "--max-price", "1", "--json").stdout)["fits"]
    (model,) = json.loads(path.read_text())["models"]
    assert {each["gpu"] for each in model["options"]} == {fit["gpu"] for fit in planned}


def test_an_estimate_without_gpus_asks_for_some(run: Run, net_trace: Path) -> None:
    result = run("estimate", net_trace)
    assert result.exit_code == 2
    assert "--gpu l4" in result.stderr


def test_of_several_gpus_those_that_cannot_run_it_are_left_out(run: Run, net_trace: Path) -> None:
    result = run("estimate", net_trace, "--gpu", "t4,tpu-v4", "--batch", "8", "--json")
    assert result.exit_code == 0, result.stderr
    assert [each["gpu"] for each in json.loads(result.stdout)["estimates"]] == ["t4"]
    assert "tpu-v4 is left out: PyTorch's eager mode does not run on tpu-v4" in result.stderr


@pytest.mark.slow
def test_python_takes_the_same_filters() -> None:
    made = capplan.estimate(NET, inputs=["x=3x64x64"], batches=[8], gpus=["l4", "a100"], max_usd_per_hour=1)
    limits = {report.breakdown.gpu.id for report in made.reports}
    planned = capplan.plan(NET, inputs=["x=3x64x64"], batches=[8], gpus=["l4", "a100"], max_usd_per_hour=1)
    assert limits == {fit.gpu.id for fit in planned.fits}
