"""A recorded step as a framework runs it: the only input of the functions that time a step."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from capplan.core.compiled.rewrite import executed_recording
from capplan.core.compiled.roles import graph_break_notes
from capplan.core.gpus.rate_laws import GUESSED_LAWS, RateLaws
from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.calibration import Calibration
from capplan.core.latency.inference_engines import gains_from_int8, with_convolution_widths
from capplan.core.latency.lookup import cpu_part, on_cores, part_for
from capplan.core.ops.flops import kernel_macs
from capplan.core.tensorrt_rewrite import engine_recording, refusal_notes
from capplan.core.trace.types import Recording
from capplan.core.workload import OWN_PRECISIONS, Framework, Precision, Variant, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutedStep:
    """The kernels that a framework launches for a step, with the calibration that serves the workload.

    A recording must be fused where the framework compiles it, and a calibration must be selected for the workload,
    before any kernel is timed. `of` does both, so that no caller can forget one of them.

    Attributes:
        recording: What runs: as traced in eager mode, fused under torch.compile.
        workload: Precision, framework, layout, mode and torch version.
        calibration: The part of the calibration that serves the workload; None for engineering guesses.
        graph_breaks: Sentences about places where a compiled graph is interrupted.
        cpu_parts: The parts of the calibration that serve CPUs, by their names.
        traced: What an engine's int8 step was made of, for GPUs that are not faster in int8; None of other steps.
        tables: The tables of kernels that `kernel_table` made last, by their batches: questions that change GPUs or
            prices ask for the same ones again.
    """

    recording: Recording
    workload: Workload
    calibration: Calibration | None
    graph_breaks: tuple[str, ...] = ()
    cpu_parts: Mapping[str, Calibration] = field(default_factory=dict)
    traced: Recording | None = None
    tables: dict[tuple[int, ...], Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    def is_alike_on(self, gpu: GpuSpec) -> bool:
        """Return True for GPUs that run the step as it is: neither a CPU nor without use for an engine's int8."""
        return not gpu.is_cpu and (self.traced is None or gains_from_int8(gpu))

    @property
    def laws(self) -> RateLaws:
        """Return the laws that give a GPU's rates; guesses stand in for those of a missing calibration."""
        return GUESSED_LAWS if self.calibration is None else self.calibration.laws

    def on(self, gpu: GpuSpec) -> "ExecutedStep":
        """Return the step as a device runs it.

        A CPU's kernels share nothing with a GPU's, and an engine takes 16 bits where int8 is not faster.
        """
        if self.is_alike_on(gpu):
            return self
        if not gpu.is_cpu:
            assert self.traced is not None
            wide = engine_recording(self.traced, replace(self.workload, precision=Precision.FP16))
            return replace(self, recording=wide, traced=None)
        part = cpu_part(self.cpu_parts, self.workload, gpu)
        return replace(self, calibration=None if part is None else on_cores(part, gpu.unit_count or 1))

    @classmethod
    def of(cls, recording: Recording, workload: Workload, *, calibration: Calibration | None = None) -> "ExecutedStep":
        """Fuse a traced recording for the workload's framework and select the calibration's part for it."""
        workload = in_own_precision(recording, workload)
        is_eager = workload.framework is Framework.EAGER
        if workload.framework.is_engine:
            part = part_for(calibration, workload) if calibration else None
            if part is not None and any(kernel.name.startswith("aten.convolution") for kernel in recording.kernels):
                part = with_convolution_widths(part, workload.framework)
            return cls(
                recording=engine_recording(recording, workload),
                workload=workload,
                calibration=part,
                graph_breaks=refusal_notes(recording, workload.framework),
                traced=recording if workload.precision is Precision.INT8 else None,
            )
        return cls(
            recording=executed_recording(recording, workload),
            workload=workload,
            calibration=part_for(calibration, workload) if calibration else None,
            graph_breaks=() if is_eager else graph_break_notes(recording),
            cpu_parts=calibration.parts if calibration else {},
        )


def in_own_precision(recording: Recording, workload: Workload) -> Workload:
    """Return the workload in the 16-bit format that a model is built in, where it runs in its own.

    A model built in bfloat16 runs the same kernels, whether bf16 is asked for or nothing is. The format of most
    multiply-accumulates decides.
    """
    if workload.precision.variant is not Variant.FULL:
        return workload
    batch, macs = recording.exact_batch or 1, Counter[str]()
    for kernel, calls in zip(recording.kernels, recording.calls_per_kernel(), strict=True):
        if kernel.inputs:
            macs[kernel.inputs[0].dtype] += calls * kernel_macs(kernel, batch)
    most = max(macs, key=lambda dtype: macs[dtype], default="")
    own = OWN_PRECISIONS.get(most) if macs[most] else None
    return workload if own is None else replace(workload, precision=own)
