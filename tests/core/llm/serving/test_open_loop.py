"""An open load against queueing theory where it is exact, and laws of continuous batching."""

import numpy as np
import pytest

from capplan.core.llm.serving.load_answer import LatencyLimits, summarise
from capplan.core.llm.serving.open_loop import Admission, Arrivals, Lengths, random_arrivals, simulate_open

ONE_AT_A_TIME = Admission(capacity=1, token_budget=8192, mixes=True)


def constant(step_s):
    return lambda running, chunk: np.full_like(running, step_s)


def arrivals(at_s, prompts, answers):
    return Arrivals(
        at_s=np.array(at_s, float), prompts=np.array(prompts, float), answers=np.array(answers, dtype=np.int64)
    )


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_one_sequence_at_a_time_is_the_queue_m_d_1(load):
    # A prompt of one step and no further token takes S = 1 s; Pollaczek and Khinchine: the mean wait of M/D/1 is
    # rho S / (2 (1 - rho)), so that the time to the first token is that plus S.
    drawn = random_arrivals(rate_per_s=load, count=60_000, lengths=Lengths(input_len=100, output_len=1))
    times = simulate_open(drawn, ONE_AT_A_TIME, constant(1.0))
    assert times.ttft_s.mean() == pytest.approx(1 + load / (2 * (1 - load)), rel=0.05)


def test_a_lone_request_takes_its_prefill_and_a_step_per_further_token():
    # Prefill step 2 s, each of nine further tokens 0.5 s.
    times = simulate_open(
        arrivals([0.0], [100], [10]), ONE_AT_A_TIME, lambda running, chunk: np.where(chunk > 0, 2.0, 0.5)
    )
    assert times.ttft_s[0] == pytest.approx(2.0)
    assert times.e2e_s[0] == pytest.approx(2.0 + 9 * 0.5)
    assert times.tpot_s[0] == pytest.approx(0.5)


def test_a_long_prompt_is_prefilled_in_chunks_of_the_budget():
    # 250 tokens at 100 a step are three steps of 1 s.
    admission = Admission(capacity=4, token_budget=100, mixes=True)
    times = simulate_open(arrivals([0.0], [250], [1]), admission, constant(1.0))
    assert times.ttft_s[0] == pytest.approx(3.0)


def test_requests_beyond_capacity_wait_for_a_completion():
    # Both arrive at 0; each takes a prefill step and four decode steps of 1 s; one fits at a time.
    times = simulate_open(arrivals([0.0, 0.0], [10, 10], [5, 5]), ONE_AT_A_TIME, constant(1.0))
    assert times.e2e_s.tolist() == pytest.approx([5.0, 10.0])


def test_requests_within_capacity_share_their_steps():
    admission = Admission(capacity=8, token_budget=8192, mixes=True)
    times = simulate_open(arrivals([0.0, 0.0], [10, 10], [5, 5]), admission, constant(1.0))
    assert times.e2e_s.tolist() == pytest.approx([5.0, 5.0])


def test_every_request_is_served_and_tokens_are_conserved():
    drawn = random_arrivals(
        rate_per_s=5.0, count=500, lengths=Lengths(input_len=300, output_len=40, spread=0.9), gap_scv=4.0
    )
    admission = Admission(capacity=16, token_budget=512, mixes=False)
    times = simulate_open(drawn, admission, constant(0.02))
    assert (times.ttft_s > 0).all()
    assert (times.e2e_s >= times.ttft_s).all()
    whole = times.ttft_s + times.tpot_s * np.maximum(drawn.answers - 1, 1)
    several = drawn.answers > 1
    assert whole[several] == pytest.approx(times.e2e_s[several])


def test_more_load_never_shortens_the_mean_wait():
    admission = Admission(capacity=4, token_budget=512, mixes=True)
    lengths = Lengths(input_len=100, output_len=20)
    waits = [
        simulate_open(
            random_arrivals(rate_per_s=rate, count=3_000, lengths=lengths), admission, constant(0.05)
        ).ttft_s.mean()
        for rate in (0.5, 1.0, 2.0, 3.0)
    ]
    assert waits == sorted(waits)


def test_a_replica_that_cannot_keep_up_is_said_so():
    # One answer takes 1 s, two arrive a second.
    drawn = random_arrivals(rate_per_s=2.0, count=1_000, lengths=Lengths(input_len=10, output_len=1))
    answer = summarise(drawn, simulate_open(drawn, ONE_AT_A_TIME, constant(1.0)), LatencyLimits())
    assert not answer.keeps_up
    assert answer.goodput_fraction is None


def test_goodput_is_the_share_of_requests_that_keep_every_limit():
    drawn = arrivals(np.arange(10) * 100.0, [10] * 10, [5] * 10)
    times = simulate_open(drawn, ONE_AT_A_TIME, constant(1.0))
    assert summarise(drawn, times, LatencyLimits(ttft_s=1.5, e2e_s=5.5)).goodput_fraction == 1.0
    assert summarise(drawn, times, LatencyLimits(ttft_s=1.5, tpot_s=0.5)).goodput_fraction == 0.0


def test_the_same_seed_gives_the_same_arrivals():
    lengths = Lengths(input_len=10, output_len=10, spread=0.5)
    one, other = (random_arrivals(rate_per_s=3.0, count=50, lengths=lengths) for _ in range(2))
    assert (one.at_s == other.at_s).all()
    assert (one.answers == other.answers).all()


@pytest.mark.parametrize("scv", [0.25, 1.0, 4.0])
def test_gaps_vary_as_asked(scv):
    drawn = random_arrivals(rate_per_s=2.0, count=100_000, lengths=Lengths(input_len=1, output_len=1), gap_scv=scv)
    gaps = np.diff(drawn.at_s)
    assert gaps.mean() == pytest.approx(0.5, rel=0.02)
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(scv, rel=0.06)
