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
    """A file of specs that was refused whole; its message lists every problem, one per line."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))
