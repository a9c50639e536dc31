"""The page about a sweep's results: canned questions, as a table."""

import re
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any

from markupsafe import Markup

from capplan.app.sweep.progress import LiveStanding
from capplan.app.sweep.query import CANNED, canned_query
from capplan.app.sweep.results import read_sweep
from capplan.errors import CapplanError, UsageError
from capplan.report.render import render
from capplan.report.sections import Format
from capplan.report.text.sweep import query_sections
from capplan.serve.page.question import PLAN_FORM, SERVING_FORM, LlmPageQuestion, PageQuestion
from capplan.serve.page.render import render_template
from capplan.serve.page.svg import Curve, Mark, axis, curves_svg
from capplan.serve.planning.answer import TaskContext, derive
from capplan.serve.planning.messages import Reply
from capplan.serve.planning.naming import model_request
from capplan.serve.questions import ResultsQuestion, question_link
from capplan.units import format_bytes, format_rate, format_seconds
from capplan.verbs.statement.contract import to_json
from capplan.verbs.statement.fields import ModelFields

_SERVED = "llm:"
SILENT_S = 60.0
"""A sweep that has not finished a model for so long may have been killed. [s]"""
MOST_POINTS = 60
"""Rows that the chart shows."""
_PLAIN = re.compile(r"[\w.:+/ -]*")
_SPELT = {"latency_s": format_seconds, "throughput_per_s": format_rate, "total_bytes": format_bytes,
          "usable_bytes": format_bytes}  # fmt: skip


_TEXTS = ("table", "csv", "md")
"""The formats of text that rows are written in, as `capplan query` writes them."""


@derive.register
def _results(question: ResultsQuestion, case: TaskContext) -> Reply:
    folder = case.data.results
    if folder is None:
        raise UsageError("this service offers no results; start it with --results SWEEP.")
    results = read_sweep(folder)
    running = None if results.live is None else _running(results.live, now_s=time.time())
    sql = f"SELECT * FROM ({canned_query(question.ask, where=_conditions(question))}) LIMIT {question.limit}"
    try:
        table = results.query_live(sql)
    except UsageError as error:
        if running is None or "holds no rows yet" not in str(error):
            raise
        nothing: dict[str, Any] = {"schema_version": 1, "question": question.ask, "rows": []}
        return case.spell(
            {
                "json": lambda: to_json(nothing),
                "html": lambda: render_template("results_running.html.j2", running=running),
            }
        )
    rows: list[dict[str, Any]] = table.to_pylist()
    plain = [
        {name: value.isoformat() if isinstance(value, date) else value for name, value in row.items()} for row in rows
    ]
    sections = query_sections(table.column_names, [[row[name] for name in table.column_names] for row in plain])
    constant = {
        name: _spelt(name, rows[0][name])
        for name in table.column_names
        if len(rows) > 1 and name != "model" and all(row[name] == rows[0][name] for row in rows)
    }
    shown = [name for name in table.column_names if name not in constant]
    words = ["capplan", "query", folder.name, question.ask, "--limit", str(question.limit)]
    words += [word for condition in _conditions(question) for word in ("--where", condition)]
    return case.spell(
        {
            "json": lambda: to_json({"schema_version": 1, "question": question.ask, "rows": plain}),
            **{spelling: partial(render, sections, Format(spelling), width=case.task.width) for spelling in _TEXTS},
            "html": lambda: render_template(
                "results_answer.html.j2",
                meaning=CANNED[question.ask].meaning,
                running=running,
                columns=[_heading(name) for name in shown],
                constant={_heading(name): value for name, value in constant.items() if rows[0][name] is not None},
                rows=[
                    [(_spelt(name, row[name]), address_of(row) if name == "model" else "") for name in shown]
                    for row in rows
                ],
                picture=_chart(rows),
                total=len(results),
                downloads={
                    name: question_link("results", question, format=spelling, download="1")
                    for spelling, name in (("json", "JSON"), ("csv", "CSV"))
                },
                command=shlex.join(words),
                is_cut=len(rows) == question.limit,
            ),
        }
    )


def _conditions(question: ResultsQuestion) -> list[str]:
    """Return conditions in SQL; a text that could end its quotes is refused."""
    conditions = []
    asked = (("model", question.model), ("gpu", question.gpu), ("workload", question.workload))
    for column, text in asked:
        if not _PLAIN.fullmatch(text):
            raise UsageError(f"{text!r}: write letters of a name, digits and . : + / - _ only.")
        if text.strip():
            conditions.append(f"contains(lower({column}), '{text.strip().lower()}')")
    return conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """How far a running sweep is, as the page shows it."""

    done: int
    models: int
    words: str


def _running(live: LiveStanding, *, now_s: float) -> Running:
    """Return how far a sweep is in words, with a remark where it has not said anything for long."""
    standing = live.standing
    parts = [f"{standing.finished:,} of {standing.models:,} models", f"{standing.rows:,} rows in this run"]
    parts += [f"{standing.failed:,} failed"] if standing.failed else []
    parts += [f"{standing.rows_per_s:,.0f} rows/s"] if standing.rows_per_s else []
    parts += [f"{format_seconds(standing.remaining_s)} left"] if standing.remaining_s is not None else []
    silent_s = now_s - live.at_s
    parts += [f"nothing heard for {format_seconds(silent_s)}"] if silent_s > SILENT_S else []
    return Running(done=standing.finished, models=standing.models, words=", ".join(parts))


def _heading(column: str) -> str:
    """Return the heading of a column: its name without the unit that its figures are written with."""
    for ending in ("_per_s", "_s", "_bytes"):
        if column.endswith(ending):
            return column.removesuffix(ending).replace("_", " ") + ("/s" if ending == "_per_s" else "")
    return column.replace("_", " ")


def _chart(rows: Sequence[Mapping[str, Any]]) -> Markup:
    """Draw cost against latency of the first rows that have both; nothing where fewer than two have."""
    points = [row for row in rows if row.get("latency_s") and row.get("usd_per_million_samples")][:MOST_POINTS]
    if len(points) < 2:
        return Markup("")
    latencies, costs = ([row[name] for row in points] for name in ("latency_s", "usd_per_million_samples"))
    curves = [
        Curve(
            name=str(row["model"]).rpartition(":")[2],
            index=0,
            marks=[
                Mark(
                    x=row["latency_s"],
                    y=row["usd_per_million_samples"],
                    tip=f"{row['model']} on {row.get('gpu')}: {row['usd_per_million_samples']:.3g} USD per million, "
                    f"{format_seconds(row['latency_s'])}",
                )
            ],
        )
        for row in points
    ]
    return curves_svg(
        curves,
        x=axis("latency of a batch", latencies, format_seconds),
        y=axis("USD per million samples", costs, lambda value: f"{value:.3g}"),
        identity="results-cost",
        title="Cost against latency of these rows: low and left is better",
        has_lines=False,
    )


def address_of(row: Mapping[str, Any]) -> str:
    """Return the page about a row's model, GPU, batch and conditions; empty for what the service cannot name."""
    model = str(row["model"])
    named = {"gpus": row["gpu"]} if row.get("gpu") else {}
    if model.startswith(_SERVED):
        named |= {"model": model.removeprefix(_SERVED)} | ({"engine": row["framework"]} if row.get("framework") else {})
        return f"/llm{SERVING_FORM.address(LlmPageQuestion(), **named)}"
    try:
        model_request(ModelFields(model=model)).parse()
    except CapplanError:
        return ""
    named |= {name: row[name] for name in ("batch", "precision", "framework", "layout") if row.get(name)}
    return f"/{PLAN_FORM.address(PageQuestion(models=(model,)), **named)}"


def _spelt(name: str, value: Any) -> str:
    if value is None:
        return "–"
    if name in _SPELT:
        return _SPELT[name](value)
    return f"{value:.3g}" if isinstance(value, float) else str(value)
