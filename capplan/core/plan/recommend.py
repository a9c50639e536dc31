"""Recommend GPUs of a plan: the cheapest per sample, the fastest with a price, the smallest; lowered power limits."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import cache

import numpy as np

from capplan.core.choice import choose
from capplan.core.gpus.attributes import driver_licence, porting_note
from capplan.core.gpus.names import family_of
from capplan.core.gpus.sale import is_announced, sale_note
from capplan.core.gpus.spec import GpuSpec, Segment, Status
from capplan.core.latency.device import Unsupported
from capplan.core.latency.types import Evidence, LatencyEstimate
from capplan.core.memory.fit import usable_memory
from capplan.core.memory.types import FitStatus
from capplan.core.numbers import FloatArray, Interval
from capplan.core.plan.offer_cautions import offer_cautions
from capplan.core.plan.types import Cheaper, Criterion, Fit, Plan, Recommendation
from capplan.core.power import PROBED_CLOCKS, CardCap, PeakSeconds, PowerLaw, at_clock, clock_mix
from capplan.units import format_bytes, format_rate, format_seconds, format_watts

_WEAK_EVIDENCE = {
    Evidence.SEGMENT: "it was timed only on GPUs of related architectures",
    Evidence.TRANSFERRED: "its latency is transferred, not timed",
    Evidence.SPEC_SHEET: "its latency rests on the spec sheet alone",
}
SHORTLIST_LENGTH = 10
_TAKEABLE_SEGMENTS = (Segment.DATA_CENTRE, Segment.WORKSTATION, Segment.CONSUMER)
_AS_FAST = 0.98
"""Of GPUs that reach this share of the highest throughput the cheapest is recommended as the fastest."""


def with_recommendations(
    plan: Plan, *, on: date, named: Collection[str] = (), offers: Mapping[str, int] | None = None
) -> Plan:
    """Return a plan with its recommendations, what to know of them on a day, and the GPUs to set side by side."""
    fits = [fit for fit in plan.fits if is_takeable(fit.gpu, named)] or list(plan.fits)
    if not fits:
        return plan
    holding = _of_largest_batch(fits)
    sure = [fit for fit in holding if fit.status is FitStatus.FITS] or holding
    fit = min(sure, key=_size)
    reason = (
        f"{format_bytes(fit.gpu.memory_bytes)}, the smallest of {_gpus(holding)} that hold it; "
        f"it needs {format_bytes(fit.memory.total_bytes.expected)}"
    )
    borderline = "the fit is borderline" if fit.status is FitStatus.BORDERLINE else None
    warning = sale_note(fit.gpu) or borderline
    smallest = Recommendation(criterion=Criterion.SMALLEST, fit=fit, reason=reason, warning=warning)
    found = [_cheapest(fits, plan, named), _fastest(fits, plan), smallest]
    recommended = tuple(
        replace(choice, licence=driver_licence(choice.fit.gpu), porting=porting_note(choice.fit.gpu))
        for choice in found
        if choice is not None
    )
    chosen = [recommendation.fit.gpu.id for recommendation in recommended]
    shown = _shortlist(fits, plan, named, chosen, offers)
    cpus = (fit.gpu.id for fit in plan.fits if fit.gpu.is_cpu)  # there only where they were asked for
    plan = replace(plan, recommended=recommended, shortlist=tuple(dict.fromkeys((*shown, *cpus))))
    return replace(plan, offer_cautions=offer_cautions(plan, on=on))


def is_takeable(gpu: GpuSpec, named: Collection[str] = ()) -> bool:
    """Return True if a GPU may be recommended: one of those that a question names, else one that is sold."""
    if named:
        return gpu.id in named
    is_sold = gpu.status is not Status.END_OF_SALE and not is_announced(gpu)
    return gpu.segment in _TAKEABLE_SEGMENTS and is_sold


def _cost(fit: Fit, plan: Plan) -> float:
    """Return what counts as cost: dollars an hour of all GPUs that carry a load, else those of a million samples."""
    usd = plan.usd_per_hour(fit) if plan.limits.rate_per_s else fit.usd_per_million_samples
    return float("inf") if usd is None else usd


def _cheapest(fits: Sequence[Fit], plan: Plan, named: Collection[str]) -> Recommendation | None:
    priced = [fit for fit in fits if fit.usd_per_million_samples is not None]
    if not priced:
        return None
    fit, other = _choose(priced, lambda fit: _cost(fit, plan))
    unit = "USD per hour for the load" if plan.limits.rate_per_s else "USD per million samples"
    reason = f"{_cost(fit, plan):.3g} {unit}, the least of {_gpus(priced)} with a price"
    return Recommendation(
        criterion=Criterion.CHEAPEST,
        fit=fit,
        reason=f"{reason}{_passed_over(other)}",
        warning=_warning(fit),
        cheaper=_cheaper(fit, plan, named),
    )


def _cheaper(taken: Fit, plan: Plan, named: Collection[str]) -> tuple[Cheaper, ...]:
    """Return the GPUs that would cost less than the one taken, each once, with the reason why they are not."""
    found: dict[str, Cheaper] = {}
    for fit in sorted(plan.fits, key=lambda fit: _cost(fit, plan)):
        if _cost(fit, plan) >= _cost(taken, plan) or fit.gpu.id in {taken.gpu.id, *found}:
            continue
        is_ending = not named and fit.gpu.status is Status.END_OF_SALE
        why_not = "no longer sold" if is_ending else _warning(fit)
        if why_not is not None and (not named or fit.gpu.id in named):
            found[fit.gpu.id] = Cheaper(fit=fit, why_not=why_not)
    return tuple(found.values())


def _fastest(fits: Sequence[Fit], plan: Plan) -> Recommendation | None:
    priced = [fit for fit in fits if fit.rent is not None]
    if not priced:
        return None
    fit, other = _choose(priced, lambda fit: 1 / fit.latency.throughput_per_s.expected)
    equals = [
        equal
        for equal in priced
        if _warning(equal) == _warning(fit)
        and equal.latency.throughput_per_s.expected >= _AS_FAST * fit.latency.throughput_per_s.expected
    ]
    fit = min(equals, key=lambda fit: _cost(fit, plan))
    rate = format_rate(fit.latency.throughput_per_s.expected)
    reason = f"{rate} samples/s, the most of {_gpus(priced)} with a price"
    return Recommendation(
        criterion=Criterion.FASTEST_PRICED, fit=fit, reason=f"{reason}{_passed_over(other)}", warning=_warning(fit)
    )


def _of_largest_batch(fits: Sequence[Fit]) -> list[Fit]:
    """Return the fits at the largest batch of those asked for; all of them where each GPU has a batch of its own."""
    if _gpus(fits) == len(fits):
        return list(fits)
    largest = max(fit.batch for fit in fits)
    return [fit for fit in fits if fit.batch == largest]


def _size(fit: Fit) -> tuple[float, float, float, float, str]:
    """Order by memory, then by price, power and usable memory."""
    rent = fit.rent.usd_per_machine_hour if fit.rent else float("inf")
    return fit.gpu.memory_bytes, rent, fit.gpu.tdp_w or float("inf"), usable_memory(fit.gpu).expected, fit.gpu.id


def _choose(fits: Sequence[Fit], cost: Callable[[Fit], float]) -> tuple[Fit, Fit | None]:
    """Return the best option of good evidence, and a clearly better one of weak evidence that was passed over."""
    return choose(fits, cost=cost, is_weak=lambda fit: _warning(fit) is not None)


def _warning(fit: Fit) -> str | None:
    """Describe what makes a choice uncertain; None where nothing does."""
    if announced := sale_note(fit.gpu):
        return announced
    if fit.latency.evidence in _WEAK_EVIDENCE:
        return _WEAK_EVIDENCE[fit.latency.evidence]
    if fit.latency.evidence is Evidence.MICROBENCHMARKS and porting_note(fit.gpu):
        return "it needs porting, and no whole step was timed on its architecture"
    if fit.rent is not None and fit.rent.is_marketplace:
        return "only marketplaces rent it"
    return "the fit is borderline" if fit.status is FitStatus.BORDERLINE else None


def _passed_over(fit: Fit | None) -> str:
    return "" if fit is None else f"; {fit.gpu.id} promises more, but {_warning(fit)}"


def _gpus(fits: Sequence[Fit]) -> int:
    return len({fit.gpu.id for fit in fits})


def _shortlist(
    fits: Sequence[Fit], plan: Plan, named: Collection[str], chosen: Sequence[str], offers: Mapping[str, int] | None
) -> tuple[str, ...]:
    """Return the ids to show, the most important first: the recommended, then those named or the most offered."""
    if named:
        return tuple(dict.fromkeys((*chosen, *(fit.gpu.id for fit in plan.fits if fit.gpu.id in named))))
    shown = list(dict.fromkeys(chosen))
    for gpu_id in _most_offered(fits, offers or {}):
        if len(shown) >= SHORTLIST_LENGTH:
            break
        if family_of(gpu_id) not in {family_of(other) for other in shown}:
            shown.append(gpu_id)
    return tuple(shown)


def _most_offered(fits: Sequence[Fit], offers: Mapping[str, int]) -> list[str]:
    """Return the ids of GPUs, those of most providers first, then the newest; a price counts as one offer."""
    by_id = {fit.gpu.id: fit for fit in fits}

    def key(fit: Fit) -> tuple[int, int, str]:
        offered = max(offers.get(fit.gpu.id, 0), 1 if fit.rent else 0)
        released = fit.gpu.release_date.toordinal() if fit.gpu.release_date else 0
        return -offered, -released, fit.gpu.id

    return [fit.gpu.id for fit in sorted(by_id.values(), key=key)]


def without_gpu(plan: Plan) -> tuple[str, ...]:
    """Return a sentence on the CPUs of a plan; none where it asked for none.

    The fastest CPU that fits is compared with the recommended GPU, each at its own batch. A plan with a limit says
    whether a CPU meets it.
    """
    fitting = [fit for fit in plan.fits if fit.gpu.is_cpu]
    asked = {fit.gpu.id for fit in fitting} | {
        rejection.gpu.id for rejection in plan.rejections if rejection.gpu.is_cpu
    }
    if not asked:
        return ()
    unable = [rejection for rejection in plan.rejections if rejection.gpu.is_cpu and not rejection.needed]
    if len({rejection.gpu.id for rejection in unable}) == len(asked):
        return (f"Whether a GPU is needed is not answered: {unable[0].reason}.",)
    limits = plan.limits.limits_speed
    if not fitting:
        return (f"A GPU is needed: none of {len(asked)} CPUs {'meets the limits' if limits else 'can run this'}.",)
    certain = [fit for fit in fitting if fit.status is FitStatus.FITS]
    best = max(certain or fitting, key=lambda fit: fit.latency.throughput_per_s.expected)
    count = len({fit.gpu.id for fit in certain or fitting})
    head = ("No GPU is needed" if certain else "Perhaps no GPU is needed") if limits else "Without a GPU"
    words = f"{head}: {count} of {len(asked)} CPUs {'meet the limits' if limits else 'can run this'}, {_told(best)}"
    return (words + _against_gpu(plan, best) + ".",)


def device_word(plan: Plan) -> str:
    """Return what the devices of a plan are called: GPUs, or devices where CPUs are among them."""
    has_cpus = any(fit.gpu.is_cpu for fit in plan.fits) or any(rejection.gpu.is_cpu for rejection in plan.rejections)
    return "devices" if has_cpus else "GPUs"


def _told(fit: Fit) -> str:
    return f"the fastest {fit.gpu.id} in {format_seconds(fit.latency.latency_s.expected)} at batch {fit.batch}"


def _against_gpu(plan: Plan, cpu: Fit) -> str:
    """Return how much more the recommended GPU does, in samples per second."""
    best = next((recommendation.fit for recommendation in plan.recommended if not recommendation.fit.gpu.is_cpu), None)
    if best is None:
        return ""
    more = best.latency.throughput_per_s.expected / cpu.latency.throughput_per_s.expected
    return f"; {best.gpu.id} does {more:.3g} times as many samples a second"


Row = tuple[LatencyEstimate, ...] | Unsupported
Latencies = Callable[[Sequence[GpuSpec], Sequence[int]], tuple[Row, ...]]
Work = Callable[[GpuSpec, Sequence[int]], Sequence[PeakSeconds | None]]


def latencies_under_cap(
    latencies: Latencies, work: Work, gpus: Sequence[GpuSpec], batches: Sequence[int], law: PowerLaw | None
) -> tuple[Row, ...]:
    """Estimate the time of each batch on each GPU under the law's cap; `Unsupported` where the cap cannot be set.

    The interval joins that of the time, of the power that is drawn without the cap, and of the exponent.
    """
    rows = latencies(gpus, batches)
    if law is None or law.cap_w is None:
        return rows
    made: list[Row] = []
    for gpu, row in zip(gpus, rows, strict=True):
        if not isinstance(row, Unsupported) and (refused := law.refusal(gpu)):
            made.append(Unsupported(reason=refused, lacking="cannot be capped so"))
        elif isinstance(row, Unsupported) or not law.caps(gpu):
            made.append(row)
        else:
            made.append(_capped(row, latencies, gpu, work(gpu, batches), law))
    return tuple(made)


def _capped(
    row: tuple[LatencyEstimate, ...],
    latencies: Latencies,
    gpu: GpuSpec,
    work: Sequence[PeakSeconds | None],
    law: PowerLaw,
) -> tuple[LatencyEstimate, ...]:
    """Return the points of one GPU under a cap that lies below its own limit."""
    assert law.cap_w is not None
    batches = [point.batch for point in row]
    times_s = np.array([point.latency_s.expected for point in row])
    idle_s = np.array([point.idle_s for point in row])
    busy_s = np.maximum(times_s - idle_s, 1e-12)
    shares = [(counted or PeakSeconds()).over(time_s) for counted, time_s in zip(work, busy_s.tolist(), strict=True)]

    @cache
    def slower() -> list[tuple[LatencyEstimate, ...]]:
        rows = [latencies([at_clock(gpu, clock)], batches)[0] for clock in PROBED_CLOCKS]  # they share an id
        return [other for other in rows if not isinstance(other, Unsupported)]

    def longer() -> list[FloatArray]:
        return [(np.array([point.latency_s.expected for point in other]) - idle_s) / busy_s for other in slower()]

    found = CardCap(gpu=gpu, law=law).slowdowns(shares, longer)
    points = []
    for index, point in enumerate(row):
        share = busy_s[index] / times_s[index]
        factor = Interval(**{end.value: float(1.0 + share * (each[index] - 1.0)) for end, each in found.items()})
        clocks = (point, *(other[index] for other in slower())) if factor.high > 1.0 else ()
        points.append(_lengthened(clocks, factor, cap_w=law.cap_w) if clocks else point)
    return tuple(points)


def _lengthened(points: Sequence[LatencyEstimate], factor: Interval, *, cap_w: float) -> LatencyEstimate:
    """Return a point that takes so many times as long; what binds it is mixed from its estimates at lower clocks."""
    point, times_s = points[0], [other.latency_s.expected for other in points]
    mix = clock_mix(times_s, factor.expected)
    spent_s = {
        binding: mix.of([dict(other.share_by_binding)[binding] * other.latency_s.expected for other in points])
        for binding, _ in point.share_by_binding
    }
    mixed_s = mix.of(times_s)
    note = f"a limit of {format_watts(cap_w)} makes it {factor.expected:.2f} times as long"
    return replace(
        point,
        latency_s=point.latency_s * factor,
        interval_s=point.interval_s and point.interval_s * factor,
        bound_by=max(spent_s, key=lambda binding: spent_s[binding]),
        share_by_binding=tuple((binding, time_s / mixed_s) for binding, time_s in spent_s.items()),
        waits_s=mix.of([other.waits_s for other in points]),
        slowdown=factor.expected,
        notes=(note, *point.notes),
    )
