"""Time of the collectives of tensor, expert and pipeline parallelism."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from capplan.core.numbers import FloatArray
from capplan.llm.core.timing.constants import Constants
from capplan.llm.core.timing.machine import Machine
from capplan.llm.core.timing.work import IntArray, Kernels, Load

ACTIVATION_BYTES = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Collectives:
    """The collectives of steps, one entry a step.

    `calls` times one waits for the latency of `doublings` doublings beyond two GPUs, on a tensor of `call_bytes`;
    `link_s` is the time of all bytes that cross a link at its printed two-way figure. `hops` pass activations to the
    next pipeline stage. `link` is 0 for switched links and 1 for links through the host.
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
    gathers the tokens of all ranks and scatters the sums back, which moves as much as one all-reduce of them.

    Args:
        kernels: The kernels of one stage on one GPU.
        load: What the steps process.
        machine: The GPU and its links.
    """
    size_bytes = load.tokens * kernels.hidden * ACTIVATION_BYTES
    tensor, ranks = kernels.tensor_parallel, kernels.data_parallel
    reduces = 2.0 * kernels.layers if tensor > 1 else 0.0
    moved = reduces * all_reduce_bytes(size_bytes=size_bytes, gpus=tensor)
    moved += kernels.exchanged_layers * all_reduce_bytes(size_bytes=size_bytes * ranks, gpus=ranks * tensor)
    hops = 1.0 if kernels.pipeline_parallel > 1 else 0.0
    calls = reduces + 2.0 * kernels.exchanged_layers
    one = np.ones_like(size_bytes)
    return Collectives(
        calls=calls * one,
        call_bytes=(reduces + 2.0 * kernels.exchanged_layers * ranks) / max(calls, 1.0) * size_bytes,
        doublings=np.log2(max(2, tensor * (ranks if kernels.exchanged_layers else 1))) * one - 1.0,
        link_s=(moved + hops * size_bytes) / machine.link_bytes_per_s,
        hops=hops * one,
        link=np.full(one.shape, 0 if machine.switched else 1),
    )


def collectives_s(work: Collectives, constants: Constants) -> FloatArray:
    """Compute the time of collectives, one entry a step. [s]

    An all-reduce over two GPUs waits for the link's latency, and for a share of it more with each doubling; its bytes
    move at a share of the link's two-way figure. Large tensors are reduced in stages, which wait for one another.
    """
    link = work.link
    latency_s = constants.link("latency_s")[link] * (1.0 + constants.link("latency_growth")[link] * work.doublings)
    staged = work.call_bytes / (work.call_bytes + constants.link("staged_bytes")[link])
    staged_s = constants.link("staged_s")[link] * staged
    share = constants.link("bus_fraction")[link] * constants.link("bus_decline")[link] ** work.doublings
    return np.asarray((work.calls + work.hops) * latency_s + work.calls * staged_s + work.link_s / share)
