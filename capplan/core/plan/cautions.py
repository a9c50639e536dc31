"""Word what makes a plan's figures uncertain for one model."""

from capplan.core.ops.flops import uncounted
from capplan.core.trace.types import AssumedValue, Recording
from capplan.units import format_fraction

_BRANCHES = frozenset({"aten._local_scalar_dense", "aten.is_nonzero", "aten.equal", "aten.item"})
_KEPT_ROWS = frozenset(
    {"aten.nonzero", "aten.index", "aten.masked_select", "torchvision.nms", "aten.repeat_interleave"}
)
_DISTINCT = frozenset({"aten._unique2", "aten.unique", "aten.unique_dim", "aten.unique_consecutive", "aten.bincount"})


def cautions(recording: Recording) -> tuple[str, ...]:
    """Return a sentence for each kind of value that was assumed, and for operators that could not be counted."""
    found = [_of_assumed_value(assumed) for assumed in recording.assumed_values]
    if unknown := uncounted(recording):
        found.append(
            f"the FLOPs of {', '.join(unknown)} are unknown, so only the bytes that it moves are timed; "
            "register a formula with capplan.trace(formulas=...)"
        )
    return tuple(found)


def _of_assumed_value(assumed: AssumedValue) -> str:
    times = f"{assumed.count} time{'' if assumed.count == 1 else 's'}"
    name = assumed.what.split(".default")[0]
    if name in _BRANCHES:
        return f"the data decides a branch or a size ({name}, {times}); the way that made-up input takes was traced"
    if name in _KEPT_ROWS:
        kept = "all" if assumed.share is None else f"--selected-share {format_fraction(assumed.share)}"
        return f"the data decides how many rows are kept ({name}, {times}); {kept} of them are taken as kept"
    if name in _DISTINCT:
        return f"the data decides how many distinct values there are ({name}, {times}); one is assumed"
    return f"the result of {name} depends on the data ({times}); an assumed one was traced"
