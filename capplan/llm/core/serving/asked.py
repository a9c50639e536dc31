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


class DrafterKind(StrEnum):
    """What drafts: a layer like the model's, as EAGLE's and multi-token prediction's, an EAGLE-3 head, words seen
    before, or a model or head that is named.

    N-grams of the prompt and the answer are looked up on the host: they take no time, memory or energy of the GPU.
    """

    HEAD = "head"
    EAGLE3 = "eagle3"
    NGRAM = "ngram"
    MODEL = "model"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafter:
    """What drafts; `model` names it where it is a model or head with a name of its own."""

    kind: DrafterKind = DrafterKind.HEAD
    model: str = ""

    @classmethod
    def named(cls, words: str) -> "Drafter":
        """Return what words name: a kind, else a model."""
        kinds = {kind.value: kind for kind in DrafterKind if kind is not DrafterKind.MODEL}
        return cls(kind=kinds[words]) if words in kinds else cls(kind=DrafterKind.MODEL, model=words)

    @property
    def on_gpu(self) -> bool:
        """Return True if drafts take time, memory and energy of the GPU."""
        return self.kind is not DrafterKind.NGRAM


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """Speculative decoding: tokens drafted in a step, and the stated chance that each of them is accepted."""

    drafts: int
    acceptance: float
    drafter: Drafter = Drafter()

    @property
    def on_gpu(self) -> int:
        """Return the drafts of a step that the GPU computes."""
        return self.drafts if self.drafter.on_gpu else 0

    @property
    def tokens_per_step(self) -> float:
        """Return the mean tokens of a step: the sum of α^i over i from 0 to the drafts (Leviathan et al., 2023)."""
        return sum(self.acceptance**power for power in range(self.drafts + 1))


def drafting_words(drafter: Drafter) -> str:
    """Return what drafts take, in a sentence without its stop."""
    match drafter.kind:
        case DrafterKind.NGRAM:
            return "Drafts come from n-grams seen before, which take no time or memory of the GPU"
        case DrafterKind.HEAD:
            return (
                "Drafts take the time, memory and energy of one more layer of the model and of its output head, as "
                "heads of EAGLE and of multi-token prediction do; ⟨drafter⟩ names a model that drafts"
            )
        case DrafterKind.EAGLE3:
            return (
                "Drafts take the time, memory and energy of an EAGLE-3 head: one layer of the model's widths in 16 "
                "bits, and 32,000 tokens to choose among"
            )
        case DrafterKind.MODEL:
            return f"Drafts take passes of {drafter.model} on the same GPUs, its weights and its own cache"


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
