import subprocess
import sys

import pytest

from capplan.errors import SpecError
from capplan.specs.calibration import dump_calibration, load_calibration


def test_a_folder_that_the_environment_names_stands_in_for_what_ships(tmp_path, monkeypatch):
    (tmp_path / "default.yaml").write_text(
        "schema_version: 1\nname: ours\nconstants: {kernel_s: 1.0e-05}\nclasses: {}\n"
    )
    monkeypatch.setenv("CAPPLAN_CALIBRATIONS", str(tmp_path))
    found = load_calibration()
    assert (found.name, found.constants.kernel_s) == ("ours", 1e-5)
    # the folder has no compile.yaml: the one that ships remains
    assert found.parts["compile"].serves == "compile"


def test_an_environment_that_names_no_folder_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPPLAN_CALIBRATIONS", str(tmp_path / "none"))
    with pytest.raises(SpecError, match=r"CAPPLAN_CALIBRATIONS names .*none, which is not a folder"):
        load_calibration()


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
