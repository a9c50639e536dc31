"""Autoscalers step by step, against series that were worked out by hand from their documentation."""

import pytest

from capplan.core.scaling.policy import Damping, RateLimit, ReplicaBounds, ScalerReading, ScalingPolicy, Signal
from capplan.core.scaling.scaler import Scaler

HPA = ScalingPolicy(
    interval_s=15.0,
    up=Damping(
        tolerance_fraction=0.1, limits=(RateLimit(period_s=15.0, fraction=1.0), RateLimit(period_s=15.0, replicas=4))
    ),
    down=Damping(tolerance_fraction=0.1, window_s=300.0, limits=(RateLimit(period_s=15.0, fraction=1.0),)),
)
"""The defaults of kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale, read 2026-11-27."""
KEDA = ScalingPolicy(interval_s=15.0, up=HPA.up, down=HPA.down, idle_s=300.0, wake_s=30.0)
"""keda.sh/docs/latest/reference/scaledobject-spec, read 2026-11-27: cooldownPeriod 300 s, pollingInterval 30 s."""


def _run(scaler: Scaler, signals: list[tuple[float, float]], *, start: int) -> list[int]:
    """Return the replicas after each look; all of them are ready at once."""
    replicas, found = start, []
    for at, signal in signals:
        replicas = scaler.look(at, ScalerReading(signal=signal, replicas=replicas, ready=replicas, has_work=signal > 0))
        found.append(replicas)
    return found


def test_the_horizontal_pod_autoscaler_follows_ten_steps_by_hand() -> None:
    # desired = ceil(current × value ÷ target), nothing within ± 10 %; up by the larger of 100 % and 4 pods in 15 s;
    # down by the highest of the last 300 s. Ten requests in flight for each replica.
    steps = [
        (0, 20, 2),  # 20 ÷ 10 = 2: as it is
        (15, 21, 2),  # ratio 1.05: within the tolerance
        (30, 45, 5),  # 4.5 → 5; the limit is max(2 × 2, 2 + 4) = 6
        (45, 200, 10),  # 20 wanted; max(5 × 2, 5 + 4) = 10
        (60, 200, 20),  # 20 wanted; max(20, 14) = 20
        (75, 60, 20),  # 6 wanted; 20 was wanted within 300 s
        (90, 215, 20),  # ratio 1.075: within the tolerance, 20 is wanted
        (105, 60, 20),  # 6 wanted; 20 stays
        (390, 60, 20),  # 20 was wanted at 90 s, and 300 s are not over
        (405, 60, 6),  # within 300 s only 6 was wanted; all may go in 15 s
    ]
    scaler = Scaler(HPA, ReplicaBounds(minimum=1, maximum=30), signal=Signal.IN_FLIGHT, target=10.0)
    assert len(steps) == 10
    assert _run(scaler, [(at, signal) for at, signal, _ in steps], start=2) == [asked for *_, asked in steps]


def test_keda_follows_ten_steps_by_hand() -> None:
    # From 0 to 1 when the trigger is active, then the autoscaler of Kubernetes between 1 and the most, and to 0 after
    # 300 s without activity. Five messages for each replica.
    steps = [
        (0, 0, 0),  # inactive
        (30, 12, 1),  # active: 0 → 1, whatever is wanted
        (45, 12, 3),  # 12 ÷ 5 → 3; the limit is max(2, 5)
        (60, 15, 3),  # 15 ÷ 5 = 3
        (75, 4, 3),  # 1 wanted; 3 was wanted within 300 s
        (90, 0, 3),  # 0 wanted, at least 1; 3 stays
        (360, 0, 3),  # 3 was wanted at 60 s: 300 s ago, still within; idle for 285 s
        (374, 0, 1),  # 3 is out of the window; idle since 75 s for 299 s: 1 stays
        (375, 0, 0),  # idle for 300 s
        (400, 3, 1),  # active again
    ]
    scaler = Scaler(KEDA, ReplicaBounds(minimum=0, maximum=100), signal=Signal.QUEUE, target=5.0)
    assert len(steps) == 10
    assert _run(scaler, [(at, signal) for at, signal, _ in steps], start=0) == [asked for *_, asked in steps]


def test_a_hold_waits_until_a_change_was_wanted_without_a_break() -> None:
    # Ray Serve: upscale_delay_s 30, downscale_delay_s 600, docs.ray.io, read 2026-11-27
    policy = ScalingPolicy(interval_s=10.0, up=Damping(hold_s=30.0), down=Damping(hold_s=600.0))
    scaler = Scaler(policy, ReplicaBounds(minimum=1, maximum=10), signal=Signal.IN_FLIGHT, target=2.0)
    assert _run(scaler, [(0, 8), (10, 8), (20, 2), (30, 8), (40, 8), (50, 8), (60, 8)], start=1) == [1] * 6 + [4]


def test_a_cooldown_lets_one_change_follow_another_only_after_it() -> None:
    policy = ScalingPolicy(interval_s=60.0, up=Damping(cooldown_s=300.0), down=Damping(cooldown_s=300.0))
    scaler = Scaler(policy, ReplicaBounds(minimum=1, maximum=10), signal=Signal.IN_FLIGHT, target=1.0)
    assert _run(scaler, [(0, 2), (60, 3), (240, 3), (300, 3)], start=1) == [2, 2, 2, 3]


def test_panic_meets_a_burst_at_once_and_removes_nothing() -> None:
    # Knative: stable window 60 s, panic window 6 s, threshold 200 %, knative.dev/docs, read 2026-11-27
    policy = ScalingPolicy(interval_s=2.0, up=Damping(), down=Damping(), average_s=60.0, panic_s=6.0)
    scaler = Scaler(policy, ReplicaBounds(minimum=0, maximum=99), signal=Signal.IN_FLIGHT, target=10.0)
    calm = [(float(at), 10.0) for at in range(0, 60, 2)]
    # 6 s with 100 in flight: 100 ÷ 10 = 10 replicas, while the mean of a minute has 19
    found = _run(scaler, [*calm, (60, 100), (62, 100), (64, 100), (66, 1), (70, 1)], start=1)
    assert found[29] == 1
    assert found[32] == 10
    assert found[-1] == 10


@pytest.mark.parametrize("signal", [0.0, 7.0, 25.0, 140.0])
def test_replicas_stay_within_their_bounds(signal: float) -> None:
    scaler = Scaler(HPA, ReplicaBounds(minimum=2, maximum=5), signal=Signal.IN_FLIGHT, target=10.0)
    found = _run(scaler, [(15.0 * step, signal) for step in range(40)], start=2)
    assert all(2 <= replicas <= 5 for replicas in found)


def test_the_time_to_first_token_is_not_shared_out() -> None:
    # 3 replicas at 2 s with a target of 1 s: 6
    scaler = Scaler(HPA, ReplicaBounds(minimum=1, maximum=50), signal=Signal.TTFT, target=1.0)
    assert _run(scaler, [(0.0, 2.0)], start=3) == [6]
