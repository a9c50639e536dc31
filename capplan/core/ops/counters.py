"""Explain why other counters differ: their figures and ours in multiply-accumulates, with the cause of each difference.

Both counts are split over the modules whose code did the work; what a module has of its own, its children's share
taken off, is compared and reported by the module's class. The differences add up to the whole, to the unit.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from capplan.core.ops.analysis import Analysis
from capplan.core.ops.flops import kernel_macs
from capplan.core.trace.types import Recording, Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The multiply-accumulates that one counter reports for a model; `failure` explains a missing figure.

    `by_operator` and `by_module` are the counter's own views, by its own names (dotted module paths, "" for all).
    `params_by_module` holds parameters that belong to each module itself; None where the counter counts none.
    `skipped` are operators that it says it did not count, with their number.
    """

    counter: str
    version: str
    macs: int | None = None
    params: int | None = None
    by_operator: Mapping[str, int] = field(default_factory=dict)
    by_module: Mapping[str, int] = field(default_factory=dict)
    params_by_module: Mapping[str, int] | None = None
    skipped: Mapping[str, int] = field(default_factory=dict)
    failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterDifference:
    """A part of another counter's excess (or deficit) over ours, with its cause."""

    amount: int
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterComparison:
    """One counter compared with ours: `macs` and `params` list differences that add up to its figure less ours."""

    count: Count
    macs: tuple[CounterDifference, ...] = ()
    params: tuple[CounterDifference, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzeAnswer:
    """The counts of a model, and those of other counters where they were asked for."""

    analysis: Analysis
    parameter_count: int
    comparisons: tuple[CounterComparison, ...]


def compare_counts(
    trace: Trace, recording: Recording, counts: Iterable[Count], *, batch: int, classes: Mapping[str, str]
) -> tuple[CounterComparison, ...]:
    """Explain counters' figures at a batch size; `classes` names the class of the module at each path."""
    macs_by_kernel = [kernel_macs(kernel, batch) for kernel in recording.kernels]
    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for op in recording.ops:
        if macs := macs_by_kernel[op.kernel]:
            found[recording.modules[op.module]][_spoken(recording.kernels[op.kernel].name)] += macs
    ours = found
    params = trace.parameters_by_module()
    return tuple(_compare(count, ours, params, classes) for count in counts)


def _spoken(operator: str) -> str:
    """Return an operator's name as the other counters report it."""
    return {"capplan.attention": "scaled_dot_product_attention", "capplan.rnn": "recurrent layer"}.get(
        operator, operator.removeprefix("aten.")
    )


def _compare(
    count: Count, ours: Mapping[str, Mapping[str, int]], params: Mapping[str, int], classes: Mapping[str, str]
) -> CounterComparison:
    if count.macs is None:
        return CounterComparison(count=count)
    theirs = own_shares(count.by_module)
    total = sum(sum(own.values()) for own in ours.values())
    macs = _explain(
        {path: (theirs.get(path, 0), sum(ours.get(path, {}).values())) for path in {*theirs, *ours}},
        classes=classes,
        operators={path: tuple(own) for path, own in ours.items()},
        unit="",
    )
    explained = sum(difference.amount for difference in macs)
    if rest := count.macs - total - explained:
        macs = (*macs, CounterDifference(amount=rest, cause="not attributed to a module"))
    return CounterComparison(count=count, macs=macs, params=_explain_params(count, params, classes))


def _explain_params(count: Count, ours: Mapping[str, int], classes: Mapping[str, str]) -> tuple[CounterDifference, ...]:
    theirs = count.params_by_module
    if theirs is None:
        return ()
    pairs = {path: (theirs.get(path, 0), ours.get(path, 0)) for path in {*theirs, *ours}}
    return _explain(pairs, classes=classes, operators={}, unit="parameters of ")


def own_shares(inclusive: Mapping[str, int]) -> dict[str, int]:
    """Subtract the children's share from each module's figure."""
    own = dict(inclusive)
    for path, value in inclusive.items():
        if path and (parent := _nearest_parent(path, inclusive)) is not None:
            own[parent] -= value
    return own


def _nearest_parent(path: str, known: Mapping[str, int]) -> str | None:
    while path:
        path = path.rpartition(".")[0]
        if path in known:
            return path
    return None


def _explain(
    pairs: Mapping[str, tuple[int, int]],
    *,
    classes: Mapping[str, str],
    operators: Mapping[str, tuple[str, ...]],
    unit: str,
) -> tuple[CounterDifference, ...]:
    """Gather modules that differ alike: same class, same kind of difference, same operators."""
    groups: dict[tuple[str, str, tuple[str, ...]], list[int]] = defaultdict(list)
    for path, (theirs, ours) in sorted(pairs.items()):
        if theirs != ours:
            kind = "adds" if not ours else "misses" if not theirs else f"counts {theirs / ours:.3g} of"
            groups[kind, classes.get(path, "module"), operators.get(path, ())].append(theirs - ours)
    differences = [
        CounterDifference(amount=sum(amounts), cause=_cause(kind, unit, len(amounts), name, done))
        for (kind, name, done), amounts in groups.items()
    ]
    return tuple(sorted(differences, key=lambda difference: -abs(difference.amount)))


def _cause(kind: str, unit: str, modules: int, name: str, operators: tuple[str, ...]) -> str:
    where = f"{modules} {name}"
    if not operators or kind == "adds":
        return f"{kind} {unit}{where}"
    return f"{kind} {' and '.join(sorted(operators))} in {where}"
