"""Simulations of LLM serving as typed documents. Times in seconds; rates and tokens are those of one replica."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from capplan.core.numbers import Interval
from capplan.llm.core.simulation.load_answer import LatencyLimits, LoadAnswer, Percentiles, Simulation
from capplan.report.documents.codec import SCHEMA_VERSION, Document


class Definitions(msgspec.Struct, frozen=True, kw_only=True):
    """What the figures of a simulation mean."""

    ttft_s: str = "from arrival to the first token"
    tpot_s: str = "(e2e_s - ttft_s) / (output tokens - 1), the mean of each request"
    inclusive_tpot_s: str = "e2e_s / output tokens, which some tools call TPOT"
    itl_s: str = "between any two tokens of a request, over all tokens"
    e2e_s: str = "from arrival to the last token"
    goodput_fraction: str = "share of the requests that keep every limit"


class LoadAnswerDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One replica under a load; `concurrency` is null for an open load, `label` names the part of a day."""

    label: str | None
    rate_per_s: float
    concurrency: int | None
    load_fraction: float
    requests: int
    ttft_s: Percentiles
    tpot_s: Percentiles
    itl_s: Percentiles | None
    e2e_s: Percentiles
    inclusive_tpot_s: float
    output_tokens_per_s: float
    output_tokens_per_s_per_gpu: float
    output_tokens_per_s_per_user: float | None
    input_tokens_per_s: float
    goodput_fraction: float | None
    goodput_per_s: float | None
    mean_running: float
    busy_fraction: float
    cached_fraction: float
    preemptions: int
    keeps_up: bool
    power_w: Annotated[Interval | UnsetType, Meta(description="of the replica's GPUs, idle time included")] = UNSET
    joules_per_output_token: Interval | UnsetType = UNSET
    power_evidence: str | UnsetType = UNSET


class SimulationDocument(Document, frozen=True, kw_only=True):
    """What `capplan llm simulate --format json` writes."""

    model: str
    gpu: str
    gpus: int
    engine: str
    sequences_that_fit: int
    saturation_rate_per_s: float
    saturated_from_per_s: float | None
    limits: LatencyLimits
    loads: tuple[LoadAnswerDocument, ...]
    definitions: Definitions
    notes: tuple[str, ...]


def simulation_document(found: Simulation) -> SimulationDocument:
    """Return simulated loads as a document.

    Args:
        found: The answers of one replica at each load.
    """
    return SimulationDocument(
        schema_version=SCHEMA_VERSION,
        model=found.model,
        gpu=found.gpu,
        gpus=found.gpus,
        engine=found.engine,
        sequences_that_fit=int(found.sequences_that_fit),
        saturation_rate_per_s=found.saturation_rate_per_s,
        saturated_from_per_s=found.saturated_from_per_s,
        limits=found.limits,
        loads=tuple(_answer(answer, found) for answer in found.answers),
        definitions=Definitions(),
        notes=found.notes,
    )


def _answer(each: LoadAnswer, found: Simulation) -> LoadAnswerDocument:
    return LoadAnswerDocument(
        label=each.label or None,
        rate_per_s=each.rate_per_s,
        concurrency=each.clients,
        load_fraction=found.load_fraction(each),
        requests=each.requests,
        ttft_s=each.ttft_s,
        tpot_s=each.tpot_s,
        itl_s=each.itl_s,
        e2e_s=each.e2e_s,
        inclusive_tpot_s=each.inclusive_tpot_s,
        output_tokens_per_s=each.output_tokens_per_s,
        output_tokens_per_s_per_gpu=each.output_tokens_per_s / found.gpus,
        output_tokens_per_s_per_user=each.output_tokens_per_s_per_user,
        input_tokens_per_s=each.input_tokens_per_s,
        goodput_fraction=each.goodput_fraction,
        goodput_per_s=each.goodput_per_s,
        mean_running=each.mean_running,
        busy_fraction=each.busy_fraction,
        cached_fraction=each.cached_fraction,
        preemptions=each.preemptions,
        keeps_up=each.keeps_up,
        power_w=each.energy.power_w if each.energy else UNSET,
        joules_per_output_token=each.energy.joules_per_output_token if each.energy else UNSET,
        power_evidence=each.energy.evidence if each.energy else UNSET,
    )
