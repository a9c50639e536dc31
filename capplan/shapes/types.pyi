"""Types of documents. Made by `python -m capplan.shapes.stub` from the shapes; do not edit."""

from capplan.core.gpus.machines import LocalAmount
from capplan.core.latency.types import Binding, Evidence
from capplan.core.memory.advice import MemoryAdvice
from capplan.core.memory.types import FitStatus, MemoryPart
from capplan.core.numbers import Bounded, Interval
from capplan.core.plan.types import Constraint, JobSize, Limits
from capplan.core.workload import Framework, Layout, Mode, ModelSharding, Optimizer, Precision
import datetime
from msgspec import Struct, UnsetType
from typing import Literal

class TrainingDocument(Struct, frozen=True, kw_only=True):
    optimizer: Optimizer
    checkpointing: bool
    accumulate: int

class WorkloadDocument(Struct, frozen=True, kw_only=True):
    precision: Precision
    mode: Mode
    framework: Framework
    layout: Layout
    torch: str
    training: TrainingDocument | None = ...
    host: str | None = ...

class PlannedModel(Struct, frozen=True, kw_only=True):
    name: str
    class_: str
    params: int
    buffers: int
    macs_per_sample: int
    flops_per_sample: int
    weight_bytes: int
    activation_peak_bytes: int
    traffic_fixed_bytes: int
    traffic_bytes_per_sample: int
    input_bytes_per_sample: int
    input: str = ...
    input_source: str = ...
    dtype: str | None = ...
    uncounted: tuple[str, ...]

class PlannedMemory(Struct, frozen=True, kw_only=True):
    peak_allocated_bytes: Interval
    peak_reserved_bytes: Interval
    total_bytes: Interval
    usable_bytes: float | None
    usable_is_reported: bool = ...
    parts: dict[str, Interval]

class RentDocument(Struct, frozen=True, kw_only=True):
    usd_per_hour: float
    provider: str
    region: str
    date: datetime.date
    instance: str | None = ...
    machine_gpus: int = ...
    machines: int = ...
    usd_per_hour_of_machines: float | None = ...
    local: LocalAmount | None = ...

class PlannedPart(Struct, frozen=True, kw_only=True):
    name: str
    times: float
    compute_s: float
    moving_s: float
    peak_bytes: float
    start_s: float = ...
    on: str = ...
    offload: str = ...

class PipelinePart(Struct, frozen=True, kw_only=True):
    name: str
    class_: str
    params: int
    weight_bytes: int
    times: float
    flops_per_item: float

class PlannedPipeline(Struct, frozen=True, kw_only=True):
    item: str
    parameters: dict[str, float]
    parts: tuple[PipelinePart, ...]
    item_seconds: float | None = ...
    gpu_count: int = ...
    sharing: str = ...

class PlannedFit(Struct, frozen=True, kw_only=True):
    gpu: str
    gpu_name: str
    batch: int
    status: FitStatus
    memory: PlannedMemory
    max_batch: int = ...
    certain_batch: int = ...
    scales: bool = ...
    recommended_batch: int | None = ...
    latency_s: Bounded
    interval_s: Interval | None = ...
    throughput_per_s: Bounded
    bound_by: Binding
    share_by_binding: dict[Binding, float] = ...
    host_copy_s: float | None = ...
    rent: RentDocument | None = ...
    usd_per_million_samples: float | None = ...
    gpu_hours: Interval | None = ...
    gpus_for_rate: int | None = ...
    batching_gain: float | None = ...
    calibration: str | None
    evidence: Evidence = ...
    evidence_reason: str = ...
    parts: tuple[PlannedPart, ...] = ...
    offload: str = ...
    power_w: Interval | UnsetType = ...
    joules_per_sample: Interval | UnsetType = ...
    power_evidence: str | UnsetType = ...
    notes: tuple[str, ...]

class PlannedRejection(Struct, frozen=True, kw_only=True):
    gpu: str
    gpu_name: str
    batch: int
    constraint: Constraint
    reason: str
    needed: float | None = ...
    available: float | None = ...
    max_batch: int = ...
    certain_batch: int = ...
    min_gpus: int | None = ...

class PlannedRecommendation(Struct, frozen=True, kw_only=True):
    gpu: str
    batch: int
    reason: str
    warning: str | None
    licence: str | None = ...
    porting: str | None = ...
    cheaper: str | None = ...

class PlannedChange(Struct, frozen=True, kw_only=True):
    name: str
    option: str
    gpu: str
    batch: int
    latency_s: Interval
    total_bytes: Interval
    speedup: float

class PlannedRecommendations(Struct, frozen=True, kw_only=True):
    cheapest: PlannedRecommendation | UnsetType = ...
    fastest_priced: PlannedRecommendation | UnsetType = ...
    smallest: PlannedRecommendation | UnsetType = ...

class PlanProvenance(Struct, frozen=True, kw_only=True):
    target: str
    versions: dict[str, str]
    calibration: str | None

class PlanDocument(Struct, frozen=True, kw_only=True):
    schema_version: Literal[1]
    capplan_version: str
    model: PlannedModel
    workload: WorkloadDocument
    limits: Limits
    job: JobSize | None = ...
    recommended: PlannedRecommendations = ...
    shortlist: tuple[str, ...] = ...
    changes: tuple[PlannedChange, ...] = ...
    pipeline: PlannedPipeline | None = ...
    fits: tuple[PlannedFit, ...]
    rejections: tuple[PlannedRejection, ...]
    assumptions: tuple[str, ...]
    cautions: tuple[str, ...] = ...
    notes: tuple[str, ...]
    provenance: PlanProvenance

class ComparedModelDocument(Struct, frozen=True, kw_only=True):
    name: str
    target: str
    class_: str
    params: int
    macs_per_sample: int
    flops_per_sample: int
    weight_bytes: int
    uncounted: tuple[str, ...]

class ComparisonConditions(Struct, frozen=True, kw_only=True):
    mode: Mode
    torch: str
    host: str
    utilization_fraction: float
    max_latency_s: float | None
    min_throughput_per_s: float | None

class ComparedMemory(Struct, frozen=True, kw_only=True):
    peak_allocated_bytes: Interval
    peak_reserved_bytes: Interval
    total_bytes: Interval

class ComparisonRowDocument(Struct, frozen=True, kw_only=True):
    model: str
    precision: Precision
    framework: Framework
    layout: Layout
    gpu: str
    batch: int | None
    status: Literal['fits', 'borderline', 'does not fit', 'failed']
    reason: str | None
    latency_s: Bounded | None
    throughput_per_s: Interval | None
    gain: float | None
    bound_by: Binding | None
    memory: ComparedMemory | None
    max_batch: int | None
    usd_per_hour: float | None
    usd_per_million_samples: float | None
    evidence: Evidence | None
    evidence_reason: str | None
    power_w: Interval | UnsetType = ...
    joules_per_sample: Interval | UnsetType = ...
    power_evidence: str | UnsetType = ...

class ComparisonDocument(Struct, frozen=True, kw_only=True):
    schema_version: Literal[1]
    capplan_version: str
    models: tuple[ComparedModelDocument, ...]
    conditions: ComparisonConditions
    rows: tuple[ComparisonRowDocument, ...]
    notes: tuple[str, ...]
    local: LocalAmount | None = ...

class LargeTensor(Struct, frozen=True, kw_only=True):
    label: str
    shape: tuple[int, ...]
    dtype: str | None
    size_bytes: int

class PeakTerm(Struct, frozen=True, kw_only=True):
    constant_bytes: int
    per_sample_bytes: int

class GpuMemoryDocument(Struct, frozen=True, kw_only=True):
    gpu: str
    status: FitStatus
    available_bytes: float
    max_batch: int
    certain_batch: int = ...
    min_gpus: int | None
    peak_allocated_bytes: Interval
    peak_reserved_bytes: Interval
    total_bytes: Interval
    parts: tuple[MemoryPart, ...]
    peak_op: str
    peak_module: str
    advice: tuple[MemoryAdvice, ...]
    notes: tuple[str, ...]

class RankMemoryDocument(Struct, frozen=True, kw_only=True):
    sharding: ModelSharding
    gpus: int
    batch_per_gpu: int
    total_bytes: Interval
    parts: tuple[MemoryPart, ...]

class RuleOfThumbDocument(Struct, frozen=True, kw_only=True):
    input_bytes: int
    output_bytes: int
    parameter_bytes: int
    filled_fraction: float
    total_bytes: float
    chosen: tuple[str, ...]

class MemoryDocument(Struct, frozen=True, kw_only=True):
    schema_version: Literal[1]
    capplan_version: str
    model: str
    target: str
    workload: WorkloadDocument
    batch: int
    peak_allocated_bytes: Interval
    peak_reserved_bytes: Interval
    total_bytes: Interval
    parts: tuple[MemoryPart, ...]
    peak_op: str
    peak_module: str
    largest_tensors: tuple[LargeTensor, ...]
    live_peak_terms: tuple[PeakTerm, ...]
    max_batch: dict[str, int]
    gpus: tuple[GpuMemoryDocument, ...]
    ranks: tuple[RankMemoryDocument, ...]
    advice: tuple[MemoryAdvice, ...]
    inference_mode_saves_bytes: float | None
    index_limit_batch: int | None
    rule_of_thumb: RuleOfThumbDocument
    notes: tuple[str, ...]
