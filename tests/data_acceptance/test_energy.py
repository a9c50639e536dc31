"""The shipped law of power: what it was made from, and how it meets measured runs that it did not see."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.energy import FITTED, errors_of, held_out_logs, judge, read_rows
from capplan.core.energy.power import PowerLaw
from capplan.errors import SpecError
from capplan.specs.power_law import dump_power_law, load_power_law

pytestmark = pytest.mark.slow

ROWS = Path(__file__).parents[3] / "shared" / "data" / "energy" / "llm-energy.csv.gz"
beside = pytest.mark.skipif(not ROWS.is_file(), reason="the measured runs beside the project are not here")


@pytest.fixture(scope="module")
def law() -> PowerLaw:
    return load_power_law()


def test_the_law_names_its_origin_and_is_written_as_it_is_read(law: PowerLaw, tmp_path: Path) -> None:
    assert law.origin.rows > 300
    assert "benchmarks/energy.py" in law.origin.command
    path = tmp_path / "copy.yaml"
    path.write_text(dump_power_law(law))
    assert load_power_law(path) == law


def test_the_constants_are_shares_and_others_are_less_certain(law: PowerLaw) -> None:
    for name, constants in law.architectures.items():
        assert 0 <= constants.base_fraction < 1, name
        assert min(constants.memory_fraction, constants.compute_fraction) >= 0, name
        assert 0 < constants.log_half_width < law.others.log_half_width, name


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("schema_version: 7", "is not a law of power of schema_version 1"),
        ("schema_version: 1", "origin is missing"),
        ("schema_version: [", "is not YAML"),
        ("schema_version: 1\norigin: {made: soon}", "origin.made is 'soon'"),
    ],
)
def test_a_file_that_is_no_law_is_refused_in_a_sentence(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "law.yaml"
    path.write_text(text)
    with pytest.raises(SpecError, match=words):
        load_power_law(path)


@pytest.mark.shared
@beside
def test_models_left_out_draw_what_the_page_says(law: PowerLaw) -> None:
    rows = [row for row in read_rows(ROWS)[0] if row.task in FITTED]
    errors = errors_of(held_out_logs(rows, [row.model for row in rows]))
    assert errors["median"] < 0.09
    assert errors["p90"] < 0.22
    # the best flat share of the limit, which saw all rows, is what a planner without a law takes
    shares = np.array([row.measured_w / (row.gpu.tdp_w or 0) for row in rows])
    flat = np.abs(np.median(shares) / shares - 1)
    assert errors["median"] < np.median(flat)
    assert errors["p90"] < np.quantile(flat, 0.9)


@pytest.mark.shared
@beside
def test_the_shipped_constants_are_those_that_the_command_makes(law: PowerLaw) -> None:
    made = judge(read_rows(ROWS)[0], command=law.origin.command, source=ROWS.name)
    assert made.architectures == law.architectures
    assert made.others == law.others
    assert made.origin.held_out_errors == law.origin.held_out_errors
