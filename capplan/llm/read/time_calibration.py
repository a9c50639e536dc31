"""Read and write calibrations of LLM step times: YAML data of the package, or a user's own."""

from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

import yaml

from capplan.core.origin import Origin
from capplan.errors import SpecError
from capplan.llm.core.timing.calibration import (
    WIDTH_NAMES,
    DeviceConstants,
    EngineTimes,
    KernelConstants,
    LinkConstants,
    LlmCalibration,
    Width,
)
from capplan.llm.core.timing.kernel_classes import KernelClass
from capplan.specs.folders import calibration_file

SCHEMA_VERSION = 1
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
    if not isinstance(document, dict) or document.get("schema_version") != SCHEMA_VERSION:
        raise SpecError(f"{where} is not a calibration of LLM step times of schema_version {SCHEMA_VERSION}.")
    return _calibration(document, where)


def _calibration(document: Mapping[str, Any], where: str) -> LlmCalibration:
    missing = [name for name in WIDTH_NAMES if name not in (document.get("widths") or {})]
    if missing:
        raise SpecError(f"{where}: widths.{missing[0]} is missing; make one with capplan llm fit --cross.")
    try:
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
            origin=_origin(document.get("origin"), where),
        )
    except KeyError as error:
        raise SpecError(f"{where}: {error.args[0]} is missing.") from error
    except (TypeError, AttributeError, ValueError) as error:
        raise SpecError(f"{where}: {error}.") from error


def _origin(document: Any, where: str) -> Origin | None:
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
    unknown = sorted(set(document) - set(known))
    if unknown:
        raise SpecError(f"{where}: unknown key {unknown[0]!r}; known are {', '.join(known)}.")
    required = [item for item in parts if item.default is MISSING and item.default_factory is MISSING]
    missing = [item.name for item in required if item.name not in document]
    if missing:
        raise SpecError(f"{where}: {missing[0]} is missing; make the file again with `capplan llm fit`.")
    return kind(**document)


def dump_time_calibration(calibration: LlmCalibration) -> str:
    """Write a calibration as YAML, numbers to four significant digits; the same one gives the same text."""
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
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
    return yaml.safe_dump(_rounded(document), sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {str(key): _rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    return value
