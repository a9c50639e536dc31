"""The verbs about language models from Python, beside what the command line prints."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import capplan
from capplan.api import stub
from capplan.cli.main import app
from capplan.errors import UsageError
from capplan.shapes.codec import to_plain
from capplan.shapes.llm_fleet import FLEETS
from capplan.shapes.llm_memory import MEMORY
from capplan.shapes.llm_plan import LLM_PLAN
from capplan.shapes.llm_serving import ESTIMATE, SIMULATION
from tests.wordings import in_python_words

LLAMA = "llama-3.1-8b-instruct"


def printed(*words: object) -> Any:
    """Return the document that the command line writes, in the words of Python."""
    result = CliRunner().invoke(app, ["llm", *map(str, words), "--json"])
    assert result.stdout, result.stderr
    return in_python_words(result.stdout, f"llm {words[0]}")


def plain(document: Any) -> Any:
    return json.loads(json.dumps(to_plain(document)))


def test_memory_is_what_the_command_line_prints() -> None:
    words = printed("memory", LLAMA, "--gpu", "l40s", "--tp", 2, "--kv-pool", "20GiB", "--max-len", 4096)
    found = capplan.llm.memory(LLAMA, gpu="l40s", tp=2, kv_pool_bytes=20 * 2**30, max_len=4096)
    assert plain(MEMORY.document(found)) == words


def test_estimate_takes_numbers_of_clients_as_a_list_or_in_words() -> None:
    words = printed("estimate", LLAMA, "--gpu", "l40s", "-c", "1,16", "--input-len", 512, "--link", "64 GB/s")
    listed = capplan.llm.estimate(LLAMA, gpu="l40s", concurrency=[1, 16], input_len=512, link_bytes_per_s=64e9)
    assert plain(ESTIMATE.document(listed)) == words
    spelt = capplan.llm.estimate(LLAMA, gpu="l40s", concurrency="1,16", input_len=512, link_bytes_per_s="64 GB/s")
    assert spelt == listed


def test_plan_takes_limits_in_seconds_or_in_words() -> None:
    options = ("--gpu", "l40s", "--rate", 2, "--max-tpot", "60ms", "--engine", "vllm", "--percentile", 99)
    money = ("--growth", "50%", "--api-price", "0.6,2.4")
    words = printed("plan", LLAMA, *options, *money)
    asked: dict[str, Any] = {"gpus": ["l40s"], "engines": ["vllm"], "rate_per_s": 2, "percentile": 99}
    found = capplan.llm.plan(
        LLAMA, **asked, max_tpot_s=0.06, growth_fraction=0.5, api_usd_per_million_tokens=(0.6, 2.4)
    )
    assert plain(LLM_PLAN.document(found)) == words
    spelt = capplan.llm.plan(
        LLAMA, **asked, max_tpot_s="60ms", growth_fraction="50%", api_usd_per_million_tokens="0.6,2.4"
    )
    assert spelt == found


def test_simulate_is_what_the_command_line_prints() -> None:
    words = printed("simulate", LLAMA, "--gpu", "l40s", "--rate", "1,2", "--requests", 200, "--prefill", "mixed")
    found = capplan.llm.simulate(LLAMA, gpu="l40s", rates_per_s=[1, 2], requests=200, prefill="mixed")
    assert plain(SIMULATION.document(found)) == words


def test_models_are_filtered_by_name_and_condition() -> None:
    every = capplan.llm.models()
    small = capplan.llm.models(where=["params < 10B"])
    assert {model.architecture.name for model in small} < {model.architecture.name for model in every}
    (named,) = capplan.llm.models("deepseek-v3")
    assert named.architecture.name == "deepseek-v3"


def test_a_database_that_was_loaded_stands_for_the_built_in_one() -> None:
    found = capplan.llm.plan(LLAMA, rate_per_s=1, gpus=capplan.load_gpus(), engines="vllm", tp=1)
    assert found == capplan.llm.plan(LLAMA, rate_per_s=1, engines=["vllm"], tp=[1])


@pytest.mark.slow
def test_a_fleet_is_planned_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text("gpus: [l40s]\nmodels: [{model: llama-3.1-8b-instruct, rate: 2/s}, {model: qwen3-8b, rate: 1/s}]\n")
    found = capplan.llm.fleet(path)
    assert plain(FLEETS.document(found)) == printed("fleet", path)
    path.write_text(path.read_text().replace("l40s", "l4"))
    priced = FLEETS.document(capplan.llm.fleet(path, currency="EUR=1.25"))
    assert priced.recommended is not None
    assert priced.recommended.usd_per_hour is not None
    assert priced.local is not None
    assert priced.local.amount == pytest.approx(priced.recommended.usd_per_hour / 1.25)


def test_a_training_run_costs_euros_too() -> None:
    asked: Any = {"gpus": "a100-sxm4-80gb", "counts": 1, "method": "lora", "tokens": "1M", "currency": "EUR=1.25"}
    found = capplan.llm.train_plan(LLAMA, **asked)
    assert found.cheapest is not None
    assert found.cheapest.usd is not None
    assert found.local_cost is not None
    assert found.local_cost.amount == pytest.approx(found.cheapest.usd.expected / 1.25)


def test_measured_runs_are_judged_and_learnt_from(tmp_path: Path) -> None:
    """Runs whose times are the estimates are predicted without an error but for the spread of their lengths."""
    head = "model,gpu,tp,engine,input_len,output_len,lengths,concurrency,serving,tpot_ms,quality"
    clients = range(1, 25)
    found = capplan.llm.estimate(LLAMA, gpu="l40s", concurrency=clients, input_len=512, output_len=128)
    rows = [
        f"{LLAMA},l40s,1,vllm,512,128,fixed,{point.concurrency},online,{point.tpot_s.expected * 1e3},B"
        for point in found.points
    ]
    path = tmp_path / "runs.csv"
    path.write_text("\n".join([head, *rows]) + "\n")
    judged = capplan.llm.validate(path)
    assert len(judged.answers) == len(clients)
    for answer in judged.answers:
        assert answer.predicted.expected == pytest.approx(answer.measured, rel=0.02)
    fitted = capplan.llm.fit([path])
    assert fitted.calibration.origin is not None
    assert (fitted.calibration.origin.rows, fitted.calibration.origin.sources) == (len(clients), ("runs.csv",))


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("memory", {"gpu": "l41"}, "unknown GPU 'l41'"),
        ("memory", {"gpu": "l4", "kv_pool_bytes": "20Gx"}, "kv_pool_bytes: '20Gx' is not a quantity"),
        ("estimate", {"gpu": "l4", "concurrency": "8..x"}, "concurrency 8..x: write 8, 1,8,32 or 1..256"),
        ("plan", {"rate_per_s": 1, "max_ttft_s": 0}, "max_ttft_s 0: write a time above 0"),
        ("plan", {"rate_per_s": 1, "image_size": "12"}, "image_size 12: write width and height in pixels"),
        ("plan", {"rate_per_s": 1, "task": "sing"}, "unknown task 'sing'"),
        ("simulate", {"gpu": "l4", "daily": [1]}, "write 2 to 96 numbers"),
    ],
)
def test_bad_values_get_one_sentence_that_names_the_field(name: str, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        getattr(capplan.llm, name)(LLAMA, **options)
    assert sentence in str(caught.value)


def test_what_must_be_given_is_named() -> None:
    with pytest.raises(TypeError, match="missing required argument: 'gpu'"):
        capplan.llm.memory(LLAMA)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'gpuz'"):
        capplan.llm.memory(LLAMA, gpu="l4", gpuz="l4")  # type: ignore[call-arg]


def test_the_stubs_are_those_of_the_verbs() -> None:
    """Run `python -m capplan.api.stub` where this fails."""
    assert stub.PATH.read_text(encoding="utf-8") == stub.stub()
    assert stub.LLM_PATH.read_text(encoding="utf-8") == stub.llm_stub()


def test_importing_the_package_loads_neither_the_doors_nor_numpy() -> None:
    code = "import sys, capplan.llm; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "capplan.llm" in loaded
    assert not {"numpy", "torch", "msgspec", "typer", "capplan.verbs.statement.contract"} & loaded
