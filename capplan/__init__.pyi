"""capplan: which GPU fits this model, how fast it runs there and what it costs, before anyone buys one.

Made by `python -m capplan.api.stub` from the verbs' statements; do not edit.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from torch import nn

from capplan import llm as llm
from capplan.api.call import Shown
from capplan.api.client import Client as Client
from capplan.api.verbs import load_gpus as load_gpus, load_trace as load_trace, read_sweep as read_sweep
from capplan.app.calibration.validate import ValidateAnswer
from capplan.app.sweep.results import SweepResults
from capplan.core.calibrate.fit import FittedCalibration
from capplan.core.gpus.prices import PriceTier, Term
from capplan.core.gpus.spec import GpuSpec
from capplan.core.measurement.types import Point
from capplan.core.memory.summary import MemorySummary
from capplan.core.ops.counters import AnalyzeAnswer
from capplan.core.pipelines.types import Offload
from capplan.core.plan.comparison import Comparison
from capplan.core.plan.estimate import EstimateAnswer
from capplan.core.plan.types import Plan
from capplan.core.trace.types import Trace
from capplan.core.workload import BatchSearch, Framework, Host, Layout, ModelSharding, Optimizer, Precision, RowOrder, SortKey, Training
from capplan.report.procurement.types import Report
from capplan.shapes.saved import Change, CheckedLimit
from capplan.specs.gpus.load import Gpus
from capplan.specs.prices import Prices
from capplan.version import __version__ as __version__
from pyarrow import Table

class _AnalyzeAnswerShown(Shown, AnalyzeAnswer): ...
class _FittedCalibrationShown(Shown, FittedCalibration): ...
class _CheckedLimitsShown(Shown, tuple[CheckedLimit, ...]): ...
class _ComparisonShown(Shown, Comparison): ...
class _ChangesShown(Shown, tuple[Change, ...]): ...
class _EstimateAnswerShown(Shown, EstimateAnswer): ...
class _GpuSpecsShown(Shown, tuple[GpuSpec, ...]): ...
class _ReportShown(Shown, Report): ...
class _PointsShown(Shown, tuple[Point, ...]): ...
class _MemorySummaryShown(Shown, MemorySummary): ...
class _PlanShown(Shown, Plan): ...
class _PricesShown(Shown, Prices): ...
class _TraceShown(Shown, Trace): ...
class _ValidateAnswerShown(Shown, ValidateAnswer): ...

def analyze(
    model: str | nn.Module | Trace,
    *,
    arguments: Mapping[str, Any] = ...,
    inputs: Sequence[str] | Callable[[int], Any] = ...,
    input_size: Sequence[int] | str | None = ...,
    seq_len: int | None = ...,
    inputs_from: str | None = ...,
    prepare: Sequence[str] | str | None = ...,
    freeze: Sequence[str] | str | None = ...,
    selected_share: float | None = ...,
    as_cpu: bool = ...,
    grad: bool = ...,
    new_tokens: int | None = ...,
    weights: str | None = ...,
    activations: str | None = ...,
    batch: int | None = ...,
    precision: Precision | str | None = ...,
    layout: Layout | str = ...,
    train: bool = ...,
    optimizer: Optimizer | str = ...,
    checkpointing: bool = ...,
    accumulate: int = ...,
    strict: bool = ...,
    depth: int | None = ...,
    compare: bool = ...,
    training: Training | bool | None = ...,
) -> _AnalyzeAnswerShown:
    """Count a model's parameters, MACs, FLOPs and bytes.

    Args:
        arguments: Constructor or config argument; repeatable.
        inputs: An input such as x=3x224x224 or ids=int64:Nx128; N is the batch; repeatable.
        input_size: Image size, such as 3x640x640.
        seq_len: Tokens per sample, for text models.
        inputs_from: Function of the batch size that returns the inputs.
        prepare: Step before tracing: fuse, reparameterize, lora=16, merge_lora, drop_layers=2, torchao=NAME; repeatable.
        freeze: Train without the parameters whose names match, such as 'backbone.*'; repeatable.
        selected_share: Share of candidates that stay where the data decides: boxes after suppression, masks; 0.25 by default.
        as_cpu: Run the model's code as on a machine without a CUDA device; by default torch.cuda and tensors answer as with one.
        grad: Run inference with gradients on, as models of forces do that differentiate in their forward.
        new_tokens: Run the model's generate for N tokens: prefill of the input, then a step for each further token.
        weights: Quantise the weights of linear layers; NAME is a configuration of torchao, such as int8_dynamic.
        activations: Quantise their activations, too.
        model: resnet50, timm:NAME, torchvision:NAME, ORG/NAME of the Hugging Face Hub, hf:config.json, hf:bert, FILE.py:Name, package.module:Name, a trace file, or a pipeline: diffusers:NAME, FILE.pipeline.yaml.
        batch: Batch size of all counts; 1, or what a file is fixed to.
        precision: Number formats; by default the model's own, as PyTorch would run it.
        layout: Memory format of images: nhwc is channels_last.
        train: Answer for training steps instead of inference.
        optimizer: Optimizer of a training step.
        checkpointing: Recompute activations in the backward pass.
        accumulate: Micro-batches per optimizer step.
        strict: Refuse a model with operators that could not be counted.
        depth: Depth of the module view; by default 2 in tables, whole in data.
        compare: Compare with thop, fvcore and torch's counter, differences explained.

    Returns:
        What a model counts at a batch.

    Raises:
        UsageError: there is no such model; or other counters are asked for of a trace or of training steps.
        TraceError: the model could not be traced, or is refused by `strict`.
    """

def calibrate(
    *measured: Sequence[str | Path] | str | None,
    specs: Sequence[str | Path] | str | None = ...,
    traces: str | Path | None = ...,
    allow_code: bool = ...,
    name: str = ...,
    made: date | str | None = ...,
    only_traced: bool = ...,
    folds: int = ...,
    serves: str = ...,
) -> _FittedCalibrationShown:
    """Fit the latency model to measurements, and learn its errors from GPUs and families held out.

    MEASURED are files as for `capplan validate`, and tables of single kernels (op-*.csv.gz). Only rows of what it is for are used: eager inference, compiled graphs, or training steps.

    Args:
        measured: Measurements: CSV, .csv.gz, Parquet or .jsonl of measure.
        specs: Own GPU specs, laid over the built-in ones.
        traces: Keep traces here; by default in the user's cache.
        allow_code: Import the Python files and packages that rows name; else these are skipped.
        name: Name of the calibration, as estimates report it.
        made: Its date; today by default.
        only_traced: Use only rows whose models are traced in the folder of traces.
        folds: Folds of families held out in turn.
        serves: What it is for.

    Returns:
        The calibration, and the errors that it was judged by: log(predicted ÷ measured) of held-out rows.

    Raises:
        UsageError: a file cannot be read, or fewer than 20 rows are usable.
    """

def check(
    plan: str,
    *gpus: str | Gpus | Sequence[str | GpuSpec] | None,
    batch: int,
    specs: Sequence[str | Path] | str | None = ...,
    utilization_fraction: float | None = ...,
    min_throughput_per_s: float | None = ...,
    max_latency_s: float | str | None = ...,
    sure: bool = ...,
) -> _CheckedLimitsShown:
    """Check a saved plan against limits: exit 0 if it keeps all of them, 1 if it breaks one.

    Args:
        plan: What `capplan plan --format json` wrote.
        gpus: Exact id or alias of a GPU; repeatable.
        batch: Batch that the plan holds.
        specs: Own GPU specs, laid over the built-in ones.
        utilization_fraction: Share of usable memory that may be filled.
        min_throughput_per_s: Samples per second wanted.
        max_latency_s: Latency limit per batch, such as 50ms.
        sure: Compare the bad end of every interval, not the expected value.

    Returns:
        What each limit came to on each GPU.

    Raises:
        UsageError: the file cannot be read or holds no such plan, or there is no such GPU.
    """

def compare(
    *models: str | nn.Module | Trace | Sequence[str | nn.Module | Trace],
    batches: Sequence[int] | str = ...,
    precisions: Sequence[Precision | str] | str | None = ...,
    frameworks: Sequence[Framework | str] | str | None = ...,
    layouts: Sequence[Layout | str] | str | None = ...,
    torch_version: tuple[int, int] | str = ...,
    arguments: Mapping[str, Any] = ...,
    inputs: Sequence[str] | Callable[[int], Any] = ...,
    input_size: Sequence[int] | str | None = ...,
    seq_len: int | None = ...,
    inputs_from: str | None = ...,
    prepare: Sequence[str] | str | None = ...,
    freeze: Sequence[str] | str | None = ...,
    selected_share: float | None = ...,
    as_cpu: bool = ...,
    grad: bool = ...,
    new_tokens: int | None = ...,
    weights: str | None = ...,
    activations: str | None = ...,
    gpus: str | Gpus | Sequence[str | GpuSpec] | None = ...,
    vendors: Sequence[str] | str | None = ...,
    architectures: Sequence[str] | str | None = ...,
    min_memory: str | None = ...,
    where: Sequence[str] | str | None = ...,
    specs: Sequence[str | Path] | str | None = ...,
    with_cpus: bool = ...,
    train: bool = ...,
    optimizer: Optimizer | str = ...,
    checkpointing: bool = ...,
    accumulate: int = ...,
    host: Host | str | None = ...,
    utilization_fraction: float = ...,
    max_latency_s: float | str | None = ...,
    min_throughput_per_s: float | None = ...,
    providers: Sequence[str] | str | None = ...,
    regions: Sequence[str] | str | None = ...,
    currency: str | None = ...,
    buyer: str | None = ...,
    deducts_vat: bool = ...,
    priced: bool = ...,
    max_usd_per_hour: float | None = ...,
    energy: bool = ...,
    power_limit_w: float | str | None = ...,
    sort: RowOrder | str = ...,
    training: Training | bool | None = ...,
) -> _ComparisonShown:
    """Put models, precisions and frameworks side by side on the same GPUs and batches.

    Without gpus, the GPUs are those that `capplan plan` recommends for the first model.

    Args:
        models: resnet50, timm:NAME, torchvision:NAME, ORG/NAME of the Hugging Face Hub, hf:config.json, hf:bert, FILE.py:Name, package.module:Name, a trace file, or a pipeline: diffusers:NAME, FILE.pipeline.yaml.
        batches: 8, 1,8,32, 1..1024 (powers of two), auto (the recommended), or max.
        precisions: fp32, tf32, fp32-ieee, fp16, bf16, amp-fp16, amp-bf16, int8, fp8; repeatable; fp32,fp16 by default.
        frameworks: eager, compile, compile-graphs, tensorrt, onnxruntime; repeatable; eager,compile by default.
        layouts: nchw, nhwc; repeatable; nchw by default.
        torch_version: PyTorch version to answer for; it decides kernels.
        arguments: Constructor or config argument; repeatable.
        inputs: An input such as x=3x224x224 or ids=int64:Nx128; N is the batch; repeatable.
        input_size: Image size, such as 3x640x640.
        seq_len: Tokens per sample, for text models.
        inputs_from: Function of the batch size that returns the inputs.
        prepare: Step before tracing: fuse, reparameterize, lora=16, merge_lora, drop_layers=2, torchao=NAME; repeatable.
        freeze: Train without the parameters whose names match, such as 'backbone.*'; repeatable.
        selected_share: Share of candidates that stay where the data decides: boxes after suppression, masks; 0.25 by default.
        as_cpu: Run the model's code as on a machine without a CUDA device; by default torch.cuda and tensors answer as with one.
        grad: Run inference with gradients on, as models of forces do that differentiate in their forward.
        new_tokens: Run the model's generate for N tokens: prefill of the input, then a step for each further token.
        weights: Quantise the weights of linear layers; NAME is a configuration of torchao, such as int8_dynamic.
        activations: Quantise their activations, too.
        gpus: A GPU such as l4 or 'RTX 4090', a family such as a100, or a list t4,l4; repeatable; all by default.
        vendors: NVIDIA, AMD, ...; repeatable.
        architectures: Hopper, ada-geforce, ...; repeatable.
        min_memory: At least this printed memory: 24GiB.
        where: 'bf16 >= 300 TFLOP/s', 'segment = consumer', 'tdp <= 75 W and l2 > 4MiB'; repeatable.
        specs: Own GPU specs, laid over the built-in ones.
        with_cpus: Answer for the x86 CPUs of the database, too: is a GPU needed at all?
        train: Answer for training steps instead of inference.
        optimizer: Optimizer of a training step.
        checkpointing: Recompute activations in the backward pass.
        accumulate: Micro-batches per optimizer step.
        host: The machine that launches kernels: one for all GPUs, by default a server, or for each card that of its own timings or its year.
        utilization_fraction: Share of usable memory that may be filled.
        max_latency_s: Latency limit per batch, such as 50ms.
        min_throughput_per_s: Samples per second wanted.
        providers: Only GPUs that this provider rents, at its prices; repeatable.
        regions: Only offers in this region, country (de) or area (eu); repeatable.
        currency: Also write the cost in this currency, with VAT: EUR at a dated reference rate, or EUR=1.08 at your own price in USD. That of regions by default.
        buyer: Country in which your company is established, such as de: its VAT and currency count.
        deducts_vat: You deduct VAT: it is not a cost.
        priced: Only GPUs with an on-demand price.
        max_usd_per_hour: Only GPUs whose smallest machine is rented for at most this an hour.
        energy: Show the power of the GPUs and the joules of a sample, or of an output token.
        power_limit_w: A power limit that is set on each GPU (nvidia-smi -pl), such as 300W: the time and energy under it.
        sort: Order the rows by asked, throughput, latency, memory, cost, energy; asked is the order of the command.

    Returns:
        A row for each model, number format, framework, layout, GPU and batch.

    Raises:
        UsageError: there is no such model or GPU, or no model is named.
        TraceError: a model could be traced under none of the conditions.
    """

def diff(
    before: str,
    after: str,
) -> _ChangesShown:
    """Describe what changed between two plans, or two reports, that were saved as JSON.

    Args:
        before: A plan or report as JSON.
        after: Another one.

    Raises:
        UsageError: one cannot be read, or they are not of one kind.
    """

def estimate(
    model: str | nn.Module | Trace,
    *,
    arguments: Mapping[str, Any] = ...,
    inputs: Sequence[str] | Callable[[int], Any] = ...,
    input_size: Sequence[int] | str | None = ...,
    seq_len: int | None = ...,
    inputs_from: str | None = ...,
    prepare: Sequence[str] | str | None = ...,
    freeze: Sequence[str] | str | None = ...,
    selected_share: float | None = ...,
    as_cpu: bool = ...,
    grad: bool = ...,
    new_tokens: int | None = ...,
    weights: str | None = ...,
    activations: str | None = ...,
    settings: Mapping[str, Any] = ...,
    part_settings: Mapping[str, Any] = ...,
    offload: Offload | str | None = ...,
    allow_code: bool = ...,
    ulysses: int = ...,
    ring: int = ...,
    batches: Sequence[int] | str | None = ...,
    gpus: str | Gpus | Sequence[str | GpuSpec] | None = ...,
    vendors: Sequence[str] | str | None = ...,
    architectures: Sequence[str] | str | None = ...,
    min_memory: str | None = ...,
    where: Sequence[str] | str | None = ...,
    specs: Sequence[str | Path] | str | None = ...,
    with_cpus: bool = ...,
    host: Host | str | None = ...,
    precision: Precision | str | None = ...,
    layout: Layout | str = ...,
    train: bool = ...,
    optimizer: Optimizer | str = ...,
    checkpointing: bool = ...,
    accumulate: int = ...,
    framework: Framework | str = ...,
    torch_version: tuple[int, int] | str = ...,
    providers: Sequence[str] | str | None = ...,
    regions: Sequence[str] | str | None = ...,
    priced: bool = ...,
    max_usd_per_hour: float | None = ...,
    calibration: str | Path | None = ...,
    energy: bool = ...,
    power_limit_w: float | str | None = ...,
    gain_fraction: float = ...,
    compare_frameworks: bool = ...,
    training: Training | bool | None = ...,
) -> _EstimateAnswerShown:
    """Estimate latency and throughput over batch sizes, with intervals, the knee and what binds.

    Args:
        arguments: Constructor or config argument; repeatable.
        inputs: An input such as x=3x224x224 or ids=int64:Nx128; N is the batch; repeatable.
        input_size: Image size, such as 3x640x640.
        seq_len: Tokens per sample, for text models.
        inputs_from: Function of the batch size that returns the inputs.
        prepare: Step before tracing: fuse, reparameterize, lora=16, merge_lora, drop_layers=2, torchao=NAME; repeatable.
        freeze: Train without the parameters whose names match, such as 'backbone.*'; repeatable.
        selected_share: Share of candidates that stay where the data decides: boxes after suppression, masks; 0.25 by default.
        as_cpu: Run the model's code as on a machine without a CUDA device; by default torch.cuda and tensors answer as with one.
        grad: Run inference with gradients on, as models of forces do that differentiate in their forward.
        new_tokens: Run the model's generate for N tokens: prefill of the input, then a step for each further token.
        weights: Quantise the weights of linear layers; NAME is a configuration of torchao, such as int8_dynamic.
        activations: Quantise their activations, too.
        model: resnet50, timm:NAME, torchvision:NAME, ORG/NAME of the Hugging Face Hub, hf:config.json, hf:bert, FILE.py:Name, package.module:Name, a trace file, or a pipeline: diffusers:NAME, FILE.pipeline.yaml.
        settings: Set a parameter of a pipeline, such as steps=28 or height=768; repeatable.
        part_settings: State how a part of a pipeline runs: vae.precision=fp32, unet.attention=flash-3, ...; repeatable.
        offload: Where the weights of a pipeline's waiting parts are; the fastest that fits by default.
        allow_code: Import models that a file names as Python code.
        ulysses: GPUs of a machine that share a pipeline's sequence by heads; times ring.
        ring: GPUs that share it in a ring of blocks; times ulysses.
        batches: 8, 1,8,32 or 1..64 (powers of two); 1..1024, or what a file is fixed to.
        gpus: A GPU such as l4 or 'RTX 4090', a family such as a100, or a list t4,l4; repeatable; all by default.
        vendors: NVIDIA, AMD, ...; repeatable.
        architectures: Hopper, ada-geforce, ...; repeatable.
        min_memory: At least this printed memory: 24GiB.
        where: 'bf16 >= 300 TFLOP/s', 'segment = consumer', 'tdp <= 75 W and l2 > 4MiB'; repeatable.
        specs: Own GPU specs, laid over the built-in ones.
        with_cpus: Answer for the x86 CPUs of the database, too: is a GPU needed at all?
        host: The machine that launches kernels: one for all GPUs, by default a server, or for each card that of its own timings or its year.
        precision: Number formats; by default the model's own, as PyTorch would run it.
        layout: Memory format of images: nhwc is channels_last.
        train: Answer for training steps instead of inference.
        optimizer: Optimizer of a training step.
        checkpointing: Recompute activations in the backward pass.
        accumulate: Micro-batches per optimizer step.
        framework: How the graph is executed.
        torch_version: PyTorch version to answer for; it decides kernels.
        providers: Only GPUs that this provider rents, at its prices; repeatable.
        regions: Only offers in this region, country (de) or area (eu); repeatable.
        priced: Only GPUs with an on-demand price.
        max_usd_per_hour: Only GPUs whose smallest machine is rented for at most this an hour.
        calibration: A calibration of your own; the shipped one by default.
        energy: Show the power of the GPUs and the joules of a sample, or of an output token.
        power_limit_w: A power limit that is set on each GPU (nvidia-smi -pl), such as 300W: the time and energy under it.
        gain_fraction: The knee: doubling gains less than this.
        compare_frameworks: Set eager, compiled, layouts and precisions side by side.

    Returns:
        Curves, breakdowns, bounds and advice for a model on each GPU.

    Raises:
        UsageError: there is no such model or GPU; a GPU cannot run the workload; or batches are not listed.
        TraceError: the model could not be traced.
        MissingRecordingError: a trace lacks the recording of this precision, layout or mode.
    """

def gpus(
    *,
    vendors: Sequence[str] | str | None = ...,
    architectures: Sequence[str] | str | None = ...,
    min_memory: str | None = ...,
    where: Sequence[str] | str | None = ...,
    specs: Sequence[str | Path] | str | None = ...,
    sort: str = ...,
    columns: Sequence[str] | str | None = ...,
    cpus: bool = ...,
    new_within_days: int | None = ...,
    announced: bool = ...,
) -> _GpuSpecsShown:
    """List the GPUs that capplan knows, with filters.

    Args:
        vendors: NVIDIA, AMD, ...; repeatable.
        architectures: Hopper, ada-geforce, ...; repeatable.
        min_memory: At least this printed memory: 24GiB.
        where: 'bf16 >= 300 TFLOP/s', 'segment = consumer', 'tdp <= 75 W and l2 > 4MiB'; repeatable.
        specs: Own GPU specs, laid over the built-in ones.
        sort: Sort by this column; -COLUMN puts the largest first.
        columns: Columns of a table, or all.
        cpus: List the x86 CPUs of the database instead of its GPUs.
        new_within_days: GPUs that are sold for so many days at most, by the day of their sheet.
        announced: GPUs that are announced and not sold yet, with what is expected.

    Raises:
        UsageError: a condition cannot be read, or names an unknown column, vendor or architecture.
    """

def make_report(
    *models: str | nn.Module | Trace | Sequence[str | nn.Module | Trace],
    batches: Sequence[int] | str = ...,
    load: str | Path | None = ...,
    compare_ways: bool = ...,
    storage_bytes_per_s: float | str | None = ...,
    provision_s: float | str | None = ...,
    image_bytes: float | str | None = ...,
    pull_bytes_per_s: float | str | None = ...,
    arguments: Mapping[str, Any] = ...,
    inputs: Sequence[str] | Callable[[int], Any] = ...,
    input_size: Sequence[int] | str | None = ...,
    seq_len: int | None = ...,
    inputs_from: str | None = ...,
    prepare: Sequence[str] | str | None = ...,
    freeze: Sequence[str] | str | None = ...,
    selected_share: float | None = ...,
    as_cpu: bool = ...,
    grad: bool = ...,
    new_tokens: int | None = ...,
    weights: str | None = ...,
    activations: str | None = ...,
    settings: Mapping[str, Any] = ...,
    part_settings: Mapping[str, Any] = ...,
    offload: Offload | str | None = ...,
    allow_code: bool = ...,
    gpus: str | Gpus | Sequence[str | GpuSpec] | None = ...,
    vendors: Sequence[str] | str | None = ...,
    architectures: Sequence[str] | str | None = ...,
    min_memory: str | None = ...,
    where: Sequence[str] | str | None = ...,
    specs: Sequence[str | Path] | str | None = ...,
    with_cpus: bool = ...,
    prices: Sequence[str | Path] | str | None = ...,
    measured: Sequence[str | Path] | str | None = ...,
    title: str | None = ...,
    wait_for: str | None = ...,
    usd_per_kwh: float | None = ...,
    host: Host | str | None = ...,
    precision: Precision | str | None = ...,
    layout: Layout | str = ...,
    train: bool = ...,
    optimizer: Optimizer | str = ...,
    checkpointing: bool = ...,
    accumulate: int = ...,
    framework: Framework | str = ...,
    torch_version: tuple[int, int] | str = ...,
    providers: Sequence[str] | str | None = ...,
    regions: Sequence[str] | str | None = ...,
    priced: bool = ...,
    max_usd_per_hour: float | None = ...,
    terms: Sequence[str] | str | None = ...,
    segments: Sequence[str] | str | None = ...,
    deny_providers: Sequence[str] | str | None = ...,
    deny_regions: Sequence[str] | str | None = ...,
    deny_gpus: Sequence[str] | str | None = ...,
    deny_segments: Sequence[str] | str | None = ...,
    marketplaces: bool = ...,
    any_vendor: bool = ...,
    max_capex_usd: float | str | None = ...,
    max_usd_per_year: float | str | None = ...,
    max_power_w: float | str | None = ...,
    max_rack_units: float | None = ...,
    certainty_fraction: float | str | None = ...,
    max_price_age_days: float | None = ...,
    currency: str | None = ...,
    buyer: str | None = ...,
    deducts_vat: bool = ...,
    utilization_fraction: float = ...,
    training: Training | bool | None = ...,
) -> _ReportShown:
    """Recommend which GPUs to buy or rent, how many, what they cost, and how sure that is.

    MODEL may also be a plan that `capplan plan --format json` saved.

    Args:
        models: resnet50, timm:NAME, torchvision:NAME, ORG/NAME of the Hugging Face Hub, hf:config.json, hf:bert, FILE.py:Name, package.module:Name, a trace file, or a pipeline: diffusers:NAME, FILE.pipeline.yaml. None where the load file lists services.
        batches: 8, 1,8,32 or 1..1024 (powers of two), which are compared.
        load: What is asked: a service, a job or a training purchase.
        compare_ways: Compare a fleet that stands, one that scales, GPUs by the second and an API over the hours of a service, as a section.
        storage_bytes_per_s: Rate at which the weights arrive, such as 2GB/s; from host memory by default.
        provision_s: Time until a new machine is there: 90s; the machine stands and holds the image by default.
        image_bytes: Image that a new machine pulls, 0 for none; 10 GB by default.
        pull_bytes_per_s: Rate at which a new machine pulls the image.
        arguments: Constructor or config argument; repeatable.
        inputs: An input such as x=3x224x224 or ids=int64:Nx128; N is the batch; repeatable.
        input_size: Image size, such as 3x640x640.
        seq_len: Tokens per sample, for text models.
        inputs_from: Function of the batch size that returns the inputs.
        prepare: Step before tracing: fuse, reparameterize, lora=16, merge_lora, drop_layers=2, torchao=NAME; repeatable.
        freeze: Train without the parameters whose names match, such as 'backbone.*'; repeatable.
        selected_share: Share of candidates that stay where the data decides: boxes after suppression, masks; 0.25 by default.
        as_cpu: Run the model's code as on a machine without a CUDA device; by default torch.cuda and tensors answer as with one.
        grad: Run inference with gradients on, as models of forces do that differentiate in their forward.
        new_tokens: Run the model's generate for N tokens: prefill of the input, then a step for each further token.
        weights: Quantise the weights of linear layers; NAME is a configuration of torchao, such as int8_dynamic.
        activations: Quantise their activations, too.
        settings: Set a parameter of a pipeline, such as steps=28 or height=768; repeatable.
        part_settings: State how a part of a pipeline runs: vae.precision=fp32, unet.attention=flash-3, ...; repeatable.
        offload: Where the weights of a pipeline's waiting parts are; the fastest that fits by default.
        allow_code: Import models that a file names as Python code.
        gpus: A GPU such as l4 or 'RTX 4090', a family such as a100, or a list t4,l4; repeatable; all by default.
        vendors: NVIDIA, AMD, ...; repeatable.
        architectures: Hopper, ada-geforce, ...; repeatable.
        min_memory: At least this printed memory: 24GiB.
        where: 'bf16 >= 300 TFLOP/s', 'segment = consumer', 'tdp <= 75 W and l2 > 4MiB'; repeatable.
        specs: Own GPU specs, laid over the built-in ones.
        with_cpus: Answer for the x86 CPUs of the database, too: is a GPU needed at all?
        prices: Own dated prices, laid over the built-in ones.
        measured: What `capplan measure` saved, to compare the estimates with.
        title: Title of the report.
        wait_for: Compare with waiting for this GPU, which is not sold yet; rented at USD an hour, or at a range.
        usd_per_kwh: What you pay for electricity, per kWh; by default that of the region, where it is known.
        host: The machine that launches kernels: one for all GPUs, by default a server, or for each card that of its own timings or its year.
        precision: Number formats; by default the model's own, as PyTorch would run it.
        layout: Memory format of images: nhwc is channels_last.
        train: Answer for training steps instead of inference.
        optimizer: Optimizer of a training step.
        checkpointing: Recompute activations in the backward pass.
        accumulate: Micro-batches per optimizer step.
        framework: How the graph is executed.
        torch_version: PyTorch version to answer for; it decides kernels.
        providers: Rent or buy from this provider only; repeatable.
        regions: Rent in this region only; repeatable.
        priced: Only GPUs with an on-demand price.
        max_usd_per_hour: Only GPUs whose smallest machine is rented for at most this an hour.
        terms: rent, buy, both, on-demand, spot, reserved-1y or reserved-3y; repeatable; both by default.
        segments: Consider this segment only, such as consumer (default: data-centre, workstation); repeatable.
        deny_providers: Never from this provider; repeatable.
        deny_regions: Never in this region; repeatable.
        deny_gpus: Never this GPU or family; repeatable.
        deny_segments: Never this segment; repeatable.
        marketplaces: Let offers of third-party hosts compete with vendors' offers.
        any_vendor: Let GPUs that need porting compete where no step was timed on their kind.
        max_capex_usd: Most that may be paid on the first day.
        max_usd_per_year: Most that may be paid in any later year.
        max_power_w: Most nameplate power of bought servers, such as 20kW.
        max_rack_units: Most rack units of bought servers.
        certainty_fraction: Share of scenarios that every fleet is sized for; 90% by default.
        max_price_age_days: Prices that are older count as old, and are not recommended without saying so; 180 by default.
        currency: Also write the cost in this currency, with VAT: EUR at a dated reference rate, or EUR=1.08 at your own price in USD. That of regions by default.
        buyer: Country in which your company is established, such as de: its VAT and currency count.
        deducts_vat: You deduct VAT: it is not a cost.
        utilization_fraction: Share of usable memory that may be filled.

    Raises:
        UsageError: there is no such model or GPU, no GPU is left, or a file does not hold what it must.
        TraceError: a model could not be traced.
    """

def measure(
    model: str | nn.Module | Trace,
    *,
    arguments: Mapping[str, Any] = ...,
    inputs: Sequence[str] | Callable[[int], Any] = ...,
    input_size: Sequence[int] | str | None = ...,
    seq_len: int | None = ...,
    inputs_from: str | None = ...,
    prepare: Sequence[str] | str | None = ...,
    freeze: Sequence[str] | str | None = ...,
    selected_share: float | None = ...,
    as_cpu: bool = ...,
    grad: bool = ...,
    new_tokens: int | None = ...,
    weights: str | None = ...,
    activations: str | None = ...,
    precision: Precision | str | None = ...,
    layout: Layout | str = ...,
    calibration: str | Path | None = ...,
    batches: Sequence[int] | str = ...,
    framework: Framework | str = ...,
    device: str | None = ...,
    warm_up_runs: int | None = ...,
    repetitions: int | None = ...,
    budget_s: float | str | None = ...,
    threads: int | None = ...,
    flush_l2: bool = ...,
    autotune: bool = ...,
    search: BatchSearch | str = ...,
    max_batch: int = ...,
    reserve: float = ...,
    memory_limit_bytes: float | str | None = ...,
    isolate: bool = ...,
    timeout_s: float | str | None = ...,
    gpu: str | GpuSpec | None = ...,
    specs: Sequence[str | Path] | str | None = ...,
    profile: str | Path | None = ...,
    modules: bool = ...,
    lines: str | Path | None = ...,
    resume: bool = ...,
) -> _PointsShown:
    """Time a model on the device at hand, and compare the measurement with theory.

    With -o FILE.jsonl every point is appended to that measurement file as it finishes; resume goes on where a run was interrupted. Exit codes: 4 where a point could not be measured (the others are kept), 130 when interrupted (what was measured is kept).

    Args:
        arguments: Constructor or config argument; repeatable.
        inputs: An input such as x=3x224x224 or ids=int64:Nx128; N is the batch; repeatable.
        input_size: Image size, such as 3x640x640.
        seq_len: Tokens per sample, for text models.
        inputs_from: Function of the batch size that returns the inputs.
        prepare: Step before tracing: fuse, reparameterize, lora=16, merge_lora, drop_layers=2, torchao=NAME; repeatable.
        freeze: Train without the parameters whose names match, such as 'backbone.*'; repeatable.
        selected_share: Share of candidates that stay where the data decides: boxes after suppression, masks; 0.25 by default.
        as_cpu: Run the model's code as on a machine without a CUDA device; by default torch.cuda and tensors answer as with one.
        grad: Run inference with gradients on, as models of forces do that differentiate in their forward.
        new_tokens: Run the model's generate for N tokens: prefill of the input, then a step for each further token.
        weights: Quantise the weights of linear layers; NAME is a configuration of torchao, such as int8_dynamic.
        activations: Quantise their activations, too.
        precision: Number formats; by default the model's own, as PyTorch would run it.
        layout: Memory format of images: nhwc is channels_last.
        calibration: A calibration of your own; the shipped one by default.
        model: As in `capplan plan`; no trace file.
        batches: 8, 1,8,32, 1..1024 (powers of two), auto (double until it stops paying), or max (find the largest).
        framework: How the graph is executed.
        device: cuda:0, xpu, mps, cpu; by default the first accelerator.
        warm_up_runs: Warm-up runs; by default until stable.
        repetitions: Repetitions; by default 50 or more until the median is known to 1 %.
        budget_s: Longest time of one point with its warm-up: 10s, and no limit with repetitions alone.
        threads: Threads of this host that PyTorch computes with; its own default otherwise.
        flush_l2: Displace the L2 cache before each repetition.
        autotune: Let cuDNN time its algorithms first.
        search: How batches max searches.
        max_batch: Cap of batches auto and max.
        reserve: Share of the available memory that batches max leaves free.
        memory_limit_bytes: Allocate at most this, such as 4GiB.
        isolate: Measure each point in a process of its own.
        timeout_s: End an isolated point after this.
        gpu: The device's GPU spec, if its name is unknown.
        specs: Own GPU specs, laid over the built-in ones.
        profile: Profile each batch into this folder: operators, Chrome trace.
        modules: Time each module by hooks, too, and set its counts and its estimate beside it.
        lines: A measurement file that points are appended to.
        resume: Skip what the measurement file already holds.

    Raises:
        UsageError: there is no such model or file, or the question contradicts itself.
        MeasurementError: there is no such device, or it cannot be used.
    """

def memory(
    model: str | nn.Module | Trace,
    *,
    arguments: Mapping[str, Any] = ...,
    inputs: Sequence[str] | Callable[[int], Any] = ...,
    input_size: Sequence[int] | str | None = ...,
    seq_len: int | None = ...,
    inputs_from: str | None = ...,
    prepare: Sequence[str] | str | None = ...,
    freeze: Sequence[str] | str | None = ...,
    selected_share: float | None = ...,
    as_cpu: bool = ...,
    grad: bool = ...,
    new_tokens: int | None = ...,
    weights: str | None = ...,
    activations: str | None = ...,
    settings: Mapping[str, Any] = ...,
    part_settings: Mapping[str, Any] = ...,
    offload: Offload | str | None = ...,
    allow_code: bool = ...,
    ulysses: int = ...,
    ring: int = ...,
    batch: int | None = ...,
    gpus: str | Gpus | Sequence[str | GpuSpec] | None = ...,
    vendors: Sequence[str] | str | None = ...,
    architectures: Sequence[str] | str | None = ...,
    min_memory: str | None = ...,
    where: Sequence[str] | str | None = ...,
    specs: Sequence[str | Path] | str | None = ...,
    with_cpus: bool = ...,
    precision: Precision | str | None = ...,
    layout: Layout | str = ...,
    train: bool = ...,
    optimizer: Optimizer | str = ...,
    checkpointing: bool = ...,
    accumulate: int = ...,
    framework: Framework | str = ...,
    torch_version: tuple[int, int] | str = ...,
    utilization_fraction: float = ...,
    strict: bool = ...,
    rank_count: int = ...,
    shardings: Sequence[ModelSharding | str] | str | None = ...,
    expandable_segments: bool = ...,
    advice: bool = ...,
    training: Training | bool | None = ...,
) -> _MemorySummaryShown:
    """Estimate how much GPU memory a model needs, by part, and the largest batch that fits.

    Args:
        arguments: Constructor or config argument; repeatable.
        inputs: An input such as x=3x224x224 or ids=int64:Nx128; N is the batch; repeatable.
        input_size: Image size, such as 3x640x640.
        seq_len: Tokens per sample, for text models.
        inputs_from: Function of the batch size that returns the inputs.
        prepare: Step before tracing: fuse, reparameterize, lora=16, merge_lora, drop_layers=2, torchao=NAME; repeatable.
        freeze: Train without the parameters whose names match, such as 'backbone.*'; repeatable.
        selected_share: Share of candidates that stay where the data decides: boxes after suppression, masks; 0.25 by default.
        as_cpu: Run the model's code as on a machine without a CUDA device; by default torch.cuda and tensors answer as with one.
        grad: Run inference with gradients on, as models of forces do that differentiate in their forward.
        new_tokens: Run the model's generate for N tokens: prefill of the input, then a step for each further token.
        weights: Quantise the weights of linear layers; NAME is a configuration of torchao, such as int8_dynamic.
        activations: Quantise their activations, too.
        model: resnet50, timm:NAME, torchvision:NAME, ORG/NAME of the Hugging Face Hub, hf:config.json, hf:bert, FILE.py:Name, package.module:Name, a trace file, or a pipeline: diffusers:NAME, FILE.pipeline.yaml.
        settings: Set a parameter of a pipeline, such as steps=28 or height=768; repeatable.
        part_settings: State how a part of a pipeline runs: vae.precision=fp32, unet.attention=flash-3, ...; repeatable.
        offload: Where the weights of a pipeline's waiting parts are; the fastest that fits by default.
        allow_code: Import models that a file names as Python code.
        ulysses: GPUs of a machine that share a pipeline's sequence by heads; times ring.
        ring: GPUs that share it in a ring of blocks; times ulysses.
        batch: Batch size on each GPU; 1, or what a file is fixed to.
        gpus: A GPU such as l4 or 'RTX 4090', a family such as a100, or a list t4,l4; repeatable; all by default.
        vendors: NVIDIA, AMD, ...; repeatable.
        architectures: Hopper, ada-geforce, ...; repeatable.
        min_memory: At least this printed memory: 24GiB.
        where: 'bf16 >= 300 TFLOP/s', 'segment = consumer', 'tdp <= 75 W and l2 > 4MiB'; repeatable.
        specs: Own GPU specs, laid over the built-in ones.
        with_cpus: Answer for the x86 CPUs of the database, too: is a GPU needed at all?
        precision: Number formats; by default the model's own, as PyTorch would run it.
        layout: Memory format of images: nhwc is channels_last.
        train: Answer for training steps instead of inference.
        optimizer: Optimizer of a training step.
        checkpointing: Recompute activations in the backward pass.
        accumulate: Micro-batches per optimizer step.
        framework: How the graph is executed.
        torch_version: PyTorch version to answer for; it decides kernels.
        utilization_fraction: Share of usable memory that may be filled.
        strict: Refuse a model with operators that could not be counted.
        rank_count: GPUs that share the work.
        shardings: How they share it: replicas, ddp, zero1, zero2, zero3, fsdp; repeatable; all that apply by default.
        expandable_segments: As with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.
        advice: Work out what other precisions, layouts, optimizers, ... would save.

    Raises:
        UsageError: there is no such model or GPU; or the batch is too large for any device.
        TraceError: the model could not be traced, or is refused by `strict`.
        MissingRecordingError: a trace lacks the recording of this precision, layout or mode.
    """

def plan(
    model: str | nn.Module | Trace,
    *,
    arguments: Mapping[str, Any] = ...,
    inputs: Sequence[str] | Callable[[int], Any] = ...,
    input_size: Sequence[int] | str | None = ...,
    seq_len: int | None = ...,
    inputs_from: str | None = ...,
    prepare: Sequence[str] | str | None = ...,
    freeze: Sequence[str] | str | None = ...,
    selected_share: float | None = ...,
    as_cpu: bool = ...,
    grad: bool = ...,
    new_tokens: int | None = ...,
    weights: str | None = ...,
    activations: str | None = ...,
    settings: Mapping[str, Any] = ...,
    part_settings: Mapping[str, Any] = ...,
    offload: Offload | str | None = ...,
    allow_code: bool = ...,
    ulysses: int = ...,
    ring: int = ...,
    batches: Sequence[int] | str = ...,
    gpu_count: int = ...,
    sharding: ModelSharding | str = ...,
    gpus: str | Gpus | Sequence[str | GpuSpec] | None = ...,
    vendors: Sequence[str] | str | None = ...,
    architectures: Sequence[str] | str | None = ...,
    min_memory: str | None = ...,
    where: Sequence[str] | str | None = ...,
    specs: Sequence[str | Path] | str | None = ...,
    with_cpus: bool = ...,
    host: Host | str | None = ...,
    precision: Precision | str | None = ...,
    layout: Layout | str = ...,
    train: bool = ...,
    optimizer: Optimizer | str = ...,
    checkpointing: bool = ...,
    accumulate: int = ...,
    framework: Framework | str = ...,
    torch_version: tuple[int, int] | str = ...,
    utilization_fraction: float = ...,
    max_latency_s: float | str | None = ...,
    min_throughput_per_s: float | None = ...,
    energy: bool = ...,
    power_limit_w: float | str | None = ...,
    max_power_draw_w: float | str | None = ...,
    samples: int | str | None = ...,
    epochs: float = ...,
    providers: Sequence[str] | str | None = ...,
    regions: Sequence[str] | str | None = ...,
    currency: str | None = ...,
    buyer: str | None = ...,
    deducts_vat: bool = ...,
    priced: bool = ...,
    max_usd_per_hour: float | None = ...,
    strict: bool = ...,
    calibration: str | Path | None = ...,
    week_file: str | Path | None = ...,
    requests_per_day: float | None = ...,
    days_in_use: int = ...,
    storage_bytes_per_s: float | str | None = ...,
    provision_s: float | str | None = ...,
    image_bytes: float | str | None = ...,
    pull_bytes_per_s: float | str | None = ...,
    compare_ways: bool = ...,
    rate_per_s: float | str | None = ...,
    measured: Sequence[str | Path] | str | None = ...,
    sort: SortKey | str = ...,
    training: Training | bool | None = ...,
) -> _PlanShown:
    """Find the GPUs that fit a model, how fast it runs there and what binds it.

    Args:
        arguments: Constructor or config argument; repeatable.
        inputs: An input such as x=3x224x224 or ids=int64:Nx128; N is the batch; repeatable.
        input_size: Image size, such as 3x640x640.
        seq_len: Tokens per sample, for text models.
        inputs_from: Function of the batch size that returns the inputs.
        prepare: Step before tracing: fuse, reparameterize, lora=16, merge_lora, drop_layers=2, torchao=NAME; repeatable.
        freeze: Train without the parameters whose names match, such as 'backbone.*'; repeatable.
        selected_share: Share of candidates that stay where the data decides: boxes after suppression, masks; 0.25 by default.
        as_cpu: Run the model's code as on a machine without a CUDA device; by default torch.cuda and tensors answer as with one.
        grad: Run inference with gradients on, as models of forces do that differentiate in their forward.
        new_tokens: Run the model's generate for N tokens: prefill of the input, then a step for each further token.
        weights: Quantise the weights of linear layers; NAME is a configuration of torchao, such as int8_dynamic.
        activations: Quantise their activations, too.
        model: resnet50, timm:NAME, torchvision:NAME, ORG/NAME of the Hugging Face Hub, hf:config.json, hf:bert, FILE.py:Name, package.module:Name, a trace file, or a pipeline: diffusers:NAME, FILE.pipeline.yaml.
        settings: Set a parameter of a pipeline, such as steps=28 or height=768; repeatable.
        part_settings: State how a part of a pipeline runs: vae.precision=fp32, unet.attention=flash-3, ...; repeatable.
        offload: Where the weights of a pipeline's waiting parts are; the fastest that fits by default.
        allow_code: Import models that a file names as Python code.
        ulysses: GPUs of a machine that share a pipeline's sequence by heads; times ring.
        ring: GPUs that share it in a ring of blocks; times ulysses.
        batches: 8, 1,8,32, 1..1024 (powers of two), auto (the recommended batch), or max.
        gpu_count: GPUs of one machine that train together, each with a batch of its own; with train.
        sharding: What they share: ddp sums gradients, zero1 spreads optimizer states, zero2 gradients too, zero3 and fsdp the weights as well; with train and gpu_count.
        gpus: A GPU such as l4 or 'RTX 4090', a family such as a100, or a list t4,l4; repeatable; all by default.
        vendors: NVIDIA, AMD, ...; repeatable.
        architectures: Hopper, ada-geforce, ...; repeatable.
        min_memory: At least this printed memory: 24GiB.
        where: 'bf16 >= 300 TFLOP/s', 'segment = consumer', 'tdp <= 75 W and l2 > 4MiB'; repeatable.
        specs: Own GPU specs, laid over the built-in ones.
        with_cpus: Answer for the x86 CPUs of the database, too: is a GPU needed at all?
        host: The machine that launches kernels: one for all GPUs, by default a server, or for each card that of its own timings or its year.
        precision: Number formats; by default the model's own, as PyTorch would run it.
        layout: Memory format of images: nhwc is channels_last.
        train: Answer for training steps instead of inference.
        optimizer: Optimizer of a training step.
        checkpointing: Recompute activations in the backward pass.
        accumulate: Micro-batches per optimizer step.
        framework: How the graph is executed.
        torch_version: PyTorch version to answer for; it decides kernels.
        utilization_fraction: Share of usable memory that may be filled.
        max_latency_s: Latency limit per batch, such as 50ms.
        min_throughput_per_s: Samples per second wanted.
        energy: Show the power of the GPUs and the joules of a sample, or of an output token.
        power_limit_w: A power limit that is set on each GPU (nvidia-smi -pl), such as 300W: the time and energy under it.
        max_power_draw_w: Most mean power of all GPUs of an answer, without the host, such as 400W.
        samples: Samples of a whole job, such as 1M: adds the GPU-hours it takes.
        epochs: How often the job takes each of its samples.
        providers: Only GPUs that this provider rents, at its prices; repeatable.
        regions: Only offers in this region, country (de) or area (eu); repeatable.
        currency: Also write the cost in this currency, with VAT: EUR at a dated reference rate, or EUR=1.08 at your own price in USD. That of regions by default.
        buyer: Country in which your company is established, such as de: its VAT and currency count.
        deducts_vat: You deduct VAT: it is not a cost.
        priced: Only GPUs with an on-demand price.
        max_usd_per_hour: Only GPUs whose smallest machine is rented for at most this an hour.
        strict: Refuse a model with operators that could not be counted.
        calibration: A calibration of your own; the shipped one by default.
        week_file: WEEK.yaml: day (24 numbers) or week (168), requests_per_day, days_per_week, bursts.
        requests_per_day: Requests of a day in use, spread as an office uses them, instead of week_file.
        days_in_use: Days of a week with load, beside requests_per_day.
        storage_bytes_per_s: Rate at which the weights arrive, such as 2GB/s; from host memory by default.
        provision_s: Time until a new machine is there: 90s; the machine stands and holds the image by default.
        image_bytes: Image that a new machine pulls, 0 for none; 10 GB by default.
        pull_bytes_per_s: Rate at which a new machine pulls the image.
        compare_ways: Compare a fleet that stands, one that scales, GPUs by the second and an API over a week: week_file or requests_per_day, or a rate_per_s that stays.
        rate_per_s: A load in samples per second, such as 500/s: how many GPUs carry it, and what they cost.
        measured: What `capplan measure` or `accept` saved of this model, beside the files of CAPPLAN_MEASURED.
        sort: Rank by throughput, latency, memory, cost, price, energy, name; memory puts the smallest GPU first, price the cheapest hour.

    Returns:
        The plan that answers a question.

    Raises:
        UsageError: no such model or GPU; or batches must be listed for a model that does not scale with the batch.
        TraceError: the model could not be traced, or is refused by `strict`.
        MissingRecordingError: a trace lacks the recording of this precision, layout or mode.
    """

def prices(
    *,
    gpus: str | Gpus | Sequence[str | GpuSpec] | None = ...,
    providers: Sequence[str] | str | None = ...,
    regions: Sequence[str] | str | None = ...,
    terms: Sequence[Term | str] | str | None = ...,
    tiers: Sequence[PriceTier | str] | str | None = ...,
    max_age_days: int | None = ...,
    old: bool = ...,
    history: bool = ...,
    specs: Sequence[str | Path] | str | None = ...,
) -> _PricesShown:
    """List what GPUs cost to rent and to buy, each price with its day and how it is known.

    Args:
        gpus: Only this GPU; repeatable.
        providers: Only this provider; repeatable.
        regions: Only this region, country (de) or area (eu), with offers that may be there; repeatable.
        terms: Only this term: buy, on-demand, spot, community, flex-start, capacity-block, reserved-3mo, reserved-6mo, reserved-1y, reserved-3y; repeatable.
        tiers: Only prices known this way: quoted, published, hearsay; repeatable.
        max_age_days: Leave out older prices and those of unknown age.
        old: Only what max_age_days would leave out.
        history: Also prices that a newer day replaced.
        specs: Own GPU specs, laid over the built-in ones.

    Returns:
        The prices that pass filters, the newest of each offer unless `history` is asked for.

    Raises:
        UsageError: `old` without `max_age_days`.
        UnknownNameError: a GPU, provider or region that no price names.
    """

def query(
    folder: str | Path,
    sql: str,
    *,
    against: str | Path | None = ...,
    where: Sequence[str] | str | None = ...,
    threshold: float | str = ...,
    limit: int | None = ...,
) -> Table:
    """Ask the results of a sweep.

    The columns are listed in docs/sweeps.md; latency_s, total_bytes, usd_per_million_samples and fits are among them. `regressions` exits with 1 where something got worse, and with 2 where nothing can be compared.

    Args:
        folder: What `capplan sweep -o` wrote.
        sql: A query of the table `sweep` in DuckDB's SQL, or cheapest, fastest, quickest, fits, failures, regressions.
        against: Older results: the table `old`.
        where: Rows a named question is about, such as "gpu = 'l4'"; repeatable.
        threshold: Changes up to this share are no regressions.
        limit: At most so many rows.

    Raises:
        UsageError: the folder holds no results, the query is refused, or nothing can be compared.
    """

def sweep(
    definition: str | Path | Mapping[str, Any],
    output: str | Path,
    *,
    workers: int | None = ...,
    ray: str | None = ...,
    time_limit_s: float | str = ...,
    memory_limit_bytes: float | str | None = ...,
    measure: bool = ...,
    budget_s: float | str = ...,
    specs: Sequence[str | Path] | str | None = ...,
    allow_code: bool = ...,
    retry_failed: bool = ...,
    force: bool = ...,
) -> SweepResults:
    """Plan many models on many GPUs, and keep the table.

    A second run computes only what changed, and an interrupted one goes on. A model that cannot be traced, hangs or takes too much memory costs its own rows. `capplan query FOLDER` asks the table.

    Args:
        workers: Processes on this machine; one a core by default.
        ray: Run on this Ray cluster instead of this machine alone.
        time_limit_s: Time that one model may take to trace, such as 90s.
        memory_limit_bytes: Memory of one process, such as 8GiB; by default an even share of the machine's.
        measure: Time every point that fits on the devices at hand (of the cluster), too.
        budget_s: Time of the repetitions of one measured point.
        definition: Models, GPUs and workloads; see docs/sweeps.md.
        output: Folder of the results, made or gone on with.
        specs: Own GPU specs, laid over the built-in ones.
        allow_code: Import models that the file names as Python code.
        retry_failed: Compute models again that failed before.
        force: Replace the results of another sweep.

    Raises:
        UsageError: a name or glob matches nothing, a key is unknown, or the folder holds something else.
    """

def trace(
    model: str | nn.Module | Trace,
    *,
    arguments: Mapping[str, Any] = ...,
    inputs: Sequence[str] | Callable[[int], Any] = ...,
    input_size: Sequence[int] | str | None = ...,
    seq_len: int | None = ...,
    inputs_from: str | None = ...,
    prepare: Sequence[str] | str | None = ...,
    freeze: Sequence[str] | str | None = ...,
    selected_share: float | None = ...,
    as_cpu: bool = ...,
    grad: bool = ...,
    new_tokens: int | None = ...,
    weights: str | None = ...,
    activations: str | None = ...,
    train: bool = ...,
    optimizer: Optimizer | str = ...,
    checkpointing: bool = ...,
    accumulate: int = ...,
    precisions: Sequence[Precision | str] | str | None = ...,
    layout: Layout | str = ...,
    exact_batch: int | None = ...,
    anonymous: bool = ...,
    formulas: Mapping[str, Any] = ...,
    training: Training | bool | None = ...,
) -> _TraceShown:
    """Trace a model into a file, from which everything else is arithmetic.

    Args:
        arguments: Constructor or config argument; repeatable.
        inputs: An input such as x=3x224x224 or ids=int64:Nx128; N is the batch; repeatable.
        input_size: Image size, such as 3x640x640.
        seq_len: Tokens per sample, for text models.
        inputs_from: Function of the batch size that returns the inputs.
        prepare: Step before tracing: fuse, reparameterize, lora=16, merge_lora, drop_layers=2, torchao=NAME; repeatable.
        freeze: Train without the parameters whose names match, such as 'backbone.*'; repeatable.
        selected_share: Share of candidates that stay where the data decides: boxes after suppression, masks; 0.25 by default.
        as_cpu: Run the model's code as on a machine without a CUDA device; by default torch.cuda and tensors answer as with one.
        grad: Run inference with gradients on, as models of forces do that differentiate in their forward.
        new_tokens: Run the model's generate for N tokens: prefill of the input, then a step for each further token.
        weights: Quantise the weights of linear layers; NAME is a configuration of torchao, such as int8_dynamic.
        activations: Quantise their activations, too.
        model: resnet50, timm:NAME, torchvision:NAME, ORG/NAME of the Hugging Face Hub, hf:config.json, hf:bert, FILE.py:Name, package.module:Name, a trace file, or a pipeline: diffusers:NAME, FILE.pipeline.yaml.
        train: Answer for training steps instead of inference.
        optimizer: Optimizer of a training step.
        checkpointing: Recompute activations in the backward pass.
        accumulate: Micro-batches per optimizer step.
        precisions: Number formats to record; repeatable; fp16 stands for bf16 too.
        layout: Memory format of images: nhwc is channels_last.
        exact_batch: Trace at this batch alone, for models that do not grow evenly.
        anonymous: Drop the names of modules and parameters.
        formulas: Functions of an `OperatorCall` that count the FLOPs of operators that capplan does not know, by name (`my::op`).

    Returns:
        The trace of a model on the meta device, with one recording for each variant of the number formats.

    Raises:
        UsageError: there is no such model, or it does not take these arguments and inputs.
        TraceError: the model could not be traced.
    """

def validate(
    *measured: Sequence[str | Path] | str | None,
    specs: Sequence[str | Path] | str | None = ...,
    traces: str | Path | None = ...,
    allow_code: bool = ...,
    calibration: str | Path | None = ...,
    by: Sequence[str] | str = ...,
    host_copy: bool = ...,
) -> _ValidateAnswerShown:
    """Compare predictions with measurements: error, bias, coverage and ranks per cell, and the worst rows.

    Columns: model, gpu, framework, torch, precision, layout, task, batch (of one GPU), input_size or seq_len, latency_ms or samples_per_s (of all GPUs); optionally optimizer (momentum unless named), gpus (of one machine, each with a batch of its own), power_w (the mean draw, below the card's limit), reparam and fast_norm (timm's switches), peak_allocated_bytes, arg (KEY=VALUE for constructor or config, such as attn_implementation=eager) and host_copy (1 where the timer held the copy of the inputs). Rows of pipelines have the columns model, gpu, batch and batch_latency_s; optionally ulysses_degree, ring_degree, steps, height, width, frames, weights. Files of `capplan measure` (.jsonl) are read, too.

    Args:
        measured: Measurements: CSV, .csv.gz, Parquet or .jsonl of measure.
        specs: Own GPU specs, laid over the built-in ones.
        traces: Keep traces here; by default in the user's cache.
        allow_code: Import the Python files and packages that rows name; else these are skipped.
        calibration: A calibration of your own; the shipped one by default.
        by: Columns that make a cell.
        host_copy: The timers held the copy of the inputs from the host, too.

    Returns:
        The errors of predictions by cell and over all rows, and every row with its prediction.

    Raises:
        UsageError: a file is missing, unreadable or lacks a column.
        UnknownNameError: `by` does not name a column.
    """
