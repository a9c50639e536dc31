"""The API's description (OpenAPI 3.1), generated from the types of questions and the schemas of documents."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

from capplan.report.schemas import schema_text
from capplan.serve.http.bodies import PROBLEM_TYPE
from capplan.serve.planning.messages import MEDIA_TYPES, Spelling
from capplan.serve.questions import ResultsQuestion
from capplan.verbs.statement.read import wire_type
from capplan.verbs.statement.registry import find_verb, served_verbs
from capplan.version import __version__

_REF = "#/components/schemas/{name}"
_ASKED = {
    **{
        path.replace(" ", "/"): (wire_type(find_verb(path).question), find_verb(path).schema) for path in served_verbs()
    },
    "results": (wire_type(ResultsQuestion), None),
}
"""By path: the type of the question, and the schema of the document that answers it."""


@cache
def openapi_document() -> dict[str, Any]:
    """Return the description as a document; the same for every caller, who must not change it."""
    questions, components = msgspec.json.schema_components([kind for kind, _ in _ASKED.values()], ref_template=_REF)
    named = dict(zip(_ASKED, questions, strict=True))
    paths: dict[str, Any] = {}
    for name, (kind, schema) in _ASKED.items():
        answer = _document_schema(schema, components) if schema else {"type": "object"}
        paths[f"/api/v1/{name}"] = {
            "get": _operation(name, kind, answer, parameters=_parameters(kind)),
            "post": _operation(name, kind, answer, body=named[name]),
        }
    shown = _simple("show_gpu", "Return every value of one GPU, with its source.", path="gpu")
    shown["responses"]["200"]["content"] = {"application/json": {"schema": _document_schema("gpus-show", components)}}
    paths["/api/v1/gpus/{gpu}"] = {"get": shown}
    paths["/api/v1/traces"] = _traces(named["trace"])
    paths["/api/v1/models"] = _models()
    paths["/api/v1/traces/{trace}"] = {"get": _simple("get_trace", "Return an uploaded trace.", path="trace")}
    paths["/healthz"] = {"get": _health()}
    paths["/metrics"] = {"get": _metrics()}
    components["Problem"] = _PROBLEM
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "capplan",
            "version": __version__,
            "description": "Which GPU fits a model, how fast it runs there, and what it costs.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _traces(question: dict[str, Any]) -> dict[str, Any]:
    """Return the operations on uploaded traces; `question` is the schema of what `trace` asks."""
    return {
        "get": _simple("list_traces", "List the traces that were uploaded."),
        "post": {
            "operationId": "add_trace",
            "summary": "Upload a trace file, or trace a model and keep the trace.",
            "requestBody": {"required": True, "content": {
                "application/json": {"schema": {"anyOf": [question, _TRACE_FILE]}},
                "application/gzip": {"schema": {"type": "string", "format": "binary"}},
            }},
            "responses": {"201": {"description": "The trace is kept."}, **_problems()},
        },
    }  # fmt: skip


def _models() -> dict[str, Any]:
    """Return the operation that takes a model's file."""
    return {
        "post": {
            "operationId": "add_model",
            "summary": "Hand over an ONNX or .pt2 file, whose weights are not kept, a config.json or a trace.",
            "parameters": [_query("name", {"type": "string"}, "What the model is called, such as net.onnx.")],
            "requestBody": {"required": True, "content": {
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
            }},
            "responses": {
                "201": {"description": "The model is kept; `model` names it in questions.", "content": {
                    "application/json": {"schema": {"type": "object", "required": ["model"], "properties": {
                        "model": {"type": "string"}, "name": {"type": "string"},
                    }}},
                }},
                **_problems(),
            },
        },
    }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldRow:
    """A field of a question, as the page about the API lists it."""

    name: str
    kind: str
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRow:
    """What is answered at one path: how it is asked, what for, and the fields of its question."""

    path: str
    methods: tuple[str, ...]
    summary: str
    fields: tuple[FieldRow, ...]


def operation_rows() -> list[OperationRow]:
    """Return what the description states of each path, for people to read."""
    document = openapi_document()
    schemas = document["components"]["schemas"]
    rows = []
    for path, operations in document["paths"].items():
        asked = operations.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json", {})
        reference = next(iter(_references(asked.get("schema", {}))), "")
        question = schemas.get(reference, {})
        fields = tuple(
            FieldRow(name=name, kind=_kind_words(field), meaning=str(field.get("description", "")))
            for name, field in question.get("properties", {}).items()
        )
        summary = str(next(iter(operations.values()))["summary"])
        methods = tuple(method.upper() for method in operations)
        rows.append(OperationRow(path=path, methods=methods, summary=summary, fields=fields))
    return rows


def _references(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the schemas that a schema refers to, its own choices included."""
    if "$ref" in schema:
        yield str(schema["$ref"]).rpartition("/")[2]
    for choice in schema.get("anyOf", ()):
        yield from _references(choice)


def _kind_words(schema: Mapping[str, Any]) -> str:
    """Return the type of a field in words: number, list of string, or its own words."""
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    choices = [_kind_words(choice) for choice in schema.get("anyOf", ()) if choice.get("type") != "null"]
    if choices:
        return " or ".join(dict.fromkeys(choices))
    if schema.get("type") == "array":
        return f"list of {_kind_words(schema.get('items', {}))}".removesuffix(" of ")
    return str(schema.get("type") or next(_references(schema), ""))


_TRACE_FILE = {"type": "object", "description": "What `capplan trace MODEL -o FILE` wrote."}
_PROBLEM = {
    "type": "object",
    "description": "A problem document (RFC 9457); `detail` is the sentence that the command line prints.",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "exit_code": {"type": "integer", "description": "What the command line would exit with."},
    },
    "required": ["type", "title", "status", "detail"],
}


def _document_schema(name: str, components: dict[str, Any]) -> dict[str, Any]:
    """Add the schema of a document to the components, with its own definitions, and return a reference to it."""
    prefix = "".join(part.capitalize() for part in name.split("-"))
    document = json.loads(schema_text(name).replace('"#/$defs/', f'"#/components/schemas/{prefix}.'))
    document.pop("$schema", None)
    for part, schema in document.pop("$defs", {}).items():
        components[f"{prefix}.{part}"] = schema
    components[f"{prefix}Document"] = document
    return {"$ref": _REF.format(name=f"{prefix}Document")}


def _operation(name: str, kind: Any, answer: dict[str, Any], **given: Any) -> dict[str, Any]:
    spelt: tuple[Spelling, ...] = (
        ("csv", "md", "html", "pdf", "xlsx") if name.endswith("report") else ("table", "csv", "md")
    )
    operation: dict[str, Any] = {
        "operationId": f"{'get' if 'parameters' in given else 'ask'}_{name.replace('/', '_')}",
        "summary": (kind.__doc__ or "").partition("\n")[0],
        "responses": {
            "200": {
                "description": "The answer, the same document as the command line's --format json.",
                "headers": {"ETag": {"schema": {"type": "string"}}},
                "content": {
                    "application/json": {"schema": answer},
                    **{MEDIA_TYPES[spelling].partition(";")[0]: {"schema": {"type": "string"}} for spelling in spelt},
                },
            },
            "304": {"description": "The client holds this answer: its If-None-Match names the ETag."},
            **_problems(),
        },
    }
    writing = [_query("format", {"enum": list(MEDIA_TYPES)}, "How the answer is written; JSON by default.")]
    operation["parameters"] = [*given.get("parameters", []), *writing]
    if "body" in given:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": given["body"]}}}
    return operation


def _parameters(kind: Any) -> list[dict[str, Any]]:
    """Return a question's fields as parameters of a query string; `config` and `load` need a body."""
    return [
        _query(field.name, {"type": "string"}, "As in the body of a POST; lists are parted by commas.")
        for field in msgspec.structs.fields(kind)
        if field.name not in ("config", "load", "fleet", "arguments")
    ]


def _query(name: str, schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": description}


def _health() -> dict[str, Any]:
    content = {"application/json": {"schema": {"type": "object", "properties": {"status": {"type": "string"}}}}}
    return {
        "operationId": "health",
        "summary": "Return whether the service can answer questions.",
        "security": [{}],
        "responses": {
            "200": {"description": "At least one process that answers lives.", "content": content},
            "503": {"description": "None lives; new ones are being started.", "content": content},
        },
    }


def _metrics() -> dict[str, Any]:
    answer = {"description": "The metrics.", "content": {"text/plain": {"schema": {"type": "string"}}}}
    problems = {status: problem for status, problem in _problems().items() if status in ("401", "403", "500")}
    return {
        "operationId": "metrics",
        "summary": "Return counters and gauges in the text format of Prometheus.",
        "responses": {"200": answer, **problems},
    }


def _simple(operation: str, summary: str, *, path: str | None = None) -> dict[str, Any]:
    in_path = [{"name": path, "in": "path", "required": True, "schema": {"type": "string"}}]
    return {
        "operationId": operation,
        "summary": summary,
        "responses": {"200": {"description": "The answer."}, **_problems()},
        **({} if path is None else {"parameters": in_path}),
    }


def _problems() -> dict[str, Any]:
    content = {PROBLEM_TYPE: {"schema": {"$ref": _REF.format(name="Problem")}}}
    meanings = {
        "400": "The question cannot be read, or names what is not known.",
        "401": "A token is needed.",
        "403": "The Host or Origin is not the service's own.",
        "404": "There is nothing of this name.",
        "405": "The method is not answered here.",
        "408": "The body did not arrive in time.",
        "413": "The body is too long.",
        "415": "The body is of another type.",
        "422": "The model could not be traced.",
        "429": "Too many questions wait, or too many models to be traced; see Retry-After.",
        "500": "A bug in capplan.",
        "503": "The processes that worked on the question were lost, or none became free in time; see Retry-After.",
    }
    return {status: {"description": meaning, "content": content} for status, meaning in meanings.items()}
