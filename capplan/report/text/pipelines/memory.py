"""The memory of a pipeline as sections: by GPU and place of its weights, at each moment, and by part of the worst."""

from capplan.core.memory.types import MemoryPart
from capplan.core.pipelines.memory import PipelineMemory, PipelineMemoryOn, PipelineMoment
from capplan.report.sections import Block, Column, Lines, Section, Table, data, figure, words
from capplan.report.text.pipelines.plan import OFFLOAD_WORDS, PART_FACTS
from capplan.units import format_bytes


def pipeline_memory_sections(answer: PipelineMemory) -> list[Section]:
    """Return the memory of a pipeline; a CSV has a row for each GPU and place of its weights.

    Args:
        answer: the memory of a batch of its items.
    """
    first = answer.places[0]
    where = f" on {first.gpu.id}" if first.gpu is not None else ""
    total, moment = format_bytes(first.worst.total_bytes.expected), first.worst.peak_module
    weights = OFFLOAD_WORDS[first.offload.value]
    blocks: list[Block] = [
        Lines([f"{answer.name}, batch {answer.batch}{where}: {total}, weights {weights}, at its worst in {moment}"]),
        Table(_PLACES, answer.places),
        Lines([f"while a part runs{where}, weights {weights}:"]),
        Table(_MOMENTS, first.moments, is_attached=True),
        Lines(["the worst moment:"]),
        Table(_MEMORY_PARTS, first.worst.all_parts, is_attached=True),
        Table(PART_FACTS, answer.facts.parts),
    ]
    return [Section(blocks), Section([Table(_PLACE_DATA, answer.places)])]


_PLACES: tuple[Column[PipelineMemoryOn], ...] = (
    words("GPU", lambda place: place.gpu.id if place.gpu else "any"),
    words("weights", lambda place: OFFLOAD_WORDS[place.offload.value]),
    figure("needs", lambda place: place.worst.total_bytes.expected, format_bytes),
    figure("may be filled", lambda place: place.available_bytes, format_bytes),
    words("fits", lambda place: place.status.value if place.status else ""),
    figure("largest batch", lambda place: place.max_batch, "{:,}".format),
)
_PLACE_DATA: tuple[Column[PipelineMemoryOn], ...] = (
    data("gpu", lambda place: place.gpu.id if place.gpu else None),
    data("offload", lambda place: place.offload.value),
    data("batch", lambda place: place.worst.batch),
    data("peak_allocated_bytes", lambda place: round(place.worst.peak_allocated_bytes.expected)),
    data("peak_reserved_bytes", lambda place: round(place.worst.peak_reserved_bytes.expected)),
    data("total_low_bytes", lambda place: round(place.worst.total_bytes.low)),
    data("total_bytes", lambda place: round(place.worst.total_bytes.expected)),
    data("total_high_bytes", lambda place: round(place.worst.total_bytes.high)),
    data("status", lambda place: place.status.value if place.status else None),
    data("max_batch", lambda place: place.max_batch),
)
_MOMENTS: tuple[Column[PipelineMoment], ...] = (
    words("part", lambda moment: moment.part),
    figure("allocated", lambda moment: moment.memory.peak_allocated_bytes.expected, format_bytes),
    figure("reserved", lambda moment: moment.memory.peak_reserved_bytes.expected, format_bytes),
    figure("process", lambda moment: moment.memory.total_bytes.expected, format_bytes),
)
_MEMORY_PARTS: tuple[Column[MemoryPart], ...] = (
    words("holds", lambda part: part.name),
    figure("low", lambda part: part.size_bytes.low, format_bytes),
    figure("expected", lambda part: part.size_bytes.expected, format_bytes),
    figure("high", lambda part: part.size_bytes.high, format_bytes),
)
