"""Report what a use case is doing while it works: progress and warnings."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from capplan.core.sweep.overview import Failed, Standing
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


class Watcher:
    """Receives the progress of a sweep, and shows nothing."""

    def started(self, standing: "Standing") -> None:
        """Receive that the work is known and begins."""

    def moved(self, standing: "Standing") -> None:
        """Receive that a model is finished."""

    def failed(self, model: str, workload: str, failed: "Failed") -> None:
        """Receive that a model has no answer under a workload."""

    def measured(self, model: str, gpu: str, batch: int) -> None:
        """Receive that a point was timed."""

    def ended(self, standing: "Standing") -> None:
        """Receive that all results are written."""
