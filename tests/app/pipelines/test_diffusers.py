"""diffusers' pipelines by name: parts as published, and what a larger image or a second pass costs."""

from importlib.util import find_spec

import pytest

import capplan
from capplan.app.pipelines.diffusers import find_pipeline, names_pipeline
from capplan.core.pipelines.expression import evaluate
from capplan.core.plan.types import Plan
from capplan.errors import CapplanError
from tests.nightly import mostly_nightly

pytestmark = [
    pytest.mark.zoo,
    pytest.mark.skipif(find_spec("diffusers") is None, reason="diffusers is not installed (capplan[zoo])"),
]
GPU = "h100-sxm5-80gb"

PUBLISHED = {
    # Denoisers: sizes that the publishers print, and counts of the checkpoints. Encoders: T5 v1.1 XXL has 4.76 billion
    # in its encoder, CLIP ViT-L/14 123 million and OpenCLIP bigG 695 million in their text towers; gemma-2-2b 2.61.
    "black-forest-labs/FLUX.1-dev": {
        "transformer": 11_901_408_320, "text_encoder_2": 4_762_310_656, "text_encoder": 123_060_480, "vae": 83_819_683,
    },
    "PixArt-alpha/PixArt-Sigma-XL-2-1024-MS": {"transformer": 610_856_096, "vae": 83_653_863},
    "stable-diffusion-v1-5/stable-diffusion-v1-5": {
        "unet": 859_520_964, "vae": 83_653_863, "text_encoder": 123_060_480,
    },
}  # fmt: skip


DENOISERS = {
    # counted by PyTorch of diffusers' classes on the meta device, with the published configurations; their publishers
    # print 20 B for Qwen-Image, 6 B for Z-Image, 8.3 B for HunyuanVideo 1.5 and 5 B (9.31 GiB in bf16) for TI2V
    "stabilityai/stable-diffusion-3.5-medium": 2_243_171_520, "stabilityai/stable-diffusion-3.5-large": 8_056_627_520,
    "Efficient-Large-Model/SANA1.5_1.6B_1024px_diffusers": 1_604_641_952,
    "Efficient-Large-Model/SANA1.5_4.8B_1024px_diffusers": 4_721_825_952,
    "Tencent-Hunyuan/HunyuanDiT-v1.2-Diffusers": 1_499_952_032, "Wan-AI/Wan2.1-T2V-1.3B-Diffusers": 1_418_996_800,
    "Wan-AI/Wan2.1-T2V-14B-Diffusers": 14_288_491_584, "tencent/HunyuanVideo": 12_821_012_544,
    "zai-org/CogVideoX-2b": 1_693_783_872, "zai-org/CogVideoX1.5-5B": 5_570_676_352,
    "stabilityai/stable-diffusion-xl-base-1.0": 2_567_463_684, "Wan-AI/Wan2.2-T2V-A14B-Diffusers": 14_288_491_584,
    "black-forest-labs/FLUX.2-dev": 32_223_281_152, "Lightricks/LTX-Video": 1_923_385_472,
    "Qwen/Qwen-Image": 20_430_401_088, "Tongyi-MAI/Z-Image-Turbo": 6_154_908_736,
    "hunyuanvideo-community/HunyuanVideo-1.5-Diffusers-480p_t2v": 8_326_608_160,
    "Wan-AI/Wan2.2-TI2V-5B-Diffusers": 4_999_787_712,
}  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize("name", DENOISERS)
def test_denoisers_have_the_published_parameters(name: str) -> None:
    part = "unet" if "xl-base" in name else "transformer"
    plan: Plan = capplan.plan(f"diffusers:{name}", gpus=[GPU], batches=[1], offload="sequential")
    assert plan.pipeline is not None
    assert {each.name: each.parameter_count for each in plan.pipeline.parts}[part] == DENOISERS[name]


@pytest.mark.parametrize("name", mostly_nightly(PUBLISHED, daily=["PixArt-alpha/PixArt-Sigma-XL-2-1024-MS"]))
def test_parts_have_the_published_parameters(name: str) -> None:
    plan: Plan = capplan.plan(f"diffusers:{name}", gpus=[GPU], batches=[1])
    assert plan.pipeline is not None
    counts = {part.name: part.parameter_count for part in plan.pipeline.parts}
    assert {part: counts[part] for part in PUBLISHED[name]} == PUBLISHED[name]


@pytest.mark.nightly
def test_the_newest_image_model_needs_what_its_publishers_say() -> None:
    """FLUX.2: 32 B beside a 24 B encoder; over 80 GB in all, about 62 GB where one part at a time is on the GPU."""
    plan: Plan = capplan.plan("diffusers:FLUX.2-dev", gpus=[GPU, "h200-sxm-141gb"], batches=[1])
    assert plan.pipeline is not None
    counts = {part.name: part.parameter_count for part in plan.pipeline.parts}
    assert round(counts["transformer"] / 1e9) == 32
    assert counts["text_encoder"] == pytest.approx(24.011e9, rel=1e-4)
    memory = {fit.gpu.id: fit.memory.total_bytes.expected / 2**30 for fit in plan.fits}
    assert memory[GPU] == pytest.approx(62, rel=0.05)
    assert memory["h200-sxm-141gb"] > 80


def test_prompts_pay_for_their_template_and_tokens_of_a_video_have_steps_of_their_own() -> None:
    parts = {part.name: part for part in find_pipeline("diffusers:Qwen/Qwen-Image").parts}
    assert parts["text_encoder"].inputs[0] == "input_ids=int64:Nx{text_encoder_tokens + 34}"
    wan = find_pipeline("diffusers:Wan2.2-TI2V-5B-Diffusers")
    values = wan.values(1)  # README of Wan2.2: 121 frames of 1280x704, compressed 4 x 16 x 16, patches of 2 x 2
    assert (values["latent_frames"], values["image_tokens"]) == (31, 31 * (704 // 32) * (1280 // 32))
    assert "timestep=int64:Nx{image_tokens}" in next(part for part in wan.parts if part.name == "transformer").inputs


def test_a_second_denoiser_takes_the_rest_of_the_steps() -> None:
    two = {part.name: part for part in find_pipeline("diffusers:Wan2.2-T2V-A14B-Diffusers").parts}
    values = {"steps": 7, "passes": 2}
    times = [evaluate(two[name].times, values, where="test") for name in ("transformer", "transformer_2")]
    assert sum(times) == 14
    assert min(times) > 0


@pytest.mark.nightly
def test_twice_the_pixels_are_at_least_twice_the_tokens() -> None:
    small, large = (
        capplan.plan("diffusers:PixArt-Sigma-XL-2-1024-MS", gpus=[GPU], batches=[1], settings={"height": height})
        for height in (512, 1024)
    )
    assert large.model.flops_per_sample > 2 * small.model.flops_per_sample
    assert large.fits[0].memory.total_bytes.expected > small.fits[0].memory.total_bytes.expected


@pytest.mark.nightly
def test_attention_that_is_written_out_reserves_what_was_measured() -> None:
    # LambdaLabsML/lambda-diffusers, benchmarks/benchmark_no_xformers.csv: torch.cuda.memory_reserved() in fp16 on an
    # A100 80GB PCIe, with attention as diffusers wrote it before PyTorch 2.0: two matrices of scores,
    # 2 passes · 8 heads · 4,096² · 2 bytes = 0.54 GB an image each, beside 2.1 GB of weights
    measured = {1: 3.41e9, 16: 20.58e9}
    plan = capplan.plan(
        "diffusers:stable-diffusion-v1-5/stable-diffusion-v1-5", gpus=["a100-pcie-80gb"], batches=list(measured),
        precision="fp16", offload="none", part_settings={"attention": "math"}, torch_version="1.13",
    )  # fmt: skip
    reserved = {fit.batch: fit.memory.peak_reserved_bytes.expected for fit in plan.fits}
    assert reserved == {batch: pytest.approx(expected, rel=0.08) for batch, expected in measured.items()}


@pytest.mark.nightly
def test_stable_diffusion_whose_images_are_decoded_one_by_one_reserves_what_was_measured() -> None:
    # LambdaLabsML/lambda-diffusers, benchmarks/benchmark.csv: torch.cuda.memory_reserved() after 32 and 64 images in
    # fp16 with memory-efficient attention on an A100 80GB PCIe; less than the 19.81 GB of 16, which are decoded at once
    measured = {32: 7.34e9, 64: 12.46e9}
    plan = capplan.plan(
        "diffusers:stable-diffusion-v1-5/stable-diffusion-v1-5", gpus=["a100-pcie-80gb"], batches=list(measured),
        precision="fp16", offload="none", settings={"vae_slicing": 1},
    )  # fmt: skip
    reserved = {fit.batch: fit.memory.peak_reserved_bytes.expected for fit in plan.fits}
    assert reserved == {batch: pytest.approx(expected, rel=0.08) for batch, expected in measured.items()}


def test_short_names_stand_for_the_published_ones() -> None:
    assert find_pipeline("diffusers:flux.1-DEV").name == "diffusers:black-forest-labs/FLUX.1-dev"


def test_a_component_or_a_class_is_a_model_and_a_mistyped_name_a_pipeline() -> None:
    assert names_pipeline("diffusers:black-forest-labs/FLUX.1-dev")
    assert not names_pipeline("diffusers:black-forest-labs/FLUX.1-dev/transformer")
    assert not names_pipeline("diffusers:FluxTransformer2DModel")
    with pytest.raises(CapplanError, match=r"did you mean black-forest-labs/FLUX\.1-dev"):
        find_pipeline("diffusers:black-forest-labs/FLUX.1-devv")
