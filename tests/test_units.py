import pytest

from capplan import units
from capplan.errors import UsageError


@pytest.mark.parametrize(
    ("text", "known", "value"),
    [
        ("80 GiB", units.BYTES, 80 * 2**30),
        ("80GB", units.BYTES, 80e9),
        ("3.35 TB/s", units.BYTES_PER_S, 3.35e12),
        ("989.4 TFLOP/s", units.FLOPS_PER_S, 989.4e12),
        ("50ms", units.SECONDS, 0.05),
        ("2 µs", units.SECONDS, 2e-6),
        ("1.5e3 MHz", units.HERTZ, 1.5e9),
        ("700 W", units.WATTS, 700),
    ],
)
def test_quantities_are_read_into_base_units(text: str, known: dict[str, float], value: float) -> None:
    assert units.parse_quantity(text, known, what="x") == pytest.approx(value)


def test_a_bare_number_is_offered_with_its_unit() -> None:
    with pytest.raises(UsageError, match="min, h, d, such as 20ms"):
        units.parse_quantity("20", units.SECONDS, what="--max-latency")
    with pytest.raises(UsageError, match=", such as 24GiB"):
        units.parse_quantity("24", units.BYTES, what="--min-memory")
    with pytest.raises(UsageError, match=r"d\.$"):
        units.parse_quantity("5 parsecs", units.SECONDS, what="--max-latency")


@pytest.mark.parametrize("text", ["80 gib", "GiB", "80 GHz", "", "1,5 GiB", "nan GiB"])
def test_unknown_units_and_numbers_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a quantity"):
        units.parse_quantity(text, units.BYTES, what="memory")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (units.format_bytes(80 * 2**30), "80.0 GiB"),
        (units.format_bytes(512), "512 B"),
        (units.format_bytes(0), "0 B"),
        (units.format_seconds(0.0118), "11.8 ms"),
        (units.format_seconds(2.5e-7), "250 ns"),
        (units.format_flops(8_178_368_512), "8.18 GFLOP"),
        (units.format_flops_per_s(312e12), "312 TFLOP/s"),
        (units.format_bytes_per_s(3.35e12), "3.35 TB/s"),
        (units.format_count(25_557_032), "25.6 M"),
        (units.format_rate(13631.4), "13,631"),
        (units.format_rate(8.123), "8.12"),
        (units.format_fraction(0.0728), "7.28 %"),
        (units.format_speedup(1.534), "×1.53"),
        (units.format_speedup(0.884), "×0.88, slower"),
    ],
)
def test_quantities_are_written_with_three_digits(written: str, expected: str) -> None:
    assert written == expected


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("05", 5),
        ("9" * 18, 10**18 - 1),
        ("", None),
        ("-1", None),
        ("²", None),
        ("٣", None),
        ("9" * 5000, None),
    ],
)
def test_a_whole_number_is_written_in_ascii_digits_and_is_no_longer_than_a_machine_counts(
    text: str, number: int | None
) -> None:
    assert units.whole_number(text) == number
