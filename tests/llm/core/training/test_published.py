"""The arithmetic of training against published figures; each test names its source."""

import math
from dataclasses import replace

import pytest

from capplan.core.numbers import Interval
from capplan.llm.core.architecture import Architecture, Layer
from capplan.llm.core.layers import Attention, DenseMlp
from capplan.llm.core.tensors import count_active_parameters, count_parameters
from capplan.llm.core.training.activations import interleaved_share, layer_activations, logit_elements
from capplan.llm.core.training.flops import attention_flops_per_token, matmul_parameters
from capplan.llm.core.training.frameworks import States, find_framework
from capplan.llm.core.training.job import (
    Adapter,
    AttentionImplementation,
    BaseFormat,
    Compute,
    Offloaded,
    Recompute,
    Shard,
    TrainingJob,
    TrainingLayout,
    adapter_targets,
)
from capplan.llm.core.training.memory import bytes_per_parameter, estimate_memory
from capplan.llm.core.training.parameters import adapter_parameters
from capplan.llm.core.training.run import RunReliability, daly_interval_s, plan_run, young_interval_s
from capplan.llm.core.training.work import bubble_fraction
from capplan.llm.read.catalogue import find_in_catalogue
from tests.llm.core.training.training_cases import MEMORY, model_flops_per_token

GIB = 2**30


def gpt(
    *, hidden: int, layers: int, heads: int, vocab: int = 51200, tied: bool = True, positions: int = 0
) -> Architecture:
    """Return a GPT without biases in its products, as Megatron's papers count it."""
    attention = Attention(query_heads=heads, kv_heads=heads, key_dim=hidden // heads, value_dim=hidden // heads)
    layer = Layer(mixer=attention, mlp=DenseMlp(width=4 * hidden, gated=False), norm_parameters=2 * hidden)
    return Architecture(
        name="gpt",
        family="gpt",
        hidden_dim=hidden,
        vocab_size=vocab,
        layers=(layer,) * layers,
        tied_embeddings=tied,
        max_positions=None,
        norm_parameters=hidden,
        position_rows=positions,
    )


def job_of(architecture: Architecture, **changes: object) -> TrainingJob:
    """Return a job of Megatron."""
    values: dict[str, object] = {"framework": find_framework("megatron"), "states": States.MASTER, **changes}
    return TrainingJob(architecture=architecture, **values)  # type: ignore[arg-type]  # named by each test


def architecture_of(name: str) -> Architecture:
    """Return a built-in model."""
    found = find_in_catalogue(name)
    assert found is not None
    return found.architecture


def layer_bytes(
    *,
    sequence: int,
    micro_batch: int,
    hidden: int,
    heads: int,
    tensor: int = 1,
    sequence_parallel: bool = False,
    recompute: Recompute = Recompute.NONE,
) -> float:
    """Return what a GPT layer keeps, counted as Korthikanti et al. count it. [bytes]

    They add the masks of two dropouts, a byte an element, and leave out attention's statistics of each row in fp32.
    """
    job = job_of(
        gpt(hidden=hidden, layers=1, heads=heads),
        attention=AttentionImplementation.EAGER,
        sequence_tokens=sequence,
        micro_batch=micro_batch,
        layout=TrainingLayout(tensor=tensor, sequence_parallel=sequence_parallel),
    )
    kept = layer_activations(job.architecture.layers[0], job).kept(recompute)
    if recompute is Recompute.FULL:
        return kept
    tokens = sequence * micro_batch
    return kept + 2 * tokens * hidden / (tensor if sequence_parallel else 1) - 4 * tokens * heads / tensor


# Korthikanti et al. (arXiv 2205.05198), tables 2 and 3 and figures 1 and 7: sequence 2048, 16-bit, tensor-parallel 8.
# columns: hidden, heads, layers, micro-batch, stages, chunks
KORTHIKANTI = {
    "22B": (6144, 64, 48, 4, 1, 1),
    "175B": (12288, 96, 96, 1, 8, 3),
    "530B": (20480, 128, 105, 1, 35, 3),
    "1T": (25600, 160, 128, 1, 64, 1),
}


@pytest.mark.parametrize(
    ("options", "expected_gib"),
    [
        ({}, 6.5938),
        ({"tensor": 8}, 1.2344),
        ({"tensor": 8, "sequence_parallel": True}, 0.8242),
        ({"tensor": 8, "sequence_parallel": True, "recompute": Recompute.ATTENTION}, 0.1992),
        ({"recompute": Recompute.FULL}, 0.0938),
    ],
)
def test_activations_of_a_layer_are_those_of_korthikanti_table_2(
    options: dict[str, object], expected_gib: float
) -> None:
    found = layer_bytes(sequence=2048, micro_batch=4, hidden=6144, heads=64, **options)  # type: ignore[arg-type]
    assert found / GIB == pytest.approx(expected_gib, abs=5e-5)


@pytest.mark.parametrize(
    ("model", "tensor_only", "selective"),
    [("22B", 59.25, 9.5625), ("175B", 66.84375, 12.3515625), ("530B", 114.0234, 23.0762), ("1T", 131.25, 26.5625)],
)
def test_activations_of_the_first_stage_are_those_of_korthikanti_figure_1(
    model: str, tensor_only: float, selective: float
) -> None:
    hidden, heads, layers, batch, stages, chunks = KORTHIKANTI[model]
    share = layers * interleaved_share(stages=stages, chunks=chunks)

    def first(**options: object) -> float:
        whole = layer_bytes(
            sequence=2048,
            micro_batch=batch,
            hidden=hidden,
            heads=heads,
            tensor=8,
            **options,  # type: ignore[arg-type]
        )
        return whole * share / GIB

    assert first() == pytest.approx(tensor_only, rel=1e-5)
    assert first(sequence_parallel=True, recompute=Recompute.ATTENTION) == pytest.approx(selective, rel=1e-5)


@pytest.mark.parametrize(
    ("model", "expected_gib"), [("22B", 45.5625), ("175B", 45.5625), ("530B", 31.640625), ("1T", 32.958984375)]
)
def test_parameters_and_optimizer_take_18_bytes_each(model: str, expected_gib: float) -> None:
    # figure 1 of the same paper: 18 bytes per parameter of 12·L·h²/(t·p)
    hidden, heads, layers, _, stages, _ = KORTHIKANTI[model]
    each = bytes_per_parameter(job_of(gpt(hidden=hidden, layers=1, heads=heads)), ranks=1)
    assert each == 18
    assert each * 12 * layers * hidden**2 / (8 * stages) / GIB == pytest.approx(expected_gib, rel=1e-9)


@pytest.mark.parametrize(
    ("model", "seq", "selective", "seq_and_selective", "full"),
    [
        ("22B", 66.84, 49.42, 16.18, 7.64),
        ("175B", 62.04, 56.53, 18.49, 8.71),
        ("530B", 58.31, 62.04, 20.27, 9.42),
        ("1T", 58.31, 62.04, 20.27, 9.42),
    ],
)
def test_relative_activations_are_those_of_korthikanti_figure_7(
    model: str, seq: float, selective: float, seq_and_selective: float, full: float
) -> None:
    hidden, heads, _, batch, _, _ = KORTHIKANTI[model]

    def layer(**options: object) -> float:
        return layer_bytes(
            sequence=2048,
            micro_batch=batch,
            hidden=hidden,
            heads=heads,
            tensor=8,
            **options,  # type: ignore[arg-type]
        )

    # the chart's values were read by eye, ±1
    assert 100 * layer(sequence_parallel=True) / layer() == pytest.approx(seq, abs=1.0)
    both = layer(sequence_parallel=True, recompute=Recompute.ATTENTION)
    assert 100 * both / layer() == pytest.approx(seq_and_selective, abs=1.0)
    assert 100 * layer(recompute=Recompute.FULL) / layer() == pytest.approx(full, abs=1.0)
    # without the scores 10 + 24/8 of 10 + 24/8 + 5·a·s/(8·h) are left
    kept = hidden * 2048 * batch * 13
    assert 100 * kept / layer() == pytest.approx(selective, abs=1.0)


@pytest.mark.parametrize(
    ("model", "batch", "flops", "ratio"),
    [
        ("22B", 4, 1.144e15, 1.0519),
        ("175B", 64, 1.411e17, 1.0269),
        ("530B", 280, 1.852e18, 1.0164),
        ("1T", 512, 6.426e18, 1.0131),
    ],
)
def test_model_flops_are_72_blsh2(model: str, batch: int, flops: float, ratio: float) -> None:
    # the same paper, appendix A: 72·B·L·s·h²(1 + s/(6h) + V/(12hL)); selective recomputation adds attention once:
    # hardware over model FLOPs from s/(3h) in the place of s/(6h)
    hidden, heads, layers, _, _, _ = KORTHIKANTI[model]
    architecture = gpt(hidden=hidden, layers=layers, heads=heads)
    per_token = model_flops_per_token(architecture, sequence=2048)
    assert per_token * batch * 2048 == pytest.approx(flops, rel=2e-3)
    again = attention_flops_per_token(architecture, sequence=2048, is_causal=False)
    hardware_by_formula = 1 + 2048 / (3 * hidden) + 51200 / (12 * hidden * layers)
    model_by_formula = 1 + 2048 / (6 * hidden) + 51200 / (12 * hidden * layers)
    assert hardware_by_formula / model_by_formula == pytest.approx(ratio, abs=5e-4)
    # by FLOPs, attention takes 12·L·h·s of 72·L·h²(...): recomputing its forward third adds a third of it
    assert (per_token + again) / per_token == pytest.approx(
        (1 + 2048 / (6 * hidden) * 4 / 3 + 51200 / (12 * hidden * layers)) / model_by_formula, rel=1e-3
    )


@pytest.mark.parametrize(
    ("hidden", "layers", "heads", "batch", "gpus", "tflops", "time_s", "recompute"),
    [
        (25600, 128, 160, 3072, 3072, 163, 102.6, True),
        (12288, 80, 96, 2304, 1536, 148, 24.8, True),
        (2304, 24, 24, 512, 32, 137, 3.53, True),
    ],
)
def test_step_times_of_megatron_2021_follow_from_its_flops(  # noqa: PLR0917 - the columns of the table
    hidden: int, layers: int, heads: int, batch: int, gpus: int, tflops: float, time_s: float, recompute: bool
) -> None:
    # arXiv 2104.04473 table 1: F = 96·B·s·L·h²(1 + s/(6h) + V/(16Lh)), with full recomputation
    architecture = gpt(hidden=hidden, layers=layers, heads=heads)
    forward = model_flops_per_token(architecture, sequence=2048) / 3
    head = 2.0 * hidden * 51200
    per_token = 4 * forward - head if recompute else 3 * forward
    assert per_token * batch * 2048 / gpus / (tflops * 1e12) == pytest.approx(time_s, rel=0.005)


def test_parameters_of_the_trillion_model() -> None:
    # arXiv 2104.04473: P = 12Lh²(1 + 13/(12h) + (V + s)/(12Lh)); biases (11 of the 13 parts) are left out here
    found = count_parameters(gpt(hidden=25600, layers=128, heads=160, positions=2048))
    assert found == pytest.approx(1008.04e9, rel=1e-4)


@pytest.mark.parametrize(
    ("params", "tokens", "gpus", "tflops", "days"),
    [(175e9, 300e9, 1024, 140, 33.9), (1008.04e9, 450e9, 3072, 163, 83.9)],
)
def test_days_of_megatron_2021(params: float, tokens: float, gpus: int, tflops: float, days: float) -> None:
    # 8·T·P/(n·X) with full recomputation; the run itself adds failures, here none
    per_step = 1_000_000.0
    step_s = 8 * per_step * params / (gpus * tflops * 1e12)
    job = job_of(
        gpt(hidden=1024, layers=8, heads=8),
        layout=TrainingLayout(gpus=gpus),
        sequence_tokens=1000,
        micro_batch=1,
        accumulation=1,
    )
    run = plan_run(
        job,
        step_s=Interval.exact(step_s * job.step_tokens / per_step),
        tokens=tokens,
        reliability=RunReliability(hours_between_failures=1e15, storage_bytes_per_s=1e18, restart_s=0.0),
        campaign=Interval.exact(1.0),
    )
    assert run.ideal_s / 86400 == pytest.approx(days, abs=0.06)
    assert run.wall_s.expected == pytest.approx(run.ideal_s, rel=1e-4)


@pytest.mark.parametrize(
    ("states", "compute", "plain", "sharded"),
    [
        (States.MASTER, Compute.FP16, 20.0, (4.0, 16.0)),
        (States.MASTER, Compute.BF16, 18.0, (6.0, 12.0)),
        (States.AUTOCAST, Compute.BF16, 16.0, (8.0, 8.0)),
    ],
)
def test_bytes_per_parameter_are_those_of_megatrons_distributed_optimizer(
    states: States, compute: Compute, plain: float, sharded: tuple[float, float]
) -> None:
    # Megatron-LM README: fp16 parameters and gradients 20, or 4 + 16/d; bf16 parameters with fp32 gradients 18, or
    # 6 + 12/d; fp32 16, or 8 + 8/d
    architecture = gpt(hidden=256, layers=2, heads=4)
    assert bytes_per_parameter(job_of(architecture, states=states, compute=compute), ranks=8) == plain
    layout = TrainingLayout(gpus=8, shard=Shard.ZERO1)
    job = job_of(architecture, states=states, compute=compute, layout=layout)
    assert bytes_per_parameter(job, ranks=8) == pytest.approx(sharded[0] + sharded[1] / 8)


@pytest.mark.parametrize(
    ("shard", "gigabytes"), [(Shard.NONE, 120.0), (Shard.ZERO1, 31.4), (Shard.ZERO2, 16.6), (Shard.ZERO3, 1.9)]
)
def test_zero_stages_take_what_its_paper_states(shard: Shard, gigabytes: float) -> None:
    # arXiv 1910.02054 figure 1: 7.5 B parameters, 64 GPUs, Adam in mixed precision with 16-bit gradients, of which
    # InternEvo keeps no copy in fp32 either
    job = job_of(
        gpt(hidden=256, layers=2, heads=4),
        framework=find_framework("internevo"),
        layout=TrainingLayout(gpus=64, shard=shard),
    )
    assert bytes_per_parameter(job, ranks=64) * 7.5 == pytest.approx(gigabytes, abs=0.06)


@pytest.mark.parametrize(
    ("offloaded", "gpu_gib", "host_gib"),
    [
        ((), 29.01, None),
        ((Offloaded.OPTIMIZER,), 3.66, 152.11),
        ((Offloaded.OPTIMIZER, Offloaded.PARAMETERS), 0.49, 171.13),
    ],
)
def test_states_under_zero_3_are_those_of_deepspeeds_estimator(
    offloaded: tuple[Offloaded, ...], gpu_gib: float, host_gib: float | None
) -> None:
    # DeepSpeed issue 4527, estimate_zero3_model_states: 6805 M parameters of which the largest layer has 131 M, 4 GPUs.
    # A GPU has 4 bytes of the largest layer and 18P/4, or 2P/4 with the optimizer on the host, or nothing; the host
    # 16P or 18P, with half as much again for what is pinned. The printed counts are rounded to millions.
    parameters, largest = 6805e6, 131e6
    architecture = gpt(hidden=1024, layers=8, heads=8)
    job = job_of(
        architecture,
        framework=find_framework("deepspeed"),
        layout=TrainingLayout(gpus=4, shard=Shard.ZERO3),
        offloaded=frozenset(offloaded),
    )
    outlook = estimate_memory(job, MEMORY)
    scale = parameters / count_parameters(architecture)
    held = outlook.tightest.weights + outlook.tightest.gradients + outlook.tightest.optimizer
    assert (4 * largest + held * scale) / GIB == pytest.approx(gpu_gib, abs=0.006)
    if host_gib is not None:
        assert 1.5 * outlook.host * scale / GIB == pytest.approx(host_gib, abs=0.06)


def test_nf4_takes_the_bits_of_the_qlora_paper() -> None:
    # arXiv 2305.14314: 4 bits and an fp32 scale per 64; double quantisation 8/64 + 32/(64·256) = 0.127 bits
    assert BaseFormat.NF4.bytes_per_parameter * 8 == 4.5
    assert BaseFormat.NF4_DQ.bytes_per_parameter * 8 == pytest.approx(4.127, abs=5e-4)


@pytest.mark.parametrize(
    ("model", "rank", "targets", "expected"),
    [
        ("llama-2-7b", 8, "q_proj v_proj", 4_194_304),  # litgpt's table of resources
        ("llama-2-13b", 8, "q_proj v_proj", 6_553_600),
        ("llama-3.2-3b-instruct", 32, "q_proj v_proj", 9_175_040),  # a result file of PEFT
    ],
)
def test_adapters_have_the_parameters_that_frameworks_print(model: str, rank: int, targets: str, expected: int) -> None:
    adapter = Adapter(rank=rank, targets=adapter_targets(targets.split()))
    assert adapter_parameters(architecture_of(model), adapter) == expected


@pytest.mark.parametrize(("hidden", "layers", "expected"), [(2048, 24, 1_572_864), (4096, 16, 2_097_152)])
def test_adapters_of_models_that_are_not_built_in(hidden: int, layers: int, expected: int) -> None:
    # litgpt's table: phi-1.5 and StableLM-alpha-3B, rank 8 on queries and values
    adapter = Adapter(rank=8, targets=("q", "v"))
    assert adapter_parameters(gpt(hidden=hidden, layers=layers, heads=32), adapter) == expected


def test_model_flops_are_those_of_nemo() -> None:
    # NeMo's performance summary: 6·(parameters of products with the head) + 12·L·h·s; Llama-2-7B at 4096 tokens is
    # 46.08 GFLOP a token, so that 16 934 tokens/s are 780 TFLOP/s
    per_token = model_flops_per_token(architecture_of("llama-2-7b"), sequence=4096)
    assert per_token == pytest.approx(46.08e9, rel=1e-3)
    assert per_token * 16_934 == pytest.approx(780e12, rel=1e-3)


def test_mfu_of_llm_foundry_follows_from_its_tokens() -> None:
    # llm-foundry's table: 3·(2·N·s + L·4·d·s²)·seq/s over n·989.5 TFLOP/s; MPT-7B, 128 H100, 1 340 830 tokens/s:
    # 45.71 %
    architecture = gpt(hidden=4096, layers=32, heads=32, vocab=50368, positions=2048)
    attention = 3 * attention_flops_per_token(architecture, sequence=2048, is_causal=False)
    assert count_parameters(architecture) / 1e9 == pytest.approx(6.657, abs=5e-4)  # printed 6.659
    per_token = 6 * count_parameters(architecture) + attention
    assert per_token * 1_340_830 / (128 * 989.5e12) == pytest.approx(0.4571, abs=5e-4)


@pytest.mark.parametrize(
    ("tokens", "tokens_per_s", "gpus", "gpu_hours"),
    [
        (10e12, 1524, 1024, 74 * 24 * 1024),  # NeMo's performance summary: days of Llama-3-70B and GPT-3 175B
        (10e12, 716, 1024, 158 * 24 * 1024),
        (10e6, 2621, 8, 7.9 / 60 * 8),  # minutes of LoRA of Llama-2-70B
        (2.2e12, 3772, 128, 162_000),  # fms-fsdp's README: A100 hours
    ],
)
def test_gpu_hours_follow_from_published_rates(tokens: float, tokens_per_s: float, gpus: int, gpu_hours: float) -> None:
    job = job_of(architecture_of("llama-2-7b"), layout=TrainingLayout(gpus=gpus))
    run = plan_run(
        job,
        step_s=Interval.exact(job.step_tokens / (tokens_per_s * gpus)),
        tokens=tokens,
        reliability=RunReliability(hours_between_failures=1e15, storage_bytes_per_s=1e18, restart_s=0.0),
        campaign=Interval.exact(1.0),
    )
    assert run.ideal_s / 3600 * gpus == pytest.approx(gpu_hours, rel=0.01)


@pytest.mark.parametrize(
    ("model", "hours", "tokens", "peak", "flops", "mfu"),
    [
        ("llama-2-7b", 184_320, 2e12, 312e12, 8.09e22, 0.391),
        ("llama-2-13b", 368_640, 2e12, 312e12, None, 0.377),
        ("llama-2-70b", 1_720_320, 2e12, 312e12, None, 0.428),
        ("llama-3.1-405b-instruct", 30.84e6, 15.6e12, 989e12, 3.80e25, 0.346),
    ],
)
def test_mfu_of_model_cards_follows_from_gpu_hours(  # noqa: PLR0917 - the columns of the table
    model: str, hours: float, tokens: float, peak: float, flops: float | None, mfu: float
) -> None:
    # GPU hours of Meta's model cards, and 6·P·T
    found = 6 * count_parameters(architecture_of(model)) * tokens
    assert found / (hours * 3600 * peak) == pytest.approx(mfu, abs=0.002)
    if flops is not None:
        assert found == pytest.approx(flops, rel=2e-3)


def test_failures_of_llama_3() -> None:
    # arXiv 2407.21783: 419 unexpected interruptions in 54 days on 16 384 GPUs
    hours = 54 * 24 * 16_384
    assert RunReliability().hours_between_failures == pytest.approx(hours / 419, rel=2e-3)
    job = job_of(architecture_of("llama-3.1-405b-instruct"), layout=TrainingLayout(gpus=16_384, tensor=8, pipeline=16))
    run = plan_run(
        job,
        step_s=Interval.exact(10.0),
        tokens=job.step_tokens * 54 * 86400 / 10.0,
        reliability=RunReliability(storage_bytes_per_s=2e12, restart_s=600.0),
        campaign=Interval.exact(1.0),
    )
    assert run.ideal_s == pytest.approx(54 * 86400)
    assert run.failures == pytest.approx(419, rel=0.15)  # the wall time is longer than the steps
    assert run.goodput_fraction > 0.9  # the paper reports more than 90 % effective time


@pytest.mark.parametrize(("stages", "micro_batches", "chunks", "expected"), [(8, 64, 1, 0.109), (35, 280, 3, 0.0405)])
def test_the_pipeline_bubble_is_that_of_megatron_2021(
    stages: int, micro_batches: int, chunks: int, expected: float
) -> None:
    found = bubble_fraction(stages=stages, micro_batches=micro_batches, chunks=chunks)
    assert found == pytest.approx(expected, abs=5e-4)
    third = bubble_fraction(stages=stages, micro_batches=micro_batches, chunks=chunks, zero_bubble=True)
    assert third == pytest.approx(found / 3)


def test_logits_of_llama_3_take_what_their_size_says() -> None:
    # 8192 tokens × 128 256 words × 4 bytes = 3.91 GiB; 65 536 tokens take 31.3 GiB, and a loss by chunks 2048 at a time
    job = job_of(architecture_of("llama-3-8b-instruct"), sequence_tokens=8192)
    assert logit_elements(job) * 4 / GIB == pytest.approx(3.91, abs=5e-3)
    long = replace(job, sequence_tokens=65_536)
    assert logit_elements(long) * 4 / GIB == pytest.approx(31.3, abs=0.05)
    assert logit_elements(replace(long, fused_loss=True)) * 4 / GIB == pytest.approx(3.91 / 4, abs=5e-3)


@pytest.mark.parametrize(
    ("model", "billions"),
    [
        ("llama-2-7b", 6.738),
        ("llama-2-70b", 68.98),
        ("llama-3-8b-instruct", 8.030),
        ("llama-3.1-405b-instruct", 405.85),
        ("mixtral-8x7b-instruct-v0.1", 46.70),
        ("deepseek-v3", 671.03),
        ("qwen3-235b-a22b", 235.09),
    ],
)
def test_parameters_are_the_published_totals(model: str, billions: float) -> None:
    assert count_parameters(architecture_of(model)) / 1e9 == pytest.approx(billions, rel=1e-3)


@pytest.mark.parametrize(("model", "billions"), [("mixtral-8x7b-instruct-v0.1", 12.9), ("qwen3-235b-a22b", 22.0)])
def test_active_parameters_are_the_published_ones(model: str, billions: float) -> None:
    assert count_active_parameters(architecture_of(model)) / 1e9 == pytest.approx(billions, abs=0.25)


def test_the_interval_between_checkpoints_is_youngs_and_dalys() -> None:
    # Daly 2006: M = 24 h, δ = 5 min: Young √(2·300·86400) = 7200 s exactly
    young = young_interval_s(checkpoint_s=300.0, mean_time_between_failures_s=86_400.0)
    assert young == pytest.approx(7200.0)
    ratio = 300.0 / (2 * 86_400.0)
    daly = daly_interval_s(checkpoint_s=300.0, mean_time_between_failures_s=86_400.0)
    assert daly == pytest.approx(7200.0 * (1 + math.sqrt(ratio) / 3 + ratio / 9) - 300.0)
    assert daly_interval_s(checkpoint_s=10.0, mean_time_between_failures_s=1.0) == 1.0


def test_matrix_parameters_leave_the_table_of_an_untied_embedding_out() -> None:
    # Llama-2-7B: 6 738 415 616 in all, less 32 000·4096 of the table and 65·4096 of norms
    expected = 6_738_415_616 - 32_000 * 4096 - 65 * 4096
    assert matmul_parameters(architecture_of("llama-2-7b")) == expected
