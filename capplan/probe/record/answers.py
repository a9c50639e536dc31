"""What a model asked of its data: the answers of a run on the CPU, and assumptions that end a loop.

Branches, loop counts and sizes hang on numbers that a model reads out of tensors (`.item()`, `if x.any()`, durations).
A run with random inputs and weights answers them; a pass on the meta device then takes these answers instead of assumed
ones. They are kept by operator and line, in the order in which the line asked.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from capplan.errors import TraceError
from capplan.probe.foreign.code import calling_line
from capplan.probe.record.assumed_values import ASKING

ANSWERED = ASKING | {"torch.cond taken as true", "while_loop taken once"}
"""What is assumed in the place of such an answer, by the name under which it is counted."""

Question = tuple[str, str | None]


@dataclass(slots=True)
class RecordedAnswers:
    """The answers of one run, by operator and line; copied, so that nothing changes them later."""

    given: dict[Question, list[Any]] = field(default_factory=dict)

    def hear(self, name: str, answer: Any) -> None:
        """Note what an operator returned to the line that runs now."""
        self.given.setdefault((name, calling_line()), []).append(_kept(answer))


def _kept(answer: Any) -> Any:
    if isinstance(answer, Tensor):
        return answer.detach().clone()
    return tuple(map(_kept, answer)) if isinstance(answer, list | tuple) else answer


class Replay:
    """Gives the answers of a run again, in order."""

    def __init__(self, answers: RecordedAnswers) -> None:
        self._answers: Mapping[Question, list[Any]] = answers.given
        self._next: dict[Question, int] = {}
        self.lines: dict[str, int] = {}

    def take(self, name: str) -> Any:
        """Return the next answer to this operator at the line that runs now; None where the run gave no more."""
        line = calling_line()
        key = (name, line)
        answers = self._answers.get(key)
        index = self._next.get(key, 0)
        if answers is None or index >= len(answers):
            return None
        self._next[key] = index + 1
        self.lines[line or "the model"] = self.lines.get(line or "the model", 0) + 1
        return answers[index]

    def skip(self, name: str) -> None:
        """Pass over an answer that is known without the run."""
        key = (name, calling_line())
        self._next[key] = self._next.get(key, 0) + 1


LIKE_ANSWERS = 1024
"""Assumptions alike at one line after which the next one differs: a loop asks there whether it may end."""

FEWEST_LIKE_ANSWERS = 64
"""The same once a pass has run `MANY_OPERATORS`: loops of large models are not run a thousand times."""

MANY_OPERATORS = 20_000

_AFTER = 16
"""Further assumptions after each change before another is tried."""

_TRUTHS = (True, False)
_INTEGERS = (0, 2**16, -1)
_FLOATS = (1e6, 0.0, -1e6)


MOST_ANSWERS = 5_000
"""Assumptions at one line after which a pass is given up: none of those that were tried ended the loop."""


class Patience:
    """Change an assumption that was made at one line again and again, so that loops which wait for another one end."""

    def __init__(self) -> None:
        self._counts: dict[str | None, int] = {}
        self.turned: dict[str, int] = {}

    def choose(self, assumed: bool | int | float, *, operators: int) -> bool | int | float:
        """Return what to assume at the line that runs now: `assumed`, or after many times something else."""
        line = calling_line()
        count = self._counts[line] = self._counts.get(line, 0) + 1
        if count > MOST_ANSWERS:
            raise TraceError(
                f"the model's forward asked for its data {MOST_ANSWERS:,} times at {line or 'one line'}, and no answer "
                "that was assumed ended the loop: bound it."
            )
        most = FEWEST_LIKE_ANSWERS if operators > MANY_OPERATORS else LIKE_ANSWERS
        if count <= most or (count - most) % _AFTER != 1:
            return assumed
        candidates: tuple[bool | int | float, ...] = _FLOATS
        if isinstance(assumed, int):
            candidates = _TRUTHS if isinstance(assumed, bool) else _INTEGERS
        others = [value for value in candidates if value != assumed]
        self.turned[line or "the model"] = count - 1
        return others[(count - most) // _AFTER % len(others)]

    def notes(self) -> tuple[str, ...]:
        """Return a note for each line where an assumption was changed, with how many came before."""
        return tuple(
            f"a loop that ends by its data was taken to end after {count:,} times at {line}: other data may take more "
            "or less"
            for line, count in self.turned.items()
        )


_ABSORBING = {
    "aten.bitwise_or": True,
    "aten.logical_or": True,
    "aten.__or__": True,
    "aten.bitwise_and": False,
    "aten.logical_and": False,
    "aten.__and__": False,
}


def absorbing(name: str, args: tuple[Any, ...], knows: Any) -> bool | None:
    """Return what all of a logical result is, whatever its other operand: `unknown or True`, `unknown and False`.

    Returns:
        The value, or None where the unknown operand decides.
    """
    whole = _ABSORBING.get(name)
    if whole is None:
        return None
    shape = torch.broadcast_shapes(*(value.shape for value in args if isinstance(value, Tensor)))  # type: ignore[no-untyped-call]  # torch leaves it untyped
    for value in args:
        if not isinstance(value, Tensor):
            if type(value) is bool and value is whole:
                return whole
            continue
        decides = value.dtype is torch.bool or whole is False
        if decides and value.numel() and (not value.is_meta or knows(value)):
            real = getattr(value, "_known_value", value)
            repeats = torch.Size(shape).numel() >= value.numel()
            if repeats and bool((real.bool() == whole).all()):
                return whole
    return None
