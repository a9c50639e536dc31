"""`capplan load` writes a file that the other commands take."""

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from capplan.cli.main import app
from tests.cli.conftest import Run

BEGIN = datetime(2026, 11, 23, tzinfo=UTC)


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A day of requests: one each 10 s, two a second from 14 h to 15 h; LiteLLM's payloads, each of 3 s."""
    folder = tmp_path_factory.mktemp("load")
    draw = np.random.default_rng(3)
    begin_s = BEGIN.timestamp()
    lines = []
    for second in range(86_400):
        for _ in range(2 if second // 3600 == 14 else int(second % 10 == 0)):
            at_s = begin_s + second + float(draw.uniform(0, 0.999))
            tokens = {"prompt_tokens": int(draw.integers(500, 1500)), "completion_tokens": int(draw.integers(50, 250))}
            times = {"startTime": at_s, "completionStartTime": at_s + 0.4, "endTime": at_s + 3.0}
            lines.append(json.dumps({**times, **tokens, "status": "success"}))
    (folder / "calls.jsonl").write_text("\n".join(lines))
    words = ["load", "--from-logs", str(folder / "calls.jsonl"), "-o", str(folder / "LOAD.yaml")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.stderr
    return folder / "LOAD.yaml"


def test_llm_plan_plans_for_the_busiest_hour_of_the_file(run: Run, load: Path) -> None:
    words = ("llm", "plan", "qwen3-8b", "--gpu", "h100-sxm5-80gb", "--tp", "1", "--engine", "vllm", "--load", load)
    stated = json.loads(run(*words, "--json").stdout)["load"]
    assert stated["rate_per_s"] == pytest.approx(2.0, rel=0.01)
    assert stated["input_len"] == pytest.approx(1000, rel=0.01)
    assert stated["output_len"] == pytest.approx(150, rel=0.01)
    # evenly drawn lengths: deviation = range / √12
    assert stated["input_cv"] == pytest.approx(1000 / 12**0.5 / 1000, rel=0.02)
    assert stated["output_cv"] == pytest.approx(200 / 12**0.5 / 150, rel=0.02)
    other = json.loads(run(*words, "--rate", "7", "--json").stdout)["load"]
    assert (other["rate_per_s"], other["input_len"]) == (7.0, stated["input_len"])


def test_llm_simulate_takes_the_day_of_the_file(run: Run, load: Path) -> None:
    words = ("llm", "simulate", "qwen3-8b", "--gpu", "h100-sxm5-80gb", "--requests", "200")
    result = run(*words, "--load", load, "--json")
    assert result.exit_code == 0, result.stderr
    hours = json.loads(result.stdout)["loads"]
    rates = [hour["rate_per_s"] for hour in hours]  # as 200 drawn requests came
    assert len(rates) == 24
    assert rates[14] == pytest.approx(2.0, rel=0.3)
    assert rates[:14] == pytest.approx([0.1] * 14, rel=0.3)


def test_report_takes_the_service_of_the_file(run: Run, load: Path, net_trace: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    result = run("report", str(net_trace), "--load", load, "--gpu", "l4", "-o", report)
    assert result.exit_code in (0, 1), result.stderr
    demand = json.loads(report.read_text())["demand"]["load"]
    assert demand["peak_per_s"] == pytest.approx(2.0, rel=0.01)
    assert demand["latency_limit_s"] == pytest.approx(3.0, rel=0.01)
    assert demand["percentile"] == 95.0


def test_a_source_is_stated_once(run: Run, load: Path) -> None:
    for words in ((), ("--from-logs", load, "--from-prometheus", "http://localhost:9090")):
        result = run("load", *words)
        assert result.exit_code == 2
        assert "--from-logs FILE" in result.stderr
        assert "--from-prometheus URL" in result.stderr


def test_a_damaged_day_of_a_load_file_is_refused(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "LOAD.yaml"
    path.write_text("llm: {rate: 2}\nobserved: {daily_per_s: [1, 2]}\n")
    result = run("llm", "simulate", "qwen3-8b", "--gpu", "h100-sxm5-80gb", "--load", path)
    assert result.exit_code == 2
    assert "observed.daily_per_s: must be 24 rates" in result.stderr
