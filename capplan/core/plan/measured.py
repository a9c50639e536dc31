"""The times of a plan whose model was timed on a GPU: as measured at that batch, in proportion at others."""

from collections.abc import Mapping
from dataclasses import replace
from math import log
from typing import NamedTuple

from capplan.core.latency.types import Evidence, LatencyEstimate
from capplan.core.numbers import Interval


class OwnTime(NamedTuple):
    """What a model took, and the release of torch that it ran with. [s]"""

    time_s: Interval
    torch: str


def as_measured(row: Mapping[int, LatencyEstimate], times: Mapping[int, OwnTime]) -> dict[int, LatencyEstimate]:
    """Return the estimates of a GPU by batch, with the times of those batches that were measured.

    Another batch takes longer or less by as much as the nearest measured one, and keeps the evidence that it had.
    """
    known = [batch for batch in row if batch in times]

    def of(batch: int, estimate: LatencyEstimate) -> LatencyEstimate:
        near = min(known, key=lambda one: abs(log(one / batch)))
        time_s, torch = times[near]
        if near == batch:
            evidence, why = Evidence.MEASURED, f"this model was measured on this GPU, with torch {torch}"
        else:
            time_s = estimate.latency_s * (time_s.expected / row[near].latency_s.expected)
            evidence, why = estimate.evidence, f"{estimate.evidence_reason}; in proportion to what batch {near} took"
        return replace(
            estimate, latency_s=time_s, bound_s=min(estimate.bound_s, time_s.low), evidence=evidence,
            evidence_reason=why, interval_s=None,
        )  # fmt: skip

    return {batch: of(batch, estimate) for batch, estimate in row.items()} if known else dict(row)
