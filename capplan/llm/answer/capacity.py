"""How many sequences fit in the memory of a deployment, by the memory rules of its engine."""

from collections.abc import Callable

from capplan.errors import SpecError
from capplan.llm.core.engines import LlmMemoryConstants
from capplan.llm.core.memory_answer import MemoryAnswer, MemoryRequest, answer_memory
from capplan.llm.read.memory_calibration import parse_version


def version_of(text: str) -> tuple[int, ...] | None:
    """Return the numbers of an engine's version, None where it is not stated in numbers."""
    try:
        return parse_version(text) if text else None
    except SpecError:
        return None


def divide(request: MemoryRequest, constants: LlmMemoryConstants) -> MemoryAnswer:
    """Divide the memory of one replica, without asking what other choices would change."""
    return answer_memory(request, constants, alternatives=False)


def sequences_that_fit(memory: MemoryAnswer) -> Callable[[float], float]:
    """Return a function from a sequence's tokens to how many such sequences fit in one replica, 0 where none does."""
    ranks = memory.request.sharding.data

    def fitting(tokens: float) -> float:
        return float(memory.stage.sequences(max(1, round(tokens))) * ranks)

    return fitting
