"""Constants and machines for tests of training: round numbers near those of the literature, fitted to nothing."""

from dataclasses import replace

from capplan.core.gpus.spec import GpuSpec, PeakKind
from capplan.core.numbers import Interval
from capplan.llm.core.architecture import Architecture
from capplan.llm.core.training.accuracy import TrainingCalibration, TrainingEvidence, Widths
from capplan.llm.core.training.flops import attention_flops_per_token, matmul_parameters
from capplan.llm.core.training.frameworks import Family
from capplan.llm.core.training.job import TrainingJob
from capplan.llm.core.training.launch import launch_config
from capplan.llm.core.training.memory import MemoryConstants
from capplan.llm.core.training.step_time import TimeConstants
from capplan.llm.core.training.work import AttentionClass, CollectiveLink, ProductClass, TrainingGpu
from capplan.llm.read.framework_forms import FRAMEWORK_FORMS

GIB = 2**30
FORMS = FRAMEWORK_FORMS.load()


def launched(job: TrainingJob) -> str | None:
    """Return the configuration that starts a job, by the shipped forms."""
    config = launch_config(replace(job, framework=replace(job.framework, forms=FORMS)))
    return config.text if config else None


MEMORY = MemoryConstants(
    activations=dict.fromkeys(Family, 1.0),
    logit_bytes=dict.fromkeys(Family, 10.0),
    workspace_bytes=0.1 * GIB,
    base_extra_bytes=0.3 * GIB,
    reserved_share=1.05,
    context_bytes=0.6 * GIB,
    network_bytes=1.0 * GIB,
)
TIME = TimeConstants(
    products=dict.fromkeys(ProductClass, 0.8),
    grouped=0.5,
    attention=dict.fromkeys(AttentionClass, 0.5),
    attention_start_s=8e-13,
    stream_fused=0.8,
    stream_eager=0.5,
    misaligned=1.5,
    partial_waves=0.5,
    filling_rows=100.0,
    links=dict.fromkeys(CollectiveLink, 0.7),
    exposed_tensor=0.7,
    exposed_pipeline=0.5,
    exposed_expert=0.8,
    exposed_context=0.3,
    exposed_shard=0.2,
    exposed_gradient=0.3,
    kernel_s=8e-6,
    doubling=0.005,
    families=dict.fromkeys(Family, 1.0),
)
_WIDTHS = {
    TrainingEvidence.MEASURED: 1.2,
    TrainingEvidence.TRANSFERRED: 1.3,
    TrainingEvidence.EXTRAPOLATED: 1.5,
    TrainingEvidence.FAR: 2.0,
}
CALIBRATION = TrainingCalibration(
    name="test",
    memory=MEMORY,
    time=TIME,
    widths=Widths(dense=_WIDTHS, adapters=_WIDTHS, experts=_WIDTHS, memory=_WIDTHS),
    campaign=Interval(low=1.0, expected=1.2, high=1.5),
    measured_gpus=frozenset({"gpu"}),
    measured_chips=frozenset({"gh100"}),
    measured_vendors=frozenset({"NVIDIA"}),
    measured_frameworks=frozenset({"megatron"}),
    memory_frameworks=frozenset({"megatron"}),
    memory_vendors=frozenset({"NVIDIA"}),
)
SPEC = GpuSpec(
    id="gpu",
    name="GPU",
    vendor="NVIDIA",
    architecture="hopper",
    compute_capability=(9, 0),
    form_factor="SXM5",
    memory_bytes=80 * GIB,
    memory_bandwidth_bytes_per_s=3e12,
    peak_flops_per_s={
        PeakKind.BF16: 1e15,
        PeakKind.FP16: 1e15,
        PeakKind.FP8: 2e15,
        PeakKind.TF32: 5e14,
        PeakKind.FP32: 6e13,
    },
    nvlink_bytes_per_s=900e9,
    unit_count=100,
    tdp_w=700.0,
)
MACHINE = TrainingGpu(
    gpu=SPEC,
    half_flops_per_s=7e14,
    fp8_flops_per_s=1.1e15,
    fp4_flops_per_s=1.1e15,
    tf32_flops_per_s=3e14,
    copy_bytes_per_s=2.5e12,
    fast_gpus=8,
    fast_bytes_per_s=450e9,
    host_bytes_per_s=63e9,
    network_bytes_per_s=50e9,
)


def model_flops_per_token(architecture: Architecture, *, sequence: int) -> float:
    """Return the model FLOPs of a trained token: 6·N + 12·L·h·s, attention not halved, as NeMo and PaLM count them."""
    attention = attention_flops_per_token(architecture, sequence=sequence, is_causal=False)
    return 6.0 * matmul_parameters(architecture) + 3.0 * attention
