"""The search for deployments of a language model that carry a load, laid out for the page."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from capplan.llm.core.fleet.deployment_plan import DeploymentFit, DeploymentPlan
from capplan.report.render import render
from capplan.report.sections import Format, Section
from capplan.report.text.llm.money import launch_blocks, money_lines
from capplan.report.text.llm.plan import (
    disaggregation_line,
    headline,
    nearest_rejections,
    shared_words,
    why_rejected,
)
from capplan.serve.page.question import form_address
from capplan.serve.page.render import render_template
from capplan.serve.page.serving.explain import explain_fit
from capplan.serve.planning.answer import Case
from capplan.serve.planning.llm import answer_llm_plan
from capplan.serve.questions.llm import LlmPageQuestion, LlmPlanQuestion
from capplan.units import format_rate, format_seconds

SHOWN = 12
FORMATS = {"json": "JSON", "csv": "CSV", "md": "Markdown", "table": "Text"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """One deployment of the table, as text; `lines` say where its figures come from."""

    gpu: str
    words: str
    shared: str
    engine: str
    weights: str
    ttft: str
    ttft_p99: str
    tpot: str
    tpot_p99: str
    most: str
    price: str
    cost: str
    evidence: str
    times: str
    lines: tuple[str, ...]


def render_deployments(question: LlmPageQuestion, case: Case) -> str:
    """Search the deployments that a form asks for, and lay them out as HTML.

    Args:
        question: the form.
        case: the task, with its data.

    Raises:
        CapplanError: a name is not known, or no load is stated.
    """
    asked = plan_question(question)
    found = answer_llm_plan(asked, case)
    plan = found.plan
    nearest = nearest_rejections(plan)
    return render_template(
        "llm_deployments.html.j2",
        q=question,
        headline=headline(plan),
        found=[_deployment(fit, plan, question) for fit in plan.fits[:SHOWN]],
        hidden=max(0, len(plan.fits) - SHOWN),
        money=list(money_lines(found)),
        apart=disaggregation_line(plan) if plan.fits else "",
        rejections=[(gpu, why_rejected(each)) for gpu, each in nearest.items()],
        launch="" if found.launch is None else render([Section(launch_blocks(found.launch))], Format.TABLE),
        notes=list(dict.fromkeys((*plan.assumptions, *plan.notes))),
        downloads={name: plan_address(question, spelling) for spelling, name in FORMATS.items()},
        command=_command(asked),
    )


def plan_question(question: LlmPageQuestion) -> LlmPlanQuestion:
    """Return the search that a form asks for.

    Args:
        question: the form.
    """
    return LlmPlanQuestion(
        model=question.model,
        rate=question.rate,
        concurrency=None if question.rate else question.clients,
        input_len=question.input_len,
        output_len=question.output_len,
        max_ttft=question.max_ttft or None,
        max_tpot=question.max_tpot or None,
        percentile=question.percentile,
        gpus=question.gpus,
        engines=[question.engine] if question.engine != "any" else [],
        weights=[each.strip() for each in question.weights.split(",") if each.strip()],
        kv=question.kv or None,
        tp=[question.tp] if question.tp > 1 else [],
        redundancy=question.redundancy,
    )


def plan_address(question: LlmPageQuestion, spelling: str) -> str:
    """Return where the API gives the same answer in a format.

    Args:
        question: the form.
        spelling: the format.
    """
    asked = plan_question(question)
    pairs = {
        "model": asked.model, "rate": _number(asked.rate), "concurrency": _number(asked.concurrency),
        "input_len": asked.input_len, "output_len": asked.output_len, "max_ttft": asked.max_ttft,
        "max_tpot": asked.max_tpot, "percentile": asked.percentile, "gpus": ",".join(asked.gpus),
        "engines": ",".join(asked.engines), "weights": ",".join(asked.weights), "kv": asked.kv,
        "tp": ",".join(map(str, asked.tp)), "redundancy": asked.redundancy or "",
    }  # fmt: skip
    given = {name: value for name, value in pairs.items() if value}
    return f"/api/v1/llm/plan?{urlencode({**given, 'format': spelling, 'download': '1'})}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _deployment(fit: DeploymentFit, plan: DeploymentPlan, question: LlmPageQuestion) -> Deployment:
    seen, cost = fit.simulated, fit.usd_per_million_output_tokens
    return Deployment(
        gpu=fit.gpu,
        words=f"{fit.replicas} × {fit.sharding.gpus}",
        shared=shared_words(fit.sharding),
        engine=fit.engine,
        weights=fit.weights,
        ttft=format_seconds(fit.ttft_s.expected),
        ttft_p99="" if seen is None else format_seconds(seen.ttft_s.p99),
        tpot=format_seconds(fit.tpot_s.expected),
        tpot_p99="" if seen is None else format_seconds(seen.tpot_s.p99),
        most=format_rate(fit.max_rate_per_s * fit.replicas),
        price="unknown" if fit.usd_per_hour is None else f"{fit.usd_per_hour:,.2f}",
        cost="unknown" if cost is None else f"{cost:.3g}",
        evidence=fit.evidence.partition(":")[0],
        times=form_address(
            question, find="times", gpus=[fit.gpu], tp=fit.sharding.tensor, engine=fit.engine, weights=fit.weights,
            explain="",
        ),
        lines=tuple(explain_fit(fit, plan.load)),
    )  # fmt: skip


def _command(asked: LlmPlanQuestion) -> str:
    """Return the command that makes the same search."""
    options = {
        "--rate": _number(asked.rate), "--concurrency": _number(asked.concurrency), "--input-len": asked.input_len,
        "--output-len": asked.output_len, "--max-ttft": asked.max_ttft, "--max-tpot": asked.max_tpot,
        "--percentile": "" if asked.percentile == "mean" else asked.percentile, "--kv": asked.kv,
        "--redundancy": asked.redundancy or "",
    }  # fmt: skip
    repeated: dict[str, Sequence[object]] = {
        "--gpu": asked.gpus, "--engine": asked.engines, "--weights": asked.weights, "--tp": asked.tp,
    }  # fmt: skip
    words = ["capplan", "llm", "plan", asked.model]
    words += [str(word) for option, value in options.items() if value for word in (option, value)]
    words += [str(word) for option, values in repeated.items() for value in values for word in (option, value)]
    return shlex.join(words)
