"""What refuses a machine, what is a remark, and what is as planned."""

from dataclasses import replace

import pytest

from capplan.core.gpus.spec import GpuSpec
from capplan.core.measurement.acceptance import (
    Acceptance,
    AcceptanceVerdict,
    DeliveredGpu,
    FindingMark,
    machine_findings,
    rate_finding,
    time_finding,
)
from capplan.core.numbers import Interval

PLANNED = GpuSpec(
    id="x100", name="X100", vendor="nvidia", architecture="X", aliases=("NVIDIA X100 80GB",), memory_bytes=80 * 2**30,
    driver_total_bytes=80 * 10**9, memory_bandwidth_bytes_per_s=3e12, tdp_w=700.0, boost_clock_hz=2e9,
    nvlink_bytes_per_s=9e11,
)  # fmt: skip
RIGHT = DeliveredGpu(
    name="NVIDIA X100 80GB", memory_bytes=80e9, power_limit_w=700.0, max_clock_hz=2e9, ecc_on=True,
    uncorrected_errors=0, link="NV18",
)  # fmt: skip


def marks(*delivered: DeliveredGpu, count: int = 2, shares: bool = True) -> dict[str, FindingMark]:
    findings = machine_findings(PLANNED, count, delivered, shares_matrices=shares)
    return {finding.what: finding.mark for finding in findings if finding.mark is not FindingMark.KEPT}


def test_the_machine_that_was_planned_has_no_remark() -> None:
    assert marks(RIGHT, RIGHT) == {}


@pytest.mark.parametrize(
    ("changed", "what", "mark"),
    [
        ({"memory_bytes": 79e9}, "GPU 1, memory", FindingMark.REFUSED),
        ({"memory_bytes": 79.5e9}, "", FindingMark.KEPT),  # drivers differ by less than one percent
        ({"power_limit_w": 500.0}, "GPU 1, power limit", FindingMark.REMARK),
        ({"max_clock_hz": 1.7e9}, "GPU 1, highest clock", FindingMark.REMARK),
        ({"ecc_on": False}, "GPU 1, ECC", FindingMark.REMARK),
        ({"uncorrected_errors": 1}, "GPU 1, uncorrected memory errors", FindingMark.REFUSED),
        ({"link": "SYS"}, "links between GPUs", FindingMark.REFUSED),
        ({"name": "NVIDIA X80"}, "GPUs", FindingMark.REFUSED),
    ],
)
def test_one_device_that_differs_is_found(changed: dict[str, object], what: str, mark: FindingMark) -> None:
    found = marks(RIGHT, replace(RIGHT, **changed))  # type: ignore[arg-type]  # fields by name
    assert found == ({what: mark} if what else {})


def test_a_missing_device_refuses_and_one_more_is_a_remark() -> None:
    assert marks(RIGHT) == {"GPUs": FindingMark.REFUSED}
    assert marks(RIGHT, RIGHT, RIGHT) == {"GPUs": FindingMark.REMARK}


def test_links_count_only_where_gpus_share_matrices() -> None:
    slow = replace(RIGHT, link="PHB")
    assert marks(slow, slow, shares=False) == {}


def test_the_bad_end_of_an_interval_decides() -> None:
    planned = Interval(low=1.0, expected=1.2, high=1.5)
    of = [time_finding("t", seconds, planned, source="").mark for seconds in (0.9, 1.0, 1.5, 1.6)]
    assert of == [FindingMark.REMARK, FindingMark.KEPT, FindingMark.KEPT, FindingMark.REFUSED]
    of = [rate_finding("r", rate, planned, source="").mark for rate in (0.9, 1.0, 1.5, 1.6)]
    assert of == [FindingMark.REFUSED, FindingMark.KEPT, FindingMark.KEPT, FindingMark.REMARK]


def test_the_worst_finding_is_the_verdict_and_is_named() -> None:
    planned = Interval(low=1.0, expected=1.2, high=1.5)
    kept, remark, refused = (time_finding("t", seconds, planned, source="") for seconds in (1.2, 0.9, 1.6))
    accepted = Acceptance(plan="p", machine="m", findings=(kept,))
    assert (accepted.verdict, accepted.decided_by) == (AcceptanceVerdict.ACCEPTED, None)
    assert replace(accepted, missing=("times",)).verdict is AcceptanceVerdict.REMARKS
    assert replace(accepted, findings=(kept, remark)).verdict is AcceptanceVerdict.REMARKS
    both = replace(accepted, findings=(remark, refused))
    assert (both.verdict, both.decided_by) == (AcceptanceVerdict.REFUSED, refused)
