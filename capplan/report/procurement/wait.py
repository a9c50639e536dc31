"""The report's part on waiting for hardware that is not sold yet: one sentence, one table, and what they rest on."""

from capplan.report.narrow import Grid
from capplan.report.procurement import figures
from capplan.report.procurement.types import ModelReport, WaitOrBuy, WaitRow
from capplan.report.render import grid
from capplan.report.sections import Column, figure, words
from capplan.units import counted

WAIT_TITLE = "Wait or buy"


def wait_sentence(wait: WaitOrBuy) -> str:
    """Return whether waiting saves, in a sentence: at every price, at none, or below which."""
    over = f"over {counted(round(wait.years), 'year')}"
    low, high = wait.rows[0].saved_if_latest_usd, wait.rows[-1].saved_if_latest_usd
    most = wait.break_even_usd_per_hour
    at_most = "" if most is None else f" It saves below {figures.money(most)} USD per GPU-hour."
    if high > 0:
        found = f"Waiting for {wait.gpu_name} saves {_between(high, low)} USD {over}.{at_most}"
    elif low <= 0:
        found = f"Waiting for {wait.gpu_name} does not save: it costs {_between(-low, -high)} USD more {over}.{at_most}"
    else:
        found = (
            f"Waiting for {wait.gpu_name} may save up to {figures.headline_money(low)} USD or cost up to "
            f"{figures.headline_money(-high)} USD more {over}.{at_most}"
        )
    return f"{found} {_lost_words(wait)}"


def _between(low: float, high: float) -> str:
    least, most = figures.headline_money(low), figures.headline_money(high)
    return least if least == most else f"{least} to {most}"


def _lost_words(wait: WaitOrBuy) -> str:
    """Return in words what the time until the hardware is there costs."""
    lost = wait.lost_usd or 0.0
    if abs(lost) < 1:
        return "Nothing is lost by the time of waiting: what is recommended now can be given back at any hour."
    until = f"until {wait.expected_last}"
    if lost < 0:
        return f"Renting by the hour {until} costs {figures.headline_money(-lost)} USD less than what is taken now."
    return f"Lost by waiting {until}: {figures.headline_money(lost)} USD, for a rent by the hour in the meantime."


def wait_words(model: ModelReport, wait: WaitOrBuy) -> list[str]:
    """Return in words what the comparison rests on, a line for each kind of figure."""
    lines = [f"It is expected {wait.day_is}."]
    if wait.status_is is not None:
        lines.append(f"{wait.status_is}.")
    if not wait.rows:
        return lines
    now, bridge = (figures.option_name(model.option(key)) for key in (wait.now, wait.bridge))
    lines += [
        f"Now: {now} at {figures.money(wait.now_usd_per_year)} USD a year. In the meantime: {bridge} at "
        f"{figures.money(wait.bridge_usd_per_year)} USD a year.",
        f"{figures.capitalised(wait.price_is or '')}; rented in machines of {counted(wait.machine_gpus or 1, 'GPU')}.",
        f"Its speed is an estimate ({wait.speed_is}), and the fleet is sized for the same certainty as all others. "
        "Costs a year are the mean over the years counted, undiscounted; nothing is said of buying it, since no price "
        "and no power limit are known.",
    ]
    return lines


def wait_table(wait: WaitOrBuy) -> Grid | None:
    """List what waiting comes to at each price."""
    return grid(_COLUMNS, wait.rows) if wait.rows else None


_COLUMNS: tuple[Column[WaitRow], ...] = (
    words("price", lambda row: row.price_end),
    figure("USD per GPU-hour", lambda row: figures.money(row.price_usd_per_hour)),
    figure("GPUs", lambda row: figures.whole(row.gpus)),
    figure("USD per year", lambda row: f"{row.cost_usd_per_year:,.0f}"),
    figure("saved if it comes first, USD", lambda row: f"{row.saved_if_soonest_usd:,.0f}"),
    figure("saved if it comes last, USD", lambda row: f"{row.saved_if_latest_usd:,.0f}"),
    words("saves if it comes by", lambda row: str(row.saves_if_sold_by or "never")),
    words("has paid back on", lambda row: str(row.paid_back_on or "not in the years counted")),
)
