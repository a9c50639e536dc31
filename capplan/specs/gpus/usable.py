"""Read what share of a GPU's printed memory a process can expect where no driver's report is known."""

from collections.abc import Mapping

import yaml

from capplan.core.assumed import CPU_USABLE_SHARE
from capplan.core.gpus.spec import Segment
from capplan.errors import SpecError
from capplan.specs.folders import calibration_file
from capplan.specs.yaml.strict import read_yaml

SCHEMA_VERSION = 1
USABLE_FILE = "usable.yaml"
CPU, AMD, SHARED, GDDR, GDDR_ECC, HBM = "cpu", "amd", "lpddr", "gddr", "gddr-ecc", "hbm"
KINDS = (AMD, GDDR, GDDR_ECC, HBM, SHARED)
"""Kinds of memory whose readings are alike: AMD's; GDDR; GDDR with ECC carved out of it; HBM; shared with the host."""


def memory_kind(*, segment: Segment | None, vendor: str, memory_type: str, ecc: str | None) -> str:
    """Name the kind of memory that decides what share a driver leaves.

    Args:
        segment: the market that the GPU is made for.
        vendor: who makes it.
        memory_type: as printed, such as GDDR6; empty where that is unknown.
        ecc: "default" where error correction takes a part of the memory unasked.
    """
    if segment is Segment.CPU:
        return CPU
    if vendor == "AMD":
        return AMD
    if memory_type.startswith("LPDDR"):
        return SHARED
    if memory_type.startswith("GDDR"):
        return GDDR_ECC if ecc == "default" else GDDR
    return HBM


def load_usable_shares() -> Mapping[str, float]:
    """Read the median share by kind of memory, and that of CPUs, which is an assumption.

    Raises:
        SpecError: the file is missing, no strict YAML, of another schema, or a kind's share is missing or above 1.
    """
    where = f"calibrations/{USABLE_FILE}"
    document = read_yaml(calibration_file(USABLE_FILE), shown=where)
    if document.get("schema_version") != SCHEMA_VERSION:
        raise SpecError(f"{where} is not a table of usable memory of schema_version {SCHEMA_VERSION}.")
    rows = document.get("shares")
    if not isinstance(rows, dict) or set(rows) != set(KINDS):
        raise SpecError(f"{where}: shares must hold {', '.join(KINDS)}.")
    return {CPU: CPU_USABLE_SHARE, **{kind: _share(row, f"{where}: shares.{kind}") for kind, row in rows.items()}}


def _share(row: object, where: str) -> float:
    share = row.get("share") if isinstance(row, dict) else None
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0.5 <= share <= 1.0:
        raise SpecError(f"{where}.share must be a number from 0.5 to 1.")
    return float(share)


def dump_usable_shares(shares: Mapping[str, tuple[float, int]], *, made: str, command: str) -> str:
    """Write the table as YAML.

    Args:
        shares: the median share and the number of GPUs behind it, by kind of memory.
        made: the day.
        command: what makes the file anew.
    """
    readings = sum(count for _, count in shares.values())
    document = {
        "schema_version": SCHEMA_VERSION,
        "origin": {
            "made": made,
            "command": command,
            "data": f"gpu_specs: `usable` of {readings} GPUs, which torch reports, over the printed memory",
        },
        "shares": {kind: {"share": round(share, 4), "gpus": count} for kind, (share, count) in sorted(shares.items())},
    }
    return yaml.safe_dump(document, sort_keys=False, width=120, default_flow_style=None)
