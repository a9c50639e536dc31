"""Time of the collectives of tensor, expert and pipeline parallelism."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from capplan.core.numbers import FloatArray
from capplan.llm.core.timing.calibration import LinkConstants
from capplan.llm.core.timing.constants import Constants
from capplan.llm.core.timing.machine import Machine
from capplan.llm.core.timing.work import IntArray, Kernels, Load

ACTIVATION_BYTES = 2.0
NETWORK = LinkConstants(
    latency_s=64e-6, latency_growth=0.5, bus_fraction=0.45, bus_decline=1.0, staged_s=1e-12, staged_bytes=1e6
)
"""Collectives between servers over InfiniBand or RoCE.

The latency is the median of what 17 of 30 published decode rows of one deployment ask for, DeepSeek-R1 with SGLang on
16 H100 in two servers: 30 to 91 us (`benchmarks/llm_disaggregated.py`). The other 13 are faster than a step in which
the network takes no time, and are taken for speculative decoding, which the source does not exclude. Leaving them out
pushes the latency up: the median of all 30 is 45 us. The rest is assumed, because nothing that was timed tells it: each
doubling of the servers waits for half of that again, and large tensors move at nine tenths of the ports' rate in one
direction, as results of nccl-tests on DGX H100 are commonly quoted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collectives:
    """The collectives of steps [step, level]: level 0 lies within a server, level 1 between servers.

    `calls` times one waits for the latency of `doublings` doublings beyond two, on a tensor of `call_bytes`; `link_s`
    is the time of all bytes that cross a link at its two-way figure. `hops` pass activations to the next pipeline
    stage. `link` is 0 for switched links, 1 for links through the host and 2 for the network.
    """

    calls: FloatArray
    call_bytes: FloatArray
    doublings: FloatArray
    link_s: FloatArray
    hops: FloatArray
    link: IntArray

    @classmethod
    def stack(cls, parts: Sequence["Collectives"]) -> "Collectives":
        """Put the steps of several deployments below each other."""
        return cls(**{item.name: np.concatenate([getattr(part, item.name) for part in parts]) for item in fields(cls)})


def all_reduce_bytes(*, size_bytes: FloatArray, gpus: int) -> FloatArray:
    """Compute what an all-reduce moves over each GPU's link: 2·(n − 1)/n times the tensor. [bytes]"""
    return np.asarray(2.0 * (gpus - 1) / gpus * size_bytes)


def collectives(kernels: Kernels, load: Load, *, machine: Machine) -> Collectives:
    """Count the collectives of one pipeline stage.

    Two all-reduces per layer over the tensor-parallel GPUs. With attention data parallelism, every expert layer
    gathers the tokens of all ranks and scatters the sums back, which moves as much as one all-reduce of them. Beyond a
    server both have two levels, as NCCL reduces: the GPUs of a server reduce the whole tensor among themselves, and
    each of them reduces its share with those of the other servers. Tokens leave the server for those servers alone that
    hold one of their experts, where that is less.

    Args:
        kernels: The kernels of one stage on one GPU.
        load: What the steps process.
        machine: The GPU and its links.
    """
    size_bytes = load.tokens * kernels.hidden * ACTIVATION_BYTES
    tensor, ranks, server = kernels.tensor_parallel, kernels.data_parallel, machine.server_gpus
    layers, exchanged = 2.0 * kernels.layers if tensor > 1 else 0.0, kernels.exchanged_layers
    group = tensor * ranks if exchanged else tensor
    inner, outer = min(tensor, server), -(-tensor // server)
    inner_ranks, outer_ranks = min(tensor * ranks, server), -(-tensor * ranks // server)
    gathered = all_reduce_bytes(size_bytes=size_bytes * ranks / inner_ranks, gpus=outer_ranks)
    per_token = max((experts.per_token for experts in kernels.experts), default=0.0)
    sent = (outer_ranks - 1) * (1.0 - (1.0 - 1.0 / outer_ranks) ** per_token)
    across = np.minimum(gathered, 2.0 * size_bytes / tensor * sent)
    moved = (
        layers * all_reduce_bytes(size_bytes=size_bytes, gpus=inner)
        + exchanged * all_reduce_bytes(size_bytes=size_bytes * ranks, gpus=inner_ranks),
        layers * all_reduce_bytes(size_bytes=size_bytes / inner, gpus=outer) + exchanged * across,
    )
    calls = (
        layers * (inner > 1) + 2.0 * exchanged * (inner_ranks > 1),
        layers * (outer > 1) + 2.0 * exchanged * (outer_ranks > 1),
    )
    called = (layers + 2.0 * exchanged * ranks) / max(layers + 2.0 * exchanged, 1.0) * size_bytes
    leaves = group * kernels.pipeline_parallel > max(server, group)
    hops = 1.0 if kernels.pipeline_parallel > 1 else 0.0
    hop = (0.0 if leaves else hops, hops if leaves else 0.0)
    links = (machine.link_bytes_per_s, machine.network_bytes_per_s)
    widths = (min(group, server), -(-group // server))
    rows = np.ones_like(size_bytes)[..., None]
    return Collectives(
        calls=rows * np.array(calls),
        call_bytes=np.stack([called, called / inner], axis=-1),
        doublings=rows * (np.log2(np.maximum(2, widths)) - 1.0),
        link_s=np.stack([(moved[level] + hop[level] * size_bytes) / links[level] for level in (0, 1)], axis=-1),
        hops=rows * np.array(hop),
        link=np.broadcast_to(np.array([0 if machine.switched else 1, 2]), (*size_bytes.shape, 2)),
    )


def collectives_s(work: Collectives, constants: Constants) -> FloatArray:
    """Compute the time of collectives, one entry a step. [s]

    An all-reduce over two GPUs waits for the link's latency, and for a share of it more with each doubling; its bytes
    move at a share of the link's two-way figure. Large tensors are reduced in stages, which wait for one another. The
    levels follow one another.
    """

    def constant(name: str) -> FloatArray:
        return np.append(constants.link(name), getattr(NETWORK, name))[work.link]

    latency_s = constant("latency_s") * (1.0 + constant("latency_growth") * work.doublings)
    staged_s = constant("staged_s") * work.call_bytes / (work.call_bytes + constant("staged_bytes"))
    share = constant("bus_fraction") * constant("bus_decline") ** work.doublings
    times_s = (work.calls + work.hops) * latency_s + work.calls * staged_s + work.link_s / share
    return np.asarray(times_s.sum(axis=-1))
