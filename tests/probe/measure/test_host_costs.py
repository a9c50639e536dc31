"""Measuring the host at hand: calls cost something, and the longer ones more."""

import pytest

from capplan.probe.measure import microbench


def test_calls_take_microseconds_and_a_convolution_more_than_a_view(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(microbench, "_CALLS", 20)
    monkeypatch.setattr(microbench, "_ROUNDS", 5)
    found = microbench.measure_host(cuda_call=4.0)
    assert found.torch
    assert found.cpu
    assert all(1e-8 < cost < 0.1 for cost in found.operators_s.values())
    assert found.operators_s["conv"] > found.call_s
