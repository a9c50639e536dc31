"""`llm fit` and `llm fit-memory`: learn the constants of step times and memory from runs and logs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from capplan.errors import UsageError
from capplan.verbs.llm.validate import EVIDENCE, MEASURED, measured_files
from capplan.verbs.statement.contract import Context, Look, Outcome, Verb
from capplan.verbs.statement.fields import OwnSpecs
from capplan.verbs.statement.options import HERE, Door, Option, Topic

if TYPE_CHECKING:
    from capplan.llm.core.memory_fit import FittedMemory
    from capplan.llm.core.search.fitted_runs import FittedServing


@dataclass(frozen=True, kw_only=True)
class LlmFitQuestion:
    """Efficiencies of kernels, overheads of engines and links, as many measured runs show them."""

    measured: Annotated[tuple[Path, ...], MEASURED] = ()
    evidence: Annotated[
        bool,
        replace(
            EVIDENCE,
            help="From the runs that `capplan llm evidence update` has brought, and those named: your own constants of "
            "engines beside the shipped ones of kernels, where runs of left-out GPUs and versions are missed by less.",
        ),
    ] = False
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
    from capplan.core.origin import Origin
    from capplan.llm.core.search.fitted_runs import fit_own, fit_serving
    from capplan.llm.read.calibrations import load_time_calibration
    from capplan.llm.read.serving_rows import read_serving

    paths = measured_files(question.measured, with_evidence=question.evidence)
    runs = [run for path in paths for run in read_serving(path).runs]
    names = tuple(path.name for path in paths)
    given = [*(["--evidence"] if question.evidence else []), *(["--cross"] if question.cross else [])]
    command, made = " ".join(["capplan llm fit", *names, *given]), datetime.now(tz=UTC).date()
    find = Deployments(gpus=context.gpu_database(question.specs), assumes_narrow_cache=True).find
    with context.feedback.progress("fitting"):
        if question.evidence:
            origin = Origin(made=made, command=command, sources=names, rows=len(runs))
            return fit_own(runs, find=find, shipped=load_time_calibration(), origin=origin)
        widths_of = None if question.cross else load_time_calibration()
        return fit_serving(runs, find=find, made=made, command=command, sources=names, widths_of=widths_of)


def _finalize(question: LlmFitQuestion, _look: Look) -> LlmFitQuestion:
    if question.accuracy is not None and not question.cross:
        raise UsageError("⟨accuracy⟩ needs ⟨cross⟩, which holds runs out.")
    if question.evidence and question.cross:
        raise UsageError("⟨evidence⟩ and ⟨cross⟩ exclude each other: own constants keep the shipped interval widths.")
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
    """Warn of rows that were not used, and report how own constants were judged."""
    from capplan.llm.core.search.fitted_runs import judgement

    unused = [f"{len(found.skipped)} rows were not used; the first: {found.skipped[0].reason}"] if found.skipped else []
    return Outcome(warnings=(*map(judgement, found.judged), *unused))


LLM_FIT = Verb(
    path="llm fit",
    question=LlmFitQuestion,
    summary="Learn efficiencies of kernels, overheads of engines and links from many measured runs.",
    examples=(
        "capplan llm fit runs.csv -o mine.yaml",
        "capplan llm fit --evidence -o mine.yaml",
        "capplan llm fit serving.csv.gz --cross -o llm-time.yaml",
    ),
    answer=answer_llm_fit,
    finalize=_finalize,
    text=_text,
    files=_files,
    outcome=_outcome,
    is_local=True,
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
