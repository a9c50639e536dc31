"""Replicas, spares, availability and sizing against hand derivations and exact queues."""

from dataclasses import replace

import pytest

from capplan.core.numbers import Interval
from capplan.core.serving.load import Job, Service, TrainingPurchase
from capplan.core.serving.response import BatchPoint, Candidate, HostLimit
from capplan.core.serving.servers import (
    Exchange,
    ParallelRates,
    Reliability,
    at_least_up,
    concurrency,
    make_fleet,
    months_until_exhausted,
    replicas_for_rate,
    server_availability,
)
from capplan.core.serving.sizing import Infeasible, Sizing, size_fleets
from tests.core.serving.closed_forms import constant_service_wait_quantile_s

near = pytest.approx


def candidate(times_s: dict[int, float], *, spread: float = 0.0, gpu: str = "g") -> Candidate:
    points = tuple(
        BatchPoint(
            batch=batch,
            latency_s=Interval(low=time * (1 - spread), expected=time, high=time * (1 + spread)),
            memory_bytes=Interval.exact(1e9),
        )
        for batch, time in times_s.items()
    )
    return Candidate(gpu=gpu, name=gpu.upper(), tdp_w=72, form_factor="PCIe", points=points)


def service(**changed) -> Service:
    given = {
        "peak_per_s": 500.0, "mean_per_s": 250.0, "latency_limit_s": 0.05, "percentile": 95.0,
        "growth_per_year_fraction": 0.0, "spares": 1, "utilization_ceiling_fraction": 0.7,
        "window_s": 0.0, "gap_scv": 1.0,
    }  # fmt: skip
    return Service(**(given | changed))


def test_k_of_n_availability():
    assert [at_least_up(needed=10, installed=n, availability=0.99) for n in (10, 11, 12)] == near(
        [0.904382, 0.994820, 0.999794], rel=1e-6
    )
    assert [at_least_up(needed=4, installed=n, availability=0.985) for n in (4, 5, 6)] == near(
        [0.941337, 0.997817, 0.999935], rel=1e-6
    )


def test_availability_counts_servers_not_gpus():
    # 10 needed GPUs on boards of 8: two servers, N+1 makes three; each is up 1/(1 + 8·0.173·3/365).
    fleet = make_fleet(need=10, spares=1, server_slots=8, full_servers=True)
    assert (fleet.servers, fleet.gpus) == (3, 24)
    up = server_availability(gpus_per_server=8, failures_per_gpu_year=0.173, repair_days=3)
    assert up == near(1 / (1 + 8 * 0.173 * 3 / 365))
    assert Reliability(failures_per_gpu_year=0.173, repair_days=3).of_fleet(fleet) == near(up**3 + 3 * up**2 * (1 - up))


def test_a_zone_takes_its_servers_with_it():
    """Servers that never fail, and zones that are each down for 1 % of the time."""
    zone = {"failures_per_gpu_year": 0.0, "repair_days": 0.0, "zone_down_fraction": 0.01}
    one, two, three = (Reliability(zones=zones, **zone) for zones in (1, 2, 3))
    alone, pair = (make_fleet(need=1, spares=n, server_slots=1, full_servers=True) for n in (0, 1))
    assert [one.of_fleet(alone), two.of_fleet(alone), one.of_fleet(pair)] == near([0.99] * 3)
    assert two.of_fleet(pair) == near(1 - 0.01**2)
    # Two needed of three, one in each zone: all three up, or one down.
    triple = make_fleet(need=2, spares=1, server_slots=1, full_servers=True)
    assert three.of_fleet(triple) == near(0.99**3 + 3 * 0.01 * 0.99**2)
    # 99.9 % of the time: in two zones each must carry all, in three any two must: four and three servers.
    wanted = {"need": 2, "server_slots": 1, "full_servers": True}
    assert (two.spares_for(0.999, **wanted), three.spares_for(0.999, **wanted)) == (2, 1)
    assert two.spares_for(0.9, **wanted) == 0


@pytest.mark.parametrize(
    ("need", "spares", "servers", "per_server"), [(1, 0, 1, 1), (2, 1, 2, 2), (5, 0, 2, 3), (9, 2, 5, 3)]
)
def test_cards_are_spread_evenly(need, spares, servers, per_server):
    fleet = make_fleet(need=need, spares=spares, server_slots=4, full_servers=False)
    assert (fleet.servers, fleet.gpus_per_server) == (servers, per_server)
    assert fleet.gpus - spares * per_server >= need


def test_concurrency_of_a_language_model():
    in_flight = concurrency(rate_per_s=12.5, response_s=0.4 + 299 * 0.03)
    assert in_flight == near(117.125)
    assert replicas_for_rate(rate_per_s=in_flight, per_replica_per_s=48 * 0.8) == 4


def test_exhaustion():
    # 5 units of 120/s at 0.70 carry 420/s; 180/s growing 6 % a month is there after ln(420/180)/ln 1.06 months.
    months = months_until_exhausted(
        capacity_per_s=5 * 120 * 0.70, peak_per_s=180, growth_per_year_fraction=1.06**12 - 1
    )
    assert months == near(14.541166, rel=1e-6)
    assert months_until_exhausted(capacity_per_s=420, peak_per_s=180, growth_per_year_fraction=0) is None


def test_batches_between_estimates_are_linear_and_smaller_ones_padded():
    times = candidate({4: 0.4, 8: 0.6}).batch_times_s(8)
    assert list(times) == near([0.4, 0.4, 0.4, 0.4, 0.45, 0.5, 0.55, 0.6])


def test_a_service_without_batching_is_md1():
    # One sample takes 10 ms, 95 % within 25 ms. M/D/1's 95 % wait is 15 ms at the load that the closed form says.
    low, high = 1.0, 99.0
    for _ in range(60):
        middle = (low + high) / 2
        wait = constant_service_wait_quantile_s(rate_per_s=middle, service_s=0.01, probability=0.95)
        low, high = (middle, high) if wait <= 0.015 else (low, middle)
    [sizing] = size_fleets([candidate({1: 0.01})], service(latency_limit_s=0.025, utilization_ceiling_fraction=0.9))
    assert isinstance(sizing, Sizing)
    assert 500 / low == near(12.8, abs=0.05)
    assert sizing.need in (13, 14)  # the simulation has its own error
    assert sizing.response.percentile_s.expected <= 0.025 * 1.03


def test_the_utilisation_ceiling_binds_where_latency_does_not():
    # 32 in 40 ms is 800/s a replica, 560/s at 70 %: one carries 500/s, two carry 1000/s.
    times = {1: 0.009, 32: 0.040}
    [one] = size_fleets([candidate(times)], service(latency_limit_s=1.0))
    [two] = size_fleets([candidate(times)], service(latency_limit_s=1.0, peak_per_s=1000.0))
    assert (one.need, two.need) == (1, 2)


def test_what_cannot_keep_the_limit_says_why():
    [infeasible] = size_fleets([candidate({1: 0.06})], service())
    assert isinstance(infeasible, Infeasible)
    assert "50 ms" in infeasible.reason
    assert "60 ms" in infeasible.reason


def test_a_slower_gpu_never_needs_fewer_replicas():
    needs = []
    for slowdown in (1, 2, 4, 8):
        times = {batch: slowdown * (0.0005 + 0.0003 * batch) for batch in (1, 2, 4, 8, 16, 32)}
        [sizing] = size_fleets([candidate(times)], service(peak_per_s=20_000.0))
        needs.append(sizing.need)
    assert needs == sorted(needs)


def test_latency_error_moves_the_response():
    [sizing] = size_fleets([candidate({1: 0.004, 8: 0.016}, spread=0.2)], service())
    here = sizing.response.rate_per_s
    low, same, high = (sizing.percentile_s(here, latency_factor=factor) for factor in (0.8, 1.0, 1.2))
    assert same == near(sizing.response.percentile_s.expected)
    assert low < 0.8 * same  # less waiting too
    assert high > 1.2 * same
    assert sizing.percentile_s(10 * here) is None


def test_job_by_hand():
    # 36 million samples in 10 h is 1000/s; 32 in 40 ms at 90 % is 720/s a GPU: two.
    job = Job(
        samples=36e6, deadline_s=36_000, runs_per_year=365, growth_per_year_fraction=0, spares=0,
        utilization_ceiling_fraction=0.9,
    )  # fmt: skip
    [sizing] = size_fleets([candidate({1: 0.009, 32: 0.040})], job)
    assert (sizing.need, sizing.operating_point.largest_batch, sizing.operating_point.rate_per_s) == (2, 32, near(720))


# 1.28 M × 90 epochs in 2 days is 666.7/s.
TRAINING = TrainingPurchase(
    samples=1.28e6, epochs=90, deadline_s=172_800, runs_per_year=1, scaling_fraction=0.9, spares=0,
    utilization_ceiling_fraction=1.0,
)  # fmt: skip


def test_training_by_hand():
    # 32 in 100 ms, 90 % scaling, no ceiling: 288/s a GPU: three.
    [sizing] = size_fleets([candidate({32: 0.1})], TRAINING)
    assert sizing.need == 3


def exchange(*, inside_s: float = 0.008, network: float = 1.25e9, gradients: float = 1.25e9) -> Exchange:
    """Return 1.25 GB of gradients that take 8 ms and 1 % of a step in a server, and cross 10 Gbit/s between servers."""
    return Exchange(
        gradient_bytes=gradients, inside_s=inside_s, inside_fraction=0.01, inside_name="NVLink",
        network_bytes_per_s=network,
    )  # fmt: skip


def test_what_an_exchange_of_gradients_leaves_of_a_step():
    # Across: 2 × 1.25 GB / 1.25 GB/s = 2 s; a step of 0.6 s hides two thirds of itself, 0.4 s: 0.6 / (0.6 + 1.6).
    # Inside: 0.6 s, 1 % of it and 8 ms.
    found = exchange()
    assert found.kept_fraction(step_s=0.6, is_across=True) == near(0.6 / 2.2)
    assert found.kept_fraction(step_s=0.6, is_across=False) == near(0.6 / 0.614)


def test_servers_apart_never_train_faster_than_one_server():
    # 1 TB/s between servers hides all but the last of 25 MiB: 0.05 ms. Inside they wait 50 ms and 1 %, and still do.
    found = exchange(inside_s=0.05, network=1e12)
    assert found.kept_fraction(step_s=0.6, is_across=True) == near(0.6 / 0.656)


def test_training_over_a_slow_network_is_not_credited_like_one_server():
    # One GPU alone trains 32 / 0.6 s = 53.33/s; 90 % of it in one server, 27.27 % across servers.
    slow = replace(candidate({32: 0.6}), exchange=exchange())
    [sizing] = size_fleets([slow], TRAINING)
    point = sizing.operating_point
    # 66.67/s: alone it does not suffice, two in one server do (48/s each), and five across servers (14.55/s each).
    assert point.parallel == ParallelRates(
        alone_per_s=near(53.3333, rel=1e-5), within_per_s=near(48.0), across_per_s=near(14.5454, rel=1e-5)
    )
    assert point.in_servers(66.67, server_slots=8, full_servers=True).rate_per_s == near(48.0)
    assert point.in_servers(66.67, server_slots=1, full_servers=True).rate_per_s == near(14.5454, rel=1e-5)
    # Nine servers' worth in servers of eight needs the network, too; one GPU alone exchanges nothing.
    assert point.in_servers(8.1 * 48, server_slots=8, full_servers=True).rate_per_s == near(14.5454, rel=1e-5)
    assert point.in_servers(53.3, server_slots=4, full_servers=False).rate_per_s == near(53.3333, rel=1e-5)


def test_a_host_that_feeds_less_than_a_gpu_could_take_sets_the_fleet():
    # 8 in 10 ms are 800/s, 560/s at the ceiling of 0.7; a host that feeds 100/s leaves 70/s: 15 GPUs for 1000/s.
    fed = replace(candidate({1: 0.004, 8: 0.010}), host_limits=(HostLimit(name="CPU cores", rate_per_s=100.0),))
    [sizing] = size_fleets([fed], service(peak_per_s=1000.0, utilization_ceiling_fraction=0.7))
    assert sizing.operating_point.rate_per_s == near(70.0)
    assert sizing.need == 15


def test_a_slow_network_asks_for_a_larger_batch():
    # Batches of 32 in 0.6 s and of 128 in 2.4 s train alike alone and in one server (53.3/s, 48/s at 90 %), where the
    # smaller is taken. Across servers 2 s of exchange leave 0.6 / 2.2 of the rate at 32; at 128 the backward pass of
    # 1.6 s hides all but 0.4 s of it: 2.4 / 2.8.
    [sizing] = size_fleets([replace(candidate({32: 0.6, 128: 2.4}), exchange=exchange())], TRAINING)
    assert sizing.operating_point.largest_batch == 32
    together = sizing.capacity.operate_in_servers(100.0, server_slots=8, full_servers=True)
    apart = sizing.capacity.operate_in_servers(100.0, server_slots=1, full_servers=True)
    assert (together.largest_batch, together.rate_per_s) == (32, near(48.0))
    assert (apart.largest_batch, apart.rate_per_s) == (128, near(53.3333 * 2.4 / 2.8, rel=1e-5))
