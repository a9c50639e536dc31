"""The stepped loop against cases that can be worked out by hand."""

import numpy as np
import pytest

from capplan.core.numbers import FloatArray
from capplan.llm.core.serving.closed_loop import ClosedLoop, simulate


def constant(decode_s: float, token_s: float) -> object:
    """Return the time of a step that takes `decode_s`, and `token_s` more for every prompt token."""

    def seconds(running: FloatArray, chunk: FloatArray) -> FloatArray:
        return np.asarray(decode_s + token_s * chunk + 0.0 * running)

    return seconds


def loop(clients: int = 1, waves: int = 10, **changes: object) -> ClosedLoop:
    values: dict[str, object] = {
        "clients": clients,
        "requests": clients * waves,
        "input_len": 100.0,
        "output_len": 11.0,
        "spread": 0.0,
        "capacity": 1000.0,
        "token_budget": 8192.0,
        "mixes": True,
    }
    return ClosedLoop(**{**values, **changes})  # type: ignore[arg-type]


def test_one_client_waits_for_its_prompt_and_then_one_step_a_token() -> None:
    times = simulate(loop(), constant(0.01, 0.001))  # type: ignore[arg-type]
    assert times.first_wave_ttft_s == pytest.approx(0.01 + 100 * 0.001)
    assert times.later_ttft_s == pytest.approx(0.11)
    assert times.tpot_s == pytest.approx(0.01)


def test_a_long_prompt_takes_several_steps() -> None:
    # 100 tokens at 40 a step: steps of 40, 40 and 20
    times = simulate(loop(token_budget=40.0), constant(0.01, 0.001))  # type: ignore[arg-type]
    assert times.first_wave_ttft_s == pytest.approx(3 * 0.01 + 0.1)


def test_requests_beyond_what_fits_wait_for_a_whole_answer() -> None:
    # two clients, room for one: the second waits for the first's prompt (0.11 s) and ten further tokens (0.1 s)
    times = simulate(loop(clients=2, capacity=1.0, waves=1), constant(0.01, 0.001))  # type: ignore[arg-type]
    assert times.first_wave_ttft_s == pytest.approx((0.11 + 0.11 + 0.10 + 0.11) / 2)
    assert times.queue_s == pytest.approx((0.11 + 0.10) / 2)


def test_a_wait_for_the_token_budget_is_none_for_memory() -> None:
    times = simulate(loop(clients=4, token_budget=100.0, waves=2), constant(0.01, 0.001))  # type: ignore[arg-type]
    assert times.first_wave_ttft_s > 0.11
    assert times.queue_s == 0.0


def test_prompts_run_alone_stop_the_others() -> None:
    # the second prompt needs its own step of 0.06 s, during which the first gives no token: 10 tokens in 0.16 s
    times = simulate(
        loop(clients=2, token_budget=100.0, mixes=False, waves=1, input_len=100.0),
        constant(0.01, 0.0005),  # type: ignore[arg-type]
    )
    assert times.tpot_s == pytest.approx(((0.10 + 0.06) / 10 + 0.10 / 10) / 2)


def test_as_many_tokens_come_out_as_littles_law_demands() -> None:
    asked = loop(clients=16, spread=0.1, output_len=50.0, waves=12)
    times = simulate(asked, constant(0.01, 0.0001))  # type: ignore[arg-type]
    # every request waits for its first token and then for 49 more; sixteen are in the loop at any time
    cycle_s = times.mean_ttft_s(12) + 49 * times.tpot_s
    # a step costs 0.01 s and each request 100 tokens' prompt time; per request a sixteenth of 50 steps and its prompt
    assert 16 / cycle_s == pytest.approx(1 / (50 * 0.01 / 16 + 100 * 0.0001), rel=0.05)


def test_more_clients_never_wait_less() -> None:
    waits = [
        simulate(loop(clients=clients), constant(0.01, 0.001)).first_wave_ttft_s  # type: ignore[arg-type]
        for clients in (1, 2, 4, 8)
    ]
    assert waits == sorted(waits)


def test_a_request_that_comes_during_a_step_misses_the_next_one() -> None:
    # Room for 101 tokens a step, of which a decoding client takes one. A's last token comes in step 11, B's in step 12.
    # Seen at once: A's second prompt runs in step 12 beside B, and B's in step 13 beside A, 0.11 s each.
    # Seen a step later: A's waits for step 12 (0.01 s) and runs in step 13 with one token of B's (0.111 s), which was
    # sent after step 12; B's other 99 run in step 14 (0.109 s).
    common = {"clients": 2, "token_budget": 101.0, "waves": 2}
    at_once, late = (
        simulate(loop(**common, arrival_steps=steps), constant(0.01, 0.001))  # type: ignore[arg-type]
        for steps in (0, 1)
    )
    assert at_once.later_ttft_s == pytest.approx(0.11)
    assert late.later_ttft_s == pytest.approx((0.121 + 0.220) / 2)


def test_a_token_that_is_returned_after_the_next_step_comes_that_much_later() -> None:
    # prompt 0.11 s, then the step after it 0.01 s; the last token waits for nothing, because no step follows
    times = simulate(loop(return_steps=1, waves=1), constant(0.01, 0.001))  # type: ignore[arg-type]
    assert times.first_wave_ttft_s == pytest.approx(0.12)
    assert times.tpot_s == pytest.approx((0.21 - 0.12) / 10)


def test_the_newest_is_evicted_and_computed_again_where_memory_is_full() -> None:
    # Memory for 1.9 · 111 = 210.9 tokens. Both prompts take 200 (0.21 s); five steps later 210 are held, and a sixth
    # would need 212: B is evicted with six tokens given. A ends at 0.21 + 10 · 0.01 = 0.31 s. Then B's 106 tokens are
    # computed again (0.116 s, its seventh token), and four steps follow: 0.466 s.
    times = simulate(loop(clients=2, capacity=1.9, waves=1, evicts=True), constant(0.01, 0.001))  # type: ignore[arg-type]
    assert times.first_wave_ttft_s == pytest.approx(0.21)
    assert times.tpot_s == pytest.approx(((0.31 - 0.21) / 10 + (0.466 - 0.21) / 10) / 2)


def test_more_run_where_memory_need_not_be_kept_for_whole_answers() -> None:
    # memory for two whole answers of 110 tokens and prompts of 10 holds more requests while they are short
    asked = {"clients": 4, "capacity": 2.0, "input_len": 10.0, "output_len": 100.0, "spread": 0.1, "waves": 4}
    kept = simulate(loop(**asked), constant(0.01, 0.0))  # type: ignore[arg-type]
    by_need = simulate(loop(**asked, evicts=True), constant(0.01, 0.0))  # type: ignore[arg-type]
    assert by_need.mean_ttft_s(4) < 0.8 * kept.mean_ttft_s(4)


def test_clients_that_drift_apart_do_not_send_their_prompts_together() -> None:
    # together: both prompts in one step of 0.21 s; a step or two apart: each in a step of its own of 0.11 s
    together, apart = (
        simulate(loop(clients=2, waves=2, drifts=drifts), constant(0.01, 0.001))  # type: ignore[arg-type]
        for drifts in (False, True)
    )
    assert together.later_ttft_s == pytest.approx(0.21)
    assert apart.later_ttft_s == pytest.approx(0.11)


def test_a_burst_of_more_than_fits_ends_when_its_last_wave_does() -> None:
    # memory for two of four: each pair takes a step for its prompts and ten for its other tokens, 0.11 s
    times = simulate(loop(clients=4, capacity=2.0, waves=1), constant(0.01, 0.0))  # type: ignore[arg-type]
    assert times.span_s == pytest.approx(0.22)
    assert times.first_wave_ttft_s == pytest.approx((0.01 + 0.12) / 2)


def test_a_burst_of_uneven_answers_takes_as_long_as_its_longest() -> None:
    # 500 log-normal answers with a deviation of their mean: the longest lies near e^(0.83·3.0 − 0.35) = 8.6 means
    asked = {"clients": 500, "waves": 1, "output_len": 100.0}
    even = simulate(loop(**asked), constant(0.01, 0.0))  # type: ignore[arg-type]
    uneven = simulate(loop(**asked, cv=1.0), constant(0.01, 0.0))  # type: ignore[arg-type]
    assert 5 < uneven.span_s / even.span_s < 14
