"""Compare a machine that was delivered with what was planned: what it is, and how fast it was measured."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from capplan.core.gpus.rate_laws import MicrobenchRow, SustainedLaws, sustained_rates
from capplan.core.gpus.spec import GpuSpec, Microbenchmark
from capplan.core.numbers import Interval
from capplan.units import (
    format_bytes,
    format_bytes_per_s,
    format_flops_per_s,
    format_rate,
    format_seconds,
    format_watts,
)

_MEMORY_TOLERANCE = 0.01
"""Share of the memory that driver releases differ by in what they report as a device's total."""
_LIMIT_TOLERANCE = 0.02
_Shown = Callable[[float], str]


class FindingMark(StrEnum):
    """What a finding means for the acceptance of a machine, the worst last."""

    KEPT = "as planned"
    REMARK = "remark"
    REFUSED = "refused"


class AcceptanceVerdict(StrEnum):
    """Whether a machine is accepted."""

    ACCEPTED = "accepted"
    REMARKS = "accepted with remarks"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveredGpu:
    """A device of a machine, as its driver describes it; None for what it does not state.

    `link` is the slowest connection to the other devices in the words of `nvidia-smi topo -m`, such as NV18 or SYS.
    """

    name: str
    memory_bytes: float | None = None
    driver: str | None = None
    power_limit_w: float | None = None
    max_clock_hz: float | None = None
    ecc_on: bool | None = None
    uncorrected_errors: int | None = None
    link: str | None = None
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFinding:
    """One thing that was compared: in words, what was planned, what was found, and what that means."""

    what: str
    planned: str
    found: str
    mark: FindingMark
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """A machine compared with its plan; `missing` is what nothing states."""

    plan: str
    machine: str
    findings: tuple[MachineFinding, ...]
    missing: tuple[str, ...] = ()

    @property
    def verdict(self) -> AcceptanceVerdict:
        """Return the verdict, which the worst finding decides; what is missing is a remark."""
        marks = {finding.mark for finding in self.findings}
        if FindingMark.REFUSED in marks:
            return AcceptanceVerdict.REFUSED
        return AcceptanceVerdict.REMARKS if FindingMark.REMARK in marks or self.missing else AcceptanceVerdict.ACCEPTED

    @property
    def decided_by(self) -> MachineFinding | None:
        """Return the finding that decided against plain acceptance; None where none did."""
        for mark in (FindingMark.REFUSED, FindingMark.REMARK):
            for finding in self.findings:
                if finding.mark is mark:
                    return finding
        return None


def machine_findings(
    gpu: GpuSpec, count: int, delivered: Sequence[DeliveredGpu], *, shares_matrices: bool
) -> Iterator[MachineFinding]:
    """Compare what a machine is with what was planned."""
    names = {gpu.name, gpu.id, *gpu.aliases}
    right = [each for each in delivered if each.name in names]
    others = sorted({each.name for each in delivered if each.name not in names})
    found = f"{len(right)} × {gpu.name}" + "".join(f", {name}" for name in others)
    mark = FindingMark.REMARK if len(right) > count or others else FindingMark.KEPT
    mark = FindingMark.REFUSED if len(right) < count else mark
    source = delivered[0].source if delivered else ""
    yield MachineFinding(what="GPUs", planned=f"{count} × {gpu.name}", found=found, mark=mark, source=source)
    for place, each in enumerate(right):
        yield from _device_findings(gpu, each, f"GPU {place}")
    links = [each.link for each in right if each.link is not None]
    if shares_matrices and gpu.nvlink_bytes_per_s and links:
        slow = [link for link in links if not link.startswith("NV") and link != "XGMI"]
        yield MachineFinding(
            what="links between GPUs", planned="NVLink or XGMI", found=", ".join(sorted(set(links))),
            mark=FindingMark.REFUSED if slow else FindingMark.KEPT, source=right[0].source,
        )  # fmt: skip


def _device_findings(gpu: GpuSpec, each: DeliveredGpu, name: str) -> Iterator[MachineFinding]:
    planned_bytes = gpu.driver_total_bytes or gpu.usable_bytes or gpu.memory_bytes
    refused, remark, in_megahertz = FindingMark.REFUSED, FindingMark.REMARK, lambda hz: f"{hz / 1e6:.0f} MHz"
    rows: tuple[tuple[str, float | None, float | None, _Shown, float, FindingMark], ...] = (
        ("memory", planned_bytes, each.memory_bytes, format_bytes, _MEMORY_TOLERANCE, refused),
        ("power limit", gpu.tdp_w, each.power_limit_w, format_watts, _LIMIT_TOLERANCE, remark),
        ("highest clock", gpu.boost_clock_hz, each.max_clock_hz, in_megahertz, _LIMIT_TOLERANCE, remark),
    )
    for what, planned, found, shown, tolerance, mark in rows:
        if planned is not None and found is not None:
            yield MachineFinding(
                what=f"{name}, {what}", planned=shown(planned), found=shown(found),
                mark=mark if found < planned * (1 - tolerance) else FindingMark.KEPT, source=each.source,
            )  # fmt: skip
    if each.ecc_on is not None:
        yield MachineFinding(
            what=f"{name}, ECC", planned="on", found="on" if each.ecc_on else "off",
            mark=FindingMark.KEPT if each.ecc_on else remark, source=each.source,
        )  # fmt: skip
    if (errors := each.uncorrected_errors) is not None:
        yield MachineFinding(
            what=f"{name}, uncorrected memory errors", planned="0", found=str(errors),
            mark=refused if errors else FindingMark.KEPT, source=each.source,
        )  # fmt: skip


def time_finding(what: str, measured_s: float, planned_s: Interval, *, source: str) -> MachineFinding:
    """Compare a measured time with the interval of the plan: one above it refuses the machine, below it is a remark."""
    worse = measured_s > planned_s.high
    return _finding(what, measured_s, planned_s, is_worse=worse, shown=format_seconds, source=source)


def rate_finding(
    what: str, measured_per_s: float, planned_per_s: Interval, *, source: str, shown: _Shown = format_rate
) -> MachineFinding:
    """Compare a measured rate with the interval of the plan: one below it refuses the machine, above it is a remark."""
    worse = measured_per_s < planned_per_s.low
    return _finding(what, measured_per_s, planned_per_s, is_worse=worse, shown=shown, source=source)


_KERNELS: Mapping[Microbenchmark, tuple[str, _Shown]] = {
    Microbenchmark.MATMUL_HALF: ("16-bit matrix products", format_flops_per_s),
    Microbenchmark.MATMUL_FP32: ("fp32 matrix products", format_flops_per_s),
    Microbenchmark.COPY: ("copies in memory", format_bytes_per_s),
}


def kernel_findings(gpu: GpuSpec, laws: SustainedLaws, measured: Sequence[MicrobenchRow]) -> Iterator[MachineFinding]:
    """Compare what a card reaches in large products and copies with what cards of its kind do."""
    planned = sustained_rates(gpu, laws)
    for kind, (what, shown) in _KERNELS.items():
        rows = [row for row in measured if row.kind is kind]
        if kind in planned and rows:
            best = max(rows, key=lambda row: row.value)
            yield rate_finding(what, best.value, planned[kind], source=best.source, shown=shown)


def _finding(
    what: str, measured: float, planned: Interval, *, is_worse: bool, shown: _Shown, source: str
) -> MachineFinding:
    is_inside = planned.low <= measured <= planned.high
    mark = FindingMark.REFUSED if is_worse else FindingMark.KEPT if is_inside else FindingMark.REMARK
    ends = f"{shown(planned.low)} to {shown(planned.high)}"
    return MachineFinding(what=what, planned=ends, found=shown(measured), mark=mark, source=source)
