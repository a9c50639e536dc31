"""Which device was measured is compared with the one that was planned."""

import pytest

from capplan.app.acceptance.accept import device_mark
from capplan.app.calibration.cpu import CPU_ID
from capplan.core.measurement.acceptance import FindingMark
from capplan.core.measurement.types import DeviceFacts
from capplan.specs import load_gpus


@pytest.mark.parametrize(
    ("gpu", "name", "mark"),
    [
        ("l4", "NVIDIA L4", FindingMark.KEPT),
        ("t4", "Tesla T4", FindingMark.REFUSED),
        (None, "AMD EPYC", FindingMark.REMARK),
        (CPU_ID, "AMD EPYC", FindingMark.REMARK),
    ],
)
def test_another_device_is_refused_and_an_unknown_one_remarked(gpu: str | None, name: str, mark: FindingMark) -> None:
    assert device_mark(load_gpus().find("l4"), DeviceFacts(gpu=gpu, name=name, kind="cuda", torch="2.13.0")) is mark
