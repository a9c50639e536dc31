"""Read and write typed records: dataclasses from the plain values of YAML and JSON, each field by its type."""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from datetime import date, datetime
from enum import StrEnum
from types import MappingProxyType, NoneType
from typing import Any, TypeVar, get_args, get_origin

from capplan.core.json_fields import (
    DamageError,
    as_list,
    as_mapping,
    check_choice,
    check_flag,
    check_number,
    check_text,
    check_whole,
)

Record = TypeVar("Record")
_NOTHING: Mapping[Any, Any] = MappingProxyType({})


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRules:
    """How records are read where the types of their fields alone do not say it.

    Attributes:
        ranges: Which numbers a field may hold, by the dataclass and the field's name.
        usual_range: Which numbers all other fields may hold.
        keys: How the file names a field, by the dataclass, where it is another name than the field's.
        parsers: How a field is read, by the dataclass, where its type alone does not say it.
        forms: How the mapping of a file becomes that of the fields, by the dataclass, where they are grouped otherwise.
        optional: Members of enumerations that a mapping by their words may lack.
        older: What stands for keys that older files lack, by the dataclass.
        retired: Keys that are ignored, by the dataclass: obsolete ones, and remarks for readers of the file.
        takes_defaults: A field with a default may be left out.
    """

    ranges: Mapping[type, Mapping[str, NumberRange]] = field(default_factory=dict)
    usual_range: NumberRange = NumberRange(high=1e15)
    keys: Mapping[type, Mapping[str, str]] = field(default_factory=dict)
    parsers: Mapping[type, Mapping[str, Callable[[Any], Any]]] = field(default_factory=dict)
    forms: Mapping[type, Callable[[dict[str, Any]], dict[str, Any]]] = field(default_factory=dict)
    optional: Collection[StrEnum] = ()
    older: Mapping[type, Mapping[str, object]] = field(default_factory=dict)
    retired: Mapping[type, Collection[str]] = field(default_factory=dict)
    takes_defaults: bool = True


class RecordReader:
    """Reads dataclasses from mappings, each field by its type; what refuses, and how it is worded, is a subclass's."""

    rules: RecordRules

    @property
    def refused(self) -> int:
        """Return how many values were refused so far and read as None."""
        return 0

    def refuse(self, key: str, message: str) -> None:
        raise NotImplementedError

    def wrong(self, where: str, given: object, wanted: str) -> None:
        self.refuse(where, f"must be {wanted}, not {given!r}")

    def unknown_keys(self, tree: dict[str, Any], known: Collection[str], prefix: str) -> None:
        """Refuse keys that mean nothing here."""
        raise NotImplementedError

    def record(
        self, kind: type[Record], given: object, where: str, *, read: Mapping[str, object] = _NOTHING
    ) -> Record | None:
        """Read one dataclass; None where something in it is refused."""
        if (held := self.mapping_at(where, given)) is None:
            return None
        before, prefix = self.refused, f"{where}." if where else ""
        retired, names = self.rules.retired.get(kind, ()), self.rules.keys.get(kind, _NOTHING)
        held = {**self.rules.older.get(kind, {}), **{key: value for key, value in held.items() if key not in retired}}
        if kind in self.rules.forms:
            held = self.rules.forms[kind](held)
        known = {names.get(item.name, item.name): item for item in fields(kind) if item.name not in read}  # type: ignore[arg-type]  # a dataclass
        self.unknown_keys(held, known, prefix)
        values: dict[str, Any] = dict(read)
        for key, item in known.items():
            if key in held:
                values[item.name] = self._field(kind, item.name, item.type, held[key], f"{prefix}{key}")
            elif not self.rules.takes_defaults or (item.default is MISSING and item.default_factory is MISSING):
                self.refuse(f"{prefix}{key}", "is missing")
        if self.refused > before:
            return None
        try:
            return kind(**values)
        except ValueError as error:
            self.refuse(where, str(error))
            return None

    def _field(self, record: type, name: str, kind: Any, given: object, where: str) -> Any:
        parser = self.rules.parsers.get(record, _NOTHING).get(name)
        if parser is None:
            return self.value(
                kind, given, where, self.rules.ranges.get(record, _NOTHING).get(name, self.rules.usual_range)
            )
        try:
            return parser(given)
        except KeyError as error:
            self.refuse(f"{where}.{error.args[0]}", "is missing")
        except (TypeError, ValueError, AttributeError) as error:
            self.refuse(where, str(error))

    def value(self, kind: Any, given: object, where: str, allowed: NumberRange) -> Any:
        """Read one value of a type: a dataclass, a mapping, a list, a text, a word, a day, a flag or a number."""
        if is_dataclass(kind):
            return self.record(kind, given, where)  # type: ignore[arg-type]  # a type, not one of its values
        if NoneType in get_args(kind):
            [kind] = [choice for choice in get_args(kind) if choice is not NoneType]
            return None if given is None else self.value(kind, given, where, allowed)
        origin = get_origin(kind)
        if origin is Mapping:
            keys, values = get_args(kind)
            held = self.mapping_of(values, given, where, allowed)
            return self.by_members(keys, held, where) if issubclass(keys, StrEnum) else held
        if origin in (tuple, frozenset):
            return origin(self.items_of(get_args(kind)[0], given, where, allowed))
        if kind in (date, datetime, bool) or issubclass(kind, StrEnum):
            return self.word(where, given, kind)
        if kind is str:
            return self.text(where, given)
        return self.whole(where, given, allowed) if kind is int else self.number(where, given, allowed)

    def mapping_at(self, where: str, given: object) -> dict[str, Any] | None:
        """Return a mapping; None where it is refused."""
        if not isinstance(given, dict):
            self.wrong(where, given, "keys with values")
            return None
        return given

    def mapping_of(self, kind: Any, given: object, where: str, allowed: NumberRange) -> dict[str, Any]:
        """Read values of one type by their names; empty where it is refused."""
        held = self.mapping_at(where, given) or {}
        return {name: self.value(kind, value, f"{where}.{name}", allowed) for name, value in held.items()}

    def by_members(self, keys: type[StrEnum], held: dict[str, Any], where: str) -> dict[StrEnum, Any]:
        """Return values by the members of an enumeration instead of their words; members that lack are refused."""
        members = list(keys)
        self.unknown_keys(held, members, f"{where}.")
        for member in members:
            if member not in held and member not in self.rules.optional:
                self.refuse(f"{where}.{member}", "is missing")
        return {member: held[member] for member in members if member in held}

    def items_of(self, kind: Any, given: object, where: str, allowed: NumberRange) -> list[Any]:
        """Read the items of a list; empty where it is refused."""
        are_texts = isinstance(given, list | tuple) and all(isinstance(item, str) for item in given)
        if not isinstance(given, list | tuple) or (kind is str and not are_texts):
            self.wrong(where, given, "a list of texts" if kind is str else "a list")
            return []
        if kind is str:
            return list(given)
        return [self.value(kind, item, f"{where}[{index}]", allowed) for index, item in enumerate(given)]

    def text(self, where: str, given: object) -> Any:
        """Return a text, refused where it is something else."""
        if not isinstance(given, str) or not given.strip():
            self.refuse(where, f"must be text, not {given!r}; quote it if it looks like something else")
            return None
        return given.strip()

    def word(self, where: str, given: object, kind: Any) -> Any:
        """Return a day, true or false, or one of a fixed set of words, refused where it is something else."""
        if issubclass(kind, StrEnum):
            if given in tuple(kind):
                return kind(given)
            self.refuse(where, f"{given!r} is not known; use {', '.join(kind)}")
        elif type(given) is not kind:
            self.refuse(
                where, "must be true or false" if kind is bool else f"is {given!r}; write a date such as 2026-11-21"
            )
        return given

    def number(self, where: str, given: object, allowed: NumberRange) -> Any:
        """Return a number, refused where it lies out of a range or is something else."""
        if isinstance(given, bool) or not isinstance(given, int | float):
            self.wrong(where, given, "a number")
        elif not allowed.holds(given):
            self.refuse(where, f"must lie {allowed}, not {given:g}")
        return given

    def whole(self, where: str, given: object, allowed: NumberRange) -> Any:
        """Return a whole number, refused where it lies out of a range or is something else."""
        return self.number(where, given, allowed)


_LARGEST_WHOLE = 2**62


class JsonReader(RecordReader):
    """Reads dataclasses from JSON; the first value that is wrong is refused, and every key must be there.

    A refusal is a ValueError that follows the name of the file.
    """

    def __init__(self, rules: RecordRules) -> None:
        self.rules = replace(rules, usual_range=NumberRange(high=math.inf), takes_defaults=False)

    def refuse(self, key: str, message: str) -> None:
        raise ValueError(f"{key} {message}")

    def wrong(self, where: str, given: object, wanted: str) -> None:
        raise DamageError(where, given, wanted)

    def unknown_keys(self, tree: dict[str, Any], known: Collection[str], prefix: str) -> None:
        """Refuse keys that mean nothing here."""
        for key in tree:
            if key not in known:
                self.refuse(f"{prefix}{key}", f"is an unknown key; known are {', '.join(known)}")

    def mapping_at(self, where: str, given: object) -> dict[str, Any] | None:
        return dict(as_mapping(given, where))

    def items_of(self, kind: Any, given: object, where: str, allowed: NumberRange) -> list[Any]:
        return super().items_of(kind, as_list(given, where), where, allowed)

    def text(self, where: str, given: object) -> Any:
        check_text(given, where)
        return given

    def word(self, where: str, given: object, kind: Any) -> Any:
        """Return a flag, a moment in ISO 8601, or one of a fixed set of words."""
        if kind is bool:
            check_flag(given, where)
            return given
        if kind is datetime:
            return datetime.fromisoformat(self.text(where, given))
        check_choice(given, where, known=tuple(kind))
        return kind(given)

    def number(self, where: str, given: object, allowed: NumberRange) -> Any:
        check_number(given, where, low=allowed.low, high=allowed.high)
        return given

    def whole(self, where: str, given: object, allowed: NumberRange) -> Any:
        """Return a whole number of at most 2⁶², unless a range says less."""
        check_whole(given, where, low=int(allowed.low), high=int(min(allowed.high, _LARGEST_WHOLE)))
        return given


def as_plain(value: Any) -> Any:
    """Return a record as mappings, lists, texts and numbers, its fields in their order."""
    if is_dataclass(value):
        return {item.name: as_plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): as_plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [as_plain(item) for item in value]
    if isinstance(value, frozenset):
        return sorted(value)
    return value.value if isinstance(value, StrEnum) else value
