"""A model's counts as text, Markdown or CSV."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from capplan.core.ops.analysis import Analysis, Share
from capplan.core.trace.types import AssumedValue
from capplan.report.documents.analysis import parameter_bytes_by_dtype
from capplan.report.table import Table, render_csv, render_markdown, render_text, table
from capplan.report.text.counts.module_tree import dtype_table, tree_table
from capplan.report.text.counts.module_tree import share as share_of
from capplan.units import format_bytes, format_count, format_flops, format_fraction

_TITLES = "module|operator|calls>|MACs>|FLOPs>|share>|parameters>|bytes>"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisView:
    """How much of the counts is shown: the deepest level of the tree, and the rows by module and operator."""

    depth: int | None = 2
    top: int = 20


def coverage_line(analysis: Analysis) -> str:
    """Describe how much was counted, and what was not."""
    recording = analysis.trace.recording(analysis.configuration)
    missed = ", ".join(analysis.uncounted)
    share = f"{100 * analysis.counted_bytes_fraction:.1f} % of bytes counted"
    assumed = "".join(f"; assumed: {_assumed(each)}" for each in recording.assumed_values)
    return f"{share}; uncounted: {missed or 'none'}{assumed}; traced on {recording.backend}"


def _assumed(value: AssumedValue) -> str:
    kept = "" if value.share is None else f", {format_fraction(value.share)} kept by --selected-share"
    return f"{value.what} ({value.count} times{kept})"


def render_analysis_text(analysis: Analysis, *, view: AnalysisView = AnalysisView()) -> str:
    """Lay counts out for the terminal."""
    tree = tree_table(analysis, depth=view.depth)
    return _render(analysis, tree, render_text, heading=lambda title: f"{title}\n", top=view.top)


def render_analysis_markdown(analysis: Analysis, *, view: AnalysisView = AnalysisView()) -> str:
    """Lay counts out as GitHub-flavoured Markdown; levels of the tree are marked by dots, which Markdown keeps."""
    tree = tree_table(analysis, depth=view.depth, indent="· ")
    return _render(analysis, tree, render_markdown, heading=lambda title: f"### {title}\n", top=view.top)


def render_analysis_csv(analysis: Analysis) -> str:
    """Write one row per module and operator in plain numbers."""
    rows = [(share.module, share.operator, *map(str, _numbers(share))) for share in analysis.by_module_and_operator]
    return render_csv(table("module|operator|calls|macs|flops|params|bytes", rows))


def _render(
    analysis: Analysis, tree: Table, to_text: Callable[[Table], str], *, heading: Callable[[str], str], top: int
) -> str:
    trace = analysis.trace
    dtypes = ", ".join(f"{dtype} {format_bytes(size)}" for dtype, size in parameter_bytes_by_dtype(analysis).items())
    facts = [
        f"{trace.name} ({trace.class_name}), {analysis.configuration}, batch {analysis.batch}",
        f"parameters {trace.parameter_count:,} ({dtypes}), buffers {trace.buffer_count:,}",
        f"{analysis.macs:,} MACs, {analysis.flops:,} FLOPs (1 MAC = 2 FLOPs), "
        f"{format_bytes(analysis.size_bytes)} read and written",
        coverage_line(analysis),
    ]
    pieces = ["\n".join(f"{line}  " if to_text is render_markdown else line for line in facts), ""]
    pieces += [heading("Modules, each with all below it"), to_text(tree)]
    by_operator = [*analysis.by_operator, _total(analysis, module="", operator="total")]
    pieces += [heading("By operator"), to_text(_table(by_operator, analysis, hide=0))]
    if shown := analysis.by_module_and_operator[:top]:
        hidden = len(analysis.by_module_and_operator) - len(shown)
        more = f", the first {len(shown)} of {len(shown) + hidden} by FLOPs: --top, or --format csv" if hidden else ""
        rows = shown if hidden else [*shown, _total(analysis, module="total", operator="")]
        pieces += [heading(f"By module and operator{more}"), to_text(_table(rows, analysis, hide=None))]
    pieces += [heading("Parameters by dtype, and what other dtypes would take (scales left out)")]
    pieces += [to_text(dtype_table(analysis))]
    return "\n".join([*pieces, *(f"· {note}" for note in trace.provenance.notes)]).rstrip() + "\n"


def _total(analysis: Analysis, *, module: str, operator: str) -> Share:
    """Return the sum of the operators as a row, with the words that stand in its first columns."""
    return Share(
        module=module,
        operator=operator,
        calls=sum(share.calls for share in analysis.by_operator),
        macs=analysis.macs,
        flops=analysis.flops,
        parameters=analysis.trace.parameter_count,
        size_bytes=analysis.size_bytes,
    )


def _table(shares: Sequence[Share], analysis: Analysis, *, hide: int | None) -> Table:
    titles = [title for index, title in enumerate(_TITLES.split("|")) if index != hide]
    rows = [[cell for index, cell in enumerate(_row(each, analysis)) if index != hide] for each in shares]
    return table("|".join(titles), rows)


def _row(share: Share, analysis: Analysis) -> tuple[str, ...]:
    return (
        share.module or "(model)",
        share.operator,
        f"{share.calls:,}",
        format_count(share.macs).strip(),
        format_flops(share.flops),
        share_of(share.flops, analysis.flops),
        f"{share.parameters:,}",
        format_bytes(share.size_bytes),
    )


def _numbers(share: Share) -> tuple[int, ...]:
    return (share.calls, share.macs, share.flops, share.parameters, share.size_bytes)
