"""Learn how much more or less GPUs draw than the law of power says, from measured steps."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, exp, log

import numpy as np

from capplan.core.calibrate.validation import ErrorStatistics, JudgedStep, error_statistics
from capplan.core.gpus.spec import GpuSpec
from capplan.core.numbers import FloatArray
from capplan.core.power import CardPower, PowerLaw

FEWEST_ROWS = 3
"""Rows of a GPU below which nothing is learnt of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntPower:
    """A GPU's factor, and the errors of rows whose model was left out; None where only one model was measured."""

    gpu: str
    card: CardPower
    held_out: ErrorStatistics | None


def learn_power(rows: Sequence[JudgedStep], law: PowerLaw, gpus: Mapping[str, GpuSpec]) -> tuple[LearntPower, ...]:
    """Return the factors of GPUs that enough rows state the power of.

    The factor is the geometric mean of measured over estimated power, each model with the same weight, because batches
    of one model err together. The 90 % interval is that of rows whose model was left out (split conformal: of fewer
    than nine rows, the largest error), and never narrower than that of an architecture that was measured with many
    models. With one model, which leaves nothing to judge by, it is that of the law.

    Args:
        rows: Measured steps with the power that the law estimates at their measured times.
        law: The law, without factors of cards.
        gpus: The GPUs of the rows by the names that the rows give them.
    """
    by_gpu: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.step.power_w and row.power_w:
            log_ratio = log(row.step.power_w / row.power_w.expected)
            by_gpu[gpus[row.step.gpu].id][row.step.model].append(log_ratio)
    specs = {gpu.id: gpu for gpu in gpus.values()}
    counted = {name: models for name, models in by_gpu.items() if sum(map(len, models.values())) >= FEWEST_ROWS}
    return tuple(_learnt(specs[name], list(models.values()), law) for name, models in sorted(counted.items()))


def _learnt(gpu: GpuSpec, models: Sequence[Sequence[float]], law: PowerLaw) -> LearntPower:
    means = np.array([np.mean(model) for model in models])
    half_width, held_out = law.of(gpu).log_half_width, None
    if len(models) > 1:
        others = (means.sum() - means) / (len(means) - 1)
        errors = np.concatenate([mean - np.array(model) for mean, model in zip(others, models, strict=True)])
        held_out = error_statistics(errors)
        measured = [constants.log_half_width for constants in law.architectures.values()]
        half_width = max(_conformal(np.abs(errors)), *measured)
    return LearntPower(
        gpu=gpu.id,
        card=CardPower(
            factor=exp(float(means.mean())),
            log_half_width=half_width,
            rows=sum(map(len, models)),
            models=len(models),
        ),
        held_out=held_out,
    )


def _conformal(errors: FloatArray) -> float:
    """Return the error that nine of ten further rows stay within."""
    return float(np.sort(errors)[min(len(errors), ceil(0.9 * (len(errors) + 1))) - 1])
