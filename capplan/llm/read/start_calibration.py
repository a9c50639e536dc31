"""Read and write the law of an engine's start."""

from dataclasses import dataclass
from pathlib import Path

from capplan.core.numbers import Interval
from capplan.core.records import NumberRange
from capplan.llm.core.start.law import StartLaw
from capplan.specs.values import YamlRecordReader


class _StartReader(YamlRecordReader):
    shipped = "llm-start.yaml"
    what = "a law of starts"
    version = 1
    usual_range = NumberRange(low=-1e6, high=1e6)


SHIPPED = _StartReader.shipped


def load_start_law(path: Path | None = None) -> StartLaw:
    """Read the law of starts; the shipped one where no path is given.

    Raises:
        SpecError: The file is missing, not strict YAML, of another schema, or holds unknown, missing or wrong values.
    """
    return _StartReader.load(StartLaw, path)


def dump_start_law(law: StartLaw) -> str:
    """Write the law as YAML, numbers to four significant digits; the same one gives the same text."""
    return _StartReader.dump(law, digits=4)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """Published figures of new machines: the size of an engine's image, and the rate at which one is pulled."""

    image_bytes: float
    image_bytes_per_s: Interval
    sources: tuple[str, ...]


class _MachineReader(YamlRecordReader):
    shipped = "llm-start-machine.yaml"
    what = "figures of new machines"
    version = 1


def load_machine_facts() -> MachineFacts:
    """Read the figures of new machines.

    Raises:
        SpecError: The file is missing, not strict YAML, of another schema, or holds unknown, missing or wrong values.
    """
    return _MachineReader.load(MachineFacts)
