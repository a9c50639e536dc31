"""Read and write what was learnt of serving: memory rules of engines, what engines run on, and times of steps."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, asdict, fields
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import yaml

from capplan.core.origin import Origin
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
    EngineTimes,
    KernelClass,
    KernelConstants,
    LinkConstants,
    LlmCalibration,
    Width,
)
from capplan.specs.folders import calibration_file
from capplan.specs.strict_yaml import read_yaml
from capplan.units import BYTES, parse_quantity

SCHEMA_VERSION = 1
_DEFAULT = "llm-memory.yaml"
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


def check_keys(document: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    """Refuse a key that is not known.

    Raises:
        SpecError: There is one.
    """
    if unknown := sorted(set(document) - set(known)):
        raise SpecError(f"{where}: unknown key {unknown[0]!r}; known are {', '.join(known)}.")


def load_llm_memory(path: Path | None = None) -> LlmMemoryConstants:
    """Read the memory rules of engines; the shipped ones where no path is given.

    Args:
        path: A calibration file of the user's.

    Raises:
        SpecError: The file is missing, not strict YAML, of another schema, or has unknown or missing keys.
    """
    if path is not None:
        return _constants(read_yaml(path), str(path))
    shown = f"calibrations/{_DEFAULT}"
    return _constants(read_yaml(calibration_file(_DEFAULT), shown=shown), shown)


def _constants(document: dict[str, Any], where: str) -> LlmMemoryConstants:
    if document.get("schema_version") != SCHEMA_VERSION:
        raise SpecError(f"{where} is not a calibration of LLM memory of schema_version {SCHEMA_VERSION}.")
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
    check_keys(row, _KEYS, where)
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
    document = read_yaml(calibration_file(_DEFAULT), shown=_DEFAULT) if base is None else read_yaml(base)
    rows = [row for row in document["engines"] if row["engine"] == engine.value]
    if not rows:
        raise SpecError(f"{base or _DEFAULT}: there is no entry of {engine.value} to start from.")
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


_NAME = "engine-support.yaml"
_SCHEMA_VERSION = 1


@lru_cache(maxsize=1)
def load_engine_support() -> EngineSupport:
    """Read the families of GPUs that engines run on, and the formats that they have kernels for.

    Raises:
        SpecError: The file is missing, not strict YAML, of another schema, or names a family that it does not list.
    """
    where = f"calibrations/{_NAME}"
    document = read_yaml(calibration_file(_NAME), shown=where)
    if document.get("schema_version") != _SCHEMA_VERSION:
        raise SpecError(f"{where} is not a table of engines of schema_version {_SCHEMA_VERSION}.")
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
SHIPPED = "llm-time.yaml"
_Part = TypeVar("_Part")


def load_time_calibration(path: Path | None = None) -> LlmCalibration:
    """Read the shipped calibration of step times, or a user's own.

    Args:
        path: A file that `capplan llm fit` wrote, None for the shipped one.

    Raises:
        SpecError: The file is missing, is not YAML, has another schema, or holds unknown or missing keys.
    """
    where = str(path) if path else f"calibrations/{SHIPPED}"
    try:
        text = (path or calibration_file(SHIPPED)).read_text(encoding="utf-8")
        document = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except OSError as error:
        raise SpecError(f"{where}: {error.strerror or error}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SpecError(f"{where} is not YAML: {error}") from error
    if not isinstance(document, dict) or document.get("schema_version") != TIME_SCHEMA_VERSION:
        raise SpecError(f"{where} is not a calibration of LLM step times of schema_version {TIME_SCHEMA_VERSION}.")
    return _calibration(document, where)


def _calibration(document: Mapping[str, Any], where: str) -> LlmCalibration:
    missing = [name for name in WIDTH_NAMES if name not in (document.get("widths") or {})]
    if missing:
        raise SpecError(f"{where}: widths.{missing[0]} is missing; make one with capplan llm fit --cross.")
    with sound_content(where):
        kernels = _parts(KernelConstants, document["kernels"], f"{where}: kernels")
        if absent := [kernel.value for kernel in KernelClass if kernel.value not in kernels]:
            raise SpecError(f"{where}: kernels.{absent[0]} is missing; make the file again with `capplan llm fit`.")
        return LlmCalibration(
            name=str(document["name"]),
            kernels={KernelClass(name): constants for name, constants in kernels.items()},
            engines=_parts(EngineTimes, document["engines"], f"{where}: engines"),
            switched=_part(LinkConstants, document["switched"], f"{where}: switched"),
            host=_part(LinkConstants, document["host"], f"{where}: host"),
            device=_part(DeviceConstants, document["device"], f"{where}: device"),
            widths=_parts(Width, document.get("widths", {}), f"{where}: widths"),
            measured_gpus=frozenset(document.get("measured_gpus", ())),
            measured_engines=frozenset(document.get("measured_engines", ())),
            measured_segments=frozenset(document.get("measured_segments", ())),
            measured_pairs=frozenset(document.get("measured_pairs", ())),
            single_streams={
                str(engine): frozenset(gpus) for engine, gpus in document.get("single_streams", {}).items()
            },
            kernel_factors={str(name): float(value) for name, value in document.get("kernel_factors", {}).items()},
            origin=read_origin(document.get("origin"), where),
        )


def read_origin(document: Any, where: str) -> Origin | None:
    """Read what a calibration was made from; None where the file does not say.

    Raises:
        SpecError: The day is none, or a key is not known.
    """
    if document is None:
        return None
    if not isinstance(document.get("made"), date):
        raise SpecError(f"{where}: origin.made is {document.get('made')!r}; write a date such as 2026-11-21.")
    return _part(Origin, {**document, "sources": tuple(document.get("sources", ()))}, f"{where}: origin")


def _parts(kind: type[_Part], documents: Mapping[str, Any], where: str) -> dict[str, _Part]:
    return {str(name): _part(kind, document, f"{where}.{name}") for name, document in documents.items()}


def _part(kind: type[_Part], document: Mapping[str, Any], where: str) -> _Part:
    parts = fields(kind)  # type: ignore[arg-type]  # every part is a dataclass
    known = [item.name for item in parts]
    check_keys(document, known, where)
    required = [item for item in parts if item.default is MISSING and item.default_factory is MISSING]
    missing = [item.name for item in required if item.name not in document]
    if missing:
        raise SpecError(f"{where}: {missing[0]} is missing; make the file again with `capplan llm fit`.")
    return kind(**document)


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
    return dump_rounded(document)


def dump_rounded(document: Mapping[str, Any]) -> str:
    """Write a calibration as YAML, its fractions to four significant digits.

    Args:
        document: What is written, keys in their order.
    """
    return yaml.safe_dump(_rounded(document), sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {str(key): _rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    return value
