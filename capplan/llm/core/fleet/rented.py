"""Which rented machines hold the replicas of a deployment, how many of them, and what they cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from capplan.core.assumed import CARD_SERVER
from capplan.core.gpus.prices import Price
from capplan.llm.core.sharding import Sharding

_BRIDGED = 2
"""GPUs that a bridge between cards joins; the cards of a server are timed over its host, whatever bridges there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RentedGpu:
    """An offer by its price of one GPU and hour; machines are rented whole. [USD]

    Attributes:
        machine_gpus: GPUs of one machine.
        joined: GPUs of a machine that fast links join with one another; 1 where all traffic goes over PCIe.
        networked: True if the machine's network to others of its kind is known.
    """

    usd_per_hour: float
    provider: str
    day: str
    tier: str
    instance: str = ""
    region: str = ""
    country: str | None = None
    known_by: str = ""
    machine_gpus: int = 1
    joined: int = 1
    networked: bool = False

    @property
    def usd_per_machine_hour(self) -> float:
        """Return the price of one machine. [USD/h]"""
        return self.usd_per_hour * self.machine_gpus

    @property
    def words(self) -> str:
        """Return the machine and where it stands, such as "aws p5.48xlarge, us-east-1"."""
        return ", ".join(part for part in (f"{self.provider} {self.instance}".strip(), self.region) if part)

    def machines_for(self, sharding: Sharding, replicas: int, *, fast_gpus: int) -> int | None:
        """Return the machines that hold replicas of a deployment; None where these machines cannot hold one.

        The GPUs of a stage (tensor and data parallelism) exchange data in every layer. They stand in one machine, and
        within its fast links where their times were computed with those. Stages may stand in several machines. A stage
        larger than a machine needs machines with a known network, and times that count it.

        Args:
            sharding: How the GPUs of one replica share the model.
            replicas: Replicas of the fleet.
            fast_gpus: The largest stage whose times were computed with fast links.
        """
        group = sharding.tensor * sharding.data
        if group > self.machine_gpus:
            timed = fast_gpus if fast_gpus > _BRIDGED else CARD_SERVER  # GPUs of a server, as times are computed
            smaller = self.joined < fast_gpus or self.machine_gpus < timed  # more would cross the network than is timed
            if group <= timed or smaller or group % self.machine_gpus or not self.networked:
                return None
            return replicas * sharding.pipeline * (group // self.machine_gpus)
        if 1 < group <= fast_gpus and group > self.joined:
            return None
        stages = self.machine_gpus // group
        if sharding.pipeline <= stages:
            return ceil(replicas / (stages // sharding.pipeline))
        return replicas * ceil(sharding.pipeline / stages)


def rented_gpu(price: Price) -> RentedGpu:
    """Return an offer as deployments hold it.

    Args:
        price: The offer.
    """
    return RentedGpu(
        usd_per_hour=price.usd_per_hour,
        provider=price.provider,
        day=price.date.isoformat(),
        tier=price.tier.value,
        instance=price.instance or "",
        region=price.region,
        country=price.country,
        known_by=price.known_by,
        machine_gpus=price.instance_gpus,
        joined=price.joined,
        networked=price.machine is not None and price.machine.network_bytes_per_s is not None,
    )


def best_offer(offers: Sequence[RentedGpu], sharding: Sharding, replicas: int, *, fast_gpus: int) -> RentedGpu | None:
    """Return the offer whose machines hold a fleet at the least cost; None where none holds it.

    Args:
        offers: The offers of one GPU.
        sharding: How the GPUs of one replica share the model.
        replicas: Replicas of the fleet.
        fast_gpus: The largest stage whose times were computed with fast links.
    """
    held = [
        (machines * offer.usd_per_machine_hour, offer.words, offer)
        for offer in offers
        if (machines := offer.machines_for(sharding, replicas, fast_gpus=fast_gpus)) is not None
    ]
    return min(held, key=lambda priced: priced[:2])[2] if held else None


def fast_link_gpus(offers: Sequence[RentedGpu], *, in_one_server: int, is_bridged: bool) -> int:
    """Return the largest group of GPUs whose traffic is timed over fast links.

    Modules of a board have them wherever they are rented together. A bridge between cards counts where an offer has
    it, or where nothing is offered and the GPU would be bought.

    Args:
        offers: The offers of one GPU; empty where there is none.
        in_one_server: GPUs that fast links join at most in one server.
        is_bridged: True if these links are bridges between cards.
    """
    if not offers or not is_bridged:
        return in_one_server
    return max(offer.joined for offer in offers)
