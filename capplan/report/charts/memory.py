"""Live bytes over the operators as a chart."""

from collections.abc import Sequence
from typing import Any

from capplan.report.charts.look import LIMIT, MUTED, PALETTE, Drawing, data, drawing
from capplan.units import format_bytes

_MOST_POINTS = 1500


def live_chart(
    live_bytes: Sequence[int], *, title: str, peak_label: str, phases: Sequence[tuple[str, int]] = ()
) -> Drawing:
    """Draw live bytes over the operators, with the peak marked.

    Args:
        live_bytes: Bytes held after each operator call. [bytes]
        title: What the chart shows.
        peak_label: Where the peak stands.
        phases: Names with the operator at which each starts.
    """
    import altair as alt  # noqa: PLC0415 - an optional package, wanted for charts alone

    most = max(live_bytes)
    scale, unit = (2**30, "GiB") if most >= 2**30 else (2**20, "MiB")
    x = alt.X("call:Q", title="operator calls")
    y = alt.Y("size:Q", title=f"live {unit}")
    rows = [{"call": call, "size": size / scale} for call, size in _thinned(live_bytes)]
    area = alt.Chart(data(rows, "live")).mark_area(
        color=PALETTE[0], opacity=0.25, line={"color": PALETTE[0], "strokeWidth": 1.2}
    )
    peak = {"call": live_bytes.index(most), "size": most / scale, "words": f"{format_bytes(most)} at {peak_label}"}
    is_late = live_bytes.index(most) > len(live_bytes) / 2
    mark = alt.Chart(data([peak], "peak"))
    layers: list[Any] = [
        area.encode(x=x, y=y),
        mark.mark_circle(color=LIMIT, size=60, opacity=1).encode(x=x, y=y),
        mark.mark_text(color=LIMIT, dy=-10, dx=-6 if is_late else 6, align="right" if is_late else "left").encode(
            x=x, y=y, text="words:N"
        ),
    ]
    if phases:
        starts = alt.Chart(data([{"phase": name, "call": call} for name, call in phases], "phases"))
        layers.append(starts.mark_rule(color=MUTED, strokeDash=[4, 3]).encode(x=x))
        layers.append(
            starts.mark_text(align="left", dx=3, dy=10, color=MUTED).encode(x=x, y=alt.value(0), text="phase:N")
        )
    return drawing(alt.layer(*layers), title=title)


def _thinned(live_bytes: Sequence[int]) -> list[tuple[int, int]]:
    """Keep the highest operator of each stretch, so that no peak is lost."""
    stretch = max(1, len(live_bytes) // _MOST_POINTS)
    kept = []
    for start in range(0, len(live_bytes), stretch):
        piece = live_bytes[start : start + stretch]
        highest = max(range(len(piece)), key=piece.__getitem__)
        kept.append((start + highest, piece[highest]))
    return kept
