"""`gpus` and its commands: the GPU database listed, shown, compared, checked and extended, and this machine's GPUs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from capplan.errors import UsageError
from capplan.verbs.statement.contract import Context, Effort, Look, Outcome, Verb
from capplan.verbs.statement.fields import GpuFilterFields, Name, OwnSpecs
from capplan.verbs.statement.options import HERE, Door, Option, Topic
from capplan.verbs.statement.words import NAMES

if TYPE_CHECKING:
    from capplan.core.gpus.prices import Price, PurchasePrice
    from capplan.core.gpus.spec import GpuArchitecture, GpuSpec
    from capplan.report.documents.gpus import Match
    from capplan.report.sections import Line, Section
    from capplan.specs.gpus.microbench import ImportedMicrobenchmarks


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

    Args:
        question: the filters and the order.
        context: which database there is.

    Raises:
        UsageError: a condition cannot be read, or names an unknown column, vendor or architecture.
    """
    from capplan.core.gpus.attributes import at_least, parse_conditions, select_gpus, sort_gpus

    conditions = [condition for text in question.where for condition in parse_conditions(text)]
    if question.min_memory:
        conditions.append(at_least("memory", question.min_memory, what="--min-memory"))
    database = context.gpu_database(question.specs)
    known = database.cpus if question.cpus else database
    kept = select_gpus(
        known.values(), vendors=question.vendors, architectures=question.architectures, conditions=conditions
    )
    return GpuList(gpus=tuple(sort_gpus(kept, question.sort)), known_count=len(known))


def _list_sections(answers: Sequence[GpuList], question: GpusQuestion) -> "Iterable[Section]":
    from capplan.core.gpus.attributes import ATTRIBUTES, DEFAULT_COLUMNS, find_attribute
    from capplan.report.text.gpus import gpu_list_sections

    names = DEFAULT_COLUMNS if question.columns is None else question.columns
    shown = list(map(find_attribute, tuple(ATTRIBUTES) if tuple(names) == ("all",) else names))
    found, kind = answers[0], "CPUs" if question.cpus else "GPUs"
    return gpu_list_sections(found.gpus, shown, count=f"{len(found.gpus)} of {found.known_count} {kind}")


def _id_lines(answers: Sequence[GpuList], question: GpusQuestion, _look: Look) -> "list[Line] | None":
    from capplan.report.sections import line

    return [line(gpu.id) for gpu in answers[0].gpus] if question.ids else None


def _list_document(answers: Sequence[GpuList], _question: GpusQuestion) -> Any:
    from capplan.report.documents.gpus import gpus_document

    return gpus_document(answers[0].gpus)


GPUS = Verb(
    path="gpus",
    question=GpusQuestion,
    summary="List the GPUs that capplan knows, with filters.",
    examples=(
        "capplan gpus --min-memory 80GiB --sort -bf16",
        "capplan gpus --where 'bf16 >= 300 TFLOP/s and tdp <= 400 W' --columns id,bf16,tdp",
        "capplan gpus --cpus --sort -bandwidth",
    ),
    answer=answer_gpus,
    sections=_list_sections,
    document=_list_document,
    lines=_id_lines,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSheet:
    """One GPU, its architecture, and its prices."""

    gpu: "GpuSpec"
    architecture: "GpuArchitecture"
    hourly: "tuple[Price, ...]"
    purchase: "tuple[PurchasePrice, ...]"


def answer_gpu(question: GpuQuestion, context: Context) -> GpuSheet:
    """Return a GPU with its architecture and prices.

    Args:
        question: its name.
        context: which database and prices there are.

    Raises:
        UnknownNameError: there is no such GPU.
    """
    known, prices = context.gpu_database(question.specs), context.price_list(question.specs)
    gpu = known.find(question.gpu)
    return GpuSheet(
        gpu=gpu,
        architecture=known.architectures[gpu.architecture_id],
        hourly=tuple(price for price in prices.hourly if price.gpu == gpu.id),
        purchase=tuple(price for price in prices.purchase if price.gpu == gpu.id),
    )


def _sheet_sections(answers: Sequence[GpuSheet], _question: GpuQuestion) -> "Iterable[Section]":
    from capplan.report.text.gpus import gpu_price_sections, gpu_sections

    sheet = answers[0]
    return [*gpu_sections(sheet.gpu, sheet.architecture), *gpu_price_sections(sheet.hourly, sheet.purchase)]


def _sheet_document(answers: Sequence[GpuSheet], _question: GpuQuestion) -> Any:
    from capplan.report.documents.gpus import gpu_sheet_document

    sheet = answers[0]
    return gpu_sheet_document(sheet.gpu, sheet.architecture, hourly=sheet.hourly, purchase=sheet.purchase)


GPUS_SHOW = Verb(
    path="gpus show",
    question=GpuQuestion,
    summary="Show every value of a GPU as it is written, with its source and date, and known prices.",
    examples=("capplan gpus show l4", "capplan gpus show 'RTX 4090' --format json"),
    answer=answer_gpu,
    sections=_sheet_sections,
    document=_sheet_document,
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
    """Return the GPUs that names stand for, in their order.

    Args:
        question: the names.
        context: which database there is.

    Raises:
        UnknownNameError: a name stands for none.
    """
    known = context.gpu_database(question.specs)
    return tuple(gpu for name in question.gpus for gpu in known.find_all(name).gpus)


def _comparison_sections(
    answers: "Sequence[tuple[GpuSpec, ...]]", _question: GpuComparisonQuestion
) -> "Iterable[Section]":
    from capplan.report.text.gpus import gpu_comparison_sections

    return gpu_comparison_sections(answers[0])


def _comparison_document(answers: "Sequence[tuple[GpuSpec, ...]]", _question: GpuComparisonQuestion) -> Any:
    from capplan.report.documents.gpus import gpus_document

    return gpus_document(answers[0])


GPUS_COMPARE = Verb(
    path="gpus compare",
    question=GpuComparisonQuestion,
    summary="Put GPUs side by side, each number with its multiple of the first GPU's.",
    examples=("capplan gpus compare l4 a10 t4",),
    answer=answer_gpu_comparison,
    sections=_comparison_sections,
    document=_comparison_document,
    schema="gpus",
    effort=Effort.SHORT,
)


@dataclass(frozen=True, kw_only=True)
class DetectQuestion:
    """The GPUs of this machine and how they differ from their specs."""

    specs: OwnSpecs = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectedGpus:
    """Each GPU of this machine with its spec, and why some could not be looked for."""

    matches: "tuple[Match, ...]"
    reasons: tuple[str, ...]


def answer_detect(question: DetectQuestion, context: Context) -> DetectedGpus:
    """Return the GPUs of this machine, as its drivers report them, each with its spec of the database.

    Args:
        question: own specs.
        context: which database there is.
    """
    from capplan.core.gpus.names import match_gpu
    from capplan.probe.installed_gpus import find_installed_gpus

    known = context.gpu_database(question.specs)
    devices, reasons = find_installed_gpus()
    matches = tuple((device, match_gpu(device, known.values())) for device in devices)
    return DetectedGpus(matches=matches, reasons=tuple(reasons))


def _detected_sections(answers: Sequence[DetectedGpus], _question: DetectQuestion) -> "Iterable[Section]":
    from capplan.report.text.gpus import installed_sections

    return installed_sections(answers[0].matches)


def _detected_document(answers: Sequence[DetectedGpus], _question: DetectQuestion) -> Any:
    from capplan.report.documents.gpus import installed_document

    return installed_document(answers[0].matches)


def _detected_outcome(detected: DetectedGpus) -> Outcome:
    """A machine without a GPU ends in exit code 1."""
    if detected.matches:
        return Outcome()
    return Outcome(exit_code=1, warnings=(f"no GPU found ({'; '.join(detected.reasons)})",))


GPUS_DETECT = Verb(
    path="gpus detect",
    question=DetectQuestion,
    summary="Detect the GPUs of this machine and how they differ from their specs. Exit 1 if there is none.",
    examples=("capplan gpus detect", "capplan gpus detect --json"),
    answer=answer_detect,
    sections=_detected_sections,
    document=_detected_document,
    outcome=_detected_outcome,
    schema="gpus-detect",
    is_local=True,
    effort=Effort.SHORT,
)


@dataclass(frozen=True, kw_only=True)
class NewGpuQuestion:
    """A commented template for a GPU's file."""

    source: Annotated[
        str | None,
        Option(
            help="Start from this GPU's values.", flags=("--from",), metavar="ID", completes="gpus", doors=Door.COMMAND
        ),
    ] = None  # fmt: skip
    specs: OwnSpecs = ()


def answer_new_gpu(question: NewGpuQuestion, context: Context) -> str:
    """Return a file with every key of a GPU explained.

    Args:
        question: the GPU that it starts from.
        context: which database there is.

    Raises:
        UnknownNameError: there is no such GPU.
    """
    from capplan.specs.gpus.template import render_template

    known = context.gpu_database(question.specs)
    return render_template(known.sheets[known.find(question.source).id] if question.source else None)


GPUS_NEW = Verb(
    path="gpus new",
    question=NewGpuQuestion,
    summary="Write a commented template for a GPU's file; its stem becomes the id.",
    examples=("capplan gpus new --from rtx-4090 -o my-card.yaml",),
    answer=answer_new_gpu,
    text=lambda template, _: template,
    is_local=True,
    effort=Effort.SHORT,
)


@dataclass(frozen=True, kw_only=True)
class SpecCheckQuestion:
    """Whether specs and prices keep the rules."""

    path: Annotated[
        Path | None,
        Option(
            help="A file or folder of own specs; without it the built-in ones.", metavar="[PATH]", is_argument=True,
            doors=HERE,
        ),
    ] = None  # fmt: skip


def answer_spec_check(question: SpecCheckQuestion, _context: Context) -> str:
    """Return what was checked, and how its values are known.

    Args:
        question: the file or folder.

    Raises:
        SpecFileError: everything that is wrong, each with file and key.
    """
    from capplan.specs.gpus.validate import validate_specs

    return f"{validate_specs(question.path)}\n"


GPUS_VALIDATE = Verb(
    path="gpus validate",
    question=SpecCheckQuestion,
    summary="Check specs and prices against the rules: all errors at once, and exit code 2 if there are any.",
    examples=("capplan gpus validate", "capplan gpus validate my-specs"),
    answer=answer_spec_check,
    text=lambda told, _: told,
    only_told=True,
    is_local=True,
    effort=Effort.SHORT,
)


@dataclass(frozen=True, kw_only=True)
class MicrobenchQuestion:
    """The `measured:` blocks of GPUs' files, from tables of microbenchmarks."""

    files: Annotated[
        tuple[Path, ...],
        Meta(min_length=1),
        Option(help="CSV of microbenchmarks, also .gz.", metavar="FILE...", is_argument=True, doors=HERE),
    ]
    output: Annotated[
        Path, Option(help="Folder of specs to write into.", flags=("--output", "-o"), metavar="FOLDER", doors=HERE)
    ]
    retrieved: Annotated[
        date | None,
        Option(help="When the sources were read; today by default.", metavar="YYYY-MM-DD", doors=HERE),
    ] = None
    specs: OwnSpecs = ()


def import_microbench(question: MicrobenchQuestion, context: Context) -> "ImportedMicrobenchmarks":
    """Write the blocks into a folder of specs, and return the files written and the GPUs left out.

    Args:
        question: the tables and the folder.
        context: which database there is.

    Raises:
        UsageError: a table cannot be read, or no row is of a GPU that the database knows.
    """
    from capplan.specs.gpus.microbench import import_microbench, read_microbench

    rows = [row for path in question.files for row in read_microbench(path)]
    known, day = context.gpu_database(question.specs), question.retrieved or date.today()
    done = import_microbench(rows, known=known, folder=question.output, retrieved=day)
    if not done.written:
        names = ", ".join(done.unknown[:3]) or "none"
        raise UsageError(f"no row is of a GPU that the database knows; rows name {names}.")
    return done


def _microbench_outcome(done: "ImportedMicrobenchmarks") -> Outcome:
    return Outcome(warnings=(f"left out, no spec: {', '.join(done.unknown)}",) if done.unknown else ())


GPUS_IMPORT_MICROBENCH = Verb(
    path="gpus import-microbench",
    question=MicrobenchQuestion,
    summary="Summarise microbenchmarks by GPU, and write them as the `measured:` block of its file in a folder of "
    "specs.\n\n"
    "Columns: gpu (an id), kind (matmul, copy_bandwidth, read_bandwidth, l2_bandwidth, launch_overhead), dtype, "
    "accumulate, value, unit, source, quality (A, B, C), regime (large, median_shapes, best_shape). Files that exist "
    "keep all else.",
    examples=("capplan gpus import-microbench mine.csv -o ~/.config/capplan/gpu_specs",),
    answer=import_microbench,
    text=lambda done, _: "".join(f"{path}\n" for path in done.written),
    outcome=_microbench_outcome,
    only_told=True,
    is_local=True,
    effort=Effort.SHORT,
)


@dataclass(frozen=True, kw_only=True)
class GpuSchemaQuestion:
    """The JSON Schema of a GPU's file."""


def answer_gpu_schema(_question: GpuSchemaQuestion, _context: Context) -> str:
    """Return the schema as indented JSON."""
    import json

    from capplan.specs.gpus.template import gpu_schema

    return json.dumps(gpu_schema(), indent=2, ensure_ascii=False) + "\n"


GPUS_SCHEMA = Verb(
    path="gpus schema",
    question=GpuSchemaQuestion,
    summary="Print the JSON Schema of a GPU's file, for editors.",
    examples=("capplan gpus schema -o gpu.schema.json",),
    answer=answer_gpu_schema,
    text=lambda schema, _: schema,
    is_local=True,
    effort=Effort.SHORT,
)


@dataclass(frozen=True, kw_only=True)
class SpecFoldersQuestion:
    """The folders that specs are read from."""


def answer_spec_folders(_question: SpecFoldersQuestion, _context: Context) -> tuple[Path, ...]:
    """Return the folders, lowest first: what comes later wins."""
    from capplan.specs.folders import built_in_folder, own_overlays

    return (built_in_folder(), *own_overlays())


def _folders_outcome(_folders: tuple[Path, ...]) -> Outcome:
    """Return a hint on the folder for own specs, where there is no such folder yet."""
    from capplan.specs.folders import ENVIRONMENT_VARIABLE, own_folder

    if own_folder().is_dir():
        return Outcome()
    return Outcome(
        warnings=(f"own specs may lie in {own_folder()}, or where {ENVIRONMENT_VARIABLE} or --specs names them",)
    )


GPUS_PATH = Verb(
    path="gpus path",
    question=SpecFoldersQuestion,
    summary="Print where specs are read from, lowest first: what comes later wins.",
    examples=("capplan gpus path",),
    answer=answer_spec_folders,
    text=lambda folders, _: "".join(f"{folder}\n" for folder in folders),
    outcome=_folders_outcome,
    only_told=True,
    is_local=True,
    effort=Effort.SHORT,
)
