"""The shipped calibrations: they name what they were made from, and hold nothing that physics forbids."""

import re
from collections import defaultdict
from pathlib import Path
from statistics import median

import pytest
import yaml

from capplan.core.gpus.spec import Segment
from capplan.core.latency.calibration import Calibration
from capplan.core.latency.lookup import part_for
from capplan.core.workload import Framework, Precision, Training, Workload
from capplan.specs import load_gpus
from capplan.specs.calibration import (
    ENGINES_FILE,
    dump_calibration,
    dump_engines,
    load_calibration,
    load_engines,
    load_memory_calibration,
)
from capplan.specs.folders import calibration_file
from capplan.specs.gpus.load import USABLE_FILE, memory_kind
from capplan.specs.rate_laws import RATES_FILE, SECTIONS, load_origins
from tests.seen import at_least

pytestmark = pytest.mark.slow

WORKLOADS = {
    "eager": Workload(precision=Precision.AMP_FP16),
    "compile": Workload(precision=Precision.AMP_FP16, framework=Framework.COMPILE),
    "training": Workload(precision=Precision.AMP_FP16, training=Training()),
}


@pytest.fixture(params=WORKLOADS)
def part(request: pytest.FixtureRequest) -> Calibration:
    found = part_for(load_calibration(), WORKLOADS[request.param])
    assert found.serves == request.param
    return found


def test_each_names_its_data_its_command_and_its_held_out_errors(part: Calibration) -> None:
    assert part.origin is not None
    assert part.origin.command
    assert part.origin.sources
    # A class of kernels has up to seven constants, and there are some forty classes: fewer rows would not fix them.
    assert part.origin.rows > 1000
    assert part.origin.held_out_errors


def test_each_law_of_all_gpus_names_its_data_and_a_command_that_exists() -> None:
    origins = load_origins(calibration_file(RATES_FILE))
    assert sorted(name for origin in origins for name in origin.sections) == sorted(SECTIONS)
    for origin in origins:
        script = re.search(r"benchmarks/\w+\.py", origin.command)
        assert script is not None
        assert (Path(__file__).parents[2] / script[0]).is_file()
        assert origin.data


@pytest.mark.parametrize("part", ["eager", "training"], indirect=True)
def test_no_fitted_bandwidth_beats_the_printed_one_by_more_than_an_error_of_the_fit(part: Calibration) -> None:
    # More than the printed bandwidth would be a graph that never ran, not an efficiency. The compiled part is left out:
    # few unfused kernels remain in compiled steps, so that some of its classes rest on a handful of rows.
    # Bandwidths are shares of what a copy sustains, which is 0.75 to 0.94 of print: 0.9 on the GPUs with most rows.
    for label, constants in at_least(20, part.classes.items()):
        assert 0.9 * constants.bandwidth < 1.15, label


def test_each_width_is_positive_and_covers_most_errors(part: Calibration) -> None:
    assert part.widths
    for cell, width in part.widths.items():
        assert 0 < width.below < 1.5, cell
        assert 0 < width.above < 1.5, cell
        assert width.between_gpus <= width.between_sheets, cell
        assert 0.8 <= width.coverage_fraction < 1, cell


def test_measured_gpus_are_in_the_database(part: Calibration) -> None:
    assert part.gpus
    assert set(part.gpus) <= set(load_gpus())


def test_what_ships_is_written_as_capplan_writes_it(part: Calibration, tmp_path) -> None:
    path = tmp_path / "again.yaml"
    path.write_text(dump_calibration(part))
    assert dump_calibration(part_for(load_calibration(path), WORKLOADS[part.serves])) == path.read_text()


def test_the_memory_calibration_names_data_and_sources() -> None:
    calibration = load_memory_calibration()
    assert calibration.origin.startswith("calibration of 2026-")
    assert all(row.origin for row in calibration.contexts)
    # 256 MiB flat is the smallest public reading, more than 1000 MB the eager one before CUDA 11.7
    ampere = calibration.context((8, 6), torch_version=(2, 7)).size_bytes
    assert ampere.low <= 256 * 2**20
    assert calibration.context((8, 6), torch_version=(1, 12)).size_bytes.expected >= 1e9


def test_every_nvidia_gpu_from_kepler_on_has_a_context() -> None:
    calibration = load_memory_calibration()
    for capability in ((3, 5), (5, 2), (6, 0), (7, 0), (7, 5), (8, 0), (8, 9), (9, 0), (10, 0), (12, 0), None):
        for release in ((1, 10), (2, 0), (2, 11)):
            size = calibration.context(capability, torch_version=release).size_bytes
            assert 100 * 2**20 <= size.low <= size.expected <= size.high <= 2 * 2**30


@pytest.mark.parametrize("name", ["tensorrt", "onnxruntime"])
def test_an_engine_names_its_data_its_command_and_its_held_out_errors(name: str) -> None:
    engine = load_engines()[name]
    assert engine.origin.command.startswith("python benchmarks/accuracy_engines.py")
    assert any("latency-other.csv.gz" in source for source in engine.origin.sources)
    assert sum(each.rows for each in engine.gpus.values()) == engine.origin.rows
    assert {"transformers, GPUs held out", "transformers, models held out"} <= set(engine.origin.held_out_errors)
    assert set(engine.gpus) <= set(load_gpus())


def test_an_engines_file_is_written_as_it_is_read() -> None:
    """The command that made it writes it through the same door, so that nothing in it was edited by hand."""
    assert dump_engines(load_engines()) == calibration_file(ENGINES_FILE).read_text()


def test_usable_memory_is_the_median_of_what_drivers_report() -> None:
    document = yaml.safe_load(calibration_file(USABLE_FILE).read_text())
    readings: dict[str, list[float]] = defaultdict(list)
    for gpu in at_least(100, load_gpus().values()):
        if gpu.usable_bytes is not None and gpu.segment is not Segment.CPU:
            kind = memory_kind(segment=gpu.segment, vendor=gpu.vendor, memory_type=gpu.memory_type or "", ecc=gpu.ecc)
            readings[kind].append(gpu.usable_bytes / gpu.memory_bytes)
    assert {kind: len(found) for kind, found in readings.items()} == {
        kind: row["gpus"] for kind, row in document["shares"].items()
    }
    for kind, found in readings.items():
        assert document["shares"][kind]["share"] == pytest.approx(median(found), abs=1e-4)
