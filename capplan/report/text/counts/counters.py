"""Write a comparison with other counters as text or Markdown."""

from collections.abc import Callable, Sequence

from capplan.core.ops.counters import Comparison
from capplan.report.table import Table, render_markdown, render_text, table


def render_comparison_text(comparisons: Sequence[Comparison], *, macs: int, params: int) -> str:
    """Lay the comparison out for the terminal; `macs` and `params` are ours."""
    return _render(comparisons, macs, params, render_text)


def render_comparison_markdown(comparisons: Sequence[Comparison], *, macs: int, params: int) -> str:
    """Lay the comparison out as GitHub-flavoured Markdown; `macs` and `params` are ours."""
    return _render(comparisons, macs, params, render_markdown)


def _render(comparisons: Sequence[Comparison], macs: int, params: int, to_text: Callable[[Table], str]) -> str:
    rows: list[Sequence[str]] = [("capplan", f"{macs:,}", "", f"{params:,}", "")]
    for comparison in comparisons:
        count = comparison.count
        if count.macs is None:
            rows.append((f"{count.counter} {count.version}", "failed", "", "", count.failure or ""))
            continue
        counted = "" if count.params is None else f"{count.params:,}"
        rows.append((f"{count.counter} {count.version}", f"{count.macs:,}", f"{count.macs - macs:+,}", counted, ""))
        rows += [("", "", f"{d.amount:+,}", "", d.cause) for d in comparison.macs]
        rows += [("", "", "", f"{d.amount:+,}", d.cause) for d in comparison.params]
        if count.skipped:
            skipped = ", ".join(f"{calls} {name}" for name, calls in count.skipped.items())
            rows.append(("", "", "", "", f"by its own report it skipped {skipped}"))
    return to_text(table("counter|MACs>|difference>|parameters>|cause", rows))
