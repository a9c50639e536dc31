"""Check one file of specs and turn its figures into base units: a `Sheet`, not yet merged or complete."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from capplan.core.gpu import Figure, Source, SourceKind
from capplan.errors import nearest_names
from capplan.specs.fields import ARCHITECTURE_FIELDS, FIELDS, RULES, Field, Form
from capplan.specs.problems import Problem, SpecFileError
from capplan.specs.strict_yaml import Tree, read_yaml

_ID = re.compile(r"[a-z0-9]+(?:[.-][a-z0-9]+)*")
_GPU_WORDS = ("name", "architecture", "form_factor", "capped_from")
_ARCHITECTURE_WORDS = ("name", "vendor", "unit")
_PRINTED_TOLERANCE = 0.01
MAX_SOURCES = 40

Value = float | int | str | date | tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Entry:
    """A checked value in base units, and how it is written."""

    value: Value
    figure: Figure


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
    entries: Mapping[str, Entry] = field(default_factory=dict)
    exemptions: tuple[Exemption, ...] = ()
    notes: tuple[str, ...] = ()


def read_gpu_sheet(path: Path, *, shown: str, origin: str) -> Sheet:
    """Read a GPU's file; its stem is the id.

    Raises:
        SpecFileError: everything that is wrong with the file.
    """
    checker = _Checker(shown, origin)
    tree = read_yaml(path, shown=shown)
    checker.check_id(path.stem)
    sources = checker.sources(tree)
    peaks = checker.group(tree, "peak")
    sheet = Sheet(
        id=path.stem,
        file=shown,
        words=checker.words(tree, _GPU_WORDS),
        aliases=checker.texts(tree, "aliases"),
        entries=checker.entries({**tree, **peaks}, FIELDS, sources),
        exemptions=checker.exemptions(tree),
        notes=checker.texts(tree, "notes"),
    )
    nested = [key for key in FIELDS if key.startswith("peak.")]
    top = [key for key in FIELDS if key not in nested]
    checker.unknown_keys(tree, [*_GPU_WORDS, "aliases", "notes", "exemptions", "sources", "peak", *top], "")
    checker.unknown_keys(peaks, nested, "")
    checker.finish(sources)
    return sheet


def read_architecture_sheet(path: Path, *, shown: str, origin: str) -> Sheet:
    """Read an architecture's file; its stem is the id.

    Raises:
        SpecFileError: everything that is wrong with the file.
    """
    checker = _Checker(shown, origin)
    tree = read_yaml(path, shown=shown)
    checker.check_id(path.stem)
    sources = checker.sources(tree)
    operations = checker.group(tree, "operations_per_clock")
    sheet = Sheet(
        id=path.stem,
        file=shown,
        words=checker.words(tree, _ARCHITECTURE_WORDS),
        entries=checker.entries({**tree, **operations}, ARCHITECTURE_FIELDS, sources),
        notes=checker.texts(tree, "notes"),
    )
    nested = [key for key in ARCHITECTURE_FIELDS if "." in key]
    top = [key for key in ARCHITECTURE_FIELDS if key not in nested]
    checker.unknown_keys(tree, [*_ARCHITECTURE_WORDS, "notes", "sources", "operations_per_clock", *top], "")
    checker.unknown_keys(operations, nested, "")
    checker.missing_words(sheet.words, ("name", "vendor"))
    checker.finish(sources)
    return sheet


class _Checker:
    """Gathers the problems of one file while its parts are read."""

    def __init__(self, file: str, origin: str) -> None:
        self.file = file
        self.origin = origin
        self.problems: list[Problem] = []
        self._used: set[str] = set()

    def refuse(self, key: str, message: str) -> None:
        """Note one problem."""
        self.problems.append(Problem(file=self.file, key=key, message=message))

    def check_id(self, stem: str) -> None:
        """An id is what a user types: small letters, digits, dashes."""
        if not _ID.fullmatch(stem):
            self.refuse("", f"the id {stem!r} (the file's stem) must be small letters, digits and single dashes")

    def finish(self, sources: Mapping[str, Source]) -> None:
        """Refuse unused sources, then the whole file if anything was noted."""
        for name in sources:
            if name not in self._used:
                self.refuse(f"sources.{name}", "is used by no value; drop it")
        if self.problems:
            raise SpecFileError(self.problems)

    def unknown_keys(self, tree: Tree, known: list[str], prefix: str) -> None:
        """Refuse keys that mean nothing here."""
        for key in tree.keys() - set(known):
            nearest = nearest_names(key, known)
            meant = f"did you mean {', '.join(nearest)}?" if nearest else f"known are {', '.join(known)}"
            self.refuse(f"{prefix}{key}", f"unknown key; {meant}")

    def missing_words(self, words: Mapping[str, str], names: tuple[str, ...]) -> None:
        """Refuse a file without the words that it must have."""
        for name in names:
            if name not in words:
                self.refuse(name, "is missing")

    def group(self, tree: Tree, name: str) -> Tree:
        """Give a nested mapping's keys their dotted names."""
        inner = tree.get(name, {})
        if not isinstance(inner, dict):
            self.refuse(name, f"must be keys with values, not {inner!r}")
            return {}
        return {f"{name}.{key}": value for key, value in inner.items()}

    def words(self, tree: Tree, names: tuple[str, ...]) -> dict[str, str]:
        """Read the keys that hold bare text."""
        found = {}
        for name in names:
            if name in tree:
                word = tree[name]
                if isinstance(word, str) and word.strip():
                    found[name] = word.strip()
                else:
                    self.refuse(name, f"must be text, not {word!r}; quote it if it looks like something else")
        return found

    def texts(self, tree: Tree, name: str) -> tuple[str, ...]:
        """Read a list of texts, none twice."""
        items = tree.get(name, [])
        if not isinstance(items, list) or not all(isinstance(item, str) and item.strip() for item in items):
            self.refuse(name, f"must be a list of texts, not {items!r}")
            return ()
        if len(set(items)) < len(items):
            self.refuse(name, "holds the same text twice; keep one")
        return tuple(items)

    def sources(self, tree: Tree) -> dict[str, Source]:
        """Read the sources that values name."""
        group = tree.get("sources", {})
        if not isinstance(group, dict):
            self.refuse("sources", f"must be keys with values, not {group!r}")
            return {}
        return {
            name: source
            for name, given in group.items()
            if (source := self._source(f"sources.{name}", given)) is not None
        }

    def _source(self, key: str, given: object) -> Source | None:
        if not isinstance(given, dict):
            self.refuse(key, "must have kind and title")
            return None
        self.unknown_keys(given, ["kind", "title", "publisher", "url", "retrieved"], f"{key}.")
        kind, retrieved = given.get("kind"), given.get("retrieved")
        kinds = [member.value for member in SourceKind]
        if kind not in kinds:
            self.refuse(f"{key}.kind", f"{kind!r} is no kind of source; use {', '.join(kinds)}")
            return None
        if not isinstance(given.get("title"), str):
            self.refuse(f"{key}.title", "a source needs a title")
            return None
        if retrieved is not None and type(retrieved) is not date:
            self.refuse(f"{key}.retrieved", f"must be a day as YYYY-MM-DD, not {retrieved!r}")
            return None
        if kind in (SourceKind.DATASHEET, SourceKind.SECONDARY) and retrieved is None:
            self.refuse(f"{key}.retrieved", "somebody else's document needs the day it was read, as YYYY-MM-DD")
        return Source(
            kind=SourceKind(kind),
            title=given["title"],
            publisher=given.get("publisher"),
            url=given.get("url"),
            retrieved=retrieved,
        )

    def exemptions(self, tree: Tree) -> tuple[Exemption, ...]:
        """Read the stated exceptions from the rules of validation."""
        items = tree.get("exemptions", [])
        if not isinstance(items, list):
            self.refuse("exemptions", "must be a list of rule, keys and reason")
            return ()
        return tuple(
            found
            for index, given in enumerate(items)
            if (found := self._exemption(f"exemptions[{index}]", given)) is not None
        )

    def _exemption(self, key: str, given: object) -> Exemption | None:
        if not isinstance(given, dict) or set(given) != {"rule", "keys", "reason"}:
            self.refuse(key, "must have exactly rule, keys and reason")
            return None
        if given["rule"] not in RULES:
            self.refuse(f"{key}.rule", f"{given['rule']!r} is no rule; rules are {', '.join(RULES)}")
            return None
        keys, reason = given["keys"], given["reason"]
        if not isinstance(keys, list) or not all(name in FIELDS for name in keys):
            self.refuse(f"{key}.keys", f"must be a list of keys of this file, such as peak.bf16, not {keys!r}")
            return None
        if not isinstance(reason, str):
            self.refuse(f"{key}.reason", "must say why")
            return None
        return Exemption(rule=given["rule"], keys=tuple(keys), reason=reason)

    def entries(self, tree: Tree, fields: Mapping[str, Field], sources: Mapping[str, Source]) -> dict[str, Entry]:
        """Read all values that have a source."""
        found = {}
        for key, rule in fields.items():
            if key in tree and (entry := self._entry(key, tree[key], rule, sources)) is not None:
                found[key] = entry
        return found

    def _entry(self, key: str, given: object, rule: Field, sources: Mapping[str, Source]) -> Entry | None:
        if given is None:
            if rule.nullable:
                return Entry(None, Figure(text="none", origin=self.origin))
            self.refuse(key, "cannot be null; leave it out if it is unknown")
            return None
        if not isinstance(given, dict):
            self.refuse(key, f"must be {_form(rule)}, not {given!r}")
            return None
        allowed = ["value", "unit", "source", "printed"] if rule.form is Form.QUANTITY else ["value", "source"]
        if not given.keys() <= set(allowed):
            self.unknown_keys(given, allowed, f"{key}.")
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
        return Entry(value, Figure(text=text, sources=named, printed=printed, origin=self.origin))

    def _named_sources(self, key: str, given: object, sources: Mapping[str, Source]) -> tuple[Source, ...]:
        names = given if isinstance(given, list) else [given]
        if given is None or not names:
            self.refuse(f"{key}.source", "is missing; every value names its source")
            return ()
        self._used.update(name for name in names if isinstance(name, str))
        for name in names:
            if name not in sources:
                known = ", ".join(sources) or "there are none"
                self.refuse(f"{key}.source", f"{name!r} is not under sources ({known})")
        return tuple(sources[name] for name in names if name in sources)

    def _value(self, key: str, given: Tree, rule: Field) -> Value:
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

    def _quantity(self, key: str, figure: Any, unit: object, rule: Field) -> Value:
        units = rule.units or {}
        if unit is None:
            self.refuse(f"{key}.unit", f"is missing; use {', '.join(units)}")
            return None
        if unit not in units:
            self.refuse(f"{key}.unit", f"unknown unit {unit!r}; use {', '.join(units)}")
            return None
        if not self._is_number(key, figure, whole=False):
            return None
        value = figure * units[str(unit)]
        return self._within(key, figure, round(value) if rule.whole else float(value), rule)

    def _within(self, key: str, figure: object, value: float, rule: Field) -> Value:
        if rule.low <= value <= rule.high:
            return value
        self.refuse(
            f"{key}.value",
            f"{figure} is out of range; {rule.help} lies between {rule.low:g} and {rule.high:g} (base unit)",
        )
        return None

    def _word(self, key: str, figure: object, rule: Field) -> str | None:
        if rule.words and figure not in rule.words:
            self.refuse(key, f"{figure!r} is not known; use {', '.join(rule.words)}")
            return None
        if not isinstance(figure, str) or (rule.pattern and not re.fullmatch(rule.pattern, figure)):
            self.refuse(key, f"{figure!r} is not {rule.help}")
            return None
        return figure

    def _listed(self, key: str, figures: object, rule: Field) -> tuple[str, ...] | None:
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


def _form(rule: Field) -> str:
    if rule.form is Form.QUANTITY:
        return f"{{value: ..., unit: {' or '.join(rule.units or {})}, source: ...}}"
    return "{value: ..., source: ...}"
