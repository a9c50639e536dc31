"""Command groups that import a command's module when it is called, and build its options when they are given."""

import shlex
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup, TyperOption
from typer.main import get_command, get_group

from capplan.cli.output import guard_outputs
from capplan.cli.topics import commands_by_topic, give_topics, heading, write_help_text
from capplan.errors import UnknownNameError, nearest_names


class SparingOption(TyperOption):
    """An option that converts only a value that was given."""

    def process_value(self, ctx: Any, value: Any) -> Any:
        """Convert a value and call the option's callback; an optional one left out is None, unconverted."""
        if value is not None or self.required:
            return super().process_value(ctx, value)
        absent = () if self.multiple else None
        return absent if self.callback is None else self.callback(ctx, self, absent)


class SparingGroup(TyperGroup):
    """A command group with such options; those without a default of their own must default to None.

    `command_for_models` is the command that is suggested to whoever names a model in the place of a command.
    """

    command_for_models: ClassVar[str | None] = None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the first word names.

        Raises:
            UnknownNameError: there is none; the message suggests the nearest names, or how to ask about a model.
        """
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
        parameters: list[Any] = super().get_params(ctx)
        for parameter in parameters:
            if type(parameter) is TyperOption:
                parameter.__class__ = SparingOption
        return parameters


_LONGEST_SENTENCE = 300
"""Characters that the first sentence of a command's help may have in a list of commands."""


class LazyGroup(SparingGroup):
    """A group whose subclasses name their commands, each as "module:function" or "module:typer app".

    `command_topics` are the headings under which help lists them; without any, all stand under "Commands".
    """

    lazy_commands: ClassVar[Mapping[str, str]] = {}
    command_topics: ClassVar[Mapping[str, Sequence[str]]] = {}

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
        records = [each.get_help_record(ctx) for each in self.get_params(ctx)]
        with formatter.section(heading("Options")):
            formatter.write_dl([record for record in records if record is not None])

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by topic, each with the first sentence of its help, folded and not cut."""
        names = self.list_commands(ctx)
        topics = commands_by_topic(names, self.command_topics) if self.command_topics else [("Commands", names)]
        longest = max(map(len, names))
        for topic, listed in topics:
            found = [(name, self.get_command(ctx, name)) for name in listed]
            rows = [(name.ljust(longest), command.get_short_help_str(_LONGEST_SENTENCE)) for name, command in found]
            with formatter.section(heading(topic)):
                formatter.write_dl(rows)


def _build(name: str, place: str) -> Any:
    module, _, attribute = place.partition(":")
    found = getattr(import_module(module), attribute)
    if module.startswith("capplan.verbs."):
        return _build_verb(name, found)
    if isinstance(found, typer.Typer):
        command: Any = get_group(found)
    else:
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(name)(found)
        command = get_command(single)
    command.name = name
    give_topics(command)
    guard_outputs(command)
    return command


def _build_verb(name: str, verb: Any) -> Any:
    """Build the command of a verb, its options under the headings that the verb states."""
    from capplan.cli.asking import command_function, topics_of

    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    if verb.goes_to_files:
        from capplan.cli.reporting import file_function

        single.command(name)(file_function(verb))
    else:
        single.command(name)(command_function(verb))
    command: Any = get_command(single)
    command.name = name
    topics = topics_of(verb)
    for parameter in command.params:
        parameter.topic = topics.get(parameter.name)
    give_topics(command)
    guard_outputs(command)
    return command
