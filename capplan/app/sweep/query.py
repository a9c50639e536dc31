"""The only door to DuckDB: SQL over the results of a sweep, and canned questions.

A query reads the rows that it is asked about, and nothing else of the machine: the database has no access to files at
all, because the rows reach it as pyarrow's datasets. So it cannot write either, whatever a statement asks for.
"""

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capplan.app.sweep import tables
from capplan.app.sweep.store import manifest_path, read_manifest
from capplan.errors import UsageError

if TYPE_CHECKING:
    import duckdb
    import pyarrow

TABLE, OLD_TABLE = "sweep", "old"
_ALIAS = "results"

LONGEST_QUERY_S = 120.0
"""Time after which a query is stopped. [s]"""

LONGEST_QUERY_CPU_S = 60.0
"""Processor time, of all threads together, after which a query is stopped. [s]"""

MOST_GENERATED_ROWS = 10_000_000_000
"""Most rows that a query may generate or pair by its plan; DuckDB counts some 10^9 in a second of a processor."""

QUERY_MEMORY_BYTES = 2**30
"""Memory that a query may work with; it never spills to a disk. [bytes]"""

MOST_ROWS = 10_000_000
"""Most rows of an answer; the largest sweep known has 2,178,000."""

LARGEST_ANSWER_BYTES = 2 * 2**30
"""Largest answer in memory. [bytes]"""


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError as error:
        raise UsageError("queries need DuckDB: pip install 'capplan[sweep]'.") from error
    return duckdb


def run_query(
    folder: Path,
    sql: str,
    *,
    against: Path | None = None,
    longest_s: float = LONGEST_QUERY_S,
    unfinished: Sequence["pyarrow.Table"] = (),
) -> "pyarrow.Table":
    """Return what a query gives over a sweep's rows, which are the tables `sweep` and `results`."""
    try:
        sql.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"the query is not UTF-8 (character {error.start}).") from error
    duckdb = _duckdb()
    with duckdb.connect(":memory:") as connection:
        _open(connection, folder, against, unfinished)
        try:
            # Refuse statements that are not one SELECT, as DuckDB's own parser reads them. EXPLAIN is refused too:
            # EXPLAIN ANALYZE runs whatever statement it explains.
            statements = connection.extract_statements(sql)
            if len(statements) != 1:
                raise UsageError(f"a query is one statement; these are {len(statements)}.")
            if statements[0].type.name != "SELECT":
                raise UsageError(f"{statements[0].type.name} gives no table; write a query that begins with SELECT.")
            with _stopped_after(connection, longest_s), tables.refused_if_damaged(folder):
                [(_, plan)] = connection.execute(f"EXPLAIN (FORMAT json) {sql}").fetchall()
                rows = max(map(_generated_rows, json.loads(plan)))
                if rows > MOST_GENERATED_ROWS:
                    raise UsageError(
                        f"the query goes through {rows:.2g} rows, and {MOST_GENERATED_ROWS:,} is the most; "
                        "ask for less."
                    )
                return _answer(connection, sql)
        except duckdb.InterruptException as error:
            raise UsageError(
                f"the query took longer than {longest_s:g} s, or {LONGEST_QUERY_CPU_S:g} s of processor time, and was "
                "stopped; ask for less."
            ) from error
        except duckdb.OutOfMemoryException as error:
            raise UsageError(
                f"the query needs more than {QUERY_MEMORY_BYTES // 2**20} MiB of memory; ask for less."
            ) from error
        except duckdb.Error as error:
            raise UsageError(f"the query is refused: {_words(error)}") from error


@contextmanager
def _stopped_after(connection: "duckdb.DuckDBPyConnection", longest_s: float) -> Iterator[None]:
    """Interrupt what runs on a connection once its time, or its processor time, is over."""
    began_s, done = time.process_time(), threading.Event()

    def watch() -> None:
        last_s = time.monotonic() + longest_s
        while not done.wait(max(0.02, min(0.5, last_s - time.monotonic()))):
            if time.monotonic() >= last_s or time.process_time() - began_s > LONGEST_QUERY_CPU_S:
                connection.interrupt()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _generated_rows(part: Mapping[str, Any]) -> int:
    """Return the most rows that one part of a query's plan generates or pairs."""
    if "LIMIT" in part["name"]:
        return 0
    below = [_generated_rows(child) for child in part["children"]]
    own = int(part["extra_info"].get("Estimated Cardinality", 0)) if part["name"].strip() in _GENERATORS else 0
    pairs = prod(map(_rows, part["children"])) if part["name"].strip() == "CROSS_PRODUCT" else 0
    return max((own, pairs, *below))


def _rows(part: Mapping[str, Any]) -> int:
    """Return how many rows DuckDB foresees of a part of a plan."""
    children = prod(map(_rows, part["children"])) if part["name"].strip() == "CROSS_PRODUCT" else 1
    return int(part["extra_info"].get("Estimated Cardinality", children))


_GENERATORS = ("RANGE", "GENERATE_SERIES")


def _answer(connection: "duckdb.DuckDBPyConnection", sql: str) -> "pyarrow.Table":
    """Return a query's rows, read in batches so that too many of them are noticed before they fill the memory."""
    reader = connection.sql(sql).to_arrow_reader(2**16)
    batches, rows, size_bytes = [], 0, 0
    for batch in reader:
        rows, size_bytes = rows + batch.num_rows, size_bytes + batch.nbytes
        if rows > MOST_ROWS or size_bytes > LARGEST_ANSWER_BYTES:
            raise UsageError(
                f"the query gives more than {MOST_ROWS:,} rows or {LARGEST_ANSWER_BYTES // 2**30} GiB, the most that "
                "an answer may hold; add a LIMIT or a condition."
            )
        batches.append(batch)
    return tables.arrow().Table.from_batches(batches, schema=reader.schema)


_LONGEST_WORDS = 240


def _words(error: "duckdb.Error") -> str:
    """Return DuckDB's message in a line, without the query, and with the table where another was asked for."""
    text = " ".join(str(error).split()).partition(" LINE 1: ")[0]
    text = text if len(text) <= _LONGEST_WORDS else text[: _LONGEST_WORDS - 1] + "…"
    known = f" The rows are the table {TABLE}."
    return text + (known if "Table with name" in text else "")


def _open(
    connection: "duckdb.DuckDBPyConnection",
    folder: Path,
    against: Path | None,
    unfinished: Sequence["pyarrow.Table"] = (),
) -> None:
    """Make the tables, and close everything else of the machine to the query."""
    named = {TABLE: folder, _ALIAS: folder, **({OLD_TABLE: against} if against else {})}
    for setting in (
        "python_enable_replacements = false",
        "temp_directory = ''",
        f"memory_limit = '{QUERY_MEMORY_BYTES // 2**20} MiB'",
        "allow_persistent_secrets = false",
        "enable_external_access = false",
    ):
        connection.execute(f"SET {setting}")
    pending = tables.unfinished_rows(unfinished)
    for name, place in named.items():
        files = _files_of(place, may_be_none=pending is not None)
        parts = []
        if files:
            connection.register(f"_{name}", tables.dataset(place, files))
            parts.append(f"SELECT {tables.WORKLOAD}, * EXCLUDE ({tables.WORKLOAD}) FROM _{name}")
        if pending is not None and place == folder:
            connection.register(f"_{name}_unfinished", pending)
            parts.append(f"SELECT * FROM _{name}_unfinished")
        connection.execute(f"CREATE VIEW {name} AS {' UNION ALL BY NAME '.join(parts)}")
    connection.execute("SET lock_configuration = true")


def _files_of(folder: Path, *, may_be_none: bool = False) -> list[Path]:
    """Return the files that a folder's manifest names, all of which lie within the folder."""
    try:
        files = [folder / file["path"] for file in read_manifest(folder)["files"]]
    except (KeyError, TypeError) as error:
        raise UsageError(f"{manifest_path(folder)} is damaged: it lists no files.") from error
    if not files and not may_be_none:
        raise UsageError(f"{folder} holds no rows yet; let its sweep finish.")
    for path in files:
        if not path.resolve().is_relative_to(folder.resolve()):
            raise UsageError(f"{manifest_path(folder)} is damaged: it names a file outside of {folder}.")
    return files


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


_PAIRS = """(SELECT * FROM {table} WHERE {where}) AS new JOIN old AS before
ON new.model = before.model AND new.workload = before.workload AND new.gpu = before.gpu
AND new.batch IS NOT DISTINCT FROM before.batch"""
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
  FROM {pairs}
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
    """Return the SQL of a canned question."""
    return _filled(CANNED[name].sql, where, threshold=repr(threshold_fraction)).strip()


def _filled(sql: str, where: Sequence[str], **values: str) -> str:
    """Return a question with its table and conditions in the place of their names."""
    conditions = " AND ".join(f"({condition})" for condition in where) or "true"
    for name, value in {"pairs": _PAIRS, **values, "table": TABLE, "where": conditions}.items():
        sql = sql.replace(f"{{{name}}}", value)
    return sql


def count_pairs(folder: Path, *, where: Sequence[str], against: Path) -> int:
    """Return how many rows of some results have a row of older results to be compared with."""
    sql = _filled("SELECT count(*) AS pairs FROM {pairs}", where)
    return int(run_query(folder, sql, against=against).column("pairs")[0].as_py())
