"""Locate a model's parameters, FLOPs and bytes by operator and module, and word what makes them uncertain."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from capplan.core.ops.flops import counted_bytes_fraction, kernel_flops, kernel_macs, traffic, uncounted
from capplan.core.ops.loops import SELECTING
from capplan.core.ops.module_tree import ModuleNode, module_tree
from capplan.core.trace.types import AssumedValue, Op, Recording, Role, Trace
from capplan.core.workload import Configuration
from capplan.units import counted, format_fraction

UNUSED = "(not used)"
"""Where parameters are listed that no operator of the recording reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountShare:
    """The counts of one operator or module, as part of the whole.

    `parameters` counts elements at their first use (by operator) or at their owner (by module).
    `size_bytes` is what its kernels read and write.
    """

    module: str
    operator: str
    calls: int
    macs: int
    flops: int
    parameters: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """A model's counts at one batch; totals are those of every view.

    `depth` is the deepest level of modules that is shown by itself; None for all.
    """

    trace: Trace
    configuration: Configuration
    batch: int
    by_operator: tuple[CountShare, ...]
    by_module: tuple[CountShare, ...]
    by_module_and_operator: tuple[CountShare, ...]
    uncounted: tuple[str, ...]
    counted_bytes_fraction: float
    depth: int | None = None

    @property
    def recording(self) -> Recording:
        return self.trace.recording(self.configuration)

    @property
    def tree(self) -> tuple[ModuleNode, ...]:
        """Return the modules down to `depth`, each with all below it; the model itself stands first."""
        nodes = module_tree(self.trace, configuration=self.configuration, batch=self.batch)
        return tuple(node for node in nodes if self.depth is None or node.depth <= self.depth)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of convolutions, matrix products and attention."""
        return sum(share.macs for share in self.by_operator)

    @property
    def flops(self) -> int:
        """Floating-point operations, two per multiply-accumulate. [FLOP]"""
        return sum(share.flops for share in self.by_operator)

    @property
    def size_bytes(self) -> int:
        """Return what all kernels read and write. [bytes]"""
        return sum(share.size_bytes for share in self.by_operator)


def analyze_trace(trace: Trace, *, configuration: Configuration, batch: int, depth: int | None = None) -> Analysis:
    """Count a recording at a batch size; modules deeper than `depth` count for their parents."""
    recording = trace.recording(configuration)
    by_first_use = _parameters_by_first_use(trace, recording)
    by_owner: dict[tuple[str, str], int] = defaultdict(int)
    for owner, elements in trace.parameters_by_module().items():
        by_owner[truncate_path(owner, depth), ""] += elements

    def key_both(op: Op) -> tuple[str, str]:
        return truncate_path(recording.modules[op.module], depth), recording.kernels[op.kernel].name

    def view(key: Callable[[Op], tuple[str, str]], parameters: Mapping[tuple[str, str], int]) -> tuple[CountShare, ...]:
        return _group(recording, batch, key, parameters)

    first_use_operators: dict[tuple[str, str], int] = defaultdict(int)
    first_use_both: dict[tuple[str, str], int] = defaultdict(int)
    for op, elements in by_first_use:
        first_use_operators["", recording.kernels[op.kernel].name if op else UNUSED] += elements
        first_use_both[key_both(op) if op else ("", UNUSED)] += elements
    return Analysis(
        trace=trace,
        configuration=configuration,
        batch=batch,
        by_operator=view(lambda op: ("", key_both(op)[1]), first_use_operators),
        by_module=view(lambda op: (key_both(op)[0], ""), by_owner),
        by_module_and_operator=view(key_both, first_use_both),
        uncounted=uncounted(recording),
        counted_bytes_fraction=counted_bytes_fraction(recording, batch),
        depth=depth,
    )


def truncate_path(path: str, depth: int | None) -> str:
    """Cut a dotted module path to its first `depth` names; None keeps it whole."""
    return path if depth is None else ".".join(path.split(".")[:depth])


def _group(
    recording: Recording, batch: int, key: Callable[[Op], tuple[str, str]], parameters: Mapping[tuple[str, str], int]
) -> tuple[CountShare, ...]:
    costs = [
        (kernel_macs(kernel, batch), kernel_flops(kernel, batch), traffic(kernel, batch).total_bytes)
        for kernel in recording.kernels
    ]
    sums: dict[tuple[str, str], list[int]] = {}
    for op in recording.steady_ops():
        row = sums.setdefault(key(op), [0, 0, 0, 0])
        for index, amount in enumerate((1, *costs[op.kernel])):
            row[index] += amount
    for owner in parameters:
        sums.setdefault(owner, [0, 0, 0, 0])
    shares = [
        CountShare(
            module=module,
            operator=operator,
            calls=calls,
            macs=macs,
            flops=flops,
            parameters=parameters.get((module, operator), 0),
            size_bytes=size,
        )
        for (module, operator), (calls, macs, flops, size) in sums.items()
    ]
    return tuple(sorted(shares, key=lambda share: (-share.flops, -share.size_bytes, -share.parameters)))


def _parameters_by_first_use(trace: Trace, recording: Recording) -> list[tuple[Op | None, int]]:
    owners = {
        index: storage.parameter
        for index, storage in enumerate(recording.storages)
        if storage.parameter is not None and storage.role is Role.PARAMETER
    }
    waiting = {parameter: trace.parameters[parameter].elements for parameter in owners.values()}
    found: list[tuple[Op | None, int]] = []
    for op in recording.steady_ops():
        for storage in op.reads:
            if storage in owners and (elements := waiting.pop(owners[storage], None)) is not None:
                found.append((op, elements))
    unused = trace.parameter_count - sum(elements for _, elements in found)
    return [*found, (None, unused)] if unused else found


_BRANCHES = frozenset({"aten._local_scalar_dense", "aten.is_nonzero", "aten.equal", "aten.item"})
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
    kept = f", {format_fraction(min(shares))} of candidates (⟨selected-share⟩) as kept" if shares else ""
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
    if name in SELECTING:
        kept = "all" if assumed.share is None else f"⟨selected-share⟩ {format_fraction(assumed.share)}"
        return f"the data decides how many rows are kept ({where}, {times}); {kept} of them are taken as kept"
    if name in _DISTINCT:
        return f"the data decides how many distinct values there are ({where}, {times}); one is assumed"
    return f"the result of {where} depends on the data ({times}); an assumed one was traced"
