"""Compare a measurement with theory: the device's spec, the model's trace, and the estimate for each point."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from capplan.app.calibration.cpu import CPU_ID, described
from capplan.app.feedback import Feedback
from capplan.app.measure.request import MeasureRequest
from capplan.app.models import Model
from capplan.core.gpus.spec import GpuSpec, Microbenchmark
from capplan.core.latency.calibration import Calibration
from capplan.core.latency.device import Unsupported
from capplan.core.latency.step import ExecutedStep
from capplan.core.measurement.compare import Theory
from capplan.core.measurement.types import Measurement
from capplan.core.ops.module_tree import ModuleNode, module_tree
from capplan.core.trace.types import Recording
from capplan.core.workload import Workload
from capplan.errors import CapplanError, UnknownNameError
from capplan.specs import load_gpus
from capplan.specs.calibration import load_calibration
from capplan.units import format_bytes_per_s, format_flops_per_s

if TYPE_CHECKING:
    from capplan.probe.measure.request import MeasurementJob


@dataclass(slots=True, kw_only=True)
class GpuTheory:
    """What can be estimated of a model on a device; where nothing can, the reason is reported once."""

    model: Model
    workload: Workload
    gpu: GpuSpec | None
    calibration: Calibration | None
    feedback: Feedback
    _reason: str | None = None

    def with_theory(self, point: Measurement) -> Measurement:
        """Return a measurement with bound, estimate and shares of the peaks, or with a note why there are none."""
        theory = self.at(point.workload.batch)
        if theory is not None:
            figures = theory.figures_at(batch=point.workload.batch, median_s=point.latency.median)
            if not isinstance(figures, Unsupported):
                return replace(point, theory=figures)
            self._give_up(figures.reason)
        if self._reason is None:
            return point
        return replace(point, notes=(*point.notes, f"no estimate: {self._reason}"))

    def at(self, batch: int) -> Theory | None:
        """Return the theory that holds at a batch; None without a spec or a trace."""
        if self.gpu is None or (recording := self.recording(batch)) is None:
            return None
        return Theory(step=ExecutedStep.of(recording, self.workload, calibration=self.calibration), gpu=self.gpu)

    def counts(self, batch: int) -> tuple[ModuleNode, ...]:
        """Return the counts of every module at a batch; empty where the model could not be traced."""
        if self.recording(batch) is None:
            return ()
        configuration = self.workload.configuration
        return module_tree(self.model.trace_at(configuration, batch), configuration=configuration, batch=batch)

    def recording(self, batch: int) -> Recording | None:
        """Return what runs at a batch; None where the model could not be traced."""
        if self._reason is not None:
            return None
        configuration = self.workload.configuration
        try:
            return self.model.trace_at(configuration, batch).recording(configuration)
        except CapplanError as error:
            self._give_up(str(error))
            return None

    def _give_up(self, reason: str) -> None:
        self._reason = reason
        self.feedback.warn(f"warning: no estimate to compare the measurement with: {reason}")


def find_theory(job: "MeasurementJob", model: Model, request: MeasureRequest, feedback: Feedback) -> GpuTheory:
    """Find the device's spec by the name given or the driver's."""
    from capplan.probe.measure.facts import torch_release

    gpu = _find_gpu(job.device, request, feedback)
    calibration = load_calibration(request.calibration) if gpu else None
    if gpu is None and job.device == CPU_ID:
        gpu, calibration = _timed_cpu(request, feedback)
    return GpuTheory(
        model=model,
        workload=replace(job.workload, torch_version=torch_release()),
        gpu=gpu,
        calibration=calibration,
        feedback=feedback,
    )


_CPU_BUDGET_S = 0.2
"""How long each of ten products and copies is timed: two seconds in all. [s]"""


def _timed_cpu(request: MeasureRequest, feedback: Feedback) -> tuple[GpuSpec | None, Calibration | None]:
    """Describe the CPU at hand by timing it for about two seconds; nothing where that fails, with a warning."""
    from capplan.probe.measure.cpu_operators import benchmark_cpu, undisturbed_clock

    try:
        with feedback.brief("timing this CPU"):
            benchmark = benchmark_cpu(clock=undisturbed_clock(), budget_s=_CPU_BUDGET_S)
    except CapplanError as error:
        feedback.warn(f"warning: no estimate to compare the measurement with: the CPU could not be timed ({error})")
        return None, None
    spec = described(benchmark, overlays=request.specs).spec
    reached = spec.measured[Microbenchmark.MATMUL_FP32].value, spec.measured[Microbenchmark.COPY].value
    feedback.warn(
        f"note: bound and estimate rest on what this CPU reached in two seconds: {format_flops_per_s(reached[0])} in "
        f"fp32 matrix products, {format_bytes_per_s(reached[1])} in copies; shares of these that operators reach are "
        "those of the CPU that was calibrated."
    )
    return spec, load_calibration(request.calibration)


def _find_gpu(device: str, request: MeasureRequest, feedback: Feedback) -> GpuSpec | None:
    from capplan.probe.measure.devices import devices_at_hand

    if isinstance(request.gpu, GpuSpec):
        return request.gpu
    known = load_gpus(overlays=request.specs)
    if request.gpu is not None:
        return known.find(request.gpu)
    name = devices_at_hand()[device]
    try:
        return known.find(name)
    except UnknownNameError:
        if device != "cpu":
            feedback.warn(
                f"warning: the database has no {name!r}, so no estimate; `capplan gpus detect` proposes a spec."
            )
        return None
