"""`app.calibration`: predictions judged by measured rows, and a calibration fitted to them."""

import json
from pathlib import Path

import pytest

import capplan
from capplan.app.calibration.calibrate import timed_steps
from capplan.app.calibration.validate import validate
from capplan.app.feedback import Feedback
from capplan.app.measure.request import MeasuredBatches, MeasureRequest
from capplan.app.measure.run import measure
from capplan.core.workload import BatchChoice, Batches
from capplan.errors import UnknownNameError, UsageError
from capplan.probe.inputs.grammar import ModelRequest
from capplan.probe.measure.point import Rules
from capplan.probe.measure.request import MeasurementJob
from capplan.probe.measure.timing import StopRule, WarmUpRule

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
    made = validate((measured,), keys=("gpu",), traces=tmp_path / "traces")
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
        validate((measured,), keys=("gpus",))


@pytest.mark.zoo
def test_too_few_rows_are_no_base_for_a_calibration(measured: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="4 usable rows are too few to fit from; 20"):
        timed_steps([measured], traces=tmp_path)


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `measure` writes of a small model on this machine's CPU."""
    path = tmp_path_factory.mktemp("measured") / "runs.jsonl"
    measure(
        MeasureRequest(
            job=MeasurementJob(
                model=ModelRequest(words="torchvision:squeezenet1_1", input_size="64"),
                rules=Rules(warm_up=WarmUpRule(runs=2), stop=StopRule(repetitions=6, budget_s=10.0)),
                device="cpu",
            ),
            curve=MeasuredBatches(batches=Batches(choice=BatchChoice.LISTED, sizes=(1, 2))),
            lines=path,
        )
    )
    return path


@pytest.mark.zoo
def test_lines_of_measure_on_this_cpu_are_judged(lines: Path, tmp_path: Path) -> None:
    made = validate((lines,), traces=tmp_path)
    assert [(each.step.batch, each.step.input_size) for each in made.judged] == [(1, (3, 64, 64)), (2, (3, 64, 64))]
    assert made.validation.skipped == ()


@pytest.mark.zoo
def test_a_calibration_is_fitted_to_lines_of_measure(lines: Path, tmp_path: Path) -> None:
    point = json.loads(lines.read_text().splitlines()[0])
    point["device"] |= {"gpu": "l4", "name": "NVIDIA L4", "kind": "cuda"}
    path = tmp_path / "l4.jsonl"
    points = [{**point, "workload": {**point["workload"], "batch": batch}} for batch in range(1, 25)]
    path.write_text("".join(json.dumps(each) + "\n" for each in points))
    found = capplan.calibrate([path], traces=tmp_path)
    assert found.calibration.gpus["l4"].rows == 24


class _Heard(Feedback):
    """Feedback that keeps its warnings."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def warn(self, message: str) -> None:
        self.said.append(message)


@pytest.mark.zoo
def test_steps_of_a_cpu_are_left_out_of_a_fit_with_the_command_that_fits_them(lines: Path, tmp_path: Path) -> None:
    heard = _Heard()
    with pytest.raises(UsageError, match="0 usable rows"):
        timed_steps([lines], traces=tmp_path, feedback=heard)
    reason = "was timed on a CPU, which `capplan calibrate device --device cpu` fits"
    assert heard.said == [f"left out: row {row} {reason}" for row in (1, 2)]


@pytest.mark.parametrize("name", ["x" * 5000, "measured.csv"])
def test_a_folder_of_traces_that_cannot_be_is_one_sentence(measured: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"no traces can be kept in .*: File (name too long|exists)\."):
        validate((measured,), keys=("gpu",), traces=measured.parent / name)
