"""What a terminal shows on stderr while something is worked out: a line that is rewritten, and warnings."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from capplan.cli.output import warn
from capplan.units import format_seconds

if TYPE_CHECKING:
    from capplan.probe.measure.timing import Progress


class Terminal:
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


@contextmanager
def progress(label: str) -> Iterator[None]:
    """Show on a terminal's stderr what is being done, and how long it took; silent elsewhere."""
    if not sys.stderr.isatty():
        yield
        return
    started = time.monotonic()
    sys.stderr.write(f"\r{label} …")
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write("\r\x1b[2K")
        if (elapsed_s := time.monotonic() - started) > 1:
            sys.stderr.write(f"{label}: {elapsed_s:.1f} s\n")
        sys.stderr.flush()


@contextmanager
def live_line(label: str) -> Iterator["Callable[[Progress], None]"]:
    """Show the running median on a terminal's stderr, rewritten between rounds; silent elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return

    def show(progress: "Progress") -> None:
        width = "" if progress.width_fraction is None else f" ± {50 * progress.width_fraction:.2f} %"
        _rewrite(f"{label}: {progress.repetitions} repetitions, median {format_seconds(progress.median_s)}{width}")

    _rewrite(f"{label}: warming up")
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
