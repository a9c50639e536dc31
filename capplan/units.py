"""Read and write quantities: the only place that knows "80 GiB", "50ms" and "312 TFLOP/s".

Inside the program a quantity is a plain number in a base unit (bytes, seconds, FLOP/s, bytes/s,
hertz, watts). GB is 10⁹ bytes, GiB 2³⁰.
"""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime

from capplan.errors import UsageError

_DECIMAL = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}

BYTES: Mapping[str, float] = {
    **{f"{prefix}B": scale for prefix, scale in (_DECIMAL | _BINARY).items()},
    "KB": 10**3,
}
BYTES_PER_S: Mapping[str, float] = {f"{unit}/s": scale for unit, scale in BYTES.items()}
FLOPS_PER_S: Mapping[str, float] = {
    **{f"{prefix}FLOP/s": scale for prefix, scale in _DECIMAL.items()},
    **{f"{prefix}OP/s": scale for prefix, scale in _DECIMAL.items()},
}
HERTZ: Mapping[str, float] = {f"{prefix}Hz": scale for prefix, scale in _DECIMAL.items()}
SECONDS: Mapping[str, float] = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600, "d": 86400,
}  # fmt: skip
METRES: Mapping[str, float] = {"nm": 1e-9}
WATTS: Mapping[str, float] = {"mW": 1e-3, "W": 1, "kW": 1e3, "MW": 1e6}
BITS_PER_S: Mapping[str, float] = {f"{prefix}bit/s": scale for prefix, scale in _DECIMAL.items()}

_QUANTITY = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-zµ/]*)\s*")


def parse_quantity(text: str, units: Mapping[str, float], *, what: str) -> float:
    """Read a number with its unit, such as "80 GiB" or "50ms", into the base unit.

    >>> parse_quantity("50ms", SECONDS, what="--max-latency")
    0.05
    >>> parse_quantity("3.35 TB/s", BYTES_PER_S, what="bandwidth")
    3350000000000.0

    Args:
        text: the number and its unit, with or without a blank between them.
        units: the units that are known, with their size in the base unit.
        what: what is read, for the error message.

    Raises:
        UsageError: the text is not a number, is negative, or its unit is not among `units`.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2] not in units:
        known = ", ".join(unit for unit in units if unit)
        bare = match is not None and not match[2] and next((unit for unit in ("ms", "GiB") if unit in units), None)
        such = f", such as {text.strip()}{bare}" if bare else ""
        raise UsageError(f"{what}: {text!r} is not a quantity; write a number and one of {known}{such}.")
    value = float(match[1]) * units[match[2]]
    if value < 0:
        raise UsageError(f"{what}: {text!r} is negative; write a quantity of at least 0.")
    if not math.isfinite(value):
        raise UsageError(f"{what}: a number of {len(match[1])} characters is too large.")
    return value


def whole_number(text: str) -> int | None:
    """Return what up to 18 ASCII digits write, None for other text: int() refuses "²" and more than 4,300 digits."""
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else None


def _scaled(value: float, scales: list[tuple[float, str]], digits: int) -> str:
    for scale, unit in scales:
        if abs(value) >= scale:
            return f"{_significant(value / scale, digits)} {unit}"
    scale, unit = scales[-1]
    return f"{_significant(value / scale, digits)} {unit}"


def _significant(value: float, digits: int) -> str:
    if value == 0:
        return "0"
    whole = len(str(int(abs(value)))) if abs(value) >= 1 else 0
    return f"{value:.{max(0, digits - whole)}f}" if whole else f"{value:.{digits}g}"


def format_bytes(size_bytes: float) -> str:
    """Write a size in binary units.

    >>> format_bytes(80 * 2**30)
    '80.0 GiB'
    """
    return _scaled(size_bytes, [(2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")], 3)


def format_seconds(time_s: float) -> str:
    """Write a duration.

    >>> format_seconds(0.0118)
    '11.8 ms'
    """
    return _scaled(time_s, [(1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")], 3)


def format_duration(time_s: float) -> str:
    """Write how long a run takes, as people say it: days, hours, minutes from ten on."""
    for unit, word in (("d", "days"), ("h", "h")):
        if time_s >= SECONDS[unit]:
            return f"{time_s / SECONDS[unit]:,.1f} {word}"
    return f"{time_s / 60:.0f} min" if time_s >= 600 else format_seconds(time_s)


def format_flops(flops: float) -> str:
    """Write a count of floating-point operations.

    >>> format_flops(8_178_368_512)
    '8.18 GFLOP'
    """
    return f"{format_count(flops, spaced=True)}FLOP"


def format_flops_per_s(rate: float) -> str:
    """Write a rate of floating-point operations.

    >>> format_flops_per_s(312e12)
    '312 TFLOP/s'
    """
    return f"{format_count(rate, spaced=True)}FLOP/s"


def format_bytes_per_s(rate: float) -> str:
    """Write a bandwidth in decimal units, as data sheets print it.

    >>> format_bytes_per_s(3.35e12)
    '3.35 TB/s'
    """
    return f"{format_count(rate, spaced=True)}B/s"


def format_count(value: float, *, spaced: bool = False) -> str:
    """Write a count with a decimal prefix, such as "25.6 M"; `spaced` keeps the blank when there is none."""
    scales = [(10.0**power, prefix) for power, prefix in ((15, "P"), (12, "T"), (9, "G"), (6, "M"), (3, "k"))]
    if abs(value) < 1000:
        return f"{_significant(value, 3)}{' ' if spaced else ''}"
    return _scaled(value, scales, 3)


def format_parameters(count: int) -> str:
    """Write a number of parameters, billions as "B" like the names of models do.

    >>> format_parameters(8_030_261_248), format_parameters(25_557_032), format_parameters(36)
    ('8.03 B', '25.6 M', '36')
    """
    if count < 1000:
        return str(count)
    return f"{_significant(count / 1e9, 3)} B" if 1e9 <= count < 1e12 else format_count(count)


def format_rate(rate_per_s: float) -> str:
    """Write samples per second with thousands separated.

    >>> format_rate(1234.5), format_rate(12.34)
    ('1,234', '12.3')
    """
    return f"{rate_per_s:,.0f}" if rate_per_s >= 100 else _significant(rate_per_s, 3)


def format_watts(power_w: float) -> str:
    """Write a power.

    >>> format_watts(427.3), format_watts(5600)
    ('427 W', '5.60 kW')
    """
    return _scaled(power_w, [(1e3, "kW"), (1, "W")], 3)


def format_joules(energy_j: float) -> str:
    """Write an energy.

    >>> format_joules(0.0719), format_joules(1.366), format_joules(1.8e6), format_joules(9e6)
    ('71.9 mJ', '1.37 J', '500 Wh', '2.50 kWh')
    """
    if 3.6e5 <= energy_j < 3.6e6:
        return f"{energy_j / 3.6e3:.0f} Wh"
    return _scaled(energy_j, [(3.6e9, "MWh"), (3.6e6, "kWh"), (1e3, "kJ"), (1, "J"), (1e-3, "mJ")], 3)


def format_speedup(ratio: float) -> str:
    """Format how many times as fast a change is: `×1.53`, and `×0.88, slower` below one."""
    return f"×{ratio:.2f}" + (", slower" if round(ratio, 2) < 1 else "")


def format_fraction(fraction: float) -> str:
    """Write a share as a percentage; one below a millionth as such.

    >>> format_fraction(0.073), format_fraction(5e-7)
    ('7.30 %', '<0.0001 %')
    """
    if 0 < fraction < 1e-6:
        return "<0.0001 %"
    return f"{_significant(100 * fraction, 3)} %"


def counted(number: int, noun: str) -> str:
    """Write a number with its noun, in the plural unless it is one.

    >>> counted(1, "GPU"), counted(132, "GPU")
    ('1 GPU', '132 GPUs')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_moment(at_s: float) -> str:
    """Write a time since 1970 as a day and an hour of UTC.

    >>> format_moment(1700157780)
    '2023-11-16 18:03'
    """
    return datetime.fromtimestamp(at_s, tz=UTC).strftime("%Y-%m-%d %H:%M")
