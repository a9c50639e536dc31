"""Check the JSON of a measured point before it becomes one: types, ranges, and numbers that are finite."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from capplan.core.json_fields import (
    as_list,
    as_mapping,
    check_choice,
    check_flag,
    check_number,
    check_text,
    check_texts,
    check_whole,
    check_wholes,
    member,
)
from capplan.core.measurement.types import MeasurementFailure
from capplan.core.workload import LARGEST_BATCH, Framework, Layout, Precision, TimingMethod

Check = Callable[[Any, str], None]

MOST_SAMPLES = 20_000
"""Most repetitions of one measured point; `capplan measure` times at most 2,000 unless it is asked for more."""

SHORTEST_S = 1e-12
"""Shortest time that is read: no clock resolves a picosecond. [s]"""

_LARGEST_WHOLE = 2**62
_LONGEST_S = 1e9
"""Longest time that is read, 30 years. [s]"""


def _optional(check: Check) -> Check:
    def checked(value: Any, place: str) -> None:
        if value is not None:
            check(value, place)

    return checked


def _texts(value: Any, place: str) -> None:
    check_texts(as_list(value, place), place)


def _versions(value: Any, place: str) -> None:
    check_texts(as_mapping(value, place).values(), place)


def _sizes(value: Any, place: str) -> None:
    check_wholes(as_list(value, place), place, low=0, high=_LARGEST_WHOLE)


def _samples(value: Any, place: str) -> None:
    samples = as_list(value, place)
    if not samples:
        raise ValueError(f"{place} must not be empty")
    if len(samples) > MOST_SAMPLES:
        raise ValueError(f"{place} holds {len(samples):,} samples; at most {MOST_SAMPLES:,} are read")
    for index, sample in enumerate(samples):
        check_number(sample, f"{place}[{index}]", low=SHORTEST_S, high=_LONGEST_S)


_time = partial(check_number, low=0, high=_LONGEST_S)
_count = partial(check_whole, low=0, high=_LARGEST_WHOLE)
_positive = partial(check_number, low=0)
_any_number = partial(check_number, low=-1e300)

_MODEL: Mapping[str, Check] = {
    "name": check_text, "words": check_text, "library": check_text, "input_size": _sizes, "versions": _versions,
    "source_sha256": _optional(check_text),
}  # fmt: skip
_WORKLOAD: Mapping[str, Check] = {
    "batch": partial(check_whole, low=1, high=LARGEST_BATCH),
    "precision": partial(check_choice, known=tuple(Precision)),
    "framework": partial(check_choice, known=tuple(Framework)),
    "layout": partial(check_choice, known=tuple(Layout)),
}
_CLOCKS: Mapping[str, Check] = {"graphics_hz": _optional(_positive), "memory_hz": _optional(_positive)}
_DEVICE: Mapping[str, Check] = {
    "name": check_text, "kind": check_text, "torch": check_text,
    **dict.fromkeys(("gpu", "driver", "cuda", "cudnn"), _optional(check_text)),
    **dict.fromkeys(("memory_bytes", "threads"), _optional(_count)),
    "power_limit_w": _optional(_positive), "temperature_c": _optional(_any_number), "throttling": _texts,
}  # fmt: skip
_RULES: Mapping[str, Check] = {
    "warm_up_runs": _optional(_count), "repetitions": _optional(_count), "budget_s": _time,
    "method": _optional(partial(check_choice, known=tuple(TimingMethod))), "flush_l2": check_flag,
    "autotune": check_flag,
}  # fmt: skip
_LIMIT: Mapping[str, Check] = {"allowed_bytes": _optional(_count), "reserve_fraction": _optional(_positive)}
_WARM_UP: Mapping[str, Check] = {"runs": _count, "elapsed_s": _time, "first_s": _time, "stable": check_flag}
_MEMORY: Mapping[str, Check] = dict.fromkeys(
    ("peak_allocated_bytes", "peak_reserved_bytes", "device_used_bytes", "process_bytes"), _optional(_count)
)
_ESTIMATE: Mapping[str, Check] = {
    **dict.fromkeys(("bound", "expected", "low", "high"), _time),
    "calibration": _optional(check_text), "mfu_fraction": _optional(_positive), "mbu_fraction": _optional(_positive),
}  # fmt: skip
_TIMED: Mapping[str, Check] = {
    "method": partial(check_choice, known=tuple(TimingMethod)), "l2_flushed": check_flag, "finite_outputs": check_flag,
    "power_w": _optional(_positive), "energy_j_per_sample": _optional(_positive), "notes": _texts,
}  # fmt: skip
_HEAD: Mapping[str, Check] = {"date": check_text, "command": check_text}


def check_point(document: Mapping[str, Any]) -> None:
    """Check the JSON of a measurement or a failure.

    Raises:
        ValueError: a part is missing, of another type, not finite or out of range; the message names it.
    """
    _check_members(document, _HEAD, "")
    for name, checks in (("model", _MODEL), ("workload", _WORKLOAD), ("device", _DEVICE)):
        _check_members(as_mapping(member(document, name, ""), name), checks, f"{name}.")
    _check_members(as_mapping(member(document["device"], "clocks", "device."), "clocks"), _CLOCKS, "device.clocks.")
    _check_optional(document.get("rules"), _RULES, "rules")
    if "failure" in document:
        failure = as_mapping(document["failure"], "failure")
        check_choice(member(failure, "kind", "failure."), "failure.kind", known=tuple(MeasurementFailure))
        check_text(member(failure, "message", "failure."), "failure.message")
        _check_optional(failure.get("limit"), _LIMIT, "failure.limit")
        return
    _check_members(document, _TIMED, "")
    _check_members(as_mapping(member(document, "warm_up", ""), "warm_up"), _WARM_UP, "warm_up.")
    _check_members(as_mapping(member(document, "memory", ""), "memory"), _MEMORY, "memory.")
    latency = as_mapping(member(document, "latency_s", ""), "latency_s")
    _samples(member(latency, "samples", "latency_s."), "latency_s.samples")
    if document["power_w"] is not None:
        _positive(document["energy_j_per_sample"], "energy_j_per_sample")
    _check_optional(member(document, "estimate", ""), _ESTIMATE, "estimate")


def _check_members(row: Mapping[str, Any], checks: Mapping[str, Check], prefix: str) -> None:
    for name, check in checks.items():
        check(member(row, name, prefix), f"{prefix}{name}")


def _check_optional(row: Any, checks: Mapping[str, Check], name: str) -> None:
    if row is not None:
        _check_members(as_mapping(row, name), checks, f"{name}.")
