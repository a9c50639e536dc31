"""`capplan plan`, `trace` and `analyze` as a user meets them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from capplan.core.measurement.format import point_to_line
from capplan.core.measurement.types import MeasuredWorkload, ModelIdentity
from capplan.report.schemas import schema_of
from tests.cli.conftest import EXAMPLES, Run
from tests.core.measurement.test_measurement import FULL as MEASURED
from tests.seen import at_least

NET = f"{EXAMPLES / 'net.py'}:Net"


def schema(name: str) -> Any:
    return schema_of(name)


@pytest.mark.slow
def test_a_plan_from_a_trace_file_answers_every_gpu(run: Run, net_trace: Path) -> None:
    result = run("plan", net_trace, "--batch", "32", "--json")
    assert result.exit_code == 0, result.stderr
    plan = json.loads(result.stdout)
    jsonschema.validate(plan, schema("plan"))
    listed, announced = (
        {each["id"] for each in json.loads(run("gpus", *words, "--format", "json").stdout)["gpus"]}
        for words in ((), ("--announced",))
    )
    assert {each["gpu"] for each in plan["fits"] + plan["rejections"]} == listed - announced
    # 64·3·9 + 128·64·9 + 256·128·9 convolution weights, their biases, two per norm channel, 256·10 + 10
    weights = 64 * 27 + 128 * 576 + 256 * 1152 + (64 + 128 + 256) * 3 + 2570
    assert plan["model"]["params"] == weights
    # out of 224²: 112², 56², 28² positions
    macs = 112**2 * 64 * 27 + 56**2 * 128 * 576 + 28**2 * 256 * 1152 + 2560
    assert plan["model"]["macs_per_sample"] == macs
    assert plan["model"]["flops_per_sample"] == 2 * macs


def test_several_models_give_a_list(run: Run, net_trace: Path) -> None:
    result = run("plan", net_trace, net_trace, "--batch", "1,2", "--gpu", "t4", "--json")
    plans = json.loads(result.stdout)
    jsonschema.validate(plans, schema("plan"))
    assert [len(plan["fits"]) for plan in plans] == [2, 2]


@pytest.mark.slow
def test_intervals_hold_their_estimates_and_bounds(run: Run, net_trace: Path) -> None:
    plan = json.loads(run("plan", net_trace, "--batch", "1,64", "--json").stdout)
    for fit in at_least(50, plan["fits"]):
        for key in ("latency_s", "throughput_per_s"):
            assert fit[key]["low"] <= fit[key]["expected"] <= fit[key]["high"]
        assert fit["throughput_per_s"]["expected"] == pytest.approx(fit["batch"] / fit["latency_s"]["expected"])
        assert sum(fit["share_by_binding"].values()) == pytest.approx(1)


def test_output_files_take_their_format_from_their_name(run: Run, net_trace: Path, tmp_path: Path) -> None:
    for name, head in (
        ("p.json", "{"),
        ("p.csv", "model,gpu,batch"),
        ("p.md", "**net"),
        ("p.txt", "net · 3x224x224 · batch 8"),
    ):
        result = run("plan", net_trace, "--gpu", "t4", "--batch", "8", "-o", tmp_path / name)
        assert result.exit_code == 0, result.stderr
        assert result.stdout == ""
        assert (tmp_path / name).read_text().lower().startswith(head.lower())
    assert {path.name for path in tmp_path.iterdir()} == {"p.json", "p.csv", "p.md", "p.txt"}


def test_nothing_fits_is_exit_1_with_the_rejections(run: Run, net_trace: Path) -> None:
    result = run("plan", net_trace, "--gpu", "t4", "--batch", "8", "--max-latency", "1us", "--json")
    assert result.exit_code == 1
    rejection = json.loads(result.stdout)["rejections"][0]
    assert rejection["reason"].startswith("latency: needs")
    assert rejection["available"] == pytest.approx(1e-6)


def test_a_model_and_its_trace_file_give_the_same_plan(run: Run, net_trace: Path) -> None:
    words = ("--gpu", "t4", "--batch", "8", "--precision", "fp32", "--json")
    from_file = json.loads(run("plan", net_trace, *words).stdout)
    from_words = json.loads(run("plan", NET, "--input", "x=3x224x224", *words).stdout)
    assert from_file["fits"] == from_words["fits"]


def test_half_precision_needs_its_own_recording(run: Run, net_trace: Path) -> None:
    result = run("plan", net_trace, "--precision", "fp16")
    assert result.exit_code == 2
    assert "capplan trace" in result.stderr
    assert "--precision fp16" in result.stderr


def test_analyze_agrees_with_its_schema_and_its_parts_add_up(run: Run, net_trace: Path) -> None:
    result = run("analyze", net_trace, "--batch", "4", "--json")
    document = json.loads(result.stdout)
    jsonschema.validate(document, schema("analyze"))
    for view in ("by_operator", "by_module", "by_module_and_operator"):
        for key in ("macs", "flops", "params", "bytes"):
            assert sum(row[key] for row in document[view]) == document[key]


def test_a_trace_is_the_same_bytes_each_time(run: Run, net_trace: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.trace.json"
    run("trace", NET, "--input", "x=3x224x224", "-o", again)
    assert again.read_bytes() == net_trace.read_bytes()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("plan", "nosuchmodel17"), 2, "nosuchmodel17"),
        (("plan", "missing.trace.json"), 2, "missing.trace.json"),
        (("plan", "nosuch.py:Net"), 2, "nosuch.py"),
        (("plan", f"{EXAMPLES / 'net.py'}:Nett", "--input", "3x8x8"), 2, "Net"),
        (("plan", NET), 2, "--input"),
        (("plan", NET, "--input", "x=3xax8"), 2, "3xax8"),
        (("plan", NET, "--input", "x=4x224x224"), 3, "[2, 4, 224, 224]"),
        (("plan", NET, "--input", "x=3x8x8", "--batch", "0"), 2, "batch"),
        (("plan", NET, "--input", "x=3x8x8", "--gpu", "a40x"), 2, "a40"),
        (("plan", NET, "--input", "x=3x8x8", "--precision", "fp17"), 2, "fp16"),
        (("plan", NET, "--input", "x=3x8x8", "--max-latency", "50"), 2, "ms"),
        (("plan", NET, "--input", "x=3x8x8", "--torch", "two"), 2, "two"),
        (("plan", NET, "--input", "x=3x8x8", "--checkpointing"), 2, "--train"),
        (("plan", NET, "--input", "x=3x8x8", "--json", "--format", "csv"), 2, "contradicts"),
        (("plan", NET, "--input", "x=3x8x8", "-o", "nosuchfolder/plan.json"), 2, "nosuchfolder"),
        (("plan", NET, "--input", "x=3x8x8", "-o", "plan.docx"), 2, ".json"),
        (("plan", "--nosuch"), 2, "--nosuch"),
        (("trace", NET, "--input", "x=3x8x8", "-o", "net.pickle"), 2, ".json"),
    ],
    ids=lambda value: None if isinstance(value, int) else str(value)[-40:],
)
def test_bad_input_is_one_sentence_and_no_traceback(run: Run, words: tuple[str, ...], code: int, said: str) -> None:
    result = run(*words)
    assert result.exit_code == code, result.stderr
    assert said in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("kept", [0.3, 0.999])
def test_a_truncated_trace_is_refused(run: Run, net_trace: Path, tmp_path: Path, kept: float) -> None:
    content = net_trace.read_bytes()
    cut = tmp_path / "cut.trace.json"
    cut.write_bytes(content[: int(kept * len(content))])
    result = run("plan", cut)
    assert result.exit_code == 2
    assert "cut.trace.json" in result.stderr


def test_a_trace_from_a_newer_version_asks_for_an_upgrade(run: Run, net_trace: Path, tmp_path: Path) -> None:
    newer = tmp_path / "newer.trace.json"
    newer.write_text(json.dumps(json.loads(net_trace.read_text()) | {"schema_version": 99}))
    result = run("plan", newer)
    assert result.exit_code == 2
    assert "upgrade" in result.stderr


def test_a_gpu_name_never_matches_by_substring(run: Run, net_trace: Path) -> None:
    assert run("plan", net_trace, "--gpu", "a10x").exit_code == 2
    plan = json.loads(run("plan", net_trace, "--gpu", "l4", "--batch", "1", "--json").stdout)
    assert [fit["gpu"] for fit in plan["fits"]] == ["l4"]


def test_schemas_are_printed(run: Run) -> None:
    assert json.loads(run("schema", "plan").stdout) == schema("plan")
    assert run("schema", "plam").exit_code == 2


def test_a_job_takes_its_samples_over_the_throughput(run: Run, net_trace: Path) -> None:
    words = ("--gpu", "t4", "--batch", "32", "--samples", "1000000", "--epochs", "3", "--json")
    plan = json.loads(run("plan", net_trace, *words).stdout)
    jsonschema.validate(plan, schema("plan"))
    fit = plan["fits"][0]
    assert fit["gpu_hours"]["expected"] == pytest.approx(3e6 / fit["throughput_per_s"]["expected"] / 3600)
    assert "GPU-hours" in run("plan", net_trace, *words[:-1]).stdout
    assert run("plan", net_trace, *words[:4], "--samples", "1M", *words[6:]).stdout == json.dumps(plan, indent=2) + "\n"


def test_a_job_says_its_wall_time_and_what_its_data_loader_must_read(run: Run) -> None:
    words = ("plan", NET, "--input", "x=3x64x64", "--gpu", "t4", "--gpus", "8", "--train", "--samples", "1.28G")
    fit = json.loads(run(*words, "--json").stdout)["fits"][0]
    said = next(line for line in run(*words).stdout.splitlines() if line.startswith("Job"))
    rate = fit["throughput_per_s"]["expected"]
    assert f"{1.28e9 / rate / 3600:.1f} h" in said or f"{1.28e9 / rate / 86400:.1f} days" in said
    assert f"reads {rate:,.0f} " in said


@pytest.mark.slow
@pytest.mark.nightly
def test_accumulated_micro_batches_count_as_samples(run: Run) -> None:
    words = ("plan", NET, "--input", "x=3x64x64", "--gpu", "t4", "--batch", "8", "--train", "--optimizer", "sgd")
    one, four = (json.loads(run(*words, "--accumulate", count, "--json").stdout)["fits"][0] for count in ("1", "4"))
    assert one["latency_s"]["expected"] * one["throughput_per_s"]["expected"] == pytest.approx(8)
    assert four["latency_s"]["expected"] * four["throughput_per_s"]["expected"] == pytest.approx(32)


def test_quantised_weights_are_planned_beside_full_width(run: Run, net_trace: Path) -> None:
    quantised = ("--precision", "fp32", "--weights", "int8", "--json")
    result = run("plan", net_trace, "--batch", "8", "--gpu", "l4,t4", *quantised)
    plan = json.loads(result.stdout)
    assert {each["gpu"] for each in plan["fits"]} == {"l4", "t4"}
    assert any(note.startswith("int8_weight_only on ") and "at full width" in note for note in plan["notes"])
    # its only linear layer is 256 by 10: three bytes less for each weight, and a 16-bit scale for each row
    wide = json.loads(run("memory", net_trace, "--batch", "8", "--json").stdout)
    narrow = json.loads(run("memory", net_trace, "--batch", "8", *quantised).stdout)
    sizes = [next(each for each in found["parts"] if each["name"] == "weights") for found in (wide, narrow)]
    before, after = (each["size_bytes"]["expected"] for each in sizes)
    assert before - after == 3 * 2560 - 20
    refused = run("plan", net_trace, "--batch", "8", "--weights", "int4", "--activations", "fp8")
    assert refused.exit_code == 2
    assert "no kernel for int4 weights with fp8 activations" in refused.stderr
    refused = run("plan", net_trace, "--batch", "8", "--weights", "sparse24")
    assert refused.exit_code == 2
    assert "2:4 sparsity is not modelled" in refused.stderr


def test_ways_to_serve_a_week_are_compared_for_any_model(run: Run, net_trace: Path, tmp_path: Path) -> None:
    """A load far below what one GPU carries: one stands, and a fleet that sleeps at night never costs more."""
    week = tmp_path / "week.yaml"
    week.write_text(
        "day: [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0]\nrequests_per_day: 36000\n"
    )
    asked = ("plan", net_trace, "--gpu", "t4", "--batch", "1", "--week", week, "--compare-ways", "--max-latency", "1s")
    result = run(*asked, "--storage", "1GB/s")
    assert result.exit_code == 0, result.stderr
    assert "standing" in result.stdout
    ways = json.loads(run(*asked, "--json").stdout)["ways"]
    costs = {way["way"]: way for way in ways["costs"]}
    # 36,000 requests in 10 hours are 1/s; awake are 10 of 24 hours, a start and some minutes a day beside them
    assert ways["peak_per_s"] == 1.0
    standing, scaled = (costs[name]["usd_per_month"]["expected"] for name in ("standing", "autoscaled"))
    assert 10 / 24 <= scaled / standing <= 11 / 24
    assert costs["API"]["usd_per_month"] is None
    refused = run("plan", net_trace, "--gpu", "t4", "--week", week)
    assert refused.exit_code != 0
    assert "--compare-ways" in refused.stderr


def test_a_rate_that_stays_costs_a_scaled_fleet_what_it_costs_a_standing_one(
    run: Run, net_trace: Path, tmp_path: Path
) -> None:
    # a constant load leaves an autoscaler nothing to switch off, so that both ways rent the same machines all week
    chart = tmp_path / "ways.svg"
    asked = ("plan", net_trace, "--gpu", "t4", "--batch", "1", "--rate", "1/s", "--compare-ways", "--plot", chart)
    ways = json.loads(run(*asked, "--json").stdout)["ways"]
    costs = {way["way"]: way["usd_per_month"] for way in ways["costs"]}
    assert ways["requests_per_day"] == pytest.approx(86_400)
    assert costs["standing"]["expected"] == costs["autoscaled"]["expected"] > 0
    assert "requests a day" in chart.read_text()
    refused = run("plan", net_trace, "--gpu", "t4", "--rate", "1/s", "--plot", chart)
    assert refused.exit_code == 2
    assert "--compare-ways" in refused.stderr


@pytest.mark.slow
def test_a_plan_says_measured_of_a_model_that_was_timed_on_the_gpu(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed = replace(
        MEASURED,
        model=ModelIdentity(name="resnet18", words="resnet18", library="torchvision", input_size=(3, 224, 224)),
        workload=MeasuredWorkload(batch=8),
    )
    (tmp_path / "ours.jsonl").write_text(point_to_line(timed))

    def planned(*words: object) -> Any:
        (fit,) = json.loads(run("plan", "torchvision:resnet18", "--gpu", "l4", "--batch", 8, *words, "--json").stdout)[
            "fits"
        ]
        return fit

    assert planned()["evidence"] != "measured"
    own = planned("--measured", tmp_path / "ours.jsonl")
    assert own["evidence"] == "measured"
    assert own["latency_s"]["expected"] == pytest.approx(0.0102)  # the median of seven repetitions
    monkeypatch.setenv("CAPPLAN_MEASURED", str(tmp_path))  # the folder of a team
    assert planned()["latency_s"] == own["latency_s"]
    assert planned("--precision", "fp16")["latency_s"]["expected"] != pytest.approx(0.0102)
    assert planned("--power-limit", "40W")["evidence"] != "measured"  # the run had no such limit
