"""Colour on terminals: off when piped, off with NO_COLOR, forced or forbidden by --color."""

import io
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

if TYPE_CHECKING:
    from capplan.report.sections import Line


class ColorChoice(StrEnum):
    """When to colour an answer."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


ColorOption = Annotated[
    ColorChoice, typer.Option("--color", help="Colour the answer; auto: on a terminal, unless NO_COLOR is set.")
]

WIDEST = 100
"""Answers for people are never wider than this, however wide the terminal is. [characters]"""

_STYLES: Mapping[str, str] = {
    "plain": "",
    "heading": "bold",
    "chosen": "bold green",
    "unsure": "yellow",
    "failed": "red",
    "aside": "dim",
}


def is_terminal(stream: TextIO | None) -> bool:
    """Return True if a stream is a terminal; Python has none where its descriptor was closed before it started."""
    return stream is not None and stream.isatty()


def is_coloured(choice: ColorChoice) -> bool:
    """Return True if what is written to stdout is to be coloured."""
    if choice is not ColorChoice.AUTO:
        return choice is ColorChoice.ALWAYS
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return is_terminal(sys.stdout) and os.environ.get("TERM") != "dumb"


def answer_width() -> int:
    """Return the width to lay an answer out in: the terminal's up to 100 characters, 100 where there is none."""
    return min(WIDEST, shutil.get_terminal_size().columns) if is_terminal(sys.stdout) else WIDEST


def coloured_text(lines: "Sequence[Line]") -> str:
    """Join lines, their styles written as a terminal's escape sequences."""
    from rich.console import Console
    from rich.text import Text

    written = io.StringIO()
    console = Console(file=written, force_terminal=True, color_system="standard", width=10_000, highlight=False)
    for line in lines:
        console.print(Text.assemble(*((span.text, _STYLES[span.style]) for span in line)), soft_wrap=True)
    return written.getvalue()
