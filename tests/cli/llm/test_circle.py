"""From the metrics of a running service to a load, a plan, the acceptance of a machine, and the next plan."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from tests.app.acceptance.test_machine_files import smi
from tests.app.observed.prometheus_server import Replay, running_prometheus
from tests.cli.conftest import Run
from tests.llm.core.fleet.test_launch_files import SCHEMAS

MONDAY_S = 1_700_438_400
DEPLOYMENT = ("llama-3.1-8b-instruct", "--gpu", "h100-sxm5-80gb", "--tp", "1", "--engine", "vllm", "--max-tpot", "40ms")


def replay() -> Replay:
    """A day of 120 requests a minute, 360 from 14 h to 15 h."""
    return Replay(
        end_s=MONDAY_S + 86400,
        requests=[360 if minute // 60 == 14 else 120 for minute in range(24 * 60)],
        prompt_tokens={500.0: 0.25, 1000.0: 0.5, 2000.0: 0.25},
        prompt_mean=800.0,
        answer_tokens={100.0: 0.5, 200.0: 0.5},
        answer_mean=110.0,
        ttft_s={0.25: 1.0},
        ttft_mean_s=0.1,
        tpot_s={0.025: 1.0},
        tpot_mean_s=0.01,
        hit_fraction=0.25,
    )


def bench(path: Path, *, tpot_ms: float, clients: int = 16) -> Path:
    """Write a result in the form of `vllm bench serve --save-result`, whose tokens per second go with its times."""
    ttft_ms, prompt, answer = 90.0, 800, 110
    output_per_s = clients * answer / ((ttft_ms + tpot_ms * (answer - 1)) / 1000)
    result = {
        "completed": 400, "total_input_tokens": 400 * prompt, "total_output_tokens": 400 * answer,
        "request_rate": "inf", "max_concurrency": clients, "mean_ttft_ms": ttft_ms, "mean_tpot_ms": tpot_ms,
        "output_throughput": output_per_s,
    }  # fmt: skip
    path.write_text(json.dumps(result))
    return path


@pytest.mark.prometheus
@pytest.mark.slow
def test_the_circle_from_metrics_to_the_next_plan(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(MONDAY_S + 86400))
    load, plan, rows = tmp_path / "LOAD.yaml", tmp_path / "plan.json", tmp_path / "ours.csv"
    with running_prometheus(tmp_path, replay()) as url:
        result = run("load", "--from-prometheus", url, "--range", "1d", "-o", load)
    assert result.exit_code == 0, result.stderr

    result = run("llm", "plan", *DEPLOYMENT, "--load", load, "--json", "-o", plan)
    assert result.exit_code == 0, result.stderr
    planned = json.loads(plan.read_text())
    assert planned["load"]["rate_per_s"] == pytest.approx(6.0, rel=0.02)  # 360 a minute
    assert planned["load"]["prefix_fraction"] == pytest.approx(0.25, rel=0.01)
    assert planned["recommended"]["evidence"] != "calibrated"
    expected_s = planned["recommended"]["tpot_s"]["expected"]

    result = run(
        "llm",
        "plan",
        *DEPLOYMENT,
        "--load",
        load,
        "--running",
        "6 x h100-sxm5-80gb",
        "--launch-files",
        tmp_path / "start",
    )
    assert result.exit_code == 0, result.stderr
    assert "you run 6 × h100-sxm5-80gb" in " ".join(result.stdout.split())
    task = yaml.safe_load((tmp_path / "start" / "skypilot.yaml").read_text())
    jsonschema.Draft7Validator(SCHEMAS["skypilot"]["task"]).validate(task)
    assert planned["launch"]["arguments"][-1] in task["run"]

    machine = tmp_path / "smi.txt"
    machine.write_text(smi(count=planned["recommended"]["gpus"]))
    result = run("accept", plan, "--machine", machine, "--benchmark", bench(tmp_path / "slow.json", tpot_ms=200.0))
    assert result.exit_code == 1
    assert "Refused: TPOT" in result.stdout

    good = bench(tmp_path / "good.json", tpot_ms=expected_s * 1000)
    page = tmp_path / "acceptance.html"
    result = run("accept", plan, "--machine", machine, "--benchmark", good, "--rows", rows, "-o", page)
    assert result.exit_code == 0, result.stderr
    assert "What was compared" in page.read_text()

    answer = json.loads(run("llm", "plan", *DEPLOYMENT, "--load", load, "--measured", rows, "--json").stdout)
    assert "measured run" in answer["recommended"]["evidence"]
    monkeypatch.setenv("CAPPLAN_MEASURED", str(tmp_path))  # the folder of a team
    answer = json.loads(run("llm", "plan", *DEPLOYMENT, "--load", load, "--json").stdout)
    assert "measured run" in answer["recommended"]["evidence"]
    judged = run("llm", "validate", rows, "--json")
    assert judged.exit_code == 0, judged.stderr


def test_a_plan_of_another_machine_is_refused_by_its_count(run: Run, tmp_path: Path) -> None:
    plan, machine = tmp_path / "plan.json", tmp_path / "smi.txt"
    run("llm", "plan", *DEPLOYMENT, "--rate", "60", "--json", "-o", plan)
    assert json.loads(plan.read_text())["recommended"]["gpus"] > 1
    machine.write_text(smi(count=1))
    result = run("accept", plan, "--machine", machine, "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["verdict"] == "refused"
    assert document["decided_by"]["what"] == "GPUs"


@pytest.mark.parametrize("content", ["{}", "[]", '{"recommended": null, "certainty_fraction": 0.9}', "x"])
def test_what_is_no_plan_is_refused_in_a_sentence(run: Run, tmp_path: Path, content: str) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(content)
    result = run("accept", plan, "--benchmark", bench(tmp_path / "bench.json", tpot_ms=10.0))
    assert result.exit_code == 2
    assert "plan.json" in result.stderr


def test_a_load_file_that_states_what_runs_is_planned_anew(run: Run, tmp_path: Path) -> None:
    load = tmp_path / "LOAD.yaml"
    load.write_text('llm: {rate: 20, input_len: 800, output_len: 110}\nrunning: "6 x NVIDIA H100 80GB HBM3"\n')
    result = run("llm", "plan", DEPLOYMENT[0], "--load", load, "--engine", "vllm", "--max-tpot", "40ms", "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    replan = document["replan"]
    assert (replan["gpus"], replan["gpu"]) == (6, "h100-sxm5-80gb")
    assert {fit["gpu"] for fit in document["fits"]} == {"h100-sxm5-80gb"}
    assert 1 <= replan["gpus_with_fp8"] <= replan["gpus_needed"] < 6
    assert "-  replicas: 6  #" in replan["change"]
    refused = run("llm", "plan", DEPLOYMENT[0], "--rate", "20", "--running", "some H100s")
    assert refused.exit_code == 2
    assert "is a number and a GPU" in refused.stderr
