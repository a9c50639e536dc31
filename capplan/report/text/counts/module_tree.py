"""A model's counts as fvcore's users know them: the tree of modules with totals and shares, parameters by dtype."""

from collections.abc import Sequence

from capplan.core.ops.analysis import Analysis
from capplan.core.ops.module_tree import NARROWER_DTYPES, ModuleNode, module_tree, parameters_by_dtype
from capplan.report.table import Table, table
from capplan.units import format_bytes, format_count, format_flops, format_fraction

_TREE_TITLES = "module|parameters or shape>|share>|MACs>|FLOPs>|share>|activations>|bytes>"


def tree_table(analysis: Analysis, *, depth: int | None, indent: str = "  ") -> Table:
    """Lay the tree of modules out, the model with all totals first; a parameter stands below its module with its shape.

    Args:
        analysis: the counts of a model.
        depth: the deepest level shown, parameters included; None shows all.
        indent: what a level is indented by.
    """
    nodes = module_tree(analysis.trace, configuration=analysis.configuration, batch=analysis.batch)
    rows: list[Sequence[str]] = []
    for node in nodes:
        if depth is not None and node.depth > depth:
            continue
        name = node.name or analysis.trace.name
        rows.append((f"{indent * node.depth}{name}", *_counts(node, whole=nodes[0])))
        if depth is None or node.depth < depth:
            below = indent * (node.depth + 1)
            rows += [(f"{below}{name}", _shape(shape), *[""] * 6) for name, shape in node.own_parameters]
    return table(_TREE_TITLES, rows)


def _counts(node: ModuleNode, *, whole: ModuleNode) -> tuple[str, ...]:
    return (
        f"{node.parameters:,}",
        share(node.parameters, whole.parameters),
        format_count(node.macs),
        format_flops(node.flops),
        share(node.flops, whole.flops),
        format_count(node.activations),
        format_bytes(node.size_bytes),
    )


def share(part: int, whole: int) -> str:
    """Format a part as a share of the whole; empty where the whole is nothing."""
    return format_fraction(part / whole) if whole else ""


def _shape(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape)) or "scalar"


def dtype_table(analysis: Analysis) -> Table:
    """Lay the parameters out by dtype, with the bytes that they would take in other dtypes."""
    shares = parameters_by_dtype(analysis.trace)
    rows = [
        (
            each.dtype,
            f"{each.tensors:,}",
            f"{each.parameters:,}",
            format_bytes(each.size_bytes),
            *(format_bytes(each.bytes_as(dtype)) for dtype in NARROWER_DTYPES),
        )
        for each in shares
    ]
    if len(shares) > 1:
        total = (sum(each.bytes_as(dtype) for each in shares) for dtype in NARROWER_DTYPES)
        counts = (sum(each.tensors for each in shares), sum(each.parameters for each in shares))
        size = format_bytes(sum(each.size_bytes for each in shares))
        rows.append(("total", *(f"{count:,}" for count in counts), size, *map(format_bytes, total)))
    others = "|".join(f"as {dtype}>" for dtype in NARROWER_DTYPES)
    return table(f"dtype|tensors>|parameters>|bytes>|{others}", rows)
