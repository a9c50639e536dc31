"""The batch sizes that a question asks for: a list, the recommended one, the largest that fits."""

from dataclasses import dataclass
from enum import StrEnum

from capplan.errors import UsageError

LARGEST_BATCH = 2**40
"""No batch above this is asked for or searched; sizes in bytes stay exact integers."""

_MOST_DIGITS = 30


class BatchChoice(StrEnum):
    """How the batch is chosen."""

    LISTED = "listed"
    AUTO = "auto"
    MAX = "max"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """Batch sizes asked for; `sizes` is empty unless they are listed."""

    choice: BatchChoice
    sizes: tuple[int, ...] = ()


def parse_batches(text: str, *, what: str = "--batch") -> Batches:
    """Read "8", "1,8,32", "1..1024" (powers of two), "auto" or "max".

    Args:
        text: the words.
        what: what errors call the field.

    Raises:
        UsageError: none of these, or a batch below 1.
    """
    word = text.strip().lower()
    if word in (BatchChoice.AUTO, BatchChoice.MAX):
        return Batches(choice=BatchChoice(word))
    sizes = [size for piece in word.split(",") for size in _piece_sizes(piece.strip(), f"{what} {text!r}")]
    return Batches(choice=BatchChoice.LISTED, sizes=tuple(dict.fromkeys(sizes)))


def _piece_sizes(piece: str, where: str) -> list[int]:
    first, dots, last = piece.partition("..")
    low, high = _size(first, where), _size(last, where) if dots else None
    if high is None:
        return [low]
    if high < low:
        raise UsageError(f"{where}: {low}..{high} falls; write the smaller batch first.")
    doubled = [low]
    while doubled[-1] * 2 <= high:
        doubled.append(doubled[-1] * 2)
    return doubled if doubled[-1] == high else [*doubled, high]


def _size(digits: str, where: str) -> int:
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > _MOST_DIGITS:
        digits = digits if len(digits) <= _MOST_DIGITS else f"{digits[:_MOST_DIGITS]}..."
        raise UsageError(f"{where}: {digits!r} is not a batch; write 8, 1,8,32, 1..1024, auto or max.")
    size = int(digits)
    if not 1 <= size <= LARGEST_BATCH:
        raise UsageError(f"{where}: a batch lies between 1 and 2^40, not {size}.")
    return size
