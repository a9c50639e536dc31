"""The simulated loads of one deployment."""

from dataclasses import dataclass

from capplan.llm.core.simulation.load_answer import LatencyLimits, LoadAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """The answers of one replica of a deployment at each load.

    `saturation_rate_per_s` is the rate at which the replica is full: beyond it waits grow without end. [1/s]
    """

    model: str
    gpu: str
    gpus: int
    engine: str
    sequences_that_fit: float
    saturation_rate_per_s: float
    answers: tuple[LoadAnswer, ...]
    limits: LatencyLimits
    notes: tuple[str, ...] = ()

    def load_fraction(self, answer: LoadAnswer) -> float:
        """Return a load's rate over that of the full replica."""
        return answer.rate_per_s / self.saturation_rate_per_s

    @property
    def saturated_from_per_s(self) -> float | None:
        """Return the lowest simulated rate that the replica does not keep up with; None if it keeps up with all."""
        return min((each.rate_per_s for each in self.answers if not each.keeps_up), default=None)
