"""`sweep`: many models on many GPUs, kept as a table of Parquet files that goes on where it stopped."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta

from capplan.errors import MeasurementError, TraceError, UsageError
from capplan.verbs.statement.contract import Context, Effort, Look, Outcome, Verb
from capplan.verbs.statement.fields import OwnSpecs, from_fields
from capplan.verbs.statement.options import HERE, Door, Option
from capplan.verbs.statement.read import short_repr
from capplan.verbs.statement.words import SIZE_LIMIT, TIME_LIMIT

if TYPE_CHECKING:
    from capplan.app.sweep.request import SweepRequest
    from capplan.app.sweep.results import SweepResults
    from capplan.core.sweep.overview import SweepOverview, SweepPreview
    from capplan.report.sections import Line


@dataclass(frozen=True, kw_only=True)
class SweepQuestion:
    """Many models on many GPUs, as a table."""

    workers: Annotated[
        int | None, Meta(ge=1, le=1024), Option(help="Processes on this machine; one a core by default.", doors=HERE)
    ] = None
    ray: Annotated[
        str | None,
        Option(help="Run on this Ray cluster instead of this machine alone.", metavar="auto|ADDRESS", doors=HERE),
    ] = None
    time_limit_s: Annotated[
        float,
        Option(
            help="Time that one model may take to trace, such as 90s.", flags=("--time-limit",), metavar="TIME",
            words=TIME_LIMIT, shows_default=True, doors=HERE,
        ),
    ] = 600.0  # fmt: skip
    memory_limit_bytes: Annotated[
        float | None,
        Option(
            help="Memory of one process, such as 8GiB; by default an even share of the machine's.",
            flags=("--memory-limit",), metavar="SIZE", words=SIZE_LIMIT, doors=HERE,
        ),
    ] = None  # fmt: skip
    measure: Annotated[
        bool, Option(help="Time every point that fits on the devices at hand (of the cluster), too.", doors=HERE)
    ] = False
    budget_s: Annotated[
        float,
        Option(
            help="Time of the repetitions of one measured point.", flags=("--budget",), metavar="TIME",
            words=TIME_LIMIT, shows_default=True, doors=HERE,
        ),
    ] = 10.0  # fmt: skip
    definition: Annotated[
        str,
        Option(
            help="Models, GPUs and workloads; see docs/sweeps.md.", metavar="SWEEP.yaml", is_argument=True, doors=HERE
        ),
    ]  # fmt: skip
    output: Annotated[
        Path,
        Option(
            is_usual=True,
            help="Folder of the results, made or gone on with.", flags=("-o", "--output"), metavar="FOLDER", doors=HERE
        ),
    ]  # fmt: skip
    specs: OwnSpecs = ()
    allow_code: Annotated[bool, Option(help="Import models that the file names as Python code.", doors=HERE)] = False
    retry_failed: Annotated[bool, Option(help="Compute models again that failed before.", doors=HERE)] = False
    dry_run: Annotated[
        bool, Option(help="Print cells, processor time and space; compute and write nothing.", doors=Door.COMMAND)
    ] = False
    strict: Annotated[bool, Option(help="Exit with 3 if any model failed.", doors=Door.COMMAND)] = False
    progress: Annotated[
        Literal["auto", "text", "json", "none"],
        Option(
            help="Progress on stderr: a line for people, JSON lines for programs, or nothing.",
            metavar="auto|text|json|none", shows_default=True, doors=Door.COMMAND,
        ),
    ] = "auto"  # fmt: skip
    force: Annotated[bool, Option(help="Replace the results of another sweep.", doors=HERE)] = False

    def request(self, context: Context) -> "SweepRequest":
        """Return the request for the sweep."""
        from capplan.app.sweep.request import MeasuringRules, ModelLimits, SweepRequest
        from capplan.verbs.sweep_file import read_sweep_file, read_sweep_tree

        held = context.held(self.definition)
        is_file = not isinstance(held, Mapping)
        if is_file and not isinstance(held, str | Path):
            raise UsageError(f"definition: {short_repr(held)} is neither a file nor models and GPUs by name.")
        limit_bytes = None if self.memory_limit_bytes is None else int(self.memory_limit_bytes)
        return from_fields(
            SweepRequest,
            self,
            definition=read_sweep_file(Path(held)) if is_file else read_sweep_tree(dict(held), shown="sweep"),
            file=Path(held) if is_file else None,
            limits=ModelLimits(time_s=self.time_limit_s, memory_bytes=limit_bytes),
            measuring=MeasuringRules(budget_s=self.budget_s),
            command=context.command(SWEEP, self),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What a sweep did, or what it would do."""

    question: SweepQuestion
    overview: "SweepOverview | None" = None
    preview: "SweepPreview | None" = None


def answer_sweep(question: SweepQuestion, context: Context) -> Swept:
    """Plan many models on many GPUs, keep the rows in a folder, and return what was done.

    A second run computes what changed, and an interrupted one goes on.

    Raises:
        UsageError: a name or glob matches nothing, a key is unknown, or the folder holds something else.
    """
    from capplan.app.sweep.run import preview_sweep, sweep

    request = question.request(context)
    if question.dry_run:
        return Swept(question=question, preview=preview_sweep(request))
    return Swept(question=question, overview=sweep(request, watcher=context.watcher(question.progress)))


def _lines(answers: Sequence[Swept], _question: SweepQuestion, _look: Look) -> "list[Line]":
    from capplan.report.sections import line
    from capplan.report.text.sweep import render_overview, render_preview

    swept = answers[0]
    if swept.preview is not None:
        text = render_preview(swept.preview)
    else:
        assert swept.overview is not None
        text = render_overview(swept.overview)
    return [line(row) for row in text.splitlines()]


def _document(answers: Sequence[Swept], _question: SweepQuestion) -> Any:
    from capplan.shapes.sweep import PREVIEW, SWEEP

    swept = answers[0]
    return SWEEP.document(swept.overview) if swept.preview is None else PREVIEW.document(swept.preview)


def _outcome(swept: Swept) -> Outcome:
    """Fail where nothing was measured that was to be, and where models failed and `strict` asks, or all did."""
    overview = swept.overview
    if overview is None:
        return Outcome()
    if swept.question.measure and not overview.measured:
        sentence = "capplan: nothing was measured; the estimates are kept."
        return Outcome(exit_code=MeasurementError.exit_code, warnings=(sentence,))
    if overview.failures and (swept.question.strict or not overview.answered):
        sentence = (
            f"capplan: {overview.failed} of the models and workloads failed; {swept.question.output} holds the reasons."
        )
        return Outcome(exit_code=TraceError.exit_code, warnings=(sentence,))
    return Outcome()


def _results(swept: Swept) -> "SweepResults":
    from capplan.app.sweep.results import read_sweep

    return read_sweep(swept.question.output)


SWEEP = Verb(
    path="sweep",
    question=SweepQuestion,
    summary="Plan many models on many GPUs, and keep the table.\n\n"
    "A second run computes only what changed, and an interrupted one goes on. A model that cannot be traced, hangs or "
    "takes too much memory costs its own rows. `capplan query FOLDER` asks the table.",
    examples=(
        "capplan sweep sweep.yaml -o results/",
        "capplan sweep sweep.yaml -o results/ --dry-run",
        "capplan sweep sweep.yaml -o results/ --ray auto",
        "capplan sweep sweep.yaml -o results/ --time-limit 2min --memory-limit 4GiB --progress json",
    ),
    answer=answer_sweep,
    lines=_lines,
    document=_document,
    outcome=_outcome,
    effort=Effort.LONG,
    in_python=_results,
    returns="capplan.app.sweep.results:SweepResults",
)
