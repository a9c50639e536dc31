"""Rows of measured training runs: what words of published tables are read as."""

from dataclasses import replace

import pytest

from capplan.llm.core.training.accuracy import MeasuredTraining, rank_layouts
from capplan.llm.core.training.job import (
    AttentionImplementation,
    BaseFormat,
    Compute,
    Method,
    OptimizerRecipe,
    Recompute,
    Shard,
)
from capplan.llm.core.training.memory import MemoryScope
from capplan.llm.read.training_rows import parse_training

ROW = {
    "model": "llama-3-8b", "gpu": "h100-sxm5-80gb", "framework": "torchtitan", "gpus": "16", "gpus_per_node": "8",
    "seq_len": "8192", "micro_batch": "1", "hidden": "4096", "layers": "32", "heads": "32", "kv_heads": "8",
    "head_dim": "128", "ffn": "14336", "gated": "1", "vocab": "128256", "tied_embeddings": "0",
}  # fmt: skip


def run(**changes: str) -> MeasuredTraining:
    """Return the run of a row with some columns changed."""
    return parse_training({**ROW, **changes}, line=2)


@pytest.mark.parametrize(
    ("words", "gigabits"),
    [
        ("DGX H100, IB 400 Gb/s per GPU", 400),
        ("RoCE 1600 Gb/s per node", 200),
        ("Jean Zay, 4x Omni-Path 100 Gb/s per node", 50),
        ("Selene, 8x HDR 200 Gb/s per node", 200),
        ("Storage: 2x ConnectX-7 IB NDR 400Gb/s, Compute: 8x ConnectX-7 IB NDR 400Gb/s", 400),
        ("DGX A100, 8x HDR", 200),
        ("Storage: 2x ConnectX-7 IB NDR 400Gb/s, Compute: 8x ConnectX-", None),
        ("Ethernet, Infiniband", None),
        ("4x ConnectX-6 25Gb/s Ethernet", 12.5),
    ],
)
def test_the_network_of_one_gpu_follows_from_the_words(words: str, gigabits: float | None) -> None:
    found = run(interconnect=words).network_bytes_per_s
    assert found == (None if gigabits is None else pytest.approx(gigabits * 1e9 / 8))
    assert run(interconnect=words, gpus="8").network_bytes_per_s is None  # one server needs no network


@pytest.mark.parametrize(
    ("name", "columns", "framework"),
    [
        ("torchtitan (rocm)", {}, "torchtitan"),
        ("Megatron-LM (ROCm)", {}, "megatron"),
        ("maxtext (xla)", {}, "xla"),
        ("fsdp1", {"framework_version": "composer/llm-foundry"}, "composer"),
        ("some-inhouse-thing", {"tp": "8"}, "megatron"),
        ("some-inhouse-thing", {"task": "lora"}, "trl"),
    ],
)
def test_frameworks_are_found_by_parts_of_their_names(name: str, columns: dict[str, str], framework: str) -> None:
    assert run(framework=name, **columns).framework == framework


@pytest.mark.parametrize(
    ("words", "framework", "expected", "stated"),
    [
        ("", "nemo", Recompute.NONE, False),
        ("none", "nemo", Recompute.NONE, True),
        ("full", "nemo", Recompute.FULL, True),
        ("selective", "megatron", Recompute.ATTENTION, True),
        ("selective op", "torchtitan", Recompute.OPERATORS, True),
        ("selective", "fsdp1", Recompute.NONE, False),
    ],
)
def test_what_is_recomputed(words: str, framework: str, expected: Recompute, stated: bool) -> None:
    found = run(activation_checkpointing=words, framework=framework)
    assert (found.job.recompute, found.recompute_is_stated) == (expected, stated)


def test_formats_and_methods_are_read() -> None:
    found = run(task="qlora", base_quant="nf4-dq", lora_rank="32", lora_targets="q_proj,v_proj", gpus="1").job
    assert (found.method, found.base, found.adapter.rank) == (Method.QLORA, BaseFormat.NF4_DQ, 32)
    assert found.adapter.targets == ("q", "v")
    assert run(precision="fp8-cs").job.compute is Compute.FP8
    assert run(precision="mxfp8").job.compute is Compute.MXFP8
    assert run(precision="nvfp4").job.compute is Compute.NVFP4
    assert run(sharding="hybrid").job.layout.shard_group == 8
    assert run(sharding="full_shard").job.layout.shard is Shard.ZERO3
    assert run(optimizer="adamw: ao 8-bit").job.optimizer is OptimizerRecipe.ADAMW_8BIT
    assert run(attention="te").job.attention is AttentionImplementation.TUNED
    assert run(memory_kind="nvidia-smi", peak_memory_gib="40").peak_kind is MemoryScope.DEVICE


def test_a_built_in_model_keeps_the_windows_that_columns_lack() -> None:
    # gpt-oss alternates layers with a window of 128 tokens and without one (its model card)
    columns = {"hidden": "2880", "layers": "36", "heads": "64", "kv_heads": "8", "ffn": "2880", "vocab": "201088"}
    layers = run(model="gpt-oss-120b", **columns).job.architecture.layers
    assert [layer.mixer.window for layer in layers[:4]] == [128, None, 128, None]
    shorter = run(model="gpt-oss-120b", **{**columns, "layers": "18"})  # a variant of another depth is built of columns
    assert len(shorter.job.architecture.layers) == 18


def test_speed_follows_from_the_time_of_a_step() -> None:
    # 32 sequences of 8192 tokens in 4 s on 16 GPUs
    assert run(step_time_s="4", global_batch="32").tokens_per_s == 32 * 8192 / 4 / 16
    assert run(tokens_per_s_per_gpu="5000", step_time_s="4", global_batch="32").tokens_per_s == 5000
    assert run(step_time_s="4", global_batch="32", size_class="tiny-ci").tokens_per_s is None
    warned = "2-3 step smoke run: memory is good, speed includes warm-up (treat speed as C)"
    assert run(tokens_per_s_per_gpu="5000", note=warned).tokens_per_s is None


def test_the_choice_among_layouts_is_judged_by_what_it_loses() -> None:
    # Measured 100, 90 and 80 tokens/s; the prediction takes the one of 90, which takes 100/90 - 1 longer. By chance:
    # the mean of 0, 1/9 and 1/4. A job in one layout alone is not judged.
    runs = [
        run(tp=tp, tokens_per_s_per_gpu=speed, activation_checkpointing="none")
        for tp, speed in (("1", "100"), ("2", "90"), ("4", "80"))
    ]
    runs = [replace(each, job=replace(each.job, accumulation=int(each.job.layout.tensor))) for each in runs]
    alone = run(gpus="8", tokens_per_s_per_gpu="70")
    (found,) = rank_layouts([*runs, alone], [5.0, 7.0, 6.0, 1.0])
    assert found.layouts == 3
    assert found.regret == pytest.approx(1 / 9)
    assert found.chance == pytest.approx((0 + 1 / 9 + 1 / 4) / 3)


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"gpus": ""}, "neither gpus nor dp is stated"),
        ({"seq_len": ""}, "seq_len is not stated"),
        ({"task": "peft-ia3"}, "is not full training, LoRA or QLoRA"),
        ({"size_class": "vision"}, "is not a decoder of text"),
        ({"micro_batch": "two"}, "micro_batch is 'two', which is not a number"),
        ({"model": "own", "layers": "1e9"}, "layers is 1e\\+09, which is more than 1e\\+08"),
        ({"model": "own", "layers": "5000"}, "layers is 5000, which is more than 2000"),
        ({"sharding": "magic"}, "sharding 'magic' is not one of"),
        ({"model": "own", "note": "recipe moe.yaml; mla"}, "its attention is latent"),
    ],
)
def test_a_row_that_cannot_be_read_says_why(columns: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        run(**columns)


@pytest.mark.parametrize(
    ("words", "implementation"),
    [
        ("flash_attention_2", AttentionImplementation.FLASH),  # "attention" holds the letters of TransformerEngine
        ("te flash", AttentionImplementation.TUNED),
        ("flash/cudnn", AttentionImplementation.TUNED),
        ("flash (1 or 2)", AttentionImplementation.FLASH1),
    ],
)
def test_attention_is_read_by_whole_words(words: str, implementation: AttentionImplementation) -> None:
    assert run(attention=words).job.attention is implementation


def test_true_is_read_however_it_is_written() -> None:
    for word in ("1", "true", "True"):
        job = run(framework="megatron", tp="2", compile=word, sequence_parallel=word).job
        assert job.compiled
        assert job.layout.sequence_parallel
    assert not run(framework="megatron", tp="2", sequence_parallel="0").job.layout.sequence_parallel


def test_a_file_without_a_column_of_sharding_means_what_frameworks_do() -> None:
    assert run().job.layout.shard is Shard.ZERO3  # torchtitan shards by FSDP
    assert run(framework="megatron").job.layout.shard is Shard.ZERO1
    assert run(gpus="1").job.layout.shard is Shard.NONE
    assert run(sharding="").job.layout.shard is Shard.NONE  # a column that is empty says that nothing is shared


def test_bigsciences_runs_before_its_bf16_optimizer_are_of_fp16() -> None:
    # chronicles-prequel: the runs of "Rebalancing layers" are the first with BF16_Optimizer, which takes more memory
    note = "DeepSpeed ZeRO-1 + Megatron; TFLOPs include recomputation; section {}"
    assert run(note=note.format("GBS Variations"), precision="bf16").job.compute is Compute.FP16
    assert run(note=note.format("Rebalancing layers"), precision="bf16").job.compute is Compute.BF16
