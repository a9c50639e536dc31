"""Read what sweeps take: `calibrations/sweeps.yaml`, which `benchmarks/sweep_rates.py` makes."""

from typing import Any

from capplan.core.origin import Origin
from capplan.core.sweep.preview import Span, SweepRates
from capplan.specs.yaml.fitted import read_fitted

SWEEPS_FILE = "sweeps.yaml"
SCHEMA_VERSION = 1


def load_sweep_rates() -> SweepRates:
    """Read the rates of sweeps.

    Raises:
        SpecError: the file is missing, is not YAML, has another schema, or lacks a key.
    """
    return read_fitted(SWEEPS_FILE, _rates, what="a file of rates of sweeps", schema_version=SCHEMA_VERSION)


def _rates(document: dict[str, Any], origin: Origin, _where: str) -> SweepRates:
    low, high = document["row_bytes"]
    return SweepRates(
        **document["rates"],
        low_factor=document["low_factor"],
        high_factor=document["high_factor"],
        file_bytes=document["file_bytes"],
        state_bytes=document["state_bytes"],
        trace_bytes=document["trace_bytes"],
        row_bytes=Span(low=low, high=high),
        origin=origin,
    )
