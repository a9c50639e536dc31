"""The simulated loads of one deployment."""

from dataclasses import dataclass

from capplan.core.llm.serving.load_answer import LatencyLimits, LoadAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """The answers of one replica of a deployment at each load."""

    model: str
    gpu: str
    gpus: int
    engine: str
    sequences_that_fit: float
    answers: tuple[LoadAnswer, ...]
    limits: LatencyLimits
