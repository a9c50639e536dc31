"""The timed loops on a simulated queue, where the truth is known, and on the host's own clock."""

import gc
import math
from dataclasses import dataclass, field

import pytest

from capplan.core.workload import TimingMethod
from capplan.probe.measure.point import Rules
from capplan.probe.measure.timing import Rounds, StopRule, WarmUpRule, repeat, warm_up
from tests.probe.measure.simulated import SimulatedDevice

WORK_S = 47.1e-3
LAUNCH_S = 0.23e-3


@pytest.fixture
def device() -> SimulatedDevice:
    """The classic case: 0.23 ms to launch what takes 47.1 ms."""
    return SimulatedDevice(launch_s=LAUNCH_S)


def timed(device: SimulatedDevice, method: TimingMethod, *, repetitions: int = 20, flush: bool = False) -> list[float]:
    return repeat(
        device,
        lambda: device.launch(WORK_S),
        method=method,
        rule=StopRule(repetitions=repetitions),
        expected_s=WORK_S,
        flush=flush,
    )


def test_the_naive_method_reads_the_launch_instead_of_the_work(device: SimulatedDevice) -> None:
    assert timed(device, TimingMethod.NAIVE) == pytest.approx([LAUNCH_S] * 20)


@dataclass
class FullQueue(SimulatedDevice):
    """A device whose queue takes so many launches; behind a full one the host waits for the first to end."""

    depth: int = 1024
    ends_s: list[float] = field(default_factory=list)

    def launch(self, work_s: float) -> None:
        waiting = [end for end in self.ends_s if end > self.clock_s]
        if len(waiting) >= self.depth:
            self.clock_s = waiting[-self.depth]
        super().launch(work_s)
        self.ends_s.append(self.queue_end_s)


def test_the_naive_method_is_wrong_behind_a_queue_that_it_could_fill() -> None:
    device = FullQueue(launch_s=LAUNCH_S)
    samples_s = timed(device, TimingMethod.NAIVE, repetitions=3000)
    assert samples_s == pytest.approx([LAUNCH_S] * 3000)


def test_a_round_of_the_naive_method_is_as_long_as_its_work() -> None:
    device = FullQueue(launch_s=LAUNCH_S)
    rounds: list[int] = []
    repeat(
        device,
        lambda: device.launch(WORK_S),
        method=TimingMethod.NAIVE,
        rule=StopRule(repetitions=100),
        expected_s=WORK_S,
        on_round=lambda progress: rounds.append(progress.repetitions),
    )
    # 0.25 s over 47.1 ms: 6 to a round
    assert rounds[:3] == [6, 12, 18]


def test_a_budget_ends_fixed_repetitions_where_both_are_given() -> None:
    device = SimulatedDevice(launch_s=0.0)
    rule = StopRule(repetitions=1000, budget_s=1.0)
    samples_s = repeat(device, lambda: device.launch(0.1), method=TimingMethod.SYNC, rule=rule, expected_s=0.1)
    # rounds of 0.25 s: 3 repetitions of 0.1 s each; 12 have taken 1.2 s, 9 had taken 0.9 s
    assert len(samples_s) == 12


def test_fixed_repetitions_alone_have_no_budget() -> None:
    device = SimulatedDevice(launch_s=0.0)
    rule = StopRule(repetitions=200)
    samples_s = repeat(device, lambda: device.launch(0.1), method=TimingMethod.SYNC, rule=rule, expected_s=0.1)
    assert len(samples_s) == 200  # 20 s, twice the budget of a run that stops by itself


def test_events_read_the_work_behind_a_full_queue(device: SimulatedDevice) -> None:
    samples_s = Rounds(device, lambda: device.launch(WORK_S), method=TimingMethod.EVENT, flush=False)(20)
    assert samples_s == pytest.approx([WORK_S] * 20)


def test_synchronising_adds_only_the_launch(device: SimulatedDevice) -> None:
    samples_s = timed(device, TimingMethod.SYNC)
    assert samples_s == pytest.approx([WORK_S + LAUNCH_S] * 20)
    assert abs(samples_s[0] - WORK_S) < 1e-3


def test_the_host_waits_once_per_round_of_events(device: SimulatedDevice) -> None:
    Rounds(device, lambda: device.launch(WORK_S), method=TimingMethod.EVENT, flush=False)(100)
    assert device.synchronisations == 1


def test_events_are_made_once_and_recorded_again() -> None:
    device = SimulatedDevice()
    rounds = Rounds(device, lambda: device.launch(1e-3), method=TimingMethod.EVENT, flush=False)
    first, second = rounds(30), rounds(30)
    assert device.events_made == 60
    assert first == pytest.approx([1e-3] * 30)
    assert second == pytest.approx([1e-3] * 30)


def test_a_host_slower_than_the_device_shows_in_the_events() -> None:
    # 5 launches of 10 µs for 5 kernels of 2 µs: the queue runs dry. Between the marks lie the end mark's own 1 µs on
    # the host and 5 launches; the last kernel ends 2 µs after its launch, which is past the end mark's record.
    device = SimulatedDevice(launch_s=10e-6, record_s=1e-6)

    def run() -> None:
        for _ in range(5):
            device.launch(2e-6)

    samples_s = Rounds(device, run, method=TimingMethod.EVENT, flush=False)(10)
    assert samples_s[-1] == pytest.approx(52e-6, rel=0.05)


@pytest.mark.parametrize("method", [TimingMethod.EVENT, TimingMethod.SYNC])
def test_flushing_is_outside_the_timed_stretch(device: SimulatedDevice, method: TimingMethod) -> None:
    plain = Rounds(device, lambda: device.launch(WORK_S), method=method, flush=False)(20)
    flushed = Rounds(device, lambda: device.launch(WORK_S), method=method, flush=True)(20)
    assert device.flushes == 20
    assert flushed == pytest.approx(plain)


def test_fixed_repetitions_are_kept_to_the_letter(device: SimulatedDevice) -> None:
    for wanted in (1, 7, 123):
        assert len(timed(device, TimingMethod.EVENT, repetitions=wanted)) == wanted


def test_steady_timings_stop_at_the_minimum() -> None:
    device = SimulatedDevice(launch_s=1e-3)
    samples_s = repeat(
        device, lambda: device.launch(10e-3), method=TimingMethod.SYNC, rule=StopRule(), expected_s=11e-3
    )
    assert 50 <= len(samples_s) < 80


def test_slow_work_stops_at_the_budget() -> None:
    device = SimulatedDevice()
    samples_s = repeat(
        device, lambda: device.launch(3.0), method=TimingMethod.EVENT, rule=StopRule(budget_s=10), expected_s=3.0
    )
    # rounds of one: after 3, 6, 9 and 12 s
    assert len(samples_s) == 4


def test_restless_timings_go_on_until_the_maximum() -> None:
    device = SimulatedDevice()
    turn = iter(range(10**6))

    def run() -> None:
        device.launch(1e-3 if next(turn) % 2 else 2e-3)

    samples_s = repeat(device, run, method=TimingMethod.SYNC, rule=StopRule(budget_s=1e9, maximum=500), expected_s=1e-3)
    assert len(samples_s) == 500


def test_warm_up_runs_until_two_windows_agree() -> None:
    device = SimulatedDevice(launch_s=0.0)
    times_s = iter([1.0, *[0.5] * 6, *[0.1] * 100])

    def run() -> None:
        device.launch(next(times_s))

    warm = warm_up(device, run, WarmUpRule(budget_s=100))
    # Seven slow runs; the windows before and after agree once all ten last runs are fast, at the 17th.
    # They agree earlier where medians of five do: runs 5..9 and 10..14 straddle the change, so not before 15.
    assert warm.stable
    assert 15 <= warm.runs <= 17
    assert warm.first_s == pytest.approx(1.0)


def test_warm_up_gives_up_at_its_budget_and_says_so() -> None:
    device = SimulatedDevice(launch_s=0.0)
    growing = iter(range(1, 10**6))

    def run() -> None:
        device.launch(0.1 * next(growing))

    warm = warm_up(device, run, WarmUpRule(budget_s=1.0))
    assert not warm.stable
    assert warm.runs == 4  # 0.1 + 0.2 + 0.3 + 0.4 s


def test_a_first_run_that_compiles_does_not_use_up_the_warm_up() -> None:
    device = SimulatedDevice(launch_s=0.0)
    times_s = iter([30.0, *[0.1] * 100])
    warm = warm_up(device, lambda: device.launch(next(times_s)), WarmUpRule(), at_most_s=5.0)
    assert warm.stable
    assert warm.runs == 11  # two windows of five behind the first run
    assert warm.first_s == pytest.approx(30.0)


def test_runs_that_each_take_longer_than_the_warm_up_may_are_two() -> None:
    device = SimulatedDevice(launch_s=0.0)
    assert warm_up(device, lambda: device.launch(20.0), WarmUpRule(), at_most_s=5.0).runs == 2


def test_warm_up_counts_against_the_budget_up_to_half_of_it() -> None:
    for spent_s, repetitions in ((0.0, 10), (3.0, 7), (9.0, 5), (1000.0, 5)):  # of 10 s, one second each
        device = SimulatedDevice(launch_s=0.0)
        samples_s = repeat(
            device,
            lambda device=device: device.launch(1.0),
            method=TimingMethod.SYNC,
            rule=StopRule(budget_s=10.0),
            expected_s=1.0,
            spent_s=spent_s,
        )
        assert len(samples_s) == repetitions


def test_warm_up_runs_that_were_asked_for_are_cut_by_a_budget_that_was_given() -> None:
    asked = WarmUpRule(runs=50)
    assert Rules(warm_up=asked).longest_warm_up_s == math.inf
    assert Rules(warm_up=asked, stop=StopRule(budget_s=4.0)).longest_warm_up_s == 2.0
    assert Rules().longest_warm_up_s == 5.0  # half of 10 s
    device = SimulatedDevice(launch_s=0.0)
    assert warm_up(device, lambda: device.launch(0.5), asked, at_most_s=2.0).runs == 4


def test_warming_up_is_shown_run_by_run() -> None:
    device, shown = SimulatedDevice(launch_s=0.0), []
    warm_up(device, lambda: device.launch(0.5), WarmUpRule(runs=3), on_run=shown.append)
    assert [(progress.repetitions, progress.median_s, progress.is_warm_up) for progress in shown] == [
        (1, 0.5, True),
        (2, 0.5, True),
        (3, 0.5, True),
    ]


def test_fixed_warm_up_runs_are_kept() -> None:
    device = SimulatedDevice()
    assert warm_up(device, lambda: device.launch(1e-3), WarmUpRule(runs=3)).runs == 3


def test_the_collector_is_off_inside_and_back_after() -> None:
    device = SimulatedDevice()
    seen: list[bool] = []
    Rounds(device, lambda: seen.append(gc.isenabled()), method=TimingMethod.SYNC, flush=False)(3)
    assert seen == [False] * 3
    assert gc.isenabled()
