"""Make the command of a verb whose answer goes into files, by their extensions: `capplan report`."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from capplan.cli.asking import command_parameters, conclude, help_text, keyword, read_asked
from capplan.cli.output import command_line, emit, write_atomically
from capplan.cli.progress import TERMINAL
from capplan.errors import UsageError
from capplan.printable import printable
from capplan.verbs.contract import Verb
from capplan.verbs.local import LocalContext
from capplan.verbs.report import EXTENSIONS, REPORT, ReportQuestion

_Outputs = Annotated[
    list[Path] | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        help=f"Where to; the extension decides ({', '.join(EXTENSIONS)}); repeatable; else Markdown to stdout.",
        show_default=False,
    ),
]
_Force = Annotated[bool, typer.Option("--force", help="Replace existing files.")]


def report_function(verb: Verb[Any, Any] = REPORT) -> Callable[..., None]:
    """Return the function that typer makes the command from."""

    def run(**values: Any) -> None:
        outputs = check_outputs(values.pop("output") or (), force=values.pop("force"))
        question, _ = read_asked(verb, values)
        if question.llm is not None:
            return _report_llm(question, outputs)
        made = verb.answer(question, LocalContext(feedback=TERMINAL, typed=command_line()))
        write_files(outputs, lambda extension: verb.files_in[extension]([made], question))
        return conclude([verb.outcome(made)])

    parameters = [*command_parameters(verb), keyword("force", _Force, False), keyword("output", _Outputs, None)]
    run.__name__ = verb.path
    run.__doc__ = help_text(verb)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # inspect reads it
    return run


def write_files(outputs: Sequence[Path], write: Callable[[str], str | bytes]) -> None:
    """Write an answer into every file, or as Markdown to stdout where there is none.

    Args:
        outputs: the files; all contents are worked out before the first is written.
        write: returns the content for an extension without its point.
    """
    if not outputs:
        emit(str(write("md")), output=None)
    contents = [write(path.suffix.lower().removeprefix(".")) for path in outputs]
    for path, content in zip(outputs, contents, strict=True):
        write_atomically(path, content if isinstance(content, bytes) else printable(content).encode())


def check_outputs(outputs: Sequence[Path], *, force: bool) -> list[Path]:
    """Refuse extensions that mean nothing and files that exist, before anything is worked out.

    Args:
        outputs: the files.
        force: whether existing files are replaced.

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


def _report_llm(question: ReportQuestion, outputs: Sequence[Path]) -> None:
    from capplan.cli.llm_report import report_llm

    assert question.llm is not None
    plain = replace(question, llm=None)
    report_llm(plain.models, question.llm, outputs, gpus=plain.gpus, specs=plain.specs, title=plain.title)
