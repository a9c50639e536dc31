"""A GPU at a lower clock: what follows it, and what does not."""

import numpy as np
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


def test_three_bits_take_longer_than_four_to_decode_on_ampere() -> None:
    # ggml-org/llama.cpp#5351: an RTX 3090 gives 98.4 tokens/s of Llama 7B in Q3_K_S, 131.8 in Q4_0, though Q3_K_S has
    # 2.95 of 3.83 GB. Launches and norms took about 2.5 ms of each in that year: 7.6 and 5.1 ms remain for products.
    found, one = ggml_machine(machine(), GPU), np.ones(1)
    three, four = (bits / 8 * found.unpacking_factor(bits / 8, one)[0] for bits in (3.4375, 4.5))
    assert three / four == pytest.approx(7.6 / 5.1, rel=0.15)
    slow = found.at_clock(0.5)
    assert slow.unpacking_factor(3.4375 / 8, one) == pytest.approx(found.unpacking_factor(3.4375 / 8, one), rel=0.35)
    assert machine().unpacking_factor(3.4375 / 8, one)[0] == 1.0  # of other engines


def test_a_burst_of_eight_costs_llama_cpp_what_vector_units_take() -> None:
    # ggml-org/llama.cpp#5434: an RTX 3090 computes 105.3 and 406.7 tokens/s of Llama 7B in Q2_K by batches of 1 and 8:
    # 9.5 and 19.7 ms a step; beyond eight tokens matrix units multiply, so that 16 take no longer than 8
    found = ggml_machine(machine(), GPU)
    bytes_s = 2.63 / 8 * 6.74e9 / found.bandwidth_bytes_per_s
    one, eight, many = bytes_s * found.unpacking_factor(2.63 / 8, np.array([1.0, 8.0, 16.0]))
    assert eight - one == pytest.approx(19.7e-3 - 9.5e-3, rel=0.2)
    assert many <= eight
