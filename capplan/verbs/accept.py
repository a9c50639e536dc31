"""`accept`: compare a machine that was delivered with what was planned."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from capplan.core.workload import LARGEST_BATCH
from capplan.errors import UsageError
from capplan.verbs.statement.contract import Context, Effort, Outcome, Verb, laid_out_by
from capplan.verbs.statement.fields import Name, OwnSpecs, one_batch
from capplan.verbs.statement.options import HERE, Door, Option, Topic

if TYPE_CHECKING:
    from capplan.app.acceptance.accept import AcceptedMachine
    from capplan.core.gpus.spec import GpuSpec
    from capplan.core.measurement.types import Measurement
    from capplan.shapes.types import PlanDocument


@dataclass(frozen=True, kw_only=True)
class AcceptQuestion:
    """Whether a delivered machine is what a plan promised."""

    plan: Annotated[
        Name,
        Option(
            help="What `capplan llm plan --json` or `capplan plan --json` wrote.", metavar="PLAN.json",
            is_argument=True, doors=HERE,
        ),
    ]  # fmt: skip
    machine: Annotated[
        tuple[Path, ...],
        Meta(max_length=64),
        Option(
            help="Recorded output of nvidia-smi -q, nvidia-smi topo -m or rocm-smi --json; repeatable. Without one, "
            "the GPUs of this machine are asked.",
            metavar="FILE", topic=Topic.MODEL, doors=HERE,
        ),
    ] = ()  # fmt: skip
    benchmark: Annotated[
        tuple[Path, ...],
        Meta(max_length=1000),
        Option(
            help="Result of a benchmark against one replica: vllm bench serve, SGLang, genai-perf, guidellm or "
            "llama-bench; repeatable.",
            metavar="FILE", topic=Topic.MODEL, doors=HERE,
        ),
    ] = ()  # fmt: skip
    measured: Annotated[
        Path | None,
        Option(
            help="Of a plan by `capplan plan`: the measurement file of `capplan measure`; without one, the model is "
            "measured here.",
            metavar="FILE", topic=Topic.MODEL, doors=HERE,
        ),
    ] = None  # fmt: skip
    gpu: Annotated[
        Name | None,
        Option(
            help="The device, where a plan by `capplan plan` has several.", metavar="ID", topic=Topic.GPUS, doors=HERE
        ),
    ] = None
    batch: Annotated[
        int | None,
        Meta(ge=1, le=LARGEST_BATCH),
        one_batch("The batch to compare; all planned ones by default.", doors=HERE),
    ] = None
    kernels: Annotated[
        bool,
        Option(
            help="Time large products and copies of the first GPU here for a minute, too, and hold them to what cards "
            "of its kind reach.",
            topic=Topic.MODEL, doors=HERE,
        ),
    ] = False  # fmt: skip
    rows: Annotated[
        Path | None,
        Option(
            help="Write what was measured: of a served model rows for `llm validate`, `llm fit` and `llm plan`, "
            "else points for `validate`, `calibrate fit` and `plan --measured`.",
            metavar="FILE", topic=Topic.ANSWER, doors=Door.COMMAND,
        ),
    ] = None  # fmt: skip
    specs: OwnSpecs = ()


def answer_accept(question: AcceptQuestion, context: Context) -> "AcceptedMachine":
    """Return what was compared of a delivered machine, and the verdict."""
    accepted = _accepted(question, context)
    if not question.kernels:
        return accepted
    from capplan.app.acceptance.accept import timed_kernels

    found = timed_kernels(accepted.gpu, feedback=context.feedback)
    acceptance = replace(accepted.acceptance, findings=(*accepted.acceptance.findings, *found))
    return replace(accepted, acceptance=acceptance)


def _accepted(question: AcceptQuestion, context: Context) -> "AcceptedMachine":
    from capplan.app.acceptance.accept import accept_measured, accept_serving, delivered_here, is_serving_plan
    from capplan.app.acceptance.machine_files import read_machine
    from capplan.files import read_json
    from capplan.llm.read.measured_run import read_measured_run
    from capplan.shapes.plan import read_plan

    document, where = read_json(question.plan), question.plan
    gpus = context.gpu_database(question.specs)
    machine = read_machine(question.machine) if question.machine else ()
    if is_serving_plan(document):
        runs = tuple(run for path in question.benchmark for run in read_measured_run(path))
        if not machine and not runs:
            from capplan.probe.installed_gpus import find_installed_gpus

            machine = delivered_here(find_installed_gpus()[0])
        return accept_serving(document, where, gpus=gpus, machine=machine, runs=runs)
    document = document[0] if isinstance(document, list) and len(document) == 1 else document
    plan = read_plan(document, where=where)
    if question.benchmark:
        raise UsageError("⟨benchmark⟩ is of a plan by `capplan llm plan`; add ⟨measured⟩ for this one.")
    names = {fit.gpu for fit in plan.fits}
    if question.gpu is None and len(names) != 1:
        raise UsageError(f"{where} has {len(names)} devices; name the delivered one by ⟨gpu⟩.")
    gpu = gpus.find(question.gpu or next(iter(names)))
    points = _points(question, plan, gpu, context)
    return accept_measured(document, where, gpu=gpu, batch=question.batch, points=points, machine=machine)


def _points(
    question: AcceptQuestion, plan: "PlanDocument", gpu: "GpuSpec", context: Context
) -> "Sequence[Measurement]":
    """Return what was timed: the points of a file, or those of the plan's batches, measured here."""
    if question.measured is not None:
        from capplan.app.measure.store import stored_measurements

        return stored_measurements(question.measured, feedback=context.feedback)
    from capplan.core.measurement.types import Measurement
    from capplan.core.workload import BatchChoice, Batches
    from capplan.shapes.plan import fits_on
    from capplan.verbs.measure import MeasureQuestion, answer_measure

    sizes = tuple(fit.batch for fit in fits_on(plan, gpu.id) if question.batch in (None, fit.batch))
    asked = MeasureQuestion(
        model=plan.model.name,
        batches=Batches(choice=BatchChoice.LISTED, sizes=sizes),
        precision=plan.workload.precision,
        device="cpu" if gpu.is_cpu else None,  # which card it is, the measurement finds out
        specs=question.specs,
    )
    measured = answer_measure(asked, context)
    points = measured.points.points if measured.points is not None else ()
    return tuple(point for point in points if isinstance(point, Measurement))


def _html(answers: "Sequence[AcceptedMachine]", _question: AcceptQuestion, *, extension: str) -> str | bytes:
    from capplan.clock import today
    from capplan.report.pages import page_file
    from capplan.report.text.acceptance import acceptance_page

    return page_file(acceptance_page(answers[0].acceptance, today().isoformat()), extension)


def _files(answers: "Sequence[AcceptedMachine]", question: AcceptQuestion) -> Mapping[Path, bytes]:
    from capplan.core.measurement.format import point_to_line
    from capplan.llm.read.serving_rows import row_of, rows_text

    points, runs = answers[0].points, answers[0].runs
    rows = [row_of(run, source=f"acceptance, {run.file}") for run in runs]
    text = "".join(map(point_to_line, points)) or rows_text(rows)
    return {} if question.rows is None else {question.rows: text.encode()}


def _outcome(accepted: "AcceptedMachine") -> Outcome:
    from capplan.core.measurement.acceptance import AcceptanceVerdict

    return Outcome(exit_code=int(accepted.acceptance.verdict is AcceptanceVerdict.REFUSED))


ACCEPT = Verb(
    path="accept",
    question=AcceptQuestion,
    summary="Compare a delivered machine with the plan that it was bought by: what it is, and how fast it is.\n\n"
    "Measured times and rates are held to the intervals that the plan's deployment has at the load of the benchmark. A "
    "machine with fewer or other GPUs, less memory, memory errors, slow links where matrices are shared, or a figure "
    "beyond the bad end of its interval is refused.",
    fails_if="the machine is refused",
    examples=(
        "capplan accept plan.json --machine smi.txt --machine topo.txt --benchmark bench.json -o acceptance.html",
        "capplan accept plan.json --benchmark bench.json --rows ours.csv",
        "capplan accept plan.json --kernels -o acceptance.html",
    ),
    answer=answer_accept,
    sections=laid_out_by("capplan.report.text.acceptance:acceptance_sections", part="acceptance"),
    document=laid_out_by("capplan.shapes.acceptance:ACCEPTANCE", part="acceptance"),
    files_in={name: partial(_html, extension=f".{name}") for name in ("html", "pdf")},
    files=_files,
    outcome=_outcome,
    is_local=True,
    schema="accept",
    effort=Effort.LONG,
    returns="capplan.app.acceptance.accept:AcceptedMachine",
)
