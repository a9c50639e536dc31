"""Find the rounds of loops over what the data selects: how many run is as unknown as what is selected."""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from capplan.core.numbers import IntArray
from capplan.core.trace.types import Kernel, Op, Recording
from capplan.units import format_seconds

SELECTING = frozenset({"aten.nonzero", "aten.index", "aten.masked_select", "torchvision.nms", "aten.repeat_interleave"})
"""Operators whose outputs are as long as the data decides."""

_LEAST_ROUNDS = 8
"""Fewer are written out by a model's author (levels of a pyramid, stages), and weigh little."""
_LONGEST_ROUND = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedLoops:
    """The ops of all rounds of such loops, the rounds traced, and how many times as many there can be.

    `most_fraction` is 1 where the model itself cuts what was selected (`keep[:100]`), so that the traced rounds are the
    most; else all candidates may stay.
    """

    ops: tuple[Op, ...]
    rounds: int
    most_fraction: float


def selected_loops(recording: Recording) -> SelectedLoops | None:
    """Find the loops of one inference whose rounds the data decides; None where there are none, and of training.

    They come after the first selection, and repeat the same kernels without a break. Rounds that read weights of their
    own are layers, and rounds that select anew loop over something else (classes, levels).
    """
    shares = [value.share for value in recording.assumed_values if value.share is not None]
    if not shares or recording.phases:
        return None
    ops = recording.steady_ops()
    selecting = {index for index, kernel in enumerate(recording.kernels) if _is_selecting(kernel)}
    after = ops[next((index for index, op in enumerate(ops) if op.kernel in selecting), len(ops)) :]
    found = [run for run in _runs(np.array([op.kernel for op in after])) if _is_loop(recording, after, run, selecting)]
    if not found:
        return None
    batch = recording.exact_batch or recording.batches[0]
    kernels = [recording.kernels[index] for index in selecting]
    counts = frozenset(out.shape_at(batch)[0] for kernel in kernels for out in kernel.outputs if out.shape_at(batch))
    is_cut = all(len(run) not in counts for run in found)
    return SelectedLoops(
        ops=tuple(op for run in found for op in after[run.start : run.stop]),
        rounds=sum(map(len, found)),
        most_fraction=1.0 if is_cut else 1 / min(shares),
    )


def loops_note(loops: SelectedLoops, *, with_s: float, without_s: float) -> str:
    """Return a sentence that says what the rounds take, and how far the interval of time goes for them."""
    rest = (
        "the most that the model takes (often an ⟨arg⟩ of its)"
        if loops.most_fraction == 1
        else "as ⟨selected-share⟩ has it"
    )
    upper = "" if loops.most_fraction == 1 else f" to {loops.most_fraction:g} times as many"
    return (
        f"the data decides how many rounds of a loop run: {loops.rounds} are timed, {rest}, and take "
        f"{format_seconds(max(0.0, with_s - without_s))}; the interval reaches from none of them{upper}"
    )


def _is_selecting(kernel: Kernel) -> bool:
    """Return True if the data decides how long a kernel's outputs are; indexing does so by masks, not by positions."""
    if kernel.name.partition(".default")[0] not in SELECTING:
        return False
    return kernel.name != "aten.index" or any(tensor.dtype in ("bool", "uint8") for tensor in kernel.inputs[1:])


def _runs(kernels: IntArray) -> list[range]:
    """List the longest stretches that repeat themselves, as the places where their rounds begin.

    They are apart from one another; of equal ones that of the shortest round is taken.
    """
    candidates: list[range] = []
    for period in range(1, min(_LONGEST_ROUND, len(kernels) // _LEAST_ROUNDS) + 1):
        start = 0
        for is_same, group in groupby((kernels[:-period] == kernels[period:]).tolist()):
            length = sum(1 for _ in group)
            rounds = length // period + 1
            if is_same and rounds >= _LEAST_ROUNDS:
                candidates.append(range(start, start + rounds * period, period))
            start += length
    candidates.sort(key=lambda run: (run.start - run.stop, run.step))
    taken = np.zeros(len(kernels), dtype=bool)
    found = []
    for run in candidates:
        if not taken[run.start : run.stop].any():
            taken[run.start : run.stop] = True
            found.append(run)
    return found


def _is_loop(recording: Recording, ops: Sequence[Op], run: range, selecting: Set[int]) -> bool:
    """Return True if the rounds of a run are those of one loop over data: no weights of their own, no selection."""
    rounds = [ops[start : start + run.step] for start in run]
    if any(op.kernel in selecting for op in rounds[0]):
        return False
    return len({_weights(recording, part) for part in rounds}) == 1


def _weights(recording: Recording, ops: Iterable[Op]) -> frozenset[int | None]:
    return frozenset(recording.storages[index].parameter for op in ops for index in op.reads) - {None}
