"""Check one file of specs and turn its figures into base units: a `Sheet`, not yet merged or complete."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

from capplan.core.gpus.spec import Figure, MeasuredRate, Microbenchmark, Quality, Regime, Source
from capplan.specs.gpus.fields import ARCHITECTURE_FIELDS, FIELDS, RULES, Form, SpecKey
from capplan.specs.strict_yaml import Checker, Tree, read_yaml

GPU_WORDS = ("name", "architecture", "form_factor", "capped_from")
ARCHITECTURE_WORDS = ("name", "vendor", "unit")

_PEAK_KEYS = dict.fromkeys(key for key in FIELDS if key.startswith("peak."))
_MEASURED_KEYS = dict.fromkeys(key for key in FIELDS if key.startswith("measured."))
_GPU_KEYS = dict.fromkeys(
    (
        *(*GPU_WORDS, "aliases", *(key for key in FIELDS if "." not in key)),
        *("peak", "measured", "exemptions", "notes", "sources"),
    )
)
_OPERATION_KEYS = dict.fromkeys(key for key in ARCHITECTURE_FIELDS if "." in key)
_ARCHITECTURE_KEYS = dict.fromkeys(
    (
        *ARCHITECTURE_WORDS,
        *(key for key in ARCHITECTURE_FIELDS if "." not in key),
        *("operations_per_clock", "notes", "sources"),
    )
)
_QUANTITY_KEYS = ("value", "unit", "source", "printed")
_VALUE_KEYS = ("value", "source")
_RATE_KEYS = ("value", "unit", "source", "quality", "regime")
_PRINTED_TOLERANCE = 0.01

_Kind = TypeVar("_Kind")
Value = float | int | str | date | tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Entry:
    """A checked value in base units, and how it is written."""

    value: Value
    figure: Figure


class Entries(dict[str, Entry]):
    """A file's entries by dotted key, with their values by type; None where a key is absent or null."""

    def _of(self, key: str, kind: type[_Kind]) -> _Kind | None:
        value = self[key].value if key in self else None
        return value if isinstance(value, kind) else None

    def number(self, key: str) -> float | None:
        """Return a number in base units."""
        whole = self._of(key, int)
        return self._of(key, float) if whole is None else whole

    def integer(self, key: str) -> int | None:
        """Return a whole number."""
        return self._of(key, int)

    def text(self, key: str) -> str | None:
        """Return a word."""
        return self._of(key, str)

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of words; empty where the key is absent."""
        return self._of(key, tuple) or ()

    def day(self, key: str) -> date | None:
        """Return a day."""
        return self._of(key, date)

    def measured(self) -> dict[Microbenchmark, MeasuredRate]:
        """Return the microbenchmarks, by kind."""
        rates = {}
        for kind in Microbenchmark:
            value, entry = self.number(f"measured.{kind}"), self.get(f"measured.{kind}")
            if value is not None and entry is not None and entry.figure.quality and entry.figure.regime:
                rates[kind] = MeasuredRate(value=value, quality=entry.figure.quality, regime=entry.figure.regime)
        return rates

    def figures(self) -> dict[str, Figure]:
        """Return how every value is written, with its sources."""
        return {key: entry.figure for key, entry in self.items()}


class EntryReader(Checker):
    """Reads the values of one file, each by its field's form."""

    def entries(self, tree: Tree, fields: Mapping[str, SpecKey], sources: Mapping[str, Source]) -> Entries:
        """Read all values that have a source."""
        entries = Entries()
        for key, rule in fields.items():
            if key in tree and (entry := self._entry(key, tree[key], rule, sources)) is not None:
                entries[key] = entry
        return entries

    def _entry(self, key: str, given: object, rule: SpecKey, sources: Mapping[str, Source]) -> Entry | None:
        if given is None:
            if rule.nullable:
                return Entry(None, Figure(text="none", origin=self.origin))
            self.refuse(key, "cannot be null; leave it out if it is unknown")
            return None
        if not isinstance(given, dict):
            self.refuse(key, f"must be {_form(rule)}, not {given!r}")
            return None
        keys = _QUANTITY_KEYS if rule.form is Form.QUANTITY else _VALUE_KEYS
        self.unknown_keys(given, _RATE_KEYS if rule.is_measured else keys, f"{key}.")
        if "value" not in given:
            self.refuse(f"{key}.value", "is missing")
            return None
        named = self._named_sources(key, given.get("source"), sources)
        value = self._value(key, given, rule)
        printed = self._printed(key, given) if "printed" in given else None
        if value is None:
            return None
        unit = f" {given['unit']}" if "unit" in given else ""
        figure = given["value"]
        text = ", ".join(map(str, figure)) if isinstance(figure, list) else f"{figure}{unit}"
        written = Figure(text=text, sources=named, printed=printed, origin=self.origin)
        if rule.is_measured:
            quality = self.member(f"{key}.quality", given.get("quality"), Quality)
            regime = self.member(f"{key}.regime", given.get("regime"), Regime)
            written = replace(written, quality=quality, regime=regime)
        return Entry(value, written)

    def _named_sources(self, key: str, given: object, sources: Mapping[str, Source]) -> tuple[Source, ...]:
        names = given if isinstance(given, list) else [given]
        if given is None or not names:
            self.refuse(f"{key}.source", "is missing; every value names its source")
            return ()
        named = []
        for name in names:
            if isinstance(name, str) and name in sources:
                self.used.add(name)
                named.append(sources[name])
            else:
                known = ", ".join(sources) or "there are none"
                self.refuse(f"{key}.source", f"{name!r} is not under sources ({known})")
        return tuple(named)

    def _value(self, key: str, given: Tree, rule: SpecKey) -> Value:
        figure = given["value"]
        if rule.form is Form.QUANTITY:
            return self._quantity(key, figure, given.get("unit"), rule)
        if rule.form is Form.COUNT:
            return self._within(key, figure, figure, rule) if self._is_number(key, figure, whole=True) else None
        if rule.form is Form.DATE:
            if type(figure) is not date:
                self.refuse(f"{key}.value", f"must be a day as YYYY-MM-DD, not {figure!r}")
                return None
            return figure
        if rule.form is Form.WORDS:
            return self._listed(key, figure, rule)
        return self._word(f"{key}.value", figure, rule)

    def _is_number(self, key: str, figure: object, *, whole: bool) -> bool:
        if isinstance(figure, bool) or not isinstance(figure, int if whole else (int, float)):
            self.refuse(f"{key}.value", f"must be a {'whole ' if whole else ''}number, not {figure!r}")
            return False
        return True

    def _quantity(self, key: str, figure: Any, unit: object, rule: SpecKey) -> Value:
        units = rule.units or {}
        if unit is None:
            self.refuse(f"{key}.unit", f"is missing; use {', '.join(units)}")
            return None
        if not isinstance(unit, str) or unit not in units:
            self.refuse(f"{key}.unit", f"unknown unit {unit!r}; use {', '.join(units)}")
            return None
        if not self._is_number(key, figure, whole=False):
            return None
        value = figure * units[unit]
        return self._within(key, figure, round(value) if rule.whole else float(value), rule)

    def _within(self, key: str, figure: object, value: float, rule: SpecKey) -> Value:
        if rule.low <= value <= rule.high:
            return value
        self.refuse(
            f"{key}.value",
            f"{figure} is out of range; {rule.help} lies between {rule.low:g} and {rule.high:g} (base unit)",
        )
        return None

    def _word(self, key: str, figure: object, rule: SpecKey) -> str | None:
        if rule.words and figure not in rule.words:
            self.refuse(key, f"{figure!r} is not known; use {', '.join(rule.words)}")
            return None
        if not isinstance(figure, str) or (rule.pattern and not re.fullmatch(rule.pattern, figure)):
            self.refuse(key, f"{figure!r} is not {rule.help}")
            return None
        return figure

    def _listed(self, key: str, figures: object, rule: SpecKey) -> tuple[str, ...] | None:
        if not isinstance(figures, list):
            self.refuse(f"{key}.value", f"must be a list, not {figures!r}")
            return None
        words = [self._word(f"{key}.value", figure, rule) for figure in figures]
        return tuple(word for word in words if word is not None)

    def _printed(self, key: str, given: Tree) -> str | None:
        printed = given["printed"]
        if not isinstance(printed, dict) or set(printed) != {"value", "sparse_factor"}:
            self.refuse(f"{key}.printed", "must have exactly value and sparse_factor")
            return None
        figure, factor = printed["value"], printed["sparse_factor"]
        if not (
            self._is_number(f"{key}.printed", figure, whole=False) and isinstance(factor, int | float) and factor > 1
        ):
            self.refuse(f"{key}.printed.sparse_factor", f"must be a number above 1, not {factor!r}")
            return None
        dense = given.get("value")
        if isinstance(dense, int | float) and abs(figure - dense * factor) > _PRINTED_TOLERANCE * figure:
            self.refuse(f"{key}.printed", f"{figure} is not {factor} times the dense {dense}")
        return f"{figure:g} {given.get('unit', '')} with sparsity {factor:g}"


def _form(rule: SpecKey) -> str:
    if rule.is_measured:
        units = " or ".join(rule.units or {})
        return f"{{value: ..., unit: {units}, source: ..., quality: A or B or C, regime: sustained or burst}}"
    if rule.form is Form.QUANTITY:
        return f"{{value: ..., unit: {' or '.join(rule.units or {})}, source: ...}}"
    return "{value: ..., source: ...}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exemption:
    """A rule of validation that named keys of one file need not keep, and why."""

    rule: str
    keys: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """What one file says; `entries` and `words` hold only the keys that it gives."""

    id: str
    file: str
    words: Mapping[str, str]
    aliases: tuple[str, ...] = ()
    entries: Entries = field(default_factory=Entries)
    exemptions: tuple[Exemption, ...] = ()
    notes: tuple[str, ...] = ()


def read_gpu_sheet(path: Path, *, shown: str, origin: str) -> Sheet:
    """Read a GPU's file; its stem is the id.

    Raises:
        SpecFileError: everything that is wrong with the file.
    """
    keys = {"": _GPU_KEYS, "peak": _PEAK_KEYS, "measured": _MEASURED_KEYS}
    return _read_sheet(path, _SheetReader(shown, origin), words=GPU_WORDS, fields=FIELDS, keys=keys)


def read_architecture_sheet(path: Path, *, shown: str, origin: str) -> Sheet:
    """Read an architecture's file; its stem is the id.

    Raises:
        SpecFileError: everything that is wrong with the file.
    """
    keys = {"": _ARCHITECTURE_KEYS, "operations_per_clock": _OPERATION_KEYS}
    reader, needed = _SheetReader(shown, origin), ("name", "vendor")
    return _read_sheet(path, reader, words=ARCHITECTURE_WORDS, fields=ARCHITECTURE_FIELDS, keys=keys, needed=needed)


def _read_sheet(
    path: Path,
    reader: "_SheetReader",
    *,
    words: tuple[str, ...],
    fields: Mapping[str, SpecKey],
    keys: Mapping[str, Collection[str]],
    needed: tuple[str, ...] = (),
) -> Sheet:
    """Read a file whose `keys` are those of its top, and by the groups in it."""
    tree = read_yaml(path, shown=reader.file)
    reader.check_id(path.stem)
    sources = reader.sources(tree)
    trees = {name: reader.group(tree, name) if name else tree for name in keys}
    sheet = Sheet(
        id=path.stem,
        file=reader.file,
        words=reader.words(tree, words),
        aliases=reader.texts(tree, "aliases") if "aliases" in keys[""] else (),
        entries=reader.entries({key: value for part in trees.values() for key, value in part.items()}, fields, sources),
        exemptions=reader.exemptions(tree) if "exemptions" in keys[""] else (),
        notes=reader.texts(tree, "notes"),
    )
    for name, part in trees.items():
        reader.unknown_keys(part, keys[name], "")
    reader.missing_words(sheet.words, needed)
    reader.finish(sources)
    return sheet


class _SheetReader(EntryReader):
    """Reads what only files of GPUs hold."""

    def exemptions(self, tree: Tree) -> tuple[Exemption, ...]:
        """Read the stated exceptions from the rules of validation."""
        items = tree.get("exemptions", [])
        if not isinstance(items, list):
            self.refuse("exemptions", "must be a list of rule, keys and reason")
            return ()
        read = (self._exemption(f"exemptions[{index}]", given) for index, given in enumerate(items))
        return tuple(exemption for exemption in read if exemption is not None)

    def _exemption(self, key: str, given: object) -> Exemption | None:
        if not isinstance(given, dict) or set(given) != {"rule", "keys", "reason"}:
            self.refuse(key, "must have exactly rule, keys and reason")
            return None
        if given["rule"] not in RULES:
            self.refuse(f"{key}.rule", f"{given['rule']!r} is not a rule; rules are {', '.join(RULES)}")
            return None
        keys, reason = given["keys"], given["reason"]
        if not isinstance(keys, list) or not all(isinstance(name, str) and name in FIELDS for name in keys):
            self.refuse(f"{key}.keys", f"must be a list of keys of this file, such as peak.bf16, not {keys!r}")
            return None
        if not isinstance(reason, str):
            self.refuse(f"{key}.reason", "must say why")
            return None
        return Exemption(rule=given["rule"], keys=tuple(keys), reason=reason)
