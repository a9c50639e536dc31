"""The calibration file of inference engines: read strictly, written back the same, replaced by one's own folder."""

from pathlib import Path

import pytest

from capplan.errors import SpecError
from capplan.specs.calibration import dump_engines, load_calibration, load_engines

FIXTURE = Path(__file__).parents[1] / "fixtures" / "calibrations" / "engines.yaml"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of calibrations in force that holds nothing yet."""
    monkeypatch.setenv("CAPPLAN_CALIBRATIONS", str(tmp_path))
    return tmp_path / "engines.yaml"


def test_engines_written_read_back_the_same(own: Path) -> None:
    own.write_text(FIXTURE.read_text())
    known = load_engines()
    own.write_text(dump_engines(known))
    assert load_engines() == known
    assert dump_engines(load_engines()) == own.read_text()


def test_a_folder_of_ones_own_changes_what_engines_take(own: Path) -> None:
    own.write_text(FIXTURE.read_text().replace("product: 1.0", "product: 0.25"))
    assert load_calibration().engines["tensorrt"].constants.product == 0.25
    own.write_text(FIXTURE.read_text().replace("product: 1.0", "product: 0.125"))
    assert load_calibration().engines["tensorrt"].constants.product == 0.125


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("tensorrt:", "tensorflow:", r"engines\.tensorflow: unknown key; did you mean tensorrt"),
        ("attention:", "atention:", r"engines\.tensorrt\.constants\.atention: unknown key; did you mean attention"),
        ("elementwise: 1.5, ", "", r"engines\.tensorrt\.constants\.elementwise: is missing"),
        ("kernel_s: 5.0e-06", "kernel_s: 5", r"engines\.tensorrt\.constants\.kernel_s: must lie above 0 to 1, not 5"),
        ("product: 1.0", "product: -1", r"engines\.tensorrt\.constants\.product: must lie above 0 to 1000, not -1"),
        ("int8: 1.25", "int8: fast", r"engines\.tensorrt\.gpus\.t4\.int8: must be a number, not 'fast'"),
        ("models: 0.3, ", "", r"engines\.tensorrt\.transformers\.models: is missing"),
        ("made: 2026-01-01", "made: lately", r"engines\.tensorrt\.origin\.made: is 'lately'"),
        ("sources: [made up]", "source: [made up]", r"engines\.tensorrt\.origin\.source: unknown key"),
        ("schema_version: 1", "schema_version: 9", "not a calibration of engines of schema_version 1"),
        ("schema_version: 1", "schema_version: 1\nschema_version: 1", "schema_version"),
    ],
)
def test_what_is_wrong_with_the_file_is_named(own: Path, before: str, after: str, message: str) -> None:
    own.write_text(FIXTURE.read_text().replace(before, after, 1))
    with pytest.raises(SpecError, match=message):
        load_engines()
