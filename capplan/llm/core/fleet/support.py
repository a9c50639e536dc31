"""Decide which engines and formats run on which GPUs, as the engines' documentation states."""

from collections.abc import Mapping

from capplan.core.gpus.spec import GpuSpec
from capplan.core.serving_engines import Engine

_LEAST_CAPABILITY: Mapping[Engine, tuple[int, int]] = {
    Engine.VLLM: (7, 0),
    Engine.SGLANG: (7, 5),
    Engine.TRTLLM: (8, 0),
}
"""Compute capability from which on engines run: vLLM's installation page, SGLang's, and TensorRT-LLM's support matrix
(Ampere and later)."""
_FOUR_BIT = ("mxfp4", "nvfp4")
_FOUR_BIT_CAPABILITY = (8, 0)
"""vLLM's Marlin kernels, which run 4-bit floating-point weights in 16 bits, need Ampere or later."""


def support_problem(gpu: GpuSpec, engine: Engine, *, weights: str) -> str | None:
    """Return why an engine does not run a format on a GPU; None where nothing is known against it.

    Args:
        gpu: The GPU.
        engine: The engine.
        weights: Format of the weights.
    """
    if engine is Engine.TRTLLM and gpu.vendor != "NVIDIA":
        return "TensorRT-LLM runs on GPUs of NVIDIA alone; use vllm or sglang"
    capability = gpu.compute_capability
    if capability is None:
        return None
    shown = ".".join(map(str, capability))
    least = _LEAST_CAPABILITY.get(engine, (0, 0))
    if capability < least:
        return f"{engine.value} needs compute capability {least[0]}.{least[1]}, and {gpu.id} has {shown}"
    if weights in _FOUR_BIT and capability < _FOUR_BIT_CAPABILITY and engine is not Engine.LLAMACPP:
        return f"{weights} kernels need compute capability 8.0, and {gpu.id} has {shown}; use awq or gptq"
    return None
