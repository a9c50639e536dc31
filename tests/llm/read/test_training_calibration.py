"""The calibration of training as a file: it comes back as it was written, and wrong ones are refused in a sentence."""

from pathlib import Path

import pytest

from capplan.errors import SpecError
from capplan.llm.core.training.accuracy import TrainingEvidence
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
        ("schema_version: 1", "schema_version: 9", "is not a calibration of LLM training of schema_version 1"),
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
    assert CALIBRATION.evidence(gpu=SPEC, framework="torchtune") is TrainingEvidence.TRANSFERRED
    from dataclasses import replace

    assert CALIBRATION.evidence(gpu=replace(SPEC, id="other"), framework="megatron") is TrainingEvidence.EXTRAPOLATED
