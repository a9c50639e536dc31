"""Read and write calibration files: YAML data of the package, or a user's own."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import yaml

from capplan.core.latency.calibration import (
    Calibration,
    ClassConstants,
    DeviceFactors,
    GlobalConstants,
    HostCosts,
    IntervalWidth,
)
from capplan.core.latency.classes import ALL_CLASSES
from capplan.core.origin import Origin
from capplan.errors import SpecError
from capplan.files import Stamp, stamp
from capplan.specs.folders import calibration_file
from capplan.specs.yaml.checker import Checker
from capplan.specs.yaml.strict import Tree, read_yaml

SCHEMA_VERSION = 2
_SHIPPED = {
    "eager": "default.yaml",
    "compile": "compile.yaml",
    "training": "training.yaml",
    "cpu": "cpu.yaml",
    "cpu half": "cpu_half.yaml",
}
_Part = TypeVar("_Part")


def load_calibration(path: Path | None = None) -> Calibration:
    """Read the shipped calibrations; a user's own takes over what its parts serve, the shipped ones serve the rest.

    Raises:
        SpecError: the file is missing, no YAML, of a newer schema, or holds unknown or missing keys.
    """
    stamps = tuple(stamp(calibration_file(file)) for file in _SHIPPED.values())
    return _load_as_of(path, stamps, None if path is None else stamp(path))


@lru_cache(maxsize=16)
def _load_as_of(path: Path | None, _shipped: tuple[Stamp, ...], _own: Stamp) -> Calibration:
    """Read the files again only after one has changed: a service asks for them with every question."""
    shipped = {name: _read(None, file) for name, file in _SHIPPED.items()}
    parts = {name: part for name, part in shipped.items() if name != "eager"}
    if path is None:
        return replace(shipped["eager"], parts=parts)
    own = _read(path, path.name)
    served = {"eager": shipped["eager"], **parts, **own.parts, own.serves: replace(own, parts={})}
    return replace(served.pop("eager"), parts=served)


def _read(path: Path | None, name: str) -> Calibration:
    where = str(path) if path else f"calibrations/{name}"
    document = read_yaml(path or calibration_file(name), shown=where)
    version = document.pop("schema_version", None)
    if type(version) is not int or version != SCHEMA_VERSION:
        raise SpecError(f"{where} is not a calibration of schema_version {SCHEMA_VERSION}.")
    others = document.pop(_PARTS, {})
    first = _Reader(where).calibration(document)
    if not isinstance(others, dict) or not all(isinstance(each, dict) for each in others.values()):
        raise SpecError(f"{where}: {_PARTS} must be calibrations by what they serve, such as 'cpu half'.")
    parts = {}
    for serves, tree in others.items():
        part = _Reader(f"{where}: {_PARTS}.{serves}").calibration(tree)
        if part.serves != serves or serves == first.serves:
            raise SpecError(f"{where}: {_PARTS}.{serves} serves {part.serves!r}; a file holds one part for each use.")
        parts[serves] = part
    return replace(first, parts=parts)


def dump_calibration(calibration: Calibration, *, parts: Sequence[Calibration] = ()) -> str:
    """Write a calibration as YAML, numbers to four significant digits; the same one gives the same text.

    Args:
        calibration: what to write; its own `parts` are left out.
        parts: calibrations that the same file holds beside it, each of which serves something else.
    """
    document = {"schema_version": SCHEMA_VERSION, **_document(calibration)}
    if parts:
        document["parts"] = {each.serves: _document(each) for each in parts}
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)


def _document(calibration: Calibration) -> Tree:
    """Return the keys of one calibration, without its parts."""
    document: Tree = _rounded(asdict(replace(calibration, parts={})))
    del document["parts"]
    if calibration.host is None:
        del document["host"]
    return document


@dataclass(frozen=True, slots=True, kw_only=True)
class _Range:
    """Which numbers a field may hold: from `low`, left out where `is_open`, to `high`."""

    low: float = 0.0
    high: float = 1000.0
    is_open: bool = False

    def holds(self, value: float) -> bool:
        return (self.low < value if self.is_open else self.low <= value) and value <= self.high

    def __str__(self) -> str:
        return f"{'above' if self.is_open else 'from'} {self.low:g} to {self.high:g}"


_FACTOR = _Range(high=1000.0, is_open=True)
_SECONDS = _Range(high=1.0, is_open=True)
_CALL = _Range(high=1.0)
_HALF_WIDTH = _Range(high=10.0)
"""In units of log(predicted ÷ measured): e^10 is a factor of 22,000."""
_COUNT = _Range(high=1e12)
_FRACTION = _Range(high=1.0)

_ANY = _Range(low=-1e12, high=1e12)

_RANGES: Mapping[type, Mapping[str, _Range]] = {
    ClassConstants: {
        "compute": _FACTOR, "bandwidth": _FACTOR, "half_k": _Range(high=1e6), "misaligned": _HALF_WIDTH,
        "layout_passes": _Range(), "write_weight": _Range(), "strided": _Range(),
        "fixed_s": _CALL,
    },
    GlobalConstants: {
        "l2_hit": _FRACTION, "l2_reach": _FACTOR, "l2_sharpness": _FACTOR, "tile_power": _Range(high=10.0),
        "kernel_s": _SECONDS, "call_s": _SECONDS, "launch_s": _SECONDS, "convolution_s": _CALL,
        "cuda_graph_kernel_s": _SECONDS, "cores": _Range(low=1.0, high=1e5),
    },
    DeviceFactors: {"compute": _FACTOR, "bandwidth": _FACTOR, "rows": _COUNT, "single_rows": _COUNT},
    IntervalWidth: {
        "below": _HALF_WIDTH, "above": _HALF_WIDTH, "between_gpus": _HALF_WIDTH, "between_sheets": _HALF_WIDTH,
        "between_others": _HALF_WIDTH, "between_other_sheets": _HALF_WIDTH, "rows": _COUNT,
        "coverage_fraction": _Range(high=1.0, is_open=True),
    },
}  # fmt: skip
"""Ranges by type and field: wide enough for any hardware, too narrow for another unit or a wrong sign."""

_KEYS = ("name", "origin", "constants", "classes", "gpus", "deviations", "widths", "serves", "host")
_PARTS = "parts"
"""The key of calibrations that a file holds beside its first, by what they serve."""


class _Reader(Checker):
    """Gathers a calibration and all that is wrong with its file."""

    def __init__(self, where: str) -> None:
        super().__init__(where, where)

    def calibration(self, document: Tree) -> Calibration:
        """Read the whole file.

        Raises:
            SpecError: something in it is wrong; all of it at once.
        """
        self.unknown_keys(document, _KEYS, "")
        for key in ("name", "constants", "classes"):
            if key not in document:
                self.refuse(key, "is missing")
        words = self.words(document, ("name",))
        serves = document.get("serves", "eager")
        if not isinstance(serves, str) or serves not in _SHIPPED:
            self.refuse("serves", f"{serves!r} is not known; use {', '.join(_SHIPPED)}")
        constants = self._part(GlobalConstants, document.get("constants", {}), "constants")
        classes = self._parts(ClassConstants, document, "classes")
        self.unknown_keys(classes, ALL_CLASSES, "classes.")
        gpus = self._parts(DeviceFactors, document, "gpus")
        deviations = self._deviations(document)
        widths = self._parts(IntervalWidth, document, "widths")
        origin = self._origin(document["origin"]) if document.get("origin") is not None else None
        host = self._host(document["host"]) if "host" in document else None
        self.finish({})
        assert constants is not None
        return Calibration(
            name=words["name"], origin=origin, constants=constants, classes=classes, gpus=gpus,
            deviations=deviations, widths=widths, serves=serves, host=host,
        )  # fmt: skip

    def _parts(self, kind: type[_Part], document: Tree, name: str) -> dict[str, _Part]:
        found = ((key, self._part(kind, row, f"{name}.{key}")) for key, row in self._mapping(document, name).items())
        return {key: part for key, part in found if part is not None}

    def _part(self, kind: type[_Part], given: object, where: str) -> _Part | None:
        """Read one group of numbers; None where something in it is refused."""
        if not isinstance(given, dict):
            self.refuse(where, f"must be keys with values, not {given!r}")
            return None
        before = len(self.problems)
        known = fields(kind)  # type: ignore[arg-type]  # every part is a dataclass
        self.unknown_keys(given, [item.name for item in known], f"{where}.")
        for item in known:
            if item.name not in given:
                if item.default is MISSING:
                    self.refuse(f"{where}.{item.name}", "is missing")
            elif item.type is str:
                self.words(given, (item.name,), prefix=f"{where}.")
            else:
                self._number(f"{where}.{item.name}", given[item.name], _RANGES[kind].get(item.name, _ANY))
        return kind(**given) if len(self.problems) == before else None

    def _number(self, where: str, given: object, allowed: _Range) -> None:
        if isinstance(given, bool) or not isinstance(given, int | float):
            self.refuse(where, f"must be a number, not {given!r}")
        elif not allowed.holds(given):
            self.refuse(where, f"must lie {allowed}, not {given:g}")

    def _deviations(self, document: Tree) -> dict[str, dict[str, float]]:
        found = self._mapping(document, "deviations")
        for group in found:
            where = f"deviations.{group}"
            factors = self._mapping(found, group, prefix="deviations.")
            self.unknown_keys(factors, ALL_CLASSES, f"{where}.")
            for label, factor in factors.items():
                self._number(f"{where}.{label}", factor, _FACTOR)
        return found

    def _origin(self, given: object) -> Origin | None:
        if not isinstance(given, dict):
            self.refuse("origin", f"must be keys with values, not {given!r}")
            return None
        self.unknown_keys(given, [item.name for item in fields(Origin)], "origin.")
        if type(given.get("made")) is not date:
            self.refuse("origin.made", f"is {given.get('made')!r}; write a date such as 2026-11-21")
        words = self.words(given, ("command",), prefix="origin.")
        sources = given.get("sources", [])
        if not isinstance(sources, list) or not all(isinstance(each, str) for each in sources):
            self.refuse("origin.sources", f"must be a list of texts, not {sources!r}")
            sources = []
        self._number("origin.rows", given.get("rows"), _COUNT)
        errors = self._mapping(given, "held_out_errors", prefix="origin.")
        for cell in errors:
            for name, value in self._mapping(errors, cell, prefix="origin.held_out_errors.").items():
                self._number(f"origin.held_out_errors.{cell}.{name}", value, _Range(high=1e12))
        if self.problems:
            return None
        return Origin(
            made=given["made"], command=words.get("command", ""), sources=tuple(sources), rows=given["rows"],
            held_out_errors=errors,
        )  # fmt: skip

    def _host(self, given: object) -> HostCosts | None:
        if not isinstance(given, dict):
            self.refuse("host", f"must be keys with values, not {given!r}")
            return None
        before = len(self.problems)
        self.unknown_keys(given, [item.name for item in fields(HostCosts)], "host.")
        words = self.words(given, ("cpu", "torch"), prefix="host.")
        costs = self._mapping(given, "operators_s", prefix="host.")
        self.unknown_keys(costs, ALL_CLASSES, "host.operators_s.")
        if not costs:
            self.refuse("host.operators_s", "holds no operator")
        times = {"call_s": given.get("call_s"), "launch_s": given.get("launch_s")}
        for name, value in (*times.items(), *((f"operators_s.{label}", cost) for label, cost in costs.items())):
            self._number(f"host.{name}", value, _CALL)
        if len(self.problems) > before:
            return None
        return HostCosts(**words, call_s=given["call_s"], launch_s=given["launch_s"], operators_s=costs)

    def _mapping(self, tree: Tree, name: str, *, prefix: str = "") -> Tree:
        inner = tree.get(name, {})
        if not isinstance(inner, dict):
            self.refuse(f"{prefix}{name}", f"must be keys with values, not {inner!r}")
            return {}
        return inner


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    return value
