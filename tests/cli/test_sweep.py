"""`capplan sweep` and `capplan query` as people use them."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run


@pytest.fixture
def file(tmp_path: Path, net_trace: Path) -> Path:
    path = tmp_path / "sweep.yaml"
    path.write_text(f"models: [{net_trace}]\ngpus: [l4, t4]\nworkloads:\n  - {{batch: [1, 32], precision: [fp32]}}\n")
    return path


def test_a_sweep_is_computed_kept_and_asked(run: Run, file: Path, tmp_path: Path) -> None:
    out = tmp_path / "results"
    first = run("sweep", file, "-o", out, "--workers", 1, "--progress", "json")
    assert first.exit_code == 0, first.stderr
    events = [json.loads(line) for line in first.stderr.splitlines()]
    assert [event["event"] for event in events] == ["started", "progress", "ended"]
    assert "4 rows of 1 models × 2 GPUs × 1 workloads" in first.stdout

    again = run("sweep", file, "-o", out, "--json", "--progress", "none")
    assert json.loads(again.stdout)["kept"] == 1
    assert again.stderr == ""

    sql = "select gpu, batch, fits from sweep order by gpu, batch"
    answer = run("query", out, sql, "--format", "csv")
    assert answer.stdout.splitlines() == ["gpu,batch,fits", "l4,1,true", "l4,32,true", "t4,1,true", "t4,32,true"]
    assert json.loads(run("query", out, sql, "--json", "--limit", 1).stdout) == [
        {"gpu": "l4", "batch": 1, "fits": True}
    ]
    assert run("query", out, "cheapest", "-o", tmp_path / "best.parquet").exit_code == 0
    import pyarrow.parquet as pq

    assert pq.read_table(tmp_path / "best.parquet").num_rows == 1
    table = run("query", out, "fits", "--where", "gpu = 't4'").stdout
    assert table.splitlines()[0].split()[:3] == ["model", "precision", "framework"]
    assert len(table.splitlines()) == 2 + 2


def test_errors_name_what_was_given_and_what_would_do(run: Run, file: Path, tmp_path: Path) -> None:
    out = tmp_path / "results"
    assert run("sweep", file, "-o", out, "--workers", 1).exit_code == 0
    cases = [
        (("sweep", tmp_path / "missing.yaml", "-o", out), "missing.yaml: cannot be read"),
        (("query", out, "chepest"), "did you mean cheapest"),
        (("query", out, "regressions"), "add --against FOLDER"),
        (("query", tmp_path, "fits"), "holds no results of a sweep"),
        (("query", out, "fits", "--format", "parquet"), "add -o FILE.parquet"),
        (("query", out, "select 1", "--where", "batch = 1"), "write the condition into the query"),
        (("query", out, "regressions", "--against", out, "--threshold", "much"), "is not a share"),
    ]
    for words, message in cases:
        refused = run(*words)
        assert refused.exit_code == 2, words
        assert message in refused.stderr


def test_a_sweep_of_which_every_model_fails_exits_with_3(run: Run, net_trace: Path, tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text(f"models: [{net_trace}]\ngpus: [l4]\nworkloads: [{{precision: bf16}}]\n")
    failed = run("sweep", path, "-o", tmp_path / "out", "--workers", 1)
    assert failed.exit_code == 3
    assert "1 recording:" in failed.stdout
