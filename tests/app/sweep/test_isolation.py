"""Models that crash, hang or take all memory cost their own rows; killed processes and drivers lose nothing."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pandas
import pytest

from capplan.app.sweep import isolation
from capplan.app.sweep.isolation import TraceTask
from capplan.app.sweep.request import ModelLimits, SweepModel
from capplan.app.sweep.results import read_sweep
from capplan.app.sweep.run import sweep
from capplan.core.sweep.definition import Conditions
from capplan.core.workload import BatchChoice, Batches, Precision, Workload
from capplan.probe.inputs.grammar import ModelRequest
from capplan.processes.supervisor import Death, WorkerDiedError
from tests.app.sweep.conftest import make_request
from tests.processes.kills import STAGES, kill_at_each_stage
from tests.processes.slow_work import make_sweep_planner

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="children are found in /proc")]

UNRULY = """
import os, signal, time
import torch


class Good(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Linear(8, 16))


class Crash(Good):
    def forward(self, x):
        os.kill(os.getpid(), signal.SIGSEGV)


class Hang(Good):
    def forward(self, x):
        while True:
            time.sleep(1)


class Hog(Good):
    def forward(self, x):
        kept = []
        while True:
            kept.append(bytearray(b"x" * 2**24))
            time.sleep(0.001)
"""


@pytest.mark.nightly
def test_each_unruly_model_costs_its_own_rows(tmp_path: Path) -> None:
    path = tmp_path / "unruly.py"
    path.write_text(UNRULY)
    models = [{"model": f"{path}:{name}", "input": ["8"]} for name in ("Crash", "Good", "Hang", "Hog")]
    request = make_request(
        tmp_path / "out", models, gpus=["l4"], workers=2, limits=ModelLimits(time_s=20.0, memory_bytes=1500 * 2**20)
    )
    done = sweep(request)
    rows = read_sweep(tmp_path / "out").to_pandas().drop_duplicates("model").set_index("model")
    rows.index = [label.partition(":")[2].partition(" ")[0] for label in rows.index]
    assert rows.status.to_dict() == {"Crash": "failed", "Good": "fits", "Hang": "failed", "Hog": "failed"}
    assert rows.failure.drop("Good").to_dict() == {"Crash": "crash", "Hang": "timeout", "Hog": "memory"}
    assert "SIGSEGV" in rows.reason["Crash"]
    assert "more than 20" in rows.reason["Hang"]
    assert "more than 1.46 GiB" in rows.reason["Hog"]
    assert done.failed == 3
    assert sweep(request).standing.kept == 4


class LateWorker:
    """Takes the whole limit for every task, and notes the precisions that it was asked for."""

    def __init__(self) -> None:
        self.asked: list[list[Precision]] = []

    def call_again(self, task: TraceTask, **_: object) -> object:
        self.asked.append([each.workload.precision for each in task.conditions])
        raise WorkerDiedError(Death.TIME, "its process took more than 600 s and was ended")

    def close(self) -> None: ...


def test_a_model_that_hangs_takes_its_limit_twice_whatever_the_number_of_workloads() -> None:
    precisions = (Precision.FP32, Precision.FP16, Precision.BF16, Precision.TF32)
    batches = Batches(choice=BatchChoice.LISTED, sizes=(1,))
    conditions = [
        Conditions(workload=Workload(precision=precision), batches=batches, utilization_fraction=0.9)
        for precision in precisions
    ]
    worker = LateWorker()
    tracer = isolation.IsolatedTracer(worker=worker, time_s=600.0)  # type: ignore[arg-type]
    traces = tracer.traces(SweepModel(label="net", request=ModelRequest(words="net.py:Net")), conditions)
    assert worker.asked == [list(precisions), [Precision.FP32]]
    # configurations: fp32 and tf32 share one
    assert {failed.kind for failed in traces.failed.values()} == {"timeout"}
    assert len(traces.failed) == len({str(each.workload.configuration) for each in conditions})


@pytest.fixture
def catalogue(traces: Path, tmp_path: Path) -> Path:
    """Return a folder of twelve trace files."""
    folder = tmp_path / "catalogue"
    folder.mkdir()
    for index in range(12):
        source = traces / ("narrow.trace.json", "wide.trace.json")[index % 2]
        (folder / f"net{index:02}.trace.json").write_bytes(source.read_bytes())
    return folder


def sorted_rows(folder: Path) -> pandas.DataFrame:
    keys = ["workload", "model", "gpu", "batch"]
    return read_sweep(folder).to_pandas().sort_values(keys, ignore_index=True)


def children(pid: int) -> list[int]:
    """Return the processes that a process started and that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(parent) == pid and state != "Z":
            found.append(int(path.parent.name))
    return found


@pytest.mark.nightly
def test_a_planner_killed_at_each_stage_loses_nothing(
    catalogue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep(make_request(tmp_path / "calm", [str(catalogue)]))
    monkeypatch.setattr(isolation, "make_planner", make_sweep_planner)
    killed = kill_at_each_stage(monkeypatch)
    sweep(make_request(tmp_path / "out", [str(catalogue)]))
    assert killed == [*STAGES]
    assert sorted_rows(tmp_path / "out").equals(sorted_rows(tmp_path / "calm"))


@pytest.mark.nightly
def test_a_killed_driver_is_followed_by_one_that_goes_on(catalogue: Path, tmp_path: Path) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text(f"models: [{catalogue}]\ngpus: [l4, t4]\nworkloads: [{{batch: [1, 32]}}]\n")
    words = [sys.executable, "-m", "capplan", "sweep", str(file), "-o", str(tmp_path / "out"), "--workers", "1"]
    driver = subprocess.Popen([*words, "--progress", "json"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert driver.stderr is not None
    while json.loads(driver.stderr.readline())["finished"] < 3:
        pass
    workers = children(driver.pid)
    driver.kill()
    driver.wait()
    driver.stderr.close()
    assert workers
    deadline_s = time.monotonic() + 300
    while any(Path(f"/proc/{pid}/stat").exists() and is_running(pid) for pid in workers):
        assert time.monotonic() < deadline_s, "a worker outlived its driver"
        time.sleep(0.05)

    again = subprocess.run([*words, "--json", "--progress", "none"], capture_output=True, text=True, check=True)
    overview = json.loads(again.stdout)
    assert overview["kept"] >= 3
    assert overview["rows"] == (12 - overview["kept"]) * 4
    rows = sorted_rows(tmp_path / "out")
    assert len(rows) == len(rows.drop_duplicates(["model", "gpu", "batch"])) == 12 * 4
    sweep(make_request(tmp_path / "calm", [str(catalogue)]))
    assert rows.equals(sorted_rows(tmp_path / "calm"))


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
