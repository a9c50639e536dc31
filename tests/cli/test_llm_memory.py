"""`capplan llm memory`, `llm models` and `llm fit-memory` from the command line."""

import csv
import json
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from capplan.cli.main import app

RULES = ["--calibration", str(Path(__file__).parents[1] / "fixtures" / "calibrations" / "llm-memory.yaml")]
H100 = ["--gpu", "h100-sxm5-80gb"]
MODELS = Path(__file__).parents[2] / "capplan" / "llm_models"
STUDIED = ["--engine-version", "0.19"]
"""The release whose start-up logs the figures are from: later ones take CUDA graphs from a larger budget."""


def run(*arguments):
    return CliRunner().invoke(app, ["llm", *arguments])


def answer(*arguments, code=0):
    result = run("memory", *arguments, *RULES, "--json")
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def test_the_document_holds_what_it_promises():
    found = answer(
        "llama-3.1-70b-instruct", "--weights", "fp8", "--kv", "fp8", *H100, "--tp", "4", "--max-len", "8192", *STUDIED
    )
    promised = {
        "schema_version", "model", "gpu", "tp", "pp", "ep", "dp", "engine", "weights", "kv", "weights_bytes",
        "kv_pool_bytes", "kv_bytes_per_token", "kv_tokens", "activation_bytes", "other_bytes", "sequences_that_fit",
        "max_context", "notes",
    }  # fmt: skip
    assert promised <= set(found)
    assert found["model"]["params"] == found["model"]["active_params"] == 70_553_706_496
    assert (found["gpu"], found["tp"], found["engine"], found["weights"], found["kv"]) == (
        "h100-sxm5-80gb", 4, "vllm", "fp8", "fp8",
    )  # fmt: skip
    assert found["kv_bytes_per_token"] == 40_960
    assert found["sequences_that_fit"] == 160
    assert found["kv_tokens"] == pytest.approx(1_317_600, rel=2e-3)
    low, expected, high = (found["kv_pool_interval_bytes"][end] for end in ("low", "expected", "high"))
    assert low < expected == found["kv_pool_bytes"] < high


@pytest.mark.parametrize(
    "arguments",
    [
        ["deepseek-v3", *H100, "--tp", "8", "--pp", "2"],
        ["qwen3.5-122b-a10b", *H100, "--tp", "8", "--engine", "sglang"],
        ["gpt-oss-120b", "--gpu", "apple-m2-ultra", "--engine", "llama.cpp", "--kv", "q8_0"],
        ["gemma-3-27b-it", *H100, "--engine", "trtllm", "--max-len", "8192", "--kv-pool", "10GiB"],
    ],
)
def test_documents_are_what_the_schema_says(arguments):
    schema = json.loads(run_schema("llm-memory"))
    jsonschema.validate(answer(*arguments), schema)


def run_schema(name):
    result = CliRunner().invoke(app, ["schema", name])
    assert result.exit_code == 0
    return result.stdout


def test_what_does_not_fit_is_answered_with_exit_code_1():
    found = answer("llama-3.1-70b-instruct", *H100, code=1)
    assert not found["fits"]
    assert found["kv_pool_bytes"] == found["sequences_that_fit"] == 0
    assert found["missing_bytes"] > 50e9
    assert any(each["change"] == "--tp 2" for each in found["alternatives"])


def test_a_known_pool_gives_the_tokens_of_the_log():
    # vLLM 0.19: 58.11 GiB are 476,016 tokens of Llama-3.1-8B
    found = answer("llama-3.1-8b-instruct", *H100, "--kv-pool", "58.11GiB")
    assert found["kv_tokens"] == pytest.approx(476_016, rel=5e-5)


def test_the_table_reads_well():
    result = run("memory", "gpt-oss-120b", *H100, "--tp", "2", "--max-len", "8192", *RULES)
    assert result.exit_code == 0, result.output
    assert "gpt-oss-120b (116.83 B parameters, 5.71 B active) in mxfp4 with a bf16 cache" in result.stdout
    assert "sequences of 8,192 tokens" in result.stdout
    assert "keep at most 128 tokens" in result.stdout
    for spelling in ("md", "csv"):
        other = run("memory", "gpt-oss-120b", *H100, "--tp", "2", *RULES, "--format", spelling)
        assert other.exit_code == 0
        assert "KV cache" in other.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["qwen3-14b", *H100, "--tp", "5"], "possible are 1, 2, 4, 8"),
        (["qwen3-14b", *H100, "--max-len", "100000"], "handles at most 40960 tokens"),
        (["llama-3.1-8b-instruct", "--gpu", "rtx-5090", "--weights", "int8"], "has no int8 kernels for rtx-5090"),
        (["qwen3-14b", *H100, "--kv", "nvfp4"], "no kernels of a KV cache in nvfp4 (--kv) for h100-sxm5-80gb"),
        (["minimax-text-01", *H100], "lightning attention"),
        (["qwen3-23b", *H100], "did you mean qwen3"),
        (["qwen3-14b", "--gpu", "h101"], "unknown GPU 'h101'"),
        (["qwen3-14b", *H100, "--weights", "fp9"], "did you mean fp"),
        (["qwen3-14b", *H100, "--kv", "fp9"], "KV cache format"),
        (["qwen3-14b", *H100, "--engine", "vlm"], "did you mean vllm"),
        (["qwen3-14b", *H100, "--engine-version", "new"], "is not a version"),
        (["qwen3-14b", *H100, "--kv-pool", "much"], "--kv-pool"),
        (["qwen3-14b", "--gpu", "l4", "--kv-pool", "500GiB"], "--kv-pool 500 GiB is more than the"),
        (["qwen3-14b", *H100, "--max-len", "8kk"], "8K or 8k (8,000), not '8kk'"),
    ],
)
def test_bad_input_is_one_sentence(arguments, words):
    result = run("memory", *arguments, *RULES)
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(("words", "tokens"), [("8192", 8192), ("8K", 8192), ("8k", 8000), ("25.6k", 25_600)])
def test_lengths_are_written_as_vllm_reads_them(words, tokens):
    # --max-model-len of vLLM: "1k" is 1,000, "1K" is 1,024, "25.6k" is 25,600
    assert answer("qwen3-14b", *H100, "--max-len", words)["sequence_tokens"] == tokens


def test_a_configuration_of_ones_own_allows_longer_contexts_by_yarn(tmp_path):
    # the model card of Qwen3: 131,072 tokens by a factor of 4 over 32,768
    config = json.loads((MODELS / "qwen3-14b.json").read_text())["config"]
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    own = tmp_path / "config.json"
    own.write_text(json.dumps({**config, "rope_scaling": yarn}))
    assert answer(f"hf:{own}", *H100, "--max-len", "131072")["sequence_tokens"] == 131_072


def test_a_larger_fraction_is_proposed_before_more_gpus():
    changes = [each["change"] for each in answer("qwen3-14b", *H100)["alternatives"]]
    assert changes.index("--utilization 0.95") < changes.index("--tp 2")


def test_support_shows_formats_by_engine():
    # vllm#39610: MiniMax-M2.5, in fp8, on A100; sglang#12887: not there; TensorRT-LLM's matrix: Ampere has no FP8
    shown = run("support", "minimax-m2.5", "--gpu", "a100-sxm4-80gb")
    assert shown.exit_code == 0, shown.output
    rows = {line.split()[0]: line.split()[1:] for line in shown.stdout.splitlines() if line[:1].isalpha()}
    assert rows["fp8_block"] == ["widened", "since", "0.9", "no", "no", "no"]
    assert rows["bf16"] == ["yes"] * 4
    assert rows["awq"] == ["yes", "yes", "yes", "no"]
    found = json.loads(run("support", "qwen3-8b", "--gpu", "apple-m4-max", "--json").stdout)
    lacking = [row for row in found["formats"] if not row["weights"]]
    assert [row["engine"] for row in lacking] == ["vllm", "sglang", "trtllm"]
    assert all("apple-m4-max" in row["reason"] for row in lacking)


def test_models_are_filtered_by_conditions():
    result = run("models", "--where", "params < 1B", "--ids")
    assert "qwen3-0.6b" in result.stdout.split()
    assert "qwen3-1.7b" not in result.stdout.split()
    assert "leave out --ids or the format json" in run("models", "--ids", "--json").stderr
    both = run("models", "--where", "moe = yes and attention = mla", "--ids").stdout.split()
    assert "deepseek-v3" in both
    assert "mixtral-8x7b" not in both
    listed = json.loads(run("models", "--where", "weights = mxfp4", "--json").stdout)["models"]
    assert {each["name"] for each in listed} == {"gpt-oss-20b", "gpt-oss-120b", "kimi-k3"}
    for bad in ("params", "colour = red", "params < many", "moe = perhaps", "attention < mla"):
        assert run("models", "--where", bad).exit_code == 2


def test_constants_are_learned_from_logs(tmp_path):
    # logs made from the study's formula: sampler 1.398e-5·V + 1.8e-5·H GiB, other 0.25 GiB
    sizes = {
        "qwen3-8b": (151936, 4096),
        "llama-3.1-8b-instruct": (128256, 4096),
        "gemma-2-9b-it": (256000, 3584),
        "gemma-2-2b-it": (256000, 2304),
        "gpt-oss-20b": (201088, 2880),
        "qwen2.5-0.5b-instruct": (151936, 896),
    }
    logs = tmp_path / "logs.csv"
    with logs.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["model", "tp", "pp", "activation_memory_gib", "non_torch_forward_gib"])
        for name, (vocab, hidden) in sizes.items():
            writer.writerow([name, 1, 1, 1.398e-5 * vocab + 1.8e-5 * hidden, 0.25])
        writer.writerow(["nobody/knows", 1, 1, 1, 1])
    target = tmp_path / "fitted.yaml"
    result = run("fit-memory", str(logs), "-o", str(target))
    assert result.exit_code == 0, result.output
    assert "1 of models outside the catalogue" in result.stderr
    gpu = ["memory", "llama-3.1-8b-instruct", *H100, *STUDIED, "--json"]
    fitted = json.loads(run(*gpu, "--calibration", str(target)).stdout)
    assert fitted["activation_bytes"] / 2**30 == pytest.approx(1.398e-5 * 128256 + 1.8e-5 * 4096, rel=2e-3)
    assert fitted["other_bytes"] == round(0.25 * 2**30)
    logs.write_text("model,tp\n")
    assert "lacks the columns pp, activation_mem" in run("fit-memory", str(logs)).stderr
    logs.write_text("model,tp,pp,activation_memory_gib,non_torch_forward_gib\nqwen3-8b,0,1,1,1\n")
    assert "line 2: tp is '0', which is not a whole number" in run("fit-memory", str(logs)).stderr


def test_a_model_that_fits_with_shorter_sequences_fits_unless_a_length_is_stated():
    words = ("memory", "qwen3-32b", "--gpu", "rtx-4090", "--weights", "awq")
    found = run(*words)
    assert found.exit_code == 0
    # 64 layers x 2 x 8 heads x 128 elements x 2 bytes take 262,144 bytes a token; vLLM's pages hold 16 tokens.
    pool_bytes = json.loads(run(*words, "--json").stdout)["kv_pool_bytes"]
    tokens = pool_bytes // 262_144 // 16 * 16
    assert f"It fits for sequences of up to {tokens:,} tokens (--max-len {tokens})" in found.stdout
    assert run(*words, "--max-len", "40000").exit_code == 1
