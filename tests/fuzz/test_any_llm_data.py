"""Whatever a model's configuration, a header of weights, a serving run or a price holds: an answer or one sentence."""

import json
import struct
from collections.abc import Callable
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from capplan.errors import CapplanError
from capplan.llm.read.catalogue import catalogue_ids
from capplan.llm.read.measured_run import read_measured_run, read_startup_logs
from capplan.llm.read.serving_rows import read_serving
from capplan.llm.read.sources import find_model
from capplan.specs import load_gpus
from capplan.specs.price_import import import_quotes
from capplan.specs.prices import load_price_file
from tests.fuzz.conftest import Check
from tests.fuzz.mutations import as_json, as_yaml, bent, damaged, few, many

pytestmark = pytest.mark.slow

GPUS = load_gpus()
MODELS = ("llama-3.1-8b-instruct", "deepseek-v2-lite", "gemma-2-27b-it")
"""A dense model, one with experts and compressed attention, one with sliding windows."""

CATALOGUE = Path(__file__).parents[2] / "capplan" / "llm_models"
PRICES = Path(__file__).parents[1] / "fixtures" / "prices"


@cache
def bent_configs(name: str) -> st.SearchStrategy[Any]:
    """Return a strategy that bends the configuration of a model of the catalogue."""
    return bent(json.loads((CATALOGUE / f"{name}.json").read_text())["config"])


@cache
def bent_prices(name: str) -> st.SearchStrategy[Any]:
    """Return a strategy that bends a price file."""
    return bent(yaml.safe_load((PRICES / name).read_text()))


def safetensors() -> bytes:
    header = {
        "__metadata__": {"format": "pt"},
        "model.embed_tokens.weight": {"dtype": "BF16", "shape": [8, 4], "data_offsets": [0, 64]},
        "model.layers.0.mlp.up_proj.weight": {"dtype": "F8_E4M3", "shape": [4, 4], "data_offsets": [64, 80]},
    }
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(80)


def gguf() -> bytes:
    """Write a header of version 3: one key, one tensor of eight fp32 numbers."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    key = text("general.architecture") + struct.pack("<I", 8) + text("llama")
    tensor = text("blk.0.ffn_up.weight") + struct.pack("<IQIQ", 1, 8, 0, 0)
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + key + tensor
    return head + bytes(-len(head) % 32 + 32)


SERVING = (
    "model,gpu,tp,engine,version,weights,kv,input_len,output_len,concurrency,ttft_ms,tpot_ms,output_tokens_per_s\n"
    "llama-3.1-8b,h100-sxm5-80gb,1,vllm,0.10.0,fp8,fp8,1024,256,8,60,8,900\n"
)
LOGS = "model,tp,pp,activation_memory_gib,non_torch_forward_gib,weights_gib\nllama-3.1-8b,1,1,1.2,0.3,14.9\n"
QUOTES = (
    "gpu,price,term,provider,date,region,gpus,source\nl4,0.8,on-demand,acme,2026-01-01,eu,1,quote 7\n"
    "h100,24000,purchase,acme,2026-01-02,,1,quote 8\n"
)
RESULT = {
    "model_id": "meta-llama/Llama-3.1-8B", "backend": "vllm", "num_prompts": 100, "max_concurrency": 8,
    "completed": 100, "total_input_tokens": 102400, "total_output_tokens": 25600, "duration": 30.0,
    "output_throughput": 853.3, "mean_ttft_ms": 60.0, "mean_tpot_ms": 8.0,
}  # fmt: skip

Folders = pytest.TempPathFactory


def written(folders: Folders, name: str, content: bytes) -> Path:
    path = folders.getbasetemp() / name
    path.write_bytes(content)
    return path


def refused_or_read(path: Path, read: Callable[[Path], Any]) -> Any:
    """Read a file; a refusal is None, and must name the file."""
    refusal = ""
    try:
        return read(path)
    except CapplanError as error:
        refusal = str(error)
    assert path.name in refusal


@pytest.mark.parametrize("model", MODELS)
@given(data=st.data())
@many
def test_a_bent_configuration_is_a_model_or_refused(model: str, data: st.DataObject, tmp_path_factory: Folders) -> None:
    assert model in catalogue_ids()
    path = written(tmp_path_factory, "config.json", as_json(data.draw(bent_configs(model))))
    found = refused_or_read(path, lambda path: find_model(f"hf:{path}"))
    assert found is None or found.architecture.layers


@pytest.mark.parametrize(("name", "content"), [("w.safetensors", safetensors()), ("w.gguf", gguf())])
@given(data=st.data())
@many
def test_a_damaged_header_of_weights_is_read_or_refused(
    name: str, content: bytes, data: st.DataObject, tmp_path_factory: Folders
) -> None:
    refused_or_read(written(tmp_path_factory, name, data.draw(damaged(content))), lambda path: find_model(str(path)))


@given(data=st.data())
@many
def test_damaged_serving_runs_are_runs_or_skipped(data: st.DataObject, tmp_path_factory: Folders) -> None:
    found = refused_or_read(written(tmp_path_factory, "runs.csv", data.draw(damaged(SERVING.encode()))), read_serving)
    for run in () if found is None else found.runs:
        assert run.input_len > 0
        assert all(0 < value < float("inf") for value in run.values.values())


@given(data=st.data())
@many
def test_a_bent_benchmark_result_is_a_run_or_refused(data: st.DataObject, tmp_path_factory: Folders) -> None:
    path = written(tmp_path_factory, "result.json", as_json(data.draw(bent(RESULT))))
    for run in refused_or_read(path, read_measured_run) or ():
        assert all(0 < value < float("inf") for value in run.values.values())


@given(data=st.data())
@many
def test_damaged_startup_logs_are_logs_or_refused(data: st.DataObject, tmp_path_factory: Folders) -> None:
    refused_or_read(written(tmp_path_factory, "logs.csv", data.draw(damaged(LOGS.encode()))), read_startup_logs)


@given(data=st.data())
@many
def test_damaged_quotes_are_prices_or_left_out(data: st.DataObject, tmp_path_factory: Folders) -> None:
    path = written(tmp_path_factory, "quotes.csv", data.draw(damaged(QUOTES.encode())))
    found = refused_or_read(path, lambda path: import_quotes(path, GPUS, read_on=date(2026, 1, 3)))
    assert found is None or all(0 < quote.price < float("inf") for quote in found.quotes)


@pytest.mark.parametrize("name", ["aws.yaml", "purchase.yaml"])
@given(data=st.data())
@many
def test_a_bent_price_file_is_read_or_refused(name: str, data: st.DataObject, tmp_path_factory: Folders) -> None:
    content = as_yaml(data.draw(bent_prices(name)))
    found = refused_or_read(
        written(tmp_path_factory, "own-prices.yaml", content), lambda path: load_price_file(path, GPUS)
    )
    for price in () if found is None else (*found.hourly, *found.purchase):
        assert price.gpu in GPUS


COMMANDS = {
    "memory": ("--gpu", "h100-sxm5-80gb"),
    "estimate": ("--gpu", "h100-sxm5-80gb", "--concurrency", "1,8"),
}


@pytest.mark.parametrize("command", sorted(COMMANDS))
@given(data=st.data())
@few
def test_no_llm_command_trips_over_a_bent_configuration(
    command: str, check: Check, data: st.DataObject, tmp_path_factory: Folders
) -> None:
    path = written(tmp_path_factory, "config.json", as_json(data.draw(bent_configs(MODELS[1]))))
    check("llm", command, f"hf:{path}", *COMMANDS[command])
