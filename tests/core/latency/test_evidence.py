from dataclasses import replace
from datetime import date

import pytest

from capplan.core.latency.calibration import (
    Calibration,
    DeviceFactors,
    GlobalConstants,
    IntervalWidth,
    prior_calibration,
)
from capplan.core.latency.lookup import gpu_evidence, interval_sides, resolve_constants
from capplan.core.latency.types import Evidence
from capplan.core.origin import Origin
from capplan.core.workload import Framework, Precision, Training, Workload
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
    half = Workload(precision=Precision.FP16)
    found = gpu_evidence(known, gpu(id=gpu_id, compute_capability=capability), half)
    assert found.evidence is expected
    assert found.reason


def test_measured_is_said_of_the_precision_that_was_timed_alone() -> None:
    """A GPU with 7 steps, 2 of them in single precision, is measured in both; one with none in single is not."""
    known = calibration(
        both=DeviceFactors(architecture="8.9", rows=7, single_steps=2), half=DeviceFactors(architecture="8.9", rows=7)
    )
    single, half = Workload(), Workload(precision=Precision.BF16)
    both, only_half = (gpu(id=name, compute_capability=(8, 9)) for name in ("both", "half"))
    assert gpu_evidence(known, both, single).reason == "2 eager steps in single precision timed on this GPU"
    assert gpu_evidence(known, both, half).reason == "5 eager steps in 16 bits timed on this GPU"
    assert gpu_evidence(known, only_half, half).evidence is Evidence.MEASURED
    assert gpu_evidence(known, only_half, single).evidence is Evidence.OTHER_PRECISION


def test_a_way_of_running_that_was_never_timed_is_transferred() -> None:
    """Compiled training steps are estimated from eager ones, so that no GPU counts as measured for them."""
    known = replace(calibration(own=DeviceFactors(architecture="8.9", rows=7)), serves="training")
    compiled = Workload(precision=Precision.FP16, training=Training(), framework=Framework.COMPILE)
    found = gpu_evidence(known, gpu(id="own", compute_capability=(8, 9)), compiled)
    assert found.evidence is Evidence.TRANSFERRED


def test_no_calibration_is_a_spec_sheet() -> None:
    """Guesses are no evidence."""
    assert gpu_evidence(None, gpu(), Workload()).evidence is Evidence.SPEC_SHEET


def test_single_precision_does_not_take_a_factor_that_was_found_in_16_bits() -> None:
    # The GPU's products in 16 bits ran at 0.6 of the model; of fp32 only another GPU, at 1.1, tells.
    calibration = replace(
        prior_calibration(),
        gpus={
            gpu().id: DeviceFactors(architecture="8.0", compute=0.6, bandwidth=0.9, rows=50),
            "other": DeviceFactors(architecture="8.0", compute=1.1, rows=50, single_rows=50),
        },
    )
    half, single = (
        resolve_constants(calibration, [gpu()], Workload(precision=precision))[0]
        for precision in (Precision.FP16, Precision.FP32_IEEE)
    )
    assert half.gpu_compute == 0.6
    # the only GPU of its architecture that was timed in fp32
    assert single.gpu_compute == pytest.approx(1.1)
    assert single.gpu_bandwidth == half.gpu_bandwidth == 0.9


def test_a_gpu_timed_in_16_bits_alone_has_an_unseen_gpus_interval_in_single_precision() -> None:
    width = IntervalWidth(
        below=0.1, above=0.2, between_gpus=0.15, between_sheets=0.2, between_others=0.15, between_other_sheets=0.24,
        rows=500,
    )  # fmt: skip
    single = Workload(precision=Precision.FP32_IEEE)
    known = replace(
        calibration(
            own=DeviceFactors(architecture="8.0", rows=500),
            other=DeviceFactors(architecture="8.0", rows=5, single_rows=5),
        ),
        widths={"device single": width, "device nchw": width},
    )
    own, _ = interval_sides(known, gpu(id="own"), single)
    half, _ = interval_sides(known, gpu(id="own"), Workload(precision=Precision.FP16))
    assert (half.below, half.above) == (0.1, 0.2)
    # the spread of GPUs of timed architectures that were left out by their sheets, 0.2, added in square
    assert own.below == pytest.approx((0.1**2 + 0.2**2) ** 0.5)
    assert own.above == pytest.approx((0.2**2 + 0.2**2) ** 0.5)
