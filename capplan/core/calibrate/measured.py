"""Types of measured steps, by which predictions are judged and to which calibrations are fitted."""

import shlex
from dataclasses import dataclass, field
from enum import StrEnum

from capplan.core.named_code import names_code
from capplan.core.workload import Workload


class Switch(StrEnum):
    """State of one of timm's switches when a model was measured; unknown where the cell is empty."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


CPU_AT_HAND = "cpu-at-hand"
"""The id of the CPU at hand, where the database does not know it or has more cores than PyTorch uses."""

CELL_KEYS = ("gpu", "framework", "torch", "precision", "layout", "task")
"""What makes a cell of a validation, unless other columns are named."""


def split_words(words: str) -> tuple[str, tuple[str, ...]]:
    """Split the words of a measurement into the model's name and its options, such as `--seq-len 128`."""
    try:
        name, *options = shlex.split(words)
    except ValueError:  # a quotation without end, or nothing
        return words, ()
    return (name, tuple(options)) if options and options[0].startswith("--") else (words, ())


_CODE_OPTIONS = ("--inputs-from", "--prepare")


def runs_code(words: str) -> bool:
    """Return True if looking a model up by the words of a measurement would import code that they choose."""
    model, options = split_words(words)
    return any(option.partition("=")[0] in _CODE_OPTIONS for option in options) or names_code(model)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStep:
    """One row of measurements: a model, where and how it ran, and how long a step took. [s]

    `input_size` is (3, 224, 224) for images or (128,) for a sequence; empty where the model's own is meant.
    `line` is the row's number in its `file`, from 1, headings apart. `arguments` are KEY=VALUE for the model's
    constructor or config. `includes_copy` says that the timer also held the copy of the inputs from the host.
    Each GPU of the workload took a `batch`. `power_w` is one GPU's mean draw. [W]
    """

    line: int
    model: str
    gpu: str
    workload: Workload
    batch: int
    latency_s: float
    input_size: tuple[int, ...] = ()
    arguments: tuple[str, ...] = ()
    includes_copy: bool = False
    reparameterized: Switch = Switch.UNKNOWN
    fast_norm: Switch = Switch.UNKNOWN
    peak_allocated_bytes: int | None = None
    power_w: float | None = None
    file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedRow:
    """A row that cannot be predicted, and why."""

    line: int
    reason: str
    file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredFile:
    """The content of one file of measurements: steps, the rows that are not steps, and columns that were not read."""

    name: str
    steps: tuple[MeasuredStep, ...]
    skipped: tuple[SkippedRow, ...] = field(default=())
    unread_columns: tuple[str, ...] = ()
