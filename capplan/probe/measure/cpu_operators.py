"""Time operators of models' sizes on the CPU at hand, each with the recording of what it runs."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from capplan.core.calibrate.cpus import TimedOperator
from capplan.core.calibrate.device import CopySpeed, DeviceBenchmark, MatmulSpeed
from capplan.core.workload import Precision, Workload
from capplan.errors import MeasurementError
from capplan.probe.foreign.code import model_code
from capplan.probe.inputs.grammar import ModelInputs
from capplan.probe.measure.devices import cpu_name
from capplan.probe.trace.tracer import trace_module

_BUDGET_S, _LONG_BUDGET_S, _ROUNDS_BUDGET_S, _FEWEST, _MOST = 0.15, 1.0, 8.0, 5, 200
Clock = Callable[[], float]


class _Call(nn.Module):
    """A function of tensors as a module."""

    def __init__(self, call: Callable[..., Tensor]) -> None:
        super().__init__()
        self._call = call

    def forward(self, *given: Tensor) -> Tensor:
        return self._call(*given)


def _random_inputs(shapes: tuple[tuple[int, ...], ...], _batch: int, device: Any) -> ModelInputs:
    """Make inputs of fixed shapes, whatever the batch."""
    chance = torch.Generator("cpu").manual_seed(0)
    made = tuple(torch.randn(shape, generator=chance, device="cpu").to(device) for shape in shapes)
    return ModelInputs(args=made, kwargs={}, names=tuple(f"x{index}" for index in range(len(made))))


def time_operators(precision: Precision, *, clock: Clock = time.perf_counter) -> list[TimedOperator]:
    """Time some sixty operators one after the other, in rounds, each on inputs that were just written; in ten seconds.

    A model runs each of its operators once: weights and code come from beyond the first caches, its input does not.
    """
    dtype = torch.bfloat16 if precision is Precision.BF16 else torch.float32
    configuration = Workload(precision=precision).configuration
    recordings, calls = [], []
    operators = {**_convolutions(), **_products(), **_norms_and_activations(), **_moves_and_pools()}
    for name, (module, shapes) in operators.items():
        inputs = partial(_random_inputs, shapes)
        trace = trace_module(module.eval(), inputs, name=name, configurations=[configuration], exact_batch=1)
        recordings.append((name, trace.recording(configuration)))
        calls.append((module.to(dtype), [argument.to(dtype) for argument in inputs(1, "cpu").args]))
    spent_s: list[list[float]] = [[] for _ in calls]
    started = time.perf_counter()
    with torch.inference_mode():
        for count in range(_MOST):
            for index, (module, given) in enumerate(calls):
                for argument in given:
                    argument.add_(0)
                before = clock()
                module(*given)
                if count:  # the first round compiles kernels
                    spent_s[index].append(clock() - before)
            if count >= _FEWEST and time.perf_counter() - started > _ROUNDS_BUDGET_S:
                break
    return [
        TimedOperator(name=name, recording=recording, precision=precision, latency_s=median(rounds_s))
        for (name, recording), rounds_s in zip(recordings, spent_s, strict=True)
    ]


def benchmark_cpu(*, clock: Clock = time.perf_counter, budget_s: float = _LONG_BUDGET_S) -> DeviceBenchmark:
    """Measure what the CPU at hand reaches: products in fp32 and bf16, copies, the cost of a call."""
    tiny = torch.zeros(1)
    with torch.inference_mode(), model_code("timing this CPU", error=MeasurementError):
        matmuls = tuple(
            MatmulSpeed(precision=precision, size=size, latency_s=_product_s(size, precision, clock, budget_s))
            for precision in (Precision.FP32_IEEE, Precision.BF16)
            for size in (256, 512, 1024)
        )
        copies = tuple(
            CopySpeed(size_bytes=2**power, latency_s=_copy_s(2**power, clock, budget_s)) for power in (16, 20, 24, 27)
        )
        dispatch_s = typical_s(lambda: tiny.add_(1), clock)
    return DeviceBenchmark(
        device=cpu_name(),
        torch=torch.__version__,
        matmuls=matmuls,
        copies=copies,
        kernel_s=None,
        dispatch_s=dispatch_s,
        context_bytes=None,
        total_bytes=None,
        usable_bytes=None,
    )


def _product_s(size: int, precision: Precision, clock: Clock, budget_s: float) -> float:
    dtype = torch.bfloat16 if precision is Precision.BF16 else torch.float32
    first, second = torch.randn(size, size).to(dtype), torch.randn(size, size).to(dtype)
    out = torch.empty(size, size, dtype=dtype)
    return typical_s(lambda: torch.mm(first, second, out=out), clock, budget_s)


def _copy_s(size_bytes: int, clock: Clock, budget_s: float) -> float:
    source = torch.randn(size_bytes // 4)
    target = torch.empty_like(source)
    return typical_s(lambda: target.copy_(source), clock, budget_s)


def call_time_s(*, clock: Clock = time.perf_counter) -> float:
    """Time a call of a module on tensors too small to compute on: the mean of five kinds. [s]"""
    image, rows = torch.zeros(1, 8, 8, 8), torch.zeros(1, 8, 8)
    calls: list[tuple[nn.Module, Tensor]] = [
        (nn.Conv2d(8, 8, 3).eval(), image), (nn.BatchNorm2d(8).eval(), image), (nn.ReLU(), image),
        (nn.Linear(8, 8).eval(), rows), (nn.LayerNorm(8).eval(), rows),
    ]  # fmt: skip
    with torch.inference_mode():
        return sum(typical_s(lambda m=module, x=given: m(x), clock) for module, given in calls) / len(calls)  # type: ignore[misc] # a lambda with defaults


def undisturbed_clock() -> Clock:
    """Return the clock that other programs disturb least: the thread's own time where PyTorch uses one thread."""
    return time.thread_time if torch.get_num_threads() == 1 else time.perf_counter


def typical_s(call: Callable[[], object], clock: Clock, budget_s: float = _BUDGET_S) -> float:
    """Return the median time of a call, once it has run to warm up. [s]"""
    call()
    started, spent_s = time.perf_counter(), []
    for count in range(_MOST):
        before = clock()
        call()
        spent_s.append(clock() - before)
        if count >= _FEWEST and time.perf_counter() - started > budget_s:
            break
    return median(spent_s)


_Shapes = tuple[tuple[int, ...], ...]


def _convolution(inputs: int, outputs: int, window: int, size: int, **others: int) -> tuple[nn.Module, _Shapes]:
    padding = others.pop("padding", window // 2)
    module = nn.Conv2d(inputs, outputs, window, padding=padding, bias=False, **others)  # type: ignore[arg-type] # integers
    return module, ((1, inputs, size, size),)


_IMAGE, _TOKENS, _HEADS = (1, 64, 56, 56), (1, 197, 768), (1, 12, 197, 64)


# Modules with the shapes of their inputs, as image models and transformers of usual sizes run them.


def _convolutions() -> Mapping[str, tuple[nn.Module, _Shapes]]:
    return {
        "conv 64": _convolution(64, 64, 3, 56),
        "conv 128": _convolution(128, 128, 3, 28),
        "conv 256": _convolution(256, 256, 3, 14),
        "conv 512": _convolution(512, 512, 3, 7),
        "conv 192": _convolution(192, 384, 3, 13),
        "conv 32": _convolution(32, 32, 3, 112),
        "conv 128 stride 2": _convolution(128, 128, 3, 56, stride=2),
        "conv 1x1 64": _convolution(64, 256, 1, 56),
        "conv 1x1 256": _convolution(256, 64, 1, 56),
        "conv 1x1 1024": _convolution(1024, 256, 1, 14),
        "conv 1x1 96": _convolution(24, 144, 1, 56),
        "conv 1x1 240": _convolution(240, 40, 1, 28),
        "conv 1x1 960": _convolution(160, 960, 1, 7),
        "conv stem 7": _convolution(3, 64, 7, 224, stride=2),
        "conv stem 3": _convolution(3, 32, 3, 224, stride=2),
        "conv patch": _convolution(3, 768, 16, 224, stride=16, padding=0),
        "conv patch 4": _convolution(3, 96, 4, 224, stride=4, padding=0),
        "conv grouped 32": _convolution(128, 128, 3, 56, groups=32),
        "conv grouped 16": _convolution(256, 256, 3, 28, groups=16),
        "conv grouped 8": _convolution(512, 512, 3, 14, groups=8),
        "depthwise 3 large": _convolution(96, 96, 3, 112, groups=96),
        "depthwise 3 small": _convolution(384, 384, 3, 14, groups=384),
        "depthwise 3 stride 2": _convolution(144, 144, 3, 56, groups=144, stride=2),
        "depthwise 5": _convolution(240, 240, 5, 28, groups=240),
        "depthwise 7": _convolution(96, 96, 7, 56, groups=96),
        "depthwise 7 small": _convolution(384, 384, 7, 14, groups=384),
        "depthwise 13": _convolution(96, 96, 13, 28, groups=96),
        "conv transposed": (nn.ConvTranspose2d(64, 64, 2, stride=2, bias=False), (_IMAGE,)),
    }


def _products() -> Mapping[str, tuple[nn.Module, _Shapes]]:
    return {
        "linear up": (nn.Linear(768, 3072), (_TOKENS,)),
        "linear down": (nn.Linear(3072, 768), ((1, 197, 3072),)),
        "linear narrow": (nn.Linear(96, 288), ((1, 3136, 96),)),
        "linear windows": (nn.Linear(384, 384), ((4, 49, 384),)),
        "linear deep": (nn.Linear(9216, 4096), ((1, 9216),)),
        "linear head": (nn.Linear(2048, 1000), ((1, 2048),)),
        "batched matmul": (_Call(lambda a, b: a @ b.transpose(-1, -2)), (_HEADS, _HEADS)),
        "batched matmul windows": (_Call(lambda a, b: a @ b), ((64, 3, 49, 49), (64, 3, 49, 32))),
        "attention": (_Call(lambda a: functional.scaled_dot_product_attention(a, a, a)), (_HEADS,)),
        "attention windows": (_Call(lambda a: functional.scaled_dot_product_attention(a, a, a)), ((64, 3, 49, 32),)),
    }


def _norms_and_activations() -> Mapping[str, tuple[nn.Module, _Shapes]]:
    return {
        "layer norm": (nn.LayerNorm(768), (_TOKENS,)),
        "layer norm narrow": (nn.LayerNorm(96), ((1, 3136, 96),)),
        "group norm": (nn.GroupNorm(32, 64), (_IMAGE,)),
        "batch norm": (nn.BatchNorm2d(64), (_IMAGE,)),
        "batch norm large": (nn.BatchNorm2d(64), ((1, 64, 112, 112),)),
        "batch norm small": (nn.BatchNorm2d(256), ((1, 256, 14, 14),)),
        "softmax": (nn.Softmax(-1), ((1, 12, 197, 197),)),
        "relu": (nn.ReLU(), (_IMAGE,)),
        "relu large": (nn.ReLU(), ((1, 64, 112, 112),)),
        "gelu": (nn.GELU(), ((1, 197, 3072),)),
        "silu": (nn.SiLU(), ((1, 96, 112, 112),)),
        "hardswish": (nn.Hardswish(), ((1, 240, 28, 28),)),
    }


def _moves_and_pools() -> Mapping[str, tuple[nn.Module, _Shapes]]:
    return {
        "add": (_Call(lambda a, b: a + b), ((1, 256, 56, 56), (1, 256, 56, 56))),
        "add tokens": (_Call(lambda a, b: a + b), (_TOKENS, _TOKENS)),
        "scale channels": (_Call(lambda a, b: a * b), ((1, 240, 28, 28), (1, 240, 1, 1))),
        "multiply": (_Call(lambda a, b: a * b), (_TOKENS, _TOKENS)),
        "concatenate": (_Call(lambda a, b: torch.cat((a, b), dim=1)), (_IMAGE, _IMAGE)),
        "permute": (_Call(lambda a: a.permute(0, 2, 3, 1).contiguous()), (_IMAGE,)),
        "max pool": (nn.MaxPool2d(3, 2, 1), ((1, 64, 112, 112),)),
        "max pool small": (nn.MaxPool2d(3, 2, 1), ((1, 192, 28, 28),)),
        "max pool 2": (nn.MaxPool2d(2), ((1, 128, 56, 56),)),
        "average pool": (nn.AvgPool2d(2, 2), (_IMAGE,)),
        "adaptive pool": (nn.AdaptiveAvgPool2d(1), ((1, 512, 7, 7),)),
        "mean": (_Call(lambda a: a.mean((2, 3), keepdim=True)), ((1, 240, 28, 28),)),
        "mean tokens": (_Call(lambda a: a.mean(dim=1)), (_TOKENS,)),
        "upsample": (_Call(lambda a: functional.interpolate(a, scale_factor=2.0, mode="bilinear")), (_IMAGE,)),
        "roll": (_Call(lambda a: torch.roll(a, (-3, -3), (1, 2))), ((1, 56, 56, 96),)),
    }
