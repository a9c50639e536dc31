"""Theory for `capplan measure`: the device's spec, the model's trace, and the estimate for each point."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from capplan.cli.models import ModelWords, obtain_trace
from capplan.cli.output import warn
from capplan.core.workload import Workload
from capplan.errors import CapplanError, UnknownNameError

if TYPE_CHECKING:
    from capplan.cli.measure_request import Conditions
    from capplan.core.gpus.spec import GpuSpec
    from capplan.core.latency.calibration import Calibration
    from capplan.core.measurement.theory import Recordings, Theory
    from capplan.core.measurement.types import Measurement
    from capplan.core.trace.types import Recording
    from capplan.probe.measure.request import Job


@dataclass(slots=True)
class GpuTheory:
    """What can be said of a model on a device; says nothing, once and with the reason, where it cannot."""

    recordings: "Recordings"
    workload: Workload
    gpu: "GpuSpec | None"
    calibration: "Calibration | None"
    _is_silent: bool = False

    def put_beside(self, point: "Measurement") -> "Measurement":
        """Add bound, estimate and shares of the peaks to a measurement."""
        from capplan.core.latency.device import Unsupported

        if (theory := self.at(point.workload.batch)) is None:
            return point
        beside = theory.beside(batch=point.workload.batch, median_s=point.latency.median)
        if isinstance(beside, Unsupported):
            self._fall_silent(beside.reason)
            return point
        return replace(point, theory=beside)

    def at(self, batch: int) -> "Theory | None":
        """The theory that holds at a batch; None without a spec or a trace."""
        from capplan.core.latency.step import ExecutedStep
        from capplan.core.measurement.theory import Theory

        if self.gpu is None or (recording := self.recording(batch)) is None:
            return None
        return Theory(step=ExecutedStep.of(recording, self.workload, calibration=self.calibration), gpu=self.gpu)

    def recording(self, batch: int) -> "Recording | None":
        """What runs at a batch; a model that does not grow evenly is traced there anew."""
        if self._is_silent:
            return None
        try:
            return self.recordings.at(batch)
        except CapplanError as error:
            self._fall_silent(str(error))
            return None

    def _fall_silent(self, reason: str) -> None:
        self._is_silent = True
        warn(f"warning: no estimate beside the measurement: {reason}")


def find_theory(job: "Job", conditions: "Conditions") -> tuple[GpuTheory, "Job"]:
    """Find the device's spec by the name given or the driver's, and the job with its id.

    Raises:
        UnknownNameError: `--gpu` names no spec.
    """
    from capplan.core.measurement.theory import Recordings
    from capplan.probe.measure.facts import torch_release
    from capplan.probe.measure.open import devices_at_hand
    from capplan.specs import load_gpus
    from capplan.specs.calibration import load_calibration

    known = load_gpus(overlays=conditions.specs)
    name = devices_at_hand()[job.device]
    spec = None
    if conditions.gpu is not None:
        spec = known.find(conditions.gpu)
    else:
        try:
            spec = known.find(name)
        except UnknownNameError:
            if job.device != "cpu":
                warn(f"warning: the database has no {name!r}, so no estimate; `capplan gpus detect` proposes a spec.")
    words = ModelWords(
        words=job.model.words,
        arguments=job.model.arg,
        inputs=job.model.inputs,
        input_size=job.model.input_size,
        sequence_length=job.model.seq_len,
        inputs_from=job.model.inputs_from,
        prepare=job.model.prepare,
    )
    configuration = job.workload.configuration

    def record(exact_batch: int | None) -> "Recording":
        return obtain_trace(words, [configuration], exact_batch=exact_batch).recording(configuration)

    theory = GpuTheory(
        recordings=Recordings(record=record),
        workload=replace(job.workload, torch_version=torch_release()),
        gpu=spec,
        calibration=load_calibration(conditions.calibration) if spec else None,
    )
    return theory, replace(job, gpu=spec.id if spec else None)
