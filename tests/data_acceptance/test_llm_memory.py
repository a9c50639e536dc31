"""The shipped memory rules against vLLM's start-up logs, where these lie beside the project."""

import csv
import gzip
from pathlib import Path
from statistics import median

import pytest

from capplan.core.llm.engines import Engine
from capplan.core.llm.memory_answer import MemoryRequest, answer_memory
from capplan.core.llm.sharding import Sharding
from capplan.specs import load_gpus
from capplan.specs.llm.catalogue import find_in_catalogue
from capplan.specs.llm.memory_calibration import load_llm_memory

LOGS = Path(__file__).parents[3] / "shared" / "data" / "llm" / "vllm-memory-h100.csv.gz"
GIB = 1 << 30


def test_the_shipped_rules_cover_every_engine():
    constants = load_llm_memory()
    assert {each.engine for each in constants.engines} == set(Engine)
    assert constants.find(Engine.VLLM, (0, 16)).since < constants.find(Engine.VLLM, (0, 19)).since


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
        stored = {"torch.float32": "fp32"}.get(row["dtype"]) if row["quantization"] == "None" else row["quantization"]
        request = MemoryRequest(
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
