"""The shapes of a procurement report's rows: options with fleet, response, power and cost, offers, and sources."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from capplan.core.economics.constraints import ExcludedOffer
from capplan.core.economics.cost import OwnedCost, RentedCost, break_even, internal_return, payback_years, straight_line
from capplan.core.economics.decide import Answer, Payback, Stress
from capplan.core.economics.fleet import FleetOption, concerns_of, violations_of
from capplan.core.economics.options import ProcurementOption, comes_on_boards, reliability, server_of, slots_of
from capplan.core.gpus.prices import Price, PurchasePrice, Term
from capplan.core.gpus.spec import Figure, GpuSpec
from capplan.core.measurement.types import Measurement
from capplan.core.numbers import Interval
from capplan.core.serving.load import Service
from capplan.core.serving.response import PCIE, Candidate, HostLimit, PowerCurve, ResponseCurve, SpeedTier
from capplan.core.serving.servers import concurrency, months_until_exhausted
from capplan.core.serving.sizing import OperatingPoint, Sizing
from capplan.shapes.shape import Shape, Typed, figure, reads

if TYPE_CHECKING:
    from capplan.shapes.types import OptionRow


@dataclass(frozen=True)
class DecidedOption:
    """An option of a decision, and what is known of its GPU at the batch that it runs.

    `rank` counts the options with a price, the best first; `speed` and `reason` are how well its speed is known.
    """

    option: ProcurementOption
    answer: Answer
    rank: int | None
    speed: SpeedTier
    reason: str
    usable_bytes: float | None

    @property
    def candidate(self) -> Candidate:
        """Return the GPU with its estimates."""
        return self.option.sizing.capacity.candidate

    @property
    def memory_bytes(self) -> Interval:
        """Return the memory of one process at the batch that is run. [bytes]"""
        largest = self.option.operating_point.largest_batch
        return next(point.memory_bytes for point in self.candidate.points if point.batch == largest)

    @property
    def price(self) -> Price | PurchasePrice | None:
        """Return what is paid for one GPU."""
        return self.option.rent or self.option.purchase

    @property
    def owned(self) -> OwnedCost | None:
        """Return the cost of a purchase."""
        return self.option.cost if isinstance(self.option.cost, OwnedCost) else None

    @property
    def stated(self) -> ProcurementOption:
        """Return the option with the fleet for the load as stated."""
        return self.answer.stated[self.option.key]

    @property
    def stress(self) -> Stress | None:
        """Return what requests see with all servers up, with one down, and at twice the peak."""
        return self.answer.stress.get(self.option.key)

    @cached_property
    def host(self) -> HostLimit | None:
        """Return what limits how fast the host feeds one GPU."""
        return min(self.candidate.host_limits, key=lambda limit: limit.rate_per_s, default=None)

    @cached_property
    def curve(self) -> PowerCurve | None:
        """Return what one GPU draws over its rate."""
        return self.candidate.power_curve(self.option.operating_point.largest_batch)

    @cached_property
    def latencies_s(self) -> tuple[Interval, float, float | None]:
        """Return the latency that counts, with the simulation's interval, and its values if the estimate is off."""
        sizing = self.option.sizing
        response, batch = sizing.response, sizing.batch_latency_s
        if response is None or response.percentile_s is None:
            return batch, batch.low, batch.high
        middle = response.percentile_s
        low, high = (
            sizing.percentile_s(response.rate_per_s, latency_factor=end / batch.expected)
            for end in (batch.low, batch.high)
        )
        return middle, min(low or middle.low, middle.expected), high

    @cached_property
    def best_rent(self) -> tuple[str, RentedCost] | None:
        """Return key and cost of the cheapest rent of the GPU that may be chosen, against which its purchase is set."""
        for other in self.answer.ranked:
            if other.gpu == self.option.gpu and isinstance(other.cost, RentedCost):
                return other.key, other.cost
        return None

    @cached_property
    def break_even(self) -> tuple[float, str] | None:
        """Return the hours of use a year above which buying beats renting on demand, and that offer's name."""
        offers = [p for p in self.answer.case.rents if p.gpu == self.option.gpu and p.term is Term.ON_DEMAND]
        rent = min(offers, key=lambda p: p.is_marketplace or p.is_beside_sound or p.is_own_beside, default=None)
        if rent is None or self.owned is None:
            return None
        hours = break_even(self.owned, gpus=self.option.fleets[-1].gpus, rent=rent)
        return hours, f"{rent.provider} {rent.instance or ''} on demand".replace("  ", " ")


def _provider(row: DecidedOption | FleetOption) -> str | None:
    rent, purchase = row.option.rent, row.option.purchase
    return rent.provider if rent else purchase.seller if purchase else None


def _price_usd(row: DecidedOption) -> float | None:
    rent, purchase = row.option.rent, row.option.purchase
    return rent.usd_per_hour if rent else purchase.usd if purchase else None


def _is_host_bound(row: DecidedOption) -> bool:
    point = row.option.operating_point
    alone_per_s = point.parallel.alone_per_s if point.parallel else point.rate_per_s
    return alone_per_s >= row.option.sizing.capacity.host_per_s * (1 - 1e-9)


def _scaling_fraction(row: DecidedOption) -> float | None:
    point = row.option.operating_point
    return point.rate_per_s / point.parallel.alone_per_s if point.parallel else None


def _link(row: DecidedOption) -> str | None:
    exchange, fleet = row.candidate.exchange, row.option.fleet
    working = fleet.servers - fleet.spares
    if exchange is None or row.option.operating_point.parallel is None or working * fleet.gpus_per_server == 1:
        return None
    if working == 1:
        return exchange.inside_name
    return f"the network at {exchange.network_bytes_per_s * 8 / 1e9:g} Gbit/s per GPU"


def _in_flight(row: DecidedOption) -> float | None:
    response, load = row.option.sizing.response, row.answer.demand.load
    if response is None or not response.mean_s or not isinstance(load, Service):
        return None
    return concurrency(rate_per_s=load.peak_per_s, response_s=response.mean_s.expected)


def _months_until_full(row: DecidedOption) -> float | None:
    load, last = row.answer.demand.load, row.option.fleets[-1]
    if not isinstance(load, Service):
        return None
    return months_until_exhausted(
        capacity_per_s=(last.gpus - last.spares * last.gpus_per_server) * row.option.operating_point.rate_per_s,
        peak_per_s=load.peak_per_s,
        growth_per_year_fraction=load.growth_per_year_fraction,
    )


def _running_usd(row: DecidedOption) -> float | None:
    cost = row.option.cost
    return row.owned.running_per_year if row.owned else cost.yearly[1] if cost else None


# fmt: off
_OFFER = (
    figure("term", reads(str, lambda row: row.option.term.value if row.option.term else "no price")),
    figure("provider", _provider, "who offers the GPU"),
    figure("region", "option.rent.region"),
    figure("instance", "option.rent.instance"),
    figure("price_usd", _price_usd, "of one GPU, by the hour for rents"),
    figure("price_unit", reads(str | None, lambda row: "USD per GPU and hour" if row.option.rent else "USD per GPU" if row.option.purchase else None)),
    figure("price_date", "price.date"),
    figure("price_source", "price.source"),
    figure("price_tier", reads(str | None, lambda row: row.price and row.price.tier.value)),
    figure("price_known_by", "price.known_by"),
    figure("price_date_is", reads(str | None, lambda row: row.price and row.price.date_is.value)),
    figure("includes_server", reads(bool, lambda row: bool(row.option.purchase and row.option.purchase.includes_server))),
    figure("server_gpus", reads(int | None, lambda row: row.option.purchase and row.option.purchase.server_gpus),
        "the GPUs of the server that is quoted and bought whole; null where they are bought one by one"),
    figure("is_marketplace", reads(bool, lambda row: bool(row.option.rent and row.option.rent.is_marketplace))),
    figure("is_beside_sound", reads(bool, lambda row: bool(row.option.rent and row.option.rent.is_beside_sound)),
        "a cheaper offer of weaker evidence beside the sound one of its GPU and term"),
    figure("is_own_beside", reads(bool, lambda row: bool(row.option.rent and row.option.rent.is_own_beside)),
        "your own quote beside an offer that costs less"),
    figure("sku", "price.quote.sku", "the part number that a quote states"),
    figure("price_valid_until", "price.quote.valid_until", "the last day on which a quote's price holds"),
    figure("lead_time_days", "price.quote.lead_time_days", "from order to delivery"),
    figure("warranty_years", "price.quote.warranty_years"),
    figure("upfront_fraction", "option.rent.upfront_fraction",
        "the share of a commitment that is paid on the first day"),
    figure("minimum_s", "option.rent.minimum_s", "the shortest time that is charged"),
    figure("country", "option.rent.country", "where the machines stand"),
)
_EVIDENCE = (
    figure("speed_tier", reads(str, lambda row: row.speed.value)),
    figure("speed_evidence", "reason"),
    figure("concerns", reads(tuple[str, ...],
        lambda row: tuple(concern.value for concern in row.answer.standards.concerns(row.option)))),
    figure("certain_fit", reads(bool, lambda row: row.answer.standards.fits_certainly(row.option))),
    figure("violations", reads(tuple[str, ...], lambda row: row.answer.standards.violations(row.option)),
        "the caps that it exceeds"),
    figure("is_leading", reads(bool, lambda row: row.option.key in row.answer.leading), "the main table shows it"),
    figure("on_front", reads(bool, lambda row: row.option.key in row.answer.recommendation.front),
        "none is cheaper and faster"),
    figure("aged_factor", reads(float, lambda row: row.answer.standards.aged_factor(row.option)),
        "what its price may have risen by since it was current, by which it is ranked"),
)
_SPEED = (
    figure("batch", "option.operating_point.largest_batch"),
    figure("rate_per_gpu_per_s", "option.operating_point.rate_per_s"),
    figure("batch_latency_s", reads(Interval, lambda row: row.option.sizing.batch_latency_s)),
    figure("finish_s", "option.finish_s", "how long the fleet takes for one run; null for a service"),
    figure("host_limit", "host.name", "what limits how fast the host feeds one GPU"),
    figure("host_per_s", "host.rate_per_s", "what that feeds to one GPU at most"),
    figure("is_host_bound", _is_host_bound),
    figure("pcie_per_s", reads(float | None, lambda row: next((limit.rate_per_s for limit in row.candidate.host_limits if limit.name == PCIE), None)), "what PCIe alone would feed"),
    figure("scaling_fraction", _scaling_fraction,
        "the share of its rate that a GPU keeps beside the others of a training"),
    figure("link", _link, "over which GPUs that train together exchange gradients"),
    figure("rate_alone_per_s", "option.operating_point.parallel.alone_per_s"),
    figure("rate_within_server_per_s", "option.operating_point.parallel.within_per_s"),
    figure("rate_across_servers_per_s", "option.operating_point.parallel.across_per_s"),
)
_RESPONSE = (
    figure("latency_s", reads(Interval, lambda row: row.latencies_s[0]),
        "the percentile at today's peak with only the needed GPUs up, of jobs the time of a full batch; its ends are "
        "those of the simulation"),
    figure("latency_if_fast_s", reads(float, lambda row: row.latencies_s[1]),
        "at the low end of the estimate's interval"),
    figure("latency_if_slow_s", reads(float | None, lambda row: row.latencies_s[2]),
        "at its high end; null: work piles up without end"),
    figure("load_fraction", "option.sizing.response.load_fraction"),
    figure("busy_fraction", "option.sizing.response.busy_fraction"),
    figure("mean_batch", "option.sizing.response.batch"),
    figure("in_flight", _in_flight),
    figure("all_up_latency_s", "stress.all_up_s"),
    figure("all_up_load_fraction", "stress.all_up_load_fraction"),
    figure("one_down_latency_s", "stress.one_down_s"),
    figure("one_down_load_fraction", "stress.one_down_load_fraction"),
    figure("doubled_latency_s", "stress.doubled_s"),
)
_COUNT = (
    figure("reserve_factor", "option.reserve", "the fleet is sized for this many times the load"),
    figure("carried_fraction", reads(float | None, lambda row: row.answer.carried.get(row.option.key)),
        "the share of the scenarios that the fleet carries; null where no load is stated"),
    figure("gpus_needed", "option.fleet.need"),
    figure("gpus", "option.fleet.gpus"),
    figure("servers", "option.fleet.servers"),
    figure("needs_by_year", reads(tuple[int, ...], lambda row: tuple(fleet.need for fleet in row.option.fleets))),
    figure("gpus_by_year", reads(tuple[int, ...], lambda row: tuple(fleet.gpus for fleet in row.option.fleets))),
    figure("servers_by_year", reads(tuple[int, ...], lambda row: tuple(fleet.servers for fleet in row.option.fleets))),
    figure("server_slots", reads(int, lambda row: slots_of(row.option, row.answer.case.money)[0])),
    figure("full_servers", reads(bool, lambda row: slots_of(row.option, row.answer.case.money)[1])),
    figure("gpu_hours_by_year", "option.gpu_hours_by_year"),
    figure("samples_by_year", "option.samples_by_year"),
    figure("headroom_fraction", "option.headroom_fraction"),
    figure("spares", "option.fleet.spares"),
    figure("availability_fraction", reads(float, lambda row: reliability(row.answer.demand.load, row.answer.case.money).of_fleet(row.option.fleet))),
    figure("months_until_full", _months_until_full),
    figure("rack_units", "option.rack_units"),
)
_STATED = (
    figure("stated_gpus", "stated.fleet.gpus", "of the fleet for the load as stated"),
    figure("stated_gpus_last_year", reads(int, lambda row: row.stated.fleets[-1].gpus)),
    figure("stated_cost_usd_per_year", "stated.cost_per_year"),
)
_MEMORY = (
    figure("memory_bytes", "memory_bytes", "of one process at the batch that is run"),
    figure("usable_bytes"),
)
_POWER = (
    figure("tdp_w", "candidate.tdp_w"),
    figure("nameplate_w", "option.energy.nameplate_w", "every card at its limit and every host at full load"),
    figure("predicted_peak_w", "option.energy.peak_w", "what the law of power says of the busiest hour"),
    figure("average_w", "option.energy.average_w", "the mean over the year with hours in which the fleet idles"),
    figure("card_used_w", "option.energy.card_used_w", "the mean of one GPU while in use"),
    figure("card_rates_per_s", reads(tuple[float, ...], lambda row: row.curve.rates_per_s if row.curve else ())),
    figure("card_watts", reads(tuple[float, ...], lambda row: row.curve.watts if row.curve else ()),
        "what one GPU draws at those rates, linear between them"),
    figure("host_w", reads(float, lambda row: server_of(row.candidate.form_factor, row.answer.case.money).host_w),
        "one server without its GPUs at full load"),
    figure("is_board", reads(bool, lambda row: comes_on_boards(row.candidate.form_factor)), "its GPUs are modules"),
    figure("power_evidence", "candidate.power_evidence"),
    figure("energy_kwh_per_year", "option.energy.kwh_per_year"),
    figure("carbon_kg_per_year", "option.energy.use_kg_per_year"),
    figure("embodied_kg", "option.energy.embodied_kg"),
)
_MONEY = (
    figure("yearly_usd", reads(tuple[float, ...], lambda row: row.option.cost.yearly if row.option.cost else ()),
        "what is paid: first the first day, then each year"),
    figure("initial_usd", reads(float | None, lambda row: row.owned.initial if row.owned else 0.0 if row.option.cost else None)),
    figure("running_usd_per_year", _running_usd),
    figure("cost_usd_per_year", "option.cost_per_year"),
    figure("present_usd", "option.cost.present"),
    figure("total_usd", "option.cost.total"),
    figure("usd_per_million", "option.cost_per_million"),
    figure("residual_usd", "owned.residual"),
    figure("depreciation_usd_per_year", reads(float | None, lambda row: row.owned and straight_line(row.owned.initial, row.owned.residual, row.owned.years)), "what a purchase loses of its value a year, by equal amounts"),
    figure("break_even_hours_per_year", reads(float | None, lambda row: row.break_even and row.break_even[0]),
        "of use, above which buying beats renting on demand"),
    figure("break_even_against", reads(str | None, lambda row: row.break_even and row.break_even[1])),
    figure("breakdown_usd", "option.cost.breakdown"),
    figure("payback_years", reads(float | None, lambda row: payback_years(row.owned, row.best_rent[1]) if row.owned and row.best_rent else None)),
    figure("internal_return_fraction", reads(float | None, lambda row: internal_return(row.owned, row.best_rent[1]) if row.owned and row.best_rent else None),
        "the yearly rate at which a purchase is worth the rent that it saves; null where it saves less than it costs, and above 1,000 % a year"),
    figure("payback_against", reads(str | None, lambda row: row.best_rent[0] if row.owned and row.best_rent else None)),
)
OPTION: Final = Shape("OptionRow", DecidedOption, "One way to meet the load: a GPU, bought or rented. Amounts are US dollars before tax, null without a price.", (
    figure("key", "option.key"),
    figure("rank"),
    figure("gpu", "option.gpu"),
    figure("gpu_name", "candidate.name"),
    figure("segment", "candidate.segment"),
    figure("licence", "candidate.licence"),
    figure("porting", "candidate.porting"),
    *_OFFER, *_EVIDENCE, *_SPEED, *_RESPONSE, *_COUNT, *_STATED, *_MEMORY, *_POWER, *_MONEY,
))


_Pick = tuple[Sizing, OperatingPoint, ResponseCurve | None]
"""A GPU, one way to run it, and its response there, which services have."""


def _parallel_rates(pick: _Pick) -> tuple[float, float, float] | None:
    rates = pick[1].parallel
    return (rates.alone_per_s, rates.within_per_s, rates.across_per_s) if rates else None


def _of_rent(name: str, kind: Any, bought: Any = None) -> Typed:
    """Return how an attribute of a rent is read; `bought` stands for it where the offer is a purchase."""
    return reads(kind, lambda offer: getattr(offer.price, name) if isinstance(offer.price, Price) else bought)


PICK: Final = Shape("PickRow", _Pick, "What one GPU carries with one largest batch: for the page's choice of batch and load.", (
    figure("gpu", reads(str, lambda pick: pick[0].gpu)),
    figure("batch", reads(int, lambda pick: pick[1].largest_batch)),
    figure("rate_per_gpu_per_s", reads(float, lambda pick: pick[1].rate_per_s)),
    figure("capacity_per_s", reads(float, lambda pick: pick[2].capacity_per_s if pick[2] else pick[1].rate_per_s)),
    figure("loads", reads(tuple[float, ...], lambda pick: pick[2].loads if pick[2] else ())),
    figure("percentiles_s", reads(tuple[float, ...], lambda pick: pick[2].percentiles_s if pick[2] else ())),
    figure("parallel_rates_per_s", _parallel_rates, default=None),
))
MEASURED: Final = Shape("Measured", Measurement, "A time that was measured on a real GPU, for comparison with the estimate.", (
    figure("model", "model.name"),
    figure("gpu", reads(str, lambda point: point.device.gpu)),
    figure("batch", "workload.batch"),
    figure("latency_s", "latency.median"),
    figure("source", reads(str, lambda point: f"{point.device.name}, {point.workload.precision}, torch {point.device.torch}, {point.date.date()}")),
))
ROOF: Final = Shape("Roof", tuple[GpuSpec, float], "A GPU's printed limits for the number format asked about: what the roofline is drawn from.", (
    figure("gpu", reads(str, lambda roof: roof[0].id)),
    figure("gpu_name", reads(str, lambda roof: roof[0].name)),
    figure("peak_flops_per_s", reads(float, lambda roof: roof[1])),
    figure("bandwidth_bytes_per_s", reads(float, lambda roof: roof[0].memory_bandwidth_bytes_per_s)),
))
PAYBACK: Final = Shape("PaybackRow", Payback, "The best purchase against the best rent; `years` is None where it does not pay off within the years counted.", (
    figure("bought", "bought.key"),
    figure("rented", "rented.key"),
    figure("years"),
))
LEFT_OUT: Final = Shape("LeftOutOffer", ExcludedOffer, "An offer that no option rests on, and why. `price_usd` is of one GPU, by the hour for rents. [USD]", (
    figure("gpu", reads(str, lambda offer: offer.price.gpu)),
    figure("term", reads(str, lambda offer: offer.price.term.value if isinstance(offer.price, Price) else Term.BUY.value)),
    figure("provider", reads(str, lambda offer: offer.price.provider if isinstance(offer.price, Price) else offer.price.seller)),
    figure("region", _of_rent("region", str | None)),
    figure("instance", _of_rent("instance", str | None)),
    figure("price_usd", reads(float, lambda offer: offer.price.usd_per_hour if isinstance(offer.price, Price) else offer.price.usd)),
    figure("price_date", reads(date, lambda offer: offer.price.date)),
    figure("reason"),
    figure("instance_gpus", _of_rent("instance_gpus", int, 1), default=1),
    figure("is_sound", reads(bool, lambda offer, answer: not answer.standards.concerns_of_price(offer.price)), default=False),
    figure("price_tier", reads(str | None, lambda offer: offer.price.tier.value), default=None),
    figure("price_date_is", reads(str | None, lambda offer: offer.price.date_is.value), default=None),
    figure("includes_server", reads(bool, lambda offer: isinstance(offer.price, PurchasePrice) and offer.price.includes_server), default=False),
    figure("is_marketplace", _of_rent("is_marketplace", bool, bought=False), default=False),
))
SPEC_SOURCE: Final = Shape("SpecSource", tuple[str, str, Figure], "Where a GPU's figures were read.", (
    figure("gpu", reads(str, lambda read: read[0])),
    figure("field", reads(str, lambda read: read[1])),
    figure("figure", reads(str, lambda read: read[2].text)),
    figure("source", reads(str, lambda read: "; ".join(source.title for source in read[2].sources))),
    figure("retrieved", reads(date | None, lambda read: max((source.retrieved for source in read[2].sources if source.retrieved), default=None))),
    figure("url", reads(str | None, lambda read: next((source.url for source in read[2].sources if source.url), None)), default=None),
))
FLEET_OPTION: Final = Shape("FleetOptionRow", FleetOption, "All services on GPUs of one kind, under one term.", (
    figure("key"),
    figure("gpu"),
    figure("gpu_name", "option.sizing.capacity.candidate.name"),
    figure("term", reads(str, lambda made: made.term.value if made.term else "no price")),
    figure("provider", _provider),
    figure("sharing", reads(str, lambda made: made.packing.sharing.value)),
    figure("needed", "packing.gpus"),
    figure("whole", reads(Mapping[str, int], lambda made: dict(made.packing.whole))),
    figure("shared", "packing.shared"),
    *map(figure, ("gpus_by_year", "owned", "added_by_year")),
    figure("yearly_usd", reads(tuple[float, ...], lambda made: made.cost.yearly if made.cost else ())),
    figure("cost_usd_per_year", "cost.per_year"),
    figure("total_usd", "cost.total"),
    figure("present_usd", "cost.present", default=None),
    figure("residual_usd", reads(float | None, lambda made: made.cost.residual if isinstance(made.cost, OwnedCost) else None), default=None),
    figure("upfront_fraction", "option.rent.upfront_fraction", default=None),
    figure("country", "option.rent.country", default=None),
    figure("average_w", "energy.average_w", default=None),
    figure("energy_kwh_per_year", "energy.kwh_per_year", default=None),
    figure("carbon_kg_per_year", "energy.use_kg_per_year", default=None),
    figure("power_w", default=None),
    figure("rack_units", default=None),
    figure("violations", reads(tuple[str, ...], lambda made, fleet: violations_of(made, fleet.services)), default=()),
    figure("concerns", reads(tuple[str, ...], lambda made, fleet: tuple(
        concern.value for concern in concerns_of(made, fleet.services))), default=()),
))
# fmt: on


def is_bought(row: "OptionRow") -> bool:
    """Return True if the GPUs are bought, not rented."""
    return row.term == Term.BUY


def has_reserve(row: "OptionRow") -> bool:
    """Return True if the fleet is larger than the one for the load as stated."""
    return (row.gpus, row.gpus_by_year[-1]) != (row.stated_gpus, row.stated_gpus_last_year)
