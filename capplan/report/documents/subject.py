"""What a report says of one model, read from a plan's JSON: so a saved plan and a fresh one are the same thing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from capplan.core.gpus.licences import driver_licence
from capplan.core.gpus.spec import GpuSpec, Status
from capplan.core.latency.types import Evidence
from capplan.core.memory.types import FitStatus
from capplan.core.numbers import Interval
from capplan.core.serving.response import BatchPoint, Candidate, SpeedTier
from capplan.errors import UsageError
from capplan.report.documents.plan import SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One share of the memory. [bytes]"""

    name: str
    size_bytes: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What is expected of one GPU at one batch; memory parts add up to the total."""

    gpu: str
    gpu_name: str
    batch: int
    status: str
    latency_s: Interval
    bound_s: float
    bound_by: str
    throughput_per_s: Interval
    parts: tuple[Part, ...]
    total_bytes: Interval
    usable_bytes: float | None
    calibration: str | None
    notes: tuple[str, ...]
    speed: SpeedTier
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A GPU that cannot serve, and why."""

    gpu: str
    gpu_name: str
    batch: int | None
    constraint: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One model with its estimates on every GPU and batch."""

    name: str
    class_name: str
    target: str
    parameters: int
    weight_bytes: int
    flops_per_sample: int
    macs_per_sample: int
    traffic_fixed_bytes: int
    traffic_bytes_per_sample: int
    uncounted: tuple[str, ...]
    workload: Mapping[str, str]
    utilization_fraction: float
    estimates: tuple[Estimate, ...]
    refusals: tuple[Refusal, ...]
    assumptions: tuple[str, ...]
    notes: tuple[str, ...]
    versions: Mapping[str, str]
    calibration: str | None

    def intensity(self, batch: int) -> float | None:
        """FLOPs over the bytes that the operators move at a batch. [FLOP/byte]"""
        moved = self.traffic_fixed_bytes + self.traffic_bytes_per_sample * batch
        return self.flops_per_sample * batch / moved if moved else None

    def of_gpu(self, gpu: str) -> tuple[Estimate, ...]:
        """A GPU's estimates, smallest batch first."""
        return tuple(sorted((each for each in self.estimates if each.gpu == gpu), key=lambda each: each.batch))

    @property
    def gpus(self) -> tuple[str, ...]:
        """The GPUs that hold the model at some batch."""
        return tuple(dict.fromkeys(each.gpu for each in self.estimates))

    @property
    def firm(self) -> frozenset[str]:
        """The GPUs whose memory suffices for the whole interval at some batch."""
        return frozenset(each.gpu for each in self.estimates if each.status == FitStatus.FITS)


def candidates_of(
    subject: Subject, gpus: Mapping[str, GpuSpec], *, largest_batches: Sequence[int] = ()
) -> tuple[Candidate, ...]:
    """The GPUs that hold the model; batches that only perhaps fit are used where no other does.

    Where `largest_batches` are given, a GPU must hold one of them and is run with it.
    """
    candidates = []
    for gpu in subject.gpus:
        estimates = subject.of_gpu(gpu)
        wanted = [each for each in estimates if not largest_batches or each.batch in largest_batches]
        chosen = [each for each in wanted if each.status == FitStatus.FITS] or wanted
        if not chosen:
            continue
        firm = [each for each in estimates if each.batch <= chosen[-1].batch]
        spec = gpus.get(gpu)
        candidates.append(
            Candidate(
                gpu=gpu,
                name=estimates[0].gpu_name,
                tdp_w=spec.tdp_w if spec else None,
                form_factor=spec.form_factor if spec else None,
                points=tuple(
                    BatchPoint(batch=each.batch, latency_s=each.latency_s, memory_bytes=each.total_bytes)
                    for each in firm
                ),
                largest_batches=tuple(each.batch for each in chosen),
                speed=estimates[0].speed,
                segment=spec.segment.value if spec and spec.segment else None,
                is_end_of_sale=spec is not None and spec.status is Status.END_OF_SALE,
                licence=driver_licence(spec) if spec else None,
            )
        )
    return tuple(candidates)


def read_subject(document: Any, *, where: str) -> Subject:
    """Read what `plan_to_json` writes.

    Raises:
        UsageError: it is no plan, or one of a newer version.
    """
    if not isinstance(document, dict) or "fits" not in document or "model" not in document:
        raise UsageError(f"{where}: is no plan; `capplan plan MODEL --format json -o FILE` writes one.")
    if document.get("schema_version") != SCHEMA_VERSION:
        raise UsageError(
            f"{where}: a plan of schema {document.get('schema_version')!r}; this capplan reads {SCHEMA_VERSION}."
        )
    try:
        return _subject(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{where}: a damaged plan ({type(error).__name__}: {error}).") from error


def _subject(document: dict[str, Any]) -> Subject:
    model, provenance = document["model"], document["provenance"]
    return Subject(
        name=str(model["name"]),
        class_name=str(model["class"]),
        target=str(provenance["target"]),
        parameters=int(model["params"]),
        weight_bytes=int(model["weight_bytes"]),
        flops_per_sample=int(model["flops_per_sample"]),
        macs_per_sample=int(model["macs_per_sample"]),
        traffic_fixed_bytes=int(model["traffic_fixed_bytes"]),
        traffic_bytes_per_sample=int(model["traffic_bytes_per_sample"]),
        uncounted=tuple(map(str, model["uncounted"])),
        workload={key: _words(value) for key, value in document["workload"].items() if value is not None},
        utilization_fraction=float(document["limits"]["utilization_fraction"]),
        estimates=tuple(map(_estimate, document["fits"])),
        refusals=tuple(map(_refusal, document["rejections"])),
        assumptions=tuple(map(str, document["assumptions"])),
        notes=tuple(map(str, document["notes"])),
        versions={str(key): str(value) for key, value in provenance["versions"].items()},
        calibration=provenance["calibration"],
    )


def _words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {each}" for key, each in value.items())
    return str(value)


def _interval(given: Mapping[str, float]) -> Interval:
    return Interval(low=float(given["low"]), expected=float(given["expected"]), high=float(given["high"]))


def _estimate(fit: dict[str, Any]) -> Estimate:
    memory = fit["memory"]
    allocated, reserved, total = (
        _interval(memory[name]) for name in ("peak_allocated_bytes", "peak_reserved_bytes", "total_bytes")
    )
    parts = [Part(name=str(name), size_bytes=_interval(size)) for name, size in memory["parts"].items()]
    parts.append(Part(name="allocator slack", size_bytes=_difference(reserved, allocated)))
    parts.append(Part(name="CUDA context", size_bytes=_difference(total, reserved)))
    return Estimate(
        gpu=str(fit["gpu"]),
        gpu_name=str(fit["gpu_name"]),
        batch=int(fit["batch"]),
        status=FitStatus(fit["status"]).value,
        latency_s=_interval(fit["latency_s"]),
        bound_s=float(fit["latency_s"]["bound"]),
        bound_by=str(fit["bound_by"]),
        throughput_per_s=_interval(fit["throughput_per_s"]),
        parts=tuple(parts),
        total_bytes=total,
        usable_bytes=memory["usable_bytes"],
        calibration=fit["calibration"],
        notes=tuple(map(str, fit["notes"])),
        speed=_speed(fit.get("evidence")),
        evidence=str(fit.get("evidence_reason", "")),
    )


def _speed(evidence: object) -> SpeedTier:
    """Sort a plan's class of evidence into measured, transferred and spec sheet; plans before it count as the last."""
    if evidence == Evidence.MEASURED:
        return SpeedTier.MEASURED
    return SpeedTier.SPEC_SHEET if evidence in (None, Evidence.SPEC_SHEET) else SpeedTier.TRANSFERRED


def _difference(whole: Interval, part: Interval) -> Interval:
    return Interval(low=whole.low - part.low, expected=whole.expected - part.expected, high=whole.high - part.high)


def _refusal(rejection: dict[str, Any]) -> Refusal:
    return Refusal(
        gpu=str(rejection["gpu"]),
        gpu_name=str(rejection["gpu_name"]),
        batch=int(rejection["batch"]),
        constraint=str(rejection["constraint"]),
        reason=str(rejection["reason"]).removeprefix(f"{rejection['constraint']}: "),
    )
