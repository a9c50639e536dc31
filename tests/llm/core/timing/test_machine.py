"""A GPU at a lower clock: what follows it, and what does not."""

import pytest

from capplan.llm.core.timing.machine import Machine, ggml_machine, machine_of
from capplan.specs import load_gpus

GPU = load_gpus().find("rtx-3090")


def machine() -> Machine:
    found = machine_of(GPU)
    assert found is not None
    return found


def test_arithmetic_follows_the_clock_and_memory_does_not() -> None:
    slow = machine().at_clock(0.5)
    assert slow.bandwidth_bytes_per_s == machine().bandwidth_bytes_per_s
    for arithmetic, peak in machine().peaks_flops_per_s.items():
        assert slow.peaks_flops_per_s[arithmetic] == pytest.approx(peak / 2)


def test_what_multiprocessors_move_with_llama_cpp_follows_the_clock() -> None:
    # 82 multiprocessors at 1.695 GHz move 6.7 bytes a clock each, 931.2 GB/s, beside 936.2 GB/s of memory:
    # (936.2⁻³ + 931.2⁻³)^(−1/3) = 741.1; at half of the clock (936.2⁻³ + 465.6⁻³)^(−1/3) = 447.7 GB/s
    found = ggml_machine(machine(), GPU)
    assert found.bandwidth_bytes_per_s == pytest.approx(741.1e9, rel=2e-3)
    assert found.at_clock(0.5).bandwidth_bytes_per_s == pytest.approx(447.7e9, rel=2e-3)
    assert found.at_clock(1.0).bandwidth_bytes_per_s == pytest.approx(found.bandwidth_bytes_per_s)
