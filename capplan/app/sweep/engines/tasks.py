"""What the processes of a sweep are given to do: trace models, plan them, and measure points."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from capplan.app.sweep.request import SweepContext, SweepModel
from capplan.app.sweep.stages import JobAnswer, PlanningJob, Traces, plan_model, trace_model
from capplan.core.batches import BatchChoice, Batches
from capplan.core.gpus.spec import GpuSpec
from capplan.core.measurement.format import point_to_line
from capplan.core.sweep.conditions import Conditions
from capplan.core.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceTask:
    """Trace a model for these workloads."""

    model: SweepModel
    conditions: tuple[Conditions, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesTask:
    """List the devices that torch can use here, with what their drivers call them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureTask:
    """Time a model at a batch on a device; `gpu` is the spec that the estimate beside it rests on. [s]"""

    model: SweepModel
    workload: Workload
    gpu: GpuSpec
    batch: int
    device: str
    budget_s: float
    timeout_s: float
    command: str


def make_tracer() -> Callable[[TraceTask], Traces]:
    """Import what tracing needs, and return what traces a model."""
    import capplan.probe.trace.tracer  # noqa: F401 - its time counts for no model

    return lambda task: trace_model(task.model, task.conditions)


def make_planner(context: SweepContext) -> Callable[[PlanningJob], JobAnswer]:
    """Return what plans a model.

    Args:
        context: what all models share.
    """
    return partial(plan_model, context=context)


def make_measurer() -> Callable[[MeasureTask | DevicesTask], str | dict[str, str]]:
    """Return what times points and lists devices."""

    def answer(task: MeasureTask | DevicesTask) -> str | dict[str, str]:
        if isinstance(task, MeasureTask):
            return measure_point(task)
        from capplan.probe.measure.devices import devices_at_hand

        return devices_at_hand()

    return answer


def measure_point(task: MeasureTask) -> str:
    """Time a point as `capplan measure --isolate` does, and return its line of the measurement file."""
    from capplan.app.measure.request import MeasuredBatches, MeasureRequest, TheoryRequest
    from capplan.app.measure.run import measure
    from capplan.probe.measure.point import Rules
    from capplan.probe.measure.timing import StopRule

    answer = measure(
        MeasureRequest(
            model=task.model.request,
            curve=MeasuredBatches(batches=Batches(choice=BatchChoice.LISTED, sizes=(task.batch,))),
            rules=Rules(stop=StopRule(budget_s=task.budget_s)),
            precision=task.workload.precision,
            framework=task.workload.framework,
            layout=task.workload.layout,
            device=task.device,
            theory=TheoryRequest(gpu=task.gpu),
            is_isolated=True,
            timeout_s=task.timeout_s,
            command=task.command,
        )
    )
    return "".join(map(point_to_line, answer.points))
