"""The measurement file: one JSON document per line, a measurement or a failure. See docs/measuring.md.

Statistics are written for readers; reading takes the samples alone, so the two can never disagree.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from capplan.core.json_fields import DamageError, as_list, as_mapping, member
from capplan.core.measurement.types import (
    SCHEMA_VERSION,
    DeviceFacts,
    FailedMeasurement,
    MeasuredPower,
    MeasuredWorkload,
    Measurement,
    MeasurementFailure,
    MemoryLimit,
    Point,
    TheoryFigures,
    TimingRules,
    WarmUp,
)
from capplan.core.records import JsonReader, NumberRange, RecordRules, as_plain
from capplan.core.workload import LARGEST_BATCH
from capplan.errors import MeasurementFileError
from capplan.strict_json import JsonError, read_json

MOST_SAMPLES = 20_000
"""Most repetitions of one measured point; `capplan measure` times at most 2,000 unless it is asked for more."""

SHORTEST_S = 1e-12
"""Shortest time that is read: no clock resolves a picosecond. [s]"""

_LONGEST_S = 1e9
"""Longest time that is read, 30 years. [s]"""

_TIME = NumberRange(high=_LONGEST_S)


_READER = JsonReader(RecordRules(
    ranges={
        MeasuredWorkload: {"batch": NumberRange(low=1, high=LARGEST_BATCH)},
        DeviceFacts: {"temperature_c": NumberRange(low=-1e300, high=float("inf"))},
        TimingRules: {"budget_s": _TIME},
        WarmUp: {"elapsed_s": _TIME, "first_s": _TIME},
        TheoryFigures: dict.fromkeys(("bound_s", "expected_s", "low_s", "high_s"), _TIME),
    },
    keys={
        TheoryFigures: {f"{name}_s": name for name in ("bound", "expected", "low", "high")},
        Measurement: {"theory": "estimate"},
    },
    older={Measurement: {"rules": None}, FailedMeasurement: {"rules": None}},
))  # fmt: skip
"""Reads the parts of a measured point; those that older files lack may be left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementFile:
    """The points of a file, in order. `whole_bytes` is what is left when a last line that was cut off is dropped."""

    points: tuple[Point, ...]
    whole_bytes: int
    is_cut: bool

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """Return the points that were timed."""
        return tuple(point for point in self.points if isinstance(point, Measurement))


def point_to_line(point: Point) -> str:
    """Write a point as one line, its end included."""
    return json.dumps(point_to_json(point), ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


def points_to_json(points: Iterable[Point]) -> dict[str, Any]:
    """Write points as one document: what was measured, and what failed."""
    kept = list(points)
    return {
        "measurements": [point_to_json(point) for point in kept if isinstance(point, Measurement)],
        "failures": [point_to_json(point) for point in kept if isinstance(point, FailedMeasurement)],
    }


def parse_points(content: bytes, *, where: str) -> MeasurementFile:
    """Read a measurement file, or the document that `--format json` prints.

    A last line that lacks its end was cut off by a crash or a full disk: it is dropped, and `is_cut` reports it.
    """
    if (document := _as_document(content)) is not None:
        return MeasurementFile(
            points=tuple(_point(point, where) for point in document), whole_bytes=len(content), is_cut=False
        )
    points: list[Point] = []
    offset = 0
    for number, line in enumerate(content.splitlines(keepends=True), start=1):
        place = f"{where}, line {number}"
        try:
            parsed = read_json(line) if line.strip() else None
        except JsonError as error:
            if not line.endswith(b"\n"):
                return MeasurementFile(points=tuple(points), whole_bytes=offset, is_cut=True)
            raise MeasurementFileError(f"{place} {error}; delete that line to go on.") from error
        if parsed is not None:
            points.append(_point(parsed, place))
        offset += len(line)
    return MeasurementFile(points=tuple(points), whole_bytes=offset, is_cut=False)


def _as_document(content: bytes) -> list[Any] | None:
    try:
        document = read_json(content)
    except JsonError:
        return None
    if not isinstance(document, dict) or not isinstance(document.get("measurements"), list):
        return None
    failures = document.get("failures", [])
    return [*document["measurements"], *(failures if isinstance(failures, list) else [failures])]


def point_to_json(point: Point) -> dict[str, Any]:
    if isinstance(point, Measurement):
        body = _measurement_to_json(point)
    else:
        body = {"failure": {"kind": point.kind.value, "message": point.message, "limit": as_plain(point.limit)}}
    return {
        "schema_version": SCHEMA_VERSION,
        **{name: as_plain(getattr(point, name)) for name in ("model", "workload", "device")},
        **body,
        "rules": as_plain(point.rules),
        "date": point.date.isoformat(),
        "command": point.command,
    }


def _measurement_to_json(point: Measurement) -> dict[str, Any]:
    latency, median, warm_up, theory = point.latency, point.median, point.warm_up, point.theory
    return {
        "method": point.method.value,
        "l2_flushed": point.l2_flushed,
        "warm_up": as_plain(warm_up) | {name: _rounded(getattr(warm_up, name)) for name in ("elapsed_s", "first_s")},
        "latency_s": {
            **{name: _rounded(getattr(latency, name)) for name in ("mean", "std", "median", "p90", "p95", "p99")},
            "median_low": _rounded(median.low) if median else None,
            "median_high": _rounded(median.high) if median else None,
            "samples": [_rounded(sample) for sample in point.samples_s],
        },
        "throughput_per_s": _rounded(point.throughput_per_s),
        "memory": as_plain(point.memory),
        "power_w": _rounded(point.power.power_w) if point.power else None,
        "energy_j_per_sample": _rounded(point.power.energy_j_per_sample) if point.power else None,
        "estimate": None
        if theory is None
        else {
            **{name: _rounded(getattr(theory, f"{name}_s")) for name in ("bound", "expected", "low", "high")},
            **{name: getattr(theory, name) for name in ("calibration", "mfu_fraction", "mbu_fraction")},
        },
        "finite_outputs": point.finite_outputs,
        "notes": list(point.notes),
    }


def _rounded(value: float) -> float:
    return float(f"{value:.7g}")


def _point(document: Any, where: str) -> Point:
    if not isinstance(document, dict) or "schema_version" not in document:
        raise MeasurementFileError(f"{where} holds no measurement.")
    version = document["schema_version"]
    if type(version) is not int or not 1 <= version <= SCHEMA_VERSION:
        raise MeasurementFileError(
            f"{where} has measurement schema {version!r}; this capplan reads up to {SCHEMA_VERSION}."
        )
    try:
        return _failure(document) if "failure" in document else _measurement(document)
    except ValueError as error:
        raise MeasurementFileError(f"{where} holds a damaged measurement: {error}.") from error


_P = TypeVar("_P", Measurement, FailedMeasurement)


def _record(kind: type[_P], document: Mapping[str, Any], /, **read: Any) -> _P:
    """Read what a document holds of a point, besides the fields that are read already; other keys are ignored."""
    known = {item.name for item in fields(kind)} | {"estimate"}
    point = _READER.record(kind, {key: value for key, value in document.items() if key in known}, "", read=read)
    assert point is not None  # whatever cannot be read was refused
    return point


def _failure(document: Mapping[str, Any]) -> FailedMeasurement:
    failure = as_mapping(document["failure"], "failure")
    kinds: Mapping[str, Any] = {"kind": MeasurementFailure, "message": str, "limit": MemoryLimit | None}
    read = {
        name: _READER.value(kind, member({"limit": None, **failure}, name, "failure."), f"failure.{name}", _TIME)
        for name, kind in kinds.items()
    }
    return _record(FailedMeasurement, document, **read)


def _measurement(document: Mapping[str, Any]) -> Measurement:
    latency = as_mapping(member(document, "latency_s", ""), "latency_s")
    power_w, energy_j = (
        _READER.value(float | None, member(document, name, ""), name, _READER.rules.usual_range)
        for name in ("power_w", "energy_j_per_sample")
    )
    if power_w is not None and energy_j is None:
        raise DamageError("energy_j_per_sample", None, "a number beside power_w")
    place = "latency_s.samples"
    samples = as_list(member(latency, "samples", "latency_s."), place)
    if not samples:
        raise ValueError(f"{place} must not be empty")
    if len(samples) > MOST_SAMPLES:
        raise ValueError(f"{place} holds {len(samples):,} samples; at most {MOST_SAMPLES:,} are read")
    allowed = NumberRange(low=SHORTEST_S, high=_LONGEST_S)
    samples_s = tuple(map(float, _READER.items_of(float, samples, place, allowed)))
    return _record(
        Measurement,
        document,
        samples_s=samples_s,
        power=None if power_w is None else MeasuredPower(power_w=power_w, energy_j_per_sample=energy_j),
    )


ROW_COLUMNS = (
    "model", "gpu", "framework", "torch", "precision", "layout", "task", "batch", "input_size", "latency_ms",
    "samples_per_s", "peak_allocated_bytes", "peak_reserved_bytes", "power_w", "reparam", "fast_norm", "source",
)  # fmt: skip


def measured_row(point: Measurement) -> Mapping[str, str]:
    """Format a measurement as a row, aligned with `ROW_COLUMNS`; the latency is the median, unknowns are empty. [ms]"""
    workload, memory, device = point.workload, point.memory, point.device
    values = (
        re.sub(r" --input-size \S+", "", point.model.words),
        device.gpu or device.name,
        workload.framework.value,
        ".".join(device.torch.split("+")[0].split(".")[:2]),
        workload.precision.value,
        workload.layout.value,
        "infer",
        str(workload.batch),
        "x".join(map(str, point.model.input_size)),
        f"{point.latency.median * 1e3:.7g}",
        f"{point.throughput_per_s:.7g}",
        "" if memory.peak_allocated_bytes is None else str(memory.peak_allocated_bytes),
        "" if memory.peak_reserved_bytes is None else str(memory.peak_reserved_bytes),
        "" if point.power is None else f"{point.power.power_w:.7g}",
        "",
        "",
        f"{device.name}, {point.date.date().isoformat()}",
    )
    return dict(zip(ROW_COLUMNS, values, strict=True))
