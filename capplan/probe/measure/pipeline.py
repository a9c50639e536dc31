"""Time a pipeline of models and host work stage by stage and end to end, with and without waiting for the device.

The pipeline is the user's: `FILE.py:stages`, a function of the batch size and the device that returns pairs of a
name and a function; each function takes what the one before it returned, the first one nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from capplan.core.measurement.pipeline import PipelineTimes, StageTimes
from capplan.errors import UsageError
from capplan.probe.foreign.code import model_code
from capplan.probe.foreign.importing import load_function
from capplan.probe.measure.device import Device, Event
from capplan.probe.measure.oom import surviving
from capplan.probe.measure.point import Rules

_REPETITIONS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    name: str
    run: Callable[..., Any]


def load_stages(words: str, *, batch: int, device: torch.device) -> tuple[Stage, ...]:
    """Ask the user's function for its stages."""
    function = load_function(words, "⟨pipeline⟩")
    with model_code(f"⟨pipeline⟩ {words}", error=UsageError):
        made = function(batch, device)
    try:
        stages = tuple(Stage(name=str(name), run=run) for name, run in made)
    except (TypeError, ValueError) as error:
        raise UsageError(f"⟨pipeline⟩ {words} must return pairs of a name and a function.") from error
    if not stages or not all(callable(stage.run) for stage in stages):
        raise UsageError(f"⟨pipeline⟩ {words} must return pairs of a name and a function.")
    return stages


def measure_pipeline(stages: Sequence[Stage], *, device: Device, rules: Rules, batch: int, name: str) -> PipelineTimes:
    """Run the pipeline both ways, one after the other; the device is idle before each stretch."""

    def attempt() -> PipelineTimes:
        with torch.inference_mode():
            return _both_ways(stages, device, rules, batch, name)

    return surviving(device, attempt, doing=f"running the pipeline {name} at batch {batch}")


def _both_ways(stages: Sequence[Stage], device: Device, rules: Rules, batch: int, name: str) -> PipelineTimes:
    repetitions = rules.stop.repetitions or _REPETITIONS
    for _ in range(rules.warm_up.runs or rules.warm_up.minimum):
        _run_through(stages, device, device.synchronize)
    device.synchronize()
    begun = device.now_s()
    marks = [_left_free(stages, device) for _ in range(repetitions)]
    device.synchronize()
    free_s = device.now_s() - begun
    begun = device.now_s()
    waited = [_run_through(stages, device, device.synchronize) for _ in range(repetitions)]
    stalled_s = device.now_s() - begun
    alone_s = tuple(_alone_s(stages, device) for _ in range(repetitions))
    timed = tuple(
        StageTimes(
            name=stage.name,
            host_s=tuple(host_s[index] for host_s, _ in marks),
            device_s=tuple(events[index + 1].seconds_since(events[index]) for _, events in marks if events),
            waited_s=tuple(run_s[index] for run_s in waited),
        )
        for index, stage in enumerate(stages)
    )
    return PipelineTimes(
        name=name,
        batch=batch,
        device=device.kind,
        has_events=device.has_events,
        repetitions=repetitions,
        stages=timed,
        free_s=free_s,
        stalled_s=stalled_s,
        alone_s=alone_s,
    )


def _left_free(stages: Sequence[Stage], device: Device) -> tuple[tuple[float, ...], list[Event]]:
    """Run once without waits: the host's time in each stage [s], and an event before, between and after them."""
    events = [device.make_event() for _ in range(len(stages) + 1)] if device.has_events else []
    following = iter(events)

    def mark() -> None:
        if events:
            next(following).record()

    mark()
    return _run_through(stages, device, mark), events


def _alone_s(stages: Sequence[Stage], device: Device) -> float:
    """Run once without waits between the stages, and wait at the end, so that no two runs overlap. [s]"""
    begun = device.now_s()
    _run_through(stages, device, lambda: None)
    device.synchronize()
    return device.now_s() - begun


def _run_through(stages: Sequence[Stage], device: Device, after_stage: Callable[[], None]) -> tuple[float, ...]:
    """Run the stages once, and return the host's time in each, what is done after it included. [s]"""
    spent_s: list[float] = []
    carried: tuple[Any, ...] = ()
    for stage in stages:
        begun = device.now_s()
        carried = (stage.run(*carried),)
        after_stage()
        spent_s.append(device.now_s() - begun)
    return tuple(spent_s)
