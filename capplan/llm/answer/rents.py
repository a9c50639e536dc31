"""What the GPUs of a search cost per hour, and which GPUs are searched by default."""

from collections.abc import Mapping

from capplan.core.gpus.prices import cheapest_on_demand
from capplan.core.gpus.spec import GpuSpec
from capplan.llm.core.fleet.deployment_plan import RentedGpu
from capplan.specs.prices import Prices

_SEARCHED_SEGMENTS = ("data-centre",)


def cheapest_rents(known: Prices) -> dict[str, RentedGpu]:
    """Return the lowest current on-demand rent of every GPU that has one.

    Args:
        known: All known prices.
    """
    return {
        gpu: RentedGpu(
            usd_per_hour=price.usd_per_hour, provider=price.provider, day=price.date.isoformat(), tier=price.tier.value
        )
        for gpu, price in cheapest_on_demand(known.hourly).items()
    }


def searched_gpus(gpus: Mapping[str, GpuSpec], rents: Mapping[str, RentedGpu]) -> tuple[str, ...]:
    """Return the GPUs that are searched where none is named: those of data centres that can be rented."""
    return tuple(gpu.id for gpu in gpus.values() if gpu.id in rents and str(gpu.segment) in _SEARCHED_SEGMENTS)
