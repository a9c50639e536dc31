"""Report what a use case is doing while it works: progress and warnings."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from capplan.probe.measure.timing import Progress


class Feedback:
    """Receives progress and warnings while a use case runs, and shows none; the command line shows them on stderr."""

    def progress(self, label: str) -> AbstractContextManager[None]:
        """Show what is being done for as long as the context is open."""
        del label
        return nullcontext()

    def live(self, label: str) -> "AbstractContextManager[Callable[[Progress], None]]":
        """Return a context with a function that shows the running median of a measurement."""
        del label
        return nullcontext(lambda _: None)

    def brief(self, words: str) -> AbstractContextManager[None]:
        """Show what is being done for as long as the context is open, and leave nothing behind."""
        del words
        return nullcontext()

    def warn(self, message: str) -> None:
        """Report something that the answer itself does not hold."""


SILENCE = Feedback()
