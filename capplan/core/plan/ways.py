"""The GPUs of a plan as replicas that may serve the load of a week: batches that are taken greedily, simulated."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from capplan.core.gpus.prices import Price
from capplan.core.numbers import Interval
from capplan.core.plan.types import Fit, Plan
from capplan.core.scaling.charge import Charge
from capplan.core.scaling.replica_curve import ReplicaCurve
from capplan.core.scaling.ways import ReplicaOnGpu
from capplan.core.serving.simulation import Randomness, Station, capacity_per_s, simulate

_FRACTIONS = (0.05, 0.2, 0.5, 0.7, 0.85, 0.95)
_TABLE = 256


def replicas_of(
    plan: Plan, offers: Mapping[str, tuple[Price, ...]], start_of: Callable[[Fit], Interval]
) -> tuple[ReplicaOnGpu, ...]:
    """Return the replicas of a plan's GPUs, the recommended one first."""
    best = plan.best()
    others = [fit for fit in plan.fits if fit is not best]
    return tuple(_replica(plan, fit, offers.get(fit.gpu.id, ()), start_of(fit)) for fit in (best, *others) if fit)


def _replica(plan: Plan, fit: Fit, offers: tuple[Price, ...], start_s: Interval) -> ReplicaOnGpu:
    together, time_s = fit.gpus_together, fit.latency.latency_s
    held = [_charge(offer, together) for offer in offers if offer.instance_gpus >= together]
    standing = Charge(usd_per_machine_hour=0.0) if fit.rent is None else _charge(fit.rent, together)
    return ReplicaOnGpu(
        gpu=fit.gpu.id,
        gpus=together,
        most_per_s=fit.latency.throughput_per_s.expected,
        curve_of=partial(replica_curve, plan, fit),
        start_s=start_s,
        rent=fit.rent,
        charge=min(held, key=lambda charge: charge.usd_per_machine_hour, default=standing),
        standing_charge=standing,
        slowness=time_s * (1.0 / time_s.expected),
    )


def _charge(offer: Price, together: int) -> Charge:
    return Charge(
        usd_per_machine_hour=offer.usd_per_machine_hour,
        replicas_per_machine=offer.instance_gpus // together,
        minimum_s=offer.minimum_s or 0.0,
    )


def replica_curve(plan: Plan, fit: Fit) -> ReplicaCurve:
    """Follow one replica from idle to full: it takes what waits, up to the batch of the plan, and never holds back.

    A batch lasts as long as the plan says of its size; one below the smallest that was planned lasts as long as that.
    """
    known = sorted((one.batch, one.latency.latency_s.expected) for one in plan.fits if one.gpu.id == fit.gpu.id)
    times = np.interp(np.arange(1, fit.batch + 1), [batch for batch, _ in known], [time for _, time in known])
    full, limit_s = capacity_per_s(times), plan.limits.max_latency_s
    stations = [Station(rate_per_s=share * full, batch_times_s=times) for share in _FRACTIONS]
    seen = [one.responses_s for one in simulate(stations, randomness=Randomness(arrivals=6_000))]
    places, shares = np.linspace(0.0, 1.0, _TABLE), (0.0, *_FRACTIONS)
    mean_s = np.interp(places, shares, [float(times[0]), *(float(responses.mean()) for responses in seen)])
    within = [1.0 if limit_s is None else float((responses <= limit_s).mean()) for responses in seen]
    kept = np.interp(places, (*shares, 1.0), [within[0], *np.minimum.accumulate(within), 0.0])
    return ReplicaCurve(
        full_per_s=full,
        in_flight=places * full * mean_s,
        ttft_s=mean_s,
        e2e_s=mean_s,
        inside_fraction=kept,
        slack_s=np.full(_TABLE, np.inf) if limit_s is None else limit_s - mean_s,
        ttft_limit_s=limit_s,
    )
