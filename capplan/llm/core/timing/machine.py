"""Facts of a GPU on which the time of an LLM step depends: bandwidth, peaks by arithmetic, power and links."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from capplan.core.assumed import COPIED_FRACTION, DIMM_FRACTION, NETWORK_BYTES_PER_S, UNKNOWN_PCIE_BYTES_PER_S
from capplan.core.gpus.machines import GpuServer, is_bridged, usual_server
from capplan.core.gpus.spec import GpuSpec, PeakKind
from capplan.core.numbers import FloatArray
from capplan.core.power import CardCap
from capplan.errors import UsageError
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.timing.work import Arithmetic

_PEAKS = {
    Arithmetic.VECTOR: PeakKind.FP32, Arithmetic.HALF_SUMS: PeakKind.FP16_ACC16, Arithmetic.FP8: PeakKind.FP8,
    Arithmetic.INT8: PeakKind.INT8, Arithmetic.FP4: PeakKind.FP4,
}  # fmt: skip
_HALF_PEAKS = (PeakKind.BF16, PeakKind.FP16, PeakKind.FP16_VECTOR, PeakKind.FP32)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCpu:
    """The CPU beside a GPU: its memory, its arithmetic, and the link by which weights reach the GPU, one direction."""

    id: str
    bandwidth_bytes_per_s: float
    flops_per_s: float
    link_bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One GPU of a deployment with its link to the others.

    `peaks_flops_per_s` are dense. `flops_per_joule` is the 16-bit peak over the power limit: how far power
    limits a GPU's clocks in long matrix products. `link_bytes_per_s` is the sum of both directions, and `switched`
    says that it joins all GPUs (NVLink, Infinity Fabric) instead of passing the host. It joins `server_gpus`; others
    are reached over the network, whose `network_bytes_per_s` of one GPU is the sum of both directions, too.
    `memory_bytes` are the GPU's own. `cap` is a power limit below the GPU's own; None where it keeps that. `host`
    computes what does not lie on the GPU; None where all does. `moved_bytes_per_s` is what its multiprocessors move at
    their clock where that bounds the bandwidth, too.
    """

    id: str
    vendor: str
    architecture: str
    bandwidth_bytes_per_s: float
    peaks_flops_per_s: Mapping[Arithmetic, float]
    flops_per_joule: float | None
    narrow_memory: bool
    link_bytes_per_s: float
    switched: bool
    memory_bytes: float
    server_gpus: int = 8
    network_bytes_per_s: float = 100e9
    cap: CardCap | None = None
    host: HostCpu | None = None
    moved_bytes_per_s: float | None = None

    def at_clock(self, share: float) -> "Machine":
        """Return the GPU at a share of its clock: arithmetic and what its multiprocessors move slow down."""
        bandwidth, moved = self.bandwidth_bytes_per_s, self.moved_bytes_per_s
        if moved is not None:
            bandwidth = (bandwidth**-3 + (share * moved) ** -3 - moved**-3) ** (-1 / 3)
            moved *= share
        peaks = {arithmetic: share * peak for arithmetic, peak in self.peaks_flops_per_s.items()}
        return replace(self, peaks_flops_per_s=peaks, bandwidth_bytes_per_s=bandwidth, moved_bytes_per_s=moved)

    def unpacking_factor(self, weight_bytes: float, tokens: FloatArray) -> FloatArray:
        """Return how many times as long llama.cpp's products take to move narrow weights for some tokens.

        Unpacking takes instructions for each weight, however few bits it has, and up to `_VECTOR_TOKENS` tokens the
        products of each further one run on the lanes that unpack. One token with weights of four bits is 1.
        """
        if self.moved_bytes_per_s is None:
            return np.ones_like(tokens)
        unpacked = np.interp(8.0 * weight_bytes, _BITS, _UNPACKING) / _UNPACKING_PER_CLOCK
        further = np.where(tokens <= _VECTOR_TOKENS, np.maximum(tokens - 1.0, 0.0), 0.0) / _WEIGHTS_PER_CLOCK
        clocks = np.maximum(1.0, _GGML_BYTES_PER_CLOCK * unpacked / weight_bytes)
        clocks = clocks + _GGML_BYTES_PER_CLOCK * further / weight_bytes
        share = (self.bandwidth_bytes_per_s / self.moved_bytes_per_s) ** 3
        return np.asarray(np.cbrt(1.0 + share * (clocks**3 - 1.0)))

    @property
    def units(self) -> frozenset[Arithmetic]:
        return frozenset(self.peaks_flops_per_s)


def peak_kind(gpu: GpuSpec, arithmetic: Arithmetic) -> PeakKind:
    """Return the kind of peak at which a GPU does an arithmetic: its 16-bit peak where it lacks the arithmetic."""
    kind = _PEAKS.get(arithmetic)
    if kind is not None and gpu.peak(kind):
        return kind
    return next((half for half in _HALF_PEAKS if gpu.peak(half)), PeakKind.FP32)


_ISSUED_PER_CLOCK = 128.0
"""Lanes to which a multiprocessor issues an instruction per clock, four warps of 32 in all generations since Volta.
Attention on vector units converts and loads more than it multiplies, so that issue bounds it, and not the number of
fp32 units, which doubled with Ampere's consumer cards and Hopper."""


_GGML_BYTES_PER_CLOCK = 6.7
"""Bytes of weights that a multiprocessor moves per clock in llama.cpp's products with one token, which keep less data
in flight than large HBM needs: A100 and H100 reach 0.4 to 0.5 of their bandwidth, other cards 0.75 to 0.87
(`benchmarks/llama_cpp.py`)."""
_BITS, _UNPACKING = (2.625, 3.4375, 4.5, 5.5, 6.5625, 8.5), (5.0, 7.0, 3.0, 4.0, 7.0, 1.5)
"""Bits of a weight and the instructions that unpack and multiply it in Q2_K, Q3_K, Q4_K, Q5_K, Q6_K and Q8_0: shifts,
masks, dot products of four bytes, scales and loads, counted in ggml-org/llama.cpp@027ef876
ggml/src/ggml-cuda/vecdotq.cuh on 2026-11-27. A mix of two types lies between them."""
_UNPACKING_PER_CLOCK = 46.0
"""Of these instructions a multiprocessor issues so many per clock: an RTX 3090 decodes Llama 7B in Q3_K_S at 98.4
tokens/s (ggml-org/llama.cpp#5351, read on 2026-11-27), 7.6 ms beside launches, at 82 multiprocessors of 1.695 GHz."""
_VECTOR_TOKENS = 8.0
"""Tokens of a step up to which the same kernels run (MMVQ_MAX_BATCH_SIZE); matrix units multiply for more."""
_WEIGHTS_PER_CLOCK = 33.0
"""Weights that a multiprocessor multiplies per clock for each further token: 33 (Q2_K) and 58 (Q5_1) by batches of 1
and 8 on an RTX 3090 (ggml-org/llama.cpp#5434, read on 2026-11-27), 20 (Q4_K), 27 (Q6_K) and 35 (Q8_0) by bursts of 1
and 8 requests to a model of 12e9 weights; their geometric mean."""
_FP32_PER_CLOCK = 2 * 128
"""FLOPs per clock of a core of Apple's GPUs, which print no clock."""


def host_of(cpu: GpuSpec, gpu: GpuSpec) -> HostCpu:
    return HostCpu(
        id=cpu.id,
        bandwidth_bytes_per_s=DIMM_FRACTION * cpu.memory_bandwidth_bytes_per_s,
        flops_per_s=cpu.peak(PeakKind.FP32) or 0.0,
        link_bytes_per_s=gpu.pcie_bytes_per_s or UNKNOWN_PCIE_BYTES_PER_S,
    )


def ggml_machine(machine: Machine, gpu: GpuSpec) -> Machine:
    """Return a GPU as llama.cpp's kernels see it: bounded by what its multiprocessors move, too."""
    clocks_per_s = (gpu.unit_count or 0) * (gpu.boost_clock_hz or 0.0) or (
        gpu.peak(PeakKind.FP32) or 0
    ) / _FP32_PER_CLOCK
    if gpu.is_cpu:
        return replace(machine, bandwidth_bytes_per_s=DIMM_FRACTION * machine.bandwidth_bytes_per_s)
    moved = _GGML_BYTES_PER_CLOCK * clocks_per_s
    if not moved:
        return machine
    printed = machine.bandwidth_bytes_per_s
    bounded = (printed**-3 + moved**-3) ** (-1 / 3)
    return replace(machine, bandwidth_bytes_per_s=bounded, moved_bytes_per_s=moved)


def machine_of(
    gpu: GpuSpec,
    *,
    group: int = 1,
    server: GpuServer | None = None,
    link_bytes_per_s: float | None = None,
    network_bytes_per_s: float | None = None,
) -> Machine | None:
    """Describe a GPU among those that exchange data in every layer; None where no 16-bit or fp32 peak is known.

    Modules of a board use its fast links and reach those of other boards over the network. Cards use a bridge as far as
    it joins all of a group, else PCIe, and the network beyond a server.
    """
    half = next((peak for kind in _HALF_PEAKS if (peak := gpu.peak(kind))), None)
    if not half:
        return None
    peaks = {Arithmetic.HALF: half}
    peaks |= {arithmetic: peak for arithmetic, kind in _PEAKS.items() if (peak := gpu.peak(kind))}
    if gpu.unit_count and gpu.boost_clock_hz:
        peaks[Arithmetic.VECTOR] = gpu.unit_count * gpu.boost_clock_hz * _ISSUED_PER_CLOCK
    stands_in = server or usual_server(gpu)
    joined = stands_in.joined
    pcie = 2 * (gpu.pcie_bytes_per_s or UNKNOWN_PCIE_BYTES_PER_S)
    network = 2 * (network_bytes_per_s or stands_in.network_bytes_per_s or NETWORK_BYTES_PER_S)
    switched = bool(gpu.nvlink_bytes_per_s) and (group <= joined or (joined > 1 and not is_bridged(gpu)))
    printed = gpu.nvlink_bytes_per_s if switched and gpu.nvlink_bytes_per_s else pcie
    return Machine(
        id=gpu.id,
        vendor=gpu.vendor,
        architecture=gpu.architecture,
        bandwidth_bytes_per_s=gpu.memory_bandwidth_bytes_per_s,
        peaks_flops_per_s=peaks,
        flops_per_joule=half / gpu.tdp_w if gpu.tdp_w else None,
        narrow_memory=not (gpu.memory_type or "").startswith("HBM"),
        link_bytes_per_s=link_bytes_per_s or printed,
        switched=switched,
        memory_bytes=gpu.expected_usable_bytes,
        server_gpus=joined if switched else stands_in.gpus,
        network_bytes_per_s=min(network, pcie),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCache:
    """The cache of one replica in host memory: tokens that it holds, and the time in which one comes back. [s]

    Engines copy blocks that leave the GPUs' cache to the host (vLLM's KV offloading and LMCache, SGLang's hierarchical
    cache, TensorRT-LLM's host cache) and back when a prompt begins with them. Meanwhile the GPUs serve other requests,
    so that only the request itself waits, behind those whose copies began before.
    """

    tokens: float
    token_s: float

    def waits_s(self, at_s: FloatArray, tokens: FloatArray) -> FloatArray:
        """Return how long each request waits for its prefix, the copies of a replica following one another. [s]"""
        waits, free_s = np.zeros(len(at_s)), 0.0
        for index in np.flatnonzero(tokens > 0):
            free_s = max(free_s, at_s[index]) + tokens[index] * self.token_s
            waits[index] = free_s - at_s[index]
        return waits


def host_cache(size_bytes: float, *, token_bytes: float, sharding: Sharding, gpu: GpuSpec) -> HostCache | None:
    """Return the cache of a replica in host memory; None where none is asked for.

    Every GPU keeps its own share of a token and copies it over its own link at the same time.
    """
    if not size_bytes:
        return None
    if not token_bytes:
        raise UsageError("⟨kv-offload⟩ keeps tokens of attention in host memory; no layer of this model caches any.")
    link = COPIED_FRACTION * (gpu.pcie_bytes_per_s or UNKNOWN_PCIE_BYTES_PER_S)
    return HostCache(
        tokens=size_bytes / (token_bytes * sharding.tensor * sharding.pipeline), token_s=token_bytes / link
    )
