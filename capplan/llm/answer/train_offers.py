"""Find what the GPUs of a training run cost."""

from capplan.llm.answer.rents import on_demand_offers
from capplan.llm.core.training.search import TrainingOffer
from capplan.specs.prices import Prices


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
