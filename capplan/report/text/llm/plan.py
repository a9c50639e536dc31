"""Plans and simulations of LLM serving for people: the short answer, a table, and what was assumed."""

from capplan.core.llm.serving.deployment_plan import DeploymentFit, DeploymentPlan
from capplan.core.llm.serving.load_answer import LoadAnswer
from capplan.core.llm.serving.simulation import Simulation
from capplan.report.table import Table, render_csv, render_markdown, render_text, table
from capplan.units import format_fraction, format_rate, format_seconds

SHOWN = 10


def plan_text(plan: DeploymentPlan, *, everything: bool) -> str:
    """Lay a plan out for the terminal: the recommendation, the best deployments, and why GPUs carry nothing."""
    parts = [f"{_headline(plan)}\n{_cheaper(plan)}\n"]
    if plan.fits:
        parts.append(render_text(plan_table(plan, most=None if everything else SHOWN)))
        hidden = len(plan.fits) - SHOWN
        if hidden > 0 and not everything:
            parts.append(f"{hidden} more deployments carry the load; --all shows them.\n")
    if plan.rejections:
        shown = plan.rejections if everything or not plan.fits else plan.rejections[:5]
        parts.append(f"\n{len(plan.rejections)} GPUs do not carry it:\n")
        parts += [f"  {each.gpu}: {each.reason}\n" for each in shown]
    parts += [f"  · {each}\n" for each in plan.assumptions]
    return "".join(parts)


def plan_markdown(plan: DeploymentPlan) -> str:
    """Write a plan as Markdown."""
    notes = "".join(f"- {each}\n" for each in plan.assumptions)
    return f"{_headline(plan)}\n\n{render_markdown(plan_table(plan, most=None))}\n{notes}"


def plan_csv(plan: DeploymentPlan) -> str:
    """Write the deployments of a plan for a sheet."""
    return render_csv(plan_table(plan, most=None))


def _headline(plan: DeploymentPlan) -> str:
    best, load = plan.recommended, plan.load
    asked = f"{plan.model} at {load.rate_per_s:g} requests/s of {load.input_len:g} tokens in, {load.output_len:g} out"
    if best is None:
        return f"No deployment searched carries {asked} within the limits."
    cost = best.usd_per_million_output_tokens(load)
    money = (
        f", {best.usd_per_hour:,.2f} USD/h, {cost:.3g} USD per million output tokens" if cost else ", no known price"
    )
    spare = best.replicas - best.needed
    redundancy = f" ({best.needed} needed, {spare} spare)" if spare else ""
    return (
        f"{asked}: {best.gpus} × {best.gpu} = {best.replicas} replicas{redundancy} × {best.sharding.gpus} GPUs, "
        f"{best.engine}, weights {best.weights}{money}."
    )


def _cheaper(plan: DeploymentPlan) -> str:
    other, best = plan.cheaper, plan.recommended
    if other is None or best is None or other.usd_per_hour is None or best.usd_per_hour is None:
        return ""
    saving = format_fraction(1 - other.usd_per_hour / best.usd_per_hour)
    return f"{other.gpus} × {other.gpu} would be {saving} cheaper, on weaker evidence: {other.evidence}.\n"


def plan_table(plan: DeploymentPlan, *, most: int | None) -> Table:
    """Lay the deployments of a plan out, the best first."""
    heads = "GPU|replicas>|TP>|GPUs>|weights|TTFT>|p99>|TPOT>|p99>|max req/s>|USD/h>|USD/M tokens>|evidence"
    return table(heads, [_row(fit, plan) for fit in plan.fits[:most]])


def _row(fit: DeploymentFit, plan: DeploymentPlan) -> tuple[str, ...]:
    simulated, cost = fit.simulated, fit.usd_per_million_output_tokens(plan.load)
    return (
        fit.gpu,
        str(fit.replicas),
        str(fit.sharding.tensor),
        str(fit.gpus),
        fit.weights,
        format_seconds(fit.ttft_s.expected),
        format_seconds(simulated.ttft_s.p99) if simulated else "",
        format_seconds(fit.tpot_s.expected),
        format_seconds(simulated.tpot_s.p99) if simulated else "",
        format_rate(fit.max_rate_per_s * fit.replicas),
        f"{fit.usd_per_hour:,.2f}" if fit.usd_per_hour is not None else "",
        f"{cost:.3g}" if cost is not None else "",
        fit.evidence.partition(":")[0],
    )


def simulation_text(found: Simulation) -> str:
    """Lay simulated loads out for the terminal."""
    head = (
        f"{found.model} on one replica of {found.gpus} × {found.gpu}, {found.engine}: "
        f"{found.sequences_that_fit:,.0f} sequences fit\n\n"
    )
    overload = [each for each in found.answers if not each.keeps_up]
    notes = ["TTFT from arrival to the first token; TPOT = (end to end − TTFT) ÷ (output tokens − 1)."]
    if overload:
        notes.append(f"From {overload[0].rate_per_s:.3g} requests/s on, work piles up: the replica is saturated.")
    return head + render_text(simulation_table(found)) + "".join(f"{note}\n" for note in notes)


def simulation_table(found: Simulation) -> Table:
    """Lay simulated loads out as a table."""
    heads = "req/s>|TTFT mean>|p50>|p90>|p99>|TPOT mean>|p99>|E2E mean>|p99>|tokens/s>|per GPU>|within limits>|keeps up"
    return table(heads, [_load_row(each, found.gpus) for each in found.answers])


def _load_row(each: LoadAnswer, gpus: int) -> tuple[str, ...]:
    return (
        f"{each.rate_per_s:.3g}",
        *(format_seconds(value) for value in (each.ttft_s.mean, each.ttft_s.p50, each.ttft_s.p90, each.ttft_s.p99)),
        *(format_seconds(value) for value in (each.tpot_s.mean, each.tpot_s.p99, each.e2e_s.mean, each.e2e_s.p99)),
        format_rate(each.output_tokens_per_s),
        format_rate(each.output_tokens_per_s / gpus),
        "" if each.goodput_fraction is None else format_fraction(each.goodput_fraction),
        "yes" if each.keeps_up else "no",
    )
