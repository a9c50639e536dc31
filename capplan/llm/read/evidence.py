"""Read measured runs of served models that others publish or a team has made, and keep them as tables of rows."""

import json
import lzma
import os
import re
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from capplan.errors import SpecError, UsageError
from capplan.files import data_folder, open_archive, open_file
from capplan.llm.core.serving.cases import MeasuredRun
from capplan.llm.read.measured_run import read_measured_run
from capplan.llm.read.serving_rows import Row, row_of
from capplan.specs.folders import built_in_folder
from capplan.specs.strict_yaml import read_yaml
from capplan.tables import UnreadableRowError

SOURCE_VARIABLE = "CAPPLAN_EVIDENCE"
_TABLES = ("configs", "workflow_runs", "benchmark_results")
_LONGEST_ROW = 1 << 20
_MOST_BYTES = 16 << 30
_KEPT_OF_RESULT = ("workflow_run_id", "config_id", "date", "isl", "osl", "conc", "image", "metrics", "error")
_VERSION = re.compile(r"(?:vllm|sglang|release)[\w-]*?[_:-]v?(\d+\.\d+(?:\.\d+)?(?:\.?(?:rc|post|dev)\d+)*)")
"""The release in the name of an engine's image, such as lmsysorg/sglang:v0.5.9-cu130."""
_RESULTS = (".json", ".jsonl", ".csv")

UNREADABLE = (lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile)
Tables = Iterable[tuple[str, BinaryIO]]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceSource:
    """Where evidence is published, and what its names stand for, as `gpu_specs/sources/evidence.yaml` explains."""

    id: str
    title: str
    url: str
    tag: str
    licence: str
    documentation: str
    lengths: str
    at_most: int
    models: Mapping[str, Mapping[str, str]]
    gpus: Mapping[str, Mapping[str, str]]
    engines: Mapping[str, str]
    formats: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceTable:
    """Rows of a table of serving runs, and how many were left out for each reason."""

    name: str
    rows: Sequence[Row]
    left_out: Counter[str]


def load_evidence_source() -> EvidenceSource:
    """Load the source that CAPPLAN_EVIDENCE names, else the built-in one.

    Raises:
        SpecError: the file is refused.
    """
    named = os.environ.get(SOURCE_VARIABLE)
    path = Path(named) if named else built_in_folder() / "sources" / "evidence.yaml"
    try:
        return EvidenceSource(**read_yaml(path, shown=str(path)))
    except TypeError as error:
        raise SpecError(f"{path}: its keys are not those of the built-in evidence.yaml ({error}).") from error


def evidence_files() -> tuple[Path, ...]:
    """Return the tables of evidence in the user's data folder.

    Raises:
        UsageError: there is none.
    """
    found = tuple(sorted(evidence_folder().glob("*.csv")))
    if not found:
        raise UsageError(f"{evidence_folder()} holds no evidence; `capplan llm evidence update` brings it.")
    return found


def evidence_folder() -> Path:
    """Return where evidence lies."""
    return data_folder() / "evidence"


def is_dump(path: Path) -> bool:
    """Return True for an archive, and for a folder that holds the tables of a database."""
    return path.suffix in (".zip", ".xz") or (path / f"{_TABLES[-1]}.json").is_file()


def read_dump(path: Path, source: EvidenceSource, *, name: str = "") -> EvidenceTable:
    """Read a dump of the database: its folder, a .zip, or a .tar.xz; `name` is its name where that is not the file's.

    Raises:
        UsageError: it cannot be read, or is of another form.
    """
    try:
        with ExitStack() as held:
            if path.is_dir():
                tables: Tables = ((table, held.enter_context(open_file(path / f"{table}.json"))) for table in _TABLES)
            elif path.suffix == ".zip":
                archive = held.enter_context(open_archive(path))
                tables = ((PurePosixPath(file).stem, archive.open(file)) for file in archive.namelist())  # type: ignore[misc] # an open member reads bytes
            else:
                tables = tables_in_stream(held.enter_context(open_file(path)))
            return read_tables(tables, source, name=name or path.name)
    except (OSError, EOFError, *UNREADABLE) as error:
        raise UsageError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}.") from error


def tables_in_stream(stream: BinaryIO) -> Iterator[tuple[str, BinaryIO]]:
    """Yield the files of a .tar.xz that is read once, from front to back."""
    with lzma.LZMAFile(stream) as unpacked, tarfile.open(fileobj=unpacked, mode="r|") as archive:
        for member in archive:
            if member.isfile() and (content := archive.extractfile(member)) is not None:
                yield PurePosixPath(member.name).stem, content  # type: ignore[misc] # a member reads bytes


def read_tables(tables: Tables, source: EvidenceSource, *, name: str) -> EvidenceTable:
    """Read the tables of a database until those that tell of runs are known, and join them.

    Of the runs of one deployment and release with the same lengths and clients the newest counts, and of the attempts
    of one run the last.

    Raises:
        UsageError: a table is missing or of another form.
    """
    held: dict[str, list[Any]] = {}
    for table, content in tables:
        if table in _TABLES:
            held[table] = list(_rows(content, table, name))
        if len(held) == len(_TABLES):
            break
    missing = [table for table in _TABLES if table not in held]
    if missing:
        raise UsageError(f"{name}: lacks the table {missing[0]}; expected a dump of {source.title}.")
    try:
        configs = {int(row["id"]): row for row in held["configs"]}
        attempts = {
            int(row["github_run_id"]): row
            for row in sorted(held["workflow_runs"], key=lambda run: int(run["run_attempt"]))
        }
        last = {int(row["id"]) for row in attempts.values()}
        found: dict[tuple[object, ...], Row] = {}
        left_out: Counter[str] = Counter()
        for result in sorted(held["benchmark_results"], key=lambda row: str(row["date"])):
            if result.get("error") is not None or int(result["workflow_run_id"]) not in last:
                continue
            try:
                row = _serving_row(configs[int(result["config_id"])], result, source, name)
            except UnreadableRowError as error:
                left_out[str(error)] += 1
                continue
            found[tuple(result.get(key) for key in ("config_id", "isl", "osl", "conc", "image"))] = row
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{name}: its tables are not those of {source.title}'s database ({error!r:.100}).") from error
    return EvidenceTable(name=name, rows=list(found.values()), left_out=left_out)


def _rows(content: BinaryIO, table: str, name: str) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a table, one a line, without what nobody needs."""
    read = 0
    while line := content.readline(_LONGEST_ROW + 1):
        read += len(line)
        if len(line) > _LONGEST_ROW or read > _MOST_BYTES:
            raise UsageError(f"{name}: a row or all of {table} is longer than is read.")
        text = line.strip().rstrip(b",")
        if text in (b"[", b"]", b"[]", b""):
            continue
        try:
            row = {**json.loads(text)}
        except (ValueError, TypeError, RecursionError) as error:
            raise UsageError(f"{name}: {table} does not hold a row a line ({error!s:.100}).") from error
        yield {key: row.get(key) for key in _KEPT_OF_RESULT} if table == "benchmark_results" else row


def _known(names: Mapping[str, Any], name: str, what: str) -> Any:
    if name not in names:
        raise UnreadableRowError(f"{what} {name!r} is not known")
    return names[name]


def _serving_row(config: Mapping[str, Any], result: Mapping[str, Any], source: EvidenceSource, name: str) -> Row:
    """Return a run as a row of a table of serving runs."""
    if config["disagg"]:
        raise UnreadableRowError("prompts and answers are computed on GPUs apart")
    if result["isl"] is None or result["osl"] is None:
        raise UnreadableRowError("replays traces of agents, whose lengths the table does not state")
    metrics = result["metrics"]
    model, gpu = _known(source.models, config["model"], "model"), _known(source.gpus, config["hardware"], "GPU")
    formats = {**source.formats[gpu["vendor"]], model["own"]: ""}
    tp, pp = int(config["decode_tp"]), int(metrics.get("decode_pp") or 1)
    gpus = tp * pp
    release = _VERSION.search(str(result["image"] or ""))
    known = {key: metrics.get(f"mean_{key}", metrics.get(f"median_{key}")) for key in ("ttft", "tpot")}
    times = {f"{key}_ms": "" if time_s is None else float(time_s) * 1000 for key, time_s in known.items()}
    rate, is_metered = metrics.get("output_tput_per_gpu"), metrics.get("power_valid") == 1
    speculation = "" if config["spec_method"] == "none" else config["spec_method"]
    return {
        "model": model["model"], "gpu": gpu["gpu"], "gpus": gpus,
        "tp": 1 if config["decode_dp_attention"] else tp, "pp": pp, "ep": int(config["decode_ep"]),
        "dp": tp if config["decode_dp_attention"] else 1,
        "engine": _known(source.engines, config["framework"], "engine"), "version": release[1] if release else "",
        "weights": _known(formats, config["precision"], "precision"), "speculation": speculation,
        "input_len": int(result["isl"]), "output_len": int(result["osl"]), "lengths": source.lengths,
        "concurrency": int(result["conc"]), **times,
        "output_tokens_per_s": "" if rate is None else float(rate) * gpus,
        "power_w": metrics.get("avg_total_gpu_power_w", "") if is_metered else "",
        "source": f"{source.title} {name}", "licence": source.licence, "note": f"measured {result['date']!s:.10}",
    }  # fmt: skip


def read_own_results(folder: Path, named: Callable[[MeasuredRun], MeasuredRun]) -> EvidenceTable:
    """Read the benchmark results in a folder and below it, or in one file.

    `named` gives a run of a file that does not name its deployment the names that it was asked with.

    Raises:
        UsageError: no file holds a run that is named.
    """
    files = sorted(path for path in folder.rglob("*") if path.suffix in _RESULTS) if folder.is_dir() else [folder]
    rows: list[Row] = []
    left_out: Counter[str] = Counter()
    for path in files:
        try:
            rows += [row_of(named(run), source=path.name) for run in read_measured_run(path)]
        except (UsageError, SpecError) as error:
            left_out[str(error).replace(str(path), "a file", 1).rstrip(".")] += 1
    if not rows:
        reasons = "; ".join(left_out) or f"it has no {', '.join(_RESULTS)}"
        raise UsageError(f"{folder}: holds no result of a benchmark that could be taken ({reasons:.400}).")
    return EvidenceTable(name=folder.resolve().stem, rows=rows, left_out=left_out)
