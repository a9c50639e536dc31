"""`app.calibration`: predictions judged by measured rows, and a calibration fitted to them."""

from datetime import date
from pathlib import Path

import pytest

import capplan
from capplan.app.calibration.calibrate import CalibrateRequest, calibrate
from capplan.app.calibration.validate import ValidateRequest, validate
from capplan.errors import UnknownNameError, UsageError

HEADER = "model,gpu,batch,precision,latency_ms,input_size\n"


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """Rows of one small model on two GPUs, and one row of a GPU that does not exist."""
    path = tmp_path / "measured.csv"
    rows = [f"torchvision:squeezenet1_1,{gpu},{batch},fp32,5,3x64x64" for gpu in ("l4", "t4", "g0") for batch in (1, 8)]
    path.write_text(HEADER + "\n".join(rows) + "\n")
    return path


@pytest.mark.zoo
def test_rows_are_judged_by_cell_and_those_that_cannot_be_are_named(measured: Path, tmp_path: Path) -> None:
    made = validate(ValidateRequest(measured=(measured,), keys=("gpu",), traces=tmp_path / "traces"))
    assert sorted((each.step.gpu, each.step.batch) for each in made.judged) == [
        ("l4", 1),
        ("l4", 8),
        ("t4", 1),
        ("t4", 8),
    ]
    assert [each.reason for each in made.validation.skipped] == ["unknown GPU 'g0'"] * 2
    assert len(list((tmp_path / "traces").iterdir())) == 1
    again = capplan.validate(measured, by=["gpu"], traces=tmp_path / "traces")
    assert again.judged == made.judged


def test_an_unknown_column_is_refused(measured: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean gpu"):
        validate(ValidateRequest(measured=(measured,), keys=("gpus",)))


@pytest.mark.zoo
def test_too_few_rows_are_no_base_for_a_calibration(measured: Path, tmp_path: Path) -> None:
    request = CalibrateRequest(measured=(measured,), made=date(2026, 11, 22), command="", traces=tmp_path)
    with pytest.raises(UsageError, match="4 usable rows are too few to fit from; 20"):
        calibrate(request)
