"""Closed forms of queues that the simulation is tested against; exact where they apply.

Without batching: Erlang's formulas, M/M/c, M/G/1, M/D/1, M/D/c. With it: a bound, the forming window, joinable batches.
Symbols: λ arrivals per second, s mean service time, c servers, a = λs offered load (Erlangs), ρ = a/c.
Sources: Gross, Shortle, Thompson, Harris, Fundamentals of Queueing Theory (4th ed., ch. 2, 3, 5);
Franx, A simple solution for the M/D/c waiting time distribution (Oper. Res. Lett. 29, 2001);
Cosmetatos, Approximate explicit formulae for the average queueing time in (M/D/r) and (D/M/r) (INFOR 13, 1975);
Inoue, Queueing analysis of GPU-based inference servers with dynamic batching (arXiv:1912.06322).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np

from capplan.core.serving.simulation import UnstableError, stationary


def erlang_b(*, servers: int, offered: float) -> float:
    """Blocking probability of M/M/c/c by the stable recursion B(k) = a·B(k-1) / (k + a·B(k-1))."""
    blocking = 1.0
    for k in range(1, servers + 1):
        blocking = offered * blocking / (k + offered * blocking)
    return blocking


def erlang_c(*, servers: int, offered: float) -> float:
    """Probability that an arrival waits in M/M/c: C = B / (1 - ρ(1 - B)).

    Raises:
        UnstableError: the offered load reaches the number of servers.
    """
    if offered >= servers:
        raise UnstableError(f"{offered:g} Erlangs need more than {servers} servers")
    blocking = erlang_b(servers=servers, offered=offered)
    return blocking / (1 - offered / servers * (1 - blocking))


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkovQueue:
    """M/M/c: Poisson arrivals, exponential service, first come first served."""

    rate_per_s: float
    service_s: float
    servers: int

    @property
    def offered(self) -> float:
        """Offered load a = λs. [Erlang]"""
        return self.rate_per_s * self.service_s

    @property
    def wait_probability(self) -> float:
        """Probability that an arrival waits (Erlang C)."""
        return erlang_c(servers=self.servers, offered=self.offered)

    @property
    def mean_wait_s(self) -> float:
        """Mean time in the queue: C·s / (c - a). [s]"""
        return self.wait_probability * self.service_s / (self.servers - self.offered)

    def wait_tail(self, time_s: float) -> float:
        """P(wait > t) = C·exp(-(c - a)·t/s)."""
        return self.wait_probability * math.exp(-(self.servers - self.offered) * time_s / self.service_s)

    def response_tail(self, time_s: float) -> float:
        """P(response > t); d = c - 1 - a = 0 is a removable singularity."""
        rate, spare = 1 / self.service_s, self.servers - 1 - self.offered
        x = rate * time_s * spare
        waited = rate * time_s if abs(x) < 1e-9 else -math.expm1(-x) / spare
        return math.exp(-rate * time_s) * (1 + self.wait_probability * waited)

    def wait_quantile_s(self, probability: float) -> float:
        """The time that a share of arrivals waits no longer than. [s]"""
        waits = self.wait_probability
        if waits <= 1 - probability:
            return 0.0
        return self.service_s / (self.servers - self.offered) * math.log(waits / (1 - probability))

    def response_quantile_s(self, probability: float) -> float:
        """The response time that a share of arrivals stays within. [s]"""
        return solve_falling(self.response_tail, 1 - probability, start=self.service_s)


def solve_falling(function: Callable[[float], float], target: float, *, start: float) -> float:
    """Find x > 0 where a falling function meets a target, by doubling and bisection."""
    high = start
    while function(high) > target:
        high *= 2
    low = 0.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) > target else (low, middle)
    return (low + high) / 2


def mean_wait_one_server_s(*, rate_per_s: float, service_s: float, service_scv: float) -> float:
    """Mean wait of M/G/1 (Pollaczek-Khinchine): ρ·s·(1 + SCV) / (2(1 - ρ)); SCV 0 is M/D/1. [s]"""
    load = rate_per_s * service_s
    if load >= 1:
        raise UnstableError(f"a load of {load:g} has no steady state")
    return load * service_s * (1 + service_scv) / (2 * (1 - load))


def constant_service_wait_cdf(*, rate_per_s: float, service_s: float, time_s: float) -> float:
    """P(wait ≤ t) of M/D/1: Erlang's alternating sum, in extended precision because its terms cancel."""
    whole = int(time_s / service_s + 1e-12)
    with localcontext() as context:
        context.prec = 40 + int(rate_per_s * time_s) + whole
        rate, service, time = Decimal(rate_per_s), Decimal(service_s), Decimal(time_s)
        total, factorial = Decimal(0), Decimal(1)
        for k in range(whole + 1):
            x = rate * max(Decimal(0), time - k * service)
            factorial *= max(1, k)
            total += (Decimal(1) if k == 0 else (-x) ** k) / factorial * x.exp()
        return float((1 - rate * service) * total)


def constant_service_wait_quantile_s(*, rate_per_s: float, service_s: float, probability: float) -> float:
    """The time that a share of M/D/1's arrivals waits no longer than. [s]"""

    def exceeds(time_s: float) -> float:
        return 1 - constant_service_wait_cdf(rate_per_s=rate_per_s, service_s=service_s, time_s=time_s)

    if exceeds(0.0) <= 1 - probability:
        return 0.0
    return solve_falling(exceeds, 1 - probability, start=service_s)


def mean_wait_constant_service_s(*, rate_per_s: float, service_s: float, servers: int) -> float:
    """Mean wait of M/D/c, exact: what is in the system D later is max(X - c, 0) + Poisson(λD). [s]"""
    offered = rate_per_s * service_s
    if offered >= servers:
        raise UnstableError(f"{offered:g} Erlangs need more than {servers} servers")
    present = stationary(lambda n: (max(n - servers, 0), offered), at_least=4 * servers)
    waiting = np.maximum(np.arange(len(present)) - servers, 0)
    return float(present @ waiting) / rate_per_s


def mean_wait_cosmetatos_s(*, rate_per_s: float, service_s: float, servers: int) -> float:
    """Mean wait of M/D/c by Cosmetatos' approximation, good to about 0.3 %. [s]"""
    load = rate_per_s * service_s / servers
    correction = 1 + (1 - load) * (servers - 1) * (math.sqrt(4 + 5 * servers) - 2) / (16 * load * servers)
    return 0.5 * correction * MarkovQueue(rate_per_s=rate_per_s, service_s=service_s, servers=servers).mean_wait_s


def inoue_response_bound_s(*, rate_per_s: float, per_sample_s: float, fixed_s: float) -> float:
    """Upper bound of the mean response for s(b) = t0 + a·b; no bound once a largest batch binds. [s]"""
    rate, a, t0 = rate_per_s, per_sample_s, fixed_s
    if rate * a >= 1:
        raise UnstableError(f"{rate:g}/s reaches the capacity of {1 / a:g}/s")
    first = (a + t0) / (2 * (1 - rate * a)) * (1 + 2 * rate * t0 + (1 - rate * t0) / (1 + rate * a))
    second = 1.5 * t0 / (1 - rate * a) + a / 2 * (rate * a + 2) / (1 - (rate * a) ** 2)
    return min(first, second)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormingWindow:
    """What a batching window yields where a server is always free: mean batch, mean wait for it to close. [s]"""

    batch: float
    wait_s: float


def forming_window(*, rate_per_s: float, window_s: float, largest: int) -> FormingWindow:
    """Mean batch and wait of a window that opens on an arrival and closes after its time or when full.

    With N ~ Poisson(λT): E[size] = 1 + Σ_{j=1}^{B-1} P(N ≥ j); the k-th later arrival comes before the close with
    P(N ≥ k), and everybody present waits a mean gap 1/λ until it.
    """
    at_least = _poisson_tails(rate_per_s * window_s, largest)
    batch = 1 + sum(at_least[1:largest])
    waited = sum((k + 1) / rate_per_s * at_least[k + 1] for k in range(largest - 1))
    return FormingWindow(batch=batch, wait_s=waited / batch)


def _poisson_tails(mean: float, count: int) -> list[float]:
    tails, below, term = [1.0], 0.0, math.exp(-mean)
    for k in range(count):
        below += term
        term *= mean / (k + 1)
        tails.append(max(0.0, 1 - below))
    return tails


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinableBulk:
    """M/M[1..K]/1: batches with exponential times that arrivals may join until they are full."""

    rate_per_s: float
    batches_per_s: float
    largest: int

    @property
    def ratio(self) -> float:
        """The root in (0, 1) of μ·r^(K+1) - (λ + μ)·r + λ = 0; the number present is geometric in it."""
        if self.rate_per_s >= self.largest * self.batches_per_s:
            raise UnstableError(f"{self.rate_per_s:g}/s reaches {self.largest * self.batches_per_s:g}/s")
        low, high = 0.0, 1 - 1e-12
        for _ in range(200):
            middle = (low + high) / 2
            value = self.batches_per_s * middle ** (self.largest + 1) - (self.rate_per_s + self.batches_per_s) * middle
            low, high = (middle, high) if value + self.rate_per_s > 0 else (low, middle)
        return low

    @property
    def response_s(self) -> float:
        """Mean response L/λ with L = r / (1 - r). [s]"""
        return self.ratio / (1 - self.ratio) / self.rate_per_s
