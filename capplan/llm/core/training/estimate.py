"""Answer questions on one training job: its memory, the time of its step, and whether it fits."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from capplan.core.gpus.rate_laws import RateLaws
from capplan.core.gpus.spec import GpuSpec, PeakKind
from capplan.core.numbers import FloatArray, Interval
from capplan.core.power import (
    PROBED_CLOCKS,
    CardCap,
    CardWork,
    PeakSeconds,
    PowerLaw,
    StepEnergy,
    at_clock,
    clock_mix,
    peak_seconds,
    step_energy,
)
from capplan.errors import UsageError
from capplan.llm.core.training.accuracy import (
    JudgedFit,
    JudgedTraining,
    MeasuredTraining,
    TrainingCalibration,
    TrainingEvidence,
    TrainingMetric,
    within_probability,
)
from capplan.llm.core.training.flops import TrainingRates, matmul_peak, training_rates
from capplan.llm.core.training.job import Recompute, TrainingJob, check_job, recompute_choices
from capplan.llm.core.training.memory import MemoryOutlook, MemoryScope, estimate_memory
from capplan.llm.core.training.stated_file import StatedFile
from capplan.llm.core.training.step_time import TimeConstants, TrainingStepTime, step_time
from capplan.llm.core.training.work import ProductClass, TrainingGpu, step_work, training_gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingMemoryAnswer:
    """The memory of a job on one GPU. [bytes]

    `peak` is what the process takes in all, `usable_bytes` what it may take at most, and `fit_probability` the
    probability that it does. `alternatives` are the same job with other recomputation, `files` those of
    frameworks that state the job.
    """

    job: TrainingJob
    gpu: GpuSpec
    outlook: MemoryOutlook
    peak: Interval
    usable_bytes: float
    fit_probability: float
    evidence: TrainingEvidence
    alternatives: "tuple[TrainingMemoryAnswer, ...]" = ()
    files: tuple[StatedFile, ...] = ()

    @property
    def fits(self) -> bool:
        return self.peak.expected <= self.usable_bytes

    @property
    def verdict(self) -> str:
        """Return the verdict in words: fits, is tight where the interval reaches beyond the GPU, or does not fit.

        Held-out peaks of a kind may lie above their predictions in the middle, so that a job that is expected to fit
        does so with a probability below a half.
        """
        if not self.fits:
            return "does not fit" if self.peak.low > self.usable_bytes else "does not fit, but nearly"
        if self.fit_probability < 0.5:
            return "fits by its expected peak, but more likely does not"
        return "fits" if self.peak.high <= self.usable_bytes else "fits, but tightly"

    @property
    def parts(self) -> list[tuple[str, float]]:
        """Return the parts of the peak of the tightest GPU in words, and their sum last. [bytes]"""
        stage, outlook = self.outlook.tightest, self.outlook
        parts = [
            ("weights", stage.weights),
            ("frozen models", stage.frozen),
            ("adapters", stage.adapters),
            ("gradients at the peak", stage.peak_gradients),
            ("optimizer states", stage.optimizer),
            ("gathered parameters and gradients", stage.unsharded),
            ("activations kept", min(stage.activations, stage.peak_activations)),
            ("logits and recomputed layer", max(0.0, stage.peak_activations - stage.activations)),
            ("workspace of libraries", stage.workspace),
            ("allocator, not in use", stage.unused(outlook.constants)),
            ("context and collectives", outlook.outside),
        ]
        total = sum(size for _, size in parts)
        return [*(part for part in parts if part[1] > 0), ("peak", total)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingEstimate:
    """The speed of a job: the time of an optimizer step by part, tokens per second, and shares of the peak rate.

    `energy` is the power of all GPUs and the energy of a step, which is its sample; None where no law was asked, or the
    card's limit is not known.
    """

    memory: TrainingMemoryAnswer
    step: TrainingStepTime
    step_s: Interval
    tokens_per_s: Interval
    rates: TrainingRates
    evidence: TrainingEvidence
    energy: StepEnergy | None = None

    @property
    def job(self) -> TrainingJob:
        return self.memory.job

    @property
    def tokens_per_s_per_gpu(self) -> Interval:
        return self.tokens_per_s * (1.0 / self.job.layout.gpus)

    @property
    def joules_per_token(self) -> Interval | None:
        return self.energy.joules_per_sample * (1.0 / self.job.step_tokens) if self.energy else None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRun:
    """What a short run of the user's own measured: the time of a step and the peak of reserved memory, if read."""

    step_s: float | None = None
    peak_bytes: float | None = None


NO_RUN = OwnRun()
_OWN_WIDTH = 1.06
"""Half width of intervals after an own run of the same job: steps of one job differ by 2 to 6 % from run to run."""


def usable_bytes(job: TrainingJob, gpu: GpuSpec) -> float:
    """Return what training may take; an engine beside it keeps its share of what CUDA reports, as vLLM does. [bytes]"""
    return gpu.expected_usable_bytes * (1.0 - job.rollout_fraction)


def answer_training_memory(
    job: TrainingJob, gpu: GpuSpec, calibration: TrainingCalibration, *, own: OwnRun = NO_RUN
) -> TrainingMemoryAnswer:
    check_job(job)
    outlook = estimate_memory(job, calibration.memory)
    evidence = calibration.memory_evidence(gpu=gpu, framework=job.framework)
    usable = usable_bytes(job, gpu)
    peak = calibration.widths.around_peak(outlook.peak(MemoryScope.DEVICE), evidence)
    probability = calibration.fit_probability(peak.expected, usable_bytes=usable, evidence=evidence)
    if own.peak_bytes:
        evidence = TrainingEvidence.MEASURED_HERE
        peak = Interval.around(own.peak_bytes + outlook.outside, _OWN_WIDTH)
        probability = within_probability(usable / peak.expected, _OWN_WIDTH)
    return TrainingMemoryAnswer(
        job=job,
        gpu=gpu,
        outlook=outlook,
        peak=peak,
        usable_bytes=usable,
        fit_probability=probability,
        evidence=evidence,
    )


def usual_recompute(job: TrainingJob, gpu: GpuSpec, calibration: TrainingCalibration) -> TrainingJob:
    """Return the job with what its framework recomputes by default, or more where that does not fit.

    Where the framework has no default, the least that fits is taken. What nothing lets fit recomputes all.
    """
    choices = recompute_choices(job)
    if job.framework.recomputes or job.is_widened:  # preparing a quantised base turns checkpointing on (PEFT)
        return replace(job, recompute=Recompute.FULL)
    if job.framework.recomputes_operators and Recompute.OPERATORS in choices:
        choices = choices[choices.index(Recompute.OPERATORS) :]
    usable = usable_bytes(job, gpu)
    for choice in choices:
        found = replace(job, recompute=choice)
        if estimate_memory(found, calibration.memory).peak(MemoryScope.DEVICE) <= usable:
            return found
    return replace(job, recompute=Recompute.FULL)


def objective_step(
    job: TrainingJob, machine: TrainingGpu, constants: TimeConstants, *, paged_bytes: float = 0.0
) -> TrainingStepTime:
    """Return the time of a step with what its objective adds, but for the generation of samples.

    A forward pass of the layers takes what computing them again in the backward pass adds, and of the head a third of
    its passes. A model of values takes as long as the trained one; a sample is trained on as often as it is updated.
    Traffic of gathering frozen models is left out.
    """
    family, parts = job.framework.family, job.parts
    step = step_time(step_work(job, machine, paged_bytes=paged_bytes), constants, family)
    trained = parts.updates * (1 + (0 if job.is_adapted else parts.values))
    if trained > 1:
        step = TrainingStepTime(**{item.name: getattr(step, item.name) * trained for item in fields(step)})
    if not parts.forwards:
        return step
    plain, again = (
        step_time(step_work(replace(job, recompute=choice), machine), constants, family)
        for choice in (Recompute.NONE, Recompute.FULL)
    )
    head = step_work(job, machine).head_s * job.accumulation / 3 / constants.products[ProductClass.WIDE]
    forward_s = again.total_s - plain.total_s + head / constants.families[family]
    return replace(step, frozen_s=parts.forwards * forward_s)


def estimate_training(
    job: TrainingJob,
    gpu: GpuSpec,
    *,
    calibration: TrainingCalibration,
    laws: RateLaws,
    network_bytes_per_s: float | None = None,
    own: OwnRun = NO_RUN,
    rollout: Interval | None = None,
    law: PowerLaw | None = None,
) -> TrainingEstimate:
    """Estimate the speed of a job, whose samples take `rollout` to generate where it generates them. [s]

    With a law of power the GPUs' energy is estimated, too, and the step under the limit that the law sets.
    """
    memory = answer_training_memory(job, gpu, calibration, own=own)
    paged = memory.outlook.paged_out(memory.usable_bytes)

    def at(card: GpuSpec) -> TrainingStepTime:
        machine = training_gpu(card, laws, network_bytes_per_s=network_bytes_per_s)
        return objective_step(job, machine, calibration.time, paged_bytes=paged)

    step = at(gpu)
    work = _peak_seconds(job, gpu, step)
    evidence = calibration.evidence(gpu=gpu, framework=job.framework.name)
    time_s = Interval.around(step.total_s, calibration.width(job, evidence))
    if law is not None and law.cap_w is not None:
        if refused := law.refusal(gpu):
            raise UsageError(f"{refused}.")
        if law.caps(gpu):
            slower = [at(at_clock(gpu, clock)) for clock in PROBED_CLOCKS]
            step, factor = _capped(step, slower, work, CardCap(gpu=gpu, law=law))
            time_s *= factor
    if rollout is not None:
        step, time_s = replace(step, rollout_s=rollout.expected), time_s + rollout
    if own.step_s:
        evidence, time_s = TrainingEvidence.MEASURED_HERE, Interval.around(own.step_s, _OWN_WIDTH)
    return TrainingEstimate(
        memory=memory,
        step=step,
        step_s=time_s,
        tokens_per_s=job.step_tokens / time_s,
        rates=training_rates(job, gpu, step_s=time_s.expected),
        evidence=evidence,
        energy=step_energy(gpu, work, time_s, law, samples=1.0, gpus=job.layout.gpus) if law else None,
    )


def _peak_seconds(job: TrainingJob, gpu: GpuSpec, step: TrainingStepTime) -> PeakSeconds:
    """Return what a step takes one card at its peaks: its FLOPs by format, and what pointwise operators move."""
    kind = matmul_peak(gpu, job.compute) or PeakKind.FP16
    moving_s = min(step.total_s, step.pointwise_s + step.loss_s + step.optimizer_s)
    work = CardWork(
        traffic_bytes=moving_s * gpu.memory_bandwidth_bytes_per_s,
        flops={kind: training_rates(job, gpu, step_s=step.total_s).hardware_flops_per_s * step.total_s},
        time_s=step.total_s,
    )
    return peak_seconds(gpu, work)


def _capped(
    step: TrainingStepTime, slower: Sequence[TrainingStepTime], work: PeakSeconds, cap: CardCap
) -> tuple[TrainingStepTime, Interval]:
    """Return a step under a power limit, and by what factor it is longer; its parts are mixed from lower clocks."""
    clocks = [step, *slower]
    ratios: list[FloatArray] = [np.array([other.total_s / step.total_s]) for other in slower]
    found = cap.slowdowns([work.over(step.total_s)], lambda: ratios)
    factor = Interval(**{end.value: float(factors[0]) for end, factors in found.items()})
    mix = clock_mix([each.total_s for each in clocks], factor.expected)
    parts = {
        item.name: mix.stretch * mix.of([getattr(each, item.name) for each in clocks])
        for item in fields(TrainingStepTime)
    }
    return TrainingStepTime(**parts), factor


def judge_training(
    run: MeasuredTraining, gpu: GpuSpec, *, calibration: TrainingCalibration, laws: RateLaws
) -> Iterator[JudgedTraining]:
    job = run.job if run.recompute_is_stated else usual_recompute(run.job, gpu, calibration)
    if run.peak_bytes:
        memory = answer_training_memory(job, gpu, calibration)
        peak = memory.outlook.peak(run.peak_kind)
        yield JudgedTraining(
            run=run,
            metric=TrainingMetric.PEAK_BYTES,
            measured=run.peak_bytes,
            predicted=calibration.widths.around_peak(peak, memory.evidence),
            evidence=memory.evidence,
        )
    if run.tokens_per_s:
        estimate = estimate_training(
            job, gpu, calibration=calibration, laws=laws, network_bytes_per_s=run.network_bytes_per_s
        )
        speed: Interval = estimate.tokens_per_s_per_gpu
        yield JudgedTraining(
            run=run,
            metric=TrainingMetric.TOKENS_PER_S,
            measured=run.tokens_per_s,
            predicted=speed,
            evidence=estimate.evidence,
        )


def judge_fit(run: MeasuredTraining, gpu: GpuSpec, calibration: TrainingCalibration) -> Iterator[JudgedFit]:
    """Yield whether a run is predicted to fit, where it is known what it computes again."""
    if run.recompute_is_stated:
        memory = answer_training_memory(run.job, gpu, calibration)
        yield JudgedFit(run=run, predicted_fits=memory.fits, fit_probability=memory.fit_probability)
