"""Questions to a sweep's rows: SQL, named questions, and what a query may not do."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from capplan.app.sweep.query import CANNED, canned_query, run_query
from capplan.app.sweep.records import unpack_state
from capplan.app.sweep.results import read_sweep
from capplan.app.sweep.run import sweep
from capplan.errors import UsageError
from tests.app.sweep.conftest import make_request


@pytest.fixture(scope="module")
def folder(traces: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("sweep") / "results"
    sweep(make_request(output, [str(traces)], workloads=[{"batch": [1, 32], "precision": ["fp32", "amp-fp16"]}]))
    return output


@pytest.mark.slow
def test_sql_sees_every_row(folder: Path) -> None:
    [row] = run_query(folder, "select count(*) as n, count(distinct workload) as w from sweep").to_pylist()
    assert row == {"n": 16, "w": 2}


@pytest.mark.parametrize(
    ("name", "column", "best"),
    [
        ("cheapest", "usd_per_million_samples", min),
        ("fastest", "throughput_per_s", max),
        ("quickest", "latency_s", min),
    ],
)
def test_the_best_row_of_each_model_and_workload(folder: Path, name: str, column: str, best: object) -> None:
    answer = run_query(folder, canned_query(name)).to_pandas()
    rows = read_sweep(folder).to_pandas()
    assert len(answer) == 4
    for found in answer.itertuples():
        alike = rows[(rows.model == found.model) & (rows.precision == found.precision)]
        assert getattr(found, column) == best(alike[column].dropna())  # type: ignore[operator]


def test_conditions_narrow_a_named_question(folder: Path) -> None:
    answer = run_query(folder, canned_query("fits", where=["gpu = 'l4'", "batch = 1 or batch = 7"])).to_pandas()
    assert set(answer.gpu) == {"l4"}
    assert set(answer.batch) == {1}


def test_results_that_lack_a_later_column_are_read_with_nulls(folder: Path, tmp_path: Path) -> None:
    """A new column alone does not raise the version of the schema, so that older results are still asked."""
    old = tmp_path / "old"
    shutil.copytree(folder, old)
    for path in old.rglob("part-*.parquet"):
        table = pq.read_table(path, partitioning=None)
        pq.write_table(table.drop_columns(["weights", "kv_pool_bytes"]), path)
    rows = run_query(old, canned_query("cheapest")).to_pylist()
    expected = run_query(folder, canned_query("cheapest")).to_pylist()
    assert rows == expected
    assert run_query(old, canned_query("regressions"), against=folder).num_rows == 0


def test_results_do_not_regress_against_themselves(folder: Path) -> None:
    assert run_query(folder, canned_query("regressions"), against=folder).num_rows == 0


@pytest.mark.slow
def test_what_is_slower_than_before_is_a_regression(folder: Path, traces: Path, tmp_path: Path) -> None:
    """One trace file stands in for the other: the wide network takes longer and more memory than the narrow one."""
    old, new, own = tmp_path / "old", tmp_path / "new", tmp_path / "net.trace.json"
    for output, name in ((old, "narrow"), (new, "wide")):
        own.write_bytes((traces / f"{name}.trace.json").read_bytes())
        sweep(make_request(output, [str(own)], workloads=[{"batch": [4096]}]))
    rows = run_query(new, canned_query("regressions", threshold_fraction=0.0), against=old).to_pylist()
    assert {row["gpu"] for row in rows} == {"l4", "t4"}
    assert all(row["latency_ratio"] > 1 and row["memory_ratio"] > 1 for row in rows)
    assert run_query(old, canned_query("regressions"), against=new).num_rows == 0


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("select * from swept", "The rows are the table sweep"),
        ("select nothing_such from sweep", "nothing_such"),
        ("select * from read_csv('/etc/passwd')", "disabled"),
        ("explain select 1", "EXPLAIN gives no table"),
        ("explain analyze copy (select 1 as a) to '/tmp/stolen.csv'", "EXPLAIN gives no table"),
        ("pragma database_list; select 1", "one statement"),
        ("select '\udcff'", "not UTF-8"),
        ("select * from range(100000000)", "more than 10,000,000 rows"),
        ("select string_agg(repeat('x', 1000), ',') from range(5000000)", "1024 MiB of memory"),
        ("select count(*) from range(1000000000000)", "1e\\+12 rows"),
        ("select sum(a.i) from range(1000000) a(i), range(1000000) b(i)", "1e\\+12 rows"),
        ("copy sweep to '/tmp/stolen.csv'", "COPY gives no table"),
        ("set enable_external_access = true", "SET gives no table"),
        ("select 1; select 2", "one statement"),
        ("create table x as select 1", "gives no table"),
    ],
)
def test_a_query_that_cannot_be_answered_is_refused_in_a_sentence(folder: Path, sql: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        run_query(folder, sql)


ENDLESS = "with recursive t(n) as (select 1 union all select n % 1000 + 1 from t) select count(*) from t"
"""Its plan foresees two rows."""


def test_a_query_that_never_ends_is_stopped(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"longer than 0\.5 s"):
        run_query(folder, ENDLESS, longest_s=0.5)


@pytest.mark.slow
def test_a_query_that_takes_too_much_of_the_processors_is_stopped(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("capplan.app.sweep.query.LONGEST_QUERY_CPU_S", 0.5)
    with pytest.raises(UsageError, match=r"0\.5 s of processor time"):
        run_query(folder, ENDLESS)


def test_generated_rows_below_a_limit_are_answered(folder: Path) -> None:
    assert run_query(folder, "select * from range(1000000000000) limit 3").num_rows == 3


@pytest.mark.parametrize(
    "sql",
    [
        "copy (select 1 as a) to '{file}'",
        "explain analyze copy (select 1 as a) to '{file}'",
        "explain (analyze, format json) copy sweep to '{file}'",
        "export database '{file}'",
        "attach '{file}' as other",
        "with a as (select 1) insert into sweep select * from a",
        "select * from query('copy (select 1) to x.csv')",
    ],
)
def test_no_statement_writes_or_changes_a_file_of_the_results(folder: Path, sql: str) -> None:
    """The manifest is what `explain analyze copy` once replaced."""
    before = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    with pytest.raises(UsageError):
        run_query(folder, sql.replace("{file}", str(folder / "_sweep" / "manifest.json")))
    assert {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()} == before


def test_the_database_itself_cannot_reach_files(folder: Path) -> None:
    """The second lock behind the check of statements: the connection has no access to any file."""
    import duckdb

    from capplan.app.sweep.query import _open

    with duckdb.connect(":memory:") as connection:
        _open(connection, folder, None)
        for sql in (
            f"COPY (SELECT 1) TO '{folder}/x.csv'",
            f"SELECT * FROM read_text('{folder}/_sweep/manifest.json')",
        ):
            with pytest.raises(duckdb.PermissionException):
                connection.execute(sql)


def test_an_answer_that_cannot_be_shown_or_written_is_refused(folder: Path) -> None:
    from capplan.app.sweep.tables import parquet_bytes, plain_rows

    with pytest.raises(UsageError, match="cast it to text"):
        plain_rows(run_query(folder, "select * from test_all_types()"))
    with pytest.raises(UsageError, match="cannot be written as Parquet"):
        parquet_bytes(run_query(folder, "select {} as a"))


@pytest.mark.parametrize("damage", ["cut", "flipped", "other columns", "missing"])
def test_damaged_rows_are_refused_in_a_sentence(folder: Path, tmp_path: Path, damage: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    path = next(copy.rglob("part-*.parquet"))
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        path.write_bytes(content[:4] + bytes(255 - byte for byte in content[4:600]) + content[600:])
    elif damage == "other columns":
        import pyarrow

        pq.write_table(pyarrow.table({"model": [1, 2], "gpu": [b"a", b"b"]}), path)
    else:
        path.unlink()
    with pytest.raises(UsageError) as refused:
        run_query(copy, "select * from sweep")
    assert len(str(refused.value)) <= 300 + len(str(copy))


def test_a_manifest_cannot_name_files_outside_its_folder(folder: Path, tmp_path: Path) -> None:
    import json

    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    unpack_state(copy)
    path = copy / "_sweep" / "manifest.json"
    document = json.loads(path.read_text())
    document["files"] = [{**document["files"][0], "path": str(next(folder.rglob("part-*.parquet")))}]
    path.write_text(json.dumps(document))
    with pytest.raises(UsageError, match="outside"):
        run_query(copy, "select * from sweep")


def test_results_are_read_as_arrow_and_pandas(folder: Path) -> None:
    results = read_sweep(folder)
    table = results.to_arrow(["model", "workload", "latency_s"])
    assert table.column_names == ["model", "workload", "latency_s"]
    assert table.num_rows == len(results) == len(results.to_pandas()) == 16
    assert results["gpu"].nunique() == 2
    assert results.query("select 1 as one").to_pylist() == [{"one": 1}]
    assert results.manifest["models"] == 2


def test_any_reader_of_parquet_reads_the_folder(folder: Path) -> None:
    import duckdb
    import pandas

    assert pandas.read_parquet(folder).shape[0] == 16
    with duckdb.connect() as connection:
        found = connection.execute(f"select count(*) from '{folder}/**/*.parquet'").fetchone()
    assert found == (16,)


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no results of a sweep"):
        read_sweep(tmp_path)


def test_every_named_question_runs(folder: Path) -> None:
    for name in CANNED:
        run_query(folder, canned_query(name), against=folder)


def test_results_of_an_older_schema_lack_columns_and_are_read(folder: Path, tmp_path: Path) -> None:
    import shutil

    import pyarrow.parquet as pq

    old = tmp_path / "old"
    shutil.copytree(folder, old)
    for path in old.rglob("part-*.parquet"):
        pq.write_table(pq.read_table(path, partitioning=None).drop_columns(["ttft_s"]), path)
    assert read_sweep(old).to_pandas(["ttft_s", "batch"]).ttft_s.isna().all()
    assert run_query(folder, canned_query("regressions"), against=old).num_rows == 0
