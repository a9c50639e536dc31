"""A plan with what follows from its recommended deployment: money and hand-over."""

from dataclasses import dataclass

from capplan.core.gpus.places import LocalAmount, LocalCurrency
from capplan.llm.core.fleet.deployment_plan import DeploymentPlan
from capplan.llm.core.fleet.launch import Launch
from capplan.llm.core.fleet.money import FleetMoney


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
