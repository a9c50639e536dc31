"""The page about a sweep's results: canned questions, as a table."""

import re
from datetime import date, datetime
from typing import Any

from capplan.app.sweep.query import CANNED, canned_query
from capplan.app.sweep.results import read_sweep
from capplan.errors import UsageError
from capplan.serve.page.render import render_template
from capplan.serve.planning.answer import Case, to_json, work_out
from capplan.serve.planning.replies import Reply
from capplan.serve.questions.results import ResultsQuestion
from capplan.units import format_bytes, format_rate, format_seconds

_PLAIN = re.compile(r"[\w.:+/ -]*")
_SPELT = {"latency_s": format_seconds, "throughput_per_s": format_rate, "total_bytes": format_bytes,
          "usable_bytes": format_bytes}  # fmt: skip


@work_out.register
def _results(question: ResultsQuestion, case: Case) -> Reply:
    if case.data.results is None:
        raise UsageError("this service offers no results; start it with --results SWEEP.")
    results = read_sweep(case.data.results)
    found = results.query(
        f"SELECT * FROM ({canned_query(question.ask, where=_conditions(question))}) LIMIT {question.limit}"
    )
    rows: list[dict[str, Any]] = found.to_pylist()
    plain = [{name: _plain(value) for name, value in row.items()} for row in rows]
    return case.spell(
        {
            "json": lambda: to_json({"schema_version": 1, "question": question.ask, "rows": plain}),
            "html": lambda: render_template(
                "results_answer.html.j2",
                meaning=CANNED[question.ask].meaning,
                columns=[
                    name.removesuffix("_s").removesuffix("_bytes").replace("_", " ") for name in found.column_names
                ],
                rows=[[_spelt(name, value) for name, value in row.items()] for row in rows],
                total=len(results),
                is_cut=len(rows) == question.limit,
            ),
        }
    )


def _conditions(question: ResultsQuestion) -> list[str]:
    """Return conditions in SQL; a text that could end its quotes is refused.

    Raises:
        UsageError: a text holds other characters than names do.
    """
    conditions = []
    for column, text in (("model", question.model), ("gpu", question.gpu)):
        if not _PLAIN.fullmatch(text):
            raise UsageError(f"{text!r}: write letters of a name, digits and . : + / - _ only.")
        if text.strip():
            conditions.append(f"contains(lower({column}), '{text.strip().lower()}')")
    return conditions


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date | datetime) else value


def _spelt(name: str, value: Any) -> str:
    if value is None:
        return "–"
    if name in _SPELT:
        return _SPELT[name](value)
    return f"{value:.3g}" if isinstance(value, float) else str(value)
