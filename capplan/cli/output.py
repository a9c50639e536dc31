"""Write answers: data to stdout or to a file, all else to stderr, in colour where asked; guard files of other kinds."""

import codecs
import contextlib
import io
import os
import shlex
import shutil
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from typer.main import get_command

from capplan.errors import UsageError
from capplan.files import is_file, refuse_input, write_files
from capplan.printable import printable
from capplan.report.sections import Format as Format  # noqa: PLC0414 - commands take it from here
from capplan.wording import as_options

if TYPE_CHECKING:
    from capplan.report.sections import Line, Section


FormatOption = Annotated[
    Format | None,
    typer.Option(
        "--format",
        metavar="|".join(Format),
        help="Spelling of the answer; by default -o's extension, else a table.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Short for --format json.")]
OutputOption = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="Write here, whole or not at all, instead of to stdout."),
]

_NEAREST = {
    "µ": "u",
    "μ": "u",
    "×": "x",
    "−": "-",
    "–": "-",
    "…": "...",
    "·": "*",
    "≤": "<=",
    "≥": ">=",
    "±": "+-",
    "²": "2",
}

_FORMAT_BY_EXTENSION = {".json": Format.JSON, ".csv": Format.CSV, ".md": Format.MD, ".txt": Format.TABLE}


def resolve_format(
    chosen: str | None, *, json_flag: bool, output: Path | None, files_only: Collection[str] = ()
) -> str:
    """Choose the output format: an explicit one, else the output file's extension, else a table."""
    refuse_output(output)
    if json_flag:
        if chosen not in (None, Format.JSON):
            raise UsageError(f"--json contradicts --format {chosen}; give one of them.")
        return Format.JSON
    if chosen is None and output is None:
        return Format.TABLE
    if chosen is None and output is not None:
        by_extension = {**_FORMAT_BY_EXTENSION, **{f".{extension}": extension for extension in files_only}}
        if output.suffix.lower() not in by_extension:
            known = ", ".join(by_extension)
            raise UsageError(f"{output}: the extension names no format (known: {known}); add --format.")
        chosen = by_extension[output.suffix.lower()]
    if output is None and chosen is not None and chosen in files_only:
        raise UsageError(f"{str(chosen).capitalize()} is written to a file: add -o FILE.{chosen}.")
    return str(chosen)


def table_width(output: Path | None) -> int | None:
    """Return the width in which text for people is laid out; None where it is not for a terminal. [characters]"""
    return shutil.get_terminal_size().columns if output is None and is_terminal(sys.stdout) else None


def refuse_output(output: Path | None) -> None:
    """Refuse, before anything is computed, an output that cannot be written."""
    if output is None:
        return
    refuse_input(output, allowance().inputs)
    if not output.parent.is_dir():
        raise UsageError(f"cannot write {output}: there is no folder {output.parent}.")


def laid_out(sections: "Iterable[Section]", chosen: Format, *, output: Path | None) -> str:
    """Return an answer's sections as text, Markdown or CSV; text for a terminal is fitted to its width."""
    from capplan.report.render import render

    return render(sections, chosen, width=table_width(output) if chosen is Format.TABLE else None)


def emit(content: str, *, output: Path | None) -> None:
    """Write an answer to stdout, or into a file that appears whole or not at all."""
    if output is None:
        _write_to_stdout(printable(as_options(content)))
    else:
        write_atomically({output: printable(as_options(content)).encode()})


def emit_coloured(lines: "Sequence[Line]") -> None:
    """Write lines to stdout in colour; their texts are made printable before the colours are added."""
    _write_to_stdout(as_options(coloured_text(lines)))


def _write_to_stdout(content: str) -> None:
    try:
        _write_whole(_standard_output(), content)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise unwritable(error) from error


def unwritable(error: OSError) -> UsageError:
    """Return the refusal of a standard output that cannot be written, and give it up."""
    sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - or the interpreter fails again at its end
    return UsageError(f"cannot write the answer: {error.strerror or error}.")


def _write_whole(stream: TextIO, content: str) -> None:
    """Write to a stream's descriptor until all is written.

    Python's own buffering was seen to lose the rest, without an error, where a full disk took a part of it.
    """
    stream.flush()
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError, AttributeError):  # a stream in memory, as in tests and notebooks
        stream.write(content)
        stream.flush()
        return
    left = content.encode(stream.encoding, stream.errors or "strict")
    while left:
        left = left[os.write(descriptor, left) :]


def _standard_output() -> TextIO:
    """Return stdout; Python has none where the descriptor was closed before it started."""
    if sys.stdout is None:
        raise UsageError("cannot write the answer: standard output is closed; add -o FILE.")
    return sys.stdout


class _ForgivingText(io.TextIOWrapper):
    """Messages for people: where they cannot be written, as on a full disk, the command still ends with its code."""

    def write(self, text: str) -> int:
        """Write a text, or drop it."""
        try:
            return super().write(text)
        except OSError:
            return len(text)

    def flush(self) -> None:
        """Flush what was written, or drop it."""
        with contextlib.suppress(OSError):
            super().flush()


def prepare_streams() -> None:
    """Make standard output accept every character: one that its encoding lacks is written in ASCII, or as a code.

    Without this a terminal or pipe in ASCII ends the command at the first "µs". Standard error may be closed or full;
    the exit code then stands for the message.
    """
    codecs.register_error("capplan", _nearest_ascii)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="capplan")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 - what writes messages finds a stream
    elif isinstance(sys.stderr, io.TextIOWrapper):
        encoding = sys.stderr.encoding
        sys.stderr = _ForgivingText(sys.stderr.detach(), encoding=encoding, errors="capplan", line_buffering=True)


def shorten_library_warnings() -> None:
    """Print what a library warns of as one line that names it, without paths and source lines."""
    warnings.showwarning = _show_warning


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    del category, lineno, file, line
    parts = Path(filename).parts
    origin = parts[parts.index("site-packages") + 1] if "site-packages" in parts[:-1] else Path(filename).name
    warn(f"warning of {origin}: {' '.join(str(message).split())}")


def _nearest_ascii(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    lost = error.object[error.start : error.end]
    return "".join(_NEAREST.get(character) or f"\\u{ord(character):04x}" for character in lost), error.end


def write_atomically(contents: Mapping[Path, bytes]) -> None:
    """Write files whole, all or none, under the rules of `capplan.files` and what the command line allows."""
    allowed = allowance()
    write_files(contents, inputs=allowed.inputs, force=allowed.force)


def warn(message: str) -> None:
    """Print a message on stderr, apart from the answer."""
    typer.echo(printable(as_options(message)), err=True)


def command_line() -> str:
    """Return the command as it was typed."""
    return shlex.join(["capplan", *sys.argv[1:]])


SpecFolders = Annotated[
    list[Path] | None,
    typer.Option("--specs", metavar="DIR|FILE", help="Own GPU specs, laid over the built-in ones.", show_default=False),
]


class ColorChoice(StrEnum):
    """When to colour an answer."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


ColorOption = Annotated[
    ColorChoice,
    typer.Option(
        "--color",
        metavar="|".join(ColorChoice),
        help="Colour the answer; auto: on a terminal, unless NO_COLOR is set.",
    ),
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
    # rich would obey NO_COLOR here, also where --color always was asked for
    console = Console(
        file=written, force_terminal=True, color_system="standard", no_color=False, width=10_000, highlight=False
    )
    for line in lines:
        console.print(Text.assemble(*((span.text, _STYLES[span.style]) for span in line)), soft_wrap=True)
    return written.getvalue()


OUTPUTS = frozenset({"output", "plot", "roofline", "accuracy"})
"""Parameters that name files to write; every other word of a command may name a file to read."""

_FORCE = "force"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What the command at work may overwrite."""

    inputs: tuple[Path, ...] = ()
    force: bool = False


_allowance: ContextVar[Allowance] = ContextVar("allowance", default=Allowance())  # noqa: B039 - frozen


def allowance() -> Allowance:
    """Return what the command at work may overwrite; outside of a command, no file but an older answer."""
    return _allowance.get()


def guard_outputs(command: Any) -> None:
    """Add the option `--force` to a command that writes files, and protect its inputs from being overwritten."""
    for subcommand in getattr(command, "commands", {}).values():
        guard_outputs(subcommand)
    names = {parameter.name for parameter in command.params}
    if command.callback is None or not names & OUTPUTS:
        return
    is_own = _FORCE in names
    if not is_own:
        command.params.append(_force_option())
    command.callback = _guarded(command.callback, takes_force=is_own)


def _force_option() -> Any:
    """Make the option as typer makes it for a function, so that it fits every release of typer."""

    def declared(
        force: Annotated[
            bool, typer.Option("--force", help="Replace a file that is something else than an older answer.")
        ] = False,
    ) -> None:
        """Declare the option alone."""

    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command()(declared)
    [option] = [parameter for parameter in get_command(single).params if parameter.name == _FORCE]
    return option


def _guarded(callback: Callable[..., Any], *, takes_force: bool) -> Callable[..., Any]:
    @wraps(callback)
    def run(*positional: Any, **words: Any) -> Any:
        force = bool(words.get(_FORCE) if takes_force else words.pop(_FORCE, False))
        token = _allowance.set(Allowance(inputs=tuple(_files_named(words)), force=force))
        try:
            return callback(*positional, **words)
        finally:
            _allowance.reset(token)

    return run


def _files_named(words: Mapping[str, Any]) -> Iterator[Path]:
    """List the existing files that a command's words name, as they stand, or as in `FILE.py:Name` and `hf:FILE`."""
    for name, value in words.items():
        if name in OUTPUTS:
            continue
        for word in value if isinstance(value, list | tuple) else [value]:
            if not isinstance(word, str | Path):
                continue
            text = str(word)
            for candidate in (text, text.partition(":")[0], text.partition(":")[2], text.partition("=")[2]):
                if candidate and is_file(candidate):
                    yield Path(candidate)
