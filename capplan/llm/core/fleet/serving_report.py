"""What a report on LLM serving holds: the plan, one replica over its load, and what changes if the load is another."""

from dataclasses import dataclass

from capplan.llm.core.fleet.deployment_plan import DeploymentFit
from capplan.llm.core.fleet.planned import PlannedFleet
from capplan.llm.core.simulation.simulation import Simulation


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
