"""Read and write the law of an engine's start."""

from collections.abc import Mapping
from dataclasses import dataclass

from capplan.core.numbers import Interval
from capplan.core.records import NumberRange
from capplan.llm.core.start.law import StartLaw, WakeLaw
from capplan.specs.values import RecordFile

SHIPPED = "llm-start.yaml"
_LAW = RecordFile(
    kind=StartLaw, shipped=SHIPPED, what="a law of starts", usual_range=NumberRange(low=-1e6, high=1e6), digits=4
)
load_start_law, dump_start_law = _LAW.load, _LAW.dump


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """Published figures: an engine's image, the rate at which a new machine pulls it, and how engines wake."""

    image_bytes: float
    image_bytes_per_s: Interval
    sources: tuple[str, ...]
    wakes: Mapping[str, WakeLaw]


load_machine_facts = RecordFile(
    kind=MachineFacts, shipped="llm-start-machine.yaml", what="figures of new machines"
).load
