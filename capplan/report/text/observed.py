"""What a running service was asked for, as sections."""

from collections.abc import Callable

from capplan.core.serving.observed import Broken, ObservedArrivals, ObservedLoad, Spread
from capplan.report.sections import Column, LineRole, Lines, Section, Table, figure, plain_columns, sentence, words
from capplan.units import format_fraction, format_moment, format_rate, format_seconds, format_watts

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MOST_REASONS = 10


def observed_sections(observed: ObservedLoad) -> list[Section]:
    """Return the load of a service: its window, its rates, its lengths and times, and what could not be read."""
    arrivals = observed.arrivals
    facts = Table(plain_columns("figure", "value", "from"), _facts(observed))
    head = Lines([f"{observed.form}: {', '.join(observed.sources)}", _window(arrivals)])
    spreads = [
        ("tokens of a prompt", observed.prompt, _tokens), ("tokens of an answer", observed.answer, _tokens),
        ("time to first token", observed.ttft_s, format_seconds),
        ("time between tokens", observed.tpot_s, format_seconds), ("time of a request", observed.e2e_s, format_seconds),
    ]  # fmt: skip
    sections = [Section([head, facts])]
    if known := [(name, spread, form) for name, spread, form in spreads if spread is not None]:
        sections.append(Section([_spread_table(known)]))
    if observed.broken:
        columns: list[Column[Broken]] = [
            figure("lines", lambda row: row.lines, lambda count: f"{count:,}"),
            figure("first", lambda row: row.first or None, str),
            words("left out because", lambda row: row.reason),
        ]
        sections.append(Section([Table(columns, observed.broken[:_MOST_REASONS])]))
    if observed.cautions:
        sections.append(Section([Lines([sentence(caution) for caution in observed.cautions], LineRole.NOTE)]))
    return sections


def _tokens(value: float) -> str:
    return f"{value:,.0f}"


def _window(arrivals: ObservedArrivals) -> str:
    hours = arrivals.window_s / 3600
    length = f"{hours / 24:.1f} days" if hours >= 48 else f"{hours:.1f} hours"
    if not arrivals.has_dates:
        return f"{arrivals.total:,.0f} requests in {length}, of an unknown day"
    ends = f"{format_moment(arrivals.first_s)} to {format_moment(arrivals.last_s)} UTC"
    return f"{arrivals.total:,.0f} requests in {length}: {ends}"


def _facts(observed: ObservedLoad) -> list[tuple[str, str, str]]:
    arrivals = observed.arrivals
    begin, busiest = arrivals.busiest
    hour = f"hour from {format_moment(begin)}" if arrivals.has_dates else "an hour"
    found = [
        ("requests/s, busiest hour", format_rate(busiest), hour),
        ("requests/s, mean", format_rate(arrivals.mean_per_s), "the window"),
    ]
    if (weekly := arrivals.weekly_mean_per_s) is not None:
        peak = max(range(len(weekly)), key=weekly.__getitem__)
        place = f"mean of each hour of a week; the highest is {_DAYS[peak // 24]} {peak % 24} h UTC"
        found.append(("requests/s, weekly peak", format_rate(weekly[peak]), place))
    if (scv := arrivals.burstiness) is not None:
        found.append(("burstiness", f"{scv:.2f}", "variance ÷ mean of requests in short bins; 1 is Poisson"))
    if (growth := arrivals.growth) is not None:
        ends = f"{growth.weeks} weeks; {growth.low_fraction:+.0%} to {growth.high_fraction:+.0%}"
        found.append(("growth per year", f"{growth.per_year_fraction:+.0%}", ends))
    if observed.prefix_fraction is not None:
        found.append(("prefix cache hits", format_fraction(observed.prefix_fraction), "share of prompt tokens"))
    if observed.failed is not None:
        share = observed.failed / (observed.failed + arrivals.total)
        found.append(("failed requests", f"{observed.failed:,.0f}", format_fraction(share)))
    for name, gauge in (("running requests", observed.running), ("waiting requests", observed.waiting)):
        if gauge is not None:
            found.append((name, f"{gauge[0]:.1f}", f"mean; at most {gauge[1]:.0f}"))
    for gpus in observed.gpus:
        busy = "" if gpus.utilisation_fraction is None else f"busy {format_fraction(gpus.utilisation_fraction)}"
        power = "" if gpus.power_w is None else f"{format_watts(gpus.power_w)} each"
        found.append(("GPUs", f"{gpus.count} × {gpus.name}", ", ".join(filter(None, (busy, power)))))
    return found


_Row = tuple[str, Spread, Callable[[float], str]]


def _spread_table(rows: list[_Row]) -> Table[_Row]:
    def share(at: float) -> Callable[[_Row], str | None]:
        return lambda row: row[2](row[1].quantiles[at]) if at in row[1].quantiles else None

    return Table(
        [
            words("of a request", lambda row: row[0], name="quantity"),
            figure("mean", lambda row: row[2](row[1].mean), name="mean"),
            figure("deviation/mean", lambda row: row[1].cv, lambda cv: f"{cv:.2f}", name="cv", rank=1, unknown="-"),
            *(figure(f"p{at * 100:g}", share(at), name=f"p{at * 100:g}", unknown="-") for at in (0.5, 0.9, 0.95, 0.99)),
        ],
        rows,
    )
