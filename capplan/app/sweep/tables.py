"""The only door to pyarrow: rows of a sweep as Arrow tables, in files and between processes."""

import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capplan.app.sweep.grid import Columns
from capplan.app.sweep.schema import (
    COLUMNS,
    MEASURED_COLUMNS,
    PLANNED_COLUMNS,
    PRICE_COLUMNS,
    SCHEMA_VERSION,
    ColumnType,
)
from capplan.core.gpus.prices import Price
from capplan.errors import UsageError
from capplan.wording import as_options

if TYPE_CHECKING:
    import pyarrow

WORKLOAD = "workload"
"""The column that rows are partitioned by; it stands in the names of folders, not in the files."""

_ROWS_PER_GROUP = 2**17


def arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.dataset
        import pyarrow.parquet
    except ImportError as error:
        raise UsageError("sweeps need pyarrow and DuckDB: pip install 'capplan[sweep]'.") from error
    return pyarrow


def _arrow_type(kind: ColumnType) -> Any:
    pa = arrow()
    types = {
        ColumnType.TEXT: pa.string(),
        ColumnType.INTEGER: pa.int64(),
        ColumnType.NUMBER: pa.float64(),
        ColumnType.BOOLEAN: pa.bool_(),
    }
    return types[kind]


def table_schema() -> "pyarrow.Schema":
    """Return the Arrow schema of the files, with units and meanings as the metadata of each column."""
    pa = arrow()
    fields = [
        pa.field(column.name, _arrow_type(column.kind), metadata={"unit": column.unit, "meaning": column.meaning})
        for column in COLUMNS
    ]
    return pa.schema(fields, metadata={"capplan_sweep_schema_version": str(SCHEMA_VERSION)})


def planned_table(columns: Columns, *, model: str, workload: str) -> "pyarrow.Table":
    """Return planned rows of one model and workload as a table, the workload as its first column."""
    pa = arrow()
    rows = len(columns["gpu"])
    arrays = [pa.array([workload] * rows, pa.string())]
    for planned_column in PLANNED_COLUMNS:
        values = [model] * rows if planned_column.name == "model" else columns[planned_column.name]
        if planned_column.kind is ColumnType.TEXT:
            values = [as_options(value) if isinstance(value, str) else value for value in values]
        arrays.append(pa.array(values, _arrow_type(planned_column.kind)))
    return pa.Table.from_arrays(arrays, names=[WORKLOAD, *(planned_column.name for planned_column in PLANNED_COLUMNS)])


def to_bytes(table: "pyarrow.Table") -> bytes:
    pa = arrow()
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue()


def from_bytes(content: bytes) -> "pyarrow.Table":
    pa = arrow()
    return pa.ipc.open_file(pa.BufferReader(content)).read_all()


def join_tables(tables: Sequence["pyarrow.Table"]) -> "pyarrow.Table":
    """Return the rows of several tables of equal columns."""
    return arrow().concat_tables([table.replace_schema_metadata(None) for table in tables])


def with_prices(table: "pyarrow.Table", rents: Mapping[str, Price]) -> "pyarrow.Table":
    """Return rows with the columns that follow from prices; those they had are replaced."""
    pa = arrow()
    pc = pa.compute
    encoded = table["gpu"].combine_chunks().dictionary_encode()
    known = [rents.get(gpu) for gpu in encoded.dictionary.to_pylist()]

    def by_gpu(values: list[object], kind: Any) -> Any:
        return pa.array(values, kind).take(encoded.indices)

    hourly = by_gpu([rent.usd_per_hour if rent else None for rent in known], pa.float64())
    together = pc.multiply(hourly, pc.cast(table["gpus"].combine_chunks(), pa.float64()))
    # The same order of operations as Fit.usd_per_million_samples, so that the last digit agrees with a plan.
    per_million = pc.multiply(pc.divide(pc.divide(together, 3600.0), table["throughput_per_s"].combine_chunks()), 1e6)
    values = {
        "usd_per_hour": hourly,
        "usd_per_million_samples": per_million,
        "price_provider": by_gpu([rent.provider if rent else None for rent in known], pa.string()),
        "price_date": by_gpu([rent.date.isoformat() if rent else None for rent in known], pa.string()),
    }
    assert set(values) == set(PRICE_COLUMNS)
    return _with_columns(table, values)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRow:
    """What was timed for one row. [s, bytes]"""

    median_s: float
    low_s: float | None
    high_s: float | None
    peak_allocated_bytes: int | None
    device: str


def with_measurements(
    table: "pyarrow.Table", workload: str, measured: Mapping[tuple[str, str, str, int], MeasuredRow]
) -> "pyarrow.Table":
    """Return rows of one workload with what was timed for them."""
    if not any(name[1] == workload for name in measured):
        return table
    pa = arrow()
    names = zip(table["model"].to_pylist(), table["gpu"].to_pylist(), table["batch"].to_pylist(), strict=True)
    found = [measured.get((model, workload, gpu, batch)) for model, gpu, batch in names]
    values = {
        "measured_latency_s": pa.array([row and row.median_s for row in found], pa.float64()),
        "measured_low_s": pa.array([row and row.low_s for row in found], pa.float64()),
        "measured_high_s": pa.array([row and row.high_s for row in found], pa.float64()),
        "measured_peak_allocated_bytes": pa.array([row and row.peak_allocated_bytes for row in found], pa.int64()),
        "measured_on": pa.array([row and row.device for row in found], pa.string()),
    }
    assert set(values) == set(MEASURED_COLUMNS)
    return _with_columns(table, values)


def _with_columns(table: "pyarrow.Table", values: Mapping[str, Any]) -> "pyarrow.Table":
    kept = {name: table[name] for name in table.column_names if name not in values}
    return arrow().table({**kept, **values})


def finished(table: "pyarrow.Table") -> "pyarrow.Table":
    """Return rows with all columns of the schema in order, the workload dropped; columns that are missing are null."""
    pa = arrow()
    rows = table.num_rows
    columns = {
        field.name: table[field.name] if field.name in table.column_names else pa.nulls(rows, field.type)
        for field in table_schema()
    }
    return pa.table(columns, schema=table_schema())


def parquet_bytes(table: "pyarrow.Table") -> bytes:
    pa = arrow()
    sink = io.BytesIO()
    try:
        pa.parquet.write_table(table, sink, compression="zstd", row_group_size=_ROWS_PER_GROUP)
    except pa.ArrowException as error:
        reason = " ".join(str(error).split())[:200]
        raise UsageError(f"the answer cannot be written as Parquet ({reason}); choose other columns.") from error
    return sink.getvalue()


def parquet_without_rows(meta: Mapping[str, str]) -> bytes:
    """Return a Parquet file of the table's columns without rows, which holds texts by name in its metadata."""
    schema = table_schema()
    return parquet_bytes(schema.empty_table().replace_schema_metadata({**(schema.metadata or {}), **meta}))


def meta_of_parquet(path: Path) -> Mapping[str, str]:
    """Return the texts in the metadata of a Parquet file; none where it is damaged."""
    pa = arrow()
    try:
        found = pa.parquet.read_schema(path).metadata or {}
    except (OSError, pa.ArrowException, UnicodeDecodeError):
        return {}
    return {key.decode("utf-8", "replace"): value.decode("utf-8", "replace") for key, value in found.items()}


def in_order(table: "pyarrow.Table") -> "pyarrow.Table":
    """Return rows ordered by model, GPU and batch, so that equal contents are equal files."""
    keys = [("model", "ascending"), ("gpu", "ascending"), ("batch", "ascending")]
    return table.take(arrow().compute.sort_indices(table, sort_keys=keys))


def read_parquet(path: Path, *, columns: Sequence[str] | None = None, workload: str | None = None) -> "pyarrow.Table":
    """Read one file of the table, with its workload as a column where one is given."""
    pa = arrow()
    names = table_schema().names if columns is None else list(columns)
    with refused_if_damaged(path):
        there = set(pa.parquet.read_schema(path).names)
        table = pa.parquet.read_table(path, columns=[name for name in names if name in there], partitioning=None)
    for name in names:
        if name not in there:
            table = table.append_column(name, pa.nulls(table.num_rows, table_schema().field(name).type))
    table = table.select(names)
    if workload is None:
        return table
    return table.append_column(WORKLOAD, pa.array([workload] * table.num_rows, pa.string()))


def dataset(folder: Path, files: Sequence[Path]) -> Any:
    """Return the rows of several files of the table as a dataset that is read as it is asked, its workload a column.

    Columns of the schema that an older capplan did not write are null.
    """
    pa = arrow()
    partition = pa.dataset.partitioning(pa.schema([pa.field(WORKLOAD, pa.string())]), flavor="hive")
    with refused_if_damaged(folder):
        written = [pa.parquet.read_schema(path) for path in files]
        schema = pa.unify_schemas([pa.schema([(WORKLOAD, pa.string())]), *written, table_schema()])
        places = [str(path.resolve()) for path in files]
        return pa.dataset.dataset(
            places, schema=schema, format="parquet", partitioning=partition, partition_base_dir=str(folder.resolve())
        )


@contextmanager
def refused_if_damaged(folder: Path) -> Iterator[None]:
    """Refuse the rows of a folder, or of one file, in a sentence where pyarrow cannot read them."""
    try:
        yield
    except (OSError, arrow().ArrowException, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())[:150]
        raise UsageError(
            f"{folder}: its rows cannot be read ({reason}); let `capplan sweep` write them again."
        ) from error


def read_planned(path: Path, *, workload: str) -> "pyarrow.Table":
    """Read what the planning stage computed of one file of the table, as `planned_table` makes it."""
    names = [planned_column.name for planned_column in PLANNED_COLUMNS]
    return read_parquet(path, columns=names, workload=workload).select([WORKLOAD, *names])


def keep_rows(table: "pyarrow.Table", workload: str, *, models: Iterable[str], gpus: Iterable[str]) -> "pyarrow.Table":
    pa = arrow()
    pc = pa.compute
    of_models = pc.is_in(table["model"], pa.array(list(models), pa.string()))
    of_gpus = pc.is_in(table["gpu"], pa.array(list(gpus), pa.string()))
    of_workload = pc.equal(table[WORKLOAD], workload)
    return table.filter(pc.and_(of_workload, pc.and_(of_models, of_gpus)))


def unfinished_rows(planned: Sequence["pyarrow.Table"]) -> "pyarrow.Table | None":
    """Return the rows of finished models that no file holds yet, without prices; None where there are none."""
    made = [finished(rows).add_column(0, WORKLOAD, rows[WORKLOAD]) for rows in planned]
    return join_tables(made) if made else None


def texts_to_bytes(rows: Sequence[Mapping[str, str | None]], columns: Sequence[str]) -> bytes:
    pa = arrow()
    return to_bytes(pa.table({name: pa.array([row[name] for row in rows], pa.string()) for name in columns}))


def joined_or_empty(parts: Sequence["pyarrow.Table"], columns: Sequence[str]) -> "pyarrow.Table":
    """Return the rows of several tables with these columns in order; without a table, no rows of the right types."""
    pa = arrow()
    if parts:
        return join_tables([part.select(list(columns)) for part in parts])
    schema = pa.schema([pa.field(WORKLOAD, pa.string()), *table_schema()])
    return schema.empty_table().select(list(columns))


def plain_rows(table: "pyarrow.Table") -> list[tuple[object, ...]]:
    """Return the rows of a query's answer as texts, numbers, booleans and None; any other value becomes its text."""
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            columns.append([_plain(value) for value in column.to_pylist()])
        except (arrow().ArrowException, ValueError, OverflowError, ImportError) as error:
            reason = " ".join(str(error).split())[:120]
            raise UsageError(
                f"column {name!r} of type {str(column.type)[:60]} cannot be shown ({reason}); cast it to text."
            ) from error
    return list(zip(*columns, strict=True)) if columns else []


def _plain(value: object) -> object:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int | bool):
        return value
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return str(value)
