"""Which rented machines hold the replicas of a deployment, how many of them, and what they cost."""

from collections.abc import Sequence
from math import ceil

from capplan.core.assumed import CARD_SERVER
from capplan.core.gpus.prices import Price
from capplan.llm.core.sharding import Sharding

_BRIDGED = 2
"""GPUs that a bridge between cards joins; the cards of a server are timed over its host, whatever bridges there are."""


def machines_for(offer: Price, sharding: Sharding, replicas: int, *, fast_gpus: int) -> int | None:
    """Return the machines that hold replicas of a deployment; None where these machines cannot hold one.

    The GPUs of a stage (tensor and data parallelism) exchange data in every layer. They stand in one machine, and
    within its fast links where their times were computed with those. Stages may stand in several machines. A stage
    larger than a machine needs machines with a known network, and times that count it.
    """
    group, held = sharding.tensor * sharding.data, offer.instance_gpus
    if group > held:
        timed = fast_gpus if fast_gpus > _BRIDGED else CARD_SERVER  # GPUs of a server, as times are computed
        smaller = offer.joined < fast_gpus or held < timed  # more would cross the network than is timed
        if group <= timed or smaller or group % held or not offer.is_networked:
            return None
        return replicas * sharding.pipeline * (group // held)
    if 1 < group <= fast_gpus and group > offer.joined:
        return None
    stages = held // group
    if sharding.pipeline <= stages:
        return ceil(replicas / (stages // sharding.pipeline))
    return replicas * ceil(sharding.pipeline / stages)


def best_offer(offers: Sequence[Price], sharding: Sharding, replicas: int, *, fast_gpus: int) -> Price | None:
    """Return the offer whose machines hold a fleet at the least cost; None where none holds it."""
    held = [
        (machines * offer.usd_per_machine_hour, offer.machine_words, offer)
        for offer in offers
        if (machines := machines_for(offer, sharding, replicas, fast_gpus=fast_gpus)) is not None
    ]
    return min(held, key=lambda priced: priced[:2])[2] if held else None


def fast_link_gpus(offers: Sequence[Price], *, in_one_server: int, is_bridged: bool) -> int:
    """Return the largest group of GPUs whose traffic is timed over fast links."""
    if not offers or not is_bridged:
        return in_one_server
    return max(offer.joined for offer in offers)
