"""Loads of a week: what is read, and what is refused in a sentence."""

from pathlib import Path

import pytest

from capplan.errors import SpecError
from capplan.specs.week import read_week


def _written(folder: Path, text: str) -> Path:
    path = folder / "week.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_day_in_any_unit_is_scaled_to_its_requests(tmp_path: Path) -> None:
    hours = ", ".join(["0"] * 8 + ["1"] * 16)
    path = _written(tmp_path, f"day: [{hours}]\nrequests_per_day: 57600\ndays_per_week: 5\n")
    load = read_week(path)
    # 57,600 requests in 16 hours: 1/s; nothing at the weekend
    assert load.peak_per_s == pytest.approx(1.0)
    assert load.requests == pytest.approx(5 * 57_600)


def test_a_week_of_rates_and_a_burst_are_read(tmp_path: Path) -> None:
    path = _written(tmp_path, f"week: [{', '.join(['2'] * 168)}]\nbursts: [{{hour: 3, lasts: 10 min, times: 4}}]\n")
    assert read_week(path).peak_per_s == 8.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("day: [1, 2]\n", "must be a list of 24 numbers"),
        ("rate: 5\n", "is not a key"),
        (f"day: [{', '.join(['0'] * 24)}]\n", "one is above 0"),
        (f"day: [{', '.join(['1'] * 24)}]\ndays_per_week: 9\n", "from 1 to 7"),
        (f"day: [{', '.join(['1'] * 24)}]\nbursts: [{{hour: 900, lasts: 1 min, times: 2}}]\n", "from 0 to 168"),
        (f"day: [{', '.join(['1'] * 24)}]\nbursts: [{{hour: 1}}]\n", "must have hour"),
    ],
)
def test_a_wrong_load_is_refused_in_a_sentence(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        read_week(_written(tmp_path, text))
