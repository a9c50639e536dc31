"""Where a calibration comes from: one type for the constants of kernels and of serving."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What a calibration was made from: the command, its files, rows, and the errors on rows held out."""

    made: date
    command: str
    sources: tuple[str, ...]
    rows: int
    held_out_errors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
