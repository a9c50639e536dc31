"""Training steps on several GPUs of one machine: each takes a batch of its own, and gradients are summed over all."""

from dataclasses import replace
from enum import StrEnum

import numpy as np

from capplan.core.assumed import GATHERED_HALF_WIDTH, UNKNOWN_PCIE_BYTES_PER_S
from capplan.core.gpus.machines import joined_gpus
from capplan.core.gpus.rate_laws import DataParallelLaws, is_consumer
from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.types import LatencyEstimate
from capplan.core.numbers import Interval
from capplan.core.trace.types import Recording, Role
from capplan.core.workload import ModelSharding


def gradient_bytes(recording: Recording) -> int:
    """Return the size of a model's gradients, which have their parameters' types: fp32 under autocast, too. [bytes]"""
    return sum(int(storage.size_bytes.at(1)) for storage in recording.storages if storage.role is Role.PARAMETER)


def exchanged_bytes(recording: Recording, sharding: ModelSharding) -> float:
    """Return the gradients whose sum over all GPUs moves as many bytes as a step with a sharding does. [bytes]

    A sum moves each gradient twice: scattered, and gathered again. ZeRO-1 gathers updated weights instead, ZeRO-2 also
    scatters the gradients of every micro-batch, and ZeRO-3 and FSDP gather the weights before each forward and each
    backward pass and scatter the gradients after it (Rajbhandari et al. 2020, section 7; PyTorch's fully_shard).
    """
    training = recording.configuration.training
    micro_batches = training.accumulate if training else 1
    size = gradient_bytes(recording)
    if sharding in (ModelSharding.ZERO3, ModelSharding.FSDP):
        return size * micro_batches * 3 / 2
    return size * (micro_batches + 1) / 2 if sharding is ModelSharding.ZERO2 else float(size)


_SWITCHED_SINCE = (8, 0)
"""The first compute capability whose modules were sold on boards with NVLink switches alone: the A100's HGX."""


class Link(StrEnum):
    """What joins the GPUs of a machine: NVLink or the like, through switches or from GPU to GPU, or PCIe.

    Fast links of more than two GPUs count (`joined_gpus`): boards of modules, racks, TPUs of a host. Modules older than
    the A100 are joined in a mesh (the hybrid cube of HGX-1): a pair shares one or two of the six links of a V100, or
    none. Cards for players have no peer access over PCIe, so that every gradient passes the host's memory. Bridges
    between pairs of cards count as PCIe: most machines of such cards have none.
    """

    SWITCHED = "switched"
    MESH = "mesh"
    HOST = "host"
    CONSUMER = "consumer"


def link_of(gpu: GpuSpec | None) -> Link:
    """Return what joins several of a GPU in one machine; one that is not known counts as a server's card on PCIe."""
    if gpu is None:
        return Link.HOST
    if joined_gpus(gpu) > 2:
        return Link.MESH if (gpu.compute_capability or _SWITCHED_SINCE) < _SWITCHED_SINCE else Link.SWITCHED
    return Link.CONSUMER if is_consumer(gpu) else Link.HOST


def link_bytes_per_s(gpu: GpuSpec | None) -> float:
    """Return what a GPU's link to the others of its machine is printed to move in one direction. [bytes/s]"""
    if gpu is None:
        return UNKNOWN_PCIE_BYTES_PER_S
    if joined_gpus(gpu) > 2 and gpu.nvlink_bytes_per_s:
        return gpu.nvlink_bytes_per_s / 2
    return gpu.pcie_bytes_per_s or UNKNOWN_PCIE_BYTES_PER_S


def all_reduce_s(*, size_bytes: float, gpu: GpuSpec | None, gpu_count: int, laws: DataParallelLaws) -> float:
    """Return what a ring all-reduce adds to a step: 2·(n − 1)/n times the gradients over the link's share. [s]

    Most of it runs beside the backward pass. The fitted share of the link is that of what a step waits for, so that it
    holds the overlap, too. Where every gradient passes the host's memory, all GPUs share the way there, so that what
    one of them moves waits for what the n move.
    """
    link = link_of(gpu)
    moved_bytes = 2 * (gpu_count - 1) / gpu_count * size_bytes * (gpu_count if link is Link.CONSUMER else 1)
    return moved_bytes / (laws.link_share[link.value] * link_bytes_per_s(gpu))


def on_several_gpus(
    estimate: LatencyEstimate,
    *,
    size_bytes: float,
    gpu: GpuSpec,
    gpu_count: int,
    laws: DataParallelLaws,
    sharding: ModelSharding = ModelSharding.DDP,
) -> LatencyEstimate:
    """Return the estimate of a training step that several GPUs of one machine take together."""
    if gpu_count == 1:
        return estimate
    added_s = all_reduce_s(size_bytes=size_bytes, gpu=gpu, gpu_count=gpu_count, laws=laws)
    alone = estimate.latency_s
    expected_s = alone.expected * (1 + laws.step_share) + added_s
    link_width = laws.link_half_width
    if sharding is not ModelSharding.DDP:
        link_width = float(np.hypot(link_width, GATHERED_HALF_WIDTH))
    more = np.hypot(laws.half_width, link_width * added_s / expected_s)
    below = np.hypot(np.log(alone.expected / alone.low), more)
    above = np.hypot(np.log(alone.high / alone.expected), more)
    fewer_s = all_reduce_s(size_bytes=size_bytes, gpu=gpu, gpu_count=gpu_count - 1, laws=laws)
    one_less_s = alone.expected if gpu_count == 2 else alone.expected * (1 + laws.step_share) + fewer_s
    gained = alone.expected * (gpu_count / expected_s - (gpu_count - 1) / one_less_s)
    link = {Link.SWITCHED: "switched links", Link.MESH: "NVLink without switches"}.get(link_of(gpu), "PCIe")
    return replace(
        estimate,
        latency_s=Interval(
            low=expected_s / float(np.exp(below)), expected=expected_s, high=expected_s * float(np.exp(above))
        ),
        gpu_count=gpu_count,
        notes=(
            *estimate.notes,
            f"{_EXCHANGES[sharding]} over {gpu_count} GPUs through {link}; the last GPU adds {gained:.0%} of one alone",
        ),
    )


_EXCHANGES = {
    ModelSharding.DDP: "gradients are summed",
    ModelSharding.ZERO1: "gradients are scattered and weights gathered once a step",
    ModelSharding.ZERO2: "gradients are scattered after each micro-batch and weights gathered once a step",
    ModelSharding.ZERO3: "weights are gathered twice and gradients scattered in each micro-batch",
    ModelSharding.FSDP: "weights are gathered twice and gradients scattered in each micro-batch",
}
"""What GPUs exchange in a step, in words."""
