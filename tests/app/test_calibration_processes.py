"""`app.calibration.processes`: many models' measured steps, predicted by several processes as by one."""

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from capplan.app.calibration import validate
from capplan.app.calibration.measured_models import group_models, group_runs
from capplan.app.calibration.validate import Judged, judge_in_processes
from capplan.core.calibrate.measured import MeasuredStep, SkippedRow
from capplan.core.workload import Configuration, Layout, Precision, Workload
from capplan.probe.trace.measured import ModelRun, TraceFolder

pytestmark = pytest.mark.slow

STEPS = tuple(
    MeasuredStep(
        line=line, file="rows.csv", model=f"timm:net{line % 5}", gpu="l4", workload=Workload(), batch=1, latency_s=1.0
    )
    for line in range(1, 21)
)


def make_lister(folder: Path | None) -> Callable[[Sequence[MeasuredStep]], Judged]:
    """Return a function that skips every row for the process that it ran in, and dies of net3."""

    def listed(steps: Sequence[MeasuredStep]) -> Judged:
        if steps[0].model == "timm:net3" and folder is not None:
            os.kill(os.getpid(), signal.SIGSEGV)
        return [], [SkippedRow(line=step.line, file=step.file, reason=str(os.getpid())) for step in steps]

    return listed


@pytest.fixture
def _much_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate, "_STARTING_S", 1e-3)
    monkeypatch.setattr(validate, "cores", lambda: 2)


def test_little_work_starts_no_process() -> None:
    _, rows = judge_in_processes(STEPS[:2], make_lister, (None,))
    assert {row.reason for row in rows} == {str(os.getpid())}


@pytest.mark.usefixtures("_much_work")
@pytest.mark.nightly
def test_much_work_is_shared_and_answered_in_the_order_of_the_rows() -> None:
    _, rows = judge_in_processes(STEPS, make_lister, (None,))
    by_model = [line for first in range(1, 6) for line in range(first, 21, 5)]
    assert [row.line for row in rows] == by_model
    assert str(os.getpid()) not in {row.reason for row in rows}


@pytest.mark.usefixtures("_much_work")
@pytest.mark.nightly
def test_a_model_that_kills_its_process_loses_its_own_rows_alone(tmp_path: Path) -> None:
    _, rows = judge_in_processes(STEPS, make_lister, (tmp_path,))
    lost = {row.line for row in rows if "killed by SIGSEGV" in row.reason}
    assert lost == {3, 8, 13, 18}
    assert len(rows) == len(STEPS)


def test_steps_of_one_model_in_several_precisions_are_one_group() -> None:
    half = [replace(step, workload=Workload(precision=Precision.FP16)) for step in STEPS]
    assert len(group_runs([*STEPS, *half])) == 10
    assert [len(group) for group in group_models([*STEPS, *half])] == [8] * 5


@pytest.mark.zoo
def test_a_module_that_serves_several_configurations_gives_the_traces_of_modules_of_their_own(tmp_path: Path) -> None:
    run = ModelRun(
        model="timm:test_convnext", input_size=(64,), reparameterized=False, fast_norm=False,
        configuration=Configuration(),
    )  # fmt: skip
    runs = [run, replace(run, configuration=Configuration(layout=Layout.NHWC))]
    shared = TraceFolder(tmp_path / "shared")
    for number, each in enumerate(runs):
        alone = TraceFolder(tmp_path / str(number)).obtain(each)
        assert shared.obtain(each) == alone
