"""The shapes of estimates, simulations and validations of LLM serving. Times in seconds, shares as fractions."""

from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta

from capplan.core.numbers import Interval
from capplan.llm.core.elastic.answer import ElasticAnswer, ElasticSimulation
from capplan.llm.core.measured import Accuracy, JudgedCell
from capplan.llm.core.serving.accuracy import CELL_COLUMNS, ServingValidation
from capplan.llm.core.serving.cases import Metric
from capplan.llm.core.serving.energy import EnergyMetric
from capplan.llm.core.serving.estimate import ServingEstimate, ServingPoint, StepPart
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.simulation.load_answer import LoadAnswer, Simulation
from capplan.shapes.common import VERSIONED
from capplan.shapes.llm_scale import SCALE
from capplan.shapes.shape import CSV, AnswerFigure, Shape, Typed, column, ends_of, figure, itself, reads
from capplan.units import format_fraction, format_joules, format_rate, format_seconds, format_watts


def sharing_of(path: str, meaning: str | Meta = "") -> tuple[AnswerFigure, ...]:
    """Return the figures of how the GPUs of a replica share the model, by the usual names.

    Args:
        path: Where the value has its sharding, such as "fit.sharding".
        meaning: Bounds of each figure.
    """
    names = {"tp": "tensor", "pp": "pipeline", "ep": "expert", "dp": "data"}
    return tuple(figure(name, f"{path}.{part}", meaning) for name, part in names.items())


_Metered = Annotated[Interval, Meta(description="mean power of all GPUs of the replica, without the host")]
ServingMetricName = Literal[
    "ttft", "tpot", "output_tokens_per_s", "power_w", "power_w_end_to_end", "joules_per_output_token"
]


def _column(name: str) -> Typed:
    return reads(str | None, lambda cell: cell.key.get(name))


def _always(words: str) -> Typed:
    return reads(str, lambda _: words)


def _overall(metric: Metric | EnergyMetric) -> Typed:
    return reads(Accuracy | None, lambda overall: overall[metric])


_TIMES = (
    ("ttft", "mean", "TTFT mean", 0), ("ttft", "p50", "p50", 0), ("ttft", "p90", "p90", 0), ("ttft", "p99", "p99", 0),
    ("tpot", "mean", "TPOT mean", 0), ("tpot", "p99", "p99", 0), ("itl", "p50", "ITL p50", 2),
    ("itl", "p99", "ITL p99", 1), ("e2e", "mean", "E2E mean", 0), ("e2e", "p99", "p99", 0),
)  # fmt: skip
"""The times of simulated requests that tables show: of what, which figure, the heading, and the column's rank."""


def _open_load(load: LoadAnswer, simulation: Simulation) -> float | None:
    """Return the share of what saturates a replica; None for clients that wait for answers."""
    return simulation.load_fraction(load) if load.clients is None else None


def _elastic(simulation: Simulation) -> ElasticAnswer | None:
    return simulation.elastic if isinstance(simulation, ElasticSimulation) else None


# fmt: off


def degrees_words(sharding: Sharding) -> str:
    """Return the degrees of parallelism above one, such as "TP 4, PP 2"; empty where there are none."""
    named = (("TP", sharding.tensor), ("PP", sharding.pipeline), ("EP", sharding.expert), ("DP", sharding.data))
    return ", ".join(f"{name} {size}" for name, size in named if size > 1)


def shared_words(sharding: Sharding) -> str:
    """Return how the GPUs of a replica and its host share the model, such as "TP 4, PP 2"."""
    shared = degrees_words(sharding) or "TP 1"
    if sharding.offload is None:
        return shared
    layers, experts = sharding.offload.gpu_layers, sharding.offload.expert_layers
    host = "" if layers is None else f", {layers} layers on the GPU"
    return shared + host + (f", experts of {experts} layers on the host" if experts else "")


def metered(path: str, meaning: str | Meta = "") -> tuple[AnswerFigure, ...]:
    """Return power and energy, which answers have where they were asked for.

    Args:
        path: Where the value has its energy, such as "fit.energy".
        meaning: Of what the power is.
    """
    power, joules = ("power_w", "joules_per_output_token")
    return (
        figure(power, f"{path}.{power}", meaning,
            column("power", format_watts, csv=ends_of(power, "_expected")).where_known(), default=UNSET),
        figure(joules, f"{path}.{joules}",
            show=column("J/token", format_joules, csv=ends_of(joules, "_expected")).where_known(), default=UNSET),
        figure("power_evidence", f"{path}.evidence", show=CSV.where_known(), default=UNSET),
    )


SERVED_MODEL: Final = Shape("ServedModel", Any, "The model that is served, and the parameters that one token passes.", (
    figure("name", reads(str, lambda answer: answer.model)),
    figure("params", reads(int, lambda answer: answer.params)),
    figure("active_params", reads(int, lambda answer: answer.active_params)),
))
STEP_PART: Final = Shape("StepPartDocument", StepPart, "One share of a step on one GPU; fields that have no meaning for it are absent.", (
    figure("name"),
    figure("time_s"),
    figure("flops", default=UNSET),
    figure("traffic_bytes", default=UNSET),
    figure("launches", default=UNSET),
))
POINT: Final = Shape("ServingPointDocument", ServingPoint, "What clients see at one concurrency.", (
    figure("concurrency"),
    figure("ttft_s", meaning="time to first token"),
    figure("ttft_is_known", meaning="false: the interval of the time to the first token is too wide to say anything", default=UNSET),
    figure("tpot_s", meaning="time per output token after the first"),
    figure("output_tokens_per_s"),
    figure("output_tokens_per_s_per_gpu", reads(float, lambda point, estimate: point.output_tokens_per_s.expected / estimate.sharding.gpus)),
    figure("output_tokens_per_s_per_user", reads(float, lambda point: 1.0 / point.tpot_s.expected)),
    figure("e2e_s", meaning="expected time of a whole answer"),
    figure("requests_per_s"),
    figure("running", meaning="sequences that are processed at a time; the others wait"),
    figure("queued"),
    figure("evidence"),
    replace(metered("energy")[0], read=reads(_Metered | None, lambda point: point.energy and point.energy.power_w)),
    *metered("energy")[1:],
))
MEASURED_RUNS: Final = Shape("MeasuredRuns", ServingEstimate, "Measured runs of this deployment, and what they change TPOT by.", (
    figure("runs", "measured_runs"),
    figure("tpot_factor", "measured_factor"),
))
ESTIMATE: Final = Shape("LlmEstimateDocument", ServingEstimate, "What `capplan llm estimate --format json` writes: one replica at each concurrency.", (
    *VERSIONED,
    figure("model", SERVED_MODEL.at(itself(Any))),
    figure("gpu"),
    figure("gpus", "sharding.gpus"),
    *sharing_of("sharding"),
    figure("engine"),
    figure("version", reads(str | None, lambda estimate: estimate.version or None)),
    figure("weights"),
    figure("kv"),
    figure("input_len"),
    figure("output_len"),
    figure("sequences_that_fit", reads(int, lambda estimate: int(estimate.sequences_that_fit))),
    figure("points", POINT),
    figure("decode_step", STEP_PART.at("decode_parts"), "one decode step at the last concurrency"),
    figure("prefill_step", STEP_PART.at("prefill_parts"), "one prefill step at the last concurrency"),
    figure("calibration"),
    figure("measured", MEASURED_RUNS.at(itself(ServingEstimate))),
    figure("notes"),
))
LOAD: Final = Shape("LoadAnswerDocument", LoadAnswer, "One replica under a load; `concurrency` is null for an open load, `label` names the part of a day.", (
    figure("label", reads(str | None, lambda load: load.label or None), show=column("hours")),
    figure("rate_per_s", show=column("req/s", "{:.3g}".format)),
    figure("concurrency", "clients", show=column("clients")),
    figure("load_fraction", reads(float, lambda load, simulation: simulation.load_fraction(load))),
    figure("open_load_fraction", _open_load, show=column("load", format_fraction).alone()),
    *(figure(title, f"{time}_s.{end}", show=column(title, format_seconds, rank=rank).alone())
        for time, end, title, rank in _TIMES),
    figure("requests"),
    figure("ttft_s"),
    figure("tpot_s"),
    figure("itl_s"),
    figure("e2e_s"),
    figure("inclusive_tpot_s"),
    figure("output_tokens_per_s", show=column("tokens/s", format_rate)),
    figure("output_tokens_per_s_per_gpu", reads(float, lambda load, simulation: load.output_tokens_per_s / simulation.gpus),
        show=column("per GPU", format_rate, rank=3)),
    figure("output_tokens_per_s_per_user", show=column("per user", format_rate, rank=3)),
    figure("input_tokens_per_s"),
    figure("goodput_fraction", show=column("within limits", format_fraction)),
    figure("goodput_per_s"),
    figure("mean_running"),
    figure("busy_fraction"),
    figure("cached_fraction"),
    figure("preemptions", show=column("preempted", lambda count: str(count) if count else "")),
    figure("keeps_up"),
    figure("is_steady", reads(str, lambda load: "yes" if load.keeps_up else "no"), show=column("keeps up").alone()),
    *metered("energy", "of the replica's GPUs, idle time included"),
))
DEFINITIONS: Final = Shape("Definitions", Simulation, "What the figures of a simulation mean.", tuple(
    figure(name, _always(words), default=words) for name, words in {
        "ttft_s": "from arrival to the first token",
        "tpot_s": "(e2e_s - ttft_s) / (output tokens - 1), the mean of each request",
        "inclusive_tpot_s": "e2e_s / output tokens, which some tools call TPOT",
        "itl_s": "between any two tokens of a request, over all tokens",
        "e2e_s": "from arrival to the last token",
        "goodput_fraction": "share of the requests that keep every limit",
    }.items()
))
SIMULATION: Final = Shape("SimulationDocument", Simulation, "What `capplan llm simulate --format json` writes.", (
    *VERSIONED,
    figure("model"),
    figure("gpu"),
    figure("gpus"),
    figure("engine"),
    figure("sequences_that_fit", reads(int, lambda simulation: int(simulation.sequences_that_fit))),
    figure("saturation_rate_per_s"),
    figure("saturated_from_per_s"),
    figure("limits"),
    figure("loads", LOAD.at("answers")),
    figure("definitions", DEFINITIONS.at(itself(Simulation))),
    figure("notes"),
    figure("elastic", SCALE.at(_elastic), "the fleet that follows the load of a week, where one is stated", default=UNSET),
))
CELL: Final = Shape("ServingCellDocument", JudgedCell, "The accuracy of one metric in one cell, which has the columns that `--by` names.", (
    *(figure(name, _column(name), default=UNSET) for name in CELL_COLUMNS),
    figure("metric", reads(ServingMetricName, lambda cell: cell.metric.value)),
    *(figure(name, f"accuracy.{name}") for name in ("n", "mdape", "p90", "bias", "coverage", "width", "spearman", "within_factor_two")),
))
OVERALL: Final = Shape("OverallAccuracy", dict, "The accuracy of each metric over all rows; null where nothing was measured.", (
    figure("ttft", _overall(Metric.TTFT)),
    figure("tpot", _overall(Metric.TPOT)),
    figure("output_tokens_per_s", _overall(Metric.OUTPUT_TOKENS_PER_S)),
    figure("power_w", _overall(EnergyMetric.POWER)),
    figure("power_w_end_to_end", _overall(EnergyMetric.POWER_END_TO_END)),
    figure("joules_per_output_token", _overall(EnergyMetric.JOULES)),
))
VALIDATION: Final = Shape("LlmValidationDocument", ServingValidation, "What `capplan llm validate --format json` writes. Errors and shares are fractions: 0.07 is 7 %.", (
    *VERSIONED,
    figure("cells", CELL.at(reads(tuple[JudgedCell, ...], lambda validation, by: validation.cells(by)))),
    figure("overall", OVERALL.at(reads(dict, lambda validation: validation.overall()))),
    figure("skipped"),
))
# fmt: on
