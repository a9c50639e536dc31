"""Read and write calibration files, of kernels, engines and memory: the package's YAML, or a user's own."""

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
    EngineCalibration,
    EngineEfficiency,
    EngineFactors,
    EngineWidths,
    GlobalConstants,
    HostCosts,
    IntervalWidth,
)
from capplan.core.latency.classes import ALL_CLASSES
from capplan.core.memory.types import (
    CommunicationSize,
    ContextSize,
    ConvolutionWorkspaces,
    CpuWorkspaces,
    MemoryCalibration,
)
from capplan.core.numbers import Interval
from capplan.core.origin import Origin
from capplan.core.power import FEWEST_TIMES, MOST_TIMES, CardPower
from capplan.core.workload import Framework
from capplan.errors import SpecError
from capplan.files import Stamp, stamp
from capplan.specs.folders import calibration_file
from capplan.specs.rate_laws import RATES_FILE, load_rate_laws
from capplan.specs.strict_yaml import Checker, Tree, read_yaml
from capplan.units import BYTES, parse_quantity

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


SCHEMA_VERSION = 2
_SHIPPED = {
    "eager": "default.yaml",
    "compile": "compile.yaml",
    "training": "training.yaml",
    "cpu": "cpu.yaml",
    "cpu half": "cpu_half.yaml",
}


def load_calibration(path: Path | None = None) -> Calibration:
    """Read the shipped calibrations; a user's own takes over what its parts serve, the shipped ones serve the rest.

    Raises:
        SpecError: the file is missing, no YAML, of a newer schema, or holds unknown or missing keys.
    """
    stamps = tuple(stamp(calibration_file(file)) for file in (*_SHIPPED.values(), ENGINES_FILE, RATES_FILE))
    return _load_as_of(path, stamps, None if path is None else stamp(path))


@lru_cache(maxsize=16)
def _load_as_of(path: Path | None, _shipped: tuple[Stamp, ...], _own: Stamp) -> Calibration:
    """Read the files again only after one has changed: a service asks for them with every question."""
    laws = load_rate_laws()
    shipped = {name: replace(_read(None, file), laws=laws) for name, file in _SHIPPED.items()}
    parts = {name: part for name, part in shipped.items() if name != "eager"}
    engines = load_engines()
    if path is None:
        return replace(shipped["eager"], parts=parts, engines=engines)
    own = replace(_read(path, path.name), laws=laws)
    own_parts = {name: replace(part, laws=laws) for name, part in own.parts.items()}
    served = {"eager": shipped["eager"], **parts, **own_parts, own.serves: replace(own, parts={})}
    return replace(served.pop("eager"), parts=served, engines=engines, power=own.power)


def _read(path: Path | None, name: str) -> Calibration:
    where = str(path) if path else f"calibrations/{name}"
    document = read_yaml(path or calibration_file(name), shown=where)
    version = document.pop("schema_version", None)
    if type(version) is not int or version != SCHEMA_VERSION:
        raise SpecError(f"{where} is not a calibration of schema_version {SCHEMA_VERSION}.")
    others = document.pop(_PARTS, {})
    first = _CalibrationReader(where).calibration(document)
    if not isinstance(others, dict) or not all(isinstance(other, dict) for other in others.values()):
        raise SpecError(f"{where}: {_PARTS} must be calibrations by what they serve, such as 'cpu half'.")
    parts = {}
    for serves, tree in others.items():
        part = _CalibrationReader(f"{where}: {_PARTS}.{serves}").calibration(tree)
        if part.serves != serves or serves == first.serves:
            raise SpecError(f"{where}: {_PARTS}.{serves} serves {part.serves!r}; a file holds one part for each use.")
        parts[serves] = part
    return replace(first, parts=parts)


def dump_calibration(calibration: Calibration, *, parts: Sequence[Calibration] = ()) -> str:
    """Write a calibration as YAML, numbers to four significant digits; the same one gives the same text.

    Args:
        calibration: what to write; its own `parts` are left out, and its laws, which have a file of their own.
        parts: calibrations that the same file holds beside it, each of which serves something else.
    """
    document = {"schema_version": SCHEMA_VERSION, **_document(calibration)}
    if parts:
        document["parts"] = {part.serves: _document(part) for part in parts}
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)


def dump_with_own_parts(calibration: Calibration) -> str:
    """Write a calibration with those of its parts that are not the shipped ones, such as a base file's own.

    Args:
        calibration: what to write.
    """
    shipped = load_calibration(None).parts
    own = [part for serves, part in calibration.parts.items() if part != shipped.get(serves)]
    return dump_calibration(calibration, parts=own)


def _document(calibration: Calibration) -> Tree:
    """Return the keys of one calibration, without its parts."""
    document: Tree = rounded_numbers(asdict(replace(calibration, parts={}, engines={})))
    del document["parts"], document["engines"], document["laws"]
    if calibration.host is None:
        del document["host"]
    if not calibration.power:
        del document["power"]
    return document


_KEYS = ("name", "origin", "constants", "classes", "gpus", "deviations", "widths", "serves", "host", "power")
_PARTS = "parts"
"""The key of calibrations that a file holds beside its first, by what they serve."""


class _CalibrationReader(PartReader):
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
        constants = self.part(GlobalConstants, document.get("constants", {}), "constants")
        classes = self.parts(ClassConstants, document, "classes")
        self.unknown_keys(classes, ALL_CLASSES, "classes.")
        gpus = self.parts(DeviceFactors, document, "gpus")
        deviations = self._deviations(document)
        widths = self.parts(IntervalWidth, document, "widths")
        origin = self.read_origin(document["origin"]) if document.get("origin") is not None else None
        host = self._host(document["host"]) if "host" in document else None
        power = self.parts(CardPower, document, "power")
        self.finish({})
        assert constants is not None
        return Calibration(
            name=words["name"], origin=origin, constants=constants, classes=classes, gpus=gpus,
            deviations=deviations, widths=widths, serves=serves, host=host, power=power,
        )  # fmt: skip

    def _deviations(self, document: Tree) -> dict[str, dict[str, float]]:
        found = self.mapping(document, "deviations")
        for group in found:
            where = f"deviations.{group}"
            factors = self.mapping(found, group, prefix="deviations.")
            self.unknown_keys(factors, ALL_CLASSES, f"{where}.")
            for label, factor in factors.items():
                self.number(f"{where}.{label}", factor, FACTOR)
        return found

    def _host(self, given: object) -> HostCosts | None:
        if not isinstance(given, dict):
            self.refuse("host", f"must be keys with values, not {given!r}")
            return None
        before = len(self.problems)
        self.unknown_keys(given, [item.name for item in fields(HostCosts)], "host.")
        words = self.words(given, ("cpu", "torch"), prefix="host.")
        costs = self.mapping(given, "operators_s", prefix="host.")
        self.unknown_keys(costs, ALL_CLASSES, "host.operators_s.")
        if not costs:
            self.refuse("host.operators_s", "holds no operator")
        times = {"call_s": given.get("call_s"), "launch_s": given.get("launch_s")}
        for name, value in (*times.items(), *((f"operators_s.{label}", cost) for label, cost in costs.items())):
            self.number(f"host.{name}", value, CALL)
        if len(self.problems) > before:
            return None
        return HostCosts(**words, call_s=given["call_s"], launch_s=given["launch_s"], operators_s=costs)


ENGINES_SCHEMA_VERSION = 1
ENGINES_FILE = "engines.yaml"
_ENGINE_KEYS = ("constants", "gpus", "transformers", "convolutions", "origin")
_ENGINES = tuple(framework.value for framework in Framework if framework.is_engine)


def load_engines() -> dict[str, EngineCalibration]:
    """Read the calibrations of inference engines, by the framework's name.

    Raises:
        SpecError: the file is missing, no strict YAML, of another schema, or holds unknown or missing keys.
    """
    where = f"calibrations/{ENGINES_FILE}"
    document = read_yaml(calibration_file(ENGINES_FILE), shown=where)
    version = document.pop("schema_version", None)
    if type(version) is not int or version != ENGINES_SCHEMA_VERSION:
        raise SpecError(f"{where} is not a calibration of engines of schema_version {ENGINES_SCHEMA_VERSION}.")
    reader = _EngineReader(where, where)
    reader.unknown_keys(document, ("engines",), "")
    engines = reader.mapping(document, "engines")
    reader.unknown_keys(engines, _ENGINES, "engines.")
    found = {name: reader.engine(given, f"engines.{name}") for name, given in engines.items()}
    reader.finish({})
    return {name: engine for name, engine in found.items() if engine is not None}


def dump_engines(engines: Mapping[str, EngineCalibration]) -> str:
    """Write the calibrations of engines as YAML, numbers to four significant digits.

    Args:
        engines: the calibrations by the framework's name; the same ones give the same text.
    """
    document = {
        "schema_version": ENGINES_SCHEMA_VERSION,
        "engines": {name: rounded_numbers(asdict(engine)) for name, engine in engines.items()},
    }
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)


class _EngineReader(PartReader):
    """Gathers engines and all that is wrong with their file."""

    def engine(self, given: object, where: str) -> EngineCalibration | None:
        """Read one engine; None where something of it is refused."""
        if not isinstance(given, dict):
            self.refuse(where, f"must be keys with values, not {given!r}")
            return None
        self.unknown_keys(given, _ENGINE_KEYS, f"{where}.")
        constants = self.part(EngineEfficiency, given.get("constants", {}), f"{where}.constants")
        gpus = {
            name: self.part(EngineFactors, factors, f"{where}.gpus.{name}")
            for name, factors in self.mapping(given, "gpus", prefix=f"{where}.").items()
        }
        transformers = self.part(EngineWidths, given.get("transformers", {}), f"{where}.transformers")
        convolutions = self.part(EngineWidths, given.get("convolutions", {}), f"{where}.convolutions")
        origin = self.read_origin(given.get("origin"), where=f"{where}.origin")
        if constants is None or transformers is None or convolutions is None or origin is None:
            return None
        return EngineCalibration(
            constants=constants, gpus={name: each for name, each in gpus.items() if each is not None},
            transformers=transformers, convolutions=convolutions, origin=origin,
        )  # fmt: skip


MEMORY_SCHEMA_VERSION = 1
_DEFAULT = "memory.yaml"
_MEMORY_KEYS = {"schema_version", "origin", "convolution_workspaces", "contexts", "communication", "uncertain_fraction"}
_MEMORY_KEYS |= {
    "compiled_fraction",
    "graph_pool_fraction",
    "least_kept_fraction",
    "assumed_share_factor",
    "cpu_workspaces",
}


def load_memory_calibration(path: Path | None = None) -> MemoryCalibration:
    """Read a memory calibration; the shipped one where no path is given.

    Raises:
        SpecError: the file is missing, no strict YAML, of another schema, or holds unknown or missing keys.
    """
    if path is not None:
        return _calibration(read_yaml(path), str(path))
    shown = f"calibrations/{_DEFAULT}"
    return _calibration(read_yaml(calibration_file(_DEFAULT), shown=shown), shown)


def _calibration(document: dict[str, Any], where: str) -> MemoryCalibration:
    version = document.get("schema_version")
    if type(version) is not int or version != MEMORY_SCHEMA_VERSION:
        raise SpecError(f"{where} is not a memory calibration of schema_version {MEMORY_SCHEMA_VERSION}.")
    if unknown := sorted(set(document) - _MEMORY_KEYS):
        raise SpecError(f"{where}: unknown key {unknown[0]!r}; known are {', '.join(sorted(_MEMORY_KEYS))}.")
    try:
        origin = document["origin"]
        return MemoryCalibration(
            convolution_workspaces=ConvolutionWorkspaces(
                nchw_half=_shares(document["convolution_workspaces"]["nchw_half"]),
                other=_shares(document["convolution_workspaces"]["other"]),
            ),
            cpu_workspaces=_cpu_workspaces(document["cpu_workspaces"]),
            contexts=tuple(_context(row) for row in document["contexts"]),
            communication=CommunicationSize(
                size_bytes=_sizes(document["communication"]), origin="; ".join(document["communication"]["sources"])
            ),
            uncertain_fraction=_fraction(document, "uncertain_fraction"),
            compiled_fraction=_fraction(document, "compiled_fraction"),
            graph_pool_fraction=_fraction(document, "graph_pool_fraction"),
            least_kept_fraction=_fraction(document, "least_kept_fraction"),
            assumed_share_factor=_factor(document, "assumed_share_factor"),
            origin=f"calibration of {origin['made']}: {origin['data']}",
        )
    except KeyError as error:
        raise SpecError(f"{where}: {error.args[0]} is missing.") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise SpecError(f"{where}: {error}.") from error


def _cpu_workspaces(row: dict[str, Any]) -> CpuWorkspaces:
    return CpuWorkspaces(
        row_major=_shares(row["row_major"]),
        row_major_half=_shares(row["row_major_half"]),
        channels_last=_shares(row["channels_last"]),
        origin="; ".join(row["sources"]),
    )


def _fraction(document: dict[str, Any], key: str) -> float:
    given = document[key]
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 1:
        raise ValueError(f"{key} must lie between 0 and 1, not {given!r}")
    return float(given)


def _factor(document: dict[str, Any], key: str) -> float:
    given = document[key]
    if isinstance(given, bool) or not isinstance(given, int | float) or not 1 <= given <= 100:
        raise ValueError(f"{key} must lie between 1 and 100, not {given!r}")
    return float(given)


def _shares(row: dict[str, float]) -> Interval:
    return Interval(low=row["low"], expected=row["expected"], high=row["high"])


def _context(row: dict[str, Any]) -> ContextSize:
    lowest, highest = (_version(text) for text in row["compute_capability"])
    return ContextSize(
        since=_version(row["torch_since"]),
        capabilities=(lowest, highest),
        size_bytes=_sizes(row),
        origin="; ".join(row["sources"]),
    )


def _sizes(row: dict[str, Any]) -> Interval:
    low, expected, high = (parse_quantity(row[end], BYTES, what=end) for end in ("low", "expected", "high"))
    return Interval(low=low, expected=expected, high=high)


def _version(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), int(minor)
