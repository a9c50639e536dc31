"""Requests that are turns of conversations: worked out by hand, and against conversations that are drawn."""

import numpy as np
import pytest

from capplan.errors import UsageError
from capplan.llm.core.fleet.token_load import TokenLoad, in_conversations
from capplan.llm.core.simulation.arrivals import Sessions, session_arrivals

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
