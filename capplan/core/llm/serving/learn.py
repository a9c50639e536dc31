"""Make a calibration from measured runs: constants, and interval widths from runs that were held out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.core.llm.serving.cases import answer, metric_of
from capplan.core.llm.serving.fit import FullFit, Observation, Prior, fit_constants
from capplan.core.llm.timing.calibration import LlmCalibration, Width, engine_width
from capplan.core.llm.timing.constants import Constants, Layout
from capplan.core.llm.timing.work import kernel_classes
from capplan.core.numbers import FloatArray

COVERED = 0.9
POOLED_DEPLOYMENTS = 3.0
"""Deployments of an engine at which its own errors weigh as much as those of all engines in its interval widths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntRun:
    """An observation with the names that it can be held out by, and the name of its interval widths."""

    observation: Observation
    gpu: str
    model: str
    family: str
    width: str
    segment: str = ""


def learn(runs: Sequence[LearntRun], *, layout: Layout, prior: Prior, name: str) -> LlmCalibration:
    """Fit all constants to all runs; the calibration has no interval widths yet.

    Args:
        runs: What was measured.
        layout: Engines and order of the constants.
        prior: Beliefs about the constants.
        name: Name of the calibration.
    """
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
        measured_gpus=frozenset(run.gpu for run in runs),
        measured_models=frozenset(run.model for run in runs),
        measured_engines=frozenset(run.observation.case.engine for run in runs),
        measured_segments=frozenset(run.segment for run in runs if run.segment),
        measured_kernels=frozenset(
            str(kernel) for run in runs for kernel in kernel_classes(run.observation.case.kernels)
        ),
    )


def predict(runs: Sequence[LearntRun], constants: Constants) -> FloatArray:
    """Predict the observation of every run; a case that several runs share is predicted once."""
    cases = {id(run.observation.case): run.observation.case for run in runs}
    times = {key: answer(case, constants) for key, case in cases.items()}
    answers = [metric_of(times[id(run.observation.case)], run.observation.metric) for run in runs]
    return np.array(answers)


def cross_validate(
    runs: Sequence[LearntRun], *, by: Callable[[LearntRun], str], layout: Layout, prior: Prior, known: FullFit
) -> FloatArray:
    """Predict every run with constants that were fitted without the runs that share its group.

    Args:
        runs: What was measured.
        by: Returns the group of a run.
        layout: Engines and order of the constants.
        prior: Beliefs about the constants.
        known: The fit to all runs.
    """
    groups = [by(run) for run in runs]
    found = np.zeros(len(runs))
    for group in dict.fromkeys(groups):
        outside = [run.observation for run, own in zip(runs, groups, strict=True) if own != group]
        inside = [index for index, own in enumerate(groups) if own == group]
        vector = fit_constants(outside, layout=layout, prior=prior, known=known)
        found[inside] = predict([runs[index] for index in inside], layout.view(vector))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Predictions of all runs with nothing, their GPU, their model, and its whole family held out."""

    same: FloatArray
    other_gpu: FloatArray
    other_model: FloatArray
    other_family: FloatArray


def interval_widths(runs: Sequence[LearntRun], held_out: HeldOut) -> dict[str, Width]:
    """Compute the half-widths of 90 % intervals from held-out errors, by metric, and by metric and engine.

    Errors come in deployments that share most of theirs, so that the few deployments of one engine say little of the
    next one. The squared width of an engine is the mean of its own and that of all engines, weighed by its number of
    deployments against `POOLED_DEPLOYMENTS`.

    Args:
        runs: What was measured.
        held_out: Predictions of the runs.
    """
    observed = np.log([run.observation.value for run in runs])
    errors = tuple(
        np.abs(np.log(predicted) - observed) for predicted in (held_out.same, held_out.other_gpu, held_out.other_model)
    )
    names = np.array([run.width for run in runs])
    own_names = np.array([engine_width(run.width, run.observation.case.engine) for run in runs])
    blocks = np.array([run.observation.block for run in runs])
    widths = {}
    for name in np.unique(names):
        whole = _quantiles(errors, names == name)
        widths[str(name)] = _width(whole)
        for own_name in np.unique(own_names[names == name]):
            mine = own_names == own_name
            share = _own_share(len(np.unique(blocks[mine])))
            own = np.sqrt(share * _quantiles(errors, mine) ** 2 + (1.0 - share) * whole**2)
            widths[str(own_name)] = _width(own, transferred=whole)
    return widths


def _own_share(deployments: int) -> float:
    return deployments / (deployments + POOLED_DEPLOYMENTS)


def _quantiles(errors: Sequence[FloatArray], mine: NDArray[np.bool_]) -> FloatArray:
    """Return the half-widths as logarithms with nothing, the GPU and the model held out."""
    return np.array([np.quantile(each[mine], COVERED) for each in errors])


def _width(quantiles: FloatArray, *, transferred: FloatArray | None = None) -> Width:
    """Return the widths by class of evidence.

    What is new in both gets a tenth more than the wider of the two, and what was never measured at all half as much
    again: few GPUs and models can be left out together without leaving out what teaches their kernels.

    Args:
        quantiles: Half-widths as logarithms with nothing, the GPU and the model held out.
        transferred: Those that the widest follows from where they are not `quantiles`: an engine that errs more than
            others on GPUs that were measured errs no more than that on GPUs of other vendors.
    """
    same, gpu, model = (float(each) for each in quantiles)
    gpu, model = max(gpu, same), max(model, same)
    both = 1.1 * max(gpu, model)
    widest = 1.65 * float(np.max(quantiles if transferred is None else transferred))
    return Width(
        same=float(np.exp(same)),
        other_model=float(np.exp(model)),
        other_gpu=float(np.exp(gpu)),
        other_both=float(np.exp(both)),
        transfer=float(np.exp(max(widest, both))),
    )
