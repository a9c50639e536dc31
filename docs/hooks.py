"""Fill pages of the site from what they are about, so that they cannot go stale.

The command-line reference is made from the commands; CONTRIBUTING.md and CHANGELOG.md become pages of their own.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from capplan.cli.main import app

PLACE = "<!-- commands -->"
ROOT = Path(__file__).parents[1]
INCLUDED = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
"""Pages, and the files of the repository that they show."""


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Put in what a page stands for."""
    if page.file.src_uri in INCLUDED:
        return (ROOT / INCLUDED[page.file.src_uri]).read_text().replace("](docs/", "](")
    if PLACE not in markdown:
        return markdown
    root = get_command(app)
    context = root.context_class(root, info_name="capplan")
    return markdown.replace(PLACE, "\n".join(described(root, context)))


def described(command: Any, context: Any, depth: int = 2) -> Iterator[str]:
    """Describe the subcommands of a group, each with its options, as Markdown."""
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        if found is None or found.hidden:
            continue
        below = type(context)(found, info_name=name, parent=context)
        yield f"\n{'#' * depth} capplan {below.command_path.partition(' ')[2]}\n"
        yield (found.help or "").replace("\f", "").replace("\b", "") + "\n"
        if hasattr(found, "list_commands"):
            yield from described(found, below, depth + 1)
        if found.params:
            yield from table(found)


def table(command: Any) -> Iterator[str]:
    """List arguments and options with their help."""
    yield "\n| option | meaning |\n| --- | --- |"
    for parameter in command.params:
        if getattr(parameter, "hidden", False):
            continue
        names = ", ".join(f"`{each}`" for each in (*parameter.opts, *parameter.secondary_opts))
        if parameter.param_type_name == "argument":
            names = f"`{(parameter.metavar or parameter.name).upper()}`"
        told = (getattr(parameter, "help", None) or "").replace("|", "\\|").replace("\n", " ")
        yield f"| {names} | {told} |"
