"""Fill pages of the site from what they are about, so that they cannot go stale.

The command-line reference is made from the commands; CONTRIBUTING.md and CHANGELOG.md become pages of their own. Beside
the pages lie their Markdown (`sweeps.md` beside `sweeps/`) and `llms.txt`, which lists it for assistants (llmstxt.org).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from typer.main import get_command

from capplan.cli.main import app
from capplan.serve.mcp.resources import title_and_summary

PLACE = re.compile(r"<!-- commands (.+) -->")
"""Where commands are described: their paths, separated by commas; one with a minus is left to another page."""
ROOT = Path(__file__).parents[1]
INCLUDED = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
"""Pages, and the files of the repository that they show."""


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Put in what a page stands for, and keep it for the Markdown beside the site."""
    filled = filled_page(markdown, page.file.src_uri)
    _WRITTEN[page.file.src_uri] = filled
    return filled


_WRITTEN: dict[str, str] = {}
"""The Markdown of the pages of this build, by their path below docs."""


def filled_page(markdown: str, name: str) -> str:
    """Return a page with what it stands for."""
    if name in INCLUDED:
        return (ROOT / INCLUDED[name]).read_text().replace("](docs/", "](")
    return PLACE.sub(lambda place: "\n".join(described(place[1].split(", "))), markdown)


def on_post_build(config: Any, **_: Any) -> None:
    """Write the Markdown of every page, and the list of pages for assistants, into the site."""
    site = Path(config["site_dir"])
    for name, markdown in _WRITTEN.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(markdown, encoding="utf-8")
    text = llms_text(config["nav"], _WRITTEN, title=config["site_name"], summary=config["site_description"])
    (site / "llms.txt").write_text(text, encoding="utf-8")


def llms_text(nav: list[Any], pages: Mapping[str, str], *, title: str, summary: str) -> str:
    """Return the list of pages as llmstxt.org describes it: sections of links to Markdown, each with a sentence.

    Args:
        nav: the navigation of mkdocs.yml.
        pages: the Markdown of the pages by their path.
        title: the name of the project.
        summary: one sentence about it.
    """
    lines = [f"# {title}", "", f"> {summary}.", ""]
    for entry in nav:
        for section, content in entry.items() if isinstance(entry, dict) else [("", entry)]:
            listed = [content] if isinstance(content, str) else content
            lines += [f"## {section}", ""] if section else []
            for item in listed:
                name, page = next(iter(item.items())) if isinstance(item, dict) else ("", item)
                heading, sentence = title_and_summary(pages[page])
                lines.append(f"- [{name or heading}]({page}): {sentence}")
            lines.append("")
    return "\n".join(lines)


def described(paths: Sequence[str]) -> Iterator[str]:
    """Describe commands and all below them, each with its options, as Markdown."""
    left_out = {path.removeprefix("-") for path in paths if path.startswith("-")}
    for path in paths:
        if not path.startswith("-"):
            command: Any = get_command(app)
            context = command.context_class(command, info_name="capplan")
            for name in path.split():
                command = command.get_command(context, name)
                context = type(context)(command, info_name=name, parent=context)
            yield from one_described(command, context, left_out)


def one_described(command: Any, context: Any, left_out: set[str], depth: int = 2) -> Iterator[str]:
    """Describe a command, its options, and the commands below it but those left out."""
    path = context.command_path.partition(" ")[2]
    if command.hidden or path in left_out:
        return
    yield f"\n{'#' * depth} capplan {path}\n"
    yield (command.help or "").replace("\f", "").replace("\b", "") + "\n"
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        below = command.get_command(context, name)
        yield from one_described(below, type(context)(below, info_name=name, parent=context), left_out, depth + 1)
    if command.params:
        yield from table(command)


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
