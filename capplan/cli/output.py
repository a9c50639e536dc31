"""Write answers: data to stdout or atomically to a file, everything else to stderr."""

import codecs
import contextlib
import io
import json
import os
import shlex
import shutil
import sys
import warnings
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from capplan.cli.colour import coloured_text, is_terminal
from capplan.cli.overwriting import allowance
from capplan.errors import UsageError
from capplan.files import refuse_input, write_file
from capplan.printable import printable
from capplan.report.sections import Format as Format  # noqa: PLC0414 - commands take it from here

if TYPE_CHECKING:
    from capplan.report.sections import Line, Section


FormatOption = Annotated[
    Format | None,
    typer.Option(
        "--format", help="Spelling of the answer; by default -o's extension, else a table.", show_default=False
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Short for --format json.")]
OutputOption = Annotated[
    Path | None, typer.Option("-o", "--output", help="Write here, whole or not at all, instead of to stdout.")
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
    """Decide the spelling: an explicit one, else the output file's extension, else a table.

    Args:
        chosen: the format that is asked for.
        json_flag: JSON is asked for.
        output: the file that is written; None is standard output.
        files_only: formats that are written into files alone, whose names are their extensions.

    Raises:
        UsageError: contradictory or unknown formats, or an output whose folder does not exist or that is an input.
    """
    refuse_output(output)
    if json_flag:
        if chosen not in (None, Format.JSON):
            raise UsageError(f"--json contradicts --format {chosen}; give one of them.")
        return Format.JSON
    if chosen is None and output is None:
        return Format.TABLE
    if chosen is None and output is not None:
        by_extension = {**_FORMAT_BY_EXTENSION, **{f".{extension}": extension for extension in files_only}}
        if output.suffix not in by_extension:
            known = ", ".join(by_extension)
            raise UsageError(f"{output}: the extension names no format (known: {known}); add --format.")
        chosen = by_extension[output.suffix]
    if output is None and chosen is not None and chosen in files_only:
        raise UsageError(f"{str(chosen).capitalize()} is written to a file: add -o FILE.{chosen}.")
    return str(chosen)


def table_width(output: Path | None) -> int | None:
    """Return the width in which text for people is laid out; None where it is not for a terminal. [characters]

    Args:
        output: The file that is written; None is standard output.
    """
    return shutil.get_terminal_size().columns if output is None and is_terminal(sys.stdout) else None


def refuse_output(output: Path | None) -> None:
    """Refuse, before anything is computed, an output that cannot be written.

    Args:
        output: the file; None is standard output, which is never refused.

    Raises:
        UsageError: its folder does not exist, or it is an input.
    """
    if output is None:
        return
    refuse_input(output, allowance().inputs)
    if not output.parent.is_dir():
        raise UsageError(f"cannot write {output}: there is no folder {output.parent}.")


def to_json(document: object) -> str:
    """Format a document as indented JSON; NaN and infinity are bugs.

    Args:
        document: A struct of `capplan.report.documents`, or plain mappings and lists.
    """
    from capplan.report.documents.codec import to_plain

    return json.dumps(to_plain(document), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def laid_out(sections: "Iterable[Section]", chosen: Format, *, output: Path | None) -> str:
    """Return an answer's sections as text, Markdown or CSV; text for a terminal is fitted to its width.

    Args:
        sections: What is written.
        chosen: The format.
        output: Where it is going to be written; None is standard output.
    """
    from capplan.report.render import render

    return render(sections, chosen, width=table_width(output) if chosen is Format.TABLE else None)


def emit(content: str, *, output: Path | None) -> None:
    """Put an answer on stdout, or into a file that appears whole or not at all.

    Raises:
        UsageError: it cannot be written, as on a full disk.
    """
    if output is None:
        _write_to_stdout(printable(content))
    else:
        write_atomically(output, printable(content).encode())


def emit_coloured(lines: "Sequence[Line]") -> None:
    """Put lines on stdout in colour; their texts are made printable before the colours are added.

    Raises:
        UsageError: they cannot be written.
    """
    _write_to_stdout(coloured_text(lines))


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
    """Print what a library warns of as one line that names it, without paths and source lines.

    A model's library warns of deprecated names, for example; the text is theirs.
    """
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
    return "".join(_NEAREST.get(each) or f"\\u{ord(each):04x}" for each in lost), error.end


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, under the rules of `capplan.files` and what the command line allows.

    Raises:
        UsageError: the file is an input, holds something else and `--force` is not given, or cannot be written.
    """
    allowed = allowance()
    write_file(path, content, inputs=allowed.inputs, force=allowed.force)


def warn(message: str) -> None:
    """Print a message on stderr, apart from the answer."""
    typer.echo(printable(message), err=True)


def command_line() -> str:
    """Return the command as it was typed."""
    return shlex.join(["capplan", *sys.argv[1:]])


SpecFolders = Annotated[
    list[Path] | None,
    typer.Option("--specs", metavar="DIR|FILE", help="Own GPU specs, laid over the built-in ones.", show_default=False),
]
