"""Reduce one step of a training job to the work of its kernels and the bytes of its collectives, on one GPU.

Work is counted per micro-batch of the slowest pipeline stage, and per step where it happens once. All times here are
ideal: at the rates that a GPU sustains in long matrix products and copies; `step_time` applies what kernels reach.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from capplan.core.assumed import NETWORK_BYTES_PER_S, NETWORK_OF_CARD_BYTES_PER_S, UNKNOWN_PCIE_BYTES_PER_S
from capplan.core.gpus.machines import joined_gpus
from capplan.core.gpus.rate_laws import RateLaws, copy_share, half_peak, half_share
from capplan.core.gpus.spec import GpuSpec, Microbenchmark, PeakKind
from capplan.errors import UsageError
from capplan.llm.core.architecture import Layer
from capplan.llm.core.layers import (
    Attention,
    CompressedAttention,
    Experts,
    GatedDeltaNet,
    LatentAttention,
    Mamba2,
    ShortConv,
)
from capplan.llm.core.tensors import Split, WeightRole, layer_tensors
from capplan.llm.core.training.job import (
    AttentionImplementation,
    BaseFormat,
    Compute,
    Method,
    Offloaded,
    Recompute,
    Shard,
    TrainingJob,
)
from capplan.llm.core.training.memory import state_bytes, stays_gathered
from capplan.llm.core.training.parameters import (
    StageParameters,
    adapted_matrices,
    is_expert,
    layers_per_stage,
    stage_parameters,
)

_HALF = 2.0


class ProductClass(StrEnum):
    """Classes of matrix products that share their efficiency."""

    WIDE = "16-bit and wider"
    FP8 = "fp8"
    FP4 = "fp4"


class AttentionClass(StrEnum):
    """Classes of attention kernels that share their efficiency, by kernel and by how new the GPU is."""

    EAGER = "eager"
    FLASH1 = "flash1"
    FLASH1_ON_NEWER = "flash1 on newer"
    FLASH = "flash"
    FLASH_ON_NEWER = "flash on newer"
    TUNED = "tuned"


class CollectiveLink(StrEnum):
    """The links that collectives pass: fast links of a server, the host's bus, the network between servers."""

    FAST = "fast"
    HOST = "host"
    NETWORK = "network"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingGpu:
    """What a training step needs of a GPU and its links. [FLOP/s, bytes/s]

    `product_flops_per_s` are sustained rates by class, `links` one direction of each link.
    """

    gpu: GpuSpec
    half_flops_per_s: float
    fp8_flops_per_s: float
    fp4_flops_per_s: float
    tf32_flops_per_s: float
    copy_bytes_per_s: float
    fast_gpus: int
    fast_bytes_per_s: float
    host_bytes_per_s: float
    network_bytes_per_s: float

    @property
    def attention_is_newer(self) -> bool:
        """Return True if FlashAttention-2, written for Ampere's instructions, leaves its matrix units idle."""
        capability = self.gpu.compute_capability
        return (capability is not None and capability[0] in (9, 10)) or self.gpu.vendor.upper() == "AMD"

    @property
    def prefers_tuned_attention(self) -> bool:
        """Return True if PyTorch takes cuDNN's attention before FlashAttention-2: on Blackwell of data centres."""
        capability = self.gpu.compute_capability
        return capability is not None and capability[0] == 10


_FP8_SUSTAINED_RATIO = 0.75
"""Sustained over printed fp8 rate, relative to the same share in 16 bits, where no fp8 product was timed: the ratio of
H100 SXM, 1103 of 1979 against 734 of 989 TFLOP/s (gpu_specs)."""


def training_gpu(gpu: GpuSpec, laws: RateLaws, *, network_bytes_per_s: float | None = None) -> TrainingGpu:
    printed = half_peak(gpu)
    if not printed:
        raise UsageError(f"{gpu.id} has no matrix units in 16 bits, so that no time of training is estimated for it.")
    share = half_share(gpu, laws.sustained).fraction
    fp8_peak, fp4_peak = gpu.peak(PeakKind.FP8), gpu.peak(PeakKind.FP4)
    own_fp8 = gpu.measured.get(Microbenchmark.MATMUL_FP8)
    fp8 = own_fp8.value if own_fp8 else (fp8_peak or printed) * share * (_FP8_SUSTAINED_RATIO if fp8_peak else 1.0)
    fp4 = fp4_peak * share * _FP8_SUSTAINED_RATIO if fp4_peak else fp8
    joined = joined_gpus(gpu)
    board = bool(gpu.nvlink_bytes_per_s) and joined > 2
    return TrainingGpu(
        gpu=gpu,
        half_flops_per_s=printed * share,
        fp8_flops_per_s=max(fp8, printed * share),
        fp4_flops_per_s=fp4,
        tf32_flops_per_s=(gpu.peak(PeakKind.TF32) or gpu.peak(PeakKind.FP32) or printed / 8) * share,
        copy_bytes_per_s=gpu.memory_bandwidth_bytes_per_s * copy_share(gpu, laws.sustained).fraction,
        fast_gpus=joined,
        fast_bytes_per_s=(gpu.nvlink_bytes_per_s or 0.0) / 2,
        host_bytes_per_s=gpu.pcie_bytes_per_s or UNKNOWN_PCIE_BYTES_PER_S,
        network_bytes_per_s=network_bytes_per_s or (NETWORK_BYTES_PER_S if board else NETWORK_OF_CARD_BYTES_PER_S),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingStepWork:
    """The ideal times of one step on one GPU of the slowest stage. [s]

    Of one micro-batch: `dense_s` of matrix products at the sustained rate of their class, `wave_s` of one wave of
    tiles of each of them, `grouped_s` of products over experts, `head_s` of the output head, `attention_s` with
    `attention_starts`, the FLOPs of its queries with one key each, `stream_s`
    of pointwise operators and norms, `loss_s` of the logits' traffic, `casts_s` of conversions to narrow formats,
    `dequantise_s` of the frozen base's. `kernels` are the operators that the host issues. Collectives, by what causes
    them, with the link they pass: tensor, expert, context and pipeline parallelism per micro-batch, sharded parameters
    per micro-batch or step, gradients per step.
    `optimizer_s` is the traffic of the optimizer's states, `host_s` what passes the host's bus for offloading.
    `expert_rows` are the tokens of a micro-batch that one expert's matrix product takes.
    """

    dense_s: float
    wave_s: float
    grouped_s: float
    head_s: float
    attention_s: float
    attention_starts: float
    stream_s: float
    loss_s: float
    casts_s: float
    dequantise_s: float
    kernels: float
    tensor_s: float
    tensor_link: CollectiveLink
    expert_s: float
    expert_link: CollectiveLink
    context_s: float
    context_link: CollectiveLink
    pipeline_s: float
    pipeline_link: CollectiveLink
    shard_s: float
    shard_link: CollectiveLink
    gradient_s: float
    gradient_link: CollectiveLink
    optimizer_s: float
    host_s: float
    expert_rows: float
    product: ProductClass
    attention: AttentionClass
    overlaps_tensor: bool
    fuses: bool
    is_misaligned: bool
    accumulation: int
    bubble_fraction: float
    gpus: int
    servers: int


def step_work(job: TrainingJob, gpu: TrainingGpu, *, paged_bytes: float = 0.0) -> TrainingStepWork:
    """Reduce a job to its work on one GPU.

    Args:
        paged_bytes: What of paged optimizer states the GPU has no room for, and every step brings in as it takes as
            much out, both directions at once.
    """
    layout = job.layout
    sizes = layers_per_stage(job.architecture, layout)
    total = len(job.architecture.layers)
    passes = _passes(job)
    held = max(stage_parameters(job), key=lambda stage: stage.total)  # the heaviest stage
    product, rate = _product(job, gpu)
    weight, gradient, state = state_bytes(job)
    work = _LayerWork()
    for layer, count in job.architecture.layer_kinds:
        work = work.plus(_layer_work(layer, job, passes, units=gpu.gpu.unit_count or 0), count)
    head_s, loss_s = _head_times(job, gpu)
    # The last stage has the head beside its layers; it is the slowest one unless another has more layers.
    layers_s = work.dense / rate + work.grouped / rate + work.attention / gpu.half_flops_per_s
    if layout.pipeline > 1 and (max(sizes) - sizes[-1]) / total * layers_s > head_s:
        share, head_s, loss_s = max(sizes) / total, 0.0, 0.0
    else:
        share = sizes[-1] / total
    return TrainingStepWork(
        dense_s=share * work.dense / rate,
        wave_s=share * work.waves / rate,
        grouped_s=share * work.grouped / rate,
        head_s=head_s,
        attention_s=share * work.attention / gpu.half_flops_per_s,
        attention_starts=share * work.attention_starts,
        stream_s=share * work.stream / gpu.copy_bytes_per_s,
        loss_s=loss_s,
        casts_s=share * work.casts / gpu.copy_bytes_per_s if product is not ProductClass.WIDE else 0.0,
        dequantise_s=share * work.dequantised / gpu.copy_bytes_per_s,
        expert_rows=_expert_rows(job),
        kernels=share * total * _kernels_per_layer(job) * passes.forward * 3,
        product=product,
        attention=_attention_class(job, gpu),
        fuses=job.compiled or job.framework.fuses_activation or job.framework.fuses_norm,
        # a GPU's share of the width is not divisible by 64, the size of a tensor core's tile
        is_misaligned=bool(job.architecture.hidden_dim % (64 * job.layout.tensor)),
        overlaps_tensor=job.framework.overlaps_tensor,
        accumulation=job.accumulation,
        bubble_fraction=bubble_fraction(
            stages=layout.pipeline,
            micro_batches=job.accumulation,
            chunks=layout.virtual,
            zero_bubble=layout.zero_bubble,
        ),
        gpus=layout.gpus,
        servers=math.ceil(layout.gpus / layout.gpus_per_node),
        **_collectives(job, gpu, held, layers=share * total),
        optimizer_s=(2 * weight + gradient + 2 * state) * _updated(job, held) / gpu.copy_bytes_per_s,
        host_s=(_host_bytes(job, held) + paged_bytes) / gpu.host_bytes_per_s,
    )


def _head_times(job: TrainingJob, gpu: TrainingGpu) -> tuple[float, float]:
    """Return the times of the output head's matrix products and of the traffic of its logits. [s]"""
    logits = job.micro_tokens * job.architecture.vocab_size / job.layout.tensor
    passes = 3.0 if job.method is Method.FULL or "head" in job.adapter.targets else 2.0
    if not job.parts.has_vocabulary:
        return 0.0, 0.0
    if job.parts.generates:
        logits *= job.completion_tokens / job.sequence_tokens
    head_flops = passes * 2.0 * logits * job.architecture.hidden_dim
    return head_flops / _wide_rate(job, gpu), _LOSS_BYTES * logits / gpu.copy_bytes_per_s


def _expert_rows(job: TrainingJob) -> float:
    """Return the tokens that one expert's product takes of a micro-batch, where routing is balanced."""
    layout = job.layout
    experts = [layer.mlp for layer in job.architecture.layers if isinstance(layer.mlp, Experts)]
    if not experts:
        return job.micro_tokens
    gathered = job.micro_tokens * layout.expert * layout.expert_tensor / layout.tensor
    return gathered * experts[0].per_token / experts[0].count


def bubble_fraction(*, stages: int, micro_batches: int, chunks: int = 1, zero_bubble: bool = False) -> float:
    """Return the idle time of a pipeline over its ideal time: (p − 1)/(v·m), a third of it with ZB-H1.

    Narayanan et al. (arXiv 2104.04473) and Qi et al. (arXiv 2401.10241).
    """
    return (stages - 1) / (chunks * max(1, micro_batches)) * (1 / 3 if zero_bubble else 1.0)


@dataclass(frozen=True, slots=True)
class _Passes:
    """How often each part of a layer runs in a step, in units of its forward pass.

    `products` counts matrix products of weights, `weights` of them those for the weights' own gradients; `forward` is
    1, and more where the forward pass runs again.
    """

    forward: float
    products: float
    attention_again: float


def _passes(job: TrainingJob) -> _Passes:
    base = 3.0 if job.method is Method.FULL else 2.0
    match job.recompute:
        case Recompute.FULL:
            return _Passes(2.0, base + 1.0, 1.0)
        case Recompute.OPERATORS:
            return _Passes(1.6, base + 0.5, 0.0)
        case Recompute.ATTENTION:
            return _Passes(1.0, base, 1.0 if job.attention is AttentionImplementation.EAGER else 0.0)
        case Recompute.NONE:
            return _Passes(1.0, base, 0.0)


def _product(job: TrainingJob, gpu: TrainingGpu) -> tuple[ProductClass, float]:
    if job.compute is Compute.NVFP4 and gpu.gpu.peak(PeakKind.FP4):
        return ProductClass.FP4, gpu.fp4_flops_per_s
    if job.compute in (Compute.FP8, Compute.MXFP8, Compute.NVFP4) and gpu.gpu.peak(PeakKind.FP8):
        return ProductClass.FP8, gpu.fp8_flops_per_s
    return ProductClass.WIDE, _wide_rate(job, gpu)


def _wide_rate(job: TrainingJob, gpu: TrainingGpu) -> float:
    if job.compute is Compute.FP32:
        return gpu.gpu.peak(PeakKind.FP32) or gpu.tf32_flops_per_s
    return gpu.tf32_flops_per_s if job.compute is Compute.TF32 else gpu.half_flops_per_s


def _attention_class(job: TrainingJob, gpu: TrainingGpu) -> AttentionClass:
    match job.attention:
        case AttentionImplementation.EAGER:
            return AttentionClass.EAGER
        case AttentionImplementation.TUNED:
            return AttentionClass.TUNED
        case AttentionImplementation.FLASH1:
            return AttentionClass.FLASH1_ON_NEWER if gpu.attention_is_newer else AttentionClass.FLASH1
        case AttentionImplementation.FLASH if gpu.prefers_tuned_attention:
            return AttentionClass.TUNED
        case AttentionImplementation.FLASH:
            return AttentionClass.FLASH_ON_NEWER if gpu.attention_is_newer else AttentionClass.FLASH


_LOSS_BYTES = 14.0
"""Bytes that pass the memory per logit: written and read in 16 bits, in fp32 for the loss, and their gradient."""
_EAGER_KERNELS, _FUSED_KERNELS = 40.0, 16.0
"""Operators of one layer's forward pass without and with fused kernels, as traces of Llama layers count them."""
_ADAPTER_KERNELS, _DEQUANTISE_KERNELS, _MATRICES = 7.0, 4.0, 7
"""Operators of one adapter (dropout, conversions, two products, a scale, a sum), of expanding one matrix of a quantised
base, and the matrices of a layer."""


def _kernels_per_layer(job: TrainingJob) -> float:
    is_fused = job.compiled or job.framework.fuses_activation
    extra = _ADAPTER_KERNELS * len(job.adapter.targets) if job.is_adapted else 0.0
    if job.base in (BaseFormat.NF4, BaseFormat.NF4_DQ):
        extra += _DEQUANTISE_KERNELS * _MATRICES
    return (_FUSED_KERNELS if is_fused else _EAGER_KERNELS) + extra


@dataclass(frozen=True, slots=True)
class _LayerWork:
    """The work of layers in one micro-batch: FLOPs of products and attention, bytes of the rest."""

    dense: float = 0.0
    grouped: float = 0.0
    attention: float = 0.0
    attention_starts: float = 0.0
    stream: float = 0.0
    casts: float = 0.0
    dequantised: float = 0.0
    waves: float = 0.0

    def plus(self, other: "_LayerWork", count: int) -> "_LayerWork":
        """Return the sum with `count` times the other."""
        return _LayerWork(
            dense=self.dense + count * other.dense,
            grouped=self.grouped + count * other.grouped,
            attention=self.attention + count * other.attention,
            attention_starts=self.attention_starts + count * other.attention_starts,
            stream=self.stream + count * other.stream,
            casts=self.casts + count * other.casts,
            dequantised=self.dequantised + count * other.dequantised,
            waves=self.waves + count * other.waves,
        )


def _layer_work(layer: Layer, job: TrainingJob, passes: _Passes, *, units: int) -> _LayerWork:
    layout, hidden, tokens = job.layout, job.architecture.hidden_dim, job.micro_tokens
    dense = grouped = casts = quantised = waves = 0.0
    for tensor in layer_tensors(layer, hidden_dim=hidden):
        if not tensor.product:
            continue
        size = float(tensor.inputs * tensor.outputs)
        if is_expert(tensor):
            assert isinstance(layer.mlp, Experts)
            # Balanced experts: each GPU of a stage works on as many routed tokens as it sends.
            routed = tokens * layer.mlp.per_token / layout.tensor
            grouped += passes.products * 2.0 * routed * size
            casts += passes.products * _CAST_BYTES * routed * (tensor.inputs + tensor.outputs) / 2
            continue
        cut = layout.tensor if tensor.split is not Split.NONE and tensor.role is not WeightRole.ROUTER else 1
        dense += passes.products * 2.0 * tokens * size / cut
        casts += passes.products * _CAST_BYTES * tokens * (tensor.inputs + tensor.outputs) / 2 / cut
        quantised += size / cut
        waves += _wave_flops(
            rows=tokens,
            inputs=tensor.inputs / (cut if tensor.split is Split.INPUTS else 1),
            outputs=tensor.outputs / (1 if tensor.split is Split.INPUTS else cut),
            forwards=passes.products - (2.0 if job.method is Method.FULL else 1.0),
            trains=job.method is Method.FULL,
            units=units,
        )
    if job.is_adapted:
        for inputs, outputs, _ in adapted_matrices(layer, hidden, job.adapter):
            dense += (passes.forward + 2.0) * 2.0 * tokens * job.adapter.rank * (inputs + outputs) / layout.tensor
    is_quantised = job.is_adapted and job.base in (BaseFormat.NF4, BaseFormat.NF4_DQ, BaseFormat.INT8)
    attention, starts = _attention_flops(layer, job)
    backward = 2.5 if job.attention is not AttentionImplementation.EAGER else 2.0
    attended = 1.0 + backward + max(passes.attention_again, 0.0)
    return _LayerWork(
        dense=dense,
        waves=waves,
        grouped=grouped,
        attention=attention * attended,
        attention_starts=starts * attended,
        stream=_stream_bytes(layer, job) * (passes.forward + 2.0),
        casts=casts,
        dequantised=_DEQUANTISE_BYTES * quantised * (passes.forward + 1.0) if is_quantised else 0.0,
    )


def _wave_flops(*, rows: float, inputs: float, outputs: float, forwards: float, trains: bool, units: int) -> float:
    """Return the FLOPs of one wave of tiles of each product of a weight: forward, of its input's and its own gradient.

    A wave gives one tile of the output to every multiprocessor, and the last wave of a product leaves some idle. A
    product of less than a wave shares its inner dimension among the rest, so that it counts once.
    """
    wave = _TILE_ELEMENTS * units
    found = forwards * inputs * min(wave, rows * outputs) + outputs * min(wave, rows * inputs)
    return 2.0 * (found + (rows * min(wave, inputs * outputs) if trains else 0.0))


_TILE_ELEMENTS = 128.0 * 256.0
"""Elements of the output that a multiprocessor computes at a time, in the largest tile of common kernels (NVIDIA,
"Matrix Multiplication Background User's Guide", section 3.1)."""
_CAST_BYTES = 4.0
"""Bytes that pass the memory to convert an element of a product's input: read in 16 bits, written in 8, transposed."""
_DEQUANTISE_BYTES = 4.5
"""Bytes that pass the memory to expand a 4-bit weight: half a byte read, two written, two read by the product."""


def _attention_flops(layer: Layer, job: TrainingJob) -> tuple[float, float]:
    """Return the forward FLOPs of one layer's attention on one GPU, and those with one key a query.

    They are causal where kernels skip what is masked. The latter are 0 where no kernel starts anew for each query.
    """
    mixer, layout = layer.mixer, job.layout
    queries, keys = job.micro_tokens, job.sequence_tokens
    is_eager = job.attention is AttentionImplementation.EAGER
    match mixer:
        case Attention():
            visible, width = mixer.mean_keys(keys), mixer.key_dim + mixer.value_dim
        case LatentAttention():
            visible, width = keys / 2, mixer.nope_dim + mixer.rope_dim + mixer.value_dim
        case CompressedAttention():
            visible, width = mixer.mean_keys(keys), 2 * mixer.head_dim
        case GatedDeltaNet():
            inner = mixer.value_heads * mixer.value_dim
            return 2.0 * queries * inner * (mixer.key_dim * 2 + 128) / layout.tensor, 0.0
        case Mamba2():
            return 2.0 * queries * mixer.inner_dim * (mixer.state_dim * 2 + 128) / layout.tensor, 0.0
        case ShortConv():
            return 2.0 * queries * mixer.conv_channels * mixer.conv_kernel / layout.tensor, 0.0
        case None:
            return 0.0, 0.0
    of_one_key = 2.0 * queries * mixer.query_heads * width / layout.tensor
    return (of_one_key * keys, 0.0) if is_eager else (of_one_key * visible, of_one_key)


def _stream_bytes(layer: Layer, job: TrainingJob) -> float:
    """Return the bytes of norms, residual sums, rotations, activations and permutations in one forward pass."""
    layout, hidden, tokens = job.layout, job.architecture.hidden_dim, job.micro_tokens
    outside = layout.tensor if layout.sequence_parallel else 1
    parts = (layer.mixer is not None) + (layer.mlp is not None)
    elements = 5.0 * parts * hidden / outside  # a norm reads and writes, a residual sum reads two and writes one
    match layer.mixer:
        case Attention():
            rotated = (mixer := layer.mixer).query_heads * mixer.key_dim + mixer.kv_heads * mixer.key_dim
            elements += 2.0 * rotated / layout.tensor
            if job.attention is AttentionImplementation.EAGER:
                elements += 4.0 * mixer.query_heads * job.sequence_tokens / layout.tensor
        case LatentAttention():
            elements += 4.0 * layer.mixer.query_heads * (layer.mixer.nope_dim + layer.mixer.rope_dim) / layout.tensor
        case CompressedAttention():
            elements += 4.0 * layer.mixer.query_heads * layer.mixer.head_dim / layout.tensor
        case GatedDeltaNet() | Mamba2() | ShortConv():
            elements += 8.0 * layer.mixer.conv_channels / layout.tensor
        case None:
            pass
    mlp = layer.mlp
    if isinstance(mlp, Experts):
        routed = mlp.per_token * ((3.0 if mlp.gated else 2.0) * mlp.width + 4.0 * (mlp.latent_dim or hidden))
        elements += (routed + 3.0 * mlp.shared_width) / layout.tensor
    dense = mlp.dense if isinstance(mlp, Experts) else mlp
    if dense is not None:
        elements += (3.0 if dense.gated else 2.0) * dense.width / layout.tensor
    return _HALF * tokens * elements


def _link(group: int, job: TrainingJob, gpu: TrainingGpu) -> tuple[CollectiveLink, float]:
    """Return the link that a group of neighbouring GPUs passes, and its rate in one direction. [bytes/s]"""
    if group <= 1:
        return CollectiveLink.FAST, gpu.fast_bytes_per_s or gpu.host_bytes_per_s
    if gpu.fast_bytes_per_s and group <= gpu.fast_gpus:
        return CollectiveLink.FAST, gpu.fast_bytes_per_s
    if group <= job.layout.gpus_per_node:
        return CollectiveLink.HOST, gpu.host_bytes_per_s
    return CollectiveLink.NETWORK, gpu.network_bytes_per_s


def _collectives(job: TrainingJob, gpu: TrainingGpu, held: StageParameters, *, layers: float) -> dict[str, Any]:
    """Return the fields of `TrainingStepWork` for collectives: the time of each, and the link that it passes."""
    layout, hidden, tokens = job.layout, job.architecture.hidden_dim, job.micro_tokens
    forward = _passes(job).forward
    tensor_link, rate = _link(layout.tensor, job, gpu)
    tensor_s = 0.0
    if layout.tensor > 1:
        once = 2.0 * (layout.tensor - 1) / layout.tensor * _HALF * tokens * hidden  # an all-reduce, or its two halves
        tensor_s = 2.0 * layers * once * (forward + 1.0) / rate
    expert_s, expert_link = 0.0, CollectiveLink.FAST
    if layout.expert > 1:
        expert_link, rate = _link(layout.expert * layout.expert_tensor, job, gpu)
        routed = sum(
            layer.mlp.per_token * count
            for layer, count in job.architecture.layer_kinds
            if isinstance(layer.mlp, Experts)
        )
        group = layout.expert * layout.expert_tensor
        elsewhere = (layout.expert - 1) / layout.expert
        if expert_link is CollectiveLink.NETWORK:
            elsewhere = 1.0 - max(layout.gpus_per_node, gpu.fast_gpus) / group  # the rest stays within the server
        sent = tokens / layout.tensor * hidden * _HALF * elsewhere
        expert_s = 2.0 * routed * layers / len(job.architecture.layers) * sent * (forward + 1.0) / rate
    context_s, context_link = 0.0, CollectiveLink.FAST
    if layout.context > 1:
        context_link, rate = _link(layout.tensor * layout.context, job, gpu)
        widths = sum(_exchanged_width(layer, layout.tensor) * count for layer, count in job.architecture.layer_kinds)
        width = widths * layers / len(job.architecture.layers)
        context_s = _HALF * width * tokens * (layout.context - 1) * (forward + 2.0) / rate
    pipeline_s, pipeline_link = 0.0, CollectiveLink.FAST
    if layout.pipeline > 1:
        pipeline_link, rate = _link(layout.gpus, job, gpu)
        cut = layout.tensor
        pipeline_s = 2.0 * layout.virtual * _HALF * tokens * hidden / cut / rate
    (shard_s, shard_link), (gradient_s, gradient_link) = _state_traffic(job, gpu, held)
    return {
        "tensor_s": tensor_s, "tensor_link": tensor_link, "expert_s": expert_s, "expert_link": expert_link,
        "context_s": context_s, "context_link": context_link, "pipeline_s": pipeline_s, "pipeline_link": pipeline_link,
        "shard_s": shard_s, "shard_link": shard_link, "gradient_s": gradient_s, "gradient_link": gradient_link,
    }  # fmt: skip


def _exchanged_width(layer: Layer, tensor: int) -> float:
    """Return the elements of a token's keys and values that one GPU passes on where a sequence is shared.

    Latent attention passes those of all its heads, which are rebuilt before (Megatron-Core's multi-latent attention).
    A GPU has at least one head of grouped queries.
    """
    match layer.mixer:
        case Attention() as mixer:
            return max(1.0, mixer.kv_heads / tensor) * (mixer.key_dim + mixer.value_dim)
        case LatentAttention() as mixer:
            return mixer.query_heads / tensor * (mixer.nope_dim + mixer.rope_dim + mixer.value_dim)
        case _:
            return 0.0


def _state_link(ranks: int, job: TrainingJob, gpu: TrainingGpu) -> tuple[CollectiveLink, float]:
    """Return the link of a collective over data-parallel ranks, and the rate at which one rank's tensor passes it.

    The ranks of one server that belong to a collective share its bytes among all of their network ports, as NCCL's
    rings and trees do, so that eight ranks receive a tensor eight times as fast as one.
    """
    layout = job.layout
    spanned = ranks * layout.tensor  # neighbours share matrices, so that ranks lie as far apart as these are many
    if gpu.fast_bytes_per_s and spanned <= gpu.fast_gpus:
        return CollectiveLink.FAST, gpu.fast_bytes_per_s
    if spanned <= layout.gpus_per_node:
        return CollectiveLink.HOST, gpu.host_bytes_per_s
    together = max(1, max(layout.gpus_per_node, gpu.fast_gpus) // layout.tensor)
    inside = gpu.fast_bytes_per_s or gpu.host_bytes_per_s
    return CollectiveLink.NETWORK, min(inside, gpu.network_bytes_per_s * together)


def _state_traffic(
    job: TrainingJob, gpu: TrainingGpu, held: StageParameters
) -> tuple[tuple[float, CollectiveLink], tuple[float, CollectiveLink]]:
    """Return the time to gather sharded parameters in a step, and to reduce gradients in a step."""
    layout = job.layout
    ranks = layout.data * layout.context
    if ranks <= 1:
        return (0.0, CollectiveLink.FAST), (0.0, CollectiveLink.FAST)
    common = held.total - (held.experts if layout.expert_ranks == 1 else 0.0)
    trained = held.adapters if job.is_adapted else common
    link, rate = _state_link(ranks, job, gpu)
    if layout.shard is Shard.ZERO3:
        group = layout.state_ranks
        shard_link, shard_rate = _state_link(group, job, gpu)
        # Parameters are gathered for the forward and for the backward pass, gradients scattered after each of them.
        stays = stays_gathered(job)
        size = (1.0 if stays or layout.keep_gathered else 2.0) * _HALF * common
        if not job.is_adapted:
            size += _HALF * _REDUCED_IN_FP32 * trained
        reduced = 2.0 * _HALF * trained / group / rate if group < ranks else 0.0
        times = 1 if stays else job.accumulation
        return (times * (group - 1) / group * size / shard_rate, shard_link), (reduced, link)
    gradient_bytes = _HALF if job.framework.gradient_bytes <= _HALF else 4.0
    gathered_bytes = _HALF if layout.shard is not Shard.NONE else gradient_bytes
    moved = (ranks - 1) / ranks * (gradient_bytes + gathered_bytes) * trained  # a scatter of sums, and a gather
    return (0.0, CollectiveLink.FAST), (moved / rate, link)


_REDUCED_IN_FP32 = 1.5
"""Bytes of a scattered gradient over 16 bits: some jobs reduce in fp32, others in 16 bits."""


def _updated(job: TrainingJob, held: StageParameters) -> float:
    if job.is_adapted:
        return held.adapters
    layout = job.layout
    ranks, experts = (1, 1) if layout.shard is Shard.NONE else (layout.state_ranks, layout.expert_ranks)
    return (held.total - held.experts) / ranks + held.experts / experts


def _host_bytes(job: TrainingJob, held: StageParameters) -> float:
    """Return the bytes that pass the host's bus in a step on one GPU for what is offloaded."""
    ranks = job.layout.state_ranks if job.layout.shard is not Shard.NONE else 1
    size = 0.0
    if Offloaded.OPTIMIZER in job.offloaded:
        size += 2 * _HALF * _updated(job, held)
    if Offloaded.PARAMETERS in job.offloaded:
        size += 2 * (job.base.bytes_per_parameter if job.is_adapted else _HALF) * held.total / ranks * job.accumulation
    if Offloaded.ACTIVATIONS in job.offloaded:
        layers = len(job.architecture.layers) / job.layout.pipeline
        size += 2 * _HALF * job.micro_tokens * job.architecture.hidden_dim * layers * job.accumulation
    return size
