"""`capplan sweep` and `capplan query` as people use them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run

pytestmark = pytest.mark.slow


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
    assert json.loads(run("query", out, f"{sql} -- by GPU", "--json", "--limit", 1).stdout) == [
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


@pytest.mark.zoo
def test_an_unknown_name_costs_its_own_rows_and_no_others(run: Run, net_trace: Path, tmp_path: Path) -> None:
    """Two GPUs and two batches are four rows of each model, whether or not its name is known."""
    path, out = tmp_path / "sweep.yaml", tmp_path / "results"
    rest = "gpus: [l4, t4]\nworkloads: [{batch: [1, 32]}]\n"
    path.write_text(f"models: [{net_trace}, 'torchvision:resnet81']\n{rest}")
    made = run("sweep", path, "-o", out, "--workers", 1, "--progress", "none")
    assert made.exit_code == 0, made.stderr
    assert "1 model: unknown torchvision model 'resnet81'; did you mean resnet18" in made.stdout
    sql = "select model, status, failure, reason like '%resnet18%' as near, count(*) as n from sweep group by all"
    answer = json.loads(run("query", out, sql, "--json").stdout)
    assert {"model": "torchvision:resnet81", "status": "failed", "failure": "model", "near": True, "n": 4} in answer
    assert sum(row["n"] for row in answer if row["model"] == str(net_trace)) == 4
    again = run("sweep", path, "-o", out, "--json", "--progress", "none", "--strict")
    assert json.loads(again.stdout)["kept"] == 2
    assert again.exit_code == 3


@pytest.mark.zoo
def test_a_sweep_of_unknown_names_or_gpus_is_refused_before_anything_is_written(
    run: Run, net_trace: Path, tmp_path: Path
) -> None:
    path, out = tmp_path / "sweep.yaml", tmp_path / "results"
    for models, gpus, message in (
        ("'torchvision:resnet81', resnett50", "l4", "none of the 2 names is known; the first: unknown"),
        (f"{net_trace}, resnett50", "l44", "unknown GPU 'l44'"),
    ):
        path.write_text(f"models: [{models}]\ngpus: [{gpus}]\nworkloads: [{{batch: 1}}]\n")
        refused = run("sweep", path, "-o", out)
        assert refused.exit_code == 2
        assert message in refused.stderr
        assert not out.exists()


def test_a_dry_run_counts_what_is_left_and_writes_nothing(run: Run, net_trace: Path, tmp_path: Path) -> None:
    """1 trace file × 2 GPUs × (2 + 1 batches of 2 precisions); with 3 GPUs later, 6 of the 9 cells are known."""
    path, out = tmp_path / "sweep.yaml", tmp_path / "results"
    workloads = "workloads: [{batch: [1, 32]}, {batch: 8, precision: amp-fp16}]\n"

    def preview(gpus: str) -> dict[str, Any]:
        path.write_text(f"models: [{net_trace}]\ngpus: [{gpus}]\n{workloads}")
        before = sorted(file.relative_to(tmp_path) for file in tmp_path.rglob("*"))
        shown = run("sweep", path, "-o", out, "--dry-run", "--json")
        assert shown.exit_code == 0, shown.stderr
        assert sorted(file.relative_to(tmp_path) for file in tmp_path.rglob("*")) == before
        return dict(json.loads(shown.stdout))

    first = preview("l4, t4")
    assert (first["cells"], first["kept_cells"], first["to_plan"], first["pairs"], first["files"]) == (6, 0, 6, 2, 2)
    assert first["models_to_trace"] == first["traces"] == first["trace_bytes"]["high"] == 0
    assert run("sweep", path, "-o", out, "--workers", 1).exit_code == 0
    assert preview("l4, t4")["to_plan"] == 0
    more = preview("l4, t4, a10")
    assert (more["cells"], more["kept_cells"], more["to_plan"]) == (9, 6, 3)
    text = run("sweep", path, "-o", out, "--dry-run", "--force").stdout
    assert "9 cells of 1 models × 3 GPUs × 3 batches of 2 workloads; 0 are in the folder" in text
    assert list(out.rglob("*.parquet"))
    size = sum(file.stat().st_size for file in out.rglob("*.parquet"))
    assert first["result_bytes"]["low"] * 0.9 < size < first["result_bytes"]["high"] * 1.1


@pytest.mark.zoo
@pytest.mark.usefixtures("own_cache")
def test_a_dry_run_counts_traces_that_the_cache_holds_and_names_unknown_models(run: Run, tmp_path: Path) -> None:
    """Two models in two configurations need four traces; an unknown one needs none, and is not planned."""
    path, out = tmp_path / "sweep.yaml", tmp_path / "results"
    rest = "gpus: [l4]\nworkloads: [{batch: 1, precision: [fp32, amp-fp16]}]\n"
    path.write_text(f"models: ['torchvision:alexnet', 'torchvision:resnet18', 'torchvision:resnet81']\n{rest}")
    assert run("plan", "torchvision:alexnet", "--gpu", "l4").exit_code == 0
    shown = json.loads(run("sweep", path, "-o", out, "--dry-run", "--json").stdout)
    assert (shown["models_to_trace"], shown["traces"], shown["kept_traces"], shown["traced_models"]) == (2, 4, 1, 0)
    assert (shown["cells"], shown["to_plan"], shown["kept_cells"]) == (6, 4, 0)
    [reason] = shown["unknown"]
    assert reason.startswith("unknown torchvision model 'resnet81'; did you mean resnet18")
    assert not out.exists()


def test_regressions_are_a_gate(run: Run, net_trace: Path, tmp_path: Path) -> None:
    """The same trace under the same name at another batch has nothing to be compared with."""
    out = {}
    for name, batch in (("one", 1), ("same", 1), ("other", 2)):
        path = tmp_path / f"{name}.yaml"
        path.write_text(f"models: [{net_trace}]\ngpus: [l4]\nworkloads: [{{batch: [{batch}]}}]\n")
        out[name] = tmp_path / name
        assert run("sweep", path, "-o", out[name], "--workers", 1).exit_code == 0
    assert run("query", out["same"], "regressions", "--against", out["one"]).exit_code == 0
    none = run("query", out["other"], "regressions", "--against", out["one"])
    assert (none.exit_code, none.stdout) == (2, "")
    assert "nothing can be compared" in none.stderr
    filtered = run("query", out["same"], "regressions", "--against", out["one"], "--where", "gpu = 't4'")
    assert filtered.exit_code == 2


@pytest.mark.nightly
def test_what_got_worse_ends_with_1(run: Run, net_trace: Path, tmp_path: Path) -> None:
    """A larger input under the same file name: every step takes longer."""
    import shutil

    out, own = {}, tmp_path / "net.trace.json"
    for name, width in (("old", 4096), ("new", 16384)):
        model = tmp_path / f"{name}_net.py"
        model.write_text(
            f"import torch\n\n\nclass Net(torch.nn.Linear):\n    def __init__(self):\n"
            f"        super().__init__({width}, {width})\n"
        )
        traced = run("trace", f"{model}:Net", "--input", f"x={width}", "-o", tmp_path / f"{name}.trace.json")
        assert traced.exit_code == 0, traced.stderr
        shutil.copy(tmp_path / f"{name}.trace.json", own)
        path = tmp_path / "sweep.yaml"
        path.write_text(f"models: [{own}]\ngpus: [l4]\nworkloads: [{{batch: [1]}}]\n")
        out[name] = tmp_path / name
        assert run("sweep", path, "-o", out[name], "--workers", 1).exit_code == 0
    worse = run("query", out["new"], "regressions", "--against", out["old"], "--json")
    assert worse.exit_code == 1, worse.stderr
    assert [row["gpu"] for row in json.loads(worse.stdout)] == ["l4"]
    assert run("query", out["old"], "regressions", "--against", out["new"]).exit_code == 0


def test_a_sweep_file_may_be_renamed_and_grow(run: Run, file: Path, tmp_path: Path) -> None:
    out = tmp_path / "results"
    assert run("sweep", file, "-o", out, "--workers", 1).exit_code == 0
    renamed = file.rename(tmp_path / "renamed.yaml")
    renamed.write_text(renamed.read_text().replace("gpus: [l4, t4]", "gpus: [l4, t4, a10]"))
    grown = run("sweep", renamed, "-o", out, "--workers", 1, "--json", "--progress", "none")
    assert grown.exit_code == 0, grown.stderr
    assert json.loads(grown.stdout)["rows"] == 2, "batches 1 and 32 on the GPU that is new"
    smaller = tmp_path / "smaller.yaml"
    smaller.write_text(renamed.read_text().replace("gpus: [l4, t4, a10]", "gpus: [l4]"))
    refused = run("sweep", smaller, "-o", out)
    assert refused.exit_code == 2
    assert "another sweep" in refused.stderr
