"""The measurement file, comparison of runs, searched batches and curves."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.core.latency.step import ExecutedStep
from capplan.core.measurement.batch_search import largest_running_batch, measured_curve, still_pays
from capplan.core.measurement.compare import RunVerdict, Theory, compare_runs
from capplan.core.measurement.format import parse_points, point_to_json, point_to_line, points_to_json
from capplan.core.measurement.types import (
    Clocks,
    DeviceFacts,
    FailedMeasurement,
    MeasuredMemory,
    MeasuredPower,
    MeasuredWorkload,
    Measurement,
    MeasurementFailure,
    ModelIdentity,
    TheoryFigures,
    WarmUp,
)
from capplan.core.workload import BatchSearch, Framework, Layout, Precision, TimingMethod, Workload
from capplan.errors import MeasurementFileError
from tests.core.latency.latency_cases import gpu, linear_recording

FULL = Measurement(
    model=ModelIdentity(
        name="net", words="net.py:Net", library="file", input_size=(3, 64, 64), versions={"torch": "2.11.0"}
    ),
    workload=MeasuredWorkload(batch=8, precision=Precision.AMP_BF16, framework=Framework.COMPILE, layout=Layout.NHWC),
    device=DeviceFacts(
        name="NVIDIA L4",
        kind="cuda",
        gpu="l4",
        driver="570.1",
        cuda="13.0",
        cudnn="91002",
        torch="2.11.0+cu130",
        memory_bytes=23_000_000_000,
        power_limit_w=72.0,
        clocks=Clocks(graphics_hz=2.04e9, memory_hz=6.25e9),
        temperature_c=61.0,
        throttling=("power cap",),
    ),
    samples_s=(0.0101, 0.0102, 0.0100, 0.0103, 0.0101, 0.0102, 0.0110),
    method=TimingMethod.EVENT,
    l2_flushed=True,
    warm_up=WarmUp(runs=12, elapsed_s=0.5, first_s=0.2, stable=True),
    memory=MeasuredMemory(peak_allocated_bytes=10**9, peak_reserved_bytes=2 * 10**9, device_used_bytes=3 * 10**9),
    power=MeasuredPower(power_w=70.0, energy_j_per_sample=0.0875),
    theory=TheoryFigures(
        bound_s=0.004,
        expected_s=0.011,
        low_s=0.009,
        high_s=0.014,
        calibration="shipped",
        mfu_fraction=0.31,
        mbu_fraction=0.42,
    ),
    finite_outputs=False,
    notes=("not yet stable after 12 warm-up runs",),
    date=datetime(2026, 11, 21, 8, 0, tzinfo=UTC),
    command="capplan measure net.py:Net --batch 8",
)
FAILED = FailedMeasurement(
    model=FULL.model,
    workload=replace(FULL.workload, batch=4096),
    device=FULL.device,
    kind=MeasurementFailure.OUT_OF_MEMORY,
    message="out of memory",
    date=FULL.date,
    command=FULL.command,
)


def at(batch: int, latency_s: float) -> Measurement:
    return replace(FULL, workload=replace(FULL.workload, batch=batch), samples_s=(latency_s,) * 7)


def test_a_file_gives_back_what_was_written() -> None:
    content = (point_to_line(FULL) + point_to_line(FAILED)).encode()
    found = parse_points(content, where="runs.jsonl")
    assert found.points == (FULL, FAILED)
    assert found.measurements == (FULL,)
    assert (found.is_cut, found.whole_bytes) == (False, len(content))


def test_the_document_of_format_json_is_read_too() -> None:
    content = json.dumps(points_to_json([FULL, FAILED]), indent=2).encode()
    assert parse_points(content, where="runs.json").points == (FULL, FAILED)


def test_the_statistics_written_are_those_of_the_samples() -> None:
    document = point_to_json(FULL)
    assert document["latency_s"]["median"] == 0.0102  # the fourth of seven in order
    assert document["throughput_per_s"] == pytest.approx(7 * 8 / 0.0719)  # repetitions × batch ÷ seconds
    assert document["energy_j_per_sample"] == 0.0875


@given(st.integers(min_value=1, max_value=2000))
def test_a_file_cut_anywhere_in_its_last_line_keeps_the_points_before(cut: int) -> None:
    first, last = point_to_line(FULL).encode(), point_to_line(FAILED).encode()
    kept = last[: min(cut, len(last) - 2)]
    found = parse_points(first + kept, where="runs.jsonl")
    assert found.points == (FULL,)
    assert found.is_cut
    assert found.whole_bytes == len(first)


def test_a_last_line_that_lacks_only_its_end_is_whole() -> None:
    found = parse_points(point_to_line(FULL).encode().rstrip(b"\n"), where="runs.jsonl")
    assert found.points == (FULL,)
    assert not found.is_cut


def test_damage_in_the_middle_is_named_by_its_line() -> None:
    line = point_to_line(FULL).encode()
    with pytest.raises(MeasurementFileError, match=r"runs\.jsonl, line 2 is not JSON"):
        parse_points(line + b'{"schema_version": 1, "mod\n' + line, where="runs.jsonl")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda document: document.update(schema_version=99), "schema 99"),
        (lambda document: document.pop("schema_version"), "no measurement"),
        (lambda document: document["workload"].update(precision="fp12"), "damaged"),
        (lambda document: document["latency_s"].update(samples=[]), "damaged"),
        (lambda document: document["latency_s"].update(samples=[0.0]), "damaged"),
        (lambda document: document.pop("device"), "damaged"),
        (lambda document: document.update(model=None), "damaged"),
    ],
)
def test_what_is_no_measurement_is_refused(change: Callable[[dict[str, object]], object], told: str) -> None:
    document = point_to_json(FULL)
    change(document)
    with pytest.raises(MeasurementFileError, match=told):
        parse_points((json.dumps(document) + "\n").encode(), where="runs.jsonl")


def test_a_run_is_no_faster_than_itself() -> None:
    (pair,) = compare_runs([FULL], [FULL]).pairs
    assert pair.verdict is RunVerdict.SAME


def test_a_slower_run_is_told_and_what_only_one_has_is_listed() -> None:
    generator = np.random.default_rng(5)
    fast = replace(FULL, samples_s=tuple(generator.normal(10e-3, 0.1e-3, 60).tolist()))
    slow = replace(FULL, samples_s=tuple(generator.normal(11e-3, 0.1e-3, 60).tolist()))
    pairing = compare_runs([fast, at(16, 0.02)], [slow, at(32, 0.04)])
    (pair,) = pairing.pairs
    assert pair.verdict is RunVerdict.SLOWER
    assert pair.ratio.value == pytest.approx(1.1, rel=0.01)
    assert [each.workload.batch for each in pairing.only_first] == [16]
    assert [each.workload.batch for each in pairing.only_second] == [32]
    assert compare_runs([slow], [fast]).pairs[0].verdict is RunVerdict.FASTER


@given(limit=st.integers(min_value=0, max_value=300), at_most=st.integers(min_value=1, max_value=200))
def test_binary_search_ends_where_sequential_search_does(limit: int, at_most: int) -> None:
    found = {}
    for search in BatchSearch:
        tried: list[int] = []

        def runs(batch: int, tried: list[int] = tried) -> bool:
            tried.append(batch)
            return batch <= limit

        found[search] = largest_running_batch(runs, search=search, at_most=at_most)
        assert max(tried) <= at_most
        assert found[search] == 0 or found[search] in tried, "an untried batch was returned"
    assert found[BatchSearch.BINARY] == found[BatchSearch.SEQUENTIAL] == min(limit, at_most)


def test_binary_search_tries_few_batches() -> None:
    tried: list[int] = []
    largest_running_batch(
        lambda batch: tried.append(batch) is None and batch <= 1000, search=BatchSearch.BINARY, at_most=65536
    )
    assert len(tried) <= 11 + 9  # doublings to 1024, halvings of 512


def test_the_knee_of_a_curve_by_hand() -> None:
    # Samples per second 100, 180, 200, 205: doublings gain 80 %, 11 %, 2.5 %. From batch 4 on none gains 10 %.
    points = [at(1, 0.01), at(2, 2 / 180), at(4, 4 / 200), at(8, 8 / 205)]
    curve = measured_curve(points)
    assert curve is not None
    assert (curve.knee_batch, curve.best_batch, curve.largest_batch) == (4, 8, 8)
    assert still_pays(points[1], points[2])
    assert not still_pays(points[2], points[3])


def test_a_curve_that_always_pays_has_no_knee() -> None:
    curve = measured_curve([at(1, 0.01), at(2, 0.01), at(4, 0.01)])
    assert curve is not None
    assert curve.knee_batch is None


def test_one_point_is_no_curve() -> None:
    assert measured_curve([FULL, FULL]) is None


def test_mfu_counts_the_products_of_a_model_alone() -> None:
    # 2 · 128 · 4096² FLOPs at 100 TFLOP/s in one second; the GELU that follows is no FLOP of the model.
    step = ExecutedStep.of(linear_recording(), Workload(precision=Precision.FP16))
    figures = Theory(step=step, gpu=gpu()).figures_at(batch=1, median_s=1.0)
    assert isinstance(figures, TheoryFigures)
    assert figures.mfu_fraction == pytest.approx(2 * 128 * 4096**2 / 100e12)
