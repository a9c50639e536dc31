"""Look into a step: torch.profiler's tables, Chrome trace and tree of operators; and hooks that time every module."""

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.profiler import ProfilerActivity

from capplan.core.measurement.op_times import HookedModule, ProfiledOperator
from capplan.probe.measure.device import Device
from capplan.probe.measure.point import Bench

STEPS = 5
_ROWS = 60
_HOOKED_STEPS = 21
"""The first one makes the events, and counts for nothing."""
_LONGEST_S = 5.0


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
    accelerators = {"cuda": ProfilerActivity.CUDA, "xpu": ProfilerActivity.XPU}
    activities = [ProfilerActivity.CPU, *(activity for kind, activity in accelerators.items() if kind == device.kind)]
    with torch.profiler.profile(activities=activities, record_shapes=True) as profiler:
        for _ in range(STEPS):
            run()
        device.synchronize()
    profiler.export_chrome_trace(str(chrome_trace))
    averages = profiler.key_averages()
    on_cpu = (event for event in profiler.events() or () if event.device_type.name == "CPU")
    outermost = [event for event in on_cpu if _is_operator(event) and not _is_inside_operator(event)]
    return Profile(
        steps=STEPS,
        by_device_time=averages.table(sort_by="self_device_time_total", row_limit=_ROWS),
        by_cpu_time=averages.table(sort_by="self_cpu_time_total", row_limit=_ROWS),
        operators=tuple(_operator(event, is_cpu=device.kind == "cpu") for event in outermost),
    )


def _is_operator(event: Any) -> bool:
    return bool(event.name.startswith(("aten::", "torch")))


def _is_inside_operator(event: Any) -> bool:
    """Return True if another operator called this one; ranges that a model marks (`record_function`) do not count."""
    while (event := event.cpu_parent) is not None:
        if _is_operator(event):
            return True
    return False


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


@contextmanager
def _marked_calls(
    modules: Iterable[torch.nn.Module], device: Device
) -> Iterator[list[tuple[torch.nn.Module, Any, Any]]]:
    """Hook modules, and yield the list that takes each of their calls with marks of its begin and its end.

    A mark is an event of the device, or a time of the host's clock after a wait.
    """
    marks: list[tuple[torch.nn.Module, Any, Any]] = []
    begun: dict[torch.nn.Module, list[Any]] = defaultdict(list)

    def mark() -> Any:
        if device.has_events:
            event = device.make_event()
            event.record()
            return event
        device.synchronize()
        return device.now_s()

    def before(called: torch.nn.Module, _: Any) -> None:
        begun[called].append(mark())

    def after(called: torch.nn.Module, _: Any, __: Any) -> None:
        end = mark()
        marks.append((called, begun[called].pop(), end))

    handles = [
        handle
        for module in modules
        for handle in (module.register_forward_pre_hook(before), module.register_forward_hook(after))
    ]
    try:
        yield marks
    finally:
        for handle in handles:
            handle.remove()


def time_modules(module: torch.nn.Module, run: Callable[[], Any], *, device: Device) -> tuple[int, list[HookedModule]]:
    """Run some steps with hooks on every module, and return how many, and the modules in the order of their first call.

    A module's time reaches from before its call to after it, with all below it. On a device with events nothing waits
    within a step; elsewhere the host's clock is read, after a wait where the device has a queue. The hooks themselves
    take a few microseconds a call on the host. Modules that are not called have no row.
    """
    paths = {part: path for path, part in module.named_modules()}
    steps: list[dict[torch.nn.Module, list[float]]] = []
    with _marked_calls(paths, device) as marks:
        started = time.perf_counter()
        while len(steps) < _HOOKED_STEPS and (len(steps) < 2 or time.perf_counter() - started < _LONGEST_S):
            marks.clear()
            run()
            device.synchronize()
            calls: dict[torch.nn.Module, list[float]] = {}
            for called, start, end in marks:
                calls.setdefault(called, []).append(end.seconds_since(start) if device.has_events else end - start)
            steps.append(calls)
    timed = steps[1:]
    return len(timed), [
        HookedModule(
            path=path,
            kind=type(part).__name__,
            calls=len(timed[0][part]),
            time_s=median(sum(calls.get(part, ())) for calls in timed),
        )
        for part, path in paths.items()
        if part in timed[0]
    ]
