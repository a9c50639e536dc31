"""What is asked of a measurement: the model, the batches, the device, and what it is compared with."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from capplan.app.models import Model, ModelSource, QuantisedModel
from capplan.core.gpus.spec import GpuSpec
from capplan.core.measurement.checks import MOST_SAMPLES
from capplan.core.measurement.choices import BatchSearch
from capplan.core.workload import BatchChoice, Batches, Framework, Layout, Precision
from capplan.errors import UsageError
from capplan.probe.inputs.grammar import ModelRequest

if TYPE_CHECKING:
    from capplan.probe.measure.point import Rules
    from capplan.probe.measure.request import MeasurementJob

LARGEST_SEARCHED_BATCH = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredBatches:
    """Which batches are asked for, how the largest is searched, and the cap of a search."""

    batches: Batches
    search: BatchSearch = BatchSearch.BINARY
    at_most: int = LARGEST_SEARCHED_BATCH

    @property
    def is_searched(self) -> bool:
        """Return True if the largest batch is to be found."""
        return self.batches.choice is BatchChoice.MAX

    def listed(self, option: str) -> tuple[int, ...]:
        """Return the batches of a question that cannot search for them.

        Args:
            option: the option that needs listed batches.

        Raises:
            UsageError: the batches are not listed.
        """
        if self.batches.choice is not BatchChoice.LISTED:
            raise UsageError(f"{option} needs listed batches, such as --batch 1,8.")
        return self.batches.sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class TheoryRequest:
    """What the estimates that a measurement is compared with rest on.

    `gpu` names the device's spec, or is the spec; without it the driver's name for the device is looked up.
    """

    gpu: str | GpuSpec | None = None
    overlays: tuple[Path, ...] = ()
    calibration: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureRequest:
    """A request to measure how fast a model runs on the device at hand.

    `device` is "cuda:0", "xpu", "mps" or "cpu", None for the first accelerator. `threads` is what PyTorch computes with
    on the host, None for its own default. At most `allowed_bytes` may be
    allocated; a search leaves `reserve_fraction` of the available memory free. `is_isolated` measures each point in
    a process of its own, which is ended after `timeout_s`. Points are appended to the measurement file `lines`;
    `resumes` skips those that it holds. `profile` is a folder for the profiles of each batch; `modules`
    times each by module, too. `command` is kept with each point.
    """

    model: ModelSource
    curve: MeasuredBatches
    rules: "Rules"
    precision: Precision = Precision.FP32
    framework: Framework = Framework.EAGER
    layout: Layout = Layout.NCHW
    device: str | None = None
    threads: int | None = None
    allowed_bytes: int | None = None
    reserve_fraction: float | None = None
    theory: TheoryRequest = field(default_factory=TheoryRequest)
    is_isolated: bool = False
    timeout_s: float | None = None
    lines: Path | None = None
    resumes: bool = False
    profile: Path | None = None
    modules: bool = False
    command: str = ""


def make_job(request: MeasureRequest, model: Model) -> "MeasurementJob":
    """Return what is to be measured, as data for this process or another one.

    Args:
        request: what is asked.
        model: the model of the request, opened.

    Raises:
        UsageError: the model is a trace, or the request contradicts itself.
        MeasurementError: there is no such device.
    """
    from capplan.probe.measure.devices import open_device
    from capplan.probe.measure.request import MeasurementJob

    _check(request)
    if isinstance(model, QuantisedModel):
        model.target()  # says why it cannot be run
    if not model.can_be_traced:
        raise UsageError(
            f"{model.words} is a trace, and measuring runs the model itself: name {model.trace([]).target}."
        )
    return MeasurementJob(
        model=model.own_request or ModelRequest(words=model.words),
        precision=request.precision,
        framework=request.framework,
        layout=request.layout,
        device=str(open_device(request.device).torch_device),
        threads=request.threads,
        rules=request.rules,
        allowed_bytes=request.allowed_bytes,
        reserve_fraction=request.reserve_fraction if request.curve.is_searched else None,
        command=request.command,
    )


def _check(request: MeasureRequest) -> None:
    if request.framework.is_engine or request.precision.needs_engine:
        raise UsageError("engines are worked out, not measured: time PyTorch with --framework eager or compile.")
    if (request.rules.stop.repetitions or 0) > MOST_SAMPLES:
        raise UsageError(f"--repetitions is at most {MOST_SAMPLES:,}; it is {request.rules.stop.repetitions:,}.")
    if request.timeout_s is not None and not request.is_isolated:
        raise UsageError("--timeout ends a process of its own: add --isolate.")
    if request.profile is not None and request.is_isolated:
        raise UsageError("--profile looks into this process: drop --isolate.")
    if request.modules and request.is_isolated:
        raise UsageError("--modules looks into this process: drop --isolate.")
    if request.modules and request.framework is not Framework.EAGER:
        raise UsageError(f"--modules needs --framework eager: {request.framework} fuses kernels across modules.")
    if request.resumes and request.lines is None:
        raise UsageError("--resume needs the measurement file to go on with: add -o FILE.jsonl.")
    if request.is_isolated and not isinstance(request.model, ModelRequest):
        raise UsageError("a module of this process cannot be measured in another one; name the model by words.")
