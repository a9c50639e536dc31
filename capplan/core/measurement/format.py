"""The measurement file: one JSON document per line, a measurement or a failure. See docs/measuring.md.

Statistics are written for readers; reading takes the samples alone, so the two can never disagree.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from capplan.core.measurement.checks import check_point
from capplan.core.measurement.types import (
    SCHEMA_VERSION,
    Clocks,
    DeviceFacts,
    FailedMeasurement,
    MeasuredMemory,
    MeasuredPower,
    MeasuredWorkload,
    Measurement,
    MeasurementFailure,
    MemoryLimit,
    ModelIdentity,
    Point,
    TheoryFigures,
    TimingRules,
    WarmUp,
)
from capplan.core.workload import Framework, Layout, Precision, TimingMethod
from capplan.errors import MeasurementFileError
from capplan.strict_json import JsonError, read_json


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

    Raises:
        MeasurementFileError: a line is damaged, holds no point, or is from a newer capplan.
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
    """Encode a point as a JSON document."""
    head = {
        "schema_version": SCHEMA_VERSION,
        "model": {**asdict(point.model), "input_size": list(point.model.input_size)},
        "workload": {
            "batch": point.workload.batch,
            "precision": point.workload.precision.value,
            "framework": point.workload.framework.value,
            "layout": point.workload.layout.value,
        },
        "device": {**asdict(point.device), "throttling": list(point.device.throttling)},
    }
    if isinstance(point, Measurement):
        body = _measurement_to_json(point)
    else:
        limit = asdict(point.limit) if point.limit else None
        body = {"failure": {"kind": point.kind.value, "message": point.message, "limit": limit}}
    rules = asdict(point.rules) if point.rules else None
    return {**head, **body, "rules": rules, "date": point.date.isoformat(), "command": point.command}


def _measurement_to_json(point: Measurement) -> dict[str, Any]:
    latency, median = point.latency, point.median
    return {
        "method": point.method.value,
        "l2_flushed": point.l2_flushed,
        "warm_up": {
            **asdict(point.warm_up),
            **{name: _rounded(getattr(point.warm_up, name)) for name in ("elapsed_s", "first_s")},
        },
        "latency_s": {
            **{name: _rounded(getattr(latency, name)) for name in ("mean", "std", "median", "p90", "p95", "p99")},
            "median_low": _rounded(median.low) if median else None,
            "median_high": _rounded(median.high) if median else None,
            "samples": [_rounded(sample) for sample in point.samples_s],
        },
        "throughput_per_s": _rounded(point.throughput_per_s),
        "memory": asdict(point.memory),
        "power_w": _rounded(point.power.power_w) if point.power else None,
        "energy_j_per_sample": _rounded(point.power.energy_j_per_sample) if point.power else None,
        "estimate": _theory_to_json(point.theory) if point.theory else None,
        "finite_outputs": point.finite_outputs,
        "notes": list(point.notes),
    }


def _theory_to_json(theory: TheoryFigures) -> dict[str, Any]:
    return {
        "bound": _rounded(theory.bound_s),
        "expected": _rounded(theory.expected_s),
        "low": _rounded(theory.low_s),
        "high": _rounded(theory.high_s),
        "calibration": theory.calibration,
        "mfu_fraction": theory.mfu_fraction,
        "mbu_fraction": theory.mbu_fraction,
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
        check_point(document)
        return _failure(document) if "failure" in document else _measurement(document)
    except (TypeError, ValueError) as error:  # a member that no such type has, or a date that is none
        raise MeasurementFileError(f"{where} holds a damaged measurement: {error}.") from error


def _head(document: Mapping[str, Any]) -> dict[str, Any]:
    model, workload, device = document["model"], document["workload"], document["device"]
    return {
        "model": ModelIdentity(**{**model, "input_size": tuple(model["input_size"])}),
        "workload": MeasuredWorkload(
            batch=int(workload["batch"]),
            precision=Precision(workload["precision"]),
            framework=Framework(workload["framework"]),
            layout=Layout(workload["layout"]),
        ),
        "device": DeviceFacts(
            **{**device, "clocks": Clocks(**device["clocks"]), "throttling": tuple(device["throttling"])}
        ),
        "date": datetime.fromisoformat(document["date"]),
        "command": document["command"],
        "rules": _rules(document.get("rules")),
    }


def _rules(rules: Mapping[str, Any] | None) -> TimingRules | None:
    if rules is None:
        return None
    method = rules["method"]
    return TimingRules(**{**rules, "method": None if method is None else TimingMethod(method)})


def _failure(document: Mapping[str, Any]) -> FailedMeasurement:
    failure = document["failure"]
    limit = failure.get("limit")
    return FailedMeasurement(
        **_head(document),
        kind=MeasurementFailure(failure["kind"]),
        message=str(failure["message"]),
        limit=None if limit is None else MemoryLimit(**limit),
    )


def _measurement(document: Mapping[str, Any]) -> Measurement:
    samples = tuple(float(sample) for sample in document["latency_s"]["samples"])
    power_w, energy_j = document["power_w"], document["energy_j_per_sample"]
    estimate = document["estimate"]
    return Measurement(
        **_head(document),
        samples_s=samples,
        method=TimingMethod(document["method"]),
        l2_flushed=bool(document["l2_flushed"]),
        warm_up=WarmUp(**document["warm_up"]),
        memory=MeasuredMemory(**document["memory"]),
        power=None if power_w is None else MeasuredPower(power_w=power_w, energy_j_per_sample=energy_j),
        finite_outputs=bool(document["finite_outputs"]),
        theory=_theory(estimate) if estimate else None,
        notes=tuple(document["notes"]),
    )


def _theory(estimate: Mapping[str, Any]) -> TheoryFigures:
    return TheoryFigures(
        bound_s=estimate["bound"],
        expected_s=estimate["expected"],
        low_s=estimate["low"],
        high_s=estimate["high"],
        calibration=estimate["calibration"],
        mfu_fraction=estimate["mfu_fraction"],
        mbu_fraction=estimate["mbu_fraction"],
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
