"""Requests that are turns of conversations: worked out by hand, and against conversations that are drawn."""

import numpy as np
import pytest

from capplan.errors import UsageError
from capplan.llm.core.fleet.token_load import TokenLoad, in_conversations
from capplan.llm.core.simulation.arrivals import Sessions, session_arrivals
from capplan.verbs.llm.plan import answer_llm_plan
from capplan.verbs.llm.plan_question import LlmPlanQuestion
from capplan.verbs.statement.local import LocalContext

MESSAGE = TokenLoad(rate_per_s=2.0, input_len=200, output_len=300)
TEN = Sessions(turns=10, period_s=60.0)


def test_prompts_hold_what_was_said_before() -> None:
    # before the ten turns stand 0, 500, ... 4500 tokens: 2250 in the mean, all of which the cache may hold
    load = in_conversations(MESSAGE, TEN)
    assert load.input_len == 2450
    assert load.prefix_len == pytest.approx(2250)
    assert load.input_cv == pytest.approx(np.std(np.arange(10) * 500 + 200) / 2450)
    assert load.cached_len == 2450 + 300  # a conversation's own: nobody shares it


def test_drawn_conversations_have_these_prompts() -> None:
    drawn = session_arrivals(TEN, rate_per_s=2.0, count=20_000, lengths=MESSAGE.lengths, longest=1e9)
    assert in_conversations(MESSAGE, TEN).input_len == pytest.approx(drawn.prompts.mean(), rel=0.01)


def test_what_the_cache_holds_is_stated_once() -> None:
    shared = TokenLoad(rate_per_s=2.0, input_len=200, output_len=300, prefix_fraction=0.5)
    with pytest.raises(UsageError, match="leave one out"):
        in_conversations(shared, TEN)


@pytest.mark.slow
@pytest.mark.parametrize(("rate_per_s", "kept"), [(2.0, False), (0.1, True)])
def test_a_plan_loses_the_hits_that_a_cache_cannot_keep(rate_per_s: float, kept: bool) -> None:
    """Least recently used blocks leave: where more waits than the cache holds, a conversation that returns finds none.

    A replica on an L40S keeps about 76 conversations of 2,250 tokens; at 2 a second 240 are alive, at 0.1 twelve.
    """
    stated = LlmPlanQuestion(
        model="qwen3-8b", gpus=("l40s",), engines=("vllm",), tp=(1,), rate_per_s=rate_per_s, input_len=200,
        output_len=300, turns=8, turn_period_s=120.0,
    )  # fmt: skip
    load = answer_llm_plan(stated, LocalContext()).plan.load
    # (n - 1) / 2 · 500 tokens of 1,950 were said before: 90 %
    assert load.prefix_fraction == pytest.approx(1750 / 1950 if kept else 0.0, abs=0.05)
