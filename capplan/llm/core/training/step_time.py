"""Turn the work of a training step into time, with the efficiencies that kernels and collectives reach."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

from capplan.core.assumed import HIDING_SHARE
from capplan.llm.core.training.frameworks import Family
from capplan.llm.core.training.work import AttentionClass, CollectiveLink, ProductClass, TrainingStepWork


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeConstants:
    """Fitted constants of step times.

    Shares are of the rate that a GPU sustains: `products` of matrix products by class, `grouped` of those over
    experts relative to dense ones, `attention` of attention by kernel over endless sequences, `stream_fused` and
    `stream_eager` of copies. Attention takes longer by `attention_start_s` for each FLOP of a query with one key, so
    that its rate rises with the sequence. `misaligned` multiplies products whose width is not a multiple of 64. Every
    product takes as long as with `partial_waves` more waves of tiles than it has, because the last one leaves
    multiprocessors idle, and an expert's with `filling_rows` more rows. `links` are shares of a link's printed rate.
    Exposed shares are what collectives do not hide behind products. `kernel_s` is the host's time to issue an
    operator, `doubling` the loss of a step with each doubling of servers. `families` scale whole steps.
    """

    products: Mapping[ProductClass, float]
    grouped: float
    attention: Mapping[AttentionClass, float]
    attention_start_s: float
    stream_fused: float
    stream_eager: float
    misaligned: float
    partial_waves: float
    filling_rows: float
    links: Mapping[CollectiveLink, float]
    exposed_tensor: float
    exposed_pipeline: float
    exposed_expert: float
    exposed_context: float
    exposed_shard: float
    exposed_gradient: float
    kernel_s: float
    doubling: float
    families: Mapping[Family, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingStepTime:
    """The time of one optimizer step by part; the total is their sum. [s]"""

    products_s: float
    experts_s: float
    attention_s: float
    pointwise_s: float
    loss_s: float
    host_waits_s: float
    tensor_s: float
    expert_traffic_s: float
    context_s: float
    pipeline_s: float
    bubble_s: float
    shard_s: float
    gradients_s: float
    optimizer_s: float
    offload_s: float
    jitter_s: float
    frozen_s: float = 0.0
    rollout_s: float = 0.0

    @property
    def total_s(self) -> float:
        return math.fsum(getattr(self, item.name) for item in fields(self))

    @property
    def parts(self) -> list[tuple[str, float]]:
        """Return the parts in words, which sum to the time of a step. [s]"""
        return [(words, getattr(self, name)) for name, words, _ in _WORDS]

    @property
    def largest(self) -> str:
        """Return what limits the step beside matrix products, in words."""
        sums: dict[str, float] = {}
        for name, _, limit in _WORDS:
            if limit:
                sums[limit] = sums.get(limit, 0.0) + getattr(self, name)
        return max(sums, key=lambda limit: sums[limit])


_WORDS = (
    ("products_s", "matrix products", ""),
    ("experts_s", "experts' matrix products", ""),
    ("attention_s", "attention", "attention"),
    ("pointwise_s", "norms, activations, conversions", "memory bandwidth"),
    ("loss_s", "loss", "memory bandwidth"),
    ("host_waits_s", "waiting for the host's launches", "the host's launches"),
    ("tensor_s", "tensor-parallel traffic", "tensor-parallel traffic"),
    ("expert_traffic_s", "expert traffic", "expert traffic"),
    ("context_s", "context-parallel traffic", "context-parallel traffic"),
    ("pipeline_s", "pipeline traffic", "pipeline traffic"),
    ("bubble_s", "pipeline bubble", "pipeline bubble"),
    ("shard_s", "gathering sharded parameters", "sharded parameters' traffic"),
    ("gradients_s", "reducing gradients", "gradients' traffic"),
    ("optimizer_s", "optimizer", "the optimizer"),
    ("offload_s", "offloading", "offloading"),
    ("jitter_s", "slower servers", ""),
    ("frozen_s", "passes without gradients", "passes without gradients"),
    ("rollout_s", "generating samples", "generating samples"),
)
"""Each part with its words, and with what limits a step where it is largest; empty for what does not."""


def step_time(work: TrainingStepWork, constants: TimeConstants, family: Family) -> TrainingStepTime:
    times, links = work.accumulation / constants.families[family], constants.links
    product = constants.products[work.product] / (constants.misaligned if work.is_misaligned else 1.0)
    wide = constants.products[ProductClass.WIDE]
    products = (work.dense_s + constants.partial_waves * work.wave_s) / product + work.head_s / wide
    experts = work.grouped_s / (product * constants.grouped) * (1 + constants.filling_rows / work.expert_rows)
    started_s = work.attention_s + constants.attention_start_s * work.attention_starts
    attention = started_s / constants.attention[work.attention]
    stream = constants.stream_fused if work.fuses else constants.stream_eager
    pointwise = (work.stream_s + work.casts_s) / stream + work.dequantise_s / constants.stream_fused
    loss = work.loss_s / constants.stream_eager
    device = products + experts + attention + pointwise + loss
    issued = work.kernels * constants.kernel_s
    # The host runs ahead of the device; it is felt where a layer's kernels end sooner than they are issued.
    waits = (device**_SHARPNESS + issued**_SHARPNESS) ** (1 / _SHARPNESS) - device
    tensor = (constants.exposed_tensor if work.overlaps_tensor else 1.0) * work.tensor_s / links[work.tensor_link]
    expert = constants.exposed_expert * work.expert_s / links[work.expert_link]
    context = _exposed(work.context_s / links[work.context_link], device, constants.exposed_context)
    pipeline = constants.exposed_pipeline * work.pipeline_s / links[work.pipeline_link]
    busy = device + waits + tensor + expert + context
    compute = times * (busy + pipeline)
    shard = _exposed(work.shard_s / links[work.shard_link], times * device, constants.exposed_shard)
    gradients = _exposed(work.gradient_s / links[work.gradient_link], times * device, constants.exposed_gradient)
    optimizer = work.optimizer_s / constants.stream_fused
    bubble = compute * work.bubble_fraction
    jitter = constants.doubling * math.log2(max(1, work.servers)) * (compute + bubble)
    return TrainingStepTime(
        products_s=times * products,
        experts_s=times * experts,
        attention_s=times * attention,
        pointwise_s=times * pointwise,
        loss_s=times * loss,
        host_waits_s=times * waits,
        tensor_s=times * tensor,
        expert_traffic_s=times * expert,
        context_s=times * context,
        pipeline_s=times * pipeline,
        bubble_s=bubble,
        shard_s=shard,
        gradients_s=gradients,
        optimizer_s=optimizer,
        offload_s=work.host_s / links[CollectiveLink.HOST],
        jitter_s=jitter,
    )


_SHARPNESS = 4.0
"""How suddenly the host takes over from the device: the exponent that joins both."""


def _exposed(traffic_s: float, compute_s: float, share: float) -> float:
    """Return what is felt of traffic that runs beside products: a share of it, and what outlasts them."""
    return share * traffic_s + max(0.0, (1.0 - share) * traffic_s - HIDING_SHARE * compute_s)
