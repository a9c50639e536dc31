"""What all replicas of a language model together are asked."""

from dataclasses import dataclass

from capplan.core.llm.serving.service import Demand, Speculation
from capplan.core.llm.simulation.arrivals import Lengths


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLoad:
    """Requests per second, or clients that wait for their answers, with mean lengths. [1/s, tokens]

    Attributes:
        rate_per_s: Requests per second to all replicas; None for a closed loop.
        concurrency: Clients of all replicas, each of which sends its next request when it has its answer; None for
            an open load.
        spread: Relative half-width of the lengths, drawn evenly.
        input_cv, output_cv: Coefficients of variation of log-normal lengths instead; 0 for none.
        gap_scv: Squared variation of the gaps between arrivals: 1 is Poisson, more is burstier.
        prefix_fraction: Share of a prompt that is found in the prefix cache.
        speculation: What is drafted; None for nothing.
    """

    input_len: float
    output_len: float
    rate_per_s: float | None = None
    concurrency: float | None = None
    spread: float = 0.0
    input_cv: float = 0.0
    output_cv: float = 0.0
    gap_scv: float = 1.0
    prefix_fraction: float = 0.0
    speculation: Speculation | None = None

    @property
    def lengths(self) -> Lengths:
        """Return how the lengths of requests are distributed."""
        return Lengths(
            input_len=self.input_len,
            output_len=self.output_len,
            spread=self.spread,
            input_cv=self.input_cv,
            output_cv=self.output_cv,
            prefix_fraction=self.prefix_fraction,
        )

    @property
    def cached_len(self) -> float:
        """Return the tokens of a sequence that memory holds once for all: its own without the shared prefix."""
        return self.input_len * (1.0 - self.prefix_fraction) + self.output_len

    def demand(self, capacity: float) -> Demand:
        """Return what one replica is asked, apart from the rate.

        Args:
            capacity: Sequences that fit in the replica's memory.
        """
        return Demand(
            input_len=self.input_len,
            output_len=self.output_len,
            capacity=capacity,
            spread=self.spread,
            prefix_fraction=self.prefix_fraction,
            speculation=self.speculation,
        )
