"""The calibration of training as a file: it comes back as it was written, and wrong ones are refused in a sentence."""

from dataclasses import replace
from pathlib import Path

import pytest

from capplan.errors import SpecError
from capplan.llm.core.training.accuracy import TrainingEvidence
from capplan.llm.core.training.frameworks import find_framework
from capplan.llm.read.training_calibration import dump_training_calibration, load_training_calibration
from tests.llm.core.training.training_cases import CALIBRATION, SPEC


def test_a_calibration_comes_back_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(dump_training_calibration(CALIBRATION), encoding="utf-8")
    assert load_training_calibration(file).time == CALIBRATION.time
    assert load_training_calibration(file).widths == CALIBRATION.widths
    assert load_training_calibration(file).memory.activations == CALIBRATION.memory.activations


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("schema_version: 2", "schema_version: 9", "is not a calibration of LLM training of schema_version 2"),
        ("grouped: 0.5", "grouped: -1", "time.grouped: must lie above 0"),
        ("grouped: 0.5", "grouping: 0.5", "time.grouping: unknown key; did you mean grouped"),
        ("measured_chips", "measured_chps", "measured_chips: is missing"),
    ],
)
def test_a_wrong_file_is_refused_in_a_sentence(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(dump_training_calibration(CALIBRATION).replace(old, new), encoding="utf-8")
    with pytest.raises(SpecError, match=sentence):
        load_training_calibration(file)


def test_evidence_is_nearer_the_more_of_a_job_was_measured() -> None:
    assert CALIBRATION.evidence(gpu=SPEC, framework="megatron") is TrainingEvidence.MEASURED
    assert CALIBRATION.evidence(gpu=SPEC, framework="torchtune") is TrainingEvidence.EXTRAPOLATED
    other = replace(SPEC, id="other")
    sister = replace(other, design=replace(SPEC.design, family="gh100"))
    assert CALIBRATION.evidence(gpu=sister, framework="megatron") is TrainingEvidence.TRANSFERRED
    assert CALIBRATION.evidence(gpu=other, framework="megatron") is TrainingEvidence.EXTRAPOLATED
    assert CALIBRATION.evidence(gpu=other, framework="torchtune") is TrainingEvidence.FAR
    assert CALIBRATION.evidence(gpu=replace(other, vendor="AMD"), framework="megatron") is TrainingEvidence.FAR


def test_peaks_depend_on_the_framework_its_kernels_and_the_vendor() -> None:
    def near(name: str, vendor: str = "NVIDIA") -> TrainingEvidence:
        return CALIBRATION.memory_evidence(gpu=replace(SPEC, vendor=vendor), framework=find_framework(name))

    assert near("megatron") is TrainingEvidence.MEASURED
    assert near("internevo") is TrainingEvidence.TRANSFERRED  # Megatron's kernels
    assert near("torchtune") is TrainingEvidence.EXTRAPOLATED
    assert near("megatron", "AMD") is TrainingEvidence.FAR
