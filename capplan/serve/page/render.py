"""Render the page and its answers from templates."""

from functools import cache
from typing import Any
from urllib.parse import urlencode

import jinja2

from capplan.serve.page.question import MOST_MODELS, PageQuestion, address, form_fields, usual_words
from capplan.serve.page.view import ModelView
from capplan.version import __version__

FORMATS = {"html": "Web page", "pdf": "PDF", "xlsx": "Workbook", "md": "Markdown", "csv": "CSV", "json": "JSON"}


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("capplan.serve.page"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def render_page(
    question: PageQuestion, *, answer: str | None, is_pending: bool = False, error: str = "", has_results: bool = False
) -> str:
    """Render the whole page.

    Args:
        question: the state of the form.
        answer: the answer as HTML; None where there is none yet.
        is_pending: the answer takes longer, and the script is to fetch it.
        error: why the address could not be read.
        has_results: results of a sweep are offered.
    """
    return _environment().get_template("page.html.j2").render(
        q=question,
        answer=answer,
        is_pending=is_pending,
        has_results=has_results,
        error=error,
        spare=len(question.models) < MOST_MODELS,
        fields=form_fields(),
        usual=usual_words,
        version=__version__,
        address=address(question),
    )  # fmt: skip


def render_answer(question: PageQuestion, models: list[ModelView]) -> str:
    """Render the answer to the form."""
    return _environment().get_template("answer.html.j2").render(
        q=question,
        models=models,
        formats=FORMATS,
        explain=lambda model, gpu, kind: address(question, explain=f"{model.identity}/{gpu}/{kind}"),
        everything=address(question, every=True),
        close=address(question, explain=""),
        report=_report_address,
        plan=_plan_address,
    )  # fmt: skip


def render_template(name: str, **values: Any) -> str:
    """Render another template of the page."""
    return _environment().get_template(name).render(version=__version__, **values)


def _shared_pairs(question: PageQuestion, model: str) -> list[tuple[str, str]]:
    """Return what a link to the API takes from the form."""
    pairs = [(name, value) for name, value in question.options.items() if value and value != usual_words(name)]
    return [("model", model), *pairs]


def _report_address(question: PageQuestion, model: str, spelling: str) -> str:
    shared = [(name, value) for name, value in _shared_pairs(question, model) if name in _OF_REPORTS]
    pairs = [*shared, ("batches", str(question.batch)), ("format", spelling), ("download", "1")]
    return f"/api/v1/report?{urlencode(pairs)}"


def _plan_address(question: PageQuestion, model: str, spelling: str) -> str:
    pairs = [*_shared_pairs(question, model), ("batches", str(question.batch))]
    return f"/api/v1/plan?{urlencode([*pairs, ('format', spelling), ('download', '1')])}"


_OF_REPORTS = ("model", "precision", "framework", "layout", "seq_len", "gpus", "providers")
"""The fields of the form that a report takes, too."""
