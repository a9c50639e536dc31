"""Layers and experts that llama.cpp leaves in host memory: their bytes and their time, by hand."""

from dataclasses import replace

import pytest

from capplan.app.deployments import Deployments
from capplan.core.engine_names import Engine
from capplan.errors import UsageError
from capplan.llm.core.deployment import NamedDeployment, ServingDeployment
from capplan.llm.core.memory_answer import StatedDeployment, with_fitted_offload
from capplan.llm.core.serving.service import ServedDeployment
from capplan.llm.core.sharding import HostOffload, Sharding
from capplan.llm.core.timing.constants import constants_of
from capplan.llm.core.timing.work import Load
from capplan.llm.read.calibrations import load_llm_memory, load_time_calibration
from capplan.llm.read.catalogue import load_catalogue
from capplan.specs import load_gpus

DEPLOYMENTS = Deployments(gpus=load_gpus())
CONSTANTS = constants_of(load_time_calibration())
LLAMA = NamedDeployment(
    model="llama-3.1-8b-instruct", gpu="rtx-4090", engine="llama.cpp", weights="q8_0", sharding=Sharding()
)
QWEN = replace(LLAMA, model="qwen3-30b-a3b", weights="q4_k_m")


def found(words: NamedDeployment, **offload: int) -> ServingDeployment:
    sharding = Sharding(offload=HostOffload(**offload)) if offload else Sharding()
    return DEPLOYMENTS.find(replace(words, sharding=sharding))


def decode_s(deployment: ServingDeployment, tokens: float = 1.0) -> float:
    service = ServedDeployment(
        kernels=deployment.kernels, machine=deployment.machine, engine=deployment.engine, constants=CONSTANTS
    )
    return float(service.step(Load.of(decoding=tokens, context=64.0)).total_s[0])


def test_layers_of_llama_in_host_memory_weigh_what_their_matrices_do() -> None:
    # A layer: 4096·(4096 + 2·1024 + 4096) + 3·4096·14336 = 218.1 M weights of 8.5 bits; ten layers and, because -ngl 22
    # does not reach it, the head of 128,256·4096.
    layer = 4096 * (4096 + 2048 + 4096) + 3 * 4096 * 14336
    stage = found(LLAMA, gpu_layers=22).stage
    assert stage.host_bytes == pytest.approx((10 * layer + 128_256 * 4096) * 8.5 / 8, rel=1e-3)
    assert stage.weight_bytes + stage.host_bytes == pytest.approx(found(LLAMA).stage.weight_bytes)
    assert stage.cache.bytes_per_token == pytest.approx(22 / 32 * found(LLAMA).stage.cache.bytes_per_token)


def test_all_layers_and_the_head_on_the_gpu_leave_nothing() -> None:
    assert found(LLAMA, gpu_layers=33).stage.host_bytes == 0
    assert decode_s(found(LLAMA, gpu_layers=33)) == pytest.approx(decode_s(found(LLAMA)))


def test_a_token_waits_for_the_host_to_read_its_layers() -> None:
    # Ten layers and the head at 8.5 bits are 2.88 GB. A Ryzen 9 7950X reads 83.2 GB/s as printed, of which 0.8 is taken
    # and the products reach 0.99: 2.88 / 65.8 = 43.7 ms; the GPU saves reading the same at 950 GB/s, 3 ms.
    added_s = decode_s(found(LLAMA, gpu_layers=22)) - decode_s(found(LLAMA))
    assert added_s == pytest.approx(43.7e-3 - 3.0e-3, rel=0.05)


def test_a_prompt_is_multiplied_on_the_gpu_after_its_weights_were_copied() -> None:
    service = ServedDeployment(
        kernels=found(LLAMA, gpu_layers=22).kernels,
        machine=found(LLAMA, gpu_layers=22).machine,
        engine="llama.cpp",
        constants=CONSTANTS,
    )
    # 2.88 GB over PCIe 4.0 x16 at 31.5 GB/s are 91 ms; on the CPU, 512 tokens of 2.7 G weights would take 2.8 TFLOP at
    # 2.9 TFLOP/s, a second.
    prompt_s = float(service.step(Load.of(prefilled=512.0, prompts=1.0)).total_s[0])
    assert 0.09 < prompt_s < 0.3


def test_fewer_layers_on_the_gpu_are_never_faster() -> None:
    times = [decode_s(found(LLAMA, gpu_layers=layers)) for layers in range(1, 34, 4)]
    assert times == sorted(times, reverse=True)


def test_experts_in_host_memory_cost_less_than_their_whole_layers() -> None:
    experts, layers = found(QWEN, expert_layers=48), found(QWEN, gpu_layers=1)
    # 48 layers of 128 experts of 3·2048·768 weights are 29.0 B, at 4.5 to 6.6 bits each
    assert 29.0e9 * 4.5 / 8 < experts.stage.host_bytes < 29.0e9 * 6.6 / 8
    assert experts.stage.host_bytes < layers.stage.host_bytes
    assert decode_s(found(QWEN)) < decode_s(experts) < decode_s(layers)


@pytest.mark.parametrize(
    ("words", "offload", "sentence"),
    [
        (replace(LLAMA, engine="vllm", weights="bf16"), {"gpu_layers": 8}, "keeps all layers on its GPUs"),
        (LLAMA, {"expert_layers": 4}, "has no experts, so ⟨n-cpu-moe⟩ does nothing"),
    ],
)
def test_what_cannot_be_left_to_the_host_is_said(
    words: NamedDeployment, offload: dict[str, int], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        found(words, **offload)


def test_gpus_that_share_every_matrix_leave_nothing_to_the_host() -> None:
    sharding = Sharding(tensor=2, offload=HostOffload(gpu_layers=8))
    with pytest.raises(UsageError, match="use ⟨pp⟩ 2, a split by layer"):
        DEPLOYMENTS.find(replace(LLAMA, sharding=sharding))


def test_two_gpus_share_what_the_host_leaves() -> None:
    one = found(QWEN, expert_layers=24)
    two = DEPLOYMENTS.find(replace(QWEN, sharding=Sharding(pipeline=2, offload=HostOffload(expert_layers=24))))
    assert two.stage.host_bytes == pytest.approx(one.stage.host_bytes)
    assert 2 * two.stage.weight_bytes == pytest.approx(one.stage.weight_bytes)
    assert decode_s(two) * 2 == pytest.approx(decode_s(one), rel=0.02)  # the host's layers are passed once, in turn


def test_two_5090_hold_gpt_oss_with_the_experts_of_three_layers_on_the_host() -> None:
    # llama.cpp#15077, comment of 2025-08-07: two RTX 5090, whole context (--ctx-size 0 is 131,072): --n-cpu-moe 3
    request = StatedDeployment(
        model=load_catalogue()["gpt-oss-120b"], gpu=load_gpus().find("rtx-5090"), engine=Engine.LLAMACPP,
        sharding=Sharding(pipeline=2, offload=HostOffload(is_fitted=True)), sequence_tokens=131_072,
    )  # fmt: skip
    fitted = with_fitted_offload(request, load_llm_memory())
    assert fitted.sharding.offload is not None
    assert abs(fitted.sharding.offload.expert_layers - 3) <= 1  # memory that tests count with is rounded


def test_what_the_gpus_hold_leaves_nothing_to_the_host() -> None:
    words = replace(LLAMA, sharding=Sharding(offload=HostOffload(is_fitted=True)))
    assert DEPLOYMENTS.find(words).words.sharding.offload is None


@pytest.mark.parametrize(
    ("sharding", "tokens_per_s"),
    [(Sharding(pipeline=2), 22.1), (Sharding(tensor=2), 37.1), (Sharding(tensor=2), 38.3)],
)
def test_two_5060_ti_split_by_layer_and_by_tensor_as_people_measured(sharding: Sharding, tokens_per_s: float) -> None:
    # sudoingX/qwen38-mtp#24 (layer 22.1, tensor 37.1 tokens/s) and #32 (tensor 38.3, Q4_K_M, llama.cpp b10450)
    words = NamedDeployment(
        model="qwen3.8-27b", gpu="rtx-5060-ti-16gb", engine="llama.cpp", weights="q4_k_m", sharding=sharding
    )
    step_s = decode_s(DEPLOYMENTS.find(words)) * sharding.pipeline
    assert 1 / step_s == pytest.approx(tokens_per_s, rel=0.15)


@pytest.mark.parametrize(
    ("model", "gpu", "reason"),
    [
        ("deepseek-v2-lite", "rtx-4090", "latent attention"),
        ("nemotron-3-nano-30b-a3b", "rtx-4090", "states of Mamba"),
        ("olmo-2-13b-instruct", "rtx-4090", "norms over all heads"),
        ("qwen3-8b", "apple-m4", "CUDA and HIP"),
    ],
)
def test_what_llama_cpp_does_not_split_by_tensor_is_split_by_layer(model: str, gpu: str, reason: str) -> None:
    # llama.cpp's docs/multi-gpu.md at 5815cb8: DeepSeek2, Nemotron-H and OLMo2 are excluded, Metal has layers alone
    words = NamedDeployment(model=model, gpu=gpu, engine="llama.cpp", weights="q4_k_m", sharding=Sharding(tensor=2))
    with pytest.raises(UsageError, match=f"{reason}.*use ⟨pp⟩ 2"):
        DEPLOYMENTS.find(words)
