"""What one GPU's rate becomes when several train one model: gradients must be exchanged in every step.

Every step, each GPU sends and receives 2 · (n - 1) / n times the gradients in a ring all-reduce (Patarasuk and Yuan,
2009); 2 is taken for any n above 1, which errs on the slow side for few GPUs. The exchange runs beside the backward
pass, which is two thirds of a step, in buckets of 25 MiB of which the last cannot be hidden (Li et al., PyTorch
Distributed, VLDB 2020).
"""

from dataclasses import dataclass

from capplan.core.numbers import ceil_guarded

_RING = 2.0
_BACKWARD_FRACTION = 2 / 3
_BUCKET_BYTES = 25 * 2**20
_EQUAL = 1 + 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """What GPUs of a kind exchange in a step of training, and over which links.

    Attributes:
        gradient_bytes: Gradients of the model, in the type of its weights. [bytes]
        inside_bytes_per_s: One GPU's link to others of its server, one direction. [bytes/s]
        inside_name: What that link is, such as NVLink.
        network_bytes_per_s: One GPU's share of its server's network, one direction. [bytes/s]
    """

    gradient_bytes: float
    inside_bytes_per_s: float
    inside_name: str
    network_bytes_per_s: float

    def kept_fraction(self, *, step_s: float, is_across: bool) -> float:
        """Return the share of its rate that a GPU keeps when it exchanges gradients with others.

        Args:
            step_s: Time of one step on one GPU. [s]
            is_across: True if the exchange leaves the server.
        """
        link = min(self.inside_bytes_per_s, self.network_bytes_per_s) if is_across else self.inside_bytes_per_s
        exchange_s = _RING * self.gradient_bytes / link
        last_s = exchange_s * min(1.0, _BUCKET_BYTES / self.gradient_bytes) if self.gradient_bytes else 0.0
        return step_s / (step_s + max(exchange_s - _BACKWARD_FRACTION * step_s, last_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelRates:
    """Samples per second of one GPU that trains alone, with others of its server, and with other servers. [1/s]"""

    alone_per_s: float
    within_per_s: float
    across_per_s: float

    def rate_for(self, demand_per_s: float, *, server_slots: int, full_servers: bool) -> float:
        """Return the rate of one GPU of the smallest fleet that carries a demand. [1/s]

        Args:
            demand_per_s: Samples per second that the fleet must reach.
            server_slots: GPUs that a server or rented instance holds.
            full_servers: True if servers come only full, so that all their GPUs train.
        """
        if demand_per_s <= self.alone_per_s * _EQUAL and (server_slots == 1 or not full_servers):
            return self.alone_per_s
        fits = ceil_guarded(demand_per_s / self.within_per_s) <= server_slots
        return self.within_per_s if fits and server_slots > 1 else self.across_per_s


def parallel_rates(
    *, alone_per_s: float, step_s: float, scaling_fraction: float, exchange: Exchange | None
) -> ParallelRates:
    """Return the rates of a GPU alone and beside others.

    Args:
        alone_per_s: Rate of one GPU alone. [1/s]
        step_s: Time of one of its steps. [s]
        scaling_fraction: Share of the rate that is kept at most, whatever the links.
        exchange: What is exchanged over which links; None where it is unknown.
    """
    inside, across = (
        min(scaling_fraction, exchange.kept_fraction(step_s=step_s, is_across=is_across) if exchange else 1.0)
        for is_across in (False, True)
    )
    return ParallelRates(
        alone_per_s=alone_per_s, within_per_s=alone_per_s * inside, across_per_s=alone_per_s * min(inside, across)
    )
