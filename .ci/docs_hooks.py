"""Fill pages of the site from what they are about, so that they cannot go stale.

The command-line reference is made from the commands; CONTRIBUTING.md and CHANGELOG.md become pages of their own. Beside
the pages lie their Markdown (`sweeps.md` beside `sweeps/`) and `llms.txt`, which lists it for assistants (llmstxt.org).
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from typer.main import get_command

from capplan.cli.main import app
from capplan.serve.mcp.resources import title_and_summary

PLACE = "<!-- commands -->"
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
    if PLACE not in markdown:
        return markdown
    root = get_command(app)
    context = root.context_class(root, info_name="capplan")
    return markdown.replace(PLACE, "\n".join(described(root, context)))


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
