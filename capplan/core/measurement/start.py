"""A start of a model on the machine at hand, part by part."""

from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True, kw_only=True)
class StartStep:
    """One part of a start, and its time in each of the starts. [s]"""

    part: str
    times_s: tuple[float, ...]

    @property
    def median_s(self) -> float:
        """Return the median over the starts. [s]"""
        return median(self.times_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStart:
    """How long a model takes from a new process to its first answers.

    Args:
        name: The model.
        device: The device that it runs on.
        batch: Samples of a call.
        weight_bytes: Size of the file that the weights were read from. [B]
        steps: The parts in their order.
    """

    name: str
    device: str
    batch: int
    weight_bytes: int
    steps: tuple[StartStep, ...]

    @property
    def whole(self) -> StartStep:
        """Return the time to the first answer, start by start; calls after it do not belong to a start."""
        own = [step.times_s for step in self.steps if step.part != LATER_CALL]
        return StartStep(part="to the first answer", times_s=tuple(sum(times) for times in zip(*own, strict=True)))


LATER_CALL = "a later call"
