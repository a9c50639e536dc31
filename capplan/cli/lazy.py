"""A command group that imports a command's module when the command is called, not before."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.main import get_command, get_group

from capplan.cli.overwriting import guard_outputs
from capplan.cli.sparing import SparingGroup
from capplan.cli.topics import commands_by_topic, give_topics, heading, write_help_text

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
            formatter.write_dl([each for each in records if each is not None])

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
