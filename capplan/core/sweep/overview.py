"""How far a sweep is, what failed in it and why: values for whoever shows them."""

from collections import Counter
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

    `answered` counts the pairs of model and workload that have an answer. `notes` are what the reader must know.
    """

    folder: str
    standing: Standing
    gpus: int
    workloads: int
    rows: int
    files: int
    answered: int
    failures: tuple[FailureGroup, ...]
    notes: tuple[str, ...] = ()

    @property
    def failed(self) -> int:
        """Pairs of model and workload without an answer."""
        return sum(group.count for group in self.failures)


_EXAMPLES = 3


def group_failures(failures: Iterable[tuple[str, Failed]]) -> tuple[FailureGroup, ...]:
    """Group failures by kind and reason, the largest group first.

    Args:
        failures: models with why they failed; the model's own words in a reason do not tell groups apart.
    """
    counts: Counter[tuple[str, str]] = Counter()
    examples: dict[tuple[str, str], list[str]] = {}
    for model, failed in failures:
        key = failed.kind, failed.reason.replace(model, "MODEL")
        counts[key] += 1
        known = examples.setdefault(key, [])
        if model not in known and len(known) < _EXAMPLES:
            known.append(model)
    return tuple(
        FailureGroup(kind=kind, reason=reason, count=count, examples=tuple(examples[kind, reason]))
        for (kind, reason), count in counts.most_common()
    )
