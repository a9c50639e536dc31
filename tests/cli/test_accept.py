"""`capplan accept` on the CPU of the machine, against plans for CPUs that are much slower and much faster."""

import json
from datetime import date
from pathlib import Path

import pytest

from capplan.core.gpus.spec import GpuSpec, PeakKind, Segment
from capplan.specs.gpus.template import render_cpu_sheet
from tests.cli.conftest import Run


def planned(run: Run, folder: Path, *, flops_per_s: float) -> Path:
    """Write a plan for a CPU of some rate."""
    cpu = GpuSpec(
        id="cpu-at-hand", name="A CPU", vendor="Intel", architecture="x86", architecture_id="x86-avx2",
        segment=Segment.CPU, memory_bytes=16 * 2**30, unit_count=1,
        memory_bandwidth_bytes_per_s=max(1e9, flops_per_s / 20),
        peak_flops_per_s={PeakKind.FP32: flops_per_s},
    )  # fmt: skip
    (folder / "cpu-at-hand.yaml").write_text(render_cpu_sheet(cpu, read_on=date(2026, 11, 27)))
    plan = folder / "plan.json"
    words = [
        "plan",
        "squeezenet1_1",
        "--batch",
        1,
        "--gpu",
        "cpu-at-hand",
        "--specs",
        folder,
        "--json",
        "-o",
        plan,
        "--force",
    ]
    result = run(*words)
    assert result.exit_code == 0, result.stderr
    return plan


@pytest.mark.slow
def test_a_machine_is_accepted_that_is_faster_than_its_plan_and_refused_that_is_slower(
    run: Run, tmp_path: Path
) -> None:
    # 0.7 GFLOP take 0.7 s at 1 GFLOP/s, and microseconds at 100 TFLOP/s: no machine lies between
    slow = planned(run, tmp_path, flops_per_s=1e9)
    measured = tmp_path / "measured.jsonl"
    words = ["measure", "squeezenet1_1", "--batch", 1, "--device", "cpu", "-o", measured]
    assert run(*words).exit_code == 0
    accepted = run("accept", slow, "--specs", tmp_path, "--measured", measured, "--json")
    document = json.loads(accepted.stdout)
    assert accepted.exit_code == 0
    (time_found,) = (finding for finding in document["findings"] if finding["what"].startswith("latency"))
    assert time_found["mark"] in ("as planned", "remark")
    fast = planned(run, tmp_path, flops_per_s=1e14)
    refused = run("accept", fast, "--specs", tmp_path, "--measured", measured)
    assert refused.exit_code == 1
    assert refused.stdout.startswith("Refused: latency, batch 1")
