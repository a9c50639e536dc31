"""From replicas to GPUs in servers: spares, failure domains, availability, growth, and training on several GPUs.

GPUs that train one model exchange gradients in every step. What that adds to a step within one server was fitted to
measured steps (`core.latency.data_parallel`) and is reported. Nothing was measured across servers: there each GPU sends
and receives 2 · (n - 1) / n times the gradients in a ring all-reduce (Patarasuk and Yuan, 2009); 2 is taken for any n
above 1. The exchange runs beside the backward pass, which is two thirds of a step, in buckets of 25 MiB of which the
last cannot be hidden (Li et al., PyTorch Distributed, VLDB 2020).
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

from capplan.core.formulas import gpus_in_servers, servers_needed
from capplan.core.numbers import ceil_guarded

_MOST_SPARES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """GPUs in equal servers; `need` GPUs carry the load, and `spares` servers may fail without missing it."""

    need: int
    servers: int
    gpus_per_server: int
    spares: int

    @property
    def gpus(self) -> int:
        return self.servers * self.gpus_per_server

    @property
    def gpus_after_failures(self) -> int:
        """GPUs left when one server fails."""
        return self.gpus - self.gpus_per_server


def make_fleet(*, need: int, spares: int, server_slots: int, full_servers: bool) -> Fleet:
    """Spread the needed GPUs over servers, so that the load is carried when `spares` servers are down.

    A failure takes a server, not a GPU. `full_servers` where servers come only full, as boards of eight SXM modules
    and cloud instances do; otherwise the GPUs are spread evenly over as few servers as hold them.
    """
    servers = round(servers_needed(need, server_slots, spares))
    gpus = round(gpus_in_servers(need, servers, spares, server_slots, float(full_servers)))
    return Fleet(need=need, servers=servers, gpus_per_server=gpus // servers, spares=spares)


def at_least_up(*, needed: int, installed: int, availability: float) -> float:
    """Return the probability that `needed` of `installed` independent units are up: Σ C(n, i)·A^i·(1-A)^(n-i)."""
    if availability >= 1:
        return float(installed >= needed)
    up, down = math.log(availability), math.log1p(-availability)

    def log_ways(units: int) -> float:
        return math.lgamma(installed + 1) - math.lgamma(units + 1) - math.lgamma(installed - units + 1)

    # In logarithms, because the ways of choosing 100 of 100,000 exceed every float.
    return math.fsum(
        math.exp(log_ways(units) + units * up + (installed - units) * down) for units in range(needed, installed + 1)
    )


def server_availability(*, gpus_per_server: int, failures_per_gpu_year: float, repair_days: float) -> float:
    """Return the share of time that a server is up: MTTF ÷ (MTTF + repair time)."""
    return 1 / (1 + gpus_per_server * failures_per_gpu_year * repair_days / 365)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """How often servers fail, one by one and with their zone.

    `zones` hold equal parts of a fleet; each is down for `zone_down_fraction` of the time, whatever its servers do.
    """

    failures_per_gpu_year: float
    repair_days: float
    zones: int = 1
    zone_down_fraction: float = 0.0

    def of_fleet(self, fleet: Fleet) -> float:
        """Return the share of time that enough servers are up for the load at peak.

        The sum over the sets of zones that are down together, of their probability and that of enough servers in the
        others: Σ z^j·(1-z)^(k-j) · P(needed of the rest up). Servers are spread evenly; some zones hold one more.
        """
        up = server_availability(
            gpus_per_server=fleet.gpus_per_server,
            failures_per_gpu_year=self.failures_per_gpu_year,
            repair_days=self.repair_days,
        )
        needed, down = math.ceil(fleet.need / fleet.gpus_per_server), self.zone_down_fraction
        each, fuller = divmod(fleet.servers, self.zones)
        others = self.zones - fuller
        total = 0.0
        for full_lost, lost in product(range(fuller + 1), range(others + 1)):
            count = full_lost + lost
            ways = math.comb(fuller, full_lost) * math.comb(others, lost)
            left = fleet.servers - count * each - full_lost
            enough = at_least_up(needed=needed, installed=left, availability=up)
            total += ways * down**count * (1 - down) ** (self.zones - count) * enough
        return total

    def spares_for(self, target: float, *, need: int, server_slots: int, full_servers: bool, least: int = 0) -> int:
        """Return the fewest spare servers with which enough are up for a share of the time, 100 at most."""
        for spares in range(least, _MOST_SPARES):
            fleet = make_fleet(need=need, spares=spares, server_slots=server_slots, full_servers=full_servers)
            if self.of_fleet(fleet) >= target:
                return spares
        return _MOST_SPARES


def months_until_exhausted(
    *, capacity_per_s: float, peak_per_s: float, growth_per_year_fraction: float
) -> float | None:
    """Return the months until a growing peak exceeds what is installed; None if it never does."""
    if growth_per_year_fraction <= 0:
        return None
    return max(0.0, 12 * math.log(capacity_per_s / peak_per_s) / math.log(1 + growth_per_year_fraction))


def replicas_for_rate(*, rate_per_s: float, per_replica_per_s: float) -> int:
    """Return the replicas that carry a rate, at least one."""
    return max(1, ceil_guarded(rate_per_s / per_replica_per_s))


def concurrency(*, rate_per_s: float, response_s: float) -> float:
    """Return the samples in the system at once, by Little's law L = λ·W."""
    return rate_per_s * response_s


_RING = 2.0
_BACKWARD_FRACTION = 2 / 3
_BUCKET_BYTES = 25 * 2**20
_EQUAL = 1 + 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """What GPUs of a kind exchange in a step of training, and over which links.

    Attributes:
        gradient_bytes: Gradients of the model, in the type of its weights. [bytes]
        inside_s: What a step waits for the other GPUs of a server. [s]
        inside_fraction: What a step takes longer besides, as a share of its time.
        inside_name: What the link to the other GPUs of a server is, such as NVLink.
        network_bytes_per_s: One GPU's share of its server's network, one direction. [bytes/s]
    """

    gradient_bytes: float
    inside_s: float
    inside_fraction: float
    inside_name: str
    network_bytes_per_s: float

    def kept_fraction(self, *, step_s: float, is_across: bool) -> float:
        """Return the share of its rate that a GPU keeps when it exchanges gradients with others."""
        inside = step_s / (step_s * (1 + self.inside_fraction) + self.inside_s)
        if not is_across:
            return inside
        exchange_s = _RING * self.gradient_bytes / self.network_bytes_per_s
        last_s = exchange_s * min(1.0, _BUCKET_BYTES / self.gradient_bytes) if self.gradient_bytes else 0.0
        return min(inside, step_s / (step_s + max(exchange_s - _BACKWARD_FRACTION * step_s, last_s)))


class Neighbours(StrEnum):
    """What else trains beside a GPU: nothing, GPUs of its server, or GPUs of other servers, too."""

    ALONE = "alone"
    WITHIN = "within"
    ACROSS = "across"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelRates:
    """Samples per second of one GPU that trains alone, with others of its server, and with other servers. [1/s]"""

    alone_per_s: float
    within_per_s: float
    across_per_s: float

    def beside(self, demand_per_s: float, *, server_slots: int, full_servers: bool) -> Neighbours:
        """Return what trains beside a GPU of the smallest fleet that carries a demand."""
        if demand_per_s <= self.alone_per_s * _EQUAL and (server_slots == 1 or not full_servers):
            return Neighbours.ALONE
        fits = ceil_guarded(demand_per_s / self.within_per_s) <= server_slots
        return Neighbours.WITHIN if fits and server_slots > 1 else Neighbours.ACROSS

    def of(self, beside: Neighbours) -> float:
        """Return the rate of one GPU with others beside it. [1/s]"""
        rates = {
            Neighbours.ALONE: self.alone_per_s,
            Neighbours.WITHIN: self.within_per_s,
            Neighbours.ACROSS: self.across_per_s,
        }
        return rates[beside]


def parallel_rates(
    *, alone_per_s: float, step_s: float, scaling_fraction: float, exchange: Exchange | None
) -> ParallelRates:
    """Return the rates of a GPU alone and beside others."""
    inside, across = (
        min(scaling_fraction, exchange.kept_fraction(step_s=step_s, is_across=is_across) if exchange else 1.0)
        for is_across in (False, True)
    )
    return ParallelRates(alone_per_s=alone_per_s, within_per_s=alone_per_s * inside, across_per_s=alone_per_s * across)
