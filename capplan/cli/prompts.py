"""Make a command from a verb: parameters from its question's fields, help from its words, and what shells complete."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer

from capplan.app.feedback import Watcher
from capplan.cli.output import (
    ColorChoice,
    ColorOption,
    Format,
    FormatOption,
    JsonOption,
    OutputOption,
    answer_width,
    emit,
    emit_coloured,
    is_coloured,
    refuse_output,
    resolve_format,
    table_width,
    warn,
    write_atomically,
)
from capplan.cli.progress import TERMINAL, make_watcher
from capplan.verbs.statement.contract import Look, Outcome, Verb
from capplan.verbs.statement.local import LocalContext
from capplan.verbs.statement.options import Door, Field, Topic, plain_types
from capplan.verbs.statement.read import bounds_in_words, read_question
from capplan.wording import as_options

_SEPARATOR = ","


def complete_gpus(incomplete: str) -> list[tuple[str, str]]:
    """Return the ids that a GPU option may go on with, each with its name; after a comma, those of the next GPU."""
    from capplan.specs import load_gpus

    before, separator, last = incomplete.rpartition(_SEPARATOR)
    known = load_gpus()
    return [
        (f"{before}{separator}{gpu_id}", spec.name)
        for gpu_id, spec in known.items()
        if gpu_id.startswith(last.casefold())
    ]


def complete_models(incomplete: str) -> list[str]:
    """Return the library models that a model argument may go on with; shells add files by themselves."""
    from capplan.probe.target.names import source_names

    library, colon, name = incomplete.partition(":")
    if colon:
        known: Iterable[str] = source_names(library) if library in ("timm", "torchvision") else ()
        return sorted(f"{library}:{known_name}" for known_name in known if known_name.startswith(name))
    if not incomplete:
        return ["timm:", "torchvision:", "hf:"]
    every = source_names("torchvision") | source_names("timm")
    return sorted(name for name in every if name.startswith(incomplete))


_COMPLETIONS: Mapping[str, Callable[..., Any]] = {"gpus": complete_gpus, "models": complete_models}
_WRITING = ("color", "format_", "json_", "output")
"""Parameters about how an answer is written, which every verb's command has."""


_LONGEST_CHOICES = 40
"""Characters of the words that stand beside an option's flag, so that both stand in a line of a terminal of 60 columns;
more stand in the sentence about it, which is folded."""
_METAVARS: Mapping[Any, str] = {int: "N", float: "NUMBER", Path: "PATH"}
"""What stands beside the flag of an option whose value is of a plain type; NAME beside any other."""
_LARGEST_SHOWN = 10**6
"""Bounds above this guard against overflow; the reader of questions checks them, and help does not print them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """How an answer is written, and where to."""

    color: ColorChoice = ColorChoice.AUTO
    format_: StrEnum | None = None
    json_: bool = False
    output: Path | None = None

    def format(self, verb: Verb[Any, Any]) -> str:
        """Return the format to write: an explicit one, else the output file's extension, else a table."""
        return resolve_format(self.format_, json_flag=self.json_, output=self.output, files_only=verb.files_in)


class TerminalContext(LocalContext):
    """What this machine holds, with the progress of sweeps on stderr."""

    def watcher(self, choice: str) -> Watcher:
        """Return what shows the progress of a sweep as chosen."""
        return make_watcher(choice)


def command_function(verb: Verb[Any, Any]) -> Callable[..., None]:
    """Return the function that typer makes a verb's command from."""

    def run(**values: Any) -> None:
        writing = Writing(**{name: values.pop(name) for name in _WRITING if name in values and name not in own})
        _ask(verb, values, writing)

    own = {field.name for field in verb.fields_at(Door.COMMAND)}

    formats = [
        keyword("color", ColorOption, ColorChoice.AUTO),
        keyword("format_", _format_option(verb), None),
        keyword("json_", JsonOption, False),
    ]
    has_formats = verb.text is None
    output = [] if "output" in own or verb.printed_only else [keyword("output", OutputOption, None)]
    parameters = [*command_parameters(verb), *formats * has_formats, *output]
    return with_parameters(run, parameters, name=verb.path.rpartition(" ")[2], text=help_text(verb))


def with_parameters(
    run: Callable[..., None], parameters: Sequence[inspect.Parameter], *, name: str, text: str | None
) -> Callable[..., None]:
    """Return a function as typer reads it: with a name, parameters, and the text of its help."""
    run.__name__, run.__doc__ = name, text
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # inspect reads it
    return run


def _completion_of(choices: Sequence[str]) -> Callable[[str], list[str]] | None:
    """Return what completes one of some words; None where there are none."""

    def complete(incomplete: str) -> list[str]:
        return [choice for choice in choices if choice.startswith(incomplete)]

    return complete if choices else None


def _format_option(verb: Verb[Any, Any]) -> Any:
    """Return the annotation of `--format`: the formats of every answer, and those that the verb has besides."""
    if not verb.files_in:
        return FormatOption
    kind = StrEnum("Spelling", {name.upper(): name for name in (*Format, *verb.files_in)})  # type: ignore[misc]
    _, info = get_args(FormatOption)
    info = copy(info)
    info.metavar = "|".join(kind)
    return Annotated[kind | None, info]


def group_function(verb: Verb[Any, Any]) -> Callable[..., None]:
    """Return the function that typer makes a group from, which asks a verb where no command of the group is named."""
    ask = command_function(verb)

    def run(context: typer.Context, **values: Any) -> None:
        if context.invoked_subcommand is None:
            ask(**{name: value for name, value in values.items() if value is not None})

    parameters = [_left_out(parameter) for parameter in inspect.signature(ask).parameters.values()]
    first = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    return with_parameters(run, [first, *parameters], name=ask.__name__, text=ask.__doc__)


def _left_out(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return a group's parameter with None as its default, which typer does not convert.

    Help shows the default that the question states.
    """
    default = parameter.default
    if default is None or isinstance(default, bool):
        return parameter
    kind, info = get_args(parameter.annotation)
    shown = copy(info)
    shown.show_default = str(getattr(default, "value", default)) if info.show_default else False
    return parameter.replace(default=None, annotation=Annotated[kind | None, shown])


def help_text(verb: Verb[Any, Any]) -> str:
    """Return what a verb's help says: its summary, and its examples, one a paragraph."""
    fails = [f"Exit 1 if {verb.fails_if}."] if verb.fails_if else []
    examples = ["Examples:", *(f"  {example}" for example in verb.examples)]
    return "\n\n".join([*map(as_options, [verb.summary, *fails]), *examples])


def topics_of(verb: Verb[Any, Any]) -> dict[str, Topic]:
    """Return the heading of help under which each parameter stands."""
    return {parameter_name(verb, field): field.option.topic for field in verb.fields_at(Door.COMMAND)}


def unusual_of(verb: Verb[Any, Any]) -> frozenset[str]:
    """Return the parameters that short help leaves out."""
    hidden = frozenset(parameter_name(verb, field) for field in verb.fields_at(Door.COMMAND) if not field.is_usual)
    return hidden | {"color"}


def parameter_name(verb: Verb[Any, Any], field: Field) -> str:
    """Return the name of a field's parameter: the field's, in the plural where a command takes several models."""
    return "models" if field.option.is_argument and verb.takes_several else field.name


def read_asked(verb: Verb[Any, Any], values: Mapping[str, Any]) -> tuple[Any, list[str]]:
    """Return the question that a command's values ask, and the models that it is asked of."""
    given = {name: value for name, value in values.items() if value not in (None, [], ())}
    models = given.pop("models", []) if verb.takes_several else []
    question = read_question(verb.question, given, door=Door.COMMAND, name_of=lambda field: field.flag, is_text=True)
    return question, list(models)


def _ask(verb: Verb[Any, Any], values: Mapping[str, Any], writing: Writing) -> None:
    """Ask on this machine, and write the answers."""
    question, models = read_asked(verb, values)
    if verb.appends_to is not None and writing.output is not None:
        appending = verb.appends_to(question, writing.output)
        if appending is not None:
            refuse_output(writing.output)
            question, writing = appending, replace(writing, output=None)
    if verb.text is None:
        chosen = writing.format(verb)
    else:
        refuse_output(writing.output)
        chosen = Format.TABLE
    context = TerminalContext(feedback=TERMINAL)
    look = Look(format=str(chosen), width=answer_width(), table_width=table_width(writing.output))
    question = verb.finalize(question, look)
    asked = [replace(question, model=words) for words in models] if verb.takes_several else [question]
    answers = [verb.answer(question, context) for question in asked]
    write_answers(verb, answers, question, writing=writing, look=look)
    if verb.files is not None:
        write_atomically(verb.files(answers, question))
    conclude([verb.outcome(answer) for answer in answers])


def write_answers(verb: Verb[Any, Any], answers: Sequence[Any], question: Any, *, writing: Writing, look: Look) -> None:
    """Write answers to stdout or into the file that is named."""
    content = verb.write(answers, question, look)
    if isinstance(content, bytes):
        assert writing.output is not None  # such a format is refused without a file
        return write_atomically({writing.output: content})
    if not isinstance(content, str):
        from capplan.report.text.styled import plain_text

        if writing.output is None and is_coloured(writing.color):
            return emit_coloured(content)
        content = plain_text(content)
    return emit(content, output=writing.output)


def conclude(outcomes: Sequence[Outcome]) -> None:
    """Print the warnings of answers, and exit with the highest of their codes."""
    for outcome in outcomes:
        for warning in outcome.warnings:
            warn(warning)
    code = max((outcome.exit_code for outcome in outcomes), default=0)
    if code:
        raise typer.Exit(code)


def command_parameters(verb: Verb[Any, Any]) -> list[inspect.Parameter]:
    """Return the parameters of a verb's command that its question states."""
    return [_parameter(verb, field) for field in verb.fields_at(Door.COMMAND)]


def keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    """Return a parameter that is given by name."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _parameter(verb: Verb[Any, Any], field: Field) -> inspect.Parameter:
    option, help_words = field.option, as_options(field.option.help)
    completion = _COMPLETIONS.get(option.completes or "")
    kind, default = _type_and_default(field)
    if option.is_argument:
        several = verb.takes_several or field.is_list
        is_optional = (option.metavar or "").startswith("[")
        metavar = option.metavar.strip("[].") if option.metavar and (is_optional or several) else option.metavar
        info: Any = typer.Argument(metavar=metavar, help=help_words, show_default=False, autocompletion=completion)
        item: Any = Path if Path in (field.item, *field.kinds) else str
        wanted: Any = list[item] if several else item
        annotation: Any = Annotated[wanted | None if is_optional else wanted, info]
        return keyword(parameter_name(verb, field), annotation, None if is_optional else inspect.Parameter.empty)
    metavar = option.metavar
    choices = "|".join(field.choices)
    if choices and metavar in (None, choices):
        metavar = choices
        if len(choices) > _LONGEST_CHOICES:
            help_words, metavar = f"{help_words} One of {', '.join(field.choices)}.", "NAME"
    elif metavar is None and bool not in field.kinds:
        kinds = plain_types(field.item) if field.is_list else field.kinds
        metavar = _METAVARS.get(kinds[0], "NAME")
    within = "" if option.words or field.bounds is None else bounds_in_words(field.bounds, shown=_LARGEST_SHOWN)
    if within:
        help_words = f"{help_words}  [{within.removeprefix('of ')}]"
    info = typer.Option(
        field.flag,
        *option.flags[1:],
        help=help_words,
        metavar=metavar,
        show_default=option.shows_default,
        autocompletion=completion or _completion_of(field.choices),
    )
    return keyword(field.name, Annotated[kind, info], default)


def _type_and_default(field: Field) -> tuple[Any, Any]:
    """Return the type of a parameter's value before it is read, and its default; an empty one where it must stand.

    Values are texts, which the reader of questions converts, so that all doors refuse them in the same sentences.
    """
    words, default = field.option.words, field.default
    absent = inspect.Parameter.empty if field.is_required else None
    if field.is_list or field.is_mapping:
        item: Any = Path if Path in plain_types(field.item) else str
        return (list[item] if field.is_required else list[item] | None), absent
    kind: Any = str
    if words is None:
        (own,) = field.kinds
        kind = own if own in (bool, Path) or get_origin(own) is tuple else str
    if default is None or field.is_required:
        return (kind if field.is_required else kind | None), absent
    if words is not None:
        return str, words.write(default)
    return kind, default if kind is not str else str(getattr(default, "value", default))
