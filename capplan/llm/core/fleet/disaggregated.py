"""Put prefill and decode on replicas of their own: their ratio, the transfer of the cache, and what requests see.

A prefill replica processes one prompt after another, which is the queue M/D/1. The cache of a prompt then crosses the
network to a decode replica, whose steps hold no prompt tokens.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from capplan.core.gpus.machines import BOARD_OF_EIGHT, GpuServer
from capplan.core.gpus.prices import Price
from capplan.core.numbers import ceil_guarded
from capplan.llm.core.fleet.limits import SATURATION, broken_limit
from capplan.llm.core.fleet.rented import machines_for
from capplan.llm.core.fleet.token_load import TokenLoad
from capplan.llm.core.serving.service import Demand, ServedDeployment, decode_step_s, lone_ttft_s, most_running
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.simulation.load_answer import LatencyLimits
from capplan.units import counted

HANDOVER_S = 0.15
"""What a first token takes beside its prefill, the moved cache and a decode step: routing, queues of two engines, and
connections between them. Median of ten published runs with at most eight clients, 0.04 to 0.31. [s]"""


@dataclass(frozen=True, kw_only=True)
class Side:
    """One kind of replicas of a disaggregated deployment: what serves on it, and the cache of its GPUs.

    `demand` is the demand on one replica, with the sequences that fit in it. A token takes `kv_bytes_per_token` on each
    GPU. [bytes] `rent` is the offer of its GPU, `server` that in which it was timed. It has one pipeline stage.
    """

    gpu: str
    service: ServedDeployment
    sharding: Sharding
    demand: Demand
    kv_bytes_per_token: float
    rent: Price | None = None
    server: GpuServer = BOARD_OF_EIGHT

    @cached_property
    def prompt_s(self) -> float:
        return lone_ttft_s(self.service, self.demand) + self.demand.encoder_s

    @cached_property
    def passes(self) -> tuple[list[float], list[float]]:
        """Return numbers of sequences that a replica may decode at a time, and the step of each. [s]"""
        sizes = np.unique(np.round(np.geomspace(1.0, most_running(self.service, self.demand), 32), 2))
        return sizes.tolist(), decode_step_s(self.service, self.demand, sizes / self.sharding.data).tolist()

    def placed(self, replicas: int) -> "PlacedSide":
        return PlacedSide(gpu=self.gpu, sharding=self.sharding, replicas=replicas, rent=self.rent, server=self.server)


@dataclass(frozen=True, kw_only=True)
class PlacedSide:
    """The replicas of one side: on which GPU, how they share the model, and the offer that is rented."""

    gpu: str
    sharding: Sharding
    replicas: int
    rent: Price | None
    server: GpuServer = BOARD_OF_EIGHT

    @property
    def gpus(self) -> int:
        return self.replicas * self.sharding.gpus

    @cached_property
    def usd_per_hour(self) -> float | None:
        """Return the rent of whole machines of its own; None where no offer holds it. [USD/h]"""
        if self.rent is None:
            return None
        machines = machines_for(self.rent.server, self.sharding, self.replicas, timed=self.server)
        return None if machines is None else machines * self.rent.usd_per_machine_hour


@dataclass(frozen=True, kw_only=True)
class DisaggregatedFit:
    """Prefill replicas and decode replicas that carry a load within limits. [s, 1/s]

    `prefill_s` is the time of one prompt alone with its images, `transfer_s` that of its cache over the network.
    """

    engine: str
    weights: str
    prefill: PlacedSide
    decode: PlacedSide
    prefill_s: float
    transfer_s: float
    ttft_s: float
    tpot_s: float
    e2e_s: float
    rate_per_s: float
    output_len: float
    decode_running: float

    @property
    def gpu(self) -> str | None:
        """Return the GPU of both sides; None where each has its own."""
        return self.decode.gpu if self.decode.gpu == self.prefill.gpu else None

    @property
    def gpus(self) -> int:
        return self.prefill.gpus + self.decode.gpus

    @cached_property
    def usd_per_hour(self) -> float | None:
        """Return the rent of both sides; None where no offer holds both. [USD/h]"""
        sides = (self.prefill.usd_per_hour, self.decode.usd_per_hour)
        return None if None in sides else sum(side or 0.0 for side in sides)

    @property
    def ratio(self) -> float:
        """Return prefill GPUs over decode GPUs."""
        return self.prefill.gpus / self.decode.gpus

    @property
    def gpu_words(self) -> str:
        return self.gpu or f"{self.prefill.gpu} for prompts and {self.decode.gpu} for answers"

    @property
    def words(self) -> str:
        prompts, answers = (
            f"{counted(side.replicas, f'{kind} replica')} × {side.sharding.gpus}"
            for side, kind in ((self.prefill, "prefill"), (self.decode, "decode"))
        )
        return f"{counted(self.gpus, 'GPU')} = {prompts} + {answers}"


def disaggregate(
    prefill: Side,
    decode: Side,
    *,
    load: TokenLoad,
    limits: LatencyLimits,
    names: tuple[str, str],
    link_bytes_per_s: float,
    redundancy: int = 0,
) -> DisaggregatedFit | None:
    """Find the fewest prefill and decode replicas that carry a load; None where no number of them keeps the limits."""
    if load.rate_per_s is None:
        return None
    demand = decode.demand
    moved = demand.prefill_len * max(prefill.kv_bytes_per_token, decode.kv_bytes_per_token)
    transfer_s = moved / link_bytes_per_s
    moved_s = transfer_s + prefill.demand.loaded_s  # a prefix comes from host memory while others are served
    for running, step_s in reversed([*zip(*decode.passes, strict=True)]):
        tpot_s = step_s / demand.tokens_per_step
        found = _sized(
            prefill.prompt_s, moved_s, step_s=step_s, tpot_s=tpot_s, running=running, load=load, limits=limits
        )
        if found is not None:
            prefills, decodes, ttft_s = found
            return DisaggregatedFit(
                engine=names[0],
                weights=names[1],
                prefill=prefill.placed(prefills + redundancy),
                decode=decode.placed(decodes + redundancy),
                prefill_s=prefill.prompt_s,
                transfer_s=transfer_s,
                ttft_s=ttft_s,
                tpot_s=tpot_s,
                e2e_s=ttft_s + max(load.output_len - 1.0, 0.0) * tpot_s,
                rate_per_s=load.rate_per_s,
                output_len=load.output_len,
                decode_running=running,
            )
    return None


def _sized(
    prompt_s: float,
    moved_s: float,
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
        return prompt_s * (1.0 + busy / (2.0 * (1.0 - busy))) + moved_s + 1.5 * step_s + HANDOVER_S

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
    prefills = max(1, ceil_guarded(rate * prompt_s / high))
    decodes = max(1, ceil_guarded(rate * load.output_len * tpot_s / (running * SATURATION)))
    return prefills, decodes, ttft(rate * prompt_s / prefills)
