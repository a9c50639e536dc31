"""What is the same for every point of a measuring command."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from capplan.cli.output import Format

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """All that is the same for every point: theory's sources, isolation, files, spelling."""

    gpu: str | None
    specs: tuple[Path, ...]
    calibration: Path | None
    timeout_s: float | None
    is_isolated: bool
    lines: Path | None
    resume: bool
    profile: Path | None
    spelling: Format
    output: Path | None
