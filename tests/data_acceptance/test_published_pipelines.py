"""Published times and memory of diffusion pipelines, with the calibration that ships."""

from importlib.util import find_spec

import pytest

import capplan
from capplan.core.plan.types import Plan

pytestmark = [
    pytest.mark.zoo,
    pytest.mark.skipif(find_spec("diffusers") is None, reason="diffusers is not installed (capplan[zoo])"),
]
GPU = "h100-sxm5-80gb"

FLUX_SECONDS = {
    # derekl35/diffusers-quantization-benchmarks on the Hub, read 2026-11-28: FLUX.1-dev on an H100, whole seconds of an
    # image without and with enable_model_cpu_offload(); and its peak reserved memory in GiB
    None: (12, 20, 36.2, 23.3), "int8_weight_only": (15, 26, 21.5, 12.2), "q8_0": (15, 22, 26.0, 13.0),
    "q4_1": (23, 28, 21.3, 9.2),
}  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize("weights", FLUX_SECONDS, ids=str)
def test_quantised_denoisers_take_the_time_and_memory_that_were_published(weights: str | None) -> None:
    encoder = {"text_encoder_2.weights": weights} if weights == "int8_weight_only" else {}
    for place, seconds, gib in zip(
        ("none", "model"), FLUX_SECONDS[weights][:2], FLUX_SECONDS[weights][2:], strict=True
    ):
        plan: Plan = capplan.plan(
            "diffusers:black-forest-labs/FLUX.1-dev", gpus=[GPU], batches=[1], offload=place, settings={"steps": 50},
            weights=weights, part_settings=encoder,
        )  # fmt: skip
        fit = plan.fits[0]
        if weights is None or place != "none":  # the others are what `benchmarks/unpacking.py` fits to
            assert fit.latency.latency_s.low < seconds < fit.latency.latency_s.high
        assert fit.memory.peak_reserved_bytes.expected / 2**30 == pytest.approx(gib, rel=0.08)


@pytest.mark.nightly
def test_a_video_takes_less_than_its_publisher_prints_on_the_card_that_it_names() -> None:
    """README of Wan2.2: a video of 5 seconds at 720P "in under 9 minutes" on one consumer card of 24 GB."""
    plan: Plan = capplan.plan("diffusers:Wan2.2-TI2V-5B-Diffusers", gpus=["rtx-4090"], batches=[1])
    assert 9 * 60 * 0.5 < plan.fits[0].latency.latency_s.expected < 9 * 60
