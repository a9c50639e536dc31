"""Read tables of measured runs, of whatever kind: one run a row, and the rows that cannot be read."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from capplan.errors import CapplanError
from capplan.llm.core.measured import SkippedRun
from capplan.tables import UnreadableRowError, read_rows

Run = TypeVar("Run")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFile(Generic[Run]):
    """The runs of a file, and the rows that could not be read or are not of a kind that is predicted."""

    runs: tuple[Run, ...]
    skipped: tuple[SkippedRun, ...]


def read_runs(
    path: Path, parse: Callable[[Mapping[str, str], int], Run], *, required: Collection[str], what: str
) -> RunFile[Run]:
    """Read the runs of a CSV file.

    Args:
        path: The file, plain or gzip-compressed.
        parse: Reads a run from text by column and the line; it raises a ValueError or CapplanError that says why not.
        required: Columns that the header must have.
        what: What the table holds, for refusals.

    Raises:
        UsageError: The file cannot be read or lacks a column.
    """
    runs: list[Run] = []
    skipped: list[SkippedRun] = []
    for line, cells in enumerate(read_rows(path, required=required, what=what), start=2):
        row = {name: cell.strip() for name, cell in cells.items()}
        try:
            runs.append(parse(row, line))
        except (ValueError, CapplanError) as error:
            model, gpu = row.get("model", ""), row.get("gpu", "")
            skipped.append(SkippedRun(file=path.name, line=line, model=model, gpu=gpu, reason=str(error)))
    return RunFile(runs=tuple(runs), skipped=tuple(skipped))


def number(row: Mapping[str, str], name: str, *, unlimited: Collection[str] = ()) -> float | None:
    """Read a quantity; None where it is empty or one of the words for no limit.

    Raises:
        UnreadableRowError: It is not a number, negative or infinite.
    """
    text = row.get(name, "")
    if not text or text.lower() in unlimited:
        return None
    try:
        value = float(text)
    except ValueError:
        raise UnreadableRowError(f"{name} is {text!r}, which is not a number") from None
    if not 0 <= value < float("inf"):
        raise UnreadableRowError(f"{name} is {text}, which is not a quantity")
    return value
