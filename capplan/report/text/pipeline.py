"""A timed pipeline as tables: per stage and end to end, both ways."""

from capplan.core.measurement.pipeline import PipelineTimes, typical_s
from capplan.report.table import Table, table
from capplan.units import format_rate, format_seconds

_WAYS = "latency is of one repetition waited for at its end, throughput of many, which overlap where the host is free"


def pipeline_tables(timed: PipelineTimes) -> list[tuple[str, Table]]:
    """Lay a pipeline out: a titled table of its stages, and one of the whole."""
    note = "" if timed.has_events else "; no events on this device: nothing runs behind the host"
    head = f"{timed.name} at batch {timed.batch} on {timed.device}, {timed.repetitions} repetitions{note}"
    stages = [
        (
            stage.name,
            _text_of(typical_s(stage.host_s)),
            _text_of(typical_s(stage.device_s)),
            _text_of(typical_s(stage.waited_s)),
        )
        for stage in timed.stages
    ]
    whole = [
        (
            "host left free",
            format_seconds(timed.free_latency_s),
            format_seconds(timed.free_s / timed.repetitions),
            format_rate(timed.free_throughput_per_s),
        ),
        (
            "waiting after each stage",
            format_seconds(timed.stalled_latency_s),
            format_seconds(timed.stalled_s / timed.repetitions),
            format_rate(timed.stalled_throughput_per_s),
        ),
    ]
    return [
        (f"{head}; medians", table("stage|host, left free>|device, by events>|host, waiting>", stages)),
        (f"end to end; {_WAYS}", table("way|latency of one>|one after another, each>|throughput, samples/s>", whole)),
    ]


def _text_of(time_s: float | None) -> str:
    return "unknown" if time_s is None else format_seconds(time_s)
