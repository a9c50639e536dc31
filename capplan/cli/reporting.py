"""Write reports: of models, of served language models, in the formats that file names ask for."""

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from capplan.cli.output import command_line, emit, write_atomically
from capplan.cli.progress import TERMINAL
from capplan.cli.prompts import command_parameters, conclude, help_text, keyword, read_asked, with_parameters
from capplan.errors import UsageError
from capplan.printable import printable
from capplan.verbs.llm.report import LLM_REPORT
from capplan.verbs.report import BESIDE_LLM, ReportQuestion, of_served_model
from capplan.verbs.statement.contract import Verb
from capplan.verbs.statement.local import LocalContext
from capplan.verbs.statement.options import Door
from capplan.wording import as_options

_Force = Annotated[bool, typer.Option("--force", help="Replace existing files.")]


def file_function(verb: Verb[Any, Any]) -> Callable[..., None]:
    """Return the function that typer makes the command of a verb from whose answer goes into files."""

    def run(context: typer.Context, **values: Any) -> None:
        outputs = check_outputs(values.pop("output") or (), force=values.pop("force"), verb=verb)
        question, _ = read_asked(verb, values)
        asked = verb
        if isinstance(question, ReportQuestion) and question.llm is not None:
            _refuse_beside_llm(verb, context)
            asked, question = LLM_REPORT, of_served_model(question)
        answer = asked.answer(question, LocalContext(feedback=TERMINAL, typed=command_line()))
        write_files(outputs, lambda extension: asked.files_in[extension]([answer], question), verb=asked)
        return conclude([asked.outcome(answer)])

    first = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    writing = [keyword("force", _Force, False), keyword("output", _outputs(verb), None)]
    parameters = [first, *command_parameters(verb), *writing]
    return with_parameters(run, parameters, name=verb.path, text=help_text(verb))


def _outputs(verb: Verb[Any, Any]) -> Any:
    """Return the annotation of the option that names files."""
    known, default = ", ".join(f".{extension}" for extension in verb.files_in), _to_stdout(verb)
    shown = {"md": "Markdown", "json": "JSON"}[default]
    where = f"Where to; the extension decides ({known}); repeatable; else {shown} to stdout."
    option = typer.Option("-o", "--output", metavar="FILE", help=where, show_default=False)
    return Annotated[list[Path] | None, option]


def _to_stdout(verb: Verb[Any, Any]) -> str:
    """Return the format of an answer that no file is named for."""
    return next(extension for extension in ("md", "json") if extension in verb.files_in)


def write_files(outputs: Sequence[Path], write: Callable[[str], str | bytes], *, verb: Verb[Any, Any]) -> None:
    """Write an answer into every file, or as text to stdout where there is none."""
    if not outputs:
        content = write(_to_stdout(verb))
        emit(content if isinstance(content, str) else content.decode(), output=None)
    made = {path: write(path.suffix.lower().removeprefix(".")) for path in outputs}
    write_atomically(
        {path: one if isinstance(one, bytes) else printable(as_options(one)).encode() for path, one in made.items()}
    )


def check_outputs(outputs: Sequence[Path], *, force: bool, verb: Verb[Any, Any]) -> list[Path]:
    """Refuse extensions that mean nothing and files that exist, before anything is worked out."""
    for path in outputs:
        if path.suffix.lower().removeprefix(".") not in verb.files_in:
            known = ", ".join(f".{extension}" for extension in verb.files_in)
            raise UsageError(f"{path}: the extension names no format; known are {known}.")
        if path.is_dir() or not path.parent.is_dir():
            raise UsageError(f"cannot write {path}: its folder is missing, or it is a folder.")
        is_data = path.suffix.lower() in (".json", ".gz")  # an older answer is known by its content when it is replaced
        if path.exists() and not force and not is_data:
            raise UsageError(f"{path} exists and is kept; add --force to replace it.")
    if len(set(outputs)) < len(outputs):
        raise UsageError("the same -o is given twice.")
    return list(outputs)


def _refuse_beside_llm(verb: Verb[Any, Any], context: typer.Context) -> None:
    """Refuse options that were typed beside `--llm` and would be left unread."""
    unread = [
        field.flag
        for field in verb.fields_at(Door.COMMAND)
        if field.name not in ("models", "llm", *BESIDE_LLM)
        and (source := context.get_parameter_source(field.name)) is not None
        and source.name == "COMMANDLINE"
    ]
    if unread:
        raise UsageError(
            f"--llm reads load, limits and prices from LOAD.yaml, and would not read {', '.join(unread)}; drop that."
        )
