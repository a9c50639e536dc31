"""A process for every point: a crash, a hang or a device left unusable costs that point alone."""

from collections.abc import Callable
from dataclasses import dataclass

from capplan.core.measurement.format import parse_points, point_to_line
from capplan.core.measurement.types import DeviceFacts, FailedMeasurement, MeasurementFailure, ModelIdentity, Point
from capplan.errors import CapplanError
from capplan.probe.measure.point import OnProgress
from capplan.probe.measure.request import MeasurementJob, job_from_json, job_to_json
from capplan.probe.measure.session import Session, make_failure
from capplan.processes.supervisor import TRIES_TO_MEASURE, Death, Worker, WorkerDiedError
from capplan.processes.worker import UnexpectedError


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """Time a batch, or run it without timing it."""

    batch: int
    is_timed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refused:
    """The sentence of an error that was expected."""

    message: str


class IsolatedMeasurer:
    """Starts a process per point and ends it after `timeout_s`."""

    def __init__(
        self, job: MeasurementJob, *, model: ModelIdentity, device: DeviceFacts, timeout_s: float | None
    ) -> None:
        self._job = job
        self._model = model
        self._device = device
        self._timeout_s = timeout_s

    def measure(self, batch: int, *, on_progress: OnProgress = lambda _: None) -> Point:
        """Time a batch in a process of its own; its progress is not seen."""
        del on_progress
        point = self._asked(_Batch(batch=batch, is_timed=True))
        assert point is not None
        return point

    def attempt(self, batch: int) -> FailedMeasurement | None:
        """Run a batch in a process of its own without timing it; None where it ran."""
        answer = self._asked(_Batch(batch=batch, is_timed=False))
        return answer if isinstance(answer, FailedMeasurement) else None

    def _asked(self, task: _Batch) -> Point | None:
        worker = Worker(make_measurer, job_to_json(self._job), keeps_stderr=False)
        try:
            answer = worker.call_again(task, time_s=self._timeout_s, most_tries=TRIES_TO_MEASURE)
        except WorkerDiedError as died:
            kind = MeasurementFailure.TIMEOUT if died.death is Death.TIME else MeasurementFailure.CRASH
            return self._failure(task.batch, kind, str(died))
        finally:
            worker.close()
        if isinstance(answer, _Refused | UnexpectedError):
            return self._failure(task.batch, MeasurementFailure.CRASH, f"failed: {answer.message}")
        return parse_points(answer, where=f"the process of batch {task.batch}").points[0] if answer else None

    def _failure(self, batch: int, kind: MeasurementFailure, what: str) -> FailedMeasurement:
        message = f"running {self._model.words} at batch {batch}: {what}"
        return make_failure(self._job, self._model, self._device, batch=batch, kind=kind, message=message)


def make_measurer(job: str) -> Callable[[_Batch], bytes | _Refused]:
    """Return what measures points of a job, in the process that does so."""

    def answer(task: _Batch) -> bytes | _Refused:
        try:
            with Session(job_from_json(job)) as session:
                point = session.measure(task.batch) if task.is_timed else session.attempt(task.batch)
        except CapplanError as error:
            return _Refused(message=str(error))
        return b"" if point is None else point_to_line(point).encode()

    return answer
