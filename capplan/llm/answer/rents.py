"""Which offers a search knows of its GPUs, which GPUs it takes by default, and what those of a training run cost."""

from collections.abc import Mapping

from capplan.core.gpus.prices import offers_to_plan_with
from capplan.core.gpus.spec import GpuSpec
from capplan.llm.core.fleet.rented import RentedGpu, rented_gpu
from capplan.llm.core.training.search import TrainingOffer
from capplan.specs.prices import Prices

_SEARCHED_SEGMENTS = ("data-centre",)


def on_demand_offers(known: Prices) -> dict[str, tuple[RentedGpu, ...]]:
    """Return the current on-demand offers of every GPU that has some.

    Your own quotes stand before others. Hearsay and offers of third-party hosts count only for a GPU of which nothing
    better is known.

    Args:
        known: All known prices.
    """
    return {gpu: tuple(map(rented_gpu, offers)) for gpu, offers in offers_to_plan_with(known.hourly).items()}


def searched_gpus(gpus: Mapping[str, GpuSpec], rents: Mapping[str, tuple[RentedGpu, ...]]) -> tuple[str, ...]:
    """Return the GPUs that are searched where none is named: those of data centres that can be rented."""
    return tuple(gpu.id for gpu in gpus.values() if gpu.id in rents and str(gpu.segment) in _SEARCHED_SEGMENTS)


def training_offers(known: Prices) -> dict[str, TrainingOffer]:
    """Return the cheapest current on-demand offer of every GPU that has one.

    Args:
        known: All known prices.
    """
    return {
        gpu: TrainingOffer(
            usd_per_hour=best.usd_per_hour,
            provider=best.words,
            day=best.day,
            machine_gpus=best.machine_gpus,
            country=best.country,
        )
        for gpu, offers in on_demand_offers(known).items()
        if (best := min(offers, key=lambda offer: offer.usd_per_hour, default=None)) is not None
    }
