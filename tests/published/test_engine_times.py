"""Times of engines as strangers published them; nothing was fitted to these."""

import pytest

import capplan

pytestmark = pytest.mark.zoo


@pytest.mark.parametrize(
    ("model", "size", "published_ms"),
    [  # kentaroy47/benchmark-FP32-FP16-INT8-with-TensorRT; NVIDIA's page of Jetson Nano benchmarks (from memory)
        ("torchvision:resnet50", "3x256x256", 42.0),
        ("torchvision:resnet50", "3x224x224", 27.8),
        ("torchvision:vgg19", "3x224x224", 100.0),
        ("timm:inception_v4", "3x299x299", 91.0),
    ],
)
def test_no_published_time_of_a_jetson_nano_beats_the_bound(model: str, size: str, published_ms: float) -> None:
    """TensorRT adds up in half there, so that the bound follows from the rate of fp16 vectors."""
    (report,) = capplan.estimate(
        model, gpu="jetson-nano-4gb", framework="tensorrt", precision="fp16", batch=1, input_size=size
    ).reports
    assert report.curve[0].bound_s * 1e3 < published_ms


NANO, T4 = {"gpu": "jetson-nano-4gb", "batch": 1}, {"gpu": "t4", "batch": 8}
PUBLISHED = [
    # kentaroy47/benchmark-FP32-FP16-INT8-with-TensorRT
    ("torchvision:resnet50", 42.0, {**NANO, "precision": "fp16", "input_size": "3x256x256"}),
    ("torchvision:resnet50", 79.0, {**NANO, "precision": "fp32", "input_size": "3x256x256"}),
    # NVIDIA's page of Jetson Nano benchmarks (from memory)
    ("torchvision:resnet50", 27.8, {**NANO, "precision": "fp16", "input_size": "3x224x224"}),
    ("torchvision:vgg19", 100.0, {**NANO, "precision": "fp16", "input_size": "3x224x224"}),
    ("timm:inception_v4", 91.0, {**NANO, "precision": "fp16", "input_size": "3x299x299"}),
    # NVIDIA/Model-Optimizer issue 167
    ("timm:vit_large_patch14_clip_224", 65.6, {**T4, "precision": "fp16"}),
]
"""Models under TensorRT: name, milliseconds as published, and what was run."""


@pytest.mark.slow
def test_most_published_times_of_engines_lie_inside_the_interval() -> None:
    """The first row does not: it is slower than NVIDIA's own figure by more than its image is larger."""
    inside = []
    for model, published_ms, options in PUBLISHED:
        (report,) = capplan.estimate(model, framework="tensorrt", **options).reports
        time_s = report.curve[0].latency_s
        inside.append(time_s.low <= published_ms / 1e3 <= time_s.high)
    assert sum(inside) >= 0.8 * len(inside)
