"""Make the JSON Schemas of the documents from their types."""

import json
from inspect import cleandoc
from typing import Any

import msgspec

from capplan.core.calibrate.device import DeviceBenchmark
from capplan.core.latency.calibration import HostCosts
from capplan.report.procurement.json import REPORT, SERVING_REPORT
from capplan.shapes.measurement import FailureDocument, MeasureDocument, MeasurementDocument
from capplan.shapes.types import (
    AcceptanceDocument,
    AnalysisDocument,
    CacheDocument,
    CheckDocument,
    ComparisonDocument,
    DiffDocument,
    EstimateDocument,
    GpusDocument,
    GpuSheetDocument,
    InstalledGpusDocument,
    LlmEstimateDocument,
    LlmFleetDocument,
    LlmMemoryDocument,
    LlmModelsDocument,
    LlmPlanDocument,
    LlmScaleDocument,
    LlmStartDocument,
    LlmSupportDocument,
    LlmTrainEstimateDocument,
    LlmTrainMemoryDocument,
    LlmTrainPlanDocument,
    LlmTrainValidateDocument,
    LlmValidationDocument,
    MeasurementComparisonsDocument,
    MemoryDocument,
    ObservedLoadDocument,
    PipelineMemoryDocument,
    PipelinesDocument,
    PipelineValidationDocument,
    PlanDocument,
    PricesDocument,
    SettingsDocument,
    SimulationDocument,
    SweepDocument,
    SweepPreviewDocument,
    ValidationDocument,
)

DOCUMENTS: dict[str, Any] = {
    "accept": AcceptanceDocument,
    "analyze": AnalysisDocument,
    "cache": CacheDocument,
    "calibrate-device": DeviceBenchmark,
    "calibrate-host": HostCosts,
    "check": CheckDocument,
    "compare": ComparisonDocument,
    "config": SettingsDocument,
    "diff": DiffDocument,
    "estimate": EstimateDocument,
    "gpus": GpusDocument,
    "gpus-detect": InstalledGpusDocument,
    "gpus-show": GpuSheetDocument,
    "llm-estimate": LlmEstimateDocument,
    "llm-fleet": LlmFleetDocument,
    "llm-memory": LlmMemoryDocument,
    "llm-models": LlmModelsDocument,
    "llm-plan": LlmPlanDocument,
    "llm-report": SERVING_REPORT.struct,
    "llm-scale": LlmScaleDocument,
    "llm-simulate": SimulationDocument,
    "llm-start": LlmStartDocument,
    "llm-support": LlmSupportDocument,
    "llm-train-estimate": LlmTrainEstimateDocument,
    "llm-train-memory": LlmTrainMemoryDocument,
    "llm-train-plan": LlmTrainPlanDocument,
    "llm-train-validate": LlmTrainValidateDocument,
    "llm-validate": LlmValidationDocument,
    "load": ObservedLoadDocument,
    "measure": (MeasureDocument, MeasurementDocument, FailureDocument),
    "measure-compare": MeasurementComparisonsDocument,
    "measure-pipeline": PipelinesDocument,
    "memory": (MemoryDocument, PipelineMemoryDocument),
    "plan": (PlanDocument, tuple[PlanDocument, ...]),
    "prices": PricesDocument,
    "report": REPORT.struct,
    "sweep": (SweepDocument, SweepPreviewDocument),
    "validate": (ValidationDocument, PipelineValidationDocument),
}
"""The type of each document by the name that `capplan schema` takes; several where a file may hold either."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def document_types(name: str) -> tuple[Any, ...]:
    """Return the types that a document may have."""
    found = DOCUMENTS[name]
    return found if isinstance(found, tuple) else (found,)


def schema_of(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a document that capplan writes.

    A document that is written has all fields of its type and no others, except those that only some answers have.
    """
    schemas, components = msgspec.json.schema_components(document_types(name), ref_template="#/$defs/{name}")
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}
    definitions = {key: _as_written(value) for key, value in sorted(components.items())}
    return {"$schema": _DIALECT, "title": f"capplan {name.replace('-', ' ')}", **schema, "$defs": definitions}


def _as_written(definition: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a type as it is written: closed, with every field that has a value or a default.

    Only fields without a default may be absent: those are unset in answers that they do not belong to.
    """
    written = dict(definition)
    if "description" in written:
        written["description"] = " ".join(cleandoc(written["description"]).split("\n\n")[0].split())
    if "properties" not in written:
        return written
    required = {*written["required"], *(key for key, schema in written["properties"].items() if "default" in schema)}
    written["properties"] = {
        key: {name: value for name, value in schema.items() if name != "default"}
        for key, schema in written["properties"].items()
    }
    written["required"] = [key for key in written["properties"] if key in required]
    return written | {"additionalProperties": False}


def schema_text(name: str) -> str:
    """Return the JSON Schema of a document as `capplan schema` prints it."""
    return json.dumps(schema_of(name), indent=2, ensure_ascii=False) + "\n"
