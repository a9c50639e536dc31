"""Read and write the law of power of cards: `calibrations/energy.yaml`."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from capplan.core.energy.capping import CapLaw
from capplan.core.energy.power import PowerConstants, PowerLaw
from capplan.core.origin import Origin
from capplan.specs.yaml.fitted import read_fitted

ENERGY_FILE = "energy.yaml"
SCHEMA_VERSION = 3


def load_power_law(path: Path | None = None) -> PowerLaw:
    """Read the law of power.

    Args:
        path: A file that `benchmarks/energy.py` wrote, None for the one in force.

    Raises:
        SpecError: The file is missing, is not YAML, has another schema, or lacks a key.
    """
    return read_fitted(ENERGY_FILE, _law, what="a law of power", schema_version=SCHEMA_VERSION, path=path)


def _law(document: dict[str, Any], origin: Origin, _where: str) -> PowerLaw:
    return PowerLaw(
        architectures={name: PowerConstants(**found) for name, found in document["architectures"].items()},
        others=PowerConstants(**document["others"]),
        capping=CapLaw(**document["capping"]),
        served_widening=document["served_widening"],
        task_prompts=document["task_prompts"],
        origin=origin,
    )


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
