"""What a sweep would take before it runs, and its progress and failures, as values."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from capplan.core.origin import Origin


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
    """Group failures by kind and reason, the largest group first."""
    groups: dict[tuple[str, str], list[tuple[str, Failed]]] = {}
    for model, failed in failures:
        first = failed.reason.replace(model, "…").partition("; ")[0]
        groups.setdefault((failed.kind, " ".join(_OWN_PARTS.sub("…", first).split())), []).append((model, failed))
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RateRange:
    """The lowest and the highest of several measurements of a rate, or what follows from them."""

    low: float
    high: float

    def __add__(self, other: "RateRange") -> "RateRange":
        return RateRange(low=self.low + other.low, high=self.high + other.high)

    def times(self, count: int) -> "RateRange":
        """Return what a number of like things takes."""
        return RateRange(low=self.low * count, high=self.high * count)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRates:
    """What the parts of a sweep take, fitted to sweeps that were timed: `calibrations/sweeps.yaml`.

    Times are of the processor, over all cores [s]: of starting, of tracing a model in one configuration, of opening a
    model for a workload whatever the number of cells, of one more GPU and batch of it, and of one cell of a served
    language model. `low_factor` and `high_factor` are the range of measured over predicted time of sweeps that were
    left out of the fit: models differ in how many kernels they have. Space is that of a row, of a file beside its rows,
    of the folder's state and of a trace in the cache. [bytes]
    """

    start_s: float
    trace_s: float
    pair_s: float
    planned_cell_s: float
    served_cell_s: float
    low_factor: float
    high_factor: float
    row_bytes: RateRange
    file_bytes: float
    state_bytes: float
    trace_bytes: float
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPreview:
    """Counts of what a sweep asks for and of what is left to compute, and an estimate of what that takes.

    `batches` are those of all workloads together. `cells` are rows of the whole table, in `files`; the folder holds
    `kept_cells` of them. Those `to_plan` and `to_serve` are left; `pairs` are models and workloads to plan.
    `models_to_trace` of them need `traces`, one a configuration, of which `kept_traces` are in the cache; of
    `traced_models` all are. `unknown` are the reasons why names stand for no model; their rows will be failures.
    """

    folder: str
    models: int
    gpus: int
    workloads: int
    batches: int
    cells: int
    kept_cells: int
    files: int
    pairs: int
    to_plan: int
    to_serve: int
    traced_models: int
    models_to_trace: int
    traces: int
    kept_traces: int
    rates: SweepRates
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def missing_traces(self) -> int:
        """Traces that would be made."""
        return self.traces - self.kept_traces

    @property
    def cpu_s(self) -> RateRange:
        """Processor time of what is left, over all cores. [s]"""
        rates = self.rates
        expected_s = (
            rates.start_s
            + rates.trace_s * self.missing_traces
            + rates.pair_s * self.pairs
            + rates.planned_cell_s * self.to_plan
            + rates.served_cell_s * self.to_serve
        )
        return RateRange(low=rates.low_factor * expected_s, high=rates.high_factor * expected_s)

    @property
    def result_bytes(self) -> RateRange:
        """Space of the whole results folder. [bytes]"""
        fixed = self.rates.file_bytes * self.files + self.rates.state_bytes
        return self.rates.row_bytes.times(self.cells) + RateRange(low=fixed, high=fixed)

    @property
    def trace_bytes(self) -> RateRange:
        """Space of the traces that would be added to the cache. [bytes]"""
        size = self.rates.trace_bytes * self.missing_traces
        return RateRange(low=size, high=size)
