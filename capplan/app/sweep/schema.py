"""The columns of a sweep's table: names, types, units and meaning. `docs/sweeps.md` is checked against this list."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from capplan.shapes.plan import FIT
from capplan.shapes.shape import column_name

SCHEMA_VERSION = 1
"""Rises whenever a column is renamed, removed or changes its meaning; a new column alone does not raise it."""


class ColumnType(StrEnum):
    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"


class RowStatus(StrEnum):
    """What a row says: the first three as in a plan; the GPU lacks the number format; or nothing could be computed."""

    FITS = "fits"
    BORDERLINE = "borderline"
    DOES_NOT_FIT = "does not fit"
    UNSUPPORTED = "unsupported"
    FAILED = "failed"


class FailureKind(StrEnum):
    """Why a model has no answer.

    `MODEL`: its words name no model, or it does not take these inputs. `TRACE`: it could not be traced. `RECORDING`:
    the trace file lacks this workload. `CRASH`, `TIMEOUT`, `MEMORY`: its process ended, exceeded the time limit or
    the memory limit. `BUG`: an unexpected error of capplan.
    """

    MODEL = "model"
    TRACE = "trace"
    RECORDING = "recording"
    CRASH = "crash"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    BUG = "bug"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepColumn:
    """One column of the table. `unit` is empty for words, counts and ratios."""

    name: str
    kind: ColumnType
    meaning: str
    unit: str = ""


def _text(name: str, meaning: str) -> SweepColumn:
    return SweepColumn(name=name, kind=ColumnType.TEXT, meaning=meaning)


def _integer(name: str, meaning: str, unit: str = "") -> SweepColumn:
    return SweepColumn(name=name, kind=ColumnType.INTEGER, meaning=meaning, unit=unit)


def _number(name: str, meaning: str, unit: str = "") -> SweepColumn:
    return SweepColumn(name=name, kind=ColumnType.NUMBER, meaning=meaning, unit=unit)


def _interval(
    name: str, meaning: str, unit: str, what: str, *, kind: ColumnType = ColumnType.NUMBER
) -> tuple[SweepColumn, ...]:
    """Return the columns of a quantity: what is expected, and both ends of its interval, as shapes name them."""
    ends = ((end, f"{end} end of {what}") for end in ("low", "high"))
    return tuple(
        SweepColumn(name=column_name(name, end), kind=kind, meaning=words, unit=unit)
        for end, words in (("expected", meaning), *ends)
    )


_QUESTION = (
    _text("model", "the model's words, as `capplan plan` takes them"),
    _text("gpu", "the GPU's id, as in `capplan gpus`"),
    _integer(
        "batch",
        "samples per batch; of a training step, per micro-batch; of serving, clients at a time; null where `auto` or "
        "`max` found none",
    ),
    _text(
        "precision", "fp32, tf32, fp32-ieee, fp16, bf16, amp-fp16 or amp-bf16; of serving, the format of the weights"
    ),
    _text("framework", "eager, compile or compile-graphs; of serving, the engine"),
    _text("layout", "nchw or nhwc (channels_last); null for serving"),
    _text("mode", "inference, training or serving"),
    _text("optimizer", "optimizer of a training step; null for inference"),
    SweepColumn(
        name="checkpointing", kind=ColumnType.BOOLEAN, meaning="activations are recomputed; null for inference"
    ),
    _integer("accumulate", "micro-batches per optimizer step; null for inference"),
    _text("torch_version", "the PyTorch that is answered for"),
    _text("host", "server, desktop or card; null where none was named, and for serving"),
    _number("utilization_fraction", "share of usable memory that may be filled; null for serving"),
    _integer(
        "gpus",
        "GPUs that run the model together: 1, those that make a pipeline's items, or those of one replica in serving",
    ),
    _integer("input_len", "mean tokens of a prompt, for serving"),
    _integer("output_len", "mean tokens of an answer, for serving"),
    _text("weights", "number format that weights of linear layers are quantised to; of serving, the weights' format"),
    _text("activations", "number format that activations of linear layers are quantised to"),
    _text("kv", "number format of the KV cache, of serving"),
    _number("power_limit_w", "power limit that is set on the GPU; null for its own", "W"),
)
_ANSWER = (
    _text("status", "fits, borderline, does not fit, unsupported (the GPU lacks the number format) or failed"),
    SweepColumn(
        name="fits",
        kind=ColumnType.BOOLEAN,
        meaning="true for fits and borderline, as in a plan; null where the model failed",
    ),
    _text("reason", "why it does not fit, is unsupported or failed"),
    _text("failure", "kind of a failure: model, trace, recording, crash, timeout, memory or bug"),
    *_interval(
        "latency_s",
        "time of one batch, training step or, in serving, answer, expected; null where the batch does not fit",
        "s",
        "the latency's interval",
    ),
    _number("latency_bound_s", "time that cannot be beaten at the printed rates", "s"),
    _number("throughput_per_s", "samples per second, expected; of serving, requests per second", "1/s"),
    *_interval("ttft_s", "time to the first token, of serving", "s", "the time to the first token"),
    *_interval("tpot_s", "time per output token after the first, of serving", "s", "the time per output token"),
    *_interval(
        "output_tokens_per_s",
        "output tokens per second of all clients, of serving",
        "1/s",
        "the output tokens per second",
    ),
    _text("bound_by", "compute, bandwidth or launches"),
    *_interval(
        "total_bytes",
        "peak memory of the process, expected; of serving, of one GPU with the whole KV cache",
        "bytes",
        "the peak",
        kind=ColumnType.INTEGER,
    ),
    _integer("peak_allocated_bytes", "torch.cuda.max_memory_allocated, expected", "bytes"),
    _integer("peak_reserved_bytes", "torch.cuda.max_memory_reserved, expected", "bytes"),
    _integer("weight_bytes", "weights on one GPU", "bytes"),
    _integer("kv_pool_bytes", "KV cache of one GPU, of serving", "bytes"),
    *_interval(
        "power_w",
        "mean power of the GPU, of serving of all GPUs of a replica, expected; null where `energy` is not asked for",
        "W",
        "the power",
    ),
    *_interval("joules_per_sample", "energy of a sample, expected", "J", "the energy of a sample"),
    *_interval(
        "joules_per_output_token",
        "energy of an output token, of serving, expected",
        "J",
        "the energy of an output token",
    ),
    _text("offload", "where a pipeline's waiting weights are: none, model, streamed or sequential; null for models"),
    _integer("usable_bytes", "memory that the driver leaves on the GPU, expected", "bytes"),
    _integer("max_batch", "largest batch that fits the GPU; of serving, sequences that fit a replica"),
    _integer("recommended_batch", "from here on, doubling the batch gains less than 10 % of throughput"),
    _text(
        "evidence",
        "what the speed rests on: measured, microbenchmarks, architecture, segment, transferred or spec-sheet; serving "
        "has more",
    ),
    _text("calibration", "name of the calibration that the interval was learnt from; null where none was"),
)
_PRICE = (
    _number("usd_per_hour", "lowest on-demand price of the GPU", "USD/h"),
    _number(
        "usd_per_million_samples",
        "cost of a million samples, of serving of requests, at that price and full load",
        "USD",
    ),
    _text("price_provider", "who asks that price"),
    _text("price_date", "the day of that price, YYYY-MM-DD"),
)
_MODEL = (
    _text("model_name", "the model's own name"),
    _integer("parameters", "elements of all parameters"),
    _integer("macs_per_sample", "multiply-accumulates of one sample"),
    _integer("flops_per_sample", "floating-point operations of one sample", "FLOP"),
)
_MEASURED = (
    _number("measured_latency_s", "median of what was timed on such a GPU; null where nothing was", "s"),
    _number("measured_low_s", "low end of the median's interval", "s"),
    _number("measured_high_s", "high end of the median's interval", "s"),
    _integer("measured_peak_allocated_bytes", "measured torch.cuda.max_memory_allocated", "bytes"),
    _text("measured_on", "the device's name as its driver reports it"),
)

_STATED = (*_QUESTION, *_ANSWER, *_PRICE, *_MODEL, *_MEASURED)


def _swept() -> Iterator[SweepColumn]:
    """Return the columns of figures of a plan that rows of sweeps have, too, beyond those stated here."""
    stated = {column.name for column in _STATED}
    for column in FIT.flat_columns:
        one = column.reader.figure
        if one.show.in_sweeps and column.name not in stated:
            kind = ColumnType.TEXT if column.reader.is_text else ColumnType.NUMBER
            unit = next((unit for end, unit in _UNITS.items() if column.name.endswith(end)), "")
            yield SweepColumn(name=column.name, kind=kind, meaning=one.meaning_words, unit=unit)


_UNITS = {"_per_s": "1/s", "_s": "s", "_bytes": "bytes", "_w": "W", "_per_sample": "J"}

COLUMNS: tuple[SweepColumn, ...] = (*_STATED, *_swept())
"""All columns of a row, in order. `workload`, the partition, is a column beside them: words for the conditions."""

PRICE_COLUMNS = tuple(column.name for column in _PRICE)
"""Columns that follow from the prices of the day."""

MEASURED_COLUMNS = tuple(column.name for column in _MEASURED)
"""Columns that hold what was timed."""

PLANNED_COLUMNS = tuple(column for column in COLUMNS if column.name not in {*PRICE_COLUMNS, *MEASURED_COLUMNS})
"""Columns that the planning stage computes; prices and measurements are joined to them when rows are written."""
