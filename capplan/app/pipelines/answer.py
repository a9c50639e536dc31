"""Answer questions about pipelines: their parts traced, planned together, with weights on the GPU or on the host."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from capplan.app.models import Model, ModelSource, QuantisedSource, open_model, refuse_uncertain
from capplan.app.pipelines.diffusers import find_pipeline
from capplan.app.plan import Opened, PlanContext, PlanTerms
from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.device import Unsupported
from capplan.core.memory.fit import available_memory, judge_fit
from capplan.core.ops.attention import ask_attention
from capplan.core.pipelines.expression import Number
from capplan.core.pipelines.measured import PipelineCalibration
from capplan.core.pipelines.prepared import PipelineMemory, PipelineMemoryOn, PreparedPart, PreparedPipeline
from capplan.core.pipelines.sharing import Degrees, share_sequence
from capplan.core.pipelines.timing import Correction
from capplan.core.pipelines.types import ON_ANOTHER, ON_GPU, ON_STREAM, Offload, Part, PartKind, Pipeline
from capplan.core.plan.planner import Prepared, make_plan
from capplan.core.plan.recommend import latencies_under_cap
from capplan.core.plan.types import ConditionEffect, Fit, Plan, Rejection, rank_fits
from capplan.core.quantisation.schemes import find_scheme
from capplan.core.workload import BatchChoice, Batches, Framework, Workload
from capplan.errors import CapplanError, UsageError, nearest_names
from capplan.probe.inputs.grammar import ModelRequest
from capplan.specs import load_gpus
from capplan.specs.fitted import load_pipeline_calibration
from capplan.specs.pipeline_file import with_part_settings
from capplan.units import counted

SourceOf = Callable[[Part], ModelSource]
"""How a door finds the model of a part whose inputs and steps hold no expressions any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineRequest:
    """A pipeline under the conditions of a question.

    Attributes:
        part_settings: what parts have of their own, as {"vae.precision": "fp32"}; a key without a part is for all.
        workload: the conditions; `precision` counts only where the question states it.
        states_precision: True if the question states number formats, which then hold for all parts.
        weights: the number format that weights are quantised to; None for the parts' own.
        offload: where weights wait; None tries each, the fastest first.
        degrees: the GPUs that share an item's sequence.
        source: how a door finds the model of a part; None finds it on this machine.
        is_strict: refuse a part with operators that could not be counted.
        allow_code: import what parts name as Python code.
    """

    words: str
    settings: Mapping[str, Number] = field(default_factory=dict)
    part_settings: Mapping[str, object] = field(default_factory=dict)
    workload: Workload = field(default_factory=Workload)
    states_precision: bool = False
    weights: str | None = None
    offload: Offload | None = None
    degrees: Degrees = field(default_factory=Degrees)
    source: SourceOf | None = None
    is_strict: bool = False
    allow_code: bool = False

    def pipeline(self) -> Pipeline:
        """Return the pipeline with its parameters and parts as they are set."""
        if self.workload.training is not None:
            raise UsageError(f"{self.words} is a pipeline, which runs: ⟨train⟩ is for a model; name a part of it.")
        found = find_pipeline(self.words)
        if not self.allow_code:
            found.refuse_code(self.words)
        return with_part_settings(found.with_settings(self.settings), self.part_settings)

    def offloads(self, pipeline: Pipeline) -> tuple[Offload, ...]:
        """Return the places of waiting weights to try, the fastest first."""
        chosen = self.offload or pipeline.offload
        is_open = chosen is None and len(pipeline.parts) > 1 and any(part.offload is None for part in pipeline.parts)
        return tuple(Offload) if is_open else (chosen or Offload.NONE,)


def _source_here(part: Part) -> ModelSource:
    arguments = tuple(f"{name}={value!r}" for name, value in part.arguments.items())
    return ModelRequest(words=part.model, arg=arguments, inputs=part.inputs, prepare=part.prepare)


def workload_of(part: Part, pipeline: Pipeline, request: PipelineRequest) -> Workload:
    """Return the conditions under which a part runs: its own, the question's, then the pipeline's."""
    precision = part.precision
    if precision is None and request.states_precision:
        precision = request.workload.precision
    precision = precision or pipeline.precision or request.workload.precision
    has_denoiser = any(other.kind is PartKind.DENOISER for other in pipeline.parts)
    takes_framework = part.kind is PartKind.DENOISER or not has_denoiser
    framework = part.framework or (request.workload.framework if takes_framework else Framework.EAGER)
    return replace(request.workload, precision=precision, framework=framework)


@dataclass(kw_only=True)
class TracedParts:
    """The parts that were traced for one question, each once, however many conditions it is asked under."""

    context: PlanContext
    calibration: PipelineCalibration
    _models: dict[tuple[object, ...], Model] = field(default_factory=dict)
    _parts: dict[tuple[object, ...], PreparedPart] = field(default_factory=dict)

    def of(self, pipeline: Pipeline, request: PipelineRequest) -> tuple[PreparedPart, ...]:
        quantised = [part.name for part in pipeline.parts if part.quantises] or [part.name for part in pipeline.parts]
        return tuple(
            self._part(part, pipeline, request, part.weights or (request.weights if part.name in quantised else None))
            for part in pipeline.parts
        )

    def _part(self, part: Part, pipeline: Pipeline, request: PipelineRequest, weights: str | None) -> PreparedPart:
        filled, workload = pipeline.filled(part), workload_of(part, pipeline, request)
        degrees = request.degrees if part.tokens else Degrees()
        lengths = pipeline.sequence_lengths(part) if degrees.gpu_count > 1 else ()
        key = (*_asked_of(filled), weights, workload, degrees, lengths, part.attention, part.kind)
        if key not in self._parts:
            model = self._model(filled, request, weights)
            where = f"{pipeline.name}: {part.name}"
            self._parts[key] = self._prepared(part, model, workload, degrees, lengths=lengths, where=where)
            if request.is_strict:
                refuse_uncertain(model.words, model.recording(workload.configuration))
        return replace(self._parts[key], part=part)

    def _model(self, part: Part, request: PipelineRequest, weights: str | None) -> Model:
        """Return the model of a part, opened once for all the conditions of a question."""
        key = (*_asked_of(part), weights)
        if key not in self._models:
            if weights is None:
                self._models[key] = open_model((request.source or _source_here)(part), feedback=self.context.feedback)
            else:
                plain = self._model(part, request, None)
                scheme = find_scheme(weights, None)
                self._models[key] = (
                    plain if scheme is None else open_model(QuantisedSource(source=plain, scheme=scheme))
                )
        return self._models[key]

    def _prepared(
        self, part: Part, model: Model, workload: Workload, degrees: Degrees, *, lengths: Sequence[int], where: str
    ) -> PreparedPart:
        configuration = workload.configuration
        first = model.trace([configuration])
        trace = first if first.recording(configuration).exact_batch is None else model.trace_at(configuration, 1)
        kernels, memory = self.context.calibration, self.context.memory_calibration
        if part.attention is None:
            whole = model.prepared(trace, workload, calibration=kernels, memory_calibration=memory)
        else:
            trace = replace(trace, recordings=(ask_attention(trace.recording(configuration), part.attention),))
            whole = Prepared.of(trace, workload, calibration=kernels, memory_calibration=memory)
        correction = None if part.kind is PartKind.OTHER else Correction(calibration=self.calibration)
        if degrees.gpu_count == 1:
            return PreparedPart(part=part, whole=whole, shared=whole, correction=correction)
        made, attention = share_sequence(trace.recording(configuration), degrees, lengths=lengths, name=where)
        own = replace(trace, recordings=(made,))
        shared = Prepared.of(own, workload, calibration=kernels, memory_calibration=memory)
        correction = Correction(calibration=self.calibration, degrees=degrees, attention=attention)
        return PreparedPart(part=part, whole=whole, shared=shared, correction=correction)


def _asked_of(part: Part) -> tuple[object, ...]:
    """Return what decides the model of a part: its words, arguments, inputs and steps, without expressions."""
    return part.name, part.model, repr(part.arguments), part.inputs, part.prepare


def prepare_pipeline(request: PipelineRequest, traced: TracedParts) -> tuple[PreparedPipeline, ...]:
    """Return the pipeline with its weights in each place that a question leaves open, the fastest first."""
    pipeline = request.pipeline()
    if request.degrees.gpu_count > 1 and not any(part.tokens for part in pipeline.parts):
        raise UsageError(f"{pipeline.name} has no part whose sequence GPUs can share: leave out ⟨ulysses⟩ and ⟨ring⟩.")
    parts = traced.of(pipeline, request)
    shown = next((part.whole for part in parts if part.part.kind is PartKind.DENOISER), parts[0].whole)
    workload = replace(shown.workload, framework=request.workload.framework)
    hosts = _hosts(pipeline)
    return tuple(
        PreparedPipeline(
            pipeline=pipeline,
            workload=workload,
            calibration=traced.context.calibration,
            parts=parts,
            offload=offload,
            degrees=request.degrees,
            hosts=hosts,
        )
        for offload in request.offloads(pipeline)
    )


def _hosts(pipeline: Pipeline) -> dict[str, GpuSpec]:
    """Return the CPUs that parts run on."""
    named = {part.name: part.on for part in pipeline.parts if part.on not in (ON_GPU, ON_STREAM, ON_ANOTHER)}
    if not named:
        return {}
    known = load_gpus().cpus
    for part, name in named.items():
        if name not in known:
            meant = ", ".join(nearest_names(name, known) or sorted(known)[:4])
            raise UsageError(
                f"{pipeline.name}: {part} runs on {name!r}; use {ON_GPU}, {ON_STREAM}, {ON_ANOTHER} (a GPU of the same "
                f"kind), or a CPU such as {meant}."
            )
    return {name: known[name] for name in named.values()}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedPipeline(Opened):
    """A pipeline under the conditions of a request; its parts are traced when they are first needed, each once."""

    request: PipelineRequest
    context: PlanContext
    traced: TracedParts

    @classmethod
    def of(cls, request: PipelineRequest, context: PlanContext) -> "OpenedPipeline":
        traced = TracedParts(context=context, calibration=load_pipeline_calibration())
        return cls(request=request, context=context, traced=traced)

    def plan(self, terms: PlanTerms) -> Plan:
        """Return which GPUs make its items, with weights where, how fast and at what cost."""
        prepared, count = prepare_pipeline(self.request, self.traced), counted(len(self.context.gpus), "GPU")
        with self.context.feedback.progress(f"planning {self.request.words} on {count}"):
            return judge_pipeline(prepared, terms, self.context)

    def changes(self, plan: Plan, terms: PlanTerms) -> tuple[ConditionEffect, ...]:
        """Return what compiling, fp8 weights and half the steps would make of the recommended fit."""
        best, request = plan.best(), self.request
        if best is None or plan.pipeline is None:
            return ()
        pipeline = request.pipeline()
        others: list[tuple[str, str, PipelineRequest]] = []
        if request.workload.framework is Framework.EAGER:
            compiled = replace(request.workload, framework=Framework.COMPILE)
            others.append(("compiled", "⟨framework⟩ compile", replace(request, workload=compiled)))
        if request.weights is None and any(part.quantises for part in pipeline.parts):
            others.append(("fp8 weights", "⟨weights⟩ fp8", replace(request, weights="fp8")))
        if (steps := pipeline.parameters.get("steps", 0)) >= 2:
            fewer = int(steps) // 2
            halved = replace(request, settings={**request.settings, "steps": fewer})
            others.append(("half the steps", f"⟨set⟩ steps={fewer}", halved))
        room = available_memory(best.gpu, utilization_fraction=terms.limits.utilization_fraction).expected
        effects = []
        for name, option, other in others:
            try:
                after = _fit_under(best, prepare_pipeline(other, self.traced), terms, available_bytes=room)
            except CapplanError:  # a remark beside the answer, which other conditions may not take
                continue
            if after is not None:
                effects.append(ConditionEffect(name=name, option=option, before=best, after=after))
        return tuple(effects)

    def memory(self, *, batch: int, gpus: Sequence[GpuSpec], utilization_fraction: float) -> PipelineMemory:
        """Return the memory of a batch of items on each GPU, or on an unknown one where none is named."""
        prepared = prepare_pipeline(self.request, self.traced)
        return PipelineMemory(
            name=prepared[0].pipeline.name,
            batch=batch,
            facts=prepared[0].pipeline_facts,
            places=tuple(
                _memory_on(place, batch, gpu, utilization_fraction) for gpu in gpus or (None,) for place in prepared
            ),
        )


def _memory_on(
    place: PreparedPipeline, batch: int, gpu: GpuSpec | None, utilization_fraction: float
) -> PipelineMemoryOn:
    room = None if gpu is None else available_memory(gpu, utilization_fraction=utilization_fraction)
    moments = dict(place.moments(batch, gpu, available_bytes=None if room is None else room.expected))
    worst = max(moments.values(), key=lambda memory: memory.total_bytes.expected)
    if gpu is None or room is None:
        return PipelineMemoryOn(gpu=None, offload=place.offload, worst=worst, moments=moments)
    most = place.largest_batch(gpu, available_bytes=room.expected)
    return PipelineMemoryOn(
        gpu=gpu,
        offload=place.offload,
        worst=worst,
        moments=moments,
        available_bytes=room.expected,
        status=judge_fit(worst, available_bytes=room, max_batch=most),
        max_batch=most,
    )


_AT_ONE = Batches(choice=BatchChoice.LISTED, sizes=(1,))


def judge_pipeline(prepared: Sequence[PreparedPipeline], terms: PlanTerms, context: PlanContext) -> Plan:
    """Judge a pipeline on every GPU; of a GPU and batch the first place of waiting weights that fits counts."""
    batches = _AT_ONE if terms.batches.choice is BatchChoice.AUTO and len(prepared[0].parts) > 1 else terms.batches
    fits: dict[tuple[str, int], Fit] = {}
    rejections: dict[tuple[str, int], Rejection] = {}
    plans = []
    left = list(context.gpus)
    for place in prepared:
        plan = make_plan(
            place,
            gpus=left,
            batches=batches,
            limits=terms.limits,
            offers=context.rents,
            sort=terms.sort,
            power_law=terms.power_law,
        )
        plans.append(plan)
        for fit in plan.fits:
            room = available_memory(fit.gpu, utilization_fraction=terms.limits.utilization_fraction).expected
            fits.setdefault((fit.gpu.id, fit.batch), place.with_parts(fit, available_bytes=room))
        for rejection in plan.rejections:
            rejections[rejection.gpu.id, rejection.batch] = rejection
        asked = batches.sizes if batches.choice is BatchChoice.LISTED else ()
        done = {gpu_id for gpu_id, _ in fits if all((gpu_id, size) in fits for size in asked)}
        left = [gpu for gpu in left if gpu.id not in done]
        if not left:
            break
    # where a GPU's batch was chosen for it, another place's refusal of a batch says nothing
    whole = set() if batches.choice is BatchChoice.LISTED else {gpu_id for gpu_id, _ in fits}
    kept = [rejection for key, rejection in rejections.items() if key not in fits and key[0] not in whole]
    return replace(
        plans[0],
        fits=rank_fits(fits.values(), terms.sort),
        rejections=tuple(sorted(kept, key=lambda rejection: (rejection.batch, rejection.gpu.id))),
        pipeline=prepared[0].pipeline_facts,
    )


def _fit_under(
    best: Fit, prepared: Sequence[PreparedPipeline], terms: PlanTerms, *, available_bytes: float
) -> Fit | None:
    """Return a fit as it would be under other conditions, with weights in the first place that has room."""
    for place in prepared:
        memory = place.memory_at(best.batch, best.gpu, available_bytes=available_bytes)
        row = latencies_under_cap(place.latencies, place.peak_seconds, [best.gpu], [best.batch], terms.power_law)[0]
        if memory.total_bytes.expected <= available_bytes and not isinstance(row, Unsupported):
            return replace(best, memory=memory, latency=row[0], offload=place.offload.value)
    return None
