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
