"""Judge predictions of training runs against anyone's measurements."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from capplan.core.gpus.rate_laws import RateLaws
from capplan.core.numbers import Interval
from capplan.errors import CapplanError
from capplan.llm.core.measured import SkippedRun
from capplan.llm.core.training.accuracy import (
    JudgedFit,
    JudgedTraining,
    MeasuredTraining,
    TrainingCalibration,
    TrainingMetric,
    TrainingValidation,
    around,
)
from capplan.llm.core.training.estimate import answer_training_memory, estimate_training, least_recompute
from capplan.llm.read.training_rows import read_training
from capplan.specs import Gpus


def validate_training(
    files: Sequence[Path], *, gpus: Gpus, calibration: TrainingCalibration, laws: RateLaws, qualities: str = "AB"
) -> TrainingValidation:
    """Predict every run of some files and compare the predictions with the measurements.

    Where a run does not state what it computes again, the least that fits is assumed.

    Args:
        files: CSV files of measured runs.
        gpus: The GPUs that are known.
        calibration: The fitted constants.
        laws: What GPUs sustain.
        qualities: Letters of the qualities that are judged; rows of others are left out.

    Raises:
        UsageError: A file cannot be read.
    """
    answers: list[JudgedTraining] = []
    fits: list[JudgedFit] = []
    skipped: list[SkippedRun] = []
    for path in files:
        found = read_training(path)
        skipped += found.skipped
        for run in found.runs:
            if run.quality not in qualities:
                continue
            try:
                answers += judge_training(run, gpus=gpus, calibration=calibration, laws=laws)
                fits += _verdict(run, gpus, calibration)
            except CapplanError as error:
                reason = str(error)
                skipped.append(SkippedRun(file=path.name, line=run.line, model=run.model, gpu=run.gpu, reason=reason))
    return TrainingValidation(answers=tuple(answers), fits=tuple(fits), skipped=tuple(skipped))


def judge_training(
    run: MeasuredTraining, *, gpus: Gpus, calibration: TrainingCalibration, laws: RateLaws
) -> Iterator[JudgedTraining]:
    """Yield the predictions of what was measured of a run.

    Args:
        run: The run.
        gpus: The GPUs that are known.
        calibration: The fitted constants.
        laws: What GPUs sustain.

    Raises:
        CapplanError: The GPU is not known, or has no matrix units.
    """
    gpu = gpus.find(run.gpu)
    job = run.job if run.recompute_is_stated else least_recompute(run.job, gpu, calibration)
    if run.peak_bytes:
        memory = answer_training_memory(job, gpu, calibration)
        peak = memory.outlook.peak(run.peak_kind)
        yield JudgedTraining(
            run=run,
            metric=TrainingMetric.PEAK_BYTES,
            measured=run.peak_bytes,
            predicted=around(peak, calibration.widths.memory[memory.evidence]),
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


def _verdict(run: MeasuredTraining, gpus: Gpus, calibration: TrainingCalibration) -> Iterator[JudgedFit]:
    """Yield whether a run is predicted to fit, where it is known what it computes again."""
    if run.recompute_is_stated:
        memory = answer_training_memory(run.job, gpus.find(run.gpu), calibration)
        yield JudgedFit(run=run, predicted_fits=memory.fits, fit_probability=memory.fit_probability)
