"""`capplan --server URL COMMAND ...`: the same words, answered by a service instead of this machine."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from capplan.api.client import Client, Response
from capplan.cli.colour import answer_width
from capplan.cli.output import Format, emit, resolve_format, warn, write_atomically
from capplan.core.trace.format import is_trace_content
from capplan.errors import UsageError

TOKEN_VARIABLE = "CAPPLAN_TOKEN"
ASKED = ("plan", "memory", "estimate", "report", "gpus", "prices")
"""The commands that a service answers."""

_FIELDS: Mapping[str, str] = {
    "arg": "arguments",
    "input_": "inputs",
    "gpu": "gpus",
    "vendor": "vendors",
    "arch": "architectures",
    "provider": "providers",
    "region": "regions",
    "segment": "segments",
    "deny_provider": "deny_providers",
    "deny_region": "deny_regions",
    "deny_gpu": "deny_gpus",
    "deny_segment": "deny_segments",
    "term": "terms",
    "tier": "tiers",
    "max_age": "max_age_days",
    "sharding": "shardings",
    "utilization": "utilization_fraction",
    "max_latency": "max_latency_s",
    "min_throughput": "min_throughput_per_s",
    "max_price": "max_usd_per_hour",
    "gain": "gain_fraction",
}
"""Fields of a question by the option's parameter, where the names differ."""
_SAME = (
    "input_size", "seq_len", "weights", "activations", "precision", "framework", "layout", "torch_version",
    "where", "min_memory", "priced",
    "samples", "epochs", "sort", "strict", "expandable_segments", "advice", "compare_frameworks", "top", "title",
    "marketplaces", "terms", "old", "history", "max_rack_units",
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
        raise UsageError(f"--server answers {', '.join(ASKED)}; run `capplan {name}` without it.")
    defaults = {each.name: each.default for each in command.params}

    def asked(**values: Any) -> None:
        given = {key: value for key, value in values.items() if _is_given(value, defaults.get(key))}
        _answer(name, given, Client(server, token=os.environ.get(TOKEN_VARIABLE)))

    command.callback = asked
    if hasattr(command, "commands"):
        _refuse_subcommands(command, name)
    return command


def _refuse_subcommands(group: Any, name: str) -> None:
    """Make a group with a subcommand report that its subcommands are answered on this machine only."""
    answered = group.invoke

    def invoke(ctx: Any) -> Any:
        if [*getattr(ctx, "_protected_args", ()), *ctx.args]:
            raise UsageError(f"--server answers `capplan {name}` itself; run its subcommands without it.")
        return answered(ctx)

    group.invoke = invoke


def _is_given(value: Any, default: Any) -> bool:
    return value is not None and value != default and not (isinstance(value, tuple | list) and not value)


def _answer(name: str, given: dict[str, Any], client: Client) -> None:
    """Ask for every model that is named, and write the answers."""
    models = given.get("models") or ([given["model"]] if "model" in given else [None])
    question = question_of(name, given)
    if name == "report":
        _write_reports(given, question, list(models), client)
        return
    chosen = resolve_format(
        _format(given), json_flag=bool(given.get("json_") or given.get("json_flag")), output=given.get("output")
    )
    answers = [
        client.ask(name, {**question, **_model_fields(each, client)}, spelling=chosen.value, width=answer_width())
        for each in models
    ]
    emit(_joined(answers, chosen), output=given.get("output"))
    _conclude(answers)


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


def _write_reports(given: dict[str, Any], question: dict[str, Any], models: list[Any], client: Client) -> None:
    from capplan.cli.report_options import check_outputs

    if len(models) != 1:
        raise UsageError("a service reports on one model at a time; name one.")
    outputs = check_outputs([Path(each) for each in given.get("output", ())], force=bool(given.get("force")))
    asked = {**question, **_model_fields(models[0], client)}
    if not outputs:
        answers = [client.ask("report", asked, spelling="md")]
        emit(answers[0].content.decode(), output=None)
    else:
        answers = [client.ask("report", asked, spelling=each.suffix.lower().removeprefix(".")) for each in outputs]
        for path, each in zip(outputs, answers, strict=True):
            write_atomically(path, each.content)
    _conclude(answers)


def question_of(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a question that options of a command stand for.

    Args:
        name: the command.
        given: the values of the options that were given, by their parameters.

    Raises:
        UsageError: an option needs what only this machine has.
    """
    question: dict[str, Any] = {}
    for key, value in given.items():
        if key == "batch":
            question["batch" if name == "memory" else "batches"] = value
        elif key == "gpus":
            question["rank_count"] = value
        elif key == "arg":
            question["arguments"] = dict(_argument(each) for each in value)
        elif key in _FIELDS or key in _SAME:
            question[_FIELDS.get(key, key)] = _plain(value)
        elif key not in (*_OF_WRITING, *_OF_TRAINING):
            option = key.strip("_").replace("_", "-")
            raise UsageError(f"--{option} works on this machine only; leave it out, or leave out --server.")
    if given.get("train"):
        question["training"] = {each: _plain(given[each]) for each in _OF_TRAINING if each in given}
        question["training"].setdefault("optimizer", "adamw")
    if "load" in given:
        question["load"] = _load(Path(given["load"]))
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


def _load(path: Path) -> Any:
    from capplan.specs.load import read_load_fields

    return read_load_fields(path)


def _model_fields(words: str | None, client: Client) -> dict[str, Any]:
    """Return how a question names a model: a trace file is uploaded, a config handed over, all else named."""
    if words is None:
        return {}
    path = Path(words.removeprefix("hf:"))
    if words.startswith("hf:") and path.is_dir():
        path /= "config.json"
    if not path.is_file() or path.suffix not in (".json", ".gz"):
        return {"model": words}
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b" or is_trace_content(content):
        return {"model": client.upload(content)}
    try:
        return {"config": json.loads(content)}
    except ValueError as error:
        raise UsageError(f"{path} is not JSON ({error}).") from error
