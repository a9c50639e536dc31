"""Show progress on a terminal's stderr: a line that is rewritten, and warnings."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from capplan.app.feedback import Feedback
from capplan.cli.output import warn
from capplan.units import format_seconds

if TYPE_CHECKING:
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

    Nothing is written where stderr is no terminal.
    """
    if not sys.stderr.isatty():
        yield
        return
    started, stopped = time.monotonic(), threading.Event()
    ticking = threading.Thread(target=_tick, args=(label, started, stopped), daemon=True)
    _rewrite(f"{label} …")
    ticking.start()
    try:
        yield
    finally:
        stopped.set()
        ticking.join()
        elapsed_s = time.monotonic() - started
        _rewrite(f"{label}: {elapsed_s:.1f} s\n" if elapsed_s > WORTH_SHOWING_S else "")


def _tick(label: str, started: float, stopped: threading.Event) -> None:
    """Rewrite the line every second with the time that has passed."""
    while not stopped.wait(WORTH_SHOWING_S):
        _rewrite(f"{label} … {time.monotonic() - started:.0f} s")


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

    _rewrite(f"{label}: building the model")
    try:
        yield show
    finally:
        _rewrite("")


@contextmanager
def live_words(words: str) -> Iterator[None]:
    """Show what is being done on a terminal's stderr, and take it away afterwards."""
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
