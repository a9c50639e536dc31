"""A report as one HTML file: no network, readable without script, on paper, in the dark and by keyboard."""

import base64
import gzip
import json
import re
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup, escape

from capplan.report.charts.picture import packed_drawing_program, vector
from capplan.report.pages.blocks import Chart, GridTable, Page
from capplan.report.render import grid_of
from capplan.report.sections import Format, Line, LineRole, Lines, Medium, Section, Style, Table


def page_html(page: Page) -> str:
    """Return a report as a page."""
    kept: dict[str, str] = {}

    def keep(name: str, content: str) -> str:
        """Collect markup that the page shows on demand alone."""
        kept[name] = content
        return ""

    def pack() -> str:
        """Return what the script computes with; its parts have been made."""
        assert page.live is not None
        live = page.live()
        return packed({"tables": {**live.kept, **kept}, **live.figures})

    css = (resources.files("capplan.report.pages") / "templates" / "page.css").read_text(encoding="utf-8")
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            page=page,
            css=Markup(css),
            keep=keep,
            packed=pack,
            vega=Markup(packed_drawing_program()) if page.live else "",
        )
    )


def sections_html(sections: Iterable[Section]) -> Markup:
    """Return the sections of an answer as markup, for a page that has its own head and styles."""
    module: Any = _environment().get_template("blocks.html.j2").make_module({"keep": lambda *_: ""})
    return Markup().join(module.section(each) for each in sections)


def environment_of(package: str) -> jinja2.Environment:
    """Return what fills the templates of a package: names are escaped, and one that is not given is an error."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


@cache
def _environment() -> jinja2.Environment:
    environment = environment_of("capplan.report.pages")
    environment.filters |= {"linked": _linked, "drawn": _drawn, "shown": _shown, "spans": _spans, "style": _style}
    return environment


def _shown(block: Any) -> dict[str, Any] | None:
    """Return what the template needs of a block; None where a page leaves it out."""
    if Medium.HTML not in getattr(block, "on", (Medium.HTML,)) or getattr(block, "only", None) not in (None, Format.MD):
        return None
    if isinstance(block, Table):
        if all(column.title is None for column in block.columns):
            return None
        block = GridTable(content=grid_of(block), caption=block.caption)
    return {"kind": type(block).__name__, "block": block}


def packed(value: object) -> str:
    """Write JSON compressed, in letters: the page's script unpacks it."""
    words = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(words.encode(), mtime=0)).decode()


def _style(lines: Lines) -> str:
    """Return the classes of lines that stand as paragraphs."""
    role = {LineRole.PLAIN: "", LineRole.WARNING: "warning generated"}.get(lines.role, lines.role.value)
    return f"{role} {lines.look}".strip()


def _spans(text: str | Line) -> Markup:
    """Write a line; of its styles a page shows that of code."""
    if isinstance(text, str):
        return escape(text)
    pieces = (Markup("<code>{}</code>").format(s.text) if s.style is Style.CODE else escape(s.text) for s in text)
    return Markup().join(pieces)


_SOURCE = re.compile(
    r"(?P<address>https?://[^\s<>\"']+[^\s<>\"'.,;)])|"
    r"(?<![\w/])(?P<path>(?P<repository>[\w.-]+/[\w.-]+)/(?P<file>[^@\s]+)@(?P<commit>[0-9a-f]{7,40}))(?!\w)"
)
"""A web address, or a file of a repository on GitHub at a commit, as the price files name their sources."""


def _linked(words: str) -> Markup:
    """Write text with its sources as links."""
    written, end = Markup(), 0
    for match in _SOURCE.finditer(words):
        address = match["address"] or f"https://github.com/{match['repository']}/blob/{match['commit']}/{match['file']}"
        written += escape(words[end : match.start()])
        written += Markup('<a href="{}" rel="noreferrer">{}</a>').format(address, match[0])
        end = match.end()
    return written + escape(words[end:])


_BOX = re.compile(r'viewBox="([^"]*)"')
# a figure is read by its own description and set in the page's type: what every mark repeats would double the page
_SPOKEN = re.compile(
    r' aria-label="[^"]*"| aria-roledescription="[^"]*"| role="graphics-[a-z]*"| aria-hidden="true"'
    r'| pointer-events="none"| font-family="[^"]*"'
)
_DECIMALS = re.compile(r"(\d+\.\d{2})\d+")
_TITLE = re.compile(r"<title>[^<]*</title>")


def _drawn(chart: Chart) -> Markup:
    """Draw a chart with a title and a description for those who do not see it, scaled to the width that there is."""
    drawn = _DECIMALS.sub(r"\1", _SPOKEN.sub("", vector(chart.drawing)))
    start, box = drawn.index(">") + 1, _BOX.search(drawn)
    inner = _TITLE.sub("", drawn[start:], count=1).replace('fill="white"', 'fill="none"', 1)
    inner = inner.replace('fill="#ffffff"', 'fill="none"', 1)
    name = chart.identity
    return Markup(
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="{box[1] if box else ""}" role="img" '
        f'aria-labelledby="{name}-t {name}-d"><title id="{name}-t">{escape(chart.title)}</title>'
        f'<desc id="{name}-d">{escape(chart.description)}</desc>{inner}'
    )
