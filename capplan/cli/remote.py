"""`capplan --server URL COMMAND ...`: the same words, answered by a service instead of this machine."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from capplan.api.client import Client, ServiceReply
from capplan.cli.output import Format, answer_width, emit
from capplan.cli.prompts import Writing, conclude, read_asked
from capplan.cli.reporting import check_outputs, write_files
from capplan.core.trace.format import is_trace_content
from capplan.errors import UsageError
from capplan.files import read_file
from capplan.strict_json import LARGEST_TEXT_BYTES
from capplan.verbs.statement.contract import Outcome, Verb
from capplan.verbs.statement.fields import ModelFields
from capplan.verbs.statement.read import to_wire
from capplan.verbs.statement.registry import find_verb, served_verbs

TOKEN_VARIABLE = "CAPPLAN_TOKEN"


def answered_remotely(command: Any, path: str, server: str) -> Any:
    """Return a command that asks a service."""
    served = served_verbs()
    if hasattr(command, "commands") and any(f"{verb} ".startswith(f"{path} ") for verb in served):
        _ask_subcommands(command, path, server)
    elif path not in served:
        raise UsageError(f"--server answers {', '.join(served)}; run `capplan {path}` without it.")
    if path in served:
        verb = find_verb(path)
        command.callback = (_asking_files if verb.goes_to_files else _asking)(verb, server)
    return command


def _ask_subcommands(group: Any, path: str, server: str) -> None:
    """Make the commands of a group ask a service, or refuse where no service answers them."""
    get_local, invoke_local = group.get_command, group.invoke

    def invoke(ctx: Any) -> Any:
        if [*getattr(ctx, "_protected_args", ()), *ctx.args]:
            group.callback = None  # the command of the group answers
        return invoke_local(ctx)

    def get_command(ctx: Any, name: str) -> Any:
        command = get_local(ctx, name)
        return None if command is None else answered_remotely(command, f"{path} {name}", server)

    group.get_command, group.invoke = get_command, invoke


def _asking(verb: Verb[Any, Any], server: str) -> Callable[..., None]:
    """Return what a verb's command does with the values of its options: ask the service, and write what it answers."""

    def asked(**values: Any) -> None:
        values.pop("force", None)
        writing = Writing(**{name: values.pop(name) for name in ("color", "format_", "json_", "output")})
        chosen = writing.format(verb)
        question, models = read_asked(verb, values)
        fields = to_wire(verb.for_service(question))
        client = _client(server)
        takes_files = issubclass(verb.question, ModelFields)
        named = models if verb.takes_several else [fields.pop("model", None)]
        answers = [
            client.ask(
                verb.path.replace(" ", "/"),
                {**fields, **(_model_fields(words, client) if takes_files else {"model": words} if words else {})},
                spelling=chosen,
                width=answer_width(),
            )
            for words in named
        ]
        emit(_joined(answers, chosen), output=writing.output)
        _conclude(answers)

    return asked


def _asking_files(verb: Verb[Any, Any], server: str) -> Callable[..., None]:
    """Return what the command of a verb that writes files does: ask the service for each file's format."""

    def asked(**values: Any) -> None:
        outputs = check_outputs(values.pop("output") or (), force=values.pop("force"), verb=verb)
        question, _ = read_asked(verb, values)
        fields = to_wire(verb.for_service(question))
        client = _client(server)
        if "models" in fields:
            fields |= _model_fields(next(iter(fields.pop("models"))), client)
        answers: list[ServiceReply] = []

        def write(extension: str) -> bytes:
            answers.append(client.ask(verb.path.replace(" ", "/"), fields, spelling=extension))
            return answers[-1].content

        write_files(outputs, write, verb=verb)
        _conclude(answers)

    return asked


def _client(server: str) -> Client:
    # A service names JSON's fields in its sentences, unless the request says that options are read here.
    return Client(server, token=os.environ.get(TOKEN_VARIABLE), headers={"Capplan-Door": "command"})


def _joined(answers: list[ServiceReply], chosen: str) -> str:
    texts = [answer.content.decode() for answer in answers]
    if chosen != Format.JSON or len(texts) == 1:
        return "\n".join(texts)
    return json.dumps([json.loads(text) for text in texts], indent=2, ensure_ascii=False) + "\n"


def _conclude(answers: list[ServiceReply]) -> None:
    conclude(
        [Outcome(exit_code=answer.exit_code, warnings=(answer.warning,) * bool(answer.warning)) for answer in answers]
    )


def _model_fields(words: str | None, client: Client) -> dict[str, Any]:
    """Return how a question names a model: its file is uploaded, a config handed over, all else named."""
    if words is None:
        return {}
    path = Path(words.removeprefix("hf:"))
    if words.startswith("hf:") and path.is_dir():
        path /= "config.json"
    if path.is_file() and path.suffix in (".onnx", ".pt2"):
        return {"model": client.upload_model(path)}
    if not path.is_file() or path.suffix not in (".json", ".gz"):
        return {"model": words}
    content = read_file(path, at_most=LARGEST_TEXT_BYTES)
    if content[:2] == b"\x1f\x8b" or is_trace_content(content):
        return {"model": client.upload(content)}
    try:
        return {"config": json.loads(content)}
    except ValueError as error:
        raise UsageError(f"{path} is not JSON ({error}).") from error
