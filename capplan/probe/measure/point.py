"""Measure one point: warm a model up at a batch, time it, and record memory, energy and outputs."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TypeVar

import torch

from capplan.core.measurement.types import DeviceFacts, MeasuredMemory, MeasuredPower, TimingRules, WarmUp
from capplan.core.workload import Framework, TimingMethod
from capplan.probe.measure.device import Device, TorchDevice
from capplan.probe.measure.energy import Nvml, Rapl, measure_power
from capplan.probe.measure.facts import device_facts
from capplan.probe.measure.model import ReadyModel, has_finite_outputs
from capplan.probe.measure.oom import surviving
from capplan.probe.measure.timing import DEFAULT_BUDGET_S, Progress, Run, StopRule, WarmUpRule, repeat, warm_up
from capplan.units import format_seconds

_Result = TypeVar("_Result")
OnProgress = Callable[[Progress], None]

_DISTURBED = 1.5
"""A median of more than so many times the fastest repetition is not the model's alone: on a quiet processor or GPU the
two lie within a few per cent of each other."""
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
    def longest_warm_up_s(self) -> float:
        """Return how long warm-up may take: half of the budget, but runs that were asked for need one given. [s]"""
        if self.warm_up.runs is not None and self.stop.budget_s is None:
            return math.inf
        return self.stop.longest_s / 2

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
    """A device, what its driver reports, a meter of the processors if it is the CPU, and the id of its spec."""

    device: TorchDevice
    nvml: Nvml | None = None
    rapl: Rapl | None = None
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
    return use_alone(ready, batch, bench=bench, use=lambda run: _measured(run, batch, bench, rules, on_progress))


def try_point(ready: ReadyModel, batch: int, *, bench: Bench) -> None:
    """Run a batch twice, to see whether it runs."""

    def twice(run: Run) -> None:
        for _ in range(2):
            run()
        bench.device.synchronize()

    use_alone(ready, batch, bench=bench, use=twice)


def use_alone(ready: ReadyModel, batch: int, *, bench: Bench, use: Callable[[Run], _Result]) -> _Result:
    """Make a batch's inputs, use its forward call, and leave the device as it was."""

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
    meter = nvml or bench.rapl
    warm = warm_up(device, run, rules.warm_up, at_most_s=rules.longest_warm_up_s, on_run=on_progress)
    device.free_cached()  # what autotuning tried does not belong to the model
    device.reset_peaks()
    begun_s = device.now_s()
    output = run()
    device.synchronize()
    expected_s = device.now_s() - begun_s
    memory = device.memory()  # before there is a buffer that flushes, and before outputs are looked at
    if nvml is not None:
        memory = replace(memory, process_bytes=nvml.process_bytes())
    is_finite = has_finite_outputs(output)
    del output
    method = rules.method or best_method(device)
    samples_s = repeat(
        device,
        run,
        method=method,
        rule=rules.stop,
        expected_s=expected_s,
        spent_s=warm.elapsed_s + expected_s,
        flush=rules.flush_l2,
        on_round=on_progress,
    )
    mean_s = sum(samples_s) / len(samples_s)
    if method is TimingMethod.NAIVE:
        mean_s = max(mean_s, expected_s)  # it reads the launch alone, of which two seconds are hours of work
    if nvml is not None:
        for _ in range(max(1, round(_BUSY_READING_S / mean_s))):
            run()
    facts = bench.facts()  # while the device is busy
    device.synchronize()
    return TimedPoint(
        samples_s=tuple(samples_s),
        method=method,
        warm_up=warm,
        memory=memory,
        device=facts,
        power=measure_power(device, run, meter=meter, batch=batch, expected_s=mean_s) if meter else None,
        finite_outputs=is_finite,
        notes=_notes(warm, method, rules, samples_s),
    )


def _notes(warm: WarmUp, method: TimingMethod, rules: Rules, samples_s: Sequence[float]) -> tuple[str, ...]:
    notes = []
    stop, done = rules.stop, len(samples_s)
    if rules.warm_up.runs is not None and warm.runs < rules.warm_up.runs:
        half = format_seconds(rules.longest_warm_up_s)
        notes.append(f"{warm.runs} of {rules.warm_up.runs} warm-up runs: half of the budget ({half}) was spent")
    elif not warm.stable:
        notes.append(f"not yet stable after {warm.runs} warm-up run{'s' if warm.runs > 1 else ''}")
    if stop.repetitions is not None and done < stop.repetitions:
        notes.append(
            f"{done} of {stop.repetitions} repetitions: the budget of {format_seconds(stop.longest_s)} was spent"
        )
    if method is TimingMethod.NAIVE:
        notes.append("timed without waiting for the device: wrong wherever it has a queue")
    elif median(samples_s) > _DISTURBED * min(samples_s):
        notes.append(
            f"the median is {median(samples_s) / min(samples_s):.1f} times the fastest repetition: other programs or "
            "too many threads disturb it (⟨threads⟩)"
        )
    return tuple(notes)
