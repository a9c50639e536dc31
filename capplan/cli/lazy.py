"""Commands that are imported when they are called, and their help: examples first, options by topic."""

import inspect
import shlex
from collections.abc import Mapping, Sequence
from copy import copy
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from capplan.cli.output import ColorChoice, guard_outputs, is_coloured
from capplan.errors import UnknownNameError, UsageError, nearest_names
from capplan.verbs.statement.options import Topic
from capplan.verbs.statement.registry import VERBS, find_verb

_OF_ANSWERS = frozenset({"color", "format_", "json_", "output", "force", "help", "help_all"})
"""Options about how an answer is written, which every command has."""
_MOST_SHOWN = 18
"""Commands with more parameters show those that most questions use."""
_FEWEST_GROUPED = 9
"""Commands with fewer options list them under one heading."""
OTHER_COMMANDS = "More"
_EXAMPLES = "Examples:"
_TIMES = {2: "twice", 3: "three times"}

GROUPS: Mapping[str, str] = {
    "calibrate": "Fit efficiencies to measurements.",
    "llm": "Plan the serving and training of large language models: which fit, how fast they are, what they cost.",
    "llm evidence": "Bring measured runs of served models: those published this week, or your own.",
    "llm train": "Plan the training and fine-tuning of large language models: memory, speed, days, money and layouts.",
    "gpus": "List the GPUs that capplan knows, with filters; show, compare and check them; add your own.",
    "prices": "List, filter and compare prices of GPUs; import your own quotes.",
    "cache": "Show and clear the traces kept from earlier runs (CAPPLAN_CACHE names the folder; off keeps none).",
}
"""What the help of each group says, by its words; a verb of the same words answers where no command is named."""


def _sparing(parameters: list[Any]) -> list[Any]:
    """Make parameters convert only what needs it: converters take 0.1 s to load and to build."""
    for parameter in parameters:
        parameter.process_value = partial(_process_value, parameter)
    return parameters


def _process_value(parameter: Any, ctx: Any, value: Any) -> Any:
    """Convert a value that was given and is not of the type that is wanted, and call the parameter's callback."""
    is_absent = value is None and not parameter.required
    if not is_absent and not _is_as_wanted(value, parameter.type_descriptor.annotation):
        return type(parameter).process_value(parameter, ctx, value)
    found = () if is_absent and (parameter.multiple or parameter.nargs == -1) else value
    return found if parameter.callback is None else parameter.callback(ctx, parameter, found)


def _is_as_wanted(value: Any, annotation: Any) -> bool:
    """Return True if a value, or each of several, is of the type that a parameter is annotated with."""
    if get_origin(annotation) is list:
        (item,) = get_args(annotation)
        return isinstance(value, list | tuple) and bool(value) and all(type(part) is item for part in value)
    return isinstance(annotation, type) and isinstance(value, annotation)


_LONGEST_SENTENCE = 300
"""Characters that the first sentence of a command's help may have in a list of commands."""


class LazyGroup(TyperGroup):
    """A group whose subclasses name their commands, each as "module:function", or ":words" of a group of verbs.

    `command_topics` are the headings under which help lists them; without any, all stand under "Commands".
    `command_for_models` is the command that is suggested to whoever names a model in the place of a command.
    Options of the group without a default of their own must default to None.
    """

    lazy_commands: ClassVar[Mapping[str, str]] = {}
    command_topics: ClassVar[Mapping[str, Sequence[str]]] = {}
    command_for_models: ClassVar[str | None] = None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the first word names."""
        name = args[0] if args else ""
        if not name or name.startswith("-") or self.get_command(ctx, name) is not None:
            return super().resolve_command(ctx, args)
        known = self.list_commands(ctx)
        hint = f"`{ctx.command_path} --help` lists all."
        if self.command_for_models is not None and not nearest_names(name, known):
            hint = f"For a model, write `{ctx.command_path} {self.command_for_models} {shlex.join(args)}`; {hint}"
        raise UnknownNameError("command", name, known, hint=hint)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return all parameters, typer's own options (help, completion) among them."""
        return _sparing(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:
        """Return all commands, in the order in which they are named."""
        eager: list[str] = super().list_commands(ctx)
        return [*self.lazy_commands, *(name for name in eager if name not in self.lazy_commands)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import and build one command; None where there is none of that name."""
        place = self.lazy_commands.get(cmd_name)
        return super().get_command(ctx, cmd_name) if place is None else _build(cmd_name, place)

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write what the group is for, its examples first."""
        del ctx
        write_help_text(self.help or "", formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, which matter more, before the options of the group itself."""
        self.format_commands(ctx, formatter)
        records = [parameter.get_help_record(ctx) for parameter in self.get_params(ctx)]
        with formatter.section(heading("Options")):
            formatter.write_dl([record for record in records if record is not None])

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by topic, each with the first sentence of its help, folded and not cut."""
        names = self.list_commands(ctx)
        topics = commands_by_topic(names, self.command_topics) if self.command_topics else [("Commands", names)]
        longest = max(map(len, names))
        for topic, listed in topics:
            commands = [(name, self.get_command(ctx, name)) for name in listed]
            rows = [(name.ljust(longest), command.get_short_help_str(_LONGEST_SENTENCE)) for name, command in commands]
            with formatter.section(heading(topic)):
                formatter.write_dl(rows)


def _build(name: str, place: str) -> Any:
    """Build the command, or the group of verbs, that lies at a place."""
    module, _, attribute = place.partition(":")
    if not module:
        command: Any = get_group(_verb_group(attribute))
    elif module.startswith("capplan.verbs."):
        command = _verb_command(name, getattr(import_module(module), attribute))
    else:
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(name)(getattr(import_module(module), attribute))
        command = get_command(single)
    command.name = name
    give_topics(command)
    guard_outputs(command)
    return command


def _verb_group(path: str) -> typer.Typer:
    """Make the group of the verbs, and of the groups, whose paths are one word longer than its own."""
    from capplan.cli.prompts import group_function

    places = {**VERBS, **{group: f":{group}" for group in GROUPS}}
    below = {name.removeprefix(f"{path} "): place for name, place in places.items() if name.startswith(f"{path} ")}
    commands = {name: place for name, place in below.items() if " " not in name}
    kind = type(f"{path.title().replace(' ', '')}Group", (LazyGroup,), {"lazy_commands": commands})
    asks = path in VERBS
    group = typer.Typer(
        cls=kind, help=GROUPS[path], invoke_without_command=asks, no_args_is_help=not asks, rich_markup_mode=None
    )
    group.callback()(group_function(find_verb(path)) if asks else lambda: None)
    return group


def _verb_command(name: str, verb: Any) -> Any:
    """Build the command of a verb, its options under the headings that the verb states."""
    from capplan.cli.prompts import command_function, topics_of, unusual_of

    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    if verb.goes_to_files:
        from capplan.cli.reporting import file_function

        single.command(name)(file_function(verb))
    else:
        single.command(name)(command_function(verb))
    command: Any = get_command(single)
    topics, unusual = topics_of(verb), unusual_of(verb)
    for parameter in command.params:
        parameter.topic = topics.get(parameter.name)
        parameter.is_unusual = len(command.params) > _MOST_SHOWN and parameter.name in unusual
    return command


class TopicCommand(TyperCommand):
    """A command whose help shows its examples before its options, and these by topic.

    Where it has many, `--help` shows those that most questions use, and `--help-all` every one.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """Return all parameters, with the option that shows help on every one where help leaves some out."""
        parameters: list[Any] = _sparing(super().get_params(ctx))
        if not any(getattr(parameter, "is_unusual", False) for parameter in parameters):
            return parameters
        help_all: Any = copy(self.get_help_option(ctx))
        help_all.name, help_all.opts = "help_all", ["--help-all"]
        help_all.callback, help_all.help = _show_all, "Show every option and exit."
        return _sparing([*parameters, help_all])

    def make_parser(self, ctx: Any) -> Any:
        """Return the parser of the command's words, which refuses an option that is given twice.

        The last value would count otherwise, and the first be lost without a word.
        """
        parser: Any = super().make_parser(ctx)
        parse = parser.parse_args

        def parse_once(args: list[str]) -> Any:
            options, rest, order = parse(args)
            for option in {option.name: option for option in order}.values():
                is_single = option.param_type_name == "option" and not (
                    option.multiple or option.is_flag or option.count
                )
                if is_single and order.count(option) > 1:
                    raise UsageError(f"{option.opts[0]} is given {_TIMES.get(order.count(option), 'several times')}.")
            return options, rest, order

        parser.parse_args = parse_once
        return parser

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write what the command does, and its examples in lines that can be copied."""
        del ctx
        write_help_text(self.help or "", formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, the latter by topic."""
        arguments: list[Any] = []
        options: list[tuple[Topic, Any]] = []
        for parameter in self.get_params(ctx):
            if getattr(parameter, "is_unusual", False) and not ctx.meta.get(_SHOWS_ALL):
                continue
            record = parameter.get_help_record(ctx)
            if record is not None and parameter.param_type_name == "argument":
                name, _, _ = record[0].partition(" <")  # typer adds the type: MODEL <str>
                arguments.append((name, record[1]))
            elif record is not None:
                usual = Topic.ANSWER if parameter.name in _OF_ANSWERS else Topic.OWN
                options.append((getattr(parameter, "topic", None) or usual, record))
        if len(options) < _FEWEST_GROUPED:
            options = [(Topic.OWN, record) for _, record in options]
        by_topic = ((topic, [record for stated, record in options if stated is topic]) for topic in Topic)
        for title, rows in (("Arguments", arguments), *by_topic):
            if rows:
                with formatter.section(heading(title)):
                    formatter.write_dl(rows)


_SHOWS_ALL = "capplan.help_all"


def _show_all(ctx: Any, _parameter: Any, value: bool) -> None:
    """Print the help with every option, and end the command."""
    if value and not ctx.resilient_parsing:
        ctx.meta[_SHOWS_ALL] = True
        typer.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


def give_topics(command: Any) -> None:
    """Make a command, and each command of a group, write its help by topic."""
    for subcommand in getattr(command, "commands", {}).values():
        give_topics(subcommand)
    if type(command) is TyperCommand:
        command.__class__ = TopicCommand


def write_help_text(text: str, formatter: Any) -> None:
    """Write a help text; each example starts a line, and a long one continues after a backslash, as in a shell."""
    words, _, examples = inspect.cleandoc(text).partition(f"\n{_EXAMPLES}\n")
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(words.strip())
    if not examples:
        return
    formatter.write_paragraph()
    formatter.write(f"{heading('Examples')}:\n")
    for example in (" ".join(words.split()) for words in examples.split("\n\n") if words.strip()):
        lines = _broken(example, width=formatter.width - 4)
        formatter.write("".join(f"{'  ' if place == 0 else '      '}{line}\n" for place, line in enumerate(lines)))


def heading(title: str) -> str:
    """Return a heading of help, bold on a terminal."""
    return typer.style(title, bold=True) if is_coloured(ColorChoice.AUTO) else title


def commands_by_topic(names: Sequence[str], topics: Mapping[str, Sequence[str]]) -> list[tuple[str, list[str]]]:
    """Return the commands under their topics; those that no topic names come last, under a heading of their own."""
    known = {name for listed in topics.values() for name in listed}
    headings = {**topics, OTHER_COMMANDS: [name for name in names if name not in known]}
    by_topic = [(topic, [name for name in listed if name in names]) for topic, listed in headings.items()]
    return [(topic, listed) for topic, listed in by_topic if listed]


def _broken(example: str, *, width: int) -> list[str]:
    """Break a command at its blanks, so that each line but the last ends in a backslash and can be copied whole."""
    if len(example) <= width:
        return [example]
    try:
        words = [shlex.quote(word) if " " in word else word for word in shlex.split(example, comments=False)]
    except ValueError:  # a text that is not a command
        return [example]
    lines: list[str] = []
    left = ""
    for word in _pairs(words):
        room = width if not lines else width - 4
        if left and len(f"{left} {word} \\") > room:
            lines.append(f"{left} \\")
            left = word
        else:
            left = f"{left} {word}" if left else word
    return [*lines, left]


def _pairs(words: Sequence[str]) -> list[str]:
    """Join each option with the value behind it, so that no line ends between them."""
    pairs: list[str] = []
    for word in words:
        if pairs and pairs[-1].startswith("-") and " " not in pairs[-1] and not word.startswith("-"):
            pairs[-1] = f"{pairs[-1]} {word}"
        else:
            pairs.append(word)
    return pairs
