"""Read values of load files (rates, times, amounts, shares), and the dataclasses that calibrations hold."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from capplan.core.records import Record, RecordReader, RecordRules, as_plain
from capplan.errors import UsageError
from capplan.specs.folders import calibration_file
from capplan.specs.strict_yaml import Checker, Tree, dump_yaml, read_versioned
from capplan.units import SECONDS, parse_quantity

Value = TypeVar("Value")
_LARGEST = 1e15
_COUNT = re.compile(r"(\d+(?:\.\d+)?)\s*(k|M|G|B)")
_AMOUNT = re.compile(r"(\d+(?:,\d{3})*(?:\.\d+)?)\s*(?:(k|M)?\s*USD|(k|M))?")
_SCALES = {"k": 1e3, "M": 1e6, "G": 1e9, "B": 1e9}
_WATTS = {"W": 1.0, "kW": 1e3, "MW": 1e6}


def per_second(text: str) -> float | None:
    """Return the rate that a number over a time states, such as 500/s, 30k/min; None for other words. [1/s]"""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(k|M)?\s*/\s*(s|min|h|d)", text)
    return None if match is None else float(match[1]) * _SCALES.get(match[2], 1) / SECONDS[match[3]]


class ValueReader(Checker):
    """Reads single values; a value of another kind is refused and read as None."""

    def number(self, where: str, given: object) -> float | None:
        """Read a finite number."""
        if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
            self.refuse(where, f"must be a number, not {given!r}")
            return None
        if abs(given) > _LARGEST or 0 < abs(given) < 1 / _LARGEST:
            self.refuse(where, f"must lie between {1 / _LARGEST:g} and {_LARGEST:g}, not {given:g}")
            return None
        return float(given)

    def fraction(self, where: str, given: object) -> float | None:
        """Read 0.7 or "70 %"."""
        if isinstance(given, str) and (match := re.fullmatch(r"(-?\d+(?:\.\d+)?)\s*%", given)):
            return float(match[1]) / 100
        return self.number(where, given)

    def change(self, where: str, given: object) -> float | None:
        """Read a growth such as 0.2 or "20 %"; a plain 5 is refused, which may mean 5 % or 500 %."""
        value = self.fraction(where, given)
        if value is not None and value > 1 and not isinstance(given, str):
            self.refuse(where, f"{value:g} may mean {value:g} % or {100 * value:g} %; write it with the sign %")
            return None
        return value

    def positive(self, where: str, value: float | None) -> float | None:
        """Refuse what is not above 0."""
        if value is not None and not value > 0:
            self.refuse(where, f"must be above 0, not {value:g}")
            return None
        return value

    def rate(self, where: str, given: object) -> float | None:
        """Read samples a second: 500, "500/s", "30k/min"."""
        if isinstance(given, str):
            rate = per_second(given)
            if rate is None:
                self.refuse(where, f"{given!r} is not a rate; write samples per time such as 500/s or 2M/d")
                return None
            return self.positive(where, rate)
        return self.positive(where, self.number(where, given))

    def duration(self, where: str, given: object) -> float | None:
        """Read a time with its unit, in seconds; 0 is one. [s]"""
        if not isinstance(given, str):
            self.refuse(where, f"must be a time with its unit, such as 50 ms or 6 h, not {given!r}")
            return None
        try:
            value = parse_quantity(given, SECONDS, what=where)
        except UsageError as error:
            self.refuse("", str(error))
            return None
        if value < 0:
            self.refuse(where, f"must not be negative, not {given!r}")
            return None
        return value

    def count(self, where: str, given: object) -> float | None:
        """Read a number of samples or epochs: 1281167, "1.28M"."""
        if isinstance(given, str):
            match = _COUNT.fullmatch(given)
            if not match:
                self.refuse(where, f"{given!r} is not a count; write a number such as 1281167 or 1.28M")
                return None
            return self.positive(where, float(match[1]) * _SCALES[match[2]])
        return self.positive(where, self.number(where, given))

    def amount(self, where: str, given: object) -> float | None:
        """Read US dollars: 250000, "250k", "1.2M USD", "250,000 USD". [USD]"""
        if isinstance(given, str):
            match = _AMOUNT.fullmatch(given)
            if not match:
                self.refuse(where, f"{given!r} is not an amount; write US dollars such as 250000, 250k or 1.2M USD")
                return None
            return self.positive(where, float(match[1].replace(",", "")) * _SCALES.get(match[2] or match[3], 1))
        return self.positive(where, self.number(where, given))

    def watts(self, where: str, given: object) -> float | None:
        """Read a power with its unit. [W]"""
        if not isinstance(given, str):
            self.refuse(where, f"must be a power with its unit, such as 20 kW, not {given!r}")
            return None
        try:
            return self.positive(where, parse_quantity(given, _WATTS, what=where))
        except UsageError as error:
            self.refuse("", str(error))
            return None


class YamlRecordReader(Checker, RecordReader):
    """Reads dataclasses from YAML, and gathers all that is wrong with their file."""

    def __init__(self, shown: str, rules: RecordRules) -> None:
        super().__init__(shown, shown)
        self.rules = rules

    @property
    def refused(self) -> int:
        """Return how many values were refused so far."""
        return len(self.problems)

    def finished(self, record: Value | None) -> Value:
        """Return a record that was read, or refuse its file."""
        self.finish({})
        assert record is not None  # whatever was not read was refused
        return record


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFile(RecordRules, Generic[Record]):
    """A kind of YAML file that holds one record, one of which is shipped.

    Attributes:
        shipped: Name of the file in `calibrations/` that is read if no other is named.
        what: What such a file is, with its article, for messages.
        version: The schema that is read and written.
        unwritten: Fields of the whole that no file holds, with their values.
        digits: Significant digits of the fractions that are written; None for all.
    """

    kind: type[Record]
    shipped: str = ""
    what: str
    version: int = 1
    unwritten: Mapping[str, object] = field(default_factory=dict)
    digits: int | None = None

    def opened(self, path: Path | None = None) -> tuple[YamlRecordReader, Tree]:
        """Return a reader for a file, the shipped one if none is named, and what the file holds.

        Raises:
            SpecError: The file is missing, not strict YAML, or of another schema.
        """
        where, file = str(path) if path else f"calibrations/{self.shipped}", path or calibration_file(self.shipped)
        document = read_versioned(file, what=self.what, version=self.version, shown=where)
        return YamlRecordReader(where, self), document

    def load(self, path: Path | None = None, **read: object) -> Record:
        """Read a whole file as one record.

        Raises:
            SpecError: The file is missing, not strict YAML, of another schema, or holds unknown, missing or wrong
                values; the message lists all of them.
        """
        reader, document = self.opened(path)
        return reader.finished(reader.record(self.kind, document, "", read={**self.unwritten, **read}))

    def load_by_name(self, key: str) -> Mapping[str, Record]:
        """Read the records that the shipped file holds by name under a key.

        Raises:
            SpecError: as `load`.
        """
        reader, document = self.opened()
        reader.unknown_keys(document, [key], "")
        return reader.finished(reader.mapping_of(self.kind, document.get(key), key, self.usual_range))

    def dump(self, record: Record) -> str:
        """Write a record as YAML, its fields in their order; the same one gives the same text."""
        held = {name: value for name, value in as_plain(record).items() if name not in self.unwritten}
        return dump_yaml({"schema_version": self.version, **held}, digits=self.digits)
