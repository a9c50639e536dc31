"""The parts of a calibration: which file serves which workload, and how a user's own takes over."""

import math
from dataclasses import replace

import pytest

from capplan.core.latency.lookup import calibration_notes, interval_sides, part_for
from capplan.core.workload import Framework, Precision, Training, Workload
from capplan.errors import SpecError
from capplan.specs.calibration import dump_calibration, load_calibration
from tests.core.latency.latency_cases import gpu

EAGER = Workload(precision=Precision.AMP_FP16)
COMPILED = replace(EAGER, framework=Framework.COMPILE)
TRAINED = replace(EAGER, training=Training())


def test_each_workload_has_its_own_constants():
    shipped = load_calibration()
    assert [part_for(shipped, workload).serves for workload in (EAGER, COMPILED, TRAINED)] == [
        "eager", "compile", "training",
    ]  # fmt: skip


def test_ones_own_calibration_takes_over_what_it_serves_and_nothing_else(tmp_path):
    shipped = load_calibration()
    own = replace(part_for(shipped, COMPILED), name="my lab")
    path = tmp_path / "mine.yaml"
    path.write_text(dump_calibration(own))
    found = load_calibration(path)
    assert part_for(found, COMPILED).name == "my lab"
    assert part_for(found, EAGER).name == shipped.name
    assert part_for(found, TRAINED).name == part_for(shipped, TRAINED).name


def test_constants_of_other_steps_are_told():
    eager_alone = replace(load_calibration(), parts={})
    notes = calibration_notes(part_for(eager_alone, COMPILED), gpu(), COMPILED)
    assert any("not on compile" in note for note in notes)
    own = calibration_notes(part_for(load_calibration(), COMPILED), gpu(), COMPILED)
    assert not any("not on compile" in note for note in own)


def test_a_cell_of_few_rows_is_widened_as_if_it_were_uncalibrated():
    # The fixture's compiled cells: 500 rows of steps that the device decides, 0.2 wide; 5 rows of steps that the host
    # decides, 0.1 wide. Under 20 rows 0.4 is added in square: sqrt(0.1² + 0.4²). The GPU and torch 2.9 are measured.
    part = part_for(load_calibration(), COMPILED)
    workload = replace(COMPILED, torch_version=(2, 9))
    device, host = interval_sides(part, gpu(id="rtx-4090", compute_capability=(8, 9)), workload)
    assert (device.below, device.above) == pytest.approx((0.2, 0.2))
    assert (host.below, host.above) == pytest.approx((math.sqrt(0.17), math.sqrt(0.17)))


def test_compiled_training_is_put_together_and_less_sure():
    shipped = load_calibration()
    workload = replace(TRAINED, framework=Framework.COMPILE)
    found = part_for(shipped, workload)
    assert found.classes["fused norm"] == shipped.parts["compile"].classes["fused norm"]
    assert found.classes["optimizer"] == shipped.parts["training"].classes["optimizer"]
    assert interval_sides(found, gpu(), workload)[0].above > interval_sides(found, gpu(), TRAINED)[0].above
    assert any("not on compiled training" in note for note in calibration_notes(found, gpu(), workload))


def test_one_file_holds_the_parts_for_cpus_in_fp32_and_bf16(tmp_path):
    shipped = load_calibration()
    single, half = (replace(shipped.parts[each], name=f"my {each}") for each in ("cpu", "cpu half"))
    path = tmp_path / "mine.yaml"
    path.write_text(dump_calibration(single, parts=[half]))
    found = load_calibration(path)
    assert {serves: part.name for serves, part in found.parts.items() if serves.startswith("cpu")} == {
        "cpu": "my cpu", "cpu half": "my cpu half",
    }  # fmt: skip
    assert found.name == shipped.name
    assert part_for(found, COMPILED).name == part_for(shipped, COMPILED).name


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda text: text.replace("\n  cpu half:", "\n  compile:"), "a file holds one part for each use"),
        (lambda text: text.partition("parts:")[0] + "parts: 3\n", "must be calibrations by what they serve"),
        (lambda text: text.replace("      conv: {compute:", "      conv: {computes:"), r"parts\.cpu half: classes"),
    ],
)
def test_a_damaged_part_is_refused_with_its_place(tmp_path, change, told):
    shipped = load_calibration()
    path = tmp_path / "mine.yaml"
    text = dump_calibration(shipped.parts["cpu"], parts=[shipped.parts["cpu half"]])
    path.write_text(change(text))
    with pytest.raises(SpecError, match=told):
        load_calibration(path)
