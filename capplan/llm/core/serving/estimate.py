"""The estimate of a deployment: what clients see at each concurrency, and what its steps are made of."""

from dataclasses import dataclass

from capplan.core.numbers import Interval
from capplan.llm.core.serving.energy import ServingEnergy
from capplan.llm.core.serving.explain import StepPart
from capplan.llm.core.sharding import Sharding


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPoint:
    """The answer at one concurrency; `running` sequences are processed at a time and the others wait. [s, s, 1/s]

    `energy` is None where nobody asked for it, and where the card's power limit is not known.
    """

    concurrency: int
    ttft_s: Interval
    tpot_s: Interval
    output_tokens_per_s: Interval
    requests_per_s: float
    running: float
    evidence: str
    energy: ServingEnergy | None = None

    @property
    def queued(self) -> bool:
        """Return True if clients wait because no more sequences fit."""
        return self.running < self.concurrency

    @property
    def e2e_s(self) -> float:
        """Return the expected time of a whole answer by Little's law: clients ÷ requests per second. [s]"""
        return self.concurrency / self.requests_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingEstimate:
    """The answers of one replica at all concurrencies, the steps of the last one, and what was assumed.

    `sequences_that_fit` counts sequences of prompt and answer in memory. `measured_factor` is what measured runs
    of this deployment change TPOT by, None without any.
    """

    model: str
    params: int
    active_params: int
    gpu: str
    engine: str
    version: str
    sharding: Sharding
    weights: str
    kv: str
    input_len: float
    output_len: float
    sequences_that_fit: float
    points: tuple[ServingPoint, ...]
    decode_parts: tuple[StepPart, ...]
    prefill_parts: tuple[StepPart, ...]
    calibration: str
    measured_factor: float | None = None
    measured_runs: int = 0
    notes: tuple[str, ...] = ()
