"""Judge predictions of training runs against anyone's measurements."""

from collections.abc import Iterator

from capplan.core.gpus.rate_laws import RateLaws
from capplan.core.gpus.spec import GpuSpec
from capplan.core.numbers import Interval
from capplan.llm.core.training.accuracy import (
    JudgedFit,
    JudgedTraining,
    MeasuredTraining,
    TrainingCalibration,
    TrainingMetric,
)
from capplan.llm.core.training.estimate import answer_training_memory, estimate_training, usual_recompute


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
