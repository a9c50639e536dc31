"""Which servers hold the replicas of a deployment, how many of them, and what they cost."""

from collections.abc import Iterable, Sequence
from math import ceil

from capplan.core.gpus.machines import GpuServer
from capplan.core.gpus.prices import Price
from capplan.llm.core.sharding import Sharding


def servers_of_replica(server: GpuServer, sharding: Sharding) -> int | None:
    """Return over how many servers one replica is spread; None where they cannot hold it.

    A replica that is larger than a server needs a known network between servers. The GPUs of a stage (tensor and data
    parallelism) exchange data in every layer: they fill whole servers or share one.
    """
    group = sharding.tensor * sharding.data
    if sharding.gpus <= server.gpus:
        return 1
    if server.network_bytes_per_s is None:
        return None
    if group <= server.gpus:
        return ceil(sharding.pipeline / (server.gpus // group))
    return None if group % server.gpus else sharding.pipeline * (group // server.gpus)


def server_for(servers: Iterable[GpuServer], sharding: Sharding, *, usual: GpuServer) -> GpuServer:
    """Return the server in which a replica is timed: the fastest of those that can hold it, else the usual one.

    One server for the whole replica stands before several, fast links before a host's, a faster network before others.
    """
    group = sharding.tensor * sharding.data
    able = [server for server in servers if servers_of_replica(server, sharding) is not None]
    return max(
        able,
        key=lambda server: (
            server.gpus >= sharding.gpus, server.joined >= group, server.network_bytes_per_s or 0.0, server.joined,
            server.gpus,
        ),
        default=usual,
    )  # fmt: skip


def machines_for(server: GpuServer, sharding: Sharding, replicas: int, *, timed: GpuServer) -> int | None:
    """Return how many servers hold replicas that were timed in another server; None where they cannot or are slower."""
    spread = servers_of_replica(server, sharding)
    if spread is None or not _is_as_fast(server, sharding, timed=timed):
        return None
    return replicas * spread if spread > 1 else ceil(replicas / (server.gpus // sharding.gpus))


def _is_as_fast(server: GpuServer, sharding: Sharding, *, timed: GpuServer) -> bool:
    """Return True if the GPUs of a replica exchange data as fast as its times assume."""
    group = sharding.tensor * sharding.data
    if 1 < group <= timed.joined and group > server.joined:
        return False
    if sharding.gpus <= server.gpus:
        return True
    if sharding.gpus <= timed.gpus:
        return False
    if group > server.gpus and (server.gpus < timed.gpus or server.joined < timed.joined):
        return False  # more of a stage's traffic would cross the network than is timed
    return (server.network_bytes_per_s or 0.0) >= (timed.network_bytes_per_s or 0.0)


def best_offer(offers: Sequence[Price], sharding: Sharding, replicas: int, *, timed: GpuServer) -> Price | None:
    held = [
        (machines * offer.usd_per_machine_hour, offer.machine_words, offer)
        for offer in offers
        if (machines := machines_for(offer.server, sharding, replicas, timed=timed)) is not None
    ]
    return min(held, key=lambda priced: priced[:2])[2] if held else None
