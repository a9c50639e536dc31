"""The only door to DuckDB: SQL over the results of a sweep, and canned questions.

Queries read the folders that they are asked about, and nothing else of the machine.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capplan.app.sweep import tables
from capplan.app.sweep.store import read_manifest
from capplan.core.sweep.schema import COLUMNS, Kind
from capplan.errors import UsageError

if TYPE_CHECKING:
    import duckdb
    import pyarrow

TABLE, OLD_TABLE = "sweep", "old"
_ALIAS = "results"


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError as error:
        raise UsageError("queries need DuckDB: pip install 'capplan[sweep]'.") from error
    return duckdb


def run_query(folder: Path, sql: str, *, against: Path | None = None) -> "pyarrow.Table":
    """Return what a query gives over a sweep's rows, which are the tables `sweep` and `results`.

    Args:
        folder: the results.
        sql: a query in DuckDB's SQL.
        against: older results, which are the table `old`.

    Raises:
        UsageError: DuckDB refuses the query, or a folder holds no results.
    """
    duckdb = _duckdb()
    with duckdb.connect(":memory:") as connection:
        _open(connection, folder, against)
        try:
            _refuse_all_but_one_question(connection, sql)
            found: pyarrow.Table = connection.sql(sql).to_arrow_table()
            return found
        except duckdb.Error as error:
            raise UsageError(f"the query is refused: {_words(error)}") from error


def _refuse_all_but_one_question(connection: "duckdb.DuckDBPyConnection", sql: str) -> None:
    """Refuse statements that change something, and several at once.

    Raises:
        UsageError: the text is not one query.
    """
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise UsageError(f"a query is one statement; these are {len(statements)}.")
    if statements[0].type.name not in ("SELECT", "EXPLAIN"):
        raise UsageError(f"{statements[0].type.name} gives no table; write a query that begins with SELECT.")


def _words(error: "duckdb.Error") -> str:
    """Return DuckDB's message in a line, with the name of the table where another was asked for."""
    text = " ".join(str(error).split())
    known = f" The rows are the table {TABLE}."
    return text + (known if "Table with name" in text else "")


def _open(connection: "duckdb.DuckDBPyConnection", folder: Path, against: Path | None) -> None:
    """Make the tables, and close everything else of the machine to the query."""
    named = {TABLE: folder, _ALIAS: folder, **({OLD_TABLE: against} if against else {})}
    connection.execute("SET python_enable_replacements = false")
    for name, place in named.items():
        rows = _rows_of(place)
        held = {row[0] for row in connection.execute(f"DESCRIBE {rows}").fetchall()}
        later = "".join(f", NULL::{_TYPES[each.kind]} AS {each.name}" for each in COLUMNS if each.name not in held)
        connection.execute(f"CREATE VIEW {name} AS SELECT *{later} FROM ({rows})")
    folders = ", ".join(_quoted(str(each.resolve())) for each in named.values())
    connection.execute(f"SET allowed_directories = [{folders}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _rows_of(folder: Path) -> str:
    """Return the query for all rows of a folder: the files that its manifest names."""
    files = [str((folder / each["path"]).resolve()) for each in read_manifest(folder)["files"]]
    if not files:
        raise UsageError(f"{folder} holds no rows yet; let its sweep finish.")
    listed = ", ".join(map(_quoted, files))
    options = "hive_partitioning = true, hive_types_autocast = false, union_by_name = true"
    chosen = f"{tables.WORKLOAD}, * EXCLUDE ({tables.WORKLOAD})"
    return f"SELECT {chosen} FROM read_parquet([{listed}], {options})"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


_TYPES = {Kind.TEXT: "VARCHAR", Kind.INTEGER: "BIGINT", Kind.NUMBER: "DOUBLE", Kind.BOOLEAN: "BOOLEAN"}
"""DuckDB's types, for columns that results of an older capplan do not have."""
_CONDITIONS = "model, precision, framework, layout, mode, weights"
_FIGURES = "status, latency_s, throughput_per_s, total_bytes, usd_per_hour, usd_per_million_samples, evidence"
_BEST = """
SELECT {shown} FROM {table}
WHERE fits AND {needed} IS NOT NULL AND ({where})
QUALIFY row_number() OVER (PARTITION BY model, workload ORDER BY {order}, gpu, batch) = 1
ORDER BY {shown_order}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Canned:
    """A question that has a name. `sql` is filled in with the table and a condition on its rows."""

    meaning: str
    sql: str
    needs_old: bool = False


def _best(meaning: str, *, needed: str, order: str) -> Canned:
    shown = f"{_CONDITIONS}, gpu, batch, {_FIGURES}"
    sql = _BEST.format(
        shown=shown, needed=needed, order=order, shown_order=_CONDITIONS, table="{table}", where="{where}"
    )
    return Canned(meaning=meaning, sql=sql)


_CHANGES = """
WITH pairs AS (
  SELECT new.model, new.gpu, new.batch, new.precision, new.framework, new.layout, new.mode, new.weights,
    before.status AS old_status, new.status AS new_status,
    before.latency_s AS old_latency_s, new.latency_s AS new_latency_s,
    new.latency_s / before.latency_s AS latency_ratio,
    before.total_bytes AS old_total_bytes, new.total_bytes AS new_total_bytes,
    new.total_bytes / before.total_bytes AS memory_ratio,
    before.usd_per_million_samples AS old_usd_per_million_samples,
    new.usd_per_million_samples AS new_usd_per_million_samples,
    new.usd_per_million_samples / before.usd_per_million_samples AS cost_ratio,
    coalesce(before.fits, false) AND NOT coalesce(new.fits, false) AS stopped_fitting
  FROM (SELECT * FROM {table} WHERE {where}) AS new
  JOIN old AS before
    ON new.model = before.model AND new.workload = before.workload AND new.gpu = before.gpu
    AND new.batch IS NOT DISTINCT FROM before.batch
)
SELECT * FROM pairs
WHERE stopped_fitting OR greatest(latency_ratio, memory_ratio, cost_ratio) > 1 + {threshold}
ORDER BY stopped_fitting DESC, greatest(latency_ratio, memory_ratio, cost_ratio) DESC, model, gpu, batch
"""

CANNED: Mapping[str, Canned] = {
    "cheapest": _best(
        "the GPU and batch of the lowest cost per sample, for each model and workload",
        needed="usd_per_million_samples",
        order="usd_per_million_samples",
    ),
    "fastest": _best(
        "the GPU and batch of the highest throughput, for each model and workload",
        needed="throughput_per_s",
        order="throughput_per_s DESC",
    ),
    "quickest": _best(
        "the GPU and batch of the lowest latency, for each model and workload", needed="latency_s", order="latency_s"
    ),
    "fits": Canned(
        meaning="every GPU and batch that fits",
        sql=f"SELECT {_CONDITIONS}, gpu, batch, max_batch, usable_bytes, {_FIGURES} FROM {{table}} "
        f"WHERE fits AND ({{where}}) ORDER BY {_CONDITIONS}, gpu, batch",
    ),
    "failures": Canned(
        meaning="models without an answer, grouped by the reason",
        sql="SELECT failure, reason, count(DISTINCT (model, workload)) AS count, min(model) AS example FROM {table} "
        "WHERE status = 'failed' AND ({where}) GROUP BY failure, reason ORDER BY count DESC, failure, reason",
    ),
    "regressions": Canned(
        meaning="what is slower, larger or costlier than in older results, or stopped fitting",
        sql=_CHANGES,
        needs_old=True,
    ),
}
"""The canned questions by name."""

DEFAULT_THRESHOLD = 0.01


def canned_query(name: str, *, where: Sequence[str] = (), threshold_fraction: float = DEFAULT_THRESHOLD) -> str:
    """Return the SQL of a canned question.

    Args:
        name: a key of `CANNED`.
        where: conditions on the rows, in SQL.
        threshold_fraction: what changes by no more than this share is not a regression.
    """
    conditions = " AND ".join(f"({each})" for each in where) or "true"
    sql = CANNED[name].sql
    for place, value in (("{table}", TABLE), ("{where}", conditions), ("{threshold}", repr(threshold_fraction))):
        sql = sql.replace(place, value)
    return sql.strip()
