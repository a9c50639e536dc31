"""The memory calibration file: what is wrong is said."""

from pathlib import Path

import pytest

from capplan.errors import UsageError
from capplan.specs.calibration import load_memory_calibration

FIXTURE = Path(__file__).parents[1] / "fixtures" / "calibrations" / "memory.yaml"


def test_its_origin_and_its_contexts_are_those_of_the_file():
    calibration = load_memory_calibration()
    assert calibration.origin == "calibration of 2026-01-01: made-up figures"
    recent = calibration.context((8, 6), torch_version=(2, 7))
    assert (recent.size_bytes.expected, recent.origin) == (384 * 2**20, "made up")
    assert calibration.context((8, 6), torch_version=(1, 12)).size_bytes.expected == 2**30


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("schema_version: 1", "schema_version: 9", "schema_version"),
        ("communication:", "comunication:", "comunication: unknown key; did you mean communication"),
        ("uncertain_fraction: 0.25", "", "uncertain_fraction"),
        ("low: 256 MiB", "low: 256 parsecs", "parsecs"),
        ("low: 256 MiB", "low: 2560 MiB", "interval"),
    ],
)
def test_a_damaged_file_is_one_sentence(tmp_path: Path, old: str, new: str, said: str):
    text = FIXTURE.read_text()
    assert old in text
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace(old, new))
    with pytest.raises(UsageError, match=said):
        load_memory_calibration(path)
