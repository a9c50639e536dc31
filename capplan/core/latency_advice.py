"""What would make a step faster, each with its computed gain."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from capplan.core.estimates import Binding, LatencyEstimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One change and what it would make of the throughput: 1.5 is half again as fast."""

    change: str
    speedup: float


def advise(
    estimate: LatencyEstimate,
    curve: Sequence[LatencyEstimate],
    *,
    alternatives: Mapping[str, LatencyEstimate],
    least_speedup: float = 1.05,
) -> tuple[Advice, ...]:
    """List changes that gain, the best first.

    `alternatives` are estimates of the same batch under other conditions, by what one would have to change.
    """
    rate = estimate.throughput_per_s.expected
    found = [
        Advice(change=change, speedup=other.throughput_per_s.expected / rate) for change, other in alternatives.items()
    ]
    best = max(curve, key=lambda point: point.throughput_per_s.expected)
    if best.batch > estimate.batch:
        found.append(Advice(change=f"batch {best.batch}", speedup=best.throughput_per_s.expected / rate))
    shares = dict(estimate.share_by_binding)
    if shares.get(Binding.LAUNCHES, 0) > 0.3:
        speedup = 1 / (1 - shares[Binding.LAUNCHES])
        found.append(
            Advice(change="CUDA graphs or overlapping batches, which hide launches (at most)", speedup=speedup)
        )
    return tuple(sorted((item for item in found if item.speedup >= least_speedup), key=lambda item: -item.speedup))
