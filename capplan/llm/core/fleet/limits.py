"""Find how far one replica may be loaded: the highest rate, the most requests at a time, which limit breaks first."""

from dataclasses import dataclass, replace
from itertools import pairwise

from capplan.core.numbers import Interval
from capplan.llm.core.serving.load_curve import LoadPoint, between
from capplan.llm.core.simulation.load_answer import LatencyLimits

SATURATION = 0.95
"""Highest share of the rate of a full replica that is planned with: beyond it, waits grow without end."""

DEFAULT_CERTAINTY = 0.9
"""Probability with which an estimate should keep the limits that are asked. Of choices of measured runs by predictions
that had not seen the GPU or the model, 27 to 32 % broke their limit in measurement where expected values decided, 7 to
8 % with this, and they still gave more tokens per second within the limits (docs/evidence/llm-serving.md)."""

PATIENCE = LatencyLimits(ttft_s=10.0, tpot_s=0.2)
"""What a reader waits for where no limit is asked: 10 s keep a person's attention (Nielsen, Usability Engineering,
1993), and 5 tokens/s are four words/s, as fast as adults read (238 words/min: Brysbaert, 2019). Without it the cheapest
fleet is one so full that requests queue for minutes."""
_PATIENCE_HELD = "no limits were asked: mean TTFT of 10 s and TPOT of 200 ms are held, what a reader waits for; "
PATIENCE_WORDS = (
    f"{_PATIENCE_HELD}⟨max-ttft⟩ and ⟨max-tpot⟩ state others, ⟨prompts⟩ with ⟨within⟩ plans work that may wait"
)
PATIENCE_FILE_WORDS = (
    f"{_PATIENCE_HELD}limits: {{ttft: 1 s, tpot: 50 ms}} in the load file states others, prompts with within plans "
    "work that may wait"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenLimit:
    """A limit that is not kept: its option, its name, the time, and the limit. [s]"""

    option: str
    name: str
    value_s: float
    limit_s: float

    def __str__(self) -> str:
        """Return the sentence's beginning, such as "TTFT: 1.2 s exceeds the limit of 1 s"."""
        return f"{self.name}: {self.value_s:.3g} s exceeds the limit of {self.limit_s:.3g} s"


def broken_limit(ttft_s: float, tpot_s: float, e2e_s: float, limits: LatencyLimits) -> BrokenLimit | None:
    checks = (
        ("⟨max-ttft⟩", "TTFT", ttft_s, limits.ttft_s),
        ("⟨max-tpot⟩", "TPOT", tpot_s, limits.tpot_s),
        ("⟨max-e2e⟩", "time of a whole answer", e2e_s, limits.e2e_s),
    )
    for option, name, value, limit in checks:
        if limit is not None and value > limit:
            return BrokenLimit(option=option, name=name, value_s=value, limit_s=limit)
    return None


def expected_limits(limits: LatencyLimits, *, certainty: float, ttft: Interval, tpot: Interval) -> LatencyLimits:
    """Return the limits on expected times with which the asked ones are kept with a probability.

    Times are log-normal around what is expected, as their 90 % intervals say.
    """
    if certainty == 0.5:
        return limits
    first, later = (time.not_exceeded(certainty) / time.expected for time in (ttft, tpot))
    return replace(
        limits,
        ttft_s=None if limits.ttft_s is None else limits.ttft_s / first,
        tpot_s=None if limits.tpot_s is None else limits.tpot_s / later,
        e2e_s=None if limits.e2e_s is None else limits.e2e_s / later,
    )


def broken_at(point: LoadPoint, limits: LatencyLimits, output_len: float) -> BrokenLimit | None:
    return broken_limit(point.ttft_s, point.tpot_s, point.e2e_s(output_len), limits)


def highest_point(curve: tuple[LoadPoint, ...], limits: LatencyLimits, output_len: float) -> LoadPoint | None:
    """Return the point of the highest rate at which a replica keeps the limits; None if it never does.

    At most `SATURATION` of the rate of a full replica counts.
    """
    if broken_at(curve[0], limits, output_len) is not None:
        return None
    full = max(point.rate_per_s for point in curve) * SATURATION
    best = curve[0]
    for below, above in pairwise(curve):
        if above.rate_per_s <= full and broken_at(above, limits, output_len) is None:
            best = above if above.rate_per_s >= best.rate_per_s else best
            continue
        edge = _edge(below, above, limits, output_len=output_len, full=full)
        return edge if edge.rate_per_s > best.rate_per_s else best
    return best


def _edge(below: LoadPoint, above: LoadPoint, limits: LatencyLimits, *, output_len: float, full: float) -> LoadPoint:
    """Return the last point between two that keeps the limits and the rate."""
    low, high = 0.0, 1.0
    for _ in range(30):
        share = (low + high) / 2
        point = between(below, above, share)
        breaks = point.rate_per_s > full or broken_at(point, limits, output_len) is not None
        low, high = (low, share) if breaks else (share, high)
    return between(below, above, low)


def fullest_point(curve: tuple[LoadPoint, ...], limits: LatencyLimits, output_len: float) -> LoadPoint | None:
    """Return the point of the most requests at a time with which a replica keeps the limits; None if it never does."""
    kept = None
    for below, above in pairwise((curve[0], *curve)):
        if broken_at(above, limits, output_len) is None:
            kept = above
        elif kept is not None:
            return _edge(below, above, limits, output_len=output_len, full=float("inf"))
        else:
            return None
    return kept
