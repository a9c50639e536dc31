"""A plan with what follows from its recommended deployment: money and hand-over."""

from dataclasses import dataclass

from capplan.llm.core.fleet.deployment_plan import DeploymentPlan
from capplan.llm.core.fleet.launch import Launch
from capplan.llm.core.fleet.money import FleetMoney


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFleet:
    """A plan, the money of its recommended deployment and the command that launches it; None where nothing fits."""

    plan: DeploymentPlan
    money: FleetMoney | None = None
    launch: Launch | None = None
