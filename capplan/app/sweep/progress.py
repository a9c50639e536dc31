"""Receivers of a sweep's progress, and the counts that they receive."""

import time
from dataclasses import dataclass, field
from typing import Protocol

from capplan.core.sweep.overview import Failed, Standing


class Watcher(Protocol):
    """Receives the progress of a sweep."""

    def started(self, standing: Standing) -> None:
        """Receive that the work is known and begins."""

    def moved(self, standing: Standing) -> None:
        """Receive that a model is finished."""

    def failed(self, model: str, workload: str, failed: Failed) -> None:
        """Receive that a model has no answer under a workload."""

    def measured(self, model: str, gpu: str, batch: int) -> None:
        """Receive that a point was timed."""

    def ended(self, standing: Standing) -> None:
        """Receive that all results are written."""


class Unwatched:
    """A watcher that shows nothing."""

    def started(self, standing: Standing) -> None:
        """Show nothing."""

    def moved(self, standing: Standing) -> None:
        """Show nothing."""

    def failed(self, model: str, workload: str, failed: Failed) -> None:
        """Show nothing."""

    def measured(self, model: str, gpu: str, batch: int) -> None:
        """Show nothing."""

    def ended(self, standing: Standing) -> None:
        """Show nothing."""


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
        """Return the counts as they are now."""
        return Standing(
            models=self.models,
            finished=self.kept + self.finished,
            kept=self.kept,
            failed=self.failed,
            rows=self.rows,
            elapsed_s=time.monotonic() - self.started_s,
        )
