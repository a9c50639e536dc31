"""The tools: one for each question that the service answers, derived from what states the question."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import mcp_types
import msgspec

from capplan.errors import CapplanError, UsageError
from capplan.report.schemas import schema_of
from capplan.serve.planning.messages import Refusal, Reply, Task
from capplan.serve.questions import question_from_mapping, question_link
from capplan.serve.service import PlanningService
from capplan.serve.sharing import BusyError
from capplan.strict_json import JsonError, read_json
from capplan.verbs.statement.contract import Verb
from capplan.verbs.statement.options import Door
from capplan.verbs.statement.read import changed_fields, command_of, wire_type
from capplan.verbs.statement.registry import find_verb, served_verbs
from capplan.wording import as_options

LONGEST_TEXT = 2000
"""The most characters of a tool's text; the structured answer holds the whole."""
PARTIAL = "capplan/partial"
"""The key of an answer's `_meta` that says what it still lacks: `hints`, remarks whose traces are being made."""
_LATER = "What makes it faster or smaller is being traced: ask again in some seconds to see all of it."


@cache
def asked_by_tool() -> Mapping[str, Verb[Any, Any]]:
    """Return the verb that each tool asks, by the tool's name: the verb's words, such as llm_plan."""
    verbs = {path.replace(" ", "_"): find_verb(path) for path in served_verbs()}
    return {name: verb for name, verb in verbs.items() if verb.schema is not None}


def tools(*, is_text_only: bool = False) -> list[mcp_types.Tool]:
    """Return the tools as they are listed to an assistant."""
    hints = mcp_types.ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    return [
        mcp_types.Tool(
            name=name,
            description=as_options(" ".join(verb.summary.split())),
            input_schema=_input_schema(wire_type(verb.question)),
            # older clients want the type said, which `$ref` and `anyOf` only imply
            output_schema=None if is_text_only else {"type": "object", **schema_of(verb.schema or "")},
            annotations=hints,
        )
        for name, verb in asked_by_tool().items()
    ]


def _input_schema(wire: type[Any]) -> dict[str, Any]:
    """Return the schema of a tool's arguments: an object, with the types that it names in `$defs`."""
    _, parts = msgspec.json.schema_components([wire], ref_template="#/$defs/{name}")
    schema: dict[str, Any] = parts.pop(wire.__name__)
    return schema | ({"$defs": parts} if parts else {})


async def call_tool(
    service: PlanningService,
    name: str,
    arguments: Mapping[str, Any],
    *,
    is_text_only: bool = False,
    address: str | None = None,
) -> mcp_types.CallToolResult:
    """Answer a question; what it is refused for is an answer, too, which the assistant can mend."""
    limit, verb = service.settings.limits.question_bytes, asked_by_tool()[name]
    try:
        if len(json.dumps(arguments)) > limit:
            raise UsageError(f"the arguments are longer than {limit:,} bytes, the most that is read here.")
        plain = {field: _decoded(value) for field, value in arguments.items()}
        question = question_from_mapping(verb.question, plain, is_strict=False)
        outcome = await service.answer(Task(question=question, has_text=True))
    except (CapplanError, BusyError) as error:
        return _refused(str(error))
    if isinstance(outcome, Refusal):
        return _refused(outcome.worded(question))
    return mcp_types.CallToolResult(
        content=[mcp_types.TextContent(text=short_text(outcome, whole=_whole(question, verb, address)))],
        structured_content=None if is_text_only else json.loads(outcome.content),
        _meta={PARTIAL: "hints"} if outcome.hints else None,
    )


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


def _whole(question: Any, verb: Verb[Any, Any], address: str | None) -> str:
    """Return sentences that say where the whole answer is: at an address of the service, and on the command line."""
    path = None if address is None else question_link(verb.path.replace(" ", "/"), question)
    link = "" if address is None or path is None else f"The whole answer: {address.rstrip('/')}{path}"
    changed = changed_fields(question, door=Door.HTTP)
    as_files = [f"`{field.wire}`" for field in changed if not field.option.doors & Door.COMMAND]
    beside = f" (with {' and '.join(as_files)} from a file)" if as_files else ""
    return "\n".join(filter(None, [link, f"On the command line: {command_of(verb, question)}{beside}"]))


def short_text(reply: Reply, *, whole: str) -> str:
    """Return an answer as text of at most 2,000 characters, cut at the end of a line."""
    parts = [reply.text.strip("\n"), reply.warning, _LATER if reply.hints else "", whole[: LONGEST_TEXT // 2]]
    text = "\n\n".join(part for part in parts if part)
    if len(text) <= LONGEST_TEXT:
        return text
    ending = "\n\n".join(["[cut here; ask for fewer GPUs or batches to see all]", *filter(None, parts[1:])])
    kept = reply.text.strip("\n")[: max(0, LONGEST_TEXT - len(ending) - 2)].rpartition("\n")[0]
    return f"{kept}\n\n{ending}"[:LONGEST_TEXT]
