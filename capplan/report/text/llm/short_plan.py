"""The short answer to a plan of LLM serving: one screen that says what to take, why, what it costs, and what else."""

import shlex
import textwrap
from collections.abc import Collection, Iterator

from capplan.core.formulas import HOURS_PER_YEAR
from capplan.core.numbers import Interval
from capplan.llm.core.fleet.deployment_plan import DeploymentFit, DeploymentPlan, different_choices, tied_engines
from capplan.llm.core.fleet.launch import Launch
from capplan.llm.core.fleet.limits import expected_limits
from capplan.llm.core.fleet.money import PlannedFleet
from capplan.llm.core.serving.asked import ServingTask, Statistic
from capplan.llm.core.serving.energy import ServingEnergy
from capplan.report.sections import Line, Span, Style, Table, line, shape_columns
from capplan.report.text.answer import WORDS_HINT
from capplan.report.text.gpus import local_words
from capplan.report.text.llm.money import money_lines
from capplan.report.text.llm.plan import (
    disaggregation_line,
    load_words,
    long_time,
    mixed_line,
    nearest_rejections,
    offer_words,
    why_rejected,
)
from capplan.report.text.styled import cut_line, styled_table
from capplan.shapes.llm_plan import DEPLOYMENT, alone
from capplan.shapes.llm_serving import shared_words
from capplan.shapes.shape import View
from capplan.units import counted, format_joules, format_rate, format_seconds, format_watts
from capplan.wording import as_options

MOST_LINES = 30
OTHER_CHOICES = 2
_LABEL_WIDTH = 9
_MOST_NOTES = 3
_MOST_LINES_OF_A_NOTE = 3
_NEAREST = 3


def plan_lines(fleet: PlannedFleet, *, width: int, launch: bool = False) -> list[Line]:
    """Lay a plan out on one screen: at most `MOST_LINES` lines of at most `width` characters.

    A launch follows whole, with its files as they are to be copied, however long.
    """
    plan = fleet.plan
    model = line(Span(text=plan.model, style=Style.CHOSEN))
    asked = [model, *_labelled("Asked", f"{load_words(plan.load)}{_limit_words(plan)}", width)]
    if plan.recommended is None:
        lines = [*asked, *_nothing(plan, width)]
    elif launch and fleet.launch is not None:
        lines = [*asked, *_taken(fleet, plan.recommended, width)]
        lines += [*_money(fleet, width, labels=("Growth", "API")), line(""), *_launched(fleet.launch, width)]
    else:
        now = f"{'. '.join(fleet.replan.sentences)}." if fleet.replan else ""
        lines = [
            *asked,
            *(_labelled("Running", now, width, most=6) if now else ()),
            *_taken(fleet, plan.recommended, width),
            line(""),
            *_choices(plan, width),
            *_rest(fleet, width),
        ]
        lines = lines[:MOST_LINES]
    return lines


def _launched(launch: Launch, width: int) -> Iterator[Line]:
    """Yield the command that starts a replica, with the reason of each option on one line."""
    yield from map(line, _shell_lines(launch, width))
    for number, own in enumerate(launch.other_options, start=2):
        yield from _labelled(f"Server {number}"[: _LABEL_WIDTH - 1], f"the same, but {shlex.join(own)}", width)
    for note in launch.notes:
        yield from _labelled("Note", note, width)
    for option in launch.options:
        yield cut_line(line(Span(text="  " + " ".join(option.words), style=Style.HEADING), f"  {option.why}"), width)
    for name, text in launch.files:
        yield line(Span(text=f"{name}:", style=Style.HEADING))
        yield from map(line, text.splitlines())


def _shell_lines(launch: Launch, width: int) -> Iterator[str]:
    """Yield a command over several lines, broken between options alone, so that no quoted word is."""
    parts = [shlex.join(launch.arguments[: -sum(len(option.words) for option in launch.options) or None])]
    for option in launch.options:
        words = shlex.join(option.words)
        if len(parts[-1]) + len(words) + 3 <= width:
            parts[-1] += f" {words}"
        else:
            parts.append(words)
    yield from (f"{part} \\" for part in parts[:-1])
    yield parts[-1]


def _limit_words(plan: DeploymentPlan) -> str:
    limits = plan.limits
    pairs = (("TTFT", limits.ttft_s), ("TPOT", limits.tpot_s), ("whole answer", limits.e2e_s))
    held = [f"{name} ≤ {format_seconds(most)}" for name, most in pairs if most is not None]
    who = "mean" if limits.statistic is Statistic.MEAN else limits.statistic.value
    sure = "" if plan.certainty_fraction == 0.5 else f", {plan.certainty_fraction:.0%} sure"
    return f"; {', '.join(held)} ({who}{sure})" if held else ""


def _labelled(label: str, text: str, width: int, *, most: int = 3) -> Iterator[Line]:
    """Yield a labelled sentence, wrapped under its label; what is beyond `most` lines is cut with a mark."""
    room = max(width - _LABEL_WIDTH, 20)
    wrapped = textwrap.wrap(as_options(text), room, max_lines=most, placeholder=" …") or [""]
    for number, part in enumerate(wrapped):
        yield line(Span(text=(label if number == 0 else "").ljust(_LABEL_WIDTH), style=Style.HEADING), part)


def _taken(fleet: PlannedFleet, best: DeploymentFit, width: int) -> Iterator[Line]:
    plan = fleet.plan
    spare = best.replicas - best.needed
    redundancy = f", {best.needed} needed and {spare} spare" if spare else ""
    yield from _labelled(
        "Take",
        f"{best.gpus} × {best.gpu}: {_servers(best)}{redundancy}, weights {best.weights}",
        width,
    )
    for sentence in plan.machine:
        yield from _labelled("Here", sentence, width)
    if not plan.machine:
        hours = fleet.money.paid_hours if fleet.money else HOURS_PER_YEAR
        yield from _labelled("Rent", offer_words(best).removeprefix("Rent ") + ".", width)
        yield from _labelled("Cost", _cost(plan, best, hours), width)
    if best.job_s is not None:
        cost = "" if best.job_usd is None else f" for {best.job_usd:,.2f} USD"
        yield from _labelled(
            "Job", f"{best.prompts:,} requests in {long_time(best.job_s)} at the highest rate{cost}", width
        )
    if fleet.local_cost is not None:
        yield from _labelled(f"In {fleet.local_cost.currency}", local_words(fleet.local_cost), width)
    yield from _labelled("Times", _times(plan, best), width)
    if best.energy is not None:
        yield from _labelled("Energy", _energy(best.energy, plan.load.task), width)
    yield from _labelled("Limited", f"by {_limiting(plan, best)}", width)
    yield from _labelled("Why", _why(plan, best), width)


def _servers(best: DeploymentFit) -> str:
    """Return the servers of a fleet in words: one on each GPU, or on several GPUs that share the model."""
    each, shared = best.sharding.gpus, shared_words(best.sharding)
    if each == 1 and best.sharding.offload is None:
        return f"one {best.engine} server on each" if best.replicas > 1 else f"one {best.engine} server"
    where = counted(each, "GPU")
    return f"{counted(best.replicas, f'{best.engine} server')} on {where}{' each' * (best.replicas > 1)} ({shared})"


def _cost(plan: DeploymentPlan, best: DeploymentFit, hours: float) -> str:
    """Describe the cost of a deployment that is rented for some hours a year."""
    hourly = best.usd_per_hour
    if hourly is None:
        return "no price is known: ask for a quote"
    text = f"{hourly:,.2f} USD/h, {hourly * hours / 12:,.0f} USD a month"
    if plan.load.task is not ServingTask.GENERATE:
        return f"{text}, {best.usd_per_million_tokens:.3g} USD per million tokens"
    split = best.split_usd_per_million
    parts = f" (or, by the time each takes, {split[0]:.3g} of input and {split[1]:.3g} of output)" if split else ""
    return f"{text}, {best.usd_per_million_output_tokens:.3g} USD per million output tokens{parts}"


def _energy(energy: ServingEnergy, task: ServingTask) -> str:
    power, joules = energy.power_w, energy.joules_per_output_token
    return (
        f"all GPUs without their hosts {format_watts(power.expected)} ({format_watts(power.low)} to "
        f"{format_watts(power.high)}), {format_joules(joules.expected)} ({format_joules(joules.low)} to "
        f"{format_joules(joules.high)}) {'an output token' if task is ServingTask.GENERATE else 'a request'}"
    )


def _times(plan: DeploymentPlan, best: DeploymentFit) -> str:
    statistic, seen = plan.limits.statistic, best.simulated

    def time(name: str, interval: Interval, percentile: float | None) -> str:
        held = "" if percentile is None else f", {statistic.value} {format_seconds(percentile)}"
        return (
            f"{name} {format_seconds(interval.expected)} (90 %: {format_seconds(interval.low)} to "
            f"{format_seconds(interval.high)}{held})"
        )

    shows = seen is not None and statistic is not Statistic.MEAN
    first = time(
        "TTFT" if plan.load.task is ServingTask.GENERATE else "latency",
        best.ttft_s,
        seen.ttft_s.at(statistic) if seen and shows else None,
    )
    if plan.load.task is not ServingTask.GENERATE:
        return first
    gaps = time("TPOT", best.tpot_s, seen.tpot_s.at(statistic) if seen and shows else None)
    return f"{first}; {gaps}"


def _limiting(plan: DeploymentPlan, best: DeploymentFit) -> str:
    """Return what comes nearest to its limit: a time, or the sequences that memory holds."""
    seen, limits, certainty = best.simulated, plan.limits, plan.certainty_fraction
    held = expected_limits(limits, certainty=certainty, ttft=best.ttft_s, tpot=best.tpot_s)
    times = (best.ttft_s.expected, best.tpot_s.expected, best.e2e_s.expected)
    if seen is not None and limits.statistic is not Statistic.MEAN:
        times = (
            seen.ttft_s.at(limits.statistic), seen.tpot_s.at(limits.statistic), seen.e2e_s.at(limits.statistic)
        )  # fmt: skip
    names = ("TTFT", "TPOT", "the whole answer")
    kept, asked = ((bounds.ttft_s, bounds.tpot_s, bounds.e2e_s) for bounds in (held, limits))
    sure = "" if certainty == 0.5 else f" ({certainty:.0%} sure)"
    shares = [
        (
            value / most,
            f"{name}: {format_seconds(value / most * limit)}{sure}, {format_seconds(limit)} allowed",
        )
        for name, value, most, limit in zip(names, times, kept, asked, strict=True)
        if most is not None and limit is not None
    ]
    memory = best.running / max(best.memory.sequences_that_fit, 1)
    shares.append((memory, f"memory: {best.running:.0f} of {best.memory.sequences_that_fit:,} sequences that fit"))
    _, text = max(shares)
    carried = f"{format_rate(best.max_rate_per_s * best.replicas)} requests/s can be carried"
    return f"{text}; {carried}"


def _why(plan: DeploymentPlan, best: DeploymentFit) -> str:
    others = f"the cheapest of {len(plan.fits)} deployments that carry it" if len(plan.fits) > 1 else "alone carries it"
    weaker = plan.cheaper
    if weaker is not None and weaker.usd_per_hour is not None:
        others += f" on GPUs of a kind that was measured ({weaker.gpu} at {weaker.usd_per_hour:,.2f} USD/h was not)"
    ties = tied_engines(plan)
    tied = (
        f" {' and '.join(ties)} {'is' if len(ties) == 1 else 'are'} as good within the ranges: take what you know."
        if ties
        else ""
    )
    limited = plan.limits.are_set
    sure = (
        "the limits hold at the slow end of the ranges, too; "
        if best.holds_at_worst
        else "the limits do not hold at the slow end of the ranges; "
    )
    return f"{others}; {sure if limited else ''}times known from: {best.evidence}.{tied}"


_GENERATED = ("ttft_expected_s", "tpot_expected_s", "usd_per_million_output_tokens")
_TAKEN_IN = ("e2e_expected_s", "usd_per_million_tokens")
"""Figures that tasks with tokens to decode have, and those of other tasks."""


def _choices(plan: DeploymentPlan, width: int) -> list[Line]:
    others = different_choices(plan.fits)[1 : 1 + OTHER_CHOICES]
    rows, without = [*map(alone, others)], _TAKEN_IN if plan.load.task is ServingTask.GENERATE else _GENERATED
    columns = shape_columns(
        DEPLOYMENT, rows, view=View.ANSWER, order=("usd_per_hour", "ttft_expected_s"), without=without
    )
    return [*styled_table(Table(columns, rows), width=width), line("")] if others else []


def _rest(fleet: PlannedFleet, width: int) -> Iterator[Line]:
    plan = fleet.plan
    if plan.disaggregated:
        yield from _labelled(
            "Apart", disaggregation_line(plan).removeprefix("Prefill and decode apart: "), width, most=2
        )
    mixed = mixed_line(plan)
    if mixed is not None:
        yield from _labelled("Mixed", mixed.removeprefix("Mixed: "), width, most=2)
    yield from _money(fleet, width)
    for note in plan.notes[: _MOST_NOTES - (mixed is not None)]:
        yield from _labelled("Note", note, width, most=_MOST_LINES_OF_A_NOTE)
    lacking = len(plan.gpus_without_fit)
    failing = f"; {counted(lacking, 'kind')} of GPU {'does' if lacking == 1 else 'do'} not carry it" if lacking else ""
    yield from _labelled(
        "More", f"⟨all⟩ shows {len(plan.fits)} deployments and what is assumed{failing}. {WORDS_HINT} llm", width
    )


def _money(fleet: PlannedFleet, width: int, *, labels: Collection[str] = ()) -> Iterator[Line]:
    """Yield what money says beside the cost of tokens; with labels those sentences alone."""
    for text in list(money_lines(fleet))[1:]:
        label, _, rest = text.partition(" ")
        if not labels or label.rstrip(":") in labels:
            yield from _labelled(label.rstrip(":"), rest, width, most=2)


def _nothing(plan: DeploymentPlan, width: int) -> Iterator[Line]:
    yield from _labelled("Nothing", f"searched carries it within the limits: {plan.advice}", width)
    nearest = nearest_rejections(plan)
    for gpu in list(nearest)[:_NEAREST]:
        yield from _labelled("Nearest", f"{gpu}: {why_rejected(nearest[gpu])}", width, most=2)
    more = len(nearest) - _NEAREST
    if more > 0:
        yield from _labelled("More", f"⟨all⟩ shows {counted(more, 'further GPU')} and what is assumed", width)
