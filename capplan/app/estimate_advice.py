"""Advise on an estimate: the same batch under other conditions, on smaller inputs, on other GPUs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from capplan.app.models import Model
from capplan.core.gpus.prices import Price
from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.calibration import Calibration
from capplan.core.latency.choices.advice import SMALLER_INPUT, Advice, advise, is_of_same_kind, stronger_gpus
from capplan.core.latency.device import Unsupported
from capplan.core.latency.predict import estimate_latencies
from capplan.core.latency.step import ExecutedStep
from capplan.core.latency.types import LatencyEstimate
from capplan.core.trace.types import InputTensor, Trace
from capplan.core.workload import Framework, Layout, Precision, Workload
from capplan.errors import CapplanError
from capplan.specs import Gpus

_SMALLEST_SIDE, _SMALLEST_LENGTH = 32, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The same batch under other conditions or on a smaller input, with the trace that answers for it."""

    change: str
    trace: Trace
    workload: Workload


def possible_changes(model: Model, trace: Trace, workload: Workload, *, batch: int) -> tuple[Change, ...]:
    """Return the changes that can be had, each traced once for all GPUs.

    Args:
        model: the model in question.
        trace: its trace under the conditions asked for.
        workload: these conditions.
        batch: the batch that advice is given for.
    """
    return tuple(_possible_changes(model, trace, workload, batch))


def _possible_changes(model: Model, trace: Trace, now: Workload, batch: int) -> Iterator[Change]:
    wanted = {}
    if now.precision.half_dtype is None:
        wanted["half precision (--precision amp-fp16)"] = replace(now, precision=Precision.AMP_FP16)
        wanted["16-bit weights (--precision fp16)"] = replace(now, precision=Precision.FP16)
    if now.framework is Framework.EAGER:
        wanted["compiling (--framework compile)"] = replace(now, framework=Framework.COMPILE)
    if now.layout is Layout.NCHW and any(len(tensor.shape) == 4 for tensor in trace.inputs):
        wanted["channels_last (--layout nhwc)"] = replace(now, layout=Layout.NHWC)
    for change, workload in wanted.items():
        if (found := _try_trace(model, workload, batch)) is not None:
            yield Change(change=change, trace=found, workload=workload)
    if (smaller := _half_as_large(model, trace.inputs)) is not None:
        option, other = smaller
        if (found := _try_trace(other, now, batch)) is not None:
            yield Change(change=f"{SMALLER_INPUT} ({option}), if the task allows it", trace=found, workload=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adviser:
    """What advice is drawn from, apart from the GPU in question; `rents` are the lowest hourly prices by GPU id."""

    trace: Trace
    workload: Workload
    calibration: Calibration
    changes: tuple[Change, ...]
    gpus: Gpus
    rents: Mapping[str, Price]

    def advise(self, gpu: GpuSpec, curve: Sequence[LatencyEstimate]) -> tuple[Advice, ...]:
        """Return what would help at the last batch of a curve."""
        last = curve[-1]
        alternatives = {
            each.change: estimate
            for each in self.changes
            if (estimate := self._estimate(each.trace, each.workload, gpu, last.batch)) is not None
        }
        copied_bytes = sum(tensor.size_bytes(last.batch) for tensor in self.trace.inputs)
        return advise(
            last,
            curve,
            alternatives=alternatives,
            host_copy_s=copied_bytes / gpu.pcie_bytes_per_s if gpu.pcie_bytes_per_s else None,
            stronger=self._stronger(gpu, last),
        )

    def _estimate(self, trace: Trace, workload: Workload, gpu: GpuSpec, batch: int) -> LatencyEstimate | None:
        recording = trace.recording(workload.configuration)
        if recording.exact_batch not in (None, batch):
            return None
        step = ExecutedStep.of(recording, workload, calibration=self.calibration)
        (answer,) = estimate_latencies(step, gpus=[gpu], batches=[batch])
        return None if isinstance(answer, Unsupported) else answer[0]

    def _stronger(self, gpu: GpuSpec, now: LatencyEstimate) -> tuple[Advice, ...]:
        recording = self.trace.recording(self.workload.configuration)
        alike = [other for other in self.gpus.values() if is_of_same_kind(gpu, other)]
        step = ExecutedStep.of(recording, self.workload, calibration=self.calibration)
        answers = estimate_latencies(step, gpus=alike, batches=[now.batch])
        others = [
            (other, answer[0])
            for other, answer in zip(alike, answers, strict=True)
            if not isinstance(answer, Unsupported)
        ]
        return stronger_gpus(gpu, now, others=others, rents=self.rents)


def _try_trace(model: Model, workload: Workload, batch: int) -> Trace | None:
    """Return the trace of a change; None where the model does not allow it, or a trace file does not hold it."""
    try:
        trace = model.trace_at(workload.configuration, batch)
        trace.recording(workload.configuration)
    except CapplanError:
        return None
    return trace


def _half_as_large(model: Model, inputs: Sequence[InputTensor]) -> tuple[str, Model] | None:
    """Return the model on half the side or half the tokens, and the option that asks for it; None for other inputs."""
    request = model.own_request
    if request is None or request.inputs or request.inputs_from or not inputs:
        return None
    if request.seq_len is not None or _is_text(inputs[0]):
        length = (request.seq_len or inputs[0].shape[1].constant) // 2
        smaller = model.with_input(seq_len=length) if length >= _SMALLEST_LENGTH else None
        return (f"--seq-len {length}", smaller) if smaller else None
    if len(inputs[0].shape) != 4 or not inputs[0].dtype.startswith("float"):
        return None
    channels, *sides = (dim.constant for dim in inputs[0].shape[1:])
    halves = [side // 2 // _SMALLEST_SIDE * _SMALLEST_SIDE for side in sides]
    size = "x".join(map(str, (channels, *halves)))
    smaller = model.with_input(input_size=size) if min(halves) >= _SMALLEST_SIDE else None
    return (f"--input-size {size}", smaller) if smaller else None


def _is_text(tensor: InputTensor) -> bool:
    return len(tensor.shape) == 2 and tensor.dtype == "int64"
