"""`capplan estimate`, `validate` and `calibrate fit` as a user meets them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run


def test_an_estimate_tells_curve_knee_kernels_and_modules(run: Run, net_trace: Path) -> None:
    result = run("estimate", net_trace, "--gpu", "rtx-4090", "--batch", "1..256", "--json")
    assert result.exit_code == 0, result.stderr
    (found,) = json.loads(result.stdout)["estimates"]
    assert [point["batch"] for point in found["curve"]] == [2**power for power in range(9)]
    for point in found["curve"]:
        interval = point["latency_s"]
        assert interval["low"] < interval["expected"] < interval["high"]
        assert sum(point["shares"].values()) == pytest.approx(1)
    assert found["knee_batch"] <= 256
    assert sum(kernel["share_fraction"] for kernel in found["kernels"]) <= 1 + 1e-9
    assert any(module["path"] for module in found["modules"])


def test_the_arithmetic_is_written_out_with_its_source(run: Run, net_trace: Path) -> None:
    text = run("estimate", net_trace, "--gpu", "rtx-4090", "--batch", "32", "--explain").stdout
    # 82.6 TFLOP/s in fp32 and 1.008 TB/s are the vendor's figures for the RTX 4090.
    assert "82.6 TFLOP/s in 32" in text
    assert "1.01 TB/s" in text
    assert "calibration" in text


def test_an_unseen_gpu_is_told_and_gets_a_wider_interval(run: Run, net_trace: Path) -> None:
    def relative_width(gpu: str) -> tuple[float, list[str]]:
        document = json.loads(run("estimate", net_trace, "--gpu", gpu, "--batch", "256", "--json").stdout)
        point = document["estimates"][0]["curve"][0]["latency_s"]
        return (point["high"] - point["low"]) / point["expected"], document["estimates"][0]["notes"]

    known, _ = relative_width("rtx-4090")
    unseen, notes = relative_width("rtx-4080")
    assert unseen > known
    assert any("never measured" in note for note in notes)


def test_a_precision_that_the_gpu_lacks_is_refused_with_what_it_has(run: Run, net_trace: Path) -> None:
    result = run("estimate", net_trace, "--gpu", "t4", "--precision", "tf32")
    assert result.exit_code == 2
    assert "t4 has no peak rate for tf32; its spec states" in result.stderr


def test_plots_are_written_as_svg(run: Run, net_trace: Path, tmp_path: Path) -> None:
    result = run(
        "estimate",
        net_trace,
        "--gpu",
        "l4",
        "--batch",
        "1..64",
        "--plot",
        tmp_path / "c.svg",
        "--roofline",
        tmp_path / "r.html",
    )
    assert result.exit_code == 0, result.stderr
    assert (tmp_path / "c.svg").read_text().startswith("<svg")
    assert "<svg" in (tmp_path / "r.html").read_text()


def test_an_estimate_from_a_trace_loads_neither_torch_nor_pandas(net_trace: Path) -> None:
    code = (
        "import sys; from capplan.cli.main import app\n"
        f"try: app(['estimate', {str(net_trace)!r}, '--gpu', 'l4', '--batch', '8'])\n"
        "except SystemExit: print('torch' in sys.modules, 'pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-2:] == ["False", "False"]


HEAD = "model,gpu,framework,torch,precision,layout,task,batch,input_size,latency_ms\n"


def test_validate_judges_rows_and_tells_what_it_skipped(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "measured.csv"
    path.write_text(
        HEAD
        + "timm:resnet18,rtx-4090,eager,2.9,amp-fp16,nchw,infer,64,224,8.0\n"
        + "timm:resnet18,no-such-gpu,eager,2.9,amp-fp16,nchw,infer,64,224,8.0\n"
        + "timm:no_such_model,rtx-4090,eager,2.9,amp-fp16,nchw,infer,64,224,8.0\n"
        + "timm:resnet18,rtx-4090,eager,2.9,amp-fp16,nchw,infer,64,224,-1\n"
        + "timm:resnet18,rtx-4090,eager,2.9,amp-fp16,nchw,infer,64,224,0.001\n"
    )
    result = run("validate", path, "--traces", tmp_path / "traces", "--by", "gpu,layout", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert [(cell["gpu"], cell["layout"], cell["n"]) for cell in found["cells"]] == [("rtx-4090", "nchw", 2)]
    assert {row["row"] for row in found["skipped"]} == {2, 3, 4}
    assert "row 5" in result.stderr or "line 5" in result.stderr
    assert "units" in result.stderr


def test_validate_refuses_an_unknown_column(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "measured.csv"
    path.write_text(HEAD)
    result = run("validate", path, "--by", "gpus")
    assert result.exit_code == 2
    assert "did you mean gpu" in result.stderr


def test_too_few_rows_make_no_calibration(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "measured.csv"
    path.write_text(HEAD)
    result = run("calibrate", "fit", path, "-o", tmp_path / "own.yaml")
    assert result.exit_code == 2
    assert "too few" in result.stderr
