"""Answers about training as sections: memory by part, the time of a step, a run's days and money, plans, errors."""

import math
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from statistics import median

from capplan.core.numbers import Interval
from capplan.llm.core.measured import JudgedCell
from capplan.llm.core.tensors import count_active_parameters, count_parameters
from capplan.llm.core.training.accuracy import JudgedTraining, TrainingMetric, TrainingValidation
from capplan.llm.core.training.estimate import TrainingMemoryAnswer
from capplan.llm.core.training.job import Method, TrainingJob
from capplan.llm.core.training.launch import launch_config
from capplan.llm.core.training.objective import Objective
from capplan.llm.core.training.parameters import adapter_parameters
from capplan.llm.core.training.plan import PricedTraining, TrainingPlan
from capplan.llm.core.training.run import TrainingRun
from capplan.llm.core.training.search import SAFE_PROBABILITY
from capplan.llm.core.training.stated_file import StatedFile
from capplan.report.sections import Block, Column, LineRole, Lines, Listing, Section, Table, data, figure, people, words
from capplan.report.text.gpus import local_words
from capplan.report.text.llm.serving import accuracy_columns, skipped_blocks
from capplan.units import (
    counted,
    format_bytes,
    format_count,
    format_duration,
    format_flops_per_s,
    format_fraction,
    format_joules,
    format_parameters,
    format_seconds,
    format_watts,
)

_MOST_REASONS, _MOST_EFFICIENT = 8, 5


def training_memory_sections(answer: TrainingMemoryAnswer, *, is_verdict_only: bool = False) -> list[Section]:
    """Return the memory of a training GPU; a CSV has one row per part in bytes."""
    verdict = _verdict(answer)
    if is_verdict_only:
        return [Section([Lines([verdict])])]
    columns: list[Column[tuple[str, float]]] = [
        data("model", lambda _: answer.job.architecture.name),
        data("gpu", lambda _: answer.gpu.id),
        words("per GPU", lambda row: row[0], name="part"),
        figure("size", lambda row: row[1], format_bytes),
        figure("share", lambda row: f"{100 * row[1] / answer.usable_bytes:.1f} %"),
        data("bytes", lambda row: round(row[1])),
    ]
    outlook = answer.outlook
    blocks: list[Block] = [
        Lines([headline(answer.job, answer.gpu.name)]),
        *_file_lines(answer.files),
        Table(columns, [*answer.parts, ("usable memory of the GPU", answer.usable_bytes)]),
        Lines([verdict]),
    ]
    if answer.alternatives:
        blocks.append(Table(_ALTERNATIVES, answer.alternatives))
    notes = [
        f"Loading takes {format_bytes(outlook.load)} of a GPU and about {format_bytes(outlook.load_host)} of its host."
    ]
    if answer.job.rollout_fraction:
        kept = answer.gpu.expected_usable_bytes - answer.usable_bytes
        notes.append(f"The engine that generates samples keeps {format_bytes(kept)} of each GPU (⟨rollout-memory⟩).")
    if outlook.host:
        notes.append(f"Offloading takes {format_bytes(outlook.host)} of each server's memory.")
    if len(outlook.stages) > 1:
        notes.append(f"Shown is stage {outlook.tightest.stage} of {len(outlook.stages)}, which needs most.")
    notes.append(f"The interval is of evidence '{answer.evidence}': 90 % of peaks that were held out lie within it.")
    notes += _beyond(answer.job)
    blocks.append(Lines(notes, role=LineRole.LIST))
    return [Section(blocks)]


def _file_lines(files: Sequence[StatedFile]) -> list[Block]:
    """Return what was taken of frameworks' files, what their frameworks do by default, and what was not taken."""
    lines = []
    for file in files:
        taken, filled = (_assignments(values, without=file.searched) for values in (file.stated, file.defaults))
        lines.append(f"{file.path} ({file.framework}): {taken or 'nothing that is asked here'}")
        if filled:
            lines.append(f"  left to {file.release}: {filled}")
        if file.searched:
            lines.append(f"  not asked here, or searched: {', '.join(file.searched)}")
        lines += [f"  not modelled: {each}" for each in file.unmodelled]
        if file.unknown:
            more = f" and {len(file.unknown) - _MOST_REASONS} more" if len(file.unknown) > _MOST_REASONS else ""
            lines.append(f"  not known here, and left out: {', '.join(file.unknown[:_MOST_REASONS])}{more}")
    return [Lines(lines)] if lines else []


def _assignments(values: Mapping[str, str], *, without: Sequence[str]) -> str:
    return ", ".join(f"{option} {value}" for option, value in values.items() if option not in without)


def _percent(probability: float) -> str:
    return f"{100 * probability:.0f} %"


_ALTERNATIVES: tuple[Column[TrainingMemoryAnswer], ...] = (
    words("instead recompute", lambda variant: variant.job.recompute.value),
    figure("peak", lambda variant: variant.peak.expected, format_bytes),
    words("verdict", lambda variant: variant.verdict),
    figure("probability to fit", lambda variant: variant.fit_probability, _percent),
)


def headline(job: TrainingJob, gpu: str) -> str:
    """Return one line that names a job."""
    total, active = count_parameters(job.architecture), count_active_parameters(job.architecture)
    size = format_parameters(total) + (f", {format_parameters(active)} active" if active < total else "")
    method = {Method.FULL: "full training"}.get(job.method, f"{job.method.value} r{job.adapter.rank}")
    if job.is_adapted:
        trained = adapter_parameters(job.architecture, job.adapter)
        method += f" on a {job.base.value} base ({format_parameters(trained)} trained)"
    if job.objective is not Objective.SFT:
        method = f"{job.objective.value} by {method}"
    pairs = f"{job.parts.sequences} × " if job.parts.sequences > 1 else ""
    tokens = f"{pairs}{job.micro_batch} × {job.sequence_tokens:,} tokens"
    return (
        f"{job.architecture.name} ({size} parameters), {method} in {job.compute.value} with {job.optimizer.value}, "
        f"{job.framework.name}, on {job.layout.gpus} × {gpu}: {job.layout.words}; micro-batch {tokens}, "
        f"recomputes {job.recompute.value}"
    )


def _verdict(answer: TrainingMemoryAnswer) -> str:
    peak = answer.peak
    return (
        f"It {answer.verdict}: {format_bytes(peak.expected)} of {format_bytes(answer.usable_bytes)} "
        f"(90 %: {format_bytes(peak.low)} to {format_bytes(peak.high)}); the probability to fit is "
        f"{_percent(answer.fit_probability)}."
    )


def _range(interval: Interval, form: Callable[[float], str]) -> str:
    return f"{form(interval.expected)} (90 %: {form(interval.low)} to {form(interval.high)})"


def _tokens(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def _usd(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 100 else f"{amount:.2f}"


def training_estimate_sections(
    answer: PricedTraining, *, shows_launch: bool = False, shows_power: bool = False
) -> list[Section]:
    """Return the speed of a job and its run; a CSV has one row per part of a step in seconds."""
    estimate = answer.estimate
    total = estimate.step.total_s
    columns: list[Column[tuple[str, float]]] = [
        data("model", lambda _: answer.job.architecture.name),
        data("gpu", lambda _: estimate.memory.gpu.id),
        words("part of a step", lambda row: row[0], name="part"),
        figure("time", lambda row: row[1], format_seconds),
        figure("share", lambda row: f"{100 * row[1] / total:.1f} %"),
        data("seconds", lambda row: f"{row[1]:.6g}"),
    ]
    blocks: list[Block] = [
        Lines([headline(answer.job, estimate.memory.gpu.name)]),
        *_file_lines(answer.files),
        Table(_FIGURES, [*_figures(answer), *(_power(answer) if shows_power else ())]),
        Table(columns, [part for part in estimate.step.parts if part[1] > 0.001 * total]),
        Lines(_notes(answer), role=LineRole.LIST),
    ]
    return [Section(blocks), *_launch(answer.job, is_shown=shows_launch)]


_FIGURES: tuple[Column[tuple[str, str]], ...] = (
    Column(title="figure", name=None, cell=lambda row: row[0], value=lambda row: row[0]),
    Column(title="estimate", name=None, cell=lambda row: row[1], value=lambda row: row[1]),
)


def _figures(answer: PricedTraining) -> list[tuple[str, str]]:
    estimate, rates = answer.estimate, answer.estimate.rates
    rows = [
        ("tokens/s", _range(estimate.tokens_per_s, _tokens)),
        ("tokens/s per GPU", _range(estimate.tokens_per_s_per_gpu, _tokens)),
        ("optimizer step", f"{_range(estimate.step_s, format_seconds)} of {answer.job.step_tokens:,} tokens"),
    ]
    if rates.mfu_fraction is not None and rates.hfu_fraction is not None:
        shares = f"MFU {format_fraction(rates.mfu_fraction)}, HFU {format_fraction(rates.hfu_fraction)}"
        rows.append(("model FLOP/s per GPU", f"{format_flops_per_s(rates.model_flops_per_s)}, {shares}"))
    rows.append(("memory", _verdict(estimate.memory).removeprefix("It ").rstrip(".")))
    run = answer.run
    if run is not None:
        size = f"for {format_count(run.tokens)} tokens in {run.steps:,.0f} steps"
        rows += [
            ("run of such steps", f"{_range(run.wall_s, format_duration)} {size}"),
            ("GPU hours", _range(run.gpu_hours, _tokens)),
        ]
    if answer.usd is not None and answer.offer is not None:
        price = f"USD at {answer.offer.usd_per_hour:.2f} per GPU and hour, {answer.offer.machine_words}"
        rented = -(-answer.job.layout.gpus // answer.offer.instance_gpus) * answer.offer.instance_gpus
        if rented > answer.job.layout.gpus:
            price += f"; {rented} GPUs are rented for {answer.job.layout.gpus} that are used"
        rows.append(("money", f"{_range(answer.usd, _usd)} {price}"))
    if run is not None:
        cost = "" if answer.campaign_usd is None else f", {_range(answer.campaign_usd, _usd)} USD"
        rows.append(("whole campaign", f"{_range(run.campaign_s, format_duration)}{cost}"))
    if answer.energy_j is not None:
        rows.append(("energy of the GPUs", _range(answer.energy_j, format_joules)))
    return rows


def _power(answer: PricedTraining) -> list[tuple[str, str]]:
    """Return the power of the GPUs, and what a token takes."""
    energy, per_token = answer.estimate.energy, answer.estimate.joules_per_token
    if energy is None or per_token is None:
        return [("power of the GPUs", "unknown, as their limit is")]
    return [
        ("power of the GPUs", f"{_range(energy.power_w, format_watts)} ({energy.evidence})"),
        ("energy of a million tokens", _range(per_token * 1e6, format_joules)),
    ]


def _beyond(job: TrainingJob) -> list[str]:
    """Return the note on sequences that are longer than the model was made for."""
    most = job.architecture.max_positions
    if most is None or job.sequence_tokens <= most:
        return []
    return [f"{job.architecture.name} was made for {most:,} tokens; longer sequences need its rotary base changed."]


def _notes(answer: PricedTraining) -> list[str]:
    estimate = answer.estimate
    notes = [
        *_beyond(answer.job),
        f"Beside matrix products, {estimate.step.largest} takes most of a step.",
        f"Evidence: {estimate.evidence}; speeds of {answer.job.framework.name} as of {answer.job.framework.release}. "
        "MFU counts causal attention and the printed dense peak; a short run of yours narrows all (⟨measured-step⟩).",
    ]
    run = answer.run
    if run is not None:
        notes += _run_notes(run)
    return notes


def _run_notes(run: TrainingRun) -> list[str]:
    """Return what a run's time is made of, and what was assumed."""
    beside = "while it trains" if run.is_asynchronous else "while it waits"
    few = "Less than one failure in ten runs is expected"
    failures = few if run.failures < 0.1 else f"{run.failures:.1f} failures are expected"
    left = f"{format_fraction(run.checkpoints_s / run.wall_s.expected)} of the time, " if run.checkpoints_s else ""
    return [
        f"{failures}; restarts and lost work take "
        f"{format_fraction(run.restarts_s / run.wall_s.expected)} of the time, checkpoints {left}"
        f"steps {format_fraction(run.goodput_fraction)}.",
        f"A checkpoint of {format_bytes(run.checkpoint_bytes)} is written every "
        f"{format_duration(run.checkpoint_interval_s)} (Daly) "
        f"at {format_bytes(run.storage_bytes_per_s)}/s of all servers (⟨storage⟩), {beside}.",
        "A run of such steps is tuned and left alone; a campaign has evaluation, stalls of data, slower servers and "
        "changes by hand besides, as published ones had.",
    ]


def _launch(job: TrainingJob, *, is_shown: bool) -> list[Section]:
    if not is_shown:
        return []
    written = launch_config(job)
    if written is None:
        return [Section([Lines([f"No configuration is written for {job.framework.name}."])], title="Launch")]
    return [Section([Listing(written.text)], title="Launch")]


def training_plan_sections(
    plan: TrainingPlan, *, everything: bool = False, shows_launch: bool = False, shows_power: bool = False
) -> list[Section]:
    """Return a plan; a CSV has a row per GPU and count."""
    job = plan.job
    best = [
        ("safer", plan.safer),
        ("cheapest", plan.cheapest),
        ("fastest", plan.fastest),
        ("fewest GPUs", plan.fewest),
    ]
    chosen: list[tuple[str, PricedTraining]] = []
    for name, priced in best:
        if priced is None:
            continue
        same = next((index for index, (_, other) in enumerate(chosen) if other is priced), None)
        if same is None:
            chosen.append((name, priced))
        else:
            chosen[same] = (f"{chosen[same][0]}, {name}", priced)
    lines = [
        f"{job.architecture.name} ({format_parameters(count_parameters(job.architecture))} parameters), "
        f"{job.method.value} in {job.compute.value} by {job.framework.name}: "
        f"{'about ' if plan.asked.batch_slack else ''}{plan.asked.global_batch} sequences of "
        f"{job.sequence_tokens:,} tokens a step; {counted(plan.tried, 'layout')} tried"
    ]
    blocks: list[Block] = [Lines(lines), *_file_lines(plan.files)]
    if not chosen:
        blocks += _broken_limits(plan) if plan.priced else _ways_out(plan)
        blocks.append(Lines(_plan_notes(plan), role=LineRole.LIST))
        return [Section(blocks)]
    planned = [*_PLANNED, *([_DRAWN] if shows_power else ())]
    blocks.append(Table(planned, chosen))
    blocks.append(Lines(_chosen_notes(plan, chosen), role=LineRole.LIST))
    if others := [("", run) for run in plan.efficient if not any(run is other for _, other in chosen)][
        :_MOST_EFFICIENT
    ]:
        blocks += [
            Lines(["No other run beats these in time, money and energy at once either:"]),
            Table(planned[1:], others),
        ]
    if everything:
        rows = [
            ("", priced) for priced in sorted(plan.priced, key=lambda priced: (priced.gpu_id, priced.job.layout.gpus))
        ]
        blocks += [Lines(["Every GPU and count:"]), Table(planned[1:], rows)]
    blocks.append(Lines(_plan_notes(plan), role=LineRole.LIST))
    return [Section(blocks), *_launch(chosen[0][1].job, is_shown=shows_launch)]


def _broken_limits(plan: TrainingPlan) -> list[Block]:
    """Return the runs that come nearest to limits that none keeps: the quickest and the cheapest."""
    with_price = [run for run in plan.priced if run.usd is not None]
    nearest = [("quickest", min(plan.priced, key=lambda run: run.efforts))]
    if with_price:
        nearest.append(("cheapest", min(with_price, key=lambda run: run.efforts[1])))
    sure = f"with a probability of {_percent(plan.asked.certainty_fraction)} (⟨certainty⟩)"
    found = f"None of {counted(len(plan.priced), 'run')} that would fit keeps the limits {sure}; nearest are:"
    return [Lines([found]), Table(_PLANNED, nearest), Lines(_chosen_notes(plan, nearest), role=LineRole.LIST)]


def _ways_out(plan: TrainingPlan) -> list[Block]:
    """Return what the nearest layout lacks, and what would fit instead."""
    why = ", ".join(f"{count} by {reason}" for reason, count in plan.rejected.most_common(3))
    why = why or ", ".join(dict.fromkeys(plan.refused.values()))
    blocks: list[Block] = [Lines([f"Nothing fits; rejected: {why}."])]
    if plan.nearest is not None:
        miss = plan.nearest
        blocks.append(
            Lines([
                f"The least that a layout needs is {format_bytes(miss.needed_bytes)} of one GPU, on {miss.gpus} × "
                f"{miss.gpu}, whose processes have {format_bytes(miss.usable_bytes)}, of which a twelfth stays free."
            ])
        )  # fmt: skip
    if plan.ways:
        blocks += [
            Lines(["What would fit, the cheapest first:"]),
            Table(_PLANNED, [(way.words, way.priced) for way in plan.ways]),
        ]
    return blocks


_Planned = tuple[str, PricedTraining]
"""Why a run is shown, and the run."""


def _mean(
    title: str, find: Callable[[PricedTraining], Interval | None], form: Callable[[float], str], name: str
) -> Column[_Planned]:
    """Return a column of what is expected of an uncertain figure."""
    return figure(title, lambda row: found.expected if (found := find(row[1])) else None, form, name=name, unknown="–")


_PLANNED: tuple[Column[_Planned], ...] = (
    words("choice", lambda row: row[0], name="choice"),
    figure("GPUs", lambda row: row[1].job.layout.gpus, name="gpus"),
    words("GPU", lambda row: row[1].gpu_id, name="gpu"),
    words("layout", lambda row: row[1].job.layout.words, name="layout"),
    figure("micro", lambda row: row[1].job.micro_batch, name="micro_batch", rank=4),
    words("recompute", lambda row: row[1].job.recompute.value, name="recompute", rank=3),
    _mean("tokens/s", lambda run: run.estimate.tokens_per_s, _tokens, "tokens_per_s"),
    figure("MFU", lambda row: row[1].estimate.rates.mfu_fraction, format_fraction, name="mfu", unknown="–", rank=2),
    figure("peak", lambda row: row[1].estimate.memory.peak.expected, format_bytes, name="peak_bytes", rank=5),
    figure("fits", lambda row: row[1].fit_probability, _percent, name="fit_probability"),
    _mean("time", lambda run: run.run.wall_s if run.run else None, format_duration, "wall_s"),
    _mean("USD", lambda run: run.usd, _usd, "usd"),
    _mean("energy", lambda run: run.energy_j, format_joules, "energy_j"),
)
_DRAWN = _mean(
    "power", lambda run: run.estimate.energy.power_w if run.estimate.energy else None, format_watts, "power_w"
)


def _chosen_notes(plan: TrainingPlan, chosen: Sequence[tuple[str, PricedTraining]]) -> list[str]:
    notes = []
    for name, priced in chosen:
        why = ""
        if priced is plan.safer and plan.cheapest is not None and priced.usd and plan.cheapest.usd:
            dearer = priced.usd.expected / plan.cheapest.usd.expected - 1
            why = f" ({format_fraction(dearer)} dearer than the cheapest, and more probable to fit)"
        limit = f"{name}{why}: beside matrix products, {priced.estimate.step.largest} takes most"
        other = plan.runners_up.get((priced.gpu_id, priced.job.layout.gpus))
        if other is not None:
            slower = priced.estimate.tokens_per_s.expected / other.tokens_per_s - 1
            limit += (
                f"; runner-up {other.job.layout.words}, micro-batch {other.job.micro_batch}, takes "
                f"{format_fraction(abs(slower))} {'more' if slower >= 0 else 'less'} time ({other.step.largest}) and "
                f"fits with a probability of {_percent(other.fit_probability)}"
            )
        fastest = plan.passed_over.get((priced.gpu_id, priced.job.layout.gpus))
        if fastest is not None:
            gained = 1 - priced.estimate.tokens_per_s.expected / fastest.tokens_per_s
            limit += (
                f"; preferred to {fastest.job.layout.words}, micro-batch {fastest.job.micro_batch}, recompute "
                f"{fastest.job.recompute.value}, which takes {format_fraction(gained)} less time but fits with a "
                f"probability of {_percent(fastest.fit_probability)} only"
            )
        if priced.fit_probability < SAFE_PROBABILITY:
            chance = _percent(priced.fit_probability)
            limit += f"; it fits with a probability of {chance}: run a few steps before you rent for long"
        run = priced.run
        if run is not None:
            limit += f"; 90 %: {format_duration(run.wall_s.low)} to {format_duration(run.wall_s.high)}"
            if plan.asked.deadline_s is not None:
                kept = run.wall_s.probability_within(plan.asked.deadline_s)
                chance = "over 99 %" if kept > 0.99 else _percent(kept)
                limit += f", and within the deadline with a probability of {chance}"
        notes.append(f"{limit}; {_rent_words(priced)}.")
    return notes


def _rent_words(priced: PricedTraining) -> str:
    """Return what a run's machines cost an hour, who rents them out, and how many of their GPUs stay idle."""
    offer, gpus = priced.offer, priced.job.layout.gpus
    machines = offer.machines_for(gpus) if offer is not None else None
    if offer is None or machines is None:
        return "no price is known: ask for a quote"
    held = machines * offer.instance_gpus
    idle = f", although {held - gpus} of their {held} GPUs stay idle" if held > gpus else ""
    usd = machines * offer.usd_per_machine_hour
    return f"rented at {usd:,.2f} USD/h ({offer.provider}, price of {offer.date}){idle}"


def _plan_notes(plan: TrainingPlan) -> list[str]:
    local = plan.local_cost
    notes = [] if local is None else [f"The cheapest in {local.currency}: {local_words(local, unit='')}."]
    notes += [f"Rejected by {reason}: {counted(count, 'layout')}." for reason, count in plan.rejected.most_common(2)]
    notes += [reason if gpu in reason else f"{gpu}: {reason}" for gpu, reason in list(plan.refused.items())[:3]]
    notes += _beyond(job=plan.job)
    mean = plan.terms.dataset.mean_tokens
    if mean is not None and mean > plan.job.sequence_tokens:
        notes.append(f"Samples of {mean:,.0f} tokens are cut to ⟨seq-len⟩ {plan.job.sequence_tokens:,}.")
    if plan.asked.is_stated and plan.priced:
        notes += [f"{count} × {gpu} is left out: {reason}." for (gpu, count), reason in list(plan.without.items())[:4]]
    if plan.terms.dataset.processed_tokens(plan.job.sequence_tokens) is None:
        notes.append("Without ⟨tokens⟩ or ⟨samples⟩ there are no days and no money.")
    return notes


def training_validation_sections(
    validation: TrainingValidation, *, by: Sequence[str], shows_rows: bool = False
) -> list[Section]:
    """Return a validation; a CSV has a row per cell, errors as fractions."""
    blocks: list[Block] = []
    errors: list[Column[JudgedCell]] = accuracy_columns(lambda cell: cell.accuracy)
    if shows_rows:
        blocks.append(Table(_ROWS, validation.answers))
    else:
        blocks += [
            Table([words("all", lambda cell: _metric(cell.metric)), *people(errors)], validation.cells(())),
            Table([*_keys(by), *errors], validation.cells(by)),
        ]
    ran_out, fitted = validation.ran_out, validation.fitted
    verdicts = []
    if ran_out[1]:
        highest = max(item.fit_probability for item in validation.fits if item.run.ran_out)
        verdicts.append(
            f"{ran_out[0]} of {ran_out[1]} runs that ran out of memory are predicted not to fit; the highest "
            f"probability to fit that one of them had is {_percent(highest)}."
        )
    if fitted[1]:
        verdicts.append(f"{fitted[0]} of {fitted[1]} runs that fitted are predicted to fit.")
    rankings = validation.rankings
    if rankings:
        regrets = sorted(item.regret for item in rankings)
        verdicts.append(
            f"{len(rankings)} jobs were run in several layouts ({sum(item.layouts for item in rankings)} in all): the "
            f"layout that is predicted fastest is {format_fraction(median(regrets))} slower than the fastest measured "
            f"in the middle, and {format_fraction(regrets[math.ceil(0.9 * len(regrets)) - 1])} at the 90th percentile."
        )
    if verdicts and not shows_rows:
        blocks.append(Lines(verdicts))
    if not shows_rows:
        blocks += skipped_blocks([row.reason for row in validation.skipped])
    return [Section(blocks)]


def _metric(metric: StrEnum) -> str:
    return "tokens/s per GPU" if metric is TrainingMetric.TOKENS_PER_S else "peak memory"


def _keys(by: Sequence[str]) -> list[Column[JudgedCell]]:
    def key(name: str) -> Column[JudgedCell]:
        return words(name, lambda cell: cell.key[name], name=name)

    return [*map(key, by), words("metric", lambda cell: _metric(cell.metric), name="metric")]


_ROWS: tuple[Column[JudgedTraining], ...] = (
    words("row", lambda judged: judged.run.row, name="row"),
    words("model", lambda judged: judged.run.model, name="model"),
    words("GPU", lambda judged: judged.run.gpu, name="gpu"),
    words("framework", lambda judged: judged.run.framework, name="framework"),
    words("layout", lambda judged: judged.run.job.layout.words, name="layout", rank=2),
    words("metric", lambda judged: _metric(judged.metric), name="metric"),
    figure("measured", lambda judged: judged.measured, "{:.4g}".format, name="measured"),
    figure("predicted", lambda judged: judged.predicted.expected, "{:.4g}".format, name="predicted"),
    figure("low", lambda judged: judged.predicted.low, "{:.4g}".format, name="low", rank=1),
    figure("high", lambda judged: judged.predicted.high, "{:.4g}".format, name="high", rank=1),
    figure("ratio", lambda judged: judged.predicted.expected / judged.measured, "{:.2f}".format, name="ratio"),
)
