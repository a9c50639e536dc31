"""Plan several language models on one fleet, from a file of models and their loads."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from capplan.core.energy.power import PowerLaw
from capplan.llm.answer.deployments import Deployments
from capplan.llm.answer.plan_serving import is_read_by_people, plan_serving, question_of
from capplan.llm.answer.rents import on_demand_offers
from capplan.llm.core.fleet.limits import PATIENCE_FILE_WORDS
from capplan.llm.core.fleet.shared_fleet import FleetAnswer, shared_fleets
from capplan.llm.core.serving.runs import MeasuredRun
from capplan.llm.core.timing.calibration import LlmCalibration
from capplan.llm.read.load_file import ServingLoadFile
from capplan.specs import Gpus
from capplan.specs.prices import Prices


def plan_shared_fleet(
    asked: Sequence[tuple[str, ServingLoadFile]],
    *,
    gpus: Gpus,
    prices: Prices,
    calibration: LlmCalibration,
    shares_gpus: bool = False,
    measured: Sequence[MeasuredRun] = (),
    power_law: PowerLaw | None = None,
    max_power_draw_w: float | None = None,
) -> FleetAnswer:
    """Plan every model of a fleet, and put the plans together.

    Args:
        asked: The models with their loads.
        gpus: The database.
        prices: All known prices.
        calibration: Constants of the time model.
        shares_gpus: True to put several models on the same GPUs where that is cheaper.
        measured: Measured runs, each of which names its deployment.
        power_law: The law of power, with a cap of all GPUs; None where nobody asks for energy.
        max_power_draw_w: Most mean power of all GPUs of a fleet; None for any. [W]

    Raises:
        CapplanError: A model or GPU is not known.
    """
    rents, deployments = on_demand_offers(prices), Deployments(gpus=gpus, power_law=power_law)
    questions = [question_of(model, load, gpus=gpus, rents=rents) for model, load in asked]
    plans = tuple(
        plan_serving(question, deployments=deployments, calibration=calibration, measured=measured)
        for question in questions
    )
    plans = tuple(
        replace(plan, notes=(PATIENCE_FILE_WORDS, *plan.notes)) if is_read_by_people(load) else plan
        for plan, (_, load) in zip(plans, asked, strict=True)
    )
    fleets = shared_fleets(plans, shares_gpus=shares_gpus)
    if max_power_draw_w is not None:
        fleets = tuple(fleet for fleet in fleets if (fleet.power_w or inf) <= max_power_draw_w)
    return FleetAnswer(plans=plans, fleets=fleets)
