"""`capplan query`: SQL and canned questions over the results of a sweep."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capplan.cli.output import Format, emit, laid_out, refuse_output, to_json, write_atomically
from capplan.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    import pyarrow


class QueryFormat(StrEnum):
    """Spellings of a query's answer."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MD = "md"
    PARQUET = "parquet"


_BY_SUFFIX = {
    ".json": QueryFormat.JSON, ".csv": QueryFormat.CSV, ".md": QueryFormat.MD, ".parquet": QueryFormat.PARQUET,
    ".txt": QueryFormat.TABLE,
}  # fmt: skip


def query(
    *,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="What `capplan sweep -o` wrote.")],
    question: Annotated[
        str,
        typer.Argument(
            metavar="SQL|NAME",
            help="A query of the table `sweep` in DuckDB's SQL, or cheapest, fastest, quickest, fits, failures, "
            "regressions.",
        ),
    ],
    against: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Older results: the table `old`.", show_default=False)
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CONDITION",
            help="Rows a named question is about, such as \"gpu = 'l4'\"; repeatable.",
            show_default=False,
        ),
    ] = None,
    threshold: Annotated[
        str, typer.Option(metavar="SHARE", help="Changes up to this share are no regressions.")
    ] = "1%",
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many rows.", show_default=False)] = None,
    format_: Annotated[
        QueryFormat | None,
        typer.Option(
            "--format", help="Spelling of the answer; by default -o's extension, else a table.", show_default=False
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Short for --format json.")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write here, whole or not at all, instead of to stdout.")
    ] = None,
) -> None:
    """Ask the results of a sweep.

    The columns are listed in docs/sweeps.md; latency_s, total_bytes, usd_per_million_samples and fits are among them.
    `regressions` exits with 1 where something got worse, and with 2 where nothing can be compared.

    Examples:

      capplan query results/ "select gpu, min(latency_s) from sweep where fits group by gpu order by 2"

      capplan query results/ cheapest --where "batch = 32" -o cheapest.csv

      capplan query results/ regressions --against last-month/ --threshold 5%
    """
    from capplan.app.sweep.query import count_pairs, run_query

    chosen = _format(format_, as_json=as_json, output=output)
    sql = _sql(question, where=where or [], against=against, threshold=threshold)
    if limit is not None:
        sql = f"SELECT * FROM ({sql.rstrip().rstrip(';')}) LIMIT {limit}"
    answer = run_query(folder, sql, against=against)
    if question == REGRESSIONS and against is not None and not count_pairs(folder, where=where or [], against=against):
        raise UsageError(
            f"nothing can be compared: {folder} and {against} have no model, workload, GPU and batch in common"
            f"{' under --where' if where else ''}."
        )
    _write(answer, chosen, output)
    if question == REGRESSIONS and answer.num_rows:
        raise typer.Exit(1)


REGRESSIONS = "regressions"


def _sql(question: str, *, where: list[str], against: Path | None, threshold: str) -> str:
    """Return a query as written, or that of the canned question named.

    Raises:
        UsageError: options are given that the question does not take.
    """
    from capplan.app.sweep.query import CANNED, canned_query

    if len(question.split()) > 1:
        if where:
            raise UsageError("--where narrows a named question; write the condition into the query.")
        return question
    if question not in CANNED:
        raise UnknownNameError("question", question, CANNED, hint=f"Known: {', '.join(CANNED)}, or a query in SQL.")
    if CANNED[question].needs_old and against is None:
        raise UsageError(f"{question} compares with older results; add --against FOLDER.")
    return canned_query(question, where=where, threshold_fraction=_share(threshold))


def _share(text: str) -> float:
    number = text.strip().removesuffix("%")
    try:
        value = float(number) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e6:
        raise UsageError(f"--threshold {text!r} is not a share; write 5% or 0.05.")
    return value


def _format(chosen: QueryFormat | None, *, as_json: bool, output: Path | None) -> QueryFormat:
    """Decide the spelling: an explicit one, else the output file's extension, else a table.

    Raises:
        UsageError: contradictory or unknown formats, or an output that cannot be written.
    """
    refuse_output(output)
    if as_json:
        if chosen not in (None, QueryFormat.JSON):
            raise UsageError(f"--json contradicts --format {chosen}; give one of them.")
        return QueryFormat.JSON
    if chosen is None and output is not None and output.suffix not in _BY_SUFFIX:
        raise UsageError(f"{output}: the extension names no format (known: {', '.join(_BY_SUFFIX)}); add --format.")
    found = chosen or (QueryFormat.TABLE if output is None else _BY_SUFFIX[output.suffix])
    if found is QueryFormat.PARQUET and output is None:
        raise UsageError("Parquet is written to a file: add -o FILE.parquet.")
    return found


def _write(answer: "pyarrow.Table", chosen: QueryFormat, output: Path | None) -> None:
    from capplan.app.sweep.tables import parquet_bytes, plain_rows
    from capplan.report.text.sweep import query_sections

    if chosen is QueryFormat.PARQUET:
        assert output is not None
        write_atomically(output, parquet_bytes(answer))
        return
    rows = plain_rows(answer)
    if chosen is QueryFormat.JSON:
        emit(to_json([dict(zip(answer.column_names, row, strict=True)) for row in rows]), output=output)
        return
    emit(laid_out(query_sections(answer.column_names, rows), Format(chosen.value), output=output), output=output)
