"""Make a calibration from measured runs: constants, and interval widths from runs that were held out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from capplan.core.numbers import FloatArray
from capplan.llm.core.serving.cases import answer, metric_of
from capplan.llm.core.serving.fit import FullFit, Observation, Prior, fit_constants
from capplan.llm.core.serving.priors import PRIOR
from capplan.llm.core.timing.calibration import LlmCalibration, Width, engine_width, pair_name
from capplan.llm.core.timing.constants import Constants, ConstantsVector

COVERED = 0.9
POOLED_DEPLOYMENTS = 3.0
"""Deployments of an engine at which its own errors weigh as much as those of all engines in its interval widths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntRun:
    """An observation with the names that it can be held out by, and the name of its interval widths.

    `deployment` names the runs of the same model, GPUs, engine, formats and parallelism.
    """

    observation: Observation
    gpu: str
    model: str
    family: str
    width: str
    deployment: str
    segment: str = ""


def learn(runs: Sequence[LearntRun], *, layout: ConstantsVector, prior: Prior, name: str) -> LlmCalibration:
    """Fit all constants to all runs; the calibration has no interval widths yet."""
    vector = fit_constants([run.observation for run in runs], layout=layout, prior=prior)
    constants = layout.view(vector)
    switched, host = constants.links()
    return LlmCalibration(
        name=name,
        kernels=constants.kernels(),
        engines=constants.engines(),
        switched=switched,
        host=host,
        device=constants.devices(),
        kernel_factors=constants.factors(),
        measured_gpus=frozenset(run.gpu for run in runs),
        measured_pairs=frozenset(pair_name(run.model, run.observation.case.engine) for run in runs),
        measured_engines=frozenset(run.observation.case.engine for run in runs),
        measured_segments=frozenset(run.segment for run in runs if run.segment),
        single_streams=PRIOR.single_streams,
    )


def predict(runs: Sequence[LearntRun], constants: Constants) -> FloatArray:
    """Predict the observation of every run; a case that several runs share is predicted once."""
    cases = {id(run.observation.case): run.observation.case for run in runs}
    times = {key: answer(case, constants) for key, case in cases.items()}
    answers = [metric_of(times[id(run.observation.case)], run.observation.metric) for run in runs]
    return np.array(answers)


def cross_validate(
    runs: Sequence[LearntRun], *, by: Callable[[LearntRun], str], layout: ConstantsVector, prior: Prior, known: FullFit
) -> FloatArray:
    """Predict every run with constants that were fitted without the runs that share its group."""
    groups = [by(run) for run in runs]
    found = np.zeros(len(runs))
    for group in dict.fromkeys(groups):
        outside = [run.observation for run, own in zip(runs, groups, strict=True) if own != group]
        inside = [index for index, own in enumerate(groups) if own == group]
        vector = fit_constants(outside, layout=layout, prior=prior, known=known)
        found[inside] = predict([runs[index] for index in inside], layout.view(vector))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutPredictions:
    """Predictions of all runs with nothing, their GPU, their model, and its whole family held out."""

    same: FloatArray
    other_gpu: FloatArray
    other_model: FloatArray
    other_family: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntWidths:
    """Interval widths by name, and those of each run as they are learnt without its GPU and without its model."""

    by_name: dict[str, Width]
    without_gpu: tuple[Width, ...]
    without_model: tuple[Width, ...]


def interval_widths(runs: Sequence[LearntRun], held_out: HeldOutPredictions) -> LearntWidths:
    """Compute the half-widths of 90 % intervals from held-out errors, by metric, and by engine and its generation.

    The runs of one deployment share most of their errors, so that the few deployments of one engine say little of the
    next one. The squared width of an engine is the mean of its own and that of all engines, weighed by its number of
    deployments against `POOLED_DEPLOYMENTS`; that of a generation is made from its engine's in the same way.

    A GPU or model that is asked about is not among those that the widths are learnt from. So the widths are learnt
    again without each GPU and without each family of models, and as much is added to their squares for each metric that
    90 % of what was left out lies inside. Families count, because it is not known how near a new model is to a measured
    one: widths from single models held only 82 % of the tokens per second of families that were left out.
    """
    labels = _Labels.of(runs)
    observed = np.log([run.observation.value for run in runs])
    same, gpu, model = (
        np.abs(np.log(predicted) - observed) for predicted in (held_out.same, held_out.other_gpu, held_out.other_family)
    )
    within = _half_widths(_within_deployments(np.log(held_out.same) - observed, labels.deployment), labels)
    base = _half_widths(same, labels)
    other_gpu = _widened(gpu, labels, np.array([run.gpu for run in runs]))
    other_model = _widened(model, labels, np.array([run.family for run in runs]))
    by_name = {}
    for name in base:
        whole = ",".join(name.split(",")[:2])
        tables = (base, other_gpu.by_name, other_model.by_name)
        by_name[name] = _width(
            np.array([table[name] for table in tables]),
            transferred=np.array([table[whole] for table in tables]),
            within=within[name],
        )
    own = [by_name[engine_width(run.width, run.observation.case.engine)] for run in runs]
    return LearntWidths(
        by_name=by_name,
        without_gpu=tuple(replace(w, other_gpu=float(np.exp(h))) for w, h in zip(own, other_gpu.by_row, strict=True)),
        without_model=tuple(
            replace(w, other_model=float(np.exp(h))) for w, h in zip(own, other_model.by_row, strict=True)
        ),
    )


@dataclass(frozen=True, slots=True)
class _Labels:
    """What the widths of rows are learnt by: name of the metric and kind, generation of the engine, deployment."""

    name: NDArray[np.str_]
    engine: NDArray[np.str_]
    deployment: NDArray[np.str_]

    @classmethod
    def of(cls, runs: Sequence[LearntRun]) -> "_Labels":
        return cls(
            np.array([run.width for run in runs]),
            np.array([run.observation.case.engine for run in runs]),
            np.array([f"{run.deployment}|{run.width}" for run in runs]),
        )

    def where(self, mine: NDArray[np.bool_]) -> "_Labels":
        return _Labels(self.name[mine], self.engine[mine], self.deployment[mine])


def _half_widths(errors: FloatArray, labels: _Labels) -> dict[str, float]:
    """Return half-widths as logarithms by name, and by name and generation of the engine."""
    found: dict[str, float] = {}
    engines = np.array([engine.split(maxsplit=1)[0] for engine in labels.engine])
    for name in np.unique(labels.name):
        of_name = labels.name == name
        found[str(name)] = whole = float(np.quantile(errors[of_name], COVERED))
        for engine in np.unique(engines[of_name]):
            of_engine = of_name & (engines == engine)
            width = _pooled(errors, labels, of_engine, whole)
            variants = np.unique(labels.engine[of_engine])
            for variant in variants:
                mine = of_engine & (labels.engine == variant)
                own = width if len(variants) == 1 else _pooled(errors, labels, mine, width)
                found[engine_width(str(name), str(variant))] = own
    return found


def _pooled(errors: FloatArray, labels: _Labels, mine: NDArray[np.bool_], whole: float) -> float:
    """Return the half-width of some rows, drawn towards that of all the more, the fewer deployments they are of."""
    deployments = len(np.unique(labels.deployment[mine]))
    share = deployments / (deployments + POOLED_DEPLOYMENTS)
    own = float(np.quantile(errors[mine], COVERED))
    return float(np.sqrt(share * own**2 + (1.0 - share) * whole**2))


@dataclass(frozen=True, slots=True)
class _Widened:
    """Half-widths for groups that were not measured: by name, and of each row as learnt without its group."""

    by_name: dict[str, float]
    by_row: FloatArray


def _widened(errors: FloatArray, labels: _Labels, groups: NDArray[np.str_]) -> _Widened:
    """Return half-widths that cover 90 % of each metric's rows of groups that they are not learnt from."""
    found = _half_widths(errors, labels)
    outside = _learnt_outside(errors, labels, groups)
    rows = np.where(np.isfinite(outside), outside, _of_rows(found, labels))
    metrics = np.array([_metric(name) for name in labels.name])
    added = {str(metric): _added(errors, outside, metrics == metric) for metric in np.unique(metrics)}
    return _Widened(
        {name: float(np.hypot(half, added[_metric(name)])) for name, half in found.items()},
        np.hypot(rows, [added[metric] for metric in metrics]),
    )


def _added(errors: FloatArray, outside: FloatArray, mine: NDArray[np.bool_]) -> float:
    """Return what must be added in squares to half-widths for 90 % of some rows to lie inside, 0 for nothing."""
    known = mine & np.isfinite(outside)
    missing = np.quantile(errors[known] ** 2 - outside[known] ** 2, COVERED) if known.any() else 0.0
    return float(np.sqrt(max(0.0, missing)))


def _metric(name: str) -> str:
    return name.split(",", maxsplit=1)[0]


def _of_rows(table: dict[str, float], labels: _Labels) -> FloatArray:
    """Return the half-width of each row by its generation of an engine, or by name; not a number where none is."""
    pairs = zip(labels.name, labels.engine, strict=True)
    found = [table.get(engine_width(str(name), str(engine)), table.get(str(name), np.nan)) for name, engine in pairs]
    return np.array(found, dtype=float)


def _learnt_outside(errors: FloatArray, labels: _Labels, groups: NDArray[np.str_]) -> FloatArray:
    """Return the half-width of each row that is learnt without its group; not a number where nothing is left."""
    found = np.full(errors.size, np.nan)
    for group in np.unique(groups):
        outside = groups != group
        if outside.any():
            table = _half_widths(errors[outside], labels.where(outside))
            found[~outside] = _of_rows(table, labels.where(~outside))
    return found


def _within_deployments(errors: FloatArray, deployments: NDArray[np.str_]) -> FloatArray:
    """Return how far each logarithm is from the mean of its deployment, as if that mean were known exactly.

    Deviations from the mean of n runs are too small by √((n − 1) ÷ n); a deployment of one run says nothing, and its
    deviation is taken as the median of the others.
    """
    _, inverse, counts = np.unique(deployments, return_inverse=True, return_counts=True)
    means = np.bincount(inverse, weights=errors) / counts
    runs = counts[inverse]
    found = np.abs(errors - means[inverse]) * np.sqrt(runs / np.maximum(runs - 1, 1))
    if (runs > 1).any():
        found[runs == 1] = np.median(found[runs > 1])
    return np.asarray(found)


def _width(quantiles: FloatArray, *, transferred: FloatArray, within: float) -> Width:
    """Return the widths by class of evidence.

    What is new in both gets a tenth more than the wider of the two, and what was never measured at all half as much
    again: few GPUs and models can be left out together without leaving out what teaches their kernels.
    """
    same, gpu, model = (float(quantile) for quantile in quantiles)
    gpu, model = max(gpu, same), max(model, same)
    both = 1.1 * max(gpu, model)
    widest = 1.65 * float(np.max(transferred))
    return Width(
        same=float(np.exp(same)),
        other_model=float(np.exp(model)),
        other_gpu=float(np.exp(gpu)),
        other_both=float(np.exp(both)),
        transfer=float(np.exp(max(widest, both))),
        within=float(np.exp(min(within, same))),
    )
