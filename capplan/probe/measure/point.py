"""Measure one point: warm a model up at a batch, time it, and record memory, energy and outputs."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

import torch

from capplan.core.measurement.choices import TimingMethod
from capplan.core.measurement.types import DeviceFacts, MeasuredMemory, MeasuredPower, TimingRules, WarmUp
from capplan.core.workload import Framework
from capplan.probe.measure.device import Device, TorchDevice
from capplan.probe.measure.energy import Nvml, measure_power
from capplan.probe.measure.facts import device_facts
from capplan.probe.measure.model import ReadyModel, has_finite_outputs
from capplan.probe.measure.oom import surviving
from capplan.probe.measure.timing import (
    DEFAULT_BUDGET_S,
    Progress,
    Run,
    StopRule,
    WarmUpRule,
    repeat,
    warm_up,
)
from capplan.units import format_seconds

_Result = TypeVar("_Result")
OnProgress = Callable[[Progress], None]

_BUSY_READING_S = 0.05
"""Work queued before the driver's clocks and temperature are read, so that they are those of a busy device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Rules of measuring a point; `method` None uses events if the device has them."""

    warm_up: WarmUpRule = field(default_factory=WarmUpRule)
    stop: StopRule = field(default_factory=StopRule)
    method: TimingMethod | None = None
    flush_l2: bool = False
    autotune: bool = False

    @property
    def asked(self) -> TimingRules:
        """Return the conditions that a user can ask for, as a measurement file stores them."""
        return TimingRules(
            warm_up_runs=self.warm_up.runs,
            repetitions=self.stop.repetitions,
            budget_s=DEFAULT_BUDGET_S if self.stop.budget_s is None else self.stop.budget_s,
            method=self.method,
            flush_l2=self.flush_l2,
            autotune=self.autotune,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A device, what its driver reports, and the id of its spec."""

    device: TorchDevice
    nvml: Nvml | None = None
    gpu: str | None = None

    def facts(self) -> DeviceFacts:
        """Return the fingerprint of device and software, as of now."""
        return device_facts(self.device, nvml=self.nvml, gpu=self.gpu)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedPoint:
    """What measuring one point gave, model and command apart."""

    samples_s: tuple[float, ...]
    method: TimingMethod
    warm_up: WarmUp
    memory: MeasuredMemory
    power: MeasuredPower | None
    finite_outputs: bool
    device: DeviceFacts
    notes: tuple[str, ...]


def best_method(device: Device) -> TimingMethod:
    """Return events if the device has them, else a synchronise around each repetition if it has a queue."""
    if device.has_events:
        return TimingMethod.EVENT
    return TimingMethod.CLOCK if device.kind == "cpu" else TimingMethod.SYNC


def measure_point(
    ready: ReadyModel, batch: int, *, bench: Bench, rules: Rules, on_progress: OnProgress = lambda _: None
) -> TimedPoint:
    """Measure a ready model at a batch.

    Raises:
        PointError: it ran out of memory or failed at this batch; nothing of it is left on the device.
    """
    return use_alone(ready, batch, bench=bench, use=lambda run: _measured(run, batch, bench, rules, on_progress))


def try_point(ready: ReadyModel, batch: int, *, bench: Bench) -> None:
    """Run a batch twice, to see whether it runs.

    Raises:
        PointError: it does not.
    """

    def twice(run: Run) -> None:
        for _ in range(2):
            run()
        bench.device.synchronize()

    use_alone(ready, batch, bench=bench, use=twice)


def use_alone(ready: ReadyModel, batch: int, *, bench: Bench, use: Callable[[Run], _Result]) -> _Result:
    """Make a batch's inputs, use its forward call, and leave the device as it was.

    Raises:
        PointError: it ran out of memory or failed at this batch.
    """

    def attempt() -> _Result:
        with torch.inference_mode():
            return use(ready.runner(ready.make_inputs(batch)))

    if ready.workload.framework is not Framework.EAGER:
        torch.compiler.reset()
    try:
        return surviving(bench.device, attempt, doing=f"running {ready.target.words} at batch {batch}")
    finally:
        bench.device.free_cached()


def _measured(run: Run, batch: int, bench: Bench, rules: Rules, on_progress: OnProgress) -> TimedPoint:
    device, nvml = bench.device, bench.nvml
    warm = warm_up(device, run, rules.warm_up)
    is_finite = has_finite_outputs(run())
    device.free_cached()  # what looking at the outputs took is none of the model's
    device.reset_peaks()
    expected_s = _typical_s(device, run)
    memory = device.memory()  # before there is a buffer that flushes
    method = rules.method or best_method(device)
    samples_s = repeat(
        device,
        run,
        method=method,
        rule=rules.stop,
        expected_s=expected_s,
        flush=rules.flush_l2,
        on_round=on_progress,
    )
    mean_s = sum(samples_s) / len(samples_s)
    return TimedPoint(
        samples_s=tuple(samples_s),
        method=method,
        warm_up=warm,
        memory=replace(memory, process_bytes=nvml.process_bytes()) if nvml else memory,
        device=_facts_while_busy(bench, run, mean_s),
        power=measure_power(device, run, meter=nvml, batch=batch, expected_s=mean_s) if nvml else None,
        finite_outputs=is_finite,
        notes=_notes(warm, method, rules.stop, len(samples_s)),
    )


def _typical_s(device: Device, run: Run) -> float:
    begun = device.now_s()
    run()
    device.synchronize()
    return device.now_s() - begun


def _facts_while_busy(bench: Bench, run: Run, mean_s: float) -> DeviceFacts:
    if bench.nvml is not None:
        for _ in range(max(1, round(_BUSY_READING_S / mean_s))):
            run()
    facts = bench.facts()
    bench.device.synchronize()
    return facts


def _notes(warm: WarmUp, method: TimingMethod, stop: StopRule, done: int) -> tuple[str, ...]:
    notes = []
    if stop.repetitions is not None and done < stop.repetitions:
        notes.append(
            f"{done} of {stop.repetitions} repetitions: the budget of {format_seconds(stop.longest_s)} was spent"
        )
    if not warm.stable:
        notes.append(f"not yet stable after {warm.runs} warm-up runs")
    if method is TimingMethod.NAIVE:
        notes.append("timed without waiting for the device: wrong wherever it has a queue")
    return tuple(notes)
