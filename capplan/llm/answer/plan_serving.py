"""Search deployments of a language model for a load under limits: which GPUs, how many, at what cost."""

from collections.abc import Sequence
from dataclasses import replace

from capplan.llm.answer.deployments import Deployments
from capplan.llm.answer.fleet_money import MoneyQuestion, fleet_money
from capplan.llm.answer.measured_runs import named_runs_of, time_adjustment
from capplan.llm.answer.rents import searched_gpus
from capplan.llm.core.deployment import NamedDeployment, ServingDeployment
from capplan.llm.core.fleet.deployment_plan import DeploymentPlan
from capplan.llm.core.fleet.limits import PATIENCE
from capplan.llm.core.fleet.planned import PlannedFleet
from capplan.llm.core.fleet.rented import RentedGpu
from capplan.llm.core.search.handover import launch_of
from capplan.llm.core.search.plan import check_load, plan_deployments
from capplan.llm.core.search.search import DEFAULT_ENGINES, Search, SearchSpace
from capplan.llm.core.serving.evidence import Adjustment
from capplan.llm.core.serving.runs import MeasuredRun
from capplan.llm.core.timing.calibration import LlmCalibration
from capplan.llm.core.timing.constants import constants_of
from capplan.llm.read.load_file import ServingLoadFile
from capplan.specs import Gpus
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


def is_read_by_people(asked: ServingLoadFile) -> bool:
    """Return True if a load is a stream of requests without limits, for which what a reader waits for is held."""
    return asked.load.rate_per_s is not None and asked.load.job is None and not asked.limits.are_set


def question_of(
    model: str,
    asked: ServingLoadFile,
    *,
    gpus: Gpus,
    rents: dict[str, tuple[RentedGpu, ...]],
    named: Sequence[str] = (),
) -> SearchSpace:
    """Return the question of one model under the load of a file.

    Args:
        model: The words that name the model.
        asked: What the file states; what it leaves out takes the defaults of `capplan llm plan`.
        gpus: The database.
        rents: The on-demand offers of GPUs, by id.
        named: GPUs to consider instead of the file's.

    Raises:
        UnknownNameError: A GPU is not known.
    """
    names = named or asked.gpus
    waits = is_read_by_people(asked)
    return SearchSpace(
        model=model,
        load=asked.load,
        limits=replace(PATIENCE, statistic=asked.limits.statistic) if waits else asked.limits,
        certainty_fraction=0.5 if waits else asked.certainty_fraction,
        gpus=tuple(gpus.find(name).id for name in names) if names else searched_gpus(gpus, rents),
        engines=asked.engines or DEFAULT_ENGINES,
        weights=asked.weights or ("",),
        kv=asked.kv,
        choice=asked.choice,
        batch_limits=asked.batch_limits or (0,),
        redundancy=asked.redundancy,
        rents=rents,
        adapters=asked.adapters,
        sampling=asked.sampling,
        utilization_fraction=asked.utilization_fraction,
    )
