"""From a needed number of replicas to GPUs and servers: spares, failure domains, availability, growth."""

import math
from dataclasses import dataclass

from capplan.core.formulas import gpus_in_servers, servers_needed
from capplan.core.numbers import ceil_guarded


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """GPUs in equal servers; `need` GPUs carry the load, and `spares` servers may fail without missing it."""

    need: int
    servers: int
    gpus_per_server: int
    spares: int

    @property
    def gpus(self) -> int:
        """Return all GPUs, spares included."""
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
    return math.fsum(
        math.comb(installed, i) * availability**i * (1 - availability) ** (installed - i)
        for i in range(needed, installed + 1)
    )


def server_availability(*, gpus_per_server: int, failures_per_gpu_year: float, repair_days: float) -> float:
    """Return the share of time that a server is up: MTTF ÷ (MTTF + repair time)."""
    return 1 / (1 + gpus_per_server * failures_per_gpu_year * repair_days / 365)


def fleet_availability(fleet: Fleet, *, failures_per_gpu_year: float, repair_days: float) -> float:
    """Return the share of time that enough servers are up for the load at peak."""
    up = server_availability(
        gpus_per_server=fleet.gpus_per_server, failures_per_gpu_year=failures_per_gpu_year, repair_days=repair_days
    )
    return at_least_up(needed=math.ceil(fleet.need / fleet.gpus_per_server), installed=fleet.servers, availability=up)


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
