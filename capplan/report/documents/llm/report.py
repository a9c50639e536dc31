"""The report on LLM serving as JSON: the documents of `llm plan` and `llm simulate`, and the variations."""

import msgspec

from capplan.llm.core.fleet.money import ServingReport, Variation
from capplan.report.documents.llm.plan import LlmPlanDocument, llm_plan_document
from capplan.report.documents.llm.serving import SimulationDocument, simulation_document
from capplan.shapes.codec import SCHEMA_VERSION, Document


class VariationDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The recommended deployment under a changed assumption; figures are null where it does not carry the load then."""

    group: str
    label: str
    gpus: int | None
    replicas: int | None
    ttft_s: float | None
    tpot_s: float | None
    usd_per_hour: float | None
    usd_per_million_output_tokens: float | None
    cheapest_then: str | None


class ServingReportDocument(Document, frozen=True, kw_only=True):
    """What `capplan llm report MODEL --load LOAD.yaml -o report.json` writes."""

    title: str
    created: str
    load_file: str
    command: str
    plan: LlmPlanDocument
    simulation: SimulationDocument | None
    sensitivity: tuple[VariationDocument, ...]


def serving_report_document(report: ServingReport) -> ServingReportDocument:
    """Return the report as its JSON document."""
    return ServingReportDocument(
        schema_version=SCHEMA_VERSION,
        title=report.title,
        created=report.created,
        load_file=report.load_file,
        command=report.command,
        plan=llm_plan_document(report.fleet),
        simulation=simulation_document(report.simulation) if report.simulation else None,
        sensitivity=tuple(map(_variation, report.variations)),
    )


def _variation(variation: Variation) -> VariationDocument:
    fit = variation.fit
    return VariationDocument(
        group=variation.group,
        label=variation.label,
        gpus=fit.gpus if fit else None,
        replicas=fit.replicas if fit else None,
        ttft_s=fit.ttft_s.expected if fit else None,
        tpot_s=fit.tpot_s.expected if fit else None,
        usd_per_hour=fit.usd_per_hour if fit else None,
        usd_per_million_output_tokens=fit.usd_per_million_output_tokens if fit else None,
        cheapest_then=variation.best,
    )
