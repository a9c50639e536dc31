"""Progress and failures of a sweep, as values."""

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Why a model has no answer: a `FailureKind`, and a sentence."""

    kind: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far a sweep is. `kept` models needed nothing new; rates count what this run computed. [s, 1/s]"""

    models: int
    finished: int
    kept: int
    failed: int
    rows: int
    elapsed_s: float

    @property
    def rows_per_s(self) -> float | None:
        """Rows computed per second; None before the first. [1/s]"""
        return self.rows / self.elapsed_s if self.rows and self.elapsed_s > 0 else None

    @property
    def remaining_s(self) -> float | None:
        """Time left if the models to come take as long as those so far; None before the first. [s]"""
        done, left = self.finished - self.kept, self.models - self.finished
        return self.elapsed_s / done * left if done else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """Failures of one kind with like reasons: how many models and workloads, and some of them."""

    kind: str
    reason: str
    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOverview:
    """What a sweep did: counts, the rows of the whole dataset, and failures grouped.

    `answered` counts the pairs of model and workload that have an answer, `measured` the rows that were timed on a
    device. `notes` are what the reader must know.
    """

    folder: str
    standing: Standing
    gpus: int
    workloads: int
    rows: int
    files: int
    answered: int
    failures: tuple[FailureGroup, ...]
    measured: int = 0
    notes: tuple[str, ...] = ()

    @property
    def failed(self) -> int:
        """Pairs of model and workload without an answer."""
        return sum(group.count for group in self.failures)


_EXAMPLES = 3
_OWN_PARTS = re.compile(r"`[^`]*`|\([^()]*\)|'[^']*'|\"[^\"]*\"|\S*[\d_]\S*")
"""What differs between like reasons: quotations, remarks in parentheses, and words with digits or underscores."""


def group_failures(failures: Iterable[tuple[str, Failed]]) -> tuple[FailureGroup, ...]:
    """Group failures by kind and reason, the largest group first.

    Args:
        failures: models with why they failed. Names and numbers do not tell groups apart; a group of one has its
            reason in full.
    """
    groups: dict[tuple[str, str], list[tuple[str, Failed]]] = {}
    for model, failed in failures:
        groups.setdefault((failed.kind, _outline(model, failed.reason)), []).append((model, failed))
    made = [
        FailureGroup(
            kind=kind,
            reason=members[0][1].reason if len(members) == 1 else outline,
            count=len(members),
            examples=tuple(dict.fromkeys(model for model, _ in members))[:_EXAMPLES],
        )
        for (kind, outline), members in groups.items()
    ]
    return tuple(sorted(made, key=lambda group: (-group.count, group.kind, group.reason)))


def _outline(model: str, reason: str) -> str:
    """Return a reason's first clause without what is the model's own."""
    first = reason.replace(model, "…").partition("; ")[0]
    return " ".join(_OWN_PARTS.sub("…", first).split())
