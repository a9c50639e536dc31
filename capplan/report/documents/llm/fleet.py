"""Several models on one fleet as a typed document."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from capplan.core.llm.fleet.deployment_plan import DeploymentPlan
from capplan.core.llm.fleet.shared_fleet import SharedFleet
from capplan.core.llm.fleet.token_load import TokenLoad
from capplan.core.llm.simulation.load_answer import LatencyLimits

SCHEMA_VERSION: Final = 1


class FleetPartDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One model of a fleet, and the deployment that serves it there."""

    model: str
    gpu: str
    gpus: int
    replicas: int
    tp: int
    pp: int
    ep: int
    dp: int
    engine: str
    weights: str
    words: str
    usd_per_hour: float | None


class SharedFleetDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A fleet that serves all models."""

    gpu: Annotated[str | None, Meta(description="null where the models are on different GPUs")]
    gpus: int
    servers: Annotated[int, Meta(description="servers of eight GPUs, no replica across two")]
    usd_per_hour: float | None
    words: str
    parts: tuple[FleetPartDocument, ...]


class PlannedModelDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A model, its load, and how many deployments carry it; `advice` says what would do where none does."""

    model: str
    load: TokenLoad
    limits: LatencyLimits
    fits: int
    advice: str | None


class LlmFleetDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What `capplan llm fleet --format json` writes, the cheapest fleet first."""

    schema_version: Literal[1]
    models: tuple[PlannedModelDocument, ...]
    recommended: SharedFleetDocument | None
    fleets: tuple[SharedFleetDocument, ...]


def fleet_document(plans: tuple[DeploymentPlan, ...], fleets: tuple[SharedFleet, ...]) -> LlmFleetDocument:
    """Return plans and the fleets that serve them together as a document.

    Args:
        plans: One plan for each model.
        fleets: The fleets, the cheapest first.
    """
    found = tuple(map(_fleet, fleets))
    return LlmFleetDocument(
        schema_version=SCHEMA_VERSION,
        models=tuple(
            PlannedModelDocument(
                model=plan.model, load=plan.load, limits=plan.limits, fits=len(plan.fits), advice=plan.advice
            )
            for plan in plans
        ),
        recommended=found[0] if found else None,
        fleets=found,
    )


def _fleet(fleet: SharedFleet) -> SharedFleetDocument:
    return SharedFleetDocument(
        gpu=fleet.gpu,
        gpus=fleet.gpus,
        servers=fleet.servers,
        usd_per_hour=fleet.usd_per_hour,
        words=fleet.words,
        parts=tuple(
            FleetPartDocument(
                model=part.plan.model,
                gpu=part.fit.gpu,
                gpus=part.fit.gpus,
                replicas=part.fit.replicas,
                tp=part.fit.sharding.tensor,
                pp=part.fit.sharding.pipeline,
                ep=part.fit.sharding.expert,
                dp=part.fit.sharding.data,
                engine=part.fit.engine,
                weights=part.fit.weights,
                words=part.fit.words,
                usd_per_hour=part.fit.usd_per_hour,
            )
            for part in fleet.parts
        ),
    )
