"""What a question about serving states in words: its clients, its task, and of which requests its limits hold."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from capplan.core.workload import parse_batches
from capplan.errors import UsageError

MOST_CLIENTS = 65_536
"""Clients, and requests at once, that are answered for at most; they are stepped through."""


class ServingTask(StrEnum):
    """What a model is served for: answers token by token, one vector a text, or one score a document."""

    GENERATE = "generate"
    EMBED = "embed"
    RERANK = "rerank"


class Statistic(StrEnum):
    """What of the times of many requests a limit holds."""

    MEAN = "mean"
    P50 = "p50"
    P90 = "p90"
    P95 = "p95"
    P99 = "p99"


class Sampling(StrEnum):
    """How tokens are drawn: the most likely one, or one of the most likely (top-p, top-k), as most chat models ask."""

    GREEDY = "greedy"
    FILTERED = "filtered"


class Drafter(StrEnum):
    """What drafts: a layer beside the model, as EAGLE's, EAGLE-3's and multi-token prediction's, or words seen before.

    N-grams of the prompt and the answer are looked up on the host: they take no time, memory or energy of the GPU.
    """

    HEAD = "head"
    NGRAM = "ngram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """Speculative decoding: tokens drafted in a step, and the stated chance that each of them is accepted."""

    drafts: int
    acceptance: float
    drafter: Drafter = Drafter.HEAD

    @property
    def by_head(self) -> int:
        """Return the drafts of a step that a layer of the GPU computes."""
        return self.drafts if self.drafter is Drafter.HEAD else 0

    @property
    def tokens_per_step(self) -> float:
        """Return the mean tokens of a step: the sum of α^i over i from 0 to the drafts (Leviathan et al., 2023)."""
        return sum(self.acceptance**power for power in range(self.drafts + 1))


def acceptance_of(drafts: int, tokens_per_step: float) -> float | None:
    """Return the chance of each draft with which a step gives so many tokens in the mean; None where none does.

    The sum of α^i rises with α, so that it is found by halving.
    """
    if not 1.0 <= tokens_per_step <= drafts + 1.0:
        return None
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        less = Speculation(drafts=drafts, acceptance=middle).tokens_per_step < tokens_per_step
        low, high = (middle, high) if less else (low, middle)
    return (low + high) / 2.0


def read_clients(asked: str | Sequence[int], *, what: str = "⟨concurrency⟩") -> tuple[int, ...]:
    """Read numbers of clients, as `parse_batches` reads batches, in rising order."""
    try:
        clients = parse_batches(asked).sizes if isinstance(asked, str) else tuple(asked)
    except (UsageError, TypeError):  # TypeError: it is not a list, as a request may hold anything
        clients = ()
    if not clients or not all(type(count) is int and 1 <= count <= MOST_CLIENTS for count in clients):
        raise UsageError(f"{what} {str(asked)[:100]}: write 8, 1,8,32 or 1..256, each from 1 to {MOST_CLIENTS}.")
    return tuple(sorted(set(clients)))
