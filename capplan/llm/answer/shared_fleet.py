"""Plan several language models on one fleet, from a file of models and their loads."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from capplan.llm.answer.deployments import Deployments
from capplan.llm.answer.fleet_money import known_prices
from capplan.llm.answer.load_question import question_of
from capplan.llm.answer.plan_serving import plan_serving
from capplan.llm.answer.rents import on_demand_offers
from capplan.llm.core.fleet.deployment_plan import DeploymentPlan
from capplan.llm.core.fleet.shared_fleet import SharedFleet, shared_fleets
from capplan.llm.read.load_file import read_fleet_file
from capplan.llm.read.time_calibration import load_time_calibration
from capplan.specs import load_gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetAnswer:
    """The plans of all models, and the fleets that serve them together, the cheapest first."""

    plans: tuple[DeploymentPlan, ...]
    fleets: tuple[SharedFleet, ...]


def plan_shared_fleet(
    file: Path, *, specs: Sequence[Path] = (), calibration: Path | None = None, shares_gpus: bool = False
) -> FleetAnswer:
    """Plan every model of a file, and put the plans together.

    Args:
        file: The models and their loads.
        specs: Further spec folders.
        calibration: Constants of the time model; the shipped ones if None.
        shares_gpus: True to put several models on the same GPUs where that is cheaper.

    Raises:
        CapplanError: The file is refused, or a model or GPU is not known.
    """
    asked = read_fleet_file(file)
    gpus = load_gpus(overlays=specs)
    rents = on_demand_offers(known_prices(gpus, specs))
    deployments, constants = Deployments(gpus=gpus), load_time_calibration(calibration)
    plans = tuple(
        plan_serving(question_of(model, each, gpus=gpus, rents=rents), deployments=deployments, calibration=constants)
        for model, each in asked
    )
    return FleetAnswer(plans=plans, fleets=shared_fleets(plans, shares_gpus=shares_gpus))
