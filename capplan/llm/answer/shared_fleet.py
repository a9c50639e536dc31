"""Plan several language models on one fleet, from a file of models and their loads."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from capplan.core.energy.power import PowerLaw
from capplan.core.gpus.places import LocalAmount, LocalCurrency
from capplan.llm.answer.deployments import Deployments
from capplan.llm.answer.load_question import question_of
from capplan.llm.answer.plan_serving import plan_serving
from capplan.llm.answer.rents import on_demand_offers
from capplan.llm.core.fleet.deployment_plan import DeploymentPlan
from capplan.llm.core.fleet.shared_fleet import SharedFleet, shared_fleets
from capplan.llm.core.serving.runs import MeasuredRun
from capplan.llm.core.timing.calibration import LlmCalibration
from capplan.llm.read.load_file import ServingLoadFile
from capplan.specs import Gpus
from capplan.specs.prices import Prices


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetAnswer:
    """The plans of all models, and the fleets that serve them together, the cheapest first.

    `local` is the currency that the cost of the first also stands in.
    """

    plans: tuple[DeploymentPlan, ...]
    fleets: tuple[SharedFleet, ...]
    local: LocalCurrency | None = None

    @property
    def local_cost(self) -> LocalAmount | None:
        """Return what the first fleet costs an hour in the local currency; None where none is asked for.

        Its tax is known where all of its machines stand in one country.
        """
        usd = self.fleets[0].usd_per_hour if self.fleets else None
        if self.local is None or usd is None:
            return None
        countries = self.fleets[0].countries
        return self.local.amount(usd, country=countries.pop() if len(countries) == 1 else None)


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
    fleets = shared_fleets(plans, shares_gpus=shares_gpus)
    if max_power_draw_w is not None:
        fleets = tuple(fleet for fleet in fleets if (fleet.power_w or inf) <= max_power_draw_w)
    return FleetAnswer(plans=plans, fleets=fleets)
