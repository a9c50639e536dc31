"""Simulations of LLM serving as sections: a table of loads, where the replica is saturated, and a plot."""

from collections.abc import Callable

from capplan.llm.core.simulation.load_answer import LoadAnswer, Percentiles, Simulation
from capplan.report.charts.look import Drawing
from capplan.report.charts.series import Axes, Series, series_chart
from capplan.report.sections import Column, Format, Lines, Section, Table, figure, shown_as_data, words
from capplan.report.text.answer import energy_data
from capplan.units import format_fraction, format_joules, format_rate, format_seconds, format_watts

_NEAR = 0.85
"""Share of the saturation rate from which a replica is called near saturation."""


def simulation_sections(found: Simulation) -> list[Section]:
    """Return simulated loads: where the replica is full, a row per load, and what the times mean."""
    head = (
        f"{found.model} on one replica of {found.gpus} × {found.gpu}, {found.engine}: "
        f"{found.sequences_that_fit:,.0f} sequences fit, full at {found.saturation_rate_per_s:.3g} requests/s"
    )
    notes = [
        "TTFT from arrival to the first token; TPOT = (end to end − TTFT) ÷ (output tokens − 1), per request; "
        "ITL between any two tokens; end to end ÷ output tokens (inclusive TPOT) is in --json.",
        saturation_line(found),
        *found.notes,
    ]
    return [
        Section(
            [
                Lines([head], only=Format.TABLE),
                Table(load_columns(found), found.answers),
                Lines(notes, is_attached=True, only=Format.TABLE),
            ]
        )
    ]


def saturation_line(found: Simulation) -> str:
    """Return in one sentence from which load on the replica is saturated."""
    overload = found.saturated_from_per_s
    if overload is not None:
        return (
            f"From {overload:.3g} requests/s on, work piles up: the replica is saturated, and the times above say how "
            "long the simulation was, not what users see."
        )
    highest = max((found.load_fraction(answer) for answer in found.answers if answer.clients is None), default=0.0)
    if highest >= _NEAR:
        return f"The highest load is near saturation ({format_fraction(highest)} of the full replica's rate)."
    return "The replica keeps up with every load."


def load_columns(found: Simulation) -> list[Column[LoadAnswer]]:
    """Return the columns of simulated loads; those without values are left out."""

    def time(
        title: str, times: Callable[[LoadAnswer], Percentiles | None], name: str, *, rank: int = 0
    ) -> Column[LoadAnswer]:
        def value(load: LoadAnswer) -> float | None:
            percentiles = times(load)
            return None if percentiles is None else getattr(percentiles, name)

        return figure(title, value, format_seconds, rank=rank)

    columns: list[Column[LoadAnswer]] = [
        words("hours", lambda load: load.label),
        figure("req/s", lambda load: load.rate_per_s, "{:.3g}".format),
        figure("clients", lambda load: load.clients),
        figure("load", lambda load: found.load_fraction(load) if load.clients is None else None, format_fraction),
        time("TTFT mean", lambda load: load.ttft_s, "mean"),
        *(time(name, lambda load: load.ttft_s, name) for name in ("p50", "p90", "p99")),
        time("TPOT mean", lambda load: load.tpot_s, "mean"),
        time("p99", lambda load: load.tpot_s, "p99"),
        time("ITL p50", lambda load: load.itl_s, "p50", rank=2),
        time("ITL p99", lambda load: load.itl_s, "p99", rank=1),
        time("E2E mean", lambda load: load.e2e_s, "mean"),
        time("p99", lambda load: load.e2e_s, "p99"),
        figure("tokens/s", lambda load: load.output_tokens_per_s, format_rate),
        figure("per GPU", lambda load: load.output_tokens_per_s / found.gpus, format_rate, rank=3),
        figure("per user", lambda load: load.output_tokens_per_s_per_user, format_rate, rank=3),
        figure("power", lambda load: load.energy.power_w.expected if load.energy else None, format_watts),
        figure("J/token", _joules, format_joules),
        figure("within limits", lambda load: load.goodput_fraction, format_fraction),
        figure("preempted", lambda load: load.preemptions or None),
        words("keeps up", lambda load: "yes" if load.keeps_up else "no"),
    ]
    filled = [column for column in columns if any(column.cell(load) for load in found.answers)]
    energy: list[Column[LoadAnswer]] = energy_data(
        lambda load: load.energy, found.answers, unit="output_token", middle="_expected"
    )
    return [*(shown_as_data(column) for column in filled), *energy]


def _joules(load: LoadAnswer) -> float | None:
    return load.energy.joules_per_output_token.expected if load.energy else None


def simulation_chart(found: Simulation) -> Drawing:
    """Draw TTFT, TPOT and their limits over the load, on logarithmic axes.

    Args:
        found: The simulated loads.
    """
    loads = [(float(answer.clients or 0) or answer.rate_per_s, answer) for answer in found.answers]
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
    kind = "clients" if any(answer.clients for answer in found.answers) else "requests per second"
    return series_chart(
        [one for one in series if one.points],
        title=f"{found.model} on {found.gpus} × {found.gpu}: times over load",
        axes=Axes(x_title=f"{kind} of one replica", y_title="seconds"),
    )


def _positive(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Leave out what a logarithmic axis cannot show, such as the TPOT of answers of one token."""
    return [point for point in points if point[0] > 0 and point[1] > 0]
