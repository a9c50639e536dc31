"""Read what sweeps take: `calibrations/sweeps.yaml`, which `benchmarks/sweep_rates.py` makes."""

from datetime import date

import yaml

from capplan.core.origin import Origin
from capplan.core.sweep.preview import Span, SweepRates
from capplan.errors import SpecError
from capplan.specs.folders import calibration_file

SWEEPS_FILE = "sweeps.yaml"
SCHEMA_VERSION = 1


def load_sweep_rates() -> SweepRates:
    """Read the rates of sweeps.

    Raises:
        SpecError: the file is missing, is not YAML, has another schema, or lacks a key.
    """
    where = f"calibrations/{SWEEPS_FILE}"
    try:
        document = yaml.safe_load(calibration_file(SWEEPS_FILE).read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(f"{where}: {error.strerror or error}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SpecError(f"{where} is not YAML: {error}") from error
    if not isinstance(document, dict) or document.get("schema_version") != SCHEMA_VERSION:
        raise SpecError(f"{where} does not hold rates of sweeps of schema_version {SCHEMA_VERSION}.")
    try:
        origin = document["origin"]
        if not isinstance(origin["made"], date):
            raise SpecError(f"{where}: origin.made is {origin['made']!r}; write a date such as 2026-11-21.")
        low, high = document["row_bytes"]
        return SweepRates(
            **document["rates"],
            low_factor=document["low_factor"],
            high_factor=document["high_factor"],
            file_bytes=document["file_bytes"],
            state_bytes=document["state_bytes"],
            trace_bytes=document["trace_bytes"],
            row_bytes=Span(low=low, high=high),
            origin=Origin(**{**origin, "sources": tuple(origin["sources"])}),
        )
    except KeyError as error:
        raise SpecError(f"{where}: {error.args[0]} is missing.") from error
    except (TypeError, AttributeError, ValueError) as error:
        raise SpecError(f"{where}: {error}.") from error
