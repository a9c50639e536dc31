"""Time the points of a sweep on the devices of its GPUs, one point at a time on each, and keep them beside the theory.

A place is a device of this machine or of a cluster's node. The points go into a measurement file as `capplan measure`
writes it; each names the model and workload of the sweep in its command, by which it is joined to the rows.
"""

import json
import queue
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

from capplan.app.measure.store import MeasurementStore, read_measurements
from capplan.app.models import may_name_trace
from capplan.app.sweep import tables
from capplan.app.sweep.isolation import DevicesTask, MeasureTask, make_measurer
from capplan.app.sweep.records import Contents
from capplan.app.sweep.request import MeasuringRules, Sweep
from capplan.app.sweep.schema import FailureKind
from capplan.core.measurement.format import parse_points
from capplan.core.measurement.types import Point
from capplan.core.sweep.definition import Conditions
from capplan.core.sweep.overview import Failed
from capplan.errors import MeasurementError, UnknownNameError
from capplan.processes.supervisor import TRIES_TO_MEASURE, Worker, WorkerDiedError
from capplan.processes.worker import UnexpectedError
from capplan.specs import Gpus
from capplan.wording import as_options

MEASUREMENTS = "measurements.jsonl"
_MARK = "capplan sweep --measure # "
_GRACE_S = 60.0
"""A process that measures gets so much longer than its own child, whose end it reports."""

RowName = tuple[str, str, str, int]
"""A row's model, workload, GPU and batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuringDevice:
    """A device that points of one GPU can be timed on: its name for torch, and where it is.

    `close` ends whatever `run` keeps from one point to the next.
    """

    gpu: str
    device: str
    where: str
    run: Callable[[MeasureTask], str]
    close: Callable[[], None] = lambda: None


def measured_rows(path: Path) -> dict[RowName, tables.MeasuredRow]:
    """Read what a sweep's measurement file holds, by row; the newest measurement of a row counts."""
    if not path.exists():
        return {}
    rows = {}
    for point in read_measurements(path).measurements:
        if (name := _row_of(point)) is not None:
            median = point.median
            rows[name] = tables.MeasuredRow(
                median_s=point.latency.median,
                low_s=median.low if median else None,
                high_s=median.high if median else None,
                peak_allocated_bytes=point.memory.peak_allocated_bytes,
                device=point.device.name,
            )
    return rows


def measured_names(path: Path) -> set[RowName]:
    """Return the rows that a measurement file has an answer for, failures too."""
    points = read_measurements(path).points if path.exists() else ()
    return {name for point in points if (name := _row_of(point)) is not None}


def _row_of(point: Point) -> RowName | None:
    mark, _, words = point.command.partition(_MARK)
    if mark or not words:
        return None
    try:
        model, workload, gpu = json.loads(words)
    except ValueError:
        return None
    return model, workload, gpu, point.workload.batch


def command_of(model: str, workload: str, gpu: str) -> str:
    """Return the command that a point of a sweep's row is kept with."""
    return _MARK + json.dumps([model, workload, gpu], ensure_ascii=False)


def points_to_measure(
    folder: Path, contents: Contents, sweep: Sweep, *, gpus: Iterable[str], known: set[RowName], rules: MeasuringRules
) -> Iterator[MeasureTask]:
    """Yield the points of inference that fit on the GPUs and that no measurement answers."""
    models = {model.label: model for model in sweep.models}
    wanted = set(gpus)
    for file in contents.files.values():
        conditions = sweep.context.workloads[file.workload]
        if not isinstance(conditions, Conditions) or conditions.workload.training or conditions.scheme:
            continue  # quantised layers are worked out from a trace: there is no module of them to run
        if conditions.power_limit_w is not None:
            continue  # the device runs at its own limit: its times are not those of a lower one
        table = tables.read_parquet(folder / file.path, columns=["model", "gpu", "batch", "fits"])
        for row in table.to_pylist():
            name = row["model"], file.workload, row["gpu"], row["batch"]
            is_timed = not models[row["model"]].is_pipeline  # parts, not pipelines, are timed
            if is_timed and row["gpu"] in wanted and row["fits"] and name not in known:
                yield MeasureTask(
                    model=models[row["model"]],
                    workload=conditions.workload,
                    gpu=sweep.context.gpus[row["gpu"]],
                    batch=row["batch"],
                    device="",
                    budget_s=rules.budget_s,
                    timeout_s=rules.timeout_s,
                    command=command_of(row["model"], file.workload, row["gpu"]),
                )


def local_places(known: Gpus, gpus: Iterable[str]) -> tuple[list[MeasuringDevice], dict[str, str]]:
    """Return the devices of this machine that are GPUs of the sweep, and all devices with what drivers call them."""
    devices = run_once(DevicesTask(), timeout_s=_GRACE_S * 2)
    assert isinstance(devices, dict)
    return [_kept_busy(place) for place in matching_places(known, gpus, devices, where="this machine")], devices


def _kept_busy(place: MeasuringDevice) -> MeasuringDevice:
    """Return a place with one process for all its points, so that libraries are imported once.

    That process starts another one for each point, and holds nothing on the device itself.
    """
    worker = Worker(make_measurer)

    def run(task: MeasureTask) -> str:
        answer = _answer_of(worker, task, task.timeout_s + _GRACE_S)
        assert isinstance(answer, str)
        return answer

    return replace(place, run=run, close=worker.close)


def matching_places(
    known: Gpus, gpus: Iterable[str], devices: Mapping[str, str], *, where: str
) -> list[MeasuringDevice]:
    """Return a place for each device whose driver's name is that of one of the GPUs."""
    wanted, places = set(gpus), []
    for device, name in devices.items():
        try:
            gpu = known.find(name)
        except UnknownNameError:
            continue
        if gpu.id in wanted:
            places.append(MeasuringDevice(gpu=gpu.id, device=device, where=where, run=measure_here))
    return places


def measure_here(task: MeasureTask) -> str:
    """Time a point on a device of this machine, in a process of its own, and return it as a line."""
    answer = run_once(task, timeout_s=task.timeout_s + _GRACE_S)
    assert isinstance(answer, str)
    return answer


def run_once(task: MeasureTask | DevicesTask, *, timeout_s: float) -> Any:
    """Return the answer to a task from a process of its own, which is ended after it."""
    worker = Worker(make_measurer)
    try:
        return _answer_of(worker, task, timeout_s)
    finally:
        worker.close()


def _answer_of(worker: Worker, task: MeasureTask | DevicesTask, timeout_s: float) -> Any:
    try:
        answer = worker.call_again(task, time_s=timeout_s, most_tries=TRIES_TO_MEASURE)
    except WorkerDiedError as died:
        raise MeasurementError(str(died)) from died
    if isinstance(answer, UnexpectedError):
        raise MeasurementError(answer.message)
    return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """One finished point: its task, and its line or why there is none."""

    task: MeasureTask
    line: str | None
    failed: Failed | None = None


def measure_points(
    places: Sequence[MeasuringDevice], tasks: Iterable[MeasureTask], store: MeasurementStore
) -> Iterator[Timed]:
    """Time points, one at a time on each place, and append each to the measurement file as it finishes."""
    waiting: dict[str, queue.SimpleQueue[MeasureTask]] = {place.gpu: queue.SimpleQueue() for place in places}
    for task in tasks:
        waiting[task.gpu.id].put(task)
    done: queue.SimpleQueue[Timed | None] = queue.SimpleQueue()
    stop = Event()
    threads = [
        Thread(target=_measure_at, args=(place, waiting[place.gpu], done, stop), daemon=True) for place in places
    ]
    for thread in threads:
        thread.start()
    try:
        for _ in threads:
            while (timed := done.get()) is not None:
                if timed.line:
                    for point in parse_points(timed.line.encode(), where="a measurement").points:
                        store.append(point)
                yield timed
    finally:
        stop.set()
        for place in places:
            place.close()


def _measure_at(
    place: MeasuringDevice,
    tasks: "queue.SimpleQueue[MeasureTask]",
    done: "queue.SimpleQueue[Timed | None]",
    stop: Event,
) -> None:
    while not stop.is_set():
        try:
            task = tasks.get_nowait()
        except queue.Empty:
            break
        if may_name_trace(task.model.request.words):
            words = task.model.request.words
            reason = (
                f"{words} is a trace, and measuring runs the model itself: name the model, such as torchvision:resnet18"
            )
            done.put(Timed(task=task, line=None, failed=Failed(kind=FailureKind.MODEL.value, reason=reason)))
            continue
        try:
            line = place.run(replace(task, device=place.device))
            done.put(Timed(task=task, line=line))
        except Exception as error:  # whatever a device or a cluster does costs this point alone
            failed = Failed(kind=FailureKind.CRASH.value, reason=as_options(str(error)))
            done.put(Timed(task=task, line=None, failed=failed))
    done.put(None)
