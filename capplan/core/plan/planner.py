"""Make a plan from a trace, GPUs and limits: judge each GPU and batch by memory, latency and throughput."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import ClassVar

from capplan.core.gpus.prices import Price, cheapest_offer
from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.advice import knee_batch
from capplan.core.latency.breakdown import step_peak_seconds
from capplan.core.latency.calibration import Calibration
from capplan.core.latency.device import Unsupported
from capplan.core.latency.lookup import host_words, part_for, timed_release
from capplan.core.latency.predict import estimate_latencies
from capplan.core.latency.step import ExecutedStep
from capplan.core.latency.types import LatencyEstimate
from capplan.core.memory.fit import (
    LargestBatch,
    available_memory,
    judge_fit,
    largest_batches,
    largest_fitting_batch,
    memory_shortage,
)
from capplan.core.memory.model import MemoryModel
from capplan.core.memory.replays import SharedStreams
from capplan.core.memory.schedule import live_curve
from capplan.core.memory.sharding import gpus_to_shard
from capplan.core.memory.types import UNCALIBRATED, FitStatus, MemoryCalibration, MemoryEstimate
from capplan.core.ops.analysis import cautions
from capplan.core.ops.flops import kernel_flops, kernel_macs, traffic, uncounted
from capplan.core.plan.measured import OwnTime, as_measured
from capplan.core.plan.recommend import latencies_under_cap
from capplan.core.plan.types import (
    Constraint,
    Fit,
    Limits,
    ModelFacts,
    Plan,
    Rejection,
    gpus_carrying,
    gpus_for_rate,
    rank_fits,
)
from capplan.core.power import NEW_WORK, PeakSeconds, PowerLaw, PowerNovelty, step_energy
from capplan.core.trace.types import PREPARED, QUANTISED, Kernel, Recording, Trace, model_input
from capplan.core.workload import (
    BatchChoice,
    Batches,
    Framework,
    Host,
    Mode,
    ModelSharding,
    Precision,
    SortKey,
    Workload,
)
from capplan.errors import UsageError
from capplan.units import format_rate, format_seconds, format_watts

CURVE_BATCHES = tuple(2**power for power in range(17))
"""Batches of the curves in which the knee is searched."""


class Planned(ABC):
    """What can be planned: a model or a pipeline under one workload, with its memory and time on any GPU and batch."""

    power_novelties: ClassVar[frozenset[PowerNovelty]] = NEW_WORK
    """What of its work no power meter has read."""

    workload: Workload
    calibration: Calibration | None
    facts: "ModelFacts"

    @property
    @abstractmethod
    def target(self) -> str:
        """The words that name it."""

    @property
    @abstractmethod
    def exact_batch(self) -> int | None:
        """The only batch that its sizes hold at; None where they are functions of the batch."""

    @property
    @abstractmethod
    def refused_above(self) -> int | None:
        """The largest batch that no kernel refuses, whatever the memory; None where none does."""

    @abstractmethod
    def largest_batch(self, gpu: GpuSpec, *, available_bytes: float) -> int:
        """Return the largest batch whose process stays within a GPU's memory; 0 where not one sample does."""

    def largest(self, gpu: GpuSpec, *, utilization_fraction: float) -> LargestBatch:
        """Return the largest batch of a GPU, by the expected sizes and at the unfavourable end of every size."""
        available = available_memory(gpu, utilization_fraction=utilization_fraction)
        expected = certain = self.largest_batch(gpu, available_bytes=available.expected)
        while certain:
            memory = self.memory_at(certain, gpu, available_bytes=available.expected)
            if memory.total_bytes.high <= available.low:
                break
            certain -= max(1, certain // 64)
        return LargestBatch(certain=certain, expected=expected)

    @abstractmethod
    def memory_at(self, batch: int, gpu: GpuSpec, *, available_bytes: float) -> MemoryEstimate:
        """Estimate the memory of a batch on a GPU."""

    @abstractmethod
    def latencies(
        self, gpus: Sequence[GpuSpec], batches: Sequence[int]
    ) -> tuple[tuple[LatencyEstimate, ...] | Unsupported, ...]:
        """Estimate the time of each batch on each GPU; `Unsupported` where a GPU cannot run it."""

    @abstractmethod
    def peak_seconds(self, gpu: GpuSpec, batches: Sequence[int]) -> tuple[PeakSeconds | None, ...]:
        """Return the work of each batch on one GPU, which decides the power that it draws; None where it cannot run."""

    @abstractmethod
    def input_bytes(self, batch: int) -> int:
        """Return the bytes that a batch of inputs takes. [bytes]"""

    @property
    @abstractmethod
    def cautions(self) -> tuple[str, ...]:
        """Sentences on what makes the figures uncertain."""

    @property
    @abstractmethod
    def conditions(self) -> tuple[str, ...]:
        """Return what holds beside the workload's own conditions, such as steps that prepared the model."""

    @property
    @abstractmethod
    def notes(self) -> tuple[str, ...]:
        """Return what was chosen for the user when it was traced."""

    @property
    @abstractmethod
    def versions(self) -> Mapping[str, str]:
        """Versions of the libraries that it was traced with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared(Planned):
    """Shared parts of all plans of one trace under one workload, for any GPUs, batches and limits.

    A caller that answers many questions about a model keeps it: the memory's replays are kept in it, and what does not
    depend on the batch that is asked for: each GPU's largest batches and its times over `CURVE_BATCHES`.
    """

    trace: Trace
    workload: Workload
    calibration: Calibration | None
    memory: MemoryModel
    step: ExecutedStep
    facts: "ModelFacts"
    _on_gpus: "dict[str, _OnGpu]" = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        trace: Trace,
        workload: Workload,
        *,
        calibration: Calibration | None,
        memory_calibration: MemoryCalibration = UNCALIBRATED,
        streams: SharedStreams | None = None,
    ) -> "Prepared":
        """Prepare the memory, the step and the counts of a trace; `streams` may know replays from earlier."""
        recording = trace.recording(workload.configuration)
        return cls(
            trace=trace,
            workload=workload,
            calibration=calibration,
            memory=MemoryModel(
                trace=trace, workload=workload, calibration=memory_calibration, streams=streams or SharedStreams()
            ),
            step=ExecutedStep.of(recording, workload, calibration=calibration),
            facts=model_facts(trace, recording),
        )

    def renewed(self) -> "Prepared":
        """Return the same without the memory's replays, which grow with every new batch."""
        memory = MemoryModel(
            trace=self.trace,
            workload=self.workload,
            calibration=self.memory.calibration,
            expandable_segments=self.memory.expandable_segments,
        )
        return replace(self, memory=memory)

    def _on(self, gpu: GpuSpec) -> "_OnGpu":
        """Return what is kept of a GPU; of another one with the same id, as at a lower clock, nothing is kept."""
        kept = self._on_gpus.setdefault(gpu.id, _OnGpu(gpu=gpu))
        return kept if kept.gpu is gpu else _OnGpu(gpu=gpu)

    @property
    def _recording(self) -> Recording:
        return self.trace.recording(self.workload.configuration)

    @property
    def target(self) -> str:
        return self.trace.target

    @property
    def exact_batch(self) -> int | None:
        """The only batch that the recording holds at; None where sizes are functions of the batch."""
        return self._recording.exact_batch

    @property
    def refused_above(self) -> int | None:
        """The largest batch that no kernel refuses for tensors of 2^31 elements."""
        return self.memory.refused_above

    def largest(self, gpu: GpuSpec, *, utilization_fraction: float) -> LargestBatch:
        """Return the largest batch of a GPU, by the expected sizes and at the unfavourable end of every size."""
        kept = self._on(gpu).largest
        if utilization_fraction not in kept:
            kept[utilization_fraction] = largest_batches(
                self.memory, gpu=gpu, utilization_fraction=utilization_fraction
            )
        return kept[utilization_fraction]

    def largest_batch(self, gpu: GpuSpec, *, available_bytes: float) -> int:
        """Return the largest batch that fits a GPU, by replays of the allocator."""
        return largest_fitting_batch(self.memory, gpu=gpu, available_bytes=available_bytes)

    def memory_at(self, batch: int, gpu: GpuSpec, *, available_bytes: float) -> MemoryEstimate:
        return self.memory.estimate(batch=batch, gpu=gpu, available_bytes=available_bytes)

    def latencies(
        self, gpus: Sequence[GpuSpec], batches: Sequence[int]
    ) -> tuple[tuple[LatencyEstimate, ...] | Unsupported, ...]:
        """Estimate the time of each batch on each GPU; those of `CURVE_BATCHES` once, whatever is asked."""
        if self.exact_batch is not None:
            return estimate_latencies(self.step, gpus=gpus, batches=batches)
        kept = [self._on(gpu) for gpu in gpus]
        new = [known for known in kept if known.curve is None]
        curves = estimate_latencies(self.step, gpus=[known.gpu for known in new], batches=CURVE_BATCHES) if new else ()
        for known, curve in zip(new, curves, strict=True):
            known.curve = curve
        others = tuple(batch for batch in batches if batch not in CURVE_BATCHES)
        if not others:
            return tuple(known.row(batches) for known in kept)
        rows = estimate_latencies(self.step, gpus=gpus, batches=others, anchors=CURVE_BATCHES)
        return tuple(
            row if isinstance(row, Unsupported) else known.row(batches, dict(zip(others, row, strict=True)))
            for known, row in zip(kept, rows, strict=True)
        )

    def peak_seconds(self, gpu: GpuSpec, batches: Sequence[int]) -> tuple[PeakSeconds | None, ...]:
        return step_peak_seconds(self.step, gpu, batches, anchors=CURVE_BATCHES)

    def input_bytes(self, batch: int) -> int:
        return sum(tensor.size_bytes(batch) for tensor in self.trace.inputs)

    @property
    def cautions(self) -> tuple[str, ...]:
        """Sentences on values that were assumed and operators that could not be counted."""
        return cautions(self._recording)

    @property
    def conditions(self) -> tuple[str, ...]:
        """The one batch that sizes hold at, and the steps that prepared the model."""
        exact = self.exact_batch
        prepared = (note for note in self.trace.provenance.notes if note.startswith((PREPARED, QUANTISED)))
        return (*((f"sizes hold at batch {exact} only",) if exact else ()), *prepared)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what was chosen for the user when the model was traced."""
        return self.trace.provenance.notes

    @property
    def versions(self) -> Mapping[str, str]:
        return self.trace.provenance.versions


@dataclass(slots=True, kw_only=True, eq=False)
class _OnGpu:
    """What is kept of a model on one GPU, whatever batch is asked for: see `Prepared`."""

    gpu: GpuSpec
    largest: dict[float, LargestBatch] = field(default_factory=dict)
    curve: tuple[LatencyEstimate, ...] | Unsupported | None = None

    def row(
        self, batches: Sequence[int], others: Mapping[int, LatencyEstimate] = MappingProxyType({})
    ) -> tuple[LatencyEstimate, ...] | Unsupported:
        """Return the times of some batches: those of the curve, and others."""
        if self.curve is None or isinstance(self.curve, Unsupported):
            return self.curve or ()
        known = {**dict(zip(CURVE_BATCHES, self.curve, strict=True)), **others}
        return tuple(known[batch] for batch in batches)


def make_plan(
    prepared: Planned,
    *,
    gpus: Iterable[GpuSpec],
    batches: Batches,
    limits: Limits,
    offers: Mapping[str, Sequence[Price]] | None = None,
    sort: SortKey = SortKey.THROUGHPUT,
    power_law: PowerLaw | None = None,
    measured: Mapping[str, Mapping[int, OwnTime]] | None = None,
) -> Plan:
    """Answer for every GPU and batch: does it fit, how fast is it; `measured` is what it took, by GPU and batch."""
    gpus, workload = list(gpus), prepared.workload
    part = part_for(prepared.calibration, workload) if prepared.calibration else None
    question = _Judging(planned=prepared, limits=limits, offers=offers or {}, law=power_law, measured=measured or {})
    judged = _judge_all(question, gpus, batches)
    if power_law is not None:
        judged = with_energy(prepared, judged, power_law, max_draw_w=limits.max_power_draw_w)
    fits = rank_fits((answer for answer in judged if isinstance(answer, Fit)), sort)
    rejections = sorted(
        (answer for answer in judged if isinstance(answer, Rejection)), key=lambda answer: (answer.batch, answer.gpu.id)
    )
    return Plan(
        model=prepared.facts,
        target=prepared.target,
        workload=workload,
        host=host_words(part, workload),
        timed_release=timed_release(part, workload),
        limits=limits,
        fits=fits,
        rejections=tuple(rejections),
        assumptions=_assumptions(question),
        notes=(*_gains(fits[:_MOST_GAINS]), *prepared.notes),
        versions=prepared.versions,
        calibration=prepared.calibration.name if prepared.calibration else None,
        cautions=prepared.cautions,
    )


_MOST_GAINS = 3
"""Fits, best first, whose gain of the last GPU is reported."""


def _gains(fits: Sequence[Fit]) -> tuple[str, ...]:
    """Return what the last of several GPUs that train together adds."""
    return tuple(f"{fit.gpu.id}: {fit.latency.notes[-1]}" for fit in fits if fit.latency.gpu_count > 1)


def merge_plans(plans: Sequence[Plan], *, sort: SortKey) -> Plan:
    """Join plans of one model that were traced at one batch each.

    `plans` must not be empty; facts and assumptions are those of the first.
    """
    fits = rank_fits((fit for plan in plans for fit in plan.fits), sort)
    rejections = tuple(rejection for plan in plans for rejection in plan.rejections)
    return replace(plans[0], fits=fits, rejections=rejections)


def model_facts(trace: Trace, recording: Recording) -> ModelFacts:
    """Compute the facts of a model that hold on any GPU."""
    calls = recording.calls_per_kernel()
    batch = recording.exact_batch or 1
    training = recording.configuration.training
    micro_batches = training.accumulate if training else 1

    def per_sample(count: "_KernelCount") -> int:
        counts = (times * count(kernel, batch) for times, kernel in zip(calls, recording.kernels, strict=True))
        return sum(counts) // (batch * micro_batches)

    def traffic_at(size: int) -> int:
        moved = (traffic(kernel, size).total_bytes for kernel in recording.kernels)
        return sum(times * size_bytes for times, size_bytes in zip(calls, moved, strict=True))

    grown = traffic_at(batch) // batch if recording.exact_batch else traffic_at(2) - traffic_at(1)
    live = live_curve(recording).at(batch)
    return ModelFacts(
        name=trace.name,
        class_name=trace.class_name,
        input=model_input(trace, recording),
        parameters=trace.parameters,
        macs_per_sample=per_sample(kernel_macs),
        flops_per_sample=per_sample(kernel_flops),
        activation_peak_bytes=int(live.max() - live[0]),
        traffic_fixed_bytes=traffic_at(batch) - grown * batch,
        traffic_bytes_per_sample=grown,
        uncounted=uncounted(recording),
        input_bytes_per_sample=sum(tensor.size_bytes(batch) for tensor in trace.inputs) // batch,
    )


_KernelCount = Callable[[Kernel, int], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A GPU with its largest batch, and its latency at every batch of interest or why it has none."""

    gpu: GpuSpec
    largest: LargestBatch
    latency: Mapping[int, LatencyEstimate] | Unsupported


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judging:
    """The inputs that stay the same while GPUs are judged one by one."""

    planned: Planned
    limits: Limits
    offers: Mapping[str, Sequence[Price]]
    law: PowerLaw | None
    measured: Mapping[str, Mapping[int, OwnTime]] = field(default_factory=dict)


def _judge_all(question: _Judging, gpus: Sequence[GpuSpec], batches: Batches) -> list[Fit | Rejection]:
    share = question.limits.utilization_fraction
    largest = [question.planned.largest(gpu, utilization_fraction=share) for gpu in gpus]
    exact = question.planned.exact_batch
    if exact is not None and (others := {*batches.sizes} - {exact}):
        raise UsageError(f"batch {min(others)} cannot be planned: the trace holds at batch {exact} alone.")
    curve = {exact} if exact else set(CURVE_BATCHES)
    maxima = {size.planned for size in largest} if batches.choice is BatchChoice.MAX else set()
    timed = {batch for times in question.measured.values() for batch in times} if not exact else set()
    sizes = sorted(curve | set(batches.sizes) | maxima | timed)
    planned = question.planned
    grid = latencies_under_cap(planned.latencies, planned.peak_seconds, gpus, sizes, question.law)
    judged = []
    for gpu, size, row in zip(gpus, largest, grid, strict=True):
        own = question.measured.get(gpu.id, {})
        latency = row if isinstance(row, Unsupported) else as_measured(dict(zip(sizes, row, strict=True)), own)
        candidate = _Candidate(gpu=gpu, largest=size, latency=latency)
        recommended = _recommended_batch(question, candidate, curve)
        asked = batches.on_gpu(largest=size.planned, recommended=recommended)
        judged += [_judge(question, candidate, batch, recommended, curve) for batch in asked]
    return judged


def with_energy(
    planned: Planned, judged: Iterable[Fit | Rejection], law: PowerLaw, *, max_draw_w: float | None
) -> list[Fit | Rejection]:
    """Return fits with their power and energy; those that draw more than a limit are rejected."""
    found: list[Fit | Rejection] = []
    for answer in judged:
        if isinstance(answer, Rejection):
            found.append(answer)
            continue
        work, latency = planned.peak_seconds(answer.gpu, [answer.batch])[0], answer.latency
        time_s = latency.interval_s or latency.latency_s
        energy = work and step_energy(
            answer.gpu,
            work,
            time_s,
            law,
            samples=latency.samples,
            gpus=answer.gpus_together,
            novelties=planned.power_novelties,
        )
        draw_w = energy.power_w.expected if energy else None
        if max_draw_w is None or (draw_w is not None and draw_w <= max_draw_w):
            found.append(replace(answer, energy=energy or None))
            continue
        found.append(
            Rejection(
                gpu=answer.gpu,
                batch=answer.batch,
                constraint=Constraint.POWER,
                reason="its power limit is not known"
                if draw_w is None
                else f"draws {format_watts(draw_w)}, {format_watts(max_draw_w)} allowed",
                needed=draw_w,
                available=max_draw_w,
                max_batch=answer.max_batch,
                certain_batch=answer.certain_batch,
            )
        )
    return found


def _recommended_batch(question: _Judging, candidate: _Candidate, curve: set[int]) -> int | None:
    if isinstance(candidate.latency, Unsupported):
        return None
    limit_s = question.limits.max_latency_s
    held = [
        candidate.latency[batch]
        for batch in sorted(curve)
        if batch <= candidate.largest.planned
        and (limit_s is None or candidate.latency[batch].latency_s.expected <= limit_s)
    ]
    return knee_batch(held) if held else None


def _batching_gain(candidate: _Candidate, curve: set[int]) -> float | None:
    """Return the best throughput of the batches that fit over that of batch 1; None where batch 1 was not estimated."""
    if isinstance(candidate.latency, Unsupported) or 1 not in curve:
        return None
    held = [candidate.latency[batch] for batch in curve if batch <= candidate.largest.planned]
    return max(estimate.samples_per_s for estimate in held) / candidate.latency[1].samples_per_s


def _judge(
    question: _Judging, candidate: _Candidate, batch: int, recommended: int | None, curve: set[int]
) -> Fit | Rejection:
    gpu, limits = candidate.gpu, question.limits
    if isinstance(candidate.latency, Unsupported):
        refusal = _reject(candidate, batch, Constraint.SUPPORT, candidate.latency.reason)
        return replace(refusal, lacking=candidate.latency.lacking)
    available = available_memory(gpu, utilization_fraction=limits.utilization_fraction)
    memory = question.planned.memory_at(batch, gpu, available_bytes=available.expected)
    status = judge_fit(memory, available_bytes=available, max_batch=candidate.largest.expected)
    if status is FitStatus.DOES_NOT_FIT:
        needed = memory.total_bytes.expected
        reason = memory_shortage(memory, available.expected)
        rejection = _reject(
            candidate, memory.batch, Constraint.MEMORY, reason, needed=needed, available=available.expected
        )
        return replace(rejection, min_gpus=gpus_to_shard(memory, available_bytes=available.expected))
    refused = question.planned.refused_above
    if refused is not None and batch > refused:
        return _reject(candidate, batch, Constraint.SUPPORT, refusal_of_size(refused))
    latency = candidate.latency[batch]
    too_slow = _too_slow(candidate, batch, limits, latency)
    if too_slow is not None:
        return too_slow
    if not limits.surely_kept_by(latency):
        status = FitStatus.BORDERLINE
    input_bytes = question.planned.input_bytes(batch)
    together = latency.gpu_count * latency.gpus_per_batch
    gpus = gpus_for_rate(question.limits, latency) or together
    return Fit(
        gpu=gpu,
        batch=batch,
        status=status,
        memory=memory,
        latency=latency,
        max_batch=candidate.largest.expected,
        certain_batch=candidate.largest.certain,
        recommended_batch=recommended,
        rent=cheapest_offer(question.offers.get(gpu.id, ()), gpus=gpus, together=together),
        batching_gain=_batching_gain(candidate, curve),
        scales=question.planned.exact_batch is None,
        host_copy_s=input_bytes / gpu.pcie_bytes_per_s if gpu.pcie_bytes_per_s else None,
    )


def refusal_of_size(largest_batch: int) -> str:
    """Return why a batch is refused above the largest one whose tensors every kernel takes."""
    return f"a kernel refuses tensors of that size, whatever the memory: {largest_batch} is the largest batch"


def _too_slow(candidate: _Candidate, batch: int, limits: Limits, latency: LatencyEstimate) -> Rejection | None:
    """Return the limit on speed that even the good end of an estimate breaks; None where it keeps all."""
    time_s, rate = latency.latency_s, latency.throughput_per_s
    limit_s, wanted = limits.max_latency_s, limits.min_throughput_per_s
    if limit_s is not None and time_s.low > limit_s:
        reason = f"needs {time_s.to_text(format_seconds)}, limit {format_seconds(limit_s)}"
        return _reject(candidate, batch, Constraint.LATENCY, reason, needed=time_s.expected, available=limit_s)
    if wanted is not None and rate.high < wanted:
        reason = (
            f"reaches {rate.to_text(format_rate)}/s, wanted {format_rate(wanted)}/s: "
            f"{gpus_carrying(wanted, latency)} GPUs needed (⟨rate⟩ {wanted:g}/s)"
        )
        return _reject(candidate, batch, Constraint.THROUGHPUT, reason, needed=wanted, available=rate.expected)
    return None


def _reject(
    candidate: _Candidate,
    batch: int,
    constraint: Constraint,
    reason: str,
    *,
    needed: float | None = None,
    available: float | None = None,
) -> Rejection:
    return Rejection(
        gpu=candidate.gpu,
        batch=batch,
        constraint=constraint,
        reason=reason,
        needed=needed,
        available=available,
        max_batch=candidate.largest.expected,
        certain_batch=candidate.largest.certain,
    )


_TF32_RULES: Mapping[Precision, str] = {
    Precision.FP32: "fp32 as PyTorch's defaults: TF32 convolutions and fp32 matrix products where TF32 exists",
    Precision.TF32: "TF32 allowed in convolutions and matrix products",
    Precision.FP32_IEEE: "no TF32 anywhere",
    Precision.FP16: "the whole model in fp16",
    Precision.BF16: "the whole model in bf16",
    Precision.INT8: "convolutions and matrix products in int8, the rest in fp16, as an engine calibrates them",
    Precision.FP8: "convolutions and matrix products in fp8, the rest in fp16, as an engine calibrates them",
    Precision.AMP_FP16: "fp16 autocast; weights stay in their own dtype and are cast at every use",
    Precision.AMP_BF16: "bf16 autocast; weights stay in their own dtype and are cast at every use",
}

_SHARED = {
    ModelSharding.DDP: "gradients summed",
    ModelSharding.ZERO1: "optimizer states spread (ZeRO-1)",
    ModelSharding.ZERO2: "optimizer states and gradients spread (ZeRO-2)",
    ModelSharding.ZERO3: "weights, gradients and optimizer states spread (ZeRO-3)",
    ModelSharding.FSDP: "weights, gradients and optimizer states spread (FSDP, a unit for each block)",
}
"""What GPUs that train together share, in words."""


def _together(workload: Workload) -> str:
    return f", {_SHARED[workload.sharding]} over {workload.gpu_count} GPUs of one machine" * (workload.gpu_count > 1)


def _assumptions(question: _Judging) -> tuple[str, ...]:
    workload, calibration = question.planned.workload, question.planned.calibration
    mode = (
        f"whole training steps: forward, backward, optimizer{_together(workload)}"
        if workload.configuration.mode is Mode.TRAINING
        else "torch.inference_mode, inputs already on the GPU; copying them from the host is outside latency"
    )
    share = f"{question.limits.utilization_fraction:.0%} of usable memory may be filled"
    fill = f"{share}, CUDA context and caching allocator included"
    interval = (
        f"latency intervals from calibration {calibration.name}"
        if calibration
        else "latency is uncalibrated: intervals state ignorance, not coverage"
    )
    software = f"{workload.software}, {workload.framework.value}"
    if workload.framework.is_engine:
        launched = "kernel by kernel" if workload.framework is Framework.ONNXRUNTIME else "whole"
        software = f"{workload.software}: one engine, its graph launched {launched}"
    part = part_for(calibration, workload) if calibration else None
    host = _host_sentences(part, workload)
    return (mode, _TF32_RULES[workload.precision], software, *host, fill, interval, *question.planned.conditions)


def _host_sentences(part: Calibration | None, workload: Workload) -> tuple[str, ...]:
    """Return whose processor launches the kernels, which decides small batches."""
    words = host_words(part, workload)
    if words is None:
        return ()
    launcher = words if workload.host is Host.CARD else f"one machine for all GPUs: {words}"
    return (f"kernels are launched by {launcher} (⟨host⟩)",)
