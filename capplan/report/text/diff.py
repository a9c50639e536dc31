"""What changed between two documents, as text."""

from capplan.report.documents.diff import Change
from capplan.report.table import Table, render_markdown, render_text, table


def render_changes_text(changes: list[Change]) -> str:
    """Write the changes as aligned text."""
    return render_text(_table(changes)) if changes else "no change\n"


def render_changes_markdown(changes: list[Change]) -> str:
    """Write the changes as a Markdown table."""
    return render_markdown(_table(changes)) if changes else "No change.\n"


def _table(changes: list[Change]) -> Table:
    rows = [
        (
            each.where,
            each.what,
            _spell(each.before),
            _spell(each.after),
            f"{100 * each.relative:+.3g} %" if each.relative is not None else "",
        )
        for each in changes
    ]
    return table("where | what | before> | after> | change>", rows)


def _spell(value: float | str | None) -> str:
    if value is None:
        return "absent"
    return f"{value:.6g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value
