from datetime import date

import pytest

from capplan.core.latency.calibration import Calibration, DeviceFactors, GlobalConstants, Origin
from capplan.core.latency.lookup import gpu_evidence
from capplan.core.latency.types import Evidence
from tests.core.latency.latency_cases import gpu


def calibration(**gpus: DeviceFactors) -> Calibration:
    """A calibration that knows architectures 8.0 and 8.9."""
    return Calibration(
        name="test",
        origin=Origin(made=date(2026, 1, 1), command="", sources=(), rows=1),
        constants=GlobalConstants(),
        classes={},
        gpus=gpus,
        deviations={"architecture 8.0": {}, "architecture 8.9": {}},
    )


@pytest.mark.parametrize(
    ("gpu_id", "capability", "expected"),
    [
        ("own", (8, 9), Evidence.MEASURED),
        ("kernels", (8, 0), Evidence.MICROBENCHMARKS),
        ("sibling", (8, 9), Evidence.ARCHITECTURE),
        ("relative", (8, 6), Evidence.SEGMENT),
        ("stranger", (3, 5), Evidence.SPEC_SHEET),
    ],
)
def test_evidence_is_named_from_the_strongest_to_the_weakest(
    gpu_id: str, capability: tuple[int, int], expected: Evidence
) -> None:
    """Steps on the GPU, kernels on it, steps on its architecture, on a relative's, none."""
    known = calibration(
        own=DeviceFactors(architecture="8.9", rows=7), kernels=DeviceFactors(architecture="8.0", rows=0)
    )
    found = gpu_evidence(known, gpu(id=gpu_id, compute_capability=capability))
    assert found.evidence is expected
    assert found.reason


def test_no_calibration_is_a_spec_sheet() -> None:
    """Guesses are no evidence."""
    assert gpu_evidence(None, gpu()).evidence is Evidence.SPEC_SHEET
