"""GPUs without bf16 arithmetic: the table of arithmetic by compute capability in CUDA's C++ Programming Guide."""

import pytest

from capplan.llm.core.quantisation import half_note, lacks_bf16
from capplan.specs import load_gpus

GPUS = load_gpus()


@pytest.mark.parametrize(
    ("gpu", "lacks"),
    [
        ("v100-sxm2-32gb", True),  # Volta, 7.0
        ("t4", True),  # Turing, 7.5
        ("a100-sxm4-80gb", False),  # Ampere, 8.0
        ("l4", False),
        ("mi300x", False),  # no compute capability; CDNA 3 has bf16
    ],
)
def test_bf16_needs_compute_capability_8(gpu: str, lacks: bool) -> None:
    assert lacks_bf16(GPUS.find(gpu)) is lacks


@pytest.mark.parametrize(
    ("formats", "is_told"), [(("bf16", "bf16"), True), (("awq", "bf16"), True), (("fp16", "fp16"), False)]
)
def test_only_what_is_in_bf16_changes(formats: tuple[str, str], is_told: bool) -> None:
    note = half_note(GPUS.find("t4"), *formats)
    assert (note is not None) is is_told
    assert half_note(GPUS.find("l4"), *formats) is None
