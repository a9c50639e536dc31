"""Plan models: which GPUs fit each of them at a batch, how fast it runs there, and what binds it."""

from dataclasses import dataclass, field, replace
from functools import partial

from capplan.app.feedback import SILENCE, Feedback
from capplan.app.gpus import GpuRequest, find_gpus
from capplan.app.models import Model, ModelSource, open_model, refuse_uncertain
from capplan.core.batches import BatchChoice, Batches
from capplan.core.gpus.prices import Price
from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.calibration import Calibration
from capplan.core.memory.calibration import MemoryCalibration
from capplan.core.plan.planner import half_precision_note, make_plan, merge_plans
from capplan.core.plan.types import Job, Limits, Plan, SortKey
from capplan.core.workload import Precision, Workload
from capplan.errors import CapplanError
from capplan.specs.calibration import load_calibration
from capplan.specs.memory_calibration import load_memory_calibration


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """Ask which GPUs serve models.

    `job` is a finite amount of work, for which GPU-hours are worked out. `suggests_half` adds a note on what half
    precision would change on the best GPU. `is_strict` refuses a model with operators that could not be counted.
    """

    models: tuple[ModelSource, ...]
    gpus: GpuRequest = field(default_factory=GpuRequest)
    batches: Batches = field(default_factory=partial(Batches, choice=BatchChoice.AUTO))
    workload: Workload = field(default_factory=Workload)
    limits: Limits = field(default_factory=Limits)
    sort: SortKey = SortKey.THROUGHPUT
    job: Job | None = None
    suggests_half: bool = False
    is_strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Context:
    """What is the same for every model of one request."""

    gpus: tuple[GpuSpec, ...]
    prices: tuple[Price, ...]
    calibration: Calibration
    memory_calibration: MemoryCalibration


def plan(request: PlanRequest, *, feedback: Feedback = SILENCE) -> tuple[Plan, ...]:
    """Return one plan for each model, in the order in which they are asked for.

    A model that does not scale with the batch is traced anew at every batch listed.

    Args:
        request: the models, GPUs, batches, conditions and limits.
        feedback: where progress is shown.

    Raises:
        UsageError: no such model or GPU; or batches must be listed for a model that does not scale with the batch.
        TraceError: a model could not be traced, or is refused by `is_strict`.
        MissingRecordingError: a trace lacks the recording of this precision, layout or mode.
    """
    gpus = find_gpus(request.gpus)
    context = _Context(
        gpus=gpus.chosen,
        prices=gpus.prices().hourly,
        calibration=load_calibration(),
        memory_calibration=load_memory_calibration(),
    )
    return tuple(_plan_model(open_model(each, feedback=feedback), request, context) for each in request.models)


def _plan_model(model: Model, request: PlanRequest, context: _Context) -> Plan:
    if request.is_strict:
        refuse_uncertain(model.words, model.recording(request.workload.configuration))
    made = _at_batches(model, request, context)
    if request.suggests_half and made.fits:
        made = _with_half_precision(made, model, request, context)
    return replace(made, job=request.job)


def _at_batches(model: Model, request: PlanRequest, context: _Context) -> Plan:
    """Plan all batches from one trace, or each from its own where the model does not scale with the batch."""
    plans = [
        make_plan(
            trace,
            gpus=context.gpus,
            batches=batches,
            workload=request.workload,
            limits=request.limits,
            calibration=context.calibration,
            memory_calibration=context.memory_calibration,
            prices=context.prices,
            sort=request.sort,
        )
        for trace, batches in model.traces_for(request.workload.configuration, request.batches)
    ]
    return plans[0] if len(plans) == 1 else merge_plans(plans, sort=request.sort)


def _with_half_precision(made: Plan, model: Model, request: PlanRequest, context: _Context) -> Plan:
    """Add what half precision would change on the best GPU; nothing where the model cannot be traced in it."""
    best = made.fits[0]
    half = replace(
        request,
        workload=replace(request.workload, precision=Precision.FP16),
        batches=Batches(choice=BatchChoice.LISTED, sizes=(best.batch,)),
    )
    try:
        note = half_precision_note(best, _at_batches(model, half, replace(context, gpus=(best.gpu,))))
    except CapplanError:
        return made
    return replace(made, notes=(*made.notes, note)) if note else made
