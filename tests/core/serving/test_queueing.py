"""Closed forms of queues against hand-derived and published figures."""

import math

import pytest

from capplan.core.serving.simulation import UnstableError, capacity_per_s, greedy_batching
from tests.core.serving.closed_forms import (
    JoinableBulk,
    MarkovQueue,
    constant_service_wait_cdf,
    constant_service_wait_quantile_s,
    erlang_b,
    erlang_c,
    forming_window,
    inoue_response_bound_s,
    mean_wait_constant_service_s,
    mean_wait_cosmetatos_s,
    mean_wait_one_server_s,
)

near = pytest.approx


def affine(*, fixed_s: float, per_sample_s: float, largest: int) -> list[float]:
    return [fixed_s + per_sample_s * batch for batch in range(1, largest + 1)]


def test_erlang_c_of_five_servers_at_four_erlangs():
    # By hand: B(1)=4/5, B(2)=8/13, B(3)=32/71, B(4)=32/103, B(5)=128/643; C = B/(1-0.8(1-B)) = 128/231.
    assert erlang_b(servers=5, offered=4) == near(128 / 643, rel=1e-12)
    assert erlang_c(servers=5, offered=4) == near(128 / 231, rel=1e-12)


def test_mmc_with_the_singular_response():
    queue = MarkovQueue(rate_per_s=40, service_s=0.1, servers=5)
    assert queue.mean_wait_s == near(128 / 231 * 0.1, rel=1e-9)
    assert [queue.wait_quantile_s(p) for p in (0.5, 0.95, 0.99)] == near([0.0102760, 0.240534, 0.401478], rel=1e-5)
    assert [queue.response_quantile_s(p) for p in (0.5, 0.95, 0.99)] == near([0.120439, 0.419746, 0.607966], rel=1e-5)


def test_mmc_away_from_the_singularity():
    queue = MarkovQueue(rate_per_s=36, service_s=0.1, servers=5)
    assert queue.wait_probability == near(0.410394, rel=1e-5)
    assert queue.mean_wait_s == near(0.0293138, rel=1e-5)
    assert [queue.wait_quantile_s(p) for p in (0.95, 0.99)] == near([0.150364, 0.265324], rel=1e-5)
    assert [queue.response_quantile_s(p) for p in (0.5, 0.95, 0.99)] == near([0.0980469, 0.357246, 0.524713], rel=1e-5)


def test_quantiles_of_parts_do_not_add_up():
    # p95(wait) + p95(service): the service is exponential with mean 0.1 s, whose p95 is 0.1·ln 20.
    queue = MarkovQueue(rate_per_s=40, service_s=0.1, servers=5)
    assert queue.wait_quantile_s(0.95) + 0.1 * math.log(20) > 1.25 * queue.response_quantile_s(0.95)


def test_servers_for_a_waiting_time():
    ten, eleven = (MarkovQueue(rate_per_s=100, service_s=0.08, servers=count) for count in (10, 11))
    assert ten.wait_tail(0.05) == near(0.117232, rel=1e-5)
    assert eleven.wait_tail(0.05) == near(0.0375655, rel=1e-5)
    assert eleven.wait_probability == near(0.244958, rel=1e-5)
    assert eleven.response_quantile_s(0.95) == near(0.248884, rel=1e-5)


def test_pollaczek_khinchine_grows_with_the_service_scatter():
    waits = [mean_wait_one_server_s(rate_per_s=8, service_s=0.1, service_scv=scv) for scv in (0, 0.25, 2.25)]
    assert waits == near([0.2, 0.25, 0.65], rel=1e-12)  # SCV 2.25: 90 % 50 ms, 10 % 550 ms


def test_md1_wait_distribution():
    # P(W <= D) = (1-rho)(e^rho + e^0·(-0)...) = 0.2·e^0.8 at x = D.
    assert constant_service_wait_cdf(rate_per_s=8, service_s=0.1, time_s=0.1) == near(0.2 * math.exp(0.8), rel=1e-9)
    quantiles = [
        constant_service_wait_quantile_s(rate_per_s=8, service_s=0.1, probability=p) for p in (0.5, 0.95, 0.99)
    ]
    assert quantiles == near([0.127594, 0.662032, 1.035589], rel=1e-5)


def test_md1_far_tail_does_not_cancel_away():
    # The tail decays by e^(-theta·D) per service time, theta·D the root of x = 0.8(e^x - 1): 0.4315...
    tails = [1 - constant_service_wait_cdf(rate_per_s=8, service_s=0.1, time_s=k / 10) for k in (30, 31)]
    decay = -math.log(tails[1] / tails[0])
    assert 0.8 * math.expm1(decay) == near(decay, rel=1e-3)


@pytest.mark.parametrize(
    ("rate", "servers", "exact", "cosmetatos"),
    [(40, 5, 0.0289060, 0.0288780), (36, 5, 0.0156640, 0.0156217), (160, 20, 0.00358741, 0.00359050)],
)
def test_mdc_mean_wait(rate, servers, exact, cosmetatos):
    assert mean_wait_constant_service_s(rate_per_s=rate, service_s=0.1, servers=servers) == near(exact, rel=1e-5)
    assert mean_wait_cosmetatos_s(rate_per_s=rate, service_s=0.1, servers=servers) == near(cosmetatos, rel=1e-5)


def test_mdc_of_one_server_is_md1():
    assert mean_wait_constant_service_s(rate_per_s=8, service_s=0.1, servers=1) == near(0.2, rel=1e-9)


@pytest.mark.parametrize(
    ("rate", "fixed", "per_sample", "largest", "response", "batch", "busy"),
    [
        (800, 0.002, 0.0005, 8, 5.658549e-3, 2.798095, 0.971818),
        (1000, 0.004, 0.0005, 16, 12.854388e-3, 8.001872, 0.999883),
        (200, 0.005, 0.001, 8, 9.897630e-3, 1.589669, 0.829062),
    ],
)
def test_greedy_batching_by_renewal_reward(*, rate, fixed, per_sample, largest, response, batch, busy):
    times = affine(fixed_s=fixed, per_sample_s=per_sample, largest=largest)
    found = greedy_batching(rate_per_s=rate, batch_times_s=times)
    assert found.response_s == near(response, rel=1e-6)
    assert found.batch == near(batch, rel=1e-6)
    assert found.busy_fraction == near(busy, rel=1e-5)


def test_busy_is_not_loaded():
    times = affine(fixed_s=0.004, per_sample_s=0.0005, largest=16)
    assert 1000 / capacity_per_s(times) == near(0.75)
    assert greedy_batching(rate_per_s=1000, batch_times_s=times).busy_fraction > 0.9998


def test_inoue_bounds_the_unlimited_batch_only():
    assert inoue_response_bound_s(rate_per_s=800, per_sample_s=0.0005, fixed_s=0.002) == near(5.714286e-3, rel=1e-6)
    limited = affine(fixed_s=0.004, per_sample_s=0.0005, largest=16)
    bound = inoue_response_bound_s(rate_per_s=1000, per_sample_s=0.0005, fixed_s=0.004)
    assert bound == near(12.833333e-3, rel=1e-6)
    assert bound < greedy_batching(rate_per_s=1000, batch_times_s=limited).response_s


@pytest.mark.parametrize(
    ("window", "batch", "wait"),
    [(0.005, 5.999904, 2.916451e-3), (0.010, 10.896521, 5.344594e-3), (0.020, 15.749589, 7.399637e-3)],
)
def test_forming_window_of_sixteen(window, batch, wait):
    found = forming_window(rate_per_s=1000, window_s=window, largest=16)
    assert (found.batch, found.wait_s) == (near(batch, rel=1e-6), near(wait, rel=1e-6))


def test_forming_window_without_a_largest_batch():
    # E[size] = 1 + λT; wait = T(1 + λT/2)/(1 + λT)
    found = forming_window(rate_per_s=1000, window_s=0.01, largest=200)
    assert (found.batch, found.wait_s) == (near(11, rel=1e-9), near(0.01 * 6 / 11, rel=1e-9))


def test_joinable_bulk():
    queue = JoinableBulk(rate_per_s=8, batches_per_s=2, largest=8)
    assert queue.ratio == near(0.843002, rel=1e-6)
    assert queue.response_s == near(0.671187, rel=1e-6)


def test_overload_has_no_waiting_time():
    times = affine(fixed_s=0.004, per_sample_s=0.0005, largest=16)
    for broken in (
        lambda: erlang_c(servers=4, offered=4),
        lambda: mean_wait_one_server_s(rate_per_s=10, service_s=0.1, service_scv=0),
        lambda: mean_wait_constant_service_s(rate_per_s=50, service_s=0.1, servers=5),
        lambda: greedy_batching(rate_per_s=1333.4, batch_times_s=times),
        lambda: JoinableBulk(rate_per_s=16, batches_per_s=2, largest=8).response_s,
        lambda: inoue_response_bound_s(rate_per_s=2000, per_sample_s=0.0005, fixed_s=0.002),
    ):
        with pytest.raises(UnstableError):
            broken()
