"""Figures of a column share their unit and their decimals."""

import pytest

from capplan.report.procurement.figures import column_digits, percent, term_words, time_scale


@pytest.mark.parametrize(
    ("times_s", "written"),
    [
        ([0.0178, 0.00824], ["17.8 ms", "8.2 ms"]),
        ([0.00824, 2.5, None], ["8.2 ms", "2,500.0 ms", "overload"]),
        ([134_000.0, 11_500.0], ["37.2 h", "3.2 h"]),  # 134,000 s / 3,600 = 37.22; 11,500 s / 3,600 = 3.19
        ([547.0, 19_800.0], ["0.15 h", "5.50 h"]),  # the shortest is 0.152 h: two decimals for all
        ([54.8, 4_680.0], ["0.91 min", "78.00 min"]),  # 54.8 s are 0.015 h: too little for hours
        ([0.9, 2.5], ["900.0 ms", "2,500.0 ms"]),
        ([0.00024], ["0.24 ms"]),
    ],
)
def test_times_of_a_column_share_unit_and_decimals(times_s: list[float | None], written: list[str]) -> None:
    scale = time_scale(times_s)
    assert [scale.write(time_s) for time_s in times_s] == written


def test_amounts_of_a_column_share_their_decimals() -> None:
    assert column_digits([52.06, 102_647.93], whole_from=10.0) == 0  # 52 and 102,648
    assert column_digits([0.0357, 70.3]) == 4
    assert column_digits([None, 12.5]) == 2
    assert column_digits([]) == 0


def test_shares_and_terms_are_written_for_buyers() -> None:
    assert percent(10.83, 0) == "1,083 %"
    assert percent(0.00597, 1) == "0.6 %"
    assert percent(None, 1) == "unknown"
    assert [term_words(term) for term in ("buy", "reserved-3y", "on-demand")] == [
        "bought", "3-year commitment", "on-demand",
    ]  # fmt: skip
