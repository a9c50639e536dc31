"""Models and heads that draft: their bytes, their time beside the model's, and which go with which model."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from capplan.app.deployments import Deployments
from capplan.core.numbers import FloatArray
from capplan.errors import UsageError
from capplan.llm.core.deployment import NamedDeployment, ServingDeployment
from capplan.llm.core.drafting import draft_model, eagle3_head
from capplan.llm.core.serving.asked import Drafter, Speculation
from capplan.llm.core.serving.energy import ServedTokens, card_work
from capplan.llm.core.serving.service import Demand, drafting_step_s, step_times_s
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.tensors import count_parameters
from capplan.llm.core.timing.constants import constants_of
from capplan.llm.core.timing.work import Load
from capplan.llm.read.calibrations import load_time_calibration
from capplan.llm.read.config.parse import parse_config
from capplan.llm.read.sources import find_model
from capplan.specs import load_gpus

GPU = "h100-sxm5-80gb"
DEMAND = Demand(input_len=1000.0, output_len=200.0, capacity=64.0, speculation=Speculation(drafts=3, acceptance=0.7))


@pytest.fixture(scope="module")
def deployments() -> Deployments:
    return Deployments(gpus=load_gpus())


def found(deployments: Deployments, drafter: str, *, model: str = "llama-3.1-8b-instruct") -> ServingDeployment:
    words = NamedDeployment(model=model, gpu=GPU, engine="vllm", sharding=Sharding())
    return deployments.find(replace(words, drafter=Drafter.named(drafter) if drafter else None))


def drafting_s(deployment: ServingDeployment, decoding: FloatArray) -> float:
    return float(drafting_step_s(deployment.service(constants_of(load_time_calibration(None))), DEMAND, decoding)[0])


def test_an_eagle3_head_has_the_published_size() -> None:
    # 3·4096² that join three states, 2·4096·(4096 + 2·1024) for queries, keys and values, 4096² behind them,
    # 3·4096·14336 of the MLP, 32000·4096 of the output head: 424.7 M. The trained head's file has about 811 MiB in 16
    # bits (guide to SpecForge's llama3-8B-eagle3.json).
    head = eagle3_head(find_model("llama-3.1-8b-instruct")).architecture
    assert count_parameters(head) == pytest.approx(424.67e6, rel=1e-3)
    assert 2 * count_parameters(head) / 2**20 == pytest.approx(811, rel=0.005)


def config(**changes: Any) -> dict[str, Any]:
    """Return the configuration of SpecForge's head for Llama 3 8B (configs/llama3-8B-eagle3.json), with changes."""
    return {
        "architectures": ["LlamaForCausalLMEagle3"], "hidden_act": "silu", "hidden_size": 4096,
        "intermediate_size": 14336, "max_position_embeddings": 2048, "model_type": "llama", "num_attention_heads": 32,
        "num_key_value_heads": 8, "num_hidden_layers": 1, "rms_norm_eps": 1e-05, "tie_word_embeddings": False,
        "vocab_size": 128256, "draft_vocab_size": 32000, **changes,
    }  # fmt: skip


def test_a_heads_configuration_is_read_as_the_head_that_follows_from_the_model() -> None:
    read = parse_config(config(), name="head")
    assert count_parameters(read) == count_parameters(eagle3_head(find_model("llama-3.1-8b-instruct")).architecture)
    assert (read.draft_head is not None, read.output_rows, read.vocab_size) == (True, 32_000, 128_256)


def test_a_dflash_head_has_neither_embeddings_nor_an_output_head() -> None:
    # SpecForge's qwen3-32b-dflash.json: ten layers of 5120·(64 + 2·8)·128 + 64·128·5120 + 3·5120·25600 = 487.6 M, and
    # 10·5120² that join the states of ten layers: 5.138 B, norms aside.
    dflash = config(
        architectures=["DFlashDraftModel"], model_type="qwen3", hidden_size=5120, intermediate_size=25600,
        num_attention_heads=64, num_hidden_layers=10, head_dim=128, vocab_size=151936, block_size=16,
        num_target_layers=64, dflash_config={"mask_token_id": 151669, "target_layer_ids": list(range(10))},
    )  # fmt: skip
    del dflash["draft_vocab_size"]
    read = parse_config(dflash, name="head")
    assert count_parameters(read) == pytest.approx(5.138e9, rel=1e-3)
    assert read.draft_head is not None
    assert read.draft_head.is_parallel


def test_a_draft_model_takes_its_weights_and_its_own_cache(deployments: Deployments) -> None:
    # Llama 3.2 1B: 1.236 B parameters, 16 layers of 8 heads with 64 elements for keys and values: 32 KiB a token; a
    # quarter of both on each of four GPUs. Eagerly kept rotary tables are small beside them.
    words = NamedDeployment(model="llama-3.1-70b-instruct", gpu=GPU, engine="vllm", sharding=Sharding(tensor=4))
    plain = deployments.find(words).stage
    beside = deployments.find(replace(words, drafter=Drafter.named("llama-3.2-1b-instruct"))).stage
    assert beside.weight_bytes - plain.weight_bytes == pytest.approx(2 * 1.236e9 / 4, rel=0.04)
    assert beside.cache.bytes_per_token - plain.cache.bytes_per_token == 32 * 1024 / 4


def test_drafts_take_passes_over_the_weights_of_what_drafts(deployments: Deployments) -> None:
    one = np.array([1.0])
    times = {name: drafting_s(found(deployments, name), one) for name in ("eagle3", "llama-3.2-1b-instruct")}
    # Three passes read 1.236 B parameters in 16 bits each at no more than 3.35 TB/s.
    assert times["llama-3.2-1b-instruct"] > 3 * 2 * 1.236e9 / 3.35e12
    assert times["llama-3.2-1b-instruct"] > times["eagle3"] > 3 * 2 * 0.374e9 / 3.35e12  # what joins states runs once


def test_a_draft_model_reads_the_prompts_too(deployments: Deployments) -> None:
    constants = constants_of(load_time_calibration(None))
    prompt = Load.of(prefilled=4096.0, prompts=1.0)
    plain, drafting = (
        float(step_times_s(found(deployments, name).service(constants), prompt)[0][0])
        for name in ("", "llama-3.2-1b-instruct")
    )
    # 1.236 B of 8.03 B parameters work on each token: a sixth of the products, and kernels of smaller matrices.
    assert 0.10 * plain < drafting - plain < 0.45 * plain


def test_energy_counts_what_drafts(deployments: Deployments) -> None:
    tokens = ServedTokens(running=1, input_len=1, output_len=800, speculation=DEMAND.speculation)
    plain = found(deployments, "")
    drafter = found(deployments, "llama-3.2-1b-instruct").drafter
    assert drafter is not None
    work = card_work(plain.kernels, plain.gpu, Sharding(), replace(tokens, drafter=drafter), output_tokens_per_s=100.0)
    alone = card_work(
        plain.kernels, plain.gpu, Sharding(), replace(tokens, speculation=None), output_tokens_per_s=100.0
    )
    # Three passes over 1.236 B parameters less the embedding that is no product (it is the tied head): 3 · 2.47 GB.
    assert work.traffic_bytes - alone.traffic_bytes == pytest.approx(3 * 2 * 1.236e9, rel=0.05)


def test_a_drafter_has_the_models_tokens_and_states() -> None:
    llama, qwen, mixture = (find_model(name) for name in ("llama-3.1-8b-instruct", "qwen3-0.6b", "qwen3-30b-a3b"))
    with pytest.raises(UsageError, match=r"151,936 tokens and llama-3\.1-8b-instruct 128,256"):
        draft_model(Drafter.named("qwen3-0.6b"), llama, Sharding(), named=qwen)
    with pytest.raises(UsageError, match="do not follow from its own"):
        draft_model(Drafter.named("eagle3"), mixture, Sharding(), named=None)
    narrow = replace(llama, architecture=parse_config(config(hidden_size=2048), name="head"))
    with pytest.raises(UsageError, match="hidden states of 2048 elements"):
        draft_model(Drafter.named("head of a file"), llama, Sharding(), named=narrow)
