"""The JSON Schema of a GPU's file, for editors that check while one types."""

from typing import Any

from capplan.core.gpus.spec import Quality, Regime, SourceKind
from capplan.specs.gpus.fields import FIELDS, RULES, Form, SpecKey

_TEXT = {"type": "string", "minLength": 1}
_TEXTS = {"type": "array", "items": _TEXT, "uniqueItems": True}
_DAY = {"type": "string", "format": "date"}


def gpu_schema() -> dict[str, Any]:
    """Describe a GPU's file; what JSON Schema cannot say (ranges in base units, rules) `validate` checks."""
    top = {key: _field(rule) for key, rule in FIELDS.items() if "." not in key}
    measured = {key.removeprefix("measured."): _field(rule) for key, rule in FIELDS.items() if rule.is_measured}
    peaks = {key.removeprefix("peak."): _field(rule) for key, rule in FIELDS.items() if key.startswith("peak.")}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "GPU spec of capplan",
        **_closed(
            {
                "name": _TEXT,
                "aliases": {**_TEXTS, "description": "exact device names as the driver reports them"},
                "architecture": {**_TEXT, "description": "stem of a file under architectures/"},
                "form_factor": _TEXT,
                "capped_from": {**_TEXT, "description": "id of the full-power card"},
                **top,
                "peak": _closed(peaks),
                "measured": {
                    **_closed(measured),
                    "description": "rates that single kernels reached",
                },
                "exemptions": {"type": "array", "items": _exemption()},
                "notes": _TEXTS,
                "sources": {"type": "object", "additionalProperties": _source()},
            },
        ),
        "$defs": {"source_name": {"anyOf": [_TEXT, {**_TEXTS, "minItems": 1}]}},
    }


def _closed(properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    needed = {"required": required} if required else {}
    return {"type": "object", "properties": properties, "additionalProperties": False, **needed}


def _field(rule: SpecKey) -> dict[str, Any]:
    source = {"$ref": "#/$defs/source_name"}
    if rule.form is Form.QUANTITY:
        printed = _closed(
            {"value": {"type": "number"}, "sparse_factor": {"type": "number"}}, ["value", "sparse_factor"]
        )
        properties = {
            "value": {"type": "number", "exclusiveMinimum": 0},
            "unit": {"enum": list(rule.units or {})},
            "source": source,
            "printed": printed,
        }
        needed = ["value", "unit", "source"]
        if rule.is_measured:
            del properties["printed"]
            properties["quality"] = {"enum": [quality.value for quality in Quality]}
            properties["regime"] = {"enum": [regime.value for regime in Regime]}
            needed += ["quality", "regime"]
        schema = _closed(properties, needed)
    else:
        schema = _closed({"value": _value(rule), "source": source}, ["value", "source"])
    described = {**schema, "description": rule.help}
    return {"anyOf": [described, {"type": "null"}]} if rule.nullable else described


def _value(rule: SpecKey) -> dict[str, Any]:
    if rule.form is Form.COUNT:
        return {"type": "integer", "minimum": int(rule.low), "maximum": int(rule.high)}
    if rule.form is Form.DATE:
        return _DAY
    if rule.words:
        return {"enum": list(rule.words)}
    word = {"type": "string", **({"pattern": f"^(?:{rule.pattern})$"} if rule.pattern else {})}
    return {"type": "array", "items": word} if rule.form is Form.WORDS else word


def _exemption() -> dict[str, Any]:
    keys = {"type": "array", "items": {"enum": list(FIELDS)}}
    return _closed({"rule": {"enum": list(RULES)}, "keys": keys, "reason": _TEXT}, ["rule", "keys", "reason"])


def _source() -> dict[str, Any]:
    kinds = [kind.value for kind in SourceKind]
    properties = {"kind": {"enum": kinds}, "title": _TEXT, "publisher": _TEXT, "url": _TEXT, "retrieved": _DAY}
    return _closed(properties, ["kind", "title"])
