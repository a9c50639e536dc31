"""Read and write small files of fitted numbers: the power of cards, price drift, pipelines and sweeps."""

from collections.abc import Callable
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

from capplan.core.economics.evidence import PriceDrift
from capplan.core.origin import Origin
from capplan.core.pipelines.measured import GROUPS, GroupFactors, PipelineCalibration, PipelineWidth, SequenceLaws
from capplan.core.power import CapLaw, PowerConstants, PowerLaw
from capplan.core.sweep.overview import RateRange, SweepRates
from capplan.errors import SpecError
from capplan.specs.folders import calibration_file
from capplan.specs.strict_yaml import dump_yaml, read_versioned, stated_number

ENERGY_FILE = "energy.yaml"
POWER_SCHEMA_VERSION = 3


def load_power_law(path: Path | None = None) -> PowerLaw:
    """Read the law of power.

    Args:
        path: A file that `benchmarks/energy.py` wrote, None for the one in force.

    Raises:
        SpecError: The file is missing, is not YAML, has another schema, or lacks a key.
    """
    return read_fitted(ENERGY_FILE, _law, what="a law of power", schema_version=POWER_SCHEMA_VERSION, path=path)


def _law(document: dict[str, Any], origin: Origin, _where: str) -> PowerLaw:
    return PowerLaw(
        architectures={name: PowerConstants(**row) for name, row in document["architectures"].items()},
        others=PowerConstants(**document["others"]),
        capping=CapLaw(**document["capping"]),
        served_widening=document["served_widening"],
        task_prompts=document["task_prompts"],
        origin=origin,
    )


def dump_power_law(law: PowerLaw) -> str:
    """Write a law as YAML; the same law gives the same text."""
    document: dict[str, Any] = {
        "schema_version": POWER_SCHEMA_VERSION,
        "origin": {**asdict(law.origin), "sources": list(law.origin.sources)},
        "architectures": {name: asdict(law.architectures[name]) for name in sorted(law.architectures)},
        "others": asdict(law.others),
        "capping": asdict(law.capping),
        "served_widening": dict(law.served_widening),
        "task_prompts": dict(law.task_prompts),
    }
    return dump_yaml(document)


_Fitted = TypeVar("_Fitted")


def read_fitted(
    name: str,
    build: Callable[[dict[str, Any], Origin, str], _Fitted],
    *,
    what: str,
    schema_version: int,
    path: Path | None = None,
) -> _Fitted:
    """Return what is built of a file of fitted numbers.

    Args:
        name: the shipped file's name in `calibrations/`.
        build: makes it of the document, its origin, and the file's name for messages.
        what: what such a file is, with its article, for messages.
        schema_version: the version that this program reads.
        path: a file of the same kind, None for the shipped one.

    Raises:
        SpecError: the file is missing, is not strict YAML, has another schema, or lacks a key.
    """
    where, file = str(path) if path else f"calibrations/{name}", path or calibration_file(name)
    document = read_versioned(file, what=what, version=schema_version, shown=where)
    try:
        origin = document["origin"]
        if not isinstance(origin["made"], date):
            raise SpecError(f"{where}: origin.made is {origin['made']!r}; write a date such as 2026-11-21.")
        return build(document, Origin(**{**origin, "sources": tuple(origin["sources"])}), where)
    except KeyError as error:
        raise SpecError(f"{where}: {error.args[0]} is missing.") from error
    except (TypeError, AttributeError, ValueError) as error:
        raise SpecError(f"{where}: {error}.") from error


DRIFT_SCHEMA_VERSION = 1
DRIFT_FILE = "prices.yaml"


def load_price_drift() -> PriceDrift:
    """Read the spread of rents and of purchases after a year.

    Raises:
        SpecError: the file is missing, no strict YAML, of another schema, or a spread is missing or out of range.
    """
    where = f"calibrations/{DRIFT_FILE}"
    what = "a table of price drift"
    document = read_versioned(calibration_file(DRIFT_FILE), what=what, version=DRIFT_SCHEMA_VERSION, shown=where)
    rents, purchases = (
        stated_number(document.get(name), "sigma", f"{where}: {name}", low=0, high=3) for name in ("rents", "purchases")
    )
    return PriceDrift(rent_sigma=rents, purchase_sigma=purchases)


SWEEPS_FILE = "sweeps.yaml"
SWEEPS_SCHEMA_VERSION = 1


def load_sweep_rates() -> SweepRates:
    """Read the rates of sweeps.

    Raises:
        SpecError: the file is missing, is not YAML, has another schema, or lacks a key.
    """
    return read_fitted(SWEEPS_FILE, _rates, what="a file of rates of sweeps", schema_version=SWEEPS_SCHEMA_VERSION)


def _rates(document: dict[str, Any], origin: Origin, _where: str) -> SweepRates:
    low, high = document["row_bytes"]
    return SweepRates(
        **document["rates"],
        low_factor=document["low_factor"],
        high_factor=document["high_factor"],
        file_bytes=document["file_bytes"],
        state_bytes=document["state_bytes"],
        trace_bytes=document["trace_bytes"],
        row_bytes=RateRange(low=low, high=high),
        origin=origin,
    )


PIPELINES_FILE = "pipelines.yaml"
PIPELINES_SCHEMA = 1


def load_pipeline_calibration(path: Path | None = None) -> PipelineCalibration:
    """Read the calibration of pipelines.

    Args:
        path: a file that `benchmarks/pipelines.py` wrote, None for the one in force.

    Raises:
        SpecError: the file is missing, is not YAML, has another schema, or lacks a key.
    """
    return read_fitted(
        PIPELINES_FILE, _calibration, what="a calibration of pipelines", schema_version=PIPELINES_SCHEMA, path=path
    )


def _calibration(document: dict[str, Any], origin: Origin, where: str) -> PipelineCalibration:
    return PipelineCalibration(
        name=str(document["name"]),
        gpus={name: _factors(row, where) for name, row in document["gpus"].items()},
        host=float(document["host"]),
        sequence=SequenceLaws(**document["sequence"]),
        width=PipelineWidth(**document["width"]),
        origin=origin,
    )


def _factors(row: dict[str, Any], where: str) -> GroupFactors:
    if unknown := set(row) - {*GROUPS, "capability"}:
        raise SpecError(f"{where}: {sorted(unknown)[0]} is no group of kernels; known are {', '.join(GROUPS)}.")
    by_group = {name: float(value) for name, value in row.items() if name != "capability"}
    major, minor = row["capability"]
    return GroupFactors(capability=(int(major), int(minor)), by_group=by_group)


def dump_pipeline_calibration(calibration: PipelineCalibration) -> str:
    """Write a calibration as YAML; the same calibration gives the same text."""
    assert calibration.origin is not None
    document: dict[str, Any] = {
        "schema_version": PIPELINES_SCHEMA,
        "name": calibration.name,
        "origin": {**asdict(calibration.origin), "sources": list(calibration.origin.sources)},
        "host": calibration.host,
        "gpus": {
            name: {"capability": list(own.capability), **own.by_group} for name, own in sorted(calibration.gpus.items())
        },
        "sequence": asdict(calibration.sequence),
        "width": asdict(calibration.width),
    }
    return dump_yaml(document)
