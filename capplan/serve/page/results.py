"""The page about a sweep's results: canned questions, as a table."""

import re
import shlex
from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any

from capplan.app.sweep.query import CANNED, canned_query
from capplan.app.sweep.results import read_sweep
from capplan.errors import CapplanError, UsageError
from capplan.serve.page.question import PageQuestion, address, form_address
from capplan.serve.page.render import render_template
from capplan.serve.planning.answer import Case, to_json, work_out
from capplan.serve.planning.naming import model_request
from capplan.serve.planning.replies import Reply
from capplan.serve.questions.llm import LlmPageQuestion
from capplan.serve.questions.results import ResultsQuestion
from capplan.units import format_bytes, format_rate, format_seconds
from capplan.verbs.fields import ModelFields

_SERVED = "llm:"
_PLAIN = re.compile(r"[\w.:+/ -]*")
_SPELT = {"latency_s": format_seconds, "throughput_per_s": format_rate, "total_bytes": format_bytes,
          "usable_bytes": format_bytes}  # fmt: skip


@work_out.register
def _results(question: ResultsQuestion, case: Case) -> Reply:
    folder = case.data.results
    if folder is None:
        raise UsageError("this service offers no results; start it with --results SWEEP.")
    results = read_sweep(folder)
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
                rows=[_cells(row) for row in rows],
                total=len(results),
                download=f"/api/v1/results{form_address(question)}&download=1",
                command=_command(question, folder),
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
    asked = (("model", question.model), ("gpu", question.gpu), ("workload", question.workload))
    for column, text in asked:
        if not _PLAIN.fullmatch(text):
            raise UsageError(f"{text!r}: write letters of a name, digits and . : + / - _ only.")
        if text.strip():
            conditions.append(f"contains(lower({column}), '{text.strip().lower()}')")
    return conditions


def _cells(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the texts of a row, each with the address of the page that answers for it now; empty for none."""
    return [(_spelt(name, value), address_of(row) if name == "model" else "") for name, value in row.items()]


def address_of(row: Mapping[str, Any]) -> str:
    """Return the page about a row's model, GPU, batch and conditions; empty for what the service cannot name.

    Args:
        row: a row of a sweep's answer, by column.
    """
    model, gpu = str(row["model"]), row.get("gpu")
    gpus = (str(gpu),) if gpu else ()
    try:
        if model.startswith(_SERVED):
            served = LlmPageQuestion(
                model=model.removeprefix(_SERVED), gpus=gpus, engine=row.get("framework") or "vllm"
            )
            return f"/llm{form_address(served)}"
        model_request(ModelFields(model=model)).parse()
    except CapplanError:
        return ""
    given = {name: row[name] for name in ("batch", "precision", "framework", "layout") if row.get(name)}
    named = {"gpus": ",".join(gpus)} if gpus else {}
    return f"/{address(PageQuestion(models=(model,), options=named), **given)}"


def _command(question: ResultsQuestion, folder: Path) -> str:
    """Return the command that asks the same."""
    words = ["capplan", "query", folder.name, question.ask, "--limit", str(question.limit)]
    words += [word for each in _conditions(question) for word in ("--where", each)]
    return shlex.join(words)


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date | datetime) else value


def _spelt(name: str, value: Any) -> str:
    if value is None:
        return "–"
    if name in _SPELT:
        return _SPELT[name](value)
    return f"{value:.3g}" if isinstance(value, float) else str(value)
