"""The shapes of starts of LLM replicas. Times in seconds."""

from typing import Final

from capplan.llm.core.start.answer import StartAnswer, TimedPart
from capplan.shapes.common import VERSIONED, in_words
from capplan.shapes.shape import Shape, column, figure
from capplan.units import format_seconds

# fmt: off
PART: Final = Shape("StartPartDocument", TimedPart, "The time of one part of a start.", (
    figure("part", in_words("part"), show=column("part", csv="expected")),
    figure("time_s", meaning="nine of ten starts lie within, as public logs say", show=column("time", format_seconds, csv="expected low high")),
    figure("kind", meaning="what kind of figure it is", show=column("kind", csv="expected")),
    figure("source", show=column("from", csv="expected", rank=2)),
))
START: Final = Shape("LlmStartDocument", StartAnswer, "What `capplan llm start --format json` writes.", (
    *VERSIONED,
    figure("model"),
    figure("gpu"),
    figure("gpus"),
    figure("engine"),
    figure("weight_bytes", "size.weight_bytes", "of the whole replica"),
    figure("layers", "size.layers"),
    figure("parts", PART.at("parts")),
    figure("whole_s", meaning="from the order to the first answer"),
    figure("notes"),
))
# fmt: on
