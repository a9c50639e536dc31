"""The parts of a pipeline over time, as high as the memory of the process while each runs."""

from collections.abc import Sequence

from capplan.core.plan.types import PartTime
from capplan.report.charts.look import LIMIT, PALETTE, Drawing, data, drawing, legend
from capplan.units import format_bytes, format_seconds


def timeline_chart(parts: Sequence[PartTime], *, title: str, usable_bytes: float) -> Drawing:
    """Draw the parts of one batch of items, each from its start; those of a CPU are as high as a line.

    Args:
        parts: the parts in the order in which they run.
        title: what the chart shows.
        usable_bytes: the memory of the GPU that may be filled, drawn as a line. [bytes]
    """
    import altair as alt  # noqa: PLC0415 - an optional package, wanted for charts alone

    rows, last = [], max((part.start_s + part.total_s for part in parts), default=0.0)
    for part in parts:
        label = (
            f"{part.name}: {part.times:g} × {format_seconds(part.total_s / part.times)}" if part.times else part.name
        )
        rows.append({
            "part": label, "start": part.start_s, "end": part.start_s + part.total_s, "none": 0.0,
            "memory": part.peak_bytes / 2**30, "words": format_bytes(part.peak_bytes),
        })  # fmt: skip
    labels = [str(row["part"]) for row in rows]
    bars = alt.Chart(data(rows, "parts")).mark_rect(opacity=0.75, stroke="white", strokeWidth=0.5)
    limit = alt.Chart(data([{"limit": usable_bytes / 2**30}], "limit"))
    chart = alt.layer(
        bars.encode(
            x=alt.X("start:Q", title="seconds", scale=alt.Scale(domain=[0, last])),
            x2="end:Q",
            y=alt.Y("memory:Q", title="memory of the process, GiB"),
            y2="none:Q",
            color=alt.Color(
                "part:N",
                scale=alt.Scale(domain=labels, range=[PALETTE[index % len(PALETTE)] for index in range(len(labels))]),
                legend=legend(labels),
            ),
        ),
        limit.mark_rule(color=LIMIT, strokeDash=[4, 3]).encode(y="limit:Q"),
    )
    return drawing(chart, title=title, subtitle="dashed: the memory that may be filled")
