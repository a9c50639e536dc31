"""Write what was observed of a service as a load file, each figure with the window that it is from."""

import json
from collections.abc import Iterator, Sequence

from capplan.clock import now
from capplan.core.serving.observed import ObservedArrivals, ObservedLoad, Spread
from capplan.units import format_moment

_DIGITS = 4


def _number(value: float) -> str:
    """Return a number as strict YAML reads it: to four digits, without an exponent."""
    rounded = float(f"{value:.{_DIGITS}g}")
    return f"{rounded:.0f}" if rounded == int(rounded) else f"{rounded:.12f}".rstrip("0")


def _numbers(values: Sequence[float]) -> str:
    return f"[{', '.join(map(_number, values))}]"


def load_file_text(observed: ObservedLoad, *, latency_s: float | None, percentile: float) -> str:
    """Return a load file: what `llm plan`, `llm simulate` and `report` read, and what was observed besides."""
    arrivals = observed.arrivals
    window = f"{arrivals.window_s / 3600:.1f} hours from an unknown day on"
    if arrivals.has_dates:
        window = f"{format_moment(arrivals.first_s)} to {format_moment(arrivals.last_s)} UTC"
    lines = [
        f"# Written by capplan load on {now():%Y-%m-%d} from {observed.form}: {_quoted(', '.join(observed.sources))}",
        f"# Window: {window}, {arrivals.total:,.0f} requests.",
    ]
    if observed.has_tokens:
        lines += ["llm:", *_llm(observed)]
    limit_s = latency_s or (observed.e2e_s.quantiles.get(percentile / 100) if observed.e2e_s else None)
    if limit_s is not None:
        lines += ["service:", *_service(observed, limit_s, percentile, is_stated=latency_s is not None)]
    for gpus in observed.gpus[:1]:
        lines.append(f"running: {_quoted(f'{gpus.count} x {gpus.name}')}  # as DCGM's exporter counts and names them")
    lines += ["observed:", *_observed(observed)]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=True)


def _llm(observed: ObservedLoad) -> Iterator[str]:
    arrivals, prompt, answer = observed.arrivals, observed.prompt, observed.answer
    assert prompt is not None
    assert answer is not None
    begin, rate = arrivals.busiest
    yield f"  rate: {_number(rate)}  # per second in the busiest hour, from {format_moment(begin)}"
    yield f"  input_len: {max(1, round(prompt.mean))}  # mean of {prompt.count:,.0f} requests{_tail(prompt)}"
    yield f"  output_len: {max(1, round(answer.mean))}  # mean of {answer.count:,.0f} requests{_tail(answer)}"
    for key, spread in (("input_cv", prompt), ("output_cv", answer)):
        if spread.cv:
            binned = ", from the buckets of a histogram" if spread.is_binned else ""
            yield f"  {key}: {_number(min(spread.cv, 10.0))}  # deviation / mean{binned}"
    if observed.prefix_fraction:
        yield f"  prefix_hits: {_number(min(observed.prefix_fraction, 0.999))}  # share of prompt tokens"
    yield from _course(arrivals, "growth")


def _course(arrivals: ObservedArrivals, growth_key: str) -> Iterator[str]:
    if (scv := arrivals.burstiness) is not None:
        yield f"  burstiness: {_number(min(max(scv, 0.05), 1000.0))}  # variance / mean of requests in short bins"
    if (growth := arrivals.growth) is not None and -0.9 <= growth.per_year_fraction <= 10:
        ends = f"{growth.low_fraction:+.0%} to {growth.high_fraction:+.0%}"
        yield f"  {growth_key}: {_number(growth.per_year_fraction)}  # per year, by {growth.weeks} weeks; {ends}"


def _tail(spread: Spread) -> str:
    return f"; 99 % below {spread.quantiles[0.99]:.0f}" if 0.99 in spread.quantiles else ""


def _service(observed: ObservedLoad, limit_s: float, percentile: float, *, is_stated: bool) -> Iterator[str]:
    arrivals = observed.arrivals
    if (daily := arrivals.daily_peak_per_s) is not None:
        yield f"  daily: {_numbers(daily)}  # the highest rate that each hour had; UTC"
        yield "  scale_by_hour: false  # true for machines that are rented and returned by the hour"
    else:
        yield f"  peak: {_number(arrivals.busiest[1])}/s"
        yield f"  mean: {_number(arrivals.mean_per_s)}/s"
    why = "as stated" if is_stated else f"as it is now at p{percentile:g}; state the limit that you need"
    yield f"  latency: {_number(limit_s * 1000)} ms  # {why}"
    yield f"  percentile: {percentile:g}"
    yield from _course(arrivals, "growth_per_year")


def _observed(observed: ObservedLoad) -> Iterator[str]:
    arrivals = observed.arrivals
    yield f"  source: {_quoted(', '.join(observed.sources))}"
    yield f"  form: {_quoted(observed.form)}"
    if arrivals.has_dates:
        yield f"  from: {_quoted(format_moment(arrivals.first_s))}"
        yield f"  to: {_quoted(format_moment(arrivals.last_s))}"
    yield f"  hours: {_number(arrivals.window_s / 3600)}"
    yield f"  requests: {arrivals.total:.0f}"
    yield f"  mean_per_s: {_number(arrivals.mean_per_s)}"
    if observed.failed is not None:
        yield f"  failed: {observed.failed:.0f}"
    for key, spread in (
        ("input_tokens", observed.prompt), ("output_tokens", observed.answer), ("ttft_s", observed.ttft_s),
        ("tpot_s", observed.tpot_s), ("e2e_s", observed.e2e_s),
    ):  # fmt: skip
        if spread is not None:
            shares = [f"p{share * 100:g}: {_number(value)}" for share, value in spread.quantiles.items()]
            yield f"  {key}: {{{', '.join([f'mean: {_number(spread.mean)}', *shares])}}}"
    for key, gauge in (("running", observed.running), ("waiting", observed.waiting)):
        if gauge is not None:
            yield f"  {key}: {{mean: {_number(gauge[0])}, most: {_number(gauge[1])}}}"
    if (daily := arrivals.daily_mean_per_s) is not None:
        yield f"  daily_per_s: {_numbers(daily)}  # mean of each hour of a day; UTC"
    if (weekly := arrivals.weekly_mean_per_s) is not None:
        yield f"  weekly_per_s: {_numbers(weekly)}  # mean of each hour of a week, from Monday 0 h UTC"
