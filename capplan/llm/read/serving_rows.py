"""Read measured serving runs, one a row, and their energy: CSV files, plain or compressed, and ML.ENERGY's."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path

from capplan.llm.core.engines import parse_version, version_of
from capplan.llm.core.serving.asked import Sampling
from capplan.llm.core.serving.cases import MeasuredRun, Metric, Serving
from capplan.llm.core.serving.energy import MeasuredEnergy
from capplan.llm.core.sharding import Sharding
from capplan.llm.read.run_rows import RunFile, number, read_runs
from capplan.specs.fitted import load_power_law
from capplan.tables import UnreadableRowError, columns_of

REQUIRED = ("model", "gpu", "engine", "input_len", "output_len")
_LOG_NORMAL = re.compile(r"log-normal\s+([\d.]+)")
_UNIFORM = re.compile(r"uniform\s+([\d.]+)\s*\.\.\s*([\d.]+)")
Row = dict[str, object]
"""A run by column."""
_number = partial(number, unlimited=("inf", "infinity"))
_UNSTATED = {"auto", "unknown", "none", "null", "nan", "n/a", "-"}
"""Words that other tools write for a format that the engine chose."""


def read_serving(path: Path) -> RunFile[MeasuredRun]:
    """Read the measured runs of a CSV file.

    A run without a version of its engine has that of its source, where this states one alone for that engine.

    Args:
        path: A CSV, plain or gzip-compressed, with the columns model, gpu, engine, input_len, output_len, and
            others such as tp, concurrency, weights, ttft_ms, tpot_ms and output_tokens_per_s, power_w and
            joules_per_output_token; or a table of the ML.ENERGY benchmark, whose prompts are assumed by task.

    Raises:
        UsageError: The file cannot be read or lacks a column.
    """
    prompts = load_power_law().task_prompts if columns_of(path) >= ENERGY_COLUMNS else None
    sources: dict[int, tuple[str, str]] = {}
    stated: dict[tuple[str, str], set[str]] = {}

    def parsed(row: Mapping[str, str], line: int) -> MeasuredRun:
        run = parse_run(row if prompts is None else as_serving_row(row, prompts), file=path.name, line=line)
        sources[line] = row.get("source", "").partition(":")[0], run.engine
        stated.setdefault(sources[line], set()).update({run.version} - {""})
        return run

    required = REQUIRED if prompts is None else ()
    found = read_runs(path, parsed, required=required, what="a table of serving runs")

    def with_version(run: MeasuredRun) -> MeasuredRun:
        source = sources[run.line]
        only = stated[source] if source[0] and not run.version else set()
        return replace(run, version=next(iter(only))) if len(only) == 1 else run

    return replace(found, runs=tuple(with_version(run) for run in found.runs))


def parse_run(row: Mapping[str, str], *, file: str, line: int) -> MeasuredRun:
    """Read one run from its columns.

    Raises:
        ValueError: A value is missing or wrong; the text says which.
    """
    sharding = Sharding(
        tensor=_count(row, "tp"), pipeline=_count(row, "pp"), expert=_count(row, "ep"), data=_count(row, "dp")
    )
    mean, spread, cv = _lengths(row.get("lengths", ""))
    clients = _number(row, "concurrency")
    if clients is not None and clients < 1:
        raise UnreadableRowError(f"concurrency is {clients:g}; write 1 or more clients, or inf")
    rate_per_s = _number(row, "request_rate")
    serving = _serving(row, clients=clients, rate_per_s=rate_per_s)
    energy = measured_energy({name: _number(row, name) for name in METER_COLUMNS}, task=row.get("task", ""))
    values = _values(row) if energy is None or energy.is_timed else {}
    if serving is Serving.CLOSED_LOOP and clients and _counts_decoding_alone(values, clients, row):
        del values[Metric.OUTPUT_TOKENS_PER_S]
    if not values and energy is None:
        raise UnreadableRowError("nothing was measured: ttft_ms, tpot_ms and output_tokens_per_s are empty")
    noted = _POWER_LIMIT.search(row.get("note", ""))
    sampling = row.get("sampling", "") or Sampling.GREEDY.value
    if sampling not in tuple(Sampling):
        raise UnreadableRowError(f"sampling is {sampling!r}; known are {', '.join(Sampling)}")
    return MeasuredRun(
        model=row.get("model", ""),
        gpu=row.get("gpu", ""),
        engine=row.get("engine", "").lower(),
        version=row.get("version", ""),
        weights=_format(row, "weights"),
        kv=_format(row, "kv"),
        sharding=sharding,
        replicas=_replicas(row, sharding),
        input_len=_positive(row, "input_len") * mean,
        output_len=_positive(row, "output_len") * mean,
        spread=spread,
        cv=cv,
        serving=serving,
        clients=clients,
        rate_per_s=rate_per_s,
        requests=_requests(row, serving),
        values=values,
        energy=energy,
        sampling=Sampling(sampling),
        quality=row.get("quality", "") or "B",
        publisher=publisher(row),
        year=_year(row),
        receive_interval=_receive_interval(row),
        power_limit_w=_number(row, "power_limit_w") or (float(noted[1]) if noted else None),
        speculation=_format(row, "speculation"),
        file=file,
        line=line,
    )


def rows_text(rows: Sequence[Row]) -> str:
    """Return rows as a CSV that `read_serving` reads."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def row_of(run: MeasuredRun, *, source: str) -> Row:
    """Return a run by column; `source` is where it was measured."""
    cells = {name: read(run) for name, read in _COLUMNS.items()}
    return {name: f"{cell:.6g}" if type(cell) is float else cell for name, cell in cells.items()} | {"source": source}


_COLUMNS: Mapping[str, Callable[[MeasuredRun], object]] = {
    **{name: attrgetter(name) for name in ("model", "gpu", "engine", "version", "speculation")},
    "tp": attrgetter("sharding.tensor"), "pp": attrgetter("sharding.pipeline"), "ep": attrgetter("sharding.expert"),
    "dp": attrgetter("sharding.data"),
    **{name: attrgetter(name) for name in ("weights", "kv", "input_len", "output_len")},
    "concurrency": attrgetter("clients"), "request_rate": attrgetter("rate_per_s"),
    "ttft_ms": lambda run: _in_ms(run, Metric.TTFT), "tpot_ms": lambda run: _in_ms(run, Metric.TPOT),
    "output_tokens_per_s": lambda run: run.values.get(Metric.OUTPUT_TOKENS_PER_S),
    "quality": attrgetter("quality"),
}  # fmt: skip
"""The columns that are written of a run, which are those that `parse_run` reads; what is not known is empty."""


def _in_ms(run: MeasuredRun, metric: Metric) -> float | None:
    return None if metric not in run.values else run.values[metric] * 1000


def _format(row: Mapping[str, str], name: str) -> str:
    """Return a format as the row states it, empty where it does not."""
    text = row.get(name, "")
    return "" if text.lower() in _UNSTATED else text


_PUBLISHERS = re.compile(r"InferenceX|NVIDIA gap analysis|TensorRT-LLM docs|MLPerf|^[\w.-]+/[\w.-]+")
_DATE = re.compile(r"(?<!\d)(20\d\d)[-_.]\d\d(?!\d)")
_FIRST_OF_YEAR: Mapping[str, Mapping[int, str]] = {
    "vllm": {2026: "0.14", 2025: "0.7", 2024: "0.3"},
    "sglang": {2026: "0.5.7", 2025: "0.4.2", 2024: "0.1.6"},
    "trtllm": {2026: "1.2", 2025: "0.17", 2024: "0.8"},
}
"""First releases of a year by engine; quoted from memory, and used for splits by year alone."""


def publisher(row: Mapping[str, str]) -> str:
    """Return who published a run: a benchmark, a tool's documentation, or a repository."""
    source = row.get("source", "")
    found = _PUBLISHERS.search(source)
    return found[0] if found else source


def _year(row: Mapping[str, str]) -> int | None:
    """Return the year of a run by the date that its source or note states, else by the engine's release."""
    if found := _DATE.search(f"{row.get('source', '')} {row.get('note', '')} {row.get('version', '')}"):
        return int(found[1])
    version = version_of(row.get("version", ""))
    firsts = _FIRST_OF_YEAR.get(row.get("engine", "").lower(), {})
    return (
        None
        if version is None
        else next((year for year, text in firsts.items() if version >= parse_version(text)), None)
    )


def _receive_interval(row: Mapping[str, str]) -> int | None:
    """Return how often an engine looks for requests, as the row or its script states it; None for the engine's default.

    InferenceX's scripts of DeepSeek-R1 on B200 and B300 set `--scheduler-recv-interval` to 10 steps, and to 30 from 16
    clients on (benchmarks/dsr1_fp4_b200_docker.sh and dsr1_fp8_b200_docker.sh, read 2026-11-27 in a copy of
    InferenceMAX); those of other GPUs set nothing.
    """
    if stated := _number(row, "receive_interval"):
        return int(stated)
    clients = _number(row, "concurrency")
    is_script = publisher(row) == "InferenceX" and row.get("engine", "").lower() == "sglang"
    if not is_script or clients is None or not row.get("model", "").startswith("deepseek-r1"):
        return None
    if not row.get("gpu", "").startswith(("b200", "b300")):
        return None
    return 30 if clients >= _MANY_CLIENTS else 10


_MANY_CLIENTS = 16
_POWER_LIMIT = re.compile(r"\bpower limit (\d+(?:\.\d+)?) W\b")


def _positive(row: Mapping[str, str], name: str) -> float:
    value = _number(row, name)
    if not value:
        raise UnreadableRowError(f"{name} is {row.get(name) or 'empty'}; write the mean number of tokens")
    return value


def _count(row: Mapping[str, str], name: str) -> int:
    value = _number(row, name)
    if value is None:
        return 1
    if value < 1 or value != int(value):
        raise UnreadableRowError(f"{name} is {row[name]}, which is not a number of GPUs")
    return int(value)


_NOTED_GPUS = re.compile(r"\b(\d+) ?x ?(?=[A-Za-z]{1,3}\d{2,4})")


def _replicas(row: Mapping[str, str], sharding: Sharding) -> int:
    gpus, noted = _number(row, "gpus"), _NOTED_GPUS.search(row.get("note", ""))
    if gpus is None:
        return 1
    if noted and int(noted[1]) != gpus:
        raise UnreadableRowError(f"its note names {noted[1]} GPUs and its column {gpus:g}; which ran is not known")
    if gpus < sharding.gpus or gpus % sharding.gpus:
        raise UnreadableRowError(f"{gpus:g} GPUs are not a multiple of tp·pp·dp = {sharding.gpus}")
    return int(gpus) // sharding.gpus


def _lengths(text: str) -> tuple[float, float, float]:
    """Return the mean of the drawn lengths as a share of what is printed, their relative half-width, and their cv."""
    if found := _LOG_NORMAL.fullmatch(text.strip()):
        return 1.0, 0.0, float(found[1])
    if (found := _UNIFORM.fullmatch(text.strip())) is None:
        return 1.0, 0.0, 0.0
    low, high = float(found[1]), float(found[2])
    if not 0 < low <= high:
        raise UnreadableRowError(f"lengths is {text!r}; write uniform LOW..HIGH with 0 < LOW ≤ HIGH")
    return (low + high) / 2, (high - low) / (low + high), 0.0


def _requests(row: Mapping[str, str], serving: Serving) -> float | None:
    """Return the requests of a run: those stated, those of a burst, or those that its source used offline."""
    stated = _number(row, "requests")
    if stated is not None and stated < 1:
        raise UnreadableRowError(f"requests is {stated:g}; write how many requests the run had, 1 or more")
    clients = _number(row, "concurrency")
    if not stated and serving is Serving.CLOSED_LOOP and clients and clients > 1 and _BURST.search(row.get("note", "")):
        return clients
    if stated or serving is not Serving.OFFLINE:
        return stated
    lengths = (_positive(row, "input_len"), _positive(row, "output_len"))
    return _TENSORRT_LLM_REQUESTS.get(lengths) if row.get("source", "").startswith(_TENSORRT_LLM) else None


_BURST = re.compile(r"\bbursts of c requests\b|\bburst: ")
"""A note that each client sent one request, all at once, as llama-benchy does: no prompt follows to delay an answer."""


def _serving(row: Mapping[str, str], *, clients: float | None, rate_per_s: float | None) -> Serving:
    word = row.get("serving", "") or "online"
    if word == "fixed_batch":
        return Serving.FIXED_BATCH
    if rate_per_s:
        return Serving.OPEN_LOAD
    if word == "offline" or clients is None:
        return Serving.OFFLINE
    if word == "steady":
        return Serving.STEADY
    if word != "online":
        raise UnreadableRowError(f"serving is {word!r}; known are online, offline, steady and fixed_batch")
    return Serving.CLOSED_LOOP


def _values(row: Mapping[str, str]) -> dict[Metric, float]:
    found: dict[Metric, float] = {}
    for metric, names in ((Metric.TTFT, ("ttft_ms",)), (Metric.TPOT, ("tpot_ms", "itl_ms"))):
        values: Iterable[float] = (value for name in names if (value := _number(row, name)))
        if (first := next(iter(values), None)) is not None:
            found[metric] = first / 1000
    if rate := _number(row, "output_tokens_per_s"):
        found[Metric.OUTPUT_TOKENS_PER_S] = rate
    return found


def _counts_decoding_alone(values: Mapping[Metric, float], clients: float, row: Mapping[str, str]) -> bool:
    """Return True if clients that wait for answers cannot get so many tokens per second, by the times of the same row.

    By Little's law they get clients · answer ÷ (TTFT + (answer − 1) · TPOT). A rate a tenth above that leaves the
    prompts out, as tools that print the speed of decoding do.
    """
    if len(values) < len(Metric):
        return False
    answer = _positive(row, "output_len")
    whole_s = values[Metric.TTFT] + (answer - 1.0) * values[Metric.TPOT]
    return values[Metric.OUTPUT_TOKENS_PER_S] * whole_s > _MOST_ABOVE * clients * answer


_MOST_ABOVE = 1.1
_TENSORRT_LLM = "TensorRT-LLM docs"
_TENSORRT_LLM_REQUESTS: dict[tuple[float, float], float] = {
    (128, 128): 30_000, (128, 2048): 3_000, (128, 4096): 1_500, (500, 2000): 3_000, (1000, 1000): 3_000,
    (1000, 2000): 1_500, (2048, 128): 3_000, (2048, 2048): 1_500, (5000, 500): 1_500, (20000, 2000): 1_000,
    (1024, 1024): 3_000, (8192, 1024): 1_500, (1024, 8192): 1_500, (32768, 1024): 1_000, (1024, 32768): 1_000,
}  # fmt: skip
"""Requests of an offline run by prompt and answer [tokens], from the section on preparing a data set of
TensorRT-LLM's performance overview; the last row is that of the page since 1.2 (NVIDIA/TensorRT-LLM@03e27c7d), the
others are quoted from memory, not read again."""


ENERGY_COLUMNS = frozenset({"model", "gpu", "engine", "task", "max_num_seqs", "avg_batch", "avg_output_tokens", "gpus"})
"""The columns that a table of the ML.ENERGY benchmark has and a table of serving runs has not."""
_VERSION = "0.11"
"""The rows state no version of vLLM. They were published before 0.14, in the months of 0.11."""
_PLAIN_SAMPLING = "openai/gpt-oss"
"""Models whose published generation settings neither cut the likely tokens off nor count them (top-p, top-k)."""
_MOST_STEPS_WITH_PROMPTS = 0.5
"""Share of steps with prompts up to which the median gap between tokens is a step without any."""
_FEW_STEPS_WITH_PROMPTS = 0.1
"""Share of steps with prompts up to which the 90th percentile of the gaps is that of a step without any, too."""
_MOST_UNEVEN = 1.25
"""Ratio of the 90th percentile of these gaps to their median from which on something else than the GPU delays steps.

With as few prompts it is 1.0 to 1.26 in the 92 rows of H100, and above 1.25 in one; in 56 of the 103 rows of B200 it is
above, up to 2.6. Those hold the steps of 17 to 44 ms with 8 sequences that all models take on GPQA, 8 to 32 billion
parameters alike, while the GPU draws a third of its power: the host did not keep up."""
METER_COLUMNS = (
    "power_w", "power_w_all_gpus", "joules_per_output_token", "joule_per_output_token", "avg_batch",
    "output_tokens_per_s",
)  # fmt: skip
"""Power and energy of all GPUs under either name, and the batch and rate that they were read at."""


def measured_energy(row: Mapping[str, float | None], *, task: str) -> MeasuredEnergy | None:
    """Return what a power meter read during a run; None where the row states no power and no energy.

    Args:
        row: Numbers of `METER_COLUMNS`: power of all GPUs [W], energy of an output token [J], running sequences,
            output [1/s].
        task: What the requests were for, as the ML.ENERGY benchmark names it; empty where requests are known.
    """
    power_w = row["power_w"] or row["power_w_all_gpus"]
    joules = row["joules_per_output_token"] or row["joule_per_output_token"]
    if not power_w and not joules:
        return None
    return MeasuredEnergy(
        power_w=power_w or None,
        joules_per_output_token=joules or None,
        running=row["avg_batch"] or None,
        output_tokens_per_s=row["output_tokens_per_s"] or None,
        task=task,
    )


def as_serving_row(row: Mapping[str, str], prompts: Mapping[str, int]) -> dict[str, str]:
    """Return a row of the ML.ENERGY benchmark in the columns of a table of serving runs.

    Its runs keep a replica full of `max_num_seqs` requests, of which `avg_batch` run on average. Their median time
    between tokens is that of a step without prompts, unless most steps hold one, or the gaps are uneven without them.
    Tensor and expert parallelism share the same GPUs; the table states the latter alone where experts are spread.

    Args:
        row: Text by column.
        prompts: Mean tokens of a prompt by task, which the table does not state.

    Raises:
        ValueError: A number of GPUs is not one.
    """
    gpus, ranks = int(row["gpus"]), int(row.get("dp", "") or 1)
    with_prompts = float(row["avg_batch"]) / float(row["avg_output_tokens"])
    uneven = float(row.get("itl_p90_ms", "") or 0.0) > _MOST_UNEVEN * float(row.get("itl_median_ms", "") or 1.0)
    is_step = with_prompts < _MOST_STEPS_WITH_PROMPTS and not (uneven and with_prompts < _FEW_STEPS_WITH_PROMPTS)
    return {
        **row,
        "tp": str(max(1, gpus // ranks)),
        "weights": "",  # the model's own, which its name says
        "version": row.get("version", "") or _VERSION,
        "source": row.get("source", "") or "ML.ENERGY",
        "serving": "steady",
        "sampling": "greedy" if row["model"].startswith(_PLAIN_SAMPLING) else "filtered",
        "concurrency": row["avg_batch"],
        "tpot_ms": row.get("itl_median_ms", "") if is_step else "",
        "output_len": row["avg_output_tokens"],
        "input_len": row.get("input_len", "") or str(prompts.get(row["task"], "")),
    }
