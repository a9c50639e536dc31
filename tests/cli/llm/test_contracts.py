"""The JSON documents of the LLM commands, key by key, as their contracts name them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run

INTERVAL = {"low", "expected", "high"}


def document(run: Run, *words: object, exit_code: int = 0) -> dict[str, Any]:
    result = run("llm", *words, "--json")
    assert result.exit_code == exit_code, result.stderr
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


def test_memory_states_every_key_of_its_contract(run: Run) -> None:
    found = document(
        run, "memory", "deepseek-v3", "--weights", "fp8", "--gpu", "h200-sxm-141gb", "--tp", 8, "--max-len", 32768
    )
    assert found.keys() >= {
        "schema_version", "model", "gpu", "tp", "pp", "ep", "dp", "engine", "weights", "kv", "weights_bytes",
        "kv_pool_bytes", "kv_bytes_per_token", "kv_tokens", "activation_bytes", "other_bytes", "sequences_that_fit",
        "max_context", "notes",
    }  # fmt: skip
    assert found["model"].keys() >= {"name", "params", "active_params"}
    assert (found["gpu"], found["engine"], found["tp"], found["pp"]) == ("h200-sxm-141gb", "vllm", 8, 1)
    # bytes are those of one GPU: an eighth of 671 B parameters of a byte, and a little more
    assert found["weights_bytes"] == pytest.approx(671e9 / 8, rel=0.03)
    parts = ("weights_bytes", "activation_bytes", "other_bytes", "kv_pool_bytes")
    assert sum(found[name] for name in parts) <= found["gpu_bytes"]
    assert all(isinstance(note, str) for note in found["notes"])


def test_estimate_states_every_key_of_its_contract(run: Run) -> None:
    found = document(run, "estimate", "qwen3-32b", "--gpu", "h100-sxm5-80gb", "--tp", 2, "--concurrency", "1..4")
    assert "points" in found
    assert [point["concurrency"] for point in found["points"]] == [1, 2, 4]
    for point in found["points"]:
        assert point.keys() >= {"concurrency", "ttft_s", "tpot_s", "output_tokens_per_s", "evidence"}
        for name in ("ttft_s", "tpot_s", "output_tokens_per_s"):
            assert point[name].keys() >= INTERVAL
            assert 0 < point[name]["low"] < point[name]["expected"] < point[name]["high"]


def test_validate_states_every_key_of_its_contract(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "serving.csv"
    head = "model,gpu,gpus,tp,engine,weights,input_len,output_len,concurrency,serving,ttft_ms,tpot_ms,quality\n"
    row = "llama-3.1-8b-instruct,h100-sxm5-80gb,1,1,vllm,bf16,1024,256,{clients},online,100,9,{quality}\n"
    rows = [row.format(clients=clients, quality="A") for clients in (1, 4, 16)]
    rows += [row.format(clients=8, quality="C"), "no-such-model,h100-sxm5-80gb,1,1,vllm,,9,9,1,online,1,1,A\n"]
    path.write_text(head + "".join(rows))
    found = document(run, "validate", path)
    assert found.keys() >= {"cells", "overall", "skipped"}
    energy = {"power_w", "power_w_end_to_end", "joules_per_output_token"}
    assert found["overall"].keys() == {"tpot", "ttft", "output_tokens_per_s"} | energy
    assert {cell["metric"] for cell in found["cells"]} == {"tpot", "ttft"}
    for cell in found["cells"]:
        assert cell.keys() >= {"metric", "n", "mdape", "p90", "bias", "coverage", "width", "spearman"}
        assert cell["n"] == 3  # quality C is left out unless asked for
    (skipped,) = found["skipped"]
    assert "no-such-model" in skipped["reason"]
    more = document(run, "validate", path, "--quality", "ABC", "--by", "gpu,engine,model")
    assert {cell["n"] for cell in more["cells"]} == {4}


def test_plan_states_every_key_of_its_contract(run: Run) -> None:
    found = document(
        run, "plan", "llama-3.1-8b-instruct", "--gpu", "h100-sxm5-80gb", "--gpu", "v100-sxm2-16gb", "--tp", 1,
        "--engine", "vllm", "--weights", "fp8", "--rate", 5, "--max-ttft", "1s", "--max-tpot", "40ms",
    )  # fmt: skip
    assert found.keys() >= {
        "schema_version", "model", "load", "limits", "recommended", "fits", "rejections", "assumptions", "notes"
    }  # fmt: skip
    named = {
        "gpu", "gpus", "replicas", "tp", "pp", "ep", "dp", "engine", "weights", "kv", "memory", "ttft_s", "tpot_s",
        "e2e_s", "output_tokens_per_s", "max_rate_per_s", "usd_per_million_output_tokens", "evidence",
    }  # fmt: skip
    for fit in (found["recommended"], *found["fits"]):
        assert fit.keys() >= named
        for name in ("ttft_s", "tpot_s", "e2e_s"):
            assert fit[name].keys() >= {*INTERVAL, "p99"}
    assert {each["gpu"] for each in found["rejections"]} == {"v100-sxm2-16gb"}
    assert all(each["reason"] for each in found["rejections"])
