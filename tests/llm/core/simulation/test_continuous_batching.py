"""Simulated loads against queueing theory where it is exact, and laws of continuous batching."""

import numpy as np
import pytest

from capplan.llm.core.serving.closed_loop import step_grid
from capplan.llm.core.simulation.arrivals import (
    Arrivals,
    Lengths,
    Sessions,
    all_at_once,
    hourly_rates,
    random_arrivals,
    session_arrivals,
)
from capplan.llm.core.simulation.continuous_batching import Admission, simulate_requests
from capplan.llm.core.simulation.load_answer import LatencyLimits, Percentiles, summarise

ONE_AT_A_TIME = Admission(capacity=1, token_budget=8192, mixes=True)


def served(drawn, admission, seconds, *, clients=None, in_bursts=False):
    grid = step_grid(admission.most_running(len(drawn.at_s)), admission.token_budget, seconds)
    return simulate_requests(drawn, admission, grid, clients=clients, in_bursts=in_bursts)


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
    times = served(drawn, ONE_AT_A_TIME, constant(1.0))
    assert times.ttft_s.mean() == pytest.approx(1 + load / (2 * (1 - load)), rel=0.05)


def test_a_lone_request_takes_its_prefill_and_a_step_per_further_token():
    # Prefill step 2 s, each of nine further tokens 0.5 s.
    times = served(arrivals([0.0], [100], [10]), ONE_AT_A_TIME, lambda running, chunk: np.where(chunk > 0, 2.0, 0.5))
    assert times.ttft_s[0] == pytest.approx(2.0)
    assert times.e2e_s[0] == pytest.approx(2.0 + 9 * 0.5)
    assert times.tpot_s[0] == pytest.approx(0.5)


def test_a_long_prompt_is_prefilled_in_chunks_of_the_budget():
    # 250 tokens at 100 a step are three steps of 1 s.
    admission = Admission(capacity=4, token_budget=100, mixes=True)
    times = served(arrivals([0.0], [250], [1]), admission, constant(1.0))
    assert times.ttft_s[0] == pytest.approx(3.0)


def test_requests_beyond_capacity_wait_for_a_completion():
    # Both arrive at 0; each takes a prefill step and four decode steps of 1 s; one fits at a time.
    times = served(arrivals([0.0, 0.0], [10, 10], [5, 5]), ONE_AT_A_TIME, constant(1.0))
    assert times.e2e_s.tolist() == pytest.approx([5.0, 10.0])


def test_requests_within_capacity_share_their_steps():
    admission = Admission(capacity=8, token_budget=8192, mixes=True)
    times = served(arrivals([0.0, 0.0], [10, 10], [5, 5]), admission, constant(1.0))
    assert times.e2e_s.tolist() == pytest.approx([5.0, 5.0])


def test_every_request_is_served_and_tokens_are_conserved():
    drawn = random_arrivals(
        rate_per_s=5.0, count=500, lengths=Lengths(input_len=300, output_len=40, spread=0.9), gap_scv=4.0
    )
    admission = Admission(capacity=16, token_budget=512, mixes=False)
    times = served(drawn, admission, constant(0.02))
    assert (times.ttft_s > 0).all()
    assert (times.e2e_s >= times.ttft_s).all()
    whole = times.ttft_s + times.tpot_s * np.maximum(drawn.answers - 1, 1)
    several = drawn.answers > 1
    assert whole[several] == pytest.approx(times.e2e_s[several])


def test_more_load_never_shortens_the_mean_wait():
    admission = Admission(capacity=4, token_budget=512, mixes=True)
    lengths = Lengths(input_len=100, output_len=20)
    waits = [
        served(random_arrivals(rate_per_s=rate, count=3_000, lengths=lengths), admission, constant(0.05)).ttft_s.mean()
        for rate in (0.5, 1.0, 2.0, 3.0)
    ]
    assert waits == sorted(waits)


def test_a_replica_that_cannot_keep_up_is_said_so():
    # One answer takes 1 s, two arrive a second.
    drawn = random_arrivals(rate_per_s=2.0, count=1_000, lengths=Lengths(input_len=10, output_len=1))
    answer = summarise(drawn, served(drawn, ONE_AT_A_TIME, constant(1.0)), LatencyLimits())
    assert not answer.keeps_up
    assert answer.goodput_fraction is None


def test_goodput_is_the_share_of_requests_that_keep_every_limit():
    drawn = arrivals(np.arange(10) * 100.0, [10] * 10, [5] * 10)
    times = served(drawn, ONE_AT_A_TIME, constant(1.0))
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


TWO_ALIKE = ([0.0, 0.0], [10, 10], [10, 10])


def test_a_full_cache_evicts_the_newest_sequence_which_is_computed_again():
    # 30 tokens of cache. One step prefills both prompts (22 tokens with the first tokens given), four more fill it. The
    # second is evicted with 5 of its tokens given; the first goes on for 5 steps and is complete at 10 s. The second is
    # prefilled with 15 tokens in one step, which gives its sixth token, and needs 4 more: 15 s.
    admission = Admission(capacity=8, token_budget=8192, mixes=True, pool_tokens=30, preempts=True)
    times = served(arrivals(*TWO_ALIKE), admission, constant(1.0))
    assert times.preemptions == 1
    assert times.e2e_s.tolist() == pytest.approx([10.0, 15.0])
    assert times.ttft_s.tolist() == pytest.approx([1.0, 1.0])


def test_an_engine_that_reserves_whole_answers_lets_the_second_wait_instead():
    # 20 tokens each do not fit twice into 30: one after the other, a prefill step and nine more each.
    admission = Admission(capacity=8, token_budget=8192, mixes=True, pool_tokens=30)
    times = served(arrivals(*TWO_ALIKE), admission, constant(1.0))
    assert times.preemptions == 0
    assert times.e2e_s.tolist() == pytest.approx([10.0, 20.0])


def test_a_cache_without_limit_never_evicts():
    admission = Admission(capacity=8, token_budget=8192, mixes=True, preempts=True)
    times = served(arrivals(*TWO_ALIKE), admission, constant(1.0))
    assert times.e2e_s.tolist() == pytest.approx([10.0, 10.0])
    assert times.preemptions == 0


def test_evicted_requests_are_all_served_in_the_end():
    drawn = random_arrivals(
        rate_per_s=20.0, count=2_000, lengths=Lengths(input_len=60, output_len=60, input_cv=1.0, output_cv=1.0)
    )
    admission = Admission(capacity=64, token_budget=512, mixes=True, pool_tokens=2_000, preempts=True)
    times = served(drawn, admission, constant(0.01))
    assert times.preemptions > 0
    assert (times.e2e_s > 0).all()
    assert times.gap_weights.sum() <= drawn.answers.sum()


def test_a_step_with_drafts_gives_several_tokens():
    # After the first token ten more at two a step take five steps.
    admission = Admission(capacity=1, token_budget=8192, mixes=True, tokens_per_step=2.0)
    times = served(arrivals([0.0], [10], [11]), admission, constant(1.0))
    assert times.e2e_s[0] == pytest.approx(6.0)
    assert times.tpot_s[0] == pytest.approx(0.5)


def test_clients_send_their_next_request_when_they_have_their_answer():
    # Two clients in step: each request takes a prefill step and four more, three waves of 5 s.
    admission = Admission(capacity=8, token_budget=8192, mixes=True)
    drawn = all_at_once(6, Lengths(input_len=10, output_len=5))
    times = served(drawn, admission, constant(1.0), clients=2)
    assert times.e2e_s.tolist() == pytest.approx([5.0] * 6)
    assert times.span_s == pytest.approx(15.0)


def test_clients_that_send_in_bursts_wait_for_the_longest_answer_of_all():
    # Two clients, answers of 5 and of 9 tokens by turns: a loop gives the third request 5 s after the first began, a
    # burst when both are done. Each burst takes a prefill step and eight more, so that two end after 18 s.
    admission = Admission(capacity=8, token_budget=8192, mixes=True)
    drawn = arrivals([0.0] * 4, [10] * 4, [5, 9, 5, 9])
    loop, burst = (served(drawn, admission, constant(1.0), clients=2, in_bursts=asked) for asked in (False, True))
    assert burst.e2e_s.tolist() == pytest.approx([5.0, 9.0, 5.0, 9.0])
    assert burst.span_s == pytest.approx(18.0)
    assert loop.span_s == pytest.approx(18.0)
    uneven = arrivals([0.0] * 4, [10] * 4, [5, 9, 9, 5])
    loop, burst = (served(uneven, admission, constant(1.0), clients=2, in_bursts=asked) for asked in (False, True))
    assert loop.span_s == pytest.approx(14.0)
    assert burst.span_s == pytest.approx(18.0)


def test_a_burst_of_all_requests_is_an_offline_run():
    admission = Admission(capacity=4, token_budget=8192, mixes=True)
    drawn = all_at_once(12, Lengths(input_len=10, output_len=5, spread=0.3))
    together = served(drawn, admission, constant(1.0), clients=12, in_bursts=True)
    offline = served(drawn, admission, constant(1.0))
    assert together.e2e_s.tolist() == pytest.approx(offline.e2e_s.tolist())


def test_prompts_alone_stall_the_sequences_that_decode():
    # The first request decodes from 1 s; the second's prefill runs alone from 3 to 4 s, so that one gap is 2 s.
    admission = Admission(capacity=8, token_budget=8192, mixes=False)
    times = served(arrivals([0.0, 2.5], [10, 10], [6, 1]), admission, constant(1.0))
    gaps = Percentiles.weighted(times.gaps_s, times.gap_weights)
    assert gaps is not None
    assert times.gaps_s.max() == pytest.approx(2.0)
    assert times.e2e_s[0] == pytest.approx(7.0)


def test_weighted_percentiles_are_those_of_the_repeated_values():
    values, weights = np.array([3.0, 1.0, 2.0]), np.array([1.0, 98.0, 1.0])
    found = Percentiles.weighted(values, weights)
    assert found is not None
    assert (found.p50, found.p99) == (1.0, 2.0)
    assert found.mean == pytest.approx((98 + 2 + 3) / 100)


def test_log_normal_lengths_have_the_mean_and_deviation_asked_for():
    drawn = random_arrivals(
        rate_per_s=1.0, count=200_000, lengths=Lengths(input_len=1000, output_len=300, input_cv=0.8, output_cv=0.5)
    )
    assert drawn.prompts.mean() == pytest.approx(1000, rel=0.01)
    assert drawn.prompts.std() / drawn.prompts.mean() == pytest.approx(0.8, rel=0.03)
    assert drawn.answers.std() / drawn.answers.mean() == pytest.approx(0.5, rel=0.03)


def test_a_day_keeps_its_mean_rate():
    assert hourly_rates(2.0, (1, 2, 3)) == pytest.approx((1.0, 2.0, 3.0))


def test_clients_of_a_closed_loop_obey_littles_law():
    # Clients = requests per second x end-to-end time.
    admission = Admission(capacity=16, token_budget=512, mixes=True)
    drawn = all_at_once(4_000, Lengths(input_len=100, output_len=30, spread=0.5))
    times = served(drawn, admission, constant(0.02), clients=12)
    assert 4_000 / times.span_s * times.e2e_s.mean() == pytest.approx(12, rel=0.01)


def test_steps_take_longer_while_requests_wait():
    # One at a time, a prefill step and one more each: steps of 2 s while the second waits, of 1 s afterwards.
    admission = Admission(capacity=1, token_budget=8192, mixes=True, queued_factor=2.0)
    times = served(arrivals([0.0, 0.0], [10, 10], [2, 2]), admission, constant(1.0))
    assert times.e2e_s.tolist() == pytest.approx([4.0, 6.0])


def test_each_turn_of_a_conversation_has_all_before_it_as_its_prefix() -> None:
    sessions = Sessions(turns=3, period_s=60.0)
    drawn = session_arrivals(
        sessions, rate_per_s=0.001, count=3, lengths=Lengths(input_len=640, output_len=64), longest=1e6
    )
    # 640, then 640 + 64 + 640, and so on; a large cache holds the whole blocks of 64 tokens of each earlier prompt
    assert drawn.prompts.tolist() == [640, 1344, 2048]
    assert np.diff(drawn.at_s).tolist() == pytest.approx([60.0, 60.0])
    assert drawn.with_cache(1e6).cached.tolist() == [0, 640, 1344]
    assert drawn.with_cache(0).cached.tolist() == [0, 0, 0]
