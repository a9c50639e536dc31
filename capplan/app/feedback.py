"""How a use case reports what it is doing: progress and warnings, beside its answer."""

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Feedback(Protocol):
    """Receives progress and warnings while a use case runs; the command line shows them on stderr."""

    def progress(self, label: str) -> AbstractContextManager[None]:
        """Show what is being done for as long as the context is open."""

    def warn(self, message: str) -> None:
        """Report something that the answer itself does not hold."""


class Silence:
    """Feedback that shows nothing."""

    def progress(self, label: str) -> AbstractContextManager[None]:
        """Show nothing."""
        del label
        return nullcontext()

    def warn(self, message: str) -> None:
        """Report nothing."""


SILENCE = Silence()
