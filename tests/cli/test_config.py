"""Configuration files as the command line applies them, and `capplan config`."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run


def test_options_win_over_the_files_and_the_files_over_what_is_built_in(
    run: Run, net_trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "capplan.toml").write_text('gpu = ["t4", "l4"]\n[plan]\nbatch = "8"\n')
    assert "batch 8 " in run("plan", net_trace).stdout
    assert "2 of 2 GPUs" in run("plan", net_trace).stdout
    overridden = run("plan", net_trace, "--gpu", "t4", "--batch", "4").stdout
    assert "batch 4 " in overridden
    assert "1 of 1 GPUs" in overridden
    shown = run("config").stdout
    assert "plan" in shown
    assert "t4, l4" in shown


def test_a_command_without_settings_reads_no_file(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "capplan.toml").write_text("nonsense = 1")
    assert run("schema", "plan").exit_code == 0
    assert run("plan", "resnet50").exit_code == 2


def test_own_prices_of_a_file_hold_for_every_command(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`specs` is where an engineer puts what was quoted: a command that ignored it would answer with others' prices."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quotes.csv").write_text(
        "gpu,provider,term,price,gpus,date\nh100-sxm5-80gb,our-supplier,on-demand,0.4,8,2026-11-01\n"
    )
    assert run("prices", "import", "quotes.csv", "-o", "mine").exit_code == 0
    (tmp_path / "capplan.toml").write_text('specs = ["mine"]\n')
    (listed,) = json.loads(run("prices", "--provider", "our-supplier", "--json").stdout)["prices"]
    assert (listed["usd_per_hour"], listed["instance_gpus"]) == (0.05, 8)
    words = "llm train plan llama-3-8b-instruct --tokens 1B --gpu h100-sxm5-80gb --gpus 8 --json"
    cheapest = json.loads(run(*words.split()).stdout)["cheapest"]
    hours = cheapest["run"]["gpu_hours"]["expected"]
    assert cheapest["usd"]["expected"] == pytest.approx(0.05 * hours)  # 0.05 USD for an hour of one GPU
    assert "mine" in next(row for row in run("config").stdout.splitlines() if row.startswith("serve "))
