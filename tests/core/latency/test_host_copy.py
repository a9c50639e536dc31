"""The copy of inputs from the host, where a timer held it."""

from dataclasses import replace

import pytest

from capplan.core.latency.device import host_copy_s, with_copy
from capplan.core.latency.types import Binding, LatencyEstimate
from capplan.core.numbers import Interval
from capplan.core.trace.types import Affine, InputTensor
from capplan.specs import load_gpus

IMAGES = InputTensor(name="x", dtype="float32", shape=(Affine(0, 1), Affine(3), Affine(224), Affine(224)))


def test_pageable_memory_reaches_two_fifths_of_a_slow_link():
    gpu = replace(load_gpus().find("t4"), pcie_bytes_per_s=16e9)
    slow = host_copy_s([IMAGES], replace(gpu, pcie_bytes_per_s=8e9), batch=12)
    # 12 images of 3 x 224 x 224 floats are 7,225,344 bytes; 0.4 x 8 GB/s
    assert slow is not None
    assert slow.expected == pytest.approx(7_225_344 / 3.2e9)
    copy_s = host_copy_s([IMAGES], gpu, batch=12)
    assert copy_s is not None
    # the host's own copy to a pinned buffer passes 6.3 GB/s at most, 2.3 on the slowest that was measured
    assert copy_s.expected == pytest.approx(7_225_344 / 6.3e9)
    assert copy_s.high == pytest.approx(7_225_344 / 2.3e9)
    assert copy_s.low == pytest.approx(7_225_344 / (0.68 * 16e9))
    assert host_copy_s([IMAGES], replace(gpu, pcie_bytes_per_s=None), batch=12) is None


def test_a_copy_lengthens_the_step_and_its_interval():
    estimate = LatencyEstimate(
        batch=12, bound_s=1.0, latency_s=Interval(low=2.0, expected=3.0, high=5.0), bound_by=next(iter(Binding)),
        share_by_binding=(), calibration=None,
    )  # fmt: skip
    found = with_copy(estimate, Interval(low=0.25, expected=0.5, high=1.0))
    assert found.latency_s == Interval(low=2.25, expected=3.5, high=6.0)
    assert any("copy of the inputs" in note for note in found.notes)
