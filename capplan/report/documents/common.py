"""Types that several documents share: workloads, and numbers with a bound and an interval."""

from typing import Annotated

import msgspec
from msgspec import Meta

from capplan.core.latency.types import LatencyEstimate
from capplan.core.numbers import Interval
from capplan.core.workload import Framework, Layout, Mode, Optimizer, Precision, Training, Workload


class Bounded(msgspec.Struct, frozen=True, kw_only=True):
    """A quantity with its bound and its interval."""

    bound: Annotated[
        float | None,
        Meta(description="the roofline, which cannot be beaten; null for a rate of a model without any work"),
    ]
    low: float
    expected: float
    high: float

    @property
    def interval(self) -> Interval:
        """Return the interval without the bound."""
        return Interval(low=self.low, expected=self.expected, high=self.high)


def bounded(bound: float | None, interval: Interval) -> Bounded:
    """Return a quantity with its bound.

    Args:
        bound: What cannot be beaten, in the interval's unit; None where nothing bounds it.
        interval: The estimate.
    """
    return Bounded(bound=bound, low=interval.low, expected=interval.expected, high=interval.high)


def bounded_latency(estimate: LatencyEstimate) -> Bounded:
    """Return the time of one batch with its bound. [s]"""
    return bounded(estimate.bound_s, estimate.latency_s)


class TrainingDocument(msgspec.Struct, frozen=True, kw_only=True):
    """How a training step is made up."""

    optimizer: Optimizer
    checkpointing: bool
    accumulate: int


class WorkloadDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions of a question, batch and GPU apart."""

    precision: Precision
    mode: Mode
    framework: Framework
    layout: Layout
    torch: str
    training: TrainingDocument | None = None
    host: str | None = None

    def words(self) -> dict[str, str]:
        """Return the conditions that are set, as text."""
        plain = msgspec.to_builtins(self)
        return {key: _words(value) for key, value in plain.items() if value is not None}


def _words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {each}" for key, each in value.items())
    return str(value)


def workload_document(workload: Workload, *, host: str | None = None) -> WorkloadDocument:
    """Return the conditions of a question as a document.

    Args:
        workload: the conditions.
        host: what launches kernels, in words; None where no time is estimated, or without a host.
    """
    return WorkloadDocument(
        precision=workload.precision,
        mode=workload.configuration.mode,
        framework=workload.framework,
        layout=workload.layout,
        torch="{}.{}".format(*workload.torch_version),
        training=_training(workload.training),
        host=host,
    )


def _training(training: Training | None) -> TrainingDocument | None:
    if training is None:
        return None
    return TrainingDocument(
        optimizer=training.optimizer, checkpointing=training.checkpointing, accumulate=training.accumulate
    )
