"""The stepped loop against cases that can be worked out by hand."""

import numpy as np
import pytest

from capplan.core.llm.serving.closed_loop import ClosedLoop, simulate
from capplan.core.numbers import FloatArray


def constant(decode_s: float, token_s: float) -> object:
    """Return the time of a step that takes `decode_s`, and `token_s` more for every prompt token."""

    def seconds(running: FloatArray, chunk: FloatArray) -> FloatArray:
        return np.asarray(decode_s + token_s * chunk + 0.0 * running)

    return seconds


def loop(**changes: object) -> ClosedLoop:
    values: dict[str, object] = {
        "clients": 1,
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
