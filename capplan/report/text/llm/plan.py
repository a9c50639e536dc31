"""Plans of LLM serving for people: the short answer, a table, what else was compared, and what was assumed."""

from capplan.llm.core.fleet.deployment_plan import (
    DeploymentFit,
    DeploymentPlan,
    DeploymentRejection,
    Obstacle,
    load_front,
)
from capplan.llm.core.fleet.token_load import Task, TokenLoad
from capplan.llm.core.sharding import Sharding
from capplan.report.table import Table, render_csv, render_markdown, render_text, table
from capplan.units import counted, format_fraction, format_rate, format_seconds

SHOWN = 10
_REJECTED_GPUS = 5


def plan_text(plan: DeploymentPlan, *, everything: bool) -> str:
    """Lay a plan out for the terminal: the recommendation, the best deployments, and why GPUs carry nothing."""
    parts = [f"{headline(plan)}\n{_cheaper(plan)}\n"]
    if plan.fits:
        parts.append(render_text(plan_table(plan, most=None if everything else SHOWN)))
        hidden = len(plan.fits) - SHOWN
        if hidden > 0 and not everything:
            parts.append(f"{hidden} more deployments carry the load; --all shows them.\n")
        parts.append(f"\n{disaggregation_line(plan)}\n")
        if everything:
            parts += [
                "\nOutput tokens/s per GPU against per user, the best of all loads\n",
                render_text(front_table(plan)),
            ]
    parts += _rejected(plan, everything=everything)
    parts += [f"  · {each}\n" for each in (*plan.assumptions, *plan.notes)]
    return "".join(parts)


def plan_markdown(plan: DeploymentPlan) -> str:
    """Write a plan as Markdown."""
    notes = "".join(f"- {each}\n" for each in (*plan.assumptions, *plan.notes))
    return f"{headline(plan)}\n\n{render_markdown(plan_table(plan, most=None))}\n{notes}"


def plan_csv(plan: DeploymentPlan) -> str:
    """Write the deployments of a plan for a sheet."""
    return render_csv(plan_table(plan, most=None))


def load_words(load: TokenLoad) -> str:
    """Return a load in words: how many requests of which lengths."""
    many = f"{load.rate_per_s:g} requests/s" if load.concurrency is None else f"{load.concurrency:g} clients"
    if load.task is Task.EMBED:
        return f"{many} of {load.input_len:g} tokens to embed"
    if load.task is Task.RERANK:
        return f"{many} of {load.documents} documents to rank, {load.input_len:g} tokens each"
    pictures = f", {load.images.count} images among them" if load.images else ""
    return f"{many} of {load.input_len:g} tokens in{pictures}, {load.output_len:g} out"


def headline(plan: DeploymentPlan) -> str:
    """Return the recommendation in one sentence, or why there is none."""
    best, asked = plan.recommended, f"{plan.model} at {load_words(plan.load)}"
    if best is None:
        return f"No deployment searched carries {asked} within the limits: {plan.advice}"
    generates = plan.load.task is Task.GENERATE
    cost = best.usd_per_million_output_tokens if generates else best.usd_per_million_tokens
    kind = "output tokens" if generates else "tokens"
    money = f": {best.usd_per_hour:,.2f} USD/h, {cost:.3g} USD per million {kind}" if cost else ""
    spare = best.replicas - best.needed
    redundancy = f" ({best.needed} needed, {spare} spare)" if spare else ""
    return (
        f"{asked}: {best.gpu}, {best.words}{redundancy}, {shared_words(best.sharding)}, "
        f"{best.engine}, weights {best.weights}. {offer_words(best)}{money}."
    )


def offer_words(fit: DeploymentFit) -> str:
    """Return the machines that are rented, such as "Rent 2 × aws g6.12xlarge, us-east-1 (8 GPUs)"."""
    rent, machines = fit.rent, fit.machines
    if rent is None or machines is None:
        return "No offer of the price list holds it"
    held = machines * rent.machine_gpus
    unused = f", {held - fit.gpus} unused" if held > fit.gpus else ""
    return f"Rent {machines} × {rent.words} ({counted(held, 'GPU')}{unused}; {rent.known_by or rent.tier}, {rent.day})"


def shared_words(sharding: Sharding) -> str:
    """Return how the GPUs of a replica share the model, such as "TP 4, PP 2"."""
    named = (("TP", sharding.tensor), ("PP", sharding.pipeline), ("EP", sharding.expert), ("DP", sharding.data))
    return ", ".join(f"{name} {size}" for name, size in named if size > 1) or "TP 1"


def _cheaper(plan: DeploymentPlan) -> str:
    other, best = plan.cheaper, plan.recommended
    if other is None or best is None or other.usd_per_hour is None or best.usd_per_hour is None:
        return ""
    saving = format_fraction(1 - other.usd_per_hour / best.usd_per_hour)
    return f"{other.gpus} × {other.gpu} would be {saving} cheaper, on weaker evidence: {other.evidence}.\n"


def disaggregation_line(plan: DeploymentPlan) -> str:
    """Return how separate prefill and decode replicas compare with the recommended deployment, in one line."""
    best = plan.recommended
    if not plan.disaggregated or best is None:
        return "Separate prefill and decode replicas were not compared: no load at a rate, or none keeps the limits."
    split = plan.disaggregated[0]
    price = f"{split.usd_per_hour:,.2f} USD/h" if split.usd_per_hour is not None else "no known price"
    verdict = ""
    if split.usd_per_hour is not None and best.usd_per_hour is not None:
        change = split.usd_per_hour / best.usd_per_hour - 1
        verdict = f", {format_fraction(abs(change))} {'more' if change >= 0 else 'less'} than together"
    times = f"TTFT {format_seconds(split.ttft_s)}, TPOT {format_seconds(split.tpot_s)}"
    moved = format_seconds(split.transfer_s)
    return f"Prefill and decode apart: {split.gpu}, {split.words}, cache moved in {moved}, {times}, {price}{verdict}."


def _rejected(plan: DeploymentPlan, *, everything: bool) -> list[str]:
    gpus = plan.gpus_without_fit
    if not plan.rejections or not (gpus or everything):
        return []
    nearest = nearest_rejections(plan)
    shown = list(nearest) if everything or not plan.fits else list(nearest)[:_REJECTED_GPUS]
    parts = [f"\n{len(gpus)} GPUs do not carry it:\n"] if gpus else []
    parts += [f"  {gpu}: {why_rejected(nearest[gpu])}\n" for gpu in shown]
    if len(shown) < len(gpus):
        parts.append(f"  {len(gpus) - len(shown)} more; --all shows them.\n")
    if everything:
        heads = "GPU|shared|engine|weights|why it fails|what would rescue it"
        rows = [
            (each.gpu, shared_words(each.sharding), each.engine, each.weights or "", each.reason, each.rescue or "")
            for each in plan.rejections
        ]
        parts += [f"\n{len(rows)} deployments fail\n", render_text(table(heads, rows))]
    return parts


def nearest_rejections(plan: DeploymentPlan) -> dict[str, DeploymentRejection]:
    """Return the rejection that came nearest of each GPU that carries nothing."""
    return {gpu: _nearest(plan, gpu) for gpu in plan.gpus_without_fit}


def _nearest(plan: DeploymentPlan, gpu: str) -> DeploymentRejection:
    """Return the rejection of a GPU that came nearest: a broken limit before memory, the least time first."""
    of_gpu = [each for each in plan.rejections if each.gpu == gpu]
    return min(of_gpu, key=lambda each: (_ORDER[each.obstacle], each.least_s or 0.0, _distance(each)))


_ORDER = {Obstacle.LIMIT: 0, Obstacle.MEMORY: 1, Obstacle.SETTING: 2}


def _distance(each: DeploymentRejection) -> int:
    """Return the order of rejections alike: the largest replica that lacks memory, the smallest of other settings."""
    return -each.sharding.gpus if each.obstacle is Obstacle.MEMORY else each.sharding.gpus


def why_rejected(each: DeploymentRejection) -> str:
    """Return why a deployment fails, and what would rescue it."""
    rescue = f"; would do: {each.rescue}" if each.rescue else ""
    return f"{shared_words(each.sharding)}: {each.reason.rstrip('.')}{rescue}"


def plan_table(plan: DeploymentPlan, *, most: int | None) -> Table:
    """Lay the deployments of a plan out, the best first; tasks without tokens to decode have no TPOT."""
    generates = plan.load.task is Task.GENERATE
    first = "GPU|replicas>|shared|GPUs>|engine|weights|"
    middle = "TTFT>|p99>|TPOT>|p99>|max req/s>|per GPU>|per user>" if generates else "latency>|p99>|max req/s>"
    heads = f"{first}{middle}|USD/h>|USD/M tokens>|evidence"
    return table(heads, [_row(fit, generates=generates) for fit in plan.fits[:most]])


def _row(fit: DeploymentFit, *, generates: bool) -> tuple[str, ...]:
    simulated = fit.simulated
    cost = fit.usd_per_million_output_tokens if generates else fit.usd_per_million_tokens
    first = format_seconds(fit.ttft_s.expected), format_seconds(simulated.ttft_s.p99) if simulated else ""
    gaps = format_seconds(fit.tpot_s.expected), format_seconds(simulated.tpot_s.p99) if simulated else ""
    speeds = format_rate(fit.output_tokens_per_s_per_gpu), format_rate(fit.output_tokens_per_s_per_user)
    return (
        fit.gpu,
        str(fit.replicas),
        shared_words(fit.sharding),
        str(fit.gpus),
        fit.engine,
        fit.weights,
        *first,
        *(gaps if generates else ()),
        format_rate(fit.max_rate_per_s * fit.replicas),
        *(speeds if generates else ()),
        f"{fit.usd_per_hour:,.2f}" if fit.usd_per_hour is not None else "",
        f"{cost:.3g}" if cost is not None else "",
        fit.evidence.partition(":")[0],
    )


def front_table(plan: DeploymentPlan) -> Table:
    """Lay out the points that no other beats in tokens per second per GPU and per user."""
    rows = [
        (
            point.fit.gpu,
            shared_words(point.fit.sharding),
            point.fit.engine,
            point.fit.weights,
            f"{point.running:.0f}",
            format_rate(point.per_user),
            format_rate(point.per_gpu),
        )
        for point in load_front(plan.fits)
    ]
    return table("GPU|shared|engine|weights|running>|per user>|per GPU>", rows)
