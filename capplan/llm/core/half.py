"""Know which GPUs run a bf16 model in fp16, because they have no bf16 arithmetic."""

from capplan.core.gpus.spec import GpuSpec

_BF16_CAPABILITY = (8, 0)
"""Compute capability from which on NVIDIA's tensor cores take bf16: CUDA C++ Programming Guide, "Compute Capabilities".
vLLM refuses bfloat16 below it and names `--dtype half`."""


def lacks_bf16(gpu: GpuSpec) -> bool:
    """Return True if a GPU is known to have no bf16 arithmetic.

    Args:
        gpu: The GPU.
    """
    return gpu.compute_capability is not None and gpu.compute_capability < _BF16_CAPABILITY


def half_note(gpu: GpuSpec, *formats: str) -> str | None:
    """Return a note where weights or a cache in bf16 become fp16 on a GPU; None where they stay as they are.

    Args:
        gpu: The GPU.
        formats: Formats of the weights and of the cache.
    """
    if "bf16" not in formats or not lacks_bf16(gpu):
        return None
    return (
        f"{gpu.id} has no bf16 arithmetic: the model runs in fp16 there (vLLM and SGLang: --dtype half), in as many "
        "bytes; values above 65,504 overflow, so compare its answers with those in bf16"
    )
