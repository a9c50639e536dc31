"""The report's chart of fleets for several services: what each kind of GPU adds to the cost of a year."""

from collections.abc import Sequence
from typing import Any

from capplan.report.charts.look import MUTED, PALETTE, SHORT_LABEL, data, drawing, legend, two_lines
from capplan.report.procurement import figures
from capplan.report.procurement.types import Chart, FleetOptionRow, FleetRow, Report
from capplan.report.render import grid
from capplan.report.sections import Column, figure, words

_BARS = 8
_KINDS = ("recommended", "full evidence", "weaker evidence or over a cap")


def fleets_chart(report: Report) -> Chart | None:
    """Draw what the fleets that carry all services cost per year; None where none has a price."""
    import altair as alt  # noqa: PLC0415 - an optional package, wanted for charts alone

    fleet = report.fleet
    shown = shown_fleets(fleet) if fleet else []
    if fleet is None or not shown:
        return None
    rows: list[dict[str, Any]] = [
        {
            "bar": "|".join(_name(each)),
            "usd": each.cost_usd_per_year, "kind": kind_of(fleet, each), "words": _words(each),
        }
        for each in shown
    ]  # fmt: skip
    colour = alt.Color(
        "kind:N", scale=alt.Scale(domain=list(_KINDS), range=[PALETTE[1], PALETTE[0], MUTED]), title=None,
        legend=legend(_KINDS),
    )  # fmt: skip
    most = max(each.cost_usd_per_year or 0.0 for each in shown) or 1.0
    x = alt.X(
        "usd:Q", title="USD per year", scale=alt.Scale(domain=[0, _NAME_ROOM * most], nice=False),
        axis=alt.Axis(tickCount=5, labelExpr=SHORT_LABEL),
    )  # fmt: skip
    y = alt.Y("bar:N", title=None, sort=None, axis=two_lines())
    inside = [row for row in rows if (row["usd"] or 0.0) > most / 2]
    beside = [row for row in rows if row not in inside]
    layers = alt.layer(
        alt.Chart(data(rows, "fleets")).mark_bar(height=18).encode(x=x, y=y, color=colour),
        alt.Chart(data(beside, "beside"))
        .mark_text(align="left", dx=6, color="#3d444d")
        .encode(x=x, y=y, text="words:N"),
        alt.Chart(data(inside, "inside"))
        .mark_text(align="right", dx=-6, color="#ffffff")
        .encode(x=x, y=y, text="words:N"),
    )
    columns: list[Column[FleetOptionRow]] = [
        words("fleet", lambda row: " ".join(_name(row))),
        figure("GPUs owned", lambda row: row.owned),
        figure("GPUs added", lambda row: row.added_by_year[0]),
        figure("USD per year", lambda row: row.cost_usd_per_year or 0.0, "{:,.0f}".format),
    ]
    return Chart(
        identity="fleet-cost", title="Cost of one fleet for all services",
        description=f"Cost per year of {len(shown)} fleets, each of one kind of GPU; the recommended one is first.",
        caption="Owned GPUs cost what keeps them running. Best first: weak evidence comes last, and an old price "
        "counts as a higher one.",
        drawing=drawing(layers, height=38 * len(shown) + 10), data=grid(columns, shown),
    )  # fmt: skip


_NAME_ROOM = 1.05
"""How much longer the axis is than the longest bar; the words of long bars stand within them."""


def shown_fleets(fleet: FleetRow) -> list[FleetOptionRow]:
    """Return the first fleets with a price, the recommended one before the others."""
    priced: Sequence[FleetOptionRow] = [option for option in fleet.options if option.cost_usd_per_year is not None]
    return sorted(priced, key=lambda each: each.key != fleet.choice)[:_BARS]


def _name(each: FleetOptionRow) -> tuple[str, str]:
    """Return the GPU, and the term with who rents or sells it; two offers of one term are two bars."""
    gpu = each.gpu_name.removeprefix("NVIDIA ")
    if not any(each.added_by_year):
        return gpu, "owned"
    return gpu, ", ".join(word for word in (figures.term_words(each.term), each.provider) if word)


def kind_of(fleet: FleetRow, each: FleetOptionRow) -> str:
    """Return whether a fleet is the recommended one, rests on full evidence, or has something against it."""
    if each.key == fleet.choice:
        return _KINDS[0]
    return _KINDS[2] if each.concerns or each.violations else _KINDS[1]


def _words(each: FleetOptionRow) -> str:
    added = each.added_by_year[0]
    count = f"{added} GPUs" if not each.owned else f"{added} + {each.owned} owned" if added else f"{each.owned} owned"
    return f"{each.cost_usd_per_year or 0:,.0f} ({count})"
