"""MACs and parameters of whole models against published figures and derivations by hand.

ViT, BERT and GPT-2 by hand (L layers, width d, T tokens): L · (12 d² T + 2 T² d), plus what stands before and after.
ResNet-50, EfficientNet-B0 and Swin-T: `torch.utils.flop_counter` on meta tensors and deepspeed's profiler, which agree.
"""

import pytest
import torch

from capplan.core.ops.flops import kernel_macs, uncounted
from capplan.core.trace.types import Trace
from capplan.core.workload import Configuration, Layout, Variant
from capplan.probe.foreign.libraries import import_torchvision
from capplan.probe.inputs.grammar import InputRequest
from capplan.probe.target.resolve import load_target
from capplan.probe.trace.tracer import trace_target

pytestmark = pytest.mark.zoo

VIT = 12 * (12 * 768**2 * 197 + 2 * 197**2 * 768) + 196 * 768**2 + 768 * 1000
BERT = 12 * (12 * 768**2 * 128 + 2 * 128**2 * 768) + 768**2
GPT2 = 12 * (12 * 768**2 * 1024 + 2 * 1024**2 * 768) + 768 * 50257 * 1024

PUBLISHED = {
    "torchvision:alexnet": (714_188_480, 61_100_840),
    "torchvision:resnet50": (4_089_184_256, 25_557_032),
    "torchvision:efficientnet_b0": (385_814_752, 5_288_548),
    "torchvision:swin_t": (4_490_566_656, 28_288_354),
    "torchvision:vit_b_16": (VIT, 86_567_656),
    "timm:vit_base_patch16_224": (VIT, 86_567_656),
    "hf:bert": (BERT, 109_482_240),
    "hf:gpt2": (GPT2, 124_439_808),
}
SEQ_LEN = {"hf:bert": 128, "hf:gpt2": 1024}


def trace(words: str, *configurations: Configuration) -> Trace:
    target = load_target(words, request=InputRequest(seq_len=SEQ_LEN.get(words)))
    return trace_target(target, configurations=configurations or (Configuration(),))


def macs(made: Trace, *, recording: int, batch: int) -> int:
    held = made.recordings[recording]
    return sum(
        count * kernel_macs(kernel, batch) for kernel, count in zip(held.kernels, held.calls_per_kernel(), strict=True)
    )


@pytest.mark.parametrize("words", PUBLISHED)
def test_macs_and_parameters_are_exact_at_batch_1_and_32(words: str):
    variants = [Configuration(variant=variant) for variant in Variant] + [Configuration(layout=Layout.NHWC)]
    made = trace(words, *variants)
    expected, parameters = PUBLISHED[words]
    assert made.parameter_count == parameters
    for index in range(len(variants)):
        assert made.recordings[index].exact_batch is None
        assert uncounted(made.recordings[index]) == ()
        assert macs(made, recording=index, batch=1) == expected
        assert macs(made, recording=index, batch=32) == 32 * expected


@pytest.mark.slow
def test_every_model_of_torchvision_has_the_parameters_that_it_publishes() -> None:
    """torchvision's weights state `num_params`, so that a network that is another one without weights is found."""
    models = import_torchvision().models
    seen = 0
    for name in models.list_models():
        if "regnet" in name:  # their constructor reads data, which a build without data does not have
            continue
        published = {entry.meta["num_params"] for entry in models.get_model_weights(name)}
        with torch.device("meta"):
            module = load_target(f"torchvision:{name}", request=InputRequest()).builder()
        assert sum(parameter.numel() for parameter in module.parameters()) in published, name
        seen += 1
    assert seen >= 100


def test_the_hand_derivations_give_the_published_totals():
    assert (VIT, BERT, GPT2) == (17_563_828_224, 11_174_215_680, 145_824_153_600)
