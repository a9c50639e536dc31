"""Receivers of a sweep's progress, and the counts that they receive."""

import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from capplan.core.sweep.overview import Standing
from capplan.files import replace_whole

PROGRESS_FILE = "progress.json"
"""How far a sweep is, in its state folder while it runs."""
_WRITTEN_EVERY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveStanding:
    """How far a sweep was at a moment. [seconds since 1970]"""

    standing: Standing
    at_s: float


@dataclass(slots=True, kw_only=True)
class ProgressFile:
    """Keeps how far a running sweep is in a file, which others read."""

    path: Path
    _written_s: float = 0.0

    def write(self, standing: Standing) -> None:
        """Write the counts, not more often than once a second."""
        now = time.monotonic()
        if now - self._written_s >= _WRITTEN_EVERY_S:
            self._written_s = now
            replace_whole(self.path, json.dumps({**asdict(standing), "at_s": time.time()}).encode())

    def remove(self) -> None:
        """Remove the file: the sweep runs no longer."""
        self.path.unlink(missing_ok=True)


def read_progress(path: Path) -> LiveStanding | None:
    """Return how far the sweep is that writes a file; None where none runs."""
    try:
        document = json.loads(path.read_bytes())
        at_s = float(document.pop("at_s"))
        return LiveStanding(standing=Standing(**document), at_s=at_s)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counts while a sweep runs."""

    models: int
    kept: int
    finished: int = 0
    failed: int = 0
    rows: int = 0
    started_s: float = field(default_factory=time.monotonic)

    def standing(self) -> Standing:
        return Standing(
            models=self.models,
            finished=self.kept + self.finished,
            kept=self.kept,
            failed=self.failed,
            rows=self.rows,
            elapsed_s=time.monotonic() - self.started_s,
        )
