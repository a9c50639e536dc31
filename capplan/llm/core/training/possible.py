"""Whether a job can be run at all on a GPU: its matrix units, the layers that a framework shares, positions."""

from capplan.core.gpus.spec import GpuSpec, PeakKind
from capplan.llm.core.training.frameworks import Family, TrainingFramework
from capplan.llm.core.training.job import AttentionImplementation, Compute, TrainingJob

_SHARING_LAYERS = (Family.MEGATRON, Family.FSDP, Family.XLA)
"""Families of frameworks that share layers and sequences among GPUs; others share data and states alone."""
_SINCE = {
    Compute.BF16: (8, 0),
    Compute.TF32: (8, 0),
    Compute.FP8: (8, 9),
    Compute.MXFP8: (10, 0),
    Compute.NVFP4: (10, 0),
}
"""NVIDIA's compute capability from which on matrix units take a format (CUDA C++ Programming Guide, "Compute
Capabilities", from memory)."""
_KINDS = {Compute.BF16: PeakKind.BF16, Compute.FP8: PeakKind.FP8, Compute.MXFP8: PeakKind.FP4}
"""The printed rate that says it of other vendors: block-scaled formats came with those of 4 bits."""
_FLASH_SINCE = (8, 0)
"""FlashAttention-2's README: Ampere and later."""


def shares_layers(framework: TrainingFramework) -> bool:
    """Return True if a framework shares layers and sequences among GPUs, beside data and states."""
    return framework.family in _SHARING_LAYERS


def lacking_units(job: TrainingJob, gpu: GpuSpec) -> str | None:
    """Return why a GPU has no units for a job's matrix products; None where it has them."""
    compute, since = job.compute, _SINCE.get(job.compute)
    if since is None:
        return None
    if gpu.compute_capability is not None:
        has = gpu.compute_capability >= since
    else:
        kind = _KINDS.get(compute)
        has = compute is not Compute.NVFP4 and (kind is None or gpu.peak(kind) is not None)
    if has:
        return None
    instead = "fp16" if compute is Compute.BF16 else "bf16" if gpu.peak(PeakKind.BF16) else "fp16"
    return f"{gpu.id} has no matrix units for {compute.value}; take ⟨precision⟩ {instead}"


def impossible(job: TrainingJob, gpu: GpuSpec) -> str | None:
    """Return why a job cannot be run on a GPU; None where nothing speaks against it."""
    layout, name = job.layout, job.framework.name
    if (lacking := lacking_units(job, gpu)) is not None:
        return lacking
    shared = {"⟨tp⟩": layout.tensor, "⟨pp⟩": layout.pipeline, "⟨cp⟩": layout.context, "⟨ep⟩": layout.expert}
    for option, degree in shared.items():
        if degree > 1 and not shares_layers(job.framework):
            return (
                f"{name} shares data and states among GPUs, and its layers are not known to be shared here: leave out "
                f"{option} {degree}, or take torchtitan, megatron or nemo"
            )
    if layout.pipeline == 1 and layout.virtual > 1:
        return f"⟨vp⟩ {layout.virtual} divides stages of a pipeline, of which there is none; add ⟨pp⟩, or leave it out"
    if layout.pipeline == 1 and layout.zero_bubble:
        return "⟨zero-bubble⟩ is about a pipeline, of which there is none; add ⟨pp⟩, or leave it out"
    rows = job.architecture.position_rows
    if rows and job.sequence_tokens > rows:
        return f"{job.architecture.name} has {rows:,} learned positions, fewer than ⟨seq-len⟩ {job.sequence_tokens:,}"
    return None


def unknown_attention(gpu: GpuSpec, asked: AttentionImplementation | None) -> str | None:
    """Return why a kernel of attention that is asked for by name does not run on a GPU; None where it does."""
    held = gpu.compute_capability
    if asked is not AttentionImplementation.FLASH or held is None or held >= _FLASH_SINCE:
        return None
    return (
        f"FlashAttention-2 needs compute capability 8.0, and {gpu.id} has {held[0]}.{held[1]}; take ⟨attention⟩ flash1"
    )
