"""capplan: which GPU fits this model, how fast it runs there and what it costs, before anyone buys one.

Made by `python -m capplan.api.stub` from the verbs' statements; do not edit.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from capplan.api.client import Client as Client
from capplan.api.verbs import analyze as analyze, calibrate as calibrate, compare as compare, estimate as estimate, load_gpus as load_gpus, load_trace as load_trace, make_report as make_report, measure as measure, memory as memory, read_sweep as read_sweep, sweep as sweep, trace as trace, validate as validate
from capplan.app.answers import PlanAnswer
from capplan.core.gpus.spec import GpuSpec
from capplan.core.plan.order import SortKey
from capplan.core.trace.types import Trace
from capplan.core.workload import Framework, Layout, Optimizer, Precision, Training
from capplan.specs.gpus.load import Gpus
from capplan.version import __version__ as __version__

def plan(
    model: str | nn.Module | Trace,
    *,
    arguments: Mapping[str, Any] = ...,
    inputs: Sequence[str] | Callable[[int], Any] = ...,
    input_size: Sequence[int] | str | None = ...,
    seq_len: int | None = ...,
    inputs_from: str | None = ...,
    prepare: Sequence[str] | str | None = ...,
    selected_share: float | None = ...,
    weights: str | None = ...,
    activations: str | None = ...,
    batches: Sequence[int] | str = ...,
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
    precision: Precision | str | None = ...,
    framework: Framework | str = ...,
    layout: Layout | str = ...,
    torch_version: tuple[int, int] | str = ...,
    utilization_fraction: float = ...,
    max_latency_s: float | str | None = ...,
    min_throughput_per_s: float | None = ...,
    samples: int | None = ...,
    epochs: float = ...,
    providers: Sequence[str] | str | None = ...,
    priced: bool = ...,
    max_usd_per_hour: float | None = ...,
    strict: bool = ...,
    calibration: str | Path | None = ...,
    sort: SortKey | str = ...,
    training: Training | bool | None = ...,
) -> PlanAnswer:
    """Find the GPUs that fit a model, how fast it runs there and what binds it.

    Args:
        model: resnet50, timm:NAME, torchvision:NAME, hf:config.json, hf:bert, FILE.py:Name, package.module:Name, or a trace file.
        arguments: Constructor or config argument; repeatable.
        inputs: An input such as x=3x224x224 or ids=int64:Nx128; N is the batch; repeatable.
        input_size: Image size, such as 3x640x640.
        seq_len: Tokens per sample, for text models.
        inputs_from: Function of the batch size that returns the inputs.
        prepare: Step before tracing: fuse, reparameterize, lora=16, merge_lora, drop_layers=2, torchao=NAME; repeatable.
        selected_share: Share of candidates that stay where the data decides: boxes after suppression, masks; 0.25 by default.
        weights: Quantise the weights of linear layers; NAME is a configuration of torchao, such as int8_dynamic.
        activations: Quantise their activations, too.
        batches: 8, 1,8,32, 1..1024 (powers of two), auto (the recommended batch), or max.
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
        precision: Number formats; by default the model's own, as PyTorch would run it.
        framework: How the graph is executed.
        layout: Memory format of images: nhwc is channels_last.
        torch_version: PyTorch version to answer for; it decides kernels.
        utilization_fraction: Share of usable memory that may be filled.
        max_latency_s: Latency limit per batch, such as 50ms.
        min_throughput_per_s: Samples per second wanted.
        samples: Samples of a whole job: adds the GPU-hours it takes.
        epochs: How often the job takes each of its samples.
        providers: Only GPUs that this provider rents, at its prices; repeatable.
        priced: Only GPUs with an on-demand price.
        max_usd_per_hour: Only GPUs up to this price per hour.
        strict: Refuse a model with operators that could not be counted.
        calibration: A calibration of your own; the shipped one by default.
        sort: Rank by throughput, latency, memory, cost, name; memory puts the smallest GPU first.
    """
