"""Render the page and its answers from templates."""

from collections import Counter
from dataclasses import replace
from functools import cache, partial
from typing import Any
from urllib.parse import urlencode

import jinja2

from capplan.report.pages.html import environment_of
from capplan.serve.page.question import MOST_MODELS, PLAN_FORM, PageQuestion
from capplan.serve.page.view import EXPLAINED, ComparisonCharts, ModelView, compare, key_figures, view_model, why_taken
from capplan.serve.planning.answer import TaskContext, derive
from capplan.serve.planning.messages import Reply
from capplan.serve.planning.naming import CONFIG_PREFIX, FILE_PREFIX, TRACE_PREFIX
from capplan.verbs.report import ReportQuestion
from capplan.verbs.statement.options import Door, fields_of
from capplan.version import __version__

FORMATS = {"html": "Web page", "pdf": "PDF", "xlsx": "Workbook", "md": "Markdown", "csv": "CSV", "json": "JSON"}


_EXAMPLES = {
    "model=torchvision:resnet50": "resnet50",
    "model=timm:vit_base_patch16_224&precision=fp16": "ViT-B/16 in fp16",
    "model=hf:bert&seq_len=128": "BERT, 128 tokens",
    "model=torchvision:resnet50&model=torchvision:mobilenet_v3_large": "two models side by side",
}.items()
"""Questions that the first page offers: the query of each, and what its button says."""


@cache
def _environment() -> jinja2.Environment:
    environment = environment_of("capplan.serve.page")
    environment.globals["bool"] = bool
    return environment


def render_page(q: PageQuestion, **state: Any) -> str:
    """Render the page about any model with its form and answer."""
    spare = len(q.models) < MOST_MODELS
    return render_template("page.html.j2", q=q, form=PLAN_FORM, spare=spare, examples=_EXAMPLES, **state)


def render_answer(question: PageQuestion, models: list[ModelView], comparison: ComparisonCharts | None) -> str:
    """Render the answer to the form."""
    return render_template(
        "answer.html.j2",
        q=question,
        models=models,
        comparison=comparison,
        formats=FORMATS,
        explain=lambda model, gpu, kind: PLAN_FORM.address(question, explain=f"{model.identity}/{gpu}/{kind}"),
        everything=PLAN_FORM.address(question, every=True),
        close=PLAN_FORM.address(question, explain=""),
        why_taken=why_taken,
        key_figures=key_figures,
        explained=EXPLAINED,
        report=partial(_address, "report"),
        plan=partial(_address, "plan"),
    )


def render_template(name: str, **values: Any) -> str:
    """Render a template of the page."""
    return _environment().get_template(name).render(version=__version__, **values)


def _address(asked: str, question: PageQuestion, model: str, spelling: str) -> str:
    """Return the link to the API that writes the plan or report of one of the form's models in a format."""
    options = question.options
    if asked == "report":
        options = {name: value for name, value in options.items() if name in _of_reports()}
    words = {"model": model, **options, "batches": str(question.batch), "format": spelling, "download": "1"}
    return f"/api/v1/{asked}?{urlencode(words)}"


@cache
def _of_reports() -> frozenset[str]:
    """Return the names of the form's fields that a report takes, too."""
    taken = {field.name for field in fields_of(ReportQuestion) if field.option.doors & Door.HTTP}
    return frozenset(name for name, field in PLAN_FORM.fields.items() if field.name in taken)


@derive.register
def _page(question: PageQuestion, case: TaskContext) -> Reply:
    case.may_lack_hints = True
    answered = [
        view_model(question, words, case, identity=f"m{index}") for index, words in enumerate(question.models, start=1)
    ]
    names = Counter(view.name for view, _ in answered)
    views = [replace(view, name=_own_name(view)) if names[view.name] > 1 else view for view, _ in answered]
    planned = [replace(model, name=view.name) for view, (_, model) in zip(views, answered, strict=True) if model]
    html = render_answer(question, views, compare(planned, batch=question.batch))
    return case.spell({"html": lambda: html}, word_of=PLAN_FORM.word_of)


def _own_name(view: ModelView) -> str:
    """Return a name of a model that no other model of the page has."""
    is_own = view.words.startswith((TRACE_PREFIX, CONFIG_PREFIX, FILE_PREFIX))
    return f"{view.name}, model {view.identity.removeprefix('m')}" if is_own else view.words
