"""Fit what is left of measured pipelines: `python benchmarks/pipelines.py DIFFUSION-ENERGY.csv.gz --write`.

The rows are runs of text to image and text to video in diffusers with xDiT (ML.ENERGY benchmark). A row's kernels are
estimated one by one; fitted are factors on four groups of kernels for each GPU, one on the host's time, and what GPUs
that share a sequence spend beside it. Families of models are held out in turn, so that SANA, Wan and CogVideoX are
judged without their relatives, and each GPU by what was fitted to the other.

How far estimates may lie on GPUs of other kinds of chips, and memory, is kept as `benchmarks/stable_diffusion.py` found
it.

Without --write the held-out errors are printed alone. With it `capplan/calibrations/pipelines.yaml` is written.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import sqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from capplan.app.pipelines.validate import MeasuredParts
from capplan.core.calibrate.residuals import LeastSquares, minimise
from capplan.core.calibrate.validation import error_statistics
from capplan.core.gpus.spec import GpuSpec
from capplan.core.numbers import FloatArray
from capplan.core.origin import Origin
from capplan.core.pipelines.measured import (
    GROUPS,
    UNCALIBRATED,
    GroupFactors,
    MeasuredPipeline,
    PipelineCalibration,
    PipelineWidth,
    SequenceLaws,
)
from capplan.core.pipelines.timing import Correction, GroupTimes, group_times
from capplan.errors import CapplanError
from capplan.specs.fitted import (
    PIPELINES_FILE,
    dump_pipeline_calibration,
    load_pipeline_calibration,
)
from capplan.specs.measurements import read_measured_pipelines

ROOT = Path(__file__).parents[1]
COVERAGE = 0.9
LEAST_COVERAGE, FEWEST_ROWS = 0.85, 20
"""What is covered of the hardest family, and from how many rows on one counts as such."""
FAMILIES = ("SANA", "Wan", "CogVideoX", "stable-diffusion-3")
"""What the names of models begin with that are held out together."""
LAWS = ("ulysses_share", "ring_share", "ulysses_host_s", "ring_host_s", "layer_host_s")
LAW_PRIORS = (0.5, 0.5, 1e-4, 1e-4, 1e-5)
FACTOR_SD, HOST_SD, LAW_SD, BETWEEN_SD, ROW_SD = 0.3, 0.5, 1.0, 0.15, 0.05
"""What is believed beforehand, in logs: of factors, of the host, of the laws of sharing, how factors of two GPUs
differ, and how far a row lies from the best law."""


@dataclass(frozen=True, kw_only=True)
class Timed:
    """The kernels' times of one part of a row: how often it runs, and what GPUs exchange meanwhile."""

    times: float
    groups: GroupTimes
    correction: Correction


@dataclass(frozen=True, kw_only=True)
class PipelineRow:
    """A measured row with its parts."""

    measured: MeasuredPipeline
    parts: tuple[Timed, ...]
    batches: tuple[int, ...]

    @property
    def family(self) -> str:
        """The family that is held out together: what a model's name begins with."""
        name = self.measured.pipeline.rpartition("/")[2]
        return next((each for each in FAMILIES if name.startswith(each)), name)

    @property
    def is_shared(self) -> bool:
        """True if several GPUs share a sequence."""
        return self.measured.degrees.gpu_count > 1


def read_timed(path: Path) -> tuple[list[PipelineRow], Counter[str]]:
    """Read the rows with the times of their kernels; the second part counts, by reason, those left out."""
    found, left_out = read_measured_pipelines(path)
    skipped = Counter(left_out)
    known = MeasuredParts({row.gpu for row in found}, pipelines=UNCALIBRATED)
    rows = []
    for measured in found:
        try:
            rows.append(_timed(measured, known))
        except CapplanError as error:
            skipped[str(error)] += 1
    return rows, skipped


def _timed(measured: MeasuredPipeline, known: MeasuredParts) -> PipelineRow:
    prepared, gpu = known.of(measured), known.gpus[measured.gpu]
    parts, batches = [], []
    for part in prepared.parts:
        run = prepared.pipeline.runs(part.part, measured.batch)
        groups = group_times(part.shared.step, gpu, [run.batch])
        assert groups is not None
        assert part.correction is not None
        parts.append(Timed(times=float(run.times), groups=groups, correction=part.correction))
        batches.append(run.batch)
    return PipelineRow(measured=measured, parts=tuple(parts), batches=tuple(batches))


def calibration_of(parameters: FloatArray, gpus: Sequence[GpuSpec]) -> PipelineCalibration:
    """Return the calibration that logarithms of its constants stand for."""
    count = len(GROUPS)
    factors = np.exp(parameters[: len(gpus) * count]).reshape(len(gpus), count).tolist()
    laws = np.exp(parameters[len(gpus) * count + 1 :]).tolist()
    return PipelineCalibration(
        name="pipelines",
        gpus={
            gpu.id: GroupFactors(
                capability=gpu.compute_capability or (0, 0), by_group=dict(zip(GROUPS, own, strict=True))
            )
            for gpu, own in zip(gpus, factors, strict=True)
        },
        host=float(np.exp(parameters[len(gpus) * count])),
        sequence=SequenceLaws(**dict(zip(LAWS, laws, strict=True))),
    )


def estimated_s(row: PipelineRow, calibration: PipelineCalibration, known: MeasuredParts) -> float:
    """Estimate the time of a row's batch. [s]"""
    gpu = known.gpus[row.measured.gpu]
    total = 0.0
    for part, batch in zip(row.parts, row.batches, strict=True):
        correction = replace(part.correction, calibration=calibration)
        one = part.groups.corrected(
            calibration, gpu, waited_s=correction.waited_s(gpu, [batch]), host_added_s=correction.host_added_s
        )
        total += part.times * float(one[0])
    return total


def log_errors(rows: Sequence[PipelineRow], calibration: PipelineCalibration, known: MeasuredParts) -> FloatArray:
    """Return the logarithms of estimated over measured."""
    return np.array([np.log(estimated_s(row, calibration, known) / row.measured.latency_s) for row in rows])


def fit(rows: Sequence[PipelineRow], known: MeasuredParts) -> PipelineCalibration:
    """Fit the constants; each model, GPU and number of GPUs weighs the same however many rows it has."""
    gpus = [known.gpus[name] for name in sorted({row.measured.gpu for row in rows})]
    cells = Counter((row.measured.pipeline, row.measured.gpu, row.measured.degrees.gpu_count) for row in rows)
    weight = np.array([
        1 / cells[row.measured.pipeline, row.measured.gpu, row.measured.degrees.gpu_count] for row in rows
    ])  # fmt: skip
    count = len(gpus) * len(GROUPS)

    def residuals(parameters: FloatArray) -> FloatArray:
        errors = log_errors(rows, calibration_of(parameters, gpus), known) / ROW_SD
        factors = parameters[:count].reshape(len(gpus), len(GROUPS))
        apart = (factors - factors.mean(axis=0)) / BETWEEN_SD
        return np.concatenate([errors, apart.ravel()])

    def derivatives(parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
        here = residuals(parameters)
        steps = np.eye(len(parameters)) * 1e-5
        return here, np.stack([(residuals(parameters + step) - here) / 1e-5 for step in steps], axis=1)

    mean = np.concatenate([np.zeros(count + 1), np.log(LAW_PRIORS)])
    spread = np.concatenate([np.full(count, FACTOR_SD), [HOST_SD], np.full(len(LAWS), LAW_SD)])
    problem = LeastSquares(
        residuals=residuals,
        derivatives=derivatives,
        row_weight=np.concatenate([weight, np.ones(count)]),
        prior_mean=mean,
        prior_sd=spread,
        huber=4.0,
    )
    return calibration_of(minimise(problem, mean, iterations=40), gpus)


def judge(rows: Sequence[PipelineRow], known: MeasuredParts, *, command: str, source: str) -> PipelineCalibration:
    """Fit to all rows, with the errors and widths of families and GPUs that were held out."""
    held_out = np.zeros(len(rows))
    for family in sorted({row.family for row in rows}):
        fitted = fit([row for row in rows if row.family != family], known)
        for index, row in enumerate(rows):
            if row.family == family:
                held_out[index] = log_errors([row], fitted, known)[0]
    shared = np.array([row.is_shared for row in rows])
    found = {"families, one GPU": held_out[~shared], "families, several GPUs": held_out[shared]}
    other_gpu = np.zeros(len(rows))
    for gpu in sorted({row.measured.gpu for row in rows}):
        fitted = fit([row for row in rows if row.measured.gpu != gpu], known)
        for index, row in enumerate(rows):
            if row.measured.gpu == gpu:
                other_gpu[index] = log_errors([row], fitted, known)[0]
    found |= {"GPUs, one GPU": other_gpu[~shared], "GPUs, several GPUs": other_gpu[shared]}
    families = np.array([row.family for row in rows])
    models, several = (covering(np.abs(held_out[where]), families[where]) for where in (~shared, shared))
    gpus = covering(np.abs(other_gpu[~shared]), families[~shared])
    return replace(
        fit(rows, known),
        width=PipelineWidth(
            models=models,
            gpus=sqrt(max(0.0, gpus**2 - models**2)),
            shared=several,
            unlike=load_pipeline_calibration().width.unlike,
            memory=load_pipeline_calibration().width.memory,
        ),
        origin=Origin(
            made=datetime.now(tz=UTC).date(),
            command=command,
            sources=(source,),
            rows=len(rows),
            held_out_errors={
                name: _figures(errors, families[shared if "several" in name else ~shared])
                for name, errors in found.items()
            },
        ),
    )


def covering(sizes: FloatArray, families: NDArray[np.str_]) -> float:
    """Return the half-width that covers 90 % where each family weighs alike, and 85 % of the hardest family.

    Nobody knows the family of a question, and one of many rows must not stand for the others. A further family lies as
    far from the mean of n as √(1 + 1/n) of their spread.
    """
    by_family = [sizes[families == name] for name in np.unique(families)]
    alike = next(
        width for width in np.sort(sizes) if np.mean([np.mean(each <= width) for each in by_family]) >= COVERAGE
    )
    hardest = [np.quantile(each, LEAST_COVERAGE) for each in by_family if len(each) >= FEWEST_ROWS]
    return float((1 + 1 / len(by_family)) ** 0.5 * max([alike, *hardest]))


def _figures(errors: FloatArray, families: NDArray[np.str_]) -> dict[str, float]:
    """Return what errors are, and the share within widths that the other families tell."""
    found, sizes = error_statistics(errors), np.abs(errors)
    inside = [
        sizes[families == name] <= covering(sizes[families != name], families[families != name])
        for name in np.unique(families)
    ]
    return {
        "rows": found.count,
        "median": round(found.median, 4),
        "p90": round(found.p90, 4),
        "bias": round(found.bias, 4),
        "coverage": round(float(np.concatenate(inside).mean()), 3),
    }


def rounded(calibration: PipelineCalibration) -> PipelineCalibration:
    """Return the calibration with four significant digits, as it is written."""

    def few(value: float) -> float:
        return float(f"{value:.4g}")

    return replace(
        calibration,
        host=few(calibration.host),
        gpus={
            gpu: replace(own, by_group={name: few(value) for name, value in own.by_group.items()})
            for gpu, own in calibration.gpus.items()
        },
        sequence=SequenceLaws(**{name: few(getattr(calibration.sequence, name)) for name in LAWS}),
        width=PipelineWidth(
            models=few(calibration.width.models),
            gpus=few(calibration.width.gpus),
            shared=few(calibration.width.shared),
            unlike=calibration.width.unlike,
            memory=calibration.width.memory,
        ),
    )


def main() -> None:
    """Print the figures, and write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows, skipped = read_timed(options.rows)
    known = MeasuredParts({row.measured.gpu for row in rows}, pipelines=UNCALIBRATED)
    command = f"python benchmarks/pipelines.py {options.rows.name} --write"
    calibration = rounded(judge(rows, known, command=command, source=options.rows.name))
    text = dump_pipeline_calibration(calibration)
    print(text)
    for reason, number in skipped.most_common():
        print(f"{number} rows left out: {reason}")
    if options.write:
        (ROOT / "capplan" / "calibrations" / PIPELINES_FILE).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
