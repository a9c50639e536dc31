"""Who should check what before the decision is signed, from what the report itself leaves open."""

from collections.abc import Iterator, Mapping
from math import ceil
from typing import NamedTuple

from capplan.core.gpus.prices import Term
from capplan.core.serving.load import Job, Load, OneGpu, Service, TrainingPurchase
from capplan.report.narrow import Grid
from capplan.report.procurement import figures
from capplan.report.procurement.types import ModelReport, Report
from capplan.report.render import grid
from capplan.report.sections import Column, words
from capplan.shapes.procurement import is_bought
from capplan.shapes.types import FleetOptionRow, OptionRow
from capplan.units import counted

CHECKS_TITLE = "Who should check what before signing"


class Check(NamedTuple):
    """Something that somebody must look at: who, what, and how it is settled."""

    who: str
    what: str
    how: str


def checks_table(report: Report) -> Grid | None:
    """List what is left to be checked of the options that are recommended; None where none is."""
    choice = report.fleet.choice if report.fleet else None
    signed = [(model, model.option(choice if report.fleet else model.verdict.choice)) for model in report.models]
    found = dict.fromkeys(check for model, option in signed if option for check in _checks(report, model, option))
    return grid(CHECKS, list(found)) if found else None


CHECKS: tuple[Column[Check], ...] = (
    words("who", lambda check: check.who),
    words("what", lambda check: check.what),
    words("how", lambda check: check.how),
)


def _checks(report: Report, model: ModelReport, option: OptionRow) -> Iterator[Check]:
    """Yield what to check of a model's option; with a fleet for all services, its price and size are the fleet's."""
    name = option.gpu_name
    fleet = report.fleet.option(option.key) if report.fleet else None
    is_paid = option.price_usd is not None and (fleet is None or any(fleet.added_by_year))
    if option.speed_tier != "measured":
        yield Check(
            "engineering",
            f"speed of {name}: {option.speed_evidence or option.speed_tier}",
            "rent one for an hour, run capplan measure on it and pass its file to ⟨measured⟩",
        )
    what, how = _LOADS[type(report.of(model).demand.load)]
    yield Check("engineering", what, how)
    if is_paid:
        yield Check(
            "procurement",
            f"price of {figures.offer(option)}: {figures.price(option)} of {option.price_date}, "
            f"{option.price_known_by}",
            "ask for a written quote with its validity; capplan prices import reads it",
        )
        yield from _site(option, fleet)
    yield Check(
        "finance",
        f"discount rate, {counted(report.demand.money.years, 'year')}, residual value, tax: amounts are before tax and "
        f"in {report.currency}",
        "state your own under assumptions; add VAT and depreciation",
    )
    if option.licence is not None:
        yield Check("legal", f"driver licence of {name}", option.licence)
    if option.porting is not None:
        yield Check("engineering", f"software on {name}", f"it {option.porting}")
    if is_paid and (option.is_marketplace or option.term == Term.SPOT):
        yield Check("legal", "a third-party host, or capacity that may be reclaimed", "read the terms of service")


_CHANGE = "change them in the load file or on the report's page"
_LOADS: Mapping[type[Load], tuple[str, str]] = {
    Service: (
        "peak, mean and growth of the load, the latency limit", f"compare with a week of your own logs; {_CHANGE}"
    ),
    Job: ("samples, runs a year and growth of the job, its deadline", f"compare with earlier runs; {_CHANGE}"),
    TrainingPurchase: ("samples, epochs and runs a year, the deadline", f"compare with earlier runs; {_CHANGE}"),
    OneGpu: ("no load is stated: one GPU of each kind is compared, always busy", "state it in a load file"),
}  # fmt: skip
"""What to check of each kind of load, and how."""


def _site(option: OptionRow, fleet: FleetOptionRow | None) -> Iterator[Check]:
    """Yield what a site must provide for servers that are bought, or a provider for those that are rented."""
    if not is_bought(option):
        servers = ceil(fleet.added_by_year[0] / option.server_slots) if fleet else option.servers
        yield Check(
            "operations",
            f"quota for {servers} × {figures.offer(option)}",
            "ask how long it takes to get them, and whether data may be processed there",
        )
        return
    nameplate_w = fleet.power_w if fleet else option.nameplate_w
    peak_w = None if fleet else option.predicted_peak_w
    if nameplate_w is not None:
        predicted = "" if peak_w is None else f", {peak_w / 1000:.2f} kW predicted at the busiest hour"
        units = (fleet.rack_units if fleet else option.rack_units) or 0
        yield Check(
            "operations",
            f"{nameplate_w / 1000:.2f} kW nameplate{predicted}, {counted(units, 'rack unit')}",
            "confirm circuits, cooling and space with the site",
        )
    lead = option.lead_time_days
    when = "not stated" if lead is None else f"{lead:g} day{'s' * (lead != 1)}"
    yield Check("procurement", f"delivery ({when}), warranty, servers that hold the GPUs", "ask the seller in writing")
