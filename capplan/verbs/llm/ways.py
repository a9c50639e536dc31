"""Four ways to serve the load of a week, as questions about any model ask for them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from capplan.errors import UsageError
from capplan.verbs.llm.start import MachineStartFields
from capplan.verbs.llm.week import StatedWeekFields
from capplan.verbs.statement.options import Door, Option

if TYPE_CHECKING:
    from capplan.core.scaling.load import WeekLoad
    from capplan.core.scaling.ways import ReplicaOnGpu, ServingWays, WayCost


@dataclass(frozen=True, kw_only=True)
class WaysFields(StatedWeekFields, MachineStartFields):
    """Four ways to serve the load of a week."""

    compare_ways: Annotated[
        bool,
        Option(
            help="Compare a fleet that stands, one that scales, GPUs by the second and an API over a week: ⟨week⟩ or "
            "⟨requests-per-day⟩.",
            doors=Door.COMMAND | Door.PYTHON | Door.HTTP,
        ),
    ] = False  # fmt: skip

    def stated_week(self) -> "WeekLoad | None":
        """Return the load of a week that ways are compared for; None where they are not asked for."""
        if not self.compare_ways and self.states_week:
            raise UsageError("the load of a week is for ⟨compare-ways⟩; add it.")
        return self.week_load() if self.compare_ways else None


def compared_ways(
    question: MachineStartFields, replicas: "Sequence[ReplicaOnGpu]", week: "WeekLoad",
    *, api: "WayCost", notes: tuple[str, ...], certainty: float | None = None,
) -> "ServingWays":  # fmt: skip
    """Return the ways to serve the load of a week, by the rules of KEDA where a fleet scales."""
    from capplan.core.scaling.ways import WaysAsked, compare_ways
    from capplan.specs.by_use import load_serverless
    from capplan.specs.scalers import load_presets

    scaled = load_presets()["keda"].elasticity(certainty=certainty or 0.9)
    asked = WaysAsked(week=week, asked=scaled, serverless=load_serverless())
    found = [*notes]
    if question.provision_s is None:
        found.append("Machines are there at once and hold the image; ⟨provision⟩ counts new ones.")
    if question.storage_bytes_per_s is None:
        found.append("Weights lie in host memory; ⟨storage⟩ states from where they come otherwise.")
    found.append("What an API's requests see is not known; offers by the second are those that the public pages state.")
    return replace(compare_ways(replicas, asked, api=api), notes=tuple(found))
