"""The report as JSON: every value of the report object under its own name, units in the names."""

import dataclasses
from collections.abc import Mapping
from datetime import date
from enum import Enum
from typing import Any

from capplan.report.procurement.types import REPORT_SCHEMA_VERSION, ModelReport, Report


def report_to_json(report: Report) -> dict[str, Any]:
    """Encode a report as a JSON document, described by capplan/schemas/report.schema.json."""
    document = plain(report)
    document.pop("models")
    return {
        "schema_version": REPORT_SCHEMA_VERSION,
        "kind": "report",
        **document,
        "models": [_model_to_json(model) for model in report.models],
    }


def _model_to_json(model: ModelReport) -> dict[str, Any]:
    return {"name": model.subject.name, **plain(model)}


def plain(value: object) -> Any:
    """Turn nested dataclasses into mappings, lists, numbers and text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, frozenset):
        return sorted(plain(each) for each in value)
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    return value
