"""torch.profiler over a few steps: its tables, a Chrome trace, and its operators as a tree to match with a trace."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity

from capplan.core.measurement.op_times import ProfiledOperator
from capplan.probe.measure.point import Bench

STEPS = 5
_ROWS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Result of the profiler: its tables as text, and the operators of `steps` steps, outermost first."""

    steps: int
    by_device_time: str
    by_cpu_time: str
    operators: tuple[ProfiledOperator, ...]


def profile_steps(run: Callable[[], Any], *, bench: Bench, chrome_trace: Path) -> Profile:
    """Profile a few steps of a warm model, and write the Chrome trace."""
    device = bench.device
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler's library writes to stderr otherwise
    for _ in range(3):
        run()
    device.synchronize()
    with torch.profiler.profile(activities=_activities(device.kind), record_shapes=True) as profiler:
        for _ in range(STEPS):
            run()
        device.synchronize()
    profiler.export_chrome_trace(str(chrome_trace))
    averages = profiler.key_averages()
    outermost = [event for event in profiler.events() or () if event.cpu_parent is None and _is_operator(event)]
    return Profile(
        steps=STEPS,
        by_device_time=averages.table(sort_by="self_device_time_total", row_limit=_ROWS),
        by_cpu_time=averages.table(sort_by="self_cpu_time_total", row_limit=_ROWS),
        operators=tuple(_operator(event, is_cpu=device.kind == "cpu") for event in outermost),
    )


def _activities(kind: str) -> list[ProfilerActivity]:
    extra = {"cuda": ProfilerActivity.CUDA, "xpu": ProfilerActivity.XPU}
    return [ProfilerActivity.CPU, *([extra[kind]] if kind in extra else [])]


def _is_operator(event: Any) -> bool:
    return bool(event.device_type.name == "CPU" and event.name.startswith(("aten::", "torch")))


def _operator(event: Any, *, is_cpu: bool) -> ProfiledOperator:
    time_us = event.cpu_time_total if is_cpu else event.device_time_total
    return ProfiledOperator(
        name=event.name.rpartition("::")[2].rstrip("_"),
        shapes=tuple(tuple(shape) for shape in event.input_shapes or () if _is_shape(shape)),
        time_s=time_us * 1e-6,
        inner=tuple(_operator(child, is_cpu=is_cpu) for child in event.cpu_children),
    )


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, list | tuple) and all(isinstance(dim, int) for dim in shape)
