"""Measure a model's points in this process, one after another; the model is built once."""

import contextlib
import shlex
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Self, TypeVar

import torch
from torch.utils._pytree import tree_leaves

from capplan.core.measurement.op_times import HookedModule
from capplan.core.measurement.types import (
    DeviceFacts,
    FailedMeasurement,
    MeasuredWorkload,
    Measurement,
    MeasurementFailure,
    MemoryLimit,
    ModelIdentity,
    Point,
)
from capplan.probe.inputs.grammar import ModelRequest
from capplan.probe.measure.devices import open_device
from capplan.probe.measure.energy import open_nvml, open_rapl
from capplan.probe.measure.model import ReadyModel, host_threads, numeric_settings, ready_model
from capplan.probe.measure.oom import PointError, surviving
from capplan.probe.measure.point import Bench, OnProgress, measure_point, try_point, use_alone
from capplan.probe.measure.profile import time_modules
from capplan.probe.measure.request import MeasurementJob
from capplan.probe.measure.timing import Run
from capplan.probe.target.resolve import load_target
from capplan.probe.target.types import Target

_Result = TypeVar("_Result")


class Session:
    """Measures in this process. A context manager: torch's flags and memory limits are put back at its end."""

    def __init__(self, job: MeasurementJob, *, target: Target | None = None) -> None:
        """Find the job's model, to be run as the machine at hand is, unless a target is given in its place."""
        self.job = job
        self.target = target or target_of_machine(job.model)
        device = open_device(job.device)
        rapl = open_rapl() if device.kind == "cpu" else None
        self.bench = Bench(device=device, nvml=open_nvml(device.torch_device), rapl=rapl, gpu=job.gpu)
        self.facts = self.bench.facts()
        self.identity = model_identity(self.target)
        self._ready: ReadyModel | None = None
        self._settings = contextlib.ExitStack()

    def __enter__(self) -> Self:
        device = self.bench.device
        with contextlib.ExitStack() as settings:
            settings.enter_context(device.current())
            settings.enter_context(host_threads(self.job.threads))
            device.check()
            settings.enter_context(numeric_settings(self.job.precision, autotune=self.job.rules.autotune))
            if (allowed_bytes := self._allowed_bytes()) is not None:
                settings.enter_context(device.limited_to(allowed_bytes))
            self._settings = settings.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ready = None
        self.bench.device.free_cached()
        self._settings.close()

    def measure(self, batch: int, *, on_progress: OnProgress = lambda _: None) -> Point:
        """Time a batch; what fails at this batch is a value."""
        rules = self.job.rules
        try:
            timed = measure_point(self._ready_model(), batch, bench=self.bench, rules=rules, on_progress=on_progress)
        except PointError as error:
            return self.failure(batch, error.kind, str(error))
        return Measurement(
            model=self.identity,
            workload=measured_workload(self.job, batch),
            device=timed.device,
            samples_s=timed.samples_s,
            method=timed.method,
            warm_up=timed.warm_up,
            memory=timed.memory,
            date=_now(),
            command=self.job.command,
            l2_flushed=rules.flush_l2,
            power=timed.power,
            finite_outputs=timed.finite_outputs,
            notes=(*self.target.notes, *timed.notes),
            rules=rules.asked,
        )

    def attempt(self, batch: int) -> FailedMeasurement | None:
        """Run a batch without timing it; None where it ran."""
        try:
            try_point(self._ready_model(), batch, bench=self.bench)
        except PointError as error:
            return self.failure(batch, error.kind, str(error))
        return None

    def with_run(self, batch: int, use: Callable[[Run], _Result]) -> _Result:
        """Use a batch's forward call for something else, such as a profiler."""
        return use_alone(self._ready_model(), batch, bench=self.bench, use=use)

    def time_modules(self, batch: int) -> tuple[int, list[HookedModule]]:
        """Time a batch by module; return of how many steps the times are medians, and the modules."""
        ready, device = self._ready_model(), self.bench.device
        return use_alone(ready, batch, bench=self.bench, use=lambda run: time_modules(ready.module, run, device=device))

    def failure(self, batch: int, kind: MeasurementFailure, message: str) -> FailedMeasurement:
        return make_failure(self.job, self.identity, self.facts, batch=batch, kind=kind, message=message)

    def _ready_model(self) -> ReadyModel:
        if self._ready is None:
            device = self.bench.device
            self._ready = surviving(
                device,
                lambda: ready_model(self.target, workload=self.job.workload, device=device.torch_device),
                doing=f"building {self.target.words}",
            )
        return self._ready

    def _allowed_bytes(self) -> int | None:
        allowed = self.job.allowed_bytes
        if self.job.reserve_fraction is None:
            return allowed
        available = self.bench.device.available_bytes()
        if available is None:
            return allowed
        left = int(available * (1 - self.job.reserve_fraction))
        return left if allowed is None else min(left, allowed)


def target_of_machine(model: ModelRequest) -> Target:
    """Find the model of words whose code sees the devices that there are; its words stay those of the user."""
    asked = model.parse()
    target = load_target(model.words, request=replace(asked, as_cpu=True))
    if asked.as_cpu:
        return target
    return replace(target, words=shlex.join(word for word in shlex.split(target.words) if word != "--as-cpu"))


def model_identity(target: Target) -> ModelIdentity:
    """Describe which model a target is; `input_size` is its first input's shape without the batch."""
    made = target.make_inputs(2, device="meta")
    tensors = [leaf for leaf in tree_leaves((made.args, dict(made.kwargs))) if isinstance(leaf, torch.Tensor)]
    first = tuple(tensors[0].shape) if tensors else ()
    return ModelIdentity(
        name=target.name,
        words=target.words,
        library=target.library,
        input_size=first[1:] if first[:1] == (2,) else first,
        versions=dict(target.versions),
        source_sha256=target.source_sha256,
    )


def measured_workload(job: MeasurementJob, batch: int) -> MeasuredWorkload:
    return MeasuredWorkload(batch=batch, precision=job.precision, framework=job.framework, layout=job.layout)


def make_failure(
    job: MeasurementJob,
    model: ModelIdentity,
    device: DeviceFacts,
    *,
    batch: int,
    kind: MeasurementFailure,
    message: str,
) -> FailedMeasurement:
    return FailedMeasurement(
        model=model,
        workload=measured_workload(job, batch),
        device=device,
        kind=kind,
        message=message,
        date=_now(),
        command=job.command,
        rules=job.rules.asked,
        limit=MemoryLimit(allowed_bytes=job.allowed_bytes, reserve_fraction=job.reserve_fraction),
    )


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
