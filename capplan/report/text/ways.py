"""Four ways to serve one load, as sections and on one screen."""

from dataclasses import replace

from capplan.core.numbers import Interval
from capplan.core.scaling.answer import ServingWays
from capplan.report.charts.look import Drawing
from capplan.report.charts.picture import vector
from capplan.report.charts.series import Axes, Series, series_chart
from capplan.report.sections import Block, LineRole, Lines, Picture, Section, Table, figure, shape_columns, shape_data
from capplan.shapes.ways import WAY
from capplan.units import format_seconds


def ways_section(ways: ServingWays) -> Section:
    """Return the ways, the cheapest that keeps the limits first, and the loads at which the order changes."""
    columns = [*shape_columns(WAY, ways.costs, whole=ways), *shape_data(WAY, ways.costs, whole=ways)]
    columns.insert(1, figure("USD/month", lambda row: row.usd_per_month, _money, unknown="unknown"))
    headline = (
        f"{ways.requests_per_day:,.0f} requests a day in the mean, {ways.peak_per_s:.3g}/s at most; {ways.share:.0%} "
        f"of them are to keep the limits. A replica starts in {ways.start_s.to_text(format_seconds)}."
    )
    blocks: list[Block] = [Lines([headline]), Table(columns, ways.costs)]
    if ways.crossings:
        blocks.append(Lines(["What would change the choice, with the same shape of the week:"]))
        items = [
            f"from {one.requests_per_day:,.0f} requests a day on {one.above.value} costs less than {one.below.value}"
            for one in ways.crossings
        ]
        blocks.append(Lines(items, role=LineRole.LIST, is_attached=True))
    if ways.notes:
        blocks.append(Lines(ways.notes, role=LineRole.LIST))
    return Section(blocks)


def ways_report(ways: ServingWays) -> Section:
    """Return the ways as a section of a report, with the chart of their costs over the load."""
    chart = Picture(svg=vector(ways_chart(ways)), shows="cost of a month over the requests of a day, by way")
    section = ways_section(ways)
    return replace(section, blocks=[chart, *section.blocks], key="ways", title="Ways to serve the load of a week")


def ways_chart(ways: ServingWays) -> Drawing:
    """Draw what each way costs a month over the requests of a day."""
    return series_chart(
        [Series(label=curve.way.value, points=curve.points) for curve in ways.curves],
        title="Cost of a month over the load",
        subtitle=f"the shape of the week as it is; asked for: {ways.requests_per_day:,.0f} requests a day",
        axes=Axes(x_title="requests a day", y_title="USD a month"),
    )


def _money(month: Interval) -> str:
    return month.to_text(lambda usd: f"{usd:,.0f}" if usd >= 10 else f"{usd:.2f}")
