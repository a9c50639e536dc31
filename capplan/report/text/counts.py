"""A model's counts as sections: the tree of modules, operators, parameters by dtype, and other counters beside them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from capplan.core.ops.analysis import Analysis, CountShare, assumed_sizes
from capplan.core.ops.counters import AnalyzeAnswer, CounterComparison
from capplan.core.ops.module_tree import (
    NARROWER_DTYPES,
    DtypeShare,
    ModuleNode,
    parameter_bytes_by_dtype,
    parameters_by_dtype,
)
from capplan.core.trace.types import AssumedValue
from capplan.report.sections import (
    Block,
    Column,
    Lines,
    Section,
    Table,
    figure,
    plain_columns,
    sentence,
    shape_data,
    words,
)
from capplan.shapes.analysis import OPERATOR_SHARE
from capplan.units import format_bytes, format_count, format_flops, format_fraction


def counted_sections(answer: AnalyzeAnswer, *, depth: int | None, top: int) -> list[Section]:
    """Return the counts of a model, and other counters beside ours where they were asked for."""
    sections = analysis_sections(answer.analysis, depth=depth, top=top)
    if answer.comparisons:
        sections += counter_sections(answer.comparisons, macs=answer.analysis.macs, params=answer.parameter_count)
    return sections


def analysis_sections(analysis: Analysis, *, depth: int | None, top: int) -> list[Section]:
    """Return the counts of a model; a CSV has one row per module and operator, of which people see the first `top`.

    `depth` is the deepest level of the tree of modules, parameters included; None shows all.
    """
    trace = analysis.trace
    dtypes = ", ".join(f"{dtype} {format_bytes(size)}" for dtype, size in parameter_bytes_by_dtype(trace).items())
    facts = [
        f"{trace.name} ({trace.class_name}), {analysis.configuration.words}, batch {analysis.batch}",
        f"parameters {trace.parameter_count:,} ({dtypes}), buffers {trace.buffer_count:,}",
        f"trainable {trace.trainable_count:,}, frozen {trace.frozen_count:,} parameters",
        f"{analysis.macs:,} MACs, {analysis.flops:,} FLOPs (1 MAC = 2 FLOPs), "
        f"{format_bytes(analysis.size_bytes)} read and written",
        *coverage_lines(analysis),
    ]
    by_operator = [*analysis.by_operator, _total(analysis, module="", operator="total")]
    nodes = analysis.tree
    lines = [line for node in nodes for line in _tree_lines(node, analysis, depth=depth)]
    sections = [
        Section([Lines(facts)]),
        Section([Table(_tree_columns(nodes[0]), lines)], title="Modules, each with all below it"),
        Section([Table(_share_columns(analysis)[1:], by_operator)], title="By operator"),
    ]
    if shown := analysis.by_module_and_operator[:top]:
        hidden = len(analysis.by_module_and_operator) - len(shown)
        more = f", the first {len(shown)} of {len(shown) + hidden} by FLOPs: ⟨top⟩, or --format csv" if hidden else ""
        rows = shown if hidden else [*shown, _total(analysis, module="total", operator="")]
        sections.append(Section([Table(_share_columns(analysis), rows)], title=f"By module and operator{more}"))
    dtype_blocks: list[Block] = [Table(_DTYPES, _dtype_rows(analysis))]
    if notes := trace.provenance.notes:
        dtype_blocks.append(Lines([f"· {note}" for note in notes]))
    shares = analysis.by_module_and_operator
    data = Table(shape_data(OPERATOR_SHARE, shares, whole=analysis, order=("module", "operator")), shares)
    title = "Parameters by dtype, and what other dtypes would take (scales left out)"
    return [*sections, Section(dtype_blocks, title=title), Section([data])]


def coverage_lines(analysis: Analysis) -> list[str]:
    """Describe what was assumed, how much was counted, and what was not."""
    recording = analysis.recording
    missed = ", ".join(analysis.uncounted)
    share = f"{100 * analysis.counted_bytes_fraction:.1f} % of bytes counted"
    whole = assumed_sizes(recording)
    kinds = "".join(f"; assumed: {_assumed(assumed_value)}" for assumed_value in recording.assumed_values)
    return [
        *([sentence(whole)] if whole else []),
        f"{share}; uncounted: {missed or 'none'}{kinds}; traced on {recording.backend}",
    ]


def _assumed(value: AssumedValue) -> str:
    kept = "" if value.share is None else f", {format_fraction(value.share)} kept by ⟨selected-share⟩"
    return f"{value.what} ({value.count} times{kept})"


def _total(analysis: Analysis, *, module: str, operator: str) -> CountShare:
    """Return the sum of the operators as a row, with the words that stand in its first columns."""
    return CountShare(
        module=module,
        operator=operator,
        calls=sum(share.calls for share in analysis.by_operator),
        macs=analysis.macs,
        flops=analysis.flops,
        parameters=analysis.trace.parameter_count,
        size_bytes=analysis.size_bytes,
    )


def _share_columns(analysis: Analysis) -> list[Column[CountShare]]:
    return [
        words("module", lambda row: row.module or "(model)"),
        words("operator", lambda row: row.operator),
        figure("calls", lambda row: row.calls, "{:,}".format),
        figure("MACs", lambda row: row.macs, "{:,}".format),
        figure("FLOPs", lambda row: row.flops, format_flops),
        figure("share", lambda row: _share(row.flops, analysis.flops)),
        figure("parameters", lambda row: row.parameters, "{:,}".format),
        figure("bytes", lambda row: row.size_bytes, format_bytes),
    ]


class _TreeLine(NamedTuple):
    """A line of the tree: a module with all below it, or one of its own parameters with its shape."""

    depth: int
    name: str
    node: ModuleNode | None
    shape: str = ""


def _tree_lines(node: ModuleNode, analysis: Analysis, *, depth: int | None) -> list[_TreeLine]:
    """Return the line of a module and those of its own parameters, as far as the tree is shown."""
    if depth is not None and node.depth > depth:
        return []
    lines = [_TreeLine(node.depth, node.name or analysis.trace.name, node)]
    if depth is None or node.depth < depth:
        lines += [
            _TreeLine(node.depth + 1, name, None, "×".join(map(str, shape)) or "scalar")
            for name, shape in node.own_parameters
        ]
    return lines


def _tree_columns(whole: ModuleNode) -> list[Column[_TreeLine]]:
    """Return the columns of the tree, the model with all totals first."""
    return [
        words("module", lambda row: f"{'  ' * row.depth}{row.name}"),
        figure("parameters or shape", lambda row: f"{row.node.parameters:,}" if row.node else row.shape),
        figure("share", _of_node(lambda node: _share(node.parameters, whole.parameters))),
        figure("MACs", _of_node(lambda node: format_count(node.macs))),
        figure("FLOPs", _of_node(lambda node: format_flops(node.flops))),
        figure("share", _of_node(lambda node: _share(node.flops, whole.flops))),
        figure("activations", _of_node(lambda node: format_count(node.activations))),
        figure("bytes", _of_node(lambda node: format_bytes(node.size_bytes))),
    ]


def _of_node(value: Callable[[ModuleNode], str]) -> Callable[[_TreeLine], str | None]:
    return lambda row: None if row.node is None else value(row.node)


def _share(part: int, whole: int) -> str:
    """Format a part as a share of the whole; empty where the whole is nothing."""
    return format_fraction(part / whole) if whole else ""


def _as_dtype(dtype: str) -> Column[DtypeShare]:
    return figure(f"as {dtype}", lambda row: row.bytes_as(dtype), format_bytes)


_DTYPES: tuple[Column[DtypeShare], ...] = (
    words("dtype", lambda row: row.dtype),
    figure("tensors", lambda row: row.tensors, "{:,}".format),
    figure("parameters", lambda row: row.parameters, "{:,}".format),
    figure("bytes", lambda row: row.size_bytes, format_bytes),
    *map(_as_dtype, NARROWER_DTYPES),
)


def _dtype_rows(analysis: Analysis) -> list[DtypeShare]:
    """Return the parameters by dtype, and their sum where there are several."""
    shares = list(parameters_by_dtype(analysis.trace))
    if len(shares) < 2:
        return shares
    total = DtypeShare(
        dtype="total",
        tensors=sum(share.tensors for share in shares),
        parameters=sum(share.parameters for share in shares),
        size_bytes=sum(share.size_bytes for share in shares),
    )
    return [*shares, total]


def counter_sections(comparisons: Sequence[CounterComparison], *, macs: int, params: int) -> list[Section]:
    """Return other counters beside ours."""
    rows = [("capplan", f"{macs:,}", "", f"{params:,}", "")]
    for comparison in comparisons:
        count = comparison.count
        if count.macs is None:
            rows.append((f"{count.counter} {count.version}", "failed", "", "", count.failure or ""))
            continue
        counted = "" if count.params is None else f"{count.params:,}"
        name = f"{count.counter} {count.version}"
        rows.append((name, f"{count.macs:,}", f"{count.macs - macs:+,}", counted, ""))
        rows += [("", "", f"{part.amount:+,}", "", part.cause) for part in comparison.macs]
        rows += [("", "", "", f"{part.amount:+,}", part.cause) for part in comparison.params]
        if count.skipped:
            skipped = ", ".join(f"{calls} {name}" for name, calls in count.skipped.items())
            rows.append(("", "", "", "", f"by its own report it skipped {skipped}"))
    numbers = ("MACs", "difference", "parameters")
    columns = plain_columns("counter", *numbers, "cause", numbers=numbers, is_data=False)
    return [Section([Table(columns, rows)])]
