"""`llm plan`: which deployments of a language model carry a load within limits, the cheapest first."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from capplan.errors import UsageError
from capplan.verbs.llm.fields import MoneyFields, names_of
from capplan.verbs.llm.here import planned_here
from capplan.verbs.llm.plan_question import LlmPlanQuestion
from capplan.verbs.statement.contract import Context, Effort, Look, Outcome, Verb, drawn_by, laid_out_by
from capplan.verbs.statement.fields import from_fields
from capplan.verbs.statement.words import checking_pictures

if TYPE_CHECKING:
    from capplan.app.deployments import Deployments
    from capplan.app.procurement.serving import Buyer, ServedCase
    from capplan.core.gpus.by_use import ApiPrice, TokenPrice
    from capplan.core.gpus.prices import Price
    from capplan.core.gpus.spec import GpuSpec
    from capplan.core.power import PowerLaw
    from capplan.core.scaling.answer import ServingWays
    from capplan.core.scaling.load import WeekLoad
    from capplan.llm.core.fleet.deployment_plan import DeploymentFit, DeploymentPlan
    from capplan.llm.core.fleet.money import FleetMoney, PlannedFleet
    from capplan.llm.core.fleet.replan import Replan
    from capplan.llm.core.search.search import Search, SearchSpace
    from capplan.llm.core.serving.energy import ServingEnergy
    from capplan.report.sections import Line
    from capplan.specs.prices import Prices


def search_space(
    question: LlmPlanQuestion, context: Context, *, deployments: "Deployments", rents: "dict[str, tuple[Price, ...]]"
) -> "SearchSpace":
    """Return the load, the limits and the deployments to search, with a reader's patience where no limits are
    stated.
    """
    from capplan.app.deployments import searched_gpus
    from capplan.llm.core.fleet.token_load import in_conversations
    from capplan.llm.core.search.plan import check_load, with_patience
    from capplan.llm.core.search.search import SearchSpace

    gpus, job, offload = deployments.gpus, question.job(), question.offload()
    model = context.language_model(question.model)
    rate = question.rate() if job is None else job.prompts / job.within_s
    load = replace(question.load(context, rate_per_s=rate, concurrency=question.concurrency), job=job)
    load = load if (sessions := question.sessions()) is None else in_conversations(load, sessions)
    check_load(load)
    stated = from_fields(
        SearchSpace,
        question,
        model=model,
        load=question.with_task(load, deployments.model(model)),
        limits=question.limits(),
        gpus=tuple(gpus.find(name).id for name in names_of(question.gpus)) or searched_gpus(gpus, rents),
        engines=question.searched_engines(offload),
        weights=question.searched_weights(deployments.model(model)),
        kv=question.kv or "",
        choice=question.choice(),
        batch_limits=question.max_seqs or (0,),
        rents=rents,
        adapters=deployments.model(model).served_adapters(question.served_adapters()),
        offload=offload,
        cpu=question.cpu or "",
        max_usd_per_hour=question.most_usd_per_hour(),
        is_rented=bool(question.providers or question.regions),
        states_spread=question.spread is not None,
    )
    return with_patience(stated, certainty_fraction=question.certainty_fraction)


def answer_llm_plan(question: LlmPlanQuestion, context: Context) -> "PlannedFleet":
    """Return the deployments that carry a load within limits, the cheapest first.

    Raises:
        CapplanError: a name is not known, or the load is empty or too long for the model.
    """
    from capplan.llm.core.fleet.limits import PATIENCE_WORDS
    from capplan.llm.core.search.plan import with_patience_note
    from capplan.specs.week import observed_hours

    file = question.load_file
    observed = observed_hours(file, "weekly_per_s", 168) if file is not None and not question.is_week_file() else None
    week = question.stated_week(None if file is not None else question.rate_per_s)
    question = _with_load(question)
    if not question.model and not question.here:
        raise UsageError("name a language model, or write ⟨here⟩ for the largest that this machine's GPUs hold.")
    question, own = planned_here(question, context) if question.here else (question, None)
    search, found = search_and_plan(question, context, week=week, own=own.count if own else None)
    if question.running is not None:
        narrower = replace(question, weights=("fp8",))
        narrow = None if question.weights else search_and_plan(narrower, context, week=None)[1]
        found = replace(found, replan=_replan(search, question, found, narrow, weekly_per_s=observed))
    notes = (*question.users_note(), *_buyers_notes(found.plan.recommended, search), *found.plan.notes)
    plan = replace(found.plan, notes=notes, machine=own.notes if own else ())
    return replace(found, plan=with_patience_note(plan, question.limits(), words=PATIENCE_WORDS))


def search_and_plan(
    question: LlmPlanQuestion, context: Context, *, week: "WeekLoad | None", own: int | None = None,
    buyer: "Buyer | None" = None,
) -> "tuple[Search, PlannedFleet]":  # fmt: skip
    """Return the search of a question, its plan, and the ways to serve a week.

    `own` is how many GPUs this machine has, where they alone are planned.
    """
    from capplan.app.deployments import on_demand_offers
    from capplan.llm.read.calibrations import load_time_calibration
    from capplan.units import counted

    if week is not None:
        question = replace(question, rate_per_s=week.peak_per_s, concurrency=None)
    prices = question.offered(context.price_list(question.specs))
    prices = prices if buyer is None else buyer.searched(prices)
    deployments = question.deployments(context, question.power_law())
    asked = search_space(question, context, deployments=deployments, rents={} if own else on_demand_offers(prices))
    asked = replace(asked, own_gpus=own)
    question.check_money()
    local = question.local_currency()
    with context.feedback.progress(f"searching deployments on {counted(len(asked.gpus), 'GPU')}"):
        calibration = load_time_calibration(question.calibration)
        search = deployments.search(asked, calibration=calibration, measured=question.named_runs())
        found = plan_fleet(search, question, prices)
        if week is not None and found.plan.fits:
            fits = [fit for fit in found.plan.fits if not buyer or buyer.considers(search.find_gpu(fit.gpu))]
            found = replace(found, ways=_ways(search, fits, question, week)) if fits else found
    return search, replace(found, local=local)


def _replan(
    search: "Search", question: LlmPlanQuestion, found: "PlannedFleet", narrow: "PlannedFleet | None",
    *, weekly_per_s: tuple[float, ...] | None,
) -> "Replan":  # fmt: skip
    """Return the fleet that runs beside the smallest of its own GPUs, both of the launch that is planned."""
    from capplan.llm.core.fleet.launch_files import launch_files
    from capplan.llm.core.fleet.replan import Replan
    from capplan.llm.core.search.handover import launch_of
    from capplan.llm.read.framework_forms import ENGINE_FORMS
    from capplan.specs.shipped import LAUNCH_FORMS

    count, name, own_price = question.running_gpus()
    gpu = search.find_gpu(name).id

    def smallest(fleet: "PlannedFleet | None") -> "DeploymentFit | None":
        fits = [fit for fit in fleet.plan.fits if fit.gpu == gpu] if fleet else []
        return min(fits, key=lambda fit: fit.gpus, default=None)

    fit, forms, engines = smallest(found), LAUNCH_FORMS.load(), ENGINE_FORMS.load()
    counts = () if fit is None else (max(1, count // fit.sharding.gpus), fit.replicas)
    fleets = [replace(fit, replicas=replicas) for fit in [fit] if fit for replicas in counts]
    model = found.plan.model
    files = [launch_files(fleet, launch_of(fleet, search, engines), model=model, forms=forms) for fleet in fleets]
    now, then = files or ({}, {})
    return Replan(
        gpus=count, gpu=gpu, fit=fit, narrow=smallest(narrow), weekly_per_s=weekly_per_s or (), files_now=now,
        files_then=then, certainty_fraction=found.plan.certainty_fraction, usd_per_gpu_hour=own_price,
    )  # fmt: skip


def _with_load(question: LlmPlanQuestion) -> LlmPlanQuestion:
    """Return the question with what its load file states, and no file."""
    from capplan.verbs.llm.load_file import with_load

    path = None if question.is_week_file() else question.load_file
    stated = replace(with_load(question, path, model=question.model), load_file=None)
    return stated if stated.running is None or stated.gpus else replace(stated, gpus=(stated.running_gpus()[1],))


def _ways(search: "Search", fits: "Sequence[DeploymentFit]", asked: LlmPlanQuestion, week: "WeekLoad") -> "ServingWays":
    from capplan.llm.core.elastic.answer import replicas_of, token_row
    from capplan.llm.read.start_calibration import load_start_law
    from capplan.specs.shipped import load_token_prices
    from capplan.verbs.llm.start import start_of_fit
    from capplan.verbs.llm.ways import compared_ways

    engine, tokens = fits[0].engine, load_token_prices().prices
    if (api := asked.api()) is not None:
        tokens = (stated_token_price(search.model.architecture.name, api),)
    notes = () if load_start_law(engine) else (f"A start of {engine} is taken to last as long as one of vLLM.",)
    replicas = replicas_of(search, fits, partial(start_of_fit, asked, search.model))
    api_row, certainty = token_row(search, week, tokens), asked.certainty_fraction
    return compared_ways(asked, replicas, week, api=api_row, notes=notes, certainty=certainty)


def stated_token_price(model: str, stated: "ApiPrice") -> "TokenPrice":
    """Return the price of an API that a question states."""
    from capplan.clock import today
    from capplan.core.gpus.by_use import TokenPrice

    return TokenPrice(model=model, provider="the stated API", checked=today(), **asdict(stated))


def _buyers_notes(best: "DeploymentFit | None", search: "Search") -> tuple[str, ...]:
    """Return what else a buyer should know of the recommended GPUs: their licence, who rents them, old prices."""
    from capplan.clock import today
    from capplan.core.economics.concerns import Concern, concerns_of_age
    from capplan.core.gpus.attributes import driver_licence

    if best is None:
        return ()
    notes = []
    if driver_licence(search.find_gpu(best.gpu)) is not None:
        notes.append(f"GeForce drivers are not licensed for data centres ({best.gpu})")
    if best.rent is not None and best.rent.is_marketplace:
        notes.append(f"{best.rent.provider} passes on offers of third-party hosts: each lasts while its host offers it")
    if best.rent is not None:
        concerns = concerns_of_age(best.rent.evidence, on=today())
        notes += [c if c is Concern.UNDATED_PRICE else f"{c} of {best.rent.date}" for c in concerns]
    return ("; ".join(notes),) if notes else ()


def plan_fleet(search: "Search", question: LlmPlanQuestion, prices: "Prices") -> "PlannedFleet":
    """Search deployments, and work out the money and the hand-over of the recommended one."""
    from capplan.llm.core.search.plan import plan_deployments

    return fleet_of(plan_deployments(search), search, question, prices)


def fleet_of(plan: "DeploymentPlan", search: "Search", question: LlmPlanQuestion, prices: "Prices") -> "PlannedFleet":
    """Return a plan with the money and the hand-over of its recommended deployment."""
    from capplan.llm.core.fleet.launch_files import launch_files
    from capplan.llm.core.fleet.money import PlannedFleet
    from capplan.llm.core.search.handover import launch_of
    from capplan.llm.read.framework_forms import ENGINE_FORMS
    from capplan.specs.fitted import load_power_law
    from capplan.specs.shipped import LAUNCH_FORMS

    best = plan.recommended
    if best is None:
        return PlannedFleet(plan=plan)
    launch = launch_of(best, search, ENGINE_FORMS.load())
    files = launch_files(best, launch, model=plan.model, forms=LAUNCH_FORMS.load())
    if search.question.own_gpus is not None:
        return PlannedFleet(plan=plan, launch=launch, launch_files=files)
    law = search.power_law or load_power_law()
    drawn = best.energy or search.energy(search.find(search.words_of(best)), best, law)
    cached = search.question.load.prefix_fraction
    case = served_case(plan, search, question, prices, law)
    counted_money = _fleet_money(best, search.find_gpu(best.gpu), case, question, energy=drawn, cached_fraction=cached)
    return PlannedFleet(plan=plan, money=counted_money, launch=launch, launch_files=files)


def served_case(
    plan: "DeploymentPlan", search: "Search", question: LlmPlanQuestion, prices: "Prices", law: "PowerLaw",
    *, buyer: "Buyer | None" = None,
) -> "ServedCase":  # fmt: skip
    """Return what a decision on a plan rests on: the demand, the prices and what the buyer admits."""
    from capplan.app.procurement.constraints import at_place, laid_over
    from capplan.app.procurement.serving import Buyer, ServedCase, served_demand, served_load
    from capplan.clock import today
    from capplan.core.economics.constraints import NameLists
    from capplan.core.economics.evidence import Standards
    from capplan.specs.constraints import allowing_named_spot
    from capplan.specs.fitted import load_price_drift
    from capplan.specs.load import load_defaults
    from capplan.specs.providers import load_providers

    start_up_s = load_defaults("service")["start_up"].value
    load = served_load(plan, growth_fraction=question.growth_fraction, week=question.week(), start_up_s=start_up_s)
    buyer = buyer or Buyer()
    allowed = NameLists(
        providers=frozenset(map(load_providers().canonical, question.providers)),
        regions=frozenset(question.regions),
        gpus=frozenset(search.find_gpu(name).id for name in names_of(question.gpus)),
    )
    named = {"allow": allowed, "deny": NameLists(), "certainty_fraction": plan.certainty_fraction}
    constraints = laid_over(buyer.admitted, named)
    standards = Standards(certain_fits=frozenset(), today=today(), constraints=constraints, drift=load_price_drift())
    load = allowing_named_spot(replace(load, allow_spot=buyer.allow_spot), constraints)
    states_runs = question.runs_per_year is not None
    demand = served_demand(load, years=question.years, constraints=constraints, states_runs=states_runs)
    demand = at_place(demand, load_providers().countries_in(sorted(constraints.allow.regions)))
    return ServedCase(search=search, plan=plan, demand=demand, prices=prices, standards=standards, power_law=law)


def _fleet_money(
    fit: "DeploymentFit", gpu: "GpuSpec", case: "ServedCase", question: MoneyFields, *,
    energy: "ServingEnergy | None", cached_fraction: float,
) -> "FleetMoney":  # fmt: skip
    """Return what a deployment costs by every term, over the years."""
    from capplan.core.economics.cost import CardDraw
    from capplan.core.serving.load import levels_of
    from capplan.llm.core.fleet.money import FleetMoney, compare_with_api, fleets_by_year, joules_per_output_token
    from capplan.specs.load import load_defaults

    money, growth, week, api = case.demand.money, question.growth_fraction, question.week(), question.api()
    card = None
    if energy is not None and gpu.tdp_w is not None:
        idle_w = case.power_law.of(gpu).base_fraction * gpu.tdp_w
        card = CardDraw(limit_w=gpu.tdp_w, used_w=energy.power_w.expected / fit.gpus, idle_w=idle_w)
    return FleetMoney(
        years=fleets_by_year(fit, growth_fraction=growth, years=question.years),
        payments=case.ways_to_pay(replace(fit, energy=energy)),
        use=levels_of(week, 1.0)[0] if 0.0 in week else None,
        start_up_s=load_defaults("service")["start_up"].value,
        energy=energy,
        joules_per_output_token=(
            None if card is None else joules_per_output_token(fit, card, money, form_factor=gpu.form_factor)
        ),
        api=compare_with_api(fit, api, cached_fraction=cached_fraction) if api else None,
        growth_fraction=growth,
        counted_years=question.years,
        usd_per_kwh=money.usd_per_kwh,
        pue=money.pue,
    )


def _lines(answers: "Sequence[PlannedFleet]", question: LlmPlanQuestion, look: Look) -> "list[Line] | None":
    """Return the answer on one screen; None where all of it is asked for."""
    if question.everything:
        return None
    from capplan.report.text.llm.short_plan import plan_lines

    if answers[0].ways is not None:
        return None
    return plan_lines(answers[0], width=look.width, launch=question.launch or question.here)


def _files(answers: "Sequence[PlannedFleet]", question: LlmPlanQuestion) -> Mapping[Path, bytes]:
    """Return the files that start the recommended fleet, where they are asked for."""
    files = answers[0].launch_files
    if question.kubernetes is not None and "kubernetes.yaml" in files:
        files = {**files, str(question.kubernetes.absolute()): files["kubernetes.yaml"]}
    drawn = drawn_by(plot="capplan.report.text.ways:ways_chart", part="ways")(answers, question)
    return {**drawn, **question.in_folder(files)}


LLM_PLAN = Verb(
    path="llm plan",
    question=LlmPlanQuestion,
    summary="Find the deployments of a language model that carry a load within limits, the cheapest first.",
    fails_if="none does",
    take_it="Take it to choose GPUs and their number for a load; for one GPU that is chosen take `llm_memory`, or "
    "`llm_estimate` of `ask`.",
    verdict=("recommended", "notes"),
    examples=(
        "capplan llm plan llama-3.1-70b-instruct --weights fp8 --rate 20 --max-ttft 1s --max-tpot 40ms",
        "capplan llm plan qwen3-32b --gpu h100-sxm5-80gb --gpu l40s --concurrency 64 --max-tpot 50ms --percentile 99",
    ),
    answer=answer_llm_plan,
    effort=Effort.LONG,
    sections=laid_out_by("capplan.report.text.llm.plan:llm_plan_sections", everything="everything", launch="launch"),
    fits_one_screen=True,
    lines=_lines,
    document=laid_out_by("capplan.shapes.llm_plan:LLM_PLAN"),
    files=_files,
    finalize=checking_pictures("plot"),
    outcome=lambda found: Outcome(exit_code=0 if found.plan.fits else 1),
    for_service=_with_load,
    schema="llm-plan",
    returns="capplan.llm.core.fleet.money:PlannedFleet",
)
