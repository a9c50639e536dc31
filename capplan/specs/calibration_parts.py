"""Read the parts that calibration files share: groups of numbers within their ranges, and where they come from."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import date
from typing import Any, TypeVar

from capplan.core.energy.power import FEWEST_TIMES, MOST_TIMES, CardPower
from capplan.core.latency.calibration import (
    ClassConstants,
    DeviceFactors,
    EngineEfficiency,
    EngineFactors,
    EngineWidths,
    GlobalConstants,
    IntervalWidth,
)
from capplan.core.origin import Origin
from capplan.specs.yaml.checker import Checker
from capplan.specs.yaml.strict import Tree

Part = TypeVar("Part")


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


FACTOR = _Range(high=1000.0, is_open=True)
_SECONDS = _Range(high=1.0, is_open=True)
CALL = _Range(high=1.0)
_HALF_WIDTH = _Range(high=10.0)
"""In units of log(predicted ÷ measured): e^10 is a factor of 22,000."""
_COUNT = _Range(high=1e12)
_FRACTION = _Range(high=1.0)

_ANY = _Range(low=-1e12, high=1e12)

_RANGES: Mapping[type, Mapping[str, _Range]] = {
    ClassConstants: {
        "compute": FACTOR, "bandwidth": FACTOR, "half_k": _Range(high=1e6), "misaligned": _HALF_WIDTH,
        "layout_passes": _Range(), "write_weight": _Range(), "strided": _Range(),
        "fixed_s": CALL,
    },
    GlobalConstants: {
        "l2_hit": _FRACTION, "l2_reach": FACTOR, "l2_sharpness": FACTOR, "tile_power": _Range(high=10.0),
        "kernel_s": _SECONDS, "call_s": _SECONDS, "launch_s": _SECONDS, "convolution_s": CALL,
        "cores": _Range(low=1.0, high=1e5),
    },
    DeviceFactors: {
        "compute": FACTOR, "bandwidth": FACTOR, "rows": _COUNT, "single_rows": _COUNT, "single_steps": _COUNT,
    },
    IntervalWidth: {
        "below": _HALF_WIDTH, "above": _HALF_WIDTH, "between_gpus": _HALF_WIDTH, "between_sheets": _HALF_WIDTH,
        "between_others": _HALF_WIDTH, "between_other_sheets": _HALF_WIDTH, "rows": _COUNT,
        "coverage_fraction": _Range(high=1.0, is_open=True),
    },
    EngineEfficiency: {
        "product": FACTOR, "attention": FACTOR, "norm": FACTOR, "elementwise": FACTOR, "convolution": FACTOR,
        "kernel_s": _SECONDS, "convolution_s": CALL,
    },
    EngineFactors: {"wide": FACTOR, "int8": FACTOR, "rows": _COUNT},
    CardPower: {
        "factor": _Range(low=FEWEST_TIMES, high=MOST_TIMES), "log_half_width": _HALF_WIDTH, "rows": _COUNT,
        "models": _COUNT,
    },
    EngineWidths: {"models": _HALF_WIDTH, "gpus": _HALF_WIDTH},
}  # fmt: skip
"""Ranges by type and field: wide enough for any hardware, too narrow for another unit or a wrong sign."""


_RETIRED: Mapping[type, frozenset[str]] = {GlobalConstants: frozenset({"cuda_graph_kernel_s"})}
"""Keys of older files whose numbers nothing uses any more: they are read over."""


class PartReader(Checker):
    """Gathers parts of a calibration and all that is wrong with its file."""

    def mapping(self, tree: Tree, name: str, *, prefix: str = "") -> Tree:
        """Return a nested mapping, empty where it is missing or refused."""
        inner = tree.get(name, {})
        if not isinstance(inner, dict):
            self.refuse(f"{prefix}{name}", f"must be keys with values, not {inner!r}")
            return {}
        return inner

    def parts(self, kind: type[Part], document: Tree, name: str) -> dict[str, Part]:
        """Read groups of numbers by their names; those that are refused are left out."""
        found = ((key, self.part(kind, row, f"{name}.{key}")) for key, row in self.mapping(document, name).items())
        return {key: part for key, part in found if part is not None}

    def part(self, kind: type[Part], given: object, where: str) -> Part | None:
        """Read one group of numbers; None where something in it is refused."""
        if not isinstance(given, dict):
            self.refuse(where, f"must be keys with values, not {given!r}")
            return None
        before = len(self.problems)
        given = {key: value for key, value in given.items() if key not in _RETIRED.get(kind, ())}
        known = fields(kind)  # type: ignore[arg-type]  # every part is a dataclass
        self.unknown_keys(given, [item.name for item in known], f"{where}.")
        for item in known:
            if item.name not in given:
                if item.default is MISSING:
                    self.refuse(f"{where}.{item.name}", "is missing")
            elif item.type is str:
                self.words(given, (item.name,), prefix=f"{where}.")
            else:
                self.number(f"{where}.{item.name}", given[item.name], _RANGES[kind].get(item.name, _ANY))
        return kind(**given) if len(self.problems) == before else None

    def number(self, where: str, given: object, allowed: _Range) -> None:
        """Refuse what is not a number within a range."""
        if isinstance(given, bool) or not isinstance(given, int | float):
            self.refuse(where, f"must be a number, not {given!r}")
        elif not allowed.holds(given):
            self.refuse(where, f"must lie {allowed}, not {given:g}")

    def read_origin(self, given: object, *, where: str = "origin") -> Origin | None:
        """Read what a calibration was made from; None where something of the file is refused."""
        if not isinstance(given, dict):
            self.refuse(where, f"must be keys with values, not {given!r}")
            return None
        self.unknown_keys(given, [item.name for item in fields(Origin)], f"{where}.")
        if type(given.get("made")) is not date:
            self.refuse(f"{where}.made", f"is {given.get('made')!r}; write a date such as 2026-11-21")
        words = self.words(given, ("command",), prefix=f"{where}.")
        sources = given.get("sources", [])
        if not isinstance(sources, list) or not all(isinstance(source, str) for source in sources):
            self.refuse(f"{where}.sources", f"must be a list of texts, not {sources!r}")
            sources = []
        self.number(f"{where}.rows", given.get("rows"), _COUNT)
        errors = self.mapping(given, "held_out_errors", prefix=f"{where}.")
        for cell in errors:
            prefix = f"{where}.held_out_errors.{cell}."
            for name, value in self.mapping(errors, cell, prefix=f"{where}.held_out_errors.").items():
                self.number(f"{prefix}{name}", value, _Range(high=1e12))
        if self.problems:
            return None
        return Origin(
            made=given["made"], command=words.get("command", ""), sources=tuple(sources), rows=given["rows"],
            held_out_errors=errors,
        )  # fmt: skip


def rounded_numbers(value: Any) -> Any:
    """Return a document with its fractions rounded to four significant digits."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {key: rounded_numbers(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded_numbers(item) for item in value]
    return value
