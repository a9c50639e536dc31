"""The estimate of what a sweep takes holds sweeps that were timed."""

from dataclasses import replace

import pytest

from capplan.core.sweep.overview import SweepPreview
from capplan.specs.fitted import load_sweep_rates

NOTHING = SweepPreview(
    folder="out", models=1, gpus=1, workloads=1, batches=1, cells=0, kept_cells=0, files=0, pairs=0, to_plan=0,
    to_serve=0, models_to_trace=0, traced_models=0, traces=0, kept_traces=0, rates=load_sweep_rates(),
)  # fmt: skip


@pytest.mark.parametrize(
    ("models", "cells", "cpu_s"),
    [(1500, 2_178_000, 815.0), (1500, 2_178_000, 793.0), (66, 95_832, 47.9), (33, 47_916, 24.5), (66, 23_958, 28.5),
     (300, 435_600, 149.4)],
)  # fmt: skip
def test_the_interval_of_the_time_holds_sweeps_from_kept_traces(models: int, cells: int, cpu_s: float) -> None:
    """The table and text of docs/sweeps.md (Speed); the last is a run of 300 trace files on 132 GPUs at 11 batches."""
    preview = replace(
        NOTHING, models=models, cells=cells, pairs=models, to_plan=cells, traces=models, kept_traces=models
    )
    assert preview.cpu_s.low <= cpu_s <= preview.cpu_s.high


def test_the_interval_of_the_time_holds_a_sweep_from_nothing() -> None:
    """29 models in two configurations on 132 GPUs at 8 batches, 29 x 132 x 8 x 2 cells, took 77.7 CPU-seconds."""
    preview = replace(NOTHING, cells=61_248, pairs=58, to_plan=61_248, traces=58)
    assert preview.cpu_s.low <= 77.7 <= preview.cpu_s.high


def test_the_interval_of_the_space_holds_results_that_were_written() -> None:
    """126,720 rows of two workloads took 5.8 MB with the state of the sweep."""
    preview = replace(NOTHING, cells=126_720, files=2)
    assert preview.result_bytes.low <= 5.8e6 <= preview.result_bytes.high
