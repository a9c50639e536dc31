"""Concatenate measured steps into the arrays that the fit reads."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from capplan.core.calibrate.measured import MeasuredStep, split_words
from capplan.core.gpus.rate_laws import RateLaws
from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.device import DeviceRates, device_rates, host_slowness, kernel_peaks
from capplan.core.latency.kernel_time import KernelWork
from capplan.core.latency.lookup import architecture_key, precision_key, torch_key, width_cell
from capplan.core.latency.op_table import KernelTable, convolution_calls
from capplan.core.latency.predict import kernel_counts, kernel_work
from capplan.core.numbers import FloatArray, IntArray
from capplan.core.trace.types import Recording
from capplan.core.workload import Host, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRows:
    """Measured steps, with their kernels concatenated.

    Per kernel: `row`, `label`, `count`, and its work and rates before any fitted factor. Per row:
    `latency_s`, `weight`, GPU, host calls, launches and convolutions, and the level of each kind of deviation.
    `laws` are those that the rates follow, `relatives` the architectures nearest to each architecture.
    """

    row: IntArray
    label: IntArray
    count: FloatArray
    work: KernelWork
    peak_flops_per_s: FloatArray
    bandwidth_bytes_per_s: FloatArray
    sheet_peak_flops_per_s: FloatArray
    sheet_bandwidth_bytes_per_s: FloatArray
    l2_bytes: FloatArray
    latency_s: FloatArray
    weight: FloatArray
    gpu: IntArray
    host_calls: FloatArray
    host_launches: FloatArray
    host_convolutions: FloatArray
    levels: Mapping[str, IntArray]
    gpu_names: tuple[str, ...]
    level_names: Mapping[str, tuple[str, ...]]
    relatives: Mapping[str, tuple[str, ...]]
    laws: RateLaws

    def without_microbenchmarks(self) -> "FitRows":
        """Return the same rows with the rates that GPUs are believed to sustain by their spec sheets alone."""
        return replace(
            self,
            peak_flops_per_s=self.sheet_peak_flops_per_s,
            bandwidth_bytes_per_s=self.sheet_bandwidth_bytes_per_s,
        )

    def select(self, rows: IntArray) -> "FitRows":
        """Return the same with only some rows."""
        position = np.full(len(self.latency_s), -1)
        position[rows] = np.arange(len(rows))
        kept = position[self.row] >= 0
        chosen: dict[str, Any] = {
            **{name: getattr(self, name)[kept] for name in (*_OF_KERNELS, *_OF_GPUS)},
            **{name: getattr(self, name)[rows] for name in ("gpu", *_OF_STEPS)},
        }
        return replace(
            self,
            **chosen,
            row=position[self.row[kept]],
            work=KernelWork(**{item.name: getattr(self.work, item.name)[kept] for item in fields(KernelWork)}),
            levels={kind: levels[rows] for kind, levels in self.levels.items()},
        )


_OF_KERNELS = ("label", "count", "peak_flops_per_s", "sheet_peak_flops_per_s")
_OF_GPUS = ("bandwidth_bytes_per_s", "sheet_bandwidth_bytes_per_s", "l2_bytes")
_OF_STEPS = ("latency_s", "weight", "host_calls", "host_launches", "host_convolutions")
"""What a step states of each kernel, of its GPU for all kernels, and of itself; `FitRows` holds them concatenated."""

LEVEL_KINDS = ("architecture", "torch", "precision")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedStep:
    """One measured step as the fit sees it: the kernels that run on that GPU at that batch, and its time. [s]

    `family` groups models that share kernels by construction; held-out errors are taken over whole families.
    `cell` names the interval width that such a step belongs to, `relatives` the architectures nearest to the GPU's.
    """

    gpu: str
    levels: Mapping[str, str]
    label: IntArray
    count: FloatArray
    work: KernelWork
    peak_flops_per_s: FloatArray
    bandwidth_bytes_per_s: float
    sheet_peak_flops_per_s: FloatArray
    sheet_bandwidth_bytes_per_s: float
    l2_bytes: float
    host_calls: float
    host_launches: float
    host_convolutions: float
    latency_s: float
    weight: float = 1.0
    family: str = ""
    cell: str = ""
    relatives: tuple[str, ...] = ()


def timed_step(
    table: KernelTable,
    recording: Recording,
    workload: Workload,
    *,
    gpu: GpuSpec,
    column: int,
    latency_s: float,
    family: str,
    laws: RateLaws,
) -> TimedStep | None:
    """Describe a measured step: a table's kernels at one of its batches on one GPU; None where it lacks the peak."""
    rates, sheet = device_rates(gpu, workload, laws), device_rates(gpu, workload, laws, use_own=False)
    slowness = host_slowness(gpu, laws, Host.CARD)
    if not isinstance(rates, DeviceRates) or not isinstance(sheet, DeviceRates):
        return None
    count = kernel_counts(table, recording, workload, [gpu])[0]
    runs = count > 0
    work = kernel_work(table, [rates])
    return TimedStep(
        gpu=gpu.id,
        levels={
            "architecture": architecture_key(gpu),
            "torch": torch_key(workload.torch_version),
            "precision": precision_key(workload),
        },
        label=table.label[runs],
        count=count[runs],
        work=KernelWork(**{item.name: _column(getattr(work, item.name), column)[runs] for item in fields(KernelWork)}),
        peak_flops_per_s=kernel_peaks(rates, label=table.label[runs], peak_use=table.peak_use[runs]),
        bandwidth_bytes_per_s=rates.bandwidth_bytes_per_s,
        sheet_peak_flops_per_s=kernel_peaks(sheet, label=table.label[runs], peak_use=table.peak_use[runs]),
        sheet_bandwidth_bytes_per_s=sheet.bandwidth_bytes_per_s,
        l2_bytes=rates.l2_bytes,
        cell=f"device {width_cell(workload)}",
        host_calls=table.host_calls * slowness,
        host_launches=float(count @ table.launches) * slowness,
        host_convolutions=convolution_calls(table) * slowness,
        latency_s=latency_s,
        family=family,
        relatives=gpu.design.relatives,
    )


def held_out_together(step: MeasuredStep, *, is_rich: bool) -> str:
    """Return the group that a step is held out with: its family of models, or on a GPU of few rows its batch curve."""
    if is_rich:
        return model_family(step.model)
    size = "x".join(map(str, step.input_size)) or "default"
    return f"{step.model} {size} {step.workload.precision} on {step.gpu}"


def model_family(model: str) -> str:
    """Return the family that a model's name begins with: "resnet" of timm:resnet50d, "tf_efficientnet" of tf_…_b0."""
    words = split_words(model)[0].rpartition(":")[2].split("_")
    first = _before_digits(words[0])
    return f"{first}_{_before_digits(words[1])}" if first in _PREFIXES and len(words) > 1 else first


_PREFIXES = ("tf", "gluon", "legacy", "test", "regnet")


def _before_digits(word: str) -> str:
    return re.split(r"\d", word, maxsplit=1)[0] or word


def lay_out(
    steps: Sequence[TimedStep], *, gpu_names: Sequence[str], level_names: Mapping[str, Sequence[str]], laws: RateLaws
) -> FitRows:
    """Concatenate steps into arrays. GPUs and levels absent from the given names get index -1 (no effect)."""
    sizes = [len(step.label) for step in steps]
    columns: dict[str, Any] = {
        **{name: np.concatenate([getattr(step, name) for step in steps]) for name in _OF_KERNELS},
        **{name: np.repeat([getattr(step, name) for step in steps], sizes) for name in _OF_GPUS},
        **{name: np.array([getattr(step, name) for step in steps]) for name in _OF_STEPS},
    }
    return FitRows(
        **columns,
        row=np.repeat(np.arange(len(steps)), sizes),
        work=KernelWork(
            **{
                item.name: np.concatenate([getattr(step.work, item.name) for step in steps])
                for item in fields(KernelWork)
            }
        ),
        gpu=_positions([step.gpu for step in steps], gpu_names),
        levels={kind: _positions([step.levels[kind] for step in steps], level_names[kind]) for kind in LEVEL_KINDS},
        gpu_names=tuple(gpu_names),
        level_names={kind: tuple(level_names[kind]) for kind in LEVEL_KINDS},
        relatives={step.levels["architecture"]: step.relatives for step in steps},
        laws=laws,
    )


def _column(values: FloatArray, column: int) -> FloatArray:
    """Return one batch of an array [GPU, kernel, batch], [kernel, batch] or [kernel, 1]."""
    flat = values[0] if values.ndim == 3 else values
    return np.asarray(flat[:, min(column, flat.shape[1] - 1)], dtype=np.float64)


def _positions(names: Sequence[str], known: Sequence[str]) -> IntArray:
    position = {name: index for index, name in enumerate(known)}
    return np.array([position.get(name, -1) for name in names], dtype=np.int64)
