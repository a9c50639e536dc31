"""What reading one file of unknown origin may take, counted in one place: bytes, steps, operators and seconds.

A file of a few hundred bytes can ask for gigabytes or hours: lists that hold one list many times, loops, constants that
double. Every reader that interprets a file has one `Budget` for it, and takes from it before it works.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from capplan.errors import UsageError

_SECONDS_CHECKED_EVERY = 2**15
"""Steps between two looks at the clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLimits:
    """The most that one file may take.

    `size_bytes` is the memory of values made on the host; large tensors of a model have none. A statement, a call or an
    opcode is ten `steps`, an item that is compared, copied or shown is one. `nodes` are operators of one pass.
    `cpu_s` ends what no other limit met.
    """

    size_bytes: int = 96 * 2**20
    steps: int = 1_500_000
    nodes: int = 100_000
    cpu_s: float = 120.0


LIMITS = FileLimits()
"""The limits of every file. docs/reference/files.md and SECURITY.md state them."""

STATEMENT_STEPS = 10
"""Steps of a statement, a call or an opcode of a file; a step takes some tenths of a microsecond."""

ITEM_BYTES = 8
"""Bytes of a place in a list. [bytes]"""

NUMBER_BYTES = 40
"""Bytes of a number of its own and its place in a list. [bytes]"""


class BudgetError(UsageError):
    """A file asks for more bytes, steps, operators or seconds than one file may take."""


class Budget:
    """Counts what one file takes.

    Args:
        where: the file, for messages.
        limits: the most it may take.
    """

    __slots__ = ("_began_s", "_bytes_left", "_limits", "_next_look", "_nodes_left", "_steps_left", "where")

    def __init__(self, where: str, limits: FileLimits = LIMITS) -> None:
        self.where = where
        self._limits = limits
        self._bytes_left = limits.size_bytes
        self._steps_left = limits.steps
        self._nodes_left = limits.nodes
        self._next_look = limits.steps - _SECONDS_CHECKED_EVERY
        self._began_s = time.process_time()

    def take_bytes(self, size_bytes: int) -> None:
        """Charge memory before it is allocated; what is freed later is not credited. [bytes]"""
        self._bytes_left -= size_bytes
        if self._bytes_left < 0:
            raise BudgetError(
                f"{self.where} asks for more than {self._limits.size_bytes // 2**20} MiB of values on the host, the "
                "most that one file may take."
            )

    def take_steps(self, count: int) -> None:
        """Charge steps before they are done."""
        self._steps_left -= count
        if self._steps_left < 0:
            raise BudgetError(
                f"{self.where} runs longer than {self._limits.steps:,} steps, the most that one file may take (a "
                f"statement is {STATEMENT_STEPS})."
            )
        if self._steps_left < self._next_look:
            self._next_look = self._steps_left - _SECONDS_CHECKED_EVERY
            self._check_seconds()

    def take_nodes(self, count: int) -> None:
        """Charge operators before they run."""
        self._nodes_left -= count
        if self._nodes_left < 0:
            raise BudgetError(
                f"{self.where} comes to more than {self._limits.nodes:,} operators, the most that are run of one file."
            )
        if self._nodes_left % 64 == 0:
            self._check_seconds()

    def foresee_steps(self, count: int) -> None:
        """Refuse what is certain to take too many steps, before the first of them."""
        if count > self._steps_left:
            self.take_steps(count)

    @property
    def nodes_left(self) -> int:
        """Operators that may still run."""
        return self._nodes_left

    def foresee_nodes(self, count: int) -> None:
        """Refuse what is certain to run too many operators, before the first of them."""
        if count > self._nodes_left:
            self.take_nodes(count)

    def _check_seconds(self) -> None:
        if time.process_time() - self._began_s > self._limits.cpu_s:
            raise BudgetError(f"{self.where} takes longer than {self._limits.cpu_s:g} s of processor time.")

    def weigh(self, *values: Any) -> None:
        """Charge a step for each item within values, as often as comparing, hashing or showing them would meet it.

        A list that stands within another one twice is met twice: 40 lists of two may be 2^40 items.
        """
        open_values = list(values)
        met = 0
        while open_values:
            value = open_values.pop()
            met += 1
            if isinstance(value, list | tuple):
                open_values.extend(value)
            elif isinstance(value, Mapping):
                open_values.extend(value.keys())
                open_values.extend(value.values())
            elif isinstance(value, str | bytes):
                met += len(value) // 64
            if met >= 4096 or len(open_values) > 4096:
                self.take_steps(met)
                self.foresee_steps(len(open_values))
                met = 0
        self.take_steps(met)
