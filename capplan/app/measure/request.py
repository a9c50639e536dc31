"""What is asked of a measurement: the model, the batches, the device, and what it is compared with."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from capplan.app.models import Model, ModelSource, QuantisedModel
from capplan.core.gpus.spec import GpuSpec
from capplan.core.measurement.format import MOST_SAMPLES
from capplan.core.workload import BatchChoice, Batches, BatchSearch, Framework
from capplan.errors import UsageError
from capplan.probe.inputs.grammar import ModelRequest

if TYPE_CHECKING:
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
        return self.batches.choice is BatchChoice.MAX

    def listed(self, option: str) -> tuple[int, ...]:
        """Return the batches of a question that cannot search for them."""
        if self.batches.choice is not BatchChoice.LISTED:
            raise UsageError(f"{option} needs listed batches, such as ⟨batch⟩ 1,8.")
        return self.batches.sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureRequest:
    """A run that measures how fast a model is on the device at hand.

    `job` states the model by words, the conditions, the device (empty for the first accelerator) and the rules of
    timing; `source` is the model itself, None for its words. A search leaves the job's `reserve_fraction` of the
    available memory free. The estimates rest on `gpu`, which names the device's spec or is the spec (None looks the
    driver's name up in the database with `specs`), and on `calibration`. `isolate` measures each point in a
    process of its own, which is ended after `timeout_s`. Points are appended to the measurement file `lines`; `resume`
    skips those that it holds. `profile` is a folder for the profiles of each batch; `modules` times each by module,
    too.
    """

    job: "MeasurementJob"
    source: "ModelSource | None" = None
    curve: MeasuredBatches
    gpu: str | GpuSpec | None = None
    specs: tuple[Path, ...] = ()
    calibration: Path | None = None
    isolate: bool = False
    timeout_s: float | None = None
    lines: Path | None = None
    resume: bool = False
    profile: Path | None = None
    modules: bool = False

    @property
    def model(self) -> ModelSource:
        return self.job.model if self.source is None else self.source


def make_job(request: MeasureRequest, model: Model) -> "MeasurementJob":
    """Return what is to be measured, as data for this process or another one."""
    from capplan.probe.measure.devices import open_device

    _check(request)
    if isinstance(model, QuantisedModel):
        model.target()  # says why it cannot be run
    if not model.can_be_traced:
        raise UsageError(
            f"{model.words} is a trace, and measuring runs the model itself: name {model.trace([]).target}."
        )
    device = open_device(request.job.device).torch_device
    is_capped = request.job.allowed_bytes is not None or request.curve.at_most < LARGEST_SEARCHED_BATCH
    if device.type == "cpu" and request.curve.is_searched and not is_capped:
        raise UsageError(
            "⟨batch⟩ max on a CPU would fill this machine's memory, batch by batch: add ⟨memory-limit⟩ SIZE or "
            "⟨max-batch⟩ N, or measure on a GPU."
        )
    return replace(
        request.job,
        model=model.own_request or ModelRequest(words=model.words),
        device=str(device),
        reserve_fraction=request.job.reserve_fraction if request.curve.is_searched else None,
    )


def _check(request: MeasureRequest) -> None:
    job = request.job
    if job.framework.is_engine or job.precision.needs_engine:
        raise UsageError("engines are worked out, not measured: time PyTorch with ⟨framework⟩ eager or compile.")
    if (job.rules.stop.repetitions or 0) > MOST_SAMPLES:
        raise UsageError(f"⟨repetitions⟩ is at most {MOST_SAMPLES:,}; it is {job.rules.stop.repetitions:,}.")
    if request.timeout_s is not None and not request.isolate:
        raise UsageError("⟨timeout⟩ ends a process of its own: add ⟨isolate⟩.")
    if request.profile is not None and request.isolate:
        raise UsageError("⟨profile⟩ looks into this process: drop ⟨isolate⟩.")
    if request.modules and request.isolate:
        raise UsageError("⟨modules⟩ looks into this process: drop ⟨isolate⟩.")
    if request.modules and job.framework is not Framework.EAGER:
        raise UsageError(f"⟨modules⟩ needs ⟨framework⟩ eager: {job.framework} fuses kernels across modules.")
    if request.resume and request.lines is None:
        raise UsageError("⟨resume⟩ needs the measurement file to go on with: add -o FILE.jsonl.")
    if request.isolate and not isinstance(request.model, ModelRequest):
        raise UsageError("a module of this process cannot be measured in another one; name the model by words.")
