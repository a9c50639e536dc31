"""A plan with what follows from its recommended deployment: money and hand-over."""

from dataclasses import dataclass

from capplan.core.gpus.places import LocalAmount, LocalCurrency
from capplan.llm.core.fleet.deployment_plan import DeploymentFit, DeploymentPlan
from capplan.llm.core.fleet.launch import Launch
from capplan.llm.core.fleet.money import FleetMoney
from capplan.llm.core.simulation.load_answer import Simulation


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFleet:
    """A plan, the money of its recommended deployment and the command that launches it; None where nothing fits.

    `local` is the currency that its cost also stands in.
    """

    plan: DeploymentPlan
    money: FleetMoney | None = None
    launch: Launch | None = None
    local: LocalCurrency | None = None

    @property
    def local_cost(self) -> LocalAmount | None:
        """Return what the recommended deployment costs an hour in the local currency; None where none is asked for."""
        best = self.plan.recommended
        if self.local is None or best is None or best.rent is None or best.usd_per_hour is None:
            return None
        return self.local.amount(best.usd_per_hour, country=best.rent.country)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """The recommended deployment under a changed assumption; `fit` is None where it does not carry the load then.

    `group` names what is varied, `label` how. `best` is the fleet that is cheapest then, where another one is.
    """

    group: str
    label: str
    fit: DeploymentFit | None
    best: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingReport:
    """A report on serving one language model; `simulation` is None where nothing fits.

    `created` is the day, `command` what makes the report again, `load_file` where the load was read.
    """

    title: str
    fleet: PlannedFleet
    simulation: Simulation | None
    variations: tuple[Variation, ...]
    created: str
    command: str
    load_file: str
