"""How long a replica takes to start, as sections."""

from capplan.llm.core.start.answer import StartAnswer, TimedPart
from capplan.report.sections import Column, LineRole, Lines, Section, Table, data, figure, words
from capplan.units import format_bytes, format_seconds


def llm_start_sections(answer: StartAnswer) -> list[Section]:
    """Return the parts of a start; a CSV has one row per part."""
    columns: list[Column[TimedPart]] = [
        words("part", lambda part: part.part.value, name="part"),
        figure("time", lambda part: part.time_s.expected, format_seconds),
        words("nine of ten", _ends, rank=1),
        words("kind", lambda part: part.kind, name="kind"),
        words("from", lambda part: part.source, name="source", rank=2),
        data("time_s_low", lambda part: part.time_s.low),
        data("time_s", lambda part: part.time_s.expected),
        data("time_s_high", lambda part: part.time_s.high),
    ]
    headline = (
        f"{answer.model} ({format_bytes(answer.size.weight_bytes)} of weights) on {answer.gpus} × {answer.gpu}, "
        f"{answer.engine}, starts in {answer.whole_s.to_text(format_seconds)}."
    )
    return [Section([Lines([headline]), Table(columns, answer.parts), Lines(answer.notes, role=LineRole.LIST)])]


def _ends(part: TimedPart) -> str:
    low, high = format_seconds(part.time_s.low), format_seconds(part.time_s.high)
    return "" if low == high else f"{low} to {high}"
