"""Groups of options of `capplan report`: what is asked, which prices and measurements count, where it is written."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from capplan.cli import options
from capplan.errors import UsageError

EXTENSIONS = (".html", ".pdf", ".xlsx", ".md", ".csv", ".json")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """The file that describes the load: of any model, or of a language model."""

    load: Annotated[
        Path | None,
        typer.Option(
            metavar="LOAD.yaml", help="What is asked: a service, a job or a training purchase.", show_default=False
        ),
    ] = None
    llm: Annotated[
        Path | None,
        typer.Option(
            "--llm",
            metavar="LOAD.yaml",
            help="Serve a language model under this load: the LLM pages.",
            show_default=False,
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceOptions:
    """The prices that count, and the measurements that estimates are compared with."""

    prices: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE.yaml", help="Own dated prices, laid over the built-in ones.", show_default=False),
    ] = None
    priced: options.OnlyPriced = False
    max_price: options.MaxPrice = None
    measured: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="What `capplan measure` saved, to compare the estimates with.", show_default=False
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """The report's title and the files that it is written to."""

    title: Annotated[str | None, typer.Option(help="Title of the report.", show_default=False)] = None
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help=f"Where to; the extension decides ({', '.join(EXTENSIONS)}); repeatable; else Markdown to stdout.",
            show_default=False,
        ),
    ] = None

    def outputs(self) -> list[Path]:
        """Return the files to write.

        Raises:
            UsageError: one of them cannot be written, or is kept.
        """
        return check_outputs(self.output or (), force=self.force)


def check_outputs(outputs: Sequence[Path], *, force: bool) -> list[Path]:
    """Refuse extensions that mean nothing and files that exist, before anything is worked out.

    Raises:
        UsageError: one of these.
    """
    for path in outputs:
        if path.suffix.lower() not in EXTENSIONS:
            raise UsageError(f"{path}: the extension names no format; known are {', '.join(EXTENSIONS)}.")
        if path.is_dir() or not path.parent.is_dir():
            raise UsageError(f"cannot write {path}: its folder is missing, or it is a folder.")
        if path.exists() and not force:
            raise UsageError(f"{path} exists and is kept; add --force to replace it.")
    if len(set(outputs)) < len(outputs):
        raise UsageError("the same -o is given twice.")
    return list(outputs)
