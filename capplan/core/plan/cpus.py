"""Answer whether a GPU is needed at all: the CPUs of a plan beside the GPU that it recommends."""

from capplan.core.memory.types import FitStatus
from capplan.core.plan.types import Fit, Plan
from capplan.units import format_seconds


def without_gpu(plan: Plan) -> tuple[str, ...]:
    """Return a sentence on the CPUs of a plan; none where it asked for none.

    The fastest CPU that fits is compared with the recommended GPU, each at its own batch. A plan with a limit says
    whether a CPU meets it.
    """
    fitting = [fit for fit in plan.fits if fit.gpu.is_cpu]
    asked = {fit.gpu.id for fit in fitting} | {each.gpu.id for each in plan.rejections if each.gpu.is_cpu}
    if not asked:
        return ()
    unable = [each for each in plan.rejections if each.gpu.is_cpu and not each.needed]
    if len({each.gpu.id for each in unable}) == len(asked):
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
    has_cpus = any(fit.gpu.is_cpu for fit in plan.fits) or any(each.gpu.is_cpu for each in plan.rejections)
    return "devices" if has_cpus else "GPUs"


def _told(fit: Fit) -> str:
    return f"the fastest {fit.gpu.id} in {format_seconds(fit.latency.latency_s.expected)} at batch {fit.batch}"


def _against_gpu(plan: Plan, cpu: Fit) -> str:
    """Return how much more the recommended GPU does, in samples per second."""
    best = next((each.fit for each in plan.recommended if not each.fit.gpu.is_cpu), None)
    if best is None:
        return ""
    more = best.latency.throughput_per_s.expected / cpu.latency.throughput_per_s.expected
    return f"; {best.gpu.id} does {more:.3g} times as many samples a second"
