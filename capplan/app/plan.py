"""Plan models: which GPUs fit each of them at a batch, how fast it runs there, and what binds it."""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from capplan.app.feedback import SILENCE, Feedback
from capplan.app.gpu_choice import NO_PRICE_FILTERS, GpuRequest, PriceFilters, find_priced_gpus
from capplan.app.kept_replays import kept_streams
from capplan.app.models import Model, QuantisedModel, TracedModel, refuse_uncertain
from capplan.clock import today
from capplan.core.gpus.prices import Price, offers_on_demand
from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.calibration import Calibration
from capplan.core.latency.step import in_own_precision
from capplan.core.measurement.types import MeasuredWorkload, Measurement
from capplan.core.memory.types import MemoryCalibration
from capplan.core.numbers import Interval
from capplan.core.plan.measured import OwnTime
from capplan.core.plan.planner import make_plan, merge_plans
from capplan.core.plan.recommend import with_recommendations, without_gpu
from capplan.core.plan.types import ConditionEffect, Fit, Limits, ModelFacts, Plan
from capplan.core.power import PowerLaw
from capplan.core.quantisation.rewrite import scheme_name
from capplan.core.trace.types import Recording
from capplan.core.workload import (
    BatchChoice,
    Batches,
    Configuration,
    Framework,
    Layout,
    Precision,
    SortKey,
    Training,
    Workload,
)
from capplan.specs.calibration import load_calibration, load_memory_calibration
from capplan.units import counted, format_bytes, format_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTerms:
    """What is asked of a model on every GPU: batches, conditions, limits, and the order of the answer.

    `power_law` is None where power and energy are not asked for.
    """

    batches: Batches = field(default_factory=partial(Batches, choice=BatchChoice.AUTO))
    workload: Workload = field(default_factory=Workload)
    limits: Limits = field(default_factory=Limits)
    sort: SortKey = SortKey.THROUGHPUT
    power_law: PowerLaw | None = None
    measured: tuple[Measurement, ...] = ()

    def own_times(self, facts: ModelFacts) -> dict[str, dict[int, OwnTime]]:
        """Return what a model took in this precision, framework and layout, and under a power limit that is asked for.

        By GPU and batch. Of several those with the release of torch that is asked for count, and of these the last.
        """
        found: dict[str, dict[int, OwnTime]] = defaultdict(dict)
        work, capped_w = self.workload, self.power_law.cap_w if self.power_law else None
        asked = MeasuredWorkload(batch=1, precision=work.precision, framework=work.framework, layout=work.layout)
        release = "{}.{}.".format(*work.torch_version)
        measured = sorted(self.measured, key=lambda point: point.device.torch.startswith(release))
        for point in measured if work.training is None else ():
            size, seen = "x".join(map(str, point.model.input_size)), point.latency
            is_same = (point.model.name, size) == (facts.name, facts.input.size.partition(" ")[0])
            is_same &= capped_w in (None, point.device.power_limit_w)
            if point.device.gpu and is_same and replace(point.workload, batch=1) == asked:
                time_s = Interval(low=seen.minimum, expected=seen.median, high=max(seen.median, seen.p95))
                found[point.device.gpu][point.workload.batch] = OwnTime(time_s, point.device.torch)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanContext:
    """What is the same for every model and condition of one question: GPUs, prices and calibrations."""

    gpus: tuple[GpuSpec, ...]
    rents: Mapping[str, tuple[Price, ...]] = field(default_factory=dict)
    named: frozenset[str] = frozenset()
    offers: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    calibration: Calibration
    memory_calibration: MemoryCalibration
    feedback: Feedback = SILENCE

    @classmethod
    def of(
        cls,
        gpus: GpuRequest,
        prices: PriceFilters = NO_PRICE_FILTERS,
        *,
        calibration: Path | None = None,
        feedback: Feedback = SILENCE,
    ) -> "PlanContext":
        """Load what a question about these GPUs at these prices needs."""
        priced = find_priced_gpus(gpus, prices)
        return cls(
            gpus=priced.chosen,
            rents=priced.prices().to_plan_with,
            named=priced.named,
            offers=offers_on_demand(priced.prices().hourly),
            notes=priced.notes,
            calibration=load_calibration(calibration),
            memory_calibration=load_memory_calibration(),
            feedback=feedback,
        )


class Opened(ABC):
    """What a question is about, opened: a model, or a pipeline of several."""

    context: PlanContext

    @abstractmethod
    def plan(self, terms: PlanTerms) -> Plan:
        """Return the GPUs that can run it, how fast and at what cost."""

    @abstractmethod
    def changes(self, plan: Plan, terms: PlanTerms) -> tuple[ConditionEffect, ...]:
        """Return what other conditions would change on the recommended GPU."""

    def remarks(self, plan: Plan, terms: PlanTerms) -> tuple[str, ...]:
        """Return sentences beside the answer."""
        del plan, terms
        return ()

    def advised(self, plan: Plan, terms: PlanTerms) -> Plan:
        """Return a plan with what to take, what other conditions would change, and remarks."""
        plan = with_recommendations(plan, on=today(), named=self.context.named, offers=self.context.offers)
        plan = replace(plan, changes=self.changes(plan, terms))
        return replace(plan, notes=(*self.context.notes, *self.remarks(plan, terms), *plan.notes))


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedModel(Opened):
    """A model that is open.

    Attributes:
        tries_half: work out what half precision would change, or autocast and TF32 of a training step, beside
            compiling and channels_last, checkpointing and adapters.
        is_strict: refuse a model with operators that could not be counted.
    """

    model: Model
    context: PlanContext
    tries_half: bool = False
    is_strict: bool = False

    def plan(self, terms: PlanTerms) -> Plan:
        """Return the plan of all batches; a model that does not scale with the batch is traced anew at each."""
        if self.is_strict:
            refuse_uncertain(self.model.words, self.model.recording(terms.workload.configuration))
        return plan_at_batches(self.model, terms, self.context)

    def changes(self, plan: Plan, terms: PlanTerms) -> tuple[ConditionEffect, ...]:
        """Return what other precisions, frameworks, layouts and steps would change on the recommended GPU.

        Beside a time that was measured, conditions that were only estimated take as much longer as it took.
        """
        best, factor = plan.best(), 1.0
        if best is None:
            return ()
        if terms.own_times(plan.model).get(best.gpu.id):
            estimated = _again(self.model, best, replace(terms, measured=()), self.context).fits
            factor = best.latency.latency_s.expected / estimated[0].latency.latency_s.expected
        others = _alternatives(self.model, terms, tries_half=self.tries_half)
        effects = [
            _changed(best, other, factor=factor, model=self.model, terms=terms, context=self.context)
            for other in others
        ]
        return tuple(effect for effect in effects if effect is not None)

    def remarks(self, plan: Plan, terms: PlanTerms) -> tuple[str, ...]:
        """Compare a quantised model with full width, and GPUs with CPUs where these were asked about."""
        return (*_beside_full_width(plan, self.model, terms, self.context), *without_gpu(plan))


def plan_at_batches(model: Model, terms: PlanTerms, context: PlanContext) -> Plan:
    """Plan all batches from one trace, or each from its own where the model does not scale with the batch."""
    traced = model.traces_for(terms.workload.configuration, terms.batches)
    progress = context.feedback.progress(f"planning {model.words} on {counted(len(context.gpus), 'GPU')}")
    with progress, kept_streams() as streams:
        plans = []
        for trace, batches in traced:
            prepared = model.prepared(
                trace, terms.workload, calibration=context.calibration, memory_calibration=context.memory_calibration,
                streams=streams,
            )  # fmt: skip
            plans.append(
                make_plan(
                    prepared, gpus=context.gpus, batches=batches, limits=terms.limits, offers=context.rents,
                    sort=terms.sort, power_law=terms.power_law,
                    # a quantised model is worked out from a trace: what was measured is the model at full width
                    measured={} if isinstance(model, QuantisedModel) else terms.own_times(prepared.facts),
                )
            )  # fmt: skip
    return plans[0] if len(plans) == 1 else merge_plans(plans, sort=terms.sort)


def _again(model: Model, best: Fit, terms: PlanTerms, context: PlanContext) -> Plan:
    """Return the plan of a model on the GPU of a fit at its batch, however slow it is."""
    batches = Batches(choice=BatchChoice.LISTED, sizes=(best.batch,))
    asked = replace(terms, batches=batches, limits=terms.limits.without_speed())
    return plan_at_batches(model, asked, replace(context, gpus=(best.gpu,)))


def _beside_full_width(answer: Plan, model: Model, terms: PlanTerms, context: PlanContext) -> tuple[str, ...]:
    """Compare a quantised model with the same model at full width, on the recommended GPU at its batch."""
    best = answer.best()
    quantised = None if best is None else _at_full_width(model, answer.workload.configuration)
    if best is None or quantised is None:
        return ()
    name, inner = quantised
    plain = replace(terms, measured=())
    fits = _again(inner, best, plain, context).fits
    here = f"{best.gpu.id} at batch {best.batch}"
    if not fits:
        return (f"{name}: at full width the model does not fit on {here}.",)
    before, after = fits[0], _again(model, best, plain, context).fits[0] if terms.measured else best
    gain = before.latency.latency_s.expected / after.latency.latency_s.expected
    return (
        f"{name} on {here}: {format_seconds(after.latency.latency_s.expected)} and "
        f"{format_bytes(after.memory.total_bytes.expected)}, at full width "
        f"{format_seconds(before.latency.latency_s.expected)} and "
        f"{format_bytes(before.memory.total_bytes.expected)}: ×{gain:.2f} as fast.",
    )


def _at_full_width(model: Model, configuration: Configuration) -> tuple[str, Model] | None:
    """Return the scheme and the unquantised model of one that is quantised by option or as a checkpoint."""
    if isinstance(model, QuantisedModel):
        return model.scheme.name, model.inner
    if not isinstance(model, TracedModel) or (name := scheme_name(model.recording(configuration))) is None:
        return None
    return name, model.at_full_width()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Alternative:
    """Other conditions worth trying, and the option that asks for them."""

    name: str
    option: str
    workload: Workload
    model: Model | None = None


def _alternatives(model: Model, terms: PlanTerms, *, tries_half: bool) -> list[_Alternative]:
    """Return the conditions worth trying in addition to those asked for."""
    workload, training = terms.workload, terms.workload.training
    recording = model.recording(workload.configuration)
    convolves = any(kernel.name.startswith("aten.convolution") for kernel in recording.kernels)
    alternatives = []
    is_wide = tries_half and in_own_precision(recording, workload).precision.half_dtype is None
    if is_wide and training is None:
        half = replace(workload, precision=Precision.FP16)
        alternatives.append(_Alternative(name="half precision", option="⟨precision⟩ fp16", workload=half))
    if training is not None:
        alternatives += _training_alternatives(model, workload, training, recording, tries_half=tries_half)
    if workload.framework is Framework.EAGER:
        compiled = replace(workload, framework=Framework.COMPILE)
        alternatives.append(_Alternative(name="compiled", option="⟨framework⟩ compile", workload=compiled))
    if convolves and workload.layout is Layout.NCHW and recording.exact_batch is None:
        last = replace(workload, layout=Layout.NHWC)
        alternatives.append(_Alternative(name="channels_last", option="⟨layout⟩ nhwc", workload=last))
    return alternatives


def _training_alternatives(
    model: Model, workload: Workload, training: Training, recording: Recording, *, tries_half: bool
) -> list[_Alternative]:
    """Return what is worth trying of a training step: autocast, TF32, checkpointing, adapters alone."""
    alternatives = []
    if tries_half and in_own_precision(recording, workload).precision.half_dtype is None:
        for name, precision in (("autocast", Precision.AMP_FP16), ("TF32 products", Precision.TF32)):
            other = replace(workload, precision=precision)
            alternatives.append(_Alternative(name=name, option=f"⟨precision⟩ {precision}", workload=other))
    if not training.checkpointing:
        saved = replace(workload, training=replace(training, checkpointing=True))
        alternatives.append(_Alternative(name="checkpointing", option="⟨checkpointing⟩", workload=saved))
    linear = any(kernel.name.startswith("aten.addmm") or kernel.name == "aten.mm" for kernel in recording.kernels)
    attends = any("attention" in kernel.name for kernel in recording.kernels)
    if linear and attends and (adapted := model.with_step(_ADAPTERS)) is not None:
        alternatives.append(
            _Alternative(name="adapters", option=f"⟨prepare⟩ {_ADAPTERS}", workload=workload, model=adapted)
        )
    return alternatives


_ADAPTERS = "lora=16"


def _changed(
    best: Fit, other: _Alternative, *, factor: float, model: Model, terms: PlanTerms, context: PlanContext
) -> ConditionEffect | None:
    """Return what a condition would change; None where the model cannot be traced under it or does not fit then.

    This is a remark beside the answer. Tracing runs the model's own code, which may fail in any way under another
    number format, and that must not cost the answer. An estimated time is multiplied by a factor.
    """
    asked = replace(terms, workload=other.workload)
    try:
        plan = _again(other.model or model, best, asked, context)
    except Exception:
        return None
    after = next(iter(plan.fits), None)
    if after and factor != 1.0 and not asked.own_times(plan.model).get(best.gpu.id):
        time_s = after.latency.latency_s * factor
        after = replace(after, latency=replace(after.latency, latency_s=time_s, interval_s=None))
    return None if after is None else ConditionEffect(name=other.name, option=other.option, before=best, after=after)
