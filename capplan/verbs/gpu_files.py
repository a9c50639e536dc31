"""Commands of `gpus` that make and check files of specs: template, schema, rules, folders, microbenchmarks."""

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from capplan.errors import UsageError
from capplan.verbs.statement.contract import Context, Effort, Outcome, Verb
from capplan.verbs.statement.fields import NoFields, OwnSpecs
from capplan.verbs.statement.options import HERE, Door, Option

if TYPE_CHECKING:
    from capplan.specs.gpus.microbench import ImportedMicrobenchmarks


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
    """Return a file with every key of a GPU explained."""
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
    """Return what was checked, and how its values are known."""
    from capplan.specs.gpus.validate import validate_specs

    return f"{validate_specs(question.path)}\n"


GPUS_VALIDATE = Verb(
    path="gpus validate",
    question=SpecCheckQuestion,
    summary="Check specs and prices against the rules: all errors at once, and exit code 2 if there are any.",
    examples=("capplan gpus validate", "capplan gpus validate my-specs"),
    answer=answer_spec_check,
    text=lambda told, _: told,
    printed_only=True,
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
    """Write the blocks into a folder of specs, and return the files written and the GPUs left out."""
    from capplan.specs.gpus.microbench import import_microbench, read_microbench

    rows = [row for path in question.files for row in read_microbench(path)]
    known, day = context.gpu_database(question.specs), question.retrieved or date.today()
    done = import_microbench(rows, known=known, folder=question.output, retrieved=day)
    if not done.written:
        names = ", ".join(done.unknown[:3]) or "none"
        raise UsageError(f"no row is of a GPU that the database knows; rows name {names}.")
    return done


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
    outcome=lambda done: Outcome(warnings=(f"left out, no spec: {', '.join(done.unknown)}",) if done.unknown else ()),
    printed_only=True,
    is_local=True,
    effort=Effort.SHORT,
)


def answer_gpu_schema(_question: NoFields, _context: Context) -> str:
    """Return the schema as indented JSON."""
    import json

    from capplan.specs.gpus.template import gpu_schema

    return json.dumps(gpu_schema(), indent=2, ensure_ascii=False) + "\n"


GPUS_SCHEMA = Verb(
    path="gpus schema",
    question=NoFields,
    summary="Print the JSON Schema of a GPU's file, for editors.",
    examples=("capplan gpus schema -o gpu.schema.json",),
    answer=answer_gpu_schema,
    text=lambda schema, _: schema,
    is_local=True,
    effort=Effort.SHORT,
)


def answer_spec_folders(_question: NoFields, _context: Context) -> tuple[Path, ...]:
    """Return the folders, lowest first: what comes later wins."""
    from capplan.specs.folders import built_in_folder, own_overlays

    return (built_in_folder(), *own_overlays())


def _folders_outcome(_folders: tuple[Path, ...]) -> Outcome:
    """Warn where specs of the user may lie if their folder does not exist yet."""
    from capplan.specs.folders import ENVIRONMENT_VARIABLE, own_folder

    if own_folder().is_dir():
        return Outcome()
    return Outcome(
        warnings=(f"own specs may lie in {own_folder()}, or where {ENVIRONMENT_VARIABLE} or ⟨specs⟩ names them",)
    )


GPUS_PATH = Verb(
    path="gpus path",
    question=NoFields,
    summary="Print where specs are read from, lowest first: what comes later wins.",
    examples=("capplan gpus path",),
    answer=answer_spec_folders,
    text=lambda folders, _: "".join(f"{folder}\n" for folder in folders),
    outcome=_folders_outcome,
    printed_only=True,
    is_local=True,
    effort=Effort.SHORT,
)
