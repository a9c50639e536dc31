"""Simulations of LLM serving for people: a table of loads, where the replica is saturated, and a plot."""

from capplan.llm.core.simulation.load_answer import LoadAnswer, Percentiles
from capplan.llm.core.simulation.simulation import Simulation
from capplan.report.charts.look import Drawing
from capplan.report.charts.series import Axes, Series, series_chart
from capplan.report.table import Table, render_text, table
from capplan.units import format_fraction, format_rate, format_seconds

_HEADS = (
    "req/s>|clients>|load>|TTFT mean>|p50>|p90>|p99>|TPOT mean>|p99>|ITL p50>|p99>|E2E mean>|p99>|tokens/s>|per GPU>|"
    "per user>|within limits>|preempted>|keeps up"
)
_NEAR = 0.85
"""Share of the saturation rate from which a replica is called near saturation."""


def simulation_text(found: Simulation) -> str:
    """Lay simulated loads out for the terminal."""
    head = (
        f"{found.model} on one replica of {found.gpus} × {found.gpu}, {found.engine}: "
        f"{found.sequences_that_fit:,.0f} sequences fit, full at {found.saturation_rate_per_s:.3g} requests/s\n\n"
    )
    notes = [
        "TTFT from arrival to the first token; TPOT = (end to end − TTFT) ÷ (output tokens − 1), per request; "
        "ITL between any two tokens; end to end ÷ output tokens (inclusive TPOT) is in --json.",
        saturation_line(found),
        *found.notes,
    ]
    return head + render_text(simulation_table(found)) + "".join(f"{note}\n" for note in notes)


def saturation_line(found: Simulation) -> str:
    """Return in one sentence from which load on the replica is saturated."""
    overload = found.saturated_from_per_s
    if overload is not None:
        return (
            f"From {overload:.3g} requests/s on, work piles up: the replica is saturated, and the times above say how "
            "long the simulation was, not what users see."
        )
    highest = max((found.load_fraction(each) for each in found.answers if each.clients is None), default=0.0)
    if highest >= _NEAR:
        return f"The highest load is near saturation ({format_fraction(highest)} of the full replica's rate)."
    return "The replica keeps up with every load."


def simulation_table(found: Simulation) -> Table:
    """Lay simulated loads out as a table; columns without values are left out."""
    heads = _HEADS if not any(each.label for each in found.answers) else f"hours|{_HEADS}"
    rows = [_load_row(each, found) for each in found.answers]
    if any(each.label for each in found.answers):
        rows = [(each.label, *row) for each, row in zip(found.answers, rows, strict=True)]
    columns = heads.split("|")
    kept = [index for index in range(len(columns)) if any(row[index] for row in rows)]
    return table("|".join(columns[index] for index in kept), [tuple(row[index] for index in kept) for row in rows])


def _load_row(each: LoadAnswer, found: Simulation) -> tuple[str, ...]:
    return (
        f"{each.rate_per_s:.3g}",
        "" if each.clients is None else str(each.clients),
        format_fraction(found.load_fraction(each)) if each.clients is None else "",
        *_times(each.ttft_s, "mean", "p50", "p90", "p99"),
        *_times(each.tpot_s, "mean", "p99"),
        *_times(each.itl_s, "p50", "p99"),
        *_times(each.e2e_s, "mean", "p99"),
        format_rate(each.output_tokens_per_s),
        format_rate(each.output_tokens_per_s / found.gpus),
        "" if each.output_tokens_per_s_per_user is None else format_rate(each.output_tokens_per_s_per_user),
        "" if each.goodput_fraction is None else format_fraction(each.goodput_fraction),
        str(each.preemptions) if each.preemptions else "",
        "yes" if each.keeps_up else "no",
    )


def _times(found: Percentiles | None, *names: str) -> tuple[str, ...]:
    return tuple("" if found is None else format_seconds(getattr(found, name)) for name in names)


def simulation_chart(found: Simulation) -> Drawing:
    """Draw TTFT, TPOT and their limits over the load, on logarithmic axes.

    Args:
        found: The simulated loads.
    """
    loads = [(float(each.clients or 0) or each.rate_per_s, each) for each in found.answers]
    curves = [
        ("TTFT, mean", [(x, each.ttft_s.mean) for x, each in loads]),
        ("TTFT, p99", [(x, each.ttft_s.p99) for x, each in loads]),
        ("TPOT, mean", [(x, each.tpot_s.mean) for x, each in loads]),
        ("TPOT, p99", [(x, each.tpot_s.p99) for x, each in loads]),
    ]
    series = [Series(label=label, points=_positive(points)) for label, points in curves]
    ends = (min(x for x, _ in loads), max(x for x, _ in loads))
    limits = (("limit of TTFT", found.limits.ttft_s), ("limit of TPOT", found.limits.tpot_s))
    for label, limit in limits:
        if limit is not None:
            series.append(Series(label=label, points=[(x, limit) for x in ends], has_dots=False))
    kind = "clients" if any(each.clients for each in found.answers) else "requests per second"
    return series_chart(
        [one for one in series if one.points],
        title=f"{found.model} on {found.gpus} × {found.gpu}: times over load",
        axes=Axes(x_title=f"{kind} of one replica", y_title="seconds"),
    )


def _positive(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Leave out what a logarithmic axis cannot show, such as the TPOT of answers of one token."""
    return [point for point in points if point[0] > 0 and point[1] > 0]
