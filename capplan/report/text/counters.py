"""Other counters beside ours, as text, Markdown or JSON."""

from collections.abc import Callable, Sequence
from typing import Any

from capplan.core.ops.counters import Comparison, Difference
from capplan.report.table import Table, render_markdown, render_text, table


def comparison_to_json(comparison: Comparison) -> dict[str, Any]:
    """Format one counter's figures and why they differ; differences add up to its figure less ours."""
    count = comparison.count
    return {
        "counter": count.counter,
        "version": count.version,
        "macs": count.macs,
        "params": count.params,
        "macs_differences": [_difference_to_json(difference) for difference in comparison.macs],
        "params_differences": [_difference_to_json(difference) for difference in comparison.params],
        "by_operator": [{"name": name, "macs": macs} for name, macs in count.by_operator.items()],
        "by_module": [{"name": name, "macs": macs} for name, macs in count.by_module.items()],
        "skipped": dict(count.skipped),
        "failure": count.failure,
    }


def render_comparison_text(comparisons: Sequence[Comparison], *, macs: int, params: int) -> str:
    """Lay the comparison out for the terminal; `macs` and `params` are ours."""
    return _render(comparisons, macs, params, render_text)


def render_comparison_markdown(comparisons: Sequence[Comparison], *, macs: int, params: int) -> str:
    """Lay the comparison out as GitHub-flavoured Markdown; `macs` and `params` are ours."""
    return _render(comparisons, macs, params, render_markdown)


def _render(comparisons: Sequence[Comparison], macs: int, params: int, spell: Callable[[Table], str]) -> str:
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
    return spell(table("counter|MACs>|difference>|parameters>|cause", rows))


def _difference_to_json(difference: Difference) -> dict[str, Any]:
    return {"amount": difference.amount, "cause": difference.cause}
