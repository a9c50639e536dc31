"""`capplan llm train ... --config FILE` asks the question that a framework's file states."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.llm.read.test_training_files import AXOLOTL, written

TITAN = """
[model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 2
seq_len = 8192
global_batch_size = 64
steps = 1000
[parallelism]
data_parallel_shard_degree = 8
tensor_parallel_degree = 2
fsdp_reshard_after_forward = "never"
[activation_checkpoint]
mode = 'full'
"""


def test_a_file_asks_what_its_options_ask(run: Run, tmp_path: Path) -> None:
    file = written(tmp_path, "a.yaml", AXOLOTL)
    by_file = run("llm", "train", "memory", "--config", file, "--gpu", "rtx-4090", "--json")
    options = "--method qlora --rank 8 --targets all --seq-len 512 --micro-batch 2 --accumulate 4 --shard none"
    more = "--optimizer paged-adamw-8bit --recompute full --framework axolotl"
    asked = ("llm", "train", "memory", "llama-3.1-8b-instruct", "--gpu", "rtx-4090", *options.split(), *more.split())
    by_options = run(*asked, "--json")
    found, expected = json.loads(by_file.stdout), json.loads(by_options.stdout)
    assert found["job"] == expected["job"]
    assert found["memory"] == expected["memory"]
    assert found["files"][0]["unmodelled"] == ["peft_use_dora: true"]
    assert found["files"][0]["unknown"] == ["not_a_key"]
    assert (
        "not modelled: peft_use_dora: true" in run("llm", "train", "memory", "--config", file, "--gpu", "l40s").stdout
    )


def test_options_win_over_a_file(run: Run, tmp_path: Path) -> None:
    file = written(tmp_path, "a.yaml", AXOLOTL)
    words = ("llm", "train", "memory", "qwen3-8b", "--config", file, "--gpu", "rtx-4090", "--rank", "64", "--json")
    job = json.loads(run(*words).stdout)["job"]
    assert job["model"] == "qwen3-8b"
    assert job["trained_params"] == 4 * 43_646_976


def test_a_file_states_its_gpus_its_micro_batches_and_its_tokens(run: Run, tmp_path: Path) -> None:
    # 8 ranks x TP 2 = 16 GPUs; 64 sequences of 8 ranks x 2 are 4 micro-batches; 1,000 steps of 64 x 8,192 tokens
    file = written(tmp_path, "t.toml", TITAN)
    found = json.loads(run("llm", "train", "estimate", "--config", file, "--gpu", "h100-sxm5-80gb", "--json").stdout)
    job = found["estimate"]["job"]
    assert (job["gpus"], job["tp"], job["dp"], job["accumulate"]) == (16, 2, 8, 4)
    assert found["estimate"]["run"]["tokens"] == 1000 * 64 * 8192
    plan = run("llm", "train", "plan", "--config", file, "--gpu", "h100-sxm5-80gb")
    assert "64 sequences of 8,192 tokens" in plan.stdout
    assert "on 16" not in plan.stderr


def test_generated_samples_take_what_the_engine_takes_to_serve_them(run: Run) -> None:
    # 4 micro-batches of 8 samples a GPU, 1,024 of 2,048 tokens generated: 32 clients of the same engine
    words = "llm train estimate qwen3-8b --gpu h100-sxm5-80gb --framework trl --objective grpo --states pure --gpus 8"
    job = "--seq-len 2048 --completion-len 1024 --micro-batch 8 --accumulate 4 --rollout-memory 0 --json"
    parts = json.loads(run(*words.split(), *job.split()).stdout)["estimate"]["parts_s"]
    served = "llm estimate qwen3-8b --gpu h100-sxm5-80gb --input-len 1024 --output-len 1024 -c 32 --json"
    rate = json.loads(run(*served.split()).stdout)["points"][0]["output_tokens_per_s"]["expected"]
    (found,) = [part["value"] for part in parts if part["part"] == "generating samples"]
    assert found == pytest.approx(32 * 1024 / rate)


def test_a_question_without_a_model_is_refused_in_a_sentence(run: Run, tmp_path: Path) -> None:
    bare = run("llm", "train", "memory", "--gpu", "rtx-4090")
    assert bare.exit_code == 2
    assert "Name the MODEL, or a framework's file that does (--config)." in bare.stderr
    file = written(tmp_path, "ds.json", '{"zero_optimization": {"stage": 3}, "bf16": {"enabled": true}}')
    nameless = run("llm", "train", "memory", "--config", file, "--gpu", "rtx-4090")
    assert nameless.exit_code == 2
    assert "does not name a model; add the MODEL." in nameless.stderr


def test_a_launch_file_of_megatron_describes_its_model(run: Run, tmp_path: Path) -> None:
    words = "--gpus 16 --framework megatron --tp 8 --pp 2 --vp 2 --accumulate 8 --recompute full"
    asked = ("llm", "train", "estimate", "llama-3.1-70b-instruct", "--gpu", "h100-sxm5-80gb", *words.split(), "--json")
    by_options = json.loads(run(*asked, "--launch").stdout)["estimate"]
    file = written(tmp_path, "llama.sh", by_options["launch"])
    by_file = json.loads(run("llm", "train", "estimate", "--config", file, "--gpu", "h100-sxm5-80gb", "--json").stdout)
    assert by_file["estimate"]["job"] == by_options["job"] | {"model": "llama"}
    assert by_file["estimate"]["tokens_per_s"] == by_options["tokens_per_s"]
    assert by_file["estimate"]["memory"]["peak_bytes"] == by_options["memory"]["peak_bytes"]


def test_a_multi_node_command_of_llama_factory_has_its_words_apart(run: Run) -> None:
    words = "--gpus 16 --framework llama-factory --method lora --gpu h100-sxm5-80gb --launch --json"
    found = json.loads(run("llm", "train", "estimate", "llama-3.1-8b-instruct", *words.split()).stdout)
    first = found["estimate"]["launch"].splitlines()[0]
    assert first.endswith(
        "NNODES=2 NODE_RANK=$NODE_RANK MASTER_ADDR=$MASTER_ADDR MASTER_PORT=29500 llamafactory-cli train train.yaml"
    )
