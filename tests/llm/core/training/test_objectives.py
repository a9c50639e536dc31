"""What preference tuning and reinforcement learning add to a job, derived by hand."""

from dataclasses import replace

import pytest

from capplan.errors import UsageError
from capplan.llm.core.training.estimate import objective_step
from capplan.llm.core.training.frameworks import States
from capplan.llm.core.training.job import Method, OptimizerRecipe, Recompute, Shard, TrainingLayout, check_job
from capplan.llm.core.training.memory import estimate_memory
from capplan.llm.core.training.objective import OBJECTIVES, UNMODELLED, Objective
from tests.llm.core.training.test_laws import adapted, job
from tests.llm.core.training.training_cases import MACHINE, MEMORY, TIME

PARAMETERS = 8_030_261_248
"""Llama 3 8B."""
ALONE = job(layout=TrainingLayout(), states=States.PURE, recompute=Recompute.FULL, compiled=False)


def of(objective: Objective, **changes: object) -> "tuple[float, float, float, float]":
    """Return weights, frozen models, gradients and optimizer states of a job of Llama 3 8B on one GPU. [bytes]"""
    asked = replace(ALONE, objective=objective, completion_tokens=512, **changes)  # type: ignore[arg-type]
    found = estimate_memory(asked, MEMORY).tightest
    return found.weights, found.frozen, found.gradients, found.optimizer


def test_dpo_keeps_a_frozen_copy_of_the_model_and_adapters_have_it_under_them() -> None:
    # 16-bit weights, 2 bytes a parameter, twice; gradients 2 and AdamW's moments 4 in pure 16 bits, of the policy alone
    weights, frozen, gradients, optimizer = of(Objective.DPO)
    assert weights == frozen == pytest.approx(2 * PARAMETERS)
    assert (gradients, optimizer) == pytest.approx((2 * PARAMETERS, 4 * PARAMETERS))
    lora = replace(adapted(Method.LORA, ALONE.base), objective=Objective.DPO)
    assert estimate_memory(lora, MEMORY).tightest.frozen == 0
    shared = replace(ALONE, objective=Objective.DPO, layout=TrainingLayout(gpus=8, shard=Shard.ZERO3))
    assert estimate_memory(shared, MEMORY).tightest.frozen == pytest.approx(2 * PARAMETERS / 8)


def test_ppo_holds_four_models_two_of_which_are_trained() -> None:
    # InstructGPT (arXiv 2203.02155): policy and value are trained, reference and reward model are not.
    weights, frozen, gradients, optimizer = of(Objective.PPO)
    assert weights == pytest.approx(2 * 2 * PARAMETERS)
    assert frozen == pytest.approx(2 * 2 * PARAMETERS)
    assert (gradients, optimizer) == pytest.approx((2 * 2 * PARAMETERS, 2 * 4 * PARAMETERS))


@pytest.mark.parametrize("objective", [Objective.REWARD, Objective.DPO, Objective.ORPO, Objective.SIMPO])
def test_a_pair_is_two_sequences(objective: Objective) -> None:
    pair = replace(ALONE, objective=objective, micro_batch=3)
    assert pair.step_tokens == 2 * replace(pair, objective=Objective.SFT).step_tokens
    kept = [estimate_memory(asked, MEMORY).tightest.activations for asked in (pair, replace(pair, micro_batch=6))]
    same = estimate_memory(replace(ALONE, micro_batch=6), MEMORY).tightest.activations
    assert kept[0] == pytest.approx(same)
    assert kept[1] == pytest.approx(2 * kept[0])


def test_scores_need_no_logits_and_generated_samples_those_of_what_was_generated() -> None:
    sft = objective_step(ALONE, MACHINE, TIME).loss_s
    assert objective_step(replace(ALONE, objective=Objective.REWARD), MACHINE, TIME).loss_s == 0
    generated = replace(ALONE, objective=Objective.GRPO, completion_tokens=ALONE.sequence_tokens // 4)
    assert objective_step(generated, MACHINE, TIME).loss_s == pytest.approx(sft / 4)


def test_the_pass_of_a_reference_takes_a_third_of_forward_and_backward() -> None:
    # 2 FLOPs a parameter and token forward, 4 backward; attention 1 of 1 + 2.5 passes
    dpo = objective_step(replace(ALONE, objective=Objective.DPO, recompute=Recompute.NONE), MACHINE, TIME)
    trained = dpo.products_s / 3 + dpo.attention_s / 3.5 + dpo.pointwise_s / 3
    assert dpo.frozen_s == pytest.approx(trained, rel=0.05)
    assert objective_step(ALONE, MACHINE, TIME).frozen_s == 0


def test_ppo_updates_policy_and_value_four_times_a_sample() -> None:
    sft, ppo = (
        objective_step(replace(ALONE, objective=objective, completion_tokens=512), MACHINE, TIME)
        for objective in (Objective.SFT, Objective.PPO)
    )
    assert ppo.optimizer_s == pytest.approx(4 * 2 * sft.optimizer_s)
    assert ppo.frozen_s > 0


def test_a_completion_is_part_of_its_sequence() -> None:
    with pytest.raises(UsageError, match="must be below the 4096 tokens"):
        check_job(replace(ALONE, objective=Objective.GRPO, completion_tokens=4096))
    check_job(replace(ALONE, objective=Objective.GRPO, completion_tokens=4095))


@pytest.mark.parametrize("word", sorted(UNMODELLED))
def test_what_is_not_estimated_is_refused_by_its_name(word: str) -> None:
    for kind in (Method, Objective, OptimizerRecipe):
        with pytest.raises(UsageError, match="is not estimated; known are"):
            kind(word)


def test_every_objective_says_where_its_parts_were_read() -> None:
    assert set(OBJECTIVES) == set(Objective)
    assert all(parts.source for objective, parts in OBJECTIVES.items() if objective is not Objective.SFT)
    with pytest.raises(UsageError, match="dpo is an objective"):
        Method("dpo")
