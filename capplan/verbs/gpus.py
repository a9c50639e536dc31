"""`gpus` and its commands that ask the database: GPUs listed, shown and compared, and this machine's GPUs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from capplan.clock import today
from capplan.verbs.statement.contract import Context, Effort, Look, Outcome, Verb, ids_as_text, laid_out_by
from capplan.verbs.statement.fields import GpuFilterFields, Name, OwnSpecs, SpecFields
from capplan.verbs.statement.options import Door, Option, Topic
from capplan.verbs.statement.words import NAMES

if TYPE_CHECKING:
    from capplan.core.gpus.names import Match
    from capplan.core.gpus.sheet import GpuSheet
    from capplan.core.gpus.spec import GpuSpec
    from capplan.report.sections import Line, Section


@dataclass(frozen=True, kw_only=True)
class GpusQuestion(GpuFilterFields):
    """The GPUs of the database that pass filters."""

    sort: Annotated[
        Name,
        Option(
            help="Sort by this column; -COLUMN puts the largest first.", metavar="COLUMN", topic=Topic.ANSWER,
            shows_default=True,
        ),
    ] = "id"  # fmt: skip
    columns: Annotated[
        tuple[str, ...] | None,
        Option(help="Columns of a table, or all.", metavar="A,B,...", topic=Topic.ANSWER, words=NAMES),
    ] = None
    cpus: Annotated[bool, Option(help="List the x86 CPUs of the database instead of its GPUs.", topic=Topic.ANSWER)] = (
        False
    )
    new_within_days: Annotated[
        int | None,
        Meta(ge=1, le=36_500),
        Option(
            help="GPUs that are sold for so many days at most, by the day of their sheet.", flags=("--new",),
            metavar="DAYS", topic=Topic.ANSWER,
        ),
    ] = None  # fmt: skip
    announced: Annotated[
        bool, Option(help="GPUs that are announced and not sold yet, with what is expected.", topic=Topic.ANSWER)
    ] = False
    ids: Annotated[
        bool,
        Option(
            help="Print ids only, one per line.", flags=("--ids", "-q"), topic=Topic.ANSWER, doors=Door.COMMAND
        ),
    ] = False  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuList:
    """The GPUs that pass filters, in their order, and of how many of the database they are."""

    gpus: "tuple[GpuSpec, ...]"
    known_count: int


def answer_gpus(question: GpusQuestion, context: Context) -> GpuList:
    """Return the GPUs that pass filters, sorted.

    Raises:
        UsageError: a condition cannot be read, or names an unknown column, vendor or architecture.
    """
    from capplan.core.gpus.attributes import sort_gpus
    from capplan.core.gpus.sale import is_announced, is_new

    database = context.gpu_database(question.specs)
    known = database.cpus if question.cpus else database
    kept = question.gpu_filters().select(known.values())
    if question.announced:
        kept = [gpu for gpu in kept if is_announced(gpu)]
    if (days := question.new_within_days) is not None:
        kept = [gpu for gpu in kept if is_new(gpu, within_days=days, on=today())]
    return GpuList(gpus=tuple(sort_gpus(kept, question.sort)), known_count=len(known))


def _list_sections(answers: Sequence[GpuList], question: GpusQuestion) -> "Iterable[Section]":
    from capplan.core.gpus.attributes import ANNOUNCED_COLUMNS, ATTRIBUTES, DEFAULT_COLUMNS, find_attribute
    from capplan.report.text.gpus import gpu_list_sections

    usual = ANNOUNCED_COLUMNS if question.announced else DEFAULT_COLUMNS
    names = question.columns or usual
    shown = list(map(find_attribute, tuple(ATTRIBUTES) if tuple(names) == ("all",) else names))
    found, kind = answers[0], "CPUs" if question.cpus else "GPUs"
    return gpu_list_sections(found.gpus, shown, count=f"{len(found.gpus)} of {found.known_count} {kind}")


def _id_lines(answers: Sequence[GpuList], question: GpusQuestion, _look: Look) -> "list[Line] | None":
    from capplan.report.sections import line

    return [line(gpu.id) for gpu in answers[0].gpus] if question.ids else None


GPUS = Verb(
    path="gpus",
    question=GpusQuestion,
    summary="List the GPUs that capplan knows, with filters.",
    examples=(
        "capplan gpus --min-memory 80GiB --sort -bf16",
        "capplan gpus --where 'bf16 >= 300 TFLOP/s and tdp <= 400 W' --columns id,bf16,tdp",
        "capplan gpus --cpus --sort -bandwidth",
        "capplan gpus --new 365 --sort -released",
        "capplan gpus --announced",
    ),
    answer=answer_gpus,
    sections=_list_sections,
    document=laid_out_by("capplan.shapes.gpus:GPUS", part="gpus"),
    lines=_id_lines,
    finalize=ids_as_text,
    schema="gpus",
    effort=Effort.SHORT,
    in_python=lambda found: found.gpus,
    returns="capplan.core.gpus.spec:GpuSpec[]",
)


@dataclass(frozen=True, kw_only=True)
class GpuQuestion:
    """Every value of one GPU, with its source and date, and known prices."""

    gpu: Annotated[
        str,
        Meta(min_length=1, max_length=200),
        Option(help="A GPU such as l4 or 'RTX 4090'.", metavar="NAME", is_argument=True, completes="gpus"),
    ]
    specs: OwnSpecs = ()


def answer_gpu(question: GpuQuestion, context: Context) -> "GpuSheet":
    """Return a GPU with its architecture and prices."""
    from capplan.core.gpus.sheet import GpuSheet

    known, prices = context.gpu_database(question.specs), context.price_list(question.specs)
    gpu = known.find(question.gpu)
    return GpuSheet(
        gpu=gpu,
        architecture=known.architectures[gpu.architecture_id],
        hourly=tuple(price for price in prices.hourly if price.gpu == gpu.id),
        purchase=tuple(price for price in prices.purchase if price.gpu == gpu.id),
    )


GPUS_SHOW = Verb(
    path="gpus show",
    question=GpuQuestion,
    summary="Show every value of a GPU as it is written, with its source and date, and known prices.",
    take_it="Take it for facts about a GPU, not about a model on it.",
    examples=("capplan gpus show l4", "capplan gpus show 'RTX 4090' --format json"),
    answer=answer_gpu,
    sections=laid_out_by("capplan.report.text.gpus:gpu_sheet_sections"),
    document=laid_out_by("capplan.shapes.gpus:SHEET"),
    schema="gpus-show",
    effort=Effort.SHORT,
)


@dataclass(frozen=True, kw_only=True)
class GpuComparisonQuestion:
    """GPUs side by side."""

    gpus: Annotated[
        tuple[Name, ...],
        Meta(min_length=1, max_length=100),
        Option(help="GPUs, or families such as a100.", metavar="NAME...", is_argument=True, completes="gpus"),
    ]
    specs: OwnSpecs = ()


def answer_gpu_comparison(question: GpuComparisonQuestion, context: Context) -> "tuple[GpuSpec, ...]":
    """Return the GPUs that names stand for, in their order."""
    known = context.gpu_database(question.specs)
    return tuple(gpu for name in question.gpus for gpu in known.find_all(name).gpus)


GPUS_COMPARE = Verb(
    path="gpus compare",
    question=GpuComparisonQuestion,
    summary="Put GPUs side by side, each number with its multiple of the first GPU's.",
    examples=("capplan gpus compare l4 a10 t4",),
    answer=answer_gpu_comparison,
    sections=laid_out_by("capplan.report.text.gpus:gpu_comparison_sections"),
    document=laid_out_by("capplan.shapes.gpus:GPUS"),
    schema="gpus",
    effort=Effort.SHORT,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectedGpus:
    """Each GPU of this machine with its spec, and why some could not be looked for."""

    matches: "tuple[Match, ...]"
    reasons: tuple[str, ...]


def answer_detect(question: SpecFields, context: Context) -> DetectedGpus:
    """Return the GPUs of this machine, as its drivers report them, each with its spec of the database."""
    from capplan.core.gpus.names import match_gpu
    from capplan.probe.installed_gpus import find_installed_gpus

    known = context.gpu_database(question.specs)
    devices, reasons = find_installed_gpus()
    matches = tuple((device, match_gpu(device, known.values())) for device in devices)
    return DetectedGpus(matches=matches, reasons=tuple(reasons))


def _detected_outcome(detected: DetectedGpus) -> Outcome:
    """A machine without a GPU ends in exit code 1."""
    if detected.matches:
        return Outcome()
    return Outcome(exit_code=1, warnings=(f"no GPU found ({'; '.join(detected.reasons)})",))


GPUS_DETECT = Verb(
    path="gpus detect",
    question=SpecFields,
    summary="Detect the GPUs of this machine and how they differ from their specs.",
    fails_if="there is none",
    examples=("capplan gpus detect", "capplan gpus detect --json"),
    answer=answer_detect,
    sections=laid_out_by("capplan.report.text.gpus:installed_sections", part="matches"),
    document=laid_out_by("capplan.shapes.gpus:INSTALLED_GPUS", part="matches"),
    outcome=_detected_outcome,
    schema="gpus-detect",
    is_local=True,
    effort=Effort.SHORT,
)
