"""Read values of load files (rates, times, amounts, shares), and the dataclasses that calibrations hold."""

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import date
from types import MappingProxyType, NoneType
from typing import Any, ClassVar, TypeVar, get_args, get_origin

from capplan.errors import UsageError
from capplan.specs.strict_yaml import Checker
from capplan.units import SECONDS, parse_quantity

Record = TypeVar("Record")
_LARGEST = 1e15
_COUNT = re.compile(r"(\d+(?:\.\d+)?)\s*(k|M|G|B)")
_AMOUNT = re.compile(r"(\d+(?:,\d{3})*(?:\.\d+)?)\s*(?:(k|M)?\s*USD|(k|M))?")
_SCALES = {"k": 1e3, "M": 1e6, "G": 1e9, "B": 1e9}
_WATTS = {"W": 1.0, "kW": 1e3, "MW": 1e6}


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

    def positive(self, where: str, value: float | None) -> float | None:
        """Refuse what is not above 0."""
        if value is not None and not value > 0:
            self.refuse(where, f"must be above 0, not {value:g}")
            return None
        return value

    def rate(self, where: str, given: object) -> float | None:
        """Read samples a second: 500, "500/s", "30k/min"."""
        if isinstance(given, str):
            match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(k|M)?\s*/\s*(s|min|h|d)", given)
            if not match:
                self.refuse(where, f"{given!r} is not a rate; write samples per time such as 500/s or 2M/d")
                return None
            return self.positive(where, float(match[1]) * _SCALES.get(match[2], 1) / SECONDS[match[3]])
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


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberRange:
    """Which numbers a field may hold: from `low`, left out where `is_open`, to `high`."""

    low: float = 0.0
    high: float = 1000.0
    is_open: bool = False

    def holds(self, value: float) -> bool:
        """Return True for a number that lies within."""
        return (self.low < value if self.is_open else self.low <= value) and value <= self.high

    def __str__(self) -> str:
        """Return both ends in words, to follow "must lie"."""
        return f"{'above' if self.is_open else 'from'} {self.low:g} to {self.high:g}"


class RecordReader(Checker):
    """Reads dataclasses from mappings, each field by its type, and gathers all that is wrong with their file.

    Attributes:
        ranges: Which numbers a field may hold, by the dataclass and the field's name.
        usual_range: Which numbers all other fields may hold.
        older: What stands for keys that older files lack, by the dataclass.
        retired: Keys of older files whose numbers nothing uses any more: they are read over.
        takes_defaults: A field with a default may be left out.
    """

    ranges: ClassVar[Mapping[type, Mapping[str, NumberRange]]] = MappingProxyType({})
    usual_range: ClassVar[NumberRange] = NumberRange(high=_LARGEST)
    older: ClassVar[Mapping[type, Mapping[str, object]]] = MappingProxyType({})
    retired: ClassVar[Mapping[type, Collection[str]]] = MappingProxyType({})
    takes_defaults: ClassVar[bool] = True

    def record(self, kind: type[Record], given: object, where: str, *, without: Collection[str] = ()) -> Record | None:
        """Read one dataclass; None where something in it is refused.

        Args:
            kind: the dataclass.
            given: the mapping.
            where: its dotted key; empty for the top of the file.
            without: fields that no file holds.
        """
        if not isinstance(given, dict):
            self.refuse(where, f"must be keys with values, not {given!r}")
            return None
        before, prefix = len(self.problems), f"{where}." if where else ""
        retired = self.retired.get(kind, ())
        given = {**self.older.get(kind, {}), **{key: value for key, value in given.items() if key not in retired}}
        known = [item for item in fields(kind) if item.name not in without]  # type: ignore[arg-type]  # a dataclass
        self.unknown_keys(given, [item.name for item in known], prefix)
        values: dict[str, Any] = {}
        for item in known:
            if item.name in given:
                allowed = self.ranges.get(kind, {}).get(item.name, self.usual_range)
                values[item.name] = self.value(item.type, given[item.name], f"{prefix}{item.name}", allowed)
            elif not self.takes_defaults or (item.default is MISSING and item.default_factory is MISSING):
                self.refuse(f"{prefix}{item.name}", "is missing")
        return kind(**values) if len(self.problems) == before else None

    def value(self, kind: Any, given: object, where: str, allowed: NumberRange) -> Any:
        """Read one value of a type: a dataclass, a mapping, a list of texts, a text, a day or a number."""
        if is_dataclass(kind):
            return self.record(kind, given, where)  # type: ignore[arg-type]  # a type, not one of its values
        if NoneType in get_args(kind):
            [kind] = [choice for choice in get_args(kind) if choice is not NoneType]
            return None if given is None else self.value(kind, given, where, allowed)
        if get_origin(kind) is Mapping:
            return self.mapping_of(get_args(kind)[1], given, where, allowed)
        if get_origin(kind) is tuple:
            if not isinstance(given, list | tuple) or not all(isinstance(text, str) for text in given):
                self.refuse(where, f"must be a list of texts, not {given!r}")
                return ()
            return tuple(given)
        if kind is str:
            return self.words({where: given}, (where,)).get(where)
        if kind is date:
            if type(given) is not date:
                self.refuse(where, f"is {given!r}; write a date such as 2026-11-21")
            return given
        return self.number(where, given, allowed)

    def mapping_of(self, kind: Any, given: object, where: str, allowed: NumberRange) -> dict[str, Any]:
        """Read values of one type by their names; empty where it is refused."""
        if not isinstance(given, dict):
            self.refuse(where, f"must be keys with values, not {given!r}")
            return {}
        return {name: self.value(kind, value, f"{where}.{name}", allowed) for name, value in given.items()}

    def number(self, where: str, given: object, allowed: NumberRange) -> Any:
        """Return a number, refused where it lies out of a range or is something else."""
        if isinstance(given, bool) or not isinstance(given, int | float):
            self.refuse(where, f"must be a number, not {given!r}")
        elif not allowed.holds(given):
            self.refuse(where, f"must lie {allowed}, not {given:g}")
        return given
