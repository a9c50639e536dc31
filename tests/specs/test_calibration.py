import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from capplan.errors import SpecError
from capplan.specs.calibration import dump_calibration, dump_with_own_parts, load_calibration


def test_a_folder_that_the_environment_names_stands_in_for_what_ships(tmp_path, monkeypatch):
    (tmp_path / "default.yaml").write_text(
        "schema_version: 2\nname: ours\nconstants: {kernel_s: 1.0e-05}\nclasses: {}\n"
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
        (lambda text: text.replace("l2_hit:", "l3_hit:"), r"constants\.l3_hit: unknown key; did you mean l2_hit"),
        (lambda text: text.replace("schema_version: 2", "schema_version: 9"), "not a calibration of schema_version 2"),
        (lambda text: "a: [", "line 2: did not find expected node content"),
        (lambda text: text.replace("\nclasses:", "\nsorts:"), "classes: is missing"),
    ],
)
def test_a_broken_file_is_refused(tmp_path, change, message):
    path = tmp_path / "own.yaml"
    path.write_text(change(dump_calibration(load_calibration())))
    with pytest.raises(SpecError, match=message):
        load_calibration(path)


FILE = """\
schema_version: 2
name: own
origin: {made: 2026-01-01, command: by hand, sources: [a.csv], rows: 100, held_out_errors: {cell: {median: 0.1}}}
constants: {kernel_s: 4.0e-06, l2_hit: 0.5}
classes:
  conv: {compute: 0.9, bandwidth: 0.8}
gpus:
  l4: {architecture: ada, compute: 1.0, rows: 30}
deviations:
  torch 2.4: {conv: 1.1}
widths:
  launches:
    {below: 0.1, above: 0.1, between_gpus: 0.2, between_sheets: 0.2, between_others: 0.3, between_other_sheets: 0.3,
     rows: 100}
serves: eager
"""


def read_own(tmp_path, text):
    path = tmp_path / "own.yaml"
    path.write_text(text)
    return load_calibration(path)


def test_a_file_written_by_hand_is_read(tmp_path):
    found = read_own(tmp_path, FILE)
    assert (found.constants.kernel_s, found.classes["conv"].compute, found.gpus["l4"].rows) == (4e-6, 0.9, 30)
    assert found.deviations == {"torch 2.4": {"conv": 1.1}}
    assert (found.widths["launches"].coverage_fraction, found.origin.rows) == (0.9, 100)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("4.0e-06", "4e-6", r"constants\.kernel_s: 4e-6 is not a plain number"),
        ("4.0e-06", "-0.01", r"constants\.kernel_s: must lie above 0 to 1, not -0\.01"),
        ("4.0e-06", "0", r"constants\.kernel_s: must lie above 0"),
        ("4.0e-06", "true", r"constants\.kernel_s: must be a number, not True"),
        ("4.0e-06", "null", r"constants\.kernel_s: must be a number, not None"),
        ("4.0e-06", "[1]", r"constants\.kernel_s: must be a number, not \[1\]"),
        ("4.0e-06", "'x'", r"constants\.kernel_s: must be a number, not 'x'"),
        ("4.0e-06", ".nan", r"constants\.kernel_s: \.nan is not a plain number"),
        ("4.0e-06", "1.0e+400", r"constants\.kernel_s: 1.0e.400 is out of range"),
        ("4.0e-06", "&x [*x]", "anchors and aliases"),
        ("l2_hit: 0.5", "l2_hit: 5.0", r"constants\.l2_hit: must lie from 0 to 1, not 5"),
        ("name: own", "name: own\nconstants: {}", "constants: is given twice"),
        ("name: own", "name: 5", "name: must be text, not 5"),
        ("name: own", "nom: own", "nom: unknown key"),
        ("schema_version: 2", "schema_version: true", "not a calibration of schema_version 2"),
        ("conv: {", "konv: {", r"classes\.konv: unknown key; did you mean conv"),
        ("compute: 0.9", "compute: 0", r"classes\.conv\.compute: must lie above 0"),
        ("{compute: 0.9, bandwidth: 0.8}", "5", r"classes\.conv: must be keys with values, not 5"),
        ("architecture: ada, ", "", r"gpus\.l4\.architecture: is missing"),
        ("rows: 30", "rows: -1", r"gpus\.l4\.rows: must lie from 0"),
        ("conv: 1.1", "conv: -1.1", r"deviations\.torch 2\.4\.conv: must lie above 0"),
        ("conv: 1.1", "konv: 1.1", r"deviations\.torch 2\.4\.konv: unknown key"),
        ("below: 0.1, ", "", r"widths\.launches\.below: is missing"),
        ("rows: 100}\n", "rows: 100, coverage_fraction: 5.0}\n", "coverage_fraction: must lie above 0 to 1"),
        ("made: 2026-01-01", "made: 2026-02-30", r"origin\.made: 2026-02-30 is not a day of the calendar"),
        ("made: 2026-01-01", "made: today", r"origin\.made: is 'today'; write a date"),
        ("[a.csv]", "[5]", r"origin\.sources: must be a list of texts"),
        ("median: 0.1", "median: x", r"held_out_errors\.cell\.median: must be a number"),
        ("serves: eager", "serves: []", r"serves: \[\] is not known"),
        ("serves: eager", "serves: all", "serves: 'all' is not known; use eager, compile, training"),
        ("name: own", "name: " + "[" * 200_000 + "]" * 200_000, "nested too deep"),
        ("name: own", "name: " + "x" * 1_100_000, "a file of specs has at most"),
    ],
)
def test_each_wrong_value_is_refused_by_its_key(tmp_path, old, new, message):
    assert old in FILE
    with pytest.raises(SpecError, match=message):
        read_own(tmp_path, FILE.replace(old, new))


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


def test_a_base_keeps_what_its_parts_serve(tmp_path: Path) -> None:
    mine = replace(load_calibration().parts["compile"], name="mine", parts={})
    base, written = tmp_path / "base.yaml", tmp_path / "written.yaml"
    base.write_text(dump_calibration(mine))
    written.write_text(dump_with_own_parts(load_calibration(base)))
    assert load_calibration(written).parts["compile"].name == "mine"
    assert "parts" not in dump_with_own_parts(load_calibration())
