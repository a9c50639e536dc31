"""The money and the hand-over of a planned fleet for people."""

from collections.abc import Iterator

from capplan.core.economics.cost import OwnedCost
from capplan.llm.core.fleet.launch import Launch
from capplan.llm.core.fleet.money import FleetMoney, PaymentOption
from capplan.llm.core.fleet.planned import PlannedFleet
from capplan.report.table import Table, render_text, table
from capplan.units import format_fraction


def fleet_text(fleet: PlannedFleet, *, launch: bool) -> str:
    """Lay out what a plan's recommended deployment costs, and on request how it is launched.

    Args:
        fleet: The plan with its money and hand-over.
        launch: True to write out the command and why each option stands there.
    """
    parts = [f"  {line}\n" for line in money_lines(fleet)]
    if launch and fleet.launch is not None:
        parts.append(f"\n{launch_text(fleet.launch)}")
    return "".join(parts)


def money_lines(fleet: PlannedFleet) -> Iterator[str]:
    """Yield the money of the recommended deployment in sentences."""
    best, money = fleet.plan.recommended, fleet.money
    if best is None or money is None:
        return
    split = best.split_usd_per_million
    if split is not None:
        yield (
            f"Money: {split[0]:.3g} USD per million input and {split[1]:.3g} per million output tokens, divided by "
            f"busy time; {best.usd_per_million_output_tokens:.3g} with all of it on the output"
        )
    if money.joules_per_output_token is not None:
        yield (
            f"Energy: {money.joules_per_output_token:.3g} J per output token, "
            f"{money.joules_per_output_token / 3.6:.3g} kWh per million, from the socket of the building"
        )
    if money.payments:
        first = money.payments[0]
        others = ", ".join(f"{each.term.value} {each.usd_per_year:,.0f}" for each in money.payments[1:])
        yield (
            f"Paying over {money.counted_years} years: {first.term.value} is cheapest at {first.usd_per_year:,.0f} USD "
            f"a year ({first.seller}){'; ' if others else ''}{others}"
        )
    last = money.years[-1]
    if money.growth_fraction:
        yield (
            f"Growth of {format_fraction(money.growth_fraction)} a year: {last.gpus} GPUs at the end of year "
            f"{last.year} for {last.rate_per_s:.3g} requests/s"
        )
    if money.api is not None:
        yield api_line(money)


def api_line(money: FleetMoney) -> str:
    """Return how a fleet compares with an API, in one sentence."""
    api = money.api
    if api is None:
        return ""
    answer = (
        f"the fleet is cheaper from {api.break_even_per_s:.3g} requests/s on"
        if api.break_even_per_s is not None
        else "the fleet is never cheaper, because a full replica costs more than the API asks for what it serves"
    )
    return (
        f"API: {api.usd_per_hour:,.2f} USD/h at this load against {api.fleet_usd_per_hour:,.2f} for the fleet; {answer}"
    )


def payment_table(money: FleetMoney) -> Table:
    """Lay out every way to pay, the cheapest first."""
    heads = "term|price per GPU>|seller|day|first day>|USD per year>|USD/M output tokens>"
    return table(heads, [_payment_row(each) for each in money.payments])


def _payment_row(each: PaymentOption) -> tuple[str, ...]:
    owned = isinstance(each.cost, OwnedCost)
    seller = f"{each.seller} (marketplace)" if each.is_marketplace else each.seller
    return (
        each.term.value,
        f"{each.usd_per_gpu:,.0f} USD" if owned else f"{each.usd_per_gpu:,.2f} USD/h",
        seller,
        each.day,
        f"{each.cost.initial:,.0f}" if isinstance(each.cost, OwnedCost) else "0",
        f"{each.usd_per_year:,.0f}",
        f"{each.usd_per_million_output_tokens:.3g}",
    )


def growth_table(money: FleetMoney) -> Table:
    """Lay out the fleet of today and of each year's end."""
    rows = [
        (
            "today" if fleet.year == 0 else f"end of year {fleet.year}",
            f"{fleet.rate_per_s:.3g}",
            str(fleet.needed),
            str(fleet.replicas),
            str(fleet.gpus),
        )
        for fleet in money.years
    ]
    return table("when|requests/s>|replicas needed>|with redundancy>|GPUs>", rows)


def launch_text(launch: Launch) -> str:
    """Write out a launch command, its options with their reasons, and its files."""
    parts = [f"{launch.command}\n\n", render_text(launch_table(launch))]
    parts += [f"\n{name}:\n{text}" for name, text in launch.files]
    parts += [f"  · {note}\n" for note in launch.notes]
    return "".join(parts)


def launch_table(launch: Launch) -> Table:
    """Lay out the options of a launch command with their reasons."""
    return table("option|value|why", [(each.option, each.value or "", each.why) for each in launch.options])
