"""Hold what is believed of the constants before any serving run is seen, from kernels timed alone.

The values are medians of kernel timings (matrix products, experts, attention, all-reduce) of A100, H100, B200, GB200
and RTX PRO 6000 in TensorRT-LLM 1.0 to 1.3 and vLLM 0.14 to 0.24; the deviations say how far one service may differ.
Products in fp8 and fp4 were timed together with the quantisation of their input. Their shares are those of the product
alone: times were regressed on FLOPs, inputs and outputs. The inputs took the time of 2 to 10 bytes each (8 to 10 in fp8
on GPUs with HBM, 6 in NVFP4, 4 on GDDR), which is counted as `quantised_bytes` of engines that run it as a kernel of
its own; TensorRT-LLM's compiled engines fused it into the norm before. Grouped products of mxfp4 weights and mxfp8
inputs reach 0.60 of the peak of fp8 (RTX PRO 6000, 8,192 tokens of 32 experts of gpt-oss).
"""

from collections.abc import Sequence

import numpy as np

from capplan.core.assumed import UNTIMED_SHARE
from capplan.llm.core.serving.cases import ServingCase
from capplan.llm.core.serving.fit import Prior
from capplan.llm.core.timing.calibration import (
    DeviceConstants,
    EngineTimes,
    KernelClass,
    KernelConstants,
    LinkConstants,
    LlmCalibration,
    factor_name,
    fixed_name,
)
from capplan.llm.core.timing.constants import ConstantsVector
from capplan.llm.core.timing.work import kernel_classes


def _kernel(compute_fraction: float, bandwidth_fraction: float, fixed_us: float) -> KernelConstants:
    return KernelConstants(
        compute_fraction=compute_fraction, bandwidth_fraction=bandwidth_fraction, fixed_s=fixed_us * 1e-6
    )


_KERNELS = {
    KernelClass.GEMM_16: _kernel(0.85, 0.84, 4),
    KernelClass.GEMM_FP8: _kernel(0.85, 0.87, 7),
    KernelClass.GEMM_FP8_BLOCK: _kernel(0.80, 0.83, 9),
    KernelClass.GEMM_INT8: _kernel(0.88, 0.90, 9),
    KernelClass.GEMM_FP4: _kernel(0.71, 0.66, 8),
    KernelClass.GEMM_W8A16: _kernel(0.83, 0.90, 8),
    KernelClass.GEMM_W4A16: _kernel(0.81, 0.85, 10),
    KernelClass.GGML_16: _kernel(0.75, 0.994, 1),
    KernelClass.GGML_NARROW: _kernel(0.583, 0.989, 1),
    KernelClass.MOE_16: _kernel(0.54, 0.86, 25),
    KernelClass.MOE_FP8: _kernel(0.54, 0.85, 25),
    KernelClass.MOE_FP8_BLOCK: _kernel(0.29, 0.90, 28),
    KernelClass.MOE_NVFP4: _kernel(0.56, 0.80, 25),
    KernelClass.MOE_MXFP4: _kernel(0.60, 0.80, 18),
    KernelClass.MOE_MXFP4_A16: _kernel(0.46, 0.90, 35),
    KernelClass.MOE_W8A16: _kernel(0.48, 0.80, 30),
    KernelClass.MOE_W4A16: _kernel(0.42, 0.70, 40),
    KernelClass.DECODE_GQA: _kernel(0.15, 0.85, 9),
    KernelClass.DECODE_VECTOR: _kernel(0.3, 0.85, 9),
    KernelClass.DECODE_MLA: _kernel(0.37, 0.60, 10),
    KernelClass.PREFILL: _kernel(0.53, 1.00, 15),
    KernelClass.PREFILL_FP8: _kernel(0.365, 1.00, 15),
    KernelClass.STATE: _kernel(0.15, 0.50, 30),
    KernelClass.SSM_UPDATE: _kernel(0.09, 0.85, 12),
}


def _engine(
    layer_us: float,
    step_us: float,
    sequence_us: float,
    prefill_layer_us: float,
    *,
    quantised_bytes: float = 6.0,
    elementwise_bytes: float = 4.5,
    sorted_logit_ps: float = 100.0,
) -> EngineTimes:
    return EngineTimes(
        layer_s=layer_us * 1e-6,
        step_s=step_us * 1e-6,
        sequence_s=sequence_us * 1e-6,
        prefill_layer_s=prefill_layer_us * 1e-6,
        prefill_share=0.85,
        offline_scale=1.0,
        elementwise_bytes=elementwise_bytes,
        quantised_bytes=quantised_bytes,
        sorted_logit_s=sorted_logit_ps * 1e-12,
        **_of_waiting(lone=1.2, scale=1.0, burst=0.1, steps=1.5, offset_s=0.02),
    )


def _of_waiting(**values: float) -> dict[str, float]:
    """Return values of the constants of times to the first token, alike for both kinds of arrivals."""
    return {f"{kind}_{name}": value for kind in ("ttft", "lockstep") for name, value in values.items()}


_STREAMED_WITH_LLAMACPP = """
a100-pcie-80gb a100-sxm4-80gb a40 apple-m1-max apple-m2-ultra apple-m3-max h100-pcie-80gb l40s rtx-3070 rtx-3080-10gb
rtx-3080-ti rtx-3090 rtx-4000-ada rtx-4070-ti rtx-4080 rtx-4090 rtx-5000-ada rtx-6000-ada rtx-a6000
"""
PRIOR = LlmCalibration(
    name="prior",
    kernels=_KERNELS,
    engines={
        "llama.cpp": _engine(26.5, 300, 4, 60, elementwise_bytes=28.6),
        "llama.cpp before 2025": _engine(63, 300, 4, 60, elementwise_bytes=28.6),
        "sglang": _engine(10, 400, 4, 300),
        "sglang before 0.5.10": _engine(10, 400, 4, 300),
        "trtllm": _engine(8, 400, 4, 300),
        "trtllm before 1.0": _engine(6, 200, 4, 100, quantised_bytes=0.5),
        "trtllm before 0.11": _engine(6, 200, 4, 100, quantised_bytes=0.5),
        "vllm": _engine(8, 500, 6, 300),
        "vllm before 0.14": _engine(8, 500, 20, 300),
        "vllm before 0.11": _engine(8, 500, 20, 300),
        "vllm before 0.8": _engine(8, 500, 20, 300),
    },
    switched=LinkConstants(
        latency_s=4.7e-6, latency_growth=0.23, bus_fraction=0.36, bus_decline=1.03, staged_s=54e-6, staged_bytes=14e6
    ),
    host=LinkConstants(
        latency_s=10e-6, latency_growth=0.62, bus_fraction=0.21, bus_decline=0.98, staged_s=40e-6, staged_bytes=0.6e6
    ),
    device=DeviceConstants(
        power_knee=1.9e12, narrow_bandwidth=1.1, other_compute=0.65, other_bandwidth=0.80, other_fixed=1.5
    ),
    single_streams=dict.fromkeys(("llama.cpp", "llama.cpp before 2025"), frozenset(_STREAMED_WITH_LLAMACPP.split())),
    kernel_factors={factor_name("trtllm", "Hopper", KernelClass.MOE_MXFP4_A16): 1.54},
)
"""llama.cpp's products, layers and element bytes are learnt from `single_streams` (`benchmarks/llama_cpp.py`): its
activations are in 32 bits, and nothing is fused. `host` are PCIe 5.0 hosts. Collectives are fitted to all-reduce
kernels of three engines on 2, 4 and 8 GPUs: with the wait between stages they are met within 9 % (median) over NVLink,
without it within 16 %. `other_*` follow MLPerf Inference 5.1: eight MI300X give 0.9 times the offline tokens of eight
H100 SXM on Llama-2-70B, with 1.3 times the peak and 1.6 times the bandwidth; that their kernels wait half as long
again is assumed, and moves freely. TensorRT-LLM's experts in MXFP4 on Hopper, which widen their weights in a kernel of
their own, take 1.23 times the class's time where a GPU holds whole layers and 1.93 times where it holds some of the
experts (medians of 546 kernels timed alone; the mean of both counts). `STATE` runs several small kernels a
layer, whose time no run here shows. `SSM_UPDATE` (`selective_state_update` of Mamba's implementation) is bound by what
a multiprocessor holds and not by bandwidth: blocks of 4 × 128 elements in 128 threads, 16 of them at a time, each of
which waits for three reads that follow from one another, of about 0.7 µs each. That is 3.9 elements a nanosecond and
multiprocessor, 0.09 of what its lanes could compute; the convolution and the norm beside it are launches of 4 µs."""

_DEVIATIONS = {
    "compute_fraction": 0.25,
    "bandwidth_fraction": 0.15,
    "fixed_s": 0.5,
    "layer_s": 0.5,
    "step_s": 0.6,
    "sequence_s": 1.5,
    "prefill_layer_s": 1.0,
    "prefill_share": 0.2,
    "offline_scale": 0.08,
    **_of_waiting(lone=0.3, scale=0.3, burst=0.3, steps=1.0, offset_s=0.7),
    "latency_s": 0.3,
    "latency_growth": 0.5,
    "bus_fraction": 0.08,
    "bus_decline": 0.05,
    "staged_s": 0.4,
    "staged_bytes": 0.4,
    "power_knee": 0.1,
    "narrow_bandwidth": 0.06,
    "other_compute": 0.1,
    "other_bandwidth": 0.1,
    "other_fixed": 1.0,
    "elementwise_bytes": 0.3,
    "quantised_bytes": 0.5,
    "sorted_logit_s": 1.0,
    "kernel_factor": 0.5,
}
"""How far one service may differ from another in a constant, as a deviation of its logarithm. What the host takes for a
sequence and to launch a layer of a prompt was never timed apart, and differs by a factor between hosts and releases.

The bandwidth of collectives is held near that of kernels: on two and four GPUs it is the same share of NVLink's figure
within 10 % on A100, H100 and B200, in all three engines. Runs of one GPU would otherwise bend it for the links of
others, by what else tensor parallelism costs them."""

_KERNEL_SHARE, _ENGINE_SHARE, _WAITING_SHARE = 0.3, 0.4, 0.4
"""Shares of these deviations that a fit takes: of kernels, of engines and links, and of what follows from waiting.

Runs come in a few hundred deployments whose errors are alike, so that constants which follow them freely fit them and
miss others. When they were chosen, median errors of TPOT without the GPU and without the model were 10.9 and 11.8 %
with a share of 1 for all, 9.0 and 9.5 % with 0.4, and 8.8 and 8.8 % with these; shares of 0.2 or 0.1 for kernels
changed both by less than 0.3 but missed offline tokens per second of other models by a tenth more. What follows from
waiting is in part the benchmark's client: with a share of 1 instead of 0.4, times to the first token of years left out
were within a factor of two for 73 instead of 83 %, and of GPUs left out for 87 instead of 89 %."""

_FACTOR_SHARE, _UNTIMED_FACTOR_SHARE, _FREE_SHARE = 0.06, 0.3, 1.0
"""The same of factors of kernels. They are drawn firmly to 1, because many rest on one model alone: with a share of 0.3
that model's left-out runs were missed by a fifth more. More is left to classes that no engine's kernels were timed of.
vLLM before 0.14 ran grouped products of new shapes untuned (the 235-billion Qwen3 in fp8 takes 1.6 to 2.1 times its
tuned time), and GPUs of other vendors run other kernels, timed by nobody: their factors are free and move no other
engine or GPU."""
_UNTIMED = frozenset({
    KernelClass.GEMM_INT8, KernelClass.GEMM_W8A16, KernelClass.MOE_W8A16, KernelClass.MOE_W4A16, KernelClass.STATE,
    KernelClass.MOE_MXFP4_A16,
})  # fmt: skip
_TIMED_GENERATIONS = frozenset({"Ampere", "Ada Lovelace", "Hopper", "Blackwell"})


def _share(name: str) -> float:
    constant = name.rsplit("/", maxsplit=1)[-1]
    if constant.startswith(("ttft_", "lockstep_", "offline_")):
        return _WAITING_SHARE
    if name.startswith("factor/"):
        kernel, engine, generation = name.split("/", maxsplit=1)[1].rsplit("/", maxsplit=1)[0].split(" | ")
        untuned = kernel.startswith("moe") and engine.startswith("vllm before")
        if untuned or generation not in _TIMED_GENERATIONS:
            return _FREE_SHARE
        return _UNTIMED_FACTOR_SHARE if kernel in _UNTIMED else _FACTOR_SHARE
    if name == f"kernel/{KernelClass.SSM_UPDATE}/compute_fraction":
        return UNTIMED_SHARE
    return _KERNEL_SHARE if name.startswith("kernel/") else _ENGINE_SHARE


def default_layout(cases: Sequence[ServingCase] = ()) -> ConstantsVector:
    """Return the layout of the engines that capplan knows, with a factor for every class of kernels that was timed."""
    factors = {
        factor_name(case.engine, case.machine.architecture, kernel)
        for case in cases
        for kernel in kernel_classes(case.kernels)
    }
    factors |= {
        fixed_name(case.engine, case.machine.vendor, case.machine.architecture)
        for case in cases
        if case.machine.vendor != "NVIDIA"
    }
    return ConstantsVector(tuple(PRIOR.engines), tuple(sorted(factors)))


def default_prior(layout: ConstantsVector) -> Prior:
    deviation = np.array([_share(name) * _DEVIATIONS[name.split("/")[-1]] for name in layout.names])
    return Prior(mean=layout.pack(PRIOR), deviation=deviation)


_HELD = 1e-3
"""Deviation of constants that own runs do not move, so that engines stay independent of each other."""


def own_prior(layout: ConstantsVector, shipped: LlmCalibration) -> Prior:
    """Return what is believed before a user's own runs: the shipped constants, of which those of engines may move.

    Kernels, links and devices stay: they are shared by engines, and what a user's runs say of them is that of few GPUs.
    """
    moves = np.array([name.startswith(("engine/", "factor/")) for name in layout.names])
    return Prior(mean=layout.pack(shipped), deviation=np.where(moves, default_prior(layout).deviation, _HELD))
