"""`diff`, `check`, `query` and `schema`: saved plans compared and held to limits, sweeps asked, documents described."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from capplan.core.workload import LARGEST_BATCH
from capplan.errors import UnknownNameError, UsageError
from capplan.verbs.statement.contract import Context, Effort, Look, Outcome, Verb, laid_out_by
from capplan.verbs.statement.fields import Name, OwnSpecs, one_batch
from capplan.verbs.statement.options import HERE, Option, Topic
from capplan.verbs.statement.words import CHANGE, TIME_LIMIT

if TYPE_CHECKING:
    import pyarrow

    from capplan.report.sections import Section
    from capplan.shapes.saved import Change, CheckedLimit


@dataclass(frozen=True, kw_only=True)
class DiffQuestion:
    """What changed between two plans, or two reports."""

    before: Annotated[Name, Option(help="A plan or report as JSON.", metavar="A.json", is_argument=True, doors=HERE)]
    after: Annotated[Name, Option(help="Another one.", metavar="B.json", is_argument=True, doors=HERE)]


def answer_diff(question: DiffQuestion, _context: Context) -> "list[Change]":
    """Return what changed between two documents.

    Raises:
        UsageError: one cannot be read, or they are not of one kind.
    """
    from capplan.files import read_json
    from capplan.shapes.saved import compare_documents

    return compare_documents(
        read_json(question.before), read_json(question.after), names=(question.before, question.after)
    )


def _finalize_diff(question: DiffQuestion, look: Look) -> DiffQuestion:
    if look.format == "csv":
        raise UsageError("a difference is written as table, md or json, not csv.")
    return question


DIFF = Verb(
    path="diff",
    question=DiffQuestion,
    summary="Describe what changed between two plans, or two reports, that were saved as JSON.",
    examples=("capplan diff before.json after.json", "capplan diff before.json after.json --format md"),
    answer=answer_diff,
    finalize=_finalize_diff,
    sections=laid_out_by("capplan.report.text.plan:change_sections"),
    document=laid_out_by("capplan.shapes.saved:DIFF"),
    schema="diff",
    effort=Effort.SHORT,
    in_python=tuple,
    returns="capplan.shapes.saved:Change[]",
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
    batch: Annotated[int, Meta(ge=1, le=LARGEST_BATCH), one_batch("Batch that the plan holds.", doors=HERE)]
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

    Raises:
        UsageError: the file cannot be read or holds no such plan, or there is no such GPU.
    """
    from capplan.files import read_json
    from capplan.shapes.plan import read_plan
    from capplan.shapes.saved import Gate, check_plan

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
        for plan in [read_plan(document, where=where) for document in documents]
        for gpu in map(known.find, question.gpus)
        for outcome in check_plan(plan, gpu, batch=question.batch, gate=gate, where=where)
    )


CHECK = Verb(
    path="check",
    question=CheckQuestion,
    summary="Check a saved plan against limits: exit 0 if it keeps all of them, 1 if it breaks one.",
    examples=(
        "capplan check plan.json --gpu l4 --batch 32 --utilization 0.8 --min-throughput 500",
        "capplan check plan.json --gpu l4 --gpu t4 --batch 8 --max-latency 50ms --sure",
    ),
    answer=answer_check,
    sections=laid_out_by("capplan.report.text.plan:outcome_sections"),
    document=laid_out_by("capplan.shapes.saved:CHECK"),
    outcome=lambda outcomes: Outcome(exit_code=int(not all(outcome.is_kept for outcome in outcomes))),
    schema="check",
    effort=Effort.SHORT,
    returns="capplan.shapes.saved:CheckedLimit[]",
)


REGRESSIONS = "regressions"


@dataclass(frozen=True, kw_only=True)
class QueryQuestion:
    """What the results of a sweep hold, by a query or a question that has a name."""

    folder: Annotated[
        Path, Option(help="What `capplan sweep -o` wrote.", metavar="FOLDER", is_argument=True, doors=HERE)
    ]
    sql: Annotated[
        Name,
        Option(
            help="A query of the table `sweep` in DuckDB's SQL, or cheapest, fastest, quickest, fits, failures, "
            "regressions.",
            metavar="SQL|NAME", is_argument=True, doors=HERE,
        ),
    ]  # fmt: skip
    against: Annotated[Path | None, Option(help="Older results: the table `old`.", metavar="FOLDER", doors=HERE)] = None
    where: Annotated[
        tuple[Name, ...],
        Option(
            help="Rows a named question is about, such as \"gpu = 'l4'\"; repeatable.", metavar="CONDITION", doors=HERE
        ),
    ] = ()  # fmt: skip
    threshold: Annotated[
        float,
        Meta(ge=0.0),
        Option(
            help="Changes up to this share are no regressions.", metavar="SHARE", words=CHANGE, shows_default=True,
            doors=HERE,
        ),
    ] = 0.01  # fmt: skip
    limit: Annotated[int | None, Meta(ge=1), Option(help="At most so many rows.", doors=HERE)] = None

    def query(self) -> str:
        """Return the query as written, or that of the question named."""
        from capplan.app.sweep.query import CANNED, canned_query

        if len(self.sql.split()) > 1:
            if self.where:
                raise UsageError("⟨where⟩ narrows a named question; write the condition into the query.")
            sql = self.sql
        elif self.sql not in CANNED:
            raise UnknownNameError("question", self.sql, CANNED, hint=f"Known: {', '.join(CANNED)}, or a query in SQL.")
        elif CANNED[self.sql].needs_old and self.against is None:
            raise UsageError(f"{self.sql} compares with older results; add ⟨against⟩ FOLDER.")
        else:
            sql = canned_query(self.sql, where=self.where, threshold_fraction=self.threshold)
        if self.limit is None:
            return sql
        inner = sql.rstrip().rstrip(";")
        return f"SELECT * FROM ({inner}\n) LIMIT {self.limit}"  # a line of its own, because a comment may end a query


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAnswer:
    """The rows that a query gave, and whether they are regressions."""

    rows: "pyarrow.Table"
    are_regressions: bool


def answer_query(question: QueryQuestion, _context: Context) -> QueryAnswer:
    """Return what a query gives over the results of a sweep.

    Raises:
        UsageError: the folder holds no results, the query is refused, or nothing can be compared.
    """
    from capplan.app.sweep.query import count_pairs, run_query

    rows = run_query(question.folder, question.query(), against=question.against)
    old = question.against if question.sql == REGRESSIONS else None
    if old is not None and not count_pairs(question.folder, where=question.where, against=old):
        raise UsageError(
            f"nothing can be compared: {question.folder} and {old} have no model, workload, GPU and batch in common"
            f"{' under ⟨where⟩' if question.where else ''}."
        )
    return QueryAnswer(rows=rows, are_regressions=old is not None and rows.num_rows > 0)


def _query_sections(answers: Sequence[QueryAnswer], _question: QueryQuestion) -> "Iterable[Section]":
    from capplan.app.sweep.tables import plain_rows
    from capplan.report.text.sweep import query_sections

    rows = answers[0].rows
    return query_sections(rows.column_names, plain_rows(rows))


def _query_document(answers: Sequence[QueryAnswer], _question: QueryQuestion) -> Any:
    from capplan.app.sweep.tables import plain_rows

    rows = answers[0].rows
    return [dict(zip(rows.column_names, row, strict=True)) for row in plain_rows(rows)]


def _parquet(answers: Sequence[QueryAnswer], _question: QueryQuestion) -> bytes:
    from capplan.app.sweep.tables import parquet_bytes

    return parquet_bytes(answers[0].rows)


QUERY = Verb(
    path="query",
    question=QueryQuestion,
    summary="Ask the results of a sweep.\n\n"
    "The columns are listed in docs/sweeps.md; latency_s, total_bytes, usd_per_million_samples and fits are among "
    "them. `regressions` exits with 1 where something got worse, and with 2 where nothing can be compared.",
    examples=(
        'capplan query results/ "select gpu, min(latency_s) from sweep where fits group by gpu order by 2"',
        'capplan query results/ cheapest --where "batch = 32" -o cheapest.csv',
        "capplan query results/ regressions --against last-month/ --threshold 5%",
    ),
    answer=answer_query,
    sections=_query_sections,
    document=_query_document,
    files_in={"parquet": _parquet},
    outcome=lambda answer: Outcome(exit_code=int(answer.are_regressions)),
    in_python=lambda answer: answer.rows,
    returns="pyarrow:Table",
)


@dataclass(frozen=True, kw_only=True)
class SchemaQuestion:
    """The JSON Schema of a document that capplan writes."""

    name: Annotated[
        Name | None, Option(help="Whose schema to print; without one, the names.", metavar="[NAME]", is_argument=True)
    ] = None


def answer_schema(question: SchemaQuestion, _context: Context) -> str:
    """Return a document's schema as indented JSON, or the names of all documents, one in a line."""
    from capplan.report.schemas import DOCUMENTS, schema_text

    names = sorted(DOCUMENTS)
    if question.name is None:
        return "".join(f"{name}\n" for name in names)
    if question.name not in names:
        raise UnknownNameError("document", question.name, names, hint=f"Known: {', '.join(names)}.")
    return schema_text(question.name)


SCHEMA = Verb(
    path="schema",
    question=SchemaQuestion,
    summary="Print the JSON Schema of a document that capplan writes.",
    examples=("capplan schema", "capplan schema plan -o plan.schema.json"),
    answer=answer_schema,
    text=lambda schema, _: schema,
    is_local=True,
    effort=Effort.SHORT,
)
