"""Live bytes at operator boundaries, byte for byte against the events of torch's own CPU allocator."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

HAS_ZOO = all(importlib.util.find_spec(name) for name in ("torchvision", "timm"))
pytestmark = [pytest.mark.zoo, pytest.mark.skipif(not HAS_ZOO, reason="needs torchvision and timm")]


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "memory_live.py"
    spec = importlib.util.spec_from_file_location("memory_live", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("words", ["torchvision:resnet18", "torchvision:squeezenet1_1", "timm:mixer_s32_224"])
def test_inference_is_byte_exact(benchmark, words):
    for row in benchmark.compare_inference(words, [1, 4]):
        assert row.traced_bytes == row.real_bytes


def test_training_is_exact_but_for_step_counters(benchmark):
    # Adam's step counters, four bytes for each of 62 parameters, lie on the CPU and not on the GPU
    sgd, adamw = benchmark.compare_training("torchvision:resnet18", [2])
    assert sgd.traced_bytes == sgd.real_bytes
    assert 0 <= adamw.real_bytes - adamw.traced_bytes <= 4 * 62
