"""The search for deployments of a language model that carry a load, laid out for the page."""

from dataclasses import dataclass

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
from capplan.serve.page.question import by_serving_labels, form_address
from capplan.serve.page.render import render_template
from capplan.serve.page.serving.explain import explain_fit
from capplan.serve.planning.answer import TaskContext
from capplan.serve.questions import LlmPageQuestion, question_link
from capplan.units import format_rate, format_seconds
from capplan.verbs.llm.plan import LLM_PLAN, LlmPlanQuestion, answer_llm_plan
from capplan.verbs.statement.options import Door
from capplan.verbs.statement.read import command_of, read_question

SHOWN = 12
FORMATS = {"json": "JSON", "csv": "CSV", "md": "Markdown", "table": "Text"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentRow:
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


def render_deployments(question: LlmPageQuestion, case: TaskContext) -> str:
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
        rejections=[(gpu, by_serving_labels(why_rejected(each), LLM_PLAN.fields)) for gpu, each in nearest.items()],
        launch="" if found.launch is None else render([Section(launch_blocks(found.launch))], Format.TABLE),
        notes=[by_serving_labels(note, LLM_PLAN.fields) for note in dict.fromkeys((*plan.assumptions, *plan.notes))],
        downloads={name: plan_address(question, spelling) for spelling, name in FORMATS.items()},
        command=command_of(LLM_PLAN, asked),
    )


def plan_question(question: LlmPageQuestion) -> LlmPlanQuestion:
    """Return the search that a form asks for.

    Args:
        question: the form.

    Raises:
        UsageError: a field of the form cannot be read.
    """
    asked = {
        "model": question.model,
        "rate": question.rate,
        "concurrency": None if question.rate else question.clients,
        "input_len": question.input_len,
        "output_len": question.output_len,
        "max_ttft": question.max_ttft,
        "max_tpot": question.max_tpot,
        "percentile": question.percentile,
        "gpus": question.gpus,
        "engines": [] if question.engine == "any" else [question.engine],
        "weights": question.weights,
        "kv": question.kv,
        "tp": [question.tp] if question.tp > 1 else [],
        "redundancy": question.redundancy,
    }
    given = {name: value for name, value in asked.items() if value not in (None, "", [])}
    return read_question(LlmPlanQuestion, given, door=Door.HTTP)


def plan_address(question: LlmPageQuestion, spelling: str) -> str:
    """Return where the API gives the same answer in a format.

    Args:
        question: the form.
        spelling: the format.
    """
    link = question_link("llm/plan", plan_question(question), format=spelling, download="1")
    assert link is not None, "a form holds plain values"
    return link


def _deployment(fit: DeploymentFit, plan: DeploymentPlan, question: LlmPageQuestion) -> DeploymentRow:
    seen, cost = fit.simulated, fit.usd_per_million_output_tokens
    return DeploymentRow(
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
            question, find="times", gpus=(fit.gpu,), tp=fit.sharding.tensor, engine=fit.engine, weights=fit.weights,
            explain="",
        ),
        lines=tuple(explain_fit(fit, plan.load)),
    )  # fmt: skip
