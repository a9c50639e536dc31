"""Engines, versions and formats on GPUs that they do not run on, by the engines' own tables of hardware."""

import pytest

from capplan.core.engine_names import Engine
from capplan.errors import UsageError
from capplan.llm.core.deployment import NamedDeployment, build_deployment
from capplan.llm.core.memory_answer import StatedDeployment, answer_memory, held_memory
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.timing.work import Arithmetic
from capplan.llm.read.calibrations import load_engine_support, load_llm_memory
from capplan.llm.read.sources import find_model
from capplan.specs import load_gpus
from tests.seen import at_least

GPUS = load_gpus()
SUPPORT = load_engine_support()


@pytest.mark.parametrize(
    ("gpu", "engine", "version", "weights", "words"),
    [
        (
            "v100-sxm2-16gb",
            Engine.TRTLLM,
            None,
            "fp16",
            "(Volta, compute capability 7.0); use llama.cpp",
        ),
        ("v100-sxm2-16gb", Engine.SGLANG, None, "fp16", "does not run on"),
        ("v100-sxm2-16gb", Engine.VLLM, None, "fp16", "before version 0.11 alone"),
        ("v100-sxm2-16gb", Engine.VLLM, (0, 11), "fp16", "before version 0.11 alone"),
        ("t4", Engine.VLLM, None, "mxfp4", "t4 (Turing, compute capability 7.5); use bf16, fp8"),
        (
            "h100-sxm5-80gb",
            Engine.TRTLLM,
            None,
            "nvfp4",
            "awq, gptq, int8 there, or vllm or sglang for nvfp4",
        ),
        (
            "a100-sxm4-80gb",
            Engine.VLLM,
            (0, 5, 0),
            "fp8",
            "8.0) from version 0.5.1 on, not in 0.5.0",
        ),
        ("a100-sxm4-80gb", Engine.TRTLLM, None, "fp8", "there, or vllm or sglang for fp8"),
        ("l40s", Engine.TRTLLM, None, "fp8_block", "no fp8_block kernels for l40s"),
        ("l40s", Engine.TRTLLM, None, "q4_k_m", "reads no GGUF format"),
        ("t4", Engine.VLLM, (0, 14), "nvfp4", "from version 0.16 on, not in 0.14"),
        ("rtx-5090", Engine.VLLM, None, "int8", "no int8 kernels for rtx-5090"),
        ("mi100", Engine.VLLM, None, "fp8", "no fp8 kernels for mi100 (CDNA 1)"),
        ("rtx-3090", Engine.LLAMACPP, None, "awq", "no awq kernels for rtx-3090"),
        ("h100-sxm5-80gb", Engine.SGLANG, (0, 5, 9), "nvfp4", "from version 0.5.13 on"),
        ("b200-sxm-180gb", Engine.TRTLLM, (0, 16), "fp8", "from version 0.17 on, not in 0.16"),
        ("mi300x", Engine.TRTLLM, None, "bf16", "use vllm, sglang or llama.cpp"),
        ("apple-m4-max", Engine.VLLM, None, "bf16", "use llama.cpp"),
        ("tpu-v5e", Engine.LLAMACPP, None, "q8_0", "use vllm"),
        ("gaudi-3", Engine.LLAMACPP, None, "q8_0", "use vllm"),
    ],
)
def test_what_does_not_run_is_said(
    gpu: str, engine: Engine, version: tuple[int, ...] | None, weights: str, words: str
) -> None:
    assert words in (SUPPORT.problem(GPUS.find(gpu), engine, version=version, weights=weights) or "")


@pytest.mark.parametrize(
    ("gpu", "engine", "version", "weights"),
    [
        ("v100-sxm2-16gb", Engine.VLLM, (0, 10), "fp16"),
        ("v100-sxm2-16gb", Engine.LLAMACPP, None, "q8_0"),
        ("t4", Engine.VLLM, None, "awq"),
        ("a100-sxm4-80gb", Engine.VLLM, None, "mxfp4"),
        # measured in public: 30 runs of fp8 checkpoints on Ampere by vLLM 0.12 and 0.23, and 103 of vLLM on MI100
        ("rtx-3090", Engine.VLLM, (0, 12), "fp8"),
        ("a100-sxm4-80gb", Engine.VLLM, (0, 23), "fp8_block"),
        ("mi100", Engine.VLLM, (0, 11), "mxfp4"),
        ("mi100", Engine.VLLM, None, "int8"),
        ("rtx-3090", Engine.VLLM, None, "nvfp4"),
        ("h100-sxm5-80gb", Engine.VLLM, (0, 18), "mxfp4"),
        ("t4", Engine.VLLM, None, "fp8"),
        ("a100-sxm4-80gb", Engine.SGLANG, None, "fp8"),
        ("h100-sxm5-80gb", Engine.TRTLLM, (0, 5), "fp8"),
        ("b200-sxm-180gb", Engine.TRTLLM, None, "nvfp4"),
        ("mi300x", Engine.VLLM, None, "bf16"),
        ("apple-m4-max", Engine.LLAMACPP, None, "q4_k_m"),
    ],
)
def test_what_runs_is_not_refused(gpu: str, engine: Engine, version: tuple[int, ...] | None, weights: str) -> None:
    assert SUPPORT.problem(GPUS.find(gpu), engine, version=version, weights=weights) is None


@pytest.mark.parametrize(
    ("engine", "version", "words"),
    [
        (Engine.SGLANG, None, "sglang has no fp8_block kernels for experts for a100-sxm4-80gb"),  # sglang#12887, #18875
        (Engine.VLLM, (0, 8), "vllm has fp8_block kernels for experts for a100-sxm4-80gb (Ampere"),  # vllm#17579
        (Engine.VLLM, (0, 19), None),  # vllm#39610: MiniMax-M2.5 on A100
    ],
)
def test_experts_have_kernels_of_their_own(engine: Engine, version: tuple[int, ...] | None, words: str | None) -> None:
    found = SUPPORT.problem(GPUS.find("a100-sxm4-80gb"), engine, version=version, weights="fp8_block", experts=True)
    assert (found is None) if words is None else (found or "").startswith(words)


@pytest.mark.parametrize(
    ("gpu", "engine", "version", "kv", "words"),
    [
        ("h100-sxm5-80gb", Engine.VLLM, None, "nvfp4", "compute capability 10.0 (Blackwell), 10.3 (Blackwell Ultra)"),
        # vllm#49818: SM100 alone. Both are Blackwell, so that the compute capability must be named
        ("rtx-5090", Engine.VLLM, None, "nvfp4", "capability 12.0), only for compute capability 10.0 (Blackwell)"),
        ("h100-sxm5-80gb", Engine.VLLM, None, "q8_0", "no kernels of a KV cache in q8_0"),
        ("rtx-3090", Engine.LLAMACPP, None, "fp8", "llama.cpp has no kernels of a KV cache in fp8"),
        # seen in stock 0.23.0 on compute capability 8.6 (club-3090, docs)
        ("rtx-3090", Engine.VLLM, (0, 22), "int8_per_token_head", "from version 0.23 on, not in 0.22"),
        ("rtx-3090", Engine.VLLM, (0, 23), "int8_per_token_head", ""),
        ("b200-sxm-180gb", Engine.VLLM, None, "nvfp4", ""),
        ("rtx-3090", Engine.LLAMACPP, None, "q8_0", ""),
        ("rtx-3090", Engine.VLLM, None, "fp8", ""),
    ],
)
def test_formats_of_the_cache(gpu: str, engine: Engine, version: tuple[int, ...] | None, kv: str, words: str) -> None:
    found = SUPPORT.problem(GPUS.find(gpu), engine, version=version, weights="bf16", kv=kv)
    assert words in (found or "")
    assert bool(words) == bool(found)


@pytest.mark.parametrize(
    ("model", "gpu", "engine", "version", "runs"),
    [
        # No valid attention backend on 8.0 (GLM-5.1 in vllm#40851, asked for in #38006), nor for DeepSeek-V4 (#40851)
        ("glm-5.1", "a100-sxm4-80gb", Engine.VLLM, None, False),
        ("deepseek-v4-flash", "a100-sxm4-80gb", Engine.VLLM, None, False),
        ("deepseek-v3", "a100-sxm4-80gb", Engine.VLLM, None, True),  # dense latent attention: TRITON_MLA runs anywhere
        # V3.2 fails on RTX PRO 6000 in December 2025 (vllm#31936); every backend of SGLang 0.5.12 fails (sglang#26087)
        ("deepseek-v3.2", "rtx-pro-6000-blackwell-server", Engine.VLLM, (0, 13), False),
        ("deepseek-v3.2", "rtx-pro-6000-blackwell-server", Engine.VLLM, None, True),
        ("glm-5.1", "rtx-pro-6000-blackwell-server", Engine.SGLANG, (0, 5, 12), False),
        # docs.sglang.io, DeepSeek V3.2 usage: images for H200, B200, MI300 and MI350
        ("deepseek-v3.2", "h200-sxm-141gb", Engine.SGLANG, (0, 5, 8), True),
        ("deepseek-v3.2", "mi300x", Engine.SGLANG, (0, 5, 8), True),
    ],
)
def test_sparse_and_compressed_attention_need_kernels_of_their_own(
    model: str, gpu: str, engine: Engine, version: tuple[int, ...] | None, runs: bool
) -> None:
    attention = find_model(model).architecture.special_attention
    problem = SUPPORT.problem(GPUS[gpu], engine, version=version, weights="bf16", attention=attention)
    assert (problem is None) is runs
    assert runs or "attention" in (problem or "")


def test_widened_weights_and_community_builds_are_said() -> None:
    [narrow] = SUPPORT.notes(GPUS.find("rtx-3090"), Engine.VLLM, "fp8")
    assert narrow.startswith("vllm computes fp8 in 16 bits on rtx-3090 (Ampere, compute capability 8.6)")
    [community] = SUPPORT.notes(GPUS.find("mi100"), Engine.VLLM, "bf16")
    assert "no official build for mi100 (CDNA 1)" in community
    assert SUPPORT.notes(GPUS.find("h100-sxm5-80gb"), Engine.VLLM, "fp8") == ()


def test_widened_weights_are_read_narrow_and_multiplied_in_16_bits() -> None:
    words = NamedDeployment(model="llama-3.1-8b-instruct", gpu="a100-sxm4-80gb", engine="vllm", sharding=Sharding(),
                            weights="fp8")  # fmt: skip
    model, gpu = find_model(words.model), GPUS.find(words.gpu)
    products = build_deployment(words, model=model, gpu=gpu, constants=load_llm_memory()).kernels.products
    mlp = max(products, key=lambda product: product.outputs * product.inputs * product.count)
    assert (mlp.weight_bytes, mlp.input_bytes, mlp.arithmetic) == (1.0, 2.0, Arithmetic.HALF)


def test_every_gpu_of_the_database_is_known_to_the_table() -> None:
    for gpu in at_least(100, GPUS.values()):
        capability = gpu.compute_capability
        family = gpu.architecture if capability is None else ".".join(map(str, capability))
        assert family in SUPPORT.hardware, gpu.id


def test_the_memory_of_a_deployment_that_does_not_run_is_refused() -> None:
    request = StatedDeployment(model=find_model("llama-3.1-8b-instruct"), gpu=GPUS.find("apple-m4-max"))
    with pytest.raises(UsageError, match=r"vllm does not run on apple-m4-max \(Apple's GPUs\); use llama.cpp."):
        answer_memory(request, load_llm_memory())


def test_tensorrt_llm_keeps_every_token_of_layers_with_windows() -> None:
    # KVCacheManager of resource_manager.py: "Use max_seq_len as default max_attention_window", where vLLM frees blocks
    def tokens(engine: Engine) -> float:
        gpu = GPUS.find("h100-sxm5-80gb")
        stated = StatedDeployment(model=find_model("gpt-oss-20b"), gpu=gpu, engine=engine, pool_bytes=40e9, kv="bf16")
        return held_memory(stated, load_llm_memory()).sequences(100_000)

    # 24 layers of 8 heads with keys and values of 64 in 16 bits; half of the layers have windows of 128 tokens
    assert tokens(Engine.TRTLLM) == 40e9 // (24 * 8 * 2 * 64 * 2 * 100_000)
    assert tokens(Engine.VLLM) == pytest.approx(2 * tokens(Engine.TRTLLM), abs=1)
