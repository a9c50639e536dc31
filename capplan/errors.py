"""The error tree: every failure that a user can cause, each with its exit code.

`cli` prints the message alone and exits with the class's code. Any other exception is a bug and
keeps its traceback.
"""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar


class CapplanError(Exception):
    """An expected failure, worded for the one who must mend it."""

    exit_code: ClassVar[int] = 2


class UsageError(CapplanError):
    """Bad arguments or input: unknown names, malformed values, contradictory options.

    The message marks the keys of fields, as in "⟨max-latency⟩ must be above 0"; each door words them (see `wording`).
    """


class UnknownNameError(UsageError):
    """A name that is not known; the message gives the nearest ones.

    Args:
        kind: what is named.
        name: the name as it was given.
        known: names that would do, among which the nearest are found.
        hint: a sentence that follows.
        nearest: the nearest names, where the caller has found them already.
    """

    def __init__(
        self, kind: str, name: str, known: Iterable[str] = (), *, hint: str = "", nearest: Sequence[str] | None = None
    ) -> None:
        nearest = nearest_names(name, known) if nearest is None else nearest
        meant = f"; did you mean {', '.join(nearest)}?" if nearest else "."
        self.kind, self.name, self.nearest = kind, name, tuple(nearest)
        self.sentence = f"unknown {kind} {name!r}{meant}"
        super().__init__(f"{self.sentence}{' ' + hint if hint else ''}")


class SpecError(UsageError):
    """A YAML file of GPU specs, prices or calibrations that does not hold what it must."""


class TraceFileError(UsageError):
    """A trace file that is truncated, newer than this program, or no trace file at all."""


class MeasurementFileError(UsageError):
    """A measurement file that is damaged, newer than this program, or in use by another run."""


class MissingRecordingError(UsageError):
    """A trace lacks the numeric variant, mode or layout that a question needs."""


class TraceError(CapplanError):
    """The model was found but could not be traced."""

    exit_code = 3


class MeasurementError(CapplanError):
    """The device at hand could not run what was to be measured."""

    exit_code = 4


def chained(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those that led to it, each once: causes and contexts can form a circle.

    Args:
        error: the last error of the chain.
    """
    met: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        raised = pending.pop()
        if raised is None or id(raised) in met:
            continue
        met.add(id(raised))
        yield raised
        pending += [raised.__cause__, raised.__context__]


LONGEST_NAME = 200
"""Characters up to which a name is compared: the time grows with their square."""


def nearest_names(name: str, known: Iterable[str]) -> list[str]:
    """Name at most three known words closest to a misspelt one, best first; none for what is much longer than any."""
    if len(name) > LONGEST_NAME:
        return []
    by_folded = {word.lower(): word for word in known}
    folded = name.lower()
    alike = [word for word in by_folded if word.translate(_CONFUSED) == folded.translate(_CONFUSED)]
    close = difflib.get_close_matches(folded, by_folded, n=_MOST_NEAREST, cutoff=0.6)
    containing = [word for word in sorted(by_folded, key=len) if folded and folded in word]
    return [by_folded[word] for word in dict.fromkeys([*alike, *close, *containing])][:_MOST_NEAREST]


_MOST_NEAREST = 3


_CONFUSED = str.maketrans("o1|", "0ll")
"""Characters that are taken for one another: o and 0, 1 and l."""
