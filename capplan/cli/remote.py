"""`capplan --server URL COMMAND ...`: the same words, answered by a service instead of this machine."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import typer

from capplan.api.client import Client, Response
from capplan.cli.colour import answer_width
from capplan.cli.output import Format, emit, resolve_format, warn, write_atomically
from capplan.core.trace.format import is_trace_content
from capplan.errors import UsageError
from capplan.files import read_file
from capplan.strict_json import LARGEST_TEXT_BYTES
from capplan.verbs.registry import served_verbs

TOKEN_VARIABLE = "CAPPLAN_TOKEN"
ASKED = ("plan", "memory", "estimate", "report", "trace", "gpus", "prices", "llm")
"""The commands that a service answers, some of them groups."""

_FIELDS: Mapping[str, str] = {
    "arg": "arguments",
    "input_": "inputs",
    "gpu": "gpus",
    "vendor": "vendors",
    "arch": "architectures",
    "provider": "providers",
    "region": "regions",
    "term": "terms",
    "tier": "tiers",
    "max_age": "max_age_days",
}
"""Fields of a question by the option's parameter, where the names differ."""
_SAME = (
    "input_size", "seq_len", "weights", "activations", "precision", "layout", "where", "min_memory", "sort", "old",
    "history",
)  # fmt: skip
_OF_TRAINING = ("optimizer", "checkpointing", "accumulate")
_OF_WRITING = (
    "format_",
    "chosen_format",
    "json_",
    "json_flag",
    "output",
    "color",
    "force",
    "model",
    "models",
    "train",
    "load",
)
"""Options that are dealt with one by one."""


def answered_remotely(command: Any, name: str, server: str) -> Any:
    """Return a command that asks a service.

    Args:
        command: the command as it is answered here.
        name: its name.
        server: the address of the service.

    Raises:
        UsageError: services do not answer this command.
    """
    if name not in ASKED:
        _refuse(name)
    if getattr(command, "verb", None) is not None:
        asking = _asking_verb if command.verb.sections is not None else _asking_files
        command.callback = asking(command.verb, server)
        return command
    answers = {"trace": _write_trace}.get(name, _answer)
    if hasattr(command, "commands"):
        _ask_subcommands(command, name, server)
    if name != "llm":  # a group alone
        command.callback = _asking(command, name, server, answers)
    return command


def _asking_verb(verb: Any, server: str) -> Callable[..., None]:
    """Return what a verb's command does with the values of its options: ask the service, and write what it answers."""
    from capplan.cli.asking import Writing, read_asked
    from capplan.verbs.fields import ModelFields
    from capplan.verbs.read import to_wire

    def asked(**values: Any) -> None:
        values.pop("force", None)
        writing = Writing(**{name: values.pop(name) for name in ("color", "format_", "json_", "output")})
        chosen = writing.format()
        question, models = read_asked(verb, values)
        fields = to_wire(verb.for_service(question))
        client = Client(server, token=os.environ.get(TOKEN_VARIABLE))
        takes_files = issubclass(verb.question, ModelFields)
        named = models if verb.takes_several else [fields.pop("model", None)]
        answers = [
            client.ask(
                verb.path.replace(" ", "/"),
                {**fields, **(_model_fields(words, client) if takes_files else {"model": words} if words else {})},
                spelling=chosen.value,
                width=answer_width(),
            )
            for words in named
        ]
        emit(_joined(answers, chosen), output=writing.output)
        _conclude(answers)

    return asked


def _asking_files(verb: Any, server: str) -> Callable[..., None]:
    """Return what the command of a verb that writes files does: ask the service for each file's format."""
    from capplan.cli.asking import read_asked
    from capplan.cli.reporting import check_outputs, write_files
    from capplan.verbs.read import to_wire

    def asked(**values: Any) -> None:
        outputs = check_outputs(values.pop("output") or (), force=values.pop("force"))
        question, _ = read_asked(verb, values)
        fields = to_wire(verb.for_service(question))
        client = Client(server, token=os.environ.get(TOKEN_VARIABLE))
        (model,) = fields.pop("models")
        fields |= _model_fields(model, client)
        answers: list[Response] = []

        def write(extension: str) -> bytes | str:
            answers.append(client.ask(verb.path, fields, spelling=extension))
            content = answers[-1].content
            return content if outputs else content.decode()

        write_files(outputs, write)
        _conclude(answers)

    return asked


def _asking(command: Any, name: str, server: str, answers: Callable[[str, dict[str, Any], Client], None]) -> Any:
    """Return what a command does with the values of its options: ask the service, and write what it answers."""
    defaults = {each.name: each.default for each in command.params}

    def asked(**values: Any) -> None:
        given = {key: value for key, value in values.items() if _is_given(value, defaults.get(key))}
        answers(name, given, Client(server, token=os.environ.get(TOKEN_VARIABLE)))

    return asked


def _ask_subcommands(group: Any, name: str, server: str) -> None:
    """Make the commands of a group ask a service, or refuse where no service answers them."""
    found, answered = group.get_command, group.invoke

    def invoke(ctx: Any) -> Any:
        if [*getattr(ctx, "_protected_args", ()), *ctx.args]:
            group.callback = None  # the subcommand answers
        return answered(ctx)

    def get_command(ctx: Any, cmd_name: str) -> Any:
        command = found(ctx, cmd_name)
        path = f"{name} {cmd_name}"
        if command is not None:
            verb = getattr(command, "verb", None)
            if verb is not None and verb.is_served:
                command.callback = _asking_verb(verb, server)
            elif path == "gpus show":
                command.callback = _asking(command, path, server, _show_gpu)
            else:
                command.parse_args = lambda *_: _refuse(path)
        return command

    group.get_command, group.invoke = get_command, invoke


def _refuse(path: str) -> None:
    """Refuse a command that no service answers.

    Raises:
        UsageError: always.
    """
    answered = dict.fromkeys((*ASKED[:-1], "gpus show", *(verb for verb in served_verbs() if " " in verb)))
    raise UsageError(f"--server answers {', '.join(answered)}; run `capplan {path}` without it.")


def _is_given(value: Any, default: Any) -> bool:
    return value is not None and value != default and not (isinstance(value, tuple | list) and not value)


def _answer(name: str, given: dict[str, Any], client: Client) -> None:
    """Ask for every model that is named, and write the answers."""
    models = given.get("models") or ([given["model"]] if "model" in given else [None])
    question, chosen = question_of(given), _chosen(given)
    answers = [
        client.ask(name, {**question, **_model_fields(each, client)}, spelling=chosen.value, width=answer_width())
        for each in models
    ]
    emit(_joined(answers, chosen), output=given.get("output"))
    _conclude(answers)


def _chosen(given: Mapping[str, Any]) -> Format:
    """Return the format that the options ask for."""
    is_json = bool(given.get("json_") or given.get("json_flag"))
    return resolve_format(_format(given), json_flag=is_json, output=given.get("output"))


def _format(given: Mapping[str, Any]) -> Format | None:
    word = given.get("format_") or given.get("chosen_format")
    return None if word is None else Format(word)


def _joined(answers: list[Response], chosen: Format) -> str:
    texts = [each.content.decode() for each in answers]
    if chosen is not Format.JSON or len(texts) == 1:
        return "\n".join(texts)
    return json.dumps([json.loads(each) for each in texts], indent=2, ensure_ascii=False) + "\n"


def _conclude(answers: list[Response]) -> None:
    for each in answers:
        if each.warning:
            warn(each.warning)
    if any(each.exit_code for each in answers):
        raise typer.Exit(max(each.exit_code for each in answers))


def _write_trace(_name: str, given: dict[str, Any], client: Client) -> None:
    """Have the service trace a model once for each precision, and write the recordings into one file."""
    from capplan.core.trace.format import dump_trace, load_trace

    output = Path(given.pop("output"))
    if output.suffix not in (".json", ".gz"):
        raise UsageError(f"{output}: a trace is written as .json or .json.gz.")
    precisions = [_plain(each) for each in given.pop("precision", None) or ["fp32"]]
    question = question_of(given) | _model_fields(given["model"], client)
    contents = [client.trace(**question, precision=each) for each in precisions]
    made = [load_trace(each, where=client.url) for each in contents]
    recordings = {each.configuration: each for trace in made for each in trace.recordings}
    whole = replace(made[0], recordings=tuple(recordings.values()))
    write_atomically(output, dump_trace(whole, compress=output.suffix == ".gz"))
    for note in dict.fromkeys(note for trace in made for note in trace.provenance.notes):
        warn(f"note: {note}")
    warn(f"{output}: {whole.name}, {', '.join(map(str, recordings))}")


def _show_gpu(_name: str, given: dict[str, Any], client: Client) -> None:
    """Show one GPU of the service's database."""
    question_of({key: value for key, value in given.items() if key != "gpu"})
    chosen = _chosen(given)
    found = client.get(f"/api/v1/gpus/{quote(given['gpu'], safe='')}?format={chosen.value}")
    emit(found.content.decode(), output=given.get("output"))


def _refuse_option(key: str) -> None:
    """Refuse an option that needs what only this machine has.

    Raises:
        UsageError: always.
    """
    option = key.strip("_").replace("_", "-")
    raise UsageError(f"--{option} works on this machine only; leave it out, or leave out --server.")


def question_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a question that options of a command stand for.

    Args:
        given: the values of the options that were given, by their parameters.

    Raises:
        UsageError: an option needs what only this machine has.
    """
    question: dict[str, Any] = {}
    for key, value in given.items():
        if key == "batch":
            question["exact_batch"] = value
        elif key == "arg":
            question["arguments"] = dict(_argument(each) for each in value)
        elif key in _FIELDS or key in _SAME:
            question[_FIELDS.get(key, key)] = _plain(value)
        elif key not in (*_OF_WRITING, *_OF_TRAINING):
            _refuse_option(key)
    if given.get("train"):
        question["training"] = {each: _plain(given[each]) for each in _OF_TRAINING if each in given}
        question["training"].setdefault("optimizer", "adamw")
    return question


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return getattr(value, "value", value)


def _argument(text: str) -> tuple[str, Any]:
    import ast

    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--arg {text!r}: write KEY=VALUE.")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def _model_fields(words: str | None, client: Client) -> dict[str, Any]:
    """Return how a question names a model: a trace file is uploaded, a config handed over, all else named."""
    if words is None:
        return {}
    path = Path(words.removeprefix("hf:"))
    if words.startswith("hf:") and path.is_dir():
        path /= "config.json"
    if not path.is_file() or path.suffix not in (".json", ".gz"):
        return {"model": words}
    content = read_file(path, at_most=LARGEST_TEXT_BYTES)
    if content[:2] == b"\x1f\x8b" or is_trace_content(content):
        return {"model": client.upload(content)}
    try:
        return {"config": json.loads(content)}
    except ValueError as error:
        raise UsageError(f"{path} is not JSON ({error}).") from error
