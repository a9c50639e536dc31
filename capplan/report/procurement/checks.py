"""Who should check what before the decision is signed, from what the report itself leaves open."""

from collections.abc import Iterator
from typing import NamedTuple

from capplan.core.gpus.prices import Term
from capplan.report.narrow import Grid
from capplan.report.procurement import figures
from capplan.report.procurement.types import OptionRow, Report
from capplan.report.render import grid
from capplan.report.sections import Column, words

CHECKS_TITLE = "Who should check what before signing"


class Check(NamedTuple):
    """Something that somebody must look at: who, what, and how it is settled."""

    who: str
    what: str
    how: str


def checks_table(report: Report) -> Grid | None:
    """List what is left to be checked of the options that are recommended; None where none is."""
    found = dict.fromkeys(check for option in _chosen(report) for check in _checks(report, option))
    return grid(CHECKS, list(found)) if found else None


CHECKS: tuple[Column[Check], ...] = (
    words("who", lambda check: check.who),
    words("what", lambda check: check.what),
    words("how", lambda check: check.how),
)


def _chosen(report: Report) -> list[OptionRow]:
    """Return the options that a signature stands for: the fleet's, else each model's."""
    if report.fleet is not None:
        keys = [(model, report.fleet.choice) for model in report.models[:1]]
    else:
        keys = [(model, model.verdict.choice) for model in report.models]
    return [option for model, key in keys if (option := model.option(key)) is not None]


def _checks(report: Report, option: OptionRow) -> Iterator[Check]:
    name, offer = option.gpu_name, option.offer
    if option.evidence.speed_tier != "measured":
        yield Check(
            "engineering",
            f"speed of {name}: {option.evidence.speed_evidence or option.evidence.speed_tier}",
            "rent one for an hour, run capplan measure on it and pass its file to --measured",
        )
    yield Check(
        "engineering",
        "peak, mean and growth of the load, the latency limit",
        "compare with a week of your own logs; change them on this page or in the load file",
    )
    if offer.price_usd is not None:
        yield Check(
            "procurement",
            f"price of {figures.offer(option)}: {figures.price(option)} of {offer.price_date}, {offer.price_known_by}",
            "ask for a written quote with its validity; capplan prices import reads it",
        )
        yield from _site(option)
    yield Check(
        "finance",
        f"discount rate, {report.demand.money.years} years, residual value, tax: amounts are before tax and in "
        f"{report.currency}",
        "state your own under assumptions; add VAT and depreciation",
    )
    if option.licence is not None:
        yield Check("legal", f"driver licence of {name}", option.licence)
    if option.porting is not None:
        yield Check("engineering", f"software on {name}", f"it {option.porting}")
    if offer.is_marketplace or offer.term == Term.SPOT:
        yield Check("legal", "a third-party host, or capacity that may be reclaimed", "read the terms of service")


def _site(option: OptionRow) -> Iterator[Check]:
    """Yield what a site must provide for servers that are bought, or a provider for those that are rented."""
    if not option.is_bought:
        yield Check(
            "operations",
            f"quota for {option.count.servers} × {figures.offer(option)}",
            "ask how long it takes to get them, and whether data may be processed there",
        )
        return
    power = option.power
    if power.nameplate_w is not None and power.predicted_peak_w is not None:
        yield Check(
            "operations",
            f"{power.nameplate_w / 1000:.2f} kW nameplate, {power.predicted_peak_w / 1000:.2f} kW predicted at the "
            f"busiest hour, {option.count.rack_units or 0} rack units",
            "confirm circuits, cooling and space with the site",
        )
    lead = option.offer.lead_time_days
    when = f"{lead:g} days" if lead is not None else "not stated"
    yield Check("procurement", f"delivery ({when}), warranty, servers that hold the GPUs", "ask the seller in writing")
