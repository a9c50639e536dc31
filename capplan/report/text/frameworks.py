"""One model on one GPU run every way, side by side: a table."""

from collections.abc import Sequence

from capplan.core.latency.choices.frameworks import ComparedRun
from capplan.report.table import render_markdown, render_text, table
from capplan.units import format_rate, format_seconds

_TITLES = "framework|layout|precision|latency>|90 % from>|to>|samples/s>|gain>|calibrated|why not"


def frameworks_text(runs: Sequence[ComparedRun], *, gpu: str, batch: int, markdown: bool) -> str:
    """Lay the ways to run out, gains against the first."""
    render = render_markdown if markdown else render_text
    return f"every way to run it on {gpu} at batch {batch}\n\n" + render(table(_TITLES, [_row(run) for run in runs]))


def _row(run: ComparedRun) -> tuple[str, ...]:
    way = (run.workload.framework.value, run.workload.layout.value, run.workload.precision.value)
    if run.estimate is None:
        return (*way, "", "", "", "", "", "", run.reason or "")
    time = run.estimate.latency_s
    return (
        *way,
        format_seconds(time.expected),
        format_seconds(time.low),
        format_seconds(time.high),
        format_rate(run.estimate.throughput_per_s.expected),
        "" if run.gain is None else f"×{run.gain:.2f}",
        run.estimate.calibration or "no",
        "",
    )
