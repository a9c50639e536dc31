"""Laws that memory, time and runs of training obey, whatever the constants."""

from dataclasses import replace
from itertools import pairwise

import pytest

from capplan.core.numbers import Interval
from capplan.errors import UnknownNameError, UsageError
from capplan.llm.core.architecture import Architecture
from capplan.llm.core.layers import Attention
from capplan.llm.core.training.accuracy import TrainingEvidence
from capplan.llm.core.training.activations import logit_elements
from capplan.llm.core.training.estimate import OwnRun, answer_training_memory, usual_recompute
from capplan.llm.core.training.flops import passes_per_token, training_rates
from capplan.llm.core.training.frameworks import FRAMEWORKS, States, find_framework
from capplan.llm.core.training.job import (
    Adapter,
    AttentionImplementation,
    BaseFormat,
    Compute,
    Method,
    Offloaded,
    OptimizerRecipe,
    Recompute,
    Shard,
    TrainingJob,
    TrainingLayout,
    adapter_targets,
    check_job,
    recompute_choices,
)
from capplan.llm.core.training.memory import MemoryScope, bytes_per_parameter, estimate_memory
from capplan.llm.core.training.objective import Objective
from capplan.llm.core.training.parameters import adapter_parameters
from capplan.llm.core.training.plan import PlanConstraints, RunTerms, plan_training
from capplan.llm.core.training.run import Dataset, RunReliability, TrainingRun, checkpoint_bytes, plan_run
from capplan.llm.core.training.search import Peaks, layouts, money_usd, prefer_safer, run_offer, search_layouts
from capplan.llm.core.training.step_time import step_time
from capplan.llm.core.training.work import step_work
from capplan.llm.read.catalogue import find_in_catalogue
from capplan.specs.fitted import load_power_law
from capplan.specs.rate_laws import load_rate_laws
from tests.llm.core.fleet.fits import rented
from tests.llm.core.training.training_cases import CALIBRATION, GIB, MACHINE, MEMORY, SPEC, TIME, launched


def model(name: str = "llama-3-8b-instruct") -> Architecture:
    """Return a built-in model."""
    found = find_in_catalogue(name)
    assert found is not None
    return found.architecture


def job(**changes: object) -> TrainingJob:
    """Return a job of Llama 3 8B on eight GPUs by torchtitan."""
    framework = find_framework("torchtitan")
    values: dict[str, object] = {
        "architecture": model(),
        "framework": framework,
        "states": framework.states,
        "layout": TrainingLayout(gpus=8, shard=Shard.ZERO3),
        **changes,
    }
    return TrainingJob(**values)  # type: ignore[arg-type]  # named by each test


def adapted(method: Method, base: BaseFormat) -> TrainingJob:
    """Return a job of adapters on one GPU."""
    trl = find_framework("trl")
    return TrainingJob(architecture=model(), framework=trl, method=method, base=base, states=trl.states)


def seconds(asked: TrainingJob) -> float:
    """Return the time of a step."""
    return step_time(step_work(asked, MACHINE), TIME, asked.framework.family).total_s


def peak(asked: TrainingJob) -> float:
    """Return the peak of a process."""
    return estimate_memory(asked, MEMORY).peak(MemoryScope.DEVICE)


@pytest.mark.parametrize("shard", list(Shard))
def test_doubling_data_parallelism_never_raises_memory(shard: Shard) -> None:
    peaks = [peak(job(layout=TrainingLayout(gpus=gpus, shard=shard, gpus_per_node=64))) for gpus in (2, 4, 8, 16, 32)]
    assert peaks == sorted(peaks, reverse=True)


def test_doubling_data_parallelism_never_raises_the_speed_of_one_gpu() -> None:
    rates = []
    for gpus in (8, 16, 32, 64, 128):
        asked = job(layout=TrainingLayout(gpus=gpus, shard=Shard.ZERO3))
        work = step_work(asked, MACHINE)
        optimizer_s = step_time(work, TIME, asked.framework.family).optimizer_s
        rates.append(asked.step_tokens / gpus / (seconds(asked) - optimizer_s))  # sharding divides the optimizer's work
    assert all(later <= earlier * 1.0001 for earlier, later in pairwise(rates))


@pytest.mark.parametrize("name", ["torchtitan", "megatron", "trl"])
def test_recomputation_costs_at_most_a_third_and_never_raises_memory(name: str) -> None:
    asked = job(framework=find_framework(name), micro_batch=2)
    choices = [replace(asked, recompute=choice) for choice in recompute_choices(asked)]
    times, peaks = [seconds(each) for each in choices], [peak(each) for each in choices]
    assert times == sorted(times)
    assert times[-1] <= times[0] * 4 / 3 * 1.0001
    assert peaks == sorted(peaks, reverse=True)


def test_full_recomputation_of_adapters_takes_six_flops_per_parameter_instead_of_four() -> None:
    plain = adapted(Method.LORA, BaseFormat.BF16)
    assert [2 * each for each in passes_per_token(plain)] == [4, 4]
    assert [2 * each for each in passes_per_token(replace(plain, recompute=Recompute.FULL))] == [4, 6]
    assert [2 * each for each in passes_per_token(job())] == [6, 6]


@pytest.mark.parametrize("recompute", list(Recompute))
@pytest.mark.parametrize("compute", list(Compute))
def test_mfu_is_at_most_hfu_and_hfu_at_most_one(recompute: Recompute, compute: Compute) -> None:
    asked = job(recompute=recompute, compute=compute, micro_batch=4)
    rates = training_rates(asked, SPEC, step_s=seconds(asked))
    assert rates.mfu_fraction is not None
    assert rates.hfu_fraction is not None
    assert rates.mfu_fraction <= rates.hfu_fraction <= 1


def test_a_quantised_base_is_never_faster_and_takes_less_memory_than_a_plain_one() -> None:
    lora, qlora = adapted(Method.LORA, BaseFormat.BF16), adapted(Method.QLORA, BaseFormat.NF4_DQ)
    assert seconds(qlora) >= seconds(lora)
    assert peak(replace(qlora, recompute=Recompute.FULL)) < peak(replace(lora, recompute=Recompute.FULL))


@pytest.mark.parametrize(
    "change",
    [
        {"micro_batch": 4},
        {"sequence_tokens": 16384},
        {"attention": AttentionImplementation.EAGER},
        {"optimizer": OptimizerRecipe.SGD},
    ],
)
def test_more_work_takes_more_memory(change: dict[str, object]) -> None:
    more = peak(job(**change))
    if "optimizer" in change:
        assert more < peak(job())
    else:
        assert more > peak(job())


def test_what_is_offloaded_leaves_the_gpu_for_the_host() -> None:
    plain, moved = job(), job(offloaded=frozenset({Offloaded.OPTIMIZER}))
    at_home, away = estimate_memory(plain, MEMORY), estimate_memory(moved, MEMORY)
    assert at_home.tightest.optimizer > 0
    assert away.tightest.optimizer == 0
    assert away.host > 8 * at_home.tightest.optimizer
    assert seconds(moved) > seconds(plain)


def test_a_first_stage_keeps_as_many_micro_batches_as_there_are_stages() -> None:
    # 1F1B: min(p, m) on stage 0 (Narayanan et al. 2021); full checkpoints keep 2·s·b·h per layer and micro-batch
    def first(accumulation: int) -> float:
        asked = job(
            framework=find_framework("megatron"),
            layout=TrainingLayout(gpus=4, pipeline=4),
            recompute=Recompute.FULL,
            accumulation=accumulation,
        )
        return estimate_memory(asked, MEMORY).stages[0].activations

    per_batch = 2 * 4096 * 4096 * (32 / 4 + 1)  # eight layers of the stage, and the embedding's output
    assert first(1) == pytest.approx(per_batch)
    assert first(2) == pytest.approx(2 * per_batch)
    assert first(4) == first(64) == pytest.approx(4 * per_batch)


def test_the_slope_of_bigsciences_micro_batches_is_that_of_its_checkpoints() -> None:
    # chronicles-prequel of bigscience: 72 layers, width 14336, 2048 tokens, 12 stages: 3.94 GiB per micro-batch step
    # before the recomputed layer: 12 in flight × 6 layers × 2·2048·14336 bytes; a stage's input adds one layer's
    wide = replace(
        model("llama-2-7b"), hidden_dim=14336, layers=(replace(model("llama-2-7b").layers[0]),) * 72
    )  # full checkpoints keep inputs alone, whatever the layers are
    asked = replace(
        job(framework=find_framework("megatron"), recompute=Recompute.FULL, sequence_tokens=2048, accumulation=64),
        architecture=wide,
        layout=TrainingLayout(gpus=12, pipeline=12),
    )
    kept = [
        estimate_memory(replace(asked, micro_batch=size), MEMORY).stages[0].activations / 2**30 for size in (1, 2, 3)
    ]
    assert kept[1] - kept[0] == pytest.approx(3.94 * 7 / 6, abs=0.01)
    assert kept[2] - kept[1] == pytest.approx(kept[1] - kept[0])


def test_parts_of_the_peak_and_of_a_step_sum_to_it() -> None:
    answer = answer_training_memory(job(), SPEC, CALIBRATION)
    *parts, (name, total) = answer.parts
    assert name == "peak"
    assert sum(size for _, size in parts) == pytest.approx(total)
    assert total == pytest.approx(answer.peak.expected)


def test_the_least_recomputation_that_fits_is_taken() -> None:
    plain = find_framework("fsdp2")
    assert usual_recompute(job(framework=plain), SPEC, CALIBRATION).recompute is Recompute.NONE
    long = job(framework=plain, sequence_tokens=32768)
    assert usual_recompute(long, SPEC, CALIBRATION).recompute is not Recompute.NONE


@pytest.mark.parametrize(
    ("name", "version", "method", "expected"),
    [
        # torchtitan's `mode = "selective"`, torchtune's recipes, TRL since 0.19 (pull request 3510), LLaMA-Factory
        ("torchtitan", None, Method.FULL, Recompute.OPERATORS),
        ("torchtune", None, Method.FULL, Recompute.FULL),
        ("trl", None, Method.LORA, Recompute.FULL),
        ("trl", "0.18", Method.LORA, Recompute.NONE),
        ("llama-factory", None, Method.LORA, Recompute.FULL),
        ("unsloth", None, Method.LORA, Recompute.FULL),
        # `prepare_model_for_kbit_training(use_gradient_checkpointing=True)` of PEFT
        ("peft", None, Method.LORA, Recompute.NONE),
        ("peft", None, Method.QLORA, Recompute.FULL),
    ],
)
def test_frameworks_recompute_what_they_do_by_default(
    name: str, version: str | None, method: Method, expected: Recompute
) -> None:
    framework = find_framework(name, version=version)
    base = BaseFormat.NF4_DQ if method is Method.QLORA else BaseFormat.BF16
    asked = job(
        framework=framework, states=States.PURE, method=method, base=base, layout=TrainingLayout(), sequence_tokens=512,
        optimizer=OptimizerRecipe.ADAMW_8BIT,
    )  # fmt: skip
    assert usual_recompute(asked, SPEC, CALIBRATION).recompute is expected


def test_releases_of_frameworks_have_their_own_facts() -> None:
    # torchtitan compiles its loss since pull request 1033 of 2025-04, torchtune chunks it since 1390 of 2024-08
    assert not find_framework("torchtitan", version="0.0.2").loss_in_place
    assert find_framework("torchtitan", version="0.2").loss_in_place
    assert find_framework("torchtitan", version="9.0") == find_framework("torchtitan")
    assert not find_framework("torchtune", month="2024-08").loss_in_place
    assert find_framework("torchtune", month="2024-10").loss_in_place
    # sft_config.py, dpo_trainer.py and grpo_trainer.py of TRL's wheels: chunked since 1.7, 1.14 and 1.15
    releases = {"1.6": 0, "1.13": 1, "1.14": 2, "1.15": 3}
    assert {name: len(find_framework("trl", version=name).tiles_loss) for name in releases} == releases
    with pytest.raises(UsageError, match="numbers between dots"):
        find_framework("torchtune", version="main")


def test_trl_computes_logits_of_preferences_by_tiles() -> None:
    # TRL 1.16: tiles of 4,096 tokens by 32,768 of the vocabulary, whatever the length and the model's vocabulary are
    now, before = (
        logit_elements(job(framework=find_framework("trl", version=version), objective=Objective.DPO,
                           layout=TrainingLayout(), sequence_tokens=8192))
        for version in ("1.16", "1.13")
    )  # fmt: skip
    assert now == 4096 * 32768
    assert before == 2 * 8192 * job().architecture.vocab_size


def test_an_own_run_narrows_the_interval() -> None:
    own = answer_training_memory(job(), SPEC, CALIBRATION, own=OwnRun(peak_bytes=50 * 2**30))
    plain = answer_training_memory(job(), SPEC, CALIBRATION)
    assert own.peak.high / own.peak.low < plain.peak.high / plain.peak.low
    assert own.peak.expected > 50 * 2**30  # the driver's context stands beside what the allocator reserved


def test_an_engine_beside_training_takes_its_share_of_what_cuda_reports() -> None:
    # a card of 24 GiB whose driver reports 22: a share of 0.95 is 20.9 GiB of it, which leaves 1.1 GiB to training
    card = replace(SPEC, memory_bytes=24 * GIB, usable_bytes=22 * GIB)
    asked = job(objective=Objective.GRPO, completion_tokens=512, rollout_fraction=0.95)
    for own in (OwnRun(), OwnRun(peak_bytes=10.0 * GIB)):
        answer = answer_training_memory(asked, card, CALIBRATION, own=own)
        assert answer.usable_bytes == pytest.approx(1.1 * GIB)
        assert answer.fit_probability < 0.05


def test_more_tokens_take_more_days_and_more_failures_cost_more() -> None:
    def days(tokens: float, hours: float = 5e4) -> float:
        reliability = RunReliability(hours_between_failures=hours)
        run = plan_run(
            job(), step_s=Interval.exact(1.0), tokens=tokens, reliability=reliability, campaign=CALIBRATION.campaign
        )
        return run.wall_s.expected

    assert days(1e9) < days(2e9) < days(2e9, 1e2)
    with pytest.raises(UsageError, match="it never ends"):  # eight GPUs fail every 0.45 s, a restart takes 900 s
        days(1e9, 1e-3)


@pytest.mark.parametrize("layout", [TrainingLayout(), TrainingLayout(gpus=64, tensor=8, pipeline=4, shard=Shard.ZERO1)])
def test_a_checkpoint_holds_every_parameter_once_however_the_job_is_shared(layout: TrainingLayout) -> None:
    # 8,030,261,248 parameters (the model card's 8.03 B) in 16 bits, with an fp32 copy and two fp32 moments
    assert checkpoint_bytes(job(layout=layout)) == 14 * 8_030_261_248
    found = estimate_memory(replace(job(), layout=layout), MEMORY)
    assert found.load_host == pytest.approx(2 * 8_030_261_248 / (1 if layout.gpus > 1 else 4))


def test_a_token_of_a_window_sees_the_window_but_for_the_first_ones() -> None:
    # the i-th of 8,192 tokens sees min(i, 1,024) keys, itself counted; in chunks of 1,024 it sees those of its chunk
    whole = Attention(query_heads=1, kv_heads=1, key_dim=64, value_dim=64)
    counted = sum(min(index, 1024) for index in range(1, 8193)) / 8192
    assert replace(whole, window=1024).mean_keys(8192) == pytest.approx(counted, rel=1e-3)
    assert replace(whole, window=1024, chunked=True).mean_keys(8192) == 512
    assert whole.mean_keys(8192) == replace(whole, window=8192).mean_keys(8192) == 4096


def test_a_search_tries_only_layouts_that_can_be_run() -> None:
    # Phi-4 has 40 query heads and 10 key-value heads: four GPUs divide the former and not the latter
    asked = replace(job(framework=find_framework("megatron")), architecture=model("phi-4"))
    assert {layout.tensor for layout in layouts(asked, MACHINE, gpus=8)} == {1, 2}


def context_bytes(name: str, layout: TrainingLayout) -> float:
    """Return the bytes that one layer sends in one micro-batch where a sequence is shared."""
    asked = replace(job(layout=layout, sequence_tokens=4096), architecture=model(name))
    work = step_work(asked, MACHINE)
    return work.context_s * MACHINE.network_bytes_per_s / len(asked.architecture.layers)


def test_shared_sequences_pass_their_keys_and_values_around() -> None:
    # 2,048 tokens a GPU go to one other GPU in the forward and twice in the backward pass, in 16 bits.
    # Qwen3-30B-A3B: 4 heads of 2 · 128 elements on 8 GPUs are one head each.
    layout = TrainingLayout(gpus=16, tensor=8, context=2)
    assert context_bytes("qwen3-30b-a3b", layout) == pytest.approx(2 * 2048 * 3 * 256)
    # DeepSeek-V3: 128 heads of 192 + 128 elements, rebuilt before attention, 16 of them on a GPU
    assert context_bytes("deepseek-v3", layout) == pytest.approx(2 * 2048 * 3 * 16 * 320)


def test_adapters_alone_cross_the_bus_where_their_optimizer_is_offloaded() -> None:
    asked = replace(adapted(Method.LORA, BaseFormat.BF16), offloaded=frozenset({Offloaded.OPTIMIZER}))
    # 41,943,040 parameters of rank 16 on all linear layers: gradients there and parameters back, in 16 bits
    assert step_work(asked, MACHINE).host_s == pytest.approx(4 * 41_943_040 / MACHINE.host_bytes_per_s)


def test_padded_samples_take_whole_sequences() -> None:
    packed = Dataset(samples=1000, mean_tokens=512, epochs=3)
    assert packed.processed_tokens(2048) == 1000 * 512 * 3
    assert replace(packed, is_packed=False).processed_tokens(2048) == 1000 * 2048 * 3


def test_samples_are_padded_to_the_longest_of_their_micro_batch() -> None:
    # Lengths 100 and 300 equally often: the longest of two is 300 in three of four pairs, 250 on average; sequences of
    # 200 tokens cut it to 175. Packed samples take their mean.
    data = Dataset(samples=1000, lengths=(100, 300), is_packed=False)
    assert data.processed_tokens(2048, micro_batch=1) == pytest.approx(1000 * 200)
    assert data.processed_tokens(2048, micro_batch=2) == pytest.approx(1000 * 250)
    assert data.processed_tokens(200, micro_batch=2) == pytest.approx(1000 * 175)
    assert replace(data, is_packed=True).processed_tokens(2048, micro_batch=2) == pytest.approx(1000 * 200)


def test_the_fewest_gpus_are_the_cheapest_of_equals() -> None:
    # two GPUs of equal speed, of which one costs twice as much an hour
    offers = {"cheap": (rented(1.0, gpus=8, joined=8),), "dear": (rented(2.0, gpus=8, joined=8),)}
    plan = plan_training(
        job(layout=TrainingLayout()),
        gpus=[replace(SPEC, id=name) for name in ("dear", "cheap")],
        asked=PlanConstraints(counts=(8,), global_batch=64),
        terms=RunTerms(dataset=Dataset(tokens=1e8)),
        offers=offers,
        calibration=CALIBRATION,
        laws=load_rate_laws(),
        law=load_power_law(),
    )
    assert plan.fewest is not None
    assert plan.fewest.gpu_id == "cheap"


def test_machines_are_rented_whole() -> None:
    offer = rented(2.0, gpus=8)
    hours = Interval.exact(100.0)
    assert money_usd(hours, offer, gpus=8).expected == 200
    assert money_usd(hours, offer, gpus=4).expected == 400


def test_a_search_that_shares_peaks_with_others_finds_what_it_finds_alone() -> None:
    """A peak is that of a layout, not of a GPU: what another server or another count left behind changes nothing."""
    peaks: Peaks = {}
    others = replace(MACHINE, fast_gpus=72)
    for machine, count in ((others, 16), (MACHINE, 8), (MACHINE, 16)):
        shared = search_layouts(job(), machine, gpus=count, global_batch=64, calibration=CALIBRATION, peaks=peaks)
        assert shared == search_layouts(job(), machine, gpus=count, global_batch=64, calibration=CALIBRATION)
    known = len(peaks)
    search_layouts(job(), others, gpus=16, global_batch=64, calibration=CALIBRATION, peaks=peaks)
    assert len(peaks) == known > 0  # the same layouts are not estimated again


def test_a_search_returns_layouts_that_fit_the_fastest_first() -> None:
    found = search_layouts(job(), MACHINE, gpus=64, global_batch=256, calibration=CALIBRATION)
    times = [each.step.total_s for each in found.candidates]
    assert found.best is not None
    assert times[1:] == sorted(times[1:])
    assert times[0] <= times[1] * 1.05
    for each in found.candidates:
        check_job(each.job)
        assert each.job.global_batch == 256
        assert each.job.layout.gpus == 64
        assert each.peak_bytes <= SPEC.expected_usable_bytes


def test_a_verdict_does_not_promise_what_is_less_likely_than_not() -> None:
    # Every held-out peak lay 5 % above its prediction: within 2 % of the memory a job is expected to fit, and does not.
    known = replace(CALIBRATION, peak_ratios=dict.fromkeys(TrainingEvidence, (1.04, 1.05, 1.06)))
    peak_bytes = answer_training_memory(job(), SPEC, known).peak.expected
    gpu = replace(SPEC, memory_bytes=round(peak_bytes * 1.02), usable_bytes=round(peak_bytes * 1.02))
    answer = answer_training_memory(job(), gpu, known)
    assert answer.fits
    assert "more likely does not" in answer.verdict


@pytest.mark.parametrize(("room", "expected"), [(0.5, 0.01), (0.9, 0.25), (1.0, 0.5), (1.25, 0.875), (9.0, 0.99)])
def test_the_probability_to_fit_is_the_share_of_held_out_peaks_within_the_memory(room: float, expected: float) -> None:
    # Quantiles 0, 50 and 100 % of measured over predicted peaks: half of them at most 1, a quarter at most 0.9.
    known = replace(CALIBRATION, peak_ratios={TrainingEvidence.MEASURED: (0.8, 1.0, 4 / 3)})
    found = known.fit_probability(10.0, usable_bytes=10.0 * room, evidence=TrainingEvidence.MEASURED)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("ratios", [(), (1 / 1.2, 1.0, 1.2)])
def test_a_small_peak_fits_as_surely_as_its_wider_interval_says(ratios: tuple[float, ...]) -> None:
    # 20 % of the peak and 1.5 times 10 % of it more, in square: a factor of 1.25 where shares alone make 1.2
    widths = replace(CALIBRATION.widths, memory_bytes=1.5)
    quantiles = {TrainingEvidence.MEASURED: ratios} if ratios else {}
    known = replace(CALIBRATION, widths=widths, peak_ratios=quantiles)
    interval = widths.around_peak(10.0, TrainingEvidence.MEASURED)
    assert interval.high == pytest.approx(12.5)
    found = [
        known.fit_probability(10.0, usable_bytes=room, evidence=TrainingEvidence.MEASURED)
        for room in (interval.low, 10.0, interval.high)
    ]
    assert found == pytest.approx([0.01, 0.5, 0.99] if ratios else [0.05, 0.5, 0.95], abs=1e-4)


def test_without_quantiles_the_probability_to_fit_follows_from_the_interval() -> None:
    # A 90 % interval up to 1.2 times the expectation: 95 % of peaks lie below its upper end, half below its middle.
    found = [
        CALIBRATION.fit_probability(1.0, usable_bytes=room, evidence=TrainingEvidence.MEASURED)
        for room in (1 / 1.2, 1.0, 1.2)
    ]
    assert found == pytest.approx([0.05, 0.5, 0.95], abs=1e-4)


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ([(100, 0.70), (104, 0.85)], 104),  # 4 % dearer and 15 points safer
        ([(100, 0.70), (106, 0.99)], 100),  # more than 5 % dearer
        ([(100, 0.70), (101, 0.75)], 100),  # not clearly safer
        ([(100, 0.96), (101, 0.99)], 100),  # the cheapest is safe
        ([(100, 0.70), (103, 0.97), (104, 0.99)], 103),  # of two safe ones the cheaper
    ],
)
def test_a_clearly_safer_choice_is_preferred_at_five_percent_more(
    choices: list[tuple[float, float]], expected: float
) -> None:
    assert prefer_safer(choices, cost=lambda each: each[0], probability=lambda each: each[1])[0] == expected


def test_gradients_that_are_summed_before_they_are_shared_lie_whole_on_every_gpu() -> None:
    # litgpt sums the micro-batches of FSDP under no_sync: with four of them, 2 bytes a parameter instead of 2/4, as its
    # published peak of Llama 2 7B on four GPUs shows, which runs out of 24 GB.
    litgpt = find_framework("litgpt")
    layout = TrainingLayout(gpus=4, shard=Shard.ZERO3)
    once = job(framework=litgpt, states=litgpt.states, layout=layout)
    several = estimate_memory(replace(once, accumulation=4), MEMORY).tightest.gradients
    assert several == pytest.approx(4 * estimate_memory(once, MEMORY).tightest.gradients)


def test_a_widened_quantised_base_keeps_more_activations() -> None:
    # In fp32 outside of its products: a gated block keeps 4 instead of 2 bytes of each of its three outputs.
    trl = adapted(Method.QLORA, BaseFormat.NF4_DQ)
    plain = replace(trl, framework=replace(trl.framework, widens_quantised=False))
    kept = [estimate_memory(asked, MEMORY).tightest.activations for asked in (plain, trl)]
    per_token = (kept[1] - kept[0]) / (32 * trl.micro_tokens)
    # three outputs of 14336, two more readers of the attention's input and one of the block's, 2 bytes each
    assert per_token == pytest.approx(3 * 2 * 14336 + 2 * 2 * 4096 + 2 * 4096)


def test_what_a_4_bit_base_takes_beside_it_is_bounded() -> None:
    # bitsandbytes expands one matrix at a time: 2 bytes of 4096 × 28672 or 8192 × 57344 elements (gate and up together)
    found = []
    for name, layers in (("llama-3-8b-instruct", 4096 * 2 * 14336), ("llama-3-70b-instruct", 8192 * 2 * 28672)):
        asked = replace(adapted(Method.QLORA, BaseFormat.NF4_DQ), architecture=model(name))
        other = estimate_memory(replace(asked, base=BaseFormat.INT8), MEMORY).tightest.workspace
        found.append(estimate_memory(asked, MEMORY).tightest.workspace - other)
        assert found[-1] == pytest.approx(MEMORY.base_extra_bytes + 2 * layers)
    assert found[1] < 2**30 + MEMORY.base_extra_bytes


def test_a_sharded_base_is_not_widened_and_is_gathered_in_4_bits() -> None:
    # TRL's and axolotl's trainers skip the preparation of a sharded base. Two layers of 8B are gathered at a time, and
    # embedding and head are a half of 2 bytes each instead of a half of 4.
    alone = adapted(Method.QLORA, BaseFormat.NF4_DQ)
    shared = replace(alone, layout=TrainingLayout(gpus=2, shard=Shard.ZERO3))
    assert (alone.is_widened, shared.is_widened) == (True, False)
    layer = 4096 * (2 * 4096 + 2 * 1024) + 3 * 4096 * 14336 + 2 * 4096
    assert estimate_memory(shared, MEMORY).tightest.unsharded == pytest.approx(
        2 * layer * BaseFormat.NF4_DQ.bytes_per_parameter
    )
    matrices, others = 32 * (layer - 2 * 4096), 2 * 128256 * 4096 + (32 * 2 + 1) * 4096
    weights = [estimate_memory(asked, MEMORY).tightest.weights for asked in (alone, shared)]
    stored = BaseFormat.NF4_DQ.bytes_per_parameter * matrices
    assert weights[0] == pytest.approx(stored + 4 * others)
    assert weights[1] == pytest.approx((stored + 2 * others) / 2)


def test_an_optimizer_in_the_backward_pass_keeps_one_gradient() -> None:
    # torchtune's `optimizer_in_bwd`: of 16-bit gradients of 8B, the largest is that of the embedding
    tune = find_framework("torchtune")
    asked = job(framework=tune, states=States.PURE, layout=TrainingLayout(), optimizer_in_backward=True)
    assert estimate_memory(asked, MEMORY).tightest.gradients == pytest.approx(2 * 128256 * 4096, rel=1e-4)
    with pytest.raises(UsageError, match="cannot sum gradients"):
        check_job(replace(asked, accumulation=2))


def test_paged_states_leave_the_gpu_and_pass_the_bus_where_it_has_no_room() -> None:
    tune = find_framework("torchtune")
    asked = job(framework=tune, states=States.PURE, layout=TrainingLayout(), optimizer=OptimizerRecipe.PAGED_ADAMW_8BIT)
    outlook = estimate_memory(asked, MEMORY)
    assert (outlook.tightest.optimizer, outlook.tightest.paged) == (0.0, pytest.approx(2 * 8_030_261_248))
    needed = outlook.peak(MemoryScope.DEVICE)
    assert outlook.paged_out(needed + 1e12) == 0.0
    assert outlook.paged_out(needed + 10e9) == pytest.approx(2 * 8_030_261_248 - 10e9)
    assert outlook.paged_out(needed) == pytest.approx(outlook.tightest.paged)


def test_shared_gradients_are_offloaded_with_what_reads_them() -> None:
    # FSDP's CPUOffloadPolicy moves parameters, gradients and states; a layer's are whole for a moment
    layout = TrainingLayout(gpus=8, shard=Shard.ZERO3)
    both = frozenset({Offloaded.OPTIMIZER, Offloaded.PARAMETERS})
    plain, moved = (estimate_memory(job(layout=layout, offloaded=what), MEMORY) for what in (frozenset(), both))
    assert (moved.tightest.weights, moved.tightest.gradients, moved.tightest.optimizer) == (0.0, 0.0, 0.0)
    states = plain.tightest.weights + plain.tightest.gradients + plain.tightest.optimizer
    assert moved.tightest.host == pytest.approx(states)


def test_the_rate_of_attention_grows_with_the_sequence() -> None:
    # t = (F + R·c·F/k)/(a·R) with k keys a query, in the mean a half of the sequence: from 4,096 to 65,536 tokens the
    # time of a FLOP falls by (1 + R·c/2048)/(1 + R·c/32768), with R·c = 7e14 · 8e-13 = 560 keys
    found = []
    for length in (4096, 65536):
        asked = job(sequence_tokens=length, layout=TrainingLayout())
        work = step_work(asked, MACHINE)
        found.append(step_time(work, TIME, asked.framework.family).attention_s / work.attention_s)
    keys = MACHINE.half_flops_per_s * 8e-13
    assert found[0] / found[1] == pytest.approx((1 + keys / 2048) / (1 + keys / 32768))


def test_a_deadline_at_the_ends_of_the_interval_is_kept_in_one_and_in_nineteen_of_twenty_runs() -> None:
    step = Interval(low=0.8, expected=1.0, high=1.3)
    reliability = RunReliability(hours_between_failures=1e12)
    run = plan_run(job(), step_s=step, tokens=1e9, reliability=reliability, campaign=CALIBRATION.campaign)
    found = [run.wall_s.probability_within(time_s) for time_s in (run.wall_s.low, run.wall_s.expected, run.wall_s.high)]
    assert found == pytest.approx([0.05, 0.5, 0.95], abs=1e-4)  # 1.645 deviations are rounded


def test_storage_grows_with_the_servers_and_checkpoints_may_be_written_beside_the_job() -> None:
    def run(gpus: int, **stated: object) -> TrainingRun:
        asked = job(layout=TrainingLayout(gpus=gpus, shard=Shard.ZERO3))
        reliability = RunReliability(**stated)  # type: ignore[arg-type]  # named by each call
        step, campaign = Interval.exact(10.0), CALIBRATION.campaign
        return plan_run(asked, step_s=step, tokens=1e12, reliability=reliability, campaign=campaign)

    # Llama 3: 2 TB/s for 16,384 GPUs, 1 GB/s of eight
    assert run(16_384).storage_bytes_per_s == pytest.approx(2e12, rel=0.03)
    assert run(8).storage_bytes_per_s == 1e9
    # 14 bytes × 8.03 B at 1 GB/s are 112 s; copied to the host at 0.82 × 32 GB/s by eight GPUs they are half a second
    waiting, beside = run(8), run(8, asynchronous=True)
    assert beside.checkpoints_s < waiting.checkpoints_s / 5
    assert beside.checkpoint_interval_s >= 112
    assert beside.wall_s.expected < waiting.wall_s.expected
    for found in (waiting, beside):
        assert found.ideal_s + found.checkpoints_s + found.restarts_s == pytest.approx(found.wall_s.expected)
        assert found.campaign_s.expected == pytest.approx(max(1.2 * found.ideal_s, found.wall_s.expected))
        assert found.campaign_s.high > found.wall_s.high


def test_every_product_of_a_micro_batch_takes_half_a_wave_of_tiles_more() -> None:
    # The same tokens in two micro-batches: a weight's forward product and its input's gradient end once more, half
    # a wave of 100 multiprocessors' tiles of 128 × 256 later. Waves of its own gradient are half as deep, twice.
    whole, halved = job(sequence_tokens=8192), job(sequence_tokens=4096, accumulation=2)
    times = [step_time(step_work(each, MACHINE), TIME, each.framework.family).products_s for each in (whole, halved)]
    # inputs and outputs of q, k, v, o, the gate with the up projection, and down
    sides = 32 * (8192 + 2 * (4096 + 1024) + 8192 + (4096 + 2 * 14336) + (14336 + 4096))
    assert times[1] - times[0] == pytest.approx(0.5 * 2 * 100 * 128 * 256 * sides / (0.8 * 7e14))


def test_gradients_of_deepspeeds_bf16_optimizer_are_summed_in_fp32_beside_themselves() -> None:
    # DeepSpeed's BF16_Optimizer under ZeRO-1: weights 2, gradients 2 and their fp32 sums 4 whole, 12 shared by 8 ranks;
    # its fp16 optimizer: weights 2, gradients 2, 16 shared. bigscience's chronicle: 44 GiB before, 65 to 67 GiB after.
    layout = TrainingLayout(gpus=8, shard=Shard.ZERO1)
    asked = job(framework=find_framework("megatron-deepspeed"), states=States.MASTER, layout=layout)
    assert bytes_per_parameter(asked, ranks=8) == 8 + 12 / 8
    assert bytes_per_parameter(replace(asked, compute=Compute.FP16), ranks=8) == 4 + 16 / 8


def test_deepspeeds_pipeline_keeps_the_input_and_the_output_of_a_stage() -> None:
    # 4 stages, 64 micro-batches: 4 in flight on the first one, each with two tensors of 4096 tokens × 4096 × 2 bytes
    kept = [
        estimate_memory(
            job(
                framework=find_framework(name),
                states=States.MASTER,
                layout=TrainingLayout(gpus=4, pipeline=4),
                recompute=Recompute.FULL,
                accumulation=64,
            ),
            MEMORY,
        )
        .stages[0]
        .activations
        for name in ("megatron", "megatron-deepspeed")
    ]
    assert kept[1] - kept[0] == pytest.approx(4 * 2 * 4096 * 4096 * 2)


def test_tensor_parallel_traffic_that_waits_is_felt_whole() -> None:
    layout = TrainingLayout(gpus=8, tensor=8)
    hidden, felt = (
        step_time(
            step_work(job(framework=find_framework(name), layout=layout), MACHINE), TIME, find_framework(name).family
        ).tensor_s
        for name in ("megatron", "torchtitan")
    )
    assert hidden == pytest.approx(0.7 * felt)


def test_maxtext_computes_layers_again_by_default() -> None:
    xla = find_framework("maxtext")  # base.yml of MaxText: remat_policy: 'full'
    assert usual_recompute(job(framework=xla), SPEC, CALIBRATION).recompute is Recompute.FULL


@pytest.mark.parametrize("limit", ["deadline_s", "budget_usd"])
@pytest.mark.slow
def test_a_tighter_limit_is_never_cheaper(limit: str) -> None:
    offers = {"gpu": (rented(2.0, gpus=8, joined=8, networked=True),)}

    def usd(**limits: float) -> float:
        plan = plan_training(
            job(), gpus=[SPEC], asked=PlanConstraints(counts=(8, 16, 32), global_batch=256, **limits),
            terms=RunTerms(dataset=Dataset(tokens=1e10)), offers=offers, calibration=CALIBRATION,
            laws=load_rate_laws(), law=load_power_law(),
        )  # fmt: skip
        cheapest = plan.cheapest
        return cheapest.usd.expected if cheapest is not None and cheapest.usd is not None else float("inf")

    free = usd()
    spent = [usd(**{limit: factor * (free if limit == "budget_usd" else 3 * 86_400)}) for factor in (4, 1, 0.5, 0.1)]
    assert spent[0] < float("inf")
    assert [free, *spent] == sorted([free, *spent])
    assert spent[-1] == float("inf")


def test_experts_are_spread_by_a_search() -> None:
    asked = replace(job(framework=find_framework("megatron")), architecture=model("qwen3-30b-a3b"))
    found = search_layouts(asked, MACHINE, gpus=16, global_batch=64, calibration=CALIBRATION)
    assert found.best is not None
    assert found.best.job.layout.expert > 1  # 30 B parameters with 16 bytes each do not fit on 80 GiB otherwise


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        (TrainingLayout(gpus=12, tensor=8), "12 GPUs are not a multiple of tp × pp × cp = 8"),
        (TrainingLayout(gpus=64, pipeline=64), "64 pipeline chunks are more than 32 layers"),
        (TrainingLayout(gpus=8, expert=8), "has no experts, so ⟨ep⟩ 8 does nothing"),
        (TrainingLayout(gpus=12, context=3), "⟨cp⟩ 3 does not divide sequences of 4096 tokens"),
        (TrainingLayout(gpus=8, shard_group=3), "⟨shard-group⟩ 3 does not divide the 8 ranks"),
    ],
)
def test_impossible_layouts_are_refused_in_a_sentence(layout: TrainingLayout, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_job(job(layout=layout))


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="torchtitan"):
        find_framework("torchtitam")
    with pytest.raises(UsageError, match="names no matrix"):
        adapter_targets(["q_pro"])


@pytest.mark.parametrize("name", [framework.name for framework in FRAMEWORKS if framework.launch])
def test_a_configuration_holds_the_batch_and_the_length(name: str) -> None:
    asked = job(framework=find_framework(name), micro_batch=3, sequence_tokens=2047)
    written = launched(asked)
    assert written is not None
    assert "2047" in written
    assert "3" in written


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("megatron", "--fp16"),
        ("axolotl", "fp16: true"),
        ("hf-trainer", "mixed_precision: fp16"),
        ("trl", "fp16: true\n"),
    ],
)
def test_a_job_in_fp16_is_written_as_such(name: str, words: str) -> None:
    written = launched(job(framework=find_framework(name), compute=Compute.FP16))
    assert written is not None
    assert words in written
    assert "bf16" not in written


def test_axolotl_loads_a_base_of_eight_bits_as_such() -> None:
    written = launched(replace(adapted(Method.LORA, BaseFormat.INT8), framework=find_framework("axolotl")))
    assert written is not None
    assert "load_in_8bit: true" in written


def test_a_pipeline_of_torchtitan_gets_all_of_its_micro_batches_at_once() -> None:
    # torchtitan 0.3: the local batch is divided into pipeline micro-batches, of which 1F1B needs at least one a stage
    layout = TrainingLayout(gpus=8, pipeline=4)
    written = launched(job(layout=layout, micro_batch=2, accumulation=16))
    assert written is not None
    assert "--training.local_batch_size 32 " in written
    assert "--parallelism.pipeline_parallel_microbatch_size 2 " in written
    assert "--training.global_batch_size 64 " in written  # two data-parallel ranks


def test_linear_layers_of_transformer_engine_keep_fp8_inputs() -> None:
    # Per token and layer in bytes: the inputs of qkv (4096), of gate and up (4096) and of down (14336) in one byte
    # instead of two; attention keeps its output (4096) in two, beside one more that the next layer reads.
    megatron = find_framework("megatron")
    kept = [
        estimate_memory(job(framework=megatron, states=megatron.states, compute=compute), MEMORY).tightest.activations
        for compute in (Compute.BF16, Compute.FP8)
    ]
    assert kept[0] - kept[1] == pytest.approx(32 * 4096 * (4096 + 4096 + 14336 - 4096))


def test_a_pipeline_of_fsdp_keeps_parameters_gathered_and_gradients_whole() -> None:
    # torch.distributed.pipelining: no resharding and no sharing of gradients until a stage's last micro-batch. 2 bytes
    # gathered and 4 of fp32 gradients whole, beside 4 + 4 + 8 over two ranks.
    layout = TrainingLayout(gpus=4, pipeline=2, shard=Shard.ZERO3)
    tightest = estimate_memory(job(layout=layout, accumulation=8), MEMORY).tightest
    states = tightest.weights + tightest.gradients + tightest.optimizer
    assert tightest.unsharded == pytest.approx(6 * states / (16 / 2))


def test_fsdp_that_keeps_parameters_gathered_holds_them_whole_and_gathers_them_once() -> None:
    # reshard_after_forward false: 2 bytes of every parameter stand gathered, and the gradients of the largest unit (the
    # embedding and the head of Llama 3 8B, 2 x 128256 x 4096) in 16 bits; without it, beside the root two layers of
    # 218,112,000 parameters. A step gathers once instead of twice, and scatters as before: 2 + 3 of 4 + 3 bytes.
    plain = job(layout=TrainingLayout(gpus=8, shard=Shard.ZERO3))
    kept = job(layout=TrainingLayout(gpus=8, shard=Shard.ZERO3, keep_gathered=True))
    root = 2 * 128_256 * 4096
    held = [estimate_memory(each, MEMORY).tightest.unsharded for each in (plain, kept)]
    assert held[0] == pytest.approx(2 * (root + 2 * 218_112_000) + 2 * root, rel=1e-5)
    assert held[1] == pytest.approx(2 * 8_030_261_248 + 2 * root)
    passed = [step_work(each, MACHINE).shard_s for each in (plain, kept)]
    assert passed[1] / passed[0] == pytest.approx(5 / 7)


def test_frameworks_share_only_what_they_can() -> None:
    # torchtitan replicates or shards by FSDP; torchtune's distributed recipes always shard; Megatron has ZeRO-1.
    def shards(name: str) -> set[Shard]:
        framework = find_framework(name)
        asked = job(framework=framework, states=framework.states)
        return {layout.shard for layout in layouts(asked, MACHINE, gpus=8) if layout.data > 1}

    assert shards("torchtitan") == {Shard.NONE, Shard.ZERO3}
    assert shards("torchtune") == {Shard.ZERO3}
    assert shards("megatron") == {Shard.ZERO1}
    assert shards("deepspeed") == {Shard.ZERO1, Shard.ZERO2, Shard.ZERO3}


def test_trainers_get_the_words_of_trls_scripts() -> None:
    # trl 1.16, ModelConfig and SFTConfig; transformers' OptimizerNames; nested quantisation is double quantisation
    trl = find_framework("trl")
    written = launched(replace(adapted(Method.QLORA, BaseFormat.NF4_DQ), optimizer=OptimizerRecipe.PAGED_ADAMW_8BIT))
    assert written is not None
    for words in (
        "load_in_4bit: true\nuse_bnb_nested_quant: true\n",
        "optim: paged_adamw_8bit\n",
        "dtype: bfloat16\n",
        "use_peft: true\n",
    ):
        assert words in written
    assert "gradient_checkpointing: false" in written  # SFTConfig's default is True
    full = launched(job(framework=trl, states=trl.states, recompute=Recompute.FULL))
    assert full is not None
    assert "gradient_checkpointing: true" in full
    assert "\ndtype:" not in full  # autocast keeps weights in fp32, TRL's default
    assert "use_peft" not in full


def test_what_is_offloaded_is_written_for_every_framework() -> None:
    # torchtitan 0.3, torchtune 0.6.1, accelerate 1.15 (FSDP 2 and DeepSpeed), axolotl 0.19, Megatron-Core 0.16
    words = {
        "torchtitan": "--training.enable_cpu_offload",
        "torchtune": "fsdp_cpu_offload=True",
        "trl": "fsdp_offload_params: true",
        "deepspeed": "offload_optimizer_device: cpu",
        "axolotl": "offload_params: true",
        "megatron": "--optimizer-cpu-offload",
    }
    for name, expected in words.items():
        written = launched(job(framework=find_framework(name), offloaded=frozenset({Offloaded.OPTIMIZER})))
        assert written is not None
        assert expected in written, name


def test_megatron_is_told_the_model() -> None:
    # slime's scripts/models/qwen3-30B-A3B.sh, read 2026-11-27, for Megatron-LM: its arguments of the same model
    found = find_in_catalogue("qwen3-30b-a3b")
    assert found is not None
    megatron = find_framework("megatron")
    written = launched(job(architecture=found.architecture, framework=megatron, states=megatron.states))
    assert written is not None
    for words in (
        "--num-layers 48", "--hidden-size 2048", "--num-attention-heads 32", "--num-query-groups 4",
        "--kv-channels 128", "--vocab-size 151936", "--untie-embeddings-and-output-weights", "--disable-bias-linear",
        "--normalization RMSNorm", "--qk-layernorm", "--moe-ffn-hidden-size 768", "--moe-router-topk 8",
        "--num-experts 128", "--moe-grouped-gemm", "--moe-token-dispatcher-type alltoall",
    ):  # fmt: skip
        assert f"{words} " in written.replace("\n", " "), words
    # DeepSeek-V3's report: three dense layers before 58 of experts
    deepseek = find_in_catalogue("deepseek-v3")
    assert deepseek is not None
    written = launched(job(architecture=deepseek.architecture, framework=megatron, states=megatron.states))
    assert written is not None
    assert f"--moe-layer-freq '[{','.join(['0'] * 3 + ['1'] * 58)}]'" in written


def test_servers_of_one_job_meet_at_the_first() -> None:
    # PyTorch's torchrun and accelerate's launcher: ranks come from a rendezvous, or each server is told its own
    words = {
        "torchtitan": '--rdzv-backend c10d --rdzv-endpoint "$MASTER_ADDR:29500"',
        "trl": "--machine_rank $NODE_RANK --main_process_ip $MASTER_ADDR",
    }
    for name, expected in words.items():
        written = [launched(job(framework=find_framework(name), layout=TrainingLayout(gpus=gpus))) for gpus in (8, 16)]
        assert [expected in str(text) for text in written] == [False, True], name


def test_deepspeed_shards_by_its_own_stages() -> None:
    deepspeed = find_framework("deepspeed")
    written = launched(job(framework=deepspeed, states=deepspeed.states))
    assert written is not None
    assert "distributed_type: DEEPSPEED" in written
    assert "zero_stage: 3" in written
    assert "fsdp" not in written


def test_adapters_of_every_matrix_count_gate_and_up_apart() -> None:
    # Llama-3-8B, rank 1: q 4096+4096, k and v 4096+1024, o 8192, gate and up 4096+14336 each, down 14336+4096
    per_layer = 8192 + 2 * 5120 + 8192 + 2 * 18432 + 18432
    assert adapter_parameters(model(), Adapter(rank=1)) == 32 * per_layer


def test_a_run_in_several_machines_needs_their_network() -> None:
    # SPEC is a module of a board of eight: eight GPUs fill a machine, sixteen take two.
    single, board = rented(1.0), rented(2.0, gpus=8, joined=8)
    cluster = rented(3.0, gpus=8, joined=8, networked=True)
    assert run_offer([single, board, cluster], SPEC, gpus=1) == single
    assert run_offer([single, board, cluster], SPEC, gpus=8) == board
    assert run_offer([single, board, cluster], SPEC, gpus=16) == cluster
    assert run_offer([single, board], SPEC, gpus=16) is None
    stated = run_offer([single, board], SPEC, gpus=16, network_bytes_per_s=50e9)
    assert stated is not None
    assert (stated.instance_gpus, stated.server.network_bytes_per_s) == (8, 50e9)


def test_a_constant_of_peaks_matters_to_small_models_alone() -> None:
    # a share of 1.2 and a constant of 0.9 GB are independent: 2 GB may be √(0.4² + 0.9²) more, 80 GB √(16² + 0.9²)
    widths = replace(CALIBRATION.widths, memory_bytes=0.9e9)
    small, large = (widths.around_peak(size, TrainingEvidence.MEASURED) for size in (2e9, 80e9))
    assert small.high == pytest.approx(2e9 + 0.985e9, rel=1e-3)
    assert small.low == pytest.approx(2e9 / (1 + 0.985 / 2), rel=1e-3)
    assert large.high == pytest.approx(80e9 + 16.025e9, rel=1e-4)
