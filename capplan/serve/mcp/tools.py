"""The tools: one for each question that assistants ask most, and one that asks all others.

Both are derived from what states the questions. A tool shows the usual fields of its question; the others stand in its
argument `more`, and the tool `ask` explains them.
"""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, urlencode

import mcp_types
import msgspec

from capplan.errors import CapplanError, UnknownNameError, UsageError
from capplan.serve.mcp.abridged import abridged
from capplan.serve.planning.messages import Refusal, Reply, Task
from capplan.serve.questions import question_from_json, question_from_mapping, question_from_query, question_link
from capplan.serve.service import PlanningService
from capplan.serve.sharing import BusyError
from capplan.strict_json import JsonError, read_json
from capplan.verbs.statement.contract import Verb
from capplan.verbs.statement.options import Door, words_at
from capplan.verbs.statement.read import changed_fields, command_of, served_help, to_wire, wire_type
from capplan.verbs.statement.registry import TOOLS, find_verb, served_verbs
from capplan.wording import worded

LONGEST_TEXT = 3000
"""The most characters of a tool's text, and of its structured answer; a resource holds the whole."""
ASK = "ask"
"""The tool that asks what has no tool of its own, and explains every argument."""
MORE = "more"
"""The argument of a tool that holds its less usual fields."""
ANSWERS = "capplan://answers/"
_LONGEST_ADDRESS = 1500
PARTIAL = "capplan/partial"
"""The key of an answer's `_meta` that says what it still lacks: `hints`, remarks whose traces are being made."""
_LATER = "What makes it faster or smaller is being traced: ask again in some seconds to see all of it."


@cache
def asked_by_tool() -> Mapping[str, Verb[Any, Any]]:
    """Return the verb that each tool asks, by the tool's name: the verb's words, such as llm_plan."""
    verbs = {path.replace(" ", "_"): find_verb(path) for path in served_verbs()}
    return {name: verb for name, verb in verbs.items() if verb.schema is not None}


def tools() -> list[mcp_types.Tool]:
    """Return the tools as they are listed to an assistant."""
    hints = mcp_types.ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    shown = {name: verb for name, verb in asked_by_tool().items() if verb.path in TOOLS}
    listed = [(name, _summary(verb, verb.take_it), _input_schema(name, verb)) for name, verb in shown.items()]
    return [
        mcp_types.Tool(name=name, description=description, input_schema=schema, annotations=hints)
        for name, description, schema in (*listed, _ask_tool())
    ]


def _summary(verb: Verb[Any, Any], further: str = "") -> str:
    words = " ".join(f"{verb.summary} {further}".split())
    return worded(words, words_at(verb.fields, Door.HTTP))


def _fields_schema(verb: Verb[Any, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schema of a verb's arguments, an object, and the types that it names."""
    wire = wire_type(verb.question)
    _, parts = msgspec.json.schema_components([wire], ref_template="#/$defs/{name}")
    schema: dict[str, Any] = parts.pop(wire.__name__)
    return schema, parts


def _input_schema(name: str, verb: Verb[Any, Any]) -> dict[str, Any]:
    """Return the schema of a tool's arguments: the usual fields, and an object for the others."""
    schema, parts = _fields_schema(verb)
    others = [field.wire for field in verb.fields_at(Door.HTTP) if not field.is_usual]
    fields = sorted(verb.fields_at(Door.HTTP), key=lambda field: not field.option.is_argument)
    properties = {field.wire: schema["properties"][field.wire] for field in fields if field.is_usual}
    if others:
        about = f'Further arguments by name; `{ASK}` with {{"tool": "{name}"}} explains them: {", ".join(others)}.'
        properties[MORE] = {"type": "object", "description": about}
    named = {part for part in parts if f"#/$defs/{part}" in json.dumps(properties)}
    types = {part: {"enum": parts[part]["enum"]} if "enum" in parts[part] else parts[part] for part in sorted(named)}
    required = [field for field in schema.get("required", []) if field in properties]
    asked = {"type": "object", "properties": properties, "required": required}
    return asked | ({"$defs": types} if types else {})


def _ask_tool() -> tuple[str, str, dict[str, Any]]:
    """Return the name, description and schema of the tool for all other questions."""
    others = {name: verb for name, verb in asked_by_tool().items() if verb.path not in TOOLS}
    lines = [f"{name}: {_summary(verb).partition('. ')[0].rstrip('.')}." for name, verb in others.items()]
    about = (
        "Ask a question that has no tool of its own. Without `arguments` it explains those of a tool, also of a listed "
        "one. The questions:\n" + "\n".join(lines)
    )
    properties = {
        "tool": {"type": "string", "enum": [*asked_by_tool()]},
        "arguments": {"type": "object", "description": "The question's arguments by name; {} where it needs none."},
    }
    return ASK, about, {"type": "object", "properties": properties, "required": ["tool"]}


def explained(name: str) -> str:
    """Return each argument of a tool with its type, help and default, one a line, the usual ones first."""
    verb = asked_by_tool()[name]
    schema, _ = _fields_schema(verb)
    fields = sorted(verb.fields_at(Door.HTTP), key=lambda field: not field.is_usual)
    lines = [f"Arguments of {name}; what is not marked may be left out."]
    for field in fields:
        stated = schema["properties"][field.wire]
        choices = f" one of {', '.join(field.choices)};" if field.choices else ""
        default = stated.get("default")
        usual = f" Default: {json.dumps(default, ensure_ascii=False)}." if default else ""
        must = " (must be given)" if field.is_required else ""
        lines.append(f"- {field.wire}{must}:{choices} {served_help(field, verb.fields)}{usual}")
    return "\n".join(lines)


def asked(name: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any] | None]:
    """Return the tool that a call asks, and its arguments with those of `more` among them; None to explain it."""
    if name != ASK:
        more = _decoded(arguments.get(MORE)) or {}
        if not isinstance(more, Mapping):
            raise UsageError(f"`{MORE}` holds further arguments by name, as an object.")
        return name, {**{field: value for field, value in arguments.items() if field != MORE}, **more}
    for field in arguments:
        if field not in ("tool", "arguments"):
            raise UnknownNameError("field", field[:100], ("tool", "arguments"), hint="Known: tool, arguments.")
    wanted, inner = str(arguments.get("tool", "")), _decoded(arguments.get("arguments"))
    if wanted not in asked_by_tool():
        raise UnknownNameError("tool", wanted[:100], asked_by_tool(), hint=f"Known: {', '.join(asked_by_tool())}.")
    if inner is None:
        return wanted, None
    if not isinstance(inner, Mapping):
        raise UsageError("`arguments` holds the question's arguments by name, as an object.")
    return asked(wanted, inner)


async def call_tool(
    service: PlanningService,
    name: str,
    arguments: Mapping[str, Any],
    *,
    is_text_only: bool = False,
    address: str | None = None,
) -> mcp_types.CallToolResult:
    """Answer a question; what it is refused for is an answer, too, which the assistant can mend."""
    limit = service.settings.limits.question_bytes
    try:
        if len(json.dumps(arguments)) > limit:
            raise UsageError(f"the arguments are longer than {limit:,} bytes, the most that is read here.")
        tool, given = asked(name, arguments)
        verb = asked_by_tool()[tool]
        if given is None:
            return mcp_types.CallToolResult(content=[mcp_types.TextContent(text=explained(tool))])
        plain = {field: _decoded(value) for field, value in given.items()}
        question = question_from_mapping(verb.question, plain, is_strict=False)
        outcome = await service.answer(Task(question=question, has_text=True))
    except (CapplanError, BusyError) as error:
        return _refused(str(error))
    if isinstance(outcome, Refusal):
        return _refused(outcome.worded(question))
    whole = address_of(tool, question)
    return mcp_types.CallToolResult(
        content=[mcp_types.TextContent(text=short_text(outcome, whole=_whole(question, verb, address, whole)))],
        structured_content=None if is_text_only else _short_document(outcome, verb, whole),
        _meta={PARTIAL: "hints"} if outcome.hints else None,
    )


def _short_document(reply: Reply, verb: Verb[Any, Any], whole: str | None) -> dict[str, Any]:
    """Return what a program reads of an answer: the document where it is short, else its verdict and what it lacks."""
    beside: dict[str, Any] = {} if whole is None else {"whole": whole}
    document = json.loads(reply.content)
    answer, left_out = abridged(document, verdict=verb.verdict, room=LONGEST_TEXT - len(json.dumps(beside)) - 500)
    while left_out and len(json.dumps(left_out)) > 450:
        left_out = [*left_out[:-2], "and more"]
    return {"answer": answer, "left_out": left_out, **beside}


def address_of(tool: str, question: Any) -> str | None:
    """Return the address of the resource that is the whole answer to a question; None where it would be too long."""
    link = question_link("", question)
    words = urlencode({"question": json.dumps(to_wire(question))}) if link is None else link.partition("?")[2]
    uri = f"{ANSWERS}{tool}?{words}".removesuffix("?")
    return uri if len(uri) <= _LONGEST_ADDRESS else None


def question_at(uri: str) -> Any:
    """Return the question whose answer lies at the address of a resource."""
    tool, _, words = uri.removeprefix(ANSWERS).partition("?")
    if tool not in asked_by_tool():
        raise UnknownNameError("tool", tool[:100], asked_by_tool())
    kind, pairs = asked_by_tool()[tool].question, parse_qsl(words, keep_blank_values=True)
    if [name for name, _ in pairs] == ["question"]:
        return question_from_json(kind, pairs[0][1].encode("utf-8", "surrogatepass"))
    return question_from_query(kind, pairs)


def _decoded(value: Any) -> Any:
    """Return what a text of JSON holds: some clients write every value that may be several things as text."""
    if not isinstance(value, str) or not value.startswith(("{", "[")):
        return value
    try:
        return read_json(value.encode("utf-8", "surrogatepass"))
    except JsonError:
        return value


def _refused(sentence: str) -> mcp_types.CallToolResult:
    return mcp_types.CallToolResult(content=[mcp_types.TextContent(text=sentence[:LONGEST_TEXT])], is_error=True)


def _whole(question: Any, verb: Verb[Any, Any], address: str | None, uri: str | None) -> str:
    """Return where the whole answer is: a resource, an address of the service, and on the command line."""
    path = None if address is None else question_link(verb.path.replace(" ", "/"), question)
    link = "" if address is None or path is None else f"The whole answer: {address.rstrip('/')}{path}"
    changed = changed_fields(question, door=Door.HTTP)
    as_files = [f"`{field.wire}`" for field in changed if not field.option.doors & Door.COMMAND]
    beside = f" (with {' and '.join(as_files)} from a file)" if as_files else ""
    resource = "" if uri is None else f"The whole answer as JSON, a resource: {uri}"
    return "\n".join(filter(None, [resource, link, f"On the command line: {command_of(verb, question)}{beside}"]))


def short_text(reply: Reply, *, whole: str) -> str:
    """Return an answer as text of at most 3,000 characters, cut at the end of a line."""
    parts = [reply.text.strip("\n"), reply.warning, _LATER if reply.hints else "", whole[: LONGEST_TEXT // 2]]
    text = "\n\n".join(part for part in parts if part)
    if len(text) <= LONGEST_TEXT:
        return text
    ending = "\n\n".join(["[cut here; ask for fewer GPUs or batches to see all]", *filter(None, parts[1:])])
    kept = reply.text.strip("\n")[: max(0, LONGEST_TEXT - len(ending) - 2)].rpartition("\n")[0]
    return f"{kept}\n\n{ending}"[:LONGEST_TEXT]
