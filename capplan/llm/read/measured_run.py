"""Read one measured run of a deployment: benchmark results of vLLM and SGLang, genai-perf, or rows of a serving CSV."""

import csv
from collections.abc import Mapping
from pathlib import Path
from statistics import pstdev
from typing import Any

from capplan.errors import SpecError, UsageError
from capplan.files import read_file
from capplan.llm.core.memory_fit import StartupLog
from capplan.llm.core.serving.cases import MeasuredRun, Metric, Serving
from capplan.llm.read.catalogue import find_in_catalogue
from capplan.llm.read.serving_rows import REQUIRED, read_serving
from capplan.strict_json import GZIP_MAGIC, LARGEST_TEXT_BYTES, JsonError, read_json
from capplan.tables import read_rows

_FORMS = "vLLM, SGLang, guidellm or llama-bench JSON, genai-perf CSV, or a CSV with the columns " + ", ".join(REQUIRED)
_LATENCY, _THROUGHPUT = "request latency", "request throughput"


def read_measured_run(path: Path) -> tuple[MeasuredRun, ...]:
    """Read the measured runs of a file; the model and GPU are empty where the file does not name the deployment.

    Args:
        path: Benchmark JSON or JSON lines of vLLM or SGLang, a CSV of genai-perf, or a CSV of serving runs.

    Raises:
        UsageError: The file cannot be read, or is in none of these forms.
    """
    try:
        content = read_file(path, at_most=LARGEST_TEXT_BYTES)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}.") from error
    if content[:2] == GZIP_MAGIC:
        return _serving_runs(path)
    text = content.decode("utf-8-sig", errors="replace")
    if text.lstrip()[:1] in ("{", "["):
        try:
            whole = read_json(text, allow_infinite=True)  # SGLang writes the request rate Infinity
        except JsonError:
            try:
                whole = [read_json(line, allow_infinite=True) for line in text.splitlines() if line.strip()]
            except JsonError as error:
                raise UsageError(f"{path} {error}.") from error
        documents = whole if isinstance(whole, list) else [whole]
        if not documents or not all(isinstance(document, dict) for document in documents):
            raise UsageError(f"{path} holds no benchmark result; expected {_FORMS}.")
        if isinstance(found := documents[0].get("benchmarks"), list):
            return tuple(_guidellm_run(item, path, line) for line, item in enumerate(found, 1))
        if "avg_ts" in documents[0]:
            return tuple(_llama_bench_run(document, path, line) for line, document in enumerate(documents, 1))
        return tuple(_benchmark_run(document, path, line) for line, document in enumerate(documents, 1))
    if text.lstrip().startswith("Metric"):
        return (_genai_run(text, path),)
    return _serving_runs(path)


def _serving_runs(path: Path) -> tuple[MeasuredRun, ...]:
    found = read_serving(path)
    if not found.runs:
        reason = found.skipped[0].reason if found.skipped else "it has no rows"
        raise UsageError(f"{path} holds no measured run: {reason}.")
    return found.runs


def _number(document: Mapping[str, Any], name: str) -> float | None:
    value = document.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1e-9 < value < 1e15:
        return None
    return float(value)


def _needed(document: Mapping[str, Any], name: str, path: Path) -> float:
    value = _number(document, name)
    if value is None:
        raise UsageError(f"{path} lacks {name}; expected {_FORMS}.")
    return value


def _benchmark_run(document: Mapping[str, Any], path: Path, line: int) -> MeasuredRun:
    """Read one result of `vllm bench serve --save-result` or `sglang.bench_serving --output-file`."""
    completed = _needed(document, "completed", path)
    rate = _number(document, "request_rate")
    clients = _number(document, "max_concurrency")
    if clients is None and rate is None:
        clients = completed  # every request was sent at once
    values: dict[Metric, float] = {}
    for metric, name, scale in (
        (Metric.TTFT, "mean_ttft_ms", 1e-3),
        (Metric.TPOT, "mean_tpot_ms", 1e-3),
        (Metric.OUTPUT_TOKENS_PER_S, "output_throughput", 1.0),
    ):
        value = _number(document, name)
        if value is not None:
            values[metric] = value * scale
    if not values:
        raise UsageError(f"{path} lacks mean_ttft_ms, mean_tpot_ms and output_throughput; expected {_FORMS}.")
    # The deviation ÷ mean of the answers, which `--save-detailed` lists (its key from memory); 0 without.
    stated = document.get("output_lens")
    lengths = [length for length in stated if type(length) is int] if isinstance(stated, list) else []
    mean = sum(lengths) / max(len(lengths), 1)
    variation = pstdev(lengths) / mean if mean > 0 else 0.0
    return _run(
        path,
        line,
        input_len=_needed(document, "total_input_tokens", path) / completed,
        output_len=_needed(document, "total_output_tokens", path) / completed,
        clients=clients,
        rate_per_s=rate if clients is None else None,
        values=values,
        requests=completed,
        cv=variation,
    )


def _guidellm_run(document: Any, path: Path, line: int) -> MeasuredRun:
    """Read one benchmark of guidellm's report: means of the requests that succeeded.

    Names by its `metrics` object (guidellm 0.3 to 0.7; in part from memory).
    """
    metrics = document.get("metrics") if isinstance(document, dict) else None
    means: dict[str, float] = {}
    for name, parts in (metrics if isinstance(metrics, dict) else {}).items():
        done = parts.get("successful") if isinstance(parts, dict) else None
        mean = _number(done, "mean") if isinstance(done, dict) else None
        if mean is not None:
            means[name] = mean
    values = {
        metric: means[name] * scale
        for metric, name, scale in (
            (Metric.TTFT, "time_to_first_token_ms", 1e-3),
            (Metric.TPOT, "inter_token_latency_ms", 1e-3),
            (Metric.OUTPUT_TOKENS_PER_S, "output_tokens_per_second", 1.0),
        )
        if name in means
    }
    return _run(
        path,
        line,
        input_len=_needed(means, "prompt_token_count", path),
        output_len=_needed(means, "output_token_count", path),
        clients=max(1.0, round(_needed(means, "request_concurrency", path))),
        rate_per_s=None,
        values=values,
    )


def _llama_bench_run(document: Mapping[str, Any], path: Path, line: int) -> MeasuredRun:
    """Read one test of `llama-bench -o json`: a prompt alone (n_prompt), or an answer alone (n_gen), of one sequence.

    Names by llama.cpp's tools/llama-bench (looked up on 2026-11-27); `n_depth` are tokens that are in the cache before.
    """
    rate = _needed(document, "avg_ts", path)
    prompt, answer = _number(document, "n_prompt") or 0.0, _number(document, "n_gen") or 0.0
    if bool(prompt) == bool(answer):
        raise UsageError(f"{path}, test {line}: has a prompt and an answer; run llama-bench with -p and -n apart.")
    values = {Metric.TTFT: prompt / rate} if prompt else {Metric.TPOT: 1 / rate}
    depth = _number(document, "n_depth") or 0.0
    return _run(
        path, line, input_len=max(1.0, prompt + depth), output_len=max(2.0, answer), clients=1.0, rate_per_s=None,
        values=values,
    )  # fmt: skip


def _run(path: Path, line: int, *, clients: float | None, **given: Any) -> MeasuredRun:
    serving = Serving.CLOSED_LOOP if clients else Serving.OPEN_LOAD
    return MeasuredRun(serving=serving, clients=clients, quality="A", file=path.name, line=line, **given)


def _genai_run(text: str, path: Path) -> MeasuredRun:
    """Read the CSV that genai-perf exports: a table of averages, then a table of single values."""
    averages: dict[str, float] = {}
    for row in csv.reader(text.splitlines()):
        if len(row) >= 2 and row[0] != "Metric":
            name = row[0].partition("(")[0].strip().lower()
            try:
                averages[name] = float(row[1].replace(",", ""))
            except ValueError:
                continue
    input_len = _needed(averages, "input sequence length", path)
    output_len = _needed(averages, "output sequence length", path)
    latency_s = _needed(averages, _LATENCY, path) / 1000
    rate = _needed(averages, _THROUGHPUT, path)
    values = {Metric.OUTPUT_TOKENS_PER_S: rate * output_len}
    if ttft := _number(averages, "time to first token"):
        values[Metric.TTFT] = ttft / 1000
    if itl := _number(averages, "inter token latency"):
        values[Metric.TPOT] = itl / 1000
    clients = max(1.0, round(rate * latency_s))  # Little's law: the file does not state the concurrency
    return _run(path, 1, input_len=input_len, output_len=output_len, clients=clients, rate_per_s=None, values=values)


LOG_COLUMNS = ("model", "tp", "pp", "activation_memory_gib", "non_torch_forward_gib")
_ELEMENT_BYTES = {"torch.float32": 4, "float32": 4}


def read_startup_logs(path: Path) -> tuple[list[StartupLog], dict[str, int]]:
    """Return the logs whose models the catalogue knows, and how many rows of each unknown model were left out.

    Args:
        path: A CSV with the columns model, tp, pp, activation_memory_gib and non_torch_forward_gib, and perhaps
            dtype, cuda_graph_actual_gib, max_num_batched_tokens (8192 by default) and max_num_seqs (1024).

    Raises:
        UsageError: The file cannot be read or lacks a column.
    """
    logs: list[StartupLog] = []
    unknown: dict[str, int] = {}
    for line, row in enumerate(read_rows(path, required=LOG_COLUMNS, what="a table of start-up logs"), start=2):
        model = find_in_catalogue(row["model"])
        if model is None:
            unknown[row["model"]] = unknown.get(row["model"], 0) + 1
            continue
        try:
            logs.append(
                StartupLog(
                    architecture=model.architecture,
                    tensor=_whole(row, "tp"),
                    pipeline=_whole(row, "pp"),
                    element_bytes=_ELEMENT_BYTES.get(row.get("dtype", ""), 2),
                    max_sequences=_whole(row, "max_num_seqs", 1024),
                    batched_tokens=_whole(row, "max_num_batched_tokens", 8192),
                    activation_bytes=_gib(row["activation_memory_gib"]),
                    other_bytes=_gib(row["non_torch_forward_gib"]),
                    graph_bytes=_gib(row["cuda_graph_actual_gib"]) if row.get("cuda_graph_actual_gib") else None,
                )
            )
        except ValueError as error:
            raise SpecError(f"{path}, line {line}: {error}.") from error
    return logs, unknown


def _whole(row: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = (row.get(name) or "").strip() or ("" if default is None else str(default))
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:20]) <= 10**8:
        raise ValueError(f"{name} is {text!r}, which is not a whole number of at least 1")
    return int(text)


def _gib(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1e6:
        raise ValueError(f"{text!r} is not a size in GiB")
    return value * 2**30
