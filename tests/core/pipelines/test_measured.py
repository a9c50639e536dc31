"""Cells of measured pipelines: one for each metric that was measured."""

import math

import pytest

from capplan.core.numbers import Interval
from capplan.core.pipelines.measured import (
    Judged,
    JudgedPipeline,
    MeasuredPipeline,
    PipelineMetric,
    PipelineValidation,
)
from capplan.core.pipelines.sharing import Degrees


def row(*, measured_s: float, power_w: float | None) -> JudgedPipeline:
    measured = MeasuredPipeline(
        line=1,
        pipeline="diffusers:a",
        gpu="h100-sxm5-80gb",
        degrees=Degrees(),
        batch=1,
        settings={},
        latency_s=measured_s,
        weights="bf16",
        power_w=power_w,
    )
    energy = (
        {
            PipelineMetric.POWER: Judged(measured=power_w, estimated=Interval(low=400, expected=500, high=600)),
        }
        if power_w
        else {}
    )
    return JudgedPipeline(measured=measured, latency_s=Interval(low=1, expected=2, high=4), energy=energy)


def test_power_has_a_cell_of_its_own_where_it_was_read() -> None:
    found = PipelineValidation(rows=(row(measured_s=2, power_w=625), row(measured_s=8, power_w=None)), skipped={})
    cells = {cell.metric: cell for cell in found.cells() if cell.name[0] == "all"}
    assert set(cells) == {PipelineMetric.LATENCY, PipelineMetric.POWER}
    assert cells[PipelineMetric.LATENCY].errors.count == 2
    # one time of two lies in 1 to 4 s; 625 W lies above 400 to 600 W, and 500 ÷ 625 is 0.8
    assert cells[PipelineMetric.LATENCY].coverage == 0.5
    assert cells[PipelineMetric.POWER].coverage == 0
    assert cells[PipelineMetric.POWER].errors.bias == pytest.approx(0.8)


def test_the_error_is_the_logarithm_of_estimated_over_measured() -> None:
    value = Judged(measured=400, estimated=Interval(low=400, expected=800, high=900))
    assert value.log_error == pytest.approx(math.log(2))
    assert value.is_covered
