"""Check how the figures of one GPU relate to each other; nearly every wrong public table breaks one of these rules."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise

from capplan.core.gpus.spec import GpuArchitecture, GpuSpec, Microbenchmark, PeakKind, Status
from capplan.specs.gpus.fields import MEMORY_DATA_RATES
from capplan.specs.gpus.sheets import Sheet
from capplan.specs.strict_yaml import Problem
from capplan.units import format_bytes, format_bytes_per_s, format_flops_per_s

FORMULA_TOLERANCE = 0.03
BANDWIDTH_TOLERANCE = 0.02
LADDER_TOLERANCE = 0.03
USABLE_FRACTIONS = (0.90, 1.0)
RIDGE_FLOP_PER_BYTE = (15.0, 650.0)
CPU_RIDGE_FLOP_PER_BYTE = (5.0, 1200.0)

TENSOR_KINDS = (
    PeakKind.TF32, PeakKind.FP16, PeakKind.FP16_ACC16, PeakKind.BF16, PeakKind.FP8, PeakKind.FP4, PeakKind.INT8,
)  # fmt: skip
_PRINTED_PEAKS = {
    Microbenchmark.MATMUL_HALF: (PeakKind.FP16, PeakKind.BF16, PeakKind.FP16_VECTOR, PeakKind.FP32),
    Microbenchmark.MATMUL_TF32: (PeakKind.TF32,),
    Microbenchmark.MATMUL_FP32: (PeakKind.FP32,),
    Microbenchmark.MATMUL_FP8: (PeakKind.FP8,),
}
"""The printed rates that bound a measured one, the fastest of them. Old GPUs compute 16-bit products in fp32."""
_LADDER_STEPS = (1.0, 2.0, 3.0, 4.0)
_FP64_SHARES = (1 / 64, 1 / 32, 1 / 16, 1 / 2, 1.0)
_FP16_SHARES = (1 / 64, 1.0, 2.0, 4.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A figure that breaks a rule; `missing` where only something that the rule needs is left out."""

    rule: str
    key: str
    message: str
    missing: bool = False


def contradictions(spec: GpuSpec, architecture: GpuArchitecture, sheet: Sheet) -> list[Problem]:
    """Find figures that cannot all be true, exempted ones apart.

    A rate measured above the printed one may be true of a card that its owner clocks higher: it stops no command, and
    `gpus validate` asks for the reason.
    """
    findings = [
        finding for finding in _findings(spec, architecture) if not finding.missing and finding.rule != "measured"
    ]
    return _problems(findings, sheet)


def shortcomings(spec: GpuSpec, architecture: GpuArchitecture, sheet: Sheet, *, today: date) -> list[Problem]:
    """Find all that a published file must not leave open: contradictions, unchecked peaks, a missing segment."""
    findings = list(_findings(spec, architecture))
    problems = _problems(findings, sheet)
    broken = {(finding.rule, finding.key) for finding in findings}
    for exemption in sheet.exemptions:
        for key in exemption.keys:
            if (exemption.rule, key) not in broken:
                message = f"{key} keeps the rule {exemption.rule}; drop the exemption"
                problems.append(Problem(file=sheet.file, key="exemptions", message=message))
    if spec.segment is None:
        problems.append(Problem(file=sheet.file, key="segment", message="is missing"))
    if spec.release_date and spec.release_date > today:
        problems.append(Problem(file=sheet.file, key="released", message=f"{spec.release_date} is yet to come"))
    return problems


def _problems(findings: Sequence[Finding], sheet: Sheet) -> list[Problem]:
    """Describe the findings that are not exempted, the first of each key."""
    exempted = {(exemption.rule, key) for exemption in sheet.exemptions for key in exemption.keys}
    problems: dict[str, Problem] = {}
    for finding in findings:
        if (finding.rule, finding.key) not in exempted:
            problems.setdefault(finding.key, Problem(file=sheet.file, key=finding.key, message=finding.message))
    return list(problems.values())


def _findings(spec: GpuSpec, architecture: GpuArchitecture) -> Iterator[Finding]:
    rules: tuple[Callable[[GpuSpec, GpuArchitecture], Iterator[Finding]], ...] = (
        _formula, _bandwidth, _data_rate, _ladder, _vector_ratio, _usable, _ridge, _power, _measured, _sale,
    )  # fmt: skip
    for rule in rules:
        yield from rule(spec, architecture)


def formula_peak(spec: GpuSpec, architecture: GpuArchitecture, kind: PeakKind) -> float | None:
    """Return peak = units × clock × operations per clock; None if one of them is unknown. [FLOP/s]

    Tensor formats run at the tensor clock where one is stated, all others at the boost clock.
    """
    clock_hz = spec.tensor_clock_hz or spec.boost_clock_hz if kind in TENSOR_KINDS else spec.boost_clock_hz
    operations = architecture.operations_per_clock.get(kind)
    if not (clock_hz and operations and spec.unit_count):
        return None
    return spec.unit_count * clock_hz * operations


def _formula(spec: GpuSpec, architecture: GpuArchitecture) -> Iterator[Finding]:
    for kind, peak in spec.peak_flops_per_s.items():
        key = f"peak.{kind}"
        if peak is None:
            continue
        if architecture.operations_per_clock.get(kind, 0) is None:
            message = f"architecture {architecture.id} does not support {kind}; drop it"
            yield Finding(rule="formula", key=key, message=message)
            continue
        expected = formula_peak(spec, architecture, kind)
        if expected is None:
            needed = f"units, clock and {architecture.id}'s operations per clock"
            message = f"cannot be checked without {needed}; exempt it with a reason"
            yield Finding(rule="formula", key=key, message=message, missing=True)
        elif _off(peak, 2 * expected) <= FORMULA_TOLERANCE:
            message = (
                f"{format_flops_per_s(peak)} is twice units × clock × operations per clock: the rate with structured "
                f"sparsity; write the dense {format_flops_per_s(peak / 2)} and the printed figure as `printed:`"
            )
            yield Finding(rule="formula", key=key, message=message)
        elif _off(peak, expected) > FORMULA_TOLERANCE:
            message = (
                f"{format_flops_per_s(peak)} is {_percent(peak, expected)} off units × clock × operations per clock "
                f"({format_flops_per_s(expected)}); mend one of them or exempt it with a reason"
            )
            yield Finding(rule="formula", key=key, message=message)


def _bandwidth(spec: GpuSpec, _: GpuArchitecture) -> Iterator[Finding]:
    if spec.memory_bus_bits is None or spec.memory_bits_per_s_per_pin is None:
        message = "cannot be checked without memory_bus and memory_data_rate; exempt it with a reason"
        yield Finding(rule="bandwidth", key="bandwidth", message=message, missing=True)
        return
    expected = spec.memory_bus_bits * spec.memory_bits_per_s_per_pin / 8
    if _off(spec.memory_bandwidth_bytes_per_s, expected) > BANDWIDTH_TOLERANCE:
        given = spec.memory_bandwidth_bytes_per_s
        off = f"{_percent(given, expected)} off bus × data rate ({format_bytes_per_s(expected)})"
        message = f"{format_bytes_per_s(given)} is {off}"
        yield Finding(rule="bandwidth", key="bandwidth", message=message)


def _data_rate(spec: GpuSpec, _: GpuArchitecture) -> Iterator[Finding]:
    rate, kind = spec.memory_bits_per_s_per_pin, spec.memory_type
    if rate is None or kind is None:
        return
    low, high = MEMORY_DATA_RATES[kind]
    if not low <= rate <= high:
        message = f"{rate / 1e9:g} Gbit/s is not a rate of {kind}, which runs at {low / 1e9:g} to {high / 1e9:g}"
        yield Finding(rule="data-rate", key="memory_data_rate", message=message)


def _ladder(spec: GpuSpec, architecture: GpuArchitecture) -> Iterator[Finding]:
    """Check each tensor format against the 16-bit one: the architecture's ratio, or a whole one if it states none."""
    base_kind = PeakKind.FP16 if spec.peak(PeakKind.FP16) else PeakKind.BF16
    base = spec.peak(base_kind)
    if not base:
        return
    for kind in TENSOR_KINDS:
        peak = spec.peak(kind)
        if peak is None or kind is base_kind:
            continue
        operations = architecture.operations_per_clock
        own, of_base = operations.get(kind), operations.get(base_kind)
        steps = (0.5, 0.25) if kind is PeakKind.TF32 else _LADDER_STEPS
        known = (own / of_base,) if own and of_base else steps
        if min(_off(peak, base * share) for share in known) > LADDER_TOLERANCE:
            sparse = any(_off(peak, 2 * base * share) <= LADDER_TOLERANCE for share in known)
            message = (
                f"is {peak / base:.3g} times {base_kind}, where {' or '.join(f'{share:g}' for share in known)} is known"
                f"{': the rate with sparsity?' if sparse else ''}"
            )
            yield Finding(rule="ladder", key=f"peak.{kind}", message=message)


def _vector_ratio(spec: GpuSpec, architecture: GpuArchitecture) -> Iterator[Finding]:
    fp32 = spec.peak(PeakKind.FP32)
    for kind, shares in ((PeakKind.FP64, _FP64_SHARES), (PeakKind.FP16_VECTOR, _FP16_SHARES)):
        peak = spec.peak(kind)
        if not (fp32 and peak) or architecture.operations_per_clock.get(kind):
            continue
        if min(_off(peak / fp32, share) for share in shares) > 0.05:
            known = ", ".join(f"{share:.4g}" for share in shares)
            message = f"is {peak / fp32:.3g} of fp32, where {known} are known"
            yield Finding(rule="vector-ratio", key=f"peak.{kind}", message=message)


def _usable(spec: GpuSpec, _: GpuArchitecture) -> Iterator[Finding]:
    low, high = USABLE_FRACTIONS
    for key, size in (("usable", spec.usable_bytes), ("driver_total", spec.driver_total_bytes)):
        if size is not None and not low <= size / spec.memory_bytes <= high:
            share = size / spec.memory_bytes
            message = f"{format_bytes(size)} is {share:.3f} of the printed memory; {low:g} to {high:g} is possible"
            yield Finding(rule="usable", key=key, message=message)
    if spec.usable_bytes and spec.driver_total_bytes and spec.usable_bytes > spec.driver_total_bytes:
        yield Finding(rule="usable", key="usable", message="is more than driver_total")


def _ridge(spec: GpuSpec, _: GpuArchitecture) -> Iterator[Finding]:
    ridge = spec.ridge_flop_per_byte
    low, high = CPU_RIDGE_FLOP_PER_BYTE if spec.is_cpu else RIDGE_FLOP_PER_BYTE
    if ridge is not None and not low <= ridge <= high:
        message = f"puts the ridge point at {ridge:.0f} FLOP/byte; {low:g} to {high:g} is known"
        yield Finding(rule="ridge", key="bandwidth", message=message)


def _power(spec: GpuSpec, _: GpuArchitecture) -> Iterator[Finding]:
    limits = [("tdp_min", spec.tdp_min_w), ("tdp", spec.tdp_w), ("tdp_max", spec.tdp_max_w)]
    known = [(key, limit) for key, limit in limits if limit is not None]
    for (lower_key, lower), (key, limit) in pairwise(known):
        if lower > limit:
            yield Finding(rule="power", key=lower_key, message=f"{lower:g} W is above {key} ({limit:g} W)")
    if spec.nominal_tdp_w is not None and not (spec.tdp_w or 0) < spec.nominal_tdp_w:
        message = f"a capped edition has less than the full card's {spec.nominal_tdp_w:g} W"
        yield Finding(rule="power", key="tdp", message=message)


def _measured(spec: GpuSpec, _: GpuArchitecture) -> Iterator[Finding]:
    """Find rates that were measured above the printed ones: another card's, or at a clock above the printed one."""
    for kind, rate in spec.measured.items():
        printed = max((spec.peak(peak) or 0.0 for peak in _PRINTED_PEAKS.get(kind, ())), default=0.0)
        if kind in (Microbenchmark.COPY, Microbenchmark.READ):
            printed = spec.memory_bandwidth_bytes_per_s
        if printed and rate.value > printed:
            shown = format_bytes_per_s if kind in (Microbenchmark.COPY, Microbenchmark.READ) else format_flops_per_s
            message = (
                f"{shown(rate.value)} is above the printed {shown(printed)}: correct one of them, leave the "
                "measurement out if it is another card's, or exempt it with a reason"
            )
            yield Finding(rule="measured", key=f"measured.{kind}", message=message)


def _sale(spec: GpuSpec, _: GpuArchitecture) -> Iterator[Finding]:
    """Find facts of sale that exclude each other, and an announced device of which nobody says when it comes."""
    if spec.status is Status.ANNOUNCED:
        if spec.expected is None:
            yield Finding(rule="sale", key="expected", message="is missing, where the status is announced")
        if spec.sold_since is not None:
            yield Finding(rule="sale", key="sold_since", message="is stated of a device that is announced alone")
    elif spec.expected is not None:
        yield Finding(rule="sale", key="expected", message="belongs to a device whose status is announced")
    if spec.sold_since and spec.end_of_sale and spec.end_of_sale < spec.sold_since:
        yield Finding(rule="sale", key="end_of_sale", message=f"lies before sold_since ({spec.sold_since})")


def _off(value: float, expected: float) -> float:
    return abs(value / expected - 1)


def _percent(value: float, expected: float) -> str:
    return f"{100 * (value / expected - 1):+.1f} %"
