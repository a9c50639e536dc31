"""Live bytes at operator boundaries, byte for byte against the events of torch's own CPU allocator."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from tests.seen import at_least

pytestmark = pytest.mark.zoo


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    path = Path(__file__).parents[3] / "benchmarks" / "memory_live.py"
    spec = importlib.util.spec_from_file_location("memory_live", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("words", ["torchvision:resnet18", "torchvision:squeezenet1_1", "timm:mixer_s32_224"])
def test_inference_is_byte_exact(benchmark, words):
    for row in at_least(2, benchmark.compare_inference(words, [1, 4])):
        assert row.traced_bytes == row.real_bytes


@pytest.mark.parametrize(
    "words", [pytest.param("torchvision:resnet18", marks=pytest.mark.nightly), "timm:deit_tiny_patch16_224"]
)
def test_training_is_byte_exact(benchmark, words):
    for row in at_least(1, benchmark.compare_training(words, [2])):
        assert row.traced_bytes == row.real_bytes


def test_numbers_that_lie_on_the_host_are_left_out(benchmark):
    # x * 2.5 wraps the number in 8 bytes of the host's; the product takes 4000
    x = torch.zeros(1000)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        kept = x * 2.5
    tree = profiler.profiler.kineto_results.experimental_event_tree()
    sizes = {
        event.start_time_ns: event.typed[1].alloc_size for event, _ in benchmark._memory_events(tree, outside=True)
    }
    left_out = benchmark._host_events(tree, set())
    assert sorted(sizes[each] for each in left_out) == [-8, 8]
    assert 4000 in sizes.values()
    assert kept.nbytes == 4000
