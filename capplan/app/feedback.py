"""Report what a use case is doing while it works: progress and warnings."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from capplan.probe.measure.timing import Progress


class Feedback(Protocol):
    """Receives progress and warnings while a use case runs; the command line shows them on stderr."""

    def progress(self, label: str) -> AbstractContextManager[None]:
        """Show what is being done for as long as the context is open."""

    def live(self, label: str) -> "AbstractContextManager[Callable[[Progress], None]]":
        """Return a context with a function that shows the running median of a measurement."""

    def brief(self, words: str) -> AbstractContextManager[None]:
        """Show what is being done for as long as the context is open, and leave nothing behind."""

    def warn(self, message: str) -> None:
        """Report something that the answer itself does not hold."""


class Silence:
    """Feedback that shows nothing."""

    def progress(self, label: str) -> AbstractContextManager[None]:
        """Show nothing."""
        del label
        return nullcontext()

    def live(self, label: str) -> "AbstractContextManager[Callable[[Progress], None]]":
        """Show nothing."""
        del label
        return nullcontext(lambda _: None)

    def brief(self, words: str) -> AbstractContextManager[None]:
        """Show nothing."""
        del words
        return nullcontext()

    def warn(self, message: str) -> None:
        """Report nothing."""


SILENCE = Silence()
