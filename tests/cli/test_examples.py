"""The reports in examples/ are what the commands beside them make.

After a wanted change, renew them: CAPPLAN_RENEW_EXAMPLES=1 pytest tests/cli/test_examples.py, and read the diff. The
plans they start from are renewed by the commands that `examples/README.md` gives.
"""

import os
from pathlib import Path

import pytest

from tests.cli.conftest import EXAMPLES, Run

REPORTS = {
    "image-service": ("resnet50.plan.json", "1..64"),
    "nightly-job": ("resnet50.plan.json", "1..64"),
    "training": ("resnet50-training.plan.json", "32..256"),
}


@pytest.mark.parametrize("name", REPORTS)
def test_the_example_report_is_remade(name: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1795219200")  # 2026-11-21
    plan, batches = REPORTS[name]
    words = [
        "report",
        plan,
        "--batch",
        batches,
        "--provider",
        "aws",
        "--provider",
        "gcp",
        "--load",
        f"{name}.load.yaml",
    ]
    monkeypatch.setattr("sys.argv", ["capplan", *words])
    made = tmp_path / "report.md"
    result = run(*words, "-o", made)
    assert result.exit_code == 0, result.stderr
    kept = EXAMPLES / f"{name}.report.md"
    if os.environ.get("CAPPLAN_RENEW_EXAMPLES"):
        kept.write_text(made.read_text())
    assert made.read_text() == kept.read_text()
