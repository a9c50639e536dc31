"""FLOPs of operators that capplan does not know, given by whoever wrote them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from capplan.core.trace import Attribute


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCall:
    """One call in concrete numbers: shapes of its tensors in argument order, scalar arguments by name."""

    inputs: Sequence[tuple[int, ...]]
    outputs: Sequence[tuple[int, ...]]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)


Formula: TypeAlias = Callable[[OperatorCall], int]
"""Counts the FLOPs of a call, two per multiply-accumulate. [FLOP]"""

Formulas: TypeAlias = Mapping[str, Formula]
"""Formulas by operator, as torch spells it: `my::op`."""


def find_formula(formulas: Formulas, kernel_name: str) -> Formula | None:
    """Find the formula of a kernel by its name in a trace (`my.op` for `my::op`)."""
    return formulas.get(kernel_name.replace(".", "::", 1)) if formulas else None
