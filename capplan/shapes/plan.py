"""The shape of a plan: base units, fractions from 0 to 1, intervals with their ends."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from capplan.core.gpus.machines import LocalAmount
from capplan.core.latency.types import EVIDENCE_TITLE, EVIDENCE_WORDS, UNSURE_EVIDENCE, Evidence
from capplan.core.memory.fit import usable_memory
from capplan.core.memory.types import FitStatus, MemoryEstimate
from capplan.core.numbers import Interval
from capplan.core.plan.types import (
    ConditionEffect,
    Criterion,
    Fit,
    ModelFacts,
    PartFacts,
    PartTime,
    PipelineFacts,
    Plan,
    Recommendation,
    Rejection,
)
from capplan.errors import UsageError
from capplan.shapes.codec import SCHEMA_VERSION
from capplan.shapes.common import SIGNED, WORKLOAD
from capplan.shapes.shape import CSV, NOWHERE, Shape, View, column, ends_of, figure, itself, reads
from capplan.shapes.ways import WAYS
from capplan.units import (
    format_bytes,
    format_flops,
    format_fraction,
    format_joules,
    format_rate,
    format_seconds,
    format_speedup,
    format_watts,
)

if TYPE_CHECKING:
    from capplan.shapes.types import PlanDocument, PlannedFit, PlannedMemory, PlannedModel, PlannedRejection

# fmt: off
MODEL: Final = Shape("PlannedModel", ModelFacts, "What holds of the model on any GPU.", (
    figure("name"),
    figure("class", "class_name"),
    figure("params", "parameter_count", "elements of all parameters, each counted once"),
    figure("buffers", "buffer_count"),
    figure("macs_per_sample", meaning="multiply-accumulates of convolutions, matrix products and attention"),
    figure("flops_per_sample", meaning="two FLOPs per multiply-accumulate"),
    figure("weight_bytes"),
    figure("activation_peak_bytes",
        meaning="most live bytes besides weights, buffers and inputs, at batch 1 and before rounding"),
    figure("traffic_fixed_bytes", meaning="bytes that the operators move whatever the batch, weights above all"),
    figure("traffic_bytes_per_sample", meaning="bytes that the operators move for each sample"),
    figure("input_bytes_per_sample"),
    figure("input", "input.size", "the size of one sample: 3x224x224, or 128 tokens", default=""),
    figure("input_source", "input.source", "whose default that size is; empty where it was asked for", default=""),
    figure("dtype", meaning="the dtype of most parameter bytes; null without parameters", default=None),
    figure("uncounted"),
))


def _share_of_usable(fit: Fit) -> str:
    share = format_fraction(fit.memory.total_bytes.expected / usable_memory(fit.gpu).expected)
    return share if fit.memory.usable_bytes else f"~{share}"


PEAKS: Final = Shape("MemoryPeaks", MemoryEstimate, "Peak memory of one process. [bytes]", (
    figure("weight_bytes", show=NOWHERE.alone()),
    figure("peak_allocated_bytes", show=CSV),
    figure("peak_reserved_bytes", show=CSV),
    figure("total_bytes", meaning="what nvidia-smi would show for the process",
        show=column("peak memory", format_bytes, csv="expected low high").on_page("memory")
            .seen(View.ANSWER, title="memory", rank=6)
            .seen(View.PIPELINE, title="memory", rank=4)),
))
MEMORY: Final = Shape("PlannedMemory", Fit, "Peak memory of one process on one GPU, by part. [bytes]", (
    *(replace(peak, read=f"memory.{peak.read}") for peak in PEAKS.figures),
    figure("of_usable", _share_of_usable, show=column("of usable", rank=3).right().alone()),
    figure("usable_bytes", reads(float | None, lambda fit: usable_memory(fit.gpu).expected), show=CSV),
    figure("usable_is_reported", reads(bool, lambda fit: fit.memory.usable_bytes is not None),
        "false: nobody reported it, and the share usual among cards of its kind is taken", default=True),
    figure("parts",
        reads(dict[str, Interval], lambda fit: {part.name: part.size_bytes for part in fit.memory.parts})),
))


def _rented(fit: Fit, plan: Plan) -> Fit | None:
    return None if fit.rent is None or plan.machines(fit) is None else fit


def _usd_per_hour_of_machines(fit: Fit, plan: Plan) -> float | None:
    return plan.usd_per_hour(fit)


RENT: Final = Shape("RentDocument", Fit, "The dated offer of machines that are rented whole, by the price of one GPU.", (
    figure("usd_per_hour", "rent!.usd_per_hour", show=column("USD/GPU/h", "{:.2f}".format, csv="expected", rank=1)),
    figure("provider", "rent!.provider"),
    figure("region", "rent!.region"),
    figure("date", "rent!.date"),
    figure("instance", "rent!.instance", default=None),
    figure("machine_gpus", "rent!.instance_gpus", show=column("GPUs a machine", "{:,}".format, rank=3), default=1),
    figure("machines", reads(int, lambda fit, plan: plan.machines(fit) or 1),
        "for the load, else for one GPU or those that work together", default=1),
    figure("usd_per_hour_of_machines", _usd_per_hour_of_machines, default=None),
    figure("local", reads(LocalAmount | None, lambda fit, plan: plan.local_cost(fit)),
        "the machines an hour in the currency asked for", default=None),
))
PART: Final = Shape("PlannedPart", PartTime, "A part's share of a batch of items on one GPU.", (
    figure("name", show=column("part")),
    figure("times", meaning="how often it runs for the batch", show=column("runs", "{:g}".format)),
    figure("compute_s", meaning="all its runs", show=column("time", format_seconds)),
    figure("moving_s", meaning="its weights between the host and the GPU",
        show=column("moving weights", lambda time_s: format_seconds(time_s) if time_s else "")),
    figure("peak_bytes", meaning="the process while it runs; 0 on a CPU", show=column("memory", format_bytes)),
    figure("start_s", meaning="when its first run starts", default=0.0),
    figure("on", meaning="gpu, stream, another or a CPU", default="gpu"),
    figure("offload", meaning="none, model, streamed or sequential", default="none"),
))
PIPELINE_PART: Final = Shape("PipelinePart", PartFacts, "A part of a pipeline on any GPU.", (
    figure("name", show=column("part")),
    figure("class", "class_name", show=column("class")),
    figure("params", "parameter_count", show=column("parameters", "{:,}".format)),
    figure("weight_bytes", show=column("weights", format_bytes)),
    figure("times", meaning="how often it runs for a batch of one item", show=column("runs", "{:g}".format)),
    figure("flops_per_item", show=column("FLOPs per item", format_flops)),
))
PIPELINE: Final = Shape("PlannedPipeline", PipelineFacts, "What a pipeline makes; samples of the plan are its items.", (
    figure("item"),
    figure("parameters"),
    figure("parts", PIPELINE_PART),
    figure("item_seconds", meaning="how long an item of sound or film plays", default=None),
    figure("gpu_count", meaning="GPUs that share an item's sequence", default=1),
    figure("sharing", default=""),
))


def _no_reason(_fit: Fit) -> None:
    return None


def latency_span(fit: Fit) -> str:
    """Write what the latency lies between."""
    latency = fit.latency.latency_s
    return f"{format_seconds(latency.low)} to {format_seconds(latency.high)}"


def ends_words(interval: Interval) -> str:
    """Write both ends of a time, their unit once where it is the same."""
    low, high = format_seconds(interval.low), format_seconds(interval.high)
    number, _, unit = low.partition(" ")
    return f"{number if high.endswith(f' {unit}') else low} … {high}"


def latency_ends(fit: Fit) -> str:
    """Write both ends of the latency."""
    return ends_words(fit.latency.latency_s)


def largest_batch(fit: Fit) -> str:
    """Write the largest batch that fits for certain; at least that, where the trace says nothing of larger ones."""
    if not fit.scales:
        return f"≥ {fit.max_batch:,}"
    return f"{fit.certain_batch:,}" if fit.certain_batch else f"≤ {fit.max_batch:,}"


def largest_batches(answer: Fit | Rejection) -> str:
    """Write the largest batch that fits for certain, and up to which it fits by the expected sizes."""
    if (isinstance(answer, Fit) and not answer.scales) or answer.certain_batch == answer.max_batch:
        return largest_batch(answer) if isinstance(answer, Fit) else f"{answer.max_batch:,}"
    return f"{answer.certain_batch:,}, up to {answer.max_batch:,}"


def format_hours(hours: Interval) -> str:
    """Write hours with what they lie between."""
    return f"{hours.expected:,.3g} ({hours.low:,.3g} to {hours.high:,.3g})"


OFFLOAD_WORDS = {
    "none": "on the GPU", "model": "part by part", "streamed": "layers copied ahead", "sequential": "layer by layer",
}  # fmt: skip
"""Where a pipeline's weights are, by how they are offloaded."""


def item_seconds(fit: Fit) -> float:
    """Return the time of one item of a batch. [s]"""
    return fit.latency.latency_s.expected / fit.batch


def weights_place(fit: Fit) -> str:
    """Return where the weights of a fit's parts are: of all, and of the parts that differ."""
    apart = [
        f"{part.name} {OFFLOAD_WORDS[part.offload]}"
        for part in fit.parts
        if part.offload != fit.offload and part.peak_bytes
    ]
    return ", ".join([OFFLOAD_WORDS[fit.offload], *apart])


def items_per_hour(fit: Fit) -> float:
    """Return how many items a fit makes in an hour."""
    return 3600 * fit.latency.throughput_per_s.expected


def usd_per_thousand(fit: Fit) -> float | None:
    """Return what a thousand items cost at the rented price and full load; None where no price is known. [USD]"""
    return None if fit.usd_per_million_samples is None else fit.usd_per_million_samples / 1000


def _real_time_factor(fit: Fit, plan: Plan) -> float | None:
    """Return the time of an item over how long it plays: below 1 is faster than it plays."""
    facts = plan.pipeline
    return item_seconds(fit) / facts.item_seconds if facts and facts.item_seconds else None


def item_time(time_s: float) -> str:
    """Write the time of an item; from two minutes on in minutes."""
    return f"{time_s / 60:.3g} min" if time_s >= 120 else format_seconds(time_s)


def _item_span(fit: Fit) -> str:
    latency = fit.latency.latency_s
    return f"{item_time(latency.low / fit.batch)} … {item_time(latency.high / fit.batch)}"


def is_part_of_machine(fit: Fit, plan: Plan) -> bool:
    """Return True if the machine that is rented holds more GPUs than the question is about."""
    return fit.rent is not None and (
        plan.limits.rate_per_s is None and fit.gpus_together == 1 and fit.rent.instance_gpus > 1
    )


def _usd_per_hour_words(fit: Fit, plan: Plan) -> str | None:
    """Write what is rented an hour: GPUs times the price of one where a machine holds more than is asked about."""
    usd, count = plan.usd_per_hour(fit), fit.rent.instance_gpus if fit.rent and is_part_of_machine(fit, plan) else 1
    return None if usd is None else f"{usd:.2f}" if count == 1 else f"{count} × {usd / count:.2f}"


def _hours_span(fit: Fit, plan: Plan) -> str | None:
    hours = plan.gpu_hours(fit)
    return None if hours is None else format_hours(hours)


FIT: Final = Shape("PlannedFit", Fit, "A GPU that serves one batch within the limits, certainly or perhaps.", (
    figure("model", reads(str, lambda _fit, plan: plan.model.name), show=CSV.alone()),
    figure("gpu", "gpu.id", show=column("GPU", csv="expected").seen(View.PIPELINE)),
    figure("gpu_name", "gpu.name", show=NOWHERE.seen(View.REPORT, title="GPU")),
    figure("batch", show=column("batch", csv="expected").seen(View.REPORT)
        .seen(View.ANSWER, form="{:,}".format, rank=1, if_varied=True)
        .seen(View.PIPELINE, form="{:,}".format, if_varied=True)),
    figure("status", meaning="never 'does not fit': that is a rejection", show=CSV),
    figure("fits", reads(str, lambda fit: "borderline" if fit.status is FitStatus.BORDERLINE else "yes"),
        show=column("fits", rank=1).alone().on_page()
            .seen(View.ANSWER, rank=0, is_number=True, usual="yes")
            .seen(View.PIPELINE, rank=0, usual="yes")),
    figure("reason", _no_reason, show=CSV.alone()),
    figure("memory", MEMORY.at(itself(Fit))),
    figure("max_batch", meaning="the largest batch by the expected sizes", show=CSV, default=0),
    figure("certain_batch",
        meaning="the largest batch that fits at the unfavourable end of every size: what `max` plans", show=CSV,
        default=0),
    figure("largest_batches", largest_batches, show=column("largest batch", rank=1).right().alone()),
    figure("largest_batch", largest_batch, show=NOWHERE.right().alone().on_page("max batch")
            .seen(View.ANSWER, title="safe batch", rank=8)
            .seen(View.PIPELINE, title="max batch", rank=5)),
    figure("scales",
        meaning="false where sizes hold at one batch only: max_batch is then that batch, a lower bound",
        default=True),
    figure("recommended_batch", meaning="where more batch stops buying throughput, within memory and latency limit",
        show=column("recommended", "{:,}".format, csv="expected", rank=2, unknown="none"), default=None),
    figure("latency_s", "latency.bounded_s", "per batch; bound is the roofline, which cannot be beaten",
        column("latency", format_seconds, csv="bound low expected high").on_page()
            .seen(View.ANSWER, title="per batch")),
    figure("latency_span", latency_span, show=column("interval", rank=2).right().alone()),
    figure("latency_ends", latency_ends, show=NOWHERE.right().alone().on_page("from … to")
            .seen(View.ANSWER, title="90 % within", rank=4)),
    figure("bound_s", "latency.bound_s", show=column("bound", format_seconds, rank=3).alone()),
    figure("interval_s", "latency.interval_s", "from one batch to the next where batches of a pipeline overlap",
        default=None),
    figure("throughput_per_s", "latency.bounded_per_s",
        show=column("samples/s", format_rate, csv="expected").on_page()
            .seen(View.ANSWER, title="{most}{item}s/s", rank=3)),
    figure("item_s", item_seconds, show=NOWHERE.alone().seen(View.PIPELINE, title="per {item}", form=item_time)),
    figure("item_span", _item_span, show=NOWHERE.right().alone().seen(View.PIPELINE, title="from … to")),
    figure("real_time_factor", _real_time_factor,
        show=NOWHERE.where_known().alone().seen(View.PIPELINE, title="real-time factor", form="{:.3g}".format)),
    figure("items_per_hour", items_per_hour,
        show=NOWHERE.alone().seen(View.PIPELINE, title="{item}s/h", form=format_rate, rank=2)),
    figure("usd_per_thousand", usd_per_thousand,
        show=NOWHERE.alone().seen(View.PIPELINE, title="USD/1,000", form="{:.3g}".format, rank=1)),
    figure("weights_place", weights_place, show=NOWHERE.alone().seen(View.PIPELINE, title="weights", rank=1)),
    figure("bound_by", "latency.bound_by", show=column("bound by", csv="expected", rank=3).seen(View.REPORT, rank=0)),
    figure("share_by_binding", "latency.shares", default={}),
    figure("host_copy_s", meaning="a bound: the batch's input over PCIe, outside the latency", show=CSV,
        default=None),
    figure("rent", RENT.at(_rented), "the lowest dated on-demand price known for this GPU", default=None),
    figure("usd_per_machine_hour", "rent.usd_per_machine_hour",
        show=NOWHERE.alone().on_page("USD/h", "{:,.2f}".format)),
    figure("usd_per_million_samples", meaning="at that price, at full load",
        show=column("USD/M samples", "{:.3g}".format, csv="expected").on_page("USD/M")
            .seen(View.ANSWER, title="USD/M {item}s", rank=2), default=None),
    figure("usd_per_hour_words", _usd_per_hour_words, show=NOWHERE.right().alone().seen(View.ANSWER, title="USD/h", rank=5)),
    figure("offer", reads(str | None, lambda fit, plan: plan.offer_words(fit) or None), show=CSV.alone()),
    figure("offer_usd_per_hour", _usd_per_hour_of_machines, show=CSV.alone()),
    figure("min_gpus", _no_reason, show=CSV.alone()),
    figure("gpu_hours", reads(Interval | None, lambda fit, plan: plan.gpu_hours(fit)),
        "how long one such GPU needs for the job; null without one",
        NOWHERE.where_known().seen(View.ANSWER, title="GPU-hours", form="{:,.3g}".format), default=None),
    figure("gpus_for_rate", reads(int | None, lambda fit, plan: plan.gpus_for_rate(fit)),
        "GPUs that carry the load asked for, at the low end of each rate; null without one",
        CSV.seen(View.ANSWER, title="GPUs", form="{:,}".format, usual=None), default=None),
    figure("batching_gain", meaning="the best throughput of a safe batch over that of batch 1; null where unknown",
        show=column("batching gains", format_speedup, csv="expected", rank=3), default=None),
    figure("calibration", "latency.calibration", "null: the interval is uncalibrated"),
    figure("evidence", "latency.evidence",
        "What the latency rests on, the strongest first: steps timed on this GPU, steps on it in another "
        "precision, single kernels on it, steps on its architecture, on a related one, or none.",
        column(EVIDENCE_TITLE, EVIDENCE_WORDS.__getitem__, csv="expected").on_page()
            .seen(View.ANSWER, rank=1, unsure=UNSURE_EVIDENCE).seen(View.PIPELINE, rank=3), default=Evidence.SPEC_SHEET),
    figure("evidence_reason", "latency.evidence_reason", default=""),
    figure("gpu_hours_span", reads(str | None, _hours_span), show=column("GPU-hours").right().where_known().alone().seen(View.PIPELINE)),
    figure("recommended_as", reads(str, lambda fit, plan: " ".join(choice.criterion for choice in plan.recommended if choice.fit is fit)), show=CSV.alone()),
    figure("offer_cautions", reads(str, lambda _fit, plan: "; ".join(plan.offer_cautions)), show=CSV.alone()),
    figure("parts", PART, "of a pipeline, in order", default=()),
    figure("offload", meaning="where a pipeline's waiting weights are: none, model, sequential", default="none"),
    figure("power_w", "energy.power_w", "mean of all GPUs of the answer, without the host",
        column("power", format_watts, csv=ends_of("power_w"), rank=2).where_known().on_page().seen(View.ANSWER, View.PIPELINE), default=UNSET),
    figure("joules_per_sample", "energy.joules_per_sample",
        show=column("J/sample", format_joules, csv=ends_of("joules_per_sample"), rank=2).where_known().on_page().seen(View.ANSWER, View.PIPELINE),
        default=UNSET),
    figure("power_evidence", "energy.evidence", show=CSV.where_known(), default=UNSET),
    figure("notes", reads(tuple[str, ...], lambda fit: (*fit.memory.notes, *fit.latency.notes))),
))


REJECTION: Final = Shape("PlannedRejection", Rejection, "A GPU that cannot serve one batch: why, and by how much.", (
    figure("model", reads(str, lambda _rejection, plan: plan.model.name), show=CSV.alone()),
    figure("gpu", "gpu.id", show=column("GPU", csv="expected")),
    figure("gpu_name", "gpu.name"),
    figure("batch", show=column("batch", csv="expected")),
    figure("status", reads(str, lambda _rejection: FitStatus.DOES_NOT_FIT.value), show=CSV.alone()),
    figure("constraint"),
    figure("reason", reads(str, lambda rejection: f"{rejection.constraint.value}: {rejection.reason}"),
        show=column("why not", csv="expected")),
    figure("needed", meaning="bytes, seconds, samples per second or watts, as the constraint has it", default=None),
    figure("available", default=None),
    figure("max_batch", show=CSV, default=0),
    figure("certain_batch", show=CSV, default=0),
    figure("largest_batches", largest_batches, show=column("largest batch").right().alone()),
    figure("min_gpus", meaning="a bound: the weights sharded evenly",
        show=column("GPUs needed", "at least {}".format, csv="expected"), default=None),
))


RECOMMENDATION: Final = Shape("PlannedRecommendation", Recommendation, "A GPU and batch to take, and why.", (
    figure("gpu", "fit.gpu.id"),
    figure("batch", "fit.batch"),
    figure("reason"),
    figure("warning"),
    figure("licence", meaning="what the driver's licence forbids in a data centre", default=None),
    figure("porting", meaning="what another vendor's GPU asks of software", default=None),
    figure("cheaper", reads(str | None, lambda choice: choice.cheaper[0].fit.gpu.id if choice.cheaper else None),
        "the cheapest GPU that would cost less and is not taken", default=None),
))


def _taken_by(criterion: Criterion) -> Any:
    def choice(plan: Plan) -> Recommendation | None:
        return next((taken for taken in plan.recommended if taken.criterion is criterion), None)

    return choice


CHANGE: Final = Shape("PlannedChange", ConditionEffect, "What one other condition, such as half precision, would make of the first recommendation.", (
    figure("name"),
    figure("option"),
    figure("gpu", "after.gpu.id"),
    figure("batch", "after.batch"),
    figure("latency_s", "after.latency.latency_s"),
    figure("total_bytes", "after.memory.total_bytes"),
    figure("speedup"),
))


RECOMMENDATIONS: Final = Shape(
    "PlannedRecommendations",
    Plan,
    "GPUs to take first, by criterion; one that no GPU meets, such as a price, is absent.",
    tuple(figure(criterion.value, RECOMMENDATION.at(_taken_by(criterion)), default=UNSET) for criterion in Criterion),
)
PROVENANCE: Final = Shape("PlanProvenance", Plan, "What the plan was made from.", (
    figure("target"),
    figure("versions"),
    figure("calibration"),
))
PLAN: Final = Shape("PlanDocument", Plan, "What `capplan plan --format json` writes for one model; for several models, a list of these.", (
    *SIGNED,
    figure("model", MODEL),
    figure("workload", WORKLOAD),
    figure("limits"),
    figure("job", default=None),
    figure("recommended", RECOMMENDATIONS.at(itself(Plan)), default=RECOMMENDATIONS),
    figure("offer_cautions",
        meaning="What to know of the recommended GPUs before one is rented or bought.", default=()),
    figure("shortlist",
        meaning="Ids of the GPUs that the short answer sets side by side, the most important first.", default=()),
    figure("changes", CHANGE, "What other conditions would make of the first recommendation.", default=()),
    figure("pipeline", PIPELINE, "null for a model", default=None),
    figure("fits", FIT),
    figure("rejections", REJECTION),
    figure("assumptions"),
    figure("cautions", meaning="What makes the figures of this model uncertain.", default=()),
    figure("notes"),
    figure("provenance", PROVENANCE.at(itself(Plan))),
    figure("ways", WAYS, "where they are asked for", default=UNSET),
))
# fmt: on


def plan_document(plan: Plan) -> "PlanDocument":
    """Return a plan as its document."""
    document: PlanDocument = PLAN.document(plan)
    return document


def plan_documents(plans: Sequence[Plan]) -> "PlanDocument | list[PlanDocument]":
    """Return a plan as its document, and several as a list of such."""
    documents = [plan_document(plan) for plan in plans]
    return documents[0] if len(documents) == 1 else documents


def intensity(model: "PlannedModel", batch: int) -> float | None:
    """Return FLOPs over the bytes that the operators move at a batch; None if they move none. [FLOP/byte]"""
    moved = model.traffic_fixed_bytes + model.traffic_bytes_per_sample * batch
    return model.flops_per_sample * batch / moved if moved else None


def all_parts(memory: "PlannedMemory") -> dict[str, Interval]:
    """Return the parts with fragmentation and CUDA context, which add up to the total. [bytes]"""
    return {
        **memory.parts,
        "fragmentation": _difference(memory.peak_reserved_bytes, memory.peak_allocated_bytes),
        "CUDA context": _difference(memory.total_bytes, memory.peak_reserved_bytes),
    }


def _difference(whole: Interval, part: Interval) -> Interval:
    return Interval(low=whole.low - part.low, expected=whole.expected - part.expected, high=whole.high - part.high)


def cause(rejection: "PlannedRejection") -> str:
    """Return the reason of a rejection without the constraint's name."""
    return rejection.reason.removeprefix(f"{rejection.constraint.value}: ")


def item_of(plan: "PlanDocument") -> str:
    """Return what is made, in the singular: a sample of a model, or what a pipeline makes."""
    return "sample" if plan.pipeline is None else plan.pipeline.item


def fits_on(plan: "PlanDocument", gpu: str) -> tuple["PlannedFit", ...]:
    """Return a GPU's fits by its id, smallest batch first."""
    return tuple(sorted((fit for fit in plan.fits if fit.gpu == gpu), key=lambda fit: fit.batch))


def certain_gpus(plan: "PlanDocument") -> frozenset[str]:
    """Return the ids of the GPUs whose memory suffices for the whole interval at some batch."""
    return frozenset(fit.gpu for fit in plan.fits if fit.status is FitStatus.FITS)


def read_plan(value: object, *, where: str) -> "PlanDocument":
    """Read a plan that `capplan plan --format json` wrote."""
    if not isinstance(value, dict) or "fits" not in value or "model" not in value:
        raise UsageError(f"{where}: is not a plan; `capplan plan MODEL --format json -o FILE` writes one.")
    if value.get("schema_version") != SCHEMA_VERSION:
        raise UsageError(
            f"{where}: a plan of schema {value.get('schema_version')!r}; this capplan reads {SCHEMA_VERSION}."
        )
    document: PlanDocument = PLAN.read(value, where=where, noun="plan")
    return document
