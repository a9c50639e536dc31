"""The pages of the documentation that come with capplan, as Markdown."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from capplan.folders import PACKAGE

_NOT_SHOWN = frozenset({"changelog", "contributing", "conventions", "reference/cli", "reference/python"})
"""Pages that are filled when the site is built, or that only developers of capplan need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocsPage:
    """One page.

    Attributes:
        name: its path without the extension, such as service or tutorials/which-gpu.
        title: its first heading.
        summary: the first sentence below it.
    """

    name: str
    title: str
    summary: str
    path: Path

    @property
    def text(self) -> str:
        """Return its content."""
        return self.path.read_text(encoding="utf-8")


def docs_pages() -> Mapping[str, DocsPage]:
    """Return the pages by their names; none where capplan was installed without them."""
    installed = PACKAGE / "docs"
    folder = installed if installed.is_dir() else PACKAGE.parent / "docs"
    pages = {}
    for path in sorted(folder.rglob("*.md")):
        name = path.relative_to(folder).with_suffix("").as_posix()
        if name not in _NOT_SHOWN:
            title, summary = title_and_summary(path.read_text(encoding="utf-8"))
            pages[name] = DocsPage(name=name, title=title, summary=summary, path=path)
    return pages


def title_and_summary(markdown: str) -> tuple[str, str]:
    """Return the first heading of a page and the first sentence of its first paragraph, without marks of Markdown.

    >>> title_and_summary("# Sweeps\\n\\n`capplan sweep` plans [many](x.md) models. It keeps them.\\n")
    ('Sweeps', 'capplan sweep plans many models.')
    """
    heading = re.search(r"^# (.+)$", markdown, re.MULTILINE)
    body = markdown[heading.end() :] if heading else markdown
    first = next((part for part in body.split("\n\n") if re.match(r"\s*(?!```)[\w`*\[]", part)), "")
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(first.split())).replace("`", "").replace("**", "")
    sentence = re.match(r".{20,}?[.!?](?=\s|$)", plain)
    return (heading[1].replace("`", "") if heading else ""), (sentence[0] if sentence else plain)[:300]
