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
    options |= {"component", "flavor", "shipped", "more_targets", "epochs", "async_checkpoints"}
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


# Public examples, reduced to the keys that matter, and what the framework's own parser makes of them.
EXAMPLES = {
    # examples/train_lora/llama3_lora_sft.yaml of hiyouga/LLaMA-Factory at 13d252fa, with the file of DeepSpeed that its
    # examples/train_full name
    "factory.yaml": (
        "model_name_or_path: meta-llama/Meta-Llama-3-8B-Instruct\nstage: sft\ndo_train: true\nfinetuning_type: lora\n"
        "lora_rank: 8\nlora_target: all\ndataset: identity\ntemplate: llama3\ncutoff_len: 2048\nbf16: true\n"
        "deepspeed: examples/deepspeed/ds_z3_config.json\nper_device_train_batch_size: 1\n"
        "gradient_accumulation_steps: 8\nnum_train_epochs: 3.0\n",
        {"method": "lora", "rank": "8", "seq_len": "2048", "micro_batch": "1", "accumulate": "8", "precision": "bf16"},
    ),
    # examples/llm/llama3_8b/conf/llama3_8b_pretrain_override_example.yaml of NVIDIA-NeMo/Megatron-Bridge at c7761623,
    # by the names of ConfigContainer in the wheel 0.3.1
    "bridge.yaml": (
        "model: {tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2, context_parallel_size: 1}\n"
        "train: {train_iters: 500000, global_batch_size: 256, micro_batch_size: 4, eval_interval: 1000}\n"
        "optimizer: {lr: 0.00025}\nddp: {grad_reduce_in_fp32: true}\n",
        {"tp": "2", "pp": "2", "cp": "1", "steps": "500000", "global_batch": "256", "micro_batch": "4"},
    ),
    # examples/nlp/language_modeling/conf/megatron_gpt_config.yaml of NVIDIA/NeMo at 000763d0
    "nemo.yaml": (
        "trainer: {devices: 1, num_nodes: 1, precision: 16, max_steps: 100000}\nexp_manager: {name: megatron_gpt}\n"
        "model:\n  micro_batch_size: 4\n  global_batch_size: 8\n  encoder_seq_length: 512\n  megatron_amp_O2: False\n"
        "  activations_checkpoint_granularity: null\n  optim: {name: fused_adam, lr: 2e-4}\n",
        {"per_node": "1", "nodes": "1", "precision": "fp16", "seq_len": "512", "states": "autocast",
         "micro_batch": "4", "global_batch": "8", "steps": "100000"},
    ),
    # recipes/configs/llama3_1/8B_lora.yaml of the wheel torchtune 0.6.1
    "tune.yaml": (
        "model:\n  _component_: torchtune.models.llama3_1.lora_llama3_1_8b\n"
        "  lora_attn_modules: [q_proj, v_proj, output_proj]\n  apply_lora_to_mlp: True\n  lora_rank: 8\n"
        "tokenizer: {_component_: torchtune.models.llama3.llama3_tokenizer, "
        "max_seq_len: null}\nbatch_size: 2\ngradient_accumulation_steps: 8\n"
        "optimizer: {_component_: torch.optim.AdamW, fused: True}\n"
        "loss: {_component_: torchtune.modules.loss.CEWithChunkedOutputLoss}\ndtype: bf16\n"
        "enable_activation_checkpointing: False\n",
        {"model": "llama-3.1-8b-instruct", "method": "lora", "rank": "8", "micro_batch": "2", "accumulate": "8",
         "targets": "q_proj,v_proj,output_proj,mlp", "optimizer": "adamw"},
    ),
    # qwen/train.sh of okeeper/LLaMA-Factory: the same keys as a command's arguments
    "factory.sh": (
        "MODEL_PATH=Qwen/Qwen3-8B\nllamafactory-cli train \\\n  --model_name_or_path ${MODEL_PATH} \\\n"
        "  --stage sft \\\n  --do_train \\\n  --finetuning_type full \\\n  --template qwen3 --cutoff_len 2048 \\\n"
        "  --per_device_train_batch_size 1 --gradient_accumulation_steps 2 --bf16\n",
        {"model": "Qwen/Qwen3-8B", "method": "full", "seq_len": "2048", "accumulate": "2", "precision": "bf16"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_public_examples_say_what_their_keys_mean(tmp_path: Path, name: str) -> None:
    text, expected = EXAMPLES[name]
    file, *beside = read_training_files([written(tmp_path, name, text)])
    assert {option: file.stated.get(option) for option in expected} == expected
    assert (file.unknown, file.unmodelled) == ((), ())
    assert [each.stated for each in beside] == ([{"shard": "zero3"}] if name == "factory.yaml" else [])


def test_an_unknown_key_is_shown_with_the_nearest_known(tmp_path: Path) -> None:
    text = EXAMPLES["factory.yaml"][0].replace("cutoff_len", "cutof_len")
    file, *_ = read_training_files([written(tmp_path, "a.yaml", text)])
    assert file.unknown == ("cutof_len (did you mean cutoff_len?)",)


def test_settings_are_a_commands_own_and_variables_the_scripts(tmp_path: Path) -> None:
    # a variable before a command is no setting of it; a comment and the end of a line end a command
    script = """#!/bin/bash
    batch_size=7
    tune run --nproc-per-node 8 full_finetune_distributed --config llama3_1/8B_full batch_size=2 \\
      'model.lora_attn_modules=[q_proj,v_proj]' clip_grad_norm=null  # it's overridden
    epochs=9
    torchrun -m torchtitan.train --training.seq_len 8 activation-checkpoint:full
    python x.py --lora_target_modules q_proj k_proj --nproc 8 x
    """
    assert read_foreign(written(tmp_path, "a.sh", script.replace("\\\\", "\\"))) == {
        "nproc-per-node": "8", "config": "llama3_1/8B_full", "batch_size": "2", "clip_grad_norm": "null",
        "model.lora_attn_modules": "q_proj,v_proj", "training.seq_len": "8", "activation-checkpoint": "full",
        "lora_target_modules": "q_proj,k_proj", "nproc": "8",
    }  # fmt: skip
