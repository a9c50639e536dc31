"""Single streams of llama.cpp with the shipped constants, beside published rates."""

import pytest

from capplan.app.deployments import Deployments
from capplan.llm.core.deployment import NamedDeployment
from capplan.llm.core.search.estimate import estimate_serving
from capplan.llm.core.search.room import served_demand
from capplan.llm.core.sharding import Sharding
from capplan.llm.read.calibrations import load_time_calibration
from capplan.specs import load_gpus

DEPLOYMENTS = Deployments(gpus=load_gpus())


@pytest.mark.parametrize(
    ("gpu", "weights", "tokens_per_s"),
    [
        ("rtx-4090", "q4_k_m", 127.74),
        ("rtx-4090", "fp16", 54.34),
        ("rtx-3090", "q4_k_m", 111.74),
        ("a100-pcie-80gb", "fp16", 54.56),
        ("h100-pcie-80gb", "q4_k_m", 144.49),
        ("apple-m2-ultra", "fp16", 36.25),
        ("apple-m3-max", "q4_k_m", 50.74),
    ],
)
def test_a_single_stream_is_as_fast_as_published(gpu: str, weights: str, tokens_per_s: float) -> None:
    # Llama 3 8B, 1,024 tokens generated, llama.cpp b2824 of May 2024
    # (github.com/XiongjieDai/GPU-Benchmarks-on-LLM-Inference).
    words = NamedDeployment(
        model="llama-3-8b-instruct", gpu=gpu, engine="llama.cpp", weights=weights, kv="fp16", sharding=Sharding(),
        version="2024-05",
    )  # fmt: skip
    demand = served_demand(DEPLOYMENTS.find, words, input_len=8, output_len=1024)
    (point,) = estimate_serving(DEPLOYMENTS.find(words), demand, (1,), calibration=load_time_calibration()).points
    assert 1 / point.tpot_s.expected == pytest.approx(tokens_per_s, rel=0.2)
    assert point.tpot_s.low < 1 / tokens_per_s < point.tpot_s.high
    assert "loads of this engine" in point.evidence  # single streams alone were measured
    assert "this GPU" not in point.evidence
