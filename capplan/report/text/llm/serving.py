"""Estimates and validations of LLM serving as text: tables, Markdown, CSV, and the arithmetic of a step."""

from collections import Counter
from collections.abc import Callable, Sequence

from capplan.core.numbers import Interval
from capplan.llm.core.serving.accuracy import Accuracy, ServingValidation
from capplan.llm.core.serving.estimate import ServingEstimate
from capplan.llm.core.serving.explain import StepPart, total_s
from capplan.report.charts.look import Drawing
from capplan.report.charts.series import Axes, Series, series_chart
from capplan.report.table import Table, render_csv, render_markdown, render_text, table
from capplan.units import format_bytes, format_flops, format_fraction, format_rate, format_seconds

_HEADINGS = "clients>|TTFT>|90 %|TPOT>|90 %|tokens/s>|90 %|per GPU>|per user>|running>"
_MOST_REASONS = 30


def estimate_text(estimate: ServingEstimate, *, explain: bool) -> str:
    """Lay an estimate out for the terminal.

    Args:
        estimate: The estimate.
        explain: True to write out the steps' arithmetic.
    """
    parts = [_headline(estimate), render_text(_points(estimate)), *(f"{note}\n" for note in _all_notes(estimate))]
    if explain:
        parts += [_explained(estimate)]
    return "".join(parts)


def estimate_markdown(estimate: ServingEstimate) -> str:
    """Write an estimate as Markdown."""
    notes = "".join(f"\n{note}\n" for note in _all_notes(estimate))
    return f"{_headline(estimate)}\n{render_markdown(_points(estimate))}{notes}"


def _headline(estimate: ServingEstimate) -> str:
    sharding = estimate.sharding
    shared = ", ".join(
        f"{name} {size}"
        for name, size in (
            ("TP", sharding.tensor),
            ("PP", sharding.pipeline),
            ("EP", sharding.expert),
            ("DP", sharding.data),
        )
        if size > 1
    )
    return (
        f"{estimate.model} ({_billions(estimate.params)} parameters, {_billions(estimate.active_params)} active) "
        f"on {sharding.gpus} × {estimate.gpu}{f' ({shared})' if shared else ''}, {estimate.engine}, weights "
        f"{estimate.weights}, cache {estimate.kv}: {estimate.input_len:g} tokens in, {estimate.output_len:g} out, "
        f"{estimate.sequences_that_fit:,.0f} sequences fit\n"
    )


def _billions(count: int) -> str:
    return f"{count / 1e9:.3g} B"


def _points(estimate: ServingEstimate) -> Table:
    gpus = estimate.sharding.gpus
    rows = [
        (
            str(point.concurrency),
            format_seconds(point.ttft_s.expected),
            _range(point.ttft_s, format_seconds),
            format_seconds(point.tpot_s.expected),
            _range(point.tpot_s, format_seconds),
            format_rate(point.output_tokens_per_s.expected),
            _range(point.output_tokens_per_s, format_rate),
            format_rate(point.output_tokens_per_s.expected / gpus),
            format_rate(1 / point.tpot_s.expected),
            f"{point.running:.0f}",
        )
        for point in estimate.points
    ]
    return table(_HEADINGS, rows)


def _range(interval: Interval, to_text: Callable[[float], str]) -> str:
    return f"{to_text(interval.low)} to {to_text(interval.high)}"


def _all_notes(estimate: ServingEstimate) -> tuple[str, ...]:
    return (f"Evidence: {estimate.points[-1].evidence}.", *estimate.notes)


def _explained(estimate: ServingEstimate) -> str:
    return f"\n{decode_step_text(estimate)}\n{prefill_step_text(estimate)}"


def decode_step_text(estimate: ServingEstimate) -> str:
    """Write out the parts of a decode step at the last concurrency of an estimate."""
    running = estimate.points[-1].running
    return _step(f"One decode step of {running:.0f} sequences on one GPU of one pipeline stage", estimate.decode_parts)


def prefill_step_text(estimate: ServingEstimate) -> str:
    """Write out the parts of a step that processes one prompt alone."""
    return _step(f"One step with a prompt of {estimate.input_len:g} tokens alone", estimate.prefill_parts)


def _step(title: str, parts: tuple[StepPart, ...]) -> str:
    whole = total_s(parts)
    rows = [
        (
            part.name,
            format_seconds(part.time_s),
            format_fraction(part.time_s / whole),
            f"{part.launches:g}" if part.launches else "",
            format_flops(part.flops) if part.flops else "",
            format_bytes(part.traffic_bytes) if part.traffic_bytes else "",
            format_rate(part.flops / part.time_s / 1e12) if part.flops else "",
            format_rate(part.traffic_bytes / part.time_s / 1e9) if part.traffic_bytes else "",
        )
        for part in parts
    ]
    return f"{title}: {format_seconds(whole)}\n" + render_text(
        table("part|time>|share>|calls>|work>|traffic>|TFLOP/s>|GB/s>", rows)
    )


def estimate_csv(estimate: ServingEstimate) -> str:
    """Write a row per concurrency, times in seconds."""
    rows = [
        (
            str(point.concurrency),
            *(f"{value:.6g}" for value in _values(point.ttft_s)),
            *(f"{value:.6g}" for value in _values(point.tpot_s)),
            *(f"{value:.6g}" for value in _values(point.output_tokens_per_s)),
            point.evidence,
        )
        for point in estimate.points
    ]
    names = ("ttft_s", "tpot_s", "output_tokens_per_s")
    heads = [f"{name}_{end}" for name in names for end in ("low", "expected", "high")]
    return render_csv(table("|".join(("concurrency", *heads, "evidence")), rows))


def _values(interval: Interval) -> tuple[float, float, float]:
    return interval.low, interval.expected, interval.high


def estimate_chart(estimates: Sequence[ServingEstimate]) -> Drawing:
    """Draw tokens per second and GPU against tokens per second and user, a point for each concurrency."""
    series = [
        Series(
            label=f"{one.model} on {one.sharding.gpus} × {one.gpu}",
            points=[
                (1 / point.tpot_s.expected, point.output_tokens_per_s.expected / one.sharding.gpus)
                for point in one.points
            ],
            band=[
                (point.output_tokens_per_s.low / one.sharding.gpus, point.output_tokens_per_s.high / one.sharding.gpus)
                for point in one.points
            ],
        )
        for one in estimates
    ]
    return series_chart(
        series,
        title="Output tokens per second and GPU against speed for each user",
        axes=Axes(x_title="output tokens per second and user", y_title="output tokens per second and GPU"),
    )


def validation_text(found: ServingValidation, *, by: Sequence[str]) -> str:
    """Lay a validation out for the terminal.

    Args:
        found: The judged answers.
        by: Columns that make a cell.
    """
    return _validation(found, by, render_text)


def validation_markdown(found: ServingValidation, *, by: Sequence[str]) -> str:
    """Write a validation as Markdown."""
    return _validation(found, by, render_markdown)


def _validation(found: ServingValidation, by: Sequence[str], render: Callable[[Table], str]) -> str:
    overall = [
        (str(metric), *_accuracy(accuracy)) for metric, accuracy in found.overall().items() if accuracy is not None
    ]
    parts = [render(table(f"metric|{_ACCURACY}", overall)), "\n", render(_cells(found, by))]
    if found.skipped:
        reasons = Counter(row.reason for row in found.skipped).most_common(_MOST_REASONS)
        rows = [(str(count), reason) for reason, count in reasons]
        parts += [f"\n{len(found.skipped)} rows were not predicted\n\n", render(table("rows>|reason", rows))]
    return "".join(parts)


_ACCURACY = "n>|median>|p90>|bias>|coverage>|high/low>|spearman>|within 2×>"


def _cells(found: ServingValidation, by: Sequence[str]) -> Table:
    rows = [(*cell.key.values(), str(cell.metric), *_accuracy(cell.accuracy)) for cell in found.cells(by)]
    return table("|".join((*by, "metric", _ACCURACY)), rows)


def _accuracy(accuracy: Accuracy) -> tuple[str, ...]:
    return (
        str(accuracy.n),
        format_fraction(accuracy.mdape),
        format_fraction(accuracy.p90),
        f"{accuracy.bias:.2f}",
        format_fraction(accuracy.coverage),
        f"{accuracy.width:.2f}",
        "" if accuracy.spearman is None else f"{accuracy.spearman:.3f}",
        format_fraction(accuracy.within_factor_two),
    )


def validation_csv(found: ServingValidation, *, by: Sequence[str]) -> str:
    """Write a row per cell, errors as fractions."""
    rows = [
        (
            *cell.key.values(),
            str(cell.metric),
            str(cell.accuracy.n),
            *(
                "" if value is None else f"{value:.6g}"
                for value in (
                    cell.accuracy.mdape,
                    cell.accuracy.p90,
                    cell.accuracy.bias,
                    cell.accuracy.coverage,
                    cell.accuracy.width,
                    cell.accuracy.spearman,
                )
            ),
        )
        for cell in found.cells(by)
    ]
    return render_csv(
        table("|".join((*by, "metric", "n", "mdape", "p90", "bias", "coverage", "width", "spearman")), rows)
    )
