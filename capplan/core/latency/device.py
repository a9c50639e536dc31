"""Rates of one workload from a GPU's spec sheet at the clocks that it sustains, and what a host needs beside it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from capplan.core.assumed import BOARD_SLOWNESS
from capplan.core.gpus.rate_laws import (
    RateLaws,
    SustainedLaws,
    copy_share,
    half_share,
    is_board,
    is_consumer,
    single_share,
    streaming_share,
    vector_share,
)
from capplan.core.gpus.software import SoftwareSupport
from capplan.core.gpus.spec import GpuSpec, MeasuredRate, Microbenchmark, PeakKind, Quality
from capplan.core.latency import classes as kinds
from capplan.core.latency.calibration import HostCosts
from capplan.core.latency.classes import ALL_CLASSES, CHANNELS_LAST_SUFFIX, CONV, is_convolution
from capplan.core.latency.decompositions import AttentionPath
from capplan.core.latency.kernel_time import PeakUse
from capplan.core.latency.op_table import KernelTable
from capplan.core.latency.types import LatencyEstimate
from capplan.core.numbers import BoolArray, FloatArray, IntArray, Interval
from capplan.core.ops.attention import HOPPER, AttentionBackend, asked_backend
from capplan.core.trace.types import InputTensor, Recording
from capplan.core.workload import Framework, Host, Precision, Workload

_MORE_THAN_VECTORS = 1.2
_LEAST_TENSOR_GAIN = 1.1
_NARROW = (PeakUse.HALF, PeakUse.INT8, PeakUse.FP8, PeakUse.FP4)

_TENSOR_CORES_SINCE = (7, 0)
_TF32_MATMULS_BY_DEFAULT_BEFORE = (1, 12)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported:
    """Why a GPU has no estimate of a workload; `lacking` says it in a few words, as "cannot run fp8", for summaries."""

    reason: str
    lacking: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRates:
    """A GPU's rates for one workload, before any fitted factor.

    `peaks_flops_per_s` and `printed_flops_per_s` have a column per `PeakUse`: sustained, and as printed.
    `bandwidth_bytes_per_s` is what kernels of models sustain, `printed_bandwidth_bytes_per_s` printed.
    `issued_flops_per_s` is what multiprocessors start of 16-bit products by their clock alone: see `kernel_peaks`.
    `issue_share` is the share of each class's time that goes to other units than tensor cores on a GeForce card.
    `block_bytes_per_s` is what one thread block streams at most.
    `on_tensor_cores` says of each `PeakUse` whether tensor cores, with their wishes for layout and alignment, do it.
    """

    peaks_flops_per_s: FloatArray
    printed_flops_per_s: FloatArray
    bandwidth_bytes_per_s: float
    printed_bandwidth_bytes_per_s: float
    l2_bytes: float
    units: float
    issued_flops_per_s: float
    issue_share: FloatArray
    block_bytes_per_s: float
    on_tensor_cores: BoolArray

    @property
    def vector_loss(self) -> FloatArray:
        """Return the log of what tensor cores do beyond the vector units, by `PeakUse`; 0 where these run it anyway."""
        gain = self.peaks_flops_per_s / self.peaks_flops_per_s[PeakUse.VECTOR]
        return np.where(self.on_tensor_cores, np.log(np.maximum(gain, _LEAST_TENSOR_GAIN)), 0.0)


def device_rates(
    gpu: GpuSpec, workload: Workload, laws: RateLaws, *, use_own: bool = True
) -> DeviceRates | Unsupported:
    """Return a GPU's rates for a workload, printed and sustained, or what it lacks."""
    if gpu.is_cpu:
        return cpu_rates(gpu, workload)
    if (refused := unsupported(gpu, workload, laws)) is not None:
        return refused
    in_half = workload.precision.half_dtype is not None
    emulated = laws.software.emulation(gpu, workload.framework, workload.precision)
    vector = gpu.peak(PeakKind.FP32)
    half = vector if emulated else _half_peak(gpu, workload, laws.software)
    single = _single_peaks(gpu, workload)
    if in_half and half is None:
        return _lacks(gpu, "fp16" if workload.precision.needs_engine else workload.precision.arithmetic)
    if single is None:
        return _lacks(gpu, "tf32" if workload.precision is Precision.TF32 else "fp32")
    if vector is None:
        vector = single[1]
    convolution, matmul = single
    printed = np.full(len(PeakUse), np.inf)
    printed[PeakUse.HALF] = half or vector
    printed[PeakUse.CONVOLUTION_32], printed[PeakUse.MATMUL_32] = convolution, matmul
    printed[PeakUse.VECTOR] = vector
    printed[PeakUse.DOUBLE] = max(gpu.peak(kind) or 0.0 for kind in _DOUBLES) or vector / 32
    printed[PeakUse.INT8] = max(gpu.peak(PeakKind.INT8) or 0.0, half or vector)  # an engine takes the faster format
    printed[PeakUse.FP8] = gpu.peak(PeakKind.FP8) or half or vector
    printed[PeakUse.FP4] = gpu.peak(PeakKind.FP4) or printed[PeakUse.FP8]
    on_tensor_cores = _on_tensor_cores(gpu, printed, vector)
    on_tensor_cores[PeakUse.HALF] &= emulated is None
    peaks = _sustained(gpu, printed, on_tensor_cores, laws.sustained, use_own=use_own)
    peaks[PeakUse.HALF] *= emulated.share if emulated else 1.0
    return DeviceRates(
        peaks_flops_per_s=peaks,
        printed_flops_per_s=printed,
        bandwidth_bytes_per_s=gpu.memory_bandwidth_bytes_per_s
        * copy_share(gpu, laws.sustained, use_own=use_own).fraction
        * streaming_share(gpu, laws.streaming, in_half=in_half),
        printed_bandwidth_bytes_per_s=gpu.memory_bandwidth_bytes_per_s,
        l2_bytes=float(gpu.l2_bytes or 4 * 2**20),
        units=float(gpu.unit_count or max(1, round(vector / 0.5e12))),
        issued_flops_per_s=_issued(gpu, laws),
        issue_share=_issue_shares(laws),
        block_bytes_per_s=(laws.block_bytes if in_half else _SINGLE_PER_HALF_BYTES * laws.block_bytes)
        * (gpu.boost_clock_hz or np.inf),
        on_tensor_cores=on_tensor_cores,
    )


_SINGLE_PER_HALF_BYTES = 2.0
"""A thread has as many elements under way in fp32 as in 16 bits."""
_DOUBLES = (PeakKind.FP64, PeakKind.FP64_TENSOR)
"""Units that do fp64 products: cuBLAS takes tensor cores from the A100 on (NVIDIA A100 Tensor Core GPU Architecture,
2020: 9.7 TFLOP/s, 19.5 on tensor cores)."""
_ISSUED_PER_CLOCK = 512.0
"""16-bit FLOPs per clock of one multiprocessor on GeForce cards, summed in fp32: NVIDIA's GA102 whitepaper prints 59.5
TFLOP/s for the RTX 3080 with 68 of them at 1.71 GHz, which is 512. Their tensor cores are the slowest beside their
other units: there nothing is lost by what warps issue besides. Only the ratio between GPUs counts, a class's efficiency
is fitted. [FLOP]"""


def _issue_shares(laws: RateLaws) -> FloatArray:
    """Return the share of each class's time that goes to other units than tensor cores, over `ALL_CLASSES`.

    FlashAttention 2 spends it on exponentials and on loading registers: it reaches 50 to 73 % of an A100's rate (Dao,
    2023, abstract) and 35 % of an H100's (Shah et al., FlashAttention-3, 2024, abstract). Groups of few channels fill a
    part of each tensor instruction, and their loads and addresses are most of the work: an RTX PRO 6000 that sustains
    1.5 times the tensor rate of an RTX 4090 does not run them faster.
    """
    names = [label.removesuffix(kinds.CHANNELS_LAST_SUFFIX) for label in kinds.ALL_CLASSES]
    found = (laws.issue_share.get(name.replace(kinds.CONV_GROUPED_NARROW, kinds.CONV_GROUPED), 0.0) for name in names)
    return np.array(list(found))


def kernel_peaks(rates: DeviceRates, *, label: IntArray, peak_use: IntArray) -> FloatArray:
    """Return the arithmetic rate of kernels before any fitted factor, by what they run and compute in. [FLOP/s]

    A class that spends a part of its time outside tensor cores gains less from faster ones: its rate is the harmonic
    mean of the tensor rate and of what multiprocessors issue.
    """
    peaks = rates.peaks_flops_per_s[peak_use]
    in_half = peak_use == PeakUse.HALF
    by_tensor = rates.on_tensor_cores[peak_use] & (in_half | (peak_use == PeakUse.CONVOLUTION_32))
    by_tensor &= np.isfinite(rates.issued_flops_per_s)
    share = np.where(by_tensor, rates.issue_share[label], 0.0)
    issued = rates.issued_flops_per_s * np.where(in_half, 1.0, _SINGLE_PER_HALF)
    return np.asarray(peaks / (1 - share + share * np.where(by_tensor, peaks, 0.0) / issued))


_SINGLE_PER_HALF = 0.5
"""Tensor instructions of TF32 do half the FLOPs of 16-bit ones."""


def _issued(gpu: GpuSpec, laws: RateLaws) -> float:
    """Return what a GPU's multiprocessors issue of 16-bit products at their clock; infinite where unknown. [FLOP/s]"""
    if gpu.compute_capability is None or not gpu.unit_count or not gpu.boost_clock_hz:
        return np.inf
    return gpu.unit_count * gpu.boost_clock_hz * vector_share(gpu, laws.sustained).fraction * _ISSUED_PER_CLOCK


def unsupported(gpu: GpuSpec, workload: Workload, laws: RateLaws) -> Unsupported | None:
    """Return why a GPU does not run a workload's framework and number format; None where nothing speaks against it."""
    found = laws.software.problem(gpu, workload.framework, workload.precision)
    return None if found is None else Unsupported(reason=found[0], lacking=f"cannot run {found[1]}")


def missing_kernels(recording: Recording, gpu: GpuSpec, software: SoftwareSupport) -> Unsupported | None:
    """Return why a GPU lacks kernels that a recording asks for by name or dtype; None where it has them all.

    Kernels that compute in 16 bits run anywhere; a GPU without a CUDA compute capability must state a rate for narrower
    arithmetic.
    """
    dtypes = {tensor.dtype for kernel in recording.kernels for tensor in kernel.outputs if tensor.shape}
    found = software.lacking(gpu, dtypes=dtypes, operators=dict.fromkeys(kernel.name for kernel in recording.kernels))
    if found is not None:
        return Unsupported(reason=found[0], lacking=f"cannot run {found[1]}")
    for kernel in recording.kernels:
        if asked_backend(kernel) is AttentionBackend.FLASH_3 and gpu.compute_capability != HOPPER:
            reason = f"attention by flash-3 needs a GPU of compute capability 9.0 (Hopper), which {gpu.id} is not"
            return Unsupported(reason=reason, lacking="cannot run flash-3")
        needed = kernel.attributes.get("capability")
        if not isinstance(needed, int):
            continue
        scheme = kernel.attributes.get("scheme")
        if gpu.compute_capability is not None:
            major, minor = gpu.compute_capability
            if 10 * major + minor < needed:
                reason = f"{scheme} needs compute capability {needed / 10:.1f}; {gpu.id} has {major}.{minor}"
                return Unsupported(reason=reason, lacking=f"cannot run {scheme}")
        elif (kind := _NEEDED_RATES.get(kernel.inputs[0].dtype)) is not None and not gpu.peak(kind):
            reason = f"{gpu.id} has no peak rate for {kind.value}, which {scheme} computes in"
            return Unsupported(reason=reason, lacking=f"cannot run {scheme}")
    return None


_NEEDED_RATES = {"int8": PeakKind.INT8, "float8_e4m3fn": PeakKind.FP8, "float4_e2m1fn": PeakKind.FP4}


def _on_tensor_cores(gpu: GpuSpec, printed: FloatArray, vector_peak: float) -> BoolArray:
    """Return which uses run on tensor cores: 16 bits and integers where there are any, fp32 where they speed it up."""
    found = np.zeros(len(PeakUse), dtype=bool)
    found[list(_NARROW)] = (gpu.compute_capability or _TENSOR_CORES_SINCE) >= _TENSOR_CORES_SINCE
    for use in (PeakUse.CONVOLUTION_32, PeakUse.MATMUL_32):
        found[use] = printed[use] > _MORE_THAN_VECTORS * vector_peak
    return found


def host_slowness(gpu: GpuSpec, laws: RateLaws, host: Host) -> float:
    """Return how long a host takes for a call, against a server of the reference year.

    A server and a desktop are of the last year that was timed. No published row says which host runs a GPU, so
    that with `Host.CARD` the GPU's release date stands in for the host's age, and a player's card for a desktop.
    A board has no other host than its own cores, whatever is asked.
    """
    ages, year = laws.hosts, laws.hosts.last_year
    if is_board(gpu):
        return float(BOARD_SLOWNESS * 0.5 ** ((year - ages.reference_year) / ages.halving_years))
    is_desktop = host is Host.DESKTOP
    if host is Host.CARD:
        is_desktop, released = is_consumer(gpu), gpu.release_date
        year = ages.reference_year if released is None else released.year + released.month / 12
        year = year if released is None else min(max(year, ages.first_year), ages.last_year)
    share = laws.desktop_share if is_desktop else 1.0
    return float(share * 0.5 ** ((year - ages.reference_year) / ages.halving_years))


def _sustained(
    gpu: GpuSpec, printed: FloatArray, on_tensor_cores: BoolArray, laws: SustainedLaws, *, use_own: bool
) -> FloatArray:
    """Multiply printed rates by what the GPU sustains of them: see `capplan.core.gpus.rate_laws`."""
    tensor = half_share(gpu, laws, use_own=use_own).fraction
    single = single_share(gpu, laws, use_own=use_own).fraction
    vector = vector_share(gpu, laws).fraction
    rates = printed * vector
    rates[list(_NARROW)] = printed[list(_NARROW)] * (tensor if on_tensor_cores[PeakUse.HALF] else vector)
    for use in (PeakUse.CONVOLUTION_32, PeakUse.MATMUL_32):
        has_tf32 = on_tensor_cores[use] and gpu.peak(PeakKind.TF32) is not None
        rates[use] = printed[use] * (tensor if has_tf32 else single)
    return rates


def _half_peak(gpu: GpuSpec, workload: Workload, software: SoftwareSupport) -> float | None:
    """Return the rate of 16-bit products, which PyTorch accumulates in fp32.

    Before tensor cores this means fp32 arithmetic on 16-bit data: `ConvolutionDescriptor::set` in
    aten/src/ATen/cudnn/Descriptors.h, and cuBLAS with `CUDA_R_32F`: PyTorch never uses a P100's twice as fast fp16.
    Some engines add up in fp16 there.
    """
    if workload.precision.half_dtype == "bfloat16":
        return gpu.peak(PeakKind.BF16)
    tensor, single = gpu.peak(PeakKind.FP16), gpu.peak(PeakKind.FP32)
    vector = gpu.peak(PeakKind.FP16_VECTOR)
    if tensor is None and gpu.compute_capability is not None and gpu.compute_capability < _TENSOR_CORES_SINCE:
        return vector if vector and software.adds_in_half(gpu, workload.framework) else single
    return tensor or max(vector or 0.0, single or 0.0) or None


def _single_peaks(gpu: GpuSpec, workload: Workload) -> tuple[float, float] | None:
    """Return the rates of 32-bit convolutions and matrix products, which TF32 may speed up."""
    vector, tensor = gpu.peak(PeakKind.FP32), gpu.peak(PeakKind.TF32)
    if workload.precision is Precision.TF32 and tensor is None:
        return None
    if vector is None:
        vector = gpu.peak(PeakKind.BF16) if workload.precision.half_dtype else None
    if vector is None:
        return None
    matrix = gpu.peak(PeakKind.FP32_MATRIX) or vector
    if workload.precision is Precision.FP32_IEEE or tensor is None:
        return matrix, matrix
    plain = workload.precision is Precision.FP32 and workload.torch_version >= _TF32_MATMULS_BY_DEFAULT_BEFORE
    return tensor, vector if plain else tensor


def _lacks(gpu: GpuSpec, needed: str) -> Unsupported:
    held = ", ".join(kind.value for kind, rate in gpu.peak_flops_per_s.items() if rate)
    if needed == "tf32":  # a format that only some units have: without them nothing runs in it
        return Unsupported(reason=f"{gpu.id} has no tf32; its spec states {held}", lacking="cannot run tf32")
    reason = f"how fast {gpu.id} runs {needed} is not known: its spec states {held or 'no rate'}"
    return Unsupported(reason=reason, lacking=f"without a known rate for {needed}")


_SINGLE_SHARE, _HALF_SHARE, _COPY_SHARE = 0.55, 0.35, 0.6
"""Shares of the printed rates that long matrix products and copies are taken to sustain where nobody has timed a CPU:
guesses. All cores together run below the highest clock, wide vectors and matrix units further below."""


def cpu_rates(cpu: GpuSpec, workload: Workload) -> DeviceRates | Unsupported:
    """Return a CPU's rates for a workload, printed and sustained, or what it lacks."""
    if workload.framework is not Framework.EAGER:
        reason = f"{cpu.id} is a CPU, and CPUs are estimated in eager mode alone, not under {workload.framework.value}"
        return Unsupported(reason=reason, lacking=f"cannot run {workload.framework.value}")
    single = cpu.peak(PeakKind.FP32)
    if single is None:
        return Unsupported(reason=f"{cpu.id} has no peak rate for fp32 in its spec")
    if workload.precision is Precision.TF32:
        return Unsupported(reason=f"{cpu.id} is a CPU and has no TF32")
    half = cpu.peak(PeakKind.BF16 if workload.precision.half_dtype == "bfloat16" else PeakKind.FP16)
    if workload.precision.half_dtype and half is None:
        lacks = f"{cpu.id} has no instructions for {workload.precision}"
        others = f"{cpu.id} is a CPU, and CPUs are estimated in fp32 and bf16 alone, not in {workload.precision}"
        reason = lacks if workload.precision.half_dtype == "bfloat16" else others
        return Unsupported(reason=reason, lacking=f"cannot run {workload.precision}")
    printed = np.full(len(PeakUse), np.inf)
    printed[PeakUse.HALF] = half or single
    printed[[PeakUse.CONVOLUTION_32, PeakUse.MATMUL_32, PeakUse.VECTOR]] = single
    printed[PeakUse.DOUBLE] = cpu.peak(PeakKind.FP64) or single / 2
    printed[PeakUse.INT8] = cpu.peak(PeakKind.INT8) or single
    printed[[PeakUse.FP8, PeakUse.FP4]] = half or single
    sustained = printed * _share(cpu, Microbenchmark.MATMUL_FP32, single, _SINGLE_SHARE)
    if half is not None:
        sustained[PeakUse.HALF] = half * _share(cpu, Microbenchmark.MATMUL_HALF, half, _HALF_SHARE)
    bandwidth = cpu.memory_bandwidth_bytes_per_s
    return DeviceRates(
        peaks_flops_per_s=sustained,
        printed_flops_per_s=printed,
        bandwidth_bytes_per_s=bandwidth * _share(cpu, Microbenchmark.COPY, bandwidth, _COPY_SHARE),
        printed_bandwidth_bytes_per_s=bandwidth,
        l2_bytes=float(cpu.l2_bytes or 8 * 2**20),
        issued_flops_per_s=np.inf,
        issue_share=np.zeros(len(kinds.ALL_CLASSES)),
        block_bytes_per_s=np.inf,
        units=1.0,  # products are cut into blocks that fit any number of cores
        on_tensor_cores=np.ones(len(PeakUse), dtype=bool),  # no Winograd, which oneDNN leaves out unless asked
    )


def _share(cpu: GpuSpec, kind: Microbenchmark, printed: float, guess: float) -> float:
    """Return what was measured over what is printed, or a guess where nothing was."""
    own: MeasuredRate | None = cpu.measured.get(kind)
    return guess if own is None or own.quality is Quality.C else own.value / printed


QUEUED_LAUNCH_S = 2.5e-6
"""Time between kernels in a full queue, where no device is at hand: 2.6 µs on an A100, 2.1 on an A40, 2.5 on an H200,
1.6 on an L40 (RRZE-HPC/gpu-benches)."""


def host_step_s(table: KernelTable, costs: HostCosts) -> float:
    """Sum what the host needs to run a step eagerly, ahead of the device. [s]"""
    counts = table.count * (table.path != AttentionPath.UNFUSED)
    by_class = np.array([_operator_s(costs, label) for label in ALL_CLASSES])
    calls_alone = max(0.0, table.host_calls - float(counts.sum()))
    operators_s = float(counts @ by_class[table.label])
    return operators_s + costs.call_s * calls_alone + costs.launch_s * float(counts @ table.launches)


def _operator_s(costs: HostCosts, label: str) -> float:
    """Return the time of an eager call by its class; one that was not measured takes a relative's, or the median."""
    stands_in = CONV if is_convolution(label) else ""
    plain = label.removesuffix(CHANNELS_LAST_SUFFIX)
    known = costs.operators_s.get(plain, costs.operators_s.get(stands_in))
    return float(np.median(list(costs.operators_s.values()))) if known is None else known


_PAGEABLE_SHARE, _MOST_PAGEABLE_SHARE = 0.4, 0.68
_STAGED_BYTES_PER_S, _SLOWEST_BYTES_PER_S = 6.3e9, 2.3e9
"""Of a link's printed rate, where host memory is pageable: 2.3 to 5.4 of 8 GB/s on PCIe 2 (Harris, "How to Optimize
Data Transfers in CUDA C/C++", 2012), about 6 of 15.8 on PCIe 3. One thread of the CPU copies it to a pinned buffer
first, which a faster link does not speed up: PCIe 3 is taken as the most that is expected, and the slowest of these
hosts may be anyone's."""


def pageable_s(size_bytes: float, *, pcie_bytes_per_s: float) -> Interval:
    """Return the time that bytes take from pageable memory of a host to a GPU, or back. [s]"""
    rate = min(_PAGEABLE_SHARE * pcie_bytes_per_s, _STAGED_BYTES_PER_S)
    return Interval(
        low=size_bytes / (_MOST_PAGEABLE_SHARE * pcie_bytes_per_s),
        expected=size_bytes / rate,
        high=size_bytes / min(rate, _SLOWEST_BYTES_PER_S),
    )


def host_copy_s(inputs: Sequence[InputTensor], gpu: GpuSpec, *, batch: int) -> Interval | None:
    """Return the time that a batch's inputs take from pageable host memory; None where the link is unknown. [s]"""
    if gpu.pcie_bytes_per_s is None:
        return None
    size_bytes = sum(tensor.size_bytes(batch) for tensor in inputs)
    return pageable_s(size_bytes, pcie_bytes_per_s=gpu.pcie_bytes_per_s)


def with_copy(estimate: LatencyEstimate, copy_s: Interval) -> LatencyEstimate:
    """Return an estimate of a step that waits for the copy of its inputs, bound and interval with it."""
    return replace(
        estimate,
        latency_s=estimate.latency_s + copy_s,
        notes=(*estimate.notes, "with the copy of the inputs from the host"),
    )
