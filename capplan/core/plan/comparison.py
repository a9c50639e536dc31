"""Several models, number formats and ways to execute them side by side: a row for each, on each GPU and batch."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from capplan.core.gpus.machines import LocalAmount, LocalCurrency
from capplan.core.gpus.spec import GpuSpec
from capplan.core.plan.types import FIT_RANKS, Fit, Limits, ModelFacts, Rejection
from capplan.core.workload import Host, RowOrder, SortKey, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedModel:
    """One of the models compared, under a name of its own; counts are of its first recording."""

    label: str
    facts: ModelFacts
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow:
    """One model under one set of conditions on a GPU at a batch: a fit, or why there is none.

    `gain` is its throughput as a multiple of that of the first row of the same GPU and batch; None where either does
    not fit.
    """

    model: str
    workload: Workload
    gpu: GpuSpec
    batch: int | None
    fit: Fit | None = None
    rejection: Rejection | None = None
    failure: str | None = None
    gain: float | None = None

    @property
    def usd_per_million_samples(self) -> float | None:
        """Return what a million samples cost; None without a price or a fit. [USD]"""
        return self.fit.usd_per_million_samples if self.fit else None

    @property
    def reason(self) -> str | None:
        """Return the reason why nothing fits, or None."""
        if self.rejection is not None:
            return f"{self.rejection.constraint.value}: {self.rejection.reason}"
        return self.failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The answer: a row for each model, number format, framework, layout, GPU and batch asked for."""

    models: tuple[ComparedModel, ...]
    rows: tuple[ComparisonRow, ...]
    limits: Limits = field(default_factory=Limits)
    notes: tuple[str, ...] = ()
    local: LocalCurrency | None = None

    @property
    def workload(self) -> Workload:
        """Return the conditions that all rows share, beside what is compared."""
        return self.rows[0].workload

    @property
    def host(self) -> Host:
        """Return the host that launches kernels."""
        return self.workload.host or Host.SERVER

    @property
    def cheapest(self) -> ComparisonRow | None:
        """Return the row of the lowest cost of a sample; None where no price is known."""
        priced = [row for row in self.fitting if row.usd_per_million_samples is not None]
        return min(priced, key=lambda row: row.usd_per_million_samples or 0.0, default=None)

    @property
    def local_cost(self) -> LocalAmount | None:
        """Return what a million samples of the cheapest row cost in the local currency; None where not asked for."""
        best = self.cheapest
        if self.local is None or best is None or best.fit is None or best.usd_per_million_samples is None:
            return None
        return self.local.amount(best.usd_per_million_samples, country=best.fit.rent.country if best.fit.rent else None)

    @property
    def fitting(self) -> tuple[ComparisonRow, ...]:
        return tuple(row for row in self.rows if row.fit is not None)


def with_gains(rows: Sequence[ComparisonRow]) -> tuple[ComparisonRow, ...]:
    """Return the rows with their gains over the first row of the same GPU and batch, if that one fits.

    Where each row has a batch of its own, as the largest that fits, the first row of the same GPU is the measure.
    """
    on_gpu: dict[str, ComparisonRow] = {}
    at_batch: dict[tuple[str, int | None], ComparisonRow] = {}
    for row in rows:
        on_gpu.setdefault(row.gpu.id, row)
        at_batch.setdefault((row.gpu.id, row.batch), row)

    def gain(row: ComparisonRow) -> float | None:
        first, same_batch = on_gpu[row.gpu.id], at_batch[row.gpu.id, row.batch]
        if (same_batch.model, same_batch.workload) == (first.model, first.workload):
            first = same_batch
        if row.fit is None or first.fit is None:
            return None
        return row.fit.latency.throughput_per_s.expected / first.fit.latency.throughput_per_s.expected

    return tuple(replace(row, gain=gain(row)) for row in rows)


def in_order(rows: Sequence[ComparisonRow], order: RowOrder) -> tuple[ComparisonRow, ...]:
    """Order rows, best first; those without a fit, and by cost those without a price, stand last."""
    if order is RowOrder.ASKED:
        return tuple(rows)

    def rank(fit: Fit) -> float:
        return fit.memory.total_bytes.expected if order is RowOrder.MEMORY else FIT_RANKS[SortKey(order.value)](fit)

    return tuple(sorted(rows, key=lambda row: float("inf") if row.fit is None else rank(row.fit)))
