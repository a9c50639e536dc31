"""Put prefill and decode on replicas of their own: their ratio, the transfer of the cache, and what requests see.

A prefill replica processes one prompt after another, which is the queue M/D/1. The cache of a prompt then crosses the
network to a decode replica, whose steps hold no prompt tokens.
"""

from dataclasses import dataclass
from math import ceil

import numpy as np

from capplan.llm.core.fleet.limits import SATURATION, broken_limit
from capplan.llm.core.fleet.rented import RentedGpu
from capplan.llm.core.fleet.token_load import TokenLoad
from capplan.llm.core.serving.service import Service, decode_step_s, lone_ttft_s, most_running
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.simulation.load_answer import LatencyLimits

HANDOVER_S = 0.15
"""What a first token takes beside its prefill, the moved cache and a decode step: routing, queues of two engines, and
connections between them. Median of ten published runs with at most eight clients, 0.04 to 0.31. [s]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One kind of replicas of a disaggregated deployment: what serves on it, and the cache of its GPUs.

    `capacity` sequences fit in a replica; a token takes `kv_bytes_per_token` on each GPU. [bytes]
    """

    service: Service
    sharding: Sharding
    capacity: float
    kv_bytes_per_token: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DisaggregatedFit:
    """Prefill replicas and decode replicas that carry a load within limits. [s, 1/s]

    `prefill_s` is the time of one prompt alone, `transfer_s` that of its cache over the network.
    """

    gpu: str
    engine: str
    weights: str
    prefill: Sharding
    decode: Sharding
    prefill_replicas: int
    decode_replicas: int
    prefill_s: float
    transfer_s: float
    ttft_s: float
    tpot_s: float
    e2e_s: float
    rate_per_s: float
    output_len: float
    decode_running: float
    rent: RentedGpu | None
    fast_gpus: int

    @property
    def gpus(self) -> int:
        """Return the GPUs of all replicas."""
        return self.prefill_replicas * self.prefill.gpus + self.decode_replicas * self.decode.gpus

    @property
    def usd_per_hour(self) -> float | None:
        """Return the rent of whole machines, each side in its own; None where no offer holds both. [USD/h]"""
        if self.rent is None:
            return None
        sides = ((self.prefill, self.prefill_replicas), (self.decode, self.decode_replicas))
        found = [self.rent.machines_for(*side, fast_gpus=self.fast_gpus) for side in sides]
        machines = [each for each in found if each is not None]
        return sum(machines) * self.rent.usd_per_machine_hour if len(machines) == len(found) else None

    @property
    def ratio(self) -> float:
        """Return prefill GPUs over decode GPUs."""
        return self.prefill_replicas * self.prefill.gpus / (self.decode_replicas * self.decode.gpus)

    @property
    def words(self) -> str:
        """Return the fleet in words."""
        prompts, answers = (
            f"{count} {kind} replica{'s' if count > 1 else ''} × {sharding.gpus}"
            for count, kind, sharding in (
                (self.prefill_replicas, "prefill", self.prefill),
                (self.decode_replicas, "decode", self.decode),
            )
        )
        return f"{self.gpus} GPUs = {prompts} + {answers}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A GPU for disaggregated serving: its names, the offer that is rented, and how many replicas of each are spare."""

    gpu: str
    engine: str
    weights: str
    rent: RentedGpu | None
    fast_gpus: int = 8
    redundancy: int = 0


def disaggregate(
    prefill: Side, decode: Side, *, load: TokenLoad, limits: LatencyLimits, offer: Offer, link_bytes_per_s: float
) -> DisaggregatedFit | None:
    """Find the fewest prefill and decode replicas that carry a load; None where no number of them keeps the limits.

    Args:
        prefill: What prompts are processed on.
        decode: What answers are generated on.
        load: Requests per second with their lengths.
        limits: Limits on mean times.
        offer: The GPU and its rent.
        link_bytes_per_s: Network of one GPU to another replica. [bytes/s]
    """
    if load.rate_per_s is None:
        return None
    demand = load.demand(decode.capacity)
    prompt_s = lone_ttft_s(prefill.service, load.demand(prefill.capacity))
    moved = demand.prefill_len * max(prefill.kv_bytes_per_token * prefill.sharding.pipeline, decode.kv_bytes_per_token)
    transfer_s = moved / link_bytes_per_s
    sizes = np.unique(np.round(np.geomspace(1.0, most_running(decode.service, demand), 32), 2))
    stages = decode.sharding.pipeline
    context = load.input_len + load.output_len / 2
    passes_s = stages * decode_step_s(
        decode.service, sizes / decode.sharding.data / stages, context=context, speculation=load.speculation
    )
    for index in range(sizes.size - 1, -1, -1):
        step_s = float(passes_s[index])
        tpot_s = step_s / demand.tokens_per_step
        found = _sized(
            prompt_s, transfer_s, step_s=step_s, tpot_s=tpot_s, running=float(sizes[index]), load=load, limits=limits
        )
        if found is not None:
            prefills, decodes, ttft_s = found
            return DisaggregatedFit(
                gpu=offer.gpu,
                engine=offer.engine,
                weights=offer.weights,
                prefill=prefill.sharding,
                decode=decode.sharding,
                prefill_replicas=prefills + offer.redundancy,
                decode_replicas=decodes + offer.redundancy,
                prefill_s=prompt_s,
                transfer_s=transfer_s,
                ttft_s=ttft_s,
                tpot_s=tpot_s,
                e2e_s=ttft_s + max(load.output_len - 1.0, 0.0) * tpot_s,
                rate_per_s=load.rate_per_s,
                output_len=load.output_len,
                decode_running=float(sizes[index]),
                rent=offer.rent,
                fast_gpus=offer.fast_gpus,
            )
    return None


def _sized(
    prompt_s: float,
    transfer_s: float,
    *,
    step_s: float,
    tpot_s: float,
    running: float,
    load: TokenLoad,
    limits: LatencyLimits,
) -> tuple[int, int, float] | None:
    """Return prefill replicas, decode replicas and TTFT with so many sequences in a decode replica; None if too slow.

    A busier prefill replica waits longer, so that the busiest one that keeps the limits is found by bisection.
    """
    rate = load.rate_per_s or 0.0

    def ttft(busy: float) -> float:
        return prompt_s * (1.0 + busy / (2.0 * (1.0 - busy))) + transfer_s + 1.5 * step_s + HANDOVER_S

    def keeps(busy: float) -> bool:
        first = ttft(busy)
        whole = first + max(load.output_len - 1.0, 0.0) * tpot_s
        return broken_limit(first, tpot_s, whole, limits) is None

    if not keeps(0.0):
        return None
    low, high = 0.0, SATURATION
    if not keeps(high):
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (middle, high) if keeps(middle) else (low, middle)
        high = low
    if high <= 0:
        return None
    prefills = max(1, ceil(rate * prompt_s / high - 1e-9))
    decodes = max(1, ceil(rate * load.output_len * tpot_s / (running * SATURATION) - 1e-9))
    return prefills, decodes, ttft(rate * prompt_s / prefills)
