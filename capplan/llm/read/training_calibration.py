"""Read and write the calibration of training: the shipped YAML, or a user's own."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from capplan.errors import SpecError
from capplan.llm.core.training.accuracy import TrainingCalibration, TrainingEvidence, Widths
from capplan.llm.core.training.frameworks import Family
from capplan.llm.core.training.memory import MemoryConstants
from capplan.llm.core.training.step_time import TimeConstants
from capplan.llm.core.training.work import AttentionClass, CollectiveLink, ProductClass
from capplan.llm.read.calibrations import check_keys, dump_rounded, read_origin, sound_content
from capplan.specs.folders import calibration_file
from capplan.specs.strict_yaml import read_yaml

TRAINING_SCHEMA_VERSION = 1
SHIPPED = "llm-training.yaml"
_KEYS: Mapping[str, type[StrEnum]] = {
    "activations": Family,
    "logit_bytes": Family,
    "families": Family,
    "products": ProductClass,
    "attention": AttentionClass,
    "links": CollectiveLink,
    "dense": TrainingEvidence,
    "adapters": TrainingEvidence,
    "experts": TrainingEvidence,
    "memory": TrainingEvidence,
}
"""The kinds of keys of the constants that are given by kind."""
_Part = TypeVar("_Part", MemoryConstants, TimeConstants, Widths)


def load_training_calibration(path: Path | None = None) -> TrainingCalibration:
    """Read a calibration of training; the shipped one where no path is given.

    Args:
        path: A calibration file of the user's.

    Raises:
        SpecError: The file is missing, not strict YAML, of another schema, or has unknown or missing keys.
    """
    where = str(path) if path else f"calibrations/{SHIPPED}"
    document = read_yaml(path) if path else read_yaml(calibration_file(SHIPPED), shown=where)
    if document.get("schema_version") != TRAINING_SCHEMA_VERSION:
        raise SpecError(f"{where} is not a calibration of LLM training of schema_version {TRAINING_SCHEMA_VERSION}.")
    with sound_content(where):
        return TrainingCalibration(
            name=str(document["name"]),
            memory=_part(MemoryConstants, document["memory"], f"{where}: memory"),
            time=_part(TimeConstants, document["time"], f"{where}: time"),
            widths=_part(Widths, document["widths"], f"{where}: widths"),
            measured_gpus=frozenset(document["measured_gpus"]),
            measured_chips=frozenset(document["measured_chips"]),
            measured_frameworks=frozenset(document["measured_frameworks"]),
            memory_frameworks=frozenset(document["memory_frameworks"]),
            peak_ratios=_ratios(document.get("peak_ratios", {}), f"{where}: peak_ratios"),
            origin=read_origin(document.get("origin"), where),
        )


def _part(kind: type[_Part], document: Mapping[str, Any], where: str) -> _Part:
    known = [item.name for item in fields(kind)]
    check_keys(document, known, where)
    return kind(**{name: _value(name, document[name], f"{where}.{name}") for name in known})


def _value(name: str, given: Any, where: str) -> Any:
    if not isinstance(given, Mapping):
        return _positive(given, where)
    keys = _KEYS[name]
    found = {keys(key): _positive(value, f"{where}.{key}") for key, value in given.items()}
    missing = [kind for kind in keys if kind not in found and kind is not TrainingEvidence.MEASURED_HERE]
    if missing:
        raise SpecError(f"{where}: {missing[0]} is missing.")
    return found


def _ratios(document: Any, where: str) -> Mapping[TrainingEvidence, tuple[float, ...]]:
    found: dict[TrainingEvidence, tuple[float, ...]] = {}
    for key, values in dict(document).items():
        ratios = tuple(_positive(value, f"{where}.{key}") for value in values)
        if len(ratios) < 2 or list(ratios) != sorted(ratios):
            raise SpecError(f"{where}.{key} must be two or more ratios, the lowest first.")
        found[TrainingEvidence(key)] = ratios
    return found


def _positive(given: Any, where: str) -> float:
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 < given < float("inf"):
        raise SpecError(f"{where} is {given!r}; write a number above 0.")
    return float(given)


def dump_training_calibration(calibration: TrainingCalibration) -> str:
    """Write a calibration as YAML, numbers to four significant digits; the same one gives the same text."""
    document = {
        "schema_version": TRAINING_SCHEMA_VERSION,
        "name": calibration.name,
        "origin": asdict(calibration.origin) if calibration.origin else None,
        "memory": asdict(calibration.memory),
        "time": asdict(calibration.time),
        "widths": asdict(calibration.widths),
        "measured_gpus": sorted(calibration.measured_gpus),
        "measured_chips": sorted(calibration.measured_chips),
        "measured_frameworks": sorted(calibration.measured_frameworks),
        "memory_frameworks": sorted(calibration.memory_frameworks),
        "peak_ratios": calibration.peak_ratios,
    }
    return dump_rounded(document)
