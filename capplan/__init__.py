"""capplan: which GPU fits a model, how fast it runs there and what it costs, before anyone buys one.

The public face: `trace`, `load_trace`, `load_gpus`, `plan` and `measure`. Importing it loads neither torch nor numpy.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capplan.version import __version__

if TYPE_CHECKING:
    from torch import nn

    from capplan.core.gpus.spec import GpuSpec
    from capplan.core.measurement.theory import Recordings
    from capplan.core.measurement.types import Point
    from capplan.core.ops.flops import Formulas
    from capplan.core.plan.types import Plan
    from capplan.core.trace.types import Recording, Trace
    from capplan.core.workload import Training
    from capplan.probe.measure.request import Job
    from capplan.probe.target.types import Target
    from capplan.specs import Gpus

__all__ = ["__version__", "load_gpus", "load_trace", "measure", "plan", "trace"]


def trace(
    model: "str | nn.Module",
    *,
    arguments: Mapping[str, Any] | None = None,
    inputs: Sequence[str] | Callable[[int], Any] = (),
    input_size: Sequence[int] | None = None,
    seq_len: int | None = None,
    precisions: Iterable[str] = ("fp32",),
    layout: str = "nchw",
    training: "Training | None" = None,
    formulas: "Formulas | None" = None,
) -> "Trace":
    """Trace a model, named as on the command line or given as a module, on the meta device.

    `inputs` are words of the input grammar ("x=3x224x224", "ids=int64:Nx128") or a function of the batch
    size that returns what the model takes. One recording is made per distinct variant of `precisions`.
    `formulas` count the FLOPs of operators that capplan does not know: by name (`my::op`), a function of an
    `OperatorCall`.

    Raises:
        UsageError: no such model, or arguments and inputs that it does not take.
        TraceError: the model could not be traced.
    """
    from capplan.core.workload import Configuration, Layout, Precision
    from capplan.probe.trace.tracer import trace_target

    target = _find_target(model, arguments=arguments, inputs=inputs, input_size=input_size, seq_len=seq_len)
    variants = dict.fromkeys(Precision(each).variant for each in precisions)
    configurations = [Configuration(variant=each, layout=Layout(layout), training=training) for each in variants]
    return trace_target(target, configurations=configurations, formulas=formulas or {})


def _find_target(
    model: "str | nn.Module",
    *,
    arguments: Mapping[str, Any] | None,
    inputs: Sequence[str] | Callable[[int], Any],
    input_size: Sequence[int] | None,
    seq_len: int | None,
) -> "Target":
    from dataclasses import replace

    from capplan.probe.inputs.grammar import parse_request
    from capplan.probe.target.resolve import load_target
    from capplan.probe.target.sources.code import module_target

    words = () if callable(inputs) else inputs
    size = None if input_size is None else "x".join(map(str, input_size))
    request = replace(
        parse_request(inputs=words, input_size=size, seq_len=seq_len), arguments=tuple((arguments or {}).items())
    )
    if isinstance(model, str):
        return load_target(model, request=request)
    return module_target(model, request=request, make=inputs if callable(inputs) else None)


def load_trace(path: str | Path) -> "Trace":
    """Read a trace file; needs neither torch nor the model.

    Raises:
        TraceFileError: truncated, damaged, no trace, or written by a newer capplan.
    """
    from capplan.core.trace.format import load_trace as parse_trace

    return parse_trace(Path(path).read_bytes(), where=str(path))


def load_gpus(*, overlays: Sequence[Path] = ()) -> "Gpus":
    """Read the GPU database, own specs laid over it.

    Raises:
        SpecError: a spec file does not hold what it must.
    """
    from capplan.specs import load_gpus as read_gpus

    return read_gpus(overlays=overlays)


def plan(
    trace: "Trace",
    *,
    gpus: "Gpus | Iterable[GpuSpec]",
    batches: Sequence[int] | str = "auto",
    precision: str = "fp32",
    framework: str = "eager",
    layout: str = "nchw",
    training: "Training | None" = None,
    torch_version: tuple[int, int] | None = None,
    utilization_fraction: float = 0.9,
    max_latency_s: float | None = None,
    min_throughput_per_s: float | None = None,
    sort: str = "throughput",
) -> "Plan":
    """Say for every GPU and batch whether it fits, how fast it is and what binds it.

    `batches` is a list of sizes, "auto" (the recommended batch of each GPU) or "max".

    Raises:
        MissingRecordingError: the trace lacks the recording of this precision, layout or mode.
    """
    from capplan.core.batches import BatchChoice, Batches
    from capplan.core.plan.planner import make_plan
    from capplan.core.plan.types import Limits, SortKey
    from capplan.core.workload import Framework, Layout, Precision, Workload
    from capplan.specs.calibration import load_calibration
    from capplan.specs.memory_calibration import load_memory_calibration
    from capplan.specs.prices import load_prices

    workload = Workload(
        precision=Precision(precision),
        framework=Framework(framework),
        layout=Layout(layout),
        training=training,
        **({"torch_version": torch_version} if torch_version else {}),
    )
    asked = (
        Batches(choice=BatchChoice(batches))
        if isinstance(batches, str)
        else Batches(choice=BatchChoice.LISTED, sizes=tuple(batches))
    )
    return make_plan(
        trace,
        gpus=list(gpus.values()) if isinstance(gpus, Mapping) else gpus,
        batches=asked,
        workload=workload,
        limits=Limits(
            utilization_fraction=utilization_fraction,
            max_latency_s=max_latency_s,
            min_throughput_per_s=min_throughput_per_s,
        ),
        calibration=load_calibration(),
        memory_calibration=load_memory_calibration(),
        prices=load_prices(load_gpus()).hourly,
        sort=SortKey(sort),
    )


def measure(
    model: "str | nn.Module",
    *,
    batches: Sequence[int] = (1,),
    device: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    inputs: Sequence[str] | Callable[[int], Any] = (),
    input_size: Sequence[int] | None = None,
    seq_len: int | None = None,
    precision: str = "fp32",
    framework: str = "eager",
    layout: str = "nchw",
    warm_up_runs: int | None = None,
    repetitions: int | None = None,
    budget_s: float = 10.0,
    flush_l2: bool = False,
    gpu: "GpuSpec | None" = None,
) -> "tuple[Point, ...]":
    """Time a model on the device at hand: a `Measurement` per batch, or the `Failure` of one that did not run.

    `device` is "cuda:0", "xpu", "mps" or "cpu"; without one, the first accelerator. A module is copied, with its
    weights. Bound and estimate stand beside a measurement whose device's name the GPU database knows, or whose `gpu`
    is given. `warm_up_runs` and `repetitions` fix what is otherwise repeated until it is stable.

    Raises:
        UsageError: no such model, or arguments and inputs that it does not take.
        MeasurementError: no such device, or one that cannot be used.
    """
    from capplan.core.measurement.theory import Recordings
    from capplan.core.workload import Framework, Layout, Precision
    from capplan.probe.inputs.request import ModelRequest
    from capplan.probe.measure.open import devices_at_hand, open_device
    from capplan.probe.measure.point import Rules
    from capplan.probe.measure.request import Job
    from capplan.probe.measure.session import Session
    from capplan.probe.measure.timing import StopRule, WarmUpRule
    from capplan.probe.trace.tracer import trace_target

    target = _find_target(model, arguments=arguments, inputs=inputs, input_size=input_size, seq_len=seq_len)
    opened = open_device(device)
    spec = gpu or load_gpus().find_or_none(devices_at_hand()[str(opened.torch_device)])
    job = Job(
        model=ModelRequest(words=target.words),
        precision=Precision(precision),
        framework=Framework(framework),
        layout=Layout(layout),
        device=str(opened.torch_device),
        gpu=spec.id if spec else None,
        rules=Rules(
            warm_up=WarmUpRule(runs=warm_up_runs),
            stop=StopRule(repetitions=repetitions, budget_s=budget_s),
            flush_l2=flush_l2,
        ),
        command="capplan.measure",
    )
    with Session(job, target=target) as session:
        points = tuple(session.measure(batch) for batch in batches)
    if spec is None:
        return points
    configuration = job.workload.configuration

    def record(exact_batch: int | None) -> "Recording":
        return trace_target(target, configurations=[configuration], exact_batch=exact_batch).recording(configuration)

    recordings = Recordings(record=record)
    return tuple(_beside(point, recordings, job=job, gpu=spec) for point in points)


def _beside(point: "Point", recordings: "Recordings", *, job: "Job", gpu: "GpuSpec") -> "Point":
    """Put bound and estimate beside a measurement; why there is none, where there is none, is a note."""
    from dataclasses import replace

    from capplan.core.latency.device import Unsupported
    from capplan.core.latency.step import ExecutedStep
    from capplan.core.measurement.theory import Theory
    from capplan.core.measurement.types import Measurement
    from capplan.errors import CapplanError
    from capplan.probe.measure.facts import torch_release
    from capplan.specs.calibration import load_calibration

    if not isinstance(point, Measurement):
        return point
    workload = replace(job.workload, torch_version=torch_release())
    try:
        recording = recordings.at(point.workload.batch)
    except CapplanError as error:
        return replace(point, notes=(*point.notes, f"no estimate: {error}"))
    theory = Theory(step=ExecutedStep.of(recording, workload, calibration=load_calibration()), gpu=gpu)
    beside = theory.beside(batch=point.workload.batch, median_s=point.latency.median)
    if isinstance(beside, Unsupported):
        return replace(point, notes=(*point.notes, f"no estimate: {beside.reason}"))
    return replace(point, theory=beside)
