"""Count the FLOPs of training by stated conventions, and what share of a GPU's peak rate a job uses.

Model FLOPs are those of one forward and one backward pass without recomputation; hardware FLOPs count what is
recomputed, too. MFU and HFU divide them by the printed dense peak of the format that matrix products run in.
"""

from dataclasses import dataclass

from capplan.core.gpus.spec import GpuSpec, PeakKind
from capplan.llm.core.architecture import Architecture
from capplan.llm.core.layers import Attention, CompressedAttention, LatentAttention
from capplan.llm.core.tensors import WeightRole, all_tensors, count_active_parameters
from capplan.llm.core.training.job import Compute, Method, Recompute, TrainingJob

_PEAK_OF = {
    Compute.BF16: (PeakKind.BF16, PeakKind.FP16), Compute.FP16: (PeakKind.FP16,),
    Compute.FP8: (PeakKind.FP8, PeakKind.BF16), Compute.MXFP8: (PeakKind.FP8, PeakKind.BF16),
    Compute.NVFP4: (PeakKind.FP4, PeakKind.FP8, PeakKind.BF16), Compute.TF32: (PeakKind.TF32, PeakKind.FP32),
    Compute.FP32: (PeakKind.FP32,),
}  # fmt: skip


def matmul_peak(gpu: GpuSpec, compute: Compute) -> PeakKind | None:
    """Return the kind of peak that matrix products of a format run at on a GPU; None where none is printed."""
    return next((kind for kind in _PEAK_OF[compute] if gpu.peak(kind)), None)


def matmul_parameters(architecture: Architecture) -> int:
    """Count the parameters in matrix products that one token passes: without embeddings and norms, with the head."""
    embedding = architecture.vocab_size * architecture.hidden_dim
    vectors = sum(
        tensor.parameters
        for tensor in all_tensors(architecture)
        if tensor.role in (WeightRole.VECTOR, WeightRole.CONVOLUTION)
    )
    active = count_active_parameters(architecture) - vectors - embedding
    return active + (embedding if architecture.tied_embeddings else 0)


def attention_flops_per_token(architecture: Architecture, *, sequence: int, is_causal: bool) -> float:
    """Compute the forward FLOPs of attention of one token: 4·s·q per layer, half of it where masked keys are
    skipped.
    """
    found = 0.0
    for layer, count in architecture.layer_kinds:
        match layer.mixer:
            case Attention() as mixer:
                keys = mixer.mean_keys(sequence) if is_causal else min(sequence, mixer.window or sequence)
                found += count * 2.0 * keys * mixer.query_heads * (mixer.key_dim + mixer.value_dim)
            case LatentAttention() as mixer:
                keys = sequence / 2 if is_causal else sequence
                width = mixer.nope_dim + mixer.rope_dim + mixer.value_dim
                found += count * 2.0 * keys * mixer.query_heads * width
            case CompressedAttention() as mixer:
                found += count * 4.0 * mixer.mean_keys(sequence) * mixer.query_heads * mixer.head_dim
            case _:
                pass
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRates:
    """FLOPs per second and GPU, and their shares of the printed dense peak of the job's format.

    `peak_flops_per_s` is None where the peak is not printed. Attention is counted as a causal kernel computes it, so
    that neither share can pass 1.
    """

    model_flops_per_s: float
    hardware_flops_per_s: float
    peak_flops_per_s: float | None

    @property
    def mfu_fraction(self) -> float | None:
        return self.model_flops_per_s / self.peak_flops_per_s if self.peak_flops_per_s else None

    @property
    def hfu_fraction(self) -> float | None:
        return self.hardware_flops_per_s / self.peak_flops_per_s if self.peak_flops_per_s else None


def passes_per_token(job: TrainingJob) -> tuple[float, float]:
    """Return the forward passes' worth of FLOPs per token of the model and with recomputation.

    A forward pass counts 1, the backward pass 2; a frozen base has no gradients of weights, so that its backward pass
    counts 1: LoRA takes 4·N FLOPs per token, and 6·N with full recomputation.
    """
    model = 3.0 if job.method is Method.FULL else 2.0
    again = {Recompute.FULL: 1.0, Recompute.OPERATORS: 0.5}.get(job.recompute, 0.0)
    return model, model + again


def training_rates(job: TrainingJob, gpu: GpuSpec, *, step_s: float) -> TrainingRates:
    forward = 2.0 * matmul_parameters(job.architecture)
    attention = attention_flops_per_token(job.architecture, sequence=job.sequence_tokens, is_causal=True)
    model, hardware = passes_per_token(job)
    tokens = job.step_tokens / job.layout.gpus / step_s
    per_token = model * forward + 3.0 * attention
    again = (hardware - model) * forward + (attention if job.recompute is Recompute.FULL else 0.0)
    kind = matmul_peak(gpu, job.compute)
    return TrainingRates(
        model_flops_per_s=tokens * per_token,
        hardware_flops_per_s=tokens * (per_token + again),
        peak_flops_per_s=gpu.peak(kind) if kind else None,
    )
