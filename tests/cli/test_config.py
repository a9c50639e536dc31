"""Configuration files as the command line applies them, and `capplan config`."""

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
    assert run("gpus", "--ids").exit_code == 0
    assert run("plan", "resnet50").exit_code == 2
