"""The figures of the page's charts: latency and throughput over batches, cost against latency, memory by part."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.device import Unsupported
from capplan.core.latency.types import LatencyEstimate
from capplan.core.memory.fit import usable_memory
from capplan.core.plan.planner import Prepared
from capplan.core.plan.types import Fit
from capplan.serve.page.svg import Curve, Mark, StackedBar, axis, bars_svg, curves_svg
from capplan.units import format_bytes, format_rate, format_seconds

LARGEST_CURVE_BATCH = 1024
MOST_CURVES = 4


def curve_batches(batch: int, *, exact_batch: int | None) -> list[int]:
    """Return the batches of a curve: powers of two, and the one asked for.

    Args:
        batch: the batch asked for.
        exact_batch: the only batch that a model's trace holds at, if there is only one.
    """
    if exact_batch is not None:
        return [exact_batch]
    powers = {2**power for power in range(LARGEST_CURVE_BATCH.bit_length())}
    return sorted(powers | {batch})


def latency_curves(
    ready: Prepared, fits: Sequence[Fit], batches: Sequence[int]
) -> list[tuple[GpuSpec, tuple[LatencyEstimate, ...]]]:
    """Return the latencies over batches of the first GPUs, each as far as its memory goes."""
    gpus = [fit.gpu for fit in fits[:MOST_CURVES]]
    largest = {fit.gpu.id: fit.max_batch for fit in fits}
    answers = ready.latencies(gpus, batches)
    return [
        (gpu, tuple(each for each in answer if each.batch <= largest[gpu.id]))
        for gpu, answer in zip(gpus, answers, strict=True)
        if not isinstance(answer, Unsupported)
    ]


def latency_chart(curves: Sequence[tuple[str, Sequence[LatencyEstimate]]], identity: str) -> Markup:
    """Draw latency over batches with its intervals, one curve for each name."""
    drawn = [
        Curve(name=name, index=index, marks=[_latency_mark(name, point) for point in points])
        for index, (name, points) in enumerate(curves)
    ]
    return _over_batches(drawn, identity=identity, what="Latency of a batch", spell=format_seconds)


def throughput_chart(curves: Sequence[tuple[str, Sequence[LatencyEstimate]]], identity: str) -> Markup:
    """Draw throughput over batches with its intervals, one curve for each name."""
    drawn = [
        Curve(name=name, index=index, marks=[_rate_mark(name, point) for point in points])
        for index, (name, points) in enumerate(curves)
    ]
    return _over_batches(drawn, identity=identity, what="Samples per second", spell=format_rate)


def _latency_mark(name: str, point: LatencyEstimate) -> Mark:
    time = point.latency_s
    tip = (
        f"{name}, batch {point.batch:,}: {format_seconds(time.expected)} "
        f"({format_seconds(time.low)} to {format_seconds(time.high)})"
    )
    return Mark(x=point.batch, y=time.expected, low=time.low, high=time.high, tip=tip)


def _rate_mark(name: str, point: LatencyEstimate) -> Mark:
    rate = point.throughput_per_s
    tip = (
        f"{name}, batch {point.batch:,}: {format_rate(rate.expected)} "
        f"({format_rate(rate.low)} to {format_rate(rate.high)})"
    )
    return Mark(x=point.batch, y=rate.expected, low=rate.low, high=rate.high, tip=tip)


def _over_batches(curves: Sequence[Curve], *, identity: str, what: str, spell: object) -> Markup:
    marks = [mark for curve in curves for mark in curve.marks]
    if not marks:
        return Markup("")
    values = [value for mark in marks for value in (mark.low or mark.y, mark.high or mark.y)]
    assert callable(spell)
    return curves_svg(
        curves,
        x=axis("batch", [mark.x for mark in marks], lambda value: f"{value:,.0f}"),
        y=axis(what, values, spell),
        identity=identity,
        title=f"{what} over the batch, with intervals at 90 %",
    )


def cost_chart(models: Sequence[tuple[str, Sequence[Fit]]], identity: str) -> Markup:
    """Draw cost against latency, one point for each GPU with a price, in one colour for each model."""
    priced = [
        (index, name, fit, cost)
        for index, (name, fits) in enumerate(models)
        for fit in fits
        if (cost := fit.usd_per_million_samples) is not None
    ]
    if len(priced) < 2:
        return Markup("")
    curves = [
        Curve(name=fit.gpu.id, index=index, marks=[_cost_mark(name, fit, cost)]) for index, name, fit, cost in priced
    ]
    return curves_svg(
        curves,
        x=axis("latency of a batch", [fit.latency.latency_s.expected for _, _, fit, _ in priced], format_seconds),
        y=axis("USD per million samples", [cost for *_, cost in priced], lambda value: f"{value:.3g}"),
        identity=identity,
        title="Cost against latency of the GPUs that fit and have a price: low and left is better",
        has_lines=False,
    )


def _cost_mark(name: str, fit: Fit, cost: float) -> Mark:
    time = format_seconds(fit.latency.latency_s.expected)
    what = f"{name} on {fit.gpu.id}" if name else fit.gpu.id
    return Mark(x=fit.latency.latency_s.expected, y=cost, tip=f"{what}: {cost:.3g} USD per million, {time}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRow:
    """The figures of one bar of memory as text: those of its parts, their total, and what is usable."""

    name: str
    sizes: tuple[str, ...]
    total: str
    usable: str


def memory_rows(fits: Sequence[tuple[str, Fit]], parts: Sequence[str]) -> tuple[MemoryRow, ...]:
    """Return the figures of the bars of memory.

    Args:
        fits: the bars' names and fits.
        parts: the names of all parts.
    """
    rows = []
    for name, fit in fits:
        held = {part.name: part.size_bytes.expected for part in fit.memory.all_parts}
        rows.append(
            MemoryRow(
                name=name,
                sizes=tuple(format_bytes(held[part]) if held.get(part) else "–" for part in parts),
                total=format_bytes(fit.memory.total_bytes.expected),
                usable=format_bytes(usable_memory(fit.gpu).expected),
            )
        )
    return tuple(rows)


def memory_bars(fits: Sequence[tuple[str, Fit]], parts: Sequence[str], identity: str) -> Markup:
    """Draw the memory of each GPU by part, against what is usable of it.

    Args:
        fits: the bars' names, such as the GPUs', and fits.
        parts: the names of all parts, in the order of their colours.
        identity: the id of the picture.
    """
    bars = [_bar(name, fit, parts) for name, fit in fits]
    return bars_svg(bars, identity=identity, title="Memory by part, and the share of usable memory that it takes")


def part_names(fits: Sequence[Fit]) -> list[str]:
    """Return the names of the parts of memory, the largest first; small ones stand together at the end."""
    sizes: dict[str, float] = {}
    for fit in fits:
        for part in fit.memory.all_parts:
            sizes[part.name] = max(sizes.get(part.name, 0.0), part.size_bytes.expected)
    return sorted((name for name, size in sizes.items() if size > 0), key=lambda name: -sizes[name])


def format_share(share: float) -> str:
    """Return a share in percent, a small one with a digit more."""
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.1f} %"


def _bar(name: str, fit: Fit, parts: Sequence[str]) -> StackedBar:
    held = {part.name: part.size_bytes for part in fit.memory.all_parts}
    usable = usable_memory(fit.gpu).expected
    total = fit.memory.total_bytes.expected
    return StackedBar(
        name=name,
        parts=[
            (min(index, 7), held[part].expected, f"{part}: {format_bytes(held[part].expected)}")
            for index, part in enumerate(parts)
            if part in held and held[part].expected > 0
        ],
        limit=usable,
        limit_tip=f"usable: {format_bytes(usable)}",
        note=f"{format_share(total / usable)} of {format_bytes(usable)}",
    )
