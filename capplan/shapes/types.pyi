"""Types of documents. Made by `python -m capplan.shapes.stub` from the shapes; do not edit."""

from capplan.core.economics.cost import CostBreakdown
from capplan.core.economics.packing import ShareRow
from capplan.core.engine_names import Engine
from capplan.core.gpus.machines import LocalAmount
from capplan.core.gpus.prices import DateKind, PriceKind, PriceTier, Term
from capplan.core.gpus.spec import Segment, Status
from capplan.core.latency.advice import SpeedAdvice
from capplan.core.latency.types import Binding, Evidence
from capplan.core.measurement.acceptance import AcceptanceVerdict, FindingMark
from capplan.core.measurement.compare import RunVerdict
from capplan.core.measurement.statistics import ConfidenceInterval
from capplan.core.memory.advice import MemoryAdvice
from capplan.core.memory.types import FitStatus, MemoryPart
from capplan.core.numbers import Bounded, Interval
from capplan.core.pipelines.measured import PipelineMetric
from capplan.core.plan.types import Constraint, JobSize, Limits
from capplan.core.sweep.overview import FailureGroup, RateRange
from capplan.core.workload import Framework, Layout, Mode, ModelSharding, Optimizer, Precision
from capplan.llm.core.fleet.deployment_plan import Obstacle, ReplicaMemory
from capplan.llm.core.fleet.launch import LaunchOption
from capplan.llm.core.fleet.money import ApiComparison, FleetYear
from capplan.llm.core.fleet.token_load import TokenLoad
from capplan.llm.core.measured import Accuracy, SkippedRun
from capplan.llm.core.simulation.load_answer import LatencyLimits, Percentiles
from capplan.shapes.saved import CheckedLimit
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

class ServingWayDocument(Struct, frozen=True, kw_only=True):
    way: str
    usd_per_month: Interval | None
    inside_fraction: float | None
    keeps: bool | None
    words: str
    source: str

class WayCrossingDocument(Struct, frozen=True, kw_only=True):
    requests_per_day: float
    below: str
    above: str

class WayCurveDocument(Struct, frozen=True, kw_only=True):
    way: str
    points: tuple[tuple[float, float], ...]

class ServingWaysDocument(Struct, frozen=True, kw_only=True):
    requests_per_day: float
    peak_per_s: float
    share: float
    start_s: Interval
    costs: tuple[ServingWayDocument, ...]
    crossings: tuple[WayCrossingDocument, ...]
    curves: tuple[WayCurveDocument, ...]
    notes: tuple[str, ...]

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

class MemoryPeaks(Struct, frozen=True, kw_only=True):
    peak_allocated_bytes: Interval
    peak_reserved_bytes: Interval
    total_bytes: Interval

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
    offer_cautions: tuple[str, ...] = ...
    shortlist: tuple[str, ...] = ...
    changes: tuple[PlannedChange, ...] = ...
    pipeline: PlannedPipeline | None = ...
    fits: tuple[PlannedFit, ...]
    rejections: tuple[PlannedRejection, ...]
    assumptions: tuple[str, ...]
    cautions: tuple[str, ...] = ...
    notes: tuple[str, ...]
    provenance: PlanProvenance
    ways: ServingWaysDocument | UnsetType = ...

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

class ShareDocument(Struct, frozen=True, kw_only=True):
    name: str
    calls: int
    macs: int
    flops: int
    params: int
    bytes: int

class OperatorShareDocument(Struct, frozen=True, kw_only=True):
    operator: str
    name: str
    calls: int
    macs: int
    flops: int
    params: int
    bytes: int

class OwnParameter(Struct, frozen=True, kw_only=True):
    name: str
    shape: tuple[int, ...]

class TreeNode(Struct, frozen=True, kw_only=True):
    path: str
    depth: int
    calls: int
    macs: int
    flops: int
    params: int
    activations: int
    bytes: int
    flops_fraction: float | None
    params_fraction: float | None
    own_params: tuple[OwnParameter, ...]

class DtypeDocument(Struct, frozen=True, kw_only=True):
    dtype: str
    tensors: int
    params: int
    bytes: int
    bytes_as: dict[str, int]

class AssumedValueDocument(Struct, frozen=True, kw_only=True):
    what: str
    count: int
    share: float | None = ...
    lines: tuple[str, ...] = ...

class CountDifference(Struct, frozen=True, kw_only=True):
    amount: int
    cause: str

class NamedCount(Struct, frozen=True, kw_only=True):
    name: str
    macs: int

class CounterDocument(Struct, frozen=True, kw_only=True):
    counter: str
    version: str
    macs: int | None
    params: int | None
    macs_differences: tuple[CountDifference, ...]
    params_differences: tuple[CountDifference, ...]
    by_operator: tuple[NamedCount, ...]
    by_module: tuple[NamedCount, ...]
    skipped: dict[str, int]
    failure: str | None

class AnalysisDocument(Struct, frozen=True, kw_only=True):
    schema_version: Literal[2]
    capplan_version: str
    name: str
    class_: str
    recording: str
    batch: int
    params: int
    trainable_params: int
    frozen_params: int
    buffers: int
    params_bytes_by_dtype: dict[str, int]
    params_by_dtype: tuple[DtypeDocument, ...]
    macs: int
    flops: int
    bytes: int
    by_operator: tuple[ShareDocument, ...]
    by_module: tuple[ShareDocument, ...]
    by_module_and_operator: tuple[OperatorShareDocument, ...]
    tree: tuple[TreeNode, ...]
    uncounted: tuple[str, ...]
    counted_bytes_fraction: float
    backend: str
    assumed_values: tuple[AssumedValueDocument, ...]
    notes: tuple[str, ...]
    versions: dict[str, str]
    comparison: tuple[CounterDocument, ...] | UnsetType = ...

class GpuDocument(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    vendor: str
    architecture: str
    compute_capability: str | UnsetType = ...
    form_factor: str | UnsetType = ...
    segment: Segment | UnsetType = ...
    status: Status | UnsetType = ...
    release_date: datetime.date | UnsetType = ...
    sold_since: datetime.date | UnsetType = ...
    end_of_sale: datetime.date | UnsetType = ...
    expected: str | UnsetType = ...
    memory_bytes: float
    usable_bytes: float | UnsetType = ...
    driver_total_bytes: float | UnsetType = ...
    memory_type: str | UnsetType = ...
    memory_bus_bits: float | UnsetType = ...
    memory_bits_per_s_per_pin: float | UnsetType = ...
    memory_bandwidth_bytes_per_s: float
    ecc: str | UnsetType = ...
    l2_bytes: float | UnsetType = ...
    unit_count: float | UnsetType = ...
    boost_clock_hz: float | UnsetType = ...
    tensor_clock_hz: float | UnsetType = ...
    peak_fp64_flops_per_s: float | None | UnsetType = ...
    peak_fp64_tensor_flops_per_s: float | None | UnsetType = ...
    peak_fp32_flops_per_s: float | None | UnsetType = ...
    peak_fp32_matrix_flops_per_s: float | None | UnsetType = ...
    peak_fp16_vector_flops_per_s: float | None | UnsetType = ...
    peak_bf16_vector_flops_per_s: float | None | UnsetType = ...
    peak_tf32_flops_per_s: float | None | UnsetType = ...
    peak_fp16_flops_per_s: float | None | UnsetType = ...
    peak_fp16_acc16_flops_per_s: float | None | UnsetType = ...
    peak_bf16_flops_per_s: float | None | UnsetType = ...
    peak_fp8_flops_per_s: float | None | UnsetType = ...
    peak_fp4_flops_per_s: float | None | UnsetType = ...
    peak_int8_flops_per_s: float | None | UnsetType = ...
    ridge_flop_per_byte: float | UnsetType = ...
    tdp_w: float | UnsetType = ...
    tdp_min_w: float | UnsetType = ...
    tdp_max_w: float | UnsetType = ...
    nominal_tdp_w: float | UnsetType = ...
    nvlink_bytes_per_s: float | UnsetType = ...
    pcie_bytes_per_s: float | UnsetType = ...
    devices_per_board: float
    origin: str
    architecture_id: str
    aliases: tuple[str, ...]

class GpusDocument(Struct, frozen=True, kw_only=True):
    schema_version: Literal[1]
    capplan_version: str
    gpus: tuple[GpuDocument, ...]

class SourceDocument(Struct, frozen=True, kw_only=True):
    kind: str
    title: str
    publisher: str | UnsetType = ...
    url: str | UnsetType = ...
    retrieved: datetime.date | UnsetType = ...

class FigureDocument(Struct, frozen=True, kw_only=True):
    as_written: str
    printed: str | UnsetType = ...
    quality: str | UnsetType = ...
    regime: str | UnsetType = ...
    origin: str
    sources: tuple[SourceDocument, ...]

class PriceDocument(Struct, frozen=True, kw_only=True):
    gpu: str | UnsetType = ...
    term: Term
    usd_per_hour: float | UnsetType = ...
    provider: str | UnsetType = ...
    region: str | UnsetType = ...
    instance: str | UnsetType | None = ...
    instance_gpus: int | UnsetType = ...
    usd: float | UnsetType = ...
    seller: str | UnsetType = ...
    date: datetime.date
    date_is: DateKind
    tier: PriceTier
    kind: PriceKind
    source: str
    country: str | UnsetType | None = ...
    joined_gpus: int | UnsetType = ...
    comparison: str | UnsetType = ...
    upfront_fraction: float | UnsetType = ...
    note: str | UnsetType = ...
    includes_server: bool | UnsetType = ...

class GpuSheetDocument(Struct, frozen=True, kw_only=True):
    schema_version: Literal[1]
    capplan_version: str
    id: str
    name: str
    vendor: str
    architecture: str
    compute_capability: str | UnsetType = ...
    form_factor: str | UnsetType = ...
    segment: Segment | UnsetType = ...
    status: Status | UnsetType = ...
    release_date: datetime.date | UnsetType = ...
    sold_since: datetime.date | UnsetType = ...
    end_of_sale: datetime.date | UnsetType = ...
    expected: str | UnsetType = ...
    memory_bytes: float
    usable_bytes: float | UnsetType = ...
    driver_total_bytes: float | UnsetType = ...
    memory_type: str | UnsetType = ...
    memory_bus_bits: float | UnsetType = ...
    memory_bits_per_s_per_pin: float | UnsetType = ...
    memory_bandwidth_bytes_per_s: float
    ecc: str | UnsetType = ...
    l2_bytes: float | UnsetType = ...
    unit_count: float | UnsetType = ...
    boost_clock_hz: float | UnsetType = ...
    tensor_clock_hz: float | UnsetType = ...
    peak_fp64_flops_per_s: float | None | UnsetType = ...
    peak_fp64_tensor_flops_per_s: float | None | UnsetType = ...
    peak_fp32_flops_per_s: float | None | UnsetType = ...
    peak_fp32_matrix_flops_per_s: float | None | UnsetType = ...
    peak_fp16_vector_flops_per_s: float | None | UnsetType = ...
    peak_bf16_vector_flops_per_s: float | None | UnsetType = ...
    peak_tf32_flops_per_s: float | None | UnsetType = ...
    peak_fp16_flops_per_s: float | None | UnsetType = ...
    peak_fp16_acc16_flops_per_s: float | None | UnsetType = ...
    peak_bf16_flops_per_s: float | None | UnsetType = ...
    peak_fp8_flops_per_s: float | None | UnsetType = ...
    peak_fp4_flops_per_s: float | None | UnsetType = ...
    peak_int8_flops_per_s: float | None | UnsetType = ...
    ridge_flop_per_byte: float | UnsetType = ...
    tdp_w: float | UnsetType = ...
    tdp_min_w: float | UnsetType = ...
    tdp_max_w: float | UnsetType = ...
    nominal_tdp_w: float | UnsetType = ...
    nvlink_bytes_per_s: float | UnsetType = ...
    pcie_bytes_per_s: float | UnsetType = ...
    devices_per_board: float
    origin: str
    architecture_id: str
    aliases: tuple[str, ...]
    notes: tuple[str, ...]
    figures: dict[str, FigureDocument]
    prices: tuple[PriceDocument, ...]

class PricesDocument(Struct, frozen=True, kw_only=True):
    schema_version: Literal[1]
    currency: Literal['USD']
    prices: tuple[PriceDocument, ...]

class InstalledGpuDocument(Struct, frozen=True, kw_only=True):
    index: int
    name: str
    told_by: str
    pci_id: str | UnsetType = ...
    total_bytes: int | UnsetType = ...
    driver_total_bytes: int | UnsetType = ...
    unit_count: int | UnsetType = ...
    power_limit_w: float | UnsetType = ...
    max_clock_hz: float | UnsetType = ...
    spec: str | None
    differences: dict[str, tuple[str, str]]

class InstalledGpusDocument(Struct, frozen=True, kw_only=True):
    schema_version: Literal[1]
    capplan_version: str
    gpus: tuple[InstalledGpuDocument, ...]

class KeptTraceDocument(Struct, frozen=True, kw_only=True):
    model: str
    options: tuple[str, ...]
    recordings: tuple[str, ...]
    size_bytes: int
    made: str

class CacheDocument(Struct, frozen=True, kw_only=True):
    folder: str
    traces: tuple[KeptTraceDocument, ...]

class SettingDocument(Struct, frozen=True, kw_only=True):
    command: str
    option: str
    value: str
    file: str

class SettingsDocument(Struct, frozen=True, kw_only=True):
    settings: tuple[SettingDocument, ...]

class CurvePoint(Struct, frozen=True, kw_only=True):
    batch: int
    bound_s: float
    latency_s: Interval
    throughput_per_s: Interval
    bound_by: Binding
    shares: dict[Binding, float]
    power_w: Interval | UnsetType = ...
    joules_per_sample: Interval | UnsetType = ...
    power_evidence: str | UnsetType = ...

class KernelDocument(Struct, frozen=True, kw_only=True):
    name: str
    class_: str
    operands: str
    runs: int
    time_s: float
    share_fraction: float
    bound_by: Binding
    efficiency_fraction: float
    flops: float
    least_flops: float
    bytes: float
    bound_s: float

class ModuleDocument(Struct, frozen=True, kw_only=True):
    path: str
    kernels: int
    time_s: float
    share_fraction: float
    bound_by: Binding

class ClassicBoundDocument(Struct, frozen=True, kw_only=True):
    flops: float
    least_flops: float
    operand_bytes: float
    traffic_bytes: float
    compute_s: float
    memory_s: float
    rule: str

class FrameworkDocument(Struct, frozen=True, kw_only=True):
    framework: Framework
    layout: Layout
    precision: Precision
    latency_s: Bounded | None
    gain: float | None
    calibration: str | None
    reason: str | None

class GpuEstimateDocument(Struct, frozen=True, kw_only=True):
    model: str
    gpu: str
    precision: Precision
    layout: Layout
    framework: Framework
    torch: str
    host: str | None
    curve: tuple[CurvePoint, ...]
    knee_batch: int | None
    saturating_batch: int | None
    device_batch: int | None
    batching_gain: float
    kernels: tuple[KernelDocument, ...]
    modules: tuple[ModuleDocument, ...]
    classic_bound: ClassicBoundDocument
    advice: tuple[SpeedAdvice, ...]
    calibration: str | None
    evidence: Evidence
    evidence_reason: str
    notes: tuple[str, ...]
    frameworks: tuple[FrameworkDocument, ...] | UnsetType = ...

class EstimateDocument(Struct, frozen=True, kw_only=True):
    estimates: tuple[GpuEstimateDocument, ...]

class PipelineErrors(Struct, frozen=True, kw_only=True):
    pipeline: str
    gpu: str
    shared: str
    metric: PipelineMetric
    rows: int
    median_error_fraction: float
    p90_error_fraction: float
    bias: float
    coverage_fraction: float

class JudgedEnergyDocument(Struct, frozen=True, kw_only=True):
    measured: float
    predicted: Interval

class JudgedPipelineRow(Struct, frozen=True, kw_only=True):
    row: int
    pipeline: str
    gpu: str
    ulysses: int
    ring: int
    batch: int
    measured_s: float
    predicted_s: Interval
    energy: dict[PipelineMetric, JudgedEnergyDocument] = ...

class PipelineValidationDocument(Struct, frozen=True, kw_only=True):
    schema_version: Literal[1]
    cells: tuple[PipelineErrors, ...]
    rows: tuple[JudgedPipelineRow, ...]
    skipped: dict[str, int]

class PlacedMemory(Struct, frozen=True, kw_only=True):
    gpu: str | None
    offload: str
    peak_allocated_bytes: Interval
    peak_reserved_bytes: Interval
    total_bytes: Interval
    parts: dict[str, Interval]
    moments: dict[str, Interval]
    peak_module: str
    available_bytes: float | None = ...
    status: FitStatus | None = ...
    max_batch: int | None = ...

class PipelineMemoryDocument(Struct, frozen=True, kw_only=True):
    schema_version: Literal[1]
    name: str
    batch: int
    pipeline: PlannedPipeline
    places: tuple[PlacedMemory, ...]

class StageFrames(Struct, frozen=True, kw_only=True):
    host_s: tuple[float, ...]
    device_s: tuple[float, ...]
    waited_s: tuple[float, ...]

class StageDocument(Struct, frozen=True, kw_only=True):
    name: str
    host_s: float | None
    device_s: float | None
    waited_s: float | None
    frames: StageFrames

class EndToEndFrames(Struct, frozen=True, kw_only=True):
    free_latency_s: tuple[float, ...]
    stalled_latency_s: tuple[float, ...]

class EndToEndDocument(Struct, frozen=True, kw_only=True):
    free_latency_s: float
    stalled_latency_s: float
    free_s: float
    stalled_s: float
    free_throughput_per_s: float
    stalled_throughput_per_s: float
    frames: EndToEndFrames

class StartStepDocument(Struct, frozen=True, kw_only=True):
    part: str
    median_s: float
    times_s: tuple[float, ...]

class MeasuredStartDocument(Struct, frozen=True, kw_only=True):
    name: str
    device: str
    batch: int
    weight_bytes: int
    steps: tuple[StartStepDocument, ...]
    whole: StartStepDocument

class PipelineDocument(Struct, frozen=True, kw_only=True):
    name: str
    batch: int
    device: str
    has_events: bool
    repetitions: int
    stages: tuple[StageDocument, ...]
    end_to_end: EndToEndDocument

class PipelinesDocument(Struct, frozen=True, kw_only=True):
    pipelines: tuple[PipelineDocument, ...]

class ErrorDocument(Struct, frozen=True, kw_only=True):
    gpu: str | UnsetType = ...
    framework: str | UnsetType = ...
    torch: str | UnsetType = ...
    precision: str | UnsetType = ...
    layout: str | UnsetType = ...
    task: str | UnsetType = ...
    model: str | UnsetType = ...
    batch: str | UnsetType = ...
    n: int
    mdape: float
    mape: float
    p90: float
    bias: float
    within_10: float
    within_25: float
    coverage: float | None
    width: float | None
    kendall_tau: float | None
    kendall_tau_gpus: float | None
    faster_named_right: float | None

class WorstRow(Struct, frozen=True, kw_only=True):
    row: int
    file: str
    model: str
    gpu: str
    batch: int
    measured_s: float
    predicted_s: float

class ImplausibleRow(Struct, frozen=True, kw_only=True):
    row: int
    file: str
    measured_s: float
    bound_s: float

class SkippedRowDocument(Struct, frozen=True, kw_only=True):
    row: int
    file: str
    reason: str

class EnergyErrorDocument(Struct, frozen=True, kw_only=True):
    metric: str
    gpu: str
    errors: ErrorDocument

class PowerFactorDocument(Struct, frozen=True, kw_only=True):
    gpu: str
    factor: float
    log_half_width: float
    rows: int
    models: int
    held_out: ErrorDocument | None

class ValidationDocument(Struct, frozen=True, kw_only=True):
    cells: tuple[ErrorDocument, ...]
    overall: ErrorDocument | None
    worst: tuple[WorstRow, ...]
    implausible: tuple[ImplausibleRow, ...]
    skipped: tuple[SkippedRowDocument, ...]
    energy: tuple[EnergyErrorDocument, ...] = ...

class StandingDocument(Struct, frozen=True, kw_only=True):
    models: int
    finished: int
    kept: int
    failed: int
    rows: int
    elapsed_s: float
    rows_per_s: float | None
    remaining_s: float | None

class SweepDocument(Struct, frozen=True, kw_only=True):
    models: int
    finished: int
    kept: int
    failed: int
    rows: int
    elapsed_s: float
    rows_per_s: float | None
    remaining_s: float | None
    folder: str
    gpus: int
    workloads: int
    dataset_rows: int
    files: int
    answered: int
    measured: int
    failures: tuple[FailureGroup, ...]
    notes: tuple[str, ...]

class SweepPreviewDocument(Struct, frozen=True, kw_only=True):
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
    models_to_trace: int
    traced_models: int
    traces: int
    kept_traces: int
    unknown: tuple[str, ...]
    notes: tuple[str, ...]
    cpu_s: RateRange
    result_bytes: RateRange
    trace_bytes: RateRange

class ChangeDocument(Struct, frozen=True, kw_only=True):
    where: str
    what: str
    before: float | str | None
    after: float | str | None
    relative: float | None

class DiffDocument(Struct, frozen=True, kw_only=True):
    schema_version: Literal[1]
    changes: tuple[ChangeDocument, ...]

class CheckDocument(Struct, frozen=True, kw_only=True):
    schema_version: Literal[1]
    kept: bool
    outcomes: tuple[CheckedLimit, ...]

class SpreadDocument(Struct, frozen=True, kw_only=True):
    requests: float
    mean: float
    cv: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    is_binned: bool

class GrowthDocument(Struct, frozen=True, kw_only=True):
    per_year_fraction: float
    low_fraction: float
    high_fraction: float
    weeks: int

class ArrivalsDocument(Struct, frozen=True, kw_only=True):
    from_s: float
    to_s: float
    has_dates: bool
    requests: float
    mean_per_s: float
    busiest_hour_per_s: float
    busiest_hour_from_s: int
    daily_per_s: tuple[float, ...] | None
    weekly_per_s: tuple[float, ...] | None
    burstiness: float | None
    growth: GrowthDocument | None

class BrokenLinesDocument(Struct, frozen=True, kw_only=True):
    reason: str
    lines: int
    first: int

class RunningGpusDocument(Struct, frozen=True, kw_only=True):
    name: str
    count: int
    utilisation_fraction: float | None
    power_w: float | None

class ObservedLoadDocument(Struct, frozen=True, kw_only=True):
    schema_version: Literal[1]
    sources: tuple[str, ...]
    form: str
    arrivals: ArrivalsDocument
    input_tokens: SpreadDocument | None
    output_tokens: SpreadDocument | None
    prefix_fraction: float | None
    ttft_s: SpreadDocument | None
    tpot_s: SpreadDocument | None
    e2e_s: SpreadDocument | None
    running: tuple[float, float] | None
    waiting: tuple[float, float] | None
    failed: float | None
    lines: int
    broken: tuple[BrokenLinesDocument, ...]
    gpus: tuple[RunningGpusDocument, ...]
    cautions: tuple[str, ...]

class FindingDocument(Struct, frozen=True, kw_only=True):
    what: str
    planned: str
    found: str
    mark: FindingMark
    source: str

class AcceptanceDocument(Struct, frozen=True, kw_only=True):
    schema_version: Literal[1]
    plan: str
    machine: str
    verdict: AcceptanceVerdict
    decided_by: FindingDocument | None
    findings: tuple[FindingDocument, ...]
    missing: tuple[str, ...]

class StandingFleetDocument(Struct, frozen=True, kw_only=True):
    replicas: int
    usd_per_week: float
    usd_per_month: float
    inside_fraction: float

class ScalingSettingDocument(Struct, frozen=True, kw_only=True):
    min_replicas: int
    target: float
    usd_per_week: Interval
    usd_per_month: Interval
    inside_fraction: float
    worst_minute_fraction: float
    mean_replicas: float
    starts: int
    asleep_fraction: float

class BurstDocument(Struct, frozen=True, kw_only=True):
    requests: int
    ttft_s: Percentiles
    inside_fraction: float
    worst_minute_fraction: float
    settled_s: float
    most_replicas: int

class LlmScaleDocument(Struct, frozen=True, kw_only=True):
    schema_version: Literal[1]
    model: str
    gpu: str
    gpus: int
    engine: str
    scaler: str
    signal: str
    start_s: Interval
    requests_per_week: float
    peak_per_s: float
    offer: str | None
    offer_day: str | None
    usd_per_machine_hour: float | None
    keeps: bool
    standing: StandingFleetDocument
    settings: tuple[ScalingSettingDocument, ...]
    burst: BurstDocument | None
    notes: tuple[str, ...]

class ServedModel(Struct, frozen=True, kw_only=True):
    name: str
    params: int
    active_params: int

class StepPartDocument(Struct, frozen=True, kw_only=True):
    name: str
    time_s: float
    flops: float | UnsetType = ...
    traffic_bytes: float | UnsetType = ...
    launches: float | UnsetType = ...

class ServingPointDocument(Struct, frozen=True, kw_only=True):
    concurrency: int
    ttft_s: Interval
    ttft_is_known: bool | UnsetType = ...
    tpot_s: Interval
    output_tokens_per_s: Interval
    output_tokens_per_s_per_gpu: float
    output_tokens_per_s_per_user: float
    e2e_s: float
    requests_per_s: float
    running: float
    queued: bool
    evidence: str
    power_w: Interval | UnsetType = ...
    joules_per_output_token: Interval | UnsetType = ...
    power_evidence: str | UnsetType = ...

class MeasuredRuns(Struct, frozen=True, kw_only=True):
    runs: int
    tpot_factor: float | None

class LlmEstimateDocument(Struct, frozen=True, kw_only=True):
    schema_version: Literal[1]
    model: ServedModel
    gpu: str
    gpus: int
    tp: int
    pp: int
    ep: int
    dp: int
    engine: str
    version: str | None
    weights: str
    kv: str
    input_len: float
    output_len: float
    sequences_that_fit: int
    points: tuple[ServingPointDocument, ...]
    decode_step: tuple[StepPartDocument, ...]
    prefill_step: tuple[StepPartDocument, ...]
    calibration: str
    measured: MeasuredRuns
    notes: tuple[str, ...]

class LoadAnswerDocument(Struct, frozen=True, kw_only=True):
    label: str | None
    rate_per_s: float
    concurrency: int | None
    load_fraction: float
    requests: int
    ttft_s: Percentiles
    tpot_s: Percentiles
    itl_s: Percentiles | None
    e2e_s: Percentiles
    inclusive_tpot_s: float
    output_tokens_per_s: float
    output_tokens_per_s_per_gpu: float
    output_tokens_per_s_per_user: float | None
    input_tokens_per_s: float
    goodput_fraction: float | None
    goodput_per_s: float | None
    mean_running: float
    busy_fraction: float
    cached_fraction: float
    preemptions: int
    keeps_up: bool
    power_w: Interval | UnsetType = ...
    joules_per_output_token: Interval | UnsetType = ...
    power_evidence: str | UnsetType = ...

class Definitions(Struct, frozen=True, kw_only=True):
    ttft_s: str = ...
    tpot_s: str = ...
    inclusive_tpot_s: str = ...
    itl_s: str = ...
    e2e_s: str = ...
    goodput_fraction: str = ...

class SimulationDocument(Struct, frozen=True, kw_only=True):
    schema_version: Literal[1]
    model: str
    gpu: str
    gpus: int
    engine: str
    sequences_that_fit: int
    saturation_rate_per_s: float
    saturated_from_per_s: float | None
    limits: LatencyLimits
    loads: tuple[LoadAnswerDocument, ...]
    definitions: Definitions
    notes: tuple[str, ...]
    elastic: LlmScaleDocument | UnsetType = ...

class ServingCellDocument(Struct, frozen=True, kw_only=True):
    gpu: str | UnsetType = ...
    engine: str | UnsetType = ...
    model: str | UnsetType = ...
    version: str | UnsetType = ...
    weights: str | UnsetType = ...
    kv: str | UnsetType = ...
    tp: str | UnsetType = ...
    pp: str | UnsetType = ...
    ep: str | UnsetType = ...
    dp: str | UnsetType = ...
    serving: str | UnsetType = ...
    quality: str | UnsetType = ...
    evidence: str | UnsetType = ...
    publisher: str | UnsetType = ...
    year: str | UnsetType = ...
    metric: Literal['ttft', 'tpot', 'output_tokens_per_s', 'power_w', 'power_w_end_to_end', 'joules_per_output_token']
    n: int
    mdape: float
    p90: float
    bias: float
    coverage: float
    width: float
    spearman: float | None
    within_factor_two: float

class OverallAccuracy(Struct, frozen=True, kw_only=True):
    ttft: Accuracy | None
    tpot: Accuracy | None
    output_tokens_per_s: Accuracy | None
    power_w: Accuracy | None
    power_w_end_to_end: Accuracy | None
    joules_per_output_token: Accuracy | None

class LlmValidationDocument(Struct, frozen=True, kw_only=True):
    schema_version: Literal[1]
    cells: tuple[ServingCellDocument, ...]
    overall: OverallAccuracy
    skipped: tuple[SkippedRun, ...]

class LlmModelDocument(Struct, frozen=True, kw_only=True):
    name: str
    hf_id: str | None
    family: str
    params: int
    active_params: int
    vision_params: int
    layers: int
    hidden_dim: int
    vocab_size: int
    max_positions: int | None
    checkpoint: str
    exact_bytes: int | None
    source: str
    check: str | None
    ignored_fields: tuple[str, ...]

class LlmModelsDocument(Struct, frozen=True, kw_only=True):
    schema_version: Literal[1]
    models: tuple[LlmModelDocument, ...]

class FormatSupportDocument(Struct, frozen=True, kw_only=True):
    engine: Engine
    weights: str
    runs: bool
    widened: bool
    since: str | None
    reason: str

class LlmSupportDocument(Struct, frozen=True, kw_only=True):
    schema_version: Literal[1]
    model: str
    gpu: str
    formats: tuple[FormatSupportDocument, ...]

class ByteInterval(Struct, frozen=True, kw_only=True):
    low: int
    expected: int
    high: int

class StageMemoryDocument(Struct, frozen=True, kw_only=True):
    stage: int
    weights_bytes: int
    activation_bytes: int
    kv_pool_bytes: int
    kv_tokens: int | None

class AlternativeDocument(Struct, frozen=True, kw_only=True):
    change: str
    fits: bool
    kv_tokens: int | None
    sequences_that_fit: int
    weights_bytes: int
    kv_pool_bytes: int

class LlmMemoryDocument(Struct, frozen=True, kw_only=True):
    schema_version: Literal[1]
    capplan_version: str
    model: LlmModelDocument
    gpu: str
    gpus: int
    tp: int
    pp: int
    ep: int
    dp: int
    engine: Engine
    engine_version: str | None
    weights: str
    kv: str
    fits: bool
    gpu_bytes: int
    utilization: float
    weights_bytes: int
    weights_by_role_bytes: dict[str, int]
    activation_bytes: int
    other_bytes: int
    graph_bytes: int
    kv_pool_bytes: int
    kv_pool_interval_bytes: ByteInterval
    missing_bytes: int
    kv_bytes_per_token: float
    state_bytes_per_sequence: int
    block_tokens: int
    kv_tokens: int | None
    sequence_tokens: int
    kv_bytes_per_sequence: int
    sequences_that_fit: int
    max_context: int
    stages: tuple[StageMemoryDocument, ...]
    alternatives: tuple[AlternativeDocument, ...]
    evidence: str
    source: str
    notes: tuple[str, ...]

class PaymentDocument(Struct, frozen=True, kw_only=True):
    term: Term
    usd_per_gpu: float
    seller: str
    day: str
    is_marketplace: bool
    usd_per_year: float
    initial_usd: float
    yearly_usd: tuple[float, ...]
    usd_per_million_output_tokens: float

class MoneyDocument(Struct, frozen=True, kw_only=True):
    growth_per_year_fraction: float
    years: tuple[FleetYear, ...]
    counted_years: int
    rented_hours_per_year: float
    payments: tuple[PaymentDocument, ...]
    gpu_power_w: Interval | None
    joules_per_output_token: float | None
    kwh_per_million_output_tokens: float | None
    usd_per_kwh: float
    pue: float
    api: ApiComparison | None

class LaunchDocument(Struct, frozen=True, kw_only=True):
    engine: Engine
    command: str
    commands: tuple[str, ...] = ...
    arguments: tuple[str, ...]
    options: tuple[LaunchOption, ...]
    files: dict[str, str]
    port: int
    notes: tuple[str, ...]

class RequestTime(Struct, frozen=True, kw_only=True):
    low: float
    expected: float
    high: float
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None

class TokenPrices(Struct, frozen=True, kw_only=True):
    input: float
    output: float

class ConcurrencyPoint(Struct, frozen=True, kw_only=True):
    running: float
    rate_per_s: float
    ttft_s: float
    tpot_s: float
    output_tokens_per_s_per_gpu: float

class RentedGpu(Struct, frozen=True, kw_only=True):
    usd_per_hour: float
    provider: str
    day: str
    tier: str
    instance: str = ...
    region: str = ...
    country: str | None = ...
    known_by: str = ...
    machine_gpus: int = ...
    joined: int = ...
    networked: bool = ...

class DeploymentFitDocument(Struct, frozen=True, kw_only=True):
    gpu: str
    gpus: int
    replicas: int
    replicas_needed: int
    words: str
    tp: int
    pp: int
    ep: int
    dp: int
    engine: str
    weights: str
    kv: str
    memory: ReplicaMemory
    ttft_s: RequestTime
    tpot_s: RequestTime
    e2e_s: RequestTime
    itl_s: Percentiles | None
    rate_per_s: float
    running_per_replica: float
    batch_limit: int
    output_tokens_per_s: float
    output_tokens_per_s_per_gpu: float
    output_tokens_per_s_per_user: float
    max_rate_per_s: float
    max_rate_per_s_per_replica: float
    job_s: float | None
    job_usd: float | None
    goodput_fraction: float | None
    usd_per_hour: float | None
    usd_per_million_output_tokens: float | None
    usd_per_million_tokens: float | None
    split_usd_per_million_tokens: TokenPrices | None
    machines: int | None
    rent: RentedGpu | None
    evidence: str
    holds_at_worst: bool
    on_front: bool
    curve: tuple[ConcurrencyPoint, ...] | None
    power_w: Interval | UnsetType = ...
    joules_per_output_token: Interval | UnsetType = ...
    power_evidence: str | UnsetType = ...

class FrontDocument(Struct, frozen=True, kw_only=True):
    gpu: str
    tp: int
    pp: int
    ep: int
    dp: int
    engine: str
    weights: str
    running: float
    output_tokens_per_s_per_gpu: float
    output_tokens_per_s_per_user: float

class PrefillSide(Struct, frozen=True, kw_only=True):
    gpu: str
    tp: int
    pp: int
    ep: int
    dp: int
    replicas: int
    prompt_s: float

class DecodeSide(Struct, frozen=True, kw_only=True):
    gpu: str
    tp: int
    pp: int
    ep: int
    dp: int
    replicas: int
    running: float

class DisaggregatedDocument(Struct, frozen=True, kw_only=True):
    gpu: str | None
    gpus: int
    words: str
    engine: str
    weights: str
    prefill: PrefillSide
    decode: DecodeSide
    ratio: float
    transfer_s: float
    ttft_s: float
    tpot_s: float
    e2e_s: float
    output_tokens_per_s: float
    usd_per_hour: float | None

class MixedPartDocument(Struct, frozen=True, kw_only=True):
    gpu: str
    tp: int
    pp: int
    ep: int
    dp: int
    replicas: int
    engine: str
    weights: str
    share: float
    usd_per_hour: float | None

class MixedDocument(Struct, frozen=True, kw_only=True):
    gpus: int
    words: str
    usd_per_hour: float
    parts: tuple[MixedPartDocument, ...]

class DeploymentRejectionDocument(Struct, frozen=True, kw_only=True):
    gpu: str
    reason: str
    obstacle: Obstacle
    rescue: str | None
    tp: int
    pp: int
    ep: int
    dp: int
    engine: str
    weights: str | None
    least_s: float | None

class ReplanDocument(Struct, frozen=True, kw_only=True):
    gpus: int
    gpu: str
    gpus_needed: int | None
    gpus_with_fp8: int | None
    usd_per_hour_saved: float | None
    sentences: tuple[str, ...]
    change: str

class LlmPlanDocument(Struct, frozen=True, kw_only=True):
    schema_version: Literal[1]
    model: ServedModel
    load: TokenLoad
    limits: LatencyLimits
    certainty_fraction: float
    recommended: DeploymentFitDocument | None
    cheaper_on_weaker_evidence: str | None
    fits: tuple[DeploymentFitDocument, ...]
    front: tuple[FrontDocument, ...]
    disaggregated: tuple[DisaggregatedDocument, ...]
    mixed: MixedDocument | None
    rejections: tuple[DeploymentRejectionDocument, ...]
    advice: str | None
    money: MoneyDocument | None
    launch: LaunchDocument | None
    kubernetes: str | None
    launch_files: dict[str, str] | UnsetType = ...
    assumptions: tuple[str, ...]
    notes: tuple[str, ...]
    machine: tuple[str, ...] = ...
    local: LocalAmount | None = ...
    replan: ReplanDocument | UnsetType = ...
    ways: ServingWaysDocument | UnsetType = ...

class FleetPartDocument(Struct, frozen=True, kw_only=True):
    model: str
    gpu: str
    gpus: int
    replicas: int
    tp: int
    pp: int
    ep: int
    dp: int
    engine: str
    weights: str
    words: str
    usd_per_hour: float | None
    ttft_s: Interval
    tpot_s: Interval
    usd_per_million_output_tokens: float | None
    evidence: str
    power_w: Interval | UnsetType = ...
    joules_per_output_token: Interval | UnsetType = ...

class SharedModelDocument(Struct, frozen=True, kw_only=True):
    model: str
    tp: int
    pp: int
    ep: int
    dp: int
    engine: str
    weights: str
    slowdown: float
    running: float
    sequences: int
    ttft_s: float
    tpot_s: float

class SharedGpusDocument(Struct, frozen=True, kw_only=True):
    gpu: str
    gpus: int
    replicas: int
    words: str
    usd_per_hour: float
    models: tuple[SharedModelDocument, ...]

class SharedFleetDocument(Struct, frozen=True, kw_only=True):
    gpu: str | None
    gpus: int
    servers: int
    usd_per_hour: float | None
    words: str
    parts: tuple[FleetPartDocument, ...]
    shared: tuple[SharedGpusDocument, ...]

class PlannedModelDocument(Struct, frozen=True, kw_only=True):
    model: str
    load: TokenLoad
    limits: LatencyLimits
    fits: int
    advice: str | None

class LlmFleetDocument(Struct, frozen=True, kw_only=True):
    schema_version: Literal[1]
    models: tuple[PlannedModelDocument, ...]
    recommended: SharedFleetDocument | None
    fleets: tuple[SharedFleetDocument, ...]
    local: LocalAmount | None = ...

class VariationDocument(Struct, frozen=True, kw_only=True):
    group: str
    label: str
    gpus: int | None
    replicas: int | None
    ttft_s: float | None
    tpot_s: float | None
    usd_per_hour: float | None
    usd_per_million_output_tokens: float | None
    cheapest_then: str | None

class StartPartDocument(Struct, frozen=True, kw_only=True):
    part: str
    time_s: Interval
    kind: str
    source: str

class LlmStartDocument(Struct, frozen=True, kw_only=True):
    schema_version: Literal[1]
    model: str
    gpu: str
    gpus: int
    engine: str
    weight_bytes: float
    layers: int
    parts: tuple[StartPartDocument, ...]
    whole_s: Interval
    notes: tuple[str, ...]

class TrainingJobDocument(Struct, frozen=True, kw_only=True):
    model: str
    params: int
    active_params: int
    method: str
    objective: str = ...
    trained_params: int
    base: str | None
    compute: str
    states: str
    optimizer: str
    framework: str
    gpus: int
    tp: int
    pp: int
    vp: int
    cp: int
    ep: int
    dp: int
    shard: str
    seq_len: int
    micro_batch: int
    accumulate: int
    global_batch: int
    recompute: str
    attention: str

class TrainingPartDocument(Struct, frozen=True, kw_only=True):
    part: str
    value: float

class TrainingMemoryDocument(Struct, frozen=True, kw_only=True):
    gpu: str
    fits: bool
    verdict: str
    peak_bytes: Interval
    usable_bytes: int
    fit_probability: float
    parts_bytes: tuple[TrainingPartDocument, ...]
    load_bytes: int
    host_bytes: int
    evidence: str

class TrainingFileDocument(Struct, frozen=True, kw_only=True):
    path: str
    framework: str
    release: str
    stated: dict[str, str]
    defaults: dict[str, str]
    searched: tuple[str, ...]
    unmodelled: tuple[str, ...]
    unknown: tuple[str, ...]

class LlmTrainMemoryDocument(Struct, frozen=True, kw_only=True):
    schema_version: Literal[1]
    capplan_version: str
    job: TrainingJobDocument
    memory: TrainingMemoryDocument
    files: tuple[TrainingFileDocument, ...] = ...

class TrainingRunDocument(Struct, frozen=True, kw_only=True):
    tokens: float
    steps: float
    wall_s: Interval
    gpu_hours: Interval
    campaign_s: Interval
    checkpoints_s: float
    restarts_s: float
    storage_bytes_per_s: float
    asynchronous: bool
    failures: float
    checkpoint_bytes: float
    checkpoint_interval_s: float
    goodput_fraction: float

class TrainingSpeedDocument(Struct, frozen=True, kw_only=True):
    job: TrainingJobDocument
    memory: TrainingMemoryDocument
    tokens_per_s: Interval
    tokens_per_s_per_gpu: Interval
    step_s: Interval
    mfu_fraction: float | None
    hfu_fraction: float | None
    model_flops_per_s: float
    parts_s: tuple[TrainingPartDocument, ...]
    limited_by: str
    evidence: str
    run: TrainingRunDocument | None
    usd: Interval | None
    campaign_usd: Interval | None
    usd_per_gpu_hour: float | None
    provider: str | None
    power_w: Interval | None
    joules_per_token: Interval | None
    energy_j: Interval | None
    launch: str | None

class LlmTrainEstimateDocument(Struct, frozen=True, kw_only=True):
    schema_version: Literal[1]
    capplan_version: str
    estimate: TrainingSpeedDocument
    files: tuple[TrainingFileDocument, ...] = ...

class TrainingNearMissDocument(Struct, frozen=True, kw_only=True):
    gpu: str
    gpus: int
    needed_bytes: float
    usable_bytes: float

class TrainingWayOutDocument(Struct, frozen=True, kw_only=True):
    change: str
    run: TrainingSpeedDocument

class LlmTrainPlanDocument(Struct, frozen=True, kw_only=True):
    schema_version: Literal[1]
    capplan_version: str
    cheapest: TrainingSpeedDocument | None
    safer: TrainingSpeedDocument | None
    fastest: TrainingSpeedDocument | None
    fewest: TrainingSpeedDocument | None
    efficient: tuple[TrainingSpeedDocument, ...]
    all: tuple[TrainingSpeedDocument, ...]
    rejected: dict[str, int]
    without: dict[str, str]
    refused: dict[str, str]
    nearest: TrainingNearMissDocument | None = ...
    ways: tuple[TrainingWayOutDocument, ...] = ...
    layouts_tried: int
    local: LocalAmount | None = ...
    files: tuple[TrainingFileDocument, ...] = ...

class TrainingCellDocument(Struct, frozen=True, kw_only=True):
    key: dict[str, str]
    metric: str
    n: int
    mdape: float
    p90: float
    bias: float
    coverage: float
    width: float

class TrainingRowDocument(Struct, frozen=True, kw_only=True):
    row: str
    model: str
    gpu: str
    framework: str
    metric: str
    measured: float
    predicted: Interval
    evidence: str

class TrainingVerdictDocument(Struct, frozen=True, kw_only=True):
    row: str
    ran_out: bool
    predicted_fits: bool
    fit_probability: float

class SkippedTrainingDocument(Struct, frozen=True, kw_only=True):
    file: str
    line: int
    model: str
    gpu: str
    reason: str

class LlmTrainValidateDocument(Struct, frozen=True, kw_only=True):
    schema_version: Literal[1]
    overall: tuple[TrainingCellDocument, ...]
    cells: tuple[TrainingCellDocument, ...]
    rows: tuple[TrainingRowDocument, ...]
    verdicts: tuple[TrainingVerdictDocument, ...]
    skipped: tuple[SkippedTrainingDocument, ...]

class OptionRow(Struct, frozen=True, kw_only=True):
    key: str
    rank: int | None
    gpu: str
    gpu_name: str
    segment: str | None
    licence: str | None
    porting: str | None
    term: str
    provider: str | None
    region: str | None
    instance: str | None
    price_usd: float | None
    price_unit: str | None
    price_date: datetime.date | None
    price_source: str | None
    price_tier: str | None
    price_known_by: str | None
    price_date_is: str | None
    includes_server: bool
    server_gpus: int | None
    is_marketplace: bool
    is_beside_sound: bool
    is_own_beside: bool
    sku: str | None
    price_valid_until: datetime.date | None
    lead_time_days: float | None
    warranty_years: float | None
    upfront_fraction: float | None
    minimum_s: float | None
    country: str | None
    speed_tier: str
    speed_evidence: str
    concerns: tuple[str, ...]
    certain_fit: bool
    violations: tuple[str, ...]
    is_leading: bool
    on_front: bool
    aged_factor: float
    batch: int
    rate_per_gpu_per_s: float
    batch_latency_s: Interval
    finish_s: float | None
    host_limit: str | None
    host_per_s: float | None
    is_host_bound: bool
    pcie_per_s: float | None
    scaling_fraction: float | None
    link: str | None
    rate_alone_per_s: float | None
    rate_within_server_per_s: float | None
    rate_across_servers_per_s: float | None
    latency_s: Interval
    latency_if_fast_s: float
    latency_if_slow_s: float | None
    load_fraction: float | None
    busy_fraction: float | None
    mean_batch: float | None
    in_flight: float | None
    all_up_latency_s: float | None
    all_up_load_fraction: float | None
    one_down_latency_s: float | None
    one_down_load_fraction: float | None
    doubled_latency_s: float | None
    reserve_factor: float
    carried_fraction: float | None
    gpus_needed: int
    gpus: int
    servers: int
    needs_by_year: tuple[int, ...]
    gpus_by_year: tuple[int, ...]
    servers_by_year: tuple[int, ...]
    server_slots: int
    full_servers: bool
    gpu_hours_by_year: tuple[float, ...]
    samples_by_year: tuple[float, ...]
    headroom_fraction: float
    spares: int
    availability_fraction: float
    months_until_full: float | None
    rack_units: int | None
    stated_gpus: int
    stated_gpus_last_year: int
    stated_cost_usd_per_year: float | None
    memory_bytes: Interval
    usable_bytes: float | None
    tdp_w: float | None
    nameplate_w: float | None
    predicted_peak_w: float | None
    average_w: float | None
    card_used_w: float | None
    card_rates_per_s: tuple[float, ...]
    card_watts: tuple[float, ...]
    host_w: float
    is_board: bool
    power_evidence: str
    energy_kwh_per_year: float | None
    carbon_kg_per_year: float | None
    embodied_kg: float | None
    yearly_usd: tuple[float, ...]
    initial_usd: float | None
    running_usd_per_year: float | None
    cost_usd_per_year: float | None
    present_usd: float | None
    total_usd: float | None
    usd_per_million: float | None
    residual_usd: float | None
    depreciation_usd_per_year: float | None
    break_even_hours_per_year: float | None
    break_even_against: str | None
    breakdown_usd: CostBreakdown | None
    payback_years: float | None
    internal_return_fraction: float | None
    payback_against: str | None

class PickRow(Struct, frozen=True, kw_only=True):
    gpu: str
    batch: int
    rate_per_gpu_per_s: float
    capacity_per_s: float
    loads: tuple[float, ...]
    percentiles_s: tuple[float, ...]
    parallel_rates_per_s: tuple[float, float, float] | None = ...

class Measured(Struct, frozen=True, kw_only=True):
    model: str
    gpu: str
    batch: int
    latency_s: float
    source: str

class Roof(Struct, frozen=True, kw_only=True):
    gpu: str
    gpu_name: str
    peak_flops_per_s: float
    bandwidth_bytes_per_s: float

class PaybackRow(Struct, frozen=True, kw_only=True):
    bought: str
    rented: str
    years: float | None

class LeftOutOffer(Struct, frozen=True, kw_only=True):
    gpu: str
    term: str
    provider: str
    region: str | None
    instance: str | None
    price_usd: float
    price_date: datetime.date
    reason: str
    instance_gpus: int = ...
    is_sound: bool = ...
    price_tier: str | None = ...
    price_date_is: str | None = ...
    includes_server: bool = ...
    is_marketplace: bool = ...

class SpecSource(Struct, frozen=True, kw_only=True):
    gpu: str
    field: str
    figure: str
    source: str
    retrieved: datetime.date | None
    url: str | None = ...

class FleetOptionRow(Struct, frozen=True, kw_only=True):
    key: str
    gpu: str
    gpu_name: str
    term: str
    provider: str | None
    sharing: str
    needed: int
    whole: dict[str, int]
    shared: tuple[tuple[ShareRow, ...], ...]
    gpus_by_year: tuple[int, ...]
    owned: int
    added_by_year: tuple[int, ...]
    yearly_usd: tuple[float, ...]
    cost_usd_per_year: float | None
    total_usd: float | None
    present_usd: float | None = ...
    residual_usd: float | None = ...
    upfront_fraction: float | None = ...
    country: str | None = ...
    average_w: float | None = ...
    energy_kwh_per_year: float | None = ...
    carbon_kg_per_year: float | None = ...
    power_w: float | None = ...
    rack_units: int | None = ...
    violations: tuple[str, ...] = ...
    concerns: tuple[str, ...] = ...

class MeasurementComparison(Struct, frozen=True, kw_only=True):
    model: str
    batch: int
    precision: Precision
    framework: Framework
    layout: Layout
    first_median_s: float
    second_median_s: float
    ratio: ConfidenceInterval
    verdict: RunVerdict

class MeasurementComparisonsDocument(Struct, frozen=True, kw_only=True):
    comparisons: tuple[MeasurementComparison, ...]
