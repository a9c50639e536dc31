"""`capplan estimate`, `validate` and `calibrate fit` as a user meets them."""

import csv
import io
import json
import re
import struct
import subprocess
import sys
from pathlib import Path

import jsonschema
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
    # every kernel belongs to one module, and --top lists all of this small network's
    assert sum(module["share_fraction"] for module in found["modules"]) == pytest.approx(1)


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
    assert any("nothing was timed on" in note or "no whole step" in note for note in notes)


def test_a_torch_that_was_never_measured_widens_the_interval(run: Run, net_trace: Path) -> None:
    def relative_width(version: str) -> tuple[float, list[str]]:
        words = ("--gpu", "rtx-4090", "--batch", "256", "--torch", version, "--json")
        (found,) = json.loads(run("estimate", net_trace, *words).stdout)["estimates"]
        point = found["curve"][0]["latency_s"]
        return (point["high"] - point["low"]) / point["expected"], found["notes"]

    known, _ = relative_width("2.9")
    unknown, notes = relative_width("2.30")
    assert unknown > known
    assert "torch 2.30 taken as 2.9, wider interval" in notes


def test_a_precision_that_the_gpu_lacks_is_refused_with_what_it_has(run: Run, net_trace: Path) -> None:
    result = run("estimate", net_trace, "--gpu", "t4", "--precision", "tf32")
    assert result.exit_code == 2
    assert "t4 has no tf32; its spec states" in result.stderr


def plots(run: Run, net_trace: Path, *files: Path, batch: str = "1..64") -> None:
    words = [word for option, file in zip(("--plot", "--roofline"), files, strict=False) for word in (option, file)]
    result = run("estimate", net_trace, "--gpu", "l4", "--batch", batch, *words)
    assert result.exit_code == 0, result.stderr


def test_plots_are_pictures_of_the_kind_that_their_names_say(run: Run, net_trace: Path, tmp_path: Path) -> None:
    plots(run, net_trace, tmp_path / "c.svg", tmp_path / "r.html")
    plots(run, net_trace, tmp_path / "c.png", tmp_path / "r.svg")
    assert (tmp_path / "c.svg").read_text().startswith("<svg")
    page = (tmp_path / "r.html").read_text()
    assert "vegaEmbed(" in page
    assert not re.search(r'(?:src|href)="?http', page)
    content = (tmp_path / "c.png").read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    wide, high = struct.unpack(">II", content[16:24])  # IHDR: width and height
    assert wide > high > 600
    plots(run, net_trace, tmp_path / "c.pdf")
    assert (tmp_path / "c.pdf").read_bytes().startswith(b"%PDF")


def test_a_plot_has_a_mark_for_every_batch(run: Run, net_trace: Path, tmp_path: Path) -> None:
    plots(run, net_trace, tmp_path / "c.svg", batch="1..64")
    svg = (tmp_path / "c.svg").read_text()
    assert svg.count('aria-roledescription="circle"') == 7
    assert "NVIDIA L4" in svg


def test_the_roofline_has_a_roof_for_every_rate_in_use(run: Run, net_trace: Path, tmp_path: Path) -> None:
    # fp32 on an L4: convolutions at 60 TFLOP/s (TF32), the rest at 30.3.
    plots(run, net_trace, tmp_path / "c.svg", tmp_path / "r.svg")
    assert "printed 60.0 TFLOP/s" in (tmp_path / "r.svg").read_text()


@pytest.mark.parametrize(
    ("file", "told"), [("c.gif", ".svg, .png, .pdf or .html"), ("none/c.png", "there is no folder")]
)
def test_a_plot_that_cannot_be_is_refused_before_anything_is_computed(
    run: Run, tmp_path: Path, file: str, told: str
) -> None:
    result = run("estimate", "no_such_model", "--gpu", "l4", "--plot", tmp_path / file)
    assert result.exit_code == 2
    assert told in result.stderr


def test_plots_without_their_packages_are_one_sentence(
    run: Run, net_trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    result = run("estimate", net_trace, "--gpu", "l4", "--plot", tmp_path / "c.png")
    assert result.exit_code == 2
    assert "plots need altair; install it with pip install 'capplan[report]'." in result.stderr


@pytest.mark.parametrize("more", [[], ["--compare-frameworks"], ["--precision", "tf32", "--gpu", "rtx-4080"]])
def test_the_document_keeps_its_schema(run: Run, net_trace: Path, more: list[str]) -> None:
    schema = json.loads(run("schema", "estimate").stdout)
    result = run("estimate", net_trace, "--gpu", "l4", "--batch", "1..16", *more, "--json")
    assert result.exit_code == 0, result.stderr
    jsonschema.validate(json.loads(result.stdout), schema)


def test_the_classic_bound_is_flops_over_flops_per_second(run: Run, net_trace: Path) -> None:
    # fp32 on an L4: convolutions at 60 TFLOP/s (TF32), all else at 30.3, and 300 GB/s, as printed.
    document = json.loads(run("estimate", net_trace, "--gpu", "l4", "--batch", "32", "--json").stdout)
    bound = document["estimates"][0]["classic_bound"]
    assert bound["memory_s"] == pytest.approx(bound["traffic_bytes"] / 300e9)
    assert bound["flops"] / 60e12 <= bound["compute_s"] <= bound["flops"] / 30.3e12
    text = run("estimate", net_trace, "--gpu", "l4", "--batch", "32", "--explain").stdout
    assert "÷ 60.0 TFLOP/s (fp32 convolutions) =" in text
    assert "÷ 300 GB/s =" in text
    assert "bandwidth 300 GB/s: " in text


@pytest.mark.parametrize("gpu", ["t4", "v100-pcie-16gb", "l4", "a100-sxm4-80gb"])
@pytest.mark.parametrize("batch", ["1", "8", "256"])
def test_the_kernels_bounds_are_never_below_the_classic_one(run: Run, net_trace: Path, gpu: str, batch: str) -> None:
    document = json.loads(run("estimate", net_trace, "--gpu", gpu, "--batch", batch, "--json").stdout)
    classic, (point,) = document["estimates"][0]["classic_bound"], document["estimates"][0]["curve"]
    least = max(classic["compute_s"], classic["memory_s"])
    assert least <= point["bound_s"] * (1 + 1e-9)
    assert point["bound_s"] <= point["latency_s"]["expected"]
    assert classic["least_flops"] <= classic["flops"]
    assert "Winograd" in classic["rule"]


def test_an_estimate_names_its_evidence_in_every_format(run: Run, net_trace: Path) -> None:
    words = ("estimate", net_trace, "--gpu", "l4", "--batch", "8")
    document = json.loads(run(*words, "--json").stdout)["estimates"][0]
    assert document["evidence_reason"]
    assert f"({document['evidence_reason']})" in run(*words).stdout.splitlines()[1]
    (row,) = csv.DictReader(io.StringIO(run(*words, "--format", "csv").stdout))
    assert row["evidence"] == document["evidence"]


@pytest.mark.slow
def test_winograds_rule_is_printed_with_the_direct_algorithms_time(run: Run, net_trace: Path) -> None:
    # fp32 on a T4 runs outside tensor cores. The example's 3x3 convolutions have stride 2: none runs by Winograd.
    text = run("estimate", net_trace, "--gpu", "t4", "--batch", "32", "--explain").stdout
    assert "Winograd's" in text[text.index("the bound's rule: ") : text.index("the classic bound")]
    assert "of the direct algorithm" not in text
    words = f"{Path(__file__).parent / 'winograd_net.py'}:Net"
    text = run("estimate", words, "--input", "x=64x32x32", "--gpu", "t4", "--batch", "32", "--explain").stdout
    # 32 images of 32x32 pixels, 64 to 64 channels, 3x3: 2 * 32 * 1024 * 64 * 64 * 9 = 2.416 GFLOP; a quarter is 0.604
    assert "604 MFLOP ÷ 8.10 TFLOP/s (fp32 convolutions) = 74.6 µs" in text
    assert "2.42 GFLOP of the direct algorithm would take 298 µs" in text
    assert "(2.42 GFLOP, ÷ 4 by Winograd)" in text


@pytest.mark.slow
def test_a_smaller_input_is_traced_and_its_gain_computed(run: Run) -> None:
    net = [str(Path(__file__).parents[2] / "examples" / "net.py") + ":Net", "--gpu", "l4", "--batch", "64", "--json"]
    result = run("estimate", *net, "--input-size", "3x256x256")
    (whole,) = json.loads(result.stdout)["estimates"]
    (half,) = json.loads(run("estimate", *net, "--input-size", "3x128x128").stdout)["estimates"]
    told = {advice["change"]: advice["speedup"] for advice in whole["advice"]}
    gain = half["curve"][0]["throughput_per_s"]["expected"] / whole["curve"][0]["throughput_per_s"]["expected"]
    assert told["a smaller input (--input-size 3x128x128), if the task allows it"] == pytest.approx(gain)


@pytest.mark.slow
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


ROW = "timm:test_vit,{gpu},eager,2.9,{precision},nchw,infer,{batch},,{ms}\n"


def measured(tmp_path: Path, *rows: dict[str, object], name: str = "measured.csv") -> Path:
    path = tmp_path / name
    usual = {"gpu": "rtx-4090", "precision": "fp32", "batch": 64, "ms": 8}
    path.write_text(HEAD + "".join(ROW.format(**(usual | row)) for row in rows))
    return path


def test_a_validation_keeps_its_schema(run: Run, tmp_path: Path) -> None:
    rows = [{"gpu": gpu, "batch": batch} for gpu in ("rtx-4090", "l4", "nope") for batch in (1, 8, 64, 256, 1024)]
    path = measured(tmp_path, *rows, {"ms": 0.001}, {"ms": -1})
    result = run("validate", path, "--traces", tmp_path / "traces", "--by", "gpu,batch", "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    jsonschema.validate(document, json.loads(run("schema", "validate").stdout))
    assert document["implausible"][0]["row"] == 16
    assert {row["row"] for row in document["skipped"]} == {11, 12, 13, 14, 15, 17}
    assert document["overall"]["n"] == 11


def test_a_row_is_judged_alike_alone_and_among_others(run: Run, tmp_path: Path) -> None:
    batches = [1, 2, 4, 8, 16, 64, 256]
    together = measured(tmp_path, *({"batch": batch, "gpu": "t4"} for batch in batches), name="all.csv")
    alone = measured(tmp_path, {"batch": 256, "gpu": "t4"}, name="one.csv")
    found = []
    for path in (together, alone):
        result = run("validate", path, "--traces", tmp_path / "traces", "--by", "batch", "--json")
        found.append(next(cell for cell in json.loads(result.stdout)["cells"] if cell["batch"] == "256"))
    assert found[0]["bias"] == pytest.approx(found[1]["bias"], rel=1e-9)


def test_a_gpu_without_a_peak_is_told_with_what_it_has(run: Run, tmp_path: Path) -> None:
    path = measured(tmp_path, {}, {"gpu": "t4", "precision": "tf32"})
    result = run("validate", path, "--traces", tmp_path / "traces")
    assert "measured.csv, row 2  t4 has no tf32; its spec states fp64, fp32" in result.stdout


def test_rows_of_two_files_are_told_apart(run: Run, tmp_path: Path) -> None:
    first, second = measured(tmp_path, {}), measured(tmp_path, {"batch": 8}, {"ms": 0}, name="other.csv")
    result = run("validate", first, second, "--traces", tmp_path / "traces")
    assert "measured.csv 1" in result.stdout
    assert "other.csv 1" in result.stdout
    assert "other.csv, row 2  latency_ms must be positive, is 0" in result.stdout


def test_sheets_have_a_row_per_batch_and_per_cell(run: Run, net_trace: Path, tmp_path: Path) -> None:
    text = run("estimate", net_trace, "--gpu", "l4", "--gpu", "t4", "--batch", "1,8", "--format", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["gpu"], row["batch"]) for row in rows] == [("l4", "1"), ("l4", "8"), ("t4", "1"), ("t4", "8")]
    for row in rows:
        assert float(row["samples_per_s"]) == pytest.approx(int(row["batch"]) / float(row["latency_s"]), rel=1e-4)
    path = measured(tmp_path, {}, {"batch": 8}, {"gpu": "l4"})
    text = run("validate", path, "--traces", tmp_path / "traces", "--by", "gpu", "--format", "csv").stdout
    cells = list(csv.DictReader(io.StringIO(text)))
    assert [(cell["gpu"], cell["n"]) for cell in cells] == [("l4", "1"), ("rtx-4090", "2")]
    markdown = run("validate", path, "--traces", tmp_path / "traces", "--by", "gpu", "--format", "md").stdout
    assert markdown.startswith("| gpu | rows |")


def test_predicted_against_measured_is_plotted(run: Run, tmp_path: Path) -> None:
    path = measured(tmp_path, {}, {"batch": 8}, {"gpu": "l4"})
    for name in ("plot.svg", "plot.png"):
        result = run("validate", path, "--traces", tmp_path / "traces", "--plot", tmp_path / name)
        assert result.exit_code == 0, result.stderr
    svg = (tmp_path / "plot.svg").read_text()
    assert svg.count('aria-roledescription="circle"') == 3
    assert "rtx-4090: 2 rows" in svg
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


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


def test_a_card_measured_with_its_power_is_planned_with_its_own(run: Run, net_trace: Path, tmp_path: Path) -> None:
    question = ("plan", net_trace, "--gpu", "l4", "--batch", "8,32,128", "--json", "--energy")
    law = [fit["power_w"]["expected"] for fit in json.loads(run(*question).stdout)["fits"]]
    times = [fit["latency_s"]["expected"] for fit in json.loads(run(*question).stdout)["fits"]]
    path, own = tmp_path / "measured.csv", tmp_path / "own.yaml"
    rows = [
        f"{net_trace},l4,{batch},fp32,{1e3 * seconds},{0.8 * watts}"
        for batch, seconds, watts in zip((8, 32, 128), times, law, strict=True)
    ]
    path.write_text("model,gpu,batch,precision,latency_ms,power_w\n" + "\n".join(rows) + "\n")
    result = run("calibrate", "power", path, "-o", own)
    assert result.exit_code == 0, result.stderr
    assert "0.80" in result.stdout
    fits = json.loads(run(*question, "--calibration", own).stdout)["fits"]
    assert [fit["power_w"]["expected"] for fit in fits] == pytest.approx([0.8 * watts for watts in law], rel=1e-3)
    assert {fit["power_evidence"] for fit in fits} == {"measured on this GPU"}
    short = run(*question[:-2], "--energy", "--calibration", own).stdout
    assert "per image; measured on this GPU" in " ".join(short.split())
    (judged,) = (
        cell
        for cell in json.loads(run("validate", path, "--calibration", own, "--json").stdout)["energy"]
        if cell["metric"] == "power_w" and cell["gpu"] == "l4"
    )
    assert judged["errors"]["mdape"] < 1e-3
    own.write_text(own.read_text().replace("factor: 0.8", "factor: 9"))
    refused = run(*question, "--calibration", own)
    assert (refused.exit_code, "power.l4.factor: must lie from 0.25 to 4" in " ".join(refused.stderr.split())) == (
        2,
        True,
    )


def test_rows_without_power_teach_no_power(run: Run, net_trace: Path, tmp_path: Path) -> None:
    path = tmp_path / "measured.csv"
    path.write_text(f"model,gpu,batch,precision,latency_ms\n{net_trace},l4,8,fp32,5\n")
    result = run("calibrate", "power", path)
    assert result.exit_code == 2
    assert "0 usable rows state power_w" in result.stderr


def test_energy_is_shown_where_it_is_asked_for_and_agrees_with_the_plan(run: Run, net_trace: Path) -> None:
    question = (net_trace, "--gpu", "h100-sxm5-80gb", "--batch", "32", "--json")
    (estimated,) = json.loads(run("estimate", *question, "--energy").stdout)["estimates"]
    (planned,) = json.loads(run("plan", *question, "--energy").stdout)["fits"]
    point = estimated["curve"][0]
    assert point["power_w"] == planned["power_w"]
    assert point["joules_per_sample"] == planned["joules_per_sample"]
    # joules of a sample are watts times the seconds of a sample; the H100 SXM's limit is 700 W
    seconds = point["latency_s"]["expected"] / 32
    assert point["joules_per_sample"]["expected"] == pytest.approx(point["power_w"]["expected"] * seconds)
    assert 0 < point["power_w"]["low"] <= point["power_w"]["high"] <= 700
    (plain,) = json.loads(run("estimate", *question).stdout)["estimates"]
    assert "power_w" not in plain["curve"][0]


def test_energy_of_an_estimate_is_in_its_table_and_csv(run: Run, net_trace: Path) -> None:
    question = ("estimate", net_trace, "--gpu", "h100-sxm5-80gb", "--batch", "1,32", "--energy")
    assert "J/sample" in run(*question).stdout
    rows = list(csv.DictReader(io.StringIO(run(*question, "--format", "csv").stdout)))
    for row in rows:
        assert float(row["power_w_low"]) <= float(row["power_w"]) <= float(row["power_w_high"])
        assert float(row["joules_per_sample_low"]) <= float(row["joules_per_sample"])
