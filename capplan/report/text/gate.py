"""The outcomes of limits as text."""

from collections.abc import Sequence

from capplan.report.documents.gate import Outcome
from capplan.report.table import render_text, table


def render_outcomes(outcomes: Sequence[Outcome]) -> str:
    """Write one line per limit."""
    rows = [("kept" if each.is_kept else "FAILED", each.model, each.gpu, each.limit, each.words) for each in outcomes]
    return render_text(table("outcome | model | GPU | limit | figures", rows))
