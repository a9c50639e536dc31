"""Read and write the law of power of cards: `calibrations/energy.yaml`."""

from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from capplan.core.energy.capping import CapLaw
from capplan.core.energy.power import PowerConstants, PowerLaw
from capplan.core.origin import Origin
from capplan.errors import SpecError
from capplan.specs.folders import calibration_file

ENERGY_FILE = "energy.yaml"
SCHEMA_VERSION = 3


def load_power_law(path: Path | None = None) -> PowerLaw:
    """Read the law of power.

    Args:
        path: A file that `benchmarks/energy.py` wrote, None for the one in force.

    Raises:
        SpecError: The file is missing, is not YAML, has another schema, or lacks a key.
    """
    where = str(path) if path else f"calibrations/{ENERGY_FILE}"
    try:
        document = yaml.safe_load((path or calibration_file(ENERGY_FILE)).read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(f"{where}: {error.strerror or error}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SpecError(f"{where} is not YAML: {error}") from error
    if not isinstance(document, dict) or document.get("schema_version") != SCHEMA_VERSION:
        raise SpecError(f"{where} is not a law of power of schema_version {SCHEMA_VERSION}.")
    try:
        origin = document["origin"]
        if not isinstance(origin["made"], date):
            raise SpecError(f"{where}: origin.made is {origin['made']!r}; write a date such as 2026-11-21.")
        return PowerLaw(
            architectures={name: PowerConstants(**found) for name, found in document["architectures"].items()},
            others=PowerConstants(**document["others"]),
            capping=CapLaw(**document["capping"]),
            served_widening=document["served_widening"],
            task_prompts=document["task_prompts"],
            origin=Origin(**{**origin, "sources": tuple(origin["sources"])}),
        )
    except KeyError as error:
        raise SpecError(f"{where}: {error.args[0]} is missing.") from error
    except (TypeError, AttributeError, ValueError) as error:
        raise SpecError(f"{where}: {error}.") from error


def dump_power_law(law: PowerLaw) -> str:
    """Write a law as YAML; the same law gives the same text."""
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "origin": {**asdict(law.origin), "sources": list(law.origin.sources)},
        "architectures": {name: asdict(law.architectures[name]) for name in sorted(law.architectures)},
        "others": asdict(law.others),
        "capping": asdict(law.capping),
        "served_widening": dict(law.served_widening),
        "task_prompts": dict(law.task_prompts),
    }
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)
