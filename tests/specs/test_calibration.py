import subprocess
import sys

import pytest

from capplan.errors import SpecError
from capplan.specs.calibration import dump_calibration, load_calibration


def test_the_shipped_calibration_names_its_data_date_and_errors():
    found = load_calibration()
    assert found.origin is not None
    assert found.origin.rows > 1000
    assert found.origin.sources
    assert any(cell.startswith("gpu") for cell in found.origin.held_out_errors)


def test_no_fitted_bandwidth_beats_the_printed_one_by_more_than_an_error_of_the_fit():
    # More than the printed bandwidth would be a graph that never ran, not an efficiency.
    for label, constants in load_calibration().classes.items():
        assert constants.bandwidth < 1.15, label


def test_a_written_calibration_reads_back(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(dump_calibration(load_calibration()))
    assert dump_calibration(load_calibration(path)) == path.read_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("l2_hit:", "l3_hit:"), "unknown key 'l3_hit'"),
        (lambda text: text.replace("schema_version: 1", "schema_version: 9"), "no calibration of schema_version 1"),
        (lambda text: "a: [", "is no YAML"),
        (lambda text: text.replace("\nclasses:", "\nsorts:"), "classes is missing"),
    ],
)
def test_a_broken_file_is_refused(tmp_path, change, message):
    path = tmp_path / "own.yaml"
    path.write_text(change(dump_calibration(load_calibration())))
    with pytest.raises(SpecError, match=message):
        load_calibration(path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(SpecError, match=r"none\.yaml"):
        load_calibration(tmp_path / "none.yaml")


def test_loading_takes_neither_torch_nor_pandas():
    code = (
        "import sys; from capplan.specs.calibration import load_calibration; load_calibration(); "
        "print('torch' in sys.modules, 'pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
