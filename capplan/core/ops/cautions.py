"""Word what makes the figures of one model uncertain: values that were assumed, operators that are not counted."""

from collections.abc import Sequence

from capplan.core.ops.flops import kernel_macs, uncounted
from capplan.core.trace.types import AssumedValue, Recording
from capplan.units import counted, format_fraction

_BRANCHES = frozenset({"aten._local_scalar_dense", "aten.is_nonzero", "aten.equal", "aten.item"})
_KEPT_ROWS = frozenset(
    {"aten.nonzero", "aten.index", "aten.masked_select", "torchvision.nms", "aten.repeat_interleave"}
)
_DISTINCT = frozenset({"aten._unique2", "aten.unique", "aten.unique_dim", "aten.unique_consecutive", "aten.bincount"})
_MOST_LINES = 3


def cautions(recording: Recording) -> tuple[str, ...]:
    """Return what was assumed, first as a whole and then by kind of value, and which operators could not be counted."""
    found = [_of_assumed_value(assumed) for assumed in recording.assumed_values]
    if whole := assumed_sizes(recording):
        found.insert(0, whole)
    if unknown := uncounted(recording):
        found.append(
            f"the FLOPs of {', '.join(unknown)} are unknown, so only the bytes that it moves are timed; "
            "register a formula with capplan.trace(formulas=...)"
        )
    return tuple(found)


def assumed_sizes(recording: Recording) -> str | None:
    """Return a sentence that names where sizes were assumed and how much of the work may hang on them; None if nowhere.

    The share is that of the multiply-accumulates which run after the first assumed value, because those before it
    cannot hang on it. It says how much of the count may be wrong, not by how much.
    """
    assumed = recording.assumed_values
    if not assumed:
        return None
    lines = list(dict.fromkeys(line for value in assumed for line in value.lines))
    count = sum(value.count for value in assumed)
    where = (
        f"at {_listed(lines, most=1)}"
        if lines
        else f"for {count} value{'' if count == 1 else 's'} that the data decides"
    )
    shares = [value.share for value in assumed if value.share is not None]
    kept = f", {format_fraction(min(shares))} of candidates (--selected-share) as kept" if shares else ""
    after = _share_after(recording)
    share = ""
    if after is not None:
        hanging = f"{format_fraction(after)} of the MACs counted come after it and may be more or fewer"
        share = f": {hanging if after else 'no MACs counted come after it'}"
    return f"sizes and branches assumed {where} (data unknown){kept}{share}"


def _share_after(recording: Recording) -> float | None:
    """Return the share of MACs from the first assumed value on; None where that is not known, or there are none."""
    first_ops = [value.first_op for value in recording.assumed_values]
    if None in first_ops:
        return None
    batch = recording.exact_batch or recording.batches[0]
    macs = [kernel_macs(kernel, batch) for kernel in recording.kernels]
    steady = recording.steady_ops()
    skipped = max(0, min(op for op in first_ops if op is not None) - (len(recording.ops) - len(steady)))
    total = sum(macs[op.kernel] for op in steady)
    return sum(macs[op.kernel] for op in steady[skipped:]) / total if total else None


def _listed(lines: Sequence[str], *, most: int = _MOST_LINES) -> str:
    more = f" and {counted(len(lines) - most, 'more line')}" if len(lines) > most else ""
    return f"{', '.join(lines[:most])}{more}"


def _of_assumed_value(assumed: AssumedValue) -> str:
    times = f"{assumed.count} time{'' if assumed.count == 1 else 's'}"
    name = assumed.what.split(".default")[0]
    where = f"{name} at {_listed(assumed.lines)}" if assumed.lines else name
    if name in _BRANCHES:
        return f"the data decides a branch or a size ({where}, {times}); the way that made-up input takes was traced"
    if name in _KEPT_ROWS:
        kept = "all" if assumed.share is None else f"--selected-share {format_fraction(assumed.share)}"
        return f"the data decides how many rows are kept ({where}, {times}); {kept} of them are taken as kept"
    if name in _DISTINCT:
        return f"the data decides how many distinct values there are ({where}, {times}); one is assumed"
    return f"the result of {where} depends on the data ({times}); an assumed one was traced"
