"""Read what was measured or fitted about memory: the shipped YAML, or a user's own."""

from pathlib import Path
from typing import Any

from capplan.core.memory.calibration import (
    CommunicationSize,
    ContextSize,
    ConvolutionWorkspaces,
    CpuWorkspaces,
    MemoryCalibration,
)
from capplan.core.numbers import Interval
from capplan.errors import SpecError
from capplan.specs.folders import calibration_file
from capplan.specs.yaml.strict import read_yaml
from capplan.units import BYTES, parse_quantity

SCHEMA_VERSION = 1
_DEFAULT = "memory.yaml"
_KEYS = {"schema_version", "origin", "convolution_workspaces", "contexts", "communication", "uncertain_fraction"}
_KEYS |= {"compiled_fraction", "graph_pool_fraction", "least_kept_fraction", "assumed_share_factor", "cpu_workspaces"}


def load_memory_calibration(path: Path | None = None) -> MemoryCalibration:
    """Read a memory calibration; the shipped one where no path is given.

    Raises:
        SpecError: the file is missing, no strict YAML, of another schema, or holds unknown or missing keys.
    """
    if path is not None:
        return _calibration(read_yaml(path), str(path))
    shown = f"calibrations/{_DEFAULT}"
    return _calibration(read_yaml(calibration_file(_DEFAULT), shown=shown), shown)


def _calibration(document: dict[str, Any], where: str) -> MemoryCalibration:
    version = document.get("schema_version")
    if type(version) is not int or version != SCHEMA_VERSION:
        raise SpecError(f"{where} is not a memory calibration of schema_version {SCHEMA_VERSION}.")
    if unknown := sorted(set(document) - _KEYS):
        raise SpecError(f"{where}: unknown key {unknown[0]!r}; known are {', '.join(sorted(_KEYS))}.")
    try:
        origin = document["origin"]
        return MemoryCalibration(
            convolution_workspaces=ConvolutionWorkspaces(
                nchw_half=_shares(document["convolution_workspaces"]["nchw_half"]),
                other=_shares(document["convolution_workspaces"]["other"]),
            ),
            cpu_workspaces=_cpu_workspaces(document["cpu_workspaces"]),
            contexts=tuple(_context(row) for row in document["contexts"]),
            communication=CommunicationSize(
                size_bytes=_sizes(document["communication"]), origin="; ".join(document["communication"]["sources"])
            ),
            uncertain_fraction=_fraction(document, "uncertain_fraction"),
            compiled_fraction=_fraction(document, "compiled_fraction"),
            graph_pool_fraction=_fraction(document, "graph_pool_fraction"),
            least_kept_fraction=_fraction(document, "least_kept_fraction"),
            assumed_share_factor=_factor(document, "assumed_share_factor"),
            origin=f"calibration of {origin['made']}: {origin['data']}",
        )
    except KeyError as error:
        raise SpecError(f"{where}: {error.args[0]} is missing.") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise SpecError(f"{where}: {error}.") from error


def _cpu_workspaces(row: dict[str, Any]) -> CpuWorkspaces:
    return CpuWorkspaces(
        row_major=_shares(row["row_major"]),
        row_major_half=_shares(row["row_major_half"]),
        channels_last=_shares(row["channels_last"]),
        origin="; ".join(row["sources"]),
    )


def _fraction(document: dict[str, Any], key: str) -> float:
    given = document[key]
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 1:
        raise ValueError(f"{key} must lie between 0 and 1, not {given!r}")
    return float(given)


def _factor(document: dict[str, Any], key: str) -> float:
    given = document[key]
    if isinstance(given, bool) or not isinstance(given, int | float) or not 1 <= given <= 100:
        raise ValueError(f"{key} must lie between 1 and 100, not {given!r}")
    return float(given)


def _shares(row: dict[str, float]) -> Interval:
    return Interval(low=row["low"], expected=row["expected"], high=row["high"])


def _context(row: dict[str, Any]) -> ContextSize:
    lowest, highest = (_version(text) for text in row["compute_capability"])
    return ContextSize(
        since=_version(row["torch_since"]),
        capabilities=(lowest, highest),
        size_bytes=_sizes(row),
        origin="; ".join(row["sources"]),
    )


def _sizes(row: dict[str, Any]) -> Interval:
    low, expected, high = (parse_quantity(row[end], BYTES, what=end) for end in ("low", "expected", "high"))
    return Interval(low=low, expected=expected, high=high)


def _version(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), int(minor)
