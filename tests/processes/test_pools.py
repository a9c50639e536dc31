"""A process of each pool is killed once at each stage of its life: every task is answered, as if nothing had happened.

The planners of a sweep are killed in `tests/app/sweep/test_isolation.py`, in a whole sweep.
"""

import asyncio
import sys
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from capplan.app.calibration import validate
from capplan.app.calibration.validate import judge_in_processes
from capplan.app.sweep import isolation, measuring
from capplan.app.sweep.isolation import DevicesTask
from capplan.app.sweep.request import ModelLimits
from capplan.app.sweep.stages import Traces
from capplan.app.trace_cache import TraceCache
from capplan.core.measurement.types import DeviceFacts, ModelIdentity
from capplan.core.workload import Configuration
from capplan.probe.inputs.grammar import ModelRequest
from capplan.probe.measure import isolated
from capplan.probe.measure.isolated import IsolatedMeasurer
from capplan.probe.measure.request import MeasurementJob
from capplan.processes.supervisor import Template
from capplan.serve import worker_pool
from capplan.serve.planning.messages import Outcome, Refusal, Reply, Task, TraceJob
from capplan.serve.settings import ServiceLimits, Settings
from capplan.serve.sharing import is_wanted
from capplan.serve.tracing import queue
from capplan.serve.worker_pool import Lane, PlannerPool
from capplan.verbs.gpus import GpuQuestion
from tests.app.test_calibration_processes import STEPS
from tests.processes import slow_work
from tests.processes.kills import STAGES, kill_at_each_stage

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are observed in /proc")
TASKS = range(len(STAGES))


def test_planners_of_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "make_planner", slow_work.make_service_planner)
    monkeypatch.setattr(worker_pool, "FIRST_PAUSE_S", 0.01)

    async def ask_all() -> list[Outcome]:
        planners = PlannerPool(Settings(state=tmp_path, limits=ServiceLimits(planners=2, plan_s=30.0)))
        await planners.start()
        try:
            asked = [Task(question=GpuQuestion(gpu=str(number))) for number in TASKS]
            return [await planners.ask(task, lane=Lane.ORDINARY, wanted=is_wanted) for task in asked]
        finally:
            await planners.stop()

    killed = kill_at_each_stage(monkeypatch)
    outcomes = asyncio.run(ask_all())
    assert [outcome.content for outcome in outcomes if isinstance(outcome, Reply)] == [b"0", b"1", b"2", b"3"]
    assert killed == [*STAGES]


async def start_without_libraries(tracers: queue.TraceQueue) -> None:
    """Start what traces, but not the process that loads the model libraries: workers here are new interpreters."""
    tracers._keepers = [asyncio.ensure_future(tracers._trace_on())]


def test_tracers_of_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "make_tracer", slow_work.make_service_tracer)
    monkeypatch.setattr(queue, "Template", lambda _: None)

    async def trace_all() -> list[Refusal | None]:
        tracers = queue.TraceQueue(limits=ServiceLimits(tracers=1), cache=TraceCache(folder=tmp_path))
        await tracers.start()
        try:
            requests = [ModelRequest(words=f"model {number}") for number in TASKS]
            jobs = [TraceJob(request=request, configuration=Configuration()) for request in requests]
            return [await tracers.obtain(job, wanted=is_wanted) for job in jobs]
        finally:
            await tracers.stop()

    monkeypatch.setattr(queue.TraceQueue, "start", start_without_libraries)
    killed = kill_at_each_stage(monkeypatch)
    failures = asyncio.run(trace_all())
    assert [failure.message for failure in failures if failure] == [f"model {number}" for number in TASKS]
    assert killed == [*STAGES]


class Dying(Template):
    """A process whose death the first three forks meet before the system has noted it."""

    forks = 0

    def fork(self, theirs: Connection) -> Any:
        self.forks += 1
        if self.forks <= 3:
            raise EOFError
        return super().fork(theirs)


def test_tracers_are_forked_again_until_the_process_that_they_are_forked_from_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "make_tracer", slow_work.make_service_tracer)
    monkeypatch.setattr(queue, "Template", lambda _: Dying("json"))
    monkeypatch.setattr(queue, "_START_AGAIN_S", 0.01)
    monkeypatch.setattr(queue.TraceQueue, "start", start_without_libraries)

    async def trace() -> Refusal | None:
        tracers = queue.TraceQueue(limits=ServiceLimits(tracers=1), cache=TraceCache(folder=tmp_path))
        await tracers.start()
        try:
            job = TraceJob(request=ModelRequest(words="a model"), configuration=Configuration())
            return await tracers.obtain(job, wanted=is_wanted)
        finally:
            await tracers.stop()

    failure = asyncio.run(trace())
    assert failure is not None
    assert failure.message == "a model"  # what the tracer of this test answers


@pytest.mark.slow
@pytest.mark.nightly
def test_tracers_of_a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "make_tracer", slow_work.make_sweep_tracer)
    killed = kill_at_each_stage(monkeypatch)
    worker = isolation.tracing_worker(ModelLimits())
    for _ in TASKS:
        assert worker.call_again("a task") == Traces()
    worker.close()
    assert killed == [*STAGES]


@pytest.mark.slow
@pytest.mark.nightly
def test_processes_that_measure_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "make_measurer", slow_work.make_point_measurer)
    killed = kill_at_each_stage(monkeypatch)
    measurer = IsolatedMeasurer(
        MeasurementJob(model=ModelRequest(words="net")),
        model=ModelIdentity(name="net", words="net", library="none"),
        device=DeviceFacts(name="a processor", kind="cpu", torch="2.13.0"),
        timeout_s=300.0,
    )
    assert [measurer.attempt(batch) for batch in TASKS] == [None] * len(TASKS)
    assert killed == [*STAGES]


@pytest.mark.slow
@pytest.mark.nightly
def test_processes_that_measure_for_a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "make_measurer", slow_work.make_sweep_measurer)
    killed = kill_at_each_stage(monkeypatch)
    assert [measuring.run_once(DevicesTask(), timeout_s=300.0) for _ in TASKS] == [{"cpu": "a processor"}] * len(TASKS)
    assert killed == [*STAGES]


def test_processes_that_judge_measured_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate, "_STARTING_S", 1e-3)
    monkeypatch.setattr(validate, "cores", lambda: 2)
    killed = kill_at_each_stage(monkeypatch)
    steps = [replace(step, model=f"timm:net{step.line % 10}") for step in STEPS]
    _, rows = judge_in_processes(steps, slow_work.make_judge, (None,))
    assert [row.reason for row in rows] == ["seen"] * len(STEPS)
    assert killed == [*STAGES]
