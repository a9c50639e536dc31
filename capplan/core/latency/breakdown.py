"""Where a step's time goes on one GPU: the classic bound of the whole, and each kernel and module with what binds it.

The classic bound counts all FLOPs at the printed peaks and all bytes at the printed bandwidth; the longer decides. It
counts by the same rule as the bound of each kernel (`BOUND_RULE`), so that the kernels' bounds, summed, are never below
it: a sum of maxima is at least the maximum of the sums.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.classes import ALL_CLASSES
from capplan.core.latency.decompositions import AttentionPath
from capplan.core.latency.device import DeviceRates, Unsupported, device_rates
from capplan.core.latency.kernel_time import KernelTimes, PeakUse
from capplan.core.latency.op_table import counted_flops, kernel_table
from capplan.core.latency.predict import DeviceTimes, least_bytes, least_flops, time_kernels
from capplan.core.latency.step import ExecutedStep
from capplan.core.latency.types import Binding
from capplan.core.numbers import FloatArray
from capplan.core.power import PROBED_CLOCKS, PeakSeconds, at_clock, clock_mix
from capplan.core.trace.types import Recording


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelShare:
    """One kernel of a step: how often it runs, its time in all runs, what binds it. [s]

    `efficiency_fraction` is its roofline bound over its time: 1 would be the printed peak or bandwidth. `least_flops`
    are the FLOPs that its bound counts, fewer than `flops` where Winograd's algorithm may run.
    """

    name: str
    label: str
    shapes: str
    calls: int
    time_s: float
    share_fraction: float
    binding: Binding
    efficiency_fraction: float
    flops: float
    least_flops: float
    traffic_bytes: float
    bound_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleShare:
    """One module of the model and the device time of the kernels that it launches itself. [s]"""

    path: str
    calls: int
    time_s: float
    share_fraction: float
    binding: Binding


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBreakdown:
    """A step on one GPU at one batch: kernels and modules, costliest first; device and host time. [s]

    `slowdown` is by what factor a power limit lengthens the step. Times are under the limit; `rates`, and with them the
    bounds of kernels, are the GPU's own.
    """

    gpu: GpuSpec
    batch: int
    rates: DeviceRates
    kernels: tuple[KernelShare, ...]
    modules: tuple[ModuleShare, ...]
    device_s: float
    host_s: float
    step_s: float
    calls: float
    launches: float
    slowdown: float = 1.0


def break_down(step: ExecutedStep, *, gpu: GpuSpec, batch: int, slowdown: float = 1.0) -> StepBreakdown | Unsupported:
    """Split a step's time over kernels and over modules; the shares of each split sum to 1."""
    step = step.on(gpu)
    rates = device_rates(gpu, step.workload, step.laws)
    if isinstance(rates, Unsupported):
        return rates
    recording, table = step.recording, kernel_table(step, batches=[batch])
    times = time_kernels(step, table, devices=[(gpu, rates)])
    step_s = slowdown * float(times.step_s[0, 0])
    if slowdown > 1.0:
        times = _slowed(step, times, gpu, slowdown)
    device_s = float(times.device_s[0, 0])
    runs_s = np.where(times.count[0] > 0, times.times.total_s[0, :, 0], 0.0)
    per_run = np.bincount(table.kernel, runs_s, minlength=len(recording.kernels)).astype(np.float64)
    best: dict[int, tuple[float, Binding]] = {}
    for row, kernel in enumerate(times.table.kernel.tolist()):
        cost = float(times.times.total_s[0, row, 0] * times.count[0, row])
        if cost >= best.get(kernel, (-1.0, Binding.LAUNCHES))[0]:
            best[kernel] = (cost, _binding(times, row))
    kernel_bindings = [best.get(index, (0.0, Binding.LAUNCHES))[1] for index in range(len(recording.kernels))]
    return StepBreakdown(
        gpu=gpu,
        batch=batch,
        rates=rates,
        kernels=_kernels(times, recording, rates, device_s),
        modules=_modules(recording, per_run, kernel_bindings, device_s),
        device_s=device_s,
        host_s=float(times.host_s[0, 0]),
        step_s=step_s,
        calls=table.host_calls,
        launches=float(times.count[0].sum()),
        slowdown=slowdown,
    )


def _slowed(step: ExecutedStep, times: DeviceTimes, gpu: GpuSpec, slowdown: float) -> DeviceTimes:
    """Return the times of a step's kernels on a GPU whose power limit lengthens it by a factor."""
    cards = [gpu, *(at_clock(gpu, clock) for clock in PROBED_CLOCKS)]
    rates = [device_rates(card, step.workload, step.laws) for card in cards]
    devices = [(card, rate) for card, rate in zip(cards, rates, strict=True) if isinstance(rate, DeviceRates)]
    clocked = time_kernels(step, times.table, devices=devices)
    mix = clock_mix(clocked.step_s[:, 0].tolist(), slowdown)
    weights = mix.stretch * np.array(mix.weights)

    def mixed(values: FloatArray) -> FloatArray:
        per_card = np.broadcast_to(values, clocked.times.total_s.shape)
        return np.asarray(np.einsum("g,gkb->kb", weights, per_card))[None]

    parts = clocked.times
    return replace(
        times,
        times=KernelTimes(
            compute_s=mixed(parts.compute_s),
            memory_s=mixed(parts.memory_s),
            fixed_s=mixed(parts.fixed_s),
            total_s=mixed(parts.total_s),
            missed_bytes=parts.missed_bytes[:1],
        ),
    )


def _kernels(times: DeviceTimes, recording: Recording, rates: DeviceRates, device_s: float) -> tuple[KernelShare, ...]:
    table, total_s = times.table, times.times.total_s[0, :, 0] * times.count[0]
    flops, least, (batch,) = counted_flops(table), least_flops(table, [rates])[0], table.batches
    moved_bytes = table.moved_bytes[:, 0]
    found = []
    for row in np.argsort(-total_s, kind="stable"):
        if times.count[0, row] <= 0:
            continue
        kernel = recording.kernels[table.kernel[row]]
        unfused = table.path[row] == AttentionPath.UNFUSED
        found.append(
            KernelShare(
                name=kernel.name.partition(".")[2] + (" (unfused part)" if unfused else ""),
                label=ALL_CLASSES[table.label[row]],
                shapes=" · ".join("×".join(map(str, item.shape_at(batch))) for item in kernel.inputs[:2]),
                calls=int(times.count[0, row]),
                time_s=float(total_s[row]),
                share_fraction=float(total_s[row] / device_s),
                binding=_binding(times, int(row)),
                efficiency_fraction=float(times.bound_s[0, row, 0] * times.count[0, row] / total_s[row]),
                flops=float(flops[row, 0] * times.count[0, row]),
                least_flops=float(least[row, 0] * times.count[0, row]),
                traffic_bytes=float(moved_bytes[row] * times.count[0, row]),
                bound_s=float(times.bound_s[0, row, 0] * times.count[0, row]),
            )
        )
    return tuple(found)


def _binding(times: DeviceTimes, row: int) -> Binding:
    parts = times.times
    compute, memory = float(parts.compute_s[0, row, 0]), float(parts.memory_s[0, row, 0])
    if float(np.broadcast_to(parts.fixed_s, parts.total_s.shape)[0, row, 0]) > max(compute, memory):
        return Binding.LAUNCHES
    return Binding.COMPUTE if compute > memory else Binding.BANDWIDTH


def _modules(
    recording: Recording, per_run_s: FloatArray, binding: list[Binding], device_s: float
) -> tuple[ModuleShare, ...]:
    time_s: dict[int, float] = defaultdict(float)
    calls: dict[int, int] = defaultdict(int)
    by_binding: dict[int, dict[Binding, float]] = defaultdict(lambda: defaultdict(float))
    for op in recording.steady_ops():
        cost = float(per_run_s[op.kernel])
        time_s[op.module] += cost
        calls[op.module] += 1
        by_binding[op.module][binding[op.kernel]] += cost
    return tuple(
        ModuleShare(
            path=recording.modules[module] or "(model)",
            calls=calls[module],
            time_s=time_s[module],
            share_fraction=time_s[module] / device_s,
            binding=max(by_binding[module].items(), key=lambda item: item[1])[0],
        )
        for module in sorted(time_s, key=lambda module: -time_s[module])
    )


BOUND_RULE = (
    "the longer of FLOPs ÷ printed peak and bytes ÷ printed bandwidth; of a convolution that may run by Winograd's "
    "algorithm (3×3, stride 1, outside tensor cores) a quarter of the FLOPs count; of what a kernel reads and writes, "
    "as much as the L2 holds counts as cached, and all weights if they fit there together"
)
"""What the bound of a kernel is, and that of a step, which is the sum of its kernels' or of the step as one kernel."""

UNIT_NAMES = {
    PeakUse.HALF: "16 bits",
    PeakUse.CONVOLUTION_32: "fp32 convolutions",
    PeakUse.MATMUL_32: "fp32 matrix products",
    PeakUse.VECTOR: "outside tensor cores",
    PeakUse.DOUBLE: "fp64",
    PeakUse.INT8: "int8",
    PeakUse.FP8: "fp8",
    PeakUse.FP4: "fp4",
}
"""Units that do arithmetic, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitWork:
    """The FLOPs of a step that one kind of unit does, the least that will do, and its printed dense rate."""

    use: PeakUse
    flops: float
    least_flops: float
    flops_per_s: float

    @property
    def time_s(self) -> float:
        """Least FLOPs ÷ FLOP/s. [s]"""
        return self.least_flops / self.flops_per_s

    @property
    def direct_s(self) -> float:
        """Return all FLOPs ÷ FLOP/s; no bound where an algorithm does without some of them. [s]"""
        return self.flops / self.flops_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicBound:
    """The step as one kernel: its arithmetic by kind of unit, costliest first, and its traffic; attention is fused.

    `operand_bytes` are those of all operands, `traffic_bytes` those that must cross the memory bus. [bytes]
    """

    work: tuple[UnitWork, ...]
    operand_bytes: float
    traffic_bytes: float
    l2_bytes: float
    bandwidth_bytes_per_s: float

    @property
    def flops(self) -> float:
        return sum(unit.flops for unit in self.work)

    @property
    def compute_s(self) -> float:
        """Least FLOPs ÷ FLOP/s, summed over the units. [s]"""
        return sum(unit.time_s for unit in self.work)

    @property
    def memory_s(self) -> float:
        """Bytes that must cross the memory bus ÷ bandwidth. [s]"""
        return self.traffic_bytes / self.bandwidth_bytes_per_s

    @property
    def bound_s(self) -> float:
        """Return the longer of arithmetic and memory. [s]"""
        return max(self.compute_s, self.memory_s)


def classic_bound(step: ExecutedStep, *, rates: DeviceRates, batch: int) -> ClassicBound:
    """Sum a step's FLOPs by the unit that does them, and its bytes."""
    table = kernel_table(step, batches=[batch])
    runs = table.fused_count
    flops, least = counted_flops(table)[:, 0] * runs, least_flops(table, [rates])[0, :, 0] * runs
    moved = table.moved_bytes[:, 0] * runs
    work = [
        UnitWork(
            use=use,
            flops=float(flops[table.peak_use == use].sum()),
            least_flops=float(least[table.peak_use == use].sum()),
            flops_per_s=float(rates.printed_flops_per_s[use]),
        )
        for use in UNIT_NAMES
    ]
    return ClassicBound(
        work=tuple(sorted((unit for unit in work if unit.flops > 0), key=lambda unit: -unit.time_s)),
        operand_bytes=float(moved.sum()),
        traffic_bytes=float((least_bytes(table, [rates])[0, :, 0] * runs).sum()),
        l2_bytes=rates.l2_bytes,
        bandwidth_bytes_per_s=rates.printed_bandwidth_bytes_per_s,
    )


_NARROW = (PeakUse.INT8, PeakUse.FP8, PeakUse.FP4)


def step_peak_seconds(
    step: ExecutedStep, gpu: GpuSpec, batches: Sequence[int], *, anchors: Sequence[int] = ()
) -> tuple[PeakSeconds | None, ...]:
    """Return the work of a step on one GPU at each batch; None where the GPU cannot run it.

    Bytes are those that must cross the memory bus. Attention counts as fused. Kernels are tabulated at the anchors, if
    there are any, and interpolated to the batches.
    """
    rates = device_rates(gpu, step.workload, step.laws)
    if not isinstance(rates, DeviceRates):
        return (None,) * len(batches)
    table = kernel_table(step, batches=batches, anchors=anchors)
    runs = table.fused_count[:, None]
    seconds = counted_flops(table) * runs / rates.printed_flops_per_s[table.peak_use][:, None]
    memory_s = (least_bytes(table, [rates])[0] * runs).sum(axis=0) / rates.printed_bandwidth_bytes_per_s
    is_narrow = np.isin(table.peak_use, _NARROW)
    return tuple(
        PeakSeconds(memory_s=memory, wide_s=wide, narrow_s=narrow)
        for memory, wide, narrow in zip(
            memory_s.tolist(),
            seconds[~is_narrow].sum(axis=0).tolist(),
            seconds[is_narrow].sum(axis=0).tolist(),
            strict=True,
        )
    )
