"""Calibrations of LLM step times as files: what is written is read again, and what is wrong is named."""

from dataclasses import replace
from pathlib import Path

import pytest

from capplan.errors import SpecError
from capplan.llm.core.serving.priors import PRIOR
from capplan.llm.core.timing.calibration import WIDTH_NAMES, LlmCalibration, Width
from capplan.llm.read.calibrations import dump_time_calibration, load_time_calibration


def calibration() -> LlmCalibration:
    width = Width(same=1.2, model=1.3, format=1.3, gpu=1.4, architecture=1.4, vendor=1.5, engine=2.0)
    return replace(PRIOR, widths=dict.fromkeys(WIDTH_NAMES, width), measured_gpus=frozenset({"h100-sxm5-80gb"}))


def test_a_calibration_that_was_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(dump_time_calibration(calibration()))
    found = load_time_calibration(path)
    assert (found.widths, found.device, found.measured_gpus) == (
        calibration().widths,
        calibration().device,
        calibration().measured_gpus,
    )
    assert dump_time_calibration(found) == path.read_text()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("staged_bytes: 14000000.0", "", "switched.staged_bytes: is missing"),
        (
            "bus_decline: 1.03",
            "bus_decline: 1.03, bus_declin: 1.0",
            "switched.bus_declin: unknown key; did you mean bus_decline",
        ),
        ("  tpot, dense:", "  tpot dense:", "widths.tpot, dense: is missing"),
        ("schema_version: 2", "schema_version: 9", "is not a calibration of LLM step times of schema_version 2"),
        ("bus_decline: 1.03", "bus_decline: fast", "switched.bus_decline: must be a number, not 'fast'"),
        ("same: 1.2", "same: 0.8", "same: must lie from 1 "),  # the interval's low end would be above its high one
    ],
)
def test_a_wrong_file_is_refused_with_the_place(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = dump_time_calibration(calibration())
    assert old in text
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(SpecError, match=message):
        load_time_calibration(path)


def test_a_calibration_without_a_class_of_kernels_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "older.yaml"
    lines = dump_time_calibration(calibration()).splitlines(keepends=True)
    path.write_text("".join(text for text in lines if "state-space update" not in text))
    with pytest.raises(SpecError, match=r"kernels\.state-space update: is missing"):
        load_time_calibration(path)
