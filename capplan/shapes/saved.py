"""Compare saved plans: what changed between two plans or reports, and which limits a plan keeps."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from capplan.core.gpus.spec import GpuSpec
from capplan.core.memory.fit import usable_memory
from capplan.errors import UsageError
from capplan.shapes.common import VERSIONED
from capplan.shapes.plan import cause, fits_on
from capplan.shapes.shape import Shape, figure, reads
from capplan.shapes.types import PlanDocument
from capplan.units import format_bytes, format_rate, format_seconds

NOISE = 1e-9
"""Relative differences below this are rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that differs: where, and what it was and is; None where it was not there."""

    where: str
    what: str
    before: float | str | None
    after: float | str | None

    @property
    def relative(self) -> float | None:
        """Return the change as a share of what it was; None where that has no meaning."""
        if isinstance(self.before, float | int) and isinstance(self.after, float | int) and self.before:
            return self.after / self.before - 1
        return None


def compare_documents(before: Any, after: Any, *, names: tuple[str, str]) -> list[Change]:
    """List what differs between two plans, or two reports, as JSON documents."""
    kinds = tuple(_kind(document, where=name) for document, name in zip((before, after), names, strict=True))
    if kinds[0] != kinds[1]:
        raise UsageError(f"{names[0]} is a {kinds[0]} and {names[1]} a {kinds[1]}; compare like with like.")
    flatten = _flat_report if kinds[0] == "report" else _flat_plan
    try:
        old, new = flatten(before), flatten(after)
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{names[0]} or {names[1]} is damaged ({type(error).__name__}: {error}).") from error
    for name, figures in zip(names, (old, new), strict=True):
        _check_figures(figures, name)
    return [
        Change(where=where, what=what, before=old.get((where, what)), after=new.get((where, what)))
        for where, what in dict.fromkeys((*old, *new))
        if _differs(old.get((where, what)), new.get((where, what)))
    ]


Flat = dict[tuple[str, str], float | str | None]


def _check_figures(figures: Flat, name: str) -> None:
    """Refuse a document that holds a list or an object, or a number without end, where a figure stands."""
    for (where, what), value in figures.items():
        is_number = isinstance(value, float | int) and -sys.float_info.max <= value <= sys.float_info.max
        if value is not None and not isinstance(value, str) and not is_number:
            raise UsageError(f"{name} is damaged: {what} of {where[:100]} is not a figure.")


def _kind(document: Any, *, where: str) -> str:
    if isinstance(document, dict) and document.get("kind") == "report":
        return "report"
    plans = document if isinstance(document, list) else [document]
    if plans and all(isinstance(plan, dict) and "fits" in plan and "model" in plan for plan in plans):
        return "plan"
    raise UsageError(f"{where}: is neither a plan nor a report of capplan.")


def _differs(before: float | str | None, after: float | str | None) -> bool:
    if isinstance(before, float | int) and isinstance(after, float | int):
        return abs(after - before) > NOISE * max(abs(before), abs(after))
    return before != after


def _flat_plan(document: Any) -> Flat:
    found: Flat = {}
    plans = document if isinstance(document, list) else [document]
    for plan in plans:
        name = str(plan["model"]["name"]) if len(plans) > 1 else "model"
        found[name, "name"] = plan["model"]["name"]
        for key in ("params", "flops_per_sample", "weight_bytes"):
            found[name, key] = plan["model"][key]
        found |= {(name, key): str(value) for key, value in plan["workload"].items()}
        found[name, "calibration"] = plan["provenance"]["calibration"]
        for fit in plan["fits"]:
            where = _place(name, fit)
            found[where, "status"] = fit["status"]
            found[where, "latency_s"] = fit["latency_s"]["expected"]
            found[where, "throughput_per_s"] = fit["throughput_per_s"]["expected"]
            found[where, "memory_bytes"] = fit["memory"]["total_bytes"]["expected"]
        for rejection in plan["rejections"]:
            found[_place(name, rejection), "status"] = f"rejected by {rejection['constraint']}"
    return found


def _place(name: str, row: Mapping[str, Any]) -> str:
    place = f"{row['gpu']}, batch {row['batch']}"
    return place if name == "model" else f"{name}, {place}"


_OPTION_KEYS = ("batch", "gpus", "price_usd", "cost_usd_per_year", "total_usd", "usd_per_million", "headroom_fraction")

_FLEET_KEYS = ("needed", "owned", "cost_usd_per_year", "total_usd")


def _flat_report(document: Mapping[str, Any]) -> Flat:
    """Return the figures of a report; those of several services on one fleet bear the service's name."""
    flat: Flat = {}
    fleet = document.get("fleet")
    if fleet is None:
        flat |= _flat_demand(document["demand"], "")
    else:
        flat["fleet", "choice"] = fleet["choice"]
        flat |= {(f"fleet, {option['key']}", key): option[key] for option in fleet["options"] for key in _FLEET_KEYS}
    for model in document["models"]:
        name = str(model["name"])
        if fleet is not None:
            name = f"{model['service']}: {name}"
            flat |= _flat_demand(model["demand"], f"{model['service']}: ")
        flat[name, "choice"] = model["verdict"]["choice"]
        flat[name, "runner_up"] = model["verdict"]["runner_up"]
        for option in model["options"]:
            where = f"{name}, {option['key']}"
            flat[where, "latency_s"] = option["latency_s"]["expected"]
            flat |= {(where, key): option[key] for key in _OPTION_KEYS}
        for refusal in model["refusals"]:
            flat[f"{name}, {refusal['gpu']}", "rejected"] = refusal["constraint"]
    return flat


def _flat_demand(demand: Mapping[str, Any], of: str) -> Flat:
    """Return the load and the assumptions of a report, or of one of its services."""
    flat: Flat = {(f"{of}assumptions", found["label"]): found["value"] for found in demand["assumptions"]}
    return flat | {(f"{of}load", key): str(value) for key, value in demand["load"].items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The limits. `is_sure` compares the bad end of an interval with them instead of the expected value."""

    utilization_fraction: float | None = None
    min_throughput_per_s: float | None = None
    max_latency_s: float | None = None
    is_sure: bool = False

    def __post_init__(self) -> None:
        if self.utilization_fraction is self.min_throughput_per_s is self.max_latency_s is None:
            raise UsageError("a gate needs a limit: ⟨utilization⟩, ⟨min-throughput⟩ or ⟨max-latency⟩.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedLimit:
    """One limit compared with the estimate for one GPU; values in base units."""

    model: str
    gpu: str
    limit: Literal["plan", "memory", "latency", "throughput"]
    is_kept: bool
    value: float | None
    bound: float | None
    words: str


# fmt: off
CHANGE: Final = Shape("ChangeDocument", Change, "A figure that differs; null where it was not there.", (
    *map(figure, ("where", "what", "before", "after", "relative")),
))
DIFF: Final = Shape("DiffDocument", Sequence, "What `capplan diff --json` writes: every figure that differs.", (
    *VERSIONED,
    figure("changes", CHANGE.at(reads(tuple[Change, ...], tuple))),
))
CHECK: Final = Shape("CheckDocument", Sequence, "What `capplan check --json` writes: one outcome per limit, in base units.", (
    *VERSIONED,
    figure("kept", reads(bool, lambda outcomes: all(outcome.is_kept for outcome in outcomes))),
    figure("outcomes", reads(tuple[CheckedLimit, ...], tuple)),
))
# fmt: on


def check_plan(plan: PlanDocument, gpu: GpuSpec, *, batch: int, gate: Gate, where: str) -> tuple[CheckedLimit, ...]:
    """Compare the estimates for one GPU and batch of a plan with the limits."""
    name = plan.model.name
    rejection = next((refused for refused in plan.rejections if refused.gpu == gpu.id and refused.batch == batch), None)
    if rejection is not None:
        words = f"rejected by {rejection.constraint}: {cause(rejection)}"
        return (CheckedLimit(model=name, gpu=gpu.id, limit="plan", is_kept=False, value=None, bound=None, words=words),)
    fit = next((fitted for fitted in fits_on(plan, gpu.id) if fitted.batch == batch), None)
    if fit is None:
        held = sorted({fitted.batch for fitted in fits_on(plan, gpu.id)})
        batches = f"; it has {', '.join(map(str, held))}" if held else ""
        raise UsageError(f"{where}: no estimate of {name} on {gpu.id} at batch {batch}{batches}.")
    limits: list[tuple[Literal["memory", "latency", "throughput"], float, float, str]] = []
    if gate.utilization_fraction is not None:
        total = fit.memory.total_bytes
        value = total.high if gate.is_sure else total.expected
        bound = gate.utilization_fraction * (fit.memory.usable_bytes or usable_memory(gpu).expected)
        limits.append(("memory", value, bound, f"{format_bytes(value)} of {format_bytes(bound)} that may be filled"))
    if (bound_s := gate.max_latency_s) is not None:
        value = fit.latency_s.high if gate.is_sure else fit.latency_s.expected
        limits.append(("latency", value, bound_s, f"{format_seconds(value)} of {format_seconds(bound_s)} allowed"))
    if (least := gate.min_throughput_per_s) is not None:
        value = fit.throughput_per_s.low if gate.is_sure else fit.throughput_per_s.expected
        limits.append(("throughput", value, least, f"{format_rate(value)}/s of {format_rate(least)}/s wanted"))
    return tuple(
        CheckedLimit(
            model=name, gpu=gpu.id, limit=limit, value=value, bound=bound, words=words,
            is_kept=value >= bound if limit == "throughput" else value <= bound,
        )
        for limit, value, bound, words in limits
    )  # fmt: skip
