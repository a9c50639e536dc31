"""Read and write what was fitted of whole pipelines: `calibrations/pipelines.yaml`."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from capplan.core.origin import Origin
from capplan.core.pipelines.calibration import GROUPS, GroupFactors, PipelineCalibration, PipelineWidth, SequenceLaws
from capplan.errors import SpecError
from capplan.specs.yaml.fitted import read_fitted

PIPELINES_FILE = "pipelines.yaml"
SCHEMA_VERSION = 1


def load_pipeline_calibration(path: Path | None = None) -> PipelineCalibration:
    """Read the calibration of pipelines.

    Args:
        path: a file that `benchmarks/pipelines.py` wrote, None for the one in force.

    Raises:
        SpecError: the file is missing, is not YAML, has another schema, or lacks a key.
    """
    return read_fitted(
        PIPELINES_FILE, _calibration, what="a calibration of pipelines", schema_version=SCHEMA_VERSION, path=path
    )


def _calibration(document: dict[str, Any], origin: Origin, where: str) -> PipelineCalibration:
    return PipelineCalibration(
        name=str(document["name"]),
        gpus={name: _factors(found, where) for name, found in document["gpus"].items()},
        host=float(document["host"]),
        sequence=SequenceLaws(**document["sequence"]),
        width=PipelineWidth(**document["width"]),
        origin=origin,
    )


def _factors(found: dict[str, Any], where: str) -> GroupFactors:
    if unknown := set(found) - {*GROUPS, "capability"}:
        raise SpecError(f"{where}: {sorted(unknown)[0]} is no group of kernels; known are {', '.join(GROUPS)}.")
    by_group = {name: float(value) for name, value in found.items() if name != "capability"}
    major, minor = found["capability"]
    return GroupFactors(capability=(int(major), int(minor)), by_group=by_group)


def dump_pipeline_calibration(calibration: PipelineCalibration) -> str:
    """Write a calibration as YAML; the same calibration gives the same text."""
    assert calibration.origin is not None
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "name": calibration.name,
        "origin": {**asdict(calibration.origin), "sources": list(calibration.origin.sources)},
        "host": calibration.host,
        "gpus": {
            name: {"capability": list(own.capability), **own.by_group} for name, own in sorted(calibration.gpus.items())
        },
        "sequence": asdict(calibration.sequence),
        "width": asdict(calibration.width),
    }
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)
