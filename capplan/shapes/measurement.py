"""The types of measured points as `capplan.core.measurement.format` writes them: a line each, or one document."""

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, get_type_hints

import msgspec
from msgspec import UNSET, Meta, UnsetType

from capplan.core.measurement.compare import Pairing, RunComparison
from capplan.core.measurement.op_times import ClassTime, ModulesOfBatch, ModuleTime, ProfiledBatch
from capplan.core.measurement.types import (
    Clocks,
    DeviceFacts,
    MeasuredMemory,
    MeasuredWorkload,
    MeasurementFailure,
    MemoryLimit,
    ModelIdentity,
    TheoryFigures,
    TimingRules,
    WarmUp,
)
from capplan.core.workload import TimingMethod
from capplan.shapes.codec import mirrored
from capplan.shapes.shape import Shape, figure

Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(gt=0)]
Share = Annotated[float, Meta(ge=0)]
Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]


def _described(kind: Any, description: str) -> Any:
    return Annotated[kind, Meta(description=description)]


_RULES = mirrored(TimingRules, "RulesDocument")
_HEAD: dict[str, Any] = {
    "schema_version": Literal[1],
    "model": mirrored(
        ModelIdentity,
        "MeasuredModelDocument",
        words=_described(str, "names the model again on a command line"),
        input_size=_described(tuple[Count, ...], "the first input's shape of one sample"),
    ),
    "workload": mirrored(MeasuredWorkload, batch=Annotated[int, Meta(ge=1)]),
    "device": mirrored(
        DeviceFacts,
        "DeviceDocument",
        name=_described(str, "as the driver reports it"),
        gpu=_described(str | None, "id in the GPU database, where it knows the device"),
        clocks=mirrored(Clocks),
    ),
}


def _struct(name: str, description: str | None, *fields: Any) -> type[msgspec.Struct]:
    return msgspec.defstruct(name, fields, frozen=True, kw_only=True, namespace={"__doc__": description})


def _point(name: str, description: str, **body: Any) -> type[msgspec.Struct]:
    """Return the type of a point: what ran on what, what came of it, and how it was asked for."""
    end = (("rules", _RULES | None, None), ("date", Moment), ("command", str))
    return _struct(name, description, *_HEAD.items(), *body.items(), *end)


_LATENCY = _struct(
    "LatencyDocument",
    "Statistics of the repetitions. [s]",
    *((name, Share if name == "std" else Seconds) for name in ("mean", "std", "median", "p90", "p95", "p99")),
    ("median_low", _described(float | None, "95 % confidence interval of the median; null below six repetitions")),
    ("median_high", float | None),
    ("samples", Annotated[tuple[Seconds, ...], Meta(min_length=1)]),
)

if TYPE_CHECKING:
    MeasurementDocument: TypeAlias = msgspec.Struct
    FailureDocument: TypeAlias = msgspec.Struct
    ProfileDocument: TypeAlias = msgspec.Struct
    ModulesDocument: TypeAlias = msgspec.Struct
else:
    MeasurementDocument = _point(
        "MeasurementDocument",
        "One point that was timed.",
        method=TimingMethod,
        l2_flushed=bool,
        warm_up=mirrored(WarmUp),
        latency_s=_LATENCY,
        throughput_per_s=Seconds,
        memory=mirrored(MeasuredMemory),
        power_w=float | None,
        energy_j_per_sample=float | None,
        estimate=_struct(
            "TheoryDocument",
            TheoryFigures.__doc__,
            *((name.removesuffix("_s"), kind) for name, kind in get_type_hints(TheoryFigures).items()),
        )
        | None,
        finite_outputs=bool,
        notes=tuple[str, ...],
    )
    FailureDocument = _point(
        "FailureDocument",
        "One point that could not be measured.",
        failure=_struct(
            "FailureReason",
            "Why a point has no measurement.",
            ("kind", MeasurementFailure),
            ("message", str),
            ("limit", mirrored(MemoryLimit, "LimitDocument") | None, None),
        ),
    )
    ProfileDocument = mirrored(
        ProfiledBatch, "ProfileDocument", classes=tuple[mirrored(ClassTime, "ProfileClass"), ...]
    )
    ModulesDocument = mirrored(
        ModulesOfBatch,
        "ModulesDocument",
        steps=_described(int, "the times are medians over so many steps"),
        host_s=_described(float | None, "the estimate of the host's time for a step [s]"),
        modules=tuple[
            mirrored(
                ModuleTime,
                "MeasuredModule",
                path=_described(str, "its name in the model; empty for the model itself"),
                kind=_described(str, "its class"),
                calls=Count,
                macs=_described(int | None, "multiply-accumulates; null where the model could not be traced"),
                estimated_s=_described(float | None, "its kernels' time on the device alone"),
            ),
            ...,
        ],
    )


MeasureDocument = _struct(
    "MeasureDocument",
    "What `capplan measure --format json` writes.",
    ("measurements", tuple[MeasurementDocument, ...]),
    ("failures", tuple[FailureDocument, ...]),
    ("profiles", tuple[ProfileDocument, ...] | UnsetType, UNSET),
    ("modules", tuple[ModulesDocument, ...] | UnsetType, UNSET),
)
COMPARISON: Final = Shape(
    "MeasurementComparison",
    RunComparison,
    "A question that two runs answered: the second median over the first, with its 95 % interval. [s]",
    (
        figure("model", "first.model.words"),
        *(figure(name, f"first.workload.{name}") for name in ("batch", "precision", "framework", "layout")),
        figure("first_median_s", "first.latency.median"),
        figure("second_median_s", "second.latency.median"),
        figure("ratio"),
        figure("verdict"),
    ),
)
COMPARISONS: Final = Shape(
    "MeasurementComparisonsDocument",
    Pairing,
    "What `capplan measure --compare A B --format json` writes.",
    (figure("comparisons", COMPARISON.at("pairs")),),
)
