"""How long a replica takes to start, as sections."""

from capplan.llm.core.start.answer import StartAnswer, TimedPart
from capplan.report.sections import LineRole, Lines, Section, Table, shape_columns, shape_data, words
from capplan.shapes.llm_scale import PART
from capplan.units import format_bytes, format_seconds


def llm_start_sections(answer: StartAnswer) -> list[Section]:
    """Return the parts of a start; a CSV has one row per part."""
    columns = [*shape_columns(PART, answer.parts), *shape_data(PART, answer.parts, whole=answer)]
    columns.insert(2, words("nine of ten", _ends, rank=1))
    headline = (
        f"{answer.model} ({format_bytes(answer.size.weight_bytes)} of weights) on {answer.gpus} × {answer.gpu}, "
        f"{answer.engine}, starts in {answer.whole_s.to_text(format_seconds)}."
    )
    return [Section([Lines([headline]), Table(columns, answer.parts), Lines(answer.notes, role=LineRole.LIST)])]


def _ends(part: TimedPart) -> str:
    low, high = format_seconds(part.time_s.low), format_seconds(part.time_s.high)
    return "" if low == high else f"{low} to {high}"
