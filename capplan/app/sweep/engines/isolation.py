"""Run the stages of a sweep in child processes, so that a crash, a hang or a memory hog costs its own model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Event
from typing import Any

from capplan.app.sweep.engines.child import Child, ChildDiedError
from capplan.app.sweep.engines.worker import TraceTask, UnexpectedError, WarmTask
from capplan.app.sweep.request import Limits, PlanContext, SweepModel
from capplan.app.sweep.stages import Job, JobAnswer, Traces, failed_answer
from capplan.core.sweep.conditions import AnyConditions, Conditions
from capplan.core.sweep.overview import Failed
from capplan.core.sweep.schema import FailureKind

_TRACED_AT_MOST = 100
"""A tracing process is replaced after so many models: libraries keep what they load."""


class _FailedError(Exception):
    """A stage gave no answer; `failed` says why."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.reason)
        self.failed = failed


def tracing_child(limits: Limits) -> Child:
    """Return a process for tracing, whose imports count for no model's time.

    Args:
        limits: what one model may take.
    """
    return Child(limits=limits, first_task=WarmTask())


@dataclass(slots=True, kw_only=True)
class IsolatedTracer:
    """Traces models in a child process."""

    child: Child
    stop: Event | None = None
    _traced: int = 0

    def traces(self, model: SweepModel, conditions: Sequence[Conditions]) -> Traces:
        """Trace a model for workloads; where that fails as a whole, for each by itself.

        Args:
            model: the model.
            conditions: the workloads, with their batches.
        """
        try:
            return self._traced_together(model, conditions)
        except _FailedError as error:
            if len(conditions) == 1:
                return Traces(failed={(str(conditions[0].workload.configuration), None): error.failed})
        found = Traces()
        for each in conditions:
            found = found.joined(self.traces(model, [each]))
        return found

    def _traced_together(self, model: SweepModel, conditions: Sequence[Conditions]) -> Traces:
        if self._traced >= _TRACED_AT_MOST:
            self.child.close()
            self._traced = 0
        answer = _call(self.child, TraceTask(model=model, conditions=tuple(conditions)), self.stop)
        self._traced += 1
        if is_of_users_code(model):
            self.child.close()  # the user's code may have changed libraries for the models after it
        assert isinstance(answer, Traces)
        return answer


@dataclass(slots=True, kw_only=True)
class IsolatedStages:
    """A share of a machine: one process of each stage, of which one works at a time."""

    planner: Child
    tracer: Child
    context: PlanContext
    stop: Event | None = None
    _tracer: IsolatedTracer | None = None

    def answer(self, job: Job) -> JobAnswer:
        """Plan a job's model, tracing it first where that is needed."""
        try:
            answer = self._planned(job)
            if answer.needs_trace:
                answer = self._planned(replace(job, traces=self._traces(job)))
        except _FailedError as error:
            return failed_answer(job, self.context, error.failed)
        return answer

    def close(self) -> None:
        """End both processes."""
        self.planner.close()
        self.tracer.close()

    def _planned(self, job: Job) -> JobAnswer:
        answer = _call(self.planner, job, self.stop)
        assert isinstance(answer, JobAnswer)
        return answer

    def _traces(self, job: Job) -> Traces:
        if self._tracer is None:
            self._tracer = IsolatedTracer(child=self.tracer, stop=self.stop)
        return self._tracer.traces(job.model, asked_conditions(job, self.context.workloads))


def asked_conditions(job: Job, workloads: Mapping[str, AnyConditions]) -> list[Conditions]:
    """Return the conditions that a job's model must be traced for."""
    found = [workloads[name] for name in job.asked]
    return [each for each in found if isinstance(each, Conditions)]


def _call(child: Child, task: object, stop: Event | None) -> Any:
    """Return the answer of a child, after as many tries as its deaths are worth.

    Raises:
        _FailedError: it gave none.
    """
    deaths = 0
    while True:
        try:
            answer = child.call(task, stop=stop)
        except ChildDiedError as died:
            deaths += 1
            if deaths > died.may_retry:
                raise _FailedError(died.failed) from died
        else:
            if isinstance(answer, UnexpectedError):
                raise _FailedError(Failed(kind=FailureKind.BUG.value, reason=answer.message))
            return answer


def is_of_users_code(model: SweepModel) -> bool:
    """Return True if a model is made by code that is neither torchvision's, timm's nor transformers'."""
    request = model.request
    library, colon, _ = request.words.partition(":")
    return bool((colon and library not in ("torchvision", "timm", "hf")) or request.inputs_from or request.prepare)
