"""The form about served language models: memory and times over concurrency, or deployments for a load."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from markupsafe import Markup

from capplan.core.numbers import Interval
from capplan.errors import CapplanError, UsageError
from capplan.llm.core.fleet.deployment_plan import DeploymentFit, DeploymentPlan
from capplan.llm.core.search.room import OversizeError
from capplan.llm.core.serving.asked import MOST_CLIENTS
from capplan.llm.core.serving.estimate import ServingEstimate, ServingPoint
from capplan.report.render import render
from capplan.report.sections import Column, Format, Section, figure, shape_columns, words
from capplan.report.text.llm.money import launch_blocks, money_lines
from capplan.report.text.llm.plan import disaggregation_line, headline, nearest_rejections, plan_columns, why_rejected
from capplan.serve.page.explain import Explained
from capplan.serve.page.question import SERVING_FORM, LlmPageQuestion
from capplan.serve.page.render import render_template
from capplan.serve.page.serving_explain import explain_fit, explain_times
from capplan.serve.page.svg import StackedBar, bars_svg, interval_mark, intervals_svg
from capplan.serve.planning.answer import TaskContext, derive
from capplan.serve.planning.messages import Reply
from capplan.serve.questions import question_link
from capplan.shapes.llm_memory import llm_memory_document
from capplan.shapes.llm_serving import POINT, shared_words
from capplan.shapes.types import LlmMemoryDocument
from capplan.units import format_bytes, format_parameters, format_rate, format_seconds
from capplan.verbs.llm.estimate import LLM_ESTIMATE, LlmEstimateQuestion, answer_llm_estimate
from capplan.verbs.llm.fields import names_of
from capplan.verbs.llm.memory import LlmMemoryQuestion, answer_llm_memory
from capplan.verbs.llm.plan import LLM_PLAN, answer_llm_plan
from capplan.verbs.statement.fields import from_fields
from capplan.verbs.statement.read import command_of

DEFAULT_GPUS = ("h100-sxm5-80gb", "l40s")
MOST_GPUS = 4
_SHOWN_CLIENTS = (1, 8, 32, 128, 256)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What is shown of one GPU; `remedy` is what would hold a model that does not fit, and the address of that."""

    gpu: str
    error: str = ""
    remedy: tuple[str, str] = ("", "")
    memory: LlmMemoryDocument | None = None
    estimate: ServingEstimate | None = None


@derive.register
def _llm_page(question: LlmPageQuestion, case: TaskContext) -> Reply:
    html = (render_deployments if question.find == "deployments" else _render_times)(question, case)
    return case.spell({"html": lambda: html}, word_of=SERVING_FORM.word_of)


def _render_times(question: LlmPageQuestion, case: TaskContext) -> str:
    """Lay out the memory and the times of one replica on each GPU as HTML."""
    gpus = names_of(SERVING_FORM.question(LLM_PLAN, question).gpus) or DEFAULT_GPUS
    if len(gpus) > MOST_GPUS:
        raise UsageError(f"times are shown for up to {MOST_GPUS} GPUs; name fewer, or search for deployments.")
    served = [_served(question, gpu, case) for gpu in gpus]
    estimates = [answer.estimate for answer in served if answer.estimate is not None]
    memories = [answer.memory for answer in served if answer.memory is not None]
    return render_template(
        "llm_answer.html.j2",
        model=question.options["model"],
        has_load=any(name in question.options for name in ("rate", "concurrency")),
        served=served,
        described=_described,
        columns=_times,
        shown=_SHOWN_CLIENTS,
        explained=_explained(question, case),
        explain=lambda gpu, clients, kind: SERVING_FORM.address(question, explain=f"{gpu}/{clients}/{kind}"),
        close=SERVING_FORM.address(question, explain=""),
        memory=_memory_bars(memories) if memories else Markup(""),
        tpot=_chart(estimates, "tpot"),
        ttft=_chart(estimates, "ttft"),
        tokens=_chart(estimates, "tokens"),
        names=[estimate.gpu for estimate in estimates],
        parts=list(_PARTS.values()),
        search=SERVING_FORM.address(question, find="deployments", explain="", gpus="", tp="", pp="", ep="", dp=""),
    )


def _memory_of(asked: LlmEstimateQuestion) -> LlmMemoryQuestion:
    """Return the question about memory of the replica whose times are asked for, for requests of the mean length."""
    return from_fields(LlmMemoryQuestion, asked, max_len=asked.input_len + asked.output_len)


def _served(question: LlmPageQuestion, gpu: str, case: TaskContext) -> Served:
    asked = SERVING_FORM.question(LLM_ESTIMATE, question, gpu=gpu)
    try:
        memory = answer_llm_memory(_memory_of(asked), case)
    except CapplanError as error:
        return Served(gpu=gpu, error=str(error))
    try:
        estimate = answer_llm_estimate(asked, case)
    except CapplanError as error:
        return Served(
            gpu=gpu,
            error=str(error),
            remedy=_remedy(error, question),
            memory=llm_memory_document(memory),
        )
    return Served(gpu=gpu, memory=llm_memory_document(memory), estimate=estimate)


def _remedy(error: CapplanError, question: LlmPageQuestion) -> tuple[str, str]:
    tensor = error.tensor if isinstance(error, OversizeError) else None
    return (f"{tensor} GPUs per replica", SERVING_FORM.address(question, tp=tensor)) if tensor else ("", "")


def _explained(question: LlmPageQuestion, case: TaskContext) -> Explained | None:
    """Return what explains the figure that the address names as GPU/CLIENTS/KIND; None where it names none."""
    gpu, _, rest = question.explain.partition("/")
    clients, _, kind = rest.partition("/")
    if not question.explain:
        return None
    if not (clients.isascii() and clients.isdecimal() and 0 < int(clients) <= MOST_CLIENTS):
        raise UsageError(f"explain {question.explain[:60]!r}: write GPU/CLIENTS/FIGURE, such as l40s/32/tpot.")
    asked = SERVING_FORM.question(LLM_ESTIMATE, question, gpu=gpu, concurrency=[int(clients)])
    return explain_times(kind, answer_llm_estimate(asked, case), answer_llm_memory(_memory_of(asked), case))


def _described(served: Served) -> tuple[str, str, list[str]]:
    """Return the answer for a GPU in a sentence, the facts that it rests on, and the notes; nothing without one."""
    held, estimate = served.memory, served.estimate
    if held is None or estimate is None:
        return "", "", []
    last = estimate.points[-1]
    sentence = (
        f"{held.gpus} × {served.gpu}: room for {held.sequences_that_fit:,} sequences of {held.sequence_tokens:,} "
        f"tokens; {format_rate(last.output_tokens_per_s.expected)} tokens/s at {last.concurrency:,} clients."
    )
    facts = (
        f"{format_parameters(estimate.params)} parameters, {format_parameters(estimate.active_params)} per token · "
        f"{estimate.weights} weights, {estimate.kv} cache · tp {estimate.sharding.tensor} · {estimate.engine}"
    )
    return sentence, facts, list(dict.fromkeys((*held.notes, *estimate.notes)))


def _times(estimate: ServingEstimate) -> list[Column[ServingPoint]]:
    """Return the columns of the table over clients; those with a name are explained by it."""
    return [
        figure("time to first token", lambda point: point.ttft_s, _with_ends, name="ttft"),
        figure("time per token", lambda point: point.tpot_s, _with_ends, name="tpot"),
        figure("tokens/s", lambda point: point.output_tokens_per_s.expected, format_rate, name="tokens"),
        *shape_columns(POINT, estimate.points, whole=estimate),
    ]


def _with_ends(time_s: Interval) -> str:
    return f"{format_seconds(time_s.expected)} ({format_seconds(time_s.low)} … {format_seconds(time_s.high)})"


_PARTS = {
    "weights_bytes": "weights",
    "kv_pool_bytes": "KV cache",
    "activation_bytes": "activations",
    "other_bytes": "context and libraries",
    "graph_bytes": "CUDA graphs",
}


def _memory_bars(documents: Sequence[LlmMemoryDocument]) -> Markup:
    bars = [
        StackedBar(
            name=held.gpu,
            parts=[
                (index, float(size), f"{name}: {format_bytes(size)}")
                for index, (field, name) in enumerate(_PARTS.items())
                if (size := getattr(held, field)) > 0
            ],
            limit=float(held.gpu_bytes),
            limit_tip=f"usable: {format_bytes(held.gpu_bytes)}",
            note=f"{held.sequences_that_fit:,} seqs" if held.fits else "does not fit",
        )
        for held in documents
    ]
    return bars_svg(bars, identity="llm-memory", title="Memory of one GPU by part, against usable memory")


_CHARTS: Mapping[str, tuple[str, Callable[[float], str], Callable[[ServingPoint], Interval]]] = {
    "tpot": ("Time per output token", format_seconds, lambda point: point.tpot_s),
    "ttft": ("Time to first token", format_seconds, lambda point: point.ttft_s),
    "tokens": ("Output tokens per second", format_rate, lambda point: point.output_tokens_per_s),
}


def _chart(estimates: Sequence[ServingEstimate], what: str) -> Markup:
    title, spell, interval_of = _CHARTS[what]
    curves = [
        (
            estimate.gpu,
            [
                interval_mark(
                    point.concurrency,
                    interval_of(point),
                    tip=f"{estimate.gpu}, {point.concurrency:,} clients: {spell(interval_of(point).expected)}",
                )
                for point in estimate.points
            ],
        )
        for estimate in estimates
    ]
    over = f"{title} over clients, with intervals"
    return intervals_svg(curves, x="clients", y=title, spell=spell, identity=f"llm-{what}", title=over)


SHOWN = 12
FORMATS = {"json": "JSON", "csv": "CSV", "md": "Markdown", "table": "Text"}


def render_deployments(question: LlmPageQuestion, case: TaskContext) -> str:
    """Search the deployments that a form asks for, and lay them out as HTML."""
    asked = SERVING_FORM.question(LLM_PLAN, question)
    search = answer_llm_plan(asked, case)
    plan = search.plan
    nearest = nearest_rejections(plan)
    return render_template(
        "llm_deployments.html.j2",
        model=asked.model,
        headline=headline(plan),
        fits=plan.fits[:SHOWN],
        columns=_deployment_columns(plan),
        shared=shared_words,
        times=partial(_times_of, question),
        lines=lambda fit: explain_fit(fit, plan.load),
        hidden=max(0, len(plan.fits) - SHOWN),
        money=list(money_lines(search)),
        apart=disaggregation_line(plan) if plan.fits else "",
        rejections=[(gpu, why_rejected(rejection)) for gpu, rejection in nearest.items()],
        launch="" if search.launch is None else render([Section(launch_blocks(search.launch))], Format.TABLE),
        notes=list(dict.fromkeys((*plan.assumptions, *plan.notes))),
        downloads={
            name: question_link("llm/plan", asked, format=spelling, download="1") for spelling, name in FORMATS.items()
        },
        command=command_of(LLM_PLAN, asked),
    )


_HEADINGS = {
    "TTFT": "first token",
    "TTFT p99": "p99",
    "TPOT": "per token",
    "TPOT p99": "p99",
    "max req/s": "most req/s",
}
"""Headings of the page where those of other tables differ."""
_ELSEWHERE = ("GPU", "GPUs", "per GPU", "per user")
"""Columns of other tables that the page shows in another way, or in its downloads alone."""


def _deployment_columns(plan: DeploymentPlan) -> list[Column[DeploymentFit]]:
    """Return the columns of the table of deployments, which begins with the GPU."""
    replicas: Column[DeploymentFit] = words("replicas × GPUs", lambda fit: f"{fit.replicas} × {fit.sharding.gpus}")
    return [
        replicas if column.title == "replicas" else replace(column, title=_HEADINGS.get(column.title, column.title))
        for column in plan_columns(plan)
        if column.title is not None and column.title not in _ELSEWHERE
    ]


def _times_of(question: LlmPageQuestion, fit: DeploymentFit) -> str:
    """Return the address of the times over clients of one replica."""
    sharding = fit.sharding
    return SERVING_FORM.address(
        question, find="times", explain="", gpus=fit.gpu, engine=fit.engine, weights=fit.weights,
        tp=sharding.tensor, pp=sharding.pipeline, ep=sharding.expert, dp=sharding.data,
    )  # fmt: skip
