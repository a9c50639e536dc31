"""Files of training frameworks are read as their frameworks read them, and nothing in them is run."""

from dataclasses import fields
from pathlib import Path

import pytest

from capplan.errors import SpecError
from capplan.llm.core.training.frameworks import find_framework
from capplan.llm.read.training_files import file_forms, megatron_model, read_training_files
from capplan.specs.foreign_files import read_foreign
from capplan.verbs.llm.train_fields import TrainingJobFields
from capplan.verbs.llm.train_files import _PLACES
from tests.limits import within

AXOLOTL = """
base_model: meta-llama/Llama-3.1-8B-Instruct
load_in_4bit: true
adapter: qlora
datasets:
  - path: tatsu-lab/alpaca
    type: alpaca
lora_r: 8
lora_model_dir:
lora_target_linear: true
micro_batch_size: 2
gradient_accumulation_steps: 4
optimizer: paged_adamw_8bit
learning_rate: 1e-5
bf16: auto
gradient_checkpointing: true
peft_use_dora: true
not_a_key: 3
"""


def written(folder: Path, name: str, text: str) -> Path:
    """Write a file and return its path."""
    path = folder / name
    path.write_text(text)
    return path


def test_what_a_file_says_is_taken_what_it_leaves_is_its_frameworks_default_and_the_rest_is_named(
    tmp_path: Path,
) -> None:
    # axolotl 0.19: sequence_len 512; DDP without fsdp or deepspeed
    (file,) = read_training_files([written(tmp_path, "a.yaml", AXOLOTL)])
    assert file.framework == "axolotl"
    assert file.stated["method"] == "qlora"
    assert file.stated["rank"] == "8"
    assert file.stated["targets"] == "all"
    assert file.stated["optimizer"] == "paged-adamw-8bit"
    assert file.stated["recompute"] == "full"
    assert file.defaults["seq_len"] == "512"
    assert file.defaults["shard"] == "none"
    assert file.unmodelled == ("peft_use_dora: true",)
    assert file.unknown == ("not_a_key",)


@pytest.mark.parametrize(
    ("name", "text", "framework"),
    [
        ("sft.yaml", "model_name_or_path: Qwen/Qwen3-8B\ndataset_name: x\nuse_peft: true\nmax_length: 2048\n", "trl"),
        ("lf.yaml", "model_name_or_path: Qwen/Qwen3-8B\nstage: sft\nfinetuning_type: lora\n", "llama-factory"),
        ("t.toml", '[model]\nflavor = "8B"\nname = "llama3"\n[training]\nseq_len = 8192\n', "torchtitan"),
        ("ds.json", '{"zero_optimization": {"stage": 3}, "bf16": {"enabled": true}}', "deepspeed"),
        ("acc.yaml", "distributed_type: FSDP\nnum_processes: 8\nmixed_precision: bf16\n", "accelerate"),
        ("run.sh", "torchrun x.py --num-layers 2 --hidden-size 64 --micro-batch-size 1\n", "megatron"),
    ],
)
def test_a_file_is_of_the_framework_whose_keys_it_has(tmp_path: Path, name: str, text: str, framework: str) -> None:
    assert read_training_files([written(tmp_path, name, text)])[0].framework == framework


def test_a_file_of_no_known_framework_and_one_that_is_not_yaml_are_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="has no keys of a file of axolotl, trl"):
        read_training_files([written(tmp_path, "a.yaml", "colour: red\n")])
    with pytest.raises(SpecError, match="is not YAML"):
        read_training_files([written(tmp_path, "b.yaml", "base_model: [")])
    with pytest.raises(SpecError, match="anchors and aliases"):
        read_training_files([written(tmp_path, "c.yaml", "a: &x {b: 1}\nc: *x\n")])
    with pytest.raises(SpecError, match="by its suffix"):
        read_training_files([written(tmp_path, "a.py", "print(1)")])
    with pytest.raises(SpecError, match="is not YAML"):
        read_training_files([written(tmp_path, "d.yaml", "base_model: !!python/object/apply:os.system ['touch x']\n")])


def test_a_deepspeed_file_that_is_named_beside_is_read_and_one_that_is_missing_is_said(tmp_path: Path) -> None:
    written(tmp_path, "zero3.json", '{"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}')
    text = "model_name_or_path: Qwen/Qwen3-8B\nuse_peft: false\nmax_length: 512\ndeepspeed: zero3.json\n"
    files = read_training_files([written(tmp_path, "sft.yaml", text)])
    assert [file.framework for file in files] == ["trl", "deepspeed"]
    assert files[1].stated == {"shard": "zero3", "offload": "parameters"}
    (alone,) = read_training_files([written(tmp_path, "other.yaml", text.replace("zero3", "zero9"))])
    assert any("zero9.json" in odd for odd in alone.unmodelled)


MEGATRON = """#!/bin/bash
GPUS_PER_NODE=8
touch SENTINEL
MODEL="--num-layers 4 --hidden-size 1024 --num-attention-heads 8 --group-query-attention --num-query-groups 2
  --swiglu --vocab-size 1000"
ARGS=(
    --micro-batch-size 1 # one sequence
    --seq-length 2048
    --bf16
    --train-iters $(cat steps)
)
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes ${NODES:-2} x.py $MODEL ${ARGS[@]} --tensor-model-parallel-size=4
"""


def test_arguments_of_a_script_are_read_without_running_it(tmp_path: Path) -> None:
    path = written(tmp_path, "run.sh", MEGATRON.replace("SENTINEL", str(tmp_path / "ran")))
    (file,) = read_training_files([path])
    assert not (tmp_path / "ran").exists()
    assert file.stated["per_node"] == "8"
    assert file.stated["nodes"] == "2"
    assert file.stated["tp"] == "4"
    assert file.stated["precision"] == "bf16"
    assert file.stated["seq_len"] == "2048"
    assert any(odd.startswith("train-iters: $(cat") for odd in file.unmodelled)


def test_megatrons_arguments_describe_the_model(tmp_path: Path) -> None:
    # arguments.py: with SwiGLU 4 x 1024 x 2/3 = 2730, in multiples of 64 below: 2688; 1000 words in multiples of
    # 128 x 4: 1024. Embedding, tied: 1024 x 1024. A layer: q and o 1024 x 1024, k and v 1024 x 256, MLP 3 x 1024 x
    # 2688, two norms of 1024; a last norm.
    path = written(tmp_path, "run.sh", MEGATRON)
    (file,) = read_training_files([path])
    layer = 2 * 1024 * 1024 + 2 * 1024 * 256 + 3 * 1024 * 2688 + 2 * 1024
    from capplan.llm.core.tensors import count_parameters
    from capplan.llm.read.config.parse import parse_config

    assert count_parameters(parse_config(file.config, name="run")) == 1024 * 1024 + 4 * layer + 1024
    assert megatron_model({"num-layers": "4"}) == {}


def test_every_option_that_a_table_names_is_one_and_every_word_is_among_its_words() -> None:
    options = {field.name for field in fields(TrainingJobFields)} | _PLACES
    options |= {"component", "flavor", "more_targets", "epochs", "async_checkpoints"}
    forms = file_forms()
    assert len(forms.frameworks) >= 8
    for name, form in forms.frameworks.items():
        named = {rule.option for rule in form.keys.values() if rule.option} | {*form.defaults}
        named |= {option for rule in form.keys.values() for sets in rule.sets.values() for option in sets}
        assert named <= options, name
        assert {rule.vocabulary for rule in form.keys.values() if rule.vocabulary} <= {*forms.vocabularies}
        find_framework(name)
        assert form.release
        assert "read 20" in form.source


def test_a_value_with_a_variable_that_nothing_sets_is_not_guessed(tmp_path: Path) -> None:
    tree = read_foreign(written(tmp_path, "a.sh", "x --tensor-model-parallel-size $TP --lr 1\n"))
    assert tree == {"tensor-model-parallel-size": "$TP", "lr": "1"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "[" * 100_000),
        ("a.yaml", "base_model: " + "[" * 40 + "]" * 40),
        ("a.toml", "a = " + "[" * 100_000),
        ("a.json", '{"a": ' * 50_000),
    ],
)
def test_a_file_that_is_nested_without_end_is_refused_in_a_sentence(tmp_path: Path, name: str, text: str) -> None:
    with within(cpu_s=4), pytest.raises(SpecError, match=f"{name}"):
        read_training_files([written(tmp_path, name, text)])


@pytest.mark.parametrize("size", ["0", "²", "9" * 5000, "-1", "x"])
def test_sizes_of_a_script_that_no_model_has_describe_none(tmp_path: Path, size: str) -> None:
    script = MEGATRON.replace("--num-attention-heads 8", f"--num-attention-heads {size}")
    (file,) = read_training_files([written(tmp_path, "run.sh", script)])
    assert file.config == {}
