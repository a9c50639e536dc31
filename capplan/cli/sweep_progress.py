"""The progress of a sweep on stderr: a line that is rewritten for people, JSON lines for programs."""

import json
import sys
import time
from dataclasses import dataclass

from capplan.app.sweep.progress import Watcher
from capplan.cli.output import warn
from capplan.core.sweep.overview import Failed, Standing
from capplan.printable import printable_line
from capplan.report.documents.codec import to_plain
from capplan.report.documents.sweep import standing_document
from capplan.units import format_seconds

_LINE_EVERY_S = 0.2
_PLAIN_EVERY_S = 10.0


def make_watcher(choice: str) -> Watcher:
    """Return the watcher that shows progress as chosen.

    Args:
        choice: none; json, for lines that programs read; text or auto, for a line that is rewritten on a terminal and a
            line now and then elsewhere.
    """
    if choice == "none":
        return Watcher()
    if choice == "json":
        return JsonLines()
    return TextLine(rewrites=sys.stderr.isatty())


@dataclass(slots=True, kw_only=True)
class TextLine(Watcher):
    """Shows rate, remaining time and failures so far."""

    rewrites: bool
    shown_s: float = 0.0

    def started(self, standing: Standing) -> None:
        """Write what is to be computed."""
        new = standing.models - standing.kept
        warn(f"{new:,} of {standing.models:,} models to compute")

    def moved(self, standing: Standing) -> None:
        """Show how far the sweep is, not more often than people can read."""
        now = time.monotonic()
        if now - self.shown_s < (_LINE_EVERY_S if self.rewrites else _PLAIN_EVERY_S):
            return
        self.shown_s = now
        if self.rewrites:
            sys.stderr.write(f"\r\x1b[2K{_words(standing)}")
            sys.stderr.flush()
        else:
            warn(_words(standing))

    def failed(self, model: str, workload: str, failed: Failed) -> None:
        """Leave failures to the overview at the end."""
        del model, workload, failed

    def measured(self, model: str, gpu: str, batch: int) -> None:
        """Write which point was timed."""
        words = f"measured {model} on {gpu} at batch {batch:,}"
        if self.rewrites:
            sys.stderr.write(f"\r\x1b[2K{words}")
            sys.stderr.flush()
        else:
            warn(words)

    def ended(self, standing: Standing) -> None:
        """Remove the line."""
        del standing
        if self.rewrites:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()


def _words(standing: Standing) -> str:
    parts = [f"{standing.finished:,}/{standing.models:,} models"]
    if standing.rows_per_s:
        parts.append(f"{standing.rows_per_s:,.0f} rows/s")
    if standing.remaining_s:
        parts.append(f"{format_seconds(standing.remaining_s)} left")
    if standing.failed:
        parts.append(f"{standing.failed:,} failed")
    return ", ".join(parts)


class JsonLines(Watcher):
    """Writes one JSON document a line: `started`, `progress`, `failed` and `ended`."""

    def started(self, standing: Standing) -> None:
        """Write what is to be computed."""
        self._write({"event": "started", **to_plain(standing_document(standing))})

    def moved(self, standing: Standing) -> None:
        """Write how far the sweep is."""
        self._write({"event": "progress", **to_plain(standing_document(standing))})

    def failed(self, model: str, workload: str, failed: Failed) -> None:
        """Write a failure."""
        reason = printable_line(failed.reason)
        self._write({"event": "failed", "model": model, "workload": workload, "kind": failed.kind, "reason": reason})

    def measured(self, model: str, gpu: str, batch: int) -> None:
        """Write which point was timed."""
        self._write({"event": "measured", "model": model, "gpu": gpu, "batch": batch})

    def ended(self, standing: Standing) -> None:
        """Write the counts at the end."""
        self._write({"event": "ended", **to_plain(standing_document(standing))})

    def _write(self, event: dict[str, object]) -> None:
        sys.stderr.write(json.dumps(event, ensure_ascii=False) + "\n")
        sys.stderr.flush()
