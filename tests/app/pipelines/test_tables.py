"""Pipelines in sweeps and reports: rows with the figures of a plan, and conditions that are obeyed or refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import capplan
from capplan.app.gpu_choice import GpuRequest
from capplan.app.pipelines.answer import PipelineRequest, TracedParts, prepare_pipeline
from capplan.app.plan import PlanContext
from capplan.app.sweep.expand import expand_sweep
from capplan.app.sweep.keys import KeyMaker
from capplan.app.sweep.request import SweepRequest
from capplan.app.sweep.results import read_sweep
from capplan.app.sweep.run import preview_sweep, sweep
from capplan.app.sweep.stages import pipeline_columns
from capplan.core.pipelines.measured import PipelineCalibration
from capplan.core.sweep.definition import Conditions
from capplan.errors import UsageError
from capplan.report.procurement.render import render_report
from tests.app.sweep.conftest import make_request

LOAD = "images: 3 per second, p95 under 8 s\nservice:\n  mean: 1/s\n"


@pytest.mark.slow
def test_a_sweep_plans_a_pipeline_with_the_figures_of_a_plan_and_keeps_them(
    pipeline_file: Path, tmp_path: Path
) -> None:
    asked = {"batch": [1, 64], "precision": "fp16", "energy": True}
    request = make_request(tmp_path / "out", [str(pipeline_file)], allow_code=True, workloads=[asked])
    sweep(request)
    rows = read_sweep(tmp_path / "out").query("select * from sweep order by gpu, batch").to_pylist()
    plan = capplan.plan(
        str(pipeline_file), allow_code=True, batches=[1, 64], gpus=["l4", "t4"], precision="fp16", energy=True
    )
    assert len(rows) == 4
    for row in rows:
        [fit] = [fit for fit in plan.fits if (fit.gpu.id, fit.batch) == (row["gpu"], row["batch"])]
        assert row["latency_s"] == fit.latency.latency_s.expected
        assert row["latency_high_s"] == fit.latency.latency_s.high
        assert row["total_bytes"] == round(fit.memory.total_bytes.expected)
        assert (row["max_batch"], row["status"], row["offload"]) == (fit.max_batch, fit.status.value, fit.offload)
        assert fit.energy is not None
        assert row["joules_per_sample"] == fit.energy.joules_per_sample.expected
        assert row["usd_per_million_samples"] == pytest.approx(fit.usd_per_million_samples)
        # fp16: the encoder's and decoder's mixers of 64 and the denoiser's of 128, all on the GPU
        assert row["weight_bytes"] == 2 * (2 * (64 * 256 + 256 + 256 * 64 + 64) + 128 * 512 + 512 + 512 * 128 + 128)
    assert preview_sweep(replace(request, file=None)).cells == 4


def test_a_sweep_over_settings_of_a_pipeline_has_a_model_for_each_choice(pipeline_file: Path, tmp_path: Path) -> None:
    entry = {"model": str(pipeline_file), "set": {"steps": [10, 20]}, "part": {"decoder.precision": "fp32"}}
    made = expand_sweep(
        make_request(tmp_path / "out", [{**entry, "offload": "model"}], allow_code=True, workloads=[{}])
    )
    told = "--part decoder.precision=fp32 --offload model"
    assert [model.label for model in made.models] == [f"{pipeline_file} --set steps={n} {told}" for n in (10, 20)]
    [conditions] = made.context.workloads.values()
    assert isinstance(conditions, Conditions)
    gpu = made.context.gpus["l4"]
    columns = pipeline_columns(made.models[1], conditions, made.context, [gpu])
    plan = capplan.plan(
        str(pipeline_file),
        allow_code=True,
        batches=[1],
        gpus=["l4"],
        precision="fp32",
        settings={"steps": 20},
        offload="model",
    )
    assert list(columns["latency_s"]) == [plan.fits[0].latency.latency_s.expected]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"set": {"stepz": 3}}, "has no parameter 'stepz'"),
        ({"part": {"decode.on": "stream"}}, "has no part 'decode'"),
        ({"model": "resnet18", "set": {"steps": 3}}, "--set describe a pipeline, and .*resnet18 is a model"),
    ],
)
def test_settings_of_a_sweep_that_say_nothing_are_refused(
    pipeline_file: Path, tmp_path: Path, entry: dict[str, object], message: str
) -> None:
    request = make_request(tmp_path / "out", [{"model": str(pipeline_file), **entry}], allow_code=True)
    with pytest.raises(UsageError, match=message):
        expand_sweep(request)


def test_a_sweep_of_a_file_runs_no_code_of_a_pipeline_and_takes_no_options_of_a_model(
    pipeline_file: Path, tmp_path: Path
) -> None:
    own = make_request(tmp_path / "out", [str(pipeline_file)], file=tmp_path / "sweep.yaml")
    with pytest.raises(UsageError, match="names code, which is not run for a file of data"):
        expand_sweep(own)
    with pytest.raises(UsageError, match="names code, which is not run for a file of data"):
        expand_sweep(replace(own, file=None))  # a sweep made in Python names a file all the same
    assert expand_sweep(replace(own, allow_code=True)).models
    names = ["pipeline:whisper-small", "diffusers:black-forest-labs/FLUX.1-dev"]
    assert len(expand_sweep(make_request(tmp_path / "out", names, file=tmp_path / "sweep.yaml")).models) == 2
    with pytest.raises(UsageError, match="is a pipeline: --seq-len belongs to a model"):
        expand_sweep(make_request(tmp_path / "out", [{"model": "pipeline:whisper-small", "seq_len": 8}]))


@pytest.mark.slow
def test_a_report_of_a_pipeline_obeys_formats_and_renders_its_risk(pipeline_file: Path, tmp_path: Path) -> None:
    # a denoiser's time is corrected by the calibration of pipelines, whose interval the tile of the percentile states
    pipeline_file.write_text(pipeline_file.read_text().replace("times: steps", "times: steps\n    kind: denoiser"))
    (tmp_path / "load.yaml").write_text(LOAD)
    made = {
        precision: capplan.make_report(
            str(pipeline_file),
            allow_code=True,
            gpus=["l4"],
            batches=[1, 2],
            load=tmp_path / "load.yaml",
            precision=precision,
        )
        for precision in (None, "fp32")
    }
    for precision, shown in ((None, "fp16"), ("fp32", "fp32")):
        assert f"Planned for {shown}, inference" in str(render_report(made[precision], ".md"))
    assert "95th percentile at peak" in str(render_report(made["fp32"], ".html"))
    with pytest.raises(UsageError, match="is a pipeline: seq_len belongs to a model"):
        capplan.make_report(str(pipeline_file), allow_code=True, gpus=["l4"], batches=[1], seq_len=8)


def rows_of(request: SweepRequest) -> list[dict[str, Any]]:
    """Return what the planning stage answers of a sweep of one pipeline under one workload."""
    asked = expand_sweep(request)
    [conditions] = asked.context.workloads.values()
    assert isinstance(conditions, Conditions)
    columns = pipeline_columns(asked.models[0], conditions, asked.context, list(asked.context.gpus.values()))
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def test_a_sweep_counts_both_gpus_of_a_pipeline_that_has_a_part_on_another(pipeline_file: Path, tmp_path: Path) -> None:
    entry = {"model": str(pipeline_file), "part": {"decoder.on": "another"}}
    [row] = rows_of(make_request(tmp_path / "out", [entry], allow_code=True, gpus=["l4"], workloads=[{"batch": [1]}]))
    assert (row["status"], row["gpus"]) == ("fits", 2)


def test_layers_that_are_copied_ahead_are_weights_of_the_row(pipeline_file: Path, tmp_path: Path) -> None:
    entry = {"model": str(pipeline_file), "offload": "streamed"}
    [row] = rows_of(
        make_request(
            tmp_path / "out", [entry], allow_code=True, gpus=["l4"], workloads=[{"batch": [1], "precision": "fp16"}]
        )
    )
    # Two layers of a part are on the GPU at once: those of a mixer of 64, or of 128, in two bytes.
    mixers = {2 * (width * 4 * width + 4 * width + 4 * width * width + width) for width in (64, 128)}
    assert row["weight_bytes"] in mixers


def test_an_answer_goes_stale_with_a_trace_that_is_a_part(pipeline_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "part.trace.json"
    known = tmp_path / "traced.pipeline.yaml"
    known.write_text("parts: {mixer: {model: part.trace.json}}\n", encoding="utf-8")
    asked = expand_sweep(make_request(tmp_path / "out", [str(known)]))
    keys = set()
    for content in (b"one", b"one", b"two"):
        path.write_bytes(content)
        keys.add(KeyMaker.of(asked.context, cache=None).model_key(asked.models[0], asked.context.workloads.values()))
    assert len(keys) == 2


def test_parts_that_differ_in_their_arguments_alone_are_two_models(pipeline_file: Path) -> None:
    traced = TracedParts(context=PlanContext.of(GpuRequest(ids=("l4",))), calibration=PipelineCalibration())
    counts = []
    for depth in (1, 3):
        (pipeline_file.parent / "deep.py").write_text(DEEP, encoding="utf-8")
        path = pipeline_file.parent / f"deep-{depth}.pipeline.yaml"
        part = f'{{model: "deep.py:Deep", arguments: {{depth: {depth}}}, inputs: ["x=8"]}}'
        path.write_text(f"parts: {{deep: {part}}}\n", encoding="utf-8")
        [place] = prepare_pipeline(PipelineRequest(words=str(path), allow_code=True), traced)
        counts.append(place.facts.parameter_count)
    assert counts == [8 * 8 + 8, 3 * (8 * 8 + 8)]


DEEP = """
import torch


class Deep(torch.nn.Sequential):
    def __init__(self, depth):
        super().__init__(*[torch.nn.Linear(8, 8) for _ in range(depth)])
"""
