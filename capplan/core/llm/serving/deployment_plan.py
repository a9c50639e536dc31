"""The answer of a search over deployments: what carries a load within limits, what it costs, and why others do not."""

from dataclasses import dataclass

from capplan.core.llm.serving.load_answer import LatencyLimits, LoadAnswer
from capplan.core.llm.sharding import Sharding
from capplan.core.numbers import Interval

SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLoad:
    """What all replicas together are asked: requests per second with mean lengths. [1/s, tokens]"""

    rate_per_s: float
    input_len: float
    output_len: float
    spread: float = 0.0
    gap_scv: float = 1.0

    @property
    def output_tokens_per_s(self) -> float:
        """Return the output tokens per second that all replicas together must give."""
        return self.rate_per_s * self.output_len


@dataclass(frozen=True, slots=True, kw_only=True)
class RentedGpu:
    """What one GPU costs per hour, and where that is known from. [USD]"""

    usd_per_hour: float
    provider: str
    day: str
    tier: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentFit:
    """A deployment that carries the load within the limits.

    Attributes:
        needed: Replicas that the load needs; `replicas` adds the redundancy asked for.
        max_rate_per_s: Requests per second that one replica carries within the limits.
        ttft_s, tpot_s, e2e_s: What a request sees with all replicas up, with the interval of the estimate. [s]
        simulated: Percentiles of one replica at its share of the load; None where it was not simulated.
        holds_at_worst: True if the limits hold at the far ends of the intervals, too.
        is_transferred: True if no GPU of this vendor or kind, or no run of this engine, was measured.
    """

    gpu: str
    sharding: Sharding
    engine: str
    weights: str
    kv: str
    needed: int
    replicas: int
    max_rate_per_s: float
    ttft_s: Interval
    tpot_s: Interval
    e2e_s: Interval
    sequences_that_fit: float
    weights_bytes: int
    usable_bytes: int | None
    evidence: str
    holds_at_worst: bool
    is_transferred: bool = False
    rent: RentedGpu | None = None
    simulated: LoadAnswer | None = None

    @property
    def gpus(self) -> int:
        """Return the GPUs of all replicas."""
        return self.replicas * self.sharding.gpus

    @property
    def usd_per_hour(self) -> float | None:
        """Return the rent of all replicas; None where no price is known. [USD/h]"""
        return None if self.rent is None else self.gpus * self.rent.usd_per_hour

    def usd_per_million_output_tokens(self, load: TokenLoad) -> float | None:
        """Return the rent of a million output tokens at the load. [USD]"""
        hourly = self.usd_per_hour
        return None if hourly is None else hourly / (load.output_tokens_per_s * SECONDS_PER_HOUR) * 1e6

    def output_tokens_per_s_per_gpu(self, load: TokenLoad) -> float:
        """Return the output tokens per second of one GPU at the load."""
        return load.output_tokens_per_s / self.gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentRejection:
    """A GPU, or one way to use it, that does not carry the load: why, and what would help."""

    gpu: str
    reason: str
    sharding: Sharding | None = None
    weights: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentPlan:
    """All deployments of one model for a load, the recommended first."""

    model: str
    params: int
    active_params: int
    load: TokenLoad
    limits: LatencyLimits
    fits: tuple[DeploymentFit, ...]
    rejections: tuple[DeploymentRejection, ...]
    assumptions: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def recommended(self) -> DeploymentFit | None:
        """Return the cheapest deployment with a price whose vendor and engine were measured; else the first."""
        return self.fits[0] if self.fits else None

    @property
    def cheaper(self) -> DeploymentFit | None:
        """Return a deployment that is cheaper than the recommended one on weaker evidence; None if there is none."""
        best = self.recommended
        if best is None or best.usd_per_hour is None or best.is_transferred:
            return None
        others = [each for each in self.fits if each.is_transferred and each.usd_per_hour is not None]
        first = min(others, key=lambda each: each.usd_per_hour or 0.0, default=None)
        return first if first and (first.usd_per_hour or 0.0) < best.usd_per_hour else None


def rank_deployments(fits: list[DeploymentFit]) -> tuple[DeploymentFit, ...]:
    """Order deployments: those with a price first, measured evidence before transferred, then by cost and size."""

    def key(fit: DeploymentFit) -> tuple[bool, bool, float, int, str, int]:
        cost = fit.usd_per_hour
        return cost is None, fit.is_transferred, cost or 0.0, fit.gpus, fit.gpu, fit.sharding.gpus

    return tuple(sorted(fits, key=key))


def front(fits: tuple[DeploymentFit, ...], load: TokenLoad) -> tuple[DeploymentFit, ...]:
    """Return the deployments that no other beats in tokens per second per GPU and per user at once."""

    def worth(fit: DeploymentFit) -> tuple[float, float]:
        return fit.output_tokens_per_s_per_gpu(load), 1.0 / fit.tpot_s.expected

    values = [(fit, worth(fit)) for fit in fits]
    return tuple(
        fit
        for fit, mine in values
        if not any(other != mine and other[0] >= mine[0] and other[1] >= mine[1] for _, other in values)
    )
