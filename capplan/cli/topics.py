"""Help that shows examples first and options by topic; plain text everywhere, its headings bold on a terminal."""

import inspect
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import typer
from typer.core import TyperCommand

from capplan.cli.output import ColorChoice, is_coloured
from capplan.errors import UsageError
from capplan.verbs.statement.options import Topic

_OF_ANSWERS = frozenset({"color", "format_", "json_", "output", "force", "help"})
"""Options about how an answer is written, which every command has."""
_FEWEST_GROUPED = 9
"""Commands with fewer options list them under one heading."""
OTHER_COMMANDS = "More"
_EXAMPLES = "Examples:"


class TopicCommand(TyperCommand):
    """A command whose help shows its examples before its options, and these by topic."""

    def make_parser(self, ctx: Any) -> Any:
        """Return the parser of the command's words, which refuses an option that is given twice.

        The last value would count otherwise, and the first be lost without a word.
        """
        parser: Any = super().make_parser(ctx)
        parse = parser.parse_args

        def parse_once(args: list[str]) -> Any:
            options, rest, order = parse(args)
            for option in {each.name: each for each in order if _takes_one_value(each)}.values():
                if order.count(option) > 1:
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
        records = [(each, each.get_help_record(ctx)) for each in self.get_params(ctx)]
        shown = [(each, record) for each, record in records if record is not None]
        arguments = [record for each, record in shown if each.param_type_name == "argument"]
        options = [(_topic(each), record) for each, record in shown if each.param_type_name != "argument"]
        for title, rows in (("Arguments", arguments), *_by_topic(options)):
            if rows:
                with formatter.section(heading(title)):
                    formatter.write_dl(rows)


_TIMES = {2: "twice", 3: "three times"}


def _takes_one_value(parameter: Any) -> bool:
    return parameter.param_type_name == "option" and not (parameter.multiple or parameter.is_flag or parameter.count)


def give_topics(command: Any) -> None:
    """Make a command, and each command of a group, write its help by topic."""
    for each in getattr(command, "commands", {}).values():
        give_topics(each)
    if type(command) is TyperCommand:
        command.__class__ = TopicCommand


def write_help_text(text: str, formatter: Any) -> None:
    """Write a help text; each example starts a line, and a long one continues after a backslash, as in a shell.

    Args:
        text: paragraphs, and behind the line "Examples:" one example a paragraph.
        formatter: click's formatter of help.
    """
    words, _, examples = inspect.cleandoc(text).partition(f"\n{_EXAMPLES}\n")
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(words.strip())
    if not examples:
        return
    formatter.write_paragraph()
    formatter.write(f"{heading('Examples')}:\n")
    for example in (" ".join(each.split()) for each in examples.split("\n\n") if each.strip()):
        lines = _broken(example, width=formatter.width - 4)
        formatter.write("".join(f"{'  ' if place == 0 else '      '}{line}\n" for place, line in enumerate(lines)))


def heading(title: str) -> str:
    """Return a heading of help, bold on a terminal."""
    return typer.style(title, bold=True) if is_coloured(ColorChoice.AUTO) else title


def commands_by_topic(names: Sequence[str], topics: Mapping[str, Sequence[str]]) -> list[tuple[str, list[str]]]:
    """Return the commands under their topics; those that no topic names come last, under a heading of their own."""
    known = {name for each in topics.values() for name in each}
    found = [(topic, [name for name in listed if name in names]) for topic, listed in topics.items()]
    found.append((OTHER_COMMANDS, [name for name in names if name not in known]))
    return [(topic, listed) for topic, listed in found if listed]


def _topic(parameter: Any) -> Topic:
    """Return the heading under which an option stands: as its verb states it, or that of answers or of its command."""
    stated = getattr(parameter, "topic", None)
    return stated or (Topic.ANSWER if parameter.name in _OF_ANSWERS else Topic.OWN)


def _by_topic(options: Sequence[tuple[Topic, Any]]) -> list[tuple[Topic, list[Any]]]:
    """Return the options' rows under their topics; those of a command alone stand before the last topic."""
    if len(options) < _FEWEST_GROUPED:
        return [(Topic.OWN, [record for _, record in options])]
    return [(topic, [record for name, record in options if name is topic]) for topic in Topic]


def _broken(example: str, *, width: int) -> list[str]:
    """Break a command at its blanks, so that each line but the last ends in a backslash and can be copied whole."""
    if len(example) <= width:
        return [example]
    try:
        words = [shlex.quote(each) if " " in each else each for each in shlex.split(example, comments=False)]
    except ValueError:  # a text that is no command
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
    found: list[str] = []
    for word in words:
        if found and found[-1].startswith("-") and " " not in found[-1] and not word.startswith("-"):
            found[-1] = f"{found[-1]} {word}"
        else:
            found.append(word)
    return found
