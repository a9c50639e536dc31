"""Documents keep what is written into them, as their schemas say; published types do not change by accident."""

import json
import os
from collections import Counter
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capplan.core.measurement.format import point_to_line
from capplan.core.measurement.types import Point
from capplan.errors import UsageError
from capplan.report.schemas import DOCUMENTS, document_types, schema_of
from capplan.shapes.codec import from_plain, to_plain
from capplan.shapes.measurement import FailureDocument, MeasurementDocument
from capplan.shapes.plan import read_plan
from capplan.shapes.registry import all_shapes
from tests.core.measurement.test_measurement import FAILED, FULL
from tests.report.procurement.made_up import plan_document
from tests.seen import at_least
from tests.shapes.any_document import any_of
from tests.snapshot import assert_is_snapshot

pytestmark = pytest.mark.slow

UNHURRIED = settings(
    max_examples=int(os.environ.get("CAPPLAN_TEST_EXAMPLES", "8")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def test_the_published_types_are_those_that_were_reviewed() -> None:
    """After a wanted change renew tests/snapshots/schemas.txt, and read the diff."""
    lines = []
    for name in sorted(DOCUMENTS):
        schema = schema_of(name)
        lines += ["", f"{name}: {kind_of(schema)}"]
        lines += [f"  {definition_name}: {kind_of(part)}" for definition_name, part in schema["$defs"].items()]
    assert_is_snapshot("schemas.txt", "\n".join(lines[1:]) + "\n")


def kind_of(schema: Any) -> str:
    """Return what a schema admits in a few words: types, names of other types, the fields of an object."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " | ".join(map(kind_of, schema["anyOf"]))
    if "enum" in schema:
        return " ".join(json.dumps(value) for value in schema["enum"])
    if "properties" in schema:
        optional = set(schema["properties"]) - set(schema["required"])
        fields = (f"{key}{'?' * (key in optional)}: {kind_of(part)}" for key, part in schema["properties"].items())
        return f"{{{', '.join(fields)}}}"
    if schema.get("type") == "array":
        items = schema.get("items") or {}
        parts = [*schema.get("prefixItems", []), *([items] if items else [])]
        return f"[{', '.join(map(kind_of, parts))}]"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        return f"{{*: {kind_of(values)}}}" if isinstance(values, dict) else "{}"
    return str(schema.get("const", schema.get("type", "anything")))


@pytest.mark.parametrize("name", DOCUMENTS)
@UNHURRIED
@given(data=st.data())
def test_a_document_is_read_as_it_was_written_and_keeps_its_schema(name: str, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(document_types(name)))
    document = data.draw(any_of(kind))
    written: Any = json.loads(json.dumps(to_plain(document), allow_nan=False))
    jsonschema.Draft202012Validator(schema_of(name)).validate(written)
    assert from_plain(written, kind, where="answer.json", noun=name) == document


def test_a_plan_from_before_recommendations_and_evidence_is_read() -> None:
    document = plan_document()
    for later in ("recommended", "shortlist", "changes", "cautions", "job"):
        document.pop(later, None)
    for fit in document["fits"]:
        fit.pop("evidence", None)
    read = read_plan(document, where="plan.json")
    assert [fit.evidence.value for fit in read.fits] == ["spec-sheet"] * len(document["fits"])


def test_fields_of_a_later_capplan_are_ignored() -> None:
    assert read_plan(plan_document() | {"weather": "fine"}, where="p.json") == read_plan(
        plan_document(), where="p.json"
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"schema_version": 9}, "p.json: a plan of schema 9; this capplan reads 1."),
        ({"fits": 3}, "p.json: a damaged plan (Expected array, got int - at $.fits)."),
        ({"model": {}}, "p.json: a damaged plan (Object missing required field name - at $.model)."),
        ({"model": "\ud800"}, "p.json: a damaged plan (a text holds half of a character)."),
    ],
)
def test_another_plan_is_refused_in_one_sentence(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as refusal:
        read_plan(plan_document() | change, where="p.json")
    assert str(refusal.value) == sentence


@pytest.mark.parametrize(("point", "kind"), [(FULL, MeasurementDocument), (FAILED, FailureDocument)])
def test_measured_points_are_written_as_their_types_say(
    point: Point, kind: type[MeasurementDocument | FailureDocument]
) -> None:
    written = json.loads(point_to_line(point))
    read = from_plain(written, kind, where="runs.jsonl", noun="measurement")
    assert json.loads(json.dumps(to_plain(read))) == written


def test_an_interval_that_falls_is_refused() -> None:
    document = plan_document()
    document["fits"][0]["memory"]["total_bytes"] = {"low": 3, "expected": 2, "high": 1}
    with pytest.raises(UsageError, match=r"must not fall: 3\.0, 2\.0, 1\.0 - at \$\.fits\[0\]\.memory\.total_bytes"):
        read_plan(document, where="plan.json")


def test_no_two_shapes_have_one_name() -> None:
    different = {id(shape): shape.name for shape in at_least(100, all_shapes())}
    assert [name for name, count in Counter(different.values()).items() if count > 1] == []
