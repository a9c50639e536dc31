"""One model on one GPU run every way, side by side: a table, or rows for machines."""

from collections.abc import Sequence
from typing import Any

from capplan.core.latency.choices.frameworks import ComparedRun
from capplan.report.table import render_markdown, render_text, table
from capplan.units import format_rate, format_seconds

_TITLES = "framework|layout|precision|latency>|90 % from>|to>|samples/s>|gain>|calibrated|why not"


def frameworks_text(runs: Sequence[ComparedRun], *, gpu: str, batch: int, markdown: bool) -> str:
    """Lay the ways to run out, gains against the first."""
    render = render_markdown if markdown else render_text
    return f"every way to run it on {gpu} at batch {batch}\n\n" + render(table(_TITLES, [_row(run) for run in runs]))


def frameworks_rows(runs: Sequence[ComparedRun]) -> list[dict[str, Any]]:
    """Format the ways to run for machines; times in seconds, `gain` a ratio of expected times."""
    return [
        {
            "framework": run.workload.framework.value,
            "layout": run.workload.layout.value,
            "precision": run.workload.precision.value,
            "latency_s": run.estimate
            and {
                "bound": run.estimate.bound_s,
                "low": run.estimate.latency_s.low,
                "expected": run.estimate.latency_s.expected,
                "high": run.estimate.latency_s.high,
            },
            "gain": run.gain,
            "calibration": run.estimate and run.estimate.calibration,
            "reason": run.reason,
        }
        for run in runs
    ]


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
