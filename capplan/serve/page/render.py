"""Render the page and its answers from templates."""

from functools import cache
from typing import Any
from urllib.parse import urlencode

import jinja2

from capplan.core.workload import Framework, Layout, Precision
from capplan.serve.page.question import MOST_MODELS, PageQuestion, address
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
        precisions=[each.value for each in Precision],
        frameworks=[each.value for each in Framework],
        layouts=[each.value for each in Layout],
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
    given = {
        "model": model,
        "precision": question.precision,
        "framework": "" if question.framework == "eager" else question.framework,
        "layout": "" if question.layout == "nchw" else question.layout,
        "seq_len": question.seq_len,
        "gpus": ",".join(question.gpus),
        "providers": ",".join(question.providers),
    }
    return [(name, str(value)) for name, value in given.items() if value]


def _report_address(question: PageQuestion, model: str, spelling: str) -> str:
    pairs = [*_shared_pairs(question, model), ("batches", str(question.batch)), ("format", spelling), ("download", "1")]
    return f"/api/v1/report?{urlencode(pairs)}"


def _plan_address(question: PageQuestion, model: str, spelling: str) -> str:
    limit = [("max_latency", question.max_latency)] if question.max_latency else []
    price = [("max_price", f"{question.max_price:g}")] if question.max_price else []
    pairs = [*_shared_pairs(question, model), ("batches", str(question.batch)), *limit, *price]
    return f"/api/v1/plan?{urlencode([*pairs, ('sort', question.sort), ('format', spelling), ('download', '1')])}"
