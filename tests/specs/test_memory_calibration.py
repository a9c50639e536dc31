"""The memory calibration file: what ships can be read; what is wrong is said."""

from pathlib import Path

import pytest

from capplan.errors import UsageError
from capplan.specs.memory_calibration import load_memory_calibration

SHIPPED = Path(__file__).parents[2] / "capplan" / "calibrations" / "memory.yaml"


def test_the_shipped_one_names_data_and_sources():
    calibration = load_memory_calibration()
    assert "calibration of 20" in calibration.origin
    assert all(row.origin for row in calibration.contexts)
    # 256 MiB flat is the smallest public reading, more than 1000 MB the eager one before CUDA 11.7
    ampere = calibration.context((8, 6), torch_version=(2, 7)).size_bytes
    assert ampere.low == 256 * 2**20
    assert calibration.context((8, 6), torch_version=(1, 12)).size_bytes.expected >= 1e9


def test_every_nvidia_gpu_from_kepler_on_has_a_context():
    calibration = load_memory_calibration()
    for capability in ((3, 5), (5, 2), (6, 0), (7, 0), (7, 5), (8, 0), (8, 9), (9, 0), (10, 0), (12, 0), None):
        for release in ((1, 10), (2, 0), (2, 11)):
            size = calibration.context(capability, torch_version=release).size_bytes
            assert 100 * 2**20 <= size.low <= size.expected <= size.high <= 2 * 2**30


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("schema_version: 1", "schema_version: 9", "schema_version"),
        ("communication:", "comunication:", "unknown key 'comunication'"),
        ("uncertain_fraction: 0.25", "", "uncertain_fraction"),
        ("low: 256 MiB", "low: 256 parsecs", "parsecs"),
        ("low: 256 MiB", "low: 2560 MiB", "interval"),
    ],
)
def test_a_damaged_file_is_one_sentence(tmp_path: Path, old: str, new: str, said: str):
    text = SHIPPED.read_text()
    assert old in text
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace(old, new))
    with pytest.raises(UsageError, match=said):
        load_memory_calibration(path)
