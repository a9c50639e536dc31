"""Problems of a spec file: all of them at once, each with file and key."""

from collections.abc import Sequence
from dataclasses import dataclass

from capplan.errors import SpecError


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing to mend in a file; `key` is dotted, empty where the file as a whole is meant."""

    file: str
    key: str
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.file, self.key, self.message) if part)


class SpecFileError(SpecError):
    """A file of specs that was refused whole; its message lists every problem, one per line.

    A problem that several keys have is one line, at the place of the first.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        alike: dict[tuple[str, str], list[Problem]] = {}
        for problem in self.problems:
            alike.setdefault((problem.file, problem.message), []).append(problem)
        super().__init__("\n".join(_line(group) for group in alike.values()))


_MOST_ALIKE = 3
"""Keys with the same problem that each have a line of their own."""


def _line(group: Sequence[Problem]) -> str:
    if len(group) <= _MOST_ALIKE:
        return "\n".join(map(str, group))
    keys = [problem.key for problem in group[1:]]
    return f"{group[0]}; so at {len(keys)} further keys: {', '.join(keys[:_MOST_ALIKE])}, ..."
