"""What is reported of one model on one GPU: curve, breakdown, bound, advice."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from capplan.core.latency.advice import SpeedAdvice
from capplan.core.latency.breakdown import ClassicBound, StepBreakdown
from capplan.core.latency.types import LatencyEstimate
from capplan.core.power import StepEnergy
from capplan.core.trace.types import ModelInput
from capplan.core.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateReport:
    """What is reported of one model on one GPU.

    `energy` is that of each point of the curve, by batch; empty where nobody asked for it, and where the card's power
    limit is not known.
    """

    model: str
    input: ModelInput
    dtype: str | None
    workload: Workload
    curve: tuple[LatencyEstimate, ...]
    breakdown: StepBreakdown
    classic: ClassicBound
    advice: tuple[SpeedAdvice, ...]
    gain_fraction: float
    host: str | None = None
    caution: str | None = None
    energy: Mapping[int, StepEnergy] = field(default_factory=dict)

    @property
    def batching_gain(self) -> float:
        """Best throughput of the curve over that of its smallest batch."""
        rates = [point.throughput_per_s.expected for point in self.curve]
        return max(rates) / rates[0]
