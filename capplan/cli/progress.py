"""Show progress on stderr: a line that is rewritten on a terminal, the progress of a sweep, and warnings."""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from capplan.app.feedback import Feedback, Watcher
from capplan.cli.output import warn
from capplan.units import format_seconds

if TYPE_CHECKING:
    from capplan.core.sweep.overview import Failed, Standing
    from capplan.probe.measure.timing import Progress


class Terminal(Feedback):
    """Feedback of a use case, shown on stderr; progress is shown on a terminal only."""

    def progress(self, label: str) -> AbstractContextManager[None]:
        """Show what is being done for as long as the context is open."""
        return progress(label)

    def live(self, label: str) -> "AbstractContextManager[Callable[[Progress], None]]":
        """Show the running median of a measurement."""
        return live_line(label)

    def brief(self, words: str) -> AbstractContextManager[None]:
        """Show what is being done, and leave nothing behind."""
        return live_words(words)

    def warn(self, message: str) -> None:
        """Write a line to stderr."""
        warn(message)


TERMINAL = Terminal()
WORTH_SHOWING_S = 1.0
"""What takes longer than this shows how long, and leaves a line behind. [s]"""


@contextmanager
def progress(label: str) -> Iterator[None]:
    """Show on a terminal's stderr what is being done and for how long already; what took over a second stays there.

    Nothing is written where stderr is not a terminal.
    """
    if not sys.stderr.isatty():
        yield
        return
    started, stopped = time.monotonic(), threading.Event()

    def tick() -> None:
        while not stopped.wait(WORTH_SHOWING_S):
            _rewrite(f"{label} … {time.monotonic() - started:.0f} s")

    ticking = threading.Thread(target=tick, daemon=True)
    _rewrite(f"{label} …")
    ticking.start()
    try:
        yield
    finally:
        stopped.set()
        ticking.join()
        elapsed_s = time.monotonic() - started
        _rewrite(f"{label}: {elapsed_s:.1f} s\n" if elapsed_s > WORTH_SHOWING_S else "")


@contextmanager
def live_line(label: str) -> Iterator["Callable[[Progress], None]"]:
    """Show what is being done and the running median on a terminal's stderr; silent elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return

    def show(progress: "Progress") -> None:
        if progress.is_warm_up:
            _rewrite(f"{label}: warming up, {progress.repetitions} runs, median {format_seconds(progress.median_s)}")
            return
        width = "" if progress.width_fraction is None else f" ± {50 * progress.width_fraction:.2f} %"
        _rewrite(f"{label}: {progress.repetitions} repetitions, median {format_seconds(progress.median_s)}{width}")

    with live_words(f"{label}: building the model"):
        yield show


@contextmanager
def live_words(words: str) -> Iterator[None]:
    """Show what is being done on a terminal's stderr, and remove it afterwards."""
    if not sys.stderr.isatty():
        yield
        return
    _rewrite(words)
    try:
        yield
    finally:
        _rewrite("")


def _rewrite(text: str) -> None:
    sys.stderr.write(f"\r\x1b[2K{text}")
    sys.stderr.flush()


_LINE_EVERY_S = 0.2
_PLAIN_EVERY_S = 10.0


def make_watcher(choice: str) -> Watcher:
    """Return the watcher that shows progress as chosen."""
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

    def started(self, standing: "Standing") -> None:
        """Write what is to be computed."""
        new = standing.models - standing.kept
        warn(f"{new:,} of {standing.models:,} models to compute")

    def moved(self, standing: "Standing") -> None:
        """Show how far the sweep is, not more often than people can read."""
        now = time.monotonic()
        if now - self.shown_s < (_LINE_EVERY_S if self.rewrites else _PLAIN_EVERY_S):
            return
        self.shown_s = now
        self._show(_words(standing))

    def measured(self, model: str, gpu: str, batch: int) -> None:
        """Write which point was timed."""
        self._show(f"measured {model} on {gpu} at batch {batch:,}")

    def ended(self, standing: "Standing") -> None:
        """Remove the line."""
        del standing
        if self.rewrites:
            _rewrite("")

    def _show(self, words: str) -> None:
        if self.rewrites:
            _rewrite(words)
        else:
            warn(words)


def _words(standing: "Standing") -> str:
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

    def started(self, standing: "Standing") -> None:
        """Write what is to be computed."""
        self._write("started", **_plain(standing))

    def moved(self, standing: "Standing") -> None:
        """Write how far the sweep is."""
        self._write("progress", **_plain(standing))

    def failed(self, model: str, workload: str, failed: "Failed") -> None:
        """Write a failure."""
        from capplan.printable import printable_line

        self._write("failed", model=model, workload=workload, kind=failed.kind, reason=printable_line(failed.reason))

    def measured(self, model: str, gpu: str, batch: int) -> None:
        """Write which point was timed."""
        self._write("measured", model=model, gpu=gpu, batch=batch)

    def ended(self, standing: "Standing") -> None:
        """Write the counts at the end."""
        self._write("ended", **_plain(standing))

    def _write(self, event: str, **values: object) -> None:
        sys.stderr.write(json.dumps({"event": event, **values}, ensure_ascii=False) + "\n")
        sys.stderr.flush()


def _plain(standing: "Standing") -> dict[str, object]:
    from capplan.shapes.codec import to_plain
    from capplan.shapes.sweep import STANDING

    document: dict[str, object] = to_plain(STANDING.document(standing))
    return document
