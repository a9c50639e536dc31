"""What `capplan estimate` advises: the same batch under other conditions, on smaller inputs, on other GPUs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from capplan.cli.models import ModelWords, obtain_trace
from capplan.core.workload import Layout, Precision, Workload
from capplan.errors import CapplanError

if TYPE_CHECKING:
    from capplan.core.gpus.spec import GpuSpec
    from capplan.core.latency.advice import Advice
    from capplan.core.latency.calibration import Calibration
    from capplan.core.latency.types import LatencyEstimate
    from capplan.core.trace.types import InputTensor, Trace
    from capplan.specs import Gpus

_SMALLEST_SIDE, _SMALLEST_LENGTH = 32, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Adviser:
    """What advice is drawn from, the GPU in question apart."""

    trace: "Trace"
    words: ModelWords
    workload: Workload
    calibration: "Calibration"
    gpus: "Gpus"
    overlays: Sequence[Path]
    is_trace_file: bool

    def advise(self, gpu: "GpuSpec", curve: "Sequence[LatencyEstimate]") -> "tuple[Advice, ...]":
        """List what would help at the last batch of a curve."""
        from capplan.core.latency.advice import advise

        last = curve[-1]
        alternatives = {
            change: estimate
            for change, trace, workload in self._changed()
            if (estimate := self._estimate(trace, workload, gpu, last.batch)) is not None
        }
        copied_bytes = sum(tensor.size_bytes(last.batch) for tensor in self.trace.inputs)
        return advise(
            last,
            curve,
            alternatives=alternatives,
            host_copy_s=copied_bytes / gpu.pcie_bytes_per_s if gpu.pcie_bytes_per_s else None,
            stronger=self._stronger(gpu, last),
        )

    def _changed(self) -> "Iterator[tuple[str, Trace, Workload]]":
        """The changes that can be had, with the traces that answer for them."""
        now = self.workload
        wanted = {}
        if now.precision.half_dtype is None:
            wanted["half precision (--precision amp-fp16)"] = replace(now, precision=Precision.AMP_FP16)
            wanted["16-bit weights (--precision fp16)"] = replace(now, precision=Precision.FP16)
        if now.layout is Layout.NCHW and any(len(tensor.shape) == 4 for tensor in self.trace.inputs):
            wanted["channels_last (--layout nhwc)"] = replace(now, layout=Layout.NHWC)
        for change, workload in wanted.items():
            if (trace := self._trace(self.words, workload)) is not None:
                yield change, trace, workload
        if not self.is_trace_file and (smaller := _half_as_large(self.words, self.trace.inputs)) is not None:
            option, words = smaller
            if (trace := self._trace(words, now)) is not None:
                yield f"a smaller input ({option}), if the task allows it", trace, now

    def _trace(self, words: ModelWords, workload: Workload) -> "Trace | None":
        """The trace of a change; None where the model does not allow it."""
        try:
            trace = self.trace if self.is_trace_file else obtain_trace(words, [workload.configuration])
            trace.recording(workload.configuration)
        except CapplanError:
            return None
        return trace

    def _estimate(self, trace: "Trace", workload: Workload, gpu: "GpuSpec", batch: int) -> "LatencyEstimate | None":
        from capplan.core.latency.device import Unsupported
        from capplan.core.latency.predict import estimate_latencies
        from capplan.core.latency.step import ExecutedStep

        recording = trace.recording(workload.configuration)
        if recording.exact_batch not in (None, batch):
            return None
        step = ExecutedStep.of(recording, workload, calibration=self.calibration)
        (answer,) = estimate_latencies(step, gpus=[gpu], batches=[batch])
        return None if isinstance(answer, Unsupported) else answer[0]

    def _stronger(self, gpu: "GpuSpec", now: "LatencyEstimate") -> "tuple[Advice, ...]":
        from capplan.core.gpus.prices import cheapest_on_demand
        from capplan.core.latency.advice import is_of_same_kind, stronger_gpus
        from capplan.core.latency.device import Unsupported
        from capplan.core.latency.predict import estimate_latencies
        from capplan.core.latency.step import ExecutedStep
        from capplan.specs.prices import load_prices

        recording = self.trace.recording(self.workload.configuration)
        alike = [other for other in self.gpus.values() if is_of_same_kind(gpu, other)]
        step = ExecutedStep.of(recording, self.workload, calibration=self.calibration)
        answers = estimate_latencies(step, gpus=alike, batches=[now.batch])
        others = [
            (other, answer[0])
            for other, answer in zip(alike, answers, strict=True)
            if not isinstance(answer, Unsupported)
        ]
        rents = cheapest_on_demand(load_prices(self.gpus, overlays=self.overlays).hourly)
        return stronger_gpus(gpu, now, others=others, rents=rents)


def _half_as_large(words: ModelWords, inputs: "Sequence[InputTensor]") -> tuple[str, ModelWords] | None:
    """The same model on half the side or half the tokens, as an option and as words; None where neither is meant."""
    if words.inputs or words.inputs_from or not inputs:
        return None
    if words.sequence_length is not None or _is_text(inputs[0]):
        length = (words.sequence_length or inputs[0].shape[1].constant) // 2
        return (f"--seq-len {length}", replace(words, sequence_length=length)) if length >= _SMALLEST_LENGTH else None
    if len(inputs[0].shape) != 4 or not inputs[0].dtype.startswith("float"):
        return None
    channels, *sides = (dim.constant for dim in inputs[0].shape[1:])
    halves = [side // 2 // _SMALLEST_SIDE * _SMALLEST_SIDE for side in sides]
    if min(halves) < _SMALLEST_SIDE:
        return None
    size = "x".join(map(str, (channels, *halves)))
    return f"--input-size {size}", replace(words, input_size=size)


def _is_text(tensor: "InputTensor") -> bool:
    return len(tensor.shape) == 2 and tensor.dtype == "int64"
