"""Predict the time of a batch on every GPU: the device's kernels against the host's launches.

The device's time is the sum over kernels of `kernel_time.kernel_times`; the host's, which runs ahead, is a
cost per call into PyTorch and per kernel. The longer decides: a 4-norm of the two. CUDA graphs leave only the
device's time.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.calibration import CLASS_FIELDS, Calibration, prior_calibration
from capplan.core.latency.classes import ALL_CLASSES, BATCHED_MATMUL, CLASS_INDEX, is_depthwise
from capplan.core.latency.data_parallel import exchanged_bytes, on_several_gpus
from capplan.core.latency.decompositions import AttentionPath
from capplan.core.latency.device import (
    DeviceRates,
    Unsupported,
    device_rates,
    host_slowness,
    host_step_s,
    kernel_peaks,
    missing_kernels,
)
from capplan.core.latency.inference_engines import least_times
from capplan.core.latency.kernel_time import (
    KernelRates,
    KernelTimes,
    KernelWork,
    bound_s,
    compulsory_bytes,
    kernel_times,
    tile_utilisation,
)
from capplan.core.latency.lookup import (
    ResolvedConstants,
    calibration_notes,
    gpu_evidence,
    host_of,
    interval_sides,
    measured_host,
    resolve_constants,
)
from capplan.core.latency.op_table import KernelTable, convolution_calls, counted_flops, kernel_table
from capplan.core.latency.step import ExecutedStep
from capplan.core.latency.types import ABOVE_PRINTED_CLOCK, Binding, LatencyEstimate
from capplan.core.numbers import BoolArray, FloatArray, Interval
from capplan.core.ops.attention import AttentionBackend, attention_backend
from capplan.core.ops.loops import SelectedLoops, loops_note, selected_loops
from capplan.core.trace.types import Op, Recording
from capplan.core.workload import Framework, Workload

_BINDINGS = tuple(Binding)
_HOST_NORM = 4
_WINOGRAD_GAIN, MOST_WINOGRAD_GAIN = 2.25, 4.0
"""Multiplications that F(2x2, 3x3) and F(4x4, 3x3) save (Lavin and Gray, 2016, section 4)."""
_WINOGRAD_FILTER_PASSES = 9.0
"""F(4x4) makes 36 numbers of a 3x3 filter: weights are read, written four times as large, and read again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTimes:
    """Kernels' times on several GPUs at several batches: arrays [GPU, kernel row, batch], and how often each row runs.

    `host_s` is the time that each GPU's host needs for a step, the same at every batch, [GPU, 1]; `weights_s` the time
    to read weights that no L2 holds at the printed bandwidth, [GPU, 1].
    """

    table: KernelTable
    times: KernelTimes
    bound_s: FloatArray
    count: FloatArray
    host_s: FloatArray
    weights_s: FloatArray

    @property
    def device_s(self) -> FloatArray:
        """Time of a step on the device, [GPU, batch]. [s]"""
        return np.asarray((self.times.total_s * self.count[:, :, None]).sum(axis=1))

    @property
    def step_s(self) -> FloatArray:
        """Time of a step, the longer of device and host, [GPU, batch]. [s]

        Efficiencies were fitted to networks most of whose weights an L2 holds from one step to the next, so that layers
        of many weights and few rows came out faster than memory is. Reading the weights bounds the step from below.
        """
        step_s = np.asarray((self.device_s**_HOST_NORM + self.host_s**_HOST_NORM) ** (1 / _HOST_NORM))
        return np.maximum(np.maximum(step_s, self.fastest_s), _LEAST_STEP_S)

    @property
    def waits_s(self) -> FloatArray:
        """Return how long the device waits for the host within a step, [GPU, batch]; 0 where no kernel runs. [s]"""
        busy_s = np.maximum(self.device_s, self.fastest_s)
        return np.where(self.device_s > 0, np.maximum(self.step_s - busy_s, 0.0), 0.0)

    @property
    def step_bound_s(self) -> FloatArray:
        """Return the sum of the kernels' bounds at printed rates, [GPU, batch]. [s]"""
        return np.asarray(np.einsum("gkb,gk->gb", self.bound_s, self.count))

    @property
    def fastest_s(self) -> FloatArray:
        """Return the least time of a step that is believed, [GPU, batch]. [s]"""
        return np.maximum((1 - ABOVE_PRINTED_CLOCK) * self.step_bound_s, self.weights_s)


def estimate_latencies(
    step: ExecutedStep, *, gpus: Sequence[GpuSpec], batches: Sequence[int], anchors: Sequence[int] = ()
) -> tuple[tuple[LatencyEstimate, ...] | Unsupported, ...]:
    """Estimate the time of a step on each GPU at each batch; `Unsupported` where a GPU lacks the precision.

    Without a calibration, engineering guesses stand in for fitted efficiencies and the estimates say so.
    """
    if not all(step.is_alike_on(gpu) for gpu in gpus):
        # Estimate devices that run the step otherwise apart: each CPU with its calibration, GPUs without use for
        # int8.
        alike = [gpu for gpu in gpus if step.is_alike_on(gpu)]
        wide = [gpu for gpu in gpus if not gpu.is_cpu and not step.is_alike_on(gpu)]
        estimate = partial(_estimate_alike, batches=batches, anchors=anchors)
        found = [*zip(alike, estimate(step, gpus=alike), strict=True)]
        if wide:
            found += zip(wide, estimate(step.on(wide[0]), gpus=wide), strict=True)
        for cpu in (gpu for gpu in gpus if gpu.is_cpu):
            found += [(cpu, estimate(step.on(cpu), gpus=[cpu])[0])]
        answers = {gpu.id: answer for gpu, answer in found}
        return tuple(answers[gpu.id] for gpu in gpus)
    return _estimate_alike(step, gpus=gpus, batches=batches, anchors=anchors)


_Answer = tuple[LatencyEstimate, ...] | Unsupported


def _estimate_alike(
    step: ExecutedStep, *, gpus: Sequence[GpuSpec], batches: Sequence[int], anchors: Sequence[int]
) -> tuple[_Answer, ...]:
    """Estimate devices that one calibration serves."""
    rates = [
        missing_kernels(step.recording, gpu, step.laws.software) or device_rates(gpu, step.workload, step.laws)
        for gpu in gpus
    ]
    runnable = [(gpu, rate) for gpu, rate in zip(gpus, rates, strict=True) if isinstance(rate, DeviceRates)]
    answers: dict[str, tuple[LatencyEstimate, ...]] = {}
    if runnable:
        times = time_kernels(step, kernel_table(step, batches=batches, anchors=anchors), devices=runnable)
        found = _estimates(step, times, [gpu for gpu, _ in runnable], selected_loops(step.recording))
        answers = _together(step, found, runnable)
    return tuple(
        rate if isinstance(rate, Unsupported) else answers[gpu.id] for gpu, rate in zip(gpus, rates, strict=True)
    )


def _together(
    step: ExecutedStep, answers: dict[str, tuple[LatencyEstimate, ...]], devices: Sequence[tuple[GpuSpec, DeviceRates]]
) -> dict[str, tuple[LatencyEstimate, ...]]:
    """Return estimates of steps as several GPUs of a machine take them together."""
    count = step.workload.gpu_count
    if count == 1:
        return answers
    sharding, laws = step.workload.sharding, step.laws.data_parallel
    size = exchanged_bytes(step.recording, sharding)
    return {
        gpu.id: tuple(
            on_several_gpus(answer, size_bytes=size, gpu=gpu, gpu_count=count, laws=laws, sharding=sharding)
            for answer in answers[gpu.id]
        )
        for gpu, _ in devices
    }


def time_kernels(
    step: ExecutedStep, table: KernelTable, *, devices: Sequence[tuple[GpuSpec, DeviceRates]]
) -> DeviceTimes:
    recording, workload = step.recording, step.workload
    known = step.calibration or prior_calibration()
    gpus, known_rates = [gpu for gpu, _ in devices], [rate for _, rate in devices]
    resolved = resolve_constants(known, gpus, workload)
    rates = _kernel_rates(table, known_rates, resolved)
    work = kernel_work(table, known_rates)
    printed = np.stack([rate.printed_flops_per_s for rate in known_rates])[:, table.peak_use, None]
    bandwidth = np.array([rate.printed_bandwidth_bytes_per_s for rate in known_rates])[:, None, None]
    # The time to read all weights at the printed bandwidth, 0 where an L2 holds them, [GPU, 1]. [s]
    weights_bytes = float(table.count @ table.weight_bytes[:, 0])
    l2_bytes = np.array([rate.l2_bytes for rate in known_rates])
    read_s = weights_bytes / np.array([rate.printed_bandwidth_bytes_per_s for rate in known_rates])
    return DeviceTimes(
        table=table,
        times=kernel_times(work, rates, known.constants),
        bound_s=bound_s(
            flops=least_flops(table, known_rates),
            peak_flops_per_s=printed,
            traffic_bytes=least_bytes(table, known_rates),
            bandwidth_bytes_per_s=bandwidth,
        ),
        count=kernel_counts(table, recording, workload, gpus),
        host_s=_host_s(table, workload, known, gpus),
        weights_s=np.where(weights_bytes > l2_bytes, read_s, 0.0)[:, None],
    )


def least_flops(table: KernelTable, rates: Sequence[DeviceRates]) -> FloatArray:
    """Return the least FLOPs that kernels need on some GPUs, [GPU, kernel, batch].

    They are those counted, but a quarter of them where a convolution may run by Winograd's algorithm: F(4x4, 3x3) needs
    a quarter of the multiplications (Lavin and Gray, 2016), so that the direct algorithm's FLOPs are not a bound.
    """
    return np.asarray(counted_flops(table) / np.where(_by_winograd(table, rates), MOST_WINOGRAD_GAIN, 1.0))


def least_bytes(table: KernelTable, rates: Sequence[DeviceRates]) -> FloatArray:
    """Return the bytes that kernels must move even if the L2 is used perfectly, [GPU, kernel, batch]. [bytes]"""
    return compulsory_bytes(
        read_bytes=table.read_bytes,
        written_bytes=table.written_bytes,
        weight_bytes=table.weight_bytes,
        all_weights_bytes=float(table.count @ table.weight_bytes[:, 0]),
        l2_bytes=np.array([rate.l2_bytes for rate in rates])[:, None, None],
    )


def _host_s(table: KernelTable, workload: Workload, known: Calibration, gpus: Sequence[GpuSpec]) -> FloatArray:
    if workload.framework is Framework.COMPILE_GRAPHS:
        launched_s = _host_s(table, replace(workload, framework=Framework.COMPILE), known, gpus)
        launched = table.count * table.launches * (table.path != AttentionPath.UNFUSED)
        least = [least_times(known, gpu) for gpu in gpus]  # of a CUDA graph's kernels, however small they are
        replayed_s = [0.0 if least_s is None else launched @ least_s[table.label] for least_s in least]
        return np.asarray(np.minimum(launched_s, np.array(replayed_s)[:, None]))
    if workload.framework.is_replayed:
        return np.zeros((len(gpus), 1))
    measured = measured_host(known, workload)
    if measured is not None:
        return np.full((len(gpus), 1), host_step_s(table, measured))
    launches = float((table.count * table.launches) @ (table.path != AttentionPath.UNFUSED))
    slowness = np.array([host_slowness(gpu, known.laws, host_of(gpu, workload)) for gpu in gpus])[:, None]
    if workload.framework is Framework.ONNXRUNTIME:  # its executor is C++: a launch for each kernel, no Python
        return known.constants.launch_s * launches * slowness
    constants = known.constants
    step_s = constants.call_s * table.host_calls + constants.launch_s * launches
    step_s += constants.convolution_s * convolution_calls(table)
    return step_s * slowness


def _kernel_rates(table: KernelTable, rates: list[DeviceRates], resolved: list[ResolvedConstants]) -> KernelRates:
    peaks = np.stack([
        kernel_peaks(rate, label=table.label, peak_use=table.peak_use) * item.gpu_compute
        for rate, item in zip(rates, resolved, strict=True)
    ])  # fmt: skip
    bandwidths = [rate.bandwidth_bytes_per_s * item.gpu_bandwidth for rate, item in zip(rates, resolved, strict=True)]
    return KernelRates(
        peak_flops_per_s=peaks[:, :, None],
        bandwidth_bytes_per_s=np.array(bandwidths)[:, None, None],
        l2_bytes=np.array([rate.l2_bytes for rate in rates])[:, None, None],
        serial_step_s=np.array([item.serial_step_s for item in resolved])[:, None, None],
        **{
            name: np.stack([getattr(item, name) for item in resolved])[:, table.label, None]
            for name in (*CLASS_FIELDS, "fixed_s")
        },
    )


def kernel_work(table: KernelTable, rates: Sequence[DeviceRates]) -> KernelWork:
    """Describe a table's kernels to the time model on some GPUs, [GPU, kernel, batch] where these differ."""
    is_product = table.m[:, 0] > 0
    distinct, position = np.unique([rate.units for rate in rates], return_inverse=True)
    used = np.ones((len(distinct), *table.m.shape))
    used[:, is_product] = tile_utilisation(
        m=table.m[None, is_product], n=table.n[None, is_product], groups=table.groups[None, is_product],
        k=table.k[None, is_product], units=distinct[:, None, None],
    )  # fmt: skip
    on_tensor_cores = np.stack([rate.on_tensor_cores for rate in rates])[:, table.peak_use, None]
    by_winograd = _by_winograd(table, rates)
    flops = np.where(is_unsplit(table), table.unsplit_flops[:, None] * table.written_bytes / _HALF_BYTES, table.flops)
    loss = np.stack([rate.vector_loss for rate in rates])[:, table.peak_use, None]
    # Which kernels are depthwise convolutions, whose channels matter outside tensor cores, too, [kernel, 1].
    matters = on_tensor_cores | np.isin(table.label, _DEPTHWISE_LABELS)[:, None]
    lost = np.where((table.label == _BATCHED)[:, None], loss, matters.astype(np.float64))
    return KernelWork(
        flops=flops * table.slowdown[:, None] / np.where(by_winograd, _WINOGRAD_GAIN, 1.0),
        read_bytes=table.read_bytes + table.gathered_bytes,
        written_bytes=table.written_bytes,
        weight_bytes=table.weight_bytes * np.where(by_winograd, _WINOGRAD_FILTER_PASSES, 1.0),
        k=np.where(table.k > 0, table.k, 1.0),
        utilisation=used[position],
        serial=table.serial,
        launches=table.launches[:, None],
        misaligned=np.where(table.misaligned[:, None], lost, 0.0),
        strided=table.strided[:, None].astype(float),
        foreign_layout=(table.foreign_layout[:, None] & on_tensor_cores).astype(float),
        stretch=_stretch(table, rates),
    )


def _stretch(table: KernelTable, rates: Sequence[DeviceRates]) -> FloatArray:
    """Return how much longer kernels of few thread blocks stream than those that fill a GPU, [GPU, kernel, 1].

    Batch norms of row-major images train with one block for each channel (cuDNN's `bn_fw_tr_1C11_kernel_NCHW`,
    `batch_norm_collect_statistics_kernel` in aten/src/ATen/native/cuda/Normalization.cuh), so that the first layers'
    few channels leave multiprocessors idle, most of them where there are many.
    """
    streamed = np.array([rate.bandwidth_bytes_per_s / rate.block_bytes_per_s for rate in rates])[:, None, None]
    blocks = np.where(table.blocks > 0, table.blocks, np.inf)[None, :, None]
    return np.asarray(np.hypot(1.0, streamed / blocks))


_BATCHED = CLASS_INDEX[BATCHED_MATMUL]
_HALF_BYTES = 2.0
_MOST_SPLIT_ELEMENTS = 2.0**31


def is_unsplit(table: KernelTable) -> BoolArray:
    """Return which kernels count their elements in 64 bits and are slow for it, [kernel, batch]."""
    elements = np.maximum(table.read_bytes, table.written_bytes) / _HALF_BYTES
    return np.asarray((table.unsplit_flops[:, None] > 0) & (elements >= _MOST_SPLIT_ELEMENTS))


_DEPTHWISE_LABELS = [index for index, label in enumerate(ALL_CLASSES) if is_depthwise(label)]


def _by_winograd(table: KernelTable, rates: Sequence[DeviceRates]) -> BoolArray:
    """Return which convolutions run with fewer multiplications on each GPU, [GPU, kernel, 1]."""
    on_tensor_cores = np.stack([rate.on_tensor_cores for rate in rates])[:, table.peak_use, None]
    return np.asarray(table.winograd[None, :, None] & ~on_tensor_cores)


def kernel_counts(table: KernelTable, recording: Recording, workload: Workload, gpus: list[GpuSpec]) -> FloatArray:
    """Return how often each row runs on each GPU: attention takes one path or the other."""
    counts = np.tile(table.count, (len(gpus), 1))
    choosing = sorted(set(table.kernel[table.path != AttentionPath.ALWAYS].tolist()))
    fused_by_capability: dict[tuple[int, int], dict[int, bool]] = {}
    for row, gpu in enumerate(gpus):
        capability = gpu.compute_capability or (8, 0)
        if capability not in fused_by_capability:
            fused_by_capability[capability] = {
                index: _is_fused(recording, workload, index, table.batches[0], capability) for index in choosing
            }
        for index, fused in fused_by_capability[capability].items():
            dropped = AttentionPath.UNFUSED if fused else AttentionPath.FUSED
            counts[row, (table.kernel == index) & (table.path == dropped)] = 0.0
    return counts


def _is_fused(recording: Recording, workload: Workload, index: int, batch: int, capability: tuple[int, int]) -> bool:
    kernel = recording.kernels[index]
    if workload.framework.is_engine:
        return capability >= _ENGINES_FUSE_ATTENTION_SINCE and kernel.inputs[0].dtype != "float32"
    backend = attention_backend(kernel, workload, batch=batch, compute_capability=capability)
    return backend is not AttentionBackend.MATH


_ENGINES_FUSE_ATTENTION_SINCE = (7, 5)
"""TensorRT's fused attention has kernels from Turing on, in 16 bits and narrower; elsewhere two batched products and a
softmax run (`QKVToContextPluginDynamic` in plugin/bertQKVToContextPlugin of the TensorRT repository)."""


def _with_rounds(
    step: ExecutedStep, times: DeviceTimes, gpus: list[GpuSpec], ops: Sequence[Op], share: float
) -> DeviceTimes:
    """Return the times of a step in which ops run `share` times as often as traced."""
    table, rounds = times.table, Counter[int]()
    for op in ops:
        rounds[op.kernel] += 1
    more = (share - 1) * np.array([rounds[owner] for owner in table.kernel.tolist()], dtype=np.float64)
    calls = (share - 1) * sum(op.calls for op in ops)
    table = replace(table, count=table.count + more, host_calls=table.host_calls + calls)
    count = np.where(times.count > 0, times.count + more, 0.0)
    known = step.calibration or prior_calibration()
    return replace(times, table=table, count=count, host_s=_host_s(table, step.workload, known, gpus))


def _estimates(
    step: ExecutedStep, times: DeviceTimes, gpus: list[GpuSpec], loops: SelectedLoops | None
) -> dict[str, tuple[LatencyEstimate, ...]]:
    workload, calibration = step.workload, step.calibration
    step_s, device_s = times.step_s, times.device_s
    least, most = times, times
    if loops is not None:
        least = _with_rounds(step, times, gpus, loops.ops, 0.0)
        most = _with_rounds(step, times, gpus, loops.ops, loops.most_fraction)
    least_step_s, most_step_s = (step_s, step_s) if loops is None else (least.step_s, most.step_s)
    bound, fastest_s = least.step_bound_s, least.fastest_s
    shares, waits_s = _shares(times, step_s, device_s), times.waits_s
    name = calibration.name if calibration is not None and calibration.origin is not None else None
    answers: dict[str, tuple[LatencyEstimate, ...]] = {}
    for row, gpu in enumerate(gpus):
        notes = calibration_notes(calibration, gpu, workload) + step.graph_breaks
        notes += () if loops is None else (loops_note(loops, with_s=step_s[row, 0], without_s=least_step_s[row, 0]),)
        found = gpu_evidence(calibration, gpu, workload)
        device, host = interval_sides(calibration, gpu, workload)
        spent_s = times.times.total_s[row] * times.count[row][:, None]
        quantised = times.table.spread @ spent_s / step_s[row]  # their spread times their share, [batch]
        below = np.hypot(_mixed(device.below, host.below, shares[2, row]), quantised)
        above = np.hypot(_mixed(device.above, host.above, shares[2, row]), quantised)
        expected, least_s = step_s[row], least_step_s[row]
        columns = zip(
            times.table.batches,
            bound[row].tolist(),
            zip(
                np.maximum(least_s / np.exp(below), np.minimum(fastest_s[row], least_s)).tolist(),
                expected.tolist(),
                (most_step_s[row] * np.exp(above)).tolist(),
                strict=True,
            ),
            shares[:, row].T.tolist(),
            shares[:, row].argmax(axis=0).tolist(),
            waits_s[row].tolist(),
            strict=True,
        )
        answers[gpu.id] = tuple(
            LatencyEstimate(
                batch=batch,
                bound_s=bound_s,
                latency_s=Interval(low=low, expected=middle, high=high),
                bound_by=_BINDINGS[largest],
                share_by_binding=tuple(zip(_BINDINGS, by_binding, strict=True)),
                calibration=name,
                notes=notes,
                micro_batches=workload.training.accumulate if workload.training else 1,
                evidence=found.evidence,
                evidence_reason=found.reason,
                waits_s=waiting_s,
            )
            for batch, bound_s, (low, middle, high), by_binding, largest, waiting_s in columns
        )
    return answers


def _mixed(device: float, host: float, host_share: FloatArray) -> FloatArray:
    """Average one side of the interval between device and host, weighted by the share of launches."""
    return np.asarray(np.sqrt((1 - host_share) * device**2 + host_share * max(host, device) ** 2))


_NO_TIME_S = 1e-12
"""Stands for the device's time where a graph launches no kernel, so that its shares are numbers. [s]"""
_LEAST_STEP_S = 1e-6
"""What a call takes at least, also of a graph of views alone, which launches no kernel: less than one launch. [s]"""


def _shares(times: DeviceTimes, step_s: FloatArray, device_s: FloatArray) -> FloatArray:
    """Return shares of a step by what binds it, [binding, GPU, batch], in `Binding`'s order; they sum to 1."""
    kernels = times.times
    by_compute = (kernels.compute_s > kernels.memory_s) * (kernels.total_s - kernels.fixed_s)
    by_memory = (kernels.compute_s <= kernels.memory_s) * (kernels.total_s - kernels.fixed_s)
    compute = np.einsum("gkb,gk->gb", by_compute, times.count)
    memory = np.einsum("gkb,gk->gb", by_memory, times.count)
    device_s = np.maximum(device_s, _NO_TIME_S)
    stretched = np.where(device_s >= times.host_s, 1.0, device_s / step_s)
    compute, memory = compute / device_s * stretched, memory / device_s * stretched
    return np.stack([compute, memory, 1 - compute - memory])
