"""Read and write calibration files, of kernels and of inference engines: the package's YAML, or a user's own."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import lru_cache
from pathlib import Path

import yaml

from capplan.core.energy.power import CardPower
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
from capplan.core.workload import Framework
from capplan.errors import SpecError
from capplan.files import Stamp, stamp
from capplan.specs.calibration_parts import CALL, FACTOR, PartReader, rounded_numbers
from capplan.specs.folders import calibration_file
from capplan.specs.rate_laws import RATES_FILE, load_rate_laws
from capplan.specs.yaml.strict import Tree, read_yaml

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
