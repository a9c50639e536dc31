from dataclasses import replace

import pytest

from capplan.core.gpus.rate_laws import DataParallelLaws
from capplan.core.latency.data_parallel import (
    Link,
    all_reduce_s,
    exchanged_bytes,
    gradient_bytes,
    link_bytes_per_s,
    link_of,
    on_several_gpus,
)
from capplan.core.latency.types import Binding, LatencyEstimate
from capplan.core.numbers import Interval
from capplan.core.workload import Configuration, ModelSharding, Training
from tests.core.latency.latency_cases import gpu, linear_recording

LAWS = DataParallelLaws(
    step_share=0.02, link_share={"switched": 0.5, "mesh": 0.125, "host": 0.25, "consumer": 0.5}, half_width=0.05,
    link_half_width=1.0,
)  # fmt: skip
MODULE = gpu(form_factor="SXM4", nvlink_bytes_per_s=600e9, pcie_bytes_per_s=32e9)
CARD = gpu(form_factor="PCIe", nvlink_bytes_per_s=600e9, pcie_bytes_per_s=32e9)
ALONE = LatencyEstimate(
    batch=32, bound_s=0.05, latency_s=Interval(low=0.09, expected=0.1, high=0.11), bound_by=Binding.COMPUTE,
    share_by_binding=(), calibration="fixture",
)  # fmt: skip


def test_gradients_are_as_large_as_the_weights_that_the_optimizer_steps():
    # [4096, 4096] weights: 2 bytes each in a model of 16 bits; activations have no place in it.
    assert gradient_bytes(linear_recording(k=4096, n=4096)) == 2 * 4096 * 4096


@pytest.mark.parametrize(
    ("sharding", "times"),
    [
        # A sum moves each gradient twice. Four micro-batches: summed once (DDP); scattered and gathered once (ZeRO-1);
        # scattered four times and gathered once (ZeRO-2), three passes of the weights' size each time (ZeRO-3, FSDP).
        (ModelSharding.DDP, 1.0),
        (ModelSharding.ZERO1, 1.0),
        (ModelSharding.ZERO2, 5 / 2),
        (ModelSharding.ZERO3, 12 / 2),
        (ModelSharding.FSDP, 12 / 2),
    ],
)
def test_what_shardings_move_is_counted_in_sums_of_gradients(sharding, times):
    linear = linear_recording(k=4096, n=4096)
    recording = replace(linear, configuration=Configuration(training=Training(accumulate=4)))
    assert exchanged_bytes(recording, sharding) == times * gradient_bytes(linear)


def test_steps_that_gather_weights_are_less_certain_than_measured_sums():
    summed, gathered = (
        on_several_gpus(ALONE, size_bytes=1e10, gpu=MODULE, gpu_count=8, laws=LAWS, sharding=sharding)
        for sharding in (ModelSharding.DDP, ModelSharding.FSDP)
    )
    assert gathered.latency_s.expected == summed.latency_s.expected
    assert gathered.latency_s.high > summed.latency_s.high
    assert gathered.notes[-1].startswith("weights are gathered twice and gradients scattered")


def test_a_ring_moves_twice_all_but_one_share_over_half_of_the_printed_link():
    # 2 · 7/8 · 1.2 GB = 2.1 GB at 0.5 of 300 GB/s one way: 14 ms
    assert all_reduce_s(size_bytes=1.2e9, gpu=MODULE, gpu_count=8, laws=LAWS) == pytest.approx(0.014)


def test_cards_with_bridges_between_pairs_count_as_joined_by_pcie():
    assert link_of(MODULE) is Link.SWITCHED
    assert link_of(CARD) is Link.HOST
    assert link_of(replace(CARD, name="NVIDIA GeForce RTX 3090")) is Link.CONSUMER
    # 2 · 1/2 · 0.8 GB = 0.8 GB at 0.25 of 32 GB/s: 0.1 s
    assert all_reduce_s(size_bytes=0.8e9, gpu=CARD, gpu_count=2, laws=LAWS) == pytest.approx(0.1)


def test_superchips_of_a_rack_are_joined_by_its_switches_and_not_by_pcie():
    # GB200 NVL72: 1.8 TB/s of NVLink both ways. A GH200's printed link leads to its own processor.
    rack = gpu(id="gb200-186gb", form_factor="Superchip module", nvlink_bytes_per_s=1.8e12, pcie_bytes_per_s=128e9)
    assert (link_of(rack), link_bytes_per_s(rack)) == (Link.SWITCHED, 0.9e12)
    assert link_of(replace(rack, id="gh200-96gb")) is Link.HOST


def test_modules_older_than_the_switches_share_a_mesh_of_links():
    volta = replace(MODULE, compute_capability=(7, 0), nvlink_bytes_per_s=300e9)
    assert link_of(volta) is Link.MESH
    # 2 · 3/4 · 0.25 GB = 0.375 GB at 0.125 of 150 GB/s one way: 20 ms
    assert all_reduce_s(size_bytes=0.25e9, gpu=volta, gpu_count=4, laws=LAWS) == pytest.approx(0.02)


def test_gradients_of_players_cards_pass_the_memory_of_the_host_which_all_cards_share():
    players = replace(CARD, name="NVIDIA GeForce RTX 3090")
    # each of n cards moves 2 · (n - 1)/n · 0.4 GB, all n together 2 · (n - 1) · 0.4 GB, at 0.5 of 32 GB/s
    assert all_reduce_s(size_bytes=0.4e9, gpu=players, gpu_count=2, laws=LAWS) == pytest.approx(0.05)
    assert all_reduce_s(size_bytes=0.4e9, gpu=players, gpu_count=8, laws=LAWS) == pytest.approx(0.35)


def test_a_step_on_several_gpus_takes_a_share_longer_and_waits_for_the_link():
    found = on_several_gpus(ALONE, size_bytes=1.2e9, gpu=MODULE, gpu_count=8, laws=LAWS)
    assert found.latency_s.expected == pytest.approx(0.1 * 1.02 + 0.014)
    assert found.samples == 256
    assert found.latency_s.high / found.latency_s.expected > 1.1
    assert found.notes[-1].startswith("gradients are summed over 8 GPUs through switched links")


def test_more_gpus_never_take_a_step_faster():
    times = [
        on_several_gpus(ALONE, size_bytes=4e8, gpu=CARD, gpu_count=count, laws=LAWS).latency_s.expected
        for count in (1, 2, 4, 8, 16)
    ]
    assert times == sorted(times)
    assert times[0] == ALONE.latency_s.expected


def test_the_gain_of_the_last_gpu_is_told():
    # Two: 0.1 · 1.02 + 2 · 1/2 · 0.3 GB / 150 GB/s = 0.104 s, 1.923 times one. Three: + 2 · 2/3 · 2 ms, 2.867 times.
    two = on_several_gpus(ALONE, size_bytes=3e8, gpu=MODULE, gpu_count=2, laws=LAWS)
    three = on_several_gpus(ALONE, size_bytes=3e8, gpu=MODULE, gpu_count=3, laws=LAWS)
    assert two.notes[-1].endswith("the last GPU adds 92% of one alone")
    assert three.notes[-1].endswith("the last GPU adds 94% of one alone")
