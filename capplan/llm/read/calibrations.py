"""Read and write what was learnt of serving: memory rules of engines, what engines run on, and times of steps."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, get_args, get_origin

import yaml

from capplan.core.records import NumberRange
from capplan.core.serving_engines import Engine
from capplan.errors import SpecError
from capplan.llm.core.engines import (
    ActivationConstants,
    EngineMemoryRules,
    EngineRuns,
    EngineSupport,
    LlmMemoryConstants,
    PoolRule,
    Versions,
    parse_version,
)
from capplan.llm.core.memory_fit import FittedMemory
from capplan.llm.core.timing.calibration import (
    WIDTH_NAMES,
    DeviceConstants,
    KernelConstants,
    LinkConstants,
    LlmCalibration,
    Width,
)
from capplan.specs.folders import calibration_file
from capplan.specs.strict_yaml import dump_yaml, read_versioned, read_yaml
from capplan.specs.values import YamlRecordReader
from capplan.units import BYTES, parse_quantity

_MEMORY_SCHEMA_VERSION = 1
_MEMORY_FILE = "llm-memory.yaml"
_KEYS = (
    "activation", "block_tokens", "engine", "evidence", "fraction", "graphs", "other", "rule", "since", "source",
    "stage_other", "uncertain", "uncertain_fraction",
)  # fmt: skip


@contextmanager
def sound_content(where: str) -> Iterator[None]:
    """Turn what goes wrong while a document is read into an error that names its file.

    Args:
        where: What errors call the file.

    Raises:
        SpecError: A key is missing, or a value is of another kind.
    """
    try:
        yield
    except KeyError as error:
        raise SpecError(f"{where}: {error.args[0]} is missing.") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise SpecError(f"{where}: {error}.") from error


def load_llm_memory(path: Path | None = None) -> LlmMemoryConstants:
    """Read the memory rules of engines; the shipped ones where no path is given.

    Args:
        path: A calibration file of the user's.

    Raises:
        SpecError: The file is missing, not strict YAML, of another schema, or has unknown or missing keys.
    """
    where, what = str(path) if path else f"calibrations/{_MEMORY_FILE}", "a calibration of LLM memory"
    document = read_versioned(
        path or calibration_file(_MEMORY_FILE), what=what, version=_MEMORY_SCHEMA_VERSION, shown=where
    )
    with sound_content(where):
        engines = tuple(_engine(row, where) for row in document["engines"])
        origin = document["origin"]
        missing = [engine.value for engine in Engine if not any(row.engine is engine for row in engines)]
        if missing:
            raise SpecError(f"{where}: there is no entry for {', '.join(missing)}.")
        return LlmMemoryConstants(
            engines=engines, origin=f"{origin['made']}: {origin['data']}", support=load_engine_support()
        )


def _engine(row: dict[str, Any], where: str) -> EngineMemoryRules:
    if unknown := sorted(set(row) - set(_KEYS)):
        raise SpecError(f"{where}: unknown key {unknown[0]!r}; known are {', '.join(_KEYS)}.")
    fraction = row["fraction"]
    return EngineMemoryRules(
        engine=Engine(row["engine"]),
        since=parse_version(str(row["since"])),
        rule=PoolRule(row["rule"]),
        fraction=None if fraction == "auto" else float(fraction),
        block_tokens=int(row["block_tokens"]),
        activation=_activation(row["activation"]),
        other_bytes={int(ranks): _bytes(size) for ranks, size in row["other"].items()},
        stage_other_bytes=_bytes(row["stage_other"]),
        graph_bytes=_bytes(row["graphs"]),
        uncertain_fraction=float(row["uncertain_fraction"]),
        uncertain_bytes=_bytes(row["uncertain"]),
        evidence=str(row["evidence"]),
        source=str(row["source"]),
    )


def _activation(row: dict[str, Any]) -> ActivationConstants:
    return ActivationConstants(
        sampler_bytes_per_vocab=float(row["sampler_bytes_per_vocab"]),
        sampler_bytes_per_hidden=float(row["sampler_bytes_per_hidden"]),
        forward_mlp=float(row["forward_mlp"]),
        forward_hidden=float(row["forward_hidden"]),
        fixed_bytes=_bytes(row["fixed"]),
        expert_workspaces=float(row["expert_workspaces"]),
        vision_bytes=_bytes(row["vision"]),
        stage_bytes=None if row["stage"] == "none" else _bytes(row["stage"]),
    )


def _bytes(text: str) -> float:
    return parse_quantity(text, BYTES, what="size")


def render_fitted_memory(
    fitted: FittedMemory, *, base: Path | None, engine: Engine, since: str, made: str, data: str
) -> str:
    """Return a calibration file in which one engine's entry holds fitted constants and the others stay.

    Args:
        fitted: The constants.
        base: The file to start from, None for the shipped one.
        engine: Whose entry is replaced.
        since: First version that the entry holds for.
        made: Day of the fit.
        data: What was fitted on.

    Raises:
        SpecError: The base has no entry of the engine.
    """
    document = read_yaml(calibration_file(_MEMORY_FILE), shown=_MEMORY_FILE) if base is None else read_yaml(base)
    rows = [row for row in document["engines"] if row["engine"] == engine.value]
    if not rows:
        raise SpecError(f"{base or _MEMORY_FILE}: there is no entry of {engine.value} to start from.")
    entry = next((row for row in rows if str(row["since"]) == since), None)
    if entry is None:
        entry = {**rows[-1], "activation": dict(rows[-1]["activation"]), "since": since}
        document["engines"].insert(document["engines"].index(rows[-1]) + 1, entry)
    _put(entry, fitted)
    entry["evidence"] = "measured"
    entry["source"] = f"{fitted.rows} starts; {data}"
    document["origin"] = {"made": made, "data": data}
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)


def _put(entry: dict[str, Any], fitted: FittedMemory) -> None:
    activation = entry["activation"]
    activation["sampler_bytes_per_vocab"] = round(fitted.sampler_bytes_per_vocab, 4)
    activation["sampler_bytes_per_hidden"] = round(fitted.sampler_bytes_per_hidden, 4)
    activation["fixed"] = _gib(fitted.fixed_bytes)
    if fitted.vision_bytes is not None:
        activation["vision"] = _gib(max(0.0, fitted.vision_bytes))
    if fitted.stage_bytes is not None:
        activation["stage"] = _gib(fitted.stage_bytes)
    entry["other"] = {**entry["other"], **{str(ranks): _gib(size) for ranks, size in fitted.other_bytes.items()}}
    if fitted.stage_other_bytes is not None:
        entry["stage_other"] = _gib(fitted.stage_other_bytes)
    if fitted.graph_bytes is not None:
        entry["graphs"] = _gib(fitted.graph_bytes)


def _gib(size_bytes: float) -> str:
    return f"{size_bytes / 2**30:.4g} GiB"


_SUPPORT_FILE = "engine-support.yaml"
_SUPPORT_SCHEMA_VERSION = 1


@lru_cache(maxsize=1)
def load_engine_support() -> EngineSupport:
    """Read the families of GPUs that engines run on, and the formats that they have kernels for.

    Raises:
        SpecError: The file is missing, not strict YAML, of another schema, or names a family that it does not list.
    """
    where, what = f"calibrations/{_SUPPORT_FILE}", "a table of engines"
    document = read_versioned(calibration_file(_SUPPORT_FILE), what=what, version=_SUPPORT_SCHEMA_VERSION, shown=where)
    with sound_content(where):
        hardware = {str(family): str(name) for family, name in document["hardware"].items()}
        engines = {Engine(name): _runs(row, hardware, f"{where}: {name}") for name, row in document["engines"].items()}
        return EngineSupport(hardware=hardware, engines=engines)


def _runs(row: dict[str, Any], hardware: dict[str, str], where: str) -> EngineRuns:
    formats = {name: frozenset(map(str, families)) for name, families in row["formats"].items()}
    families = {str(family): _versions(bounds) for family, bounds in row["runs"].items()}
    unknown = sorted(set(families).union(*formats.values()) - set(hardware))
    if unknown:
        raise SpecError(f"{where}: {unknown[0]} is not listed under hardware.")
    return EngineRuns(families=families, formats=formats)


def _versions(bounds: dict[str, Any]) -> Versions:
    since, before = (bounds.get(key) for key in ("since", "before"))
    return Versions(
        since=None if since is None else parse_version(str(since)),
        before=None if before is None else parse_version(str(before)),
    )


TIME_SCHEMA_VERSION = 1
_TIME_FILE = "llm-time.yaml"


class ConstantsReader(YamlRecordReader):
    """Reads fitted constants: sets of names, and values by the members of an enumeration, of which none may lack.

    Attributes:
        optional: members that a file may lack.
    """

    usual_range = NumberRange(high=1e18)
    optional: ClassVar[Collection[StrEnum]] = ()

    def value(self, kind: Any, given: object, where: str, allowed: NumberRange) -> Any:
        """Read one value of a type, as all records do, or a set of texts."""
        if get_origin(kind) is frozenset:
            return frozenset(super().value(tuple[str, ...], given, where, allowed))
        found = super().value(kind, given, where, allowed)
        keys: Any = get_args(kind)[0] if get_origin(kind) is Mapping else str
        if not issubclass(keys, StrEnum):
            return found
        members = list(keys)
        self.unknown_keys(found, members, f"{where}.")
        for member in members:
            if member not in found and member not in self.optional:
                self.refuse(f"{where}.{member}", "is missing")
        return {member: found[member] for member in members if member in found}


_ABOVE_0 = NumberRange(high=1e18, is_open=True)


class _TimeReader(ConstantsReader):
    ranges = MappingProxyType(
        {
            KernelConstants: dict.fromkeys(("compute_fraction", "bandwidth_fraction"), _ABOVE_0),
            LinkConstants: dict.fromkeys(("bus_fraction", "bus_decline"), _ABOVE_0),
            DeviceConstants: dict.fromkeys([item.name for item in fields(DeviceConstants)], _ABOVE_0),
            Width: dict.fromkeys([item.name for item in fields(Width)], NumberRange(low=1.0, high=1e6)),
        }
    )


def load_time_calibration(path: Path | None = None) -> LlmCalibration:
    """Read the shipped calibration of step times, or a user's own.

    Args:
        path: A file that `capplan llm fit` wrote, None for the shipped one.

    Raises:
        SpecError: The file is missing, not strict YAML, of another schema, or holds unknown, missing or wrong values.
    """
    where, what = str(path) if path else f"calibrations/{_TIME_FILE}", "a calibration of LLM step times"
    document = read_versioned(path or calibration_file(_TIME_FILE), what=what, version=TIME_SCHEMA_VERSION, shown=where)
    reader = _TimeReader(where, where)
    found = reader.record(LlmCalibration, document, "")
    for name in WIDTH_NAMES:
        if found is not None and name not in found.widths:
            reader.refuse(f"widths.{name}", "is missing; make one with capplan llm fit --cross")
    reader.finish({})
    assert found is not None  # whatever was not read was refused
    return found


def dump_time_calibration(calibration: LlmCalibration) -> str:
    """Write a calibration as YAML, numbers to four significant digits; the same one gives the same text."""
    document: dict[str, Any] = {
        "schema_version": TIME_SCHEMA_VERSION,
        "name": calibration.name,
        "origin": asdict(calibration.origin) if calibration.origin else None,
        "kernels": {str(name): asdict(constants) for name, constants in calibration.kernels.items()},
        "engines": {name: asdict(constants) for name, constants in calibration.engines.items()},
        "switched": asdict(calibration.switched),
        "host": asdict(calibration.host),
        "device": asdict(calibration.device),
        "widths": {name: asdict(width) for name, width in calibration.widths.items()},
        "measured_gpus": sorted(calibration.measured_gpus),
        "measured_engines": sorted(calibration.measured_engines),
        "measured_segments": sorted(calibration.measured_segments),
        "measured_pairs": sorted(calibration.measured_pairs),
        "single_streams": {engine: sorted(gpus) for engine, gpus in calibration.single_streams.items()},
        "kernel_factors": dict(calibration.kernel_factors),
    }
    return dump_yaml(document, digits=4)
