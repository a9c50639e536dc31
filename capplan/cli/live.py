"""A line on the terminal that is rewritten while something is measured."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from capplan.units import format_seconds

if TYPE_CHECKING:
    from capplan.probe.measure.timing import Progress


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
