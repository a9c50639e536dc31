"""The shipped memory rules against vLLM's start-up logs, where these lie beside the project."""

import csv
import gzip
import json
from pathlib import Path
from statistics import median

import pytest

from capplan.core.engine_names import Engine
from capplan.llm.core.layers import Attention, LatentAttention
from capplan.llm.core.memory_answer import StatedDeployment, answer_memory
from capplan.llm.core.model_query import kv_bytes_per_token
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.tensors import count_active_parameters, count_parameters
from capplan.llm.read.calibrations import load_llm_memory
from capplan.llm.read.catalogue import find_in_catalogue
from capplan.specs import load_gpus
from tests.seen import at_least

pytestmark = pytest.mark.slow

CONFIGS = Path(__file__).parents[3] / "shared" / "data" / "llm" / "configs" / "index.json"
LOGS = Path(__file__).parents[3] / "shared" / "data" / "llm" / "vllm-memory-h100.csv.gz"
GIB = 1 << 30


def test_the_shipped_rules_cover_every_engine():
    constants = load_llm_memory()
    assert {each.engine for each in constants.engines} == set(Engine)
    assert constants.find(Engine.VLLM, (0, 16)).since < constants.find(Engine.VLLM, (0, 19)).since


@pytest.mark.parametrize(
    ("name", "size_bytes"),
    [
        # layers · key-value heads · (key + value width) · 2, or layers · (rank + rotary width) · 2
        ("llama-3.1-405b-instruct", 126 * 8 * 256 * 2),
        ("kimi-k2-instruct", 61 * 576 * 2),
        ("qwen3-32b", 64 * 8 * 256 * 2),
        ("mixtral-8x7b", 32 * 8 * 256 * 2),
    ],
)
def test_cache_per_token_of_the_catalogue(name, size_bytes):
    model = find_in_catalogue(name)
    assert model is not None
    assert kv_bytes_per_token(model) == size_bytes


@pytest.mark.parametrize("engine", [Engine.SGLANG, Engine.TRTLLM, Engine.LLAMACPP])
def test_memory_of_engines_without_logs_is_called_an_estimate(engine):
    model = find_in_catalogue("llama-3.1-8b-instruct")
    assert model is not None
    request = StatedDeployment(model=model, gpu=load_gpus().find("h100-sxm5-80gb"), engine=engine)
    found = answer_memory(request, load_llm_memory(), alternatives=False)
    assert any("an estimate" in note and engine.value in note for note in found.notes)
    assert found.pool_interval.low < found.stage.pool_bytes < found.pool_interval.high


@pytest.mark.shared
@pytest.mark.skipif(not CONFIGS.is_file(), reason="needs the configurations beside the project")
def test_the_catalogue_agrees_with_the_study_of_the_same_configurations():
    studied = [(row, find_in_catalogue(row["id"])) for row in json.loads(CONFIGS.read_text()) if row["params_formula"]]
    for row, model in at_least(30, ((row, model) for row, model in studied if model is not None)):
        architecture = model.architecture
        assert count_parameters(architecture) == pytest.approx(row["params_formula"], rel=1e-4)
        # the study counts the biases of all of gpt-oss's experts as active
        assert count_active_parameters(architecture) == pytest.approx(row["params_active"], rel=7e-3)
        mixers = [mixer for _, mixer in architecture.attention_layers()]
        indexers = sum(isinstance(mixer, LatentAttention) and mixer.indexer is not None for mixer in mixers)
        once = 0  # the study counts Gemma 4's shared projection once, but its keys and values are cached apart
        for mixer in mixers:
            if isinstance(mixer, Attention) and mixer.keys_are_values:
                once += mixer.kv_heads * mixer.value_dim * 2
        expected = row["kv_bytes_per_token_bf16"] + 132 * indexers + once
        assert kv_bytes_per_token(model) == expected, row["id"]


@pytest.mark.shared
@pytest.mark.skipif(not LOGS.is_file(), reason="needs the start-up logs beside the project")
def test_start_up_logs_of_vllm():
    gpu, constants = load_gpus().find("h100-sxm5-80gb"), load_llm_memory()
    pools, weights, tokens = [], [], []
    with gzip.open(LOGS, "rt") as stream:
        rows = [row for row in csv.DictReader(stream) if find_in_catalogue(row["model"]) and row["pp"] == "1"]
    for row in rows:
        model = find_in_catalogue(row["model"])
        assert model is not None
        formats = {"None": {"torch.float32": "fp32"}.get(row["dtype"]), "compressed-tensors": None}
        stored = formats.get(row["quantization"], row["quantization"])
        request = StatedDeployment(
            model=model,
            gpu=gpu,
            sharding=Sharding(tensor=int(row["tp"])),
            weights=stored,
            kv="fp8" if row["kv_cache_dtype"] == "fp8" else None,
            fraction=float(row["gpu_memory_utilization"]),
            version=(0, 19),
        )
        found = answer_memory(request, constants, alternatives=False).stage
        pool = float(row["kv_cache_memory_gib"]) * GIB
        pools.append(abs(found.pool_bytes / pool - 1))
        weights.append(abs(found.weight_bytes / GIB / float(row["weights_memory_gib"]) - 1))
        from dataclasses import replace

        known = answer_memory(replace(request, pool_bytes=pool), constants, alternatives=False)
        assert known.kv_tokens is not None
        tokens.append(abs(known.kv_tokens / int(row["kv_cache_tokens"]) - 1))
    assert len(rows) >= 20
    assert median(pools) < 0.005
    assert sorted(pools)[int(0.9 * len(pools))] < 0.02
    assert median(weights) < 0.01
    assert sorted(weights)[int(0.9 * len(weights))] < 0.03
    assert max(tokens) < 0.0003  # the logged size of the pool has four digits
