"""`diff` and `check`: two saved plans compared, and one held to limits."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from capplan.core.batches import LARGEST_BATCH
from capplan.errors import UsageError
from capplan.verbs.statement.contract import Context, Effort, Look, Outcome, Verb
from capplan.verbs.statement.fields import Name, OwnSpecs
from capplan.verbs.statement.options import HERE, Option, Topic
from capplan.verbs.statement.words import TIME_LIMIT

if TYPE_CHECKING:
    from capplan.report.documents.diff import Change
    from capplan.report.documents.gate import CheckedLimit
    from capplan.report.sections import Section


@dataclass(frozen=True, kw_only=True)
class DiffQuestion:
    """What changed between two plans, or two reports."""

    before: Annotated[Name, Option(help="A plan or report as JSON.", metavar="A.json", is_argument=True, doors=HERE)]
    after: Annotated[Name, Option(help="Another one.", metavar="B.json", is_argument=True, doors=HERE)]


def answer_diff(question: DiffQuestion, _context: Context) -> "list[Change]":
    """Return what changed between two documents.

    Args:
        question: their files.

    Raises:
        UsageError: one cannot be read, or they are not of one kind.
    """
    from capplan.app.documents import read_json
    from capplan.report.documents.diff import compare_documents

    return compare_documents(
        read_json(question.before), read_json(question.after), names=(question.before, question.after)
    )


def _settle_diff(question: DiffQuestion, look: Look) -> DiffQuestion:
    if look.format == "csv":
        raise UsageError("a difference is written as table, md or json, not csv.")
    return question


def _diff_sections(answers: "Sequence[list[Change]]", _question: DiffQuestion) -> "Iterable[Section]":
    from capplan.report.text.saved_plans import change_sections

    return change_sections(answers[0])


def _diff_document(answers: "Sequence[list[Change]]", _question: DiffQuestion) -> Any:
    from capplan.report.documents.diff import diff_document

    return diff_document(answers[0])


DIFF = Verb(
    path="diff",
    question=DiffQuestion,
    summary="Describe what changed between two plans, or two reports, that were saved as JSON.",
    examples=("capplan diff before.json after.json", "capplan diff before.json after.json --format md"),
    answer=answer_diff,
    settle=_settle_diff,
    sections=_diff_sections,
    document=_diff_document,
    schema="diff",
    effort=Effort.SHORT,
    returns="capplan.report.documents.diff:Change[]",
)


@dataclass(frozen=True, kw_only=True)
class CheckQuestion:
    """Whether a saved plan keeps limits."""

    plan: Annotated[
        Name,
        Option(help="What `capplan plan --format json` wrote.", metavar="PLAN.json", is_argument=True, doors=HERE),
    ]
    gpus: Annotated[
        tuple[Name, ...],
        Meta(min_length=1),
        Option(
            help="Exact id or alias of a GPU; repeatable.", flags=("--gpu",), metavar="ID", topic=Topic.GPUS, doors=HERE
        ),
    ]  # fmt: skip
    batch: Annotated[
        int,
        Meta(ge=1, le=LARGEST_BATCH),
        Option(help="Batch that the plan holds.", flags=("--batch", "-b"), topic=Topic.WORKLOAD, doors=HERE),
    ]
    specs: OwnSpecs = ()
    utilization_fraction: Annotated[
        float | None,
        Meta(ge=0.01, le=1.0),
        Option(
            help="Share of usable memory that may be filled.", flags=("--utilization",), topic=Topic.LIMITS, doors=HERE
        ),
    ] = None  # fmt: skip
    min_throughput_per_s: Annotated[
        float | None,
        Meta(ge=0.0),
        Option(
            help="Samples per second wanted.", flags=("--min-throughput",), metavar="SAMPLES/S", topic=Topic.LIMITS,
            doors=HERE,
        ),
    ] = None  # fmt: skip
    max_latency_s: Annotated[
        float | None,
        Option(
            help="Latency limit per batch, such as 50ms.", flags=("--max-latency",), metavar="TIME", words=TIME_LIMIT,
            topic=Topic.LIMITS, doors=HERE,
        ),
    ] = None  # fmt: skip
    sure: Annotated[
        bool,
        Option(
            help="Compare the bad end of every interval, not the expected value.", topic=Topic.LIMITS, doors=HERE
        ),
    ] = False  # fmt: skip


def answer_check(question: CheckQuestion, context: Context) -> "tuple[CheckedLimit, ...]":
    """Return what each limit came to on each GPU.

    Args:
        question: the plan and the limits.
        context: how the door finds GPUs.

    Raises:
        UsageError: the file cannot be read or holds no such plan, or there is no such GPU.
    """
    from capplan.app.documents import read_json
    from capplan.report.documents.gate import Gate, check_plan
    from capplan.report.documents.plan import read_plan

    gate = Gate(
        utilization_fraction=question.utilization_fraction,
        min_throughput_per_s=question.min_throughput_per_s,
        max_latency_s=question.max_latency_s,
        is_sure=question.sure,
    )
    known, where = context.gpu_database(question.specs), question.plan
    document = read_json(where)
    documents = document if isinstance(document, list) else [document]
    if not documents:
        raise UsageError(f"{where}: holds no plan.")
    return tuple(
        outcome
        for plan in documents
        for gpu in map(known.find, question.gpus)
        for outcome in check_plan(read_plan(plan, where=where), gpu, batch=question.batch, gate=gate, where=where)
    )


def _check_sections(answers: "Sequence[tuple[CheckedLimit, ...]]", _question: CheckQuestion) -> "Iterable[Section]":
    from capplan.report.text.saved_plans import outcome_sections

    return outcome_sections(answers[0])


def _check_document(answers: "Sequence[tuple[CheckedLimit, ...]]", _question: CheckQuestion) -> Any:
    from capplan.report.documents.gate import check_document

    return check_document(answers[0])


def _check_outcome(outcomes: "tuple[CheckedLimit, ...]") -> Outcome:
    """A limit that is broken ends in exit code 1."""
    return Outcome(exit_code=int(not all(outcome.is_kept for outcome in outcomes)))


CHECK = Verb(
    path="check",
    question=CheckQuestion,
    summary="Check a saved plan against limits: exit 0 if it keeps all of them, 1 if it breaks one.",
    examples=(
        "capplan check plan.json --gpu l4 --batch 32 --utilization 0.8 --min-throughput 500",
        "capplan check plan.json --gpu l4 --gpu t4 --batch 8 --max-latency 50ms --sure",
    ),
    answer=answer_check,
    sections=_check_sections,
    document=_check_document,
    outcome=_check_outcome,
    schema="check",
    effort=Effort.SHORT,
    returns="capplan.report.documents.gate:CheckedLimit[]",
)
