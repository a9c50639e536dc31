"""`llm fit` and `llm fit-memory`: learn the constants of step times and memory from runs and logs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from capplan.errors import UsageError
from capplan.verbs.llm.validate import MEASURED
from capplan.verbs.statement.contract import Context, Look, Outcome, Verb
from capplan.verbs.statement.fields import OwnSpecs
from capplan.verbs.statement.options import HERE, Door, Option, Topic

if TYPE_CHECKING:
    from capplan.llm.core.memory_fit import FittedMemory
    from capplan.llm.core.search.fitted_runs import FittedServing


@dataclass(frozen=True, kw_only=True)
class LlmFitQuestion:
    """Efficiencies of kernels, overheads of engines and links, as many measured runs show them."""

    measured: Annotated[tuple[Path, ...], MEASURED]
    cross: Annotated[
        bool,
        Option(
            help="Also learn interval widths, leaving out GPUs, models, engines, ... in turn (minutes).", doors=HERE
        ),
    ] = False
    accuracy: Annotated[
        Path | None,
        Option(
            help="With ⟨cross⟩: write the errors of held-out runs here.", metavar="FILE.md", doors=Door.COMMAND
        ),
    ] = None  # fmt: skip
    specs: OwnSpecs = ()


def answer_llm_fit(question: LlmFitQuestion, context: Context) -> "FittedServing":
    """Return constants that are learnt from measured runs, and how wrong they are on runs that were held out.

    Raises:
        CapplanError: a file cannot be read, or there are too few runs to learn from.
    """
    from datetime import UTC, datetime

    from capplan.app.deployments import Deployments
    from capplan.llm.core.search.fitted_runs import fit_serving
    from capplan.llm.read.calibrations import load_time_calibration
    from capplan.llm.read.serving_rows import read_serving

    files = [read_serving(path) for path in question.measured]
    names = tuple(path.name for path in question.measured)
    deployments = Deployments(gpus=context.gpu_database(question.specs), assumes_narrow_cache=True)
    with context.feedback.progress("fitting"):
        return fit_serving(
            [run for file in files for run in file.runs],
            find=deployments.find,
            made=datetime.now(tz=UTC).date(),
            command=" ".join(["capplan llm fit", *names, *(["--cross"] if question.cross else [])]),
            sources=names,
            widths_of=None if question.cross else load_time_calibration(),
        )


def _finalize(question: LlmFitQuestion, _look: Look) -> LlmFitQuestion:
    if question.accuracy is not None and not question.cross:
        raise UsageError("⟨accuracy⟩ needs ⟨cross⟩, which holds runs out.")
    return question


def _text(found: "FittedServing", _question: LlmFitQuestion) -> str:
    from capplan.llm.read.calibrations import dump_time_calibration

    return dump_time_calibration(found.calibration)


def _files(answers: "Sequence[FittedServing]", question: LlmFitQuestion) -> Mapping[Path, bytes]:
    if question.accuracy is None:
        return {}
    from capplan.report.text.llm.accuracy import accuracy_markdown

    return {question.accuracy: accuracy_markdown(answers[0].held_out).encode()}


def _outcome(found: "FittedServing") -> Outcome:
    """Warn of rows that were not used."""
    if not found.skipped:
        return Outcome()
    return Outcome(warnings=(f"{len(found.skipped)} rows were not used; the first: {found.skipped[0].reason}",))


LLM_FIT = Verb(
    path="llm fit",
    question=LlmFitQuestion,
    summary="Learn efficiencies of kernels, overheads of engines and links from many measured runs.",
    examples=("capplan llm fit runs.csv -o mine.yaml", "capplan llm fit serving.csv.gz --cross -o llm-time.yaml"),
    answer=answer_llm_fit,
    finalize=_finalize,
    text=_text,
    files=_files,
    outcome=_outcome,
    returns="capplan.llm.core.search.fitted_runs:FittedServing",
)


@dataclass(frozen=True, kw_only=True)
class LlmFitMemoryQuestion:
    """The memory that an engine takes beside weights and cache, as its start-up logs show it."""

    logs: Annotated[
        Path,
        Option(
            help="What vLLM logged at start-up, plain or .gz.", metavar="LOGS.csv", topic=Topic.MODEL,
            is_argument=True, doors=HERE,
        ),
    ]  # fmt: skip
    since: Annotated[
        str,
        Meta(max_length=200),
        Option(help="First version of vLLM that the logs are of.", metavar="VERSION", shows_default=True),
    ] = "0.17"
    base: Annotated[
        Path | None, Option(help="Calibration to start from instead of the shipped one.", metavar="FILE", doors=HERE)
    ] = None
    data: Annotated[
        str | None,
        Meta(max_length=1000),
        Option(help="What the logs are, for the file's origin; the file's name by default.", metavar="TEXT"),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedMemoryFile:
    """The fitted constants, the calibration file that holds them, and models that were left out."""

    fitted: "FittedMemory"
    text: str
    unknown_models: Mapping[str, int]


def answer_llm_fit_memory(question: LlmFitMemoryQuestion, context: Context) -> "FittedMemoryFile":
    """Return memory constants that are learnt from vLLM's start-up logs, and the calibration file that holds them.

    Raises:
        CapplanError: the logs cannot be read or are too few.
    """
    from datetime import UTC, datetime

    from capplan.core.engine_names import Engine
    from capplan.llm.core.memory_fit import fit_memory
    from capplan.llm.read.calibrations import render_fitted_memory
    from capplan.llm.read.measured_run import read_startup_logs

    with context.feedback.progress("fitting"):
        logs, unknown_models = read_startup_logs(question.logs)
        fitted = fit_memory(logs)
        text = render_fitted_memory(
            fitted,
            base=question.base,
            engine=Engine.VLLM,
            since=question.since,
            made=datetime.now(tz=UTC).date().isoformat(),
            data=question.data or question.logs.name,
        )
        return FittedMemoryFile(fitted=fitted, text=text, unknown_models=unknown_models)


def _memory_outcome(found: "FittedMemoryFile") -> Outcome:
    left_out = sum(found.unknown_models.values())
    rows = f"fitted on {found.fitted.rows} starts; {left_out} of models outside the catalogue were left out"
    return Outcome(warnings=(rows,))


LLM_FIT_MEMORY = Verb(
    path="llm fit-memory",
    question=LlmFitMemoryQuestion,
    summary="Learn vLLM's memory constants from its start-up logs and write a calibration file.",
    examples=("capplan llm fit-memory vllm-memory.csv.gz -o llm-memory.yaml",),
    answer=answer_llm_fit_memory,
    text=lambda found, _: found.text,
    outcome=_memory_outcome,
    returns="capplan.verbs.llm.fit:FittedMemoryFile",
)
