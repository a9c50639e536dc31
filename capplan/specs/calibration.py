"""Read and write calibration files: YAML data beside the program, or a user's own."""

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

import yaml

from capplan.core.latency.calibration import (
    Calibration,
    ClassConstants,
    DeviceFactors,
    GlobalConstants,
    IntervalWidth,
    Origin,
)
from capplan.errors import SpecError
from capplan.specs.folders import calibration_file

SCHEMA_VERSION = 1
_SHIPPED = {"eager": "default.yaml", "compile": "compile.yaml", "training": "training.yaml"}
_Part = TypeVar("_Part")


def load_calibration(path: Path | None = None) -> Calibration:
    """Read the shipped calibrations; a user's own takes over what it serves, and the shipped ones remain for the rest.

    Raises:
        SpecError: the file is missing, no YAML, of a newer schema, or holds unknown or missing keys.
    """
    shipped = {name: _read(None, file) for name, file in _SHIPPED.items()}
    parts = {name: part for name, part in shipped.items() if name != "eager"}
    if path is None:
        return replace(shipped["eager"], parts=parts)
    own = _read(path, path.name)
    if own.serves == "eager":
        return replace(own, parts=parts)
    return replace(shipped["eager"], parts={**parts, own.serves: own})


def _read(path: Path | None, name: str) -> Calibration:
    where = str(path) if path else f"calibrations/{name}"
    try:
        text = path.read_text() if path else calibration_file(name).read_text()
        document = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except OSError as error:
        raise SpecError(f"{where}: {error.strerror or error}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SpecError(f"{where} is no YAML: {error}") from error
    if not isinstance(document, dict) or document.get("schema_version") != SCHEMA_VERSION:
        raise SpecError(f"{where} is no calibration of schema_version {SCHEMA_VERSION}.")
    return _calibration({key: value for key, value in document.items() if key != "schema_version"}, where)


def dump_calibration(calibration: Calibration) -> str:
    """Write a calibration as YAML, numbers to four significant digits; the same one gives the same text."""
    document = {"schema_version": SCHEMA_VERSION, **_rounded(asdict(replace(calibration, parts={})))}
    del document["parts"]
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)


def _calibration(document: dict[str, Any], where: str) -> Calibration:
    try:
        origin = document.pop("origin", None)
        parts: dict[str, Any] = {
            "constants": _part(GlobalConstants, document.pop("constants"), f"{where}: constants"),
            "classes": _parts(ClassConstants, document.pop("classes"), f"{where}: classes"),
            "gpus": _parts(DeviceFactors, document.pop("gpus", {}), f"{where}: gpus"),
            "widths": _parts(IntervalWidth, document.pop("widths", {}), f"{where}: widths"),
            "origin": _origin(origin, where) if origin else None,
        }
        return Calibration(**parts, **document)
    except KeyError as error:
        raise SpecError(f"{where}: {error.args[0]} is missing.") from error
    except (TypeError, AttributeError) as error:
        raise SpecError(f"{where}: {error}.") from error


def _origin(document: Mapping[str, Any], where: str) -> Origin:
    made = document.get("made")
    if not isinstance(made, date):
        raise SpecError(f"{where}: origin.made is {made!r}; write a date such as 2026-11-21.")
    return _part(Origin, {**document, "sources": tuple(document.get("sources", ()))}, f"{where}: origin")


def _parts(kind: type[_Part], documents: Mapping[str, Any], where: str) -> dict[str, _Part]:
    return {str(name): _part(kind, document, f"{where}.{name}") for name, document in documents.items()}


def _part(kind: type[_Part], document: Mapping[str, Any], where: str) -> _Part:
    known = [item.name for item in fields(kind)]  # type: ignore[arg-type]  # every part is a dataclass
    unknown = sorted(set(document) - set(known))
    if unknown:
        raise SpecError(f"{where}: unknown key {unknown[0]!r}; known are {', '.join(known)}.")
    return kind(**document)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    return value
