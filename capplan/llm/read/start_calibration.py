"""Read and write the law of an engine's start."""

from collections.abc import Mapping
from dataclasses import dataclass

from capplan.core.numbers import Interval
from capplan.core.records import NumberRange
from capplan.llm.core.start.answer import StartLaw, WakeLaw
from capplan.specs.folders import calibration_file
from capplan.specs.values import RecordFile

_LAW = RecordFile(kind=StartLaw, what="a law of starts", usual_range=NumberRange(low=-1e6, high=1e6), digits=4)
dump_start_law = _LAW.dump


def law_file(engine: str) -> str:
    """Return the name of the file that holds the law of an engine."""
    return f"llm-start-{engine}.yaml"


def load_start_law(engine: str) -> StartLaw | None:
    """Return the law of an engine's start; None where too few logs of it are known."""
    path = calibration_file(law_file(engine))
    return _LAW.load(path) if path.is_file() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """Published figures: an image and its pull, how long a new machine takes by provider, and how engines wake."""

    image_bytes: float
    image_bytes_per_s: Interval
    provisions_s: Mapping[str, Interval]
    sources: tuple[str, ...]
    wakes: Mapping[str, WakeLaw]


load_machine_facts = RecordFile(
    kind=MachineFacts, shipped="llm-start-machine.yaml", what="figures of new machines"
).load
