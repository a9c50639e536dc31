"""Search deployments of a language model for a load under limits: which GPUs, how many, at what cost."""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, exp, inf, log1p, sqrt

from capplan.core.serving_engines import find_engine
from capplan.llm.answer.deployments import Deployments
from capplan.llm.answer.fleet_money import MoneyQuestion, fleet_money
from capplan.llm.answer.measured_runs import named_runs_of, time_adjustment
from capplan.llm.core.deployment import NamedDeployment, ServingDeployment
from capplan.llm.core.fleet.deployment_plan import DeploymentFit, DeploymentPlan
from capplan.llm.core.fleet.launch import Launch, Setting, launch
from capplan.llm.core.fleet.limits import DEFAULT_CERTAINTY, PATIENCE, PATIENCE_FILE_WORDS
from capplan.llm.core.fleet.money import PlannedFleet
from capplan.llm.core.fleet.shared_fleet import FleetAnswer, shared_fleets
from capplan.llm.core.fleet.token_load import TokenLoad
from capplan.llm.core.quantisation import half_note
from capplan.llm.core.search.plan import check_load, plan_deployments
from capplan.llm.core.search.search import Search, SearchSpace
from capplan.llm.core.serving.asked import ServingTask
from capplan.llm.core.serving.cases import MeasuredRun
from capplan.llm.core.serving.evidence import Adjustment
from capplan.llm.core.simulation.load_answer import LatencyLimits
from capplan.llm.core.timing.calibration import LlmCalibration
from capplan.llm.core.timing.constants import constants_of
from capplan.specs.fitted import load_power_law
from capplan.specs.prices import Prices


def plan_serving(
    question: SearchSpace,
    *,
    deployments: Deployments,
    calibration: LlmCalibration,
    measured: Sequence[MeasuredRun] = (),
) -> DeploymentPlan:
    """Judge every deployment that the question names, and rank those that carry the load.

    Args:
        question: The model, the load, the limits, and what to search.
        deployments: Where deployments are found.
        calibration: The constants of the time model.
        measured: Measured runs, each of which names its deployment.

    Raises:
        CapplanError: The model is not known, or the load is empty or too long for the model.
    """
    return plan_deployments(_search(question, deployments, calibration, measured))


def _search(
    question: SearchSpace, deployments: Deployments, calibration: LlmCalibration, measured: Sequence[MeasuredRun] = ()
) -> Search:
    check_load(question.load)
    constants = constants_of(calibration)
    found: dict[NamedDeployment, Adjustment | None] = {}

    def adjustment(deployment: ServingDeployment) -> Adjustment | None:
        if measured and deployment.words not in found:
            own = named_runs_of(measured, deployment)
            found[deployment.words] = time_adjustment(own, deployment, calibration, constants)
        return found.get(deployment.words)

    return Search(
        question=question,
        model=deployments.model(question.model),
        find=deployments.find,
        find_gpu=deployments.gpus.find,
        memory=deployments.memory,
        calibration=calibration,
        constants=constants,
        adjustment=adjustment,
        power_law=deployments.power_law,
    )


def plan_fleet(
    question: SearchSpace,
    *,
    deployments: Deployments,
    calibration: LlmCalibration,
    prices: Prices,
    money: MoneyQuestion,
    measured: Sequence[MeasuredRun] = (),
) -> PlannedFleet:
    """Search deployments, and work out the money and the hand-over of the recommended one.

    Args:
        question: The model, the load, the limits, and what to search.
        deployments: Where deployments are found.
        calibration: The constants of the time model.
        prices: All known prices.
        money: How money is counted.
        measured: Measured runs, each of which names its deployment.

    Raises:
        CapplanError: The model is not known, or the load is empty or too long for the model.
    """
    search = _search(question, deployments, calibration, measured)
    plan = plan_deployments(search)
    best = plan.recommended
    if best is None:
        return PlannedFleet(plan=plan)
    law = deployments.power_law or load_power_law()
    drawn = best.energy or search.energy(deployments.find(search.words_of(best)), best, law)
    return PlannedFleet(
        plan=plan,
        money=fleet_money(best, deployments.gpus.find(best.gpu), prices, money, energy=drawn, law=law),
        launch=launch_of(best, search),
    )


def is_read_by_people(load: TokenLoad, limits: LatencyLimits) -> bool:
    """Return True if a load is a stream of requests for text without limits, which is held to a reader's patience."""
    is_stream = load.rate_per_s is not None and load.job is None
    return is_stream and load.task == ServingTask.GENERATE and not limits.are_set


def with_patience(question: SearchSpace, *, certainty_fraction: float | None) -> SearchSpace:
    """Return a search with the limits and the certainty that hold where they are not stated.

    Args:
        question: The search, with the limits that are stated.
        certainty_fraction: The certainty that is stated; None for the default: mean times for a reader's patience, else
            `DEFAULT_CERTAINTY`.
    """
    if not is_read_by_people(question.load, question.limits):
        return replace(question, certainty_fraction=certainty_fraction or DEFAULT_CERTAINTY)
    patience = replace(PATIENCE, statistic=question.limits.statistic)
    return replace(question, limits=patience, certainty_fraction=certainty_fraction or 0.5)


def with_patience_note(plan: DeploymentPlan, stated: LatencyLimits, *, words: str) -> DeploymentPlan:
    """Return a plan that says first that a reader's patience was held, where it was.

    Args:
        plan: The plan.
        stated: The limits that were asked for.
        words: What says so, in the words of the door that limits are stated at.
    """
    return replace(plan, notes=(words, *plan.notes)) if is_read_by_people(plan.load, stated) else plan


def plan_shared_fleet(
    asked: Sequence[tuple[SearchSpace, LatencyLimits]],
    *,
    deployments: Deployments,
    calibration: LlmCalibration,
    shares_gpus: bool = False,
    measured: Sequence[MeasuredRun] = (),
    max_power_draw_w: float | None = None,
) -> FleetAnswer:
    """Plan every model of a fleet, and put the plans together.

    Args:
        asked: What is asked of each model, and the limits that its load states.
        deployments: Where deployments are found.
        calibration: Constants of the time model.
        shares_gpus: True to put several models on the same GPUs where that is cheaper.
        measured: Measured runs, each of which names its deployment.
        max_power_draw_w: Most mean power of all GPUs of a fleet; None for any. [W]

    Raises:
        CapplanError: A model or GPU is not known.
    """
    plans = tuple(
        with_patience_note(
            plan_serving(question, deployments=deployments, calibration=calibration, measured=measured),
            stated,
            words=PATIENCE_FILE_WORDS,
        )
        for question, stated in asked
    )
    fleets = shared_fleets(plans, shares_gpus=shares_gpus)
    if max_power_draw_w is not None:
        fleets = tuple(fleet for fleet in fleets if (fleet.power_w or inf) <= max_power_draw_w)
    return FleetAnswer(plans=plans, fleets=fleets)


_ROUNDING = 256
_TAIL = 3.09
"""Standard deviations of a normal distribution below which 99.9 % lie."""


def launch_of(fit: DeploymentFit, search: Search) -> Launch:
    """Return the command that starts one replica of a deployment.

    Args:
        fit: The deployment.
        search: The question that it answers, with its model and the engines' rules.
    """
    model, load, engine = search.model, search.question.load, find_engine(fit.engine)
    longest = model.architecture.max_positions
    wanted = ceil(longest_request(load) / _ROUNDING) * _ROUNDING
    budget = search.service(search.find(search.words_of(fit))).scheduling.token_budget
    return launch(
        Setting(
            engine=engine,
            model=model.hf_id or model.architecture.name,
            sharding=fit.sharding,
            weights=fit.weights,
            is_own_format=model.own_quantisation.format.name == fit.weights,
            kv=fit.kv,
            max_len=min(wanted, longest or wanted),
            max_sequences=fit.batch_limit,
            token_budget=int(budget),
            memory_fraction=search.question.utilization_fraction or search.memory.find(engine, None).fraction,
            prefix_fraction=load.prefix_fraction,
            speculation=load.speculation,
            adapters=search.question.adapters,
            is_half=half_note(search.find_gpu(fit.gpu), fit.weights, fit.kv) is not None,
        )
    )


def longest_request(load: TokenLoad) -> float:
    """Return the tokens of a request that 99.9 % of the requests stay below, prompt and answer together.

    Args:
        load: The load.
    """
    parts = ((load.input_len, load.input_cv), (load.output_len, load.output_cv))
    return sum(mean * (_log_normal_tail(cv) if cv else 1.0 + load.spread) for mean, cv in parts)


def _log_normal_tail(cv: float) -> float:
    deviation = sqrt(log1p(cv * cv))
    return exp(_TAIL * deviation - deviation * deviation / 2.0)
