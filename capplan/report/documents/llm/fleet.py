"""Several models on one fleet as a typed document."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from capplan.core.gpus.machines import LocalAmount
from capplan.core.numbers import Interval
from capplan.llm.core.fleet.deployment_plan import DeploymentFit
from capplan.llm.core.fleet.gpu_sharing import SharedGpus
from capplan.llm.core.fleet.shared_fleet import FleetAnswer, SharedFleet
from capplan.llm.core.fleet.token_load import TokenLoad
from capplan.llm.core.simulation.load_answer import LatencyLimits
from capplan.report.documents.llm.serving import sharding_fields
from capplan.shapes.codec import SCHEMA_VERSION, Document


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
    ttft_s: Interval
    tpot_s: Interval
    usd_per_million_output_tokens: float | None
    evidence: str
    power_w: Annotated[Interval | UnsetType, Meta(description="mean of all its GPUs without hosts, with energy")] = (
        UNSET
    )
    joules_per_output_token: Interval | UnsetType = UNSET


class SharedModelDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One of several models on the same GPUs."""

    model: str
    tp: int
    pp: int
    ep: int
    dp: int
    engine: str
    weights: str
    slowdown: Annotated[float, Meta(description="how much longer its steps take than on GPUs of its own")]
    running: Annotated[float, Meta(description="requests in it on average")]
    sequences: Annotated[int, Meta(description="sequences that memory is kept for")]
    ttft_s: float
    tpot_s: float


class SharedGpusDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Models that share GPUs: memory adds up, steps take turns; an estimate that no measured run was compared with."""

    gpu: str
    gpus: int
    replicas: Annotated[int, Meta(description="groups of GPUs, each with one replica of every model")]
    words: str
    usd_per_hour: float
    models: tuple[SharedModelDocument, ...]


class SharedFleetDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A fleet that serves all models."""

    gpu: Annotated[str | None, Meta(description="null where the models are on different GPUs")]
    gpus: int
    servers: Annotated[int, Meta(description="servers of eight GPUs, no replica across two")]
    usd_per_hour: float | None
    words: str
    parts: tuple[FleetPartDocument, ...]
    shared: Annotated[tuple[SharedGpusDocument, ...], Meta(description="models on the same GPUs, with --share-gpus")]


class PlannedModelDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A model, its load, and how many deployments carry it; `advice` says what would do where none does."""

    model: str
    load: TokenLoad
    limits: LatencyLimits
    fits: int
    advice: str | None


class LlmFleetDocument(Document, frozen=True, kw_only=True):
    """What `capplan llm fleet --format json` writes, the cheapest fleet first."""

    models: tuple[PlannedModelDocument, ...]
    recommended: SharedFleetDocument | None
    fleets: tuple[SharedFleetDocument, ...]
    local: Annotated[LocalAmount | None, Meta(description="an hour of the first in the currency asked for")] = None


def fleet_document(answer: FleetAnswer) -> LlmFleetDocument:
    """Return plans and the fleets that serve them together as a document.

    Args:
        answer: A plan for each model, and the fleets.
    """
    found = tuple(map(_fleet, answer.fleets))
    return LlmFleetDocument(
        schema_version=SCHEMA_VERSION,
        models=tuple(
            PlannedModelDocument(
                model=plan.model, load=plan.load, limits=plan.limits, fits=len(plan.fits), advice=plan.advice
            )
            for plan in answer.plans
        ),
        recommended=found[0] if found else None,
        fleets=found,
        local=answer.local_cost,
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
                **_deployed(part.fit),
                words=part.fit.words,
                usd_per_hour=part.fit.usd_per_hour,
                ttft_s=part.fit.ttft_s,
                tpot_s=part.fit.tpot_s,
                usd_per_million_output_tokens=part.fit.usd_per_million_output_tokens,
                evidence=part.fit.evidence,
                power_w=part.fit.energy.power_w if part.fit.energy else UNSET,
                joules_per_output_token=part.fit.energy.joules_per_output_token if part.fit.energy else UNSET,
            )
            for part in fleet.parts
        ),
        shared=tuple(map(_shared, fleet.shared)),
    )


def _deployed(fit: DeploymentFit) -> dict[str, Any]:
    """Return what each replica is, under the names of the documents."""
    return {**sharding_fields(fit.sharding), "engine": fit.engine, "weights": fit.weights}


def _shared(group: SharedGpus) -> SharedGpusDocument:
    return SharedGpusDocument(
        gpu=group.gpu,
        gpus=group.gpus,
        replicas=group.replicas,
        words=group.words,
        usd_per_hour=group.usd_per_hour,
        models=tuple(
            SharedModelDocument(
                model=part.plan.model,
                **_deployed(part.fit),
                slowdown=part.slowdown,
                running=part.running,
                sequences=part.sequences,
                ttft_s=part.ttft_s,
                tpot_s=part.tpot_s,
            )
            for part in group.parts
        ),
    )
