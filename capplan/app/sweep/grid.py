"""Rows of a sweep: a trace on every GPU at every batch, with the same judgements as a plan, as columns of numbers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from capplan.app.sweep.schema import PLANNED_COLUMNS, RowStatus
from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.advice import knee_batch
from capplan.core.latency.device import Unsupported
from capplan.core.latency.types import LatencyEstimate
from capplan.core.memory.fit import LargestBatch, available_memory, judge_fit, memory_shortage, usable_memory
from capplan.core.memory.types import FitStatus, MemoryEstimate
from capplan.core.plan.planner import CURVE_BATCHES, Prepared, refusal_of_size
from capplan.core.plan.recommend import latencies_under_cap
from capplan.core.plan.types import Constraint, Fit, ModelFacts, Plan
from capplan.core.power import PowerLaw, step_energy
from capplan.core.sweep.definition import AnyConditions, Conditions, Value
from capplan.core.workload import BatchChoice
from capplan.shapes.plan import FIT, PEAKS
from capplan.shapes.shape import FlatColumn

Columns = dict[str, list[Value]]
"""Values by column, all of the same length."""


@dataclass(slots=True, kw_only=True)
class GridPlanner:
    """Plans one model under one set of conditions on GPUs, and keeps what they share."""

    prepared: Prepared
    conditions: Conditions
    power_law: PowerLaw | None = None
    _added: dict[tuple[object, ...], Mapping[str, Value]] = field(default_factory=dict)
    _largest: dict[tuple[object, ...], LargestBatch] = field(default_factory=dict)
    _judged: dict[tuple[object, ...], tuple[MemoryEstimate, FitStatus, Mapping[str, Value]]] = field(
        default_factory=dict
    )

    def columns(self, gpus: Sequence[GpuSpec]) -> Columns:
        """Return a row for each GPU and batch, in the order of `gpus`."""
        return _columns({**self.conditions.asked(), **_fact_values(self.prepared.facts)}, self._rows(gpus))

    def _rows(self, gpus: Sequence[GpuSpec]) -> Iterator[Mapping[str, Value]]:
        batches, exact = self.conditions.batches, self.prepared.exact_batch
        largest = [self._largest_batch(gpu) for gpu in gpus]
        curve = [exact] if exact else list(CURVE_BATCHES)
        maxima = {batch.planned for batch in largest} if batches.choice is BatchChoice.MAX else set()
        sizes = sorted({*curve, *batches.sizes, *maxima})
        law = replace(self.power_law, cap_w=self.conditions.power_limit_w) if self.power_law else None
        work = self.prepared.peak_seconds
        grid = latencies_under_cap(self.prepared.latencies, work, gpus, sizes, law)
        for gpu, most, row in zip(gpus, largest, grid, strict=True):
            if isinstance(row, Unsupported):
                for size in self.conditions.sizes:
                    yield _unsupported_row(gpu, size, row.reason)
                continue
            at = dict(zip(sizes, row, strict=True))
            held = [at[size] for size in curve if size <= most.planned]
            recommended = knee_batch(held) if held else None
            for size in batches.on_gpu(largest=most.planned, recommended=recommended):
                yield self._row(gpu, at[size], most.expected, recommended, law)

    def _largest_batch(self, gpu: GpuSpec) -> LargestBatch:
        share = self.conditions.utilization_fraction
        key = gpu.is_cpu, gpu.compute_capability, usable_memory(gpu)
        if key not in self._largest:
            self._largest[key] = self.prepared.largest(gpu, utilization_fraction=share)
        return self._largest[key]

    def _row(
        self, gpu: GpuSpec, latency: LatencyEstimate, max_batch: int, recommended: int | None, law: PowerLaw | None
    ) -> Mapping[str, Value]:
        batch = latency.batch
        memory, status, held = self._memory_row(gpu, batch, max_batch)
        refused = self.prepared.refused_above
        if held["fits"] and refused is not None and batch > refused:
            return _unsupported_row(gpu, batch, refusal_of_size(refused))
        head: dict[str, Value] = {
            "gpu": gpu.id,
            "batch": batch,
            "max_batch": max_batch,
            "recommended_batch": recommended,
        }
        if not held["fits"]:
            return {**head, **held}
        energy = None
        if law is not None and (work := self.prepared.peak_seconds(gpu, [batch])[0]) is not None:
            novelties = self.prepared.power_novelties
            energy = step_energy(gpu, work, latency.latency_s, law, samples=latency.samples, novelties=novelties)
        fit = Fit(
            gpu=gpu, batch=batch, status=status, memory=memory, latency=latency, max_batch=max_batch, certain_batch=0,
            recommended_batch=recommended, host_copy_s=None, energy=energy,
        )  # fmt: skip
        return {**head, **held, **_values(_SPEED, fit)}

    def _memory_row(
        self, gpu: GpuSpec, batch: int, max_batch: int
    ) -> tuple[MemoryEstimate, FitStatus, Mapping[str, Value]]:
        """Return the columns about memory; GPUs of one compute capability and one usable memory share them."""
        usable = usable_memory(gpu)
        key = gpu.is_cpu, gpu.compute_capability, usable, batch
        if key not in self._judged:
            available = available_memory(gpu, utilization_fraction=self.conditions.utilization_fraction)
            memory = self.prepared.memory_at(batch, gpu, available_bytes=available.expected)
            status = judge_fit(memory, available_bytes=available, max_batch=max_batch)
            fits = status is not FitStatus.DOES_NOT_FIT
            self._judged[key] = (
                memory,
                status,
                {
                    "status": status.value,
                    "fits": fits,
                    "usable_bytes": round(usable.expected),
                    "reason": None if fits else memory_shortage(memory, available.expected),
                    **self._memory_values(memory),
                },
            )
        return self._judged[key]

    def _memory_values(self, memory: MemoryEstimate) -> Mapping[str, Value]:
        """Return the columns of an estimate, added up once for all GPUs whose peaks and context are the same."""
        key = (
            id(memory.parts),
            id(memory.fragmentation),
            memory.context.size_bytes,
        )  # the memory model keeps the parts alive
        if key not in self._added:
            self._added[key] = _values(_PEAKS, memory)
        return self._added[key]


def _values(columns: Sequence[FlatColumn], value: Fit | MemoryEstimate) -> dict[str, Value]:
    return {column.name: column.value(value, None) for column in columns}


_PLANNED = {column.name for column in PLANNED_COLUMNS} - {"model", "fits"}
_FIT = tuple(column for column in FIT.flat_columns if column.name in _PLANNED)
"""The columns of a fit."""
_PEAKS = tuple(column for column in PEAKS.flat_columns if column.name in _PLANNED)
"""The columns of a memory estimate."""
_HELD = {"gpu", "batch", "status", "reason", "usable_bytes", "max_batch", "recommended_batch", "offload"}
_SPEED = tuple(column for column in _FIT if column.name not in _HELD | {peak.name for peak in _PEAKS})
"""The columns of a fit that follow from its speed and power."""


def plan_columns(plan: Plan, conditions: Conditions) -> Columns:
    """Return the rows of a plan that was made at once, in the order of GPUs and batches."""
    rows: list[dict[str, Value]] = [
        {**{column.name: column.value(fit, plan) for column in _FIT}, "fits": True} for fit in plan.fits
    ]
    for refused in plan.rejections:
        if refused.constraint is not Constraint.MEMORY or refused.needed is None:
            rows.append(dict(_unsupported_row(refused.gpu, refused.batch, refused.reason)))
            continue
        rows.append(
            {
                "gpu": refused.gpu.id,
                "batch": refused.batch,
                "status": FitStatus.DOES_NOT_FIT.value,
                "fits": False,
                "reason": refused.reason,
                "usable_bytes": round(usable_memory(refused.gpu).expected),
                "max_batch": refused.max_batch,
                "total_bytes": round(refused.needed),
            }
        )
    rows.sort(key=lambda row: (str(row["gpu"]), row["batch"] or 0))
    gpus: dict[str, Value] = {"gpus": plan.pipeline.gpu_count} if plan.pipeline else {}
    return _columns({**conditions.asked(), **gpus, **_fact_values(plan.model)}, rows)


def failed_columns(conditions: AnyConditions, gpus: Sequence[GpuSpec], *, failure: str, reason: str) -> Columns:
    """Return the rows of a model without an answer: one for each GPU and batch asked for, each with the reason."""
    same = {**conditions.asked(), "status": RowStatus.FAILED.value, "failure": failure, "reason": reason}
    return _columns(same, ({"gpu": gpu.id, "batch": batch} for gpu in gpus for batch in conditions.sizes))


def _columns(shared: Mapping[str, Value], rows: Iterable[Mapping[str, Value]]) -> Columns:
    """Lay rows out by column; what a row does not state itself is that of all."""
    columns: Columns = {column.name: [] for column in PLANNED_COLUMNS}
    for row in rows:
        for name, values in columns.items():
            values.append(row[name] if name in row else shared.get(name))
    return columns


def _fact_values(facts: ModelFacts) -> dict[str, Value]:
    return {
        "model_name": facts.name,
        "parameters": facts.parameter_count,
        "macs_per_sample": facts.macs_per_sample,
        "flops_per_sample": facts.flops_per_sample,
    }


def _unsupported_row(gpu: GpuSpec, batch: int | None, reason: str) -> Mapping[str, Value]:
    status = RowStatus.UNSUPPORTED.value
    return {"gpu": gpu.id, "batch": batch, "status": status, "fits": False, "reason": reason}
