"""Read and write `rates.yaml`: the laws that hold for all GPUs, each section with the data and the command of its own.

The file's sections are made by different commands from different data. A command replaces its sections and leaves the
others as they are.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, get_origin

import yaml

from capplan.core.gpus.rate_laws import (
    BurstExponents,
    CopyShares,
    DataParallelLaws,
    HostAges,
    QuantisedLaws,
    RateLaws,
    StreamingCost,
    SustainedLaws,
    SustainedShareLaw,
    Transfer,
)
from capplan.core.latency.classes import ALL_CLASSES
from capplan.errors import SpecError
from capplan.files import Stamp, stamp
from capplan.specs.folders import calibration_file
from capplan.specs.strict_yaml import Checker, Tree, read_yaml

SCHEMA_VERSION = 1
RATES_FILE = "rates.yaml"
_PARTS: Mapping[str, type] = {
    "half": SustainedShareLaw, "single": SustainedShareLaw, "copies": CopyShares, "burst": BurstExponents,
    "streaming": StreamingCost, "hosts": HostAges, "transfer": Transfer, "quantised": QuantisedLaws,
    "data_parallel": DataParallelLaws,
}  # fmt: skip
_LAWS_NUMBERS = (
    "serial_step_s",
    "desktop_share",
    "older_torch_half_width",
    "unseen_architecture_half_width",
    "unseen_libraries_half_width",
    "unsplit_flops",
    "gathered_bytes",
)
_SINGLE_NUMBERS = ("issued_at_clock", *_LAWS_NUMBERS)
_ISSUE = "issue_share"
SECTIONS = (*_PARTS, *_SINGLE_NUMBERS, _ISSUE)
"""The keys beside `schema_version` and `origins`."""
_ORIGIN_KEYS = ("sections", "made", "command", "data")
_MOST = 1e15
_FRACTIONS = frozenset({_ISSUE})
_OTHER = "other"
"""How the file writes the empty name, which stands for whatever has no entry of its own."""
_Part = TypeVar("_Part")


@dataclass(frozen=True, slots=True, kw_only=True)
class LawsOrigin:
    """What some sections of the file were made from: the command that makes them again, and its data."""

    sections: tuple[str, ...]
    made: date
    command: str
    data: str


def load_rate_laws(path: Path | None = None) -> RateLaws:
    """Read the laws of all GPUs; the shipped ones where no path is given.

    Args:
        path: another file of the same form.

    Raises:
        SpecError: the file is missing, no strict YAML, of another schema, or holds unknown, missing or wrong values.
    """
    found = path or calibration_file(RATES_FILE)
    return _load_as_of(found, stamp(found))


@lru_cache(maxsize=16)
def _load_as_of(path: Path, _stamp: Stamp) -> RateLaws:
    return _read(path)[0]


def load_origins(path: Path) -> tuple[LawsOrigin, ...]:
    """Return what each section of a file was made from.

    Args:
        path: a file of rate laws.
    """
    return _read(path)[1]


def _read(path: Path) -> tuple[RateLaws, tuple[LawsOrigin, ...]]:
    shown = f"calibrations/{path.name}"
    document = read_yaml(path, shown=shown)
    version = document.pop("schema_version", None)
    if type(version) is not int or version != SCHEMA_VERSION:
        raise SpecError(f"{shown} is not a file of rate laws of schema_version {SCHEMA_VERSION}.")
    return _LawReader(shown, shown).laws(document)


def dump_rate_laws(laws: RateLaws, origins: tuple[LawsOrigin, ...]) -> str:
    """Write laws as YAML, numbers to five significant digits; the same ones give the same text.

    Args:
        laws: what holds across GPUs.
        origins: the data and the commands; every section must have one.
    """
    sustained = laws.sustained
    document = {
        "schema_version": SCHEMA_VERSION,
        "origins": [{**asdict(origin), "sections": list(origin.sections)} for origin in origins],
        **{name: asdict(getattr(sustained, name)) for name in ("half", "single", "copies", "burst")},
        "issued_at_clock": sustained.issued_at_clock,
        "streaming": asdict(laws.streaming),
        _ISSUE: dict(laws.issue_share),
        **{name: getattr(laws, name) for name in _LAWS_NUMBERS},
        **{name: asdict(getattr(laws, name)) for name in ("hosts", "transfer", "quantised", "data_parallel")},
    }
    rounded = _rounded(document)
    return yaml.safe_dump(rounded, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)


def replace_sections(path: Path, laws: RateLaws, origin: LawsOrigin) -> None:
    """Write laws over a file and set the origin of the sections that a command made; other origins stay.

    Args:
        path: the file, which exists.
        laws: all laws, of which the command changed some.
        origin: what those sections were made from.
    """
    others = [each for each in load_origins(path) if not set(each.sections) <= set(origin.sections)]
    order = {name: index for index, name in enumerate(SECTIONS)}
    origins = sorted([*others, origin], key=lambda each: order[each.sections[0]])
    path.write_text(dump_rate_laws(laws, tuple(origins)))


class _LawReader(Checker):
    """Gathers the laws and all that is wrong with their file."""

    def laws(self, document: Tree) -> tuple[RateLaws, tuple[LawsOrigin, ...]]:
        """Read the whole file.

        Raises:
            SpecError: something in it is wrong; all of it at once.
        """
        self.unknown_keys(document, ("origins", *SECTIONS), "")
        for name in ("origins", *SECTIONS):
            if name not in document:
                self.refuse(name, "is missing")
        parts = {name: self._part(kind, document.get(name, {}), name) for name, kind in _PARTS.items()}
        numbers = {name: document.get(name) for name in _SINGLE_NUMBERS}
        for name, value in numbers.items():
            self._number(name, value)
        issue = self._numbers(document.get(_ISSUE, {}), _ISSUE)
        self.unknown_keys(issue, ALL_CLASSES, f"{_ISSUE}.")
        origins = self._origins(document.get("origins", []))
        self.finish({})
        sustained = SustainedLaws(
            **{name: parts.pop(name) for name in ("half", "single", "copies", "burst")},  # type: ignore[arg-type]
            issued_at_clock=float(numbers["issued_at_clock"]),  # type: ignore[arg-type]  # checked above
        )
        laws = RateLaws(
            sustained=sustained, issue_share=issue,
            **{name: float(numbers[name]) for name in _LAWS_NUMBERS},  # type: ignore[arg-type]  # checked above
            **parts,  # type: ignore[arg-type]  # each part has the type that its name has in `_PARTS`
        )  # fmt: skip
        return laws, origins

    def _part(self, kind: type[_Part], given: object, where: str) -> _Part | None:
        """Read one group of numbers; None where something in it is refused."""
        if not isinstance(given, dict):
            self.refuse(where, f"must be keys with values, not {given!r}")
            return None
        before, values = len(self.problems), dict(given)
        known = fields(kind)  # type: ignore[arg-type]  # every part is a dataclass
        self.unknown_keys(given, [item.name for item in known], f"{where}.")
        for item in known:
            name = f"{where}.{item.name}"
            if item.name not in given:
                self.refuse(name, "is missing")
            elif get_origin(item.type) is None:
                self._number(name, given[item.name])
            else:
                values[item.name] = self._numbers(given[item.name], name)
        return kind(**values) if len(self.problems) == before else None

    def _numbers(self, given: object, where: str) -> dict[str, float]:
        if not isinstance(given, dict):
            self.refuse(where, f"must be keys with numbers, not {given!r}")
            return {}
        for name, value in given.items():
            self._number(f"{where}.{name}", value)
        return {"" if name == _OTHER else name: value for name, value in given.items()}

    def _number(self, where: str, given: object) -> None:
        most = 1.0 if where.partition(".")[0] in _FRACTIONS else _MOST
        if isinstance(given, bool) or not isinstance(given, int | float):
            self.refuse(where, f"must be a number, not {given!r}")
        elif not 0 <= given <= most:
            self.refuse(where, f"must lie from 0 to {most:g}, not {given:g}")

    def _origins(self, given: object) -> tuple[LawsOrigin, ...]:
        if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
            self.refuse("origins", f"must be a list of sections with made, command and data, not {given!r}")
            return ()
        found = tuple(self._origin(f"origins.{index}", each) for index, each in enumerate(given))
        named = [name for each in found for name in each.sections]
        for name in SECTIONS:
            if named.count(name) != 1:
                self.refuse("origins", f"name the section {name} {named.count(name)} times; each has one origin")
        return found

    def _origin(self, where: str, given: Tree) -> LawsOrigin:
        self.unknown_keys(given, _ORIGIN_KEYS, f"{where}.")
        words = self.words(given, ("command", "data"), prefix=f"{where}.")
        for name in ("command", "data"):
            if name not in given:
                self.refuse(f"{where}.{name}", "is missing")
        made = given.get("made")
        if type(made) is not date:
            self.refuse(f"{where}.made", f"is {made!r}; write a date such as 2026-11-21")
        return LawsOrigin(
            sections=self.texts(given, "sections"), made=made if type(made) is date else date.min,
            command=words.get("command", ""), data=words.get("data", ""),
        )  # fmt: skip


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, Mapping):
        return {key or _OTHER: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, (list, tuple)) else value
